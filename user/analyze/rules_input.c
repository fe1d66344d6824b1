// SPDX-License-Identifier: BSD-2-Clause
/*
 * A training that waits for its next batch: how long, who prepares it, and how many workers of a
 * data loader would hide it.
 *
 * Workers hide what they do on CPUs that are free. With W of them a step takes the longest of
 *
 *	rest + handover			the training, which takes each batch from a worker
 *	(work + handover) / W		the workers; work is the time that a batch takes one
 *	(cpu + C + 2 handover) / F	the F CPUs that both of them can have; cpu is the CPU time
 *					of the rest, of all threads of the training, C is that
 *					of a batch: while workers sleep, read or wait for a disk
 *					they need no CPU
 *
 * and more workers than that step needs are not recommended.
 *
 * Threads that only poll for each other keep no worker from its CPU for long, so that is no part of
 * cpu. Other programs, and other guests of the host, that use O of N CPUs leave N - O: workers get
 * the CPUs that were idle. More threads would get a larger share of busy ones, but how much larger
 * depends on what the others still want. Where CPUs are the limit the gain is an upper bound: with
 * all CPUs busy, steps measured on two CPUs were 14 to 20 % longer than that.
 *
 * The handover is a queue, a message and a mapping at either end; that of very large batches takes
 * longer.
 *
 * That the thread of the steps waits for a CPU is neither work nor rest. How long it waits for
 * threads of its pool that lack one is not known: then nothing is said of workers.
 */
#include "analyze/location.h"
#include "analyze/rules_ctx.h"
#include "analyze/stack_kind.h"
#include "analyze/thread_pool.h"
#include "analyze/wait_class.h"
#include "remedy_texts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Time per step: exact by the loader's range, if that has a name. */
static double batch_ns(const struct rules_ctx *ctx)
{
	const struct profile_steps *steps = &ctx->process->steps;

	if (steps->phases[PROFILE_PHASE_DATA])
		return (double)steps->phases[PROFILE_PHASE_DATA] / (double)steps->count;
	return ctx->time->batch_ns;
}

bool rules_data_bound(const struct rules_ctx *ctx)
{
	const struct profile_steps *steps = &ctx->process->steps;

	return (double)steps->ends_count >= ctx->thresholds->all_steps && steps->total_ns &&
	       batch_ns(ctx) >= ctx->thresholds->data_bound_medium * rules_unit_ns(ctx) &&
	       !ctx->requests.awaited;
}

static double steps_recorded(const struct rules_ctx *ctx)
{
	return fmax((double)ctx->driver->judged_ns / rules_unit_ns(ctx), 1);
}

/* Loaders and what gives them more workers, by a part of the names of their files; the first one
 * counts. */
static const struct batch_loader {
	const char *file, *remedy;
} batch_loaders[] = {
	{"-packages/torch/utils/data/", TRY_TORCH_LOADER},
	{"-packages/grain/", TRY_GRAIN_LOADER},
	{"-packages/keras/src/trainers/data_adapters/py_dataset", TRY_KERAS_LOADER},
	{"-packages/tensorflow/python/ops/script_ops.py", TRY_TF_PYTHON_LOADER},
	{"-packages/webdataset/", "load by a WebLoader with workers (num_workers), at most as many "
				  "as there are shards"},
	{"-packages/datasets/", TRY_DATASETS_LOADER},
};

/* NULL: none of the known ones. */
static const struct batch_loader *loader_of(const struct profile_stack *stack)
{
	for (size_t i = 0; stack && i < sizeof(batch_loaders) / sizeof(batch_loaders[0]); i++)
		for (size_t k = 0; k < stack->frames_count; k++)
			if (strstr(stack->frames[k]->file, batch_loaders[i].file))
				return &batch_loaders[i];
	return NULL;
}

/* The code that prepares a batch, by samples. */
struct preparation {
	uint64_t count, ns, runs_ns;
	struct place lead;
	/* The wait that takes most of the time at `lead`; NULL: the thread runs there. */
	const struct profile_activity *wait;
	uint64_t waits_ns, waits_count;	   /* of that class and place, of all preparing threads */
	const struct batch_loader *loader; /* that calls `lead`; NULL: an unknown one, or none */
};

static bool prepares(const struct profile_activity *sample)
{
	return sample->state != PERFX_SAMPLE_WAITING || wait_prepares(sample);
}

/* Threads that prepare batches. */
struct preparing {
	const struct profile_process *process;
	uint32_t tid; /* 0: all of them */
	const struct contexts
		*contexts; /* of its loader's batches; NULL: all of its work is theirs */
	uint32_t driver;   /* where only the threads of a known loader count: not this one */
};

