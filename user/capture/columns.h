/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records ↔ columns, so that what is alike lies together and compresses: of a span only its times
 * are new, all else it shares with the last one of its calling context. Layout: docs/capture.md.
 * An exact inverse: decoding gives the bytes that were encoded.
 */
#ifndef PERFX_CAPTURE_COLUMNS_H
#define PERFX_CAPTURE_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

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

#endif
