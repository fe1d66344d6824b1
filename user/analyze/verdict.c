// SPDX-License-Identifier: BSD-2-Clause
/*
 * The one sentence that a report begins with: the first finding's class and size or, where there is
 * none, where the time goes; and what is said of a process in which nothing was called.
 *
 *     INPUT-BOUND: 38.0 % of each 212 ms step waits for the DataLoader (0 workers; 1 would hide
 *     it); its own thread prepares it, mostly in normalize (features.py:88).
 *     HEALTHY: no problem found; 93.1 % of each 212 ms step computes, most of it in at::_ops::mm
 *     (63.4 % of the wall time), at 78.0 % of the roof of 2 cores.
 *     No problem found: trainer (pid 4242) used 1.72 of 2 CPUs in 10.0 s; its main thread spent
 *     84.0 % of its CPU time in main (train.py:12), in xgboost Booster.update (core.py:2391).
 *     No problem found: trainer (pid 4242) spent 62.0 % of 10.0 s in gemm (12,345 calls of 502 µs).
 */
#include "analyze/death.h"
#include "analyze/hottest.h"
#include "analyze/leaks.h"
#include "analyze/location.h"
#include "analyze/roofline.h"
#include "analyze/rules_ctx.h"
#include "analyze/stack_kind.h"
#include "base/escape.h"
#include "base/units.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

/* Below this share of the wall time a function does not stand for its process. */
#define VERDICT_SHARE  0.05
#define VERDICT_SECOND 0.10

/* " used 1.72 of 2 CPUs" */
static void add_cpu(struct text *text, const struct profile_process *p)
{
	if (cpu_share(p) < 0)
		return;
	text_add(text, " used ");
	add_cpu_use(text, p);
}

/* Only memory was traced, by request or because nothing else is known. */
static bool say_memory(struct text *text, const struct profile_process *p)
{
	const struct profile_memory *memory = NULL;

	/* of several domains the one with the most bytes */
	FOR_EACH (domain, p->memory)
		if (domain->allocs.value &&
		    (!memory || domain->allocated_bytes.value > memory->allocated_bytes.value))
			memory = domain;
	if (!memory)
		return false;
	add_process_name(text, p);
	text_printf(text, " allocated %s of %s in %s (%s allocations",
		    as_bytes(memory->allocated_bytes.value), memory_words(memory),
		    as_ns(profile_wall_ns(p)), as_count(memory->allocs.value));
	if (memory->current_bytes != PROFILE_ABSENT)
		text_printf(text, ", %s of it still live", as_bytes(memory->current_bytes));
	text_add(text, "). It called none of the functions that are traced.");
	return true;
}

/* The recording may have been too short to see anything. */
static void add_late(struct text *text, const struct profile *profile)
{
	struct profile_late_sum sum = profile_late_sum(profile);

	if (sum.ended_count)
		text_printf(text,
			    " %s process%s ended before probes could be attached, the "
			    "longest-lived after %s: calls there are not recorded.",
			    as_count(sum.ended_count), sum.ended_count == 1 ? "" : "es",
			    as_ns(sum.longest->late_ns));
	if (sum.late_count)
		text_printf(text, " %s process%s traced late, by up to %s.",
			    as_count(sum.late_count), sum.late_count == 1 ? " was" : "es were",
			    as_ns(sum.latest->late_ns));
}

/* "its main thread", "thread worker (tid 43)" */
static void add_thread_name(struct text *text, const struct profile_process *p, uint32_t tid)
{
	const char *name = profile_thread_name(p, tid);

	if (tid == p->pid) {
		text_add(text, "its main thread");
		return;
	}
	text_add(text, "its thread ");
	escape_name(text, name[0] ? name : "?");
	text_printf(text, " (tid %u)", tid);
}

/* A function with less than this share of all threads' CPU time is not named. */
#define NATIVE_SHARE 0.10

/* "; 31.0 % of all threads' CPU time is in HistEvaluator::Enumerate (libxgboost.so)" */
static void add_native_share(struct text *text, const struct process_account *account,
			     enum account_class class, const struct hottest *said)
{
	double cpu_ns =
		(double)(account->all.ns[ACCOUNT_COMPUTING] + account->all.ns[ACCOUNT_SPINNING]);
	struct place native = account_native(account, class);
	uint64_t ns = class == ACCOUNT_SPINNING ? account->all.ns[class] : native.ns;

