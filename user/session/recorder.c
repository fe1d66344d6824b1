// SPDX-License-Identifier: BSD-2-Clause
#include "session/recorder.h"

#include "attach/features.h"
#include "attach/hit_cost.h"
#include "attach/memory.h"
#include "attach/probes.h"
#include "attach/reader.h"
#include "attach/sampler.h"
#include "attach/tracer.h"
#include "attach/unwind_tables.h"
#include "base/clock.h"
#include "base/message.h"
#include "decode/names.h"
#include "proc/process.h"
#include "session/budget.h"
#include "session/flight.h"
#include "session/follow.h"
#include "session/frames.h"
#include "session/gpu_agents.h"
#include "session/gpu_work.h"
#include "session/gpus.h"
#include "session/lacking.h"
#include "session/observation.h"
#include "session/operations.h"
#include "session/powercap.h"
#include "session/process_table.h"
#include "session/progress.h"
#include "session/recording_windows.h"
#include "session/recycle.h"
#include "session/step_watch.h"
#include "session/totals.h"
#include "session/waits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Room in the tables for what arrives late (dlopen, children's programs). */
#define PROBES_SLACK 4096
/* Room for the plan, which is not known yet: all of PyTorch's operators fit. A larger plan loads
 * the programs again. */
#define PROBES_GUESS 4096
/* The rings are drained at least this often, and late mappings looked at. */
#define TICK_NS 50000000u
/* Mappings that wake the tracer between two ticks; further ones wait for the tick. */
#define MAPPINGS_WAKES_MAX 50
/* A capture file has all records that are older. */
#define FLUSH_NS 500000000u

/* On a terminal: often enough to be seen alive, seldom enough to be read. */
#define PROGRESS_NS 500000000u

struct recorder {
	const struct recorder_options *options;
	const struct features *features;
	struct pipeline *pipeline;
	struct sink *sink; /* the pipeline's */
	pid_t main_pid;	   /* the first target */
	/* In the order in which they are made. */
	struct plan *plan;
	struct skipped_list skipped; /* what is not attached though it was planned */
	struct thread_counters *thread_counters;
	struct loading *loading; /* of the tracer, beside the plan; NULL: it has ended */
	struct tracer *tracer;
	struct calibration calibration;
	struct host_peaks host_peaks;
	struct probes *probes;
	struct memory *memory;
	struct sampler *sampler;
	struct operations *operations;
	struct gpu_names *gpu_names;
	struct gpu_work *gpu_work;
	struct waits *waits; /* NULL: time off the CPU is not recorded */
	struct reader *reader;
	struct process_table *processes;
	struct budget *budget;
	struct gpus *gpus; /* NULL: GPUs are not sampled */
	struct powercap *powercap;
	struct profiler_watch profiler_watch;
	struct observation *observation; /* NULL: steps are not observed without probes */
	struct gpu_agents *gpu_agents;	 /* NULL: there are none */
	struct frames *frames;
	struct unwind_tables *unwind_tables; /* NULL: stacks are walked by frame pointers */
	struct recycle *recycle;	     /* NULL: the recording is to have an end */
	struct follow *follow;
	struct step_watch *steps; /* NULL: not by steps */
	struct totals *totals;
	struct flight *flight;
	/* The loop. */
	int epoll_fd, timer_fd;
	uint64_t end_ns, next_sample_ns, next_flush_ns, next_progress_ns;
	unsigned mappings_wakes; /* by mappings since the last tick */
	bool all_gone;		 /* all targets had ended when the recording began */
	/* The recording. */
	bool begun;
	uint64_t start_ns;
	uint64_t begin_cpu_ns; /* the tracer's own, by then */
	bool detached;	       /* all probes were removed at its end */
	struct recording_windows windows;
};

static int say_gone(struct recorder *recorder)
{
	if (!recorder->begun)
		totals_of_nothing(recorder->sink, recorder->options);
	msg_say("the program ended before tracing began: perfx-trace run -- COMMAND traces it from "
		"its start");
	return EXIT_TARGET;
}

/* The plan for what runs now, before anything is attached: a pattern without a match ends here. */
static int plan_targets(struct recorder *recorder)
{
	const struct recorder_options *options = recorder->options;
	const pid_t *targets = options->launch ? &recorder->main_pid : options->pids;
	size_t count = options->launch ? 1 : options->pids_count;
	char *why = NULL;
	int pattern;

	for (size_t i = 0; i < count; i++) {
		size_t *modules = NULL;
		ssize_t n = plan__scan(recorder->plan, targets[i], &modules);

		free(modules);
		if (n < 0 && n != -E2BIG && process_has_ended(targets[i]))
			return say_gone(recorder);
		if (n < 0) {
			say_scan_error(targets[i], n, options->plan.functions_max);
			return n == -E2BIG ? EXIT_USAGE : n == -ESRCH ? EXIT_TARGET : EXIT_FAILED;
		}
	}
	pattern = options->all ? -1 : plan__unmatched(recorder->plan, recorder->main_pid, &why);
	if (pattern < 0)
		return EXIT_OK;
	msg_say("-F '%s': %s", pattern__text(options->plan.patterns[pattern]),
		why ? why : strerror(ENOMEM));
	free(why);
	return EXIT_USAGE;
}

