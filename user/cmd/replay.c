// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/replay.h"

#include "base/message.h"
#include "capture/capture.h"
#include "cmd/cmd.h"

#include <errno.h>

/* Where a capture begins and ends, for bounds before its end. */
struct extent {
	uint64_t start_ns, end_ns;
};

static int note_extent(void *ctx, const struct event *event)
{
	struct extent *extent = ctx;
	uint64_t time_ns = 0;

	if (event->kind == PERFX_KIND_HOST)
		extent->start_ns = event->host.start_ns;
	else if (event->kind == PERFX_KIND_END)
		time_ns = event->end.time_ns;
	else if (event->kind == PERFX_KIND_SPAN)
		time_ns = event->span.start_ns + event->span.duration_ns;
	else if (event->kind == PERFX_KIND_USAGE)
		time_ns = event->usage.time_ns;
	if (time_ns > extent->end_ns)
		extent->end_ns = time_ns;
	return 0;
}

static int read_capture(const char *path, struct pipeline *pipeline, bool say_damage)
{
	struct capture_reader *reader = capture_reader__open(path);
	int err;

	if (!reader)
		return -errno;
	err = pipeline_replay(pipeline, reader);
	if (!err && say_damage)
		capture_say_damage(path, capture_reader__damage(reader));
	capture_reader__free(reader);
	return err;
}

static int duration_of(const char *path, uint64_t *duration_ns)
{
	struct extent extent = {0};
	struct pipeline pipeline = {.on_event = note_extent, .ctx = &extent};
	int err = read_capture(path, &pipeline, false);

	*duration_ns = extent.end_ns > extent.start_ns ? extent.end_ns - extent.start_ns : 0;
	return err;
}

int replay_capture(const struct options *options, struct pipeline *pipeline, bool say_damage)
{
	const struct part_choice *choice = &options->part;
	uint64_t duration_ns = 0;
	int err = 0;

	if (!part_chosen(choice))
		return read_capture(options->capture, pipeline, say_damage);
	if (choice->since.from_end || choice->until.from_end)
		err = duration_of(options->capture, &duration_ns);
	if (err)
		return err;
	pipeline->part = part__new(choice, duration_ns);
	err = pipeline->part ? read_capture(options->capture, pipeline, say_damage) : -errno;
	part__free(pipeline->part);
	pipeline->part = NULL;
	return err;
}

int replay_say_error(const struct options *options, int err)
{
	if (err == -ERANGE) {
		msg_say("%s: nothing between --since and --until: the capture ends before, or they "
			"are the wrong way round",
			options->capture);
		return EXIT_USAGE;
	}
	msg_say("%s: %s", options->capture, capture_open_error(-err));
	return EXIT_FAILED;
}
