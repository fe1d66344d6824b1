// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a process is for the job; and which findings remain, and in which order: rules judge one
 * number each, and several see the same cause. What only repeats another finding goes; of two about
 * one place and one kind of time the better one remains; where what they rest on was lost, all
 * weigh a degree less and the least go.
 */
#include "analyze/catalogue.h"
#include "analyze/remedy.h"
#include "analyze/rules_ctx.h"
#include "analyze/wait_class.h"
#include "base/escape.h"
#include "base/order.h"
#include "elf/glob.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void drop(struct rules_ctx *ctx, size_t at)
{
	finding_clear(&ctx->findings[at]);
	ctx->findings[at] = ctx->findings[--ctx->findings_count];
}

/* A process that uses so much of a CPU computes itself; less may be its start. */
#define COMPUTES 0.50
/* One that works on what it reads waits for it again and again, in a second. */
#define READS_PER_S 5

/* Does it work on what its children send it? */
static bool is_fed(const struct profile *profile, const struct process_analysis *accounts,
		   const struct profile_process *parent, const struct thresholds *thresholds)
{
	const struct account *all = &accounts[parent - profile->processes].account.all;
	double cpu = cpu_share(parent) - wall_share(parent, all->ns[ACCOUNT_SPINNING]);
	uint64_t reads = 0;

	if (parent->steps.count)
		return true;
	FOR_EACH (row, parent->rows)
		if (remedy_kind(profile, parent, row) == REMEDY_DATA)
			return true;
	if (accounts[parent - profile->processes].account.joins_children)
		return false;
	FOR_EACH_OF (wait, parent->blocked)
		if (wait->tid == parent->pid && wait_class(wait) == ACCOUNT_INPUT)
			reads += wait->count;
	return cpu >= COMPUTES ||
	       (cpu >= thresholds->idle_target_cpu && rate_of(parent, reads) >= READS_PER_S);
}

int find_roles(struct analysis *analysis, const struct profile *profile,
	       const struct thresholds *thresholds)
{
	const struct profile_process **busiest =
		calloc(profile->processes_count + 1, sizeof(*busiest));

	if (!busiest)
		return -ENOMEM;
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *process = &profile->processes[i], *above = process;

		if (process->cpu_ns == PROFILE_ABSENT)
			continue;
		/* pids that were used again could form a loop */
		for (size_t depth = 0; depth < profile->processes_count; depth++) {
			const struct profile_process **below;

			above = profile_parent(profile, above);
			if (!above)
				break;
			below = &busiest[above - profile->processes];
			if (!*below || process->cpu_ns > (*below)->cpu_ns)
				*below = process;
		}
	}
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *process = &profile->processes[i];
		const struct profile_process *parent = profile_parent(profile, process);
		struct process_analysis *of = &analysis->processes[i];
		uint64_t own_ns = process->cpu_ns;
		bool children_work;

		if (process->steps.count)
			continue;
		if (parent && is_fed(profile, analysis->processes, parent, thresholds)) {
			of->role = PROCESS_WORKER;
			continue;
		}
		/* Do its children do the job? Compilers work for the process that starts them, and
		 * a process that polls for the GPU computes. A process that waits for its children
		 * most of the time may have worked before. */
		own_ns -= min_u64(own_ns, of->account.all.ns[ACCOUNT_SPINNING]);
		children_work = process->cpu_ns != PROFILE_ABSENT && busiest[i] &&
				!is_compiler_of_another(profile, busiest[i]) &&
				!process->gpu.launches_count &&
				busiest[i]->cpu_ns / (of->account.joins_children ? 1 : 2) > own_ns;
		if (children_work && !is_fed(profile, analysis->processes, process, thresholds))
			of->role = PROCESS_LAUNCHER;
	}
	free(busiest);
	return 0;
}

