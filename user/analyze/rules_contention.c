// SPDX-License-Identifier: BSD-2-Clause
/*
 * A process that waits for CPUs, and who had them: other programs (CpuContention), its own threads
 * (likewise), or a pool with more threads than there are CPUs (Oversubscribed). What stops it by a
 * limit of its cgroup is CpuThrottled.
 *
 * The thread that drives the process loses more than its own waits for a CPU: if it shares its work
 * with a pool, it also waits, polling or asleep, for threads of the pool that have no CPU. With as
 * many threads as CPUs it would do more of the work itself; that is subtracted.
 */
#include "analyze/location.h"
#include "analyze/rules_ctx.h"
#include "analyze/thread_pool.h"
#include "analyze/wait_class.h"
#include "base/escape.h"
#include "base/order.h"
#include "remedy_texts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HOLDERS_MAX   64
#define HOLDERS_SHOWN 3
#define PIDS_SHOWN    4
/* A process of the job that uses less than this share of a CPU does not compute. */
#define JOB_CPU 0.10

/* Rivals of one kind and name: a build has hundreds of processes. */
struct cpu_holder {
	const char *name;
	enum profile_rival_kind kind;
	uint32_t pids[PIDS_SHOWN]; /* with the most time */
	unsigned pids_count;	   /* all of them */
	bool feeds;		   /* workers whose batches it waits for */
	uint64_t ns;
};

struct cpu_holders {
	struct cpu_holder list[HOLDERS_MAX];
	size_t count;
	uint64_t all_ns;
	uint64_t ns[PROFILE_RIVAL_KINDS], unfed_ns; /* without those that feed it */
};

/* A process that lacks CPUs. */
struct shortage {
	struct thread_sums threads;
	struct thread_pool pool;
	unsigned cpus_count, processes_count; /* CPUs that it may use; processes of its job */
	unsigned threads_count;		      /* that want a CPU much of the time */
	/* CPU time of other programs, traced ones included, and of other guests */
	bool used_known;
	uint64_t others_ns, steal_ns;
	struct cpu_holders holders;
	double by_others; /* part of the waiting that is theirs: 0 to 1 */
	enum profile_rival_kind culprit;
	double lost_ns; /* of the driver's time */
};

static bool is_of_job(const struct rules_ctx *ctx, const struct profile_process *process)
{
	return profile_is_same_job(ctx->profile, process, ctx->process);
}

/* Steps that wait for their data would wait for it in the CPU's place: what workers do with a CPU
 * is no loss then. */
static bool feeds(const struct rules_ctx *ctx, const struct profile_rival *rival)
{
	if (rival->kind != PROFILE_RIVAL_JOB || !rules_data_bound(ctx))
		return false;
	FOR_EACH (process, ctx->profile->processes)
		if (process->pid == rival->pid &&
		    profile_is_child(ctx->profile, process, ctx->process))
			return true;
	return false;
}

ORDER(by_held_time, struct cpu_holder, DESCENDING(a->ns, b->ns), strcmp(a->name, b->name))

static void find_cpu_holders(struct cpu_holders *holders, const struct rules_ctx *ctx)
{
	FOR_EACH (rival, ctx->process->rivals) {
		bool is_feeder = feeds(ctx, rival);
		struct cpu_holder *holder = holders->list;

		holders->all_ns += rival->ns;
		if (!is_feeder) {
			holders->ns[rival->kind] += rival->ns;
			holders->unfed_ns += rival->ns;
		}
		while (holder < holders->list + holders->count &&
		       (holder->kind != rival->kind || holder->feeds != is_feeder ||
			strcmp(holder->name, rival->name) != 0))
			holder++;
		if (holder == holders->list + HOLDERS_MAX)
			continue;
		if (holder == holders->list + holders->count)
			holders->list[holders->count++] = (struct cpu_holder){
				.name = rival->name, .kind = rival->kind, .feeds = is_feeder};
		if (holder->pids_count < PIDS_SHOWN)
			holder->pids[holder->pids_count] = rival->pid;
		holder->pids_count++;
		holder->ns += rival->ns;
	}
	qsort(holders->list, holders->count, sizeof(*holders->list), by_held_time);
}

