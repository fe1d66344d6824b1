// SPDX-License-Identifier: BSD-2-Clause
#include "report/json_report_internal.h"

#include "analyze/roofline.h"
#include "base/escape.h"
#include "decode/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *json_text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

uint64_t json_number_of(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	double real = json_number_value(value);

	if (json_is_integer(value) && json_integer_value(value) >= 0)
		return (uint64_t)json_integer_value(value);
	return json_is_real(value) && real >= 0 && real < 0x1p63 ? (uint64_t)(real + 0.5)
								 : PROFILE_ABSENT;
}

uint64_t json_count_of(const json_t *object, const char *key)
{
	uint64_t number = json_number_of(object, key);

	return number == PROFILE_ABSENT ? 0 : number;
}

/* The value of an enum whose name it is; 0: none's. */
static unsigned named(const char *text, const char *(*name_of)(unsigned value), unsigned end)
{
	for (unsigned value = 1; value < end; value++)
		if (!strcmp(name_of(value), text))
			return value;
	return 0;
}

static const char *source_name(unsigned value)
{
	return name_of_source((enum perfx_source)value);
}

static const char *dtype_name(unsigned value)
{
	return name_of_dtype((enum perfx_dtype)value);
}

static enum perfx_dtype dtype_of(const json_t *object)
{
	return (enum perfx_dtype)named(json_text_of(object, "dtype"), dtype_name, PERFX_DTYPES);
}

/* --- the capture ------------------------------------------------------------------------------ */

static void read_capture(struct json_report *report)
{
	const json_t *capture = json_object_get(report->root, "capture");
	const json_t *host = json_object_get(capture, "host");
	const json_t *overhead = json_object_get(report->root, "overhead");
	const json_t *percent = json_object_get(overhead, "estimated_percent");
	struct profile *p = &report->profile;

	p->host_name = json_text_of(host, "name");
	p->kernel = json_text_of(host, "kernel");
	p->boot_id = json_text_of(host, "boot_id");
	p->command = "";
	p->tool_version = json_text_of(json_object_get(report->root, "tool"), "version");
	p->cpus_count = (uint32_t)json_count_of(host, "cpus");
	p->start_unix_ns = json_count_of(capture, "start_unix_ns");
	p->duration_ns = json_count_of(capture, "duration_ns");
	p->partial = json_is_true(json_object_get(capture, "partial")) ? PROFILE_PARTIAL_LOSSY : 0;
	p->ended = true;
	p->compensated = json_is_true(json_object_get(overhead, "compensated"));
	p->overhead_percent = json_is_number(percent) ? json_number_value(percent) : -1;
}

static uint64_t per_s_of(const json_t *object, const char *key, double unit)
{
	double value = json_number_value(json_object_get(object, key)) * unit;

	return value > 0 && value < 0x1p63 ? (uint64_t)(value + 0.5) : 0;
}

static enum perfx_peak_origin origin_of(const json_t *peak)
{
	const char *name = json_text_of(peak, "origin");
	enum perfx_peak_origin origin = PERFX_PEAK_ESTIMATED;

	while (origin && strcmp(name, name_of_peak_origin(origin)))
		origin--;
	return origin;
}

static int read_peaks(struct json_report *report)
{
	const json_t *peaks = json_object_get(report->root, "peaks"), *peak;
	size_t at;

	report->peaks = calloc(json_array_size(peaks) + 1, sizeof(*report->peaks));
	if (!report->peaks)
		return -ENOMEM;
	json_array_foreach(peaks, at, peak)
	{
		report->peaks[at] = (struct perfx_peak){
			.flops_per_s = per_s_of(peak, "gflops_per_s", 1e9),
			.bytes_per_s = per_s_of(peak, "bytes_per_s", 1),
			.threads = (uint32_t)json_count_of(peak, "threads"),
			.dtype = (uint8_t)dtype_of(peak),
			.origin = (uint8_t)origin_of(peak),
		};
	}
	report->profile.peaks = report->peaks;
	report->profile.peaks_count = json_array_size(peaks);
	return 0;
}

