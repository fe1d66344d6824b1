/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Samples of the threads of traced processes, by the clock:
 *
 * - Threads that run: a perf event of each CPU calls a program in the interrupt of its timer.
 * - Threads that do not: rounds of an iterator over tasks, read by a thread of its own, because the
 *   memory of a traced process may have to be waited for. Its rounds keep a budget: the more
 *   threads there are, the fewer rounds.
 *
 * All come as SAMPLE records by the rings of memory records. Each has the time that it stands for,
 * so rates may change: where a recording goes on until its samples have shown very many different
 * stacks, which all are kept, both rates are halved each time.
 */
#ifndef PERFX_ATTACH_SAMPLER_H
#define PERFX_ATTACH_SAMPLER_H

#include "attach/tracer.h"
#include "decode/pack.h"

#include <linux/perf_event.h>
#include <stdint.h>

struct sampler;

/* Opens what there is on this machine; nothing is sampled before sampler__start. hz: of threads
 * that run; 0: none are taken at all. NULL: out of memory. */
struct sampler *sampler__new(struct tracer *tracer, struct sink *sink, uint64_t hz);
void sampler__free(struct sampler *sampler);

void sampler__start(struct sampler *sampler);
/* No sample is taken after this. */
void sampler__stop(struct sampler *sampler);

/* A round of the iterator that records the states of threads (a dump). 0 or -errno. */
int sampler__visit_threads(struct sampler *sampler);

/* Halves the rate of samples; note: for msg_reduced(). */
void sampler__thin(struct sampler *sampler, const char *note);
/* A SAMPLING record: how samples are taken, or why not. */
void sampler__describe(struct sampler *sampler);
/* Restarts the CPUs' timers when it is time, and lowers the rates where there are too many
 * different stacks. */
void sampler__tick(struct sampler *sampler);
/* Stacks are emitted and counted anew: older ones need not be kept. */
void sampler__renew(struct sampler *sampler);
/* LOSS records: samples that found no room since the last time. */
void sampler__report(struct sampler *sampler);

/* Attributes of a perf event that interrupts a CPU every interval_ns while it is not idle. The
 * event is not enabled yet. */
struct perf_event_attr cpu_clock_attr(uint64_t interval_ns);

#endif