	if (!native.frame || cpu_ns <= 0 || (double)ns < NATIVE_SHARE * cpu_ns ||
	    (class != ACCOUNT_SPINNING &&
	     ((said->native.frame && frame_is_same_function(said->native.frame, native.frame)) ||
	      (said->place.frame && frame_is_same_function(said->place.frame, native.frame)))))
		return;
	text_printf(text, "; %s of all threads' CPU time %s ",
		    as_percent(fmin((double)ns / cpu_ns, 1)),
		    class == ACCOUNT_SPINNING ? "only polls, in" : "is in");
	add_native(text, native.frame);
}

/* ", for fit (train.py:8)": where others, the main thread or the parent, wait for what runs at the
 * hottest place, if that is no line of the program. */
static void add_outer_line(struct text *text, const struct process_account *account,
			   const struct hottest *hottest)
{
	const struct profile_frame *join = account->leads[ACCOUNT_JOIN], *line = account->job_line;
	struct lines callers = {0};

	if (location_is_own_python(hottest->place.frame))
		return;
	if (!line && !hottest->tid && account->joins && join && location_is_own_python(join)) {
		line = join;
	} else if (!line && !hottest->tid) {
		FOR_EACH (place, account->places)
			if (place->own && place->native && location_is_own_python(place->own) &&
			    frame_is_same_function(place->native, hottest->place.frame))
				lines_add(&callers, place->own, place->ns);
		line = lines_lead(&callers).frame ?: account->main_line;
	}
	location_after(text, ", for ", line);
}

/* Below this share of the time a process that waits has too few samples to say where it runs. */
#define MOSTLY_SHARE 0.02

static bool is_too_brief(const struct hottest *hottest, const struct profile_process *p)
{
	return (double)hottest->all_ns < MOSTLY_SHARE * (double)profile_wall_ns(p);
}

/* A traced function with less than this share of the hottest place is not named. */
#define CALLS_SHARE 0.25

static const struct profile_row *row_of(const struct profile_process *p, uint32_t function)
{
	FOR_EACH (row, p->rows)
		if (row->function == function)
			return row;
	return NULL;
}

/* " (12,345 calls of gemm, 502 µs each)": the traced function that runs at the hottest place */
static void add_calls(struct text *text, const struct profile *profile,
		      const struct profile_process *p, const struct hottest *hottest)
{
	const struct profile_row *row = row_of(p, hottest->function);

	if (!row || (double)hottest->function_ns < CALLS_SHARE * (double)hottest->place.ns)
		return;
	text_printf(text, " (%s%s", as_count(row->calls_count),
		    row->calls_count == 1 ? " call of " : " calls of ");
	add_function_name(text, profile, row->function);
	if (row->avg_ns != PROFILE_ABSENT) {
		text_add(text, row->calls_count == 1 ? ", " : ", each ");
		add_ns(text, row->avg_ns);
	}
	text_add(text, ")");
}

/* The class of wait that takes most of the time of the thread that the verdict is about; COMPUTING:
 * none does. */
static enum account_class main_wait(const struct process_account *account)
{
	const struct account *thread = account_of_thread(account, account->tid);

	/* a thread of one request says nothing of its server */
	if (!thread || account_is_brief(account, thread))
		return ACCOUNT_COMPUTING;
	for (int k = ACCOUNT_JOIN; k < ACCOUNT_UNKNOWN; k++)
		if (2 * thread->ns[k] >= thread->wall_ns && thread->ns[k])
			return (enum account_class)k;
	return ACCOUNT_COMPUTING;
}

