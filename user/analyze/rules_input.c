// SPDX-License-Identifier: BSD-2-Clause
/*
 * A training that waits for its next batch: how long, who prepares it, and how many workers of a
 * data loader would hide it.
 *
 * Batches that W workers prepare come every work / W at best, work being the CPU time of one; and
 * CPUs that train and prepare do (rest + work) / CPUs of it a step. So a step takes the longest of
 * the three: the rest of it, work / W, and that.
 */
#include "analyze/location.h"
#include "analyze/rules_ctx.h"

#include <math.h>
#include <string.h>

/* Of a step: exact by the loader's range, where it has one with a name. */
static double batch_ns(const struct rules_ctx *ctx)
{
	const struct profile_steps *steps = &ctx->process->steps;

	if (steps->phases[PROFILE_PHASE_DATA])
		return (double)steps->phases[PROFILE_PHASE_DATA] / (double)steps->count;
	return ctx->time->batch_ns;
}

static double batch_error_ns(const struct rules_ctx *ctx)
{
	return ctx->process->steps.phases[PROFILE_PHASE_DATA] ? 0 : ctx->time->error_ns[TIME_INPUT];
}

bool rules_data_bound(const struct rules_ctx *ctx)
{
	const struct profile_steps *steps = &ctx->process->steps;

	return (double)steps->count >= ctx->thresholds->all_steps && steps->total_ns &&
	       batch_ns(ctx) >= ctx->thresholds->data_bound_medium * rules_unit_ns(ctx);
}

/* --- who prepares it --- */

/* The thread of the steps itself, for most of it? */
static bool prepares_itself(const struct rules_ctx *ctx)
{
	const struct step_time *time = ctx->time;
	double recorded = (double)ctx->driver->wall_ns / time->unit_ns;
	double all = fmax(time->batch_ns * recorded,
			  (double)ctx->process->steps.phases[PROFILE_PHASE_DATA]);

	return (double)ctx->driver->data.count >= ctx->thresholds->all_cause_samples &&
	       time->batch_own_ns * recorded >= ctx->thresholds->data_bound_own * all;
}

static void add_data_cause(struct text *text, struct rules_ctx *ctx)
{
	if (!prepares_itself(ctx) || !ctx->driver->data.lead.frame) {
		add_feeder(text, ctx);
		return;
	}
	text_add(text, "; its own thread prepares it, mostly in ");
	location_place(text, ctx->driver->data.lead.frame);
}

/* Forks of the training itself, as a data loader makes them. */
static unsigned count_workers(const struct rules_ctx *ctx)
{
	unsigned count = 0;

	for (size_t i = 0; i < ctx->profile->processes_count; i++) {
		const struct profile_process *child = &ctx->profile->processes[i];

		count += profile_is_child(ctx->profile, child, ctx->process) && *child->cmdline &&
			 !strcmp(child->cmdline, ctx->process->cmdline);
	}
	return count;
}

/* --- what workers would gain --- */

/* It need not be said how much is left. */
#define ALL_OF_IT 0.95

struct loader {
	unsigned workers, needed; /* that there are; that would hide it, as far as CPUs go */
	double rest_ns, work_ns;  /* of a step; of a batch, CPU time */
	double hidden_ns;	  /* of a step, by so many as are needed */
	double gain_ns;		  /* the same, less what taking a batch from a worker costs */
};

static struct loader judge_loader(const struct rules_ctx *ctx)
{
	double step = rules_unit_ns(ctx), batch = batch_ns(ctx), cpus = ctx->profile->cpus_count;
	struct loader loader = {.workers = count_workers(ctx), .rest_ns = fmax(step - batch, 1)};
	double needed, best;

	/* workers that are waited for work all the time */
	loader.work_ns = loader.workers ? loader.workers * step : batch;
	needed = fmax(ceil(loader.work_ns / loader.rest_ns), 1);
	loader.needed = (unsigned)(cpus > 0 ? fmin(needed, cpus) : needed);
	best = fmax(loader.rest_ns, loader.work_ns / loader.needed);
	if (cpus > 0)
		best = fmax(best, (loader.rest_ns + loader.work_ns) / cpus);
	loader.hidden_ns = fmax(step - best, 0);
	loader.gain_ns = loader.hidden_ns;
	if (!loader.workers)
		loader.gain_ns = fmax(loader.gain_ns - ctx->thresholds->data_bound_handover, 0);
	return loader;
}

/* " (0 workers; 2 would hide it)", " (1 worker; 2 would hide 50.0 % of it)" */
static void add_workers(struct text *text, const struct rules_ctx *ctx, const struct loader *loader)
{
	double hidden = loader->hidden_ns / batch_ns(ctx);

	/* with workers enough, something else is slow */
	if (!prepares_itself(ctx) && loader->needed <= loader->workers)
		return;
	text_printf(text, " (%u worker%s; %u would hide ", loader->workers,
		    loader->workers == 1 ? "" : "s", loader->needed);
	if (hidden < ALL_OF_IT)
		add_percent(text, hidden);
	text_add(text, hidden < ALL_OF_IT ? " of it)" : "it)");
}

static void add_batch(struct text *text, const struct rules_ctx *ctx)
{
	const struct profile_steps *steps = &ctx->process->steps;

	add_percent(text, batch_ns(ctx) / rules_unit_ns(ctx));
	text_printf(text, " of the time of %s steps: %s", as_count(steps->count),
		    as_ns(u64_of(batch_ns(ctx))));
	text_printf(text, " of %s per step", as_ns(steps->avg_ns));
}

void rules_input(struct rules_ctx *ctx)
{
	const struct thresholds *t = ctx->thresholds;
	double share = batch_ns(ctx) / rules_unit_ns(ctx),
	       error = batch_error_ns(ctx) / rules_unit_ns(ctx);
	struct note note = {.bottleneck = BOTTLENECK_INPUT,
			    .confidence = confidence_above(share - t->data_bound_medium, error),
			    .look = "Where in the code; Waiting",
			    .share = share};
	struct loader loader;

	if (!rules_data_bound(ctx))
		return;
	loader = judge_loader(ctx);
	note.gain_ns = loader.gain_ns;
	note.place = prepares_itself(ctx) ? ctx->driver->data.lead.frame : feeder_place(ctx);
	add_process_name(&note.subject, ctx->process);
	text_add(&note.evidence, "waiting for the next batch took ");
	add_batch(&note.evidence, ctx);
	add_workers(&note.evidence, ctx, &loader);
	add_data_cause(&note.evidence, ctx);
	text_printf(&note.headline, "%s: ", bottleneck_headline(BOTTLENECK_INPUT));
	add_percent(&note.headline, share);
	text_printf(&note.headline, " of each %s step waits for the next batch",
		    as_ns(ctx->process->steps.avg_ns));
	add_workers(&note.headline, ctx, &loader);
	add_data_cause(&note.headline, ctx);
	text_printf(&note.threshold, "at least %g %% of the step time (high: %g %%)",
		    t->data_bound_medium * 100, t->data_bound_high * 100);
	text_add(&note.suggestion,
		 "The model waits for its data: give the DataLoader more workers and a longer "
		 "prefetch, keep workers between epochs (persistent_workers), or prepare the data "
		 "once instead of in each epoch.");
	rules_ctx_add(ctx, "DataBound", share >= t->data_bound_high ? FINDING_HIGH : FINDING_MEDIUM,
		      share, &note);
}
