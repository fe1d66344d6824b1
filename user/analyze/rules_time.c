// SPDX-License-Identifier: BSD-2-Clause
/* Rules about the time of single functions and of training steps. */
#include "analyze/location.h"
#include "analyze/remedy.h"
#include "analyze/rules_ctx.h"
#include "base/units.h"
#include "cost/collectives.h"
#include "cost/gpu_calls.h"

#include <math.h>

/* At most so many findings for each process. */
#define TINY_FINDINGS_MAX 3

static void add_caller(struct text *text, const struct rules_ctx *ctx,
		       const struct profile_row *row)
{
	const struct profile_caller *caller = row->callers;

	if (!row->callers_count || !profile_function(ctx->profile, caller->caller))
		return;
	text_add(text, "; mostly called by ");
	add_function_name(text, ctx->profile, caller->caller);
	text_printf(text, " (%s of the calls)",
		    as_percent((double)caller->calls_count / (double)row->calls_count));
}

/* The self time of a range is untraced code: DataBound, PythonBound and rules_driver.c explain it.
 */
static bool is_said_elsewhere(const struct rules_ctx *ctx, const struct profile_row *row,
			      enum remedy_kind kind)
{
	const struct profile_function *function = profile_function(ctx->profile, row->function);
	const struct gpu_call *call;

	/* SyncWait judges waits for a GPU, LaunchBound launches. A copy waits for the work before
	 * it, even an asynchronous one if its memory is pageable; Copies and PageableCopy report
	 * the time of copying itself. */
	call = function && ctx->process->gpu.used ? gpu_call_find(function->name) : NULL;
	if (call && (call->waits || call->op == PERFX_GPU_OP_COPY || rules_launch_bound(ctx)))
		return true;
	/* if ranks are recorded together, it is known for which of them they wait */
	if (function && collective_meets(function->name))
		return ranks_of_job(ctx->profile, ctx->process) > 1;
	if (!function || !function_is_marker(function))
		return false;
	if (remedy_is_data(function))
		return rules_data_bound(ctx);
	return kind == REMEDY_WAITING || ctx->driver->marked.ns >= row->self_ns / 2;
}

/* Is the lack of a CPU the main reason why its threads do not run? */
static bool waits_for_cpu(const struct rules_ctx *ctx)
{
	const struct account *thread = account_of_thread(ctx->account, ctx->driver->tid);
	uint64_t ready_ns = thread ? thread->ns[ACCOUNT_RUNNABLE] : 0;

	return thread && 2 * ready_ns >= thread->wall_ns - thread->ns[ACCOUNT_COMPUTING] -
						 thread->ns[ACCOUNT_SPINNING];
}

/* A large share of an operator alone is no problem. NONE: no remedy is known. */
static enum bottleneck class_of_slow(const struct rules_ctx *ctx, enum remedy_kind kind)
{
	switch (kind) {
	case REMEDY_COPY:
		return BOTTLENECK_COPIES;
	case REMEDY_COMPILE:
		return BOTTLENECK_RECOMPILATION;
	case REMEDY_COLLECTIVE:
		return BOTTLENECK_COMMUNICATION;
	case REMEDY_SLEEP:
		return BOTTLENECK_SLEEP;
	case REMEDY_WAITING:
	case REMEDY_SYNCHRONIZE:
		/* it waits while others work for it */
		return cpu_share(ctx->process) < ctx->thresholds->slow_operation_busy &&
				       !waits_for_cpu(ctx)
			       ? BOTTLENECK_IDLE
			       : BOTTLENECK_NONE;
	default:
		return BOTTLENECK_NONE;
	}
}

static void slow_operation(struct rules_ctx *ctx, const struct profile_row *row)
{
	double share = timed_share(ctx->profile, ctx->process, row->function, row->self_ns);
	enum remedy_kind kind = remedy_kind(ctx->profile, ctx->process, row);
	struct note note = {.of_function = true,
			    .bottleneck = class_of_slow(ctx, kind),
			    .gain_ns = fmin(share, 1) * rules_unit_ns(ctx),
			    .confidence = 1,
			    .place = row->python_callers_count ? row->python_callers->frame : NULL,
			    .share = fmin(share, 1)};

	if (share < ctx->thresholds->slow_operation_medium || !note.bottleneck ||
	    profile_row_overlaps(row, profile_wall_ns(ctx->process)) ||
	    is_said_elsewhere(ctx, row, kind))
		return;
	/* copies, compilations and sleeps can be avoided; other waits last as long as their cause
	 */
	note.gain_unknown = !(note.bottleneck == BOTTLENECK_COPIES ||
			      note.bottleneck == BOTTLENECK_RECOMPILATION ||
			      note.bottleneck == BOTTLENECK_SLEEP);
	add_function_name(&note.subject, ctx->profile, row->function);
	text_printf(&note.evidence, "self time %s, ", as_ns(row->self_ns));
	add_timed_share(&note.evidence, ctx->profile, ctx->process, row->function, row->self_ns);
	text_printf(&note.evidence, ", in %s%s", as_count(row->calls_count),
		    row->calls_count == 1 ? " call" : " calls");
	if (row->avg_ns != PROFILE_ABSENT)
		text_printf(&note.evidence, " of %s on average", as_ns(row->avg_ns));
	add_caller(&note.evidence, ctx, row);
	rules_suggest(&note, ctx, remedy_text(kind));
	rules_ctx_add(ctx, "SlowOperation", high_if(share >= ctx->thresholds->slow_operation_high),
		      share, &note);
}

/* Is it mostly called by its own library, such as a BLAS function by its LAPACK? The program cannot
 * batch such calls. */