uint64_t rules_others_cpu_ns(const struct rules_ctx *ctx)
{
	uint64_t used_ns = profile_others_cpu_ns(ctx->profile);

	FOR_EACH (process, ctx->profile->processes)
		if (used_ns != PROFILE_ABSENT && !is_of_job(ctx, process) &&
		    process->cpu_ns != PROFILE_ABSENT)
			used_ns += process->cpu_ns;
	return used_ns;
}

static bool is_stolen(const struct shortage *shortage)
{
	return shortage->used_known && shortage->steal_ns > shortage->others_ns;
}

static bool is_known(const struct shortage *shortage)
{
	return shortage->used_known || shortage->holders.count;
}

/* Do the job's own threads and processes have the CPUs? */
static bool is_own(const struct shortage *shortage)
{
	return shortage->culprit == PROFILE_RIVAL_OWN || shortage->culprit == PROFILE_RIVAL_JOB;
}

static double share_of(const struct cpu_holders *holders, enum profile_rival_kind kind)
{
	return holders->unfed_ns ? (double)holders->ns[kind] / (double)holders->unfed_ns : 0;
}

/* How sure the culprit is: its share of the waiting. */
static double confidence(const struct shortage *shortage)
{
	double own = share_of(&shortage->holders, PROFILE_RIVAL_OWN) +
		     share_of(&shortage->holders, PROFILE_RIVAL_JOB);

	if (!is_known(shortage))
		return 0.5;
	if (shortage->culprit == PROFILE_RIVAL_OTHER)
		return shortage->by_others;
	if (shortage->culprit == PROFILE_RIVAL_TRACER)
		return share_of(&shortage->holders, PROFILE_RIVAL_TRACER);
	return fmax(own, 1 - shortage->by_others);
}

/* Without a record of who had the CPUs (old captures, --off-cpu off) CPU time alone decides. */
static void find_culprit(const struct rules_ctx *ctx, struct shortage *shortage)
{
	const struct cpu_holders *holders = &shortage->holders;
	double tracer = share_of(holders, PROFILE_RIVAL_TRACER);

	shortage->by_others = share_of(holders, PROFILE_RIVAL_OTHER);
	if (!holders->unfed_ns || is_stolen(shortage)) {
		/* CPU time that others used, of the time that the job waited for CPUs */
		double used = (double)shortage->others_ns + (double)shortage->steal_ns, waited = 0;

		FOR_EACH (process, ctx->profile->processes)
			if (is_of_job(ctx, process))
				waited += (double)sum_threads(process).runnable_ns;
		shortage->by_others =
			shortage->used_known && waited > 0 ? fmin(used / waited, 1) : 0;
	}
	if (shortage->by_others >= ctx->thresholds->cpu_contention_others)
		shortage->culprit = PROFILE_RIVAL_OTHER;
	else if (tracer >= ctx->thresholds->cpu_contention_others)
		shortage->culprit = PROFILE_RIVAL_TRACER;
	else if (share_of(holders, PROFILE_RIVAL_JOB) > share_of(holders, PROFILE_RIVAL_OWN))
		shortage->culprit = PROFILE_RIVAL_JOB;
	else
		shortage->culprit = PROFILE_RIVAL_OWN;
}

/* From schedstat where waits were not recorded. */
static double driver_runnable_ns(const struct rules_ctx *ctx)
{
	const struct profile_thread *thread = profile_thread(ctx->process, ctx->driver->tid);

	return (double)(!ctx->driver->runnable_ns && thread && thread->runnable_ns != PROFILE_ABSENT
				? thread->runnable_ns
				: ctx->driver->runnable_ns);
}

/* A thread's part of the pool's work if each thread has a CPU; no more threads than CPUs work. */
static double fair_part_ns(const struct shortage *shortage)
{
	const struct thread_pool *pool = &shortage->pool;
	double work = (double)pool->driver.work_ns + (double)pool->others.work_ns;
	double threads = fmin(shortage->cpus_count, pool->threads_count);

	return threads > 0 ? work / threads : (double)pool->driver.work_ns;
}

