/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A block of a capture file: a header that can be found anywhere in a damaged file and trusted when
 * its checksum is right, and a payload of columns, each compressed by zstd. Byte by byte:
 * docs/capture.md.
 */
#ifndef PERFX_CAPTURE_BLOCK_H
#define PERFX_CAPTURE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Records ↔ columns, so that what is alike lies together and compresses: of a span only its times
 * are new, all else it shares with the last one of its calling context. Layout: docs/capture.md.
 * An exact inverse: decoding gives the bytes that were encoded.
 */
enum column {
	COLUMN_ORDER = 0,      /* varints: which template each record is like */
	COLUMN_WHOLE,	       /* records as they are */
	COLUMN_SPAN_END,       /* signed varints: from the end of the last span */
	COLUMN_SPAN_DURATION,  /* varints */
	COLUMN_SPAN_CALLED,    /* varints: duration less self time */
	COLUMN_SPAN_FLOPS,     /* signed varints: from the template's last */
	COLUMN_SPAN_BYTES,     /* likewise */
	COLUMN_MEMORY_TIME,    /* signed varints: from the last memory record */
	COLUMN_MEMORY_ADDRESS, /* 8 bytes each: an address comes again as it is */
	COLUMN_MEMORY_SIZE,    /* varints */
	COLUMNS
};

struct columns {
	unsigned char *bytes[COLUMNS];
	size_t sizes[COLUMNS];
};

/* Bytes of records that the encoder takes at a time. What comes out is at most COLUMNS_GROWTH as
 * much, in all columns together. */
#define COLUMNS_RECORDS_MAX (1u << 20)
#define COLUMNS_GROWTH	    2

struct column_encoder;

/* NULL with errno: ENOMEM */
struct column_encoder *column_encoder__new(void);
void column_encoder__free(struct column_encoder *encoder);
/* Whole records, at most COLUMNS_RECORDS_MAX bytes. The columns are the encoder's, until the next
 * call.
 */
const struct columns *column_encoder__encode(struct column_encoder *encoder, const void *records,
					     size_t size);

struct column_decoder;

struct column_decoder *column_decoder__new(void);
void column_decoder__free(struct column_decoder *decoder);
/* Fills exactly size bytes from all of the columns, whose bytes have not been checked yet: 0, or
 * -EBADMSG: they are damaged. */
int column_decoder__decode(struct column_decoder *decoder, const struct columns *columns,
			   void *records, size_t size);

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
