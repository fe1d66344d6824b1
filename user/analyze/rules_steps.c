// SPDX-License-Identifier: BSD-2-Clause
/* Rules about the steps of a training: what they wait for, and whether they are alike. */
#include "analyze/rules_ctx.h"

/* Of fewer steps nothing is said: the first ones warm up. */
#define STEPS_MIN 10
/* Time of the steps in which the next batch is waited for. */
#define DATA_MEDIUM 0.10
#define DATA_HIGH   0.30
/* Time of the steps in which the optimizer updates the parameters. */
#define OPTIMIZER_LOW	 0.20
#define OPTIMIZER_MEDIUM 0.40
/* Time beyond as many median steps: what the slow ones cost. */
#define UNEVEN_LOW    0.20
#define UNEVEN_MEDIUM 0.40

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
}

static void add_shares(struct text *text, double least, double more, const char *severity)
{
	text_printf(text, "from %.0f %% of the steps' time (%s: %.0f %%)", least * 100, severity,
		    more * 100);
}

static void data_bound(struct rules_ctx *ctx)
{
	const struct profile_steps *steps = &ctx->process->steps;
	double share = phase_share(steps, PROFILE_PHASE_DATA);
	struct note note = {0};

	if (share < DATA_MEDIUM)
		return;
	add_process_name(&note.subject, ctx->process);
	text_add(&note.evidence, "waited for the next batch in ");
	add_phase(&note.evidence, steps, PROFILE_PHASE_DATA);
	add_shares(&note.threshold, DATA_MEDIUM, DATA_HIGH, "high");
	text_add(&note.suggestion,
		 "The model waits for its data: give the DataLoader more workers and a longer "
		 "prefetch, keep workers from one epoch to the next (persistent_workers), prepare "
		 "the data once instead of in each epoch.");
	rules_ctx_add(ctx, "DataBound", share >= DATA_HIGH ? FINDING_HIGH : FINDING_MEDIUM, share,
		      &note);
}

static void optimizer_bound(struct rules_ctx *ctx)
{
	const struct profile_steps *steps = &ctx->process->steps;
	double share = phase_share(steps, PROFILE_PHASE_OPTIMIZER);
	struct note note = {0};

	if (share < OPTIMIZER_LOW)
		return;
	add_process_name(&note.subject, ctx->process);
	text_add(&note.evidence, "updated its parameters in ");
	add_phase(&note.evidence, steps, PROFILE_PHASE_OPTIMIZER);
	add_shares(&note.threshold, OPTIMIZER_LOW, OPTIMIZER_MEDIUM, "medium");
	text_add(&note.suggestion,
		 "Updating parameters is bound by memory and by the number of tensors: use the "
		 "optimizer's fused=True or foreach=True, larger batches, or fewer steps of the "
		 "optimizer (gradient accumulation).");
	rules_ctx_add(ctx, "OptimizerBound",
		      share >= OPTIMIZER_MEDIUM ? FINDING_MEDIUM : FINDING_LOW, share, &note);
}

static void uneven_steps(struct rules_ctx *ctx)
{
	const struct profile_steps *steps = &ctx->process->steps;
	double alike_ns = (double)steps->p50_ns * (double)steps->count;
	double share = 1 - alike_ns / (double)steps->total_ns;
	struct note note = {0};

	if (share < UNEVEN_LOW)
		return;
	add_process_name(&note.subject, ctx->process);
	text_add(&note.evidence, "half of ");
	add_count(&note.evidence, steps->count);
	text_add(&note.evidence, " steps took ");
	add_ns(&note.evidence, steps->p50_ns);
	text_add(&note.evidence, " or less, one in twenty more than ");
	add_ns(&note.evidence, steps->p95_ns);
	text_add(&note.evidence, ", the longest ");
	add_ns(&note.evidence, steps->max_ns);
	text_add(&note.evidence, "; if every step took the median time, ");
	add_percent(&note.evidence, share);
	text_add(&note.evidence, " would be saved");
	add_shares(&note.threshold, UNEVEN_LOW, UNEVEN_MEDIUM, "medium");
	text_add(&note.suggestion,
		 "See what the slow steps have in common: the beginning of an epoch, a checkpoint, "
		 "inputs of another size, other programs on the CPUs.");
	rules_ctx_add(ctx, "UnevenSteps", share >= UNEVEN_MEDIUM ? FINDING_MEDIUM : FINDING_LOW,
		      share, &note);
}

void rules_steps(struct rules_ctx *ctx)
{
	const struct profile_steps *steps = &ctx->process->steps;

	if (steps->count < STEPS_MIN || !steps->total_ns)
		return;
	data_bound(ctx);
	optimizer_bound(ctx);
	uneven_steps(ctx);
}
