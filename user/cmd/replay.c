// SPDX-License-Identifier: BSD-2-Clause
/* Replays a capture, or a time slice of it, through a pipeline, and reports why one cannot be read.
 */
#include "replay/replay.h"
#include "base/message.h"
#include "base/text.h"
#include "base/units.h"
#include "cmd/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* "a gzip archive": a file that is no capture, by its first bytes. */
static const char *kind_of_file(const char *path)
{
	static const struct {
		const char *bytes, *kind;
	} begins[] = {
		{"\x1f\x8b", "a gzip archive: unpack it first"},
		{"\x28\xb5\x2f\xfd", "a zstd archive: unpack it first"},
		{"PK\x03\x04", "a zip archive: unpack it first"},
		{"\x7f"
		 "ELF",
		 "a program or library"},
		{"<", "an HTML or XML file"},
		{"{", "a JSON file"},
	};
	char bytes[512];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t count = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes) - 1);

	if (fd >= 0)
		close(fd);
	if (count < 0)
		return "unreadable";
	if (!count)
		return "an empty file";
	bytes[count] = '\0';
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (begins_with(bytes, begins[i].bytes))
			return begins[i].kind;
	for (ssize_t i = 0; i < count; i++)
		if ((unsigned char)bytes[i] < ' ' && !strchr("\t\r\n", bytes[i] ?: 1))
			return "a file of another kind";
	return "a text file";
}

void replay_say_unreadable(const char *path, int err, const char *needed)
{
	switch (-err) {
	case ENOEXEC:
		msg_say("%s: %s; needed: %s", path, kind_of_file(path), needed);
		break;
	case EISDIR:
		msg_say("%s: a directory; needed: %s", path, needed);
		break;
	case ESPIPE:
		msg_say("%s: a capture must be a regular file: save it in one first", path);
		break;
	case EPROTO:
		msg_say("%s: a capture of another version of perfx-trace: read it with that "
			"version",
			path);
		break;
	case ENOMEM:
		msg_say("out of memory");
		break;
	default:
		msg_say("%s: %s", path, strerror(-err));
	}
}

static int replay(const struct capture_source *source, struct pipeline *pipeline, bool damage_too)
{
	struct capture_damage damage = {0};
	int err = capture_source_replay(source, pipeline, &damage);

	if (!err && damage_too) {
		char size[UNITS_MAX];

		format_bytes(size, damage.bytes);
		if (damage.bytes)
			msg_say("%s: %s in %" PRIu64 " %s damaged or cut off, and missing here",
				source->path, size, damage.places,
				damage.places == 1 ? "place is" : "places are");
		if (damage.strange_blocks)
			msg_say("%s: %" PRIu64
				" blocks of kinds unknown to this version were skipped",
				source->path, damage.strange_blocks);
	}
	return err;
}

int replay_file(const char *path, struct pipeline *pipeline, bool damage_too)
{
	return replay(&(struct capture_source){.path = path}, pipeline, damage_too);
}

struct capture_source source_of(const struct options *options)
{
	return (struct capture_source){.path = options->capture, .time_slice = options->time_slice};
}

int replay_capture(const struct options *options, struct pipeline *pipeline, bool damage_too)
{
	const struct capture_source source = source_of(options);

	return replay(&source, pipeline, damage_too);
}

int replay_say_error(const struct options *options, int err)
{
	if (err == -ERANGE) {
		msg_say("%s: nothing between --since and --until: the capture is shorter, or the "
			"two are swapped",
			options->capture);
		return EXIT_USAGE;
	}
	replay_say_unreadable(options->capture, err, CAPTURE_NEEDED);
	return EXIT_FAILED;
}