static bool is_preparing(const struct preparing *who, const struct profile_activity *sample)
{
	uint32_t tid = who->tid;

	if (who->driver)
		return sample->tid != who->driver && prepares(sample) && loader_of(sample->stack);
	/* helper threads wait for connections */
	if (!tid && sample->state == PERFX_SAMPLE_WAITING)
		tid = who->process->pid;
	return (!tid || sample->tid == tid) && prepares(sample) &&
	       (!who->contexts || sample_is_of_batch(who->contexts, sample));
}

static bool is_in_lead(const struct preparation *found, const struct preparing *who,
		       const struct profile_activity *sample)
{
	const struct profile_frame *place = stack_place(sample->stack);

	return place && is_preparing(who, sample) &&
	       frame_is_same_function(place, found->lead.frame);
}

/* Sets the loader that calls the leading function, and the wait in which it mostly is. */
static void find_wait_of_lead(struct preparation *found, const struct preparing *who)
{
	const struct profile_activities *samples = &who->process->samples;
	const struct profile_activities *blocked = &who->process->blocked;
	uint64_t runs_ns = 0, waits_ns = 0, most_ns = 0;

	FOR_EACH_OF (sample, *samples) {
		if (!is_in_lead(found, who, sample))
			continue;
		if (!found->loader)
			found->loader = loader_of(sample->stack);
		*(sample->state == PERFX_SAMPLE_WAITING ? &waits_ns : &runs_ns) += sample->ns;
		if (sample->state != PERFX_SAMPLE_WAITING || sample->ns <= most_ns)
			continue;
		most_ns = sample->ns;
		found->wait = NULL;
		for (size_t i = 0; i < blocked->count && !found->wait; i++)
			if (sample_is_of(sample, &blocked->list[i]))
				found->wait = &blocked->list[i];
	}
	if (runs_ns >= waits_ns)
		found->wait = NULL;
	for (size_t i = 0; i < blocked->count && found->wait; i++) {
		const struct profile_activity *wait = &blocked->list[i];
		bool is_of_lead = false;

		if (wait_class(wait) != wait_class(found->wait))
			continue;
		for (size_t k = 0; k < samples->count && !is_of_lead; k++)
			is_of_lead = samples->list[k].state == PERFX_SAMPLE_WAITING &&
				     sample_is_of(&samples->list[k], wait) &&
				     is_in_lead(found, who, &samples->list[k]);
		found->waits_ns += is_of_lead ? wait->ns : 0;
		found->waits_count += is_of_lead ? wait->count : 0;
	}
}

static struct preparation find_preparation(const struct preparing *who)
{
	const struct profile_activities *samples = &who->process->samples;
	struct preparation found = {0};
	struct lines lines = {0};

	FOR_EACH_OF (sample, *samples) {
		if (!is_preparing(who, sample))
			continue;
		found.count += sample->count;
		found.ns += sample->ns;
		found.runs_ns += sample->state != PERFX_SAMPLE_WAITING ? sample->ns : 0;
		lines_add(&lines, stack_place(sample->stack), sample->ns);
	}
	found.lead = lines_lead(&lines);
	if (found.lead.frame)
		find_wait_of_lead(&found, who);
	return found;
}

/* Time of all batches of the recording, ns. */
static double all_batches_ns(const struct rules_ctx *ctx)
{
	return fmax(ctx->time->batch_ns * steps_recorded(ctx),
		    (double)ctx->process->steps.phases[PROFILE_PHASE_DATA]);
}

/* Does the thread of the steps itself prepare batches for most of their time? */
static bool is_own(const struct rules_ctx *ctx, const struct preparation *own)
{
	double ns = (ctx->time->batch_own_ns + ctx->time->batch_own_waits_ns) * steps_recorded(ctx);

	return (double)own->count >= ctx->thresholds->all_cause_samples &&
	       ns >= ctx->thresholds->data_bound_own * all_batches_ns(ctx);
}

/* Does it wait for other threads or processes for most of that time? If neither, it is unknown. */
static bool is_anothers(const struct rules_ctx *ctx)
{
	const struct step_time *time = ctx->time;
	double ns = (time->batch_ns - time->batch_own_ns - time->batch_own_waits_ns) *
		    steps_recorded(ctx);

	return ns >= ctx->thresholds->data_bound_own * all_batches_ns(ctx);
}

/* Forks of the process itself, or interpreters that multiprocessing starts by its methods spawn and
 * forkserver, or loky. */
static bool is_worker(const struct rules_ctx *ctx, const struct profile_process *child)
{
	const struct profile_process *parent = NULL;

	for (size_t i = 0; i < ctx->profile->processes_count && !parent; i++)
		if (profile_is_child(ctx->profile, child, &ctx->profile->processes[i]))
			parent = &ctx->profile->processes[i];
	if (parent == ctx->process)
		/* the pools of joblib and loky also start a resource tracker */
		return (*child->cmdline && !strcmp(child->cmdline, ctx->process->cmdline)) ||
		       strstr(child->cmdline, "multiprocessing.spawn") ||
		       (strstr(child->cmdline, "loky.backend") &&
			!strstr(child->cmdline, "tracker"));
	return parent && strstr(parent->cmdline, "multiprocessing.forkserver") &&
	       profile_is_child(ctx->profile, parent, ctx->process);
}

