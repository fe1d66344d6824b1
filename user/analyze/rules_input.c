// SPDX-License-Identifier: BSD-2-Clause
/*
 * A training that waits for its next batch: how long, who prepares it, and how many workers of a
 * data loader would hide it.
 *
 * Workers hide what they do on CPUs that are free. With W of them a step takes the longest of
 *
 *	rest + handover			the training, which takes each batch from a worker
 *	(work + handover) / W		the workers; work is the CPU time of a batch
 *	(cpu + work + 2 handover) / F	the F CPUs that both of them can have; cpu is the CPU time
 *					of the rest, of all threads of the training
 *
 * Threads that only poll for each other keep no worker from its CPU for long, so that is no part of
 * cpu. Other programs that use O of N CPUs leave N - O; but where there are too few, each thread
 * has an equal share, and T of ours have N T / (T + O). The handover is a queue, a message and a
 *mapping at either end; that of very large batches takes longer.
 */
#include "analyze/location.h"
#include "analyze/rules_ctx.h"
#include "analyze/thread_pool.h"

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

/* --- what workers would gain --- */

/* It need not be said how much is left, or how little is won. */
#define ALL_OF_IT  0.95
#define NONE_OF_IT 0.05
/* times the threshold: hosts are not equally fast */
#define HANDOVER_AT_MOST 2

struct loader {
	unsigned workers, needed; /* that there are; that would hide it, as far as CPUs go */
	bool keeps_up;		  /* the workers do: taking batches from them is what is left */
	double hidden_ns;	  /* of a step, by so many as are needed */
	double gain_ns;		  /* the same, less what taking a batch from a worker costs */
};

/* What workers do that there are. */
struct workers {
	unsigned count;
	double cpu_ns; /* of a step */
};

static double steps_recorded(const struct rules_ctx *ctx)
{
	return fmax((double)ctx->driver->wall_ns / rules_unit_ns(ctx), 1);
}

/* Forks of the training itself, as a data loader makes them. */
static struct workers find_workers(const struct rules_ctx *ctx)
{
	struct workers workers = {0};

	for (size_t i = 0; i < ctx->profile->processes_count; i++) {
		const struct profile_process *child = &ctx->profile->processes[i];

		if (!profile_is_child(ctx->profile, child, ctx->process) || !*child->cmdline ||
		    strcmp(child->cmdline, ctx->process->cmdline))
			continue;
		workers.count++;
		if (child->cpu_ns != PROFILE_ABSENT)
			workers.cpu_ns += (double)child->cpu_ns / steps_recorded(ctx);
	}
	return workers;
}

/* A step's, of all threads, without what prepares the batch and what polls. */
static double training_cpu_ns(struct rules_ctx *ctx)
{
	struct thread_pool pool;
	double spin_ns;

	if (thread_pool_find(&pool, ctx->process, ctx->driver->tid))
		ctx->failed = true;
	spin_ns = (double)pool.driver.spin_ns + (double)pool.others.spin_ns;
	if (ctx->process->cpu_ns == PROFILE_ABSENT)
		return 0;
	return fmax(((double)ctx->process->cpu_ns - spin_ns) / steps_recorded(ctx) -
			    ctx->time->batch_own_ns,
		    0);
}

/* That so many threads of the training and its workers can have; infinite: it is not known. */
static double cpus_for(const struct rules_ctx *ctx, double threads)
{
	const struct profile *profile = ctx->profile;
	uint64_t others_ns = rules_others_cpu_ns(ctx);
	double cpus = profile->cpus_count, others = 0;

	if (!profile->cpus_count)
		return INFINITY;
	if (others_ns != PROFILE_ABSENT && profile->duration_ns)
		others = (double)others_ns / (double)profile->duration_ns;
	return fmin(fmax(cpus - others, cpus * threads / (threads + others)),
		    rules_allowed_cpus(ctx));
}

static struct loader judge_loader(struct rules_ctx *ctx)
{
	double step = rules_unit_ns(ctx), batch = batch_ns(ctx), cpu = training_cpu_ns(ctx);
	double rest = fmax(step - batch, 1), handover = ctx->thresholds->data_bound_handover;
	double work = batch, work_cpu = batch, cpus, best;
	struct workers workers = find_workers(ctx);
	struct loader loader = {.workers = workers.count};

