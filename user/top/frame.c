// SPDX-License-Identifier: BSD-2-Clause
#include "top/layout.h"

#include "analyze/location.h"
#include "base/escape.h"
#include "base/hash.h"
#include "base/order.h"
#include "base/units.h"
#include "decode/names.h"
#include "report/document/document.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COLUMN_PID                                                                           \
	{                                                                                    \
		.title = "PID", .unit = TOP_NUMBER, .width = 7, .processes = true, .rank = 1 \
	}

static const struct top_column function_columns[] = {
	{.title = "Self %", .unit = TOP_SHARE, .width = 7},
	{.title = "Self", .unit = TOP_NS, .width = 8, .rank = 3},
	{.title = "Calls/s", .unit = TOP_RATE, .width = 9},
	{.title = "Avg", .unit = TOP_NS, .width = 8},
	{.title = "FLOP/s", .unit = TOP_FLOPS, .width = 8, .rank = 2},
	COLUMN_PID,
	{.title = "Function", .unit = TOP_TEXT},
};

/* The columns that order the lines. */
enum { LINE_CPU, LINE_WAITING };

static const struct top_column line_columns[] = {
	[LINE_CPU] = {.title = "CPU %", .unit = TOP_SHARE, .width = 7},
	[LINE_WAITING] = {.title = "Waiting %", .unit = TOP_SHARE, .width = 9},
	{.title = "Samples/s", .unit = TOP_RATE, .width = 9, .rank = 2},
	COLUMN_PID,
	{.title = "Line (sampled)", .unit = TOP_TEXT},
};

static const struct top_column thread_columns[] = {
	{.title = "TID", .unit = TOP_NUMBER, .width = 7},
	{.title = "CPU %", .unit = TOP_SHARE, .width = 7},
	{.title = "Runnable", .unit = TOP_SHARE, .width = 8, .rank = 2},
	{.title = "Blocked", .unit = TOP_SHARE, .width = 7},
	{.title = "Thread", .unit = TOP_TEXT, .width = 16},
	{.title = "Wait", .unit = TOP_NS, .width = 8, .rank = 3},
	COLUMN_PID,
	{.title = "Waits for", .unit = TOP_TEXT, .cut_end = true},
};

static const struct top_column finding_columns[] = {
	{.title = "Severity", .unit = TOP_TEXT, .width = 8},
	{.title = "Finding", .unit = TOP_TEXT, .width = 20},
	{.title = "For", .unit = TOP_NS, .width = 8, .rank = 2},
	COLUMN_PID,
	{.title = "Evidence", .unit = TOP_TEXT, .cut_end = true},
};

/* The columns whose values are sums over the stacks that lead to a place. */
enum { MEMORY_LIVE, MEMORY_BYTES, MEMORY_ALLOCS, MEMORY_PLACE = 5 };

static const struct top_column memory_columns[] = {
	[MEMORY_LIVE] = {.title = "Live", .unit = TOP_BYTES, .width = 9},
	[MEMORY_BYTES] = {.title = "Bytes/s", .unit = TOP_BYTES, .width = 9},
	[MEMORY_ALLOCS] = {.title = "Allocs/s", .unit = TOP_RATE, .width = 9, .rank = 2},
	{.title = "Kind", .unit = TOP_TEXT, .width = 13},
	COLUMN_PID,
	[MEMORY_PLACE] = {.title = "Allocated at", .unit = TOP_TEXT},
};

#define TABLE(list)                                                                  \
	{                                                                            \
		.columns = (list), .columns_count = sizeof(list) / sizeof((list)[0]) \
	}

static const struct top_table tables[TOP_VIEWS] = {
	[TOP_FUNCTIONS] = TABLE(function_columns), [TOP_LINES] = TABLE(line_columns),
	[TOP_THREADS] = TABLE(thread_columns),	   [TOP_FINDINGS] = TABLE(finding_columns),
	[TOP_MEMORY] = TABLE(memory_columns),
};

const char *top_view_name(enum top_view view)
{
	static const char *const names[] = {"Functions", "Lines", "Threads", "Findings", "Memory"};

	return view < TOP_VIEWS ? names[view] : "";
}

struct composer {
	struct top_frame *frame;
	const struct live_snapshot *snapshot;
	double period_s;
	struct top_row lost;
};

static double measured(uint64_t value)
{
	return value == PROFILE_ABSENT ? NAN : (double)value;
}