static void emit_host_peaks(struct recorder *recorder)
{
	host_peaks_emit(&recorder->host_peaks, recorder->sink, &recorder->options->peaks,
			recorder->plan);
}

/* More processes than this get the larger table of calling contexts. */
#define FEW_PROCESSES 4

static int begin_load(struct recorder *recorder)
{
	const struct recorder_options *options = recorder->options;
	struct tracer_options tracer_options = {
		.link = options->link,
		.follow_children = options->follow_children,
		.compensate = options->compensate,
		.many_processes = options->all || options->pids_count > FEW_PROCESSES,
		.ring_bytes = options->ring_bytes,
		.rings_count = options->rings_count,
		.memory = options->plan.memory != MEMORY_OFF,
		.samples = options->sample_hz > 0,
		.stacks = options->stacks,
		.waiting = options->off_cpu,
		.probes_max = PROBES_GUESS + PROBES_SLACK,
	};

	recorder->thread_counters =
		thread_counters__new(options->counters, options->counters_names);
	if (recorder->thread_counters) {
		tracer_options.counters = thread_counters__counters(recorder->thread_counters);
		recorder->loading = loading__start(&tracer_options, recorder->features);
	}
	if (recorder->loading)
		return EXIT_OK;
	msg_say("out of memory");
	return EXIT_FAILED;
}

/* For so long the cost of a hit is taken to be what was measured. */
#define CALIBRATION_NS 3600000000000u

static void calibrate_or_recall(struct recorder *recorder)
{
	const struct recorder_options *options = recorder->options;
	struct calibration *calibration = &recorder->calibration;
	uint64_t variant = clock_monotonic_ns() / CALIBRATION_NS << 8 |
			   (uint64_t)tracer__hit_link(recorder->tracer);
	bool kept = options->plan.facts_folder;

	if (!options->calibrate ||
	    (kept && boot_recall("calibration", variant, calibration, sizeof(*calibration))))
		return;
	if (calibrate(recorder->tracer, calibration))
		msg_say("cannot measure the cost of a hit: %s", strerror(errno));
	else if (kept)
		boot_keep("calibration", variant, calibration, sizeof(*calibration));
}

static int load(struct recorder *recorder)
{
	const struct recorder_options *options = recorder->options;
	size_t sites = 0;

	for (size_t i = 0; i < recorder->plan->functions_count; i++)
		sites += 1 + recorder->plan->functions[i].site.exits_count;
	msg_status("loading the BPF programs…");
	recorder->tracer = loading__end(recorder->loading, (uint32_t)(sites + PROBES_SLACK));
	recorder->loading = NULL;
	if (!recorder->tracer) {
		if (errno == ENOTSUP)
			msg_say("--link %s: not supported by this kernel: try without --link",
				name_of_link(options->link));
		else
			msg_say("cannot load the BPF programs: %s: see perfx-trace doctor",
				strerror(errno));
		return errno == EPERM ? EXIT_PRIVILEGE : EXIT_FAILED;
	}
	lacking_programs(recorder->tracer, &recorder->skipped);
	phases_begin(options->phases, "calibrate");
	calibrate_or_recall(recorder);
	return EXIT_OK;
}

/* --- the recording begins --- */

static void count_threads(struct recorder *recorder)
{
	size_t count;
	const pid_t *pids = process_table__pids(recorder->processes, &count);

	thread_counters__scan(recorder->thread_counters, recorder->tracer, pids, count);
}

static void sample_energy(struct recorder *recorder)
{
	gpus__sample(recorder->gpus);
	powercap__sample(recorder->powercap, recorder->sink);
}

/* What processes, their GPUs and the host have used until now. */
static void sample_usage(struct recorder *recorder, bool whole)
{
	process_table__sample(recorder->processes, whole);
	sample_energy(recorder);
}

static void recording_begin(struct recorder *recorder, uint64_t start_ns)
{
	recorder->begun = true;
	recorder->start_ns = start_ns;
	if (recorder->observation)
		observation__recording(recorder->observation, start_ns);
	recorder->begin_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	flight__begin(recorder->flight, start_ns);
	follow__begin(recorder->follow, start_ns);
	totals_host(recorder->sink, recorder->options, start_ns);
	process_table__hold(recorder->processes, false);
	sample_usage(recorder, true);
	recorder->next_sample_ns = start_ns + recorder->options->interval_ns;
	count_threads(recorder);
	perf_counters_emit(recorder->thread_counters, recorder->sink, recorder->plan);
	memory__start(recorder->memory, start_ns);
	budget__start(recorder->budget, start_ns);
	gpu_agents__begin(recorder->gpu_agents, start_ns);
	sampler__describe(recorder->sampler);
}