/* A symptom only repeats another finding, if that one has this share of the time. */
static const struct symptom {
	const char *kind, *const *causes;
	double least;
} symptoms[] = {
	{"InputWait", (const char *const[]){"DataBound", "Recompilation", NULL}, 0},
	{"DiskBound", (const char *const[]){"DiskWait", NULL}, 0},
	{"BlockedThread",
	 (const char *const[]){"Stopped", "DataBound", "InputWait", "OutputWait", "GilWait",
			       "LockWait", "DiskWait", "SleepWait", "ChildWait", "Recompilation",
			       NULL},
	 0.25},
	{"IdleTarget",
	 (const char *const[]){"Stopped", "CpuContention", "DataBound", "InputWait", "OutputWait",
			       "GilWait", "LockWait", "DiskWait", "SleepWait", "ChildWait",
			       "Recompilation", NULL},
	 0.25},
	/* of a program that does little else */
	{"PythonBound", (const char *const[]){"Recompilation", NULL}, 0.50},
	{"ChildWait", (const char *const[]){"Recompilation", NULL}, 0.50},
	{"OverheadBound",
	 (const char *const[]){"CpuContention", "Oversubscribed", "CpuThrottled", "Float64", NULL},
	 0.10},
	{"GpuStarved",
	 (const char *const[]){"Copies", "PythonBound", "TinyOperators", "OptimizerBound",
			       "PeriodicStall", "Recompilation", "GilWait", "LockWait", "DiskWait",
			       "SleepWait", "InputWait", "OutputWait", "ChildWait", "CpuContention",
			       "Stopped", NULL},
	 0.50},
	{"LowUtilization",
	 (const char *const[]){
		 "DataBound",	  "InputWait",	    "PythonBound",	 "GilWait",
		 "LockWait",	  "DiskWait",	    "SleepWait",	 "ChildWait",
		 "TinyOperators", "Copies",	    "Float64",		 "Recompilation",
		 "CpuContention", "Oversubscribed", "CpuThrottled",	 "OverheadBound",
		 "MemoryBound",	  "PeriodicStall",  "GarbageCollection", NULL},
	 0.10},
	{"LowParallelEfficiency",
	 (const char *const[]){"CpuContention", "Oversubscribed", "CpuThrottled", "GilWait", NULL},
	 0.10},
	/* its time is not work but the lack of a CPU */
	{"SlowOperation",
	 (const char *const[]){"CpuContention", "Oversubscribed", "CpuThrottled", NULL}, 0.25},
	{"TensorChurn", (const char *const[]){"Copies", LEAK_KIND, NULL}, 0},
	{"TinyCalls", (const char *const[]){"TinyOperators", NULL}, 0},
	{"UnreadCompute", (const char *const[]){"Recompilation", NULL}, 0},
};

bool finding_is_asked(const struct finding *finding)
{
	return !strcmp(finding->kind, "SlowStep");
}

/* Findings for which the recording was made come first, then by severity and saving; findings about
 * the capture come after those about the program. */
ORDER(by_rank, struct finding, DESCENDING(finding_is_asked(a), finding_is_asked(b)),
      DESCENDING(a->urgent, b->urgent), ASCENDING(a->severity, b->severity),
      ASCENDING(a->bottleneck == BOTTLENECK_NONE, b->bottleneck == BOTTLENECK_NONE),
      DESCENDING(a->gain_ns, b->gain_ns), DESCENDING(a->weight, b->weight))

/* A script is one function, whose lines do different things. */
static bool is_same_place(const struct finding *a, const struct finding *b)
{
	if (a->place.function && b->place.function)
		return !strcmp(a->place.function, b->place.function) &&
		       !strcmp(a->place.file, b->place.file) &&
		       (a->place.line == b->place.line ||
			strcmp(a->place.function, "<module>") != 0);
	return a->of_function && b->of_function && !strcmp(a->subject, b->subject);
}

static bool are_slow_steps(const struct finding *finding)
{
	static const char *const kinds[] = {"PeriodicStall", "UnevenSteps", NULL};

	return text_is_one_of(finding->kind, kinds);
}

