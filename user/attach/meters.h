/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Perf events of the traced threads: opened for each of them as it is found, handed to the BPF
 * programs, which read them where calls begin and end, and read as a whole when a thread is gone or
 * tracing ends.
 */
#ifndef PERFX_ATTACH_METERS_H
#define PERFX_ATTACH_METERS_H

#include "attach/tracer.h"
#include "counters/counters.h"
#include "decode/sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* --counters. DEFAULT: the hardware's, of functions whose work is known; LISTED: those named. */
enum counters_choice { COUNTERS_DEFAULT = 0, COUNTERS_OFF, COUNTERS_ON, COUNTERS_LISTED };

struct meters;

/* Finds out what can be counted. Before the tracer is made: it wants meters__counters(). names: of
 * LISTED, borrowed. NULL: no memory. */
struct meters *meters__new(enum counters_choice choice, const char *names);
void meters__free(struct meters *meters);

/* NULL: nothing is counted. */
const struct counters *meters__counters(const struct meters *meters);
/* Why nothing is; "" where something is, or where nobody asked for it. */
const char *meters__why(const struct meters *meters);
/* Of all functions, or only of those whose work is known? */
bool meters__all_functions(const struct meters *meters);

/* Looks for new threads of these processes, and for such as have ended. */
void meters__scan(struct meters *meters, struct tracer *tracer, const pid_t *pids, size_t count);

/* METER records: what is counted, or why not; once. */
void meters__describe(struct meters *meters, struct sink *sink);
/* METERED and METERED_PROCESS records: what was counted since the last time. */
void meters__report(struct meters *meters, struct tracer *tracer, struct sink *sink);

#endif
