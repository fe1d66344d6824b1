// SPDX-License-Identifier: BSD-2-Clause
/* A flight recorder with a shorter memory is given all of the capture, and dumped. */
#include "replay/replay.h"

#include "base/text.h"
#include "capture/capture.h"
#include "decode/decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct cutting {
	struct capture_writer *writer;
	struct text open; /* records of the open segment; the last one's close the capture */
	struct text why;  /* why the capture was written */
	uint64_t recording_ns, to_ns;
};

/* 0 or -errno. */
static int end_segment(struct cutting *cutting)
{
	const char *records = text_peek(&cutting->open);
	int err = cutting->open.failed ? -ENOMEM : 0;

	for (size_t at = 0; at < cutting->open.length && !err;) {
		const struct perfx_record *record = (const void *)(records + at);

		err = capture_writer__add(cutting->writer, record, record->size);
		at += record->size;
	}
	text_clear(&cutting->open);
	return err;
}

/* 0 or -errno. */
static int add_event(struct cutting *cutting, const struct event *event)
{
	if (event->kind == PERFX_KIND_TIME_SLICE) {
		/* The new capture gets one of its own with its dump. */
		cutting->recording_ns = event->time_slice.recording_ns;
		text_clear(&cutting->why);
		text_add(&cutting->why, event->strings[0]);
		return 0;
	}
	if (event->kind == PERFX_KIND_HOST && !cutting->recording_ns)
		cutting->recording_ns = event->host.start_ns;
	if (event->kind == PERFX_KIND_END)
		cutting->to_ns = event->end.time_ns;
	text_add_bytes(&cutting->open, event->record, event->hdr.size);
	return event->kind == PERFX_KIND_SEGMENT ? end_segment(cutting) : 0;
}

static void add_loss(struct cutting *cutting, enum perfx_loss_kind loss, uint64_t count)
{
	struct perfx_loss record = {.hdr = {sizeof(record), PERFX_KIND_LOSS, sizeof(record)},
				    .loss = loss,
				    .count = count};

	if (count)
		text_add_bytes(&cutting->open, (const char *)&record, sizeof(record));
}

static int add_all(struct cutting *cutting, const struct cut *cut)
{
	const struct capture_damage *damage;
	struct capture_reader *reader = capture_reader__open(cut->path);
	const void *records;
	struct event event;
	size_t size;
	int err = reader ? 1 : -errno;

	while (err > 0 && (err = capture_reader__next(reader, &records, &size)) > 0) {
		err = cut->check ? cut->check(cut->ctx) : 0;
		for (size_t at = 0; at < size && !err;) {
			at += decode_next((const char *)records + at, size - at, &event);
			err = add_event(cutting, &event);
		}
		err = err ?: 1;
	}
	if (!err) {
		damage = capture_reader__damage(reader);
		add_loss(cutting, PERFX_LOSS_TRUNCATED_BYTES, damage->bytes);
		add_loss(cutting, PERFX_LOSS_UNDECODED, damage->strange_blocks);
	}
	capture_reader__free(reader);
	return err;
}

static int dump(struct cutting *cutting, const char *path)
{
	struct capture_dump *dump = calloc(1, sizeof(*dump));
	int err = -ENOMEM;

	if (!dump)
		return err;
	dump->path = strdup(path);
	dump->why = strdup(text_peek(&cutting->why));
	dump->recording_ns = cutting->recording_ns;
	dump->to_ns = cutting->to_ns;
	dump->closing_bytes = cutting->open.length;
	dump->closing = text_take(&cutting->open);
	if (dump->path && dump->why && dump->closing)
		err = capture_writer__dump(cutting->writer, dump);
	else
		capture_dump__free(dump);
	dump = err ? NULL : capture_writer__dumped(cutting->writer, true);
	if (dump)
		err = dump->err;
	capture_dump__free(dump);
	return err;
}

int capture_cut(const struct cut *cut)
{
	struct stat file = {0};
	/* room for all that the file has, and for the blocks of memory that live in it */
	uint64_t room = stat(cut->path, &file) ? 0 : 2 * (uint64_t)file.st_size;
	struct block_store *store = flight_buffer__new(cut->length_ns, (1ULL << 30) + room);
	struct cutting cutting = {.writer = store ? capture_writer__new_store(store) : NULL};
	int err = cutting.writer ? add_all(&cutting, cut) : -errno, ended;

	err = err ?: dump(&cutting, cut->to);
	ended = cutting.writer ? capture_writer__free(cutting.writer) : 0;
	text_clear(&cutting.open);
	text_clear(&cutting.why);
	return err ?: ended;
}
