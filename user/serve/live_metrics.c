// SPDX-License-Identifier: BSD-2-Clause
#include "serve/page.h"

#include "base/escape.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/units.h"
#include "decode/names.h"
#include "export/metrics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A C++ name can be some KiB long, and is in each of a function's series. */
#define LABEL_COLUMNS 200

/* A function's series. Functions that look the same are one: a file may have several of a name. */
struct series {
	uint64_t of;	      /* hash of the function */
	char *labels;	      /* NULL: memory was out */
	size_t same;	      /* index of the first with these labels; its own, if there is none */
	struct live_sums run; /* of all of these */
	/* By the overhead budget: calls have no times, no costs, are not seen. */
	bool untimed, costless, removed;
};

/* A process that has series, and its identity. */
struct admitted {
	uint32_t pid, exec_count;
	uint64_t start_boot_ns;
	const struct live_process *now; /* in the snapshot being written; NULL: it is gone */
	/* Sums of the run: live.h has the period's. */
	uint64_t gpu_busy_ns;
	bool on_gpu;
};

struct live_metrics {
	struct series *functions;
	size_t functions_count, functions_capacity;
	struct admitted processes[LIVE_METRICS_PROCESSES_MAX];
	size_t processes_count;
	uint64_t snapshots_ns;		    /* own_ns, added up */
	size_t reduced_count, marked_count; /* reductions, functions when mark_reduced ended */
	bool waits_cut;			    /* the budget stopped the recording of waits */
};

struct live_metrics *live_metrics__new(void)
{
	return calloc(1, sizeof(struct live_metrics));
}

void live_metrics__free(struct live_metrics *live)
{
	if (!live)
		return;
	for (size_t i = 0; i < live->functions_count; i++)
		free(live->functions[i].labels);
	free(live->functions);
	free(live);
}

static void add_label(struct text *labels, const char *key, const char *value)
{
	struct text shown = {0}, cut = {0};

	escape_display(&shown, value);
	utf8_shorten(&cut, text_peek(&shown), LABEL_COLUMNS);
	text_printf(labels, "%s%s=\"", labels->length ? "," : "", key);
	metrics_escape(labels, text_peek(&cut));
	text_add(labels, "\"");
	text_finish(&shown, &labels->failed);
	text_finish(&cut, &labels->failed);
}

static char *labels_of(const struct live_function *function)
{
	struct text labels = {0};

	add_label(&labels, "module", function->module);
	add_label(&labels, "function", function->name[0] ? function->name : "?");
	add_label(&labels, "source", name_of_source(function->source));
	return text_take(&labels);
}

static uint64_t hash_of(const char *label, const char *module, enum perfx_source source)
{
	return fnv1a(label, strlen(label)) * 31 + fnv1a(module, strlen(module)) + source;
}

/* Labels are made once: functions keep their order. */
static int name_functions(struct live_metrics *live, const struct live_snapshot *snapshot)
{
	size_t count = snapshot->functions_count;
	int err = grow_array(&live->functions, &live->functions_capacity, count,
			     sizeof(*live->functions));

	for (size_t i = 0; i < count && !err; i++) {
		struct series *series = &live->functions[i];
		const struct live_function *function = &snapshot->functions[i];
		uint64_t of = hash_of(function->name, function->module, function->source);

		if (i < live->functions_count && series->of == of)
			continue;
		if (i < live->functions_count)
			free(series->labels);
		*series = (struct series){.of = of, .labels = labels_of(function)};
		if (!series->labels)
			err = -ENOMEM;
		if (i >= live->functions_count)
			live->functions_count = i + 1;
		series->same = 0;
		while (series->same < i && series->labels &&
		       (!live->functions[series->same].labels ||
			strcmp(live->functions[series->same].labels, series->labels) != 0))
			series->same++;
	}
	return err;
}

/* PROFILE_ABSENT: it is not measured, or no longer: a counter that stood still would say that there
 * are no calls. */
static uint64_t function_value(const struct series *series, enum metric metric)
{
	const struct live_sums *run = &series->run;
	uint64_t value;

	if (series->removed)
		return PROFILE_ABSENT;
	switch (metric) {
	case METRIC_FUNCTION_CALLS:
		return run->calls_count;
	case METRIC_FUNCTION_SELF:
		return series->untimed ? PROFILE_ABSENT : live_timed(run, run->self_ns);
	case METRIC_FUNCTION_TOTAL:
		return series->untimed ? PROFILE_ABSENT : live_timed(run, run->total_ns);
	default: /* most functions have none */
		value = metric == METRIC_FUNCTION_FLOPS ? run->flops : run->bytes;
		return value && !series->costless ? value : PROFILE_ABSENT;
	}
}

/* Reductions by the overhead budget are permanent: they are looked up again when there are more of
 * them, or more functions. */
