// SPDX-License-Identifier: BSD-2-Clause
/*
 * OpenMetrics text, for Prometheus and what reads the same: a family of metrics after the other,
 * each with its type, then # EOF. The functions with most self time have series of their own; the
 * rest of a process is one, named "other", so that a capture makes so many series and no more.
 *
 *     # TYPE perfx_function_calls counter
 *     perfx_function_calls_total{pid="4242",comm="trainer",module="a.so",function="f",offset="0x40",source="perfx"}
 * 7
 */
#include "base/escape.h"
#include "decode/names.h"
#include "export/formats.h"

#include <errno.h>
#include <math.h>

#define FUNCTIONS_MAX 200 /* of a process */
#define VALUES_MAX    200

/* Escaped for a label's value: backslash, quote, line end; the last cannot come any more. */
static void add_label(struct text *line, const char *key, const char *harmless)
{
	text_printf(line, "%s%s=\"", line->data[line->length - 1] == '{' ? "" : ",", key);
	for (const char *p = harmless; *p; p++) {
		if (*p == '\\' || *p == '"')
			text_add(line, "\\");
		text_add_bytes(line, p, 1);
	}
	text_add(line, "\"");
}

static void add_foreign(struct text *line, const char *key, const char *value)
{
	struct text shown = {0};

	escape_display(&shown, value);
	add_label(line, key, text_peek(&shown));
	line->failed |= shown.failed;
	text_clear(&shown);
}

/* "name{pid=…,comm=…" */
static void open_series(struct text *line, const char *name, const struct profile_process *process)
{
	char pid[16];

	line->length = 0;
	text_printf(line, "%s{", name);
	if (!process)
		return;
	snprintf(pid, sizeof(pid), "%u", process->pid);
	add_label(line, "pid", pid);
	if (process->exec_count) {
		snprintf(pid, sizeof(pid), "%u", process->exec_count);
		add_label(line, "exec", pid);
	}
	add_foreign(line, "comm", process->comm);
}

static int end_line(FILE *out, struct text *line)
{
	text_add(line, "\n");
	fwrite(text_peek(line), 1, line->length, out);
	return line->failed ? -ENOMEM : export_error(out);
}

static int close_count(FILE *out, struct text *line, uint64_t value)
{
	text_printf(line, "} %llu", (unsigned long long)value);
	return end_line(out, line);
}

static int close_seconds(FILE *out, struct text *line, uint64_t ns)
{
	text_printf(line, "} %llu.%09llu", (unsigned long long)(ns / 1000000000),
		    (unsigned long long)(ns % 1000000000));
	return end_line(out, line);
}

static void put_type(FILE *out, const char *name, const char *type, const char *unit,
		     const char *help)
{
	fprintf(out, "# TYPE %s %s\n", name, type);
	if (unit)
		fprintf(out, "# UNIT %s %s\n", name, unit);
	fprintf(out, "# HELP %s %s\n", name, help);
}

/* --- functions -------------------------------------------------------------------------------- */