/* Of a CPU, in the period. */
static double share_of_period(const struct composer *c, uint64_t ns)
{
	return measured(ns) / 1e9 / c->period_s;
}

/* Of a CPU, between two samples, whose times differ from those of the snapshots. */
static double share_of_samples(const struct composer *c, uint64_t ns, uint64_t wall_ns)
{
	return wall_ns && wall_ns != PROFILE_ABSENT ? measured(ns) / (double)wall_ns
						    : share_of_period(c, ns);
}

static double per_s(const struct composer *c, uint64_t count)
{
	return (double)count / c->period_s;
}

static const char *keep_text(struct composer *c, struct text *text)
{
	const char *kept = text->failed ? NULL : pool_add(&c->frame->pool, text_peek(text));

	c->frame->failed |= !kept;
	text_clear(text);
	return kept ? kept : "";
}

static const char *keep_name(struct composer *c, const char *name)
{
	struct text text = {0};

	escape_display(&text, name && *name ? name : "?");
	return keep_text(c, &text);
}

static const char *keep_sentence(struct composer *c, const char *sentence)
{
	struct text text = {0};

	escape_unmarked(&text, sentence);
	return keep_text(c, &text);
}

#define VALUE(number)                         \
	{                                     \
		.value = (number), .text = "" \
	}
#define TEXT(words)                           \
	{                                     \
		.value = NAN, .text = (words) \
	}

/* A new row, with a cell for each column. Without memory it is one that is not shown. */
#define ADD_ROW(c, view, process, ...)                                          \
	add_row((c), (view), (process), (const struct top_cell[]){__VA_ARGS__}, \
		sizeof((const struct top_cell[]){__VA_ARGS__}))
static struct top_row *add_row(struct composer *c, enum top_view view,
			       const struct profile_process *process, const struct top_cell *cells,
			       size_t size)
{
	struct top_table *table = &c->frame->tables[view];
	bool failed = GROW_BY_ONE(table->rows);
	struct top_row *row = failed ? &c->lost : &table->rows[table->rows_count++];

	c->frame->failed |= failed;
	*row = (struct top_row){.pid = process->pid};
	memcpy(row->cells, cells, size);
	return row;
}

static void add_function(struct composer *c, const struct live_row *live)
{
	const struct profile_function *function =
		profile_function(c->snapshot->profile, live->row->function);
	const struct live_sums *sums = &live->period;
	uint64_t self_ns = live_timed(sums, sums->self_ns);

	ADD_ROW(c, TOP_FUNCTIONS, live->process, VALUE(share_of_period(c, self_ns)),
		VALUE(measured(self_ns)), VALUE(per_s(c, sums->calls_count)),
		VALUE(sums->timed_count ? (double)sums->total_ns / (double)sums->timed_count : NAN),
		VALUE(sums->flops && sums->total_ns
			      ? (double)sums->flops * 1e9 / (double)sums->total_ns
			      : NAN),
		VALUE(live->process->pid),
		TEXT(keep_name(c, function ? function_label(function) : "")));
}

static double or_0(double value)
{
	return isnan(value) ? 0 : value;
}

/* Time on a CPU first: otherwise idle threads would lead the list. */
ORDER(by_cpu, struct top_row,
      DESCENDING(or_0(a->cells[LINE_CPU].value), or_0(b->cells[LINE_CPU].value)),
      DESCENDING(or_0(a->cells[LINE_WAITING].value), or_0(b->cells[LINE_WAITING].value)))

/* How long the finding has existed without a break. */
static double age_of(struct composer *c, struct top_past *past,
		     const struct profile_process *process, const struct finding *finding)
{
	const struct live_snapshot *snapshot = c->snapshot;
	uint64_t key = fnv1a(finding->subject, strlen(finding->subject)) ^
		       (fnv1a(finding->kind, strlen(finding->kind)) + process->pid);
	size_t at = 0;

	while (at < past->known_count && past->known[at].key != key)
		at++;
	if (at == past->known_count &&
	    LIST_ADD(past->known, (struct top_known){.key = key, .since_ns = snapshot->to_ns})) {
		c->frame->failed = true;
		return NAN;
	}
	past->known[at].number = snapshot->number;
	return (double)(snapshot->to_ns - past->known[at].since_ns);
}