/* "; 62.0 % of the time its main thread was sleeping, in poll (poller.py:4)" */
static void add_main_wait(struct text *text, const struct profile_process *p,
			  const struct process_account *account, const struct hottest *hottest)
{
	const struct account *thread = account_of_thread(account, account->tid);
	enum account_class class = main_wait(account);

	if (class == ACCOUNT_COMPUTING)
		return;
	text_printf(text, "; %s of the time ",
		    as_percent((double)thread->ns[class] / (double)thread->wall_ns));
	if (hottest->tid == account->tid)
		text_add(text, "it");
	else
		add_thread_name(text, p, account->tid);
	text_printf(text, " was %s", account_class_words(class));
	if (account->tid == p->pid && account->main_line &&
	    !(hottest->place.frame &&
	      frame_is_same_function(hottest->place.frame, account->main_line)))
		location_after(text, ", mostly in ", account->main_line);
}

/* "; its child processes used 1.20 s of CPU time, burst (pid 43) most, in main (burst.c:3)" */
static void add_children(struct text *text, const struct profile *profile,
			 const struct analysis *all, const struct profile_process *p)
{
	const struct profile_process *busiest = NULL;
	struct hottest hottest;
	uint64_t cpu_ns = 0;

	FOR_EACH (child, profile->processes) {
		if (!profile_is_child(profile, child, p) || child->cpu_ns == PROFILE_ABSENT)
			continue;
		cpu_ns += child->cpu_ns;
		if (!busiest || child->cpu_ns > busiest->cpu_ns)
			busiest = child;
	}
	if (!cpu_ns)
		return;
	text_printf(text, "; its child processes used %s of CPU time, ", as_ns(cpu_ns));
	add_process_name(text, busiest);
	text_add(text, " most");
	hottest = hottest_of_process(&all->processes[busiest - profile->processes].account);
	if (hottest.place.frame) {
		text_add(text, ", in ");
		add_hottest(text, &hottest);
	}
}

/* Ten samples of a thread: less shows no problem, and rules none out. */
#define JUDGED_NS 100000000u

static void add_no_problem(struct text *text, const struct profile_process *p)
{
	text_add(text,
		 profile_wall_ns(p) < JUDGED_NS ? "Too short to judge: " : "No problem found: ");
}

/* From this share of the CPU time on system calls are what a process runs. */
#define KERNEL_SHARE 0.50

/* " used 1.72 of 2 CPUs in 10.0 s, 78.0 % of it in the kernel", "ran for 10.0 s" */
static void add_use(struct text *text, const struct profile_process *p)
{
	add_process_name(text, p);
	add_cpu(text, p);
	text_add(text, cpu_share(p) < 0 ? " ran for " : " in ");
	add_ns(text, profile_wall_ns(p));
	if (cpu_share(p) < MOSTLY_SHARE || p->cpu_system_ns == PROFILE_ABSENT ||
	    (double)p->cpu_system_ns < KERNEL_SHARE * (double)p->cpu_ns)
		return;
	text_printf(text, ", %s of it in the kernel",
		    as_percent(fmin((double)p->cpu_system_ns / (double)p->cpu_ns, 1)));
}

/* Says which functions the samples show, traced or not: "; its main thread spent 84.0 % of its CPU
 * time in main (train.py:12), in xgboost Booster.update (core.py:2391)" */
static void say_sampled(struct text *text, const struct profile *profile,
			const struct analysis *all, const struct profile_process *p)
{
	const struct process_account *account = &all->processes[p - profile->processes].account;
	struct hottest hottest = hottest_of_process(account);
	bool names_place = !account->joins_children || !is_too_brief(&hottest, p);

	add_no_problem(text, p);
	add_use(text, p);
	if (names_place && hottest.place.frame) {
		text_add(text, "; ");
		if (hottest.tid)
			add_thread_name(text, p, hottest.tid);
		else
			text_add(text, "its threads");
		text_printf(text, " spent %s of %s CPU time in ",
			    as_percent((double)hottest.place.ns / (double)hottest.all_ns),
			    hottest.tid ? "its" : "their");
		add_hottest(text, &hottest);
		add_outer_line(text, account, &hottest);
		add_calls(text, profile, p, &hottest);
		add_polling(text, &hottest);
	}
	if (names_place && account->threads_count > 1)
		add_native_share(text, account, ACCOUNT_COMPUTING, &hottest);
	if (names_place && !hottest.polling.frame)
		add_native_share(text, account, ACCOUNT_SPINNING, &hottest);
	add_main_wait(text, p, account, &hottest);
	if (account->joins_children)
		add_children(text, profile, all, p);
	text_add(text, ".");
}