/* --wait: the recording begins with the first window, and in between no samples are taken. */
static void on_recording_window(struct recorder *recorder,
				const struct perfx_recording_window *window)
{
	size_t turns_count = recorder->windows.turns_count;

	switch (recording_windows_turn(&recorder->windows, window)) {
	case WINDOW_FIRST:
		recording_begin(recorder, window->time_ns);
		break;
	case WINDOW_OPENS:
		process_table__hold(recorder->processes, false);
		sample_energy(recorder);
		break;
	case WINDOW_CLOSES:
		if (recording_windows_sample(&recorder->windows, window->time_ns))
			sample_usage(recorder, true);
		process_table__hold(recorder->processes, true);
		break;
	case WINDOW_PAST:
		break;
	}
	say_turned(window, turns_count);
}

static void on_stack(struct recorder *recorder, struct perfx_stack *stack)
{
	follow__take_mappings_until(recorder->follow, frames__stack_time_ns(stack));
	frames__stack(recorder->frames, stack);
}

static void on_stack_named(struct recorder *recorder, uint32_t process, uint32_t *stack,
			   uint64_t time_ns)
{
	follow__take_mappings_until(recorder->follow, time_ns);
	frames__name_stack(recorder->frames, process, stack, time_ns);
}

/* Each control record, CONTEXT, STACK, ALLOCATION and SAMPLE as it passes. */
static void on_record(void *ctx, struct perfx_record *record)
{
	struct recorder *recorder = ctx;
	struct perfx_allocation *allocation = (struct perfx_allocation *)record;
	struct perfx_sample *sample = (struct perfx_sample *)record;

	switch (record->kind) {
	case PERFX_KIND_RECORDING_WINDOW:
		on_recording_window(recorder, (const struct perfx_recording_window *)record);
		break;
	case PERFX_KIND_STACK:
		on_stack(recorder, (struct perfx_stack *)record);
		break;
	case PERFX_KIND_ALLOCATION:
		on_stack_named(recorder, allocation->process, &allocation->stack,
			       allocation->time_ns);
		break;
	case PERFX_KIND_SAMPLE:
		on_stack_named(recorder, sample->process, &sample->stack, sample->time_ns);
		break;
	case PERFX_KIND_CONTEXT:
		frames__caller(recorder->frames, (struct perfx_context *)record);
		break;
	default:
		follow__record(recorder->follow, record);
	}
}

static void on_object(void *ctx, const struct perfx_object_record *record)
{
	struct recorder *recorder = ctx;

	operations__on_object(recorder->operations, record);
}

/* --- its parts --- */

static bool is_triggered(const struct recorder_options *options)
{
	return options->trigger.ns || options->trigger.times > 0;
}

/* The program that run starts has the terminal for itself. */
static bool has_progress(const struct recorder *recorder)
{
	return !recorder->options->launch && msg_has_status();
}

/* For --steps, --trigger and the progress line. The progress line alone is not worth decoding
 * all records where no report is made. */
static bool watches_steps(const struct recorder *recorder)
{
	return recorder->options->steps_max || is_triggered(recorder->options) ||
	       (recorder->pipeline->aggregate && has_progress(recorder));
}

/* What probes, and what is seen of that. */
static bool open_attach(struct recorder *recorder)
{
	const struct recorder_options *options = recorder->options;
	struct memory_options memory = {.sample_bytes = options->sample_bytes,
					.all_processes = options->all};

	recorder->probes = probes__new(&(struct probes_parts){.plan = recorder->plan,
							      .skipped = &recorder->skipped,
							      .tracer = recorder->tracer,
							      .calibration = &recorder->calibration,
							      .sink = recorder->sink,
							      .adopts = options->all});
	if (!recorder->probes)
		return false;
	if (thread_counters__counters(recorder->thread_counters))
		probes__enable_counters(recorder->probes,
					thread_counters__all_functions(recorder->thread_counters));
	recorder->memory = memory__new(recorder->plan, recorder->tracer, recorder->probes,
				       recorder->sink, &memory);
	recorder->operations =
		operations__new(recorder->plan, recorder->tracer, recorder->probes, recorder->sink);
	recorder->reader =
		reader__new(recorder->tracer, recorder->sink, on_record, on_object, recorder);
	recorder->sampler =
		sampler__new(recorder->tracer, recorder->sink, recorder->options->sample_hz);
	if (!recorder->memory || !recorder->operations || !recorder->reader || !recorder->sampler)
		return false;
	reader__name_steps(recorder->reader, options->plan.step_range);
	return true;
}