/* Joined threads may start and end during a join, so no single one shows how much longer it lasts:
 * the share of their time in which all of them wait for a CPU does. While one has the CPU that
 * another waits for, the join loses nothing. */
static double joined_ns(const struct rules_ctx *ctx, const struct shortage *shortage)
{
	const struct process_account *account = ctx->account;
	double runnable = 0, busy = 0;
	double foreign = 1 - share_of(&shortage->holders, PROFILE_RIVAL_OWN);

	FOR_EACH (thread, account->threads) {
		if (!account->joins || thread->ns[ACCOUNT_JOIN])
			continue;
		runnable += (double)thread->ns[ACCOUNT_RUNNABLE];
		busy += (double)account_busy_ns(thread);
	}
	return busy > 0 ? (double)account->all.ns[ACCOUNT_JOIN] * foreign * runnable / busy : 0;
}

/* In a server with a thread for each request, the share that one of them waits stands for all.
 * Where several run at a time, only a part of that is the process's time. */
static double of_brief_threads_ns(const struct rules_ctx *ctx, const struct shortage *shortage)
{
	const struct process_account *account = ctx->account;
	const struct account *driver = account_of_thread(account, ctx->driver->tid);
	double foreign = 1 - share_of(&shortage->holders, PROFILE_RIVAL_OWN);
	double runnable = 0, wall = 0;

	if (!driver || account->joins || !account_is_brief(account, driver))
		return 0;
	FOR_EACH (thread, account->threads) {
		if (!account_is_brief(account, thread))
			continue;
		runnable += (double)thread->ns[ACCOUNT_RUNNABLE];
		wall += (double)thread->wall_ns;
	}
	return foreign * runnable * fmin((double)ctx->driver->wall_ns / fmax(wall, 1), 1);
}

/* Time that the driver lost: its own waits for a CPU, and those of its pool. */
static double lost_ns(struct rules_ctx *ctx, struct shortage *shortage)
{
	struct thread_pool *pool = &shortage->pool;
	double runnable = driver_runnable_ns(ctx), lost = runnable, judged, work, more = 0, others;

	if (thread_pool_find(pool, ctx->process, ctx->driver->tid))
		ctx->failed = true;
	judged = (double)ctx->driver->judged_ns;
	work = (double)pool->driver.work_ns;
	/* Threads that take work as it comes (TBB, Rayon, OpenMP's dynamic loops) never wait for
	 * one that has no CPU: the driver does the work of that one, which n threads would have
	 * shared.
	 */
	if (pool->threads_count >= 2)
		more = fmax(fmin(work - fair_part_ns(shortage),
				 (double)pool->others_runnable_ns / pool->threads_count),
			    0);
	others = fmax((double)shortage->threads.runnable_ns - runnable, 0);
	/* it waits for the pool's other threads as long as these have no CPU, at most */
	lost += fmin((double)pool->driver.spin_ns + (double)pool->driver_wait_ns, others);
	/* less the part of its work that the others do while it has no CPU */
	lost = fmax(lost - fmax(fair_part_ns(shortage) - work, 0), joined_ns(ctx, shortage));
	lost = fmax(lost, of_brief_threads_ns(ctx, shortage));
	/* its own work is no loss; spinning is sampled, so the sum may exceed the rest */
	lost = fmin(lost, judged - work);
	return fmax(fmax(lost, fmin(runnable + more, judged - work + more)), 0);
}

unsigned rules_allowed_cpus(const struct rules_ctx *ctx)
{
	const struct profile_limits *limits = &ctx->process->limits;
	unsigned cpus = ctx->profile->cpus_count;
	uint64_t quota = (limits->cpu_limit_milli + 999) / 1000;

	if (limits->cpus_count && limits->cpus_count < cpus)
		cpus = limits->cpus_count;
	if (limits->cpu_limit_milli != PROFILE_ABSENT && quota && quota < cpus)
		cpus = (unsigned)quota;
	return cpus;
}

