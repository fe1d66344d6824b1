// SPDX-License-Identifier: BSD-2-Clause
/* What is attached, as records of the stream. */
#include "attach/probes_internal.h"
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

static unsigned flags_of(const struct probes *probes, const struct plan_function *function)
{
	const char *step_range = probes->plan->options.step_range;
	bool is_step = step_range && !strcmp(step_range, function->name);

	return function->stream_flags | (is_step ? PERFX_FUNCTION_STEP : 0);
}

static void describe_function(struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct plan_module *module = &probes->plan->modules[function->module];
	struct perfx_function record = {.offset = function->offset,
					.function = probes->placed[index].id,
					.source = (uint16_t)function->source,
					.flags = (uint16_t)flags_of(probes, function)};
	SINK_PACK(probes->sink, &probes->buffer, PERFX_KIND_FUNCTION, record, function->name,
		  module->path, module->build_id);
}

static void describe_probe(struct probes *probes, uint32_t probe, size_t index, uint64_t offset,
			   enum site_kind site, bool is_exit)
{
	const struct plan_function *function = &probes->plan->functions[index];
	struct perfx_probe_record record = {
		.offset = offset,
		.cost_ps = (uint64_t)(calibration_hit_ns(probes->calibration, (enum perfx_site)site,
							 function->ret) *
				      1000),
		.probe = probe,
		.function = probes->placed[index].id,
		.link = function->ret == PERFX_RETURN_PROBE ? tracer__return_link(probes->tracer)
							    : tracer__hit_link(probes->tracer),
		.ret = function->ret,
		.site = (uint8_t)site,
		.is_exit = is_exit,
	};
	SINK_PACK(probes->sink, &probes->buffer, PERFX_KIND_PROBE, record);
	probes->sites_count++;
}

void probes_describe(struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	struct placed *placed = &probes->placed[index];

	if (function->is_alloc_probe)
		probes_emit_allocator(probes, function);
	if (!placed->described)
		describe_function(probes, index);
	else if (function->is_alloc_probe)
		return; /* attached anew */
	placed->described = true;
	describe_probe(probes, placed->entry, index,
		       site_offset(function, function->site.entry_vaddr), function->site.entry_kind,
		       false);
	if (function->ret != PERFX_RETURN_EXIT)
		return;
	for (size_t i = 0; i < placed->exits_count; i++)
		if (!at_entry(function, i))
			describe_probe(probes, placed->first_exit + (uint32_t)i, index,
				       site_offset(function, function->site.exits[i].vaddr),
				       function->site.exits[i].kind, true);
}

static bool was_called(const struct probes *probes, uint32_t function)
{
	uint32_t count;
	const struct perfx_context_node *nodes = tracer__contexts(probes->tracer, &count);

	for (uint32_t id = 1; id < count; id++)
		if (nodes[id].function == function)
			return true;
	return false;
}

void probes__skip_nameless(struct probes *probes)
{
	const struct plan *plan = probes->plan;

	for (size_t i = 0; i < probes->placed_capacity && i < plan->functions_count; i++) {
		const struct plan_function *function = &plan->functions[i];

		if (!function->is_annotation || function->source != PERFX_SOURCE_TORCH ||
		    function->annotation.action != PERFX_ANNOTATION_OPEN || !probes->placed[i].id ||
		    !was_called(probes, probes->placed[i].id))
			continue;
		plan__hint(probes->plan, "names of record_function",
			   "this PyTorch gives them to nothing that can be probed: from 2.0 on "
			   "they are seen");
		return;
	}
}

/* A site given up (INVALID) may have been hit before, and is none. */
static bool is_entry(const struct perfx_probe *probe)
{
	return probe->kind == PERFX_PROBE_COUNT || probe->kind == PERFX_PROBE_ENTRY ||
	       probe->kind == PERFX_PROBE_RETURN ||
	       (probe->kind == PERFX_PROBE_ANNOTATION && probe->condition == ANNOTATION_BEGINS);
}

uint64_t probes__report_hits(struct probes *probes)
{
	uint32_t count = tracer__probes_count(probes->tracer);
	double *costs = probes_hit_costs(probes, count);
	uint64_t entries = 0;

	if (grow_array(&probes->hits_emitted, &probes->hits_capacity, count,
		       sizeof(*probes->hits_emitted))) {
		free(costs);
		return 0;
	}
	for (uint32_t i = 1; i < count; i++) {
		uint64_t hits = tracer__hits(probes->tracer, i);
		struct perfx_hits record = {.probe = i,
					    .hits_count = hits - probes->hits_emitted[i]};

		if (is_entry(tracer__probe(probes->tracer, i)))
			entries += hits;
		/* a probe without this record was not hit */
		if (!record.hits_count)
			continue;
		record.cost_ps = costs ? (uint64_t)(costs[i] * 1000) : 0;
		SINK_PACK(probes->sink, &probes->buffer, PERFX_KIND_HITS, record);
		probes->hits_emitted[i] = hits;
	}
	free(costs);
	return entries;
}
