// SPDX-License-Identifier: BSD-2-Clause
#include "replay/replay.h"

#include <errno.h>

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

static int replay_file(const char *path, struct pipeline *pipeline, struct capture_damage *damage)
{
	struct capture_reader *reader = capture_reader__open(path);
	int err;

	if (!reader)
		return -errno;
	err = pipeline_replay(pipeline, reader);
	if (damage)
		*damage = *capture_reader__damage(reader);
	capture_reader__free(reader);
	return err;
}

static int duration_of(const char *path, uint64_t *duration_ns)
{
	struct extent extent = {0};
	struct pipeline pipeline = {.on_event = note_extent, .ctx = &extent};
	int err = replay_file(path, &pipeline, NULL);

	*duration_ns = extent.end_ns > extent.start_ns ? extent.end_ns - extent.start_ns : 0;
	return err;
}

int capture_source_replay(const struct capture_source *source, struct pipeline *pipeline,
			  struct capture_damage *damage)
{
	const struct time_slice_choice *choice = &source->time_slice;
	uint64_t duration_ns = 0;
	int err = 0;

	if (!time_slice_chosen(choice))
		return replay_file(source->path, pipeline, damage);
	if (choice->since.from_end || choice->until.from_end)
		err = duration_of(source->path, &duration_ns);
	if (err)
		return err;
	pipeline->time_slice = time_slice__new(choice, duration_ns);
	err = pipeline->time_slice ? replay_file(source->path, pipeline, damage) : -errno;
	time_slice__free(pipeline->time_slice);
	pipeline->time_slice = NULL;
	return err;
}
