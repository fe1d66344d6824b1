/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files behind probes.h share. */
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
	bool by_process; /* also when those have ended */
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

/* Gates of links that are being made: one for all processes, and one for each process, because a
 * process's links end with it. */
struct opening {
	uint32_t born, gate;
};

struct probes {
	const struct plan *plan;
	struct skipped_list *skipped;
	struct tracer *tracer;
	struct hit_costs hit_costs;
	struct sink *sink;
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
	size_t functions_count, sites_count, own_entries_count;
	size_t cost_programs_placed; /* of plan.costs: in the programs' table */
	uint64_t detached_count;
	struct emitted hits_emitted; /* by probe, in HITS records */
	bool workers_wanted;	     /* though the executor is attached that they work for */
	struct {
		bool allocations, frees;
	} wanted[PERFX_DOMAINS];  /* which allocation probes are attached */
	bool *allocators_emitted; /* their ALLOCATOR records are out; by index */
	size_t allocators_capacity;
	probes_wanted_fn *only; /* NULL: all; probes__only */
	bool counters_enabled, counters_all; /* probes__enable_counters */
};

static inline uint64_t site_offset(const struct plan_function *function, uint64_t vaddr)
{
	/* a function and its cold part lie in one segment: addresses and offsets move alike */
	return function->offset + (vaddr - function->vaddr);
}

/* probe_table.c: gives a function its entries in the programs' table; 0 or -ENOSPC. */
int probes_place(struct probes *probes, size_t function);
/* Its exits alone, with these PERFX_PROBE_F_ flags; once. */
int probes_place_exits(struct probes *probes, size_t function, uint8_t flags);
/* Their hits have no effect any more. */
void probes_drop_exits(struct probes *probes, size_t function);
/* From now on its calls are counted, not timed. */
void probes_only_count(struct probes *probes, size_t function);

/* What all hits of a function have cost so far. */
double probes_function_cost_ns(const struct probes *probes, size_t function);
/* FUNCTION (once) and PROBE records of a function that is attached. */
void probes_describe(struct probes *probes, size_t function);

/* budget.c: ALLOCATOR record of an allocation probe's allocator, once. */
void probes_emit_allocator(struct probes *probes, const struct plan_function *alloc_probe);
/* Is it to be attached now? */
bool probes_alloc_wanted(const struct probes *probes, const struct plan_function *alloc_probe);

/* probes.c: attaches what has become stale, for all processes that have its file. */
void probes_reattach(struct probes *probes);

/* budget.c: the groups of links that a function's exits and its entry belong to, 0: none of their
 * own. Chosen by default and expensive to time, the exits have one; possibly expensive to count,
 * the entry. Exits that are not expensive go with the entry. */
uint32_t probes_exits_group(const struct probes *probes, size_t function);
uint32_t probes_entry_group(const struct probes *probes, size_t function);
/* Before a function is attached for the first time: may its entry have a link of its own? */
void probes_decide_own_entry(struct probes *probes, size_t function);

#endif
