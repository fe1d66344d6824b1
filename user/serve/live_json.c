// SPDX-License-Identifier: BSD-2-Clause
#include "serve/page.h"

#include "analyze/location.h"
#include "base/grow.h"
#include "decode/names.h"
#include "report/document/document.h"
#include "report/json/output.h"

#include <jansson.h>

/* Limits of a page. */
#define PROCESSES_MAX 50
#define HISTORIES_MAX 6 /* of these */
#define ROWS_MAX      50
#define FINDINGS_MAX  20

static json_t *of_measured(uint64_t value)
{
	return value == PROFILE_ABSENT ? json_null() : json_of_integer(value);
}

static json_t *of_pid(const struct profile_process *process)
{
	return json_integer(process->pid);
}

static const struct {
	const char *name;
	size_t offset; /* of struct live_point */
} history_members[] = {
	{"time_ns", offsetof(struct live_point, time_ns)},
	{"steps", offsetof(struct live_point, steps_count)},
	{"step_ns", offsetof(struct live_point, step_ns)},
	{"cpu_ns", offsetof(struct live_point, cpu_ns)},
	{"rss_bytes", offsetof(struct live_point, rss_bytes)},
	{"live_bytes", offsetof(struct live_point, live_bytes)},
	{"gpu_busy_ns", offsetof(struct live_point, gpu_busy_ns)},
	{"flops", offsetof(struct live_point, flops)},
};

/* Times are since the start of the recording. */
static json_t *of_history(const struct live_process *process, uint64_t run_from_ns)
{
	json_t *history = json_object();

	for (size_t i = 0; i < sizeof(history_members) / sizeof(history_members[0]); i++) {
		json_t *values = json_array();

		for (size_t j = 0; j < process->history_count; j++) {
			const char *point = (const char *)&process->history[j];
			uint64_t value = *(const uint64_t *)(point + history_members[i].offset);

			if (!history_members[i].offset)
				value -= value < run_from_ns ? value : run_from_ns;
			json_array_append_new(values, of_measured(value));
		}
		json_object_set_new(history, history_members[i].name, values);
	}
	return history;
}

static json_t *of_process(const struct live_process *process, uint64_t run_from_ns, bool history)
{
	const struct profile_process *of = process->process;
	const struct live_point *last =
		process->history_count ? &process->history[process->history_count - 1] : NULL;

	return json_pack("{s:o,s:o,s:o,s:b,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "pid", of_pid(of),
			 "comm", json_of_name(of->comm), "rank",
			 of->rank.world_size ? json_integer(of->rank.rank) : json_null(), "ended",
			 (int)of->exited, "steps", json_of_integer(process->steps_count), "step_ns",
			 of_measured(last ? last->step_ns : PROFILE_ABSENT), "cpu_ns",
			 of_measured(last ? last->cpu_ns : PROFILE_ABSENT), "rss_bytes",
			 of_measured(of->rss_bytes), "flops",
			 of_measured(live_flops(process, &process->period)), "calls",
			 json_of_integer(process->period.calls_count), "phases",
			 json_of_phases(process->period_phases), "history",
			 history ? of_history(process, run_from_ns) : json_null());
}

static json_t *of_row(const struct profile *profile, const struct live_row *row)
{
	const struct profile_function *function = profile_function(profile, row->row->function);

	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "pid", of_pid(row->process), "name",
			 json_of_name(function ? function->name : ""), "label",
			 json_of_name(function ? function_label(function) : ""), "module",
			 json_of_name(function ? function->module_base : ""), "calls",
			 json_of_integer(row->period.calls_count), "self_ns",
			 of_measured(live_timed(&row->period, row->period.self_ns)), "total_ns",
			 of_measured(live_timed(&row->period, row->period.total_ns)), "flops",
			 json_of_integer(row->period.flops));
}

static json_t *of_lines(const struct live_snapshot *snapshot)
{
	json_t *lines = json_array();

	for (size_t i = 0; i < snapshot->lines_count && i < ROWS_MAX; i++) {
		const struct live_line *line = &snapshot->lines[i];
		struct text place = {0};

		location_line(&place, line->line);
		json_array_append_new(lines,
				      json_pack("{s:o,s:o,s:o,s:I,s:o,s:o,s:o,s:o}", "pid",
						of_pid(line->process), "place",
						json_of_name(text_peek(&place)), "file",
						json_of_name(line->line->file), "line",
						(json_int_t)line->line->line, "function",
						json_of_name(line->line->function), "samples",
						json_of_integer(line->samples_count), "on_cpu_ns",
						of_measured(line->on_cpu_ns), "off_cpu_ns",
						of_measured(line->off_cpu_ns)));
		text_clear(&place);
	}
	return lines;
}