/* What stacks need. */
static void open_stacks(struct recorder *recorder)
{
	const struct recorder_options *options = recorder->options;

	recorder->frames = frames__new(recorder->sink, recorder->tracer, &recorder->skipped);
	if (options->stacks != PERFX_STACKS_UNWIND)
		return;
	recorder->unwind_tables = unwind_tables__new(recorder->tracer);
	if (!recorder->unwind_tables)
		msg_say("call stacks: by frame pointers alone, so most are short: no unwind "
			"tables: %s",
			strerror(errno));
}

/* A recording goes on without either. */
static void open_gpus(struct recorder *recorder)
{
	struct gpus_parts parts = {.processes = recorder->processes,
				   .sink = recorder->sink,
				   .skipped = &recorder->skipped,
				   .options.devices = recorder->options->gpu_devices};

	recorder->powercap = powercap__new(NULL);
	if (recorder->options->plan.gpu == GPU_OFF)
		return;
	recorder->gpus = gpus__new(&parts);
	if (!recorder->gpus)
		msg_say("GPUs are not sampled: %s", strerror(errno));
}

static bool open_processes(struct recorder *recorder)
{
	recorder->processes =
		process_table__new(recorder->tracer, recorder->sink,
				   recorder->options->full_cmdline,
				   recorder->options->launch ? recorder->main_pid : 0);
	open_gpus(recorder);
	open_stacks(recorder);
	if (tracer__waiting(recorder->tracer))
		recorder->waits = waits__new(recorder->tracer, recorder->sink);
	if (recorder->options->flight_ns)
		recorder->recycle =
			recycle__new(&(struct recycle_parts){.options = recorder->options,
							     .tracer = recorder->tracer,
							     .reader = recorder->reader,
							     .frames = recorder->frames,
							     .sampler = recorder->sampler,
							     .waits = recorder->waits});
	recorder->follow =
		follow__new(&(struct follow_parts){.options = recorder->options,
						   .plan = recorder->plan,
						   .skipped = &recorder->skipped,
						   .tracer = recorder->tracer,
						   .probes = recorder->probes,
						   .memory = recorder->memory,
						   .frames = recorder->frames,
						   .unwind_tables = recorder->unwind_tables,
						   .processes = recorder->processes,
						   .recycle = recorder->recycle,
						   .sink = recorder->sink,
						   .main_pid = recorder->main_pid});
	return recorder->processes && recorder->frames && recorder->follow;
}

static bool open_agents(struct recorder *recorder)
{
	struct gpu_agents_parts parts = {.options = recorder->options,
					 .tracer = recorder->tracer,
					 .processes = recorder->processes,
					 .names = recorder->gpu_names,
					 .gpus = recorder->gpus,
					 .sink = recorder->sink,
					 .watch = &recorder->profiler_watch};

	if (!recorder->options->gpu_level)
		return true;
	recorder->gpu_agents = gpu_agents__new(&parts);
	return recorder->gpu_agents;
}

static bool open_outputs(struct recorder *recorder)
{
	const struct recorder_options *options = recorder->options;

	recorder->budget =
		budget__new(&(struct budget_parts){.probes = recorder->probes,
						   .memory = recorder->memory,
						   .sampler = recorder->sampler,
						   .tracer = recorder->tracer,
						   .waits = recorder->waits,
						   .processes = recorder->processes,
						   .skipped = &recorder->skipped,
						   .max_percent = options->max_overhead_percent});
	if (!recorder->budget)
		return false;
	recorder->gpu_names = gpu_names__new(recorder->sink);
	recorder->gpu_work = recorder->gpu_names
				     ? gpu_work__new(recorder->sink, recorder->tracer,
						     recorder->frames, recorder->gpu_names)
				     : NULL;
	if (!recorder->gpu_work || !open_agents(recorder))
		return false;
	if (watches_steps(recorder))
		recorder->steps = step_watch__new(recorder->pipeline, options->steps_max,
						  is_triggered(options) ? &options->trigger : NULL);
	recorder->totals = totals__new(
		&(struct totals_parts){.sink = recorder->sink,
				       .tracer = recorder->tracer,
				       .plan = recorder->plan,
				       .skipped = &recorder->skipped,
				       .probes = recorder->probes,
				       .memory = recorder->memory,
				       .sampler = recorder->sampler,
				       .thread_counters = recorder->thread_counters,
				       .operations = recorder->operations,
				       .gpu_work = recorder->gpu_work,
				       .agents = gpu_agents__agents(recorder->gpu_agents),
				       .waits = recorder->waits,
				       .followed = follow__result(recorder->follow)});
	recorder->flight =
		flight__new(&(struct flight_parts){.options = options,
						   .capture = recorder->pipeline->capture,
						   .totals = recorder->totals,
						   .processes = recorder->processes,
						   .frames = recorder->frames,
						   .gpu_work = recorder->gpu_work,
						   .steps = recorder->steps});
	return recorder->totals && recorder->flight &&
	       (recorder->steps || !watches_steps(recorder));
}