/* Without samples only traced functions are known. */
static void say_dominating(struct text *text, const struct profile *profile,
			   const struct profile_process *p)
{
	const struct profile_row *top = &p->rows[0];
	double cpu = cpu_share(p), share = wall_share(p, top->self_ns);

	add_no_problem(text, p);
	add_process_name(text, p);
	if (share > 1) {
		text_printf(text, " spent %s of its threads' time in ", as_ns(top->self_ns));
	} else {
		text_printf(text, " spent %s of %s in ", as_percent(share),
			    as_ns(profile_wall_ns(p)));
	}
	add_function_name(text, profile, top->function);
	text_printf(text, " (%s%s%s)", as_count(top->calls_count),
		    top->calls_count == 1 ? " call of " : " calls of ", as_ns(top->avg_ns));
	if (p->rows_count > 1 && share <= 1 &&
	    wall_share(p, p->rows[1].self_ns) >= VERDICT_SECOND) {
		text_printf(text, ", then %s in ", as_percent(wall_share(p, p->rows[1].self_ns)));
		add_function_name(text, profile, p->rows[1].function);
	}
	if (cpu >= 0 && share <= 1 && cpu < share / 2) {
		text_add(text, ", mostly waiting: it");
		add_cpu(text, p);
	}
	text_add(text, ".");
}

static void add_death(struct text *text, const struct profile *profile,
		      const struct profile_process *p, const struct finding *first)
{
	/* a finding says it */
	if (!profile->target_killed || (first && first->bottleneck == BOTTLENECK_DEATH))
		return;
	if (!p->exited || !WIFSIGNALED(p->status)) {
		text_add(text, " The target was killed or disappeared during the recording.");
		return;
	}
	text_add(text, " It ");
	death_add(text, profile, p);
	text_printf(text, ", after %s.", as_ns(profile_wall_ns(p)));
}

/* " Its memory grows by 1.88 MiB/s, mostly in keep (leak.c:5).": it may be a leak, but an idle
 * program's first finding is that it waits. */
static void add_growth(struct text *text, const struct profile_process *p,
		       const struct process_analysis *analysis, const struct finding *said)
{
	enum rss_part part = analysis->growth.part;

	if (!analysis->growth.grows)
		return;
	FOR_EACH (finding, analysis->findings) {
		const char *option = growth_option_words(p);

		if (!finding_is_growth(finding) || finding == said)
			continue;
		text_printf(text, " Its %smemory grows by %s/s", part == RSS_SHMEM ? "shared " : "",
			    as_bytes(u64_of(analysis->growth.parts[part].per_s)));
		if (finding->place.function)
			text_printf(text, ", mostly in %s", finding->subject);
		else if (option && part != RSS_SHMEM)
			text_printf(text, ": %s", option);
		text_add(text, ".");
		return;
	}
}

const struct finding *first_problem(const struct process_analysis *analysis)
{
	for (size_t i = 0; i < analysis->findings_count; i++)
		if (analysis->findings[i].bottleneck != BOTTLENECK_NONE)
			return analysis->findings[i].severity <= FINDING_MEDIUM
				       ? &analysis->findings[i]
				       : NULL;
	return NULL;
}

/* A finding about less than this share of the time does not say where the rest goes. */
#define NAMED_SHARE 0.50

/* Does the sentence name the hottest place, or the program's own line with most of the time? */
static bool names_hottest(const struct text *sentence, const struct finding *finding,
			  const struct hottest *hottest)
{
	const struct finding_place *place = &finding->place;
	const struct profile_frame *frame = hottest->place.frame;
	struct text name = {0};
	bool is_said;

	if (!place->function)
		return false;
	escape_display(&name, place->function);
	is_said = strstr(text_peek(sentence), text_peek(&name)) != NULL;
	text_clear(&name);
	if (!is_said)
		return false;
	if (finding->bottleneck == BOTTLENECK_IMBALANCE)
		return !strcmp(place->function, frame->function);
	if (finding->share < NAMED_SHARE && hottest->native.frame)
		return false;
	return (place->is_own && frame->language == PERFX_LANGUAGE_PYTHON) ||
	       !strcmp(place->function, frame->function);
}

