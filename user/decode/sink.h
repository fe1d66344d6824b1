/* SPDX-License-Identifier: BSD-2-Clause */
/* Where records go, for those who make them: all they know of it. The way from there on is
 * replay/pipeline.h. */
#ifndef PERFX_DECODE_SINK_H
#define PERFX_DECODE_SINK_H

#include "decode/pack.h"

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