static int open_parts(struct recorder *recorder)
{
	if (open_attach(recorder) && open_processes(recorder) && open_outputs(recorder))
		return EXIT_OK;
	msg_say("cannot set up the recording: %s", strerror(errno));
	return EXIT_FAILED;
}

/* --- the loop --- */

enum watched {
	WATCH_TIMER = 1,
	WATCH_RINGS,
	WATCH_MAPPINGS,
	WATCH_FILES,
	WATCH_UNWIND,
	WATCH_AGENTS,
	WATCH_WATCHER
};

/* What there is of these. 0 or -errno. */
static int watch_all(struct recorder *recorder)
{
	const struct recorder_watcher *watcher = recorder->options->watcher;
	const struct {
		enum watched what;
		int fd;
	} all[] = {
		{WATCH_TIMER, recorder->timer_fd},
		{WATCH_RINGS, reader__fd(recorder->reader)},
		{WATCH_MAPPINGS, follow__mappings_fd(recorder->follow)},
		{WATCH_FILES, follow__files_fd(recorder->follow)},
		{WATCH_UNWIND,
		 recorder->unwind_tables ? unwind_tables__fd(recorder->unwind_tables) : -1},
		{WATCH_AGENTS,
		 recorder->gpu_agents ? agents__fd(gpu_agents__agents(recorder->gpu_agents)) : -1},
		{WATCH_WATCHER, watcher ? watcher->fd : -1},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct epoll_event event = {.events = EPOLLIN, .data.u32 = all[i].what};

		if (all[i].fd >= 0 &&
		    epoll_ctl(recorder->epoll_fd, EPOLL_CTL_ADD, all[i].fd, &event))
			return -errno;
	}
	return 0;
}

static int open_loop(struct recorder *recorder)
{
	struct itimerspec tick = {.it_interval.tv_nsec = TICK_NS, .it_value.tv_nsec = TICK_NS};
	int err;

	recorder->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	recorder->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	err = recorder->epoll_fd < 0 || recorder->timer_fd < 0 ? -errno : watch_all(recorder);
	if (!err) {
		timerfd_settime(recorder->timer_fd, 0, &tick, NULL);
		return EXIT_OK;
	}
	msg_say("cannot set up the recording: %s", strerror(-err));
	return EXIT_FAILED;
}

static void drain(struct recorder *recorder)
{
	reader__drain(recorder->reader);
	recording_windows_report(&recorder->windows, recorder->memory);
}

/* A process that maps code all the time does not wake the tracer each time. */
static void watch_mappings(struct recorder *recorder, bool on)
{
	struct epoll_event event = {.events = on ? EPOLLIN : 0, .data.u32 = WATCH_MAPPINGS};

	epoll_ctl(recorder->epoll_fd, EPOLL_CTL_MOD, follow__mappings_fd(recorder->follow), &event);
}

static void on_mapping(struct recorder *recorder)
{
	if (++recorder->mappings_wakes == MAPPINGS_WAKES_MAX)
		watch_mappings(recorder, false);
}

/* Is it time? Then the next time is a period from now. */
static bool is_due(uint64_t *next_ns, uint64_t now_ns, uint64_t period_ns)
{
	if (now_ns < *next_ns)
		return false;
	*next_ns = now_ns + period_ns;
	return true;
}

static void keep_budgets(struct recorder *recorder, uint64_t now_ns)
{
	probes__watch_cost(recorder->probes);
	probes__heed_nesting(recorder->probes);
	if (!recorder->windows.paused)
		budget__tick(recorder->budget, now_ns);
}

static void show_progress(struct recorder *recorder, uint64_t now_ns)
{
	if (!recorder->options->quiet)
		msg_reductions_show(has_progress(recorder), false);
	if (!has_progress(recorder) || !is_due(&recorder->next_progress_ns, now_ns, PROGRESS_NS))
		return;
	progress_show(&(struct progress){.now_ns = now_ns,
					 .start_ns = recorder->start_ns,
					 .end_ns = recorder->end_ns,
					 .paused = recorder->windows.paused,
					 .steps_count = step_watch__count(recorder->steps),
					 .calls_count = reader__spans_count(recorder->reader),
					 .reports = recorder->pipeline->aggregate});
}

static bool is_recording(const struct recorder *recorder)
{
	return recorder->begun && !recorder->windows.paused;
}

