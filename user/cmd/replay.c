// SPDX-License-Identifier: BSD-2-Clause
/* A capture, or a time slice of it, through a pipeline; and what is said when it cannot be read. */
#include "base/message.h"
#include "base/units.h"
#include "capture/capture.h"
#include "cmd/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

const char *replay_error(int err)
{
	switch (-err) {
	case ENOEXEC:
		return "not a capture of perfx-trace record";
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

/* Start and end of a capture, for bounds that count from its end: what the report calls its end, or
 * of a capture that was cut off, the last call or counters. */
struct extent {
	uint64_t start_ns, end_ns;
	bool ended; /* with an END record; the last counters may be younger */
};

static int note_extent(void *ctx, const struct event *event)
{
	struct extent *extent = ctx;
	uint64_t time_ns = 0;

	if (event->kind == PERFX_KIND_HOST)
		extent->start_ns = event->host.start_ns;
	else if (event->kind == PERFX_KIND_SPAN)
		time_ns = event->span.start_ns + event->span.duration_ns;
	else if (event->kind == PERFX_KIND_USAGE)
		time_ns = event->usage.time_ns;
	if (event->kind == PERFX_KIND_END)
		extent->end_ns = event->end.time_ns;
	else if (time_ns > extent->end_ns && !extent->ended)
		extent->end_ns = time_ns;
	extent->ended = extent->ended || event->kind == PERFX_KIND_END;
	return 0;
}

int replay_file(const char *path, struct pipeline *pipeline, bool damage_too)
{
	struct capture_reader *reader = capture_reader__open(path);
	int err;

	if (!reader)
		return -errno;
	err = pipeline_replay(pipeline, reader);
	if (!err && damage_too)
		say_damage(path, capture_reader__damage(reader));
	capture_reader__free(reader);
	return err;
}

static int duration_of(const char *path, uint64_t *duration_ns)
{
	struct extent extent = {0};
	struct pipeline pipeline = {.on_event = note_extent, .ctx = &extent};
	int err = replay_file(path, &pipeline, false);

	*duration_ns = extent.end_ns > extent.start_ns ? extent.end_ns - extent.start_ns : 0;
	return err;
}

int replay_capture(const struct options *options, struct pipeline *pipeline, bool say_damage)
{
	const struct time_slice_choice *choice = &options->time_slice;
	uint64_t duration_ns = 0;
	int err = 0;

	if (!time_slice_chosen(choice))
		return replay_file(options->capture, pipeline, say_damage);
	if (choice->since.from_end || choice->until.from_end)
		err = duration_of(options->capture, &duration_ns);
	if (err)
		return err;
	pipeline->time_slice = time_slice__new(choice, duration_ns);
	err = pipeline->time_slice ? replay_file(options->capture, pipeline, say_damage) : -errno;
	time_slice__free(pipeline->time_slice);
	pipeline->time_slice = NULL;
	return err;
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
