// SPDX-License-Identifier: BSD-2-Clause
#include "replay/ring.h"

#include "base/output.h"
#include "capture/capture.h"
#include "decode/decode.h"
#include "decode/pack.h"
#include "replay/past.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a live block costs the past, with its place in a table. */
#define LIVE_BLOCK_BYTES 43

struct held_block {
	struct held_block *next;
	uint64_t segment_ns; /* a segment ends with it, then; 0 */
	size_t bytes;
	char block[];
};

struct ring {
	struct block_store store;
	uint64_t window_ns, bytes_max, bytes;
	struct held_block *oldest, *newest;
	uint64_t from_ns; /* where the oldest begins; 0: nothing has been given up */
	uint64_t to_ns;	  /* where the last segment ended */
	bool full;	  /* something was given up for want of memory that is still missed */
	uint64_t missed_from_ns;
	struct unpacker *unpacker;
	struct past *past;
};

static struct ring *ring_of(struct block_store *store)
{
	return (struct ring *)store; /* its first member */
}

static void drop_oldest(struct ring *ring)
{
	struct held_block *block = ring->oldest;

	ring->oldest = block->next;
	if (!ring->oldest)
		ring->newest = NULL;
	ring->bytes -= block->bytes;
	free(block);
}

static void free_ring(struct block_store *store)
{
	struct ring *ring = ring_of(store);

	while (ring->oldest)
		drop_oldest(ring);
	unpacker__free(ring->unpacker);
	past__free(ring->past);
	free(ring);
}

/* --- what goes by --- */

static int tell_past(struct ring *ring, const char *records, size_t size)
{
	int err = 0;

	for (size_t at = 0; at < size && !err;) {
		struct event event;
		size_t skip = 0;
		ssize_t used = decode_event(records + at, size - at, &event, &skip);

		if (used >= 0)
			err = past__add(ring->past, &event);
		else if (used != -ENOTSUP)
			break;
		at += used < 0 ? skip : (size_t)used;
	}
	return err;
}

/* The oldest segment becomes past; of one that goes on, what there is of it. */
static int give_up_segment(struct ring *ring)
{
	bool ended = false;
	int err = 0;

	while (ring->oldest && !ended && !err) {
		const struct held_block *block = ring->oldest;
		struct block_header header;
		const void *records;

		memcpy(&header, block->block, sizeof(header));
		records = unpacker__unpack(ring->unpacker, &header, block->block + sizeof(header));
		err = records ? tell_past(ring, records, header.records_bytes) : -errno;
		ended = block->segment_ns;
		ring->from_ns = ended ? block->segment_ns : ring->to_ns;
		drop_oldest(ring);
	}
	return err;
}

/* When the oldest segment ends; 0: it goes on. */
static uint64_t oldest_end_ns(const struct ring *ring)
{
	const struct held_block *block = ring->oldest;

	while (block && !block->segment_ns)
		block = block->next;
	return block ? block->segment_ns : 0;
}

/* What is older than the window, and what there is no room for. */
static int give_up(struct ring *ring)
{
	uint64_t end_ns;
	int err = 0;

	while (!err && (end_ns = oldest_end_ns(ring)) && end_ns + ring->window_ns <= ring->to_ns)
		err = give_up_segment(ring);
	while (!err && ring->oldest && ring->bytes > ring->bytes_max) {
		ring->missed_from_ns = ring->to_ns;
		ring->full = true;
		err = give_up_segment(ring);
	}
	/* all that was given up for want of room would be past by now */
	if (ring->full && ring->missed_from_ns + ring->window_ns <= ring->to_ns)
		ring->full = false;
	return err;
}

static int add_block(struct block_store *store, const void *block, size_t bytes,
		     uint64_t segment_ns)
{
	struct ring *ring = ring_of(store);
	struct held_block *held = malloc(sizeof(*held) + bytes);

	if (!held)
		return -ENOMEM;
	*held = (struct held_block){.segment_ns = segment_ns, .bytes = bytes};
	memcpy(held->block, block, bytes);
	if (ring->newest)
		ring->newest->next = held;
	else
		ring->oldest = held;
	ring->newest = held;
	ring->bytes += bytes;
	if (segment_ns)
		ring->to_ns = segment_ns;
	return give_up(ring);
}

