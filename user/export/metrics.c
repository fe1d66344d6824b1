// SPDX-License-Identifier: BSD-2-Clause
#include "export/metrics.h"

#include "base/escape.h"
#include "decode/names.h"
#include "export/formats.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

const struct metric_family metric_duration = {"perfx_capture_duration_seconds", "gauge", "seconds",
					      "Duration of the recording."};

const struct metric_family metric_function_calls = {"perfx_function_calls", "counter", NULL,
						    "Calls that ended during the recording."};
const struct metric_family metric_function_self = {
	"perfx_function_self_seconds", "counter", "seconds",
	"Time in the function itself, without traced functions that it called."};
const struct metric_family metric_function_total = {"perfx_function_seconds", "counter", "seconds",
						    "Time from entry to end."};

const struct metric_family metric_process_cpu = {"perfx_process_cpu_seconds", "counter", "seconds",
						 "CPU time used during the recording."};
const struct metric_family metric_process_resident = {"perfx_process_resident_bytes", "gauge",
						      "bytes", "Resident memory."};

const struct metric_family metric_allocated = {"perfx_memory_allocated_bytes", "counter", "bytes",
					       "Bytes allocated during the recording."};
const struct metric_family metric_live_bytes = {
	"perfx_memory_live_bytes", "gauge", "bytes",
	"Bytes allocated during the recording and not freed."};

const struct metric_family metric_steps = {"perfx_step_seconds", "summary", "seconds",
					   "Duration of training steps."};
const struct metric_family metric_step_phases = {"perfx_step_phase_seconds", "counter", "seconds",
						 "Time of the steps by phase."};
const struct metric_family metric_step_flops = {"perfx_step_flops", "counter", NULL,
						"Known floating-point operations in the steps."};

static void note_error(struct metrics *metrics)
{
	if (metrics->err)
		return;
	if (metrics->line.failed)
		metrics->err = -ENOMEM;
	else if (ferror(metrics->out))
		metrics->err = errno ? -errno : -EIO;
}

void metrics_family(struct metrics *metrics, const struct metric_family *family)
{
	metrics->family = family;
	if (metrics->err)
		return;
	fprintf(metrics->out, "# TYPE %s %s\n", family->name, family->type);
	if (family->unit)
		fprintf(metrics->out, "# UNIT %s %s\n", family->name, family->unit);
	fprintf(metrics->out, "# HELP %s %s\n", family->name, family->help);
	note_error(metrics);
}

void metrics_begin(struct metrics *metrics, const char *suffix)
{
	const struct metric_family *family = metrics->family;

	if (!suffix)
		suffix = strcmp(family->type, "counter") ? "" : "_total";
	metrics->line.length = 0;
	text_printf(&metrics->line, "%s%s{", family->name, suffix);
}

/* Backslash and quote; a line's end cannot come any more. */
void metrics_escape(struct text *into, const char *harmless)
{
	for (const char *p = harmless; *p; p++) {
		if (*p == '\\' || *p == '"')
			text_add(into, "\\");
		text_add_bytes(into, p, 1);
	}
}

static void separate(struct text *line)
{
	if (!line->failed && line->data[line->length - 1] != '{')
		text_add(line, ",");
}

void metrics_labels(struct metrics *metrics, const char *labels)
{
	separate(&metrics->line);
	text_add(&metrics->line, labels);
}

void metrics_label(struct metrics *metrics, const char *key, const char *harmless)
{
	separate(&metrics->line);
	text_printf(&metrics->line, "%s=\"", key);
	metrics_escape(&metrics->line, harmless);
	text_add(&metrics->line, "\"");
}

void metrics_foreign(struct metrics *metrics, const char *key, const char *value)
{
	struct text shown = {0};

	escape_display(&shown, value);
	metrics_label(metrics, key, text_peek(&shown));
	metrics->line.failed |= shown.failed;
	text_clear(&shown);
}

/* Where it runs: as many values as there are containers. The label "job" is Prometheus' own. */
static void add_place(struct metrics *metrics, const struct profile_place *place)
{
	static const struct {
		const char *key;
		enum perfx_place_part part;
	} labels[] = {{"container", PERFX_PLACE_CONTAINER},
		      {"pod", PERFX_PLACE_POD},
		      {"namespace", PERFX_PLACE_NAMESPACE},
		      {"job_id", PERFX_PLACE_JOB}};

	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
		const char *value = place->of[labels[i].part];

		if (!value && labels[i].part == PERFX_PLACE_CONTAINER)
			value = place->of[PERFX_PLACE_CONTAINER_ID];
		if (value)
			metrics_foreign(metrics, labels[i].key, value);
	}
}