/* Does `a` go where `b` is there? */
static bool is_repeated(const struct finding *a, const struct finding *b)
{
	if (a->bottleneck == BOTTLENECK_NONE || b->bottleneck == BOTTLENECK_NONE)
		return false;
	/* a call that waits may wait for the compilers that work meanwhile */
	if (!strcmp(a->kind, "SlowOperation") &&
	    (a->bottleneck == b->bottleneck ||
	     (a->bottleneck == BOTTLENECK_IDLE && b->bottleneck == BOTTLENECK_RECOMPILATION &&
	      b->share >= 0.50)))
		return true;
	if (a->bottleneck == b->bottleneck && are_slow_steps(a) && !are_slow_steps(b))
		/* another finding says more about what makes these steps slow */
		return a->bottleneck == BOTTLENECK_RECOMPILATION ||
		       a->bottleneck == BOTTLENECK_STOPPED ||
		       a->bottleneck == BOTTLENECK_CONTENTION || a->bottleneck == BOTTLENECK_DISK ||
		       a->bottleneck == BOTTLENECK_INPUT;
	/* these have one cause for the whole process */
	if (a->bottleneck == b->bottleneck &&
	    (a->bottleneck == BOTTLENECK_CONTENTION || a->bottleneck == BOTTLENECK_OVERSUBSCRIBED ||
	     a->bottleneck == BOTTLENECK_INPUT))
		return true;
	if (!is_same_place(a, b))
		return false;
	if (a->bottleneck == b->bottleneck ||
	    (b->bottleneck == BOTTLENECK_RECOMPILATION && are_slow_steps(a)))
		return true;
	/* a particular finding explains the Python or computing of a general one */
	return (a->bottleneck == BOTTLENECK_PYTHON || a->bottleneck == BOTTLENECK_COMPUTE) &&
	       (b->bottleneck == BOTTLENECK_INPUT || b->bottleneck == BOTTLENECK_OPERATORS ||
		b->bottleneck == BOTTLENECK_COPIES || b->bottleneck == BOTTLENECK_BANDWIDTH ||
		b->bottleneck == BOTTLENECK_STALL || b->bottleneck == BOTTLENECK_RECOMPILATION) &&
	       b->gain_ns >= a->gain_ns / 2;
}

/* Calls without a record are in sums; what was lost of memory is in the bounds of its numbers. */
bool rules_evidence_lost(const struct profile *profile)
{
	static const enum perfx_loss_kind losses[] = {
		PERFX_LOSS_MAP_FULL,	  PERFX_LOSS_NMISSED,	   PERFX_LOSS_UNDECODED,
		PERFX_LOSS_CONTROL_DROPS, PERFX_LOSS_SAMPLE_DROPS, PERFX_LOSS_GPU_RECORDS,
	};

	for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
		if (profile_loss_share(profile, losses[i]) > PROFILE_LOSSY_SHARE)
			return true;
	return false;
}

/* A finding of the user's own rules stays: `silence *` does not apply to it. */
static bool is_silenced(const struct rule_set *rules, const struct finding *finding)
{
	const struct finding_place *place = &finding->place;
	struct text subject = {0};
	bool silenced = false;

	escape_unmarked(&subject, finding->subject);
	FOR_EACH (silence, rules->silences)
		silenced |= glob_matches(silence->kind, finding->kind) &&
			    (!silence->of || glob_matches(silence->of, text_peek(&subject)) ||
			     (place->function && (glob_matches(silence->of, place->function) ||
						  glob_matches(silence->of, place->file))));
	text_clear(&subject);
	return silenced && finding_kind_named(finding->kind);
}

bool finding_is_growth(const struct finding *finding)
{
	return finding->severity <= FINDING_MEDIUM &&
	       (!strcmp(finding->kind, "MemoryGrowth") || !strcmp(finding->kind, "UntracedMemory"));
}