/* The lines that the table shows below a selected finding. */
static const char *details_of(struct composer *c, const struct finding *finding)
{
	struct text sentences = {0};
	const char *kept;

	text_printf(&sentences, "%s: %s\n%s\n", finding->kind, finding->subject, finding->evidence);
	if (finding->gain_ns > 0 && !finding->gain_unknown)
		text_printf(&sentences, "saves up to %s of each step\n",
			    as_ns(u64_of(finding->gain_ns)));
	text_printf(&sentences, "Advice: %s", finding->suggestion);
	kept = keep_sentence(c, text_peek(&sentences));
	text_clear(&sentences);
	return kept;
}

static void add_findings(struct composer *c, struct top_past *past)
{
	const struct live_snapshot *snapshot = c->snapshot;
	struct top_table *table = &c->frame->tables[TOP_FINDINGS];
	size_t kept = 0;

	if (!snapshot->analysis) {
		table->why = "not judged yet";
		return;
	}
	for (enum finding_severity severity = FINDING_HIGH; severity <= FINDING_LOW; severity++)
		for (size_t i = 0; i < snapshot->analysis->processes_count; i++) {
			const struct process_analysis *of = &snapshot->analysis->processes[i];
			const struct profile_process *process = &snapshot->analyzed->processes[i];

			for (size_t k = 0; k < of->findings_count; k++) {
				const struct finding *finding = &of->findings[k];
				struct top_row *row;

				if (finding->severity != severity)
					continue;
				row = ADD_ROW(c, TOP_FINDINGS, process,
					      {.value = severity,
					       .text = finding_severity_name(severity)},
					      TEXT(keep_name(c, finding->kind)),
					      VALUE(age_of(c, past, process, finding)),
					      VALUE(process->pid),
					      TEXT(keep_sentence(c, finding->evidence)));
				row->severity = severity;
				row->details = details_of(c, finding);
				c->frame->findings_counts[severity]++;
			}
		}
	/* the age of a finding starts again when it returns */
	for (size_t i = 0; i < past->known_count; i++)
		if (past->known[i].number == snapshot->number)
			past->known[kept++] = past->known[i];
	past->known_count = kept;
	if (!table->rows_count)
		table->why = "nothing was found";
}

/* NAN: not measured yet. */
static void add_to(struct top_cell *cell, double value)
{
	cell->value = isnan(cell->value) ? value : cell->value + value;
}

/* Adds a hotspot to the row of its place, if the rows from `from` on have one: several stacks may
 * have led there. Rates are those of the epoch: hotspots have no period. */
static void add_hotspot(struct composer *c, size_t from, const struct profile_process *process,
			const struct profile_memory *memory, const struct profile_hotspot *hotspot)
{
	const struct profile *profile = c->snapshot->profile;
	double epoch_s = (double)profile_recorded_ns(profile, process) / 1e9;
	struct top_table *table = &c->frame->tables[TOP_MEMORY];
	struct top_row *row = NULL;
	struct text words = {0};
	const char *place;

	location_hotspot(&words, profile, memory, hotspot);
	place = keep_sentence(c, text_peek(&words));
	text_clear(&words);
	for (size_t i = from; i < table->rows_count && !row; i++)
		if (!strcmp(table->rows[i].cells[MEMORY_PLACE].text, place))
			row = &table->rows[i];
	if (!row)
		row = ADD_ROW(c, TOP_MEMORY, process, VALUE(NAN), VALUE(NAN), VALUE(NAN),
			      TEXT(memory_words(memory)), VALUE(process->pid), TEXT(place));
	add_to(&row->cells[MEMORY_LIVE], measured(hotspot->live_bytes));
	if (epoch_s <= 0)
		return;
	add_to(&row->cells[MEMORY_BYTES], (double)hotspot->allocated_bytes.value / epoch_s);
	add_to(&row->cells[MEMORY_ALLOCS], (double)hotspot->allocs.value / epoch_s);
}

/* Live, then allocated, descending. */
static double live_of(const struct top_row *row)
{
	return isnan(row->cells[MEMORY_LIVE].value) ? -1 : row->cells[MEMORY_LIVE].value;
}

ORDER(by_live, struct top_row, DESCENDING(live_of(a), live_of(b)),
      DESCENDING(a->cells[MEMORY_BYTES].value, b->cells[MEMORY_BYTES].value))

#define HOTSPOTS_MAX 200 /* of a process's domain */

