// SPDX-License-Identifier: BSD-2-Clause
/* Rules about where time goes: single functions, the steps of a training, floating-point work. */
#include "analyze/location.h"
#include "analyze/remedy.h"
#include "analyze/roofline.h"
#include "analyze/rules_ctx.h"
#include "base/units.h"
#include "cost/gpu_calls.h"

#include <math.h>

/* Of one process. */
#define TINY_FINDINGS_MAX 3

static void add_caller(struct text *text, const struct rules_ctx *ctx,
		       const struct profile_row *row)
{
	const struct profile_caller *caller = row->callers;

	if (!row->callers_count || !profile_function(ctx->profile, caller->caller))
		return;
	text_add(text, "; mostly called by ");
	add_function_name(text, ctx->profile, caller->caller);
	text_add(text, " (");
	add_percent(text, (double)caller->calls_count / (double)row->calls_count);
	text_add(text, " of the calls)");
}

/* SyncWait says whether a wait for a GPU is too long, LaunchBound the same of launches. */
static bool is_gpu_call(const struct rules_ctx *ctx, const struct profile_function *function)
{
	const struct gpu_call *call = ctx->process->gpu.used ? gpu_call_find(function->name) : NULL;

	return call && (call->waits || rules_launch_bound(ctx));
}

/* What a range has for itself is untraced code: DataBound and PythonBound may say which. */
static bool is_said_elsewhere(const struct rules_ctx *ctx, const struct profile_row *row)
{
	const struct profile_function *function = profile_function(ctx->profile, row->function);

	if (function && is_gpu_call(ctx, function))
		return true;
	if (!function || !function_is_marker(function))
		return false;
	if (remedy_of_name(function) == REMEDY_DATA)
		return rules_data_bound(ctx);
	return ctx->driver->marked.ns >= row->self_ns / 2;
}

static void slow_operation(struct rules_ctx *ctx, const struct profile_row *row)
{
	double share = wall_share(ctx->process, row->self_ns);
	struct note note = {.of_function = true};

	if (share < ctx->thresholds->slow_operation_medium || is_said_elsewhere(ctx, row))
		return;
	add_function_name(&note.subject, ctx->profile, row->function);
	text_add(&note.evidence, "self time ");
	add_ns(&note.evidence, row->self_ns);
	text_add(&note.evidence, ", ");
	add_percent(&note.evidence, share);
	text_add(&note.evidence, " of the wall time, in ");
	add_count(&note.evidence, row->calls_count);
	text_add(&note.evidence, row->calls_count == 1 ? " call" : " calls");
	if (row->avg_ns != PROFILE_ABSENT) {
		text_add(&note.evidence, " of ");
		add_ns(&note.evidence, row->avg_ns);
		text_add(&note.evidence, " on average");
	}
	add_caller(&note.evidence, ctx, row);
	text_printf(&note.threshold, "self time of at least %g %% of the wall time (high: %g %%)",
		    ctx->thresholds->slow_operation_medium * 100,
		    ctx->thresholds->slow_operation_high * 100);
	text_add(&note.suggestion, remedy_text(remedy_kind(ctx->profile, ctx->process, row)));
	rules_ctx_add(ctx, "SlowOperation",
		      share >= ctx->thresholds->slow_operation_high ? FINDING_HIGH : FINDING_MEDIUM,
		      share, &note);
}

static bool tiny_calls(struct rules_ctx *ctx, const struct profile_row *row)
{
	double rate = rate_of(ctx->process, row->calls_count);
	struct note note = {.of_function = true};

	if (row->avg_ns == PROFILE_ABSENT ||
	    (double)row->avg_ns >= ctx->thresholds->tiny_calls_ns ||
	    rate < ctx->thresholds->tiny_calls_per_s)
		return false;
	add_function_name(&note.subject, ctx->profile, row->function);
	add_count(&note.evidence, u64_of(rate));
	text_add(&note.evidence, " calls/s of ");
	add_ns(&note.evidence, row->avg_ns);
	text_add(&note.evidence, " on average");
	add_caller(&note.evidence, ctx, row);
	text_printf(&note.threshold, "at least %.15g calls/s, shorter than %g µs",
		    ctx->thresholds->tiny_calls_per_s, ctx->thresholds->tiny_calls_ns / 1000);
	note.bottleneck = BOTTLENECK_OPERATORS;
	text_add(&note.suggestion,
		 "Call overhead is as large as the work: use larger batches, fused or vectorised "
		 "operations (torch.compile, jit), or inlining. Probes slow down calls this short: "
		 "exclude the function (-F '!MODULE:NAME') to see the program at full speed.");
	rules_ctx_add(ctx, "TinyCalls", FINDING_MEDIUM, rate, &note);
	return true;
}