/* " It runs mostly main (train.py:12), in torch Linear.forward (linear.py:134)." */
static void add_hottest_sentence(struct text *text, const struct profile_process *p,
				 const struct process_analysis *analysis,
				 const struct finding *finding)
{
	struct hottest hottest = hottest_of_process(&analysis->account);
	bool joined = analysis->account.joins && hottest.place.frame &&
		      !location_is_own_python(hottest.place.frame);

	if (finding->bottleneck == BOTTLENECK_DEATH || !hottest.place.frame ||
	    is_too_brief(&hottest, p) || (names_hottest(text, finding, &hottest) && !joined))
		return;
	text_add(text, " It runs mostly ");
	add_hottest(text, &hottest);
	add_outer_line(text, &analysis->account, &hottest);
	add_polling(text, &hottest);
	text_add(text, ".");
}

/* A process that computes for less than this share of the time does something else. */
#define HEALTHY_COMPUTE 0.50

/* The calls whose operations are counted take at least this share of what computes, or their rate
 * is not that of the whole. */
#define ROOF_OF_MOST 0.50

/* ", at 42.1 % of the roof of 1 core"; computing: share of the time. */
static void add_roof(struct text *text, const struct profile *profile,
		     const struct profile_process *p, double computing)
{
	struct roofline line = roofline_of_calls(profile, p);
	double counted;

	if (line.flops_per_s <= 0 || line.attainable_flops_per_s <= 0)
		return;
	counted = roofline_flops_per_s(p) / line.flops_per_s;
	if (counted < ROOF_OF_MOST * computing)
		return;
	text_printf(text, ", at %s of the roof of %.3g core%s",
		    as_percent(line.flops_per_s / line.attainable_flops_per_s), line.roof.cores,
		    line.roof.cores > 1 ? "s" : "");
}

/* The GPU is the limit: it works nearly all the time. */
static bool say_gpu_works(struct text *text, const struct profile *profile,
			  const struct profile_process *p, const struct process_account *account,
			  const struct thresholds *thresholds)
{
	struct step_rates rates = steps_rates(profile, p);
	struct hottest hottest = hottest_of(account, account->tid);
	const struct profile_gpu_kernel *kernel = p->gpu.kernels;

	/* the driver samples devices, which others may use as well */
	if (!p->gpu.launches_count || !gpu_is_limit(p, thresholds))
		return false;
	text_printf(text, "%s: no problem found; ", bottleneck_headline(BOTTLENECK_HEALTHY));
	add_gpu_busy(text, p);
	if (p->gpu.timed && p->gpu.kernels_count && !kernel->other && p->gpu.kernel_ns &&
	    kernel->total_ns != PROFILE_ABSENT) {
		text_add(text, ", most of it in ");
		escape_name(text, kernel->name);
		text_printf(text, " (%s of the kernels' time)",
			    as_percent((double)kernel->total_ns / (double)p->gpu.kernel_ns));
	}
	if (p->steps.gpu.computes && rates.mfu >= 0)
		text_printf(text, ", at %s of its peak", as_percent(rates.mfu));
	if (hottest.place.frame) {
		text_add(text, "; the CPU runs mostly ");
		add_hottest(text, &hottest);
		add_polling(text, &hottest);
	}
	text_add(text, ".");
	return true;
}

/* Its operators are the work; otherwise it is not said to be healthy. */
static bool say_healthy(struct text *text, const struct profile *profile,
			const struct profile_process *p, const struct process_analysis *analysis)
{
	const struct step_time *time = &analysis->time;
	double computing = time->known ? time->ns[TIME_COMPUTE] / time->unit_ns : 0;
	struct hottest own = hottest_of(&analysis->account, analysis->account.tid);
	const struct profile_row *most;

	if (computing < HEALTHY_COMPUTE || !p->compute.measured)
		return false;
	text_printf(text, "%s: no problem found; ", bottleneck_headline(BOTTLENECK_HEALTHY));
	add_percent(text, computing);
	if (p->steps.count)
		text_printf(text, " of each %s step computes", as_ns(p->steps.avg_ns));
	else
		text_add(text, " of the time computes");
	/* by samples where there are some: calls that take long may only wait */
	most = row_of(p, hottest_function(&analysis->account));
	for (size_t i = 0; i < p->rows_count && !most; i++) {
		const struct profile_function *function =
			profile_function(profile, p->rows[i].function);

		most = function && !function_is_marker(function) ? &p->rows[i] : NULL;
	}
	if (most) {
		text_add(text, ", most of it in ");
		add_function_name(text, profile, most->function);
		text_add(text, " (");
		add_timed_share(text, profile, p, most->function, most->self_ns);
		text_add(text, ")");
	}
	if (own.place.frame && own.place.frame->language == PERFX_LANGUAGE_PYTHON)
		location_after(text, ", called from ", own.place.frame);
	add_roof(text, profile, p, computing);
	text_add(text, profile->partial & PROFILE_PARTIAL_LOSSY ? "; some data was lost." : ".");
	return true;
}