/* Segments, and what is asked for of a recording that goes on. */
static void tick_flight(struct recorder *recorder, uint64_t now_ns)
{
	const struct follow_result *followed = follow__result(recorder->follow);
	struct ending so_far = {.goes_on = true,
				.looks_count = followed->looks_count,
				.untraced_read_count = followed->untraced_read_count};

	if (is_recording(recorder))
		flight__tick(recorder->flight, now_ns, &so_far);
	flight__watched(recorder->flight, is_recording(recorder), &so_far);
}

static void on_tick(struct recorder *recorder)
{
	const struct recorder_watcher *watcher = recorder->options->watcher;
	uint64_t expirations, now_ns = clock_monotonic_ns();

	if (read(recorder->timer_fd, &expirations, sizeof(expirations)) < 0)
		return;
	if (recorder->mappings_wakes >= MAPPINGS_WAKES_MAX)
		watch_mappings(recorder, true);
	recorder->mappings_wakes = 0;
	drain(recorder);
	count_threads(recorder);
	waits__tick(recorder->waits, now_ns);
	follow__tick(recorder->follow, now_ns);
	sampler__tick(recorder->sampler);
	keep_budgets(recorder, now_ns);
	tracer__heed_room(recorder->tracer);
	if (!recorder->windows.paused &&
	    is_due(&recorder->next_sample_ns, now_ns, recorder->options->interval_ns))
		sample_usage(recorder, false);
	gpus__tick(recorder->gpus);
	agents__poll(gpu_agents__agents(recorder->gpu_agents));
	show_progress(recorder, now_ns);
	tick_flight(recorder, now_ns);
	if (watcher && watcher->on_tick)
		watcher->on_tick(watcher->ctx, now_ns);
	recycle__tick(recorder->recycle, now_ns);
	/* memory needs no flush */
	if (!recorder->options->flight_ns && is_due(&recorder->next_flush_ns, now_ns, FLUSH_NS))
		pipeline_flush(recorder->pipeline);
}

static bool has_enough(const struct recorder *recorder)
{
	const struct recorder_options *options = recorder->options;

	return step_watch__done(recorder->steps) ||
	       (options->enough && options->enough(options->enough_ctx));
}

static bool finished(struct recorder *recorder)
{
	size_t running;

	process_table__pids(recorder->processes, &running);
	return interrupt_asked() || recorder->pipeline->err || pipeline_full(recorder->pipeline) ||
	       has_enough(recorder) || clock_monotonic_ns() >= recorder->end_ns ||
	       (!running && !recorder->options->all) || recorder->all_gone ||
	       (recorder->options->launch && follow__result(recorder->follow)->main_ended);
}

static int wait_ms(const struct recorder *recorder)
{
	uint64_t now = clock_monotonic_ns();

	if (now >= recorder->end_ns)
		return 0;
	if (recorder->end_ns - now > 1000000000u)
		return 1000;
	return (int)((recorder->end_ns - now + 999999) / 1000000);
}

static void loop(struct recorder *recorder)
{
	const struct recorder_options *options = recorder->options;
	struct epoll_event events[8];

	while (!finished(recorder)) {
		int n = epoll_wait(recorder->epoll_fd, events, 8, wait_ms(recorder));

		for (int i = 0; i < n; i++) {
			switch ((enum watched)events[i].data.u32) {
			case WATCH_TIMER:
				on_tick(recorder);
				break;
			case WATCH_RINGS:
				drain(recorder);
				break;
			case WATCH_MAPPINGS:
				on_mapping(recorder);
				break;
			case WATCH_UNWIND:
				unwind_tables__serve(recorder->unwind_tables);
				break;
			case WATCH_AGENTS:
				agents__poll(gpu_agents__agents(recorder->gpu_agents));
				break;
			case WATCH_FILES:
				follow__files(recorder->follow);
				break;
			case WATCH_WATCHER:
				options->watcher->on_input(options->watcher->ctx);
				break;
			}
		}
		if (!follow__take_mappings(recorder->follow))
			continue;
		/* what has become of them by now */
		drain(recorder);
		follow__files(recorder->follow);
		follow__attach_queued(recorder->follow);
	}
}

/* --- steps without probes --- */

/* Something ends steps, and the program runs already and is not asked what to record. */
static bool can_observe(const struct recorder *recorder)
{
	const struct recorder_options *options = recorder->options;

	if (!options->observe_ns || options->launch || options->wait)
		return false;
	return observation_is_possible(recorder->plan);
}

/* What comes is read when the recording has begun, or has ended: it is little. */
static void observe(struct recorder *recorder)
{
	const struct recorder_options *options = recorder->options;
	uint64_t ns = options->observe_ns < options->duration_ns ? options->observe_ns
								 : options->duration_ns;
	size_t count;
	const pid_t *pids = process_table__pids(recorder->processes, &count);

	observation__watch(recorder->observation, recorder->tracer, pids, count, ns);
}