/* The process that prepares most: a worker, or the process itself by another thread. */
struct feeder {
	const struct profile_process *process;
	struct preparation work;
};

/* A sleeping thread may only watch others. So if it is unknown which thread is waited for, only
 * threads that run Python count. */
static struct preparation find_threads_preparation(struct rules_ctx *ctx)
{
	struct preparation of_loader;
	struct sampled python = {0};

	/* the thread that ends most of the waits for batches */
	FOR_EACH_OF (wait, ctx->process->blocked)
		if (wait->tid == ctx->driver->tid && wait->holder_tid &&
		    wait->reason == PERFX_WAIT_FUTEX && stack_has(wait->stack, CODE_INPUT))
			return find_preparation(&(struct preparing){.process = ctx->process,
								    .tid = wait->holder_tid});
	of_loader = find_preparation(
		&(struct preparing){.process = ctx->process, .driver = ctx->driver->tid});
	if (of_loader.count)
		return of_loader;
	if (sampled_python(&python, ctx->profile, ctx->process, ctx->driver->tid))
		ctx->failed = true;
	return (struct preparation){
		.count = python.count, .ns = python.ns, .runs_ns = python.ns, .lead = python.lead};
}

static struct feeder find_feeder(struct rules_ctx *ctx)
{
	struct feeder feeder = {ctx->process, find_threads_preparation(ctx)};

	FOR_EACH (child, ctx->profile->processes) {
		struct preparation work;

		if (!profile_is_child(ctx->profile, child, ctx->process) && !is_worker(ctx, child))
			continue;
		work = find_preparation(&(struct preparing){.process = child});
		if (work.ns > feeder.work.ns)
			feeder = (struct feeder){child, work};
	}
	if ((double)feeder.work.count < ctx->thresholds->all_cause_samples)
		feeder.work.lead.frame = NULL;
	return feeder;
}

/* "Images.read (data.py:30), which sleeps 8.06 ms at a time, 1,052 times" */
static void add_preparation(struct text *text, const struct preparation *found)
{
	static const char *const verbs[ACCOUNT_CLASSES] = {
		[ACCOUNT_SLEEP] = "sleeps",
		[ACCOUNT_DISK] = "waits for the disk",
		[ACCOUNT_CHILD] = "waits for a child process",
		[ACCOUNT_OUTPUT] = "writes",
	};

	location_place(text, found->lead.frame);
	if (!found->wait || !found->waits_count)
		return;
	text_printf(text, ", which %s %s at a time, %s%s",
		    verbs[wait_class(found->wait)] ?: "reads",
		    as_ns(found->waits_ns / found->waits_count), as_count(found->waits_count),
		    found->waits_count == 1 ? " time" : " times");
}

static void add_found_feeder(struct text *text, const struct rules_ctx *ctx,
			     const struct feeder *feeder)
{
	if (!feeder->work.lead.frame)
		return;
	text_add(text, "; meanwhile ");
	if (feeder->process == ctx->process)
		text_add(text, "another thread");
	else
		add_process_name(text, feeder->process);
	text_add(text, feeder->work.wait ? " is mostly in " : " runs mostly ");
	add_preparation(text, &feeder->work);
}

void add_feeder(struct text *text, struct rules_ctx *ctx)
{
	struct feeder feeder = find_feeder(ctx);

	add_found_feeder(text, ctx, &feeder);
}

/* Share of the steps' thread's time for which all other threads may lack a CPU. */
#define OTHERS_RUNNABLE 0.10
/* Shares of the batch: more counts as all of it, less as none. */
#define ALL_OF_IT  0.95
#define NONE_OF_IT 0.05
/* Hand-overs that may be left of a step with enough workers: hosts differ in speed. */
#define HANDOVER_AT_MOST 2
/* Share of a CPU: a worker that sleeps still receives and sends batches. */
#define LEAST_USED 0.01

struct loader {
	struct preparation own; /* what the thread of the steps prepares itself */
	struct feeder feeder;	/* what other threads and processes do */
	bool is_frameworks;	/* a DataLoader or a tf.data pipeline, not the program's own code */
	bool is_own, is_anothers;
	unsigned workers, needed; /* present; so many would hide the batch, as far as CPUs allow */
	bool keeps_up;		  /* the workers do: only taking batches from them is left */
	unsigned threads;	  /* of the process that prepare batches, if there are no
				   * workers; 0: unknown */
	bool costs_as_much;	  /* taking a batch from a worker takes as long as preparing it */
	bool unknown;		  /* it is not known how long a batch takes with enough CPUs */
	double cpus;		  /* number that the training and its workers can use */
	bool at_most;		  /* CPUs are the limit: gain_ns is an upper bound */
	double hidden_ns;	  /* part of a step that `needed` workers hide */
	double gain_ns;		  /* hidden_ns less the time to take a batch from a worker */
};