/* --- a dump --- */

struct file {
	int fd;
	struct packer *packer;
	uint32_t sequence;
	uint64_t bytes;
	size_t used;
	char records[FOLD_RECORDS_MAX];
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

static int add_record(void *ctx, const void *record, size_t size)
{
	struct file *file = ctx;
	int err = 0;

	if (file->used + size > sizeof(file->records))
		err = write_records(file);
	memcpy(file->records + file->used, record, size);
	file->used += size;
	return err;
}

static int write_header(struct file *file)
{
	struct capture_header header = {.version = CAPTURE_VERSION,
					.record_version = PERFX_RECORD_VERSION};

	memcpy(header.magic, CAPTURE_MAGIC, sizeof(header.magic));
	return write_bytes(file, &header, sizeof(header));
}

/* The keyframe. */
static int write_past(struct ring *ring, struct file *file)
{
	int err;

	if (!ring->from_ns)
		return 0;
	err = past__tell(ring->past, ring->from_ns, add_record, file);
	if (!err)
		err = past__tell_usage(ring->past, ring->from_ns, add_record, file);
	if (!err)
		err = past__tell_memory(ring->past, ring->from_ns, add_record, file);
	return err ? err : write_records(file);
}

static int write_blocks(struct ring *ring, struct file *file)
{
	int err = 0;

	for (struct held_block *block = ring->oldest; block && !err; block = block->next) {
		block_renumber(block->block, file->sequence++);
		err = write_bytes(file, block->block, block->bytes);
	}
	return err;
}

static int add_part(struct file *file, const struct capture_dump *dump)
{
	struct perfx_part record = {.recording_ns = dump->recording_ns,
				    .flags =
					    PERFX_PART_FLIGHT | (dump->full ? PERFX_PART_FULL : 0)};
	struct pack_buffer buffer;
	const struct perfx_record *packed = PACK(&buffer, PERFX_KIND_PART, record, dump->why);

	return add_record(file, packed, packed->size);
}

static int write_closing(struct file *file, const struct capture_dump *dump)
{
	int err = add_part(file, dump);
	struct perfx_record hdr;

	for (size_t at = 0; at < dump->closing_bytes && !err; at += hdr.size) {
		memcpy(&hdr, dump->closing + at, sizeof(hdr));
		err = add_record(file, dump->closing + at, hdr.size);
	}
	return err ? err : write_records(file);
}

static int write_capture(struct ring *ring, struct file *file, const struct capture_dump *dump)
{
	int err = write_header(file);

	if (!err)
		err = write_past(ring, file);
	if (!err)
		err = write_blocks(ring, file);
	return err ? err : write_closing(file, dump);
}

/* The file of that name, if there is one, stays as it is until the new one is whole; half of one is
 * called PATH.part. */
static void dump_to_file(struct block_store *store, struct packer *packer,
			 struct capture_dump *dump)
{
	struct ring *ring = ring_of(store);
	struct file *file = calloc(1, sizeof(*file));
	struct output output;

	dump->full = ring->full;
	dump->from_ns = ring->from_ns ? ring->from_ns : dump->recording_ns;
	dump->err = file ? output_open(&output, dump->path, OUTPUT_FILE) : -ENOMEM;
	if (!dump->err) {
		file->fd = output.fd;
		file->packer = packer;
		dump->err = write_capture(ring, file, dump);
		if (dump->err)
			output_discard(&output);
		else
			dump->err = output_close(&output);
		dump->bytes = file->bytes;
	}
	free(file);
}

struct block_store *ring__new(uint64_t window_ns, uint64_t bytes_max)
{
	struct ring *ring = calloc(1, sizeof(*ring));

	if (!ring)
		return NULL;
	ring->store =
		(struct block_store){.add = add_block, .dump = dump_to_file, .free = free_ring};
	ring->window_ns = window_ns;
	ring->bytes_max = bytes_max - bytes_max / RING_PAST_SHARE;
	ring->unpacker = unpacker__new();
	ring->past = past__new((uint32_t)(bytes_max / RING_PAST_SHARE / LIVE_BLOCK_BYTES));
	if (ring->unpacker && ring->past)
		return &ring->store;
	free_ring(&ring->store);
	errno = ENOMEM;
	return NULL;
}