/* Does it say what the GPU does? */
static bool say_where(struct text *text, const struct profile *profile, const struct analysis *all,
		      const struct profile_process *p, const struct thresholds *thresholds)
{
	const struct process_analysis *analysis = &all->processes[p - profile->processes];

	if (say_gpu_works(text, profile, p, &analysis->account, thresholds))
		return true;
	if (say_healthy(text, profile, p, analysis))
		return false;
	if (analysis->account.places_count || main_wait(&analysis->account) != ACCOUNT_COMPUTING)
		say_sampled(text, profile, all, p);
	else if (p->rows_count && p->rows[0].avg_ns == PROFILE_ABSENT) {
		add_process_name(text, p);
		text_add(text, " called ");
		add_function_name(text, profile, p->rows[0].function);
		text_printf(text, " %s%s%s; no call could be timed.",
			    as_count(p->rows[0].calls_count),
			    p->rows[0].calls_count == 1 ? " time in " : " times in ",
			    as_ns(profile_wall_ns(p)));
	} else if (p->rows_count && wall_share(p, p->rows[0].self_ns) >= VERDICT_SHARE)
		say_dominating(text, profile, p);
	else if (p->rows_count || !say_memory(text, p)) {
		add_no_problem(text, p);
		add_use(text, p);
		if (p->rows_count) {
			text_add(text, "; of the traced functions ");
			add_function_name(text, profile, p->rows[0].function);
			text_add(text, " took most, ");
			add_wall_share(text, wall_share(p, p->rows[0].self_ns));
		}
		text_add(text, ".");
	}
	return false;
}

char *verdict_of(const struct profile *profile, const struct analysis *all,
		 const struct thresholds *thresholds)
{
	const struct process_analysis *analysis = &all->processes[all->first_process];
	const struct profile_process *p = &profile->processes[all->first_process];
	struct text text = {0};
	bool says_gpu = all->first && (all->first->bottleneck == BOTTLENECK_GPU_STARVED ||
				       all->first->bottleneck == BOTTLENECK_LAUNCH);

	if (!profile->processes_count) {
		text_add(&text,
			 profile->target_exited
				 ? "Nothing was traced: the program ended before tracing "
				   "began. perfx-trace run -- COMMAND traces it from its start."
				 : "Nothing was traced: the capture contains no process.");
		return text_take(&text);
	}
	if (all->first) {
		if (all->first->headline[0])
			text_printf(&text, "%s.", all->first->headline);
		else
			text_printf(&text, "%s: %s: %s.",
				    bottleneck_headline(all->first->bottleneck),
				    all->first->subject, all->first->evidence);
		add_hottest_sentence(&text, p, analysis, all->first);
	} else {
		says_gpu = say_where(&text, profile, all, p, thresholds);
	}
	if (!says_gpu && p->gpu.launches_count && gpu_busy_share(p) >= 0) {
		text_add(&text, " Meanwhile ");
		add_gpu_busy(&text, p);
		text_add(&text, ".");
	}
	if (analysis->silenced_count)
		text_printf(&text, " %zu finding%s silenced.", analysis->silenced_count,
			    analysis->silenced_count == 1 ? " is" : "s are");
	/* samples show what it did, traced late or not */
	if (profile->calls_count == 0 && !account_is_known(&analysis->account))
		add_late(&text, profile);
	/* the fastest leak, if it is grave and not said already */
	FOR_EACH (finding, analysis->findings) {
		if (strcmp(finding->kind, LEAK_KIND) || finding->severity > FINDING_MEDIUM ||
		    finding == all->first)
			continue;
		text_printf(&text, " It seems to leak memory in %s: %s per hour.", finding->subject,
			    as_bytes(u64_of(finding->weight * 3600)));
		break;
	}
	add_growth(&text, p, analysis, all->first);
	add_death(&text, profile, p, all->first);
	return text_take(&text);
}