/* PyTorch's DataLoader gives its workers a name; other children of such a process are none. */
static bool is_named_worker(const struct rules_ctx *ctx, const struct profile_process *child)
{
	return is_worker(ctx, child) &&
	       !strcmp(profile_thread_name(child, child->pid), "pt_data_worker");
}

static bool has_named_workers(const struct rules_ctx *ctx)
{
	for (size_t i = 0; i < ctx->profile->processes_count; i++)
		if (is_named_worker(ctx, &ctx->profile->processes[i]))
			return true;
	return false;
}

/* Number and CPU time of the existing workers. */
struct workers {
	unsigned count;		    /* at a time: loaders may start new ones for each epoch */
	double cpu_ns, runnable_ns; /* of a step: on a CPU, and without one */
};

static struct workers find_workers(const struct rules_ctx *ctx)
{
	bool (*is_one)(const struct rules_ctx *, const struct profile_process *) =
		has_named_workers(ctx) ? is_named_worker : is_worker;
	struct workers workers = {0};

	FOR_EACH (child, ctx->profile->processes) {
		unsigned count = 0;

		if (!is_one(ctx, child))
			continue;
		FOR_EACH (other, ctx->profile->processes)
			count += other->from_ns <= child->from_ns &&
				 child->from_ns < other->to_ns && is_one(ctx, other);
		workers.count = (unsigned)fmax(workers.count, count);
		if (child->cpu_ns != PROFILE_ABSENT)
			workers.cpu_ns += (double)child->cpu_ns / steps_recorded(ctx);
		workers.runnable_ns += (double)sum_threads(child).runnable_ns / steps_recorded(ctx);
	}
	return workers;
}

/* CPU time of a step, of all threads, without preparing the batch and without polling. */
static double training_cpu_ns(struct rules_ctx *ctx, const struct loader *loader)
{
	struct thread_pool pool;
	double spin_ns, batch_ns = ctx->time->batch_own_ns;

	if (loader->threads)
		batch_ns += (double)loader->feeder.work.runs_ns / steps_recorded(ctx);
	if (thread_pool_find(&pool, ctx->process, ctx->driver->tid))
		ctx->failed = true;
	spin_ns = (double)pool.driver.spin_ns + (double)pool.others.spin_ns;
	if (ctx->process->cpu_ns == PROFILE_ABSENT)
		return 0;
	return fmax(((double)ctx->process->cpu_ns - spin_ns) / steps_recorded(ctx) - batch_ns, 0);
}

/* CPUs that the training and its workers can have: those that nobody else uses, as far as its
 * affinity and its cgroup's quota allow. Infinite: it is not known. */
static double free_cpus(const struct rules_ctx *ctx)
{
	const struct profile *profile = ctx->profile;
	uint64_t quota = ctx->process->limits.cpu_limit_milli;
	uint64_t used_ns[] = {rules_others_cpu_ns(ctx), profile->host_steal_ns};
	double cpus = profile->cpus_count;

	if (!profile->cpus_count)
		return INFINITY;
	for (size_t i = 0; i < 2; i++)
		if (used_ns[i] != PROFILE_ABSENT && profile->duration_ns)
			cpus -= (double)used_ns[i] / (double)profile->duration_ns;
	if (quota && quota != PROFILE_ABSENT)
		cpus = fmin(cpus, (double)quota / 1000);
	return fmax(fmin(cpus, rules_allowed_cpus(ctx)), LEAST_USED);
}

/* The time that preparing a batch takes. */
struct batch {
	double work_ns, cpu_ns; /* of one worker that prepares all; of that, on a CPU */
	double handover_ns;
};

/* Without waits for a CPU, which a loader's range includes. */
static double batch_work_ns(const struct rules_ctx *ctx)
{
	double waits_ns =
		ctx->process->steps.phases[PROFILE_PHASE_DATA] ? ctx->time->batch_runnable_ns : 0;

	return fmax(batch_ns(ctx) - waits_ns, 1);
}

