/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records ↔ columns, so that what is alike lies together and compresses: of a span only its times
 * are new, all else it shares with the last one of its calling context. Layout: docs/capture.md.
 * An exact inverse: what unfold gives are the bytes that fold was given.
 */
#ifndef PERFX_CAPTURE_FOLD_H
#define PERFX_CAPTURE_FOLD_H

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

/* Bytes of records that fold takes at a time. What comes out is at most FOLD_GROWTH as much, in all
 * columns together. */
#define FOLD_RECORDS_MAX (1u << 20)
#define FOLD_GROWTH	 2

struct folder;

/* NULL with errno: ENOMEM */
struct folder *folder__new(void);
void folder__free(struct folder *folder);
/* Whole records, at most FOLD_RECORDS_MAX bytes. The columns are the folder's, until the next call.
 */
const struct columns *folder__fold(struct folder *folder, const void *records, size_t size);

struct unfolder;

struct unfolder *unfolder__new(void);
void unfolder__free(struct unfolder *unfolder);
/* Fills exactly size bytes from all of the columns, whose bytes nobody has looked at yet: 0, or
 * -EBADMSG: they are damaged. */
int unfolder__unfold(struct unfolder *unfolder, const struct columns *columns, void *records,
		     size_t size);

#endif
