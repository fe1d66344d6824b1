// SPDX-License-Identifier: BSD-2-Clause
/* The functions of a process: what was called, how often, how long, by which callers. */
#include "analyze/location.h"
#include "analyze/operators.h"
#include "analyze/roofline.h"
#include "base/escape.h"
#include "base/text.h"
#include "base/units.h"
#include "decode/names.h"
#include "report/document/compose.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *left, const void *right)
{
	return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Finds the names that several of the process's functions have, once for all of its tables. */
static void find_shared_names(struct composer *c, const struct profile_process *p)
{
	const char **names = malloc((p->rows_count + 1) * sizeof(*names));
	size_t count = 0, shared = 0;

	free(c->shared_names);
	c->shared_names = names;
	c->shared_names_count = 0;
	c->names_of = p;
	if (!names) {
		c->document->failed = true;
		return;
	}
	for (size_t i = 0; i < p->rows_count; i++) {
		const struct profile_function *function =
			profile_function(c->profile, p->rows[i].function);

		if (function)
			names[count++] = function_label(function);
	}
	qsort(names, count, sizeof(*names), by_name);
	for (size_t i = 1; i < count; i++)
		if (!strcmp(names[i - 1], names[i]))
			names[shared++] = names[i];
	c->shared_names_count = shared;
}

void compose_function_name(struct composer *c, const struct profile_process *p, uint32_t id,
			   struct text *into)
{
	const struct profile_function *function = profile_function(c->profile, id);
	const char *label = function ? function_label(function) : NULL;
	struct text plain = {0};

	if (!function) {
		text_add(into, "(not known)");
		return;
	}
	if (c->names_of != p)
		find_shared_names(c, p);
	utf8_shorten(&plain, *label ? label : "?", c->limits->name_columns ?: UINT_MAX);
	/* C++ overloads share a name: the offset distinguishes them */
	if (c->shared_names_count && bsearch(&label, c->shared_names, c->shared_names_count,
					     sizeof(*c->shared_names), by_name))
		text_printf(&plain, " +0x%llx", (unsigned long long)function->offset);
	escape_name(into, text_peek(&plain));
	text_finish(&plain, &into->failed);
}

const char *compose_function(struct composer *c, const struct profile_process *p, uint32_t id)
{
	struct text cell = {0};

	compose_function_name(c, p, id, &cell);
	return document_words(c->document, &cell);
}

enum { HAS_MEMORY = 1, HAS_COMPUTE = 2, HAS_OFF_CPU = 4, HAS_GPU = 8 };

static double share_of_wall(const struct profile_process *p, uint64_t ns)
{
	return (double)ns / (double)(profile_wall_ns(p) ?: 1);
}

/* A row of time without calls or a function. */
static void compose_rest_row(struct composer *c, const char *share, const char *self,
			     const char *name)
{
	document_row(c->document, share, self, "-", "-", "-", "-", "-", "-", "-", "-", "-", "-",
		     "-", "-", "-", "-", name, "-");
}

/* Least share of wall time and least samples of an operator that no probe times. */
#define SAMPLED_SHARE 0.01
#define SAMPLED_COUNT 5

/* Returns how many. */
static size_t compose_sampled(struct composer *c, const struct profile_process *p)
{
	struct sampled_operators operators;
	size_t shown = 0;

	if (sampled_operators_find(&operators, c->profile, p))
		c->document->failed = true;
	for (size_t i = 0; i < operators.count && shown < c->limits->functions; i++) {
		const struct sampled_operator *sampled = &operators.list[i];
		double share = share_of_wall(p, sampled->ns);

		if (sampled->count < SAMPLED_COUNT || share < SAMPLED_SHARE)
			break;
		shown++;
		compose_rest_row(c, document_format(c->document, "≈%s", as_share(share)),
				 document_format(c->document, "≈%s", as_ns(sampled->ns)),
				 compose_mark(c, sampled->name));
	}
	return shown;
}

/* Calls that take turns on a thread overlap: no time is surely outside all of them. */
static bool knows_untraced(const struct profile_process *p)
{
	for (size_t i = 0; i < p->rows_count; i++)
		if (profile_row_overlaps(&p->rows[i], profile_wall_ns(p)))
			return false;
	return p->untraced.tid != 0;
}

/* Did the overhead budget stop timing the function's calls, or seeing them? */
static bool is_reduced(const struct profile *profile, const struct profile_row *row)
{
	for (size_t i = 0; i < profile->reduced_count; i++)
		if (profile->reduced[i].function == row->function)
			return true;
	return row->seen_until_ns > 0;
}

static void compose_row(struct composer *c, const struct profile_process *p,
			const struct profile_row *row)
{
	struct document *d = c->document;
	uint64_t wall_ns = profile_wall_ns(p);
	/* the time of a call that launches is not that of its work */
	double flops_per_s = row->inclusive.flops && profile_row_on_gpu(row)
				     ? (double)row->inclusive.flops * 1e9 / (double)row->gpu_ns
				     : roofline_of_row(c->profile, p, row).flops_per_s;
	bool is_timed = row->timed_count && wall_ns,
	     has_self = is_timed && !profile_row_overlaps(row, wall_ns);
	/* not all calls were timed */
	const char *least = is_reduced(c->profile, row) ? "≥" : "";
	uint64_t on_cpu_ns =
		row->off_cpu_ns < row->recorded_ns ? row->recorded_ns - row->off_cpu_ns : 0;

	document_row(d,
		     has_self ? document_format(d, "%s%s", least,
						as_share((double)row->self_ns / (double)wall_ns))
			      : "-",
		     has_self ? document_format(d, "%s%s", least, as_ns(row->self_ns)) : "-",
		     is_timed ? document_format(d, "%s%s", least, as_ns(row->total_ns)) : "-",
		     cell_share(on_cpu_ns, row->recorded_ns),
		     cell_ns(row->gpu_ns ?: PROFILE_ABSENT),
		     document_format(d, "%s%s", row->seen_until_ns ? "≥" : "",
				     as_count(row->calls_count)),
		     cell_ns(row->avg_ns), cell_ns(row->p50_ns), cell_ns(row->p95_ns),
		     cell_ns(row->p99_ns), cell_ns(row->min_ns), cell_ns(row->max_ns),
		     cell_count(row->threads_count), cell_bytes(row->alloc_bytes),
		     cell_flops(&row->inclusive), cell_gflops(flops_per_s),
		     compose_function(c, p, row->function),
		     document_module(d, profile_function(c->profile, row->function),
				     c->limits->name_columns));
}

/* Returns how many operators follow that are only sampled. */
static size_t compose_function_table(struct composer *c, const struct profile_process *p,
				     size_t from, size_t to)
{
	size_t sampled_count;
	unsigned has = (p->memory_count ? HAS_MEMORY : 0) | (p->gpu.timed ? HAS_GPU : 0);

	for (size_t i = 0; i < p->rows_count; i++) {
		has |= p->rows[i].inclusive.counted_count ? HAS_COMPUTE : 0;
		has |= p->rows[i].off_cpu_ns != PROFILE_ABSENT ? HAS_OFF_CPU : 0;
	}
	/* the numbers of nsys and torch.profiler; the name last, with the remaining width */
	document_headings(c->document, has, NUMBERS("Self %"), NUMBERS("Self"),
			  NUMBERS("Total", .rank = 2),
			  NUMBERS("On CPU", .rank = 2, .where = HAS_OFF_CPU),
			  NUMBERS("GPU", .rank = 2, .where = HAS_GPU), NUMBERS("Calls"),
			  NUMBERS("Avg"), NUMBERS("p50", .rank = 3), NUMBERS("p95", .rank = 4),
			  NUMBERS("p99", .rank = 1), NUMBERS("Min", .rank = 9),
			  NUMBERS("Max", .rank = 5), NUMBERS("Threads", .rank = 8),
			  NUMBERS("Allocated", .rank = 6, .where = HAS_MEMORY),
			  NUMBERS("FLOPs", .rank = 2, .where = HAS_COMPUTE),
			  NUMBERS("GFLOP/s", .where = HAS_COMPUTE), REST("Function"),
			  WORDS("Module", .rank = 7, .hint = true));
	for (size_t i = from; i < to; i++)
		compose_row(c, p, &p->rows[i]);
	if (from > 0)
		return 0;
	sampled_count = compose_sampled(c, p);
	if (!knows_untraced(p))
		return sampled_count;
	document_foot(c->document);
	if (p->untraced.running_ns)
		compose_rest_row(c, cell_threads_share(p->untraced.running_ns, profile_wall_ns(p)),
				 cell_ns(p->untraced.running_ns), PROFILE_RUNNING_NAME);
	compose_rest_row(c, cell_threads_share(p->untraced.self_ns, profile_wall_ns(p)),
			 cell_ns(p->untraced.self_ns), PROFILE_UNTRACED_NAME);
	return sampled_count;
}

/* Did a traced function call it? */
static bool has_traced_caller(const struct profile_row *row)
{
	for (size_t i = 0; i < row->callers_count; i++)
		if (row->callers[i].caller != PROFILE_CALLER_UNTRACED)
			return true;
	return false;
}

/* Why some functions with FLOPs show no GFLOP/s. */
static void add_withheld(struct composer *c, const struct profile_process *p, struct text *text)
{
	struct roof roof = roofline_whole_roof(c->profile, roofline_dtype(p));
	bool submitted = false, above_peak = false;

	for (size_t i = 0; i < p->rows_count; i++) {
		struct roofline line = roofline_of_row(c->profile, p, &p->rows[i]);

		submitted |=
			line.withheld == ROOFLINE_SUBMITTED && !profile_row_on_gpu(&p->rows[i]);
		above_peak |= line.withheld == ROOFLINE_ABOVE_PEAK;
	}
	if (p->gpu.timed)
		text_add(text, " GPU is device time of what a function and its callees launched; "
			       "their GFLOP/s are over that time.");
	if (submitted)
		text_add(text, " Functions that only submit work (to other threads, to a device) "
			       "have FLOPs but no GFLOP/s: the work runs after they return.");
	if (!above_peak)
		return;
	text_printf(text,
		    " GFLOP/s above the peak of this host (%s, %s) are not shown: such functions "
		    "do not do all of their work themselves.",
		    as_si(roof.flops_per_s, "FLOP/s"), name_of_dtype(roof.dtype));
}

/* Calls that are missing in some of the numbers. */
static void add_call_losses(struct text *text, const struct profile_process *p)
{
	uint64_t dropped = 0, unwound = 0, untimed = 0;

	for (size_t i = 0; i < p->rows_count; i++) {
		const struct profile_row *row = &p->rows[i];

		dropped += row->overflow_count;
		unwound += row->unwound_count;
		untimed += row->calls_count - row->timed_count - row->unwound_count;
	}
	if (dropped)
		text_printf(text,
			    " %s call records were dropped (ring full): these calls are in Calls, "
			    "Self, Total and Avg, but not in percentiles, Min and Max.",
			    as_count(dropped));
	if (unwound)
		text_printf(text, " %s calls ended by an exception or longjmp: counted, not timed.",
			    as_count(unwound));
	if (untimed)
		text_printf(text, " %s calls were counted but not timed.", as_count(untimed));
}

/* Notes on the table's numbers. left: rows that a brief report leaves out. */
static void compose_function_notes(struct composer *c, const struct profile_process *p,
				   size_t sampled_count, size_t left)
{
	const struct profile_untraced *untraced = &p->untraced;
	bool brief = c->limits->brief, dispatches = false, knows = knows_untraced(p);
	struct text text = {0};
	bool any = false;

	/* Threads that wait, and goroutines, can be in more calls at once than there are CPUs. */
	text_add(&text, "Self % is of the process's wall time; threads add up.");
	if (p->rows_count && !profile_row_overlaps(&p->rows[0], profile_wall_ns(p)) &&
	    begins_with(as_share(share_of_wall(p, p->rows[0].self_ns)), "×"))
		text_add(&text, " ×: calls at once, on average.");
	for (size_t i = 0; i < p->rows_count && !any; i++)
		any = is_reduced(c->profile, &p->rows[i]);
	if (any)
		text_add(&text, " ≥: the overhead budget stopped timing these functions or "
				"counting their calls.");
	if (sampled_count)
		text_add(&text, " ≈: operators that no probe times, by samples on a CPU; their "
				"time is also in (untraced), ranges and the backward pass.");
	if (knows)
		text_printf(&text, " %s is time of thread %u outside all traced functions%s.",
			    PROFILE_UNTRACED_NAME, untraced->tid,
			    untraced->at_least ? "; it may be more" : "");
	/* its on-CPU part is known only within bounds */
	if (knows && !brief && untraced->on_cpu_max_ns != PROFILE_ABSENT)
		text_printf(&text,
			    " Of its untraced time, it was on-CPU for at least %s and at most %s.",
			    as_ns(untraced->on_cpu_min_ns), as_ns(untraced->on_cpu_max_ns));
	if (!brief)
		add_call_losses(&text, p);
	else if (left)
		text_printf(&text, " %zu more function%s in the full report.", left, plural(left));
	add_withheld(c, p, &text);
	for (size_t i = 0; i < p->rows_count && !brief; i++) {
		const struct profile_row *row = &p->rows[i];
		const struct profile_function *function =
			profile_function(c->profile, row->function);

		dispatches |= function && function->source == PERFX_SOURCE_XLA &&
			      row->timed_count && has_traced_caller(row);
	}
	if (dispatches)
		text_add(&text, " A jitted function returns when its work is enqueued: its time is "
				"that of the dispatch. The execution is in the operations named "
				"after it, on any thread.");
	document_add(c->document, BLOCK_NOTE, &text);
}

#define CALLERS_SHOWN  8
#define PARALLEL_SHOWN 10

static void compose_callers_of(struct composer *c, const struct profile_process *p,
			       const struct profile_row *row)
{
	struct text text = {0};

	compose_function_name(c, p, row->function, &text);
	document_add(c->document, BLOCK_CAPTION, &text);
	document_headings(c->document, 0, NUMBERS("Calls"), NUMBERS("Total"), REST("Caller"));
	for (size_t i = 0; i < row->callers_count && i < CALLERS_SHOWN; i++) {
		const struct profile_caller *caller = &row->callers[i];

		document_row(c->document, cell_count(caller->calls_count),
			     cell_ns(row->timed_count ? caller->total_ns : PROFILE_ABSENT),
			     caller->caller == PROFILE_CALLER_UNTRACED
				     ? "(untraced code)"
				     : compose_function(c, p, caller->caller));
	}
	if (row->callers_count > CALLERS_SHOWN)
		compose_left_out(c, row->callers_count - CALLERS_SHOWN, "", "JSON");
	/* The Python lines behind the calls. */
	if (!row->python_callers_count)
		return;
	document_headings(c->document, 0, NUMBERS("Calls"), NUMBERS("Total"), REST("Python line"));
	for (size_t i = 0; i < row->python_callers_count && i < CALLERS_SHOWN; i++) {
		const struct profile_python_caller *caller = &row->python_callers[i];

		document_row(c->document, cell_count(caller->calls_count),
			     cell_ns(row->timed_count ? caller->total_ns : PROFILE_ABSENT),
			     compose_frame(c, caller->frame));
	}
	if (row->python_callers_count > CALLERS_SHOWN)
		compose_left_out(c, row->python_callers_count - CALLERS_SHOWN, "", "JSON");
}

/* How well threads share the work of a function. */
static void compose_parallel(struct composer *c, const struct profile_process *p)
{
	const struct parallel_functions *functions = &compose_analysis(c, p)->parallel;

	if (!functions->count)
		return;
	document_say(c->document, BLOCK_FOLD, "Parallel efficiency");
	document_headings(c->document, 0, NUMBERS("Speed-up"), NUMBERS("Efficiency"),
			  NUMBERS("Threads"), NUMBERS("Total"), REST("Function"));
	for (size_t i = 0; i < functions->count && i < PARALLEL_SHOWN; i++) {
		const struct parallelism *parallelism = &functions->list[i].parallelism;

		document_row(c->document,
			     document_format(c->document, "≈%.1f", parallelism->speedup),
			     document_format(c->document, "%.0f %%", 100 * parallelism->efficiency),
			     cell_count(parallelism->threads_count),
			     cell_ns(functions->list[i].total_ns),
			     compose_function(c, p, functions->list[i].function));
	}
	document_say(c->document, BLOCK_NOTE,
		     "≈ is sampled: the time that the calling thread and its pool worked during "
		     "the calls, without polling for each other, over the time of the calls. "
		     "Efficiency is that over the number of threads.");
	document_say(c->document, BLOCK_UNFOLD, "");
}

void compose_functions(struct composer *c, const struct profile_process *p)
{
	size_t shown = p->rows_count < c->limits->functions ? p->rows_count : c->limits->functions;
	const char *silence = compose_analysis(c, p)->silence;
	size_t sampled_count, end, callers = 0;

	if (c->limits->charts && p->contexts_count)
		document_add_chart(c->document, (struct chart){.kind = CHART_CALLS, .process = p});
	if (!p->rows_count) {
		if (silence)
			document_say(c->document, BLOCK_PARAGRAPH, silence);
		return;
	}
	if (c->limits->charts || c->limits->folds)
		document_say(c->document, BLOCK_SECTION, "Functions");
	sampled_count = compose_function_table(c, p, 0, shown);
	compose_function_notes(c, p, sampled_count, p->rows_count - shown);
	if (c->limits->brief)
		return;
	/* more rows, within the limit for folded tables */
	end = p->rows_count - shown < c->more_left ? p->rows_count : shown + c->more_left;
	if (end > shown) {
		document_printf(c->document, BLOCK_FOLD, "Functions %zu to %zu of %zu", shown + 1,
				end, p->rows_count);
		compose_function_table(c, p, shown, end);
		document_say(c->document, BLOCK_UNFOLD, "");
		c->more_left -= (unsigned)(end - shown);
	}
	compose_left_out(c, p->rows_count - end, " function", "JSON");
	for (size_t i = 0; i < p->rows_count && callers < c->limits->callers; i++) {
		if (!has_traced_caller(&p->rows[i]) && !p->rows[i].python_callers_count)
			continue;
		if (callers++ == 0)
			document_say(c->document, BLOCK_FOLD, "Callers");
		compose_callers_of(c, p, &p->rows[i]);
	}
	if (callers)
		document_say(c->document, BLOCK_UNFOLD, "");
	compose_parallel(c, p);
}
