/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A block of a capture file: a header that can be found anywhere in a damaged file and trusted when
 * its checksum is right, and a payload of columns (columns.h), each compressed by zstd. Byte by
 * byte: docs/capture.md.
 */
#ifndef PERFX_CAPTURE_BLOCK_H
#define PERFX_CAPTURE_BLOCK_H

#include "capture/columns.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCK_SYNC	 "PERFXBLK"
#define BLOCK_SYNC_BYTES 8

enum block_type {
	BLOCK_RECORDS = 1,
};

/* Of what is not damaged a reader accepts no more than this: its memory is bounded. */
#define BLOCK_PAYLOAD_MAX (4u << 20)
#define BLOCK_RECORDS_MAX (4u << 20)

struct block_header {
	char sync[BLOCK_SYNC_BYTES];
	uint32_t type;		/* enum block_type; others are skipped */
	uint32_t payload_bytes; /* follow the header */
	uint32_t records_bytes; /* when it is opened */
	uint32_t sequence;	/* 0, 1, 2 … */
	uint32_t payload_crc;
	uint32_t header_crc; /* of all before it */
};

/* True if bytes begin with a header that is as it was written. */
bool block_header_read(struct block_header *header, const void *bytes, size_t size);

struct packer;

/* NULL with errno: ENOMEM */
struct packer *packer__new(void);
void packer__free(struct packer *packer);
/* The block of size bytes of whole records, at most COLUMNS_RECORDS_MAX; *bytes is its size with
 * the header. It is the packer's, until the next call. */
const void *packer__pack(struct packer *packer, const void *records, size_t size, uint32_t sequence,
			 size_t *bytes);

/* Gives a block of the packer's another number. */
void block_renumber(void *block, uint32_t sequence);

struct unpacker;

struct unpacker *unpacker__new(void);
void unpacker__free(struct unpacker *unpacker);
/* The records of a block whose header has been read; payload is header->payload_bytes. They are the
 * unpacker's, until the next call. NULL with errno: EBADMSG (damaged), ENOMEM. */
const void *unpacker__unpack(struct unpacker *unpacker, const struct block_header *header,
			     const void *payload);

#endif
