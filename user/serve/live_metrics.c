// SPDX-License-Identifier: BSD-2-Clause
#include "serve/live_metrics.h"

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

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A function's series. Functions that look the same are one: a file may have several of a name. */
struct series {
	uint64_t of;	      /* hash of what the labels were made of */
	char *labels;	      /* NULL: memory was out */
	size_t same;	      /* index of the first with these labels; its own, if there is none */
	struct live_sums run; /* of all of these */
};

/* A process that has series, by what identifies it. */
struct admitted {
	uint32_t pid, exec_count;
	uint64_t start_boot_ns;
	const struct live_process *now; /* in the snapshot being written; NULL: it is gone */
	/* Of the run: live.h has the period's. */
	uint64_t gpu_busy_ns;
	bool on_gpu;
};

struct live_metrics {
	struct series *functions;
	size_t functions_count, functions_capacity;
	struct admitted processes[LIVE_METRICS_PROCESSES_MAX];
	size_t processes_count;
	uint64_t snapshots_ns; /* own_ns, added up */
};

struct live_metrics *live_metrics__new(void)
{
	return calloc(1, sizeof(struct live_metrics));
}

static void free_functions(struct live_metrics *live)
{
	for (size_t i = 0; i < live->functions_count; i++)
		free(live->functions[i].labels);
	free(live->functions);
}

void live_metrics__free(struct live_metrics *live)
{
	if (!live)
		return;
	free_functions(live);
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
	labels->failed |= shown.failed || cut.failed;
	text_clear(&shown);
	text_clear(&cut);
}

static uint64_t hash_of(const struct live_function *function)
{
	return fnv1a(function->name, strlen(function->name)) * 31 +
	       fnv1a(function->module, strlen(function->module)) + function->source;
}

static char *labels_of(const struct live_function *function)
{
	struct text labels = {0};

	add_label(&labels, "module", function->module);
	add_label(&labels, "function", function->name[0] ? function->name : "?");
	add_label(&labels, "source", name_of_source(function->source));
	return text_take(&labels);
}

static size_t find_same(const struct live_metrics *live, size_t index)
{
	const char *labels = live->functions[index].labels;

	for (size_t i = 0; labels && i < index; i++)
		if (live->functions[i].labels && !strcmp(live->functions[i].labels, labels))
			return i;
	return index;
}

/* Labels are made once: functions keep their order. */
static int name_functions(struct live_metrics *live, const struct live_snapshot *snapshot)
{
	size_t count = snapshot->functions_count;
	int err = grow_array(&live->functions, &live->functions_capacity, count,
			     sizeof(*live->functions));

	for (size_t i = 0; i < count && !err; i++) {
		struct series *series = &live->functions[i];
		uint64_t of = hash_of(&snapshot->functions[i]);

		if (i < live->functions_count && series->of == of)
			continue;
		if (i < live->functions_count)
			free(series->labels);
		*series = (struct series){.of = of, .labels = labels_of(&snapshot->functions[i])};
		if (!series->labels)
			err = -ENOMEM;
		if (i >= live->functions_count)
			live->functions_count = i + 1;
		series->same = find_same(live, i);
	}
	return err;
}

static void sum_functions(struct live_metrics *live, const struct live_snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->functions_count; i++)
		live->functions[i].run = (struct live_sums){0};
	for (size_t i = 0; i < snapshot->functions_count; i++) {
		live_sums_add(&live->functions[live->functions[i].same].run,
			      &snapshot->functions[i].run);
	}
}

static const struct metric_family metric_function_flops = {
	"perfx_function_flops", "counter", NULL,
	"Known floating-point operations of the function's own calls."};
static const struct metric_family metric_function_bytes = {
	"perfx_function_bytes", "counter", "bytes",
	"Known bytes that the function's own calls read and wrote."};

static const struct function_metric {
	const struct metric_family *family;
	size_t member; /* of struct live_sums */
	void (*put)(struct metrics *metrics, uint64_t value);
	bool sparse; /* most functions have none */
} function_metrics[] = {
	{&metric_function_calls, offsetof(struct live_sums, calls_count), metrics_count, false},
	{&metric_function_self, offsetof(struct live_sums, self_ns), metrics_seconds, false},
	{&metric_function_total, offsetof(struct live_sums, total_ns), metrics_seconds, false},
	{&metric_function_flops, offsetof(struct live_sums, flops), metrics_count, true},
	{&metric_function_bytes, offsetof(struct live_sums, bytes), metrics_count, true},
};