static bool is_called_inside(const struct rules_ctx *ctx, uint32_t function)
{
	const struct profile_function *called = profile_function(ctx->profile, function);
	const struct profile_activities *samples = &ctx->process->samples;
	uint64_t inside = 0, all = 0;

	for (size_t i = 0; called && i < samples->count; i++) {
		const struct profile_stack *stack = samples->list[i].stack;

		for (size_t k = 0; stack && k + 1 < stack->frames_count; k++) {
			const struct profile_frame *frame = stack->frames[k];

			if (strcmp(frame->function, called->name) != 0)
				continue;
			all += samples->list[i].count;
			if (!strcmp(frame->module, stack->frames[k + 1]->module))
				inside += samples->list[i].count;
			break;
		}
	}
	return all && 2 * inside >= all;
}

static bool tiny_calls(struct rules_ctx *ctx, const struct profile_row *row)
{
	/* the overhead budget removes probes of short calls first */
	uint64_t seen_ns =
		watched_ns(ctx->profile, ctx->process, row->function, PERFX_REDUCED_REMOVED);
	double rate = seen_ns ? (double)row->calls_count * 1e9 / (double)seen_ns : 0;
	struct note note = {
		.of_function = true,
		.bottleneck = BOTTLENECK_OPERATORS,
		.confidence = 1,
		.share = fmin(timed_share(ctx->profile, ctx->process, row->function, row->total_ns),
			      1)};

	if (row->avg_ns == PROFILE_ABSENT ||
	    (double)row->avg_ns >= ctx->thresholds->tiny_calls_ns ||
	    rate < ctx->thresholds->tiny_calls_per_s || is_called_inside(ctx, row->function))
		return false;
	add_function_name(&note.subject, ctx->profile, row->function);
	text_printf(&note.evidence, "%s calls/s of %s on average", as_count(u64_of(rate)),
		    as_ns(row->avg_ns));
	add_caller(&note.evidence, ctx, row);
	note.gain_ns = note.share * rules_unit_ns(ctx);
	note.gain_unknown = true;
	note.place = rules_place_of(ctx, row->function);
	rules_ctx_add(ctx, "TinyCalls", rules_severity(ctx, note.gain_ns), rate, &note);
	return true;
}

static void unwound(struct rules_ctx *ctx, const struct profile_row *row)
{
	double share = (double)row->unwound_count / (double)row->calls_count;
	bool often = share >= ctx->thresholds->unwound_medium &&
		     rate_of(ctx->process, row->unwound_count) >= ctx->thresholds->unwound_per_s;
	struct note note = {.of_function = true, .confidence = 1};

	if ((double)row->unwound_count < ctx->thresholds->unwound_calls ||
	    share < ctx->thresholds->unwound_low)
		return;
	add_function_name(&note.subject, ctx->profile, row->function);
	text_printf(&note.evidence, "%s of %s calls (%s) ended by an exception or longjmp",
		    as_count(row->unwound_count), as_count(row->calls_count), as_percent(share));
	note.place = rules_place_of(ctx, row->function);
	rules_ctx_add(ctx, "Unwound", often ? FINDING_MEDIUM : FINDING_LOW, share, &note);
}

void rules_functions(struct rules_ctx *ctx)
{
	unsigned tiny = 0;

	FOR_EACH (row, ctx->process->rows) {
		slow_operation(ctx, row);
		unwound(ctx, row);
		if (tiny < TINY_FINDINGS_MAX)
			tiny += tiny_calls(ctx, row);
	}
}

/* The optimizer's range with the most time. */
static const struct profile_row *find_optimizer(const struct rules_ctx *ctx)
{
	const struct profile_row *most = NULL;

	FOR_EACH (row, ctx->process->rows) {
		const struct profile_function *function =
			profile_function(ctx->profile, row->function);

		if (function && function_is_marker(function) &&
		    remedy_of_name(function) == REMEDY_OPTIMIZER &&
		    (!most || row->total_ns > most->total_ns))
			most = row;
	}
	return most;
}

/* A fused optimizer needs about a third of the time. */
#define FUSED_SAVES (2.0 / 3)

void rules_steps(struct rules_ctx *ctx)
{
	const struct profile_steps *steps = &ctx->process->steps;
	const struct profile_row *optimizer = find_optimizer(ctx);
	double share =
		(double)steps->phases[PROFILE_PHASE_OPTIMIZER] / (double)(steps->total_ns ?: 1);
	double busy = ctx->process->gpu.used ? gpu_busy_share(ctx->process) : -1;
	struct note note = {.bottleneck = BOTTLENECK_BANDWIDTH,
			    .gain_ns = FUSED_SAVES * share * rules_unit_ns(ctx),
			    .confidence = 1,
			    .share = share};

	if ((double)steps->ends_count < ctx->thresholds->all_steps || !steps->total_ns ||
	    share < ctx->thresholds->optimizer_bound_low)
		return;
	/* a GPU with little work waits for calls, not for memory */
	if (busy >= 0 && busy < ctx->thresholds->gpu_starved_medium)
		note.bottleneck = BOTTLENECK_OPERATORS;
	note.place = optimizer ? rules_place_of(ctx, optimizer->function) : NULL;
	text_printf(&note.evidence,
		    "parameter updates took %s of the time of %s steps: %s of %s per step",
		    as_percent(share), as_count(steps->count),
		    as_ns(steps->phases[PROFILE_PHASE_OPTIMIZER] / steps->count),
		    as_ns(steps->avg_ns));
	rules_ctx_add(ctx, "OptimizerBound",
		      medium_if(share >= ctx->thresholds->optimizer_bound_medium), share, &note);
}
