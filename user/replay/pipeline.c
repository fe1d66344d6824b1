// SPDX-License-Identifier: BSD-2-Clause
#include "replay/replay.h"

#include "base/grow.h"
#include "decode/decode.h"

#include <errno.h>
#include <stdlib.h>

static void note_error(struct pipeline *pipeline, int err)
{
	if (err < 0 && !pipeline->err)
		pipeline->err = err;
}

void pipeline_flush(struct pipeline *pipeline)
{
	if (pipeline->capture)
		note_error(pipeline, capture_writer__flush(pipeline->capture));
}

bool pipeline_full(struct pipeline *pipeline)
{
	if (pipeline->capture && pipeline->capture_max)
		pipeline->full = capture_writer__bytes(pipeline->capture) >= pipeline->capture_max;
	return pipeline->full;
}

static int deliver(void *ctx, const struct event *event)
{
	struct pipeline *pipeline = ctx;
	int err = pipeline->on_event ? pipeline->on_event(pipeline->ctx, event) : 0;

	if (!err && pipeline->aggregate)
		err = aggregate__add(pipeline->aggregate, event);
	return err;
}

/* 0 or -errno. */
static int give_records(struct pipeline *pipeline, const char *data, size_t size)
{
	int err = 0;

	for (size_t used; size && !err; data += used, size -= used) {
		struct event event;

		used = decode_next(data, size, &event);
		err = pipeline->time_slice ? time_slice__event(pipeline->time_slice, &event)
					   : deliver(pipeline, &event);
	}
	return err;
}

static void add_record(struct sink *sink, const void *record, size_t size)
{
	struct pipeline *pipeline = (struct pipeline *)sink; /* its first member */

	if (pipeline->capture)
		note_error(pipeline, capture_writer__add(pipeline->capture, record, size));
	if (pipeline->aggregate || pipeline->on_event)
		note_error(pipeline, give_records(pipeline, record, size));
}

void pipeline_init(struct pipeline *pipeline)
{
	pipeline->sink.record = add_record;
}

int pipeline_replay(struct pipeline *pipeline, struct capture_reader *reader)
{
	const struct capture_damage *damage;
	const void *records;
	size_t size;
	int found, err = 0;

	if (pipeline->time_slice)
		time_slice__to(pipeline->time_slice, deliver, pipeline);
	while (!err && (found = capture_reader__next(reader, &records, &size)))
		err = found < 0 ? found : give_records(pipeline, records, size);
	if (!err && pipeline->time_slice)
		err = time_slice__finish(pipeline->time_slice);
	damage = capture_reader__damage(reader);
	if (pipeline->aggregate) {
		aggregate__lose(pipeline->aggregate, PERFX_LOSS_TRUNCATED_BYTES, damage->bytes);
		aggregate__lose(pipeline->aggregate, PERFX_LOSS_UNDECODED, damage->strange_blocks);
	}
	return err;
}

/* Start and end of a capture. One that was cut off ends with its last call or counters. */
struct extent {
	uint64_t start_ns, end_ns;
	bool ended;	    /* with an END record; the last counters may be younger */
	uint64_t *segments; /* when they ended, ns */
	size_t segments_count, segments_capacity;
};

static int note_extent(void *ctx, const struct event *event)
{
	struct extent *extent = ctx;
	uint64_t time_ns = 0;

	if (event->kind == PERFX_KIND_SEGMENT)
		return LIST_ADD(extent->segments, event->segment.time_ns);
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
	extent->ended |= event->kind == PERFX_KIND_END;
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
	struct pipeline first = {.on_event = note_extent, .ctx = &extent};
	int err;

	if (!time_slice_chosen(&source->time_slice))
		return replay_file(source->path, pipeline, damage);
	err = replay_file(source->path, &first, NULL);
	if (!err) {
		pipeline->time_slice = slice_of_segments(&extent, &source->time_slice);
		err = pipeline->time_slice ? replay_file(source->path, pipeline, damage) : -errno;
	}
	time_slice__free(pipeline->time_slice);
	pipeline->time_slice = NULL;
	free(extent.segments);
	return err;
}
