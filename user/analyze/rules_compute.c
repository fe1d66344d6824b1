// SPDX-License-Identifier: BSD-2-Clause
/* Rules about floating-point work: how much of it is unknown, in which type it is done, and how far
 * it is from the host's peak. */
#include "analyze/location.h"
#include "analyze/roofline.h"
#include "analyze/rules_ctx.h"
#include "analyze/stack_kind.h"
#include "base/escape.h"
#include "base/units.h"
#include "remedy_texts.h"

#include <math.h>

/* Below this share of the measured time, a process hardly computes. */
#define COMPUTES 0.10

static bool hardly_computes(const struct profile_process *process)
{
	const struct profile_compute *compute = &process->compute;
	uint64_t ns = compute->counted_ns + compute->unread_ns;
	uint64_t measured_ns = roofline_is_cut(process) && compute->until_ns > process->from_ns
				       ? compute->until_ns - process->from_ns
				       : profile_wall_ns(process);

	return ns && (double)ns < COMPUTES * (double)measured_ns;
}

static void unread_compute(struct rules_ctx *ctx)
{
	const struct profile_compute *compute = &ctx->process->compute;
	double share = 1 - roofline_attributed(compute);
	const struct profile_row *most = NULL;
	struct note note = {0};

	if (share > 1) /* no call was timed */
		share = (double)compute->cost.unread_count /
			((double)compute->cost.unread_count + (double)compute->cost.counted_count);
	if (!compute->cost.unread_count || share < ctx->thresholds->unread_compute_low)
		return;
	FOR_EACH (row, ctx->process->rows)
		if (row->cost.unread_count &&
		    (!most || row->cost.unread_count > most->cost.unread_count))
			most = row;
	text_printf(&note.evidence, "%s%s with unreadable arguments, %s of the compute time (%s)",
		    as_count(compute->cost.unread_count),
		    compute->cost.unread_count == 1 ? " compute call" : " compute calls",
		    as_percent(share), as_ns(compute->unread_ns));
	if (most) {
		text_add(&note.evidence, ", mostly of ");
		add_function_name(&note.evidence, ctx->profile, most->function);
	}
	if (roofline_is_cut(ctx->process)) {
		text_add(&note.evidence, "; ");
		add_reduction(&note.evidence, ctx->profile, compute->until_ns, true);
		text_add(&note.evidence, ", later calls are not among these");
	}
	rules_ctx_add(ctx, "UnreadCompute",
		      share >= ctx->thresholds->unread_compute_medium &&
				      !hardly_computes(ctx->process)
			      ? FINDING_MEDIUM
			      : FINDING_LOW,
		      share, &note);
}

static void add_rate(struct text *text, double flops_per_s)
{
	char buffer[UNITS_MAX];

	text_add(text, format_si(buffer, flops_per_s, "FLOP/s"));
}

/* "2 cores", "1.4 cores" */
static void add_cores(struct text *text, double cores)
{
	double shown = floor(cores * 10 + 0.5) / 10;

	text_printf(text, "%g core%s", shown, shown > 1 ? "s" : "");
}

/* Only a remark: the attainable share of the peak depends on the program's computations, and other
 * findings say what keeps it from that. */
