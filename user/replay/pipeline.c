// SPDX-License-Identifier: BSD-2-Clause
#include "replay/replay.h"

#include "decode/decode.h"

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

static void count_lost(struct pipeline *pipeline, enum perfx_loss_kind loss, uint64_t count)
{
	if (pipeline->aggregate)
		aggregate__lose(pipeline->aggregate, loss, count);
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
	count_lost(pipeline, PERFX_LOSS_TRUNCATED_BYTES, damage->bytes);
	count_lost(pipeline, PERFX_LOSS_UNDECODED, damage->strange_blocks);
	return err;
}
