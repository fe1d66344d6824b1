// SPDX-License-Identifier: BSD-2-Clause
#include "replay/pipeline.h"

#include "decode/decode.h"

#include <errno.h>

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

/* Records that decode does not understand are counted, and skipped by their size. 0 or -errno. */
static int give_records(struct pipeline *pipeline, const char *data, size_t size)
{
	while (size) {
		struct event event;
		size_t skip = 0;
		ssize_t used = decode_event(data, size, &event, &skip);
		int err = 0;

		if (used >= 0)
			err = pipeline->time_slice ? time_slice__event(pipeline->time_slice, &event)
						   : deliver(pipeline, &event);
		else
			count_lost(pipeline, PERFX_LOSS_UNDECODED, 1);
		if (err)
			return err;
		if (used < 0 && used != -ENOTSUP) /* no size: nothing after it can be trusted */
			return 0;
		used = used < 0 ? (ssize_t)skip : used;
		data += used;
		size -= (size_t)used;
	}
	return 0;
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