static void low_utilization(struct rules_ctx *ctx)
{
	const struct profile_process *p = ctx->process;
	enum perfx_dtype dtype = roofline_dtype(p);
	struct roof roof = roofline_whole_roof(ctx->profile, dtype);
	double computing = wall_share(p, p->compute.counted_ns);
	double cores = roofline_cores(ctx->profile, p);
	double mfu = roofline_mfu(ctx->profile, dtype, p->compute.cost.flops, roofline_wall_ns(p));
	struct note note = {.bottleneck = BOTTLENECK_COMPUTE};

	/* the peak is of the CPUs */
	if (p->gpu.flops || mfu < 0 || mfu >= ctx->thresholds->low_utilization_low ||
	    computing < ctx->thresholds->low_utilization_computing)
		return;
	add_rate(&note.evidence, mfu * roof.flops_per_s);
	text_printf(&note.evidence, ", %s of the ", as_percent(mfu));
	add_rate(&note.evidence, roof.flops_per_s);
	text_printf(&note.evidence, " peak of %.0f core%s%s; ", roof.cores,
		    roof.cores > 1 ? "s" : "", roof.estimated ? " (estimated)" : "");
	add_wall_share(&note.evidence, computing);
	text_add(&note.evidence, " in compute calls");
	if (cores > 0) {
		text_add(&note.evidence, ", using ");
		add_cores(&note.evidence, cores);
		text_add(&note.evidence, " on average");
	}
	/* the remedy depends on where the time goes */
	text_add(&note.suggestion, computing < 0.5	    ? TRY_COMPUTE_MORE
				   : cores < roof.cores / 2 ? TRY_MORE_CORES
							    : TRY_FASTER_OPERATORS);
	rules_ctx_add(ctx, "LowUtilization", FINDING_LOW, 1 - mfu, &note);
}

/* The program's lines that call a function: in forward passes, or in backward ones, whose types and
 * shapes follow from the forward passes. */
static void add_places(struct lines *lines, const struct rules_ctx *ctx, uint32_t function,
		       bool backward)
{
	FOR_EACH (context, ctx->process->contexts) {
		const struct profile_stack *stack = context->stack;
		size_t at;

		if (context->function != function || !stack ||
		    stack_has(stack, CODE_BACKWARD) != backward)
			continue;
		at = location_python(stack->frames, stack->frames_count);
		if (at < stack->frames_count)
			lines_add(lines, stack->frames[at], context->total_ns);
	}
}

const struct profile_frame *rules_place_of(const struct rules_ctx *ctx, uint32_t function)
{
	struct lines lines = {0};

	add_places(&lines, ctx, function, false);
	if (!lines.count)
		add_places(&lines, ctx, function, true);
	return lines_lead(&lines).frame;
}

/* Functions with a smaller share of the wall time are not reported. */
#define BOUND_LEAST 0.01
#define BOUND_NAMES 3

/* Functions with the same limit share one finding. */
struct bound {
	double share, gain; /* of the wall time */
	struct bound_function {
		const struct profile_row *row;
		struct roofline line;
		double share;
	} functions[BOUND_NAMES]; /* the most expensive first */
	size_t count;
};

static double roof_share(const struct roofline *line)
{
	return line->flops_per_s / line->attainable_flops_per_s;
}

static void bound_add(struct bound *bound, const struct rules_ctx *ctx,
		      const struct bound_function *function)
{
	double reached = roof_share(&function->line) / ctx->thresholds->overhead_bound_good;
	size_t at = bound->count;

	bound->share += function->share;
	bound->gain += function->share * fmax(1 - reached, 0);
	while (at > 0 && bound->functions[at - 1].share < function->share)
		at--;
	if (at == BOUND_NAMES)
		return;
	bound->count += bound->count < BOUND_NAMES;
	memmove(&bound->functions[at + 1], &bound->functions[at],
		(bound->count - at - 1) * sizeof(*function));
	bound->functions[at] = *function;
}

/* Functions with FLOPs of their own; what else their callers do is unknown. */
static struct bound find_bound(const struct rules_ctx *ctx, enum roofline_class class)
{
	const struct profile_process *p = ctx->process;
	struct bound bound = {0};

	FOR_EACH (row, p->rows) {
		struct bound_function function = {.row = row,
						  .share = wall_share(p, row->computing_ns)};

		if (!row->cost.flops || row->avg_ns == PROFILE_ABSENT ||
		    function.share < BOUND_LEAST)
			continue;
		function.line = roofline_of_row(ctx->profile, p, row);
		if (function.line.bound == class)
			bound_add(&bound, ctx, &function);
	}
	return bound;
}