void metrics_process(struct metrics *metrics, const struct profile_process *process)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", export_pid(process, process->pid));
	metrics_label(metrics, "pid", number);
	if (process->exec_count) {
		snprintf(number, sizeof(number), "%u", process->exec_count);
		metrics_label(metrics, "exec", number);
	}
	metrics_foreign(metrics, "comm", process->comm);
	add_place(metrics, &process->place);
}

void metrics_gpu(struct metrics *metrics, const struct profile_gpu_device *device)
{
	char index[16];

	snprintf(index, sizeof(index), "%u", device->index);
	metrics_label(metrics, "gpu", index);
	metrics_foreign(metrics, "uuid", device->uuid);
}

/* A series without labels has no braces. */
static void end_series(struct metrics *metrics, const char *value)
{
	struct text *line = &metrics->line;

	if (metrics->err)
		return;
	if (!line->failed && line->data[line->length - 1] == '{')
		line->length--;
	else
		text_add(line, "}");
	text_printf(line, " %s\n", value);
	if (!line->failed)
		fwrite(line->data, 1, line->length, metrics->out);
	note_error(metrics);
}

void metrics_count(struct metrics *metrics, uint64_t value)
{
	char number[32];

	snprintf(number, sizeof(number), "%" PRIu64, value);
	end_series(metrics, number);
}

void metrics_seconds(struct metrics *metrics, uint64_t ns)
{
	char number[32];

	snprintf(number, sizeof(number), "%" PRIu64 ".%09" PRIu64, ns / 1000000000,
		 ns % 1000000000);
	end_series(metrics, number);
}

void metrics_joules(struct metrics *metrics, double joules)
{
	char number[64];

	snprintf(number, sizeof(number), "%.6f", joules);
	end_series(metrics, number);
}

void metrics_number(struct metrics *metrics, double value, int digits)
{
	char number[64];

	snprintf(number, sizeof(number), "%.*g", digits, value);
	end_series(metrics, number);
}

static const struct gpu_gauge {
	struct metric_family family;
	enum profile_gpu_metric metric;
	double per_unit;
} gpu_gauges[] = {
	{{"perfx_gpu_utilization_ratio", "gauge", "ratio",
	  "Share of the time in which a kernel ran."},
	 PROFILE_GPU_UTILISATION,
	 100},
	{{"perfx_gpu_memory_used_bytes", "gauge", "bytes", "Memory in use by all programs."},
	 PROFILE_GPU_MEMORY_USED,
	 1},
	{{"perfx_gpu_power_watts", "gauge", "watts", "Power."}, PROFILE_GPU_POWER, 1e3},
};

static void put_gpu_gauge(struct metrics *metrics, const struct profile *profile,
			  const struct gpu_gauge *gauge,
			  uint64_t (*value_of)(const struct profile_gpu_series *series))
{
	metrics_family(metrics, &gauge->family);
	for (size_t i = 0; i < profile->gpu_devices_count; i++) {
		const struct profile_gpu_device *device = &profile->gpu_devices[i];
		uint64_t value = value_of(&device->metrics[gauge->metric]);

		if (value == PROFILE_ABSENT)
			continue;
		metrics_begin(metrics, NULL);
		metrics_gpu(metrics, device);
		metrics_number(metrics, (double)value / gauge->per_unit, 12);
	}
}

void metrics_gpus(struct metrics *metrics, const struct profile *profile,
		  uint64_t (*value_of)(const struct profile_gpu_series *series))
{
	if (!profile->gpu_devices_count)
		return;
	for (size_t i = 0; i < sizeof(gpu_gauges) / sizeof(gpu_gauges[0]); i++)
		put_gpu_gauge(metrics, profile, &gpu_gauges[i], value_of);
}

void metrics_losses(struct metrics *metrics, const uint64_t losses[PERFX_LOSS_KINDS])
{
	static const struct metric_family family = {"perfx_losses", "counter", NULL,
						    "Lost records by kind; see the report."};

	metrics_family(metrics, &family);
	for (int i = 0; i < PERFX_LOSS_KINDS; i++) {
		metrics_begin(metrics, NULL);
		metrics_label(metrics, "kind", name_of_loss((enum perfx_loss_kind)i));
		metrics_count(metrics, losses[i]);
	}
}

int metrics_end(struct metrics *metrics)
{
	fputs("# EOF\n", metrics->out);
	note_error(metrics);
	text_clear(&metrics->line);
	return metrics->err;
}
