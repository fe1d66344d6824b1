// SPDX-License-Identifier: BSD-2-Clause
#include "replay/sink.h"

#include "decode/decode.h"

#include <errno.h>

static void note_error(struct sink *sink, int err)
{
	if (err < 0 && !sink->err)
		sink->err = err;
}

void sink_flush(struct sink *sink)
{
	if (sink->capture)
		note_error(sink, capture_writer__flush(sink->capture));
}

bool sink_full(struct sink *sink)
{
	if (sink->capture && sink->capture_max)
		sink->full = capture_writer__bytes(sink->capture) >= sink->capture_max;
	return sink->full;
}

static int deliver(void *ctx, const struct event *event)
{
	struct sink *sink = ctx;
	int err = sink->on_event ? sink->on_event(sink->ctx, event) : 0;

	if (!err && sink->aggregate)
		err = aggregate__add(sink->aggregate, event);
	return err;
}

static int give(struct sink *sink, const struct event *event)
{
	return sink->part ? part__event(sink->part, event) : deliver(sink, event);
}

static void lose(struct sink *sink, enum perfx_loss_kind loss, uint64_t count)
{
	if (sink->aggregate)
		aggregate__lose(sink->aggregate, loss, count);
}

/* What decode does not understand is counted, and skipped by its size. 0 or -errno. */
static int give_records(struct sink *sink, const char *data, size_t size)
{
	while (size) {
		struct event event;
		size_t skip = 0;
		ssize_t used = decode_event(data, size, &event, &skip);
		int err = 0;

		if (used >= 0)
			err = give(sink, &event);
		else
			lose(sink, PERFX_LOSS_UNDECODED, 1);
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

void sink_record(struct sink *sink, const void *record, size_t size)
{
	if (sink->capture)
		note_error(sink, capture_writer__add(sink->capture, record, size));
	if (sink->apart)
		text_add_bytes(sink->apart, record, size);
	if (sink->aggregate || sink->on_event)
		note_error(sink, give_records(sink, record, size));
}

int sink_replay(struct sink *sink, struct capture_reader *reader)
{
	const struct capture_damage *damage;
	const void *records;
	size_t size;
	int found, err = 0;

	if (sink->part)
		part__to(sink->part, deliver, sink);
	while (!err && (found = capture_reader__next(reader, &records, &size)))
		err = found < 0 ? found : give_records(sink, records, size);
	if (!err && sink->part)
		err = part__finish(sink->part);
	damage = capture_reader__damage(reader);
	lose(sink, PERFX_LOSS_TRUNCATED_BYTES, damage->bytes);
	lose(sink, PERFX_LOSS_UNDECODED, damage->strange_blocks);
	return err;
}
