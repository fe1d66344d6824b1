// SPDX-License-Identifier: BSD-2-Clause
#include "replay/replay.h"

#include "base/grow.h"

#include <errno.h>
#include <stdlib.h>

/* Start and end of a capture: what the report calls its end, or of a capture that was cut off, the
 * last call or counters. */
struct extent {
	uint64_t start_ns, end_ns;
	bool ended;	    /* with an END record; the last counters may be younger */
	uint64_t *segments; /* when they ended, ns */
	size_t segments_count, segments_capacity;
};

static int note_segment(struct extent *extent, uint64_t time_ns)
{
	if (GROW_BY_ONE(extent->segments))
		return -ENOMEM;
	extent->segments[extent->segments_count++] = time_ns;
	return 0;
}

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
	return event->kind == PERFX_KIND_SEGMENT ? note_segment(extent, event->segment.time_ns) : 0;
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

static int find_extent(const char *path, struct extent *extent)
{
	struct pipeline pipeline = {.on_event = note_extent, .ctx = extent};

	return replay_file(path, &pipeline, NULL);
}

static uint64_t bound_ns(const struct extent *extent, const struct time_slice_bound *bound)
{
	uint64_t whole_ns =
		extent->end_ns > extent->start_ns ? extent->end_ns - extent->start_ns : 0;

	if (!bound->from_end)
		return extent->start_ns + bound->ns;
	return extent->start_ns + (bound->ns < whole_ns ? whole_ns - bound->ns : 0);
}

/*
 * Both bounds are moved outwards to ends of segments: waits, hits and losses are known by segment,
 * so only of whole segments do all figures cover the same time. The last segment ends with the
 * capture. Segments of merged captures overlap: there the slice cuts those of other machines.
 */
static struct time_slice *slice_of_segments(const struct extent *extent,
					    const struct time_slice_choice *choice)
{
	uint64_t since_ns = bound_ns(extent, &choice->since), from_ns = extent->start_ns;
	uint64_t until_ns = bound_ns(extent, &choice->until), to_ns = UINT64_MAX;

	if (since_ns > extent->end_ns || (choice->until.given && until_ns <= since_ns)) {
		errno = ERANGE;
		return NULL;
	}
	for (size_t i = 0; i < extent->segments_count; i++) {
		uint64_t end_ns = extent->segments[i];

		if (end_ns <= since_ns && end_ns > from_ns)
			from_ns = end_ns;
		if (choice->until.given && end_ns >= until_ns && end_ns < to_ns)
			to_ns = end_ns;
	}
	return time_slice__new(from_ns - extent->start_ns,
			       to_ns < extent->end_ns ? to_ns - extent->start_ns : UINT64_MAX);
}

int capture_source_replay(const struct capture_source *source, struct pipeline *pipeline,
			  struct capture_damage *damage)
{
	struct extent extent = {0};
	int err;

	if (!time_slice_chosen(&source->time_slice))
		return replay_file(source->path, pipeline, damage);
	err = find_extent(source->path, &extent);
	if (!err) {
		pipeline->time_slice = slice_of_segments(&extent, &source->time_slice);
		err = pipeline->time_slice ? 0 : -errno;
	}
	if (!err)
		err = replay_file(source->path, pipeline, damage);
	time_slice__free(pipeline->time_slice);
	pipeline->time_slice = NULL;
	free(extent.segments);
	return err;
}