static void mark_reduced(struct live_metrics *live, const struct profile *profile)
{
	if (live->reduced_count == profile->reduced_count &&
	    live->marked_count == live->functions_count)
		return;
	live->reduced_count = profile->reduced_count;
	live->marked_count = live->functions_count;
	FOR_EACH (reduced, profile->reduced) {
		const struct profile_function *function =
			profile_function(profile, reduced->function);
		uint64_t of = function ? hash_of(function_label(function), function->module,
						 function->source)
				       : 0;

		live->waits_cut |= !reduced->function;
		for (size_t j = 0; function && j < live->functions_count; j++) {
			struct series *series = &live->functions[j];

			if (series->of != of)
				continue;
			series->untimed = true;
			series->costless |= reduced->loses_cost;
			series->removed |= reduced->to == PERFX_REDUCED_REMOVED;
		}
	}
}

static void put_functions(struct metrics *metrics, const struct live_metrics *live, size_t count,
			  enum metric metric)
{
	metrics_family(metrics, metric);
	for (size_t i = 0; i < count; i++) {
		const struct series *series = &live->functions[i];
		uint64_t value = function_value(series, metric);

		if (series->same != i || value == PROFILE_ABSENT)
			continue;
		metrics_begin(metrics, NULL);
		metrics_labels(metrics, series->labels);
		metrics_value(metrics, value);
	}
}

static struct admitted *find_admitted(struct live_metrics *live,
				      const struct profile_process *process)
{
	FOR_EACH (admitted, live->processes)
		if (admitted->pid == process->pid && admitted->exec_count == process->exec_count)
			return admitted;
	return NULL;
}

/* If a pid was reused, shows the younger of its two processes. */
static void show_in_snapshot(struct admitted *admitted, const struct live_process *process)
{
	const struct profile_process *of = process->process;

	if (admitted->now && of->start_boot_ns < admitted->start_boot_ns)
		return;
	if (admitted->start_boot_ns != of->start_boot_ns)
		*admitted = (struct admitted){.pid = of->pid,
					      .exec_count = of->exec_count,
					      .start_boot_ns = of->start_boot_ns};
	admitted->now = process;
}

/* Processes with series keep them until they are gone; then there is room for others. */
static void choose_processes(struct live_metrics *live, const struct live_snapshot *snapshot)
{
	size_t kept = 0;

	for (size_t i = 0; i < live->processes_count; i++)
		live->processes[i].now = NULL;
	FOR_EACH (process, snapshot->processes) {
		struct admitted *admitted = find_admitted(live, process->process);

		if (admitted)
			show_in_snapshot(admitted, process);
	}
	for (size_t i = 0; i < live->processes_count; i++)
		if (live->processes[i].now)
			live->processes[kept++] = live->processes[i];
	live->processes_count = kept;
	FOR_EACH (process, snapshot->processes) {
		const struct profile_process *of = process->process;
		struct admitted *admitted = find_admitted(live, of);

		if (!admitted && live->processes_count < LIVE_METRICS_PROCESSES_MAX) {
			admitted = &live->processes[live->processes_count++];
			*admitted = (struct admitted){.pid = of->pid, .exec_count = of->exec_count};
		}
		if (admitted)
			show_in_snapshot(admitted, process);
	}
	for (size_t i = 0; i < live->processes_count; i++) {
		struct admitted *admitted = &live->processes[i];
		const struct live_process *process = admitted->now;
		uint64_t busy_ns =
			process->history_count
				? process->history[process->history_count - 1].gpu_busy_ns
				: PROFILE_ABSENT;

		if (busy_ns == PROFILE_ABSENT)
			continue;
		admitted->on_gpu = true;
		admitted->gpu_busy_ns += busy_ns;
	}
}

/* PROFILE_ABSENT: not measured. */
static uint64_t process_value(const struct admitted *of, enum metric metric)
{
	const struct live_process *now = of->now;

	switch (metric) {
	case METRIC_CPU:
		return now->cpu_ns;
	case METRIC_RESIDENT:
		return now->process->exited ? PROFILE_ABSENT : now->process->rss_bytes;
	case METRIC_READ:
		return now->read_bytes;
	case METRIC_WRITTEN:
		return now->write_bytes;
	case METRIC_FLOPS:
		return live_flops(now, &now->run);
	case METRIC_GPU_BUSY:
		return of->on_gpu ? of->gpu_busy_ns : PROFILE_ABSENT;
	default: /* METRIC_STEP_FLOPS */
		return now->steps_flops && !now->flops_cut ? now->steps_flops : PROFILE_ABSENT;
	}
}

static void put_waits(struct metrics *metrics, const struct live_process *now)
{
	const uint64_t *values =
		metrics->metric == METRIC_WAITS ? now->blocked_counts : now->blocked_ns;

	for (int reason = PERFX_WAIT_NONE + 1; reason < PERFX_WAIT_REASONS; reason++)
		if (now->blocked_counts[reason])
			metrics_process(metrics, now->process, "reason",
					name_of_wait((enum perfx_wait_reason)reason),
					values[reason]);
}

static void put_memory(struct metrics *metrics, const struct live_process *now)
{
	FOR_EACH (memory, now->process->memory) {
		uint64_t value = now->process->exited ? PROFILE_ABSENT : memory->current_bytes;

		if (metrics->metric == METRIC_ALLOCS)
			value = now->allocs_counts[memory->domain];
		else if (metrics->metric == METRIC_ALLOCATED)
			value = now->alloc_bytes[memory->domain];
		metrics_process(metrics, now->process, "domain", name_of_domain(memory->domain),
				value);
	}
}

