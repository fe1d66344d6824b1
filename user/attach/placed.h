/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of a planned function's probes. The plan is immutable; its choices change here if the
 * kernel, a new process, the depth of calls or the budget requires it. */
#ifndef PERFX_ATTACH_PLACED_H
#define PERFX_ATTACH_PLACED_H

#include "attach/probes.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct placed {
	uint32_t id;	/* function index in records; 0: none yet */
	bool described; /* its FUNCTION record has been emitted */
	bool attached;
	bool stale;	   /* attached in a way that proved unreliable */
	bool only_counted; /* by the budget: timing it was too expensive */
	bool given_up;	   /* by the budget: attaching it was too expensive */
	bool stays;	   /* attached even while probes__only excludes other functions */
	bool nests; /* calls nested deeper than return probes allow: exits are attached beside the
		       entry, which stays */
	enum worth worth;
	bool ends_steps; /* the ends of its calls are ends of steps */
	bool is_nested;	 /* found by probes__find_nested */
	struct {	 /* used by the budget */
		uint64_t entry_hits_count, exit_hits_count; /* time of their last measurement */
		double entry_ns, exits_ns;		    /* in the current window */
		const char *now; /* new state that no message has reported yet; else NULL */
		bool by_limit;	 /* reduced for --max-overhead */
	} expense;
	uint32_t entry;	    /* probe index; 0: none yet */
	uint32_t old_entry; /* probe index before return probes were replaced; 0: none */
	uint32_t rule;	    /* index of an allocation probe or annotation in the programs' table */
	uint32_t first_exit;
	size_t exits_count;
	/* The choices; initially those of the plan. */
	enum perfx_return ret;
	bool relies_on_c;  /* by return probe only because no code unwinds through it so far */
	bool exits_failed; /* one of its exits could not be probed */
	struct {
		uint64_t vaddr;
		enum site_kind kind;
		bool is_exit, repeats; /* entry_is_exit, entry_repeats of site_plan */
	} entry_site;
	uint32_t cost_program;
	uint8_t object_arg, event_arg;
};

/* As planned for the processes seen so far. */
void placed_begin(struct placed *placed, const struct plan *plan,
		  const struct plan_function *function);

/* The kernel has refused the entry sites in options: moves the entry to the next safe one, and
 * drops the function's cost program, which reads arguments at the first site. False: no safe site
 * is left. */
bool placed_move_entry(struct placed *placed, const struct plan_function *function,
		       struct image *image, const struct site_options *options);

/* Times it at its exits from now on instead of by return probe. Returns whether it changed: false
 * if it is timed at exits already, an exit is unknown, or the user asked for return probes. */
bool placed_prefer_exits(struct placed *placed, const struct plan *plan,
			 const struct plan_function *function);
/* Returns to the return probe: an exit could not be probed. */
void placed_doubt_exits(struct placed *placed);

/* A library that unwinds has been mapped: functions that were timed as pure C now follow the plan
 * for any process. */
void placed_distrust_returns(struct placed *placed, const struct plan_function *function);

/* An exit on the entry's instruction is handled by the entry probe. */
static inline bool placed_enters_at(const struct placed *placed, const struct exit_site *exit)
{
	return exit->vaddr == placed->entry_site.vaddr;
}

#endif
