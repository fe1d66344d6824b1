// SPDX-License-Identifier: BSD-2-Clause
/*
 * OpenMetrics text, for Prometheus and what reads the same. The functions with most self time have
 * series of their own; the rest of a process is one, named "other", so that a capture makes so many
 * series and no more.
 */
#include "decode/names.h"
#include "export/formats.h"
#include "export/metrics.h"

#include <math.h>

#define FUNCTIONS_MAX 200 /* of a process */
#define VALUES_MAX    200

struct function_metric {
	const struct metric_family *family;
	uint64_t (*of)(const struct profile_row *row); /* PROFILE_ABSENT: not measured */
	void (*put)(struct metrics *metrics, uint64_t value);
};

static uint64_t calls_of(const struct profile_row *row)
{
	return row->calls_count;
}

static uint64_t self_of(const struct profile_row *row)
{
	return row->timed_count ? row->self_ns : PROFILE_ABSENT;
}

static uint64_t total_of(const struct profile_row *row)
{
	return row->timed_count ? row->total_ns : PROFILE_ABSENT;
}

static const struct function_metric function_metrics[] = {
	{&metric_function_calls, calls_of, metrics_count},
	{&metric_function_self, self_of, metrics_seconds},
	{&metric_function_total, total_of, metrics_seconds},
};

static void put_function(struct metrics *metrics, const struct profile *profile,
			 const struct profile_process *process,
			 const struct function_metric *metric, const struct profile_row *row)
{
	const struct profile_function *function = profile_function(profile, row->function);
	uint64_t value = metric->of(row);
	char offset[32];

	if (value == PROFILE_ABSENT || !function)
		return;
	snprintf(offset, sizeof(offset), "0x%llx", (unsigned long long)function->offset);
	metrics_begin(metrics, NULL);
	metrics_process(metrics, process);
	metrics_foreign(metrics, "module", function->module);
	metrics_foreign(metrics, "function",
			function_label(function)[0] ? function_label(function) : "?");
	metrics_label(metrics, "offset", offset);
	metrics_label(metrics, "source", name_of_source(function->source));
	metric->put(metrics, value);
}

static void put_rest(struct metrics *metrics, const struct profile_process *process,
		     const struct function_metric *metric)
{
	uint64_t sum = 0;

	for (size_t i = FUNCTIONS_MAX; i < process->rows_count; i++) {
		uint64_t value = metric->of(&process->rows[i]);

		if (value != PROFILE_ABSENT)
			sum += value;
	}
	metrics_begin(metrics, NULL);
	metrics_process(metrics, process);
	metrics_label(metrics, "module", "");
	metrics_label(metrics, "function", "other");
	metric->put(metrics, sum);
}

static void put_functions(struct metrics *metrics, const struct profile *profile,
			  const struct function_metric *metric)
{
	metrics_family(metrics, metric->family);
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *process = &profile->processes[i];

		for (size_t j = 0; j < process->rows_count && j < FUNCTIONS_MAX; j++)
			put_function(metrics, profile, process, metric, &process->rows[j]);
		if (process->rows_count > FUNCTIONS_MAX)
			put_rest(metrics, process, metric);
	}
}

static void put_cpu(struct metrics *metrics, const struct profile *profile)
{
	metrics_family(metrics, &metric_process_cpu);
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *process = &profile->processes[i];
		uint64_t times[] = {process->cpu_user_ns, process->cpu_system_ns};

		for (int j = 0; j < 2; j++) {
			if (times[j] == PROFILE_ABSENT)
				continue;
			metrics_begin(metrics, NULL);
			metrics_process(metrics, process);
			metrics_label(metrics, "mode", j ? "system" : "user");
			metrics_seconds(metrics, times[j]);
		}
	}
}

static void put_resident(struct metrics *metrics, const struct profile *profile)
{
	metrics_family(metrics, &metric_process_resident);
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *process = &profile->processes[i];

		if (process->rss_bytes == PROFILE_ABSENT)
			continue;
		metrics_begin(metrics, NULL);
		metrics_process(metrics, process);
		metrics_count(metrics, process->rss_bytes);
	}
}