/* "34.4 GFLOP/s, 18.8 % of the roof of 1 core at 68 FLOP/byte, in 961 calls of 6.75 ms on average:
 * 65.0 % of the wall time; also at::_ops::addmm::call at 18.5 %: 22.1 % of the wall time" */
static void add_bound(struct text *text, const struct rules_ctx *ctx, const struct bound *bound)
{
	const struct bound_function *lead = &bound->functions[0];

	add_rate(text, lead->line.flops_per_s);
	text_printf(text, ", %s of the roof of ", as_percent(roof_share(&lead->line)));
	add_cores(text, lead->line.roof.cores);
	text_printf(text, " at %.3g FLOP/byte, in %s%s%s on average: ", lead->line.intensity,
		    as_count(lead->row->calls_count),
		    lead->row->calls_count == 1 ? " call of " : " calls of ",
		    as_ns(lead->row->avg_ns));
	add_wall_share(text, lead->share);
	for (size_t i = 1; i < bound->count; i++) {
		const struct bound_function *other = &bound->functions[i];

		text_add(text, i == 1 ? "; also " : ", ");
		add_function_name(text, ctx->profile, other->row->function);
		text_printf(text, " at %s: ", as_percent(roof_share(&other->line)));
		add_wall_share(text, other->share);
	}
}

static struct note start_bound(struct rules_ctx *ctx, const struct bound *bound,
			       enum bottleneck bottleneck)
{
	uint32_t function = bound->functions[0].row->function;
	struct note note = {.of_function = true,
			    .bottleneck = bottleneck,
			    .place = rules_place_of(ctx, function),
			    .look = "Compute",
			    .share = fmin(bound->share, 1)};

	add_function_name(&note.subject, ctx->profile, function);
	add_bound(&note.evidence, ctx, bound);
	return note;
}

/* OpenBLAS names kernels after CPUs. If it does not know the CPU, it uses those of an old one,
 * without AVX: "sgemm_kernel_PRESCOTT" has a fifth of the rate of "sgemm_kernel_SKYLAKEX". NULL: no
 * such kernel was sampled. */
static const char *old_kernel(const struct profile_process *p)
{
	static const char *const cpus[] = {"PRESCOTT", "CORE2",	    "PENRYN",  "DUNNINGTON",
					   "NEHALEM",  "ATOM",	    "OPTERON", "OPTERON_SSE3",
					   "BOBCAT",   "BARCELONA", "NANO",    NULL};

	for (size_t i = 0; i < p->samples.count; i++) {
		const struct profile_stack *stack = p->samples.list[i].stack;
		const char *name = stack && stack->frames_count ? stack->frames[0]->function : "";
		const char *kernel = strstr(name, "_kernel_");

		if (kernel && text_is_one_of(kernel + strlen("_kernel_"), cpus))
			return name;
	}
	return NULL;
}

static void suggest_for_overhead(struct note *note, const struct rules_ctx *ctx,
				 const struct bound_function *lead)
{
	const char *kernel = old_kernel(ctx->process);

	if ((double)lead->row->avg_ns < ctx->thresholds->overhead_bound_short_ns) {
		text_add(&note->suggestion, TRY_BATCH_SMALL_CALLS);
	} else if (kernel) {
		text_add(&note->evidence, "; the BLAS runs ");
		escape_name(&note->evidence, kernel);
		text_add(&note->suggestion, TRY_OPENBLAS_CORETYPE);
	} else {
		text_add(&note->suggestion, TRY_SLOW_BLAS);
	}
}

/* A low limit, because a kernel may be as good as its shapes allow; no shape explains less than a
 * twentieth of the roof. */
