/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How memory is recorded: which domains, exactly or by sample, and when that becomes too expensive
 * for what was not asked for.
 *
 * The default records framework blocks where there are any, otherwise a sample of the heap. Hits
 * are counted from the first moment. Where an exact domain costs more than STACKS_BUDGET_PERCENT,
 * few of its call stacks are followed; above MEMORY_BUDGET_PERCENT of predicted slowdown a domain
 * steps down:
 *
 *   as it was → a sample of the allocations, frees not seen → that for a part of the time → off
 *
 * each step with a message. A level that was asked for is kept.
 */
#ifndef PERFX_ATTACH_MEMORY_H
#define PERFX_ATTACH_MEMORY_H

#include "attach/probes.h"
#include "attach/tracer.h"
#include "decode/pack.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <stdint.h>

#define MEMORY_BUDGET_PERCENT 5
#define STACKS_BUDGET_PERCENT 2

struct memory;

struct memory_options {
	uint64_t sample_bytes; /* mean distance of samples */
	bool all_processes;    /* -a: the default leaves heaps alone */
};

/* Everything is borrowed and must outlive it; options are copied. */
struct memory *memory__new(const struct plan *plan, struct tracer *tracer, struct probes *probes,
			   struct sink *sink, const struct memory_options *options);
void memory__free(struct memory *memory);

/* The plan has grown: decides what is recorded, before the new files are attached. */
void memory__consider(struct memory *memory);
/* Tracing begins: from here on times count. */
void memory__start(struct memory *memory, uint64_t now_ns);
/* Every now and then. cpu_ns: what the traced processes have used so far, all together; UINT64_MAX:
 * unknown. */
void memory__enforce_budget(struct memory *memory, uint64_t now_ns, uint64_t cpu_ns);
/* Would memory__enforce_budget do something now? */
bool memory__due(const struct memory *memory, uint64_t now_ns);
/* Nothing was recorded in between. */
void memory__paused(struct memory *memory, uint64_t from_ns, uint64_t to_ns);
/* OVERFLOW_MEMORY records of what found no room since the last time. */
void memory__report(struct memory *memory);

/* "tensor (torch)", "host, sampled (libc)", …, or "" when memory is not recorded; malloc'd. */
char *memory__summary(const struct memory *memory);

#endif