static void unwound(struct rules_ctx *ctx, const struct profile_row *row)
{
	double share = (double)row->unwound_count / (double)row->calls_count;
	struct note note = {.of_function = true};

	if ((double)row->unwound_count < ctx->thresholds->unwound_calls ||
	    share < ctx->thresholds->unwound_low)
		return;
	add_function_name(&note.subject, ctx->profile, row->function);
	add_count(&note.evidence, row->unwound_count);
	text_add(&note.evidence, " of ");
	add_count(&note.evidence, row->calls_count);
	text_add(&note.evidence, " calls (");
	add_percent(&note.evidence, share);
	text_add(&note.evidence, ") ended by an exception or longjmp");
	text_printf(&note.threshold, "at least %g calls and %g %% (medium: %g %%)",
		    ctx->thresholds->unwound_calls, ctx->thresholds->unwound_low * 100,
		    ctx->thresholds->unwound_medium * 100);
	text_add(&note.suggestion,
		 "Exceptions on a frequent path are slow, and something fails here: check before "
		 "calling, or return an error instead of throwing.");
	rules_ctx_add(ctx, "Unwound",
		      share >= ctx->thresholds->unwound_medium ? FINDING_MEDIUM : FINDING_LOW,
		      share, &note);
}

void rules_functions(struct rules_ctx *ctx)
{
	unsigned tiny = 0;

	for (size_t i = 0; i < ctx->process->rows_count; i++) {
		const struct profile_row *row = &ctx->process->rows[i];

		slow_operation(ctx, row);
		unwound(ctx, row);
		if (tiny < TINY_FINDINGS_MAX)
			tiny += tiny_calls(ctx, row);
	}
}

/* --- steps of a training: what they wait for, and whether they are alike --- */

static double phase_share(const struct profile_steps *steps, enum profile_phase phase)
{
	return (double)steps->phases[phase] / (double)steps->total_ns;
}

static void add_phase(struct text *text, const struct profile_steps *steps,
		      enum profile_phase phase)
{
	add_percent(text, phase_share(steps, phase));
	text_add(text, " of the time of ");
	add_count(text, steps->count);
	text_add(text, " steps: ");
	add_ns(text, steps->phases[phase] / steps->count);
	text_add(text, " of ");
	add_ns(text, steps->avg_ns);
	text_add(text, " per step");
}

static void add_shares(struct text *text, double least, double more, const char *severity)
{
	text_printf(text, "at least %g %% of the step time (%s: %g %%)", least * 100, severity,
		    more * 100);
}

/* What prepares it, where that is known. */
static void add_data_cause(struct text *text, struct rules_ctx *ctx)
{
	const struct sampled *data = &ctx->driver->data;
	double data_ns = (double)ctx->process->steps.phases[PROFILE_PHASE_DATA];

	if (!data->lead.frame || (double)data->count < ctx->thresholds->all_cause_samples ||
	    (double)data->ns < ctx->thresholds->data_bound_own * data_ns) {
		add_feeder(text, ctx);
		return;
	}
	text_add(text, "; its own thread prepares it, mostly in ");
	location_place(text, data->lead.frame);
}

static bool has_steps(const struct rules_ctx *ctx)
{
	const struct profile_steps *steps = &ctx->process->steps;

	return (double)steps->count >= ctx->thresholds->all_steps && steps->total_ns;
}