/* --- functions -------------------------------------------------------------------------------- */

static void read_function(struct json_report *report, const json_t *from, uint32_t id)
{
	bool is_range = !strcmp(json_text_of(from, "kind"), "range");

	report->functions[id - 1] = (struct profile_function){
		.id = id,
		.source = (enum perfx_source)named(json_text_of(from, "source"), source_name,
						   PERFX_SOURCE_NCCL + 1),
		.name = json_text_of(from, "name"),
		.module = json_text_of(from, "path"),
		.module_base = json_text_of(from, "module"),
		.build_id = "",
		.offset = json_count_of(from, "offset"),
		.flags = is_range ? PERFX_FUNCTION_RANGE : 0,
	};
}

static bool is_submitted(const json_t *row)
{
	return !strcmp(json_text_of(row, "rate_withheld"),
		       roofline_withheld_name(ROOFLINE_SUBMITTED));
}

static struct profile_row row_of(const json_t *from, uint32_t id)
{
	struct profile_row row = {
		.function = id,
		.calls_count = json_count_of(from, "calls"),
		.timed_count = json_count_of(from, "timed"),
		.unwound_count = json_count_of(from, "unwound"),
		.overflow_count = json_count_of(from, "booked"),
		.total_ns = json_count_of(from, "total_ns"),
		.self_ns = json_count_of(from, "self_ns"),
		.avg_ns = json_number_of(from, "avg_ns"),
		.min_ns = json_number_of(from, "min_ns"),
		.max_ns = json_number_of(from, "max_ns"),
		.p50_ns = json_number_of(from, "p50_ns"),
		.p95_ns = json_number_of(from, "p95_ns"),
		.p99_ns = json_number_of(from, "p99_ns"),
		.stddev_ns = -1,
		.alloc_bytes = json_number_of(from, "alloc_bytes"),
		.inclusive = {.flops = json_count_of(from, "flops"),
			      .bytes = json_count_of(from, "bytes"),
			      .counted_count = json_is_integer(json_object_get(from, "flops")),
			      /* of how many calls it does not say */
			      .submitted_count = is_submitted(from)},
		.computing_ns = json_count_of(from, "work_ns"),
		.dtype = dtype_of(from),
	};

	if (row.overflow_count > row.timed_count)
		row.overflow_count = row.timed_count;
	if (json_is_number(json_object_get(from, "stddev_ns")))
		row.stddev_ns = (double)json_count_of(from, "stddev_ns");
	return row;
}

static int read_functions(struct json_report *report, struct profile_process *process,
			  const json_t *from)
{
	const json_t *functions = json_object_get(from, "functions"), *function;
	size_t at;

	process->rows = calloc(json_array_size(functions) + 1, sizeof(*process->rows));
	if (!process->rows)
		return -ENOMEM;
	json_array_foreach(functions, at, function)
	{
		uint32_t id = (uint32_t)++report->profile.functions_count;

		read_function(report, function, id);
		process->rows[process->rows_count++] = row_of(function, id);
	}
	return 0;
}

/* --- steps ------------------------------------------------------------------------------------ */

static void read_phases(const json_t *from, uint64_t phases[PROFILE_PHASES])
{
	const json_t *breakdown = json_object_get(from, "breakdown");

	for (int i = 0; i < PROFILE_PHASES; i++)
		phases[i] = json_count_of(breakdown, profile_phase_name((enum profile_phase)i));
}

