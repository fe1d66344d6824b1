// SPDX-License-Identifier: BSD-2-Clause
#include "export/metrics.h"

#include "base/escape.h"
#include "decode/names.h"
#include "export/formats.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define METRIC_FAMILY(id, name, type, help) {name, type, help},
static const struct {
	const char *name, *type, *help;
} families[] = {METRICS(METRIC_FAMILY)};

/* NULL: none. */
static const char *unit_of(enum metric metric)
{
	static const char *const units[] = {"seconds", "bytes", "ratio", "watts", "joules", NULL};
	const char *last = strrchr(families[metric].name, '_') + 1;

	return text_is_one_of(last, units) ? last : NULL;
}

static void note_error(struct metrics *metrics)
{
	if (metrics->err)
		return;
	if (metrics->line.failed)
		metrics->err = -ENOMEM;
	else if (ferror(metrics->out))
		metrics->err = errno ? -errno : -EIO;
}

void metrics_family(struct metrics *metrics, enum metric metric)
{
	const char *name = families[metric].name;

	metrics->metric = metric;
	if (metrics->err)
		return;
	fprintf(metrics->out, "# TYPE %s %s\n", name, families[metric].type);
	if (unit_of(metric))
		fprintf(metrics->out, "# UNIT %s %s\n", name, unit_of(metric));
	fprintf(metrics->out, "# HELP %s %s\n", name, families[metric].help);
	note_error(metrics);
}

void metrics_begin(struct metrics *metrics, const char *suffix)
{
	if (!suffix)
		suffix = strcmp(families[metrics->metric].type, "counter") ? "" : "_total";
	metrics->line.length = 0;
	text_printf(&metrics->line, "%s%s{", families[metrics->metric].name, suffix);
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
	text_finish(&shown, &metrics->line.failed);
}

static void add_process(struct metrics *metrics, const struct profile_process *process)
{
	/* the label "job" is Prometheus' own */
	static const struct {
		const char *key;
		enum perfx_place_part part;
	} labels[] = {{"container", PERFX_PLACE_CONTAINER},
		      {"pod", PERFX_PLACE_POD},
		      {"namespace", PERFX_PLACE_NAMESPACE},
		      {"job_id", PERFX_PLACE_JOB}};
	char number[16];

	snprintf(number, sizeof(number), "%u", export_pid(process, process->pid));
	metrics_label(metrics, "pid", number);
	if (process->exec_count) {
		snprintf(number, sizeof(number), "%u", process->exec_count);
		metrics_label(metrics, "exec", number);
	}
	metrics_foreign(metrics, "comm", process->comm);
	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
		const char *value = process->place.of[labels[i].part];

		if (!value && labels[i].part == PERFX_PLACE_CONTAINER)
			value = process->place.of[PERFX_PLACE_CONTAINER_ID];
		if (value)
			metrics_foreign(metrics, labels[i].key, value);
	}
}

void metrics_begin_process(struct metrics *metrics, const struct profile_process *process)
{
	metrics_begin(metrics, NULL);
	add_process(metrics, process);
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

void metrics_value(struct metrics *metrics, uint64_t value)
{
	const char *unit = unit_of(metrics->metric);
	char number[32];

	if (!unit || strcmp(unit, "seconds") != 0) {
		metrics_count(metrics, value);
		return;
	}
	snprintf(number, sizeof(number), "%" PRIu64 ".%09" PRIu64, value / 1000000000,
		 value % 1000000000);
	end_series(metrics, number);
}

void metrics_joules(struct metrics *metrics, double joules)
{
	char number[64];

	snprintf(number, sizeof(number), "%.6f", joules);
	end_series(metrics, number);
}

void metrics_process(struct metrics *metrics, const struct profile_process *process,
		     const char *key, const char *label, uint64_t value)
{
	if (value == PROFILE_ABSENT)
		return;
	metrics_begin_process(metrics, process);
	if (key)
		metrics_label(metrics, key, label);
	metrics_value(metrics, value);
}

void metrics_number(struct metrics *metrics, double value, int digits)
{
	char number[64];

	snprintf(number, sizeof(number), "%.*g", digits, value);
	end_series(metrics, number);
}

void metrics_steps(struct metrics *metrics, const struct profile_process *process,
		   uint64_t total_ns, uint64_t count)
{
	metrics_begin(metrics, "_sum");
	add_process(metrics, process);
	metrics_value(metrics, total_ns);
	metrics_begin(metrics, "_count");
	add_process(metrics, process);
	metrics_count(metrics, count);
}

void metrics_phases(struct metrics *metrics, const struct profile_process *process,
		    const uint64_t phases[PROFILE_PHASES])
{
	for (int phase = PROFILE_PHASES - 1; phase >= 0; phase--)
		metrics_process(metrics, process, "phase",
				profile_phase_name((enum profile_phase)phase), phases[phase]);
}

void metrics_gpus(struct metrics *metrics, const struct profile *profile, bool last)
{
	static const struct {
		enum metric metric;
		enum profile_gpu_metric from;
		double per_unit;
	} gauges[] = {{METRIC_GPU_UTILISATION, PROFILE_GPU_UTILISATION, 100},
		      {METRIC_GPU_MEMORY, PROFILE_GPU_MEMORY_USED, 1},
		      {METRIC_GPU_POWER, PROFILE_GPU_POWER, 1e3}};

	for (size_t i = 0; i < 3 && profile->gpu_devices_count; i++) {
		metrics_family(metrics, gauges[i].metric);
		for (size_t j = 0; j < profile->gpu_devices_count; j++) {
			const struct profile_gpu_device *device = &profile->gpu_devices[j];
			const struct profile_gpu_series *series = &device->metrics[gauges[i].from];
			uint64_t value = last ? series->last : series->avg;

			if (value == PROFILE_ABSENT)
				continue;
			metrics_begin(metrics, NULL);
			metrics_gpu(metrics, device);
			metrics_number(metrics, (double)value / gauges[i].per_unit, 12);
		}
	}
}

void metrics_losses(struct metrics *metrics, const uint64_t losses[PERFX_LOSS_KINDS])
{
	metrics_family(metrics, METRIC_LOSSES);
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
