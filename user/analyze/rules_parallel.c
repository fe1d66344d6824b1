// SPDX-License-Identifier: BSD-2-Clause
/* Threads that share the work of a function badly: some wait while others work. */
#include "analyze/location.h"
#include "analyze/remedy.h"
#include "analyze/rules_ctx.h"
#include "analyze/thread_pool.h"

#include <math.h>

/* On one side, at a confidence of 95 %. */
#define DEVIATIONS 1.645
#define NEARLY	   0.8

static bool is_inefficient(const struct rules_ctx *ctx, const struct parallel_function *function)
{
	const struct thresholds *thresholds = ctx->thresholds;
	const struct parallelism *parallelism = &function->parallelism;
	const struct profile_function *of = profile_function(ctx->profile, function->function);
	bool waits = of && remedy_waits(remedy_of_name(of));

	return !waits && (double)parallelism->samples_count >= thresholds->low_parallel_samples &&
	       timed_share(ctx->profile, ctx->process, function->function, function->total_ns) >=
		       thresholds->low_parallel_share &&
	       parallelism->efficiency + DEVIATIONS * parallelism->error <
		       thresholds->low_parallel_efficiency;
}

/* Share of the wall time saved if all threads that have a CPU had always worked. */
static double gain_of(const struct rules_ctx *ctx, const struct parallel_function *function)
{
	double threads = function->parallelism.threads_count;

	if (ctx->profile->cpus_count)
		threads = fmin(threads, ctx->profile->cpus_count);
	return timed_share(ctx->profile, ctx->process, function->function, function->total_ns) *
	       fmax(1 - function->parallelism.speedup / threads, 0);
}

/* The one that loses most; of functions that contain each other the innermost that loses nearly as
 * much. They are in the order of their time. NULL: none. */
static const struct parallel_function *find_worst(const struct rules_ctx *ctx)
{
	const struct parallel_function *worst = NULL;

	FOR_EACH_OF (function, *ctx->parallel)
		if (is_inefficient(ctx, function) &&
		    (!worst || gain_of(ctx, function) > NEARLY * gain_of(ctx, worst)))
			worst = function;
	return worst;
}

void rules_parallel(struct rules_ctx *ctx)
{
	const struct thresholds *thresholds = ctx->thresholds;
	const struct parallel_function *worst = find_worst(ctx);
	struct note note = {.of_function = true, .bottleneck = BOTTLENECK_COMPUTE};
	double gain;

	if (!worst)
		return;
	gain = gain_of(ctx, worst);
	note.share = timed_share(ctx->profile, ctx->process, worst->function, worst->total_ns);
	note.gain_ns = gain * rules_unit_ns(ctx);
	note.confidence = confidence_above(thresholds->low_parallel_efficiency -
						   worst->parallelism.efficiency,
					   worst->parallelism.error);
	add_function_name(&note.subject, ctx->profile, worst->function);
	text_printf(&note.evidence, "speed-up %.1f with %u threads, efficiency ",
		    fmax(worst->parallelism.speedup, 1), worst->parallelism.threads_count);
	add_percent(&note.evidence, worst->parallelism.efficiency);
	text_printf(&note.evidence, " (%llu samples), in ",
		    (unsigned long long)worst->parallelism.samples_count);
	add_timed_share(&note.evidence, ctx->profile, ctx->process, worst->function,
			worst->total_ns);
	/* that all of it could be shared out is not known */
	rules_ctx_add(ctx, "LowParallelEfficiency", medium_if(gain >= thresholds->all_medium), gain,
		      &note);
}
