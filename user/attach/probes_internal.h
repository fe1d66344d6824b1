/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files that implement probes.h. */
#ifndef PERFX_ATTACH_PROBES_INTERNAL_H
#define PERFX_ATTACH_PROBES_INTERNAL_H

#include "attach/placed.h"
#include "attach/probes.h"
#include "base/emitted.h"
#include "decode/pack.h"

/* In the condition of an annotation function's entry probe: its hits begin ranges. */
#define ANNOTATION_BEGINS 1

/* The processes for which a file is attached. */
struct attachment {
	bool all_processes;
	bool by_process;    /* ended processes included */
	bool outdated;	    /* some of its probes were removed: its links must be made again */
	uint64_t opened_ns; /* probes__opened_ns */
	struct attached_process {
		uint32_t born; /* first index of the process; 0: all processes */
		pid_t pid;
	} * processes;
	size_t processes_count, processes_capacity;
};

/* Processes for which functions of a file could not be attached, and the reasons. */
struct failure {
	size_t module;
	int err;
	size_t functions_count; /* at most so many of one process */
	size_t processes_count;
	pid_t pids[4]; /* the first of them */
};

/* Gates of links that are being made: one for each file, because its links may be made again, and
 * for all processes or for each one, because a process's links end with it. Links of groups come
 * and go independently and have gates of their own. */
struct opening {
	size_t module;
	uint32_t born, gate;
	bool of_groups;
};

struct probes {
	const struct plan *plan;
	struct skipped_list *skipped;
	struct tracer *tracer;
	struct hit_costs hit_costs;
	struct sink *sink;
	bool adopts;
	struct pack_buffer buffer;
	struct placed *placed; /* by function index; functions planned since the last attaching have
				  no entry yet */
	size_t placed_count, placed_capacity;
	struct attachment *attachments; /* by module index */
	size_t attachments_capacity;
	struct failure *failures;
	size_t failures_count, failures_capacity;
	struct opening *openings;
	size_t openings_count, openings_capacity;
	size_t functions_count, sites_count;
	size_t cost_programs_placed; /* of plan.costs: entered into the programs' table */
	uint64_t detached_count;
	struct emitted hits_emitted; /* by probe, as in HITS records */
	struct emitted background_emitted;
	bool workers_wanted; /* although the executor for which they work is attached */
	struct {
		bool allocations, frees;
	} wanted[PERFX_DOMAINS];  /* bits of attached allocation probes */
	bool *allocators_emitted; /* by index: its ALLOCATOR record has been emitted */
	size_t allocators_capacity;
	bool steps_end_by_range;
	probes_wanted_fn *only;		     /* set by probes__only; NULL: all */
	bool counters_enabled, counters_all; /* set by probes__enable_counters */
};

static inline uint64_t site_offset(const struct plan_function *function, uint64_t vaddr)
{
	/* a function and its cold part lie in one segment: addresses and offsets differ by the same
	 * amount */
	return function->offset + (vaddr - function->vaddr);
}

/* After the functions of a module that have been matched to the plan. */
static inline size_t placed_end(const struct probes *probes, size_t module)
{
	const struct plan_module *planned = &probes->plan->modules[module];
	size_t end = planned->functions_first + planned->functions_count;

	return end < probes->placed_count ? end : probes->placed_count;
}

/* Walks over a module's functions by their index. */
#define FOR_EACH_PLACED(index, probes, module)                               \
	for (size_t index = (probes)->plan->modules[module].functions_first; \
	     index < placed_end((probes), (module)); index++)

/* Each offset has a link of its own. */
static inline bool has_own_links(const struct probes *probes)
{
	return tracer__hit_link(probes->tracer) == PERFX_LINK_SINGLE;
}

static inline bool is_free(const struct plan_function *alloc_probe)
{
	return alloc_probe->alloc_probe.action == PERFX_ACTION_FREE ||
	       alloc_probe->alloc_probe.action == PERFX_ACTION_UNMAP;
}

/* probe_table.c, the placed probes: gives a function its entries in the programs' table. 0 or
 * -ENOSPC. */
int probes_place(struct probes *probes, size_t function);
/* Enters its exits alone, with these PERFX_PROBE_F_ flags; only once. */
int probes_place_exits(struct probes *probes, size_t function, uint8_t flags);
/* Makes the function's hits have no effect. */
void probes_drop_exits(struct probes *probes, size_t function);
/* Counts the function's calls from now on instead of timing them. */
void probes_only_count(struct probes *probes, size_t function);
/* Applies the state of a function that is only counted from the next hit on. */
void probes_refresh_entry(struct probes *probes, size_t function);
/* Does the function keep its FLOPs when its calls are only counted? */
bool probes_is_leaf(const struct probes *probes, const struct placed *placed);
/* The groups of links of a function's exits and entry, 0: none; the group of a domain's allocation
 * probes. */
uint32_t probes_exits_group(const struct probes *probes, size_t function);
uint32_t probes_entry_group(const struct probes *probes, size_t function);
uint32_t probes_alloc_group(enum perfx_domain domain, bool frees);
/* Is an allocation probe wanted now? */
bool probes_alloc_wanted(const struct probes *probes, const struct plan_function *alloc_probe);
/* Emits FUNCTION (once) and PROBE records of an attached function, and ALLOCATOR of its allocator.
 */
void probes_describe(struct probes *probes, size_t function);

/* probes.c, above that table: attaches stale functions again, for all processes that map their
 * file; or those of one file, behind a gate that is still closed. */
void probes_reattach(struct probes *probes);
void probes_reattach_module(struct probes *probes, size_t module);
/* Marks the links of a module outside of groups, which share a gate, to be made again. */
void probes_age_ungrouped(struct probes *probes, size_t module);

/* probe_cost.c, the cost: of a hit at a function's entry, with its return if that is probed. */
double probes_entry_ns(const struct probes *probes, size_t function);

/* budget.c decides, and calls all three. */

#endif