static json_t *of_wait(const struct live_wait *wait)
{
	struct text words = {0};
	json_t *json = NULL;

	if (!wait)
		return json_null();
	document_add_wait(&words, wait->process, wait->wait);
	if (!words.failed)
		json = json_of_sentence(text_peek(&words));
	text_clear(&words);
	return json;
}

static json_t *of_threads(const struct live_snapshot *snapshot)
{
	json_t *threads = json_array();

	for (size_t i = 0; i < snapshot->threads_count && i < ROWS_MAX; i++) {
		const struct live_thread *thread = &snapshot->threads[i];

		json_array_append_new(threads,
				      json_pack("{s:o,s:I,s:o,s:o,s:o,s:o,s:o}", "pid",
						of_pid(thread->process), "tid",
						(json_int_t)thread->thread->tid, "comm",
						json_of_name(thread->thread->comm), "on_cpu_ns",
						of_measured(thread->on_cpu_ns), "runnable_ns",
						of_measured(thread->runnable_ns), "blocked_ns",
						of_measured(thread->blocked_ns), "waits_for",
						of_wait(thread->longest)));
	}
	return threads;
}

static json_t *of_waits(const struct live_snapshot *snapshot)
{
	json_t *waits = json_array();

	for (size_t i = 0; i < snapshot->waits_count && i < ROWS_MAX; i++) {
		const struct live_wait *wait = &snapshot->waits[i];

		json_array_append_new(
			waits,
			json_pack("{s:o,s:I,s:o,s:o,s:o}", "pid", of_pid(wait->process), "tid",
				  (json_int_t)wait->wait->tid, "for", of_wait(wait), "count",
				  json_of_integer(wait->count), "ns", json_of_integer(wait->ns)));
	}
	return waits;
}

static json_t *of_finding(const struct profile_process *process, const struct finding *finding)
{
	return json_pack("{s:o,s:s,s:s,s:o,s:o,s:o,s:o}", "pid", of_pid(process), "kind",
			 finding->kind, "severity", finding_severity_name(finding->severity),
			 "subject", json_of_sentence(finding->subject), "evidence",
			 json_of_sentence(finding->evidence), "threshold",
			 json_of_sentence(finding->threshold), "suggestion",
			 json_of_sentence(finding->suggestion));
}

/* By severity, then as they are ranked. */
static json_t *of_findings(const struct live_snapshot *snapshot)
{
	const struct analysis *analysis = snapshot->analysis;
	json_t *findings = json_array();

	for (int severity = FINDING_HIGH; analysis && severity <= FINDING_LOW; severity++)
		for (size_t i = 0; i < analysis->processes_count; i++)
			FOR_EACH (finding, analysis->processes[i].findings)
				if ((int)finding->severity == severity &&
				    json_array_size(findings) < FINDINGS_MAX)
					json_array_append_new(
						findings,
						of_finding(&snapshot->analyzed->processes[i],
							   finding));
	return findings;
}

char *live_json(const struct live_snapshot *snapshot, const struct own_usage *own)
{
	json_t *losses = json_object(), *processes = json_array(), *rows = json_array(), *json;
	char *text;

	for (size_t i = 0; i < snapshot->processes_count && i < PROCESSES_MAX; i++)
		json_array_append_new(processes,
				      of_process(&snapshot->processes[i], snapshot->run_from_ns,
						 i < HISTORIES_MAX));
	for (size_t i = 0; i < snapshot->rows_count && i < ROWS_MAX; i++)
		json_array_append_new(rows, of_row(snapshot->profile, &snapshot->rows[i]));
	for (int i = 0; i < PERFX_LOSS_KINDS; i++)
		if (snapshot->totals.losses[i])
			json_object_set_new(losses, name_of_loss((enum perfx_loss_kind)i),
					    json_of_integer(snapshot->totals.losses[i]));
	json = json_pack("{s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "number",
			 (json_int_t)snapshot->number, "since_start_ns",
			 json_of_integer(snapshot->to_ns - snapshot->run_from_ns), "period_ns",
			 json_of_integer(snapshot->to_ns - snapshot->from_ns), "host",
			 json_of_name(snapshot->profile->host_name), "verdict",
			 snapshot->analysis && snapshot->analysis->verdict
				 ? json_of_sentence(snapshot->analysis->verdict)
				 : json_null(),
			 "processes", processes, "functions", rows, "lines", of_lines(snapshot),
			 "threads", of_threads(snapshot), "waits", of_waits(snapshot), "findings",
			 of_findings(snapshot), "own",
			 json_pack("{s:o,s:o,s:o,s:f,s:f}", "cpu_ns", json_of_integer(own->cpu_ns),
				   "rss_bytes", json_of_integer(own->rss_bytes), "hits",
				   json_of_integer(snapshot->totals.hits_count), "overhead_ns",
				   snapshot->totals.overhead_ns, "overhead_percent",
				   snapshot->profile->overhead_percent),
			 "losses", losses);
	text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;

	json_decref(json);
	return text;
}