static void observe_before(struct recorder *recorder)
{
	if (!recorder->observation)
		return;
	msg_status("timing steps without probes…");
	observe(recorder);
	msg_status("attaching…");
	probes__attach_rest(recorder->probes);
}

/* Skipped after an interrupt, because the user waits for the report, and while links still close.
 */
static void observe_after(struct recorder *recorder, const struct ending *ending)
{
	if (!recorder->observation)
		return;
	observation__after(recorder->observation);
	if (recorder->detached && !ending->interrupted && !ending->exited) {
		msg_status("timing steps without probes…");
		observe(recorder);
		reader__finish(recorder->reader);
	}
	observation__emit(recorder->observation);
}

/* --- a whole recording --- */

static void say_started(const struct recorder *recorder)
{
	struct tracing_summary summary = {.plan = recorder->plan,
					  .skipped = &recorder->skipped,
					  .probes = recorder->probes,
					  .memory = recorder->memory,
					  .thread_counters = recorder->thread_counters,
					  .main_pid = recorder->main_pid,
					  .has_samples = recorder->options->sample_hz > 0,
					  .all = recorder->options->all};
	char phases[192] = "";

	summary.pids = process_table__pids(recorder->processes, &summary.pids_count);
	if (!recorder->options->quiet) {
		say_waiting(recorder->plan);
		if (recorder->options->wait)
			say_program_decides(recorder->plan);
		say_tracing(&summary);
	}
	if (!getenv("PERFX_DEBUG"))
		return;
	phases_format(recorder->options->phases, clock_monotonic_ns(), phases, sizeof(phases));
	msg_say("%s", phases);
	say_unwind_tables(recorder->unwind_tables);
}

static void start(struct recorder *recorder)
{
	uint64_t now_ns = clock_monotonic_ns(), duration_ns = recorder->options->duration_ns;

	recorder->end_ns = duration_ns == UINT64_MAX ? UINT64_MAX : now_ns + duration_ns;
	msg_reductions_begin(now_ns);
	if (recorder->options->wait) {
		recorder->windows.paused = true;
		process_table__hold(recorder->processes, true);
		tracer__wait(recorder->tracer);
	} else {
		recorder->windows.any = true;
		recording_begin(recorder, now_ns);
		tracer__start(recorder->tracer);
	}
	sampler__start(recorder->sampler);
	start_waiting(tracer__waiting(recorder->tracer), &recorder->skipped, now_ns);
	/* ends from now on have exit records; earlier ones do not */
	recorder->all_gone =
		!recorder->options->all && process_table__all_ended(recorder->processes);
	/* after the start: every call after this line is recorded */
	say_started(recorder);
	if (recorder->options->launch)
		launch__go(recorder->options->launch);
}

/* Stops the programs, and takes what they have written. Returns when the recording ended. */
static uint64_t stop(struct recorder *recorder)
{
	uint64_t end_ns = clock_monotonic_ns();

	msg_status("reading the last records…");
	sample_usage(recorder, true);
	sampler__stop(recorder->sampler);
	recorder->detached = tracer__stop(recorder->tracer, PROBES_KEPT);
	if (recorder->waits)
		waiting__stop(tracer__waiting(recorder->tracer));
	reader__finish(recorder->reader);
	recording_windows_report(&recorder->windows, recorder->memory);
	gpus__finish(recorder->gpus);
	agents__stop(gpu_agents__agents(recorder->gpu_agents), end_ns);
	if (!recorder->begun)
		recording_begin(recorder, end_ns);
	else if (recorder->windows.paused)
		end_ns = recorder->windows.paused_ns;
	return end_ns;
}

static int trace(struct recorder *recorder)
{
	const struct follow_result *followed = follow__result(recorder->follow);
	struct ending ending = {0};

	observe_before(recorder);
	start(recorder);
	loop(recorder);
	ending.recording_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - recorder->begin_cpu_ns;
	ending.end_ns = stop(recorder);
	if (!recorder->options->quiet)
		msg_reductions_show(has_progress(recorder), true);
	say_unwind_tables(recorder->unwind_tables);
	lacking_files(recorder->unwind_tables, &recorder->skipped);
	hint_detaching(&recorder->skipped);
	lacking_names(recorder->tracer, &recorder->skipped);
	ending.spans_count = reader__spans_count(recorder->reader);
	ending.killed = followed->main_ended && (followed->main_status & 0x7f);
	ending.exited = followed->main_ended;
	ending.interrupted = interrupt_asked();
	ending.looks_count = followed->looks_count;
	ending.untraced_read_count = followed->untraced_read_count;
	perf_counters_emit(recorder->thread_counters, recorder->sink, recorder->plan);
	emit_host_peaks(recorder); /* for what has been mapped since the start */
	frames__emit(recorder->frames);
	totals__emit(recorder->totals, ending.end_ns, true);
	gpu_work__name(recorder->gpu_work);
	observe_after(recorder, &ending);
	if (recorder->options->flight_ns)
		return flight__finish(recorder->flight, &ending);
	totals__close(recorder->totals, recorder->sink, &ending);
	return EXIT_OK;
}

