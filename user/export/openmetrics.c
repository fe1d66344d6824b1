// SPDX-License-Identifier: BSD-2-Clause
/*
 * OpenMetrics text, for Prometheus and what reads the same. The functions with most self time have
 * series of their own; the rest of a process is one, named "other", so that a capture makes so many
 * series and no more.
 */
#include "base/grow.h"
#include "decode/names.h"
#include "export/formats.h"
#include "export/metrics.h"

#include <math.h>

#define FUNCTIONS_MAX 200 /* of a process */
#define VALUES_MAX    200

/* PROFILE_ABSENT: not measured. */
static uint64_t row_value(const struct profile_row *row, enum metric metric)
{
	if (metric == METRIC_FUNCTION_CALLS)
		return row->calls_count;
	if (!row->timed_count)
		return PROFILE_ABSENT;
	return metric == METRIC_FUNCTION_SELF ? row->self_ns : row->total_ns;
}

static void put_function(struct metrics *metrics, const struct profile *profile,
			 const struct profile_process *process, const struct profile_row *row)
{
	const struct profile_function *function = profile_function(profile, row->function);
	uint64_t value = row_value(row, metrics->metric);
	char offset[32];

	if (value == PROFILE_ABSENT || !function)
		return;
	snprintf(offset, sizeof(offset), "0x%llx", (unsigned long long)function->offset);
	metrics_begin_process(metrics, process);
	metrics_foreign(metrics, "module", function->module);
	metrics_foreign(metrics, "function", export_label(function));
	metrics_label(metrics, "offset", offset);
	metrics_label(metrics, "source", name_of_source(function->source));
	metrics_value(metrics, value);
}

static void put_functions(struct metrics *metrics, const struct profile *profile)
{
	FOR_EACH (process, profile->processes) {
		uint64_t rest = 0;

		for (size_t j = 0; j < process->rows_count; j++) {
			uint64_t value = row_value(&process->rows[j], metrics->metric);

			if (j < FUNCTIONS_MAX)
				put_function(metrics, profile, process, &process->rows[j]);
			else if (value != PROFILE_ABSENT)
				rest += value;
		}
		if (process->rows_count <= FUNCTIONS_MAX)
			continue;
		metrics_begin_process(metrics, process);
		metrics_label(metrics, "module", "");
		metrics_label(metrics, "function", "other");
		metrics_value(metrics, rest);
	}
}

static void put_cpu(struct metrics *metrics, const struct profile_process *process)
{
	metrics_process(metrics, process, "mode", "user", process->cpu_user_ns);
	metrics_process(metrics, process, "mode", "system", process->cpu_system_ns);
}

static void put_resident(struct metrics *metrics, const struct profile_process *process)
{
	metrics_process(metrics, process, NULL, NULL, process->rss_bytes);
}

static void put_gpu_energy(struct metrics *metrics, const struct profile_process *process)
{
	if (process->energy.gpu_mj == PROFILE_ABSENT)
		return;
	metrics_begin_process(metrics, process);
	metrics_label(metrics, "estimated", process->energy.estimated ? "true" : "false");
	metrics_joules(metrics, (double)process->energy.gpu_mj / 1e3);
}

static void put_gpus(struct metrics *metrics, const struct profile *profile)
{
	if (!profile->gpu_devices_count)
		return;
	metrics_gpus(metrics, profile, false);
	metrics_family(metrics, METRIC_GPU_ENERGY);
	for (size_t i = 0; i < profile->gpu_devices_count; i++) {
		if (profile->gpu_devices[i].energy_mj == PROFILE_ABSENT)
			continue;
		metrics_begin(metrics, NULL);
		metrics_gpu(metrics, &profile->gpu_devices[i]);
		metrics_joules(metrics, (double)profile->gpu_devices[i].energy_mj / 1e3);
	}
}

