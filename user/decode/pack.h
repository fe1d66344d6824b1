/* SPDX-License-Identifier: BSD-2-Clause */
/* Builds the records that user space itself adds to the stream. */
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

#endif
