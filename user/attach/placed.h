/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A planned function as it is attached. What the plan has chosen stands until the kernel, a process
 * that arrives, the depth of its calls or the budget shows that it does not hold: then it is
 * changed here, and the plan stays as it is.
 */
#ifndef PERFX_ATTACH_PLACED_H
#define PERFX_ATTACH_PLACED_H

#include "attach/probes.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct placed {
	uint32_t id;	/* the function's; 0: none yet */
	bool described; /* its FUNCTION record is out */
	bool attached;
	bool stale;	   /* was attached in a way that is no longer trusted */
	bool only_counted; /* by the budget: it was too expensive to time */
	bool given_up;	   /* likewise: to attach */
	bool stays;	   /* where the rest is not attached yet, or not any more */
	bool nests; /* deeper than return probes may: exits have been attached beside its entry,
		       which stays where it is */
	enum worth worth;
	bool ends_steps;				    /* its calls' ends are the steps' */
	bool is_nested;					    /* probes__find_nested */
	struct {					    /* the budget's */
		uint64_t entry_hits_count, exit_hits_count; /* when they were measured last */
		double entry_ns, exits_ns;		    /* in the window */
		const char *now; /* new state, not yet in a message; else NULL */
		bool by_limit;	 /* reduced for --max-overhead */
	} expense;
	uint32_t entry;	    /* probe index; 0: none yet */
	uint32_t old_entry; /* probe index before return probes were distrusted; 0: none */
	uint32_t rule;	    /* of an allocation probe or a mark: in the programs' table */
	uint32_t first_exit;
	size_t exits_count;
	/* The choices; as in the plan at first. */
	enum perfx_return ret;
	bool relies_on_c;  /* by return probe only because nothing unwinds so far */
	bool exits_failed; /* one of them could not be probed */
	struct {
		uint64_t vaddr;
		enum site_kind kind;
		bool is_exit, repeats; /* entry_is_exit, entry_repeats of site_plan */
	} entry_site;
	uint32_t cost_program;
	uint8_t object_arg, event_arg;
};

/* As planned, by the processes seen so far. */
void placed_begin(struct placed *placed, const struct plan *plan,
		  const struct plan_function *function);

/* The kernel refused the entry sites in options: moves the entry to the next safe one, and gives up
 * the function's cost, whose program reads arguments where the first site had them. False: there is
 * none. */
bool placed_move_entry(struct placed *placed, const struct plan_function *function,
		       struct image *image, const struct site_options *options);

/* From now on it is not timed by return probe but at its exits. Returns whether it may be: it is
 * not so already, all its exits are known, and return probes were not asked for. */
bool placed_prefer_exits(struct placed *placed, const struct plan *plan,
			 const struct plan_function *function);
/* Goes back to the return probe: an exit could not be probed. */
void placed_doubt_exits(struct placed *placed);

/* Something unwinds now: what relied on C alone is timed as the plan has it for any process. */
void placed_distrust_returns(struct placed *placed, const struct plan_function *function);

/* An exit site on the entry's instruction is the entry probe's business. */
static inline bool placed_enters_at(const struct placed *placed, const struct exit_site *exit)
{
	return exit->vaddr == placed->entry_site.vaddr;
}

#endif