static struct batch find_batch(const struct rules_ctx *ctx, const struct loader *loader,
			       const struct workers *workers)
{
	const struct step_time *time = ctx->time;
	struct batch batch = {.work_ns = batch_work_ns(ctx),
			      .cpu_ns = batch_work_ns(ctx),
			      .handover_ns = ctx->thresholds->data_bound_handover};

	if (workers->count || loader->is_anothers) {
		/* they are waited for, so they work whenever they have a CPU; the rest has its
		 * handover */
		unsigned count = workers->count ?: loader->threads;

		batch.work_ns = fmax(count, 1) * rules_unit_ns(ctx) - workers->runnable_ns;
		batch.work_ns = fmax(batch.work_ns, fmax(workers->cpu_ns, 1));
		batch.cpu_ns = workers->count ? workers->cpu_ns : batch.work_ns;
		/* threads that sleep or read need no CPU either */
		if (!workers->count && loader->feeder.work.ns)
			batch.cpu_ns *= (double)loader->feeder.work.runs_ns /
					(double)loader->feeder.work.ns;
		batch.handover_ns = 0;
	} else if (loader->is_own) {
		batch.cpu_ns *=
			time->batch_own_ns / (time->batch_own_ns + time->batch_own_waits_ns);
	}
	return batch;
}

/* Does a batch take no longer than taking it from a worker? */
static bool is_handover(const struct rules_ctx *ctx)
{
	return batch_ns(ctx) <= HANDOVER_AT_MOST * ctx->thresholds->data_bound_handover;
}

static struct loader judge_loader(struct rules_ctx *ctx)
{
	struct workers workers = find_workers(ctx);
	struct loader loader = {.is_anothers = is_anothers(ctx), .workers = workers.count};
	double step = fmax(rules_unit_ns(ctx) - ctx->time->ns[TIME_RUNNABLE], batch_work_ns(ctx));
	double rest = fmax(step - batch_work_ns(ctx), 1), handover, by_cpus, cpu, used, best;
	struct contexts contexts;
	struct batch batch;

	/* by the thread of the steps itself, without workers */
	if (contexts_begin(&contexts, ctx->profile, ctx->process)) {
		ctx->failed = true;
	} else {
		loader.own = find_preparation(&(struct preparing){
			.process = ctx->process, .tid = ctx->driver->tid, .contexts = &contexts});
		loader.is_frameworks = contexts.has_loader;
	}
	contexts_clear(&contexts);
	loader.feeder = find_feeder(ctx);
	if (loader.is_anothers && !loader.workers && loader.feeder.process == ctx->process &&
	    loader.feeder.work.lead.frame)
		loader.threads = (unsigned)fmax(
			round((double)loader.feeder.work.ns / (double)ctx->driver->judged_ns), 1);
	cpu = training_cpu_ns(ctx, &loader);
	loader.is_own = is_own(ctx, &loader.own);
	loader.unknown =
		(double)sum_threads(ctx->process).runnable_ns - (double)ctx->driver->runnable_ns >=
		OTHERS_RUNNABLE * (double)ctx->driver->wall_ns;
	batch = find_batch(ctx, &loader, &workers);
	handover = batch.handover_ns;
	loader.costs_as_much = handover > (1 - NONE_OF_IT) * batch.work_ns;
	/* CPUs that each worker uses */
	used = fmin(fmax(batch.cpu_ns / batch.work_ns, LEAST_USED), 1);
	loader.needed = (unsigned)fmax(ceil((batch.work_ns + handover) / (rest + handover)), 1);
	if (ctx->profile->cpus_count)
		loader.needed = (unsigned)fmin(loader.needed, rules_allowed_cpus(ctx) / used);
	loader.cpus = free_cpus(ctx);
	best = fmax(rest + handover, (batch.work_ns + handover) / loader.needed);
	by_cpus = (cpu + batch.cpu_ns + 2 * handover) / loader.cpus;
	loader.at_most = by_cpus > best;
	best = fmax(best, by_cpus);
	/* more workers than that would wait for CPUs */
	loader.needed = (unsigned)ceil((batch.work_ns + handover) / best);
	loader.gain_ns = fmax(step - best, 0);
	loader.hidden_ns = fmin(loader.gain_ns + handover, batch_work_ns(ctx));
	/* where PyTorch's workers prepare batches, the thread of the steps prepares none */
	loader.keeps_up =
		workers.count && loader.is_own && (is_handover(ctx) || has_named_workers(ctx));
	if (loader.keeps_up && !is_handover(ctx)) {
		loader.unknown = true;
		loader.gain_ns = batch_ns(ctx);
	}
	return loader;
}

/* Do workers hide nothing? They would wait for CPUs, or handing over takes as long as preparing. */
static bool gains_nothing(const struct rules_ctx *ctx, const struct loader *loader)
{
	return !loader->keeps_up && !loader->unknown &&
	       loader->gain_ns < NONE_OF_IT * batch_ns(ctx);
}

