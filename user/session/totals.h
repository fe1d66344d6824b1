/* SPDX-License-Identifier: BSD-2-Clause */
/* The host, sums without a time, and what is known only at the end. */
#ifndef PERFX_SESSION_TOTALS_H
#define PERFX_SESSION_TOTALS_H

#include "session/recording.h"

#include <stdbool.h>
#include <stdint.h>

struct totals;

void totals_host(struct sink *sink, const struct recorder_options *options, uint64_t start_ns);
/* HOST and END records of a recording whose program ended before it began. */
void totals_of_nothing(struct sink *sink, const struct recorder_options *options);

/* What has been added to the sums since the last time: HITS, LOSS, OVERFLOW_CALLS, _MEMORY,
 * _VALUES, CALL_COUNTERS, PROCESS_COUNTERS, BLOCKED. last: nothing comes after it. */
void totals__emit(struct totals *totals, uint64_t now_ns, bool last);
/* SEGMENT: all sums have been emitted up to now. */
void totals__segment(struct totals *totals, uint64_t time_ns);
/* What holds at an end and is no sum: NOT_ATTACHED, the levels among the losses, END. Into closing:
 * that of the recording, or of a dump. After totals__emit. */
void totals__close(struct totals *totals, struct sink *closing, const struct ending *ending);

/* Which PEAK records are out. */
struct host_peaks {
	bool given, found;
};

/*
 * What this host can do: given, kept from an earlier time, measured now or estimated. Once there is
 * something to compare with it, and before anything is attached; where a library with such
 * functions came later, at the end.
 */
void host_peaks_emit(struct host_peaks *emitted, struct sink *sink, const struct peaks_given *given,
		     const struct plan *plan);

/* Which perf events are counted, or, where they could be missed, why none is. */
void perf_counters_emit(struct thread_counters *counters, struct sink *sink,
			const struct plan *plan);

/* Is the work of a planned function known? */
bool any_cost_known(const struct plan *plan);

#endif