static void add_memory(struct composer *c)
{
	const struct profile *profile = c->snapshot->profile;
	struct top_table *table = &c->frame->tables[TOP_MEMORY];
	bool recorded = false;

	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *process = &profile->processes[i];

		for (size_t k = 0; k < process->memory_count; k++) {
			const struct profile_memory *memory = &process->memory[k];
			size_t from = table->rows_count;

			recorded = true;
			for (size_t n = 0; n < memory->hotspots_count && n < HOTSPOTS_MAX; n++)
				add_hotspot(c, from, process, memory, &memory->hotspots[n]);
		}
	}
	SORT_ITEMS(table->rows, table->rows_count, by_live);
	if (!table->rows_count)
		table->why = recorded ? "nothing was allocated" : "no allocation is traced";
}

static uint64_t point_or_0(uint64_t value)
{
	return value == PROFILE_ABSENT ? 0 : value;
}

/* From the kernels that ran, otherwise the driver's utilization of the busiest device of the
 * process. */
static double gpu_share(const struct composer *c, const struct live_point *last,
			const struct profile_process *process)
{
	uint64_t most = PROFILE_ABSENT;

	if (last->gpu_busy_ns != PROFILE_ABSENT)
		return share_of_period(c, last->gpu_busy_ns);
	for (size_t i = 0; i < process->gpu.places_count; i++) {
		const struct profile_gpu_device *device = process->gpu.places[i].device;
		uint64_t percent = device->metrics[PROFILE_GPU_UTILISATION].last;

		if (percent != PROFILE_ABSENT && (most == PROFILE_ABSENT || percent > most))
			most = percent;
	}
	return measured(most) / 100;
}

static void fill_process(struct composer *c, struct top_process *shown,
			 const struct live_process *live)
{
	const struct profile_process *process = live->process;
	const struct live_point *last =
		live->history_count ? &live->history[live->history_count - 1] : NULL;
	struct text name = {0};
	size_t count;
	double sum = 0;

	escape_display(&name, process->comm);
	text_printf(&name, " (pid %u", process->pid);
	if (process->rank.world_size)
		text_printf(&name, ", rank %u of %u", process->rank.rank, process->rank.world_size);
	text_add(&name, process->exited ? ", exited)" : ")");
	*shown = (struct top_process){.pid = process->pid,
				      .exited = process->exited,
				      .name = keep_text(c, &name),
				      .steps_count = live->steps_count,
				      .step_ns = NAN,
				      .steps_per_s = 0,
				      .flops_per_s = measured(live_flops(live, &live->period)) /
						     c->period_s,
				      .flops_cut = live->flops_cut && live->run.flops,
				      .cpu_share = NAN,
				      .rss_bytes = (double)process->rss_bytes,
				      .live_bytes = NAN,
				      .live_domain = PERFX_DOMAIN_INVALID,
				      .gpu_share = NAN};
	/* The series and the phases. */
	count = live->history_count < LIVE_HISTORY ? live->history_count : LIVE_HISTORY;
	for (size_t i = 0; i < count; i++) {
		const struct live_point *point = &live->history[live->history_count - count + i];

		shown->steps.points[i] = point_or_0(point->step_ns);
		shown->cpu.points[i] = point_or_0(point->cpu_ns);
		shown->rss.points[i] = point_or_0(point->rss_bytes);
		shown->live.points[i] = point_or_0(point->live_bytes);
		shown->gpu.points[i] = point_or_0(point->gpu_busy_ns);
	}
	shown->steps.count = shown->cpu.count = count;
	shown->rss.count = shown->live.count = shown->gpu.count = count;
	for (size_t i = 0; i < PROFILE_PHASES; i++)
		sum += (double)live->period_phases[i];
	shown->has_phases = sum > 0;
	for (size_t i = 0; i < PROFILE_PHASES && sum > 0; i++)
		shown->phases[i] = (double)live->period_phases[i] / sum;
	if (process->memory_count)
		shown->live_domain = process->memory[0].domain;
	if (!last)
		return;
	shown->step_ns = measured(last->step_ns);
	shown->steps_per_s = per_s(c, last->steps_count);
	shown->cpu_share = share_of_samples(c, last->cpu_ns, last->cpu_wall_ns);
	shown->live_bytes = measured(last->live_bytes);
	shown->gpu_share = gpu_share(c, last, process);
}

