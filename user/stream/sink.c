// SPDX-License-Identifier: BSD-2-Clause
#include "stream/sink.h"

#include "decode/decode.h"

#include <errno.h>

static void note_error(struct sink *sink, int err)
{
	if (err < 0 && !sink->err)
		sink->err = err;
}

static int give(struct sink *sink, const struct event *event)
{
	int err = sink->on_event ? sink->on_event(sink->ctx, event) : 0;

	if (!err && sink->aggregate)
		err = aggregate__add(sink->aggregate, event);
	return err;
}

static void lose(struct sink *sink, enum perfx_loss_kind loss, uint64_t count)
{
	if (sink->aggregate)
		aggregate__lose(sink->aggregate, loss, count);
}

void sink_record(struct sink *sink, const void *record, size_t size)
{
	struct event event;
	size_t skip;

	if (sink->capture)
		note_error(sink, capture_writer__add(sink->capture, record, size));
	if (!sink->aggregate)
		return;
	if (decode_event(record, size, &event, &skip) < 0)
		aggregate__lose(sink->aggregate, PERFX_LOSS_UNDECODED, 1);
	else
		note_error(sink, aggregate__add(sink->aggregate, &event));
}

int sink_replay(struct sink *sink, struct capture_reader *reader)
{
	const char *data;
	size_t size;

	data = capture_reader__data(reader, &size);
	while (size) {
		struct event event;
		size_t skip = 0;
		ssize_t used = decode_event(data, size, &event, &skip);

		if (used == -ENOTSUP) {
			lose(sink, PERFX_LOSS_UNDECODED, 1);
			used = (ssize_t)skip;
		} else if (used < 0) {
			lose(sink, PERFX_LOSS_TRUNCATED_BYTES, size);
			break;
		} else {
			int err = give(sink, &event);

			if (err)
				return err;
		}
		data += used;
		size -= (size_t)used;
	}
	return 0;
}
