/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How memory is recorded: which domains, exactly or by sample, and when that becomes too expensive
 * for what was not asked for.
 *
 * The default records framework blocks where there are any, otherwise a sample of the heap. Hits
 * are counted from the first moment. Where the budget is exceeded (session/budget.h), a domain
 * steps down, to the first of these that is expected to be cheap enough:
 *
 *   as it was → few call stacks → frees inferred (where every block was recorded) → a sample of the
 *   allocations, frees not seen → that for a part of the time → off
 *
 * with a message. The first two lose least, and are taken at a part of the budget.
 */
#ifndef PERFX_ATTACH_MEMORY_H
#define PERFX_ATTACH_MEMORY_H

#include "attach/probes.h"
#include "attach/tracer.h"
#include "decode/pack.h"
#include "plan/plan.h"
#include "proc/growth.h"

#include <stdbool.h>
#include <stdint.h>

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
/* At each tick: what is recorded for a part of the time is turned on and off. */
void memory__tick(struct memory *memory, uint64_t now_ns);
/* Do allocations show, at what is recorded now, where memory stays? */
bool memory__places_leaks(const struct memory *memory);
/* Where memory of the program grows, such allocations are worth more than other details; where it
 * may grow, none are given up before it is known. */
void memory__note_growth(struct memory *memory, enum growth growth);
/* For the budget, as probes__measure_cost and probes__add_expenses; `index` is the domain. most_ns:
 * what allocations of memory that may grow cost at most, or they are given up before that is known.
 */
void memory__measure_cost(struct memory *memory, uint64_t now_ns, double kept);
void memory__add_expenses(const struct memory *memory, bool everything, double most_ns,
			  struct expenses *expenses);
/* Reduces a domain: by as many steps as it takes to cost no more than allowed_ns. Costs are those
 * in the window, of which limit_ns is the limit's share. */
void memory__reduce(struct memory *memory, enum perfx_domain domain, double limit_ns,
		    double allowed_ns, bool everything);
/* A domain whose frees cost more than they are worth, so that they are left out whatever the rest
 * costs; PERFX_DOMAINS: there is none. */
enum perfx_domain memory__costly_frees(const struct memory *memory, bool everything,
				       double limit_ns);
/* Nothing was recorded in between. */
void memory__paused(struct memory *memory, uint64_t from_ns, uint64_t to_ns);
/* OVERFLOW_MEMORY records of what found no room since the last time. */
void memory__report(struct memory *memory);

/* "tensor (torch)", "host, sampled (libc)", …, or "" when memory is not recorded; malloc'd. */
char *memory__summary(const struct memory *memory);

#endif