/* The series of the family that was begun. */
static void put_process(struct metrics *metrics, const struct admitted *of)
{
	const struct live_process *now = of->now;
	switch (metrics->metric) {
	case METRIC_STEPS:
		if (now->steps_count)
			metrics_steps(metrics, now->process, now->steps_ns, now->steps_count);
		break;
	case METRIC_STEP_PHASES:
		if (now->steps_count)
			metrics_phases(metrics, now->process, now->phases);
		break;
	case METRIC_WAITS:
	case METRIC_WAIT_TIME:
		put_waits(metrics, now);
		break;
	case METRIC_ALLOCS:
	case METRIC_ALLOCATED:
	case METRIC_LIVE:
		put_memory(metrics, now);
		break;
	default:
		metrics_process(metrics, now->process, NULL, NULL,
				process_value(of, metrics->metric));
	}
}

static void put_one(struct metrics *metrics, enum metric metric, uint64_t value)
{
	metrics_family(metrics, metric);
	metrics_begin(metrics, NULL);
	metrics_value(metrics, value);
}

static void put_recording(struct metrics *metrics, const struct live_snapshot *snapshot)
{
	size_t alive = 0;

	metrics_family(metrics, METRIC_DURATION);
	metrics_begin(metrics, NULL);
	metrics_foreign(metrics, "host", snapshot->profile->host_name);
	metrics_value(metrics, snapshot->to_ns - snapshot->run_from_ns);
	for (size_t i = 0; i < snapshot->processes_count; i++)
		alive += !snapshot->processes[i].process->exited;
	put_one(metrics, METRIC_PROCESSES, alive);
	put_one(metrics, METRIC_PROCESSES_SEEN, snapshot->totals.processes_count);
	put_one(metrics, METRIC_STEPS_COUNT, snapshot->totals.steps_count);
	metrics_losses(metrics, snapshot->totals.losses);
}

int live_metrics__write(struct live_metrics *live, FILE *out, const struct live_snapshot *snapshot,
			const struct own_usage *own)
{
	struct metrics metrics = {.out = out};
	int err = name_functions(live, snapshot);

	if (err)
		return err;
	for (size_t i = 0; i < snapshot->functions_count; i++)
		live->functions[i].run = (struct live_sums){0};
	for (size_t i = 0; i < snapshot->functions_count; i++)
		live_sums_add(&live->functions[live->functions[i].same].run,
			      &snapshot->functions[i].run);
	mark_reduced(live, snapshot->profile);
	choose_processes(live, snapshot);
	live->snapshots_ns += snapshot->own_ns;
	put_recording(&metrics, snapshot);
	put_one(&metrics, METRIC_HITS, snapshot->totals.hits_count);
	put_one(&metrics, METRIC_OVERHEAD, u64_of(snapshot->totals.overhead_ns));
	put_one(&metrics, METRIC_OWN_CPU, own->cpu_ns);
	put_one(&metrics, METRIC_OWN_RESIDENT, own->rss_bytes);
	put_one(&metrics, METRIC_SNAPSHOTS, live->snapshots_ns);
	for (enum metric i = METRIC_FUNCTION_CALLS; i <= METRIC_FUNCTION_BYTES; i++)
		put_functions(&metrics, live, snapshot->functions_count, i);
	for (enum metric i = METRIC_CPU; i <= METRIC_LIVE; i++) {
		metrics_family(&metrics, i);
		if (live->waits_cut && (i == METRIC_WAITS || i == METRIC_WAIT_TIME))
			continue;
		for (size_t j = 0; j < live->processes_count; j++)
			put_process(&metrics, &live->processes[j]);
	}
	metrics_gpus(&metrics, snapshot->profile, true);
	return metrics_end(&metrics);
}

/* "# TYPE name counter" and "# HELP name words": after the name a counter has its suffix. *counter:
 * what the last TYPE line said. */
static void put_comment(FILE *out, const char *line, size_t length, bool *counter)
{
	const char *name = line + strlen("# TYPE ");
	size_t name_length = strcspn(name, " \n");

	if (begins_with(line, "# TYPE "))
		*counter = begins_with(name + name_length, " counter\n");
	fwrite(line, 1, (size_t)(name - line) + name_length, out);
	if (*counter)
		fputs("_total", out);
	fwrite(name + name_length, 1, length - (size_t)(name - line) - name_length, out);
}

int metrics_as_prometheus(FILE *out, const char *openmetrics)
{
	bool counter = false;

	for (const char *line = openmetrics; *line;) {
		size_t length = strcspn(line, "\n");

		length += line[length] == '\n';
		if (begins_with(line, "# TYPE ") || begins_with(line, "# HELP "))
			put_comment(out, line, length, &counter);
		else if (*line != '#')
			fwrite(line, 1, length, out);
		line += length;
	}
	return ferror(out) ? -EIO : 0;
}
