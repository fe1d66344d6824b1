/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The overhead budget: one limit for the cost of function probes, allocation probes, samples and
 * time off the CPU, as a share of the program's own CPU time. At first every 20 ms, later every
 * quarter of a second, the budget compares that cost with the limit. A short burst is paid from
 * credit. When that is used up, the most expensive of what is worth least is reduced, with a
 * message, until the rest is within the limit. While memory grows (proc/growth.h), the allocations
 * that show where are worth more than functions, and functions go for them:
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

#include <stdint.h>

#define BUDGET_PERCENT 5.0

/*
 * A budget keeps the cost of the whole recording within the limit. The window is the time since the
 * probes changed last, or the last second. Credit is the cost that the limit allows for the
 * recording so far, less what was spent: a short burst is paid from it. Debt is paid back over the
 * rest of the recording, so that the cost of all of it is within the limit.
 */
struct pace {
	double limit_percent;
	double busy_ns, wall_ns, spent_ns; /* in the window */
	double credit_ns;
};

void pace_begin(struct pace *pace, double limit_percent);
/* The program's CPU time since the last call and the part of it that tracing took. kept: the share
 * of the window that still counts. */
void pace_add(struct pace *pace, double kept, uint64_t wall_ns, double busy_ns, double spent_ns);
/* The program's CPU time in the window, of which the limit is a share: that of a program that
 * hardly runs is not counted in nanoseconds. */
double pace_busy_ns(const struct pace *pace);
/* The cost that is allowed in the window; HUGE_VAL: there is credit. rest_ns: how long the
 * recording will go on, HUGE_VAL: not known. */
double pace_allowed_ns(const struct pace *pace, double rest_ns);

/* Anything cheaper is not reduced. */
struct budget_least {
	double ns[WORTHS];
};

/* The expense to be reduced next; NULL: the cost is allowed, or the rest is too cheap to be
 * reduced. Something is reduced only if what is worth less cannot save enough. */
const struct expense *budget_choose(const struct expenses *expenses, double allowed_ns,
				    struct budget_least least);

#endif
