/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Perf events of the traced threads: opened for each of them as it is found, handed to the BPF
 * programs, which read them where calls begin and end, and read as a whole when a thread is gone or
 * tracing ends.
 */
#ifndef PERFX_ATTACH_THREAD_COUNTERS_H
#define PERFX_ATTACH_THREAD_COUNTERS_H

#include "attach/tracer.h"
#include "counters/counters.h"
#include "decode/pack.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* --counters. DEFAULT: the hardware's, of functions whose work is known; LISTED: those named. */
enum counters_choice { COUNTERS_DEFAULT = 0, COUNTERS_OFF, COUNTERS_ON, COUNTERS_LISTED };

struct thread_counters;

/* Finds out what can be counted. Before the tracer is made: it wants thread_counters__counters().
 * names: of LISTED, borrowed. NULL: no memory. */
struct thread_counters *thread_counters__new(enum counters_choice choice, const char *names);
void thread_counters__free(struct thread_counters *thread_counters);

/* NULL: nothing is counted. */
const struct counters *thread_counters__counters(const struct thread_counters *thread_counters);
/* Why nothing is; "" where something is, or where it was not asked for. */
const char *thread_counters__why(const struct thread_counters *thread_counters);
/* Are all functions counted, or only those whose work is known? */
bool thread_counters__all_functions(const struct thread_counters *thread_counters);

/* Finds new threads of these processes, and those that have ended. */
void thread_counters__scan(struct thread_counters *thread_counters, struct tracer *tracer,
			   const pid_t *pids, size_t count);

/* PERF_COUNTER records: what is counted, or why not; once. */
void thread_counters__describe(struct thread_counters *thread_counters, struct sink *sink);
/* CALL_COUNTERS and PROCESS_COUNTERS records: what was counted since the last time. */
void thread_counters__report(struct thread_counters *thread_counters, struct tracer *tracer,
			     struct sink *sink);

#endif