bool rules_data_bound(const struct rules_ctx *ctx)
{
	const struct profile_steps *steps = &ctx->process->steps;

	return has_steps(ctx) &&
	       phase_share(steps, PROFILE_PHASE_DATA) >= ctx->thresholds->data_bound_medium;
}

static void data_bound(struct rules_ctx *ctx)
{
	const struct profile_steps *steps = &ctx->process->steps;
	double share = phase_share(steps, PROFILE_PHASE_DATA);
	struct note note = {.bottleneck = BOTTLENECK_INPUT,
			    .gain_ns = share * rules_unit_ns(ctx),
			    .confidence = 1,
			    .place = ctx->driver->data.lead.frame,
			    .look = "Where in the code; Waiting",
			    .share = share};

	if (!rules_data_bound(ctx))
		return;
	add_process_name(&note.subject, ctx->process);
	text_add(&note.evidence, "waiting for the next batch took ");
	add_phase(&note.evidence, steps, PROFILE_PHASE_DATA);
	add_data_cause(&note.evidence, ctx);
	text_add(&note.headline, "INPUT-BOUND: ");
	add_percent(&note.headline, share);
	text_add(&note.headline, " of each ");
	add_ns(&note.headline, steps->avg_ns);
	text_add(&note.headline, " step waits for the next batch");
	add_data_cause(&note.headline, ctx);
	add_shares(&note.threshold, ctx->thresholds->data_bound_medium,
		   ctx->thresholds->data_bound_high, "high");
	text_add(&note.suggestion,
		 "The model waits for its data: give the DataLoader more workers and a longer "
		 "prefetch, keep workers between epochs (persistent_workers), or prepare the data "
		 "once instead of in each epoch.");
	rules_ctx_add(ctx, "DataBound",
		      share >= ctx->thresholds->data_bound_high ? FINDING_HIGH : FINDING_MEDIUM,
		      share, &note);
}

static void optimizer_bound(struct rules_ctx *ctx)
{
	const struct profile_steps *steps = &ctx->process->steps;
	double share = phase_share(steps, PROFILE_PHASE_OPTIMIZER);
	struct note note = {0};

	if (share < ctx->thresholds->optimizer_bound_low)
		return;
	add_process_name(&note.subject, ctx->process);
	text_add(&note.evidence, "parameter updates took ");
	add_phase(&note.evidence, steps, PROFILE_PHASE_OPTIMIZER);
	add_shares(&note.threshold, ctx->thresholds->optimizer_bound_low,
		   ctx->thresholds->optimizer_bound_medium, "medium");
	text_add(&note.suggestion,
		 "Updating parameters is bound by memory and by the number of tensors: use the "
		 "optimizer's fused=True or foreach=True, larger batches, or fewer steps of the "
		 "optimizer (gradient accumulation).");
	rules_ctx_add(ctx, "OptimizerBound",
		      share >= ctx->thresholds->optimizer_bound_medium ? FINDING_MEDIUM
								       : FINDING_LOW,
		      share, &note);
}

void rules_steps(struct rules_ctx *ctx)
{
	if (!has_steps(ctx))
		return;
	data_bound(ctx);
	optimizer_bound(ctx);
}

/* --- floating-point work: how much is unknown, and how far it is from the host's peak --- */

/* Of one process. */
#define BOUND_FINDINGS 3