/* A thread belongs to a crowd if it is on a CPU, or ready for one, for at least this share of the
 * busiest thread's time. */
#define CROWD_LEAST 0.25

/* "make (pids 17, 18 and 2 more)", "loader of the same job (pid 17)" */
static void add_holder_name(struct text *text, const struct cpu_holder *holder)
{
	if (holder->kind == PROFILE_RIVAL_OWN) {
		text_add(text, "its own threads");
		return;
	}
	if (!holder->name[0]) {
		/* they had ended before their name could be read */
		text_printf(text, "short-lived processes (%u without a name)", holder->pids_count);
		return;
	}
	escape_name(text, holder->name);
	if (holder->kind == PROFILE_RIVAL_JOB)
		text_add(text, " of the same job");
	text_add(text, holder->pids_count == 1 ? " (pid" : " (pids");
	for (unsigned i = 0; i < holder->pids_count && i < PIDS_SHOWN; i++)
		text_printf(text, "%s %u", i ? "," : "", holder->pids[i]);
	if (holder->pids_count > PIDS_SHOWN)
		text_printf(text, " and %u more", holder->pids_count - PIDS_SHOWN);
	text_add(text, ")");
}

/* "; meanwhile its own threads had the CPU for 62.0 %, make (pid 77) for 11.0 %" */
static void add_cpu_holders(struct text *text, const struct cpu_holders *holders)
{
	for (size_t i = 0; i < holders->count && i < HOLDERS_SHOWN; i++) {
		text_add(text, i ? ", " : "; meanwhile ");
		add_holder_name(text, &holders->list[i]);
		text_add(text, i ? " for " : " had the CPU for ");
		add_percent(text, (double)holders->list[i].ns / (double)holders->all_ns);
	}
}

void add_who_had_cpus(struct text *text, const struct rules_ctx *ctx)
{
	struct cpu_holders holders = {0};

	find_cpu_holders(&holders, ctx);
	add_cpu_holders(text, &holders);
}

/* "53.1 ms of each 61.2 ms step" */
static void add_gain(struct text *text, const struct rules_ctx *ctx, double gain_ns)
{
	text_printf(text, "%s of each ", as_ns(u64_of(gain_ns)));
	if (ctx->process->steps.count)
		text_printf(text, "%s step", as_ns(u64_of(rules_unit_ns(ctx))));
	else
		text_add(text, "second");
}

/* Below this share of all threads' waits, those of the other threads are not mentioned. */
#define OTHERS_WAIT 0.01

static void add_waiting(struct text *text, const struct rules_ctx *ctx,
			const struct shortage *shortage, double gain_ns)
{
	double waited = (double)shortage->threads.runnable_ns;
	double wanted = (double)shortage->threads.on_cpu_ns + waited;

	add_gain(text, ctx, gain_ns);
	/* "it waited 4.00 s for a CPU and ran for 6.00 s (40.0 % waiting)" */
	text_printf(text,
		    " is lost to the thread that drives it; %s waited %s for a CPU and ran for %s "
		    "(%s waiting)%s",
		    waited - driver_runnable_ns(ctx) > OTHERS_WAIT * waited
			    ? "all its threads together"
			    : "it",
		    as_ns(shortage->threads.runnable_ns), as_ns(shortage->threads.on_cpu_ns),
		    as_percent(waited / wanted),
		    ctx->process->steps.outside_ns ? " in the steps' time" : "");
	if (ctx->profile->cpus_count)
		text_printf(text, "; this machine has %u CPUs", ctx->profile->cpus_count);
	if (shortage->cpus_count < ctx->profile->cpus_count)
		text_printf(text, ", of which it may use %u", shortage->cpus_count);
	if (shortage->used_known)
		text_printf(text, "; other programs used %s of CPU time",
			    as_ns(shortage->others_ns));
	if (shortage->used_known && shortage->steal_ns)
		text_printf(text, ", other virtual machines %s (steal)", as_ns(shortage->steal_ns));
	add_cpu_holders(text, &shortage->holders);
}

