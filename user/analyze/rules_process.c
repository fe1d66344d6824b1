// SPDX-License-Identifier: BSD-2-Clause
/* Rules about a process (its waits and shortages) and about the capture. */
#include "analyze/location.h"
#include "analyze/remedy.h"
#include "analyze/rules_ctx.h"
#include "base/escape.h"
#include "base/syscalls.h"
#include "base/units.h"
#include "decode/names.h"
#include "loss_texts.h"
#include "remedy_texts.h"

bool rules_is_short(const struct rules_ctx *ctx)
{
	return (double)profile_wall_ns(ctx->process) < ctx->thresholds->all_wall_ns;
}

struct thread_sums sum_threads(const struct profile_process *process)
{
	struct thread_sums sums = {0};

	FOR_EACH (thread, process->threads) {
		if (thread->on_cpu_ns == PROFILE_ABSENT || thread->runnable_ns == PROFILE_ABSENT)
			continue;
		sums.on_cpu_ns += thread->on_cpu_ns;
		sums.runnable_ns += thread->runnable_ns;
		if (thread->blocked_ns == PROFILE_ABSENT || !thread->wall_ns)
			continue;
		sums.measured++;
		sums.blocked += (double)thread->blocked_ns >= 0.9 * (double)thread->wall_ns;
	}
	return sums;
}

bool rules_is_worker(const struct rules_ctx *ctx)
{
	return ctx->role == PROCESS_WORKER;
}

/* The longest wait: "; 4.90 s in poll for pipe:[1234], in serve (server.py:12)". An object that is
 * named after its system call is not preceded by it: "in epoll (descriptor 3)". */
static void add_longest_wait(struct text *text, const struct driver *driver)
{
	const struct profile_activity *wait = driver->longest;
	const char *call = wait ? syscall_name(wait->syscall) : NULL;

	if (!wait)
		return;
	if (wait->reason != PERFX_WAIT_SYSCALL || !call)
		call = name_of_wait(wait->reason);
	text_printf(text, "; %s in ", as_ns(wait->ns));
	if (!wait->object_name[0] || strncmp(wait->object_name, call, strlen(call)))
		text_printf(text, "%s%s", call, wait->object_name[0] ? " for " : "");
	escape_name(text, wait->object_name);
	location_after(text, ", in ", driver->longest_place);
}

/* A process that waits for a CPU, or is stopped, is not idle. */
bool rules_is_idle(const struct rules_ctx *ctx)
{
	const struct account *all = &ctx->account->all;
	double cpu = cpu_share(ctx->process);
	double ready = wall_share(ctx->process, all->ns[ACCOUNT_RUNNABLE]);

	return cpu >= 0 && cpu < ctx->thresholds->idle_target_cpu &&
	       ready < ctx->thresholds->idle_target_cpu &&
	       all->ns[ACCOUNT_STOPPED] < all->wall_ns / 2;
}

/* Python's trackers of shared memory and its fork server. */
bool rules_is_helper(const struct rules_ctx *ctx)
{
	static const char *const commands[] = {"resource_tracker import",
					       "semaphore_tracker import",
					       "multiprocessing.forkserver import"};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strstr(ctx->process->cmdline, commands[i]))
			return true;
	return false;
}

static bool idle_target(struct rules_ctx *ctx)
{
	struct thread_sums threads = sum_threads(ctx->process);
	double cpu = cpu_share(ctx->process);
	struct note note = {.bottleneck = BOTTLENECK_IDLE, .confidence = 1};

	if (!rules_is_idle(ctx))
		return false;
	if (rules_is_worker(ctx) || rules_is_helper(ctx) || ctx->account->joins_children)
		return true;
	text_printf(&note.evidence, "used %s of CPU time in %s (%s)", as_ns(ctx->process->cpu_ns),
		    as_ns(profile_wall_ns(ctx->process)), as_percent(cpu));
	if (threads.measured == 1 && threads.blocked)
		text_add(&note.evidence, "; its thread was blocked nearly all the time");
	else if (threads.blocked)
		text_printf(&note.evidence, "; %u of %u threads were blocked nearly all the time",
			    threads.blocked, threads.measured);
	add_longest_wait(&note.evidence, ctx->driver);
	/* beside another process that works, a waiting process is no problem */
	rules_ctx_add(ctx, "IdleTarget", ctx->is_main ? FINDING_MEDIUM : FINDING_LOW, 1 - cpu,
		      &note);
	return true;
}

