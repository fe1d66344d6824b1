// SPDX-License-Identifier: BSD-2-Clause
/* A capture, or a time slice of it, through a pipeline; and what is said when it cannot be read. */
#include "replay/replay.h"
#include "base/message.h"
#include "base/units.h"
#include "cmd/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

const char *replay_error(int err)
{
	switch (-err) {
	case ENOEXEC:
		return "not a capture of perfx-trace record";
	case ESPIPE:
		return "a capture must be a regular file: save it in one first";
	case EPROTO:
		return "a capture of another version of perfx-trace";
	case ENOMEM:
		return "out of memory";
	default:
		return strerror(-err);
	}
}

static void say_damage(const char *path, const struct capture_damage *damage)
{
	char size[UNITS_MAX];

	format_bytes(size, damage->bytes);
	if (damage->bytes)
		msg_say("%s: %s in %" PRIu64 " %s damaged or cut off, and missing here", path, size,
			damage->places, damage->places == 1 ? "place is" : "places are");
	if (damage->strange_blocks)
		msg_say("%s: %" PRIu64 " blocks of kinds unknown to this version were skipped",
			path, damage->strange_blocks);
}

static int replay(const struct capture_source *source, struct pipeline *pipeline, bool damage_too)
{
	struct capture_damage damage = {0};
	int err = capture_source_replay(source, pipeline, &damage);

	if (!err && damage_too)
		say_damage(source->path, &damage);
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
	msg_say("%s: %s", options->capture, replay_error(err));
	return EXIT_FAILED;
}