#define POLLING_SHOWN 0.01

/* The threads that compete for CPUs: the pool's working ones, or without a known pool the program's
 * busy ones. */
static unsigned crowd_of(const struct shortage *shortage)
{
	unsigned pool = shortage->pool.threads_count, busy = shortage->threads_count;

	if (pool < 2)
		return shortage->culprit == PROFILE_RIVAL_OWN ? busy : 0;
	return pool < busy ? pool : busy;
}

static unsigned threads_wanted(const struct shortage *shortage)
{
	return shortage->cpus_count / shortage->processes_count ?: 1;
}

/* Adds nothing if the pool is not known. */
static void add_setting(struct text *text, const struct rules_ctx *ctx, const char *before,
			unsigned threads, const char *after)
{
	struct text setting = {0};

	if (thread_pool_add_setting(&setting, ctx->process, threads))
		text_printf(text, "%s%s%s", before, text_peek(&setting), after);
	text_clear(&setting);
}

static void suggest_for_contention(struct text *text, const struct rules_ctx *ctx,
				   const struct shortage *shortage)
{
	if (is_known(shortage) && !is_own(shortage)) {
		text_add(text, shortage->culprit == PROFILE_RIVAL_TRACER ? TRY_RECORD_LESS
			       : is_stolen(shortage)			 ? TRY_DEDICATED_CPUS
									 : TRY_MOVE_OTHER_PROGRAMS);
		return;
	}
	if (!is_known(shortage))
		text_add(text, TRY_FEWER_THAN_CPUS);
	else if (shortage->culprit == PROFILE_RIVAL_JOB)
		text_printf(text,
			    "The job's processes need more CPUs than there are: start fewer of "
			    "them%s",
			    shortage->pool.threads_count < 2 ? "" : ", or fewer threads in each");
	else if (shortage->pool.threads_count < 2)
		text_add(text, TRY_FEWER_RUNNABLE);
	else
		text_add(text, "The program has more runnable threads than CPUs: run fewer");
	/* no setting helps processes with one thread each, nor does the setting that is in use */
	if (shortage->culprit == PROFILE_RIVAL_JOB
		    ? shortage->pool.threads_count >= 2
		    : shortage->threads_count > threads_wanted(shortage))
		add_setting(text, ctx, " (", threads_wanted(shortage), ")");
	text_add(text, ".");
}

/* The program that had most of its kind's CPU time; NULL: it is spread over many, or unknown. */
static const struct cpu_holder *main_rival(const struct cpu_holders *holders,
					   enum profile_rival_kind kind)
{
	for (size_t i = 0; i < holders->count; i++)
		if (holders->list[i].kind == kind && !holders->list[i].feeds)
			return 2 * holders->list[i].ns >= holders->ns[kind] ? &holders->list[i]
									    : NULL;
	return NULL;
}

static void add_rival(struct text *text, const struct cpu_holders *holders,
		      enum profile_rival_kind kind)
{
	const struct cpu_holder *rival = main_rival(holders, kind);

	if (rival)
		add_holder_name(text, rival);
	else if (kind == PROFILE_RIVAL_OTHER)
		text_add(text, "other programs");
	else if (kind == PROFILE_RIVAL_JOB)
		text_add(text, "other processes of its job");
	else
		text_add(text, "its own threads");
}

/* Shares of the waiting: a smaller one is not mentioned, a larger one counts as all of it. */
#define RIVAL_SHARE 0.10
#define RIVAL_ALL   0.90

/* "make (pid 77) had for 62.0 %" */
static void add_rival_share(struct text *text, const struct cpu_holders *holders,
			    enum profile_rival_kind kind, const char *verb)
{
	const struct cpu_holder *rival = main_rival(holders, kind);
	uint64_t ns = rival ? rival->ns : holders->ns[kind];

	add_rival(text, holders, kind);
	text_printf(text, "%s%s", verb, as_percent((double)ns / (double)holders->unfed_ns));
}

/* " is lost waiting for CPUs that make (pid 77) had for 62.0 % of that time, its own threads for
 * 38.0 %" */