static void put_functions(struct metrics *metrics, const struct live_metrics *live, size_t count,
			  const struct function_metric *metric)
{
	metrics_family(metrics, metric->family);
	for (size_t i = 0; i < count; i++) {
		const struct series *series = &live->functions[i];
		uint64_t value;

		if (series->same != i)
			continue;
		memcpy(&value, (const char *)&series->run + metric->member, sizeof(value));
		if (metric->sparse && !value)
			continue;
		metrics_begin(metrics, NULL);
		metrics_labels(metrics, series->labels);
		metric->put(metrics, value);
	}
}

static bool is_same(const struct admitted *admitted, const struct profile_process *process)
{
	return admitted->pid == process->pid && admitted->exec_count == process->exec_count;
}

static struct admitted *find_admitted(struct live_metrics *live,
				      const struct profile_process *process)
{
	for (size_t i = 0; i < live->processes_count; i++)
		if (is_same(&live->processes[i], process))
			return &live->processes[i];
	return NULL;
}

/* What a GPU did in the period for the process. */
static void add_gpu(struct admitted *admitted, const struct live_process *process)
{
	const struct live_point *last;

	if (!process->history_count)
		return;
	last = &process->history[process->history_count - 1];
	if (last->gpu_busy_ns == PROFILE_ABSENT)
		return;
	admitted->on_gpu = true;
	admitted->gpu_busy_ns += last->gpu_busy_ns;
}

/* Of two with one pid, as where a pid is used again, the younger one is shown. */
static void meet(struct admitted *admitted, const struct live_process *process)
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

static void forget_gone(struct live_metrics *live)
{
	size_t kept = 0;

	for (size_t i = 0; i < live->processes_count; i++)
		if (live->processes[i].now)
			live->processes[kept++] = live->processes[i];
	live->processes_count = kept;
}

static void admit(struct live_metrics *live, const struct live_process *process)
{
	struct admitted *admitted = find_admitted(live, process->process);

	if (!admitted && live->processes_count < LIVE_METRICS_PROCESSES_MAX) {
		admitted = &live->processes[live->processes_count++];
		*admitted = (struct admitted){.pid = process->process->pid,
					      .exec_count = process->process->exec_count,
					      .start_boot_ns = process->process->start_boot_ns};
	}
	if (admitted)
		meet(admitted, process);
}

/* Those that have series keep them until they are gone; then there is room for others. */
static void choose_processes(struct live_metrics *live, const struct live_snapshot *snapshot)
{
	for (size_t i = 0; i < live->processes_count; i++)
		live->processes[i].now = NULL;
	for (size_t i = 0; i < snapshot->processes_count; i++) {
		const struct live_process *process = &snapshot->processes[i];
		struct admitted *admitted = find_admitted(live, process->process);

		if (admitted)
			meet(admitted, process);
	}
	forget_gone(live);
	for (size_t i = 0; i < snapshot->processes_count; i++)
		admit(live, &snapshot->processes[i]);
	for (size_t i = 0; i < live->processes_count; i++)
		add_gpu(&live->processes[i], live->processes[i].now);
}

static void put_optional(struct metrics *metrics, const struct live_process *process,
			 uint64_t value, void (*put)(struct metrics *metrics, uint64_t value))
{
	if (value == PROFILE_ABSENT)
		return;
	metrics_begin(metrics, NULL);
	metrics_process(metrics, process->process);
	put(metrics, value);
}

static void put_cpu(struct metrics *metrics, const struct admitted *of)
{
	put_optional(metrics, of->now, of->now->cpu_ns, metrics_seconds);
}

static void put_resident(struct metrics *metrics, const struct admitted *of)
{
	if (!of->now->process->exited)
		put_optional(metrics, of->now, of->now->process->rss_bytes, metrics_count);
}

static void put_read(struct metrics *metrics, const struct admitted *of)
{
	put_optional(metrics, of->now, of->now->read_bytes, metrics_count);
}

static void put_written(struct metrics *metrics, const struct admitted *of)
{
	put_optional(metrics, of->now, of->now->write_bytes, metrics_count);
}

static void put_flops(struct metrics *metrics, const struct admitted *of)
{
	put_optional(metrics, of->now, of->now->run.flops, metrics_count);
}

static void put_gpu_busy(struct metrics *metrics, const struct admitted *of)
{
	put_optional(metrics, of->now, of->on_gpu ? of->gpu_busy_ns : PROFILE_ABSENT,
		     metrics_seconds);
}