static void read_steps(struct profile_process *process, const json_t *from)
{
	const json_t *steps = json_object_get(from, "steps");
	const json_t *by_state = json_object_get(steps, "figures");
	struct profile_steps *into = &process->steps;

	*into = (struct profile_steps){
		.count = json_count_of(steps, "count"),
		.tid = (uint32_t)json_count_of(steps, "tid"),
		.total_ns = json_count_of(steps, "total_ns"),
		.avg_ns = json_count_of(steps, "avg_ns"),
		.p50_ns = json_count_of(steps, "p50_ns"),
		.p95_ns = json_count_of(steps, "p95_ns"),
		.max_ns = json_count_of(steps, "max_ns"),
		.stddev_ns = -1,
		.cost = {.steps_count = json_count_of(steps, "computed"),
			 .ns = json_count_of(steps, "computed_ns"),
			 .flops = json_count_of(steps, "flops"),
			 .thread_flops = json_count_of(steps, "thread_flops"),
			 .dtype = dtype_of(steps),
			 .counted_count = json_count_of(by_state, "counted"),
			 .unread_count = json_count_of(by_state, "unread"),
			 .opaque_count = json_count_of(by_state, "opaque")},
	};
	if (json_is_number(json_object_get(steps, "stddev_ns")))
		into->stddev_ns = (double)json_count_of(steps, "stddev_ns");
	read_phases(steps, into->phases);
}

/* --- processes -------------------------------------------------------------------------------- */

static const char *command_line(struct json_report *report, const json_t *from)
{
	const json_t *arguments = json_object_get(from, "cmdline"), *argument;
	struct text line = {0};
	const char *kept;
	size_t at;

	json_array_foreach(arguments, at, argument)
	{
		if (at)
			text_printf(&line, "%c", PROFILE_ARGUMENT_END);
		text_add(&line, json_is_string(argument) ? json_string_value(argument) : "");
	}
	kept = line.failed ? NULL : pool_add(&report->texts, text_peek(&line));
	text_clear(&line);
	return kept;
}

static void read_compute(struct profile_process *process, const json_t *from)
{
	const json_t *compute = json_object_get(from, "compute");

	process->compute.measured = compute != NULL;
	process->compute.cost.flops = json_count_of(compute, "flops");
	process->compute.cost.counted_count =
		json_count_of(json_object_get(compute, "figures"), "counted");
}

static int read_process(struct json_report *report, struct profile_process *process,
			const json_t *from)
{
	uint64_t user_ns = json_number_of(from, "cpu_user_ns");
	uint64_t system_ns = json_number_of(from, "cpu_system_ns");
	int err;

	*process = (struct profile_process){
		.index = (uint32_t)report->profile.processes_count,
		.pid = (uint32_t)json_count_of(from, "pid"),
		.ppid = (uint32_t)json_count_of(from, "ppid"),
		.exec_count = (uint32_t)json_count_of(from, "exec"),
		.comm = json_text_of(from, "comm"),
		.cmdline = command_line(report, from),
		.to_ns = json_count_of(from, "wall_ns"),
		.cpu_user_ns = user_ns,
		.cpu_system_ns = system_ns,
		.cpu_ns = PROFILE_ABSENT,
		.rss_bytes = json_number_of(from, "rss_bytes"),
		.rss_peak_bytes = json_number_of(from, "rss_peak_bytes"),
	};
	if (!process->cmdline)
		return -ENOMEM;
	if (user_ns != PROFILE_ABSENT && system_ns != PROFILE_ABSENT)
		process->cpu_ns = user_ns + system_ns;
	read_compute(process, from);
	read_steps(process, from);
	err = read_functions(report, process, from);
	return err ? err : json_read_memory(report, process, from);
}

static int read_processes(struct json_report *report)
{
	const json_t *processes = json_object_get(report->root, "processes"), *process;
	struct profile *p = &report->profile;
	size_t at, functions = 0;
	int err = 0;

	json_array_foreach(processes, at, process)
	{
		functions += json_array_size(json_object_get(process, "functions"));
	}
	p->processes = calloc(json_array_size(processes) + 1, sizeof(*p->processes));
	report->functions = calloc(functions + 1, sizeof(*report->functions));
	if (!p->processes || !report->functions)
		return -ENOMEM;
	p->functions = report->functions;
	json_array_foreach(processes, at, process)
	{
		if (err)
			break;
		p->processes_count++;
		err = read_process(report, &p->processes[at], process);
	}
	return err;
}

/* --- findings --------------------------------------------------------------------------------- */

