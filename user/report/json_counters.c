// SPDX-License-Identifier: BSD-2-Clause
/*
 * Perf events in the JSON report, as "perf_counters" ("counters" are the program's own). Of a
 * function those of its calls, on their own threads; of a process those of all threads. flops
 * stands beside estimated_flops, which the arguments say, of the same calls; difference is (counted
 * - estimated) / estimated.
 */
#include "analyze/perf_counters.h"
#include "report/json_output.h"

static void set_estimate(json_t *object, const struct flops_check *flops)
{
	if (!flops->known)
		return;
	json_object_set_new(object, "counted_flops", json_of_integer(flops->counted));
	json_object_set_new(object, "estimated_flops", json_of_integer(flops->estimated));
	json_object_set_new(object, "difference", json_real(flops_check_difference(flops)));
}

void json_set_counters(json_t *object, const struct profile *profile, const struct profile_row *row)
{
	const struct profile_call_counters *perf = row->perf;
	struct flops_check flops;
	json_t *counters;

	if (!perf)
		return;
	flops = flops_check_of_row(profile, row);
	counters = json_object();
	json_object_set_new(counters, "calls", json_of_integer(perf->calls_count));
	json_object_set_new(counters, "missed", json_of_integer(perf->missed_count));
	for (int i = 0; perf->calls_count && i < PERFX_PERF_COUNTERS; i++)
		if (profile->perf_counters[i].name)
			json_object_set_new(counters, profile->perf_counters[i].name,
					    json_of_integer(perf->values[i]));
	set_estimate(counters, &flops);
	json_object_set_new(object, "perf_counters", counters);
}

static json_t *counter_object(const struct profile_perf_counter *counter, uint64_t value,
			      const struct profile_process *process)
{
	json_t *object = json_object();

	json_object_set_new(object, "name", json_of_string(counter->name));
	json_object_set_new(object, "value", json_of_integer(value));
	json_object_set_new(object, "unit", json_of_string(counter->unit));
	json_object_set_new(object, "samples", json_of_integer(process->perf.threads_count));
	json_object_set_new(object, "counted_share", json_real(perf_share(&process->perf)));
	return object;
}

void json_put_counters(struct json_output *o, const struct profile *profile,
		       const struct profile_process *process)
{
	struct flops_check flops = flops_check_of_process(profile, process);

	if (!process->perf.threads_count)
		return;
	json_open(o, "perf_counters", '[');
	for (int i = 0; i < PERFX_PERF_COUNTERS; i++) {
		const struct profile_perf_counter *counter = &profile->perf_counters[i];
		json_t *object;

		if (!counter->name)
			continue;
		object = counter_object(counter, process->perf.values[i], process);
		if (counter->is_flops)
			set_estimate(object, &flops);
		json_put(o, NULL, object);
	}
	json_close(o, ']');
}