static void overhead_bound(struct rules_ctx *ctx)
{
	struct bound bound = find_bound(ctx, ROOFLINE_OVERHEAD);
	const struct bound_function *lead = &bound.functions[0];
	enum finding_severity severity = FINDING_LOW;
	struct note note;

	if (bound.share < ctx->thresholds->overhead_bound_share)
		return;
	note = start_bound(ctx, &bound, BOTTLENECK_COMPUTE);
	note.gain_ns = fmin(bound.gain, 1) * rules_unit_ns(ctx);
	note.gain_unknown = true; /* its shapes may allow no better kernel */
	if (roof_share(&lead->line) < ctx->thresholds->overhead_bound_medium &&
	    rules_severity(ctx, note.gain_ns) < FINDING_LOW)
		severity = FINDING_MEDIUM;
	suggest_for_overhead(&note, ctx, lead);
	rules_ctx_add(ctx, "OverheadBound", severity, note.share, &note);
}

static void memory_bound(struct rules_ctx *ctx)
{
	struct bound bound = find_bound(ctx, ROOFLINE_MEMORY);
	struct note note;

	if (bound.share < ctx->thresholds->memory_bound_share)
		return;
	note = start_bound(ctx, &bound, BOTTLENECK_BANDWIDTH);
	text_printf(&note.evidence, "; compute-bound above %.3g FLOP/byte",
		    roof_ridge(&bound.functions[0].line.roof));
	rules_ctx_add(ctx, "MemoryBound", FINDING_LOW, note.share, &note);
}

/* Calls with FLOPs of their own. */
static bool is_float64(const struct rules_ctx *ctx, const struct profile_row *row)
{
	const struct profile_function *function = profile_function(ctx->profile, row->function);

	return function &&
	       (function->source == PERFX_SOURCE_TORCH || function->source == PERFX_SOURCE_JAX ||
		function->source == PERFX_SOURCE_XLA || function->source == PERFX_SOURCE_TF) &&
	       row->cost.flops && row->dtype == PERFX_DTYPE_F64;
}

struct float64 {
	double ns;
	uint64_t flops;
	struct lines forward, backward;
};

static void float64(struct rules_ctx *ctx)
{
	struct note note = {.bottleneck = BOTTLENECK_COMPUTE, .confidence = 1};
	double wide = roofline_whole_roof(ctx->profile, PERFX_DTYPE_F64).flops_per_s;
	double narrow = roofline_whole_roof(ctx->profile, PERFX_DTYPE_F32).flops_per_s;
	/* the time that float32 would need; half of that of float64 where the host's peaks are
	 * unknown */
	double part = wide > 0 && narrow > wide ? wide / narrow : 0.5;
	struct float64 found = {0};

	FOR_EACH (row, ctx->process->rows) {
		if (!is_float64(ctx, row))
			continue;
		found.ns += (double)row->computing_ns;
		found.flops += row->cost.flops;
		add_places(&found.forward, ctx, row->function, false);
		add_places(&found.backward, ctx, row->function, true);
	}
	/* times of a pool's threads add up */
	note.share = fmin(found.ns / (double)profile_wall_ns(ctx->process), 1);
	if (!found.flops || note.share < ctx->thresholds->float64_share)
		return;
	note.place = lines_lead(found.forward.count ? &found.forward : &found.backward).frame;
	note.gain_ns = note.share * (1 - part) * rules_unit_ns(ctx);
	rules_subject(&note, ctx);
	text_printf(&note.evidence, "%s of the operations are in float64: %s, %s of the wall time",
		    as_percent((double)found.flops / (double)ctx->process->compute.cost.flops),
		    as_ns(u64_of(found.ns)), as_percent(note.share));
	add_step_part(&note.evidence, ctx, note.share);
	text_printf(&note.evidence,
		    "; float32 would take about %s of that, by this machine's peaks",
		    as_percent(part));
	rules_headline(&note, ctx, " of the wall time", "computes in float64", "called in");
	rules_ctx_add(ctx, "Float64", rules_severity(ctx, note.gain_ns), note.share, &note);
}

void rules_compute(struct rules_ctx *ctx)
{
	if (!ctx->process->compute.measured)
		return;
	unread_compute(ctx);
	low_utilization(ctx);
	overhead_bound(ctx);
	memory_bound(ctx);
	float64(ctx);
}