/* The threads of a process are stopped together: the most active one stands for all. */
static void stopped(struct rules_ctx *ctx)
{
	const struct account *thread = account_of_thread(ctx->account, ctx->account->tid);
	double share = thread && thread->wall_ns
			       ? (double)thread->ns[ACCOUNT_STOPPED] / (double)thread->wall_ns
			       : 0;
	struct note note = rules_note(ctx, BOTTLENECK_STOPPED, share);

	if (share < ctx->thresholds->stopped_medium || share <= 0)
		return;
	text_printf(&note.evidence, "stopped for %s of %s (%s)", as_ns(thread->ns[ACCOUNT_STOPPED]),
		    as_ns(thread->wall_ns), as_percent(share));
	if (thread->stops_count)
		text_printf(&note.evidence, ", %llu time%s",
			    (unsigned long long)thread->stops_count,
			    thread->stops_count == 1 ? "" : "s");
	rules_ctx_add(ctx, "Stopped", high_if(share >= ctx->thresholds->stopped_high), share,
		      &note);
}

static void blocked_thread(struct rules_ctx *ctx)
{
	const struct profile_thread *thread = profile_thread(ctx->process, ctx->process->pid);
	struct note note = {.bottleneck = BOTTLENECK_IDLE, .confidence = 1};
	const struct profile_row *waits_in = NULL;
	double share;

	if (!thread || thread->blocked_ns == PROFILE_ABSENT || !thread->wall_ns ||
	    thread->state == 'Z' || ctx->account->joins || ctx->account->joins_children)
		return;
	share = (double)thread->blocked_ns / (double)thread->wall_ns;
	if (share < ctx->thresholds->blocked_thread_share)
		return;
	text_add(&note.subject, "main thread ");
	escape_name(&note.subject, thread->comm);
	text_printf(&note.subject, " (tid %u)", thread->tid);
	text_printf(&note.evidence, "blocked for %s of %s (%s), on-CPU %s",
		    as_ns(thread->blocked_ns), as_ns(thread->wall_ns), as_percent(share),
		    as_ns(thread->on_cpu_ns));
	if (ctx->driver->tid == thread->tid)
		add_longest_wait(&note.evidence, ctx->driver);
	/* the function that contains at least half of the waiting */
	FOR_EACH (row, ctx->process->rows)
		if (!waits_in && row->self_ns >= thread->blocked_ns / 2 &&
		    remedy_waits(remedy_kind(ctx->profile, ctx->process, row)))
			waits_in = row;
	if (waits_in) {
		text_add(&note.suggestion, "It waits in ");
		add_function_name(&note.suggestion, ctx->profile, waits_in->function);
		text_add(&note.suggestion, ". ");
		rules_suggest(&note, ctx,
			      remedy_text(remedy_kind(ctx->profile, ctx->process, waits_in)));
	} else {
		text_add(&note.suggestion, TRY_BLOCKED_MAIN_THREAD);
	}
	rules_ctx_add(ctx, "BlockedThread", FINDING_LOW, share, &note);
}

static uint64_t or_zero(uint64_t value)
{
	return value == PROFILE_ABSENT ? 0 : value;
}

static void disk_bound(struct rules_ctx *ctx)
{
	const struct thresholds *limits = ctx->thresholds;
	const struct profile_process *p = ctx->process;
	double bytes = rate_of(p, or_zero(p->read_bytes)) + rate_of(p, or_zero(p->write_bytes));
	double faults = rate_of(p, or_zero(p->major_faults_count)), cpu = cpu_share(p);
	struct note note = {.bottleneck = BOTTLENECK_DISK};

	if (cpu < 0 || cpu >= limits->disk_bound_cpu ||
	    (bytes < limits->disk_bound_bytes_per_s && faults < limits->disk_bound_faults_per_s))
		return;
	text_printf(&note.evidence, "disk traffic of %s/s and %s major faults/s, at %s CPU",
		    as_bytes(u64_of(bytes)), as_count(u64_of(faults)), as_percent(cpu));
	rules_ctx_add(ctx, "DiskBound", FINDING_MEDIUM, 1 - cpu, &note);
}

void rules_process(struct rules_ctx *ctx)
{
	stopped(ctx);
	if (!idle_target(ctx))
		blocked_thread(ctx);
	disk_bound(ctx);
}

static double probe_cost(const struct profile_probe *probe)
{
	return (double)probe->hits_count * probe->cost_ns;
}

/* The slowdown is that of the process with the most hits; functions of other processes cost it
 * nothing. Functions without a row in any process are allocators. */
static bool costs_most_hit(const struct profile *profile, uint32_t function)
{
	const struct profile_process *most = NULL;
	bool has_rows = false;

	for (size_t i = 0; i < profile->processes_count; i++)
		if (!most || profile->processes[i].seen_hits_count > most->seen_hits_count)
			most = &profile->processes[i];
	for (size_t i = 0; i < profile->processes_count; i++)
		for (size_t j = 0; j < profile->processes[i].rows_count; j++) {
			if (profile->processes[i].rows[j].function != function)
				continue;
			has_rows = true;
			if (&profile->processes[i] == most)
				return true;
		}
	return !has_rows;
}

