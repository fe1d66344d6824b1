/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files that implement probes.h. */
#ifndef PERFX_ATTACH_PROBES_INTERNAL_H
#define PERFX_ATTACH_PROBES_INTERNAL_H

#include "attach/placed.h"
#include "attach/probes.h"
#include "base/emitted.h"
#include "decode/pack.h"

/* In the condition of a marking function's entry probe: its hits begin ranges. */
#define ANNOTATION_BEGINS 1

/* The processes for which a file is attached. */
struct attachment {
	bool all_processes;
	bool by_process;    /* also when those have ended */
	bool outdated;	    /* probes of it have been given up: its links are to be made anew */
	uint64_t opened_ns; /* probes__opened_ns */
	struct attached_process {
		uint32_t born; /* its first process index; 0: all processes */
		pid_t pid;
	} * processes;
	size_t processes_count, processes_capacity;
};

/* Processes for which functions of a file could not be attached, and why. */
struct failure {
	size_t module;
	int err;
	size_t functions_count; /* at most, of one process */
	size_t processes_count;
	pid_t pids[4]; /* the first of them */
};

/* Gates of links that are being made: for each file, because its links may be made anew, and for
 * all processes or for each, because a process's links end with it. Links of groups come and go by
 * themselves: they have a gate of their own. */
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
	struct placed
		*placed; /* by function index; those planned since the last attaching have none */
	size_t placed_count, placed_capacity;
	struct attachment *attachments; /* by module index */
	size_t attachments_capacity;
	struct failure *failures;
	size_t failures_count, failures_capacity;
	struct opening *openings;
	size_t openings_count, openings_capacity;
	size_t functions_count, sites_count;
	size_t cost_programs_placed; /* of plan.costs: in the programs' table */
	uint64_t detached_count;
	struct emitted hits_emitted; /* by probe, in HITS records */
	struct emitted background_emitted;
	bool workers_wanted; /* though the executor is attached that they work for */
	struct {
		bool allocations, frees;
	} wanted[PERFX_DOMAINS];  /* which allocation probes are attached */
	bool *allocators_emitted; /* their ALLOCATOR records are out; by index */
	size_t allocators_capacity;
	bool steps_end_by_range;
	probes_wanted_fn *only;		     /* NULL: all; probes__only */
	bool counters_enabled, counters_all; /* probes__enable_counters */
};

static inline uint64_t site_offset(const struct plan_function *function, uint64_t vaddr)
{
	/* a function and its cold part lie in one segment: addresses and offsets move alike */
	return function->offset + (vaddr - function->vaddr);
}

/* Behind the functions of a module that have been matched to the plan. */
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

/* probe_table.c, what is placed: gives a function its entries in the programs' table; 0 or
 * -ENOSPC. */
int probes_place(struct probes *probes, size_t function);
/* Its exits alone, with these PERFX_PROBE_F_ flags; once. */
int probes_place_exits(struct probes *probes, size_t function, uint8_t flags);
/* Their hits have no effect any more. */
void probes_drop_exits(struct probes *probes, size_t function);
/* From now on its calls are counted, not timed. */
void probes_only_count(struct probes *probes, size_t function);
/* A function that is only counted: so it is from the next hit on. */
void probes_refresh_entry(struct probes *probes, size_t function);
/* Do its calls keep their FLOPs where they are only counted? */
bool probes_is_leaf(const struct probes *probes, const struct placed *placed);
/* The groups of links that a function's exits and its entry belong to, 0: none; that of a domain's
 * allocation probes. */
uint32_t probes_exits_group(const struct probes *probes, size_t function);
uint32_t probes_entry_group(const struct probes *probes, size_t function);
uint32_t probes_alloc_group(enum perfx_domain domain, bool frees);
/* Is an allocation probe to be attached now? */
bool probes_alloc_wanted(const struct probes *probes, const struct plan_function *alloc_probe);
/* FUNCTION (once) and PROBE records of a function that is attached, ALLOCATOR of its allocator. */
void probes_describe(struct probes *probes, size_t function);

/* probes.c, on top of that table: attaches what has become stale, for all processes that have its
 * file; the latter of one file, behind a gate that is still closed. */
void probes_reattach(struct probes *probes);
void probes_reattach_module(struct probes *probes, size_t module);
/* A module's links of no group are to be made anew: they go through one gate. */
void probes_age_ungrouped(struct probes *probes, size_t module);

/* probe_cost.c, what it costs: a hit at a function's entry, with its return where that is
 * probed. */
double probes_entry_ns(const struct probes *probes, size_t function);

/* budget.c, what is decided, calls all three. */

#endif