static void fill_cost(struct composer *c, struct top_past *past, uint64_t tracer_cpu_ns)
{
	const struct live_totals *totals = &c->snapshot->totals;
	struct top_frame *frame = c->frame;
	double percent = profile_slowdown_percent(c->snapshot->profile);
	struct text text = {0};

	frame->slowdown = percent < 0 ? NAN : percent / 100;
	frame->hits_per_s = per_s(c, totals->hits_count - past->hits_count);
	/* before the first frame there was the start, which is no cost of a period */
	frame->tracer_share =
		past->tracer_cpu_ns ? share_of_period(c, tracer_cpu_ns - past->tracer_cpu_ns) : NAN;
	past->hits_count = totals->hits_count;
	past->tracer_cpu_ns = tracer_cpu_ns;
	/* Losses of records that the tables would show. */
	for (int i = 0; i < PERFX_LOSS_KINDS; i++)
		if (totals->losses[i] && profile_loss_share(c->snapshot->profile, i) > 0)
			text_printf(&text, "%s%s %s", text.length ? ", " : "",
				    as_count(totals->losses[i]), name_of_loss(i));
	frame->losses = keep_text(c, &text);
}

struct top_frame *top_frame__new(const struct live_snapshot *snapshot, struct top_past *past,
				 uint64_t tracer_cpu_ns)
{
	struct top_frame *frame = calloc(1, sizeof(*frame));
	struct composer c = {.frame = frame, .snapshot = snapshot};
	struct top_table *lines;

	if (!frame)
		return NULL;
	frame->elapsed_ns = snapshot->to_ns - snapshot->run_from_ns;
	frame->period_ns =
		snapshot->to_ns > snapshot->from_ns ? snapshot->to_ns - snapshot->from_ns : 1;
	c.period_s = (double)frame->period_ns / 1e9;
	memcpy(frame->tables, tables, sizeof(tables));
	for (size_t i = 0; i < snapshot->rows_count; i++)
		add_function(&c, &snapshot->rows[i]);
	for (size_t i = 0; i < snapshot->lines_count; i++) {
		const struct live_line *live = &snapshot->lines[i];
		struct text place = {0};

		location_line(&place, live->line);
		ADD_ROW(&c, TOP_LINES, live->process, VALUE(share_of_period(&c, live->on_cpu_ns)),
			VALUE(share_of_period(&c, live->off_cpu_ns)),
			VALUE(per_s(&c, live->samples_count)), VALUE(live->process->pid),
			TEXT(keep_name(&c, text_peek(&place))));
		text_clear(&place);
	}
	lines = &frame->tables[TOP_LINES];
	SORT_ITEMS(lines->rows, lines->rows_count, by_cpu);
	for (size_t i = 0; i < snapshot->threads_count; i++) {
		const struct live_thread *live = &snapshot->threads[i];
		struct text wait = {0};

		if (live->longest)
			document_add_wait(&wait, live->process, live->longest->wait);
		ADD_ROW(&c, TOP_THREADS, live->process, VALUE(live->thread->tid),
			VALUE(share_of_samples(&c, live->on_cpu_ns, live->wall_ns)),
			VALUE(share_of_samples(&c, live->runnable_ns, live->wall_ns)),
			VALUE(share_of_samples(&c, live->blocked_ns, live->wall_ns)),
			TEXT(keep_name(&c, live->thread->comm)),
			VALUE(live->longest ? (double)live->longest->ns : NAN),
			VALUE(live->process->pid), TEXT(keep_sentence(&c, text_peek(&wait))));
		text_clear(&wait);
	}
	add_findings(&c, past);
	add_memory(&c);
	frame->processes = calloc(snapshot->processes_count + 1, sizeof(*frame->processes));
	frame->processes_count = frame->processes ? snapshot->processes_count : 0;
	frame->failed |= !frame->processes;
	for (size_t i = 0; i < frame->processes_count; i++)
		fill_process(&c, &frame->processes[i], &snapshot->processes[i]);
	fill_cost(&c, past, tracer_cpu_ns);
	frame->verdict = keep_sentence(&c, snapshot->analysis ? snapshot->analysis->verdict : "");
	if (!frame->failed)
		return frame;
	top_frame__free(frame);
	return NULL;
}

void top_frame__free(struct top_frame *frame)
{
	if (!frame)
		return;
	for (size_t i = 0; i < TOP_VIEWS; i++)
		free(frame->tables[i].rows);
	free(frame->processes);
	pool_clear(&frame->pool);
	free(frame);
}

void top_past_clear(struct top_past *past)
{
	free(past->known);
	*past = (struct top_past){0};
}