static void unread_compute(struct rules_ctx *ctx)
{
	const struct profile_compute *compute = &ctx->process->compute;
	double share = 1 - roofline_attributed(compute);
	const struct profile_row *most = NULL;
	struct note note = {0};

	if (share > 1) /* nothing was timed */
		share = (double)compute->cost.unread_count /
			((double)compute->cost.unread_count + (double)compute->cost.counted_count);
	if (!compute->cost.unread_count || share < ctx->thresholds->unread_compute_low)
		return;
	for (size_t i = 0; i < ctx->process->rows_count; i++) {
		const struct profile_row *row = &ctx->process->rows[i];

		if (row->cost.unread_count &&
		    (!most || row->cost.unread_count > most->cost.unread_count))
			most = row;
	}
	add_process_name(&note.subject, ctx->process);
	add_count(&note.evidence, compute->cost.unread_count);
	text_add(&note.evidence,
		 compute->cost.unread_count == 1 ? " compute call" : " compute calls");
	text_add(&note.evidence, " with unreadable arguments, ");
	add_percent(&note.evidence, share);
	text_add(&note.evidence, " of the compute time (");
	add_ns(&note.evidence, compute->unread_ns);
	text_add(&note.evidence, ")");
	if (most) {
		text_add(&note.evidence, ", mostly of ");
		add_function_name(&note.evidence, ctx->profile, most->function);
	}
	text_printf(&note.threshold, "at least %g %% of the compute time (medium: %g %%)",
		    ctx->thresholds->unread_compute_low * 100,
		    ctx->thresholds->unread_compute_medium * 100);
	text_add(&note.suggestion, "Their FLOPs are missing from all rates and shares of the peak, "
				   "which are too low. A rule for the function (--flops-rules) can "
				   "compute its FLOPs from its arguments.");
	rules_ctx_add(ctx, "UnreadCompute",
		      share >= ctx->thresholds->unread_compute_medium ? FINDING_MEDIUM
								      : FINDING_LOW,
		      share, &note);
}

static void add_rate(struct text *text, double flops_per_s)
{
	char buffer[UNITS_MAX];

	text_add(text, format_si(buffer, flops_per_s, "FLOP/s"));
}

/* "2 cores", "1.4 cores": tenths are enough */
static void add_cores(struct text *text, double cores)
{
	double shown = floor(cores * 10 + 0.5) / 10;

	text_printf(text, "%g core%s", shown, shown > 1 ? "s" : "");
}

/* What would help depends on where the time goes. */
static const char *remedy_for(double computing, double cores, double all_cores)
{
	if (computing < 0.5)
		return "Most of the time is not spent in compute calls: look at what runs between "
		       "the operators (data loading, Python, waiting), prefetch the data, and "
		       "compile the model (torch.compile, jit).";
	if (cores < all_cores / 2)
		return "Few cores are in use: raise the number of threads (OMP_NUM_THREADS, "
		       "torch.set_num_threads), or make the operators large enough to run in "
		       "parallel.";
	return "The operators themselves are slow: try larger batches, a lower precision that the "
	       "CPU supports in hardware (bf16), another memory layout, or a BLAS built for this "
	       "CPU.";
}

static void low_utilization(struct rules_ctx *ctx)
{
	const struct profile_process *p = ctx->process;
	enum perfx_dtype dtype = roofline_dtype(p);
	struct roof roof = roofline_whole_roof(ctx->profile, dtype);
	double computing = wall_share(p, p->compute.counted_ns);
	double cores = roofline_cores(ctx->profile, p);
	double mfu = roofline_mfu(ctx->profile, dtype, p->compute.cost.flops, profile_wall_ns(p));
	struct note note = {.bottleneck = BOTTLENECK_COMPUTE, .look = "Compute"};

	if (mfu < 0 || mfu >= ctx->thresholds->low_utilization_low ||
	    computing < ctx->thresholds->low_utilization_computing)
		return;
	add_process_name(&note.subject, p);
	add_rate(&note.evidence, mfu * roof.flops_per_s);
	text_add(&note.evidence, ", ");
	add_percent(&note.evidence, mfu);
	text_add(&note.evidence, " of the ");
	add_rate(&note.evidence, roof.flops_per_s);
	text_printf(&note.evidence, " peak of %.0f core%s%s; ", roof.cores,
		    roof.cores > 1 ? "s" : "", roof.estimated ? " (estimated)" : "");
	add_percent(&note.evidence, computing);
	text_add(&note.evidence, " of the wall time in compute calls");
	if (cores > 0) {
		text_add(&note.evidence, ", using ");
		add_cores(&note.evidence, cores);
		text_add(&note.evidence, " on average");
	}
	text_printf(&note.threshold, "below %g %% (medium: %g %%)",
		    ctx->thresholds->low_utilization_low * 100,
		    ctx->thresholds->low_utilization_medium * 100);
	text_add(&note.suggestion, remedy_for(computing, cores, roof.cores));
	rules_ctx_add(ctx, "LowUtilization",
		      mfu < ctx->thresholds->low_utilization_medium ? FINDING_MEDIUM : FINDING_LOW,
		      1 - mfu, &note);
}