static void add_culprit(struct text *text, const struct shortage *shortage)
{
	const struct cpu_holders *holders = &shortage->holders;
	enum profile_rival_kind culprit = shortage->culprit;

	text_add(text, " is lost waiting for CPUs that ");
	if (culprit == PROFILE_RIVAL_OTHER && is_stolen(shortage)) {
		text_add(text, "other virtual machines had");
	} else if (!holders->unfed_ns || share_of(holders, culprit) >= RIVAL_ALL) {
		add_rival(text, holders, culprit);
		text_add(text, " had");
	} else {
		add_rival_share(text, holders, culprit, " had for ");
		text_add(text, " of that time");
		for (int kind = 0; kind < PROFILE_RIVAL_KINDS; kind++) {
			if (kind == (int)culprit || share_of(holders, kind) < RIVAL_SHARE)
				continue;
			text_add(text, ", ");
			add_rival_share(text, holders, kind, " for ");
		}
	}
}

/* " is lost: 8 threads compute on 2 CPUs, which make (pid 77) had for 22.0 % of that time" */
static void add_too_many_threads(struct text *text, const struct shortage *shortage)
{
	text_printf(text, " is lost: %u threads", crowd_of(shortage));
	if (shortage->processes_count > 1)
		text_printf(text, " in each of %u processes", shortage->processes_count);
	text_printf(text, " compute on %u CPUs", shortage->cpus_count);
	if (share_of(&shortage->holders, PROFILE_RIVAL_OTHER) < RIVAL_SHARE)
		return;
	text_add(text, ", which ");
	add_rival_share(text, &shortage->holders, PROFILE_RIVAL_OTHER, " had for ");
	text_add(text, " of that time");
}

static void file_shortage(struct rules_ctx *ctx, const struct shortage *shortage)
{
	const struct thread_pool *pool = &shortage->pool;
	unsigned crowd = crowd_of(shortage), wanted = threads_wanted(shortage);
	bool threads = is_own(shortage) && shortage->cpus_count &&
		       crowd >= ctx->thresholds->oversubscribed_threads &&
		       crowd * shortage->processes_count > shortage->cpus_count;
	double spin = (double)pool->driver.spin_ns + (double)pool->others.spin_ns;
	double all = spin + (double)pool->driver.work_ns + (double)pool->others.work_ns;
	double share = shortage->lost_ns / (double)ctx->driver->judged_ns;
	enum bottleneck bottleneck = threads ? BOTTLENECK_OVERSUBSCRIBED : BOTTLENECK_CONTENTION;
	struct note note = {.bottleneck = bottleneck,
			    .gain_ns = fmin(share * rules_unit_ns(ctx),
					    rules_most_gain_ns(ctx, bottleneck)),
			    .confidence = confidence(shortage),
			    .share = share,
			    .look = "Threads; Waiting"};

	add_waiting(&note.evidence, ctx, shortage, note.gain_ns);
	if (pool->threads_count >= 2 && all > 0 && spin >= POLLING_SHOWN * all) {
		text_printf(&note.evidence, "; the %u threads of its pool (", pool->threads_count);
		escape_name(&note.evidence, pool->runtime);
		text_printf(&note.evidence, ") polled for each other in %s of their CPU time",
			    as_percent(spin / all));
	}
	if (pool->threads_count < 2 && shortage->culprit == PROFILE_RIVAL_OWN)
		location_after(&note.evidence, "; its other threads run mostly ",
			       other_threads_place(ctx->process, ctx->driver->tid).frame);
	add_gain(&note.headline, ctx, note.gain_ns);
	if (threads)
		add_too_many_threads(&note.headline, shortage);
	else
		add_culprit(&note.headline, shortage);
	if (threads && pool->threads_count >= 2) {
		text_printf(&note.suggestion, "Compute with %u thread%s%s", wanted,
			    wanted == 1 ? "" : "s",
			    shortage->processes_count > 1 ? " in each process" : "");
		add_setting(&note.suggestion, ctx, ": ", wanted, "");
		text_printf(&note.suggestion, ".%s",
			    shortage->processes_count > shortage->cpus_count
				    ? " And start fewer processes: there are more than CPUs."
				    : "");
	} else {
		suggest_for_contention(&note.suggestion, ctx, shortage);
	}
	rules_ctx_add(ctx, threads ? "Oversubscribed" : "CpuContention",
		      rules_severity(ctx, note.gain_ns), share, &note);
}

