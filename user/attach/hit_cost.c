// SPDX-License-Identifier: BSD-2-Clause
#include "attach/hit_cost.h"

#include "base/clock.h"
#include "base/order.h"
#include "proc/maps.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Calibration targets: there are two of each, so that entry and exit and a return probe can be
 * measured without waiting until the links of the one are gone.
 */

#if defined(__x86_64__)

/* name, first instruction, what undoes it; the exit is a branch. */
#define CALIB_TARGET(name, first, undo)                                               \
	extern const unsigned char perfx_calib_##name[], perfx_calib_##name##_exit[]; \
	asm(".pushsection .text\n"                                                    \
	    ".p2align 4\n"                                                            \
	    ".globl perfx_calib_" #name ", perfx_calib_" #name "_exit\n"              \
	    ".hidden perfx_calib_" #name ", perfx_calib_" #name "_exit\n"             \
	    ".type perfx_calib_" #name ", @function\n"                                \
	    "perfx_calib_" #name ":\n" first "\n" undo "\n"                           \
	    "perfx_calib_" #name "_exit:\n"                                           \
	    "	jmp 1f\n"                                                               \
	    "1:	ret\n"                                                                \
	    ".size perfx_calib_" #name ", . - perfx_calib_" #name "\n"                \
	    ".popsection\n")

