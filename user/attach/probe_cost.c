// SPDX-License-Identifier: BSD-2-Clause
/* The cost of the probes in the table, and the HITS and BACKGROUND records. */
#include "attach/probes_internal.h"

struct hit_costs *probes__hit_costs(struct probes *probes)
{
	return &probes->hit_costs;
}

double probes_entry_ns(const struct probes *probes, size_t index)
{
	const struct placed *placed = &probes->placed[index];

	return hit_costs_entry_ns(&probes->hit_costs, &probes->plan->functions[index],
				  placed->entry_site.kind, placed->ret);
}

/* The cost of all hits of a function's exits so far, and their number. */
static double exits_cost_ns(const struct probes *probes, size_t index, uint64_t *hits_count)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct placed *placed = &probes->placed[index];
	double ns = 0;

	*hits_count = 0;
	for (size_t i = 0; i < placed->exits_count; i++) {
		uint64_t hits = tracer__hits(probes->tracer, placed->first_exit + (uint32_t)i);

		*hits_count += hits;
		ns += (double)hits *
		      hit_costs_exit_ns(&probes->hit_costs, function, function->site.exits[i].kind);
	}
	return ns;
}

void probes__measure_cost(struct probes *probes, double kept)
{
	for (size_t i = 0; i < probes->placed_count; i++) {
		struct placed *placed = &probes->placed[i];
		uint64_t entry_hits, exit_hits = 0;
		double exits_ns;

		if (!placed->attached || probes->plan->functions[i].role == PLAN_ALLOC_PROBE)
			continue;
		entry_hits = tracer__hits(probes->tracer, placed->entry);
		exits_ns = exits_cost_ns(probes, i, &exit_hits);
		placed->expense.entry_ns *= kept;
		placed->expense.exits_ns *= kept;
		placed->expense.entry_ns +=
			(double)(entry_hits - placed->expense.entry_hits_count) *
			probes_entry_ns(probes, i);
		if (exit_hits)
			placed->expense.exits_ns +=
				exits_ns * (double)(exit_hits - placed->expense.exit_hits_count) /
				(double)exit_hits;
		placed->expense.entry_hits_count = entry_hits;
		placed->expense.exit_hits_count = exit_hits;
	}
}

struct alloc_probe_cost probes__alloc_cost(const struct probes *probes, enum perfx_domain domain)
{
	const struct plan *plan = probes->plan;
	struct alloc_probe_cost cost = {0};

	for (size_t i = 0; i < probes->placed_count; i++) {
		const struct plan_function *function = &plan->functions[i];
		const struct placed *placed = &probes->placed[i];
		uint64_t hits, exit_hits;

		if (function->role != PLAN_ALLOC_PROBE || function->alloc_probe.domain != domain ||
		    !placed->entry)
			continue;
		hits = tracer__hits(probes->tracer, placed->entry);
		*(is_free(function) ? &cost.frees_count : &cost.allocations_count) += hits;
		cost.trap_ns +=
			(double)hits * calibration_entry_ns(probes->hit_costs.calibration,
							    placed->entry_site.kind, placed->ret);
		cost.cost_ns += (double)hits * probes_entry_ns(probes, i) +
				exits_cost_ns(probes, i, &exit_hits);
	}
	return cost;
}

/* Emits the hits of one probe since the last time. Returns all of its hits. */
static uint64_t report_hits(struct probes *probes, uint32_t probe, double cost_ns)
{
	uint64_t hits = tracer__hits(probes->tracer, probe);
	struct perfx_hits record = {
		.probe = probe, .hits_count = hits, .cost_ps = (uint64_t)(cost_ns * 1000)};

	/* a probe without this record was not hit */
	if (emitted_advance(&probes->hits_emitted, probe, &record.hits_count) > 0)
		SINK_PACK(probes->sink, &probes->buffer, PERFX_KIND_HITS, record);
	return hits;
}

uint64_t probes__report_hits(struct probes *probes)
{
	uint64_t entries = 0, ns[TRACER_BACKGROUNDS];

	for (enum tracer_background i = 0; i < TRACER_BACKGROUNDS; i++)
		ns[i] = (uint64_t)probes->hit_costs.background[i].spent_ns;
	if (emitted_advance(&probes->background_emitted, 0, ns) > 0)
		SINK_PACK(probes->sink, &probes->buffer, PERFX_KIND_BACKGROUND,
			  ((struct perfx_background){.samples_ns = ns[TRACER_SAMPLES],
						     .waits_ns = ns[TRACER_SWITCHES]}));
	for (size_t i = 0; i < probes->placed_count; i++) {
		const struct plan_function *function = &probes->plan->functions[i];
		const struct placed *placed = &probes->placed[i];
		const struct perfx_probe *entry;
		uint64_t hits;

		if (placed->old_entry)
			entries +=
				report_hits(probes, placed->old_entry, probes_entry_ns(probes, i));
		if (!placed->entry)
			continue;
		hits = report_hits(probes, placed->entry, probes_entry_ns(probes, i));
		entry = tracer__probe(probes->tracer, placed->entry);
		/* sites that were given up are INVALID and do not count, though they may have been
		 * hit before */
		if (entry->kind == PERFX_PROBE_COUNT || entry->kind == PERFX_PROBE_ENTRY ||
		    entry->kind == PERFX_PROBE_RETURN ||
		    (entry->kind == PERFX_PROBE_ANNOTATION &&
		     entry->condition == ANNOTATION_BEGINS))
			entries += hits;
		for (size_t k = 0; k < placed->exits_count; k++)
			report_hits(probes, placed->first_exit + (uint32_t)k,
				    hit_costs_exit_ns(&probes->hit_costs, function,
						      function->site.exits[k].kind));
	}
	return entries;
}