/* "hide it", "hide 50.0 % of it", "hide at most 50.0 % of it, on the 1.50 CPUs that are free" */
static void add_hidden(struct text *text, const struct rules_ctx *ctx, const struct loader *loader)
{
	double hidden = loader->hidden_ns / batch_work_ns(ctx);

	text_add(text, hidden < ALL_OF_IT && loader->at_most ? "hide at most " : "hide ");
	if (hidden < ALL_OF_IT)
		add_percent(text, hidden);
	text_add(text, hidden < ALL_OF_IT ? " of it" : "it");
	if (hidden < ALL_OF_IT && loader->at_most)
		text_printf(text, ", on the %.3g CPU%s that %s free", loader->cpus,
			    loader->cpus == 1 ? "" : "s", loader->cpus == 1 ? "is" : "are");
}

/* Another thread may hand on requests instead of batches: nothing tells them apart where no loader
 * is known and no parameters are updated. */
static bool may_serve(const struct rules_ctx *ctx, const struct loader *loader)
{
	return loader->threads && !loader->is_frameworks && !loader->feeder.work.loader &&
	       !rules_trains(ctx);
}

/* " (0 workers; 2 would hide it)", " (1 worker; 2 would hide 50.0 % of it)", of threads that mostly
 * wait " (1 thread prepares it; 8 would hide it)"; nothing where other programs prepare it. */
static void add_workers(struct text *text, const struct rules_ctx *ctx, const struct loader *loader)
{
	if (!loader->workers && loader->is_anothers) {
		if (!loader->threads || !loader->feeder.work.wait || loader->unknown ||
		    may_serve(ctx, loader) || gains_nothing(ctx, loader) ||
		    loader->needed <= loader->threads)
			return;
		text_printf(text, " (%u thread%s it", loader->threads,
			    loader->threads == 1 ? " prepares" : "s prepare");
	} else {
		/* with enough workers something else is slow */
		if (!loader->is_own && loader->needed <= loader->workers)
			return;
		text_printf(text, " (%u worker%s", loader->workers,
			    loader->workers == 1 ? "" : "s");
	}
	if (loader->keeps_up) {
		text_add(text, "; this is what taking batches from workers costs");
	} else if (gains_nothing(ctx, loader)) {
		text_add(text, loader->costs_as_much
				       ? "; taking batches from some would cost as much"
				       : "; no CPU is free for more");
	} else if (!loader->unknown) {
		text_printf(text, "; %u would ", loader->needed);
		add_hidden(text, ctx, loader);
	}
	text_add(text, ")");
}

static void add_data_cause(struct text *text, const struct rules_ctx *ctx,
			   const struct loader *loader)
{
	if (loader->keeps_up)
		return;
	if (!loader->is_own || !loader->own.lead.frame) {
		add_found_feeder(text, ctx, &loader->feeder);
		return;
	}
	text_add(text, "; its own thread prepares it, mostly in ");
	add_preparation(text, &loader->own);
}

/* Reads of the files of one name, by the threads of a job. */
struct reading {
	const char *name, *type;
	uint64_t ns, opens_count, read_bytes, stored_bytes;
	unsigned threads, workers; /* that read: own threads, other processes */
	bool is_own;		   /* the thread of the steps reads */
	struct lines lines;	   /* that read */
	/* Samples of the reading threads on a CPU, outside of these calls. */
	uint64_t computes_ns;
	struct lines computes;
};

/* "__libc_read", "__open64_nocancel" */
static bool is_call_on_files(const struct profile_frame *frame)
{
	static const char *const words[] = {"open",   "open64",	  "openat",  "openat64",
					    "read",   "pread",	  "pread64", "readv",
					    "preadv", "preadv64", NULL};
	char word[16];

	if (!frame_is_system_library(frame))
		return false;
	for (const char *at = frame->function; *at; at += *at == '_') {
		size_t length = strcspn(at, "_");

		snprintf(word, sizeof(word), "%.*s", (int)length, at);
		if (text_is_one_of(word, words))
			return true;
		at += length;
	}
	return false;
}

static void add_computing(struct reading *reading, const struct profile_process *process,
			  uint32_t tid)
{
	FOR_EACH_OF (sample, process->samples) {
		const struct profile_stack *stack = sample->stack;

		if (sample->tid != tid || sample->state != PERFX_SAMPLE_ON_CPU ||
		    (stack && stack->frames_count && is_call_on_files(stack->frames[0])))
			continue;
		reading->computes_ns += sample->ns;
		lines_add(&reading->computes, stack_place(stack), sample->ns);
	}
}

static void add_reading_of(struct reading *reading, const struct rules_ctx *ctx,
			   const struct profile_process *process, const struct profile_files *files)
{
	bool is_own, is_worker = false;

	reading->ns += files->calls.open_ns + files->calls.read_ns;
	reading->opens_count += files->calls.opens_count;
	reading->read_bytes += files->calls.read_bytes;
	reading->stored_bytes += files->calls.stored_bytes;
	lines_add_files(&reading->lines, files);
	FOR_EACH (user, files->users) {
		if (!user->calls.read_bytes)
			continue;
		is_own = process == ctx->process;
		reading->threads += is_own;
		is_worker = !is_own;
		reading->is_own |= is_own && user->tid == process->steps.tid;
		add_computing(reading, process, user->tid);
	}
	reading->workers += is_worker;
}

