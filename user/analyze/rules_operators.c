// SPDX-License-Identifier: BSD-2-Clause
/* Rules about operators on the thread of the steps: many tiny ones, copies and conversions. */
#include "analyze/location.h"
#include "analyze/operators.h"
#include "analyze/rules_ctx.h"
#include "analyze/stack_kind.h"
#include "base/escape.h"
#include "base/units.h"

#include <math.h>

/* Sums over the lines that a rule names. */
struct lines_sum {
	double ns, gain_ns, squares;
	uint64_t count;
	const struct operator_line *lead;
};

static void sum_add(struct lines_sum *sum, const struct operator_line *line, uint64_t ns,
		    uint64_t gain_ns)
{
	double part = (double)ns / (double)line->ns;

	sum->ns += (double)ns;
	sum->gain_ns += (double)gain_ns;
	sum->squares += part * line->squares;
	sum->count += u64_of(part * (double)line->count);
	if (!sum->lead)
		sum->lead = line;
}

static bool is_tiny(const struct rules_ctx *ctx, const struct operator_line *line)
{
	const struct thresholds *thresholds = ctx->thresholds;

	return (double)line->count >= thresholds->tiny_operators_samples &&
	       (double)line->operators_ns >= thresholds->tiny_operators_line * (double)line->ns &&
	       (double)line->kernels_ns <=
		       thresholds->tiny_operators_kernels * (double)line->operators_ns;
}

/* " (3.73 ms of each 10.9 ms step; 340 samples, standard error 1.8 points)" behind a share */
static void add_sampled(struct text *text, const struct rules_ctx *ctx, const struct lines_sum *sum)
{
	double wall = (double)ctx->driver->judged_ns, share = sum->ns / wall;

	text_printf(text, "%s%s", as_percent(share), rules_of_judged(ctx));
	add_step_part(text, ctx, share);
	text_printf(text, ", by %llu samples (standard error %.1f points),",
		    (unsigned long long)sum->count, 100 * sqrt(sum->squares) / wall);
}

/* Adds the operators of a line, each with its share of all_ns: "; most of it in Tiny.end
 * (planted.py:178): aten::mul_.Tensor 61.0 %, …" */
#define NAMES_SHOWN 3
#define NAMES_LEAST 0.05

static void add_operators(struct text *text, const struct operator_line *line,
			  const struct operator_names *names, uint64_t all_ns)
{
	location_after(text, "; most of it in ", line->frame);
	for (size_t i = 0; i < names->count && i < NAMES_SHOWN; i++) {
		double share = (double)names->list[i].ns / (double)all_ns;

		if (share < NAMES_LEAST)
			break;
		text_add(text, i ? ", " : ": ");
		escape_name(text, names->list[i].name);
		text_printf(text, " %s", as_percent(share));
	}
}

static void start_note(struct note *note, const struct rules_ctx *ctx, const struct lines_sum *sum,
		       double least)
{
	double wall = (double)ctx->driver->judged_ns;

	note->place = sum->lead->frame;
	note->share = sum->ns / wall;
	note->gain_ns = sum->gain_ns / wall * rules_unit_ns(ctx);
	note->confidence = confidence_above(note->share - least, sqrt(sum->squares) / wall);
	note->look = "Where in the code";
	rules_subject(note, ctx);
}

/* Calls of operators by the line; nested operators belong to their caller. 0: not traced */
static uint64_t calls_by(const struct rules_ctx *ctx, const struct profile_frame *line)
{
	uint64_t count = 0;

	FOR_EACH (context, ctx->process->contexts) {
		const struct profile_function *function =
			profile_function(ctx->profile, context->function);

		if (function && function->source == PERFX_SOURCE_TORCH &&
		    !function_is_marker(function) && context->caller &&
		    frame_is_same_line(context->caller, line))
			count += context->calls_count;
	}
	return count;
}

/* A sampled number with wider bounds is not shown. */
#define TENSORS_APART 2

/* "; 30 tensors allocated in each step", "; 1,800 to 2,900 …" where they were sampled */
static void add_tensors(struct text *text, const struct profile_memory *memory, uint64_t step_ns)
{
	double steps = (double)memory->recorded_ns / (double)step_ns;
	const struct profile_estimate *allocs = &memory->allocs;

	if (!memory->recorded_ns || (memory->sampled && allocs->high > TENSORS_APART * allocs->low))
		return;
	text_add(text, "; ");
	if (memory->sampled)
		text_printf(text, "%s to ", as_count(u64_of((double)allocs->low / steps)));
	add_count(text, u64_of((double)(memory->sampled ? allocs->high : allocs->value) / steps));
	text_add(text, " tensors allocated in each step");
}

/* How often the line calls operators per step, where they are traced; otherwise how many tensors it
 * allocates, one or two for each call. */
static void add_counts(struct text *text, const struct rules_ctx *ctx,
		       const struct operator_line *line)
{
	const struct profile_steps *steps = &ctx->process->steps;
	uint64_t calls = calls_by(ctx, line->frame);

	if (!steps->count)
		return;
	if (calls >= steps->count) {
		text_printf(text, "; %s operators in each step", as_count(calls / steps->count));
		return;
	}
	for (size_t i = 0; i < ctx->process->memory_count; i++)
		if (ctx->process->memory[i].domain == PERFX_DOMAIN_TENSOR)
			add_tensors(text, &ctx->process->memory[i], steps->avg_ns);
}