/* Without the time before the first step and, of a process that has ended, after the last. */
static struct thread_sums judged_threads(const struct profile_process *process)
{
	double running = 0, judged_running = 0, waiting = 0, judged_waiting = 0;
	struct thread_sums sums = sum_threads(process);

	FOR_EACH_OF (sample, process->samples) {
		if (sample->state != PERFX_SAMPLE_ON_CPU)
			continue;
		running += (double)sample->ns;
		judged_running += (double)activity_judged_ns(sample);
	}
	FOR_EACH_OF (wait, process->blocked) {
		if (wait->reason != PERFX_WAIT_RUNNABLE)
			continue;
		waiting += (double)wait->ns;
		judged_waiting += (double)activity_judged_ns(wait);
	}
	if (running > 0)
		sums.on_cpu_ns = u64_of((double)sums.on_cpu_ns * judged_running / running);
	if (waiting > 0)
		sums.runnable_ns = u64_of((double)sums.runnable_ns * judged_waiting / waiting);
	return sums;
}

double rules_mutex_part(const struct rules_ctx *ctx)
{
	const struct profile_activities *samples = &ctx->process->samples;
	double lock_ns = (double)ctx->driver->waits[ACCOUNT_LOCK].ns, all = 0, at_mutex = 0;

	if (lock_ns < ctx->thresholds->lock_wait_medium * (double)ctx->driver->judged_ns)
		return 0;
	FOR_EACH_OF (sample, *samples) {
		if (sample->state != PERFX_SAMPLE_RUNNABLE)
			continue;
		all += (double)sample->ns;
		at_mutex += stack_is_at_mutex(sample->stack) ? (double)sample->ns : 0;
	}
	return all > 0 ? at_mutex / all : 0;
}

/* The part, 0 to 1, of its threads' waits for a CPU that its cgroup's limit caused. */
static double throttled_part(const struct profile_process *p, const struct thread_sums *threads)
{
	if (p->throttled_ns == PROFILE_ABSENT || !threads->runnable_ns)
		return 0;
	return fmin((double)p->throttled_ns / (double)threads->runnable_ns, 1);
}

static void contention(struct rules_ctx *ctx, struct shortage *shortage)
{
	struct thread_sums all = sum_threads(ctx->process), threads = judged_threads(ctx->process);
	const struct cpu_holders *holders = &shortage->holders;
	double waited = (double)threads.runnable_ns * (1 - throttled_part(ctx->process, &all));
	double recorded_ns =
		(double)ctx->profile->duration_ns - (double)ctx->process->steps.outside_ns;
	double wanted = (double)threads.on_cpu_ns + (double)threads.runnable_ns;

	/* what workers that feed it do with a CPU is no loss */
	if (holders->all_ns)
		waited *= (double)holders->unfed_ns / (double)holders->all_ns;
	/* what its children lack is seen in what it waits for */
	if (!ctx->driver->wall_ns || (rules_is_worker(ctx) && !ctx->process->steps.count) ||
	    waited < ctx->thresholds->cpu_contention_waiting * recorded_ns ||
	    waited < ctx->thresholds->cpu_contention_runnable * wanted)
		return;
	shortage->threads = threads;
	shortage->lost_ns = lost_ns(ctx, shortage) * waited / (double)threads.runnable_ns *
			    (1 - rules_mutex_part(ctx));
	file_shortage(ctx, shortage);
}

static void add_throttled(struct text *text, const struct profile_process *p, double share)
{
	text_printf(text, "its cgroup was throttled for %s (", as_ns(p->throttled_ns));
	add_wall_share(text, share);
	text_add(text, ", over all CPUs)");
	if (p->throttled_count != PROFILE_ABSENT && p->throttle_periods_count != PROFILE_ABSENT)
		text_printf(text, ", in %llu of %llu periods",
			    (unsigned long long)p->throttled_count,
			    (unsigned long long)p->throttle_periods_count);
}