#define TWO_CALIB_TARGETS(name, first, undo) \
	CALIB_TARGET(name, first, undo);     \
	CALIB_TARGET(name##_by_return, first, undo)

TWO_CALIB_TARGETS(nop5, ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00", "");
TWO_CALIB_TARGETS(nop, "nop", "");
TWO_CALIB_TARGETS(push, "push %rbx", "pop %rbx");
TWO_CALIB_TARGETS(branch, "jmp 2f\n2:", "");
TWO_CALIB_TARGETS(stepped, "lea 1(%rax), %rax", "");

#define ROW(kind, name)                                                        \
	{                                                                      \
		.site = (kind), .call = (void (*)(void))perfx_calib_##name,    \
		.entry = perfx_calib_##name, .exit = perfx_calib_##name##_exit \
	}

#define ROWS(kind, name)                                     \
	{                                                    \
		ROW(kind, name), ROW(kind, name##_by_return) \
	}

static const struct calib_target calib_targets[][2] = {
	ROWS(PERFX_SITE_NOP5, nop5),	   ROWS(PERFX_SITE_NOP, nop),
	ROWS(PERFX_SITE_PUSH, push),	   ROWS(PERFX_SITE_BRANCH, branch),
	ROWS(PERFX_SITE_STEPPED, stepped),
};

#else

/* Plain C elsewhere: one kind, timed by return probe. */
static __attribute__((noinline)) void calib_target_plain(void)
{
	asm volatile("");
}

#define PLAIN                                                           \
	{                                                               \
		.site = PERFX_SITE_STEPPED, .call = calib_target_plain, \
		.entry = (const unsigned char *)calib_target_plain      \
	}
static const struct calib_target calib_targets[][2] = {{PLAIN, PLAIN}};

#endif

const struct calib_target *calib_target_of(enum perfx_site site, bool by_return)
{
	for (size_t i = 0; i < sizeof(calib_targets) / sizeof(calib_targets[0]); i++)
		if (calib_targets[i][by_return].site == site)
			return &calib_targets[i][by_return];
	return NULL;
}

int64_t calib_target_offset(const void *address)
{
	struct maps *maps = maps__read(getpid());
	const struct mapping *mapping = maps ? maps__find(maps, (uintptr_t)address) : NULL;
	int64_t offset =
		mapping ? (int64_t)((uintptr_t)address - mapping->start + mapping->file_offset)
			: -ENOENT;

	maps__free(maps);
	return offset;
}

/* Fewer runs than these are no account, nor are accounts of more than so many times the lowest. */
#define RUNS_LEAST 50
#define RUNS_TIMES 3

static double mean_ns(struct accounted_runs runs)
{
	return runs.count ? (double)runs.ns / (double)runs.count : 0;
}

bool run_accounts_add(struct run_accounts *accounts, struct accounted_runs runs)
{
	if (runs.count < RUNS_LEAST)
		return false;
	accounts->list[accounts->count++ % RUN_ACCOUNTS] = runs;
	return true;
}

double run_accounts_ns(const struct run_accounts *accounts)
{
	size_t count = accounts->count < RUN_ACCOUNTS ? accounts->count : RUN_ACCOUNTS;
	struct accounted_runs sum = {0};
	double lowest_ns = HUGE_VAL;

	for (size_t i = 0; i < count; i++)
		lowest_ns = fmin(lowest_ns, mean_ns(accounts->list[i]));
	for (size_t i = 0; i < count; i++) {
		if (mean_ns(accounts->list[i]) > RUNS_TIMES * lowest_ns)
			continue;
		sum.count += accounts->list[i].count;
		sum.ns += accounts->list[i].ns;
	}
	return mean_ns(sum);
}

/* Calls that are timed, one by one. */
#define CALLS 60
/* Calls whose spans and run times are taken: in a row. */
#define ROW_CALLS 50

/* Replaces the data in the caches nearest to a CPU, as a program does between two hits. */
#define WORK_BYTES_MIN (256l << 10)
#define WORK_BYTES_MAX (4l << 20)
#define LINE_BYTES     64

static void work_between(void)
{
	static volatile unsigned char data[WORK_BYTES_MAX];
	long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);

	bytes = bytes < WORK_BYTES_MIN ? WORK_BYTES_MIN : bytes;
	for (long i = 0; i < bytes && i < WORK_BYTES_MAX; i += LINE_BYTES)
		data[i]++;
}

/* ns of a call: the lower quartile, because noise only adds. */
static double time_call(const struct calib_target *calib_target)
{
	double calls[CALLS];

	calib_target->call(); /* page faults, the first-hit path, the nop5's rewriting */
	for (int i = 0; i < CALLS; i++) {
		uint64_t start;

		work_between();
		start = clock_monotonic_ns();
		calib_target->call();
		calls[i] = (double)(clock_monotonic_ns() - start);
	}
	qsort(calls, CALLS, sizeof(calls[0]), compare_double);
	return calls[CALLS / 4];
}

/* Puts a site of a calibration target into the tables and into points. */
static int add_point(struct tracer *tracer, const struct perfx_probe *probe,
		     const unsigned char *address, struct attach_point *point)
{
	int64_t offset = calib_target_offset(address), id = tracer__add_probe(tracer, probe);

	if (offset < 0 || id < 0)
		return -ENOENT;
	*point = (struct attach_point){.offset = (uint64_t)offset,
				       .probe = (uint32_t)id,
				       .by_return = probe->kind == PERFX_PROBE_RETURN};
	return 0;
}

/* Durations that the spans of the calibration targets' calls show. */
struct durations {
	double ns[SITE_KINDS][2 * CALLS];
	size_t count[SITE_KINDS];
};

static int take_span(void *ctx, void *data, size_t size)
{
	struct durations *durations = ctx;
	const struct perfx_span *span = data;
	size_t *count;

	if (size < PERFX_SPAN_PLAIN_BYTES || span->function >= SITE_KINDS || span->flags)
		return 0;
	count = &durations->count[span->function];
	if (*count < 2 * CALLS)
		durations->ns[span->function][(*count)++] = (double)span->duration_ns;
	return 0;
}

static void median_durations(struct tracer *tracer, double *median_ns)
{
	struct durations *durations = calloc(1, sizeof(*durations));
	struct ring_buffer *ring =
		durations ? tracer_rings_reader(tracer__spans(tracer), take_span, durations) : NULL;

	if (ring)
		ring_buffer__consume(ring);
	for (int site = PERFX_SITE_NOP5; ring && site < SITE_KINDS; site++) {
		size_t count = durations->count[site];

		qsort(durations->ns[site], count, sizeof(double), compare_double);
		median_ns[site] = count ? durations->ns[site][count / 2] : 0;
	}
	ring_buffer__free(ring);
	free(durations);
}

/* ns that tracing adds to a call of each calibration target. The links stay: closing one takes
 * longer than all of this. */
static void cost_of_calls(struct tracer *tracer, int exe_fd, bool by_return, double *added_ns,
			  double *span_ns)
{
	struct attach_point points[2 * SITE_KINDS];
	const struct calib_target *targets[SITE_KINDS] = {NULL};
	struct attach_target target = {.file_fd = exe_fd, .pid = getpid()};
	double base_ns = 0; /* of one stands for all: their instructions take next to no time */
	size_t count = 0;

	for (enum perfx_site site = PERFX_SITE_NOP5; site < SITE_KINDS; site++) {
		const struct calib_target *found = calib_target_of(site, by_return);
		struct perfx_probe entry = {.function = site,
					    .kind = by_return ? PERFX_PROBE_RETURN
							      : PERFX_PROBE_ENTRY};
		struct perfx_probe exit = {
			.function = site, .kind = PERFX_PROBE_EXIT, .cfa_offset = 8};

		/* closing a single link takes tens of milliseconds, so with single links only the
		 * common kinds of sites are measured */
		if (!found || (!by_return && !found->exit) ||
		    (tracer__hit_link(tracer) == PERFX_LINK_SINGLE && site != PERFX_SITE_PUSH &&
		     site != PERFX_SITE_BRANCH && site != PERFX_SITE_STEPPED) ||
		    add_point(tracer, &entry, found->entry, &points[count]) ||
		    (!by_return && add_point(tracer, &exit, found->exit, &points[count + 1])))
			continue;
		count += by_return ? 1 : 2;
		targets[site] = found;
		if (!base_ns)
			base_ns = time_call(found);
	}
	if (!count || links__attach(tracer__links(tracer), &target, points, count) != count)
		return;
	for (int site = PERFX_SITE_NOP5; site < SITE_KINDS; site++) {
		double ns = targets[site] ? time_call(targets[site]) - base_ns : 0;

		added_ns[site] = ns > 0 ? ns : 0;
	}
	/* the programs' share of the cost, in calls of its own, because accounting takes time too
	 */
	tracer__account_runs(tracer, true);
	for (int site = PERFX_SITE_NOP5; site < SITE_KINDS; site++)
		for (int i = 0; targets[site] && i < ROW_CALLS; i++)
			targets[site]->call();
	tracer__account_runs(tracer, false);
	median_durations(tracer, span_ns);
}

int calibrate(struct tracer *tracer, struct calibration *calibration)
{
	int exe_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	double pairs[SITE_KINDS] = {0}, branch_ns;
	int64_t traced;

	*calibration = (struct calibration){0};
	if (exe_fd < 0)
		return -errno;
	traced = tracer__add_process(tracer, getpid(), NULL);
	if (traced >= 0) {
		tracer__start(tracer);
		cost_of_calls(tracer, exe_fd, false, pairs, calibration->empty_span_ns);
		/* all targets leave by a branch; the branch target begins with one too, so half of
		 * its cost is one hit */
		branch_ns = pairs[PERFX_SITE_BRANCH] / 2;
		for (int site = PERFX_SITE_NOP5; site < SITE_KINDS; site++)
			calibration->hit_ns[site] = fmax(pairs[site] - branch_ns, 0);
		cost_of_calls(tracer, exe_fd, true, calibration->call_ns,
			      calibration->empty_span_by_return_ns);
		for (enum tracer_program i = PROGRAM_HIT; i < TRACER_PROGRAMS; i++)
			calibration->run_times.ns[i] = mean_ns(tracer__runs(tracer, i));
		tracer__abandon(tracer);
		tracer__remove_process(tracer, getpid());
	}
	tracer__reset(tracer);
	close(exe_fd);
	return traced < 0 ? (int)traced : 0;
}

double calibration_entry_ns(const struct calibration *calibration, enum site_kind entry,
			    enum perfx_return ret)
{
	return ret == PERFX_RETURN_PROBE ? calibration->call_ns[entry] : calibration->hit_ns[entry];
}

double calibration_exit_ns(const struct calibration *calibration, enum site_kind exit)
{
	return calibration->hit_ns[exit];
}

double calibration_call_ns(const struct calibration *calibration,
			   const struct plan_function *function, enum site_kind entry,
			   enum perfx_return ret)
{
	double ns = calibration_entry_ns(calibration, entry, ret);

	if (ret == PERFX_RETURN_EXIT && function->site.exits_count)
		ns += calibration_exit_ns(calibration, function->site.exits[0].kind);
	return ns;
}

double calibration_span_ns(const struct calibration *calibration, enum site_kind entry,
			   enum perfx_return ret)
{
	return ret == PERFX_RETURN_PROBE ? calibration->empty_span_by_return_ns[entry]
					 : calibration->empty_span_ns[entry];
}

/* The kernel accounts for the programs' run time in one of so many ticks. */
#define ACCOUNT_PERIOD 10

static void leave_out_runs(struct hit_costs *costs, const struct tracer *tracer)
{
	for (enum tracer_program i = PROGRAM_HIT; i < TRACER_PROGRAMS; i++)
		costs->accounted[i] = tracer__runs(tracer, i);
}

/* Times that are known stay until there are new ones. */
static void clear_accounts(struct hit_costs *costs, const struct tracer *tracer)
{
	for (enum tracer_program i = PROGRAM_HIT; i < TRACER_PROGRAMS; i++)
		costs->accounts[i] = (struct run_accounts){0};
	leave_out_runs(costs, tracer);
}

/*
 * runs: of the programs for an event of a traced thread. A wait begins and ends with one; a
 * thread's sleep and its wait for a CPU after it are two events and four runs. call_ns: about what
 * an interrupt and a tracepoint cost that call an empty program. untraced_ns: likewise, a program
 * that finds that the thread is not traced. most: what a run for a traced thread takes, in mean
 * runs. disturbance: what a run costs the program's caches, in its time: measured by turning the
 * programs on and off between steps of a program, 0.2 to 0.5 for samples and 0.1 to 0.2 for waits.
 */
static const struct {
	uint64_t runs, call_ns, untraced_ns, most;
	double disturbance;
} background_costs[TRACER_BACKGROUNDS] = {
	[TRACER_SAMPLES] =
		{.runs = 1, .call_ns = 1500, .untraced_ns = 100, .most = 1000, .disturbance = 0.4},
	[TRACER_SWITCHES] =
		{.runs = 2, .call_ns = 60, .untraced_ns = 100, .most = 3, .disturbance = 0.2},
};

struct accounted_runs background_of_traced(enum tracer_background which,
					   const struct background *before,
					   const struct background *after)
{
	uint64_t runs = after->runs.count - before->runs.count;
	uint64_t ns = after->runs.ns - before->runs.ns;
	uint64_t count = after->events_count - before->events_count;
	uint64_t traced = count * background_costs[which].runs;
	uint64_t others_ns =
		runs > traced ? (runs - traced) * background_costs[which].untraced_ns : 0;
	double most_ns = runs ? (double)traced * (double)background_costs[which].most * (double)ns /
					 (double)runs
			      : 0;

	double traced_ns = fmin(most_ns, ns > others_ns ? (double)(ns - others_ns) : 0);

	return (struct accounted_runs){
		.count = count,
		.ns = (uint64_t)((1 + background_costs[which].disturbance) * traced_ns) +
		      traced * background_costs[which].call_ns};
}

/* accounted: an account has just ended. Events before the first one wait for it. */
static void add_background(struct hit_costs *costs, const struct tracer *tracer, bool accounted)
{
	for (enum tracer_background i = 0; i < TRACER_BACKGROUNDS; i++) {
		struct background_cost *cost = &costs->background[i];
		struct background now;
		struct accounted_runs traced;
		uint64_t events_count;

		if (accounted) {
			now = tracer__background(tracer, i);
			traced = background_of_traced(i, &cost->begun, &now);
			cost->accounted.count += traced.count;
			cost->accounted.ns += traced.ns;
			if (run_accounts_add(&cost->accounts, cost->accounted)) {
				cost->accounted = (struct accounted_runs){0};
				cost->event_ns = run_accounts_ns(&cost->accounts);
			} else if (!cost->accounts.count) {
				cost->event_ns = mean_ns(cost->accounted);
			}
		}
		if (!(cost->event_ns > 0))
			continue;
		events_count = tracer__background_events(tracer, i);
		cost->spent_ns += (double)(events_count - cost->events_count) * cost->event_ns;
		cost->events_count = events_count;
	}
}

bool hit_costs_wait(struct hit_costs *costs, bool links_are_closing)
{
	uint64_t tick = costs->ticks_count % ACCOUNT_PERIOD;

	if (tick <= 1 && links_are_closing && costs->waited_count < ACCOUNT_PERIOD) {
		costs->ticks_count = ACCOUNT_PERIOD;
		costs->waited_count++;
		return true;
	}
	if (tick == 1)
		costs->waited_count = 0;
	return false;
}

void hit_costs_watch(struct hit_costs *costs, struct tracer *tracer)
{
	uint64_t tick;

	/* what calibration has left */
	if (!costs->ticks_count)
		clear_accounts(costs, tracer);
	if (hit_costs_wait(costs, links__are_closing(tracer__links(tracer)))) {
		tracer__account_runs(tracer, false);
		leave_out_runs(costs, tracer);
		add_background(costs, tracer, false);
		return;
	}
	tick = costs->ticks_count++ % ACCOUNT_PERIOD;
	tracer__account_runs(tracer, tick == 0);
	add_background(costs, tracer, tick == 1);
	for (enum tracer_background i = 0; tick == 0 && i < TRACER_BACKGROUNDS; i++)
		costs->background[i].begun = tracer__background(tracer, i);
	/* accounting has just ended */
	if (tick != 1)
		return;
	for (enum tracer_program i = PROGRAM_HIT; i < TRACER_PROGRAMS; i++) {
		struct accounted_runs all = tracer__runs(tracer, i), *before = &costs->accounted[i];
		struct accounted_runs new = {all.count - before->count, all.ns - before->ns};

		if (!run_accounts_add(&costs->accounts[i], new))
			continue;
		*before = all;
		costs->run_times.ns[i] = run_accounts_ns(&costs->accounts[i]);
	}
	costs->forgotten = false;
}

void hit_costs_forget(struct hit_costs *costs, struct tracer *tracer)
{
	tracer__account_runs(tracer, false);
	clear_accounts(costs, tracer);
	/* from the next tick on: the tables that the first stacks asked for are on their way */
	costs->ticks_count = ACCOUNT_PERIOD;
	costs->forgotten = true;
}

void hit_costs_sample(struct hit_costs *costs, enum perfx_domain domain, bool sampled)
{
	costs->sampled[domain] = sampled;
	for (enum tracer_program i = PROGRAM_MEMORY_HIT; i <= PROGRAM_MEMORY_SESSION; i++) {
		costs->accounts[i] = (struct run_accounts){0};
		costs->run_times.ns[i] = 0;
	}
}

enum point_kind point_kind_of(const struct plan_function *function)
{
	return function->role == PLAN_ALLOC_PROBE ? POINT_MEMORY
	       : function->role == PLAN_FILE_CALL ? POINT_FILE_CALL
	       : plan_is_annotation(function)	  ? POINT_ANNOTATION
						  : POINT_CALL;
}

/* Run time of the programs at a hit, with its return where that is probed; 0: not known. */
static double runs_ns(const struct hit_costs *costs, const struct run_times *times,
		      const struct point_programs *programs, enum perfx_return ret)
{
	double hit_ns = times->ns[programs->hit], return_ns = times->ns[programs->at_return];

	if (ret != PERFX_RETURN_PROBE)
		return hit_ns;
	if (tracer__return_link(costs->tracer) == PERFX_LINK_SESSION)
		return 2 * times->ns[programs->session];
	return hit_ns > 0 && return_ns > 0 ? hit_ns + return_ns : 0;
}

/*
 * A hit slows the program down by more than the time of the hit: it replaces what the caches and
 * the processor's predictors hold. At the least this costs about as much as so many of the cheapest
 * hits. The longer a thread runs between two hits, the colder are the trap, the BPF program and
 * then the thread's own code, all alike: the BPF program's time tells how cold. Measured on whole
 * programs, beside a copy of each on the same CPU: of a hit 0.9 to 2.9 times its BPF program's
 * time, where that took 1 to 4.4 us, is in nothing else. A lone hit in a step costs more: where a
 * step calls either a probed function or its copy, 2.3 (JAX), 3.3 (PyTorch) and 4 to 5 times
 * (Keras).
 */
#define DISTURBANCE_LEAST 1.7
#define DISTURBANCE	  2.0

/*
 * Allocations come often and one after the other, so they have a factor of their own. It multiplies
 * the time that a hit's BPF program takes beyond its time in a calibration loop. It was measured by
 * attaching and removing the probes in turns of 300 ms: a hit costs 0.6 us in a loop of malloc and
 * free, 0.9 to 1.7 us between work on 1 to 8 MiB, 1.1 to 1.4 us in PyTorch, and 5.8 us if each
 * stack is walked.
 */
#define DISTURBANCE_ALLOC 1.3

/* seen_ns: of the programs at the hit. What these do beyond a plain hit, such as to walk a stack,
 * is work, and no sign of cold caches. */
static double disturbance_ns(const struct hit_costs *costs, const struct point_programs *programs,
			     double seen_ns, enum perfx_return ret)
{
	const struct calibration *calibration = costs->calibration;
	double hits_count = ret == PERFX_RETURN_PROBE ? 2 : 1;
	double plain_ns = hits_count * costs->run_times.ns[PROGRAM_HIT];
	double warm_ns = hits_count * calibration->run_times.ns[PROGRAM_HIT];
	double cheapest_ns = HUGE_VAL, least_ns;

	for (int site = PERFX_SITE_NOP5; site < SITE_KINDS; site++)
		if (calibration->hit_ns[site] > 0)
			cheapest_ns = fmin(cheapest_ns, calibration->hit_ns[site]);
	least_ns = isinf(cheapest_ns) ? 0 : hits_count * DISTURBANCE_LEAST * cheapest_ns;
	if (programs != &point_programs[POINT_MEMORY])
		return fmax(least_ns, DISTURBANCE * fmin(seen_ns, plain_ns));
	if (!(seen_ns > 0))
		return least_ns;
	return fmin(DISTURBANCE_ALLOC * fmax(seen_ns - warm_ns, 0),
		    plain_ns > 0 ? DISTURBANCE_ALLOC * fmax(plain_ns - warm_ns, 0) : least_ns);
}

/* The calibrated cost, with the programs' time replaced by what they take in the traced processes,
 * and what it disturbs; 0: not measured. */
static double priced_ns(const struct hit_costs *costs, const struct point_programs *programs,
			double ns, double calibration_ns, double seen_ns, enum perfx_return ret)
{
	if (!(ns > 0))
		return 0;
	if (calibration_ns > 0 && seen_ns > 0)
		ns = fmax(ns + seen_ns - calibration_ns, seen_ns);
	return ns + disturbance_ns(costs, programs, seen_ns, ret);
}

static double hit_ns(const struct hit_costs *costs, const struct plan_function *function,
		     enum site_kind site, enum perfx_return ret)
{
	const struct calibration *calibration = costs->calibration;
	const struct point_programs *programs = &point_programs[point_kind_of(function)];

	return priced_ns(costs, programs, calibration_entry_ns(calibration, site, ret),
			 runs_ns(costs, &calibration->run_times, &point_programs[POINT_CALL], ret),
			 runs_ns(costs, &costs->run_times, programs, ret), ret);
}

double hit_costs_entry_ns(const struct hit_costs *costs, const struct plan_function *function,
			  enum site_kind entry, enum perfx_return ret)
{
	const struct calibration *calibration = costs->calibration;

	/* the return of a call in a sampled domain is seldom probed: a session link can decline it
	 */
	if (function->role != PLAN_ALLOC_PROBE || !costs->sampled[function->alloc_probe.domain] ||
	    ret != PERFX_RETURN_PROBE || tracer__return_link(costs->tracer) != PERFX_LINK_SESSION)
		return hit_ns(costs, function, entry, ret);
	return priced_ns(costs, &point_programs[POINT_MEMORY], calibration->hit_ns[entry],
			 calibration->run_times.ns[PROGRAM_HIT],
			 costs->run_times.ns[PROGRAM_MEMORY_SESSION], PERFX_RETURN_EXIT);
}

double hit_costs_exit_ns(const struct hit_costs *costs, const struct plan_function *function,
			 enum site_kind exit)
{
	return hit_ns(costs, function, exit, PERFX_RETURN_EXIT);
}