static void put_memory(struct metrics *metrics, const struct profile_process *process)
{
	for (size_t i = 0; i < process->memory_count; i++) {
		const struct profile_memory *memory = &process->memory[i];
		uint64_t value = memory->allocated_bytes.value;

		if (metrics->metric != METRIC_ALLOCATED)
			value = metrics->metric == METRIC_LIVE ? memory->current_bytes
							       : memory->peak_bytes;
		metrics_process(metrics, process, "domain", name_of_domain(memory->domain), value);
	}
}

/* The values with most samples come first. NaN: not known. */
static void put_values(struct metrics *metrics, const struct profile_process *process)
{
	for (size_t i = 0; i < process->values_count && i < VALUES_MAX; i++) {
		const struct profile_user_value *value = &process->values[i];
		double number = value->value;

		if (metrics->metric != METRIC_VALUE)
			number = metrics->metric == METRIC_VALUE_SUM ? value->sum
								     : (double)value->samples_count;
		if (!isfinite(number))
			continue;
		metrics_begin_process(metrics, process);
		metrics_foreign(metrics, "name", value->name);
		metrics_number(metrics, number, 17);
	}
}

static void put_steps(struct metrics *metrics, const struct profile_process *process)
{
	const struct profile_steps *steps = &process->steps;

	if (!steps->count)
		return;
	if (metrics->metric == METRIC_STEPS) {
		metrics_process(metrics, process, "quantile", "0.5", steps->p50_ns);
		metrics_process(metrics, process, "quantile", "0.95", steps->p95_ns);
		metrics_process(metrics, process, "quantile", "1", steps->max_ns);
		metrics_steps(metrics, process, steps->total_ns, steps->count);
	} else if (metrics->metric == METRIC_STEP_PHASES) {
		metrics_phases(metrics, process, steps->phases);
	} else if (steps->cost.counted_count) {
		metrics_process(metrics, process, NULL, NULL, steps->cost.flops);
	}
}

/* A family with series of each process. */
static void put_each(struct metrics *metrics, const struct profile *profile, enum metric metric,
		     void (*put)(struct metrics *metrics, const struct profile_process *process))
{
	metrics_family(metrics, metric);
	FOR_EACH (process, profile->processes)
		put(metrics, process);
}

static void put_host(struct metrics *metrics, const struct profile *profile, enum metric metric)
{
	metrics_family(metrics, metric);
	metrics_begin(metrics, NULL);
	metrics_foreign(metrics, "host", profile->host_name);
}

int export_openmetrics(const struct export *export)
{
	struct metrics metrics = {.out = export->out};
	const struct profile *profile = export->profile;

	put_host(&metrics, profile, METRIC_DURATION);
	metrics_value(&metrics, profile->duration_ns);
	for (enum metric i = METRIC_FUNCTION_CALLS; i <= METRIC_FUNCTION_TOTAL; i++) {
		metrics_family(&metrics, i);
		put_functions(&metrics, profile);
	}
	put_each(&metrics, profile, METRIC_CPU, put_cpu);
	put_each(&metrics, profile, METRIC_RESIDENT, put_resident);
	put_gpus(&metrics, profile);
	if (profile->energy.gpu_mj != PROFILE_ABSENT)
		put_each(&metrics, profile, METRIC_PROCESS_ENERGY, put_gpu_energy);
	if (profile->energy.host_uj != PROFILE_ABSENT) {
		put_host(&metrics, profile, METRIC_HOST_ENERGY);
		metrics_joules(&metrics, (double)profile->energy.host_uj / 1e6);
	}
	for (enum metric i = METRIC_ALLOCATED; i <= METRIC_PEAK; i++)
		put_each(&metrics, profile, i, put_memory);
	for (enum metric i = METRIC_VALUE; i <= METRIC_VALUE_SAMPLES; i++)
		if (profile->value_samples_count)
			put_each(&metrics, profile, i, put_values);
	for (enum metric i = METRIC_STEPS; i <= METRIC_STEP_FLOPS; i++)
		if (export_any_steps(profile))
			put_each(&metrics, profile, i, put_steps);
	metrics_losses(&metrics, profile->losses);
	return metrics_end(&metrics);
}
