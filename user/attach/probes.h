/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From plan to kernel: puts the plan's sites into the tracer's tables, attaches them file by file,
 * and describes functions and probes to the stream. Knows which file is attached for which
 * processes.
 */
#ifndef PERFX_ATTACH_PROBES_H
#define PERFX_ATTACH_PROBES_H

#include "attach/hit_cost.h"
#include "attach/tracer.h"
#include "decode/pack.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct probes;

/* All are borrowed, and must outlive the probes. */
struct probes_parts {
	const struct plan *plan;
	struct skipped_list *skipped; /* what cannot be attached is added to it */
	struct tracer *tracer;
	const struct calibration *calibration;
	struct sink *sink;
	bool adopts; /* -a: a call of a function of an ML file starts tracing its process */
};

struct probes *probes__new(const struct probes_parts *parts);
void probes__free(struct probes *probes);
/* From here on calls are marked F_PERF: all, or those whose work is known. */
void probes__enable_counters(struct probes *probes, bool all);

/* Until probes__attach_rest only these functions are attached, and nothing for memory. Each of them
 * has links of its own, whose groups are PROBES_KEPT and up. */
#define PROBES_KEPT 0xc0000000u
typedef bool probes_wanted_fn(const struct plan *plan, const struct plan_function *function);
void probes__only(struct probes *probes, probes_wanted_fn *wanted);
void probes__attach_rest(struct probes *probes);

/* Attaches module (index in the plan) for a process. It is known by its first process index,
 * for its pid may have another owner one day. A file that only traced processes map gets one link
 * for all processes, which forked children hit from their first instruction; others get a link a
 * process. all_processes: one link in any case (-a). Returns whether the link is for all. Hits have
 * no effect before probes__open. */
bool probes__attach(struct probes *probes, size_t module, uint32_t born, pid_t pid,
		    bool all_processes);
/* Hits of probes that were attached since the last call are counted from this moment on. */
void probes__open(struct probes *probes);
/* A process has ended: removes its own links, without waiting until they are closed. */
void probes__release(struct probes *probes, uint32_t born);
/* Is it known how this module is to be attached: for all processes, or for each? */
bool probes__decided(const struct probes *probes, size_t module);
/* Removes all that is attached in a module; it may be attached anew. */
void probes__drop(struct probes *probes, size_t module);
/* The same, but all that is attached has its effect until the next probes__open, when what is
 * attached anew until then takes over: no call is lost. */
void probes__renew(struct probes *probes, size_t module);
/* The time (CLOCK_MONOTONIC) at which hits in a module began to count for all processes, or for the
 * process that was last to get links of its own; 0: not yet. */
uint64_t probes__opened_ns(const struct probes *probes, size_t module);
/* How many of a module's functions are attached for some process, those for memory too. */
size_t probes__attached_count(const struct probes *probes, size_t module);
/* Is it attached for this process, by a link of its own or one for all processes? */
bool probes__attached_for(const struct probes *probes, size_t module, uint32_t born);
/* Has a file links by process, so that a forked child has none as it begins? */
bool probes__go_by_process(const struct probes *probes);

/* The plan no longer trusts return probes: gives them back and attaches anew what changed. */
void probes__distrust_returns(struct probes *probes);

/* Functions whose calls turn out to nest deeper than return probes may are timed at their exits
 * from now on, where these are known. Each with a message. */
void probes__time_deep_calls_at_exits(struct probes *probes);

size_t probes__functions_count(const struct probes *probes); /* attached, not for memory */
size_t probes__sites_count(const struct probes *probes);     /* probes, entry and exit */

/* The worth of a probe to the report. The budget gives up the first of these first. */
enum worth {
	WORTH_DETAIL, /* one row of a table */
	WORTH_FLOPS,  /* FLOPs of steps */
	WORTH_PHASES, /* phases of steps: annotations */
	WORTH_GROWTH, /* where memory that grows is allocated */
	WORTH_WAITS,  /* samples and waits, on which the account of time rests */
	WORTH_STEPS,  /* steps: what they may be found by */
	WORTH_STEP_ENDS,
};
#define WORTHS (WORTH_STEP_ENDS + 1)

/* Something that the budget can reduce, and its cost in the budget's window. */
struct expense {
	enum { EXPENSE_FUNCTION, EXPENSE_MEMORY, EXPENSE_BACKGROUND } of;
	size_t index; /* of the plan's function; the domain; enum tracer_background */
	double ns;
};

struct expenses {
	double all_ns;		     /* with the cost that cannot be reduced */
	double deferred_ns;	     /* of that: nothing is reduced for it yet */
	double ns[WORTHS];	     /* that can be */
	struct expense most[WORTHS]; /* the most expensive of each worth */
};

void expenses_add(struct expenses *expenses, enum worth worth, struct expense expense);

/* For the budget (session/budget.h). Adds the cost since it was measured last to the window, of
 * whose earlier cost this share is kept. */
void probes__measure_cost(struct probes *probes, double kept);
/* Finds the functions that cost FLOPs nothing, because all of their calls were made inside calls
 * with known FLOPs. */
void probes__find_nested(struct probes *probes);
/* everything: functions that the user has named count, and can be reduced, too. */
void probes__add_expenses(const struct probes *probes, bool everything, struct expenses *expenses);
/* Reduces a function: it is counted and no longer timed, then not traced. */
void probes__reduce(struct probes *probes, size_t function, bool everything);
/* Makes all reductions since the last call take effect, each with a message. */
void probes__apply_reductions(struct probes *probes);
/* Ranges end the steps: the calls that may end them elsewhere (backward passes) are phases here. */
void probes__steps_end_by_range(struct probes *probes);
uint64_t probes__detached_count(const struct probes *probes); /* probes given up */

/* The costs of hits, as seen in the traced processes. */
struct hit_costs *probes__hit_costs(struct probes *probes);
/* Which of a domain's allocation probes are attached, from now on. */
void probes__want_alloc(struct probes *probes, enum perfx_domain domain, bool allocations,
			bool frees);
/* Hits of a domain's allocation probes so far and what they cost, by calibration. */
struct alloc_probe_cost {
	uint64_t allocations_count, frees_count; /* hits */
	double cost_ns;
	double trap_ns; /* of that: without stacks and tables */
};
struct alloc_probe_cost probes__alloc_cost(const struct probes *probes, enum perfx_domain domain);

/* Adds to the skipped functions what was seen of PyTorch's ranges without their names. */
void probes__skip_nameless(struct probes *probes);
/* Adds what could not be attached for single processes. */
void probes__skip_failed(struct probes *probes);
/* HITS and BACKGROUND records: those since the last time. Returns the hits of entries, all of them.
 */
uint64_t probes__report_hits(struct probes *probes);

/* Thunks cannot be read, so they do not measure their kernels: attaches and counts the kernels. */
void probes__want_workers(struct probes *probes);

/* The function with an id; NULL: it is not attached. */
const struct plan_function *probes__function(const struct probes *probes, uint32_t id);

#endif