static void tiny_operators(struct rules_ctx *ctx, const struct operator_lines *lines)
{
	struct note note = {.bottleneck = BOTTLENECK_OPERATORS};
	struct lines_sum sum = {0};
	struct operator_names names;
	double operators_ns = 0, kernels_ns = 0;

	FOR_EACH_OF (line, *lines) {
		if (!is_tiny(ctx, line))
			continue;
		sum_add(&sum, line, line->calls_ns, line->calls_ns - line->kernels_ns);
		operators_ns += (double)line->operators_ns;
		kernels_ns += (double)line->kernels_ns;
	}
	if (gpu_is_limit(ctx->process, ctx->thresholds) ||
	    (double)sum.count < ctx->thresholds->all_samples ||
	    sum.ns < ctx->thresholds->tiny_operators_share * (double)ctx->driver->judged_ns)
		return;
	/* a compiled function computes in threads of XLA while its caller continues */
	if ((double)operators_handed_over_ns(ctx->process, ctx->driver->tid) > sum.ns)
		return;
	start_note(&note, ctx, &sum, ctx->thresholds->tiny_operators_share);
	add_sampled(&note.evidence, ctx, &sum);
	text_add(&note.evidence, " in operators that hardly compute: ");
	add_percent(&note.evidence, kernels_ns / operators_ns);
	text_add(&note.evidence, " of it in kernels, the rest in calling them");
	if (operator_names_find(&names, ctx->process, ctx->driver->tid, sum.lead->frame))
		ctx->failed = true;
	add_operators(&note.evidence, sum.lead, &names, sum.lead->calls_ns);
	add_counts(&note.evidence, ctx, sum.lead);
	rules_headline(&note, ctx, rules_of_judged(ctx), "calls operators that hardly compute",
		       "most of it in");
	rules_ctx_add(ctx, "TinyOperators", rules_severity(ctx, note.gain_ns), note.share, &note);
}

/* Bytes of the tensors that a line allocates. */
static uint64_t allocated_by(const struct rules_ctx *ctx, const struct profile_frame *frame)
{
	FOR_EACH (line, ctx->process->lines)
		if (line->domain == PERFX_DOMAIN_TENSOR && line->line == frame->line &&
		    !strcmp(line->function, frame->function) && !strcmp(line->file, frame->file))
			return line->alloc_bytes;
	return 0;
}

static void add_allocated(struct text *text, const struct rules_ctx *ctx,
			  const struct profile_frame *frame)
{
	uint64_t bytes = allocated_by(ctx, frame), steps = ctx->process->steps.count;

	if (!bytes)
		return;
	text_printf(text, "; its results are %s%s", as_bytes(steps ? bytes / steps : bytes),
		    steps ? " in each step" : "");
}

/* " in copies and conversions of tensors", or with the lines that mostly copy */
static void add_copies(struct text *text, struct rules_ctx *ctx, const struct lines_sum *sum,
		       double copies_ns)
{
	struct operator_names names;

	text_add(text, copies_ns < sum->ns ? " in lines that copy or convert tensors, "
					   : " in copies and conversions of tensors");
	if (copies_ns < sum->ns) {
		add_percent(text, copies_ns / sum->ns);
		text_add(text, " of it in the copies themselves");
	}
	if (operator_copies_find(&names, ctx->process, ctx->driver->tid, sum->lead->frame))
		ctx->failed = true;
	add_operators(text, sum->lead, &names, names.ns);
}

static void copies(struct rules_ctx *ctx, const struct operator_lines *lines)
{
	const struct thresholds *t = ctx->thresholds;
	struct note note = {.bottleneck = BOTTLENECK_COPIES};
	struct lines_sum sum = {0};
	double copies_ns = 0, wall_ns = (double)ctx->driver->judged_ns;

	FOR_EACH_OF (line, *lines) {
		bool all = (double)line->copies_ns >= t->copies_line * (double)line->ns;
		uint64_t ns = all ? line->ns : line->copies_ns;

		if (!ns || (double)line->count < t->tiny_operators_samples || is_tiny(ctx, line))
			continue;
		sum_add(&sum, line, ns, ns);
		copies_ns += (double)line->copies_ns;
		if (line->copies_ns > sum.lead->copies_ns)
			sum.lead = line;
	}
	if ((double)sum.count < t->all_samples ||
	    sum.ns - t->copies_deviations * sqrt(sum.squares) < t->copies_share * wall_ns)
		return;
	start_note(&note, ctx, &sum, t->copies_share);
	add_sampled(&note.evidence, ctx, &sum);
	add_copies(&note.evidence, ctx, &sum, copies_ns);
	add_allocated(&note.evidence, ctx, note.place);
	rules_headline(&note, ctx, rules_of_judged(ctx), "copies and converts tensors",
		       "most of it in");
	rules_ctx_add(ctx, "Copies", rules_severity(ctx, note.gain_ns), note.share, &note);
}

void rules_operators(struct rules_ctx *ctx)
{
	struct operator_lines lines;

	if (!ctx->driver->judged_ns)
		return;
	/* a loader's worker is judged by the waits of its parent */
	if (rules_is_worker(ctx) && !ctx->process->steps.count)
		return;
	if (operator_lines_find(&lines, ctx->profile, ctx->process, ctx->driver->tid)) {
		ctx->failed = true;
		return;
	}
	tiny_operators(ctx, &lines);
	copies(ctx, &lines);
	operator_lines_clear(&lines);
}
