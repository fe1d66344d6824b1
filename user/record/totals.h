/* SPDX-License-Identifier: BSD-2-Clause */
/* The first and the last records of a recording: the host, and what only the end knows. */
#ifndef PERFX_RECORD_TOTALS_H
#define PERFX_RECORD_TOTALS_H

#include "attach/tracer.h"
#include "plan/plan.h"
#include "record/probes.h"
#include "record/recorder.h"
#include "stream/sink.h"

#include <stdbool.h>
#include <stdint.h>

struct totals {
	uint64_t end_ns;
	uint64_t spans_count; /* taken from the ring */
	bool killed, exited, interrupted;
};

void totals_host(struct sink *sink, const struct recorder_options *options, uint64_t start_ns);

/* BOOK, HITS, NOT_ATTACHED, LOSS and END, after the tracer has stopped and the rings are drained.
 */
void totals_end(struct sink *sink, struct tracer *tracer, const struct plan *plan,
		struct probes *probes, const struct totals *totals);

#endif
