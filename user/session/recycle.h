/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Indices of processes and calling contexts, in a recording that goes on (--flight, top, serve):
 * tables have room for so many, and processes come and go by the thousand. What has ended is
 * forgotten, in the kernel and here, and its indices are others' then.
 *
 * Not before nobody can take the one for the other: records of the flight buffer, and who watches
 * the recording (known_from_ns in recorder.h), know processes by their index alone.
 */
#ifndef PERFX_SESSION_RECYCLE_H
#define PERFX_SESSION_RECYCLE_H

#include "attach/reader.h"
#include "attach/sampler.h"
#include "session/frames.h"
#include "session/recorder.h"
#include "session/waits.h"

struct recycle;

/* All borrowed. */
struct recycle_parts {
	const struct recorder_options *options;
	struct tracer *tracer;
	struct reader *reader;
	struct frames *frames;
	struct sampler *sampler;
	struct waits *waits; /* NULL: there are none */
};

/* NULL: memory is out; then indices are not used again. */
struct recycle *recycle__new(const struct recycle_parts *parts);
void recycle__free(struct recycle *recycle);

/* Nothing of that index comes after this time, but what is in the rings. Once more does nothing.
 * recycle may be NULL. */
void recycle__ended(struct recycle *recycle, uint32_t process, uint64_t time_ns);
void recycle__tick(struct recycle *recycle, uint64_t now_ns);

#endif
