// SPDX-License-Identifier: BSD-2-Clause
#include "export/steps.h"

#include <stdlib.h>

struct export_steps {
	const struct profile *profile;
	bool *ends; /* by function: of some process */
	struct {
		uint64_t count, last_ns;
	} * processes; /* by place */
};

struct export_steps *export_steps__new(const struct profile *profile)
{
	struct export_steps *steps = calloc(1, sizeof(*steps));

	if (!steps)
		return NULL;
	steps->profile = profile;
	steps->ends = calloc(profile->functions_count + 1, sizeof(*steps->ends));
	steps->processes = calloc(profile->processes_count + 1, sizeof(*steps->processes));
	if (!steps->ends || !steps->processes) {
		export_steps__free(steps);
		return NULL;
	}
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_steps *of = &profile->processes[i].steps;

		if (of->count && profile_function(profile, of->function))
			steps->ends[of->function] = true;
	}
	return steps;
}

void export_steps__free(struct export_steps *steps)
{
	if (!steps)
		return;
	free(steps->ends);
	free(steps->processes);
	free(steps);
}

static bool is_of(const struct profile_process *process, const struct perfx_span *span)
{
	return process->index == span->process && process->steps.count &&
	       process->steps.function == span->function && process->steps.tid == span->tid;
}

bool export_steps__ends(struct export_steps *steps, const struct perfx_span *span,
			struct export_step *step)
{
	const struct profile *profile = steps->profile;
	uint64_t end_ns = span->start_ns + span->duration_ns;
	size_t i = 0;

	if (span->function > profile->functions_count || !steps->ends[span->function] ||
	    (span->flags & (PERFX_SPAN_UNWOUND | PERFX_SPAN_UNTIMED)) || end_ns < span->start_ns)
		return false;
	while (i < profile->processes_count && !is_of(&profile->processes[i], span))
		i++;
	if (i == profile->processes_count)
		return false;
	step->place = i;
	step->from_ns = steps->processes[i].count ? steps->processes[i].last_ns
						  : profile->processes[i].steps.series->from_ns;
	step->to_ns = end_ns > step->from_ns ? end_ns : step->from_ns;
	step->number = ++steps->processes[i].count;
	steps->processes[i].last_ns = step->to_ns;
	return true;
}