/* Adds up what the processes of the job read from the files of this name. */
static void find_reading(struct reading *reading, const struct rules_ctx *ctx, const char *name)
{
	*reading = (struct reading){.name = name, .type = ""};
	FOR_EACH (process, ctx->profile->processes) {
		if (!profile_is_same_job(ctx->profile, process, ctx->process))
			continue;
		FOR_EACH (files, process->files) {
			if (strcmp(files->name, name) != 0)
				continue;
			reading->type = files->type;
			add_reading_of(reading, ctx, process, files);
		}
	}
}

static uint64_t reads_ns(const struct rules_ctx *ctx, const char *name)
{
	uint64_t ns = 0;

	FOR_EACH (process, ctx->profile->processes)
		FOR_EACH (files, process->files)
			if (profile_is_same_job(ctx->profile, process, ctx->process) &&
			    !strcmp(files->name, name))
				ns += files->calls.open_ns + files->calls.read_ns;
	return ns;
}

/* The files that take most of the loaders' time; NULL: there are none. */
static const char *most_read(const struct rules_ctx *ctx)
{
	const char *most = NULL;
	uint64_t most_ns = 0;

	FOR_EACH (process, ctx->profile->processes) {
		if (!profile_is_same_job(ctx->profile, process, ctx->process))
			continue;
		FOR_EACH (files, process->files) {
			uint64_t ns;

			if (files->is_socket || !files->calls.read_bytes)
				continue;
			ns = reads_ns(ctx, files->name);
			if (ns > most_ns)
				most = files->name;
			most_ns = max_u64(most_ns, ns);
		}
	}
	return most;
}

/* "; 4 workers and 2 threads read " */
static void add_readers(struct text *text, const struct reading *reading)
{
	unsigned threads = reading->threads, workers = reading->workers;

	text_add(text, "; ");
	if (workers > 1)
		text_printf(text, "%u workers ", workers);
	else if (workers)
		text_add(text, "a worker ");
	if (workers && threads)
		text_add(text, "and ");
	if (threads > 1 || (threads && workers))
		text_printf(text, "%u thread%s ", threads, threads > 1 ? "s" : "");
	else if (threads && !reading->is_own)
		text_add(text, "another thread ");
	text_add(text, workers + threads > 1 ? "read " : "reads ");
}

/* "; 4 workers read /data/train/… (nfs4) at 12.0 MB/s, 97.0 % not cached, 4.10 ms a file, mostly in
 * load (data.py:12); they compute 3.00 ms a file, mostly in decode (data.py:20)": the files that
 * take most of the loaders' time, if that is much of the time for batches. */
static void add_files(struct text *text, const struct rules_ctx *ctx)
{
	double wall_ns = (double)profile_recorded_ns(ctx->profile, ctx->process);
	const char *name = most_read(ctx);
	struct reading reading;

	if (!name || wall_ns <= 0)
		return;
	find_reading(&reading, ctx, name);
	if ((double)reading.ns < ctx->thresholds->data_bound_own * all_batches_ns(ctx))
		return;
	add_readers(text, &reading);
	text_add(text, name);
	if (*reading.type)
		text_printf(text, " (%s)", reading.type);
	text_printf(text, " at %s/s, %s not cached",
		    as_bytes(u64_of((double)reading.read_bytes * 1e9 / wall_ns)),
		    as_percent((double)min_u64(reading.stored_bytes, reading.read_bytes) /
			       (double)reading.read_bytes));
	if (reading.opens_count)
		text_printf(text, ", %s a file", as_ns(reading.ns / reading.opens_count));
	location_after(text, ", mostly in ", lines_lead(&reading.lines).frame);
	if (reading.is_own || !reading.opens_count || !reading.computes_ns)
		return;
	text_printf(text, "; %s %s a file",
		    reading.threads + reading.workers > 1 ? "they compute" : "it computes",
		    as_ns(reading.computes_ns / reading.opens_count));
	location_after(text, ", mostly in ", lines_lead(&reading.computes).frame);
}

