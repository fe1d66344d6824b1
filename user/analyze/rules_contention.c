// SPDX-License-Identifier: BSD-2-Clause
/* A process that waits for CPUs, and who had them: its own threads, or other programs. */
#include "analyze/rules_ctx.h"
#include "base/escape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Programs that had the CPU when a thread of the process got one at last; by name, as a build has
 * hundreds of processes. The first are those for which was waited the longest. */
#define HOLDERS_MAX   64
#define HOLDERS_SHOWN 3

struct cpu_holder {
	const char *name;
	uint64_t ns;
};

struct cpu_holders {
	struct cpu_holder list[HOLDERS_MAX];
	size_t count;
	uint64_t own_ns, other_ns; /* threads of traced processes; others */
};

/* Who had the CPUs for which threads waited. */
struct rivals {
	bool known, used_known, stolen;
	/* CPU time of programs that are not traced, of other guests */
	uint64_t others_ns, steal_ns;
	double share; /* of the waiting that this explains, at most 1 */
	struct cpu_holders holders;
};

static bool is_traced(const struct profile *profile, uint64_t pid)
{
	for (size_t i = 0; i < profile->processes_count; i++)
		if (profile->processes[i].pid == pid)
			return true;
	return false;
}

static void add_cpu_holder(struct cpu_holders *holders, const char *name, uint64_t ns)
{
	for (size_t i = 0; i < holders->count; i++) {
		if (!strcmp(holders->list[i].name, name)) {
			holders->list[i].ns += ns;
			return;
		}
	}
	if (holders->count < HOLDERS_MAX)
		holders->list[holders->count++] = (struct cpu_holder){name, ns};
}

static int by_held_time(const void *left, const void *right)
{
	const struct cpu_holder *a = left, *b = right;

	if (a->ns != b->ns)
		return a->ns < b->ns ? 1 : -1;
	return strcmp(a->name, b->name);
}

static void find_cpu_holders(struct cpu_holders *holders, const struct rules_ctx *ctx)
{
	const struct profile_activities *blocked = &ctx->process->blocked;

	for (size_t i = 0; i < blocked->count; i++) {
		const struct profile_activity *wait = &blocked->list[i];
		bool own = is_traced(ctx->profile, wait->object);

		if (wait->reason != PERFX_WAIT_RUNNABLE || !wait->object)
			continue;
		if (own)
			holders->own_ns += wait->ns;
		else
			holders->other_ns += wait->ns;
		if (own || wait->object_name[0])
			add_cpu_holder(holders, own ? "" : wait->object_name, wait->ns);
	}
	qsort(holders->list, holders->count, sizeof(*holders->list), by_held_time);
}

/* "; before them the traced program's own threads had the CPU (62.0 %), make (11.0 %)" */
static void add_cpu_holders(struct text *text, const struct cpu_holders *holders)
{
	double all = (double)holders->own_ns + (double)holders->other_ns;
	const char *separator = "; before them ";

	for (size_t i = 0; i < holders->count && i < HOLDERS_SHOWN; i++) {
		const struct cpu_holder *holder = &holders->list[i];

		text_add(text, separator);
		if (holder->name[0])
			escape_name(text, holder->name);
		else
			text_add(text, "the traced program's own threads");
		text_add(text, i ? " (" : " had the CPU (");
		add_percent(text, (double)holder->ns / all);
		text_add(text, ")");
		separator = ", ";
	}
}

/* By what others used meanwhile; of all traced processes, for which nothing else is known. */
static double share_by_cpu_time(const struct rules_ctx *ctx, const struct rivals *rivals)
{
	double used = (double)rivals->others_ns + (double)rivals->steal_ns, waited = 0;

	for (size_t i = 0; i < ctx->profile->processes_count; i++)
		waited += (double)sum_threads(&ctx->profile->processes[i]).runnable_ns;
	return waited > 0 ? fmin(used / waited, 1) : 0;
}

static struct rivals find_rivals(const struct rules_ctx *ctx)
{
	struct rivals rivals = {.others_ns = profile_others_cpu_ns(ctx->profile),
				.steal_ns = ctx->profile->host_steal_ns};
	double held;

	find_cpu_holders(&rivals.holders, ctx);
	held = (double)rivals.holders.own_ns + (double)rivals.holders.other_ns;
	rivals.used_known = rivals.others_ns != PROFILE_ABSENT && rivals.steal_ns != PROFILE_ABSENT;
	rivals.known = rivals.used_known || held > 0;
	rivals.stolen = rivals.used_known && rivals.steal_ns > rivals.others_ns;
	rivals.share = rivals.used_known ? share_by_cpu_time(ctx, &rivals) : 1;
	/* the last one before it need not have had the CPU for long: both must say so */
	if (held > 0 && !rivals.stolen)
		rivals.share = fmin(rivals.share, (double)rivals.holders.other_ns / held);
	return rivals;
}