static void close_parts(struct recorder *recorder)
{
	flight__free(recorder->flight);
	follow__free(recorder->follow);
	recycle__free(recorder->recycle);
	reader__free(recorder->reader);
	step_watch__free(recorder->steps);
	totals__free(recorder->totals);
	gpu_agents__free(recorder->gpu_agents);
	gpu_work__free(recorder->gpu_work);
	gpu_names__free(recorder->gpu_names);
	waits__free(recorder->waits);
	thread_counters__free(recorder->thread_counters);
	frames__free(recorder->frames);
	unwind_tables__free(recorder->unwind_tables);
	budget__free(recorder->budget);
	memory__free(recorder->memory);
	sampler__free(recorder->sampler);
	operations__free(recorder->operations);
	probes__free(recorder->probes);
	gpus__free(recorder->gpus);
	powercap__free(recorder->powercap);
	process_table__free(recorder->processes);
	if (recorder->loading) /* what was planned is no good */
		recorder->tracer = loading__end(recorder->loading, 0);
	tracer__free(recorder->tracer);
	observation__free(recorder->observation);
	plan__free(recorder->plan);
	skipped_clear(&recorder->skipped);
	if (recorder->epoll_fd >= 0)
		close(recorder->epoll_fd);
	if (recorder->timer_fd >= 0)
		close(recorder->timer_fd);
	recording_windows_clear(&recorder->windows);
}

static int prepare(struct recorder *recorder)
{
	struct phases *phases = recorder->options->phases;
	int code, err;

	recorder->plan = plan__new(&recorder->options->plan);
	if (!recorder->plan) {
		msg_say("out of memory");
		return EXIT_FAILED;
	}
	msg_status("looking for functions…");
	phases_begin(phases, "plan");
	code = begin_load(recorder);
	if (!code)
		code = plan_targets(recorder);
	phases_begin(phases, "load");
	if (!code)
		code = load(recorder);
	/* after the load, which would make an idle host look busy */
	phases_begin(phases, "peaks");
	if (!code)
		emit_host_peaks(recorder);
	phases_begin(phases, "attach");
	if (!code && can_observe(recorder)) {
		recorder->observation = observation__new(recorder->sink);
		if (recorder->observation)
			recorder->sink = observation__sink(recorder->observation);
	}
	if (!code)
		code = open_parts(recorder);
	if (code)
		return code;
	err = follow__targets(recorder->follow);
	if (err)
		return say_gone(recorder);
	tracer__make_room(recorder->tracer);
	progress_attaching(recorder->plan);
	if (recorder->observation)
		probes__only(recorder->probes, observation_ends_steps);
	if (follow__attach(recorder->follow))
		return EXIT_FAILED;
	if (recorder->gpu_agents && !recorder->options->launch)
		gpu_agents__inject(recorder->gpu_agents);
	return open_loop(recorder);
}

/* What the user should know of its end. */
static int explain_end(struct recorder *recorder, int code)
{
	const struct follow_result *followed = follow__result(recorder->follow);

	if (!code && followed->main_ended && (followed->main_status & 0x7f) &&
	    !recorder->options->launch)
		code = EXIT_TARGET;
	if (recorder->options->wait && !recorder->windows.any)
		msg_say("perfx_trace_start was not called: nothing was recorded");
	return recorder->all_gone && !followed->main_ended ? say_gone(recorder) : code;
}

int recorder_run(const struct recorder_options *options, const struct features *features,
		 struct pipeline *pipeline, int *child_status)
{
	struct recorder recorder = {.options = options,
				    .features = features,
				    .pipeline = pipeline,
				    .sink = &pipeline->sink,
				    .epoll_fd = -1,
				    .timer_fd = -1};
	const struct follow_result *followed = NULL;
	int code;

	recorder.main_pid = options->launch	  ? launch__pid(options->launch)
			    : options->pids_count ? options->pids[0]
						  : 0;
	if (options->gpu_level)
		recorder.sink = profiler_watch_init(&recorder.profiler_watch, recorder.sink);
	code = prepare(&recorder);
	if (!code)
		code = explain_end(&recorder, trace(&recorder));
	msg_status_clear();
	if (recorder.follow)
		followed = follow__result(recorder.follow);
	if (child_status)
		*child_status = followed && followed->main_ended ? followed->main_status : -1;
	close_parts(&recorder);
	return code;
}