struct metric {
	const char *name, *series, *unit, *help;
	uint64_t (*of)(const struct profile_row *row); /* PROFILE_ABSENT: not measured */
	bool is_time;
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

static const struct metric metrics[] = {
	{"perfx_function_calls", "perfx_function_calls_total", NULL,
	 "Calls that ended during the recording.", calls_of, false},
	{"perfx_function_self_seconds", "perfx_function_self_seconds_total", "seconds",
	 "Time in the function itself, without traced functions that it called.", self_of, true},
	{"perfx_function_seconds", "perfx_function_seconds_total", "seconds",
	 "Time from entry to end.", total_of, true},
};

static int close_metric(FILE *out, struct text *line, const struct metric *metric, uint64_t value)
{
	return metric->is_time ? close_seconds(out, line, value) : close_count(out, line, value);
}

static int put_function(const struct export *export, struct text *line, const struct metric *metric,
			const struct profile_process *process, const struct profile_row *row)
{
	const struct profile_function *function = profile_function(export->profile, row->function);
	uint64_t value = metric->of(row);
	char offset[32];

	if (value == PROFILE_ABSENT || !function)
		return 0;
	snprintf(offset, sizeof(offset), "0x%llx", (unsigned long long)function->offset);
	open_series(line, metric->series, process);
	add_foreign(line, "module", function->module);
	add_foreign(line, "function", function->name[0] ? function->name : "?");
	add_label(line, "offset", offset);
	add_label(line, "source", name_of_source(function->source));
	return close_metric(export->out, line, metric, value);
}

static int put_rest(const struct export *export, struct text *line, const struct metric *metric,
		    const struct profile_process *process)
{
	uint64_t sum = 0;

	for (size_t i = FUNCTIONS_MAX; i < process->rows_count; i++) {
		uint64_t value = metric->of(&process->rows[i]);

		if (value != PROFILE_ABSENT)
			sum += value;
	}
	open_series(line, metric->series, process);
	add_label(line, "module", "");
	add_label(line, "function", "other");
	return close_metric(export->out, line, metric, sum);
}

static int put_functions(const struct export *export, struct text *line,
			 const struct metric *metric)
{
	int err = 0;

	put_type(export->out, metric->name, "counter", metric->unit, metric->help);
	for (size_t i = 0; i < export->profile->processes_count && !err; i++) {
		const struct profile_process *process = &export->profile->processes[i];

		for (size_t j = 0; j < process->rows_count && j < FUNCTIONS_MAX && !err; j++)
			err = put_function(export, line, metric, process, &process->rows[j]);
		if (!err && process->rows_count > FUNCTIONS_MAX)
			err = put_rest(export, line, metric, process);
	}
	return err;
}

/* --- processes -------------------------------------------------------------------------------- */

static int put_cpu(const struct export *export, struct text *line)
{
	int err = 0;

	put_type(export->out, "perfx_process_cpu_seconds", "counter", "seconds",
		 "CPU time used during the recording.");
	for (size_t i = 0; i < export->profile->processes_count; i++) {
		const struct profile_process *process = &export->profile->processes[i];
		uint64_t times[] = {process->cpu_user_ns, process->cpu_system_ns};

		for (int j = 0; j < 2 && !err; j++) {
			if (times[j] == PROFILE_ABSENT)
				continue;
			open_series(line, "perfx_process_cpu_seconds_total", process);
			add_label(line, "mode", j ? "system" : "user");
			err = close_seconds(export->out, line, times[j]);
		}
	}
	return err;
}

static int put_resident(const struct export *export, struct text *line)
{
	int err = 0;

	put_type(export->out, "perfx_process_resident_bytes", "gauge", "bytes",
		 "Resident memory at the end.");
	for (size_t i = 0; i < export->profile->processes_count && !err; i++) {
		const struct profile_process *process = &export->profile->processes[i];

		if (process->rss_bytes == PROFILE_ABSENT)
			continue;
		open_series(line, "perfx_process_resident_bytes", process);
		err = close_count(export->out, line, process->rss_bytes);
	}
	return err;
}

/* mJ and uJ as joules. */
static int close_joules(FILE *out, struct text *line, uint64_t value, double per_joule)
{
	text_printf(line, "} %.6f", (double)value / per_joule);
	return end_line(out, line);
}

static int put_gpu_energy(const struct export *export, struct text *line)
{
	int err = 0;

	put_type(export->out, "perfx_process_gpu_energy_joules", "counter", "joules",
		 "Energy of the GPUs that the process used, by its share.");
	for (size_t i = 0; i < export->profile->processes_count && !err; i++) {
		const struct profile_process *process = &export->profile->processes[i];

		if (process->energy.gpu_mj == PROFILE_ABSENT)
			continue;
		open_series(line, "perfx_process_gpu_energy_joules_total", process);
		add_label(line, "estimated", process->energy.estimated ? "true" : "false");
		err = close_joules(export->out, line, process->energy.gpu_mj, 1e3);
	}
	return err;
}

/* --- GPUs ------------------------------------------------------------------------------------- */

static const struct gpu_gauge {
	const char *name, *unit, *help;
	enum profile_gpu_metric metric;
	double per_unit;
} gpu_gauges[] = {
	{"perfx_gpu_utilization_ratio", "ratio", "Share of the time in which a kernel ran.",
	 PROFILE_GPU_UTILISATION, 100},
	{"perfx_gpu_memory_used_bytes", "bytes", "Memory in use by all programs, on average.",
	 PROFILE_GPU_MEMORY_USED, 1},
	{"perfx_gpu_power_watts", "watts", "Power, on average.", PROFILE_GPU_POWER, 1e3},
};

static void open_gpu(struct text *line, const char *name, const struct profile_gpu_device *device)
{
	char index[16];

	open_series(line, name, NULL);
	snprintf(index, sizeof(index), "%u", device->index);
	add_label(line, "gpu", index);
	add_foreign(line, "uuid", device->uuid);
}

static int put_gpu_gauge(const struct export *export, struct text *line,
			 const struct gpu_gauge *gauge)
{
	int err = 0;

	put_type(export->out, gauge->name, "gauge", gauge->unit, gauge->help);
	for (size_t i = 0; i < export->profile->gpu_devices_count && !err; i++) {
		const struct profile_gpu_device *device = &export->profile->gpu_devices[i];
		uint64_t value = device->metrics[gauge->metric].avg;

		if (value == PROFILE_ABSENT)
			continue;
		open_gpu(line, gauge->name, device);
		text_printf(line, "} %.12g", (double)value / gauge->per_unit);
		err = end_line(export->out, line);
	}
	return err;
}

static int put_gpus(const struct export *export, struct text *line)
{
	const struct profile *profile = export->profile;
	int err = 0;

	if (!profile->gpu_devices_count)
		return 0;
	for (size_t i = 0; i < sizeof(gpu_gauges) / sizeof(gpu_gauges[0]) && !err; i++)
		err = put_gpu_gauge(export, line, &gpu_gauges[i]);
	put_type(export->out, "perfx_gpu_energy_joules", "counter", "joules",
		 "Energy that the GPU used during the recording.");
	for (size_t i = 0; i < profile->gpu_devices_count && !err; i++) {
		if (profile->gpu_devices[i].energy_mj == PROFILE_ABSENT)
			continue;
		open_gpu(line, "perfx_gpu_energy_joules_total", &profile->gpu_devices[i]);
		err = close_joules(export->out, line, profile->gpu_devices[i].energy_mj, 1e3);
	}
	return err;
}

static int put_energy(const struct export *export, struct text *line)
{
	const struct profile_host_energy *energy = &export->profile->energy;
	int err = 0;

	if (energy->gpu_mj != PROFILE_ABSENT)
		err = put_gpu_energy(export, line);
	if (err || energy->host_uj == PROFILE_ABSENT)
		return err;
	put_type(export->out, "perfx_host_energy_joules", "counter", "joules",
		 "Energy of the host's processors and memory during the recording.");
	open_series(line, "perfx_host_energy_joules_total", NULL);
	add_foreign(line, "host", export->profile->host_name);
	return close_joules(export->out, line, energy->host_uj, 1e6);
}

struct memory_metric {
	const char *name, *series, *type, *help;
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
	{"perfx_memory_allocated_bytes", "perfx_memory_allocated_bytes_total", "counter",
	 "Bytes allocated during the recording.", allocated_of},
	{"perfx_memory_live_bytes", "perfx_memory_live_bytes", "gauge",
	 "Bytes allocated during the recording and not freed.", live_of},
	{"perfx_memory_peak_live_bytes", "perfx_memory_peak_live_bytes", "gauge",
	 "Peak of live bytes.", peak_of},
};

static int put_memory(const struct export *export, struct text *line,
		      const struct memory_metric *metric)
{
	int err = 0;

	put_type(export->out, metric->name, metric->type, "bytes", metric->help);
	for (size_t i = 0; i < export->profile->processes_count; i++) {
		const struct profile_process *process = &export->profile->processes[i];

		for (size_t j = 0; j < process->memory_count && !err; j++) {
			uint64_t value = metric->of(&process->memory[j]);

			if (value == PROFILE_ABSENT)
				continue;
			open_series(line, metric->series, process);
			add_label(line, "domain", profile_domain_name(process->memory[j].domain));
			err = close_count(export->out, line, value);
		}
	}
	return err;
}

/* --- the programs' values --------------------------------------------------------------------- */

struct value_metric {
	const char *name, *series, *type, *help;
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
	{"perfx_counter_value", "perfx_counter_value", "gauge",
	 "Last value of the program's own counters.", value_of},
	{"perfx_counter_sum", "perfx_counter_sum", "gauge", "Sum of the samples.", sum_of},
	{"perfx_counter_samples", "perfx_counter_samples_total", "counter", "Number of samples.",
	 samples_of},
};

static int put_values(const struct export *export, struct text *line,
		      const struct value_metric *metric)
{
	int err = 0;

	put_type(export->out, metric->name, metric->type, NULL, metric->help);
	for (size_t i = 0; i < export->profile->processes_count && !err; i++) {
		const struct profile_process *process = &export->profile->processes[i];

		/* those with most samples come first */
		for (size_t j = 0; j < process->values_count && j < VALUES_MAX && !err; j++) {
			const struct profile_user_value *value = &process->values[j];

			if (!isfinite(metric->of(value)))
				continue;
			open_series(line, metric->series, process);
			add_foreign(line, "name", value->name);
			text_printf(line, "} %.17g", metric->of(value));
			err = end_line(export->out, line);
		}
	}
	return err;
}

/* --- steps ------------------------------------------------------------------------------------ */

static int put_quantile(const struct export *export, struct text *line,
			const struct profile_process *process, const char *quantile, uint64_t ns)
{
	open_series(line, "perfx_step_seconds", process);
	add_label(line, "quantile", quantile);
	return close_seconds(export->out, line, ns);
}

static int put_durations(const struct export *export, struct text *line,
			 const struct profile_process *process)
{
	const struct profile_steps *steps = &process->steps;
	int err = put_quantile(export, line, process, "0.5", steps->p50_ns);

	if (!err)
		err = put_quantile(export, line, process, "0.95", steps->p95_ns);
	if (!err)
		err = put_quantile(export, line, process, "1", steps->max_ns);
	if (!err) {
		open_series(line, "perfx_step_seconds_sum", process);
		err = close_seconds(export->out, line, steps->total_ns);
	}
	if (!err) {
		open_series(line, "perfx_step_seconds_count", process);
		err = close_count(export->out, line, steps->count);
	}
	return err;
}

static int put_phases(const struct export *export, struct text *line,
		      const struct profile_process *process)
{
	int err = 0;

	for (int phase = PROFILE_PHASES - 1; phase >= 0 && !err; phase--) {
		open_series(line, "perfx_step_phase_seconds_total", process);
		add_label(line, "phase", profile_phase_name((enum profile_phase)phase));
		err = close_seconds(export->out, line, process->steps.phases[phase]);
	}
	return err;
}

static int put_step_flops(const struct export *export, struct text *line,
			  const struct profile_process *process)
{
	if (!process->steps.cost.counted_count)
		return 0;
	open_series(line, "perfx_step_flops_total", process);
	return close_count(export->out, line, process->steps.cost.flops);
}

static int each_stepping(const struct export *export, struct text *line,
			 int (*put)(const struct export *export, struct text *line,
				    const struct profile_process *process))
{
	int err = 0;

	for (size_t i = 0; i < export->profile->processes_count && !err; i++)
		if (export->profile->processes[i].steps.count)
			err = put(export, line, &export->profile->processes[i]);
	return err;
}

static int put_steps(const struct export *export, struct text *line)
{
	int err;

	if (!export_any_steps(export->profile))
		return 0;
	put_type(export->out, "perfx_step_seconds", "summary", "seconds",
		 "Duration of training steps.");
	err = each_stepping(export, line, put_durations);
	if (err)
		return err;
	put_type(export->out, "perfx_step_phase_seconds", "counter", "seconds",
		 "Time of the steps by phase.");
	err = each_stepping(export, line, put_phases);
	if (err)
		return err;
	put_type(export->out, "perfx_step_flops", "counter", NULL,
		 "Known floating-point operations in the steps.");
	return each_stepping(export, line, put_step_flops);
}

static int put_losses(const struct export *export, struct text *line)
{
	int err = 0;

	put_type(export->out, "perfx_losses", "counter", NULL,
		 "Lost records by kind; see the report.");
	for (int i = 0; i < PERFX_LOSS_KINDS && !err; i++) {
		open_series(line, "perfx_losses_total", NULL);
		add_label(line, "kind", name_of_loss(i));
		err = close_count(export->out, line, export->profile->losses[i]);
	}
	return err;
}

static int put_capture(const struct export *export, struct text *line)
{
	put_type(export->out, "perfx_capture_duration_seconds", "gauge", "seconds",
		 "Duration of the recording.");
	open_series(line, "perfx_capture_duration_seconds", NULL);
	add_foreign(line, "host", export->profile->host_name);
	return close_seconds(export->out, line, export->profile->duration_ns);
}

int export_openmetrics(const struct export *export)
{
	struct text line = {0};
	int err = put_capture(export, &line);

	for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]) && !err; i++)
		err = put_functions(export, &line, &metrics[i]);
	if (!err)
		err = put_cpu(export, &line);
	if (!err)
		err = put_resident(export, &line);
	if (!err)
		err = put_gpus(export, &line);
	if (!err)
		err = put_energy(export, &line);
	for (size_t i = 0; i < sizeof(memory_metrics) / sizeof(memory_metrics[0]) && !err; i++)
		err = put_memory(export, &line, &memory_metrics[i]);
	for (size_t i = 0; i < sizeof(value_metrics) / sizeof(value_metrics[0]) && !err; i++)
		if (export->profile->value_samples_count)
			err = put_values(export, &line, &value_metrics[i]);
	if (!err)
		err = put_steps(export, &line);
	if (!err)
		err = put_losses(export, &line);
	fputs("# EOF\n", export->out);
	text_clear(&line);
	return err ? err : export_error(export->out);
}