	if (workers.count) {
		/* they are waited for, so they work all the time; the rest has its handover */
		work = workers.count * step;
		work_cpu = workers.cpu_ns;
		handover = 0;
	}
	loader.needed = (unsigned)fmax(ceil((work + handover) / (rest + handover)), 1);
	if (ctx->profile->cpus_count && loader.needed > rules_allowed_cpus(ctx))
		loader.needed = rules_allowed_cpus(ctx);
	cpus = cpus_for(ctx, fmax(cpu / rest, 1) + loader.needed);
	best = fmax(rest + handover, (work + handover) / loader.needed);
	best = fmax(best, (cpu + work_cpu + 2 * handover) / cpus);
	loader.gain_ns = fmax(step - best, 0);
	loader.hidden_ns = fmin(loader.gain_ns + handover, batch);
	loader.keeps_up = workers.count && prepares_itself(ctx) &&
			  batch <= HANDOVER_AT_MOST * ctx->thresholds->data_bound_handover;
	return loader;
}

/* " (0 workers; 2 would hide it)", " (1 worker; 2 would hide 50.0 % of it)" */
static void add_workers(struct text *text, const struct rules_ctx *ctx, const struct loader *loader)
{
	double hidden = loader->hidden_ns / batch_ns(ctx);

	/* with workers enough, something else is slow */
	if (!prepares_itself(ctx) && loader->needed <= loader->workers)
		return;
	text_printf(text, " (%u worker%s; ", loader->workers, loader->workers == 1 ? "" : "s");
	if (loader->keeps_up) {
		text_add(text, "this is what taking batches from workers costs)");
		return;
	}
	if (loader->gain_ns < NONE_OF_IT * batch_ns(ctx)) {
		text_add(text, "no CPU is free for more)");
		return;
	}
	text_printf(text, "%u would hide ", loader->needed);
	if (hidden < ALL_OF_IT)
		add_percent(text, hidden);
	text_add(text, hidden < ALL_OF_IT ? " of it)" : "it)");
}

static void add_data_cause(struct text *text, struct rules_ctx *ctx, const struct loader *loader)
{
	if (loader->keeps_up)
		return;
	if (!prepares_itself(ctx) || !ctx->driver->data.lead.frame) {
		add_feeder(text, ctx);
		return;
	}
	text_add(text, "; its own thread prepares it, mostly in ");
	location_place(text, ctx->driver->data.lead.frame);
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
	if (!loader.keeps_up)
		note.place =
			prepares_itself(ctx) ? ctx->driver->data.lead.frame : feeder_place(ctx);
	add_process_name(&note.subject, ctx->process);
	text_add(&note.evidence, "waiting for the next batch took ");
	add_batch(&note.evidence, ctx);
	add_workers(&note.evidence, ctx, &loader);
	add_data_cause(&note.evidence, ctx, &loader);
	text_printf(&note.headline, "%s: ", bottleneck_headline(BOTTLENECK_INPUT));
	add_percent(&note.headline, share);
	text_printf(&note.headline, " of each %s step waits for the next batch",
		    as_ns(ctx->process->steps.avg_ns));
	add_workers(&note.headline, ctx, &loader);
	add_data_cause(&note.headline, ctx, &loader);
	text_printf(&note.threshold, "at least %g %% of the step time (high: %g %%)",
		    t->data_bound_medium * 100, t->data_bound_high * 100);
	text_add(&note.suggestion,
		 loader.keeps_up
			 ? "Workers prepare the batches in time, and each has to be taken from "
			   "them: larger batches, or fewer tensors in each, make that seldom."
			 : "The model waits for its data: give the DataLoader more workers and a "
			   "longer prefetch, keep workers between epochs (persistent_workers), or "
			   "prepare the data once instead of in each epoch.");
	rules_ctx_add(ctx, "DataBound",
		      loader.keeps_up		    ? FINDING_LOW
		      : share >= t->data_bound_high ? FINDING_HIGH
						    : FINDING_MEDIUM,
		      share, &note);
}
