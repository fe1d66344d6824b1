// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads a file of which any byte may be wrong. Blocks follow one another; where none begins, the
 * next is looked for by its sync bytes and the checksum of its header.
 */
#include "base/grow.h"
#include "capture/block.h"
#include "capture/capture.h"

#include "perfx_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WINDOW_BYTES (256u << 10)

struct capture_reader {
	int fd;
	uint64_t size; /* when it was opened: what is appended later is left */
	uint64_t at;   /* of the file: what is before has been read */
	uint64_t sequence;
	bool in_damage; /* up to `at` */
	struct capture_damage damage;
	struct unpacker *unpacker;
	/* a part of the file */
	char *chunk;
	size_t chunk_capacity, chunk_bytes;
	uint64_t chunk_at;
};

static ssize_t read_at(int fd, char *to, size_t size, uint64_t at)
{
	size_t have = 0;

	while (have < size) {
		ssize_t n = pread(fd, to + have, size - have, (off_t)(at + have));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

/* Makes size bytes at an offset visible. Returns how many there are, or -errno. */
static ssize_t read_window(struct capture_reader *reader, uint64_t at, size_t size,
			   const char **bytes)
{
	uint64_t end = reader->chunk_at + reader->chunk_bytes;
	size_t wanted = size < WINDOW_BYTES ? WINDOW_BYTES : size;
	ssize_t n;

	if (at >= reader->size)
		return 0;
	if (size > reader->size - at)
		size = (size_t)(reader->size - at);
	if (at < reader->chunk_at || at + size > end) {
		if (grow_array(&reader->chunk, &reader->chunk_capacity, wanted, 1))
			return -ENOMEM;
		n = read_at(reader->fd, reader->chunk, wanted, at);
		if (n < 0)
			return n;
		reader->chunk_at = at;
		reader->chunk_bytes = (size_t)n;
		if ((size_t)n < size) { /* the file has become shorter */
			reader->size = at + (uint64_t)n;
			size = (size_t)n;
		}
	}
	*bytes = reader->chunk + (at - reader->chunk_at);
	return (ssize_t)size;
}

static int read_header(struct capture_reader *reader)
{
	struct capture_header header;
	ssize_t n = read_at(reader->fd, (char *)&header, sizeof(header), 0);

	if (n < 0)
		return (int)-n;
	if ((size_t)n < sizeof(header) ||
	    memcmp(header.magic, CAPTURE_MAGIC, sizeof(header.magic)) != 0)
		return ENOEXEC;
	if (header.version != CAPTURE_VERSION || header.record_version > PERFX_RECORD_VERSION)
		return EPROTO;
	reader->at = sizeof(header);
	return 0;
}

static int open_file(struct capture_reader *reader, const char *path)
{
	struct stat st;

	/* O_NONBLOCK: does not wait for the writer of a FIFO */
	reader->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (reader->fd < 0 || fstat(reader->fd, &st))
		return errno;
	if (S_ISDIR(st.st_mode))
		return EISDIR;
	if (!S_ISREG(st.st_mode)) /* may be endless, and has no offsets to read at */
		return ESPIPE;
	reader->size = (uint64_t)st.st_size;
	reader->unpacker = unpacker__new();
	return reader->unpacker ? read_header(reader) : ENOMEM;
}

struct capture_reader *capture_reader__open(const char *path)
{
	struct capture_reader *reader = calloc(1, sizeof(*reader));
	int err;

	if (!reader)
		return NULL;
	err = open_file(reader, path);
	if (!err)
		return reader;
	capture_reader__free(reader);
	errno = err;
	return NULL;
}

void capture_reader__free(struct capture_reader *reader)
{
	if (!reader)
		return;
	if (reader->fd >= 0)
		close(reader->fd);
	unpacker__free(reader->unpacker);
	free(reader->chunk);
	free(reader);
}

const struct capture_damage *capture_reader__damage(const struct capture_reader *reader)
{
	return &reader->damage;
}

static void count_lost(struct capture_reader *reader, uint64_t bytes)
{
	if (!reader->in_damage)
		reader->damage.places++;
	reader->in_damage = true;
	reader->damage.bytes += bytes;
	reader->at += bytes;
}

/* 1: a header is there; 0: it is not; -errno. */
static int header_at(struct capture_reader *reader, uint64_t at, struct block_header *header)
{
	const char *bytes = NULL;
	ssize_t n = read_window(reader, at, sizeof(*header), &bytes);

	if (n < 0)
		return (int)n;
	return block_header_read(header, bytes, (size_t)n);
}

/* From here to the next header, or to the end, all is lost. 0 or -errno. */
static int find_header(struct capture_reader *reader)
{
	struct block_header header;
	const char *bytes, *sync;
	ssize_t n;
	int found = 0;

	while (!found) {
		count_lost(reader, reader->at < reader->size);
		n = read_window(reader, reader->at, sizeof(header), &bytes);
		if (n <= 0)
			return (int)n;
		n = (ssize_t)(reader->chunk_at + reader->chunk_bytes - reader->at);
		sync = memmem(bytes, (size_t)n, BLOCK_SYNC, BLOCK_SYNC_BYTES);
		if (sync) {
			count_lost(reader, (uint64_t)(sync - bytes));
			found = header_at(reader, reader->at, &header);
		} else if ((uint64_t)n >= reader->size - reader->at) {
			count_lost(reader, reader->size - reader->at);
		} else { /* it may begin in the last bytes */
			count_lost(reader, (uint64_t)n - BLOCK_SYNC_BYTES);
		}
	}
	return found < 0 ? found : 0;
}

/* Skips a damaged block. Its length most likely leads to the next one nevertheless. */
static int skip_block(struct capture_reader *reader, const struct block_header *header)
{
	uint64_t size = sizeof(*header) + (uint64_t)header->payload_bytes;
	struct block_header next;
	int found = 0;

	if (size == reader->size - reader->at) {
		count_lost(reader, size);
		return 0;
	}
	if (size < reader->size - reader->at)
		found = header_at(reader, reader->at + size, &next);
	if (found <= 0)
		return found < 0 ? found : find_header(reader);
	count_lost(reader, size);
	return 0;
}

/* Counts blocks that should have come before this one, unless their bytes have been counted. */
static void check_sequence(struct capture_reader *reader, const struct block_header *header)
{
	if (header->sequence > reader->sequence && !reader->in_damage) {
		reader->damage.places++;
		reader->damage.bytes +=
			(header->sequence - reader->sequence) * sizeof(struct block_header);
	}
	reader->sequence = (uint64_t)header->sequence + 1;
	reader->in_damage = false;
}

/* The block whose header is at `at`: 1 with its records, 0: it was skipped; -errno. */
static int read_block(struct capture_reader *reader, const struct block_header *header,
		      const void **records)
{
	size_t size = sizeof(*header) + header->payload_bytes;
	const char *bytes = NULL;
	ssize_t n;

	if (header->sequence < reader->sequence || size > reader->size - reader->at)
		return skip_block(reader, header);
	if (header->type != BLOCK_RECORDS) {
		check_sequence(reader, header);
		reader->damage.strange_blocks++;
		reader->at += sizeof(*header) + (uint64_t)header->payload_bytes;
		return 0;
	}
	if (header->payload_bytes > BLOCK_PAYLOAD_MAX)
		return skip_block(reader, header);
	n = read_window(reader, reader->at, size, &bytes);
	if (n < 0)
		return (int)n;
	*records = (size_t)n < size
			   ? NULL
			   : unpacker__unpack(reader->unpacker, header, bytes + sizeof(*header));
	if ((size_t)n == size && !*records && errno == ENOMEM)
		return -ENOMEM;
	if (!*records)
		return skip_block(reader, header);
	check_sequence(reader, header);
	reader->at += size;
	return 1;
}

int capture_reader__next(struct capture_reader *reader, const void **records, size_t *size)
{
	struct block_header header = {0};
	int found = 0;

	while (!found && reader->at < reader->size) {
		found = header_at(reader, reader->at, &header);
		if (found == 0)
			found = find_header(reader);
		else if (found > 0)
			found = read_block(reader, &header, records);
	}
	*size = header.records_bytes;
	return found;
}