static void put_gpu_energy(struct metrics *metrics, const struct profile *profile)
{
	static const struct metric_family family = {
		"perfx_process_gpu_energy_joules", "counter", "joules",
		"Energy of the GPUs that the process used, by its share."};

	metrics_family(metrics, &family);
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *process = &profile->processes[i];

		if (process->energy.gpu_mj == PROFILE_ABSENT)
			continue;
		metrics_begin(metrics, NULL);
		metrics_process(metrics, process);
		metrics_label(metrics, "estimated", process->energy.estimated ? "true" : "false");
		metrics_joules(metrics, (double)process->energy.gpu_mj / 1e3);
	}
}

static uint64_t average_of(const struct profile_gpu_series *series)
{
	return series->avg;
}

static void put_gpus(struct metrics *metrics, const struct profile *profile)
{
	static const struct metric_family energy = {"perfx_gpu_energy_joules", "counter", "joules",
						    "Energy that the GPU used during the "
						    "recording."};

	if (!profile->gpu_devices_count)
		return;
	metrics_gpus(metrics, profile, average_of);
	metrics_family(metrics, &energy);
	for (size_t i = 0; i < profile->gpu_devices_count; i++) {
		if (profile->gpu_devices[i].energy_mj == PROFILE_ABSENT)
			continue;
		metrics_begin(metrics, NULL);
		metrics_gpu(metrics, &profile->gpu_devices[i]);
		metrics_joules(metrics, (double)profile->gpu_devices[i].energy_mj / 1e3);
	}
}

static void put_energy(struct metrics *metrics, const struct profile *profile)
{
	static const struct metric_family family = {
		"perfx_host_energy_joules", "counter", "joules",
		"Energy of the host's processors and memory during the recording."};

	if (profile->energy.gpu_mj != PROFILE_ABSENT)
		put_gpu_energy(metrics, profile);
	if (profile->energy.host_uj == PROFILE_ABSENT)
		return;
	metrics_family(metrics, &family);
	metrics_begin(metrics, NULL);
	metrics_foreign(metrics, "host", profile->host_name);
	metrics_joules(metrics, (double)profile->energy.host_uj / 1e6);
}

static const struct metric_family metric_peak = {"perfx_memory_peak_live_bytes", "gauge", "bytes",
						 "Peak of live bytes."};

struct memory_metric {
	const struct metric_family *family;
	uint64_t (*of)(const struct profile_memory *memory);
};

static uint64_t allocated_of(const struct profile_memory *memory)
{
	return memory->allocated_bytes.value;
}

static uint64_t live_of(const struct profile_memory *memory)
{
	return memory->current_bytes;
}

static uint64_t peak_of(const struct profile_memory *memory)
{
	return memory->peak_bytes;
}

static const struct memory_metric memory_metrics[] = {
	{&metric_allocated, allocated_of},
	{&metric_live_bytes, live_of},
	{&metric_peak, peak_of},
};

static void put_memory(struct metrics *metrics, const struct profile *profile,
		       const struct memory_metric *metric)
{
	metrics_family(metrics, metric->family);
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *process = &profile->processes[i];

		for (size_t j = 0; j < process->memory_count; j++) {
			uint64_t value = metric->of(&process->memory[j]);

			if (value == PROFILE_ABSENT)
				continue;
			metrics_begin(metrics, NULL);
			metrics_process(metrics, process);
			metrics_label(metrics, "domain",
				      profile_domain_name(process->memory[j].domain));
			metrics_count(metrics, value);
		}
	}
}

struct value_metric {
	struct metric_family family;
	double (*of)(const struct profile_user_value *value); /* NaN: not known */
};

static double value_of(const struct profile_user_value *value)
{
	return value->value;
}

static double sum_of(const struct profile_user_value *value)
{
	return value->sum;
}

static double samples_of(const struct profile_user_value *value)
{
	return (double)value->samples_count;
}

/* A sum may fall: it is a gauge. */
static const struct value_metric value_metrics[] = {
	{{"perfx_counter_value", "gauge", NULL, "Last value of the program's own counters."},
	 value_of},
	{{"perfx_counter_sum", "gauge", NULL, "Sum of the samples."}, sum_of},
	{{"perfx_counter_samples", "counter", NULL, "Number of samples."}, samples_of},
};