static void add_suggestion(struct note *note, struct rules_ctx *ctx, const struct loader *loader)
{
	struct preparation work;

	if (loader->keeps_up) {
		text_add(&note->suggestion, TRY_LARGER_BATCHES);
		return;
	}
	if (gains_nothing(ctx, loader)) {
		text_printf(&note->suggestion,
			    "The model waits for its data, and %s: prepare the data once instead "
			    "of in each epoch, or at less cost (operations on whole arrays or "
			    "batches instead of single values).",
			    loader->costs_as_much
				    ? "to take each batch from a worker process would cost as much"
				    : "no CPU is free to prepare it elsewhere");
		return;
	}
	work = loader->is_own ? loader->own : loader->feeder.work;
	if (work.loader)
		text_printf(&note->suggestion,
			    "The model waits for its data: %s, or prepare the data once instead of "
			    "in each epoch.",
			    work.loader->remedy);
	else
		rules_suggest(note, ctx,
			      loader->is_frameworks    ? TRY_FEED_MODEL
			      : loader->is_own	       ? TRY_FEED_FROM_OTHERS
			      : may_serve(ctx, loader) ? TRY_FEED_OR_SERVE
						       : TRY_FEED_FROM_THREADS);
	if (work.lead.frame && work.wait && !may_serve(ctx, loader))
		text_add(&note->suggestion, " Workers that sleep, read or wait for a disk need no "
					    "CPU meanwhile: there may be more of them than CPUs.");
}

/* A batch may take so long that hardly a step ends: then nothing is said of workers. */
static void slow_pipeline(struct rules_ctx *ctx)
{
	double least = threshold_of(ctx->thresholds, "InputWait", "medium");
	double high = threshold_of(ctx->thresholds, "InputWait", "high");
	/* by samples in tf.data, of the thread itself or of one of TensorFlow's that it waits for
	 */
	uint64_t ns = pipeline_ns(ctx->process, ctx->driver->tid, false);
	struct note note = {.bottleneck = BOTTLENECK_INPUT,
			    .confidence = 1,
			    .gain_unknown = true,
			    .place = ctx->driver->longest_place};
	double share;

	FOR_EACH_OF (sample, ctx->process->samples)
		if (sample->tid == ctx->driver->tid &&
		    stack_has(sample->stack, CODE_PIPELINE_ASKED))
			ns += sample->ns;
	share = note.share = fmin((double)ns / fmax((double)ctx->driver->wall_ns, 1), 1);
	if ((double)ctx->process->steps.ends_count >= ctx->thresholds->all_steps || share < least)
		return;
	rules_subject(&note, ctx);
	text_printf(&note.evidence,
		    "waited %s for the next batch of tf.data, in which %s step%s ended", as_ns(ns),
		    as_count(ctx->process->steps.ends_count),
		    ctx->process->steps.ends_count == 1 ? "" : "s");
	add_feeder(&note.evidence, ctx);
	add_process_name(&note.headline, ctx->process);
	text_printf(&note.headline, " waits for the next batch of tf.data, %s of the wall time",
		    as_percent(share));
	add_feeder(&note.headline, ctx);
	location_after(&note.headline, "; it waits in ", note.place);
	rules_ctx_add(ctx, "InputWait", high_if(share >= high), share, &note);
}

void rules_input(struct rules_ctx *ctx)
{
	const struct thresholds *t = ctx->thresholds;
	const struct profile_steps *steps = &ctx->process->steps;
	double share = batch_ns(ctx) / rules_unit_ns(ctx);
	bool is_exact = ctx->process->steps.phases[PROFILE_PHASE_DATA];
	double error = is_exact ? 0 : ctx->time->error_ns[TIME_INPUT] / rules_unit_ns(ctx);
	struct note note = {.bottleneck = BOTTLENECK_INPUT,
			    .confidence = confidence_above(share - t->data_bound_medium, error),
			    .share = share};
	struct loader loader;

	if (!rules_is_short(ctx))
		slow_pipeline(ctx);
	if (!rules_data_bound(ctx))
		return;
	loader = judge_loader(ctx);
	note.gain_ns = loader.gain_ns;
	note.gain_unknown = loader.unknown || may_serve(ctx, &loader);
	/* it is unknown how much faster it can be prepared */
	if (gains_nothing(ctx, &loader)) {
		note.gain_ns = batch_work_ns(ctx);
		note.gain_unknown = note.is_work = true;
	}
	if (!loader.keeps_up)
		note.place = (loader.is_own ? loader.own : loader.feeder.work).lead.frame;
	text_add(&note.evidence, "waiting for the next batch took ");
	text_printf(&note.evidence, "%s of the time of %s steps: %s of %s per step",
		    as_percent(share), as_count(steps->count), as_ns(u64_of(batch_ns(ctx))),
		    as_ns(steps->avg_ns));
	add_workers(&note.evidence, ctx, &loader);
	add_data_cause(&note.evidence, ctx, &loader);
	add_files(&note.evidence, ctx);
	text_printf(&note.headline, "%s of each %s step waits for the next batch",
		    as_percent(share), as_ns(ctx->process->steps.avg_ns));
	add_workers(&note.headline, ctx, &loader);
	add_data_cause(&note.headline, ctx, &loader);
	add_suggestion(&note, ctx, &loader);
	rules_ctx_add(ctx, "DataBound",
		      loader.keeps_up && is_handover(ctx) ? FINDING_LOW
							  : high_if(share >= t->data_bound_high),
		      share, &note);
}