/* Time of the host, which a GPU may use. */
static const bool is_of_host[BOTTLENECKS] = {
	[BOTTLENECK_INPUT] = true,
	[BOTTLENECK_PYTHON] = true,
	[BOTTLENECK_GIL] = true,
	[BOTTLENECK_LOCK] = true,
	[BOTTLENECK_OPERATORS] = true,
	[BOTTLENECK_COPIES] = true,
	[BOTTLENECK_BANDWIDTH] = true,
	[BOTTLENECK_STALL] = true,
	[BOTTLENECK_RECOMPILATION] = true,
	[BOTTLENECK_DISK] = true,
	[BOTTLENECK_OUTPUT] = true,
	[BOTTLENECK_CHILD] = true,
	[BOTTLENECK_SLEEP] = true,
	[BOTTLENECK_CONTENTION] = true,
	[BOTTLENECK_OVERSUBSCRIBED] = true,
	[BOTTLENECK_IDLE] = true,
	[BOTTLENECK_STOPPED] = true,
	[BOTTLENECK_IMBALANCE] = true,
};

/* Utilization by the driver's samples may be wrong by this. */
#define GPU_TOLERANCE 0.05

/* Silences last: a finding that a silenced one has replaced stays away with it. */
void rules_rank(struct rules_ctx *ctx)
{
	double idle = 1 - gpu_busy_share(ctx->process) + GPU_TOLERANCE;
	bool leaks = false;

	/* A program without steps that sleeps, such as a server or a poller, keeps a pace: its leak
	 * is news, and its sleep is not. */
	FOR_EACH (finding, ctx->findings)
		leaks |= finding_is_growth(finding) ||
			 (finding->severity <= FINDING_MEDIUM && !strcmp(finding->kind, LEAK_KIND));
	FOR_EACH (finding, ctx->findings)
		if (leaks && !ctx->process->steps.count && !strcmp(finding->kind, "SleepWait"))
			finding->severity = FINDING_LOW;
	/* A program whose GPU is busy waits for it in one call or another: if only every 20th step
	 * reads the loss, that step takes long. Only the time in which the GPU has no work can be
	 * saved. */
	for (size_t i = ctx->findings_count; i-- > 0;)
		if (is_of_host[ctx->findings[i].bottleneck] && ctx->findings[i].share > idle &&
		    gpu_is_limit(ctx->process, ctx->thresholds))
			drop(ctx, i);
	for (size_t i = ctx->findings_count; i-- > 0;) {
		bool is_symptom = false;

		for (size_t k = 0; k < sizeof(symptoms) / sizeof(symptoms[0]); k++)
			FOR_EACH (cause, ctx->findings)
				is_symptom |= !strcmp(symptoms[k].kind, ctx->findings[i].kind) &&
					      cause->share >= symptoms[k].least &&
					      text_is_one_of(cause->kind, symptoms[k].causes);
		if (is_symptom)
			drop(ctx, i);
	}
	/* of each pair the second goes, in ranked order, so that the best of all stays */
	for (size_t i = 0; i < ctx->findings_count; i++) {
		for (size_t j = ctx->findings_count; j-- > 0;) {
			struct finding *a = &ctx->findings[i], *b = &ctx->findings[j];

			if (i == j || !is_repeated(a, b) ||
			    (is_repeated(b, a) && by_rank(a, b) <= 0))
				continue;
			drop(ctx, i--);
			break;
		}
	}
	for (size_t i = ctx->findings_count; i-- > 0;) {
		if (!is_silenced(ctx->rules, &ctx->findings[i]))
			continue;
		drop(ctx, i);
		ctx->silenced_count++;
	}
	/* findings about the capture itself are certain */
	for (size_t i = ctx->findings_count; i-- > 0 && ctx->evidence_lost;) {
		struct finding *finding = &ctx->findings[i];

		if (finding->bottleneck != BOTTLENECK_NONE && finding->severity == FINDING_LOW)
			drop(ctx, i);
		else if (finding->bottleneck != BOTTLENECK_NONE)
			finding->severity++;
	}
	if (ctx->findings_count)
		qsort(ctx->findings, ctx->findings_count, sizeof(*ctx->findings), by_rank);
}