static void throttled(struct rules_ctx *ctx, struct shortage *shortage)
{
	const struct profile_process *p = ctx->process;
	struct thread_sums threads = sum_threads(p);
	double share = wall_share(p, p->throttled_ns), part = throttled_part(p, &threads);
	uint64_t milli = p->limits.cpu_limit_milli;
	struct note note = {.bottleneck = BOTTLENECK_THROTTLED, .confidence = 1, .share = share};

	if (share < ctx->thresholds->cpu_throttled_medium)
		return;
	add_throttled(&note.evidence, p, share);
	text_add(&note.suggestion, TRY_RAISE_CPU_LIMIT);
	if (milli && milli != PROFILE_ABSENT)
		text_printf(&note.suggestion, " (it allows %.3g)", (double)milli / 1000);
	add_setting(&note.suggestion, ctx, ": ", rules_allowed_cpus(ctx), "");
	text_add(&note.suggestion, ".");
	if (ctx->driver->wall_ns && part > 0) {
		/* with a higher limit it could use all CPUs */
		shortage->threads = threads;
		shortage->cpus_count = ctx->profile->cpus_count;
		note.gain_ns = part * lost_ns(ctx, shortage) / (double)ctx->driver->judged_ns *
			       rules_unit_ns(ctx);
	}
	if (note.gain_ns > 0) {
		add_gain(&note.headline, ctx, note.gain_ns);
		text_add(&note.headline, " is lost: ");
	}
	add_throttled(&note.headline, p, share);
	rules_ctx_add(ctx, "CpuThrottled", high_if(share >= ctx->thresholds->cpu_throttled_high),
		      share, &note);
}

/* Whether a rule can apply, which is asked before processes are compared: there may be thousands.
 */
static bool may_lack_cpus(const struct rules_ctx *ctx)
{
	const struct thresholds *least = ctx->thresholds;
	struct thread_sums threads = judged_threads(ctx->process);
	double runnable_ns = (double)threads.runnable_ns;
	double recorded_ns =
		(double)ctx->profile->duration_ns - (double)ctx->process->steps.outside_ns;

	return wall_share(ctx->process, ctx->process->throttled_ns) >=
		       least->cpu_throttled_medium ||
	       (ctx->driver->wall_ns &&
		runnable_ns >= least->cpu_contention_waiting * recorded_ns &&
		runnable_ns >=
			least->cpu_contention_runnable * ((double)threads.on_cpu_ns + runnable_ns));
}

void rules_contention(struct rules_ctx *ctx)
{
	struct shortage shortage = {
		.cpus_count = rules_allowed_cpus(ctx),
		.steal_ns = ctx->profile->host_steal_ns,
	};
	uint64_t most_ns = 0;

	if (!may_lack_cpus(ctx))
		return;
	shortage.others_ns = rules_others_cpu_ns(ctx);
	FOR_EACH (thread, ctx->account->threads)
		most_ns = max_u64(most_ns, account_busy_ns(thread));
	FOR_EACH (thread, ctx->account->threads)
		shortage.threads_count +=
			most_ns && (double)account_busy_ns(thread) >= CROWD_LEAST * (double)most_ns;
	/* ranks, or workers of one kind: processes of one job and name */
	FOR_EACH (process, ctx->profile->processes)
		shortage.processes_count +=
			process == ctx->process ||
			(!strcmp(process->comm, ctx->process->comm) &&
			 cpu_share(process) >= JOB_CPU && is_of_job(ctx, process));
	find_cpu_holders(&shortage.holders, ctx);
	shortage.used_known =
		shortage.others_ns != PROFILE_ABSENT && shortage.steal_ns != PROFILE_ABSENT;
	find_culprit(ctx, &shortage);
	contention(ctx, &shortage);
	if (!rules_is_short(ctx))
		throttled(ctx, &shortage);
}