static void put_steps(struct metrics *metrics, const struct admitted *of)
{
	if (!of->now->steps_count)
		return;
	metrics_begin(metrics, "_sum");
	metrics_process(metrics, of->now->process);
	metrics_seconds(metrics, of->now->steps_ns);
	metrics_begin(metrics, "_count");
	metrics_process(metrics, of->now->process);
	metrics_count(metrics, of->now->steps_count);
}

static void put_phases(struct metrics *metrics, const struct admitted *of)
{
	for (int phase = PROFILE_PHASES - 1; phase >= 0 && of->now->steps_count; phase--) {
		metrics_begin(metrics, NULL);
		metrics_process(metrics, of->now->process);
		metrics_label(metrics, "phase", profile_phase_name((enum profile_phase)phase));
		metrics_seconds(metrics, of->now->phases[phase]);
	}
}

static void put_step_flops(struct metrics *metrics, const struct admitted *of)
{
	if (of->now->steps_flops)
		put_optional(metrics, of->now, of->now->steps_flops, metrics_count);
}

/* values: by reason. */
static void put_by_reason(struct metrics *metrics, const struct admitted *of,
			  const uint64_t values[PERFX_WAIT_REASONS],
			  void (*put)(struct metrics *metrics, uint64_t value))
{
	for (int reason = PERFX_WAIT_NONE + 1; reason < PERFX_WAIT_REASONS; reason++) {
		if (!of->now->blocked_counts[reason])
			continue;
		metrics_begin(metrics, NULL);
		metrics_process(metrics, of->now->process);
		metrics_label(metrics, "reason", name_of_wait((enum perfx_wait_reason)reason));
		put(metrics, values[reason]);
	}
}

static void put_waits(struct metrics *metrics, const struct admitted *of)
{
	put_by_reason(metrics, of, of->now->blocked_counts, metrics_count);
}

static void put_wait_time(struct metrics *metrics, const struct admitted *of)
{
	put_by_reason(metrics, of, of->now->blocked_ns, metrics_seconds);
}

static void put_memory(struct metrics *metrics, const struct admitted *of,
		       uint64_t (*value_of)(const struct live_process *process,
					    const struct profile_memory *memory))
{
	for (size_t i = 0; i < of->now->process->memory_count; i++) {
		const struct profile_memory *memory = &of->now->process->memory[i];
		uint64_t value = value_of(of->now, memory);

		if (value == PROFILE_ABSENT)
			continue;
		metrics_begin(metrics, NULL);
		metrics_process(metrics, of->now->process);
		metrics_label(metrics, "domain", profile_domain_name(memory->domain));
		metrics_count(metrics, value);
	}
}

static uint64_t allocs_of(const struct live_process *process, const struct profile_memory *memory)
{
	return process->allocs_counts[memory->domain];
}

static uint64_t bytes_of(const struct live_process *process, const struct profile_memory *memory)
{
	return process->alloc_bytes[memory->domain];
}

static uint64_t live_of(const struct live_process *process, const struct profile_memory *memory)
{
	return process->process->exited ? PROFILE_ABSENT : memory->current_bytes;
}

static void put_allocs(struct metrics *metrics, const struct admitted *of)
{
	put_memory(metrics, of, allocs_of);
}

static void put_allocated(struct metrics *metrics, const struct admitted *of)
{
	put_memory(metrics, of, bytes_of);
}

static void put_live(struct metrics *metrics, const struct admitted *of)
{
	put_memory(metrics, of, live_of);
}

static const struct metric_family
	metric_process_read = {"perfx_process_read_bytes", "counter", "bytes",
			       "Bytes that the process has read from storage."},
	metric_process_written = {"perfx_process_written_bytes", "counter", "bytes",
				  "Bytes that the process has written to storage."},
	metric_process_flops = {"perfx_process_flops", "counter", NULL,
				"Known floating-point operations of the process."},
	metric_process_gpu = {"perfx_process_gpu_busy_seconds", "counter", "seconds",
			      "Time in which a GPU worked for the process."},
	metric_waits = {"perfx_waits", "counter", NULL,
			"Times that a thread of the process has waited, by what for."},
	metric_wait_time = {"perfx_wait_seconds", "counter", "seconds",
			    "Time that threads of the process have waited, by what for."},
	metric_allocs = {"perfx_memory_allocations", "counter", NULL,
			 "Allocations during the recording."};

