// SPDX-License-Identifier: BSD-2-Clause
/*
 * The steps of a training:
 *
 *     Steps
 *     120 steps by Optimizer.step#SGD.step: 81.2 ms on average, median 80.1 ms, p95 95.0 ms,
 *     longest 130 ms
 *     4.10 GFLOP a step, 50.5 GFLOP/s: 26.6 % of the 190 GFLOP/s that 2 cores can do (f32). By all
 *     threads; 98.0 % on the steps' own
 *     2 slow steps, longer than 1.5 times the median: number 17 (130 ms, at 1.42 s: data 92.0 ms),
 * …
 *
 *     Phase      Share  Per step   Total
 *     data       40.1 %  32.6 ms   3.91 s
 */
#include "analyze/roofline.h"
#include "base/units.h"
#include "report/document/compose.h"

#include <string.h>

/* A start-up of less than 1/100 of the recording is not worth a line. */
#define STARTUP_SHOWN 100

static void compose_durations(struct composer *c, const struct profile_process *p)
{
	const struct profile_steps *steps = &p->steps;
	struct text text = {0};

	text_printf(&text, "%s step%s ", as_count(steps->ends_count),
		    steps->ends_count == 1 ? "" : "s");
	text_add(&text,
		 steps->found_by == PROFILE_STEPS_BY_PERIOD ? "found by the period of " : "by ");
	compose_function_name(c, p, steps->function, &text);
	if (steps->found_by == PROFILE_STEPS_BY_PERIOD)
		text_printf(&text, " (confidence %s)", as_percent(steps->confidence));
	if (steps->found_by == PROFILE_STEPS_BY_BACKWARD)
		text_add(&text, " (one for each backward pass)");
	if (steps->count)
		text_printf(&text, ": %s on average, median %s, p95 %s, longest %s",
			    as_ns(steps->avg_ns), as_ns(steps->p50_ns), as_ns(steps->p95_ns),
			    as_ns(steps->max_ns));
	document_add(c->document, BLOCK_PARAGRAPH, &text);
	if (steps->count && steps->startup_ns > profile_recorded_ns(c->profile, p) / STARTUP_SHOWN)
		document_printf(c->document, BLOCK_PARAGRAPH,
				"Imports and set-up took %s before the first step",
				as_ns(steps->startup_ns));
}

