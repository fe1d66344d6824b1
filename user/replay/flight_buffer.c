// SPDX-License-Identifier: BSD-2-Clause
#include "replay/replay.h"

#include "base/file.h"
#include "capture/capture.h"
#include "decode/decode.h"
#include "decode/pack.h"
#include "replay/keyframe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes of a live block in the keyframe, with its place in a table. */
#define LIVE_BLOCK_BYTES 43

struct held_block {
	struct held_block *next;
	uint64_t segment_ns; /* a segment ends with it, then; 0 */
	size_t bytes;
	char block[];
};

struct flight_buffer {
	struct block_store store;
	uint64_t length_ns, bytes_max, bytes;
	struct held_block *oldest, *newest;
	uint64_t from_ns; /* where the oldest begins; 0: nothing has been given up */
	uint64_t to_ns;	  /* where the last segment ended */
	bool full;	  /* something that was given up for want of memory would still be kept */
	uint64_t missed_from_ns;
	struct unpacker *unpacker;
	struct keyframe *keyframe;
};

static void drop_oldest(struct flight_buffer *flight)
{
	struct held_block *block = flight->oldest;

	flight->oldest = block->next;
	if (!flight->oldest)
		flight->newest = NULL;
	flight->bytes -= block->bytes;
	free(block);
}

static void free_flight(struct block_store *store)
{
	struct flight_buffer *flight = (struct flight_buffer *)store; /* its first member */

	while (flight->oldest)
		drop_oldest(flight);
	unpacker__free(flight->unpacker);
	keyframe__free(flight->keyframe);
	free(flight);
}

/* Adds the oldest segment to the keyframe; of one that goes on, the part that is there. */
static int give_up_segment(struct flight_buffer *flight)
{
	bool ended = false;
	int err = 0;

	while (flight->oldest && !ended && !err) {
		const struct held_block *block = flight->oldest;
		struct block_header header;
		struct event event;
		const char *records;

		memcpy(&header, block->block, sizeof(header));
		records =
			unpacker__unpack(flight->unpacker, &header, block->block + sizeof(header));
		if (!records)
			err = -errno;
		for (size_t at = 0; at < header.records_bytes && !err;) {
			at += decode_next(records + at, header.records_bytes - at, &event);
			err = keyframe__add(flight->keyframe, &event);
		}
		ended = block->segment_ns;
		flight->from_ns = ended ? block->segment_ns : flight->to_ns;
		drop_oldest(flight);
	}
	return err;
}

/* Does the oldest segment end so early that it is not kept? */
static bool is_oldest_past(const struct flight_buffer *flight)
{
	const struct held_block *block = flight->oldest;

	while (block && !block->segment_ns)
		block = block->next;
	return block && block->segment_ns + flight->length_ns <= flight->to_ns;
}

/* Gives up segments that are older than the length, and those without room. */
static int give_up(struct flight_buffer *flight)
{
	int err = 0;

	while (!err && is_oldest_past(flight))
		err = give_up_segment(flight);
	while (!err && flight->oldest && flight->bytes > flight->bytes_max) {
		flight->missed_from_ns = flight->to_ns;
		flight->full = true;
		err = give_up_segment(flight);
	}
	/* all that was given up for want of room would be in the keyframe by now */
	if (flight->full && flight->missed_from_ns + flight->length_ns <= flight->to_ns)
		flight->full = false;
	return err;
}

static int add_block(struct block_store *store, const void *block, size_t bytes,
		     uint64_t segment_ns)
{
	struct flight_buffer *flight = (struct flight_buffer *)store;
	struct held_block *held = malloc(sizeof(*held) + bytes);

	if (!held)
		return -ENOMEM;
	*held = (struct held_block){.segment_ns = segment_ns, .bytes = bytes};
	memcpy(held->block, block, bytes);
	if (flight->newest)
		flight->newest->next = held;
	else
		flight->oldest = held;
	flight->newest = held;
	flight->bytes += bytes;
	if (segment_ns)
		flight->to_ns = segment_ns;
	return give_up(flight);
}