/* As a sentence without names of ours: all of it is foreign. */
static char *sentence_of(const json_t *from, const char *key)
{
	struct text text = {0};

	escape_display(&text, json_text_of(from, key));
	return text_take(&text);
}

static enum finding_severity severity_of(const json_t *from)
{
	const char *name = json_text_of(from, "severity");

	for (int severity = FINDING_HIGH; severity < FINDING_LOW; severity++)
		if (!strcmp(name, finding_severity_name((enum finding_severity)severity)))
			return (enum finding_severity)severity;
	return FINDING_LOW;
}

static int read_findings(struct process_analysis *into, const json_t *process)
{
	const json_t *findings = json_object_get(process, "findings"), *from;
	size_t at;

	into->findings = calloc(json_array_size(findings) + 1, sizeof(*into->findings));
	if (!into->findings)
		return -ENOMEM;
	json_array_foreach(findings, at, from)
	{
		struct finding *finding = &into->findings[into->findings_count++];

		*finding = (struct finding){.kind = json_text_of(from, "kind"),
					    .severity = severity_of(from),
					    .subject = sentence_of(from, "subject"),
					    .evidence = sentence_of(from, "evidence"),
					    .threshold = sentence_of(from, "threshold"),
					    .suggestion = sentence_of(from, "suggestion")};
		if (!finding->subject || !finding->evidence || !finding->threshold ||
		    !finding->suggestion)
			return -ENOMEM;
	}
	return 0;
}

struct analysis *json_report__analysis(const struct json_report *report,
				       const struct profile *selected)
{
	const json_t *processes = json_object_get(report->root, "processes");
	struct analysis *analysis = calloc(1, sizeof(*analysis));
	int err = 0;

	if (!analysis)
		return NULL;
	analysis->processes = calloc(selected->processes_count + 1, sizeof(*analysis->processes));
	err = analysis->processes ? 0 : -ENOMEM;
	for (size_t i = 0; i < selected->processes_count && !err; i++) {
		analysis->processes_count++;
		/* indices begin with 1, as those of captures */
		err = read_findings(&analysis->processes[i],
				    json_array_get(processes, selected->processes[i].index - 1));
	}
	if (!err)
		return analysis;
	analysis__free(analysis);
	return NULL;
}

/* --- the file --------------------------------------------------------------------------------- */

bool json_report_is(const char *path)
{
	FILE *file = fopen(path, "re");
	int letter = 0;

	while (file && (letter = fgetc(file)) != EOF && strchr(" \t\r\n", letter))
		;
	if (file)
		fclose(file);
	return letter == '{';
}

static int read_all(struct json_report *report)
{
	int err;

	read_capture(report);
	err = read_peaks(report);
	return err ? err : read_processes(report);
}

struct json_report *json_report__read(const char *path, char why[JSON_REPORT_WHY])
{
	struct json_report *report = calloc(1, sizeof(*report));
	json_error_t error = {.line = -1};

	if (report)
		report->root = json_load_file(path, 0, &error);
	if (report && !report->root)
		snprintf(why, JSON_REPORT_WHY, "no JSON: line %d: %s", error.line, error.text);
	else if (report && strcmp(json_text_of(report->root, "schema"), "perfx.report/1"))
		snprintf(why, JSON_REPORT_WHY,
			 "no report of perfx-trace: its schema is not "
			 "perfx.report/1");
	else if (!report || read_all(report))
		snprintf(why, JSON_REPORT_WHY, "out of memory");
	else
		return report;
	json_report__free(report);
	return NULL;
}

const struct profile *json_report__profile(const struct json_report *report)
{
	return &report->profile;
}

void json_report__free(struct json_report *report)
{
	if (!report)
		return;
	for (size_t i = 0; report->profile.processes && i < report->profile.processes_count; i++) {
		free(report->profile.processes[i].rows);
		json_free_memory(&report->profile.processes[i]);
	}
	free(report->profile.processes);
	free(report->functions);
	free(report->peaks);
	pool_clear(&report->texts);
	json_decref(report->root);
	free(report);
}