static void compose_cost(struct composer *c, const struct profile_process *p)
{
	struct step_rates rates = steps_rates(c->profile, p);
	struct text text = {0};

	if (rates.flops < 0) {
		if (p->steps.cost.steps_count && !p->steps.cost.counted_count)
			document_say(c->document, BLOCK_PARAGRAPH,
				     "No call with known FLOPs ended in a step.");
		else if (p->steps.cost.unread_count)
			document_say(c->document, BLOCK_PARAGRAPH,
				     "The FLOPs of a step are not known.");
		return;
	}
	text_printf(&text, "%s per step", as_si(rates.flops, "FLOP"));
	if (rates.flops_per_s >= 0 && p->steps.cost.flops) {
		text_printf(&text, ", %s", as_si(rates.flops_per_s, "FLOP/s"));
		if (p->steps.gpu.computes && rates.mfu >= 0) {
			text_printf(&text, ": %s of the %s of its GPUs", as_percent(rates.mfu),
				    as_si(p->steps.gpu.peak_flops_per_s, "FLOP/s"));
		} else if (!p->steps.gpu.computes && rates.mfu >= 0) {
			text_printf(&text, ": %s of the ", as_percent(rates.mfu));
			compose_peak(&text, &rates.roof);
		} else if (!p->steps.gpu.computes) {
			text_add(&text, ". The peak of this host is not known (set --peak-flops)");
		}
		if (!c->limits->brief)
			text_printf(&text,
				    ", by all threads of the process (%s on the thread of the "
				    "steps)",
				    as_percent(rates.thread_share));
	}
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

static void add_missing(struct text *text, uint64_t count, const char *one, const char *more)
{
	if (!count)
		return;
	text_printf(text, "%s%s%s", text->length ? " " : "", as_count(count),
		    count == 1 ? one : more);
}

/* Why there are no steps, or numbers of some of them only. */
static void compose_why(struct composer *c, const struct profile_process *p)
{
	struct text text = {0};

	steps_add_why(&text, c->profile, p);
	document_add_any(c->document, BLOCK_NOTE, &text);
}

/* Calls and ends of steps that are missing in the numbers of steps. */
static void compose_missing(struct composer *c, const struct profile_process *p)
{
	const struct profile_step_cost *cost = &p->steps.cost;
	uint64_t unrecorded_flops = steps_rates(c->profile, p).unrecorded_flops;
	struct text text = {0};

	add_missing(&text, cost->unread_count,
		    " call in the steps had unreadable arguments: its FLOPs are not included.",
		    " calls in the steps had unreadable arguments: their FLOPs are not included.");
	add_missing(&text, cost->opaque_count, " call ran compiled code with unknown FLOPs.",
		    " calls ran compiled code with unknown FLOPs.");
	if (unrecorded_flops)
		text_printf(&text,
			    "%s%s of calls whose records were dropped (ring full) are in no step.",
			    text.length ? " " : "", as_si((double)unrecorded_flops, "FLOP"));
	add_missing(
		&text, steps_unrecorded(p),
		" end of a step was dropped (ring full): that step is merged with the next.",
		" ends of steps were dropped (ring full): those steps are merged with the next.");
	document_add_any(c->document, BLOCK_NOTE, &text);
}

#define SLOW_SHOWN 3

/* The longest step that is shorter than `than`; NULL: the longest of all. */
static const struct profile_step *next_slower(const struct profile_steps *steps,
					      const struct profile_step *than)
{
	const struct profile_step *found = NULL;

	for (size_t i = 0; i < steps->series_count; i++) {
		const struct profile_step *step = &steps->series[i];
		bool later = !than || step->max_ns < than->max_ns ||
			     (step->max_ns == than->max_ns && step > than);

		if (later && (!found || step->max_ns > found->max_ns))
			found = step;
	}
	return found;
}

static void compose_slow(struct composer *c, const struct profile_steps *steps)
{
	const struct profile_step *step = NULL;
	struct text text = {0};
	uint64_t count = 0;

	for (size_t i = 0; i < steps->series_count; i++)
		count += steps_slow(steps, &steps->series[i]);
	if (!count)
		return;
	if (steps->series_each > 1)
		text_add(&text, "Slow steps");
	else
		add_missing(&text, count, " slow step", " slow steps");
	text_printf(&text, ", longer than %.1f times the median: %s ", STEPS_SLOW,
		    steps->series_each > 1 ? "among" : "number");
	for (uint64_t i = 0; i < count && i < SLOW_SHOWN; i++) {
		uint64_t number;
		int longest = 0;

		step = next_slower(steps, step);
		number = (uint64_t)(step - steps->series) * steps->series_each + 1;
		for (int phase = 1; phase < PROFILE_PHASES; phase++)
			longest = step->phases[phase] > step->phases[longest] ? phase : longest;
		/* "17 (130 ms, at 1.42 s: data 92.0 ms)" */
		text_printf(&text, "%s%llu", i ? ", " : "", (unsigned long long)number);
		if (step->count > 1)
			text_printf(&text, " to %llu",
				    (unsigned long long)(number + step->count - 1));
		text_printf(&text, " (%s, at %s", as_ns(step->max_ns),
			    as_ns(profile_since_start(c->profile, step->from_ns)));
		if (step->count == 1)
			text_printf(&text, ": %s %s", profile_phase_name(longest),
				    as_ns(step->phases[longest]));
		text_add(&text, ")");
	}
	text_add(&text, count > SLOW_SHOWN ? ", …" : "");
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

/* "Of a step: data 32.6 ms (40.1 %) · forward …" */
static void compose_phases_line(struct composer *c, const struct profile_steps *steps)
{
	const char *separator = "Per step: ";
	struct text text = {0};

	for (size_t i = 0; i < PROFILE_PHASES; i++) {
		enum profile_phase phase = profile_phases_in_order[i];

		if (steps_phase_ns(steps, phase) <= 0)
			continue;
		text_printf(&text, "%s%s %s (%s)", separator, profile_phase_name(phase),
			    as_ns(u64_of(steps_phase_ns(steps, phase))),
			    as_percent(steps_phase_share(steps, phase)));
		separator = " · ";
	}
	document_add_any(c->document, BLOCK_PARAGRAPH, &text);
}

/* Explains the missing forward phase: where only backward passes delimit the steps, the start of
 * the forward pass is unknown. */
static void compose_no_forward(struct composer *c, const struct profile_process *p)
{
	const struct profile_function *by = profile_function(c->profile, p->steps.function);
	const char *why = "";
	struct text text = {0};

	if (!by || steps_phase_ns(&p->steps, PROFILE_PHASE_FORWARD) != 0 ||
	    strcmp(by->name, "torch::autograd::Engine::execute") != 0)
		return;
	for (size_t i = 0; i < p->rows_count && !why[0]; i++) {
		const struct profile_function *function =
			profile_function(c->profile, p->rows[i].function);

		if (function && !strcmp(function->name, PERFX_NAMELESS_RANGE))
			why = " (PyTorch before 2.0 gives them no names)";
	}
	text_printf(&text,
		    "There is no forward phase, for no range of an optimizer was seen%s: the time "
		    "between backward passes is other, forward and optimizer included.",
		    why);
	document_add(c->document, BLOCK_NOTE, &text);
}

static void compose_single_step(struct composer *c, const struct profile_steps *steps,
				const struct profile_step *step, uint64_t number)
{
	bool computed = steps->cost.counted_count > 0 && step->computed_count == step->count;
	double mfu = steps_mfu(c->profile, steps, step);
	struct profile_cost cost = {.flops = step->flops, .counted_count = computed};
	uint64_t phases[PROFILE_PHASES];

	for (size_t i = 0; i < PROFILE_PHASES; i++)
		phases[i] = step->phases[profile_phases_in_order[i]] / step->count;
	document_row(c->document,
		     document_format(c->document, step->count > 1 ? "%llu to %llu" : "%llu",
				     (unsigned long long)number,
				     (unsigned long long)(number + step->count - 1)),
		     cell_ns(profile_since_start(c->profile, step->from_ns)),
		     cell_ns(step->total_ns / step->count), cell_ns(step->max_ns),
		     cell_ns(phases[0]), cell_ns(phases[1]), cell_ns(phases[2]), cell_ns(phases[3]),
		     cell_ns(phases[4]), cell_ns(phases[5]), cell_flops(&cost),
		     cell_gflops(computed && step->total_ns
					 ? (double)step->flops * 1e9 / (double)step->total_ns
					 : -1),
		     mfu >= 0 ? as_percent(mfu) : "-",
		     cell_share(step->total_ns - step->off_cpu_ns, step->total_ns),
		     steps_slow(steps, step) ? "slow" : "");
}

enum { HAS_OFF_CPU = 1 };

static void compose_single_steps(struct composer *c, const struct profile_process *p)
{
	const struct profile_steps *steps = &p->steps;
	uint64_t number = 1;

	document_say(c->document, BLOCK_FOLD,
		     steps->series_each > 1 ? "Steps, in groups" : "Steps, one by one");
	document_headings(c->document, steps->off_cpu_ns != PROFILE_ABSENT ? HAS_OFF_CPU : 0,
			  NUMBERS("Step", .takes_rest = true), NUMBERS("At"), NUMBERS("Duration"),
			  NUMBERS("Longest"), NUMBERS("Data"), NUMBERS("Forward"),
			  NUMBERS("Backward"), NUMBERS("Optimizer"), NUMBERS("Other"),
			  NUMBERS("Untraced"), NUMBERS("FLOPs"), NUMBERS("GFLOP/s"),
			  NUMBERS("Of peak"), NUMBERS("On CPU", .where = HAS_OFF_CPU),
			  WORDS("Slow"));
	for (size_t i = 0; i < steps->series_count && i < c->limits->steps; i++) {
		compose_single_step(c, steps, &steps->series[i], number);
		number += steps->series[i].count;
	}
	document_say(c->document, BLOCK_UNFOLD, "");
}

/* Time per step that the thread waited. */
static void compose_off_cpu(struct composer *c, const struct profile_steps *steps)
{
	if (steps->off_cpu_ns == PROFILE_ABSENT || !steps->waited_ns)
		return;
	document_printf(c->document, BLOCK_PARAGRAPH, "Waited per step: %s (%s), in traced calls",
			as_ns(steps->off_cpu_ns / steps->waited_count),
			as_percent((double)steps->off_cpu_ns / (double)steps->waited_ns));
}

/* The latency of inferences is that of the call, without the time between two of them. */
static void compose_inferences(struct composer *c, const struct profile_process *p)
{
	FOR_EACH (row, p->rows) {
		double per_s = profile_calls_per_s(c->profile, p, row);
		struct text text = {0};

		if (!profile_is_inference(c->profile, row))
			continue;
		text_printf(&text, "%s inference%s by ", as_count(row->calls_count),
			    row->calls_count == 1 ? "" : "s");
		compose_function_name(c, p, row->function, &text);
		if (row->threads_count > 1)
			text_printf(&text, " on %s threads", as_count(row->threads_count));
		if (per_s >= 0)
			text_printf(&text, ", %.3g per second", per_s);
		if (row->p50_ns != PROFILE_ABSENT)
			text_printf(&text, ": median %s, p99 %s", as_ns(row->p50_ns),
				    as_ns(row->p99_ns));
		if (row->gaps.count)
			text_printf(&text,
				    "; between two calls of a thread: median %s, p99 %s, longest "
				    "%s",
				    as_ns(row->gaps.p50_ns), as_ns(row->gaps.p99_ns),
				    as_ns(row->gaps.max_ns));
		document_add(c->document, BLOCK_PARAGRAPH, &text);
	}
}

static bool has_inferences(const struct composer *c, const struct profile_process *p)
{
	FOR_EACH (row, p->rows)
		if (profile_is_inference(c->profile, row))
			return true;
	return false;
}

void compose_steps(struct composer *c, const struct profile_process *p)
{
	bool divided;

	if (!c->limits->brief && (p->steps.ends_count || has_inferences(c, p)))
		document_say(c->document, BLOCK_SECTION, "Steps");
	compose_inferences(c, p);
	if (!p->steps.ends_count) {
		compose_why(c, p);
		return;
	}
	compose_durations(c, p);
	if (p->compute.measured && p->steps.count)
		compose_cost(c, p);
	compose_why(c, p);
	if (!p->steps.count)
		return;
	compose_slow(c, &p->steps);
	if (c->limits->brief) {
		compose_phases_line(c, &p->steps);
		compose_no_forward(c, p);
		compose_off_cpu(c, &p->steps);
		compose_steps_gpu(c, &p->steps);
		return;
	}
	compose_off_cpu(c, &p->steps);
	compose_steps_gpu(c, &p->steps);
	if (c->limits->charts)
		document_add_chart(c->document, (struct chart){.kind = CHART_STEPS, .process = p});
	/* Of the steps whose phases are known, if there are any. */
	divided = p->steps.divided.count;
	document_headings(c->document, 0, WORDS("Phase"), NUMBERS("Share"), NUMBERS("Per step"),
			  NUMBERS("Total"));
	for (size_t i = 0; i < PROFILE_PHASES; i++) {
		enum profile_phase phase = profile_phases_in_order[i];
		uint64_t ns = divided ? p->steps.divided.phases[phase] : p->steps.phases[phase];

		if (steps_phase_ns(&p->steps, phase) > 0)
			document_row(
				c->document, profile_phase_name(phase),
				cell_share(ns, divided ? p->steps.divided.ns : p->steps.total_ns),
				cell_ns(u64_of(steps_phase_ns(&p->steps, phase))), cell_ns(ns));
	}
	compose_no_forward(c, p);
	compose_missing(c, p);
	if (c->limits->steps)
		compose_single_steps(c, p);
}