/* Another traced process that was busier. */
static void add_other(struct text *text, const struct profile *profile,
		      const struct profile_process *p)
{
	const struct profile_process *busiest = p;

	/* compares times, not shares: a process that lives for a moment does not do the work */
	FOR_EACH (other, profile->processes)
		if (other->cpu_ns != PROFILE_ABSENT &&
		    (busiest->cpu_ns == PROFILE_ABSENT || other->cpu_ns > busiest->cpu_ns))
			busiest = other;
	if (busiest == p || cpu_share(busiest) < 0.10)
		return;
	text_add(text, " The work may be done by ");
	add_process_name(text, busiest);
	text_add(text, ", which");
	add_cpu(text, busiest);
	text_add(text, ".");
}

/* Says why nothing was called, unless the account of time says what the process did instead. */
static void add_reason(struct text *text, const struct profile *profile,
		       const struct profile_process *p, const struct process_account *account)
{
	double cpu = cpu_share(p);

	if (profile->probes_count == 0)
		text_add(text, " No probe was attached: see the reasons for each function that is "
			       "not attached.");
	else if (p->unmatched_entries)
		text_printf(text,
			    " %llu call%s of traced functions had not returned at the end: record "
			    "for longer than a call takes (-d).",
			    (unsigned long long)p->unmatched_entries,
			    p->unmatched_entries == 1 ? "" : "s");
	else if (account_is_known(account))
		return;
	else if (cpu >= 0 && cpu < 0.05)
		text_add(text, " It is idle or blocked: it waits for input, a lock, the network, a "
			       "GPU or another process.");
	else if (cpu >= 0 && p->lines_count)
		text_add(text,
			 " It is busy in other functions: Where in the code has their lines.");
	else if (cpu >= 0)
		text_add(text,
			 " It is busy in other functions: name them with -F, such as -F "
			 "'PROGRAM:*'; `perfx-trace probes -p PID` lists what can be traced.");
	else
		text_add(text, " It may be idle, blocked, or busy in other functions.");
}

char *silence_of(const struct profile *profile, const struct profile_process *p,
		 const struct process_account *account)
{
	static const struct {
		const char *letters, *words;
	} states[] = {
		{"R", "running"},  {"D", "in uninterruptible sleep (I/O)"},
		{"S", "sleeping"}, {"Tt", "stopped"},
		{"I", "idle"},	   {"ZX", "dead"},
	};
	const char *separator = "; last states of its threads: ";
	struct text text = {0};
	bool is_late = false;

	/* a process that was traced late may have called them before */
	FOR_EACH (late, profile->late)
		is_late |= late->process == p->index;
	if (is_late)
		text_add(&text, "Once its probes were attached, no call of an operator, library or "
				"range that perfx-trace knows was seen");
	else
		text_add(&text, "It called none of the functions that are traced: operators and "
				"libraries that perfx-trace knows, ranges that the program marks, "
				"or those of -F");
	if (!account_is_known(account)) {
		if (p->cpu_ns != PROFILE_ABSENT)
			text_printf(&text, "; the process used %s of CPU time in %s",
				    as_ns(p->cpu_ns), as_ns(profile_wall_ns(p)));
		/* "; last states of its threads: 2 sleeping, 1 running" */
		for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
			unsigned count = 0;

			FOR_EACH (thread, p->threads)
				count += thread->state && strchr(states[i].letters, thread->state);
			if (!count)
				continue;
			text_printf(&text, "%s%u %s", separator, count, states[i].words);
			separator = ", ";
		}
	}
	text_add(&text, ".");
	add_reason(&text, profile, p, account);
	add_other(&text, profile, p);
	return text_take(&text);
}