static void put_values(struct metrics *metrics, const struct profile *profile,
		       const struct value_metric *metric)
{
	metrics_family(metrics, &metric->family);
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *process = &profile->processes[i];

		/* those with most samples come first */
		for (size_t j = 0; j < process->values_count && j < VALUES_MAX; j++) {
			const struct profile_user_value *value = &process->values[j];

			if (!isfinite(metric->of(value)))
				continue;
			metrics_begin(metrics, NULL);
			metrics_process(metrics, process);
			metrics_foreign(metrics, "name", value->name);
			metrics_number(metrics, metric->of(value), 17);
		}
	}
}

static void put_quantile(struct metrics *metrics, const struct profile_process *process,
			 const char *quantile, uint64_t ns)
{
	metrics_begin(metrics, NULL);
	metrics_process(metrics, process);
	metrics_label(metrics, "quantile", quantile);
	metrics_seconds(metrics, ns);
}

static void put_durations(struct metrics *metrics, const struct profile_process *process)
{
	const struct profile_steps *steps = &process->steps;

	put_quantile(metrics, process, "0.5", steps->p50_ns);
	put_quantile(metrics, process, "0.95", steps->p95_ns);
	put_quantile(metrics, process, "1", steps->max_ns);
	metrics_begin(metrics, "_sum");
	metrics_process(metrics, process);
	metrics_seconds(metrics, steps->total_ns);
	metrics_begin(metrics, "_count");
	metrics_process(metrics, process);
	metrics_count(metrics, steps->count);
}

static void put_phases(struct metrics *metrics, const struct profile_process *process)
{
	for (int phase = PROFILE_PHASES - 1; phase >= 0; phase--) {
		metrics_begin(metrics, NULL);
		metrics_process(metrics, process);
		metrics_label(metrics, "phase", profile_phase_name((enum profile_phase)phase));
		metrics_seconds(metrics, process->steps.phases[phase]);
	}
}

static void put_step_flops(struct metrics *metrics, const struct profile_process *process)
{
	if (!process->steps.cost.counted_count)
		return;
	metrics_begin(metrics, NULL);
	metrics_process(metrics, process);
	metrics_count(metrics, process->steps.cost.flops);
}

static void put_steps(struct metrics *metrics, const struct profile *profile)
{
	static const struct {
		const struct metric_family *family;
		void (*put)(struct metrics *metrics, const struct profile_process *process);
	} of_steps[] = {
		{&metric_steps, put_durations},
		{&metric_step_phases, put_phases},
		{&metric_step_flops, put_step_flops},
	};

	if (!export_any_steps(profile))
		return;
	for (size_t i = 0; i < sizeof(of_steps) / sizeof(of_steps[0]); i++) {
		metrics_family(metrics, of_steps[i].family);
		for (size_t j = 0; j < profile->processes_count; j++)
			if (profile->processes[j].steps.count)
				of_steps[i].put(metrics, &profile->processes[j]);
	}
}

static void put_duration(struct metrics *metrics, const struct profile *profile)
{
	metrics_family(metrics, &metric_duration);
	metrics_begin(metrics, NULL);
	metrics_foreign(metrics, "host", profile->host_name);
	metrics_seconds(metrics, profile->duration_ns);
}

int export_openmetrics(const struct export *export)
{
	struct metrics metrics = {.out = export->out};
	const struct profile *profile = export->profile;

	put_duration(&metrics, profile);
	for (size_t i = 0; i < sizeof(function_metrics) / sizeof(function_metrics[0]); i++)
		put_functions(&metrics, profile, &function_metrics[i]);
	put_cpu(&metrics, profile);
	put_resident(&metrics, profile);
	put_gpus(&metrics, profile);
	put_energy(&metrics, profile);
	for (size_t i = 0; i < sizeof(memory_metrics) / sizeof(memory_metrics[0]); i++)
		put_memory(&metrics, profile, &memory_metrics[i]);
	for (size_t i = 0; i < sizeof(value_metrics) / sizeof(value_metrics[0]); i++)
		if (profile->value_samples_count)
			put_values(&metrics, profile, &value_metrics[i]);
	put_steps(&metrics, profile);
	metrics_losses(&metrics, profile->losses);
	return metrics_end(&metrics);
}