/* Adds the function whose probes cost the most. */
static void add_most_expensive(struct text *text, const struct profile *profile)
{
	const struct profile_probe *most_expensive = NULL;

	FOR_EACH (probe, profile->probes)
		if ((!most_expensive || probe_cost(probe) > probe_cost(most_expensive)) &&
		    costs_most_hit(profile, probe->function))
			most_expensive = probe;
	if (!most_expensive || !profile_function(profile, most_expensive->function))
		return;
	text_add(text, "; the most expensive probe is on ");
	add_function_name(text, profile, most_expensive->function);
	text_printf(text, " (%s of the cost)",
		    as_percent(probe_cost(most_expensive) / profile_cost_ns(profile)));
}

static void overhead(struct rules_ctx *ctx)
{
	const struct profile *p = ctx->profile;
	const struct thresholds *t = ctx->thresholds;
	double slowdown = profile_slowdown_percent(p) / 100;
	struct note note = {0};

	if (slowdown < t->overhead_low)
		return;
	text_add(&note.subject, "perfx-trace");
	text_printf(&note.evidence, "%s probe hits", as_count(p->hits_count));
	if (p->samples_cost_ns + p->waits_cost_ns)
		text_add(&note.evidence, ", samples and waits");
	text_printf(&note.evidence, " cost about %s: estimated slowdown %s",
		    as_ns(u64_of(profile_cost_ns(p))),
		    as_slowdown(profile_estimated_percent(p) / 100));
	if (profile_observed_slower(&p->observed))
		text_printf(&note.evidence, ", observed %s",
			    as_slowdown(profile_observed_percent(&p->observed) / 100));
	add_most_expensive(&note.evidence, p);
	rules_ctx_add(ctx, "Overhead",
		      slowdown >= t->overhead_high ? FINDING_HIGH
						   : medium_if(slowdown >= t->overhead_medium),
		      100 * slowdown, &note);
}

/* Only the losses that profile_loss_share() counts are listed. */
static const struct {
	const char *what, *remedy;
} loss_words[PERFX_LOSS_KINDS] = {
	[PERFX_LOSS_RING_DROPS] = {LOSS_RING_DROPS},
	[PERFX_LOSS_MAP_FULL] = {LOSS_MAP_FULL},
	[PERFX_LOSS_UNTIMED_CALLS] = {LOSS_UNTIMED_CALLS},
	[PERFX_LOSS_NMISSED] = {LOSS_NMISSED},
	[PERFX_LOSS_UNDECODED] = {LOSS_UNDECODED},
	[PERFX_LOSS_CONTROL_DROPS] = {LOSS_CONTROL_DROPS},
	[PERFX_LOSS_STACK_FAILURES] = {LOSS_STACK_FAILURES},
	[PERFX_LOSS_READ_FAULTS] = {LOSS_READ_FAULTS},
	[PERFX_LOSS_MEMORY_DROPS] = {LOSS_MEMORY_DROPS},
	[PERFX_LOSS_VALUE_DROPS] = {LOSS_VALUE_DROPS},
	[PERFX_LOSS_SAMPLE_DROPS] = {LOSS_SAMPLE_DROPS},
	[PERFX_LOSS_GPU_RECORDS] = {LOSS_GPU_RECORDS},
	[PERFX_LOSS_GPU_KEYS] = {LOSS_GPU_KEYS},
	[PERFX_LOSS_PROCESSES_MISSED] = {LOSS_PROCESSES_MISSED},
	[PERFX_LOSS_SLICE_DROPS] = {LOSS_SLICE_DROPS},
};

static void losses(struct rules_ctx *ctx)
{
	for (int i = 0; i < PERFX_LOSS_KINDS; i++) {
		double share = profile_loss_share(ctx->profile, i);
		struct note note = {0};

		if (share <= PROFILE_LOSSY_SHARE)
			continue;
		text_add(&note.subject, "perfx-trace");
		text_printf(&note.evidence, "%s %s (%s)", as_count(ctx->profile->losses[i]),
			    loss_words[i].what ?: "events were lost", as_percent(share));
		text_printf(&note.threshold, "more than %.0f %%", PROFILE_LOSSY_SHARE * 100);
		text_add(&note.suggestion, loss_words[i].remedy ?: "");
		rules_ctx_add(ctx, "Losses",
			      i == PERFX_LOSS_RING_DROPS ? FINDING_LOW : FINDING_MEDIUM, share,
			      &note);
	}
}

void rules_capture(struct rules_ctx *ctx)
{
	overhead(ctx);
	losses(ctx);
}