static void add_line(struct text *text, const struct roofline *line, const struct profile_row *row)
{
	add_rate(text, line->flops_per_s);
	text_add(text, ", ");
	add_percent(text, line->flops_per_s / line->attainable_flops_per_s);
	text_add(text, " of the roof of ");
	add_cores(text, line->roof.cores);
	text_printf(text, " at %.3g FLOP/byte, in ", line->intensity);
	add_count(text, row->calls_count);
	text_add(text, row->calls_count == 1 ? " call of " : " calls of ");
	add_ns(text, row->avg_ns);
	text_add(text, " on average");
}

static void overhead_bound(struct rules_ctx *ctx, const struct profile_row *row,
			   const struct roofline *line, double share)
{
	struct note note = {
		.of_function = true, .bottleneck = BOTTLENECK_COMPUTE, .look = "Compute"};

	add_function_name(&note.subject, ctx->profile, row->function);
	add_line(&note.evidence, line, row);
	text_printf(&note.threshold, "below %g %% of the roof, at least %g %% of the wall time",
		    ROOFLINE_OVERHEAD_SHARE * 100, ctx->thresholds->overhead_bound_share * 100);
	if ((double)row->avg_ns < ctx->thresholds->overhead_bound_short_ns)
		text_add(&note.suggestion,
			 "Many small operations, dominated by call overhead: batch them (bmm "
			 "instead of mm, a larger batch), or fuse them (torch.compile, jit).");
	else
		text_add(&note.suggestion,
			 "Long calls at a low rate: check that the BLAS is optimised for this CPU, "
			 "that its threads wait neither for each other nor for a CPU, and that "
			 "matrices are neither thin nor strided.");
	rules_ctx_add(ctx, "OverheadBound", FINDING_MEDIUM, share, &note);
}

static void memory_bound(struct rules_ctx *ctx, const struct profile_row *row,
			 const struct roofline *line, double share)
{
	struct note note = {
		.of_function = true, .bottleneck = BOTTLENECK_BANDWIDTH, .look = "Compute"};

	add_function_name(&note.subject, ctx->profile, row->function);
	add_line(&note.evidence, line, row);
	text_printf(&note.evidence, "; compute-bound above %.3g FLOP/byte",
		    roof_ridge(&line->roof));
	text_printf(&note.threshold,
		    "intensity below that, at least %g %% of the roof, at least %g %% of the "
		    "wall time",
		    ROOFLINE_OVERHEAD_SHARE * 100, ctx->thresholds->memory_bound_share * 100);
	text_add(&note.suggestion,
		 "Bound by memory bandwidth: reuse what is read (a larger batch, fused operators) "
		 "or read less (a lower precision). More cores or a faster kernel help little.");
	rules_ctx_add(ctx, "MemoryBound", FINDING_LOW, share, &note);
}

/* Functions with a cost of their own: of a caller it is not known what else it does. */
static bool bound_function(struct rules_ctx *ctx, const struct profile_row *row)
{
	double share = wall_share(ctx->process, row->computing_ns);
	struct roofline line;

	if (!row->cost.flops || row->avg_ns == PROFILE_ABSENT)
		return false;
	line = roofline_of_row(ctx->profile, ctx->process, row);
	if (line.bound == ROOFLINE_OVERHEAD && share >= ctx->thresholds->overhead_bound_share)
		overhead_bound(ctx, row, &line, share);
	else if (line.bound == ROOFLINE_MEMORY && share >= ctx->thresholds->memory_bound_share)
		memory_bound(ctx, row, &line, share);
	else
		return false;
	return true;
}

void rules_compute(struct rules_ctx *ctx)
{
	unsigned bound = 0;

	if (!ctx->process->compute.measured || rules_is_short(ctx))
		return;
	unread_compute(ctx);
	low_utilization(ctx);
	for (size_t i = 0; i < ctx->process->rows_count && bound < BOUND_FINDINGS; i++)
		bound += bound_function(ctx, &ctx->process->rows[i]);
}
