// SPDX-License-Identifier: BSD-2-Clause
#include "capture/block.h"

#include "base/grow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

/* Fast enough for a flood, and columns leave little for the slower levels to find. */
#define LEVEL 1

/* At the start of a payload. Stored as it is where compressing it gains nothing. */
struct column_sizes {
	uint32_t bytes, stored_bytes;
};

struct payload_head {
	uint32_t columns_count;
	uint32_t pad;
	struct column_sizes columns[COLUMNS];
};

_Static_assert(sizeof(struct block_header) == 32, "docs/capture.md: header of a block");
_Static_assert(sizeof(struct payload_head) == 88, "docs/capture.md: head of a payload");

static uint32_t crc_of(const void *bytes, size_t size)
{
	return (uint32_t)crc32_z(0, bytes, size);
}

bool block_header_read(struct block_header *header, const void *bytes, size_t size)
{
	if (size < sizeof(*header))
		return false;
	memcpy(header, bytes, sizeof(*header));
	return !memcmp(header->sync, BLOCK_SYNC, BLOCK_SYNC_BYTES) &&
	       header->header_crc == crc_of(header, offsetof(struct block_header, header_crc));
}

/* --- to the file --- */

struct packer {
	struct column_encoder *encoder;
	ZSTD_CCtx *zstd;
	struct {
		struct block_header header;
		struct payload_head head;
		unsigned char rest[COLUMNS_GROWTH * COLUMNS_RECORDS_MAX];
	} block;
};

struct packer *packer__new(void)
{
	struct packer *packer = calloc(1, sizeof(*packer));

	if (!packer)
		return NULL;
	packer->encoder = column_encoder__new();
	packer->zstd = ZSTD_createCCtx();
	if (packer->encoder && packer->zstd)
		return packer;
	packer__free(packer);
	errno = ENOMEM;
	return NULL;
}

void packer__free(struct packer *packer)
{
	if (!packer)
		return;
	column_encoder__free(packer->encoder);
	ZSTD_freeCCtx(packer->zstd);
	free(packer);
}

/* What is stored of a column: never more than the column has. */
static size_t store(struct packer *packer, unsigned char *to, const unsigned char *column,
		    size_t size)
{
	size_t stored = size ? ZSTD_compressCCtx(packer->zstd, to, size, column, size, LEVEL) : 0;

	if (!ZSTD_isError(stored) && stored < size)
		return stored;
	memcpy(to, column, size);
	return size;
}

const void *packer__pack(struct packer *packer, const void *records, size_t size, uint32_t sequence,
			 size_t *bytes)
{
	const struct columns *columns = column_encoder__encode(packer->encoder, records, size);
	struct block_header *header = &packer->block.header;
	struct payload_head *head = &packer->block.head;
	unsigned char *to = packer->block.rest;

	*head = (struct payload_head){.columns_count = COLUMNS};
	for (int i = 0; i < COLUMNS; i++) {
		size_t stored = store(packer, to, columns->bytes[i], columns->sizes[i]);

		head->columns[i] =
			(struct column_sizes){(uint32_t)columns->sizes[i], (uint32_t)stored};
		to += stored;
	}
	*header = (struct block_header){.type = BLOCK_RECORDS,
					.payload_bytes = (uint32_t)(to - (unsigned char *)head),
					.records_bytes = (uint32_t)size,
					.sequence = sequence};
	memcpy(header->sync, BLOCK_SYNC, BLOCK_SYNC_BYTES);
	header->payload_crc = crc_of(head, header->payload_bytes);
	header->header_crc = crc_of(header, offsetof(struct block_header, header_crc));
	*bytes = sizeof(*header) + header->payload_bytes;
	return header;
}

void block_renumber(void *block, uint32_t sequence)
{
	struct block_header header;

	memcpy(&header, block, sizeof(header));
	header.sequence = sequence;
	header.header_crc = crc_of(&header, offsetof(struct block_header, header_crc));
	memcpy(block, &header, sizeof(header));
}

/* --- from the file --- */

struct unpacker {
	struct column_decoder *decoder;
	ZSTD_DCtx *zstd;
	unsigned char *columns, *records;
	size_t columns_capacity, records_capacity;
};

struct unpacker *unpacker__new(void)
{
	struct unpacker *unpacker = calloc(1, sizeof(*unpacker));

	if (!unpacker)
		return NULL;
	unpacker->decoder = column_decoder__new();
	unpacker->zstd = ZSTD_createDCtx();
	if (unpacker->decoder && unpacker->zstd)
		return unpacker;
	unpacker__free(unpacker);
	errno = ENOMEM;
	return NULL;
}

void unpacker__free(struct unpacker *unpacker)
{
	if (!unpacker)
		return;
	column_decoder__free(unpacker->decoder);
	ZSTD_freeDCtx(unpacker->zstd);
	free(unpacker->columns);
	free(unpacker->records);
	free(unpacker);
}

/* Bytes of all columns, opened; 0: the head cannot be right. */
static size_t check_head(const struct payload_head *head, const struct block_header *header)
{
	uint64_t bytes = 0, stored = sizeof(*head);

	if (head->columns_count != COLUMNS)
		return 0;
	for (int i = 0; i < COLUMNS; i++) {
		bytes += head->columns[i].bytes;
		stored += head->columns[i].stored_bytes;
	}
	if (stored != header->payload_bytes ||
	    bytes > (uint64_t)COLUMNS_GROWTH * header->records_bytes)
		return 0;
	return bytes;
}

static bool open_column(struct unpacker *unpacker, const struct column_sizes *sizes,
			const unsigned char *from, unsigned char *to)
{
	if (sizes->bytes == sizes->stored_bytes) {
		memcpy(to, from, sizes->bytes);
		return true;
	}
	return ZSTD_decompressDCtx(unpacker->zstd, to, sizes->bytes, from, sizes->stored_bytes) ==
	       sizes->bytes;
}

static bool open_columns(struct unpacker *unpacker, const struct payload_head *head,
			 const unsigned char *from, struct columns *columns)
{
	unsigned char *to = unpacker->columns;

	for (int i = 0; i < COLUMNS; i++) {
		if (!open_column(unpacker, &head->columns[i], from, to))
			return false;
		columns->bytes[i] = to;
		columns->sizes[i] = head->columns[i].bytes;
		from += head->columns[i].stored_bytes;
		to += head->columns[i].bytes;
	}
	return true;
}

const void *unpacker__unpack(struct unpacker *unpacker, const struct block_header *header,
			     const void *payload)
{
	struct payload_head head;
	struct columns columns;
	size_t bytes = 0;

	if (header->payload_bytes >= sizeof(head) && header->records_bytes &&
	    header->records_bytes <= BLOCK_RECORDS_MAX &&
	    header->payload_crc == crc_of(payload, header->payload_bytes)) {
		memcpy(&head, payload, sizeof(head));
		bytes = check_head(&head, header);
	}
	if (!bytes) {
		errno = EBADMSG;
		return NULL;
	}
	if (grow_array(&unpacker->columns, &unpacker->columns_capacity, bytes, 1) ||
	    grow_array(&unpacker->records, &unpacker->records_capacity, header->records_bytes, 1)) {
		errno = ENOMEM;
		return NULL;
	}
	if (open_columns(unpacker, &head, (const unsigned char *)payload + sizeof(head),
			 &columns) &&
	    !column_decoder__decode(unpacker->decoder, &columns, unpacker->records,
				    header->records_bytes))
		return unpacker->records;
	errno = EBADMSG;
	return NULL;
}
