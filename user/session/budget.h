/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The overhead budget: one for all that the tracer does to the program. Every quarter of a second
 * it is looked what hits of function probes and of allocation probes, samples and time off the CPU
 * have cost since. As long as that is more than the budget allows, what costs most steps down, with
 * a message:
 *
 *	functions	timed → counted → not traced		(attach/budget.c)
 *	memory		exact → few stacks → frees inferred → sampled → off
 *								(attach/memory.h)
 *	samples		half as many, and half of these …
 *	off the CPU	left out
 *
 * The default budget is for what was not asked for: the default functions and allocators. One that
 * the user has given (--max-overhead) is for everything.
 */
#ifndef PERFX_SESSION_BUDGET_H
#define PERFX_SESSION_BUDGET_H

#include "attach/memory.h"
#include "attach/probes.h"
#include "attach/sampler.h"
#include "session/process_table.h"
#include "session/waits.h"

#include <stdint.h>

#define BUDGET_PERCENT 5.0

struct budget;

/* All borrowed. */
struct budget_parts {
	struct probes *probes;
	struct memory *memory;
	struct sampler *sampler;
	struct tracer *tracer;
	struct waits *waits; /* NULL: time off the CPU is not recorded */
	const struct process_table *processes;
	struct skipped_list *skipped;
	double max_percent; /* 0: BUDGET_PERCENT, of what was not asked for; HUGE_VAL: no limit */
};

/* What a share of the time is in percent of what the program would have taken without it. */
double budget_slowdown_percent(double spent_ns, double busy_ns);

struct budget *budget__new(const struct budget_parts *parts);
void budget__free(struct budget *budget);
/* Times count from here on. */
void budget__start(struct budget *budget, uint64_t now_ns);
void budget__tick(struct budget *budget, uint64_t now_ns);

#endif