struct file {
	int fd;
	struct packer *packer;
	uint32_t sequence;
	uint64_t bytes;
	size_t used;
	char records[COLUMNS_RECORDS_MAX];
};

static int write_bytes(struct file *file, const void *data, size_t size)
{
	int err = output_write(file->fd, data, size);

	if (!err)
		file->bytes += size;
	return err;
}

static int write_records(struct file *file)
{
	const void *block;
	size_t bytes;

	if (!file->used)
		return 0;
	block = packer__pack(file->packer, file->records, file->used, file->sequence++, &bytes);
	file->used = 0;
	return write_bytes(file, block, bytes);
}

static int add_record(void *ctx, const struct perfx_record *record)
{
	struct file *file = ctx;
	int err = 0;

	if (file->used + record->size > sizeof(file->records))
		err = write_records(file);
	memcpy(file->records + file->used, record, record->size);
	file->used += record->size;
	return err;
}

static int write_capture(struct flight_buffer *flight, struct file *file,
			 const struct capture_dump *dump)
{
	struct perfx_time_slice record = {.recording_ns = dump->recording_ns,
					  .flags = PERFX_TIME_SLICE_FLIGHT |
						   (dump->full ? PERFX_TIME_SLICE_FULL : 0),
					  .step_from_ns = dump->step.from_ns,
					  .step_to_ns = dump->step.to_ns,
					  .step_process = dump->step.process};
	struct pack_buffer buffer;
	int err = capture_write_header(file->fd);

	file->bytes = sizeof(struct capture_header);
	if (!err && flight->from_ns)
		err = keyframe__write_all(flight->keyframe, flight->from_ns, add_record, file)
			      ?: write_records(file);
	for (struct held_block *block = flight->oldest; block && !err; block = block->next) {
		block_renumber(block->block, file->sequence++);
		err = write_bytes(file, block->block, block->bytes);
	}
	err = err ?: add_record(file, PACK(&buffer, PERFX_KIND_TIME_SLICE, record, dump->why));
	for (size_t at = 0; at < dump->closing_bytes && !err;) {
		const struct perfx_record *closing = (const void *)(dump->closing + at);

		err = add_record(file, closing);
		at += closing->size;
	}
	return err ?: write_records(file);
}

/* An existing file of that name stays until the new one, PATH.part, is whole. */
static void dump_to_file(struct block_store *store, struct packer *packer,
			 struct capture_dump *dump)
{
	struct flight_buffer *flight = (struct flight_buffer *)store;
	struct file *file = calloc(1, sizeof(*file));
	struct output output;

	dump->full = flight->full;
	dump->from_ns = flight->from_ns ? flight->from_ns : dump->recording_ns;
	dump->err = file ? output_open(&output, dump->path, OUTPUT_FILE) : -ENOMEM;
	if (!dump->err) {
		file->fd = output.fd;
		file->packer = packer;
		dump->err = write_capture(flight, file, dump);
		if (dump->err)
			output_discard(&output);
		else
			dump->err = output_close(&output);
		dump->bytes = file->bytes;
	}
	free(file);
}

struct block_store *flight_buffer__new(uint64_t length_ns, uint64_t bytes_max)
{
	struct flight_buffer *flight = calloc(1, sizeof(*flight));

	if (!flight)
		return NULL;
	flight->store =
		(struct block_store){.add = add_block, .dump = dump_to_file, .free = free_flight};
	flight->length_ns = length_ns;
	flight->bytes_max = bytes_max - bytes_max / FLIGHT_KEYFRAME_SHARE;
	flight->unpacker = unpacker__new();
	flight->keyframe =
		keyframe__new((uint32_t)(bytes_max / FLIGHT_KEYFRAME_SHARE / LIVE_BLOCK_BYTES));
	if (flight->keyframe)
		keyframe__goes_on(flight->keyframe);
	if (flight->unpacker && flight->keyframe)
		return &flight->store;
	free_flight(&flight->store);
	errno = ENOMEM;
	return NULL;
}
