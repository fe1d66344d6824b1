/* SPDX-License-Identifier: BSD-2-Clause */
/* Builds the records that user space itself adds to the stream, and sends them. */
#ifndef PERFX_DECODE_PACK_H
#define PERFX_DECODE_PACK_H

#include "perfx_record.h"

#include <stddef.h>

struct pack_buffer {
	_Alignas(8) unsigned char bytes[PERFX_RECORD_MAX];
};

/* Lays out fixed part and strings; a string that does not fit is cut, NULL is "". The fixed part
 * begins with a struct perfx_record, which is filled here. Returns the record, in buffer. */
const struct perfx_record *pack_record(struct pack_buffer *buffer, enum perfx_kind kind,
				       const void *fixed, size_t fixed_size,
				       const char *const *strings, size_t strings_count);

/* The fixed part is a struct with an `hdr`; the strings follow. */
#define PACK(buffer, kind, fixed, ...)                              \
	pack_record((buffer), (kind), &(fixed), sizeof(fixed),      \
		    (const char *const[]){NULL, ##__VA_ARGS__} + 1, \
		    sizeof((const char *const[]){NULL, ##__VA_ARGS__}) / sizeof(char *) - 1)

/* Where the producers of records send them. What follows is in replay/replay.h. */
struct sink {
	/* One record, whole; borrowed. */
	void (*record)(struct sink *sink, const void *record, size_t size);
};

static inline void sink_record(struct sink *sink, const void *record, size_t size)
{
	sink->record(sink, record, size);
}

static inline void sink_packed(struct sink *sink, const struct perfx_record *packed)
{
	sink_record(sink, packed, packed->size);
}

/* Lays a record out as PACK does, and sends it. */
#define SINK_PACK(sink, buffer, kind, fixed, ...) \
	sink_packed((sink), PACK((buffer), (kind), (fixed), ##__VA_ARGS__))

#endif