static const struct process_metric {
	const struct metric_family *family;
	void (*put)(struct metrics *metrics, const struct admitted *of);
} process_metrics[] = {
	{&metric_process_cpu, put_cpu},	      {&metric_process_resident, put_resident},
	{&metric_process_read, put_read},     {&metric_process_written, put_written},
	{&metric_process_flops, put_flops},   {&metric_process_gpu, put_gpu_busy},
	{&metric_steps, put_steps},	      {&metric_step_phases, put_phases},
	{&metric_step_flops, put_step_flops}, {&metric_waits, put_waits},
	{&metric_wait_time, put_wait_time},   {&metric_allocs, put_allocs},
	{&metric_allocated, put_allocated},   {&metric_live_bytes, put_live},
};

static void put_processes(struct metrics *metrics, const struct live_metrics *live)
{
	for (size_t i = 0; i < COUNT(process_metrics); i++) {
		metrics_family(metrics, process_metrics[i].family);
		for (size_t j = 0; j < live->processes_count; j++)
			process_metrics[i].put(metrics, &live->processes[j]);
	}
}

static uint64_t last_of(const struct profile_gpu_series *series)
{
	return series->last;
}

static void put_one(struct metrics *metrics, const struct metric_family *family,
		    void (*put)(struct metrics *metrics, uint64_t value), uint64_t value)
{
	metrics_family(metrics, family);
	metrics_begin(metrics, NULL);
	put(metrics, value);
}

static void put_recording(struct metrics *metrics, const struct live_snapshot *snapshot)
{
	static const struct metric_family
		seen = {"perfx_processes_seen", "counter", NULL,
			"Processes that were traced since the recording began."},
		now = {"perfx_processes", "gauge", NULL, "Processes that are being traced."},
		steps = {"perfx_steps", "counter", NULL,
			 "Training steps of all processes, also those that have ended."};
	size_t alive = 0;

	metrics_family(metrics, &metric_duration);
	metrics_begin(metrics, NULL);
	metrics_foreign(metrics, "host", snapshot->profile->host_name);
	metrics_seconds(metrics, snapshot->to_ns - snapshot->run_from_ns);
	for (size_t i = 0; i < snapshot->processes_count; i++)
		alive += !snapshot->processes[i].process->exited;
	put_one(metrics, &now, metrics_count, alive);
	put_one(metrics, &seen, metrics_count, snapshot->totals.processes_count);
	put_one(metrics, &steps, metrics_count, snapshot->totals.steps_count);
	metrics_losses(metrics, snapshot->totals.losses);
}

static void put_own(struct metrics *metrics, const struct live_metrics *live,
		    const struct live_snapshot *snapshot, const struct own_usage *own)
{
	static const struct metric_family
		hits = {"perfx_probe_hits", "counter", NULL,
			"Hits of probes in all traced processes."},
		overhead = {"perfx_overhead_seconds", "counter", "seconds",
			    "Estimated time that the hits have cost the traced processes."},
		cpu = {"perfx_tracer_cpu_seconds", "counter", "seconds",
		       "CPU time of the tracer itself."},
		rss = {"perfx_tracer_resident_bytes", "gauge", "bytes",
		       "Resident memory of the tracer itself."},
		snapshots = {"perfx_snapshot_cpu_seconds", "counter", "seconds",
			     "CPU time of the tracer that making snapshots took."};

	put_one(metrics, &hits, metrics_count, snapshot->totals.hits_count);
	put_one(metrics, &overhead, metrics_seconds, u64_of(snapshot->totals.overhead_ns));
	put_one(metrics, &cpu, metrics_seconds, own->cpu_ns);
	put_one(metrics, &rss, metrics_count, own->rss_bytes);
	put_one(metrics, &snapshots, metrics_seconds, live->snapshots_ns);
}

int live_metrics__write(struct live_metrics *live, FILE *out, const struct live_snapshot *snapshot,
			const struct own_usage *own)
{
	struct metrics metrics = {.out = out};
	int err = name_functions(live, snapshot);

	if (err)
		return err;
	sum_functions(live, snapshot);
	choose_processes(live, snapshot);
	live->snapshots_ns += snapshot->own_ns;
	put_recording(&metrics, snapshot);
	put_own(&metrics, live, snapshot, own);
	for (size_t i = 0; i < COUNT(function_metrics); i++)
		put_functions(&metrics, live, snapshot->functions_count, &function_metrics[i]);
	put_processes(&metrics, live);
	metrics_gpus(&metrics, snapshot->profile, last_of);
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