static void add_rivals(struct text *text, const struct rivals *rivals)
{
	if (rivals->used_known) {
		text_add(text, "; other programs used ");
		add_ns(text, rivals->others_ns);
		text_add(text, " of CPU time");
	}
	if (rivals->used_known && rivals->steal_ns) {
		text_add(text, ", other virtual machines ");
		add_ns(text, rivals->steal_ns);
		text_add(text, " (steal)");
	}
	add_cpu_holders(text, &rivals->holders);
}

static bool are_blamed(const struct rules_ctx *ctx, const struct rivals *rivals)
{
	return rivals->known && rivals->share >= ctx->thresholds->cpu_contention_others;
}

static const char *contention_remedy(const struct rules_ctx *ctx, const struct rivals *rivals)
{
	if (!rivals->known)
		return "More threads are runnable than there are CPUs: see which other programs "
		       "run, and lower the number of threads (OMP_NUM_THREADS) and of data loader "
		       "workers.";
	if (!are_blamed(ctx, rivals))
		return "The program has more runnable threads than CPUs: lower OMP_NUM_THREADS and "
		       "the number of data loader workers.";
	if (rivals->stolen)
		return "The hypervisor gives these CPUs to other guests: ask for dedicated CPUs, "
		       "or measure at another time.";
	return "Other programs use the CPUs: move them, lower their priority (nice, a cgroup's "
	       "cpu.weight), or reserve CPUs for this program (taskset, cpusets).";
}

/* What others take weighs by the part that is theirs, a degree lower. */
static enum finding_severity contention_severity(const struct rules_ctx *ctx,
						 const struct rivals *rivals, double share)
{
	bool high = share >= ctx->thresholds->cpu_contention_high;

	if (are_blamed(ctx, rivals))
		return high ? FINDING_MEDIUM : FINDING_LOW;
	return high ? FINDING_HIGH : FINDING_MEDIUM;
}

void rules_contention(struct rules_ctx *ctx)
{
	struct thread_sums threads = sum_threads(ctx->process);
	double wanted = (double)threads.on_cpu_ns + (double)threads.runnable_ns, share;
	struct note note = {
		.bottleneck = BOTTLENECK_CONTENTION, .confidence = 1, .look = "Threads; Waiting"};
	struct rivals rivals;

	if ((double)threads.runnable_ns <
	    ctx->thresholds->cpu_contention_waiting * (double)ctx->profile->duration_ns)
		return;
	share = (double)threads.runnable_ns / wanted;
	if (share < ctx->thresholds->cpu_contention_medium)
		return;
	rivals = find_rivals(ctx);
	add_process_name(&note.subject, ctx->process);
	text_add(&note.evidence, "its threads waited ");
	add_ns(&note.evidence, threads.runnable_ns);
	text_add(&note.evidence, " for a CPU and ran for ");
	add_ns(&note.evidence, threads.on_cpu_ns);
	text_add(&note.evidence, " (");
	add_percent(&note.evidence, share);
	text_add(&note.evidence, " waiting)");
	if (ctx->profile->cpus_count)
		text_printf(&note.evidence, "; this machine has %u CPUs", ctx->profile->cpus_count);
	add_rivals(&note.evidence, &rivals);
	text_printf(&note.threshold,
		    "waiting for at least %g %% of runnable time (high: %g %%; one level lower "
		    "if other programs explain %g %% of it)",
		    ctx->thresholds->cpu_contention_medium * 100,
		    ctx->thresholds->cpu_contention_high * 100,
		    ctx->thresholds->cpu_contention_others * 100);
	text_add(&note.suggestion, contention_remedy(ctx, &rivals));
	note.share = wall_share(ctx->process, ctx->driver->runnable_ns);
	note.gain_ns = note.share * rules_unit_ns(ctx);
	text_add(&note.headline, "CPU CONTENTION: ");
	add_process_name(&note.headline, ctx->process);
	text_add(&note.headline, " waits for a CPU for ");
	add_percent(&note.headline, note.share);
	text_add(&note.headline, " of the wall time");
	add_cpu_holders(&note.headline, &rivals.holders);
	rules_ctx_add(ctx, "CpuContention", contention_severity(ctx, &rivals, share), share, &note);
}
