// SPDX-License-Identifier: BSD-2-Clause
#include "session/recorder.h"

#include "attach/features.h"
#include "attach/probes.h"
#include "attach/reader.h"
#include "attach/sampler.h"
#include "attach/tracer.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/message.h"
#include "base/order.h"
#include "base/units.h"
#include "decode/names.h"
#include "proc/process.h"
#include "session/dump.h"
#include "session/follow.h"
#include "session/observation.h"
#include "session/process_table.h"
#include "session/progress.h"
#include "session/recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Room in the tables for what arrives late (dlopen, children's programs). */
#define PROBES_SLACK 4096
/* Room for the plan, which is not known yet: all of PyTorch's operators fit. A larger plan loads
 * the programs again. */
#define PROBES_GUESS 4096
/* The rings are drained at least this often, and late mappings read. More often at first, while all
 * of the default is attached, for the budget. */
#define TICK_NS	      50000000u
#define EARLY_TICK_NS 20000000u
#define EARLY_NS      500000000u
#define DUMP_TICK_NS  5000000u
/* A capture file has all records that are older. */
#define FLUSH_NS 500000000u

/* Opened, begun, ticked, stopped and ended in this order, closed in the reverse one. */
static const struct recording_part *const parts[] = {
	&probes_part,	 &thread_counters_part,
	&memory_part,	 &operations_part,
	&processes_part, &memory_sums_part,
	&frames_part,	 &unwind_tables_part,
	&sampler_part,	 &programs_part,
	&waits_part,	 &files_part,
	&reader_part,	 &powercap_part,
	&gpus_part,	 &recycle_part,
	&follow_part,	 &written_files_part,
	&gpu_work_part,	 &gpu_agents_part,
	&budget_part,	 &steps_part,
	&totals_part,	 &progress_part,
	&flight_part,	 &dump_part,
};
#define PARTS_COUNT (sizeof(parts) / sizeof(parts[0]))

/* Calls a verb of all parts that have it. */
#define EACH_PART(verb, ...)                                 \
	do {                                                 \
		for (size_t i = 0; i < PARTS_COUNT; i++)     \
			if (parts[i]->verb)                  \
				parts[i]->verb(__VA_ARGS__); \
	} while (0)

struct recorder {
	struct recording recording; /* first: parts hand it back */
	const struct features *features;
	struct loading *loading; /* of the tracer, beside the plan; NULL: it has ended */
	struct host_peaks host_peaks;
	struct observation *observation; /* NULL: steps are not observed without probes */
	int epoll_fd, timer_fd;
	uint64_t tick_ns;	     /* of the timer */
	unsigned wakes[PARTS_COUNT]; /* of each part since the last tick */
	uint64_t next_sample_ns, next_flush_ns;
	bool all_gone;	       /* all targets had ended when the recording began */
	uint64_t begin_cpu_ns; /* the tracer's own, by then */
};

static int say_gone(const struct recording *recording)
{
	if (!recording->begun)
		totals_of_nothing(recording->sink, recording->options);
	msg_say("the program ended before tracing began: perfx-trace run -- COMMAND traces it from "
		"its start");
	return EXIT_TARGET;
}

/* The plan for what runs now, before anything is attached: a pattern without a match ends here. */
static int plan_targets(const struct recording *recording)
{
	const struct recorder_options *options = recording->options;
	const pid_t *targets = options->launch ? &recording->main_pid : options->pids;
	size_t count = options->launch ? 1 : options->pids_count;
	char *why = NULL;
	int pattern;

	for (size_t i = 0; i < count; i++) {
		size_t *modules = NULL;
		ssize_t n = plan__scan(recording->plan, targets[i], &modules);

		free(modules);
		if (n < 0 && n != -E2BIG && process_has_ended(targets[i]))
			return say_gone(recording);
		if (n < 0) {
			say_scan_error(targets[i], n, options->plan.functions_max);
			return n == -E2BIG ? EXIT_USAGE : n == -ESRCH ? EXIT_TARGET : EXIT_FAILED;
		}
	}
	pattern = options->all ? -1 : plan__unmatched(recording->plan, recording->main_pid, &why);
	if (pattern < 0)
		return EXIT_OK;
	msg_say("-F '%s': %s", pattern__text(options->plan.patterns[pattern]),
		why ? why : strerror(ENOMEM));
	free(why);
	return EXIT_USAGE;
}

static void emit_host_peaks(struct recorder *recorder)
{
	host_peaks_emit(&recorder->host_peaks, recorder->recording.sink,
			&recorder->recording.options->peaks, recorder->recording.plan);
}

/* More processes than this get the larger table of calling contexts. */
#define FEW_PROCESSES 4

static int begin_load(struct recorder *recorder)
{
	struct recording *recording = &recorder->recording;
	const struct recorder_options *options = recording->options;
	struct tracer_options tracer_options = {
		.link = options->link,
		.follow_children = options->follow_children,
		.compensate = options->compensate,
		.many_processes = options->all || options->pids_count > FEW_PROCESSES,
		.ring_bytes = options->ring_bytes,
		.rings_count = options->rings_count,
		.memory = options->plan.memory != MEMORY_OFF,
		.files = options->plan.files,
		.samples = options->sample_hz > 0,
		.dump = options->dump || options->dumps,
		.only_dump = options->dump,
		.stacks = options->stacks,
		.waiting = options->off_cpu,
		.timeline = options->timeline,
		.probes_max = PROBES_GUESS + PROBES_SLACK,
		.kinds = &recording->plan->kinds,
	};

	/* what a started program will load is not known, nor which later library has a function
	 * that was asked for by name: it shall not wait for the kernel */
	if (options->launch || options->plan.patterns_count)
		recording->plan->kinds = UINT32_MAX;
	recording->thread_counters =
		thread_counters__new(options->counters, options->counters_names);
	if (recording->thread_counters) {
		tracer_options.counters = thread_counters__counters(recording->thread_counters);
		recorder->loading = loading__start(&tracer_options, recorder->features);
	}
	if (recorder->loading)
		return EXIT_OK;
	msg_say("out of memory");
	return EXIT_FAILED;
}

/* For so long the cost of a hit is taken to be what was measured. */
#define CALIBRATION_NS 3600000000000u

static void calibrate_or_recall(struct recording *recording)
{
	const struct recorder_options *options = recording->options;
	struct calibration *calibration = &recording->calibration;
	uint64_t variant = clock_monotonic_ns() / CALIBRATION_NS << 8 |
			   (uint64_t)tracer__hit_link(recording->tracer);
	bool kept = options->plan.facts_folder;

	if (!options->calibrate ||
	    (kept && boot_recall("calibration", variant, calibration, sizeof(*calibration))))
		return;
	if (calibrate(recording->tracer, calibration))
		msg_say("cannot measure the cost of a hit: %s", strerror(errno));
	else if (kept)
		boot_keep("calibration", variant, calibration, sizeof(*calibration));
}

static int load(struct recorder *recorder)
{
	struct recording *recording = &recorder->recording;
	const struct recorder_options *options = recording->options;
	size_t sites = 0;

	for (size_t i = 0; i < recording->plan->functions_count; i++)
		sites += 1 + recording->plan->functions[i].site.exits_count;
	msg_status("loading the BPF programs…");
	recording->tracer = loading__end(recorder->loading, (uint32_t)(sites + PROBES_SLACK));
	recorder->loading = NULL;
	if (!recording->tracer) {
		if (errno == ENOTSUP)
			msg_say("--link %s: not supported by this kernel: try without --link",
				name_of_link(options->link));
		else
			msg_say("cannot load the BPF programs: %s: see perfx-trace doctor",
				strerror(errno));
		return errno == EPERM ? EXIT_PRIVILEGE : EXIT_FAILED;
	}
	phases_begin(options->phases, "calibrate");
	calibrate_or_recall(recording);
	return EXIT_OK;
}

static void set_ticks(struct recorder *recorder, uint64_t ns)
{
	struct timespec period = {.tv_nsec = (long)ns};

	recorder->tick_ns = ns;
	timerfd_settime(recorder->timer_fd, 0, &(struct itimerspec){period, period}, NULL);
}

static void recording_begin(struct recorder *recorder, uint64_t start_ns)
{
	struct recording *recording = &recorder->recording;

	recording->begun = true;
	recording->start_ns = start_ns;
	if (recorder->observation)
		observation__recording(recorder->observation, start_ns);
	recorder->begin_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	recorder->next_sample_ns = start_ns + recording->options->interval_ns;
	totals_host(recording->sink, recording->options, start_ns);
	process_table__hold(recording->processes, false);
	EACH_PART(sample, recording, recording->options->dump ? USAGE_TICK : USAGE_WHOLE);
	EACH_PART(begin, recording);
	set_ticks(recorder, recording->options->dump ? DUMP_TICK_NS : EARLY_TICK_NS);
}

/* /proc counts CPU time in units of this. */
#define TURN_SAMPLE_NS 10000000u

static void note_pause(struct recording_windows *windows, uint64_t from_ns, uint64_t to_ns)
{
	if (++windows->pauses_emitted < PERFX_RECORDING_WINDOWS_MAX)
		(void)LIST_ADD(windows->pauses, (struct recording_pause){from_ns, to_ns});
}

void recording_turn(struct recording *recording, const struct perfx_recording_window *window)
{
	struct recording_windows *windows = &recording->windows;
	uint64_t time_ns = window->time_ns;
	bool was_paused = windows->paused;

	windows->turns_count++;
	if (window->flags & PERFX_RECORDING_WINDOW_OPENS) {
		windows->paused = false;
		windows->opened_ns = time_ns;
		if (!windows->any) {
			windows->any = true;
			recording_begin((struct recorder *)recording, time_ns);
		} else if (was_paused) { /* the end of a pause may be read before its beginning */
			note_pause(windows, windows->paused_ns, time_ns);
			process_table__hold(recording->processes, false);
			EACH_PART(sample, recording, USAGE_OF_GPUS);
		}
	} else if (time_ns < windows->opened_ns) {
		note_pause(windows, time_ns, windows->opened_ns);
	} else {
		windows->paused = true;
		windows->paused_ns = time_ns;
		if (time_ns >= windows->next_sample_ns) {
			windows->next_sample_ns = time_ns + TURN_SAMPLE_NS;
			EACH_PART(sample, recording, USAGE_WHOLE);
		}
		process_table__hold(recording->processes, true);
	}
}

void recording_report_pauses(struct recording *recording)
{
	FOR_EACH (pause, recording->windows.pauses)
		memory__paused(recording->memory, pause->from_ns, pause->to_ns);
	recording->windows.pauses_count = 0;
}

_Static_assert(offsetof(struct recorder, recording) == 0, "a recording is its recorder's");

/* Besides the parts, by index. */
#define WAKE_TIMER   PARTS_COUNT
#define WAKE_WATCHER (PARTS_COUNT + 1)

/* 0 or -errno; fd -1: there is nothing to watch. */
static int watch(struct recorder *recorder, size_t index, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = index};

	return fd >= 0 && epoll_ctl(recorder->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int open_loop(struct recorder *recorder)
{
	const struct recorder_watcher *watcher = recorder->recording.options->watcher;
	int err;

	recorder->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	recorder->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	err = recorder->epoll_fd < 0 || recorder->timer_fd < 0 ? -errno : 0;
	err = err ?: watch(recorder, WAKE_TIMER, recorder->timer_fd);
	err = err ?: watch(recorder, WAKE_WATCHER, watcher ? watcher->fd : -1);
	for (size_t i = 0; !err && i < PARTS_COUNT; i++)
		err = watch(recorder, i, parts[i]->fd ? parts[i]->fd(&recorder->recording) : -1);
	if (!err)
		return EXIT_OK;
	msg_say("cannot set up the recording: %s", strerror(-err));
	return EXIT_FAILED;
}

static void enable_wakes(struct recorder *recorder, size_t part, bool on)
{
	struct epoll_event event = {.events = on ? EPOLLIN : 0, .data.u64 = part};

	epoll_ctl(recorder->epoll_fd, EPOLL_CTL_MOD, parts[part]->fd(&recorder->recording), &event);
}

/* Is it time? Then the next time is a period from now. */
static bool is_due(uint64_t *next_ns, uint64_t now_ns, uint64_t period_ns)
{
	if (now_ns < *next_ns)
		return false;
	*next_ns = now_ns + period_ns;
	return true;
}

static void on_tick(struct recorder *recorder)
{
	struct recording *recording = &recorder->recording;
	const struct recorder_options *options = recording->options;
	uint64_t expirations, now_ns = clock_monotonic_ns();

	if (read(recorder->timer_fd, &expirations, sizeof(expirations)) < 0)
		return;
	for (size_t i = 0; i < PARTS_COUNT; i++) {
		if (parts[i]->wakes_max && recorder->wakes[i] >= parts[i]->wakes_max)
			enable_wakes(recorder, i, true);
		recorder->wakes[i] = 0;
	}
	if (recorder->tick_ns == EARLY_TICK_NS && now_ns > recording->start_ns + EARLY_NS)
		set_ticks(recorder, TICK_NS);
	reader_part.on_readable(recording);
	recording->now_ns = now_ns;
	if (!recording->windows.paused &&
	    is_due(&recorder->next_sample_ns, now_ns, options->interval_ns))
		EACH_PART(sample, recording, USAGE_TICK);
	EACH_PART(tick, recording);
	if (options->watcher && options->watcher->on_tick)
		options->watcher->on_tick(options->watcher->ctx, now_ns);
	/* memory needs no flush */
	if (!options->flight_ns && is_due(&recorder->next_flush_ns, now_ns, FLUSH_NS))
		pipeline_flush(recording->pipeline);
}

static bool finished(struct recorder *recorder)
{
	struct recording *recording = &recorder->recording;
	const struct recorder_options *options = recording->options;
	size_t running;

	process_table__pids(recording->processes, &running);
	return interrupt_asked() || recording->pipeline->err ||
	       pipeline_full(recording->pipeline) || step_watch__done(recording->steps) ||
	       dump__done(recording) || (options->enough && options->enough(options->enough_ctx)) ||
	       clock_monotonic_ns() >= recording->end_ns || (!running && !options->all) ||
	       recorder->all_gone ||
	       (options->launch && follow__result(recording->follow)->main_ended);
}

static void loop(struct recorder *recorder)
{
	struct recording *recording = &recorder->recording;
	const struct recorder_watcher *watcher = recording->options->watcher;
	struct follow *follow = recording->follow;
	struct epoll_event events[8];

	while (!finished(recorder)) {
		uint64_t now_ns = clock_monotonic_ns(), left_ns;
		int n;

		left_ns = recording->end_ns > now_ns ? recording->end_ns - now_ns : 0;
		n = epoll_wait(recorder->epoll_fd, events, 8,
			       (int)((min_u64(left_ns, 1000000000u) + 999999) / 1000000));
		for (int i = 0; i < n; i++) {
			uint64_t part = events[i].data.u64;

			if (part == WAKE_TIMER) {
				on_tick(recorder);
			} else if (part == WAKE_WATCHER) {
				watcher->on_input(watcher->ctx);
			} else {
				if (++recorder->wakes[part] == parts[part]->wakes_max)
					enable_wakes(recorder, part, false);
				if (parts[part]->on_readable)
					parts[part]->on_readable(recording);
			}
		}
		if (!follow__read_mappings(follow))
			continue;
		/* records and writes of the meantime come before attaching */
		reader_part.on_readable(recording);
		follow__drop_written_files(follow);
		follow__attach_queued(follow);
	}
}

/* The work before a recording begins is half a second of CPU time. Where the program has all CPUs,
 * that would take twice as long at its priority, and delay it as much. */
#define START_NICE (-20)

/* Raises the priority of this thread and of those that it starts from here on. Any other than the
 * default priority is somebody's choice; a launched program would inherit ours. */
static void raise_priority(const struct recording *recording)
{
	if (!recording->options->launch && getpriority(PRIO_PROCESS, 0) == 0)
		setpriority(PRIO_PROCESS, 0, START_NICE);
}

/* A dump keeps it: all of it is such work. */
static void restore_priority(const struct recording *recording)
{
	pid_t *tids = NULL;
	ssize_t count = recording->options->dump ? 0 : process_threads(getpid(), &tids);

	for (ssize_t i = 0; i < count; i++)
		if (getpriority(PRIO_PROCESS, (id_t)tids[i]) == START_NICE)
			setpriority(PRIO_PROCESS, (id_t)tids[i], 0);
	if (count >= 0)
		free(tids);
}

/* The few records of it are read when the recording has begun, or has ended. */
static void observe(struct recorder *recorder)
{
	const struct recording *recording = &recorder->recording;
	size_t count;
	const pid_t *pids = process_table__pids(recording->processes, &count);

	msg_status("timing steps without probes…");
	observation__watch(recorder->observation, recording->tracer, pids, count,
			   min_u64(recording->options->observe_ns,
				   recording->options->duration_ns));
}

/* Skipped after an interrupt, because the user waits for the report, and while links still close.
 */
static void observe_after(struct recorder *recorder, const struct ending *ending)
{
	if (!recorder->observation)
		return;
	observation__after(recorder->observation);
	if (recorder->recording.detached && !ending->interrupted && !ending->exited) {
		observe(recorder);
		reader__finish(recorder->recording.reader);
	}
	observation__emit(recorder->observation);
}

static void say_started(const struct recording *recording)
{
	char phases[192] = "";

	if (!recording->options->quiet)
		say_tracing(recording);
	if (!getenv("PERFX_DEBUG"))
		return;
	phases_format(recording->options->phases, clock_monotonic_ns(), phases, sizeof(phases));
	msg_say("%s", phases);
	say_unwind_tables(recording);
}

static void start(struct recorder *recorder)
{
	struct recording *recording = &recorder->recording;
	const struct recorder_options *options = recording->options;
	uint64_t now_ns, duration_ns = options->duration_ns;

	/* just before: whoever shares the control group may use it up */
	tracer__make_room(recording->tracer);
	/* a process that ends from now on has an exit record of the recording's time */
	recorder->all_gone = !options->all && process_table__all_ended(recording->processes);
	now_ns = clock_monotonic_ns();
	recording->end_ns = duration_ns == UINT64_MAX ? UINT64_MAX : now_ns + duration_ns;
	msg_reductions_begin(now_ns);
	if (options->wait) {
		recording->windows.paused = true;
		process_table__hold(recording->processes, true);
		set_ticks(recorder, TICK_NS);
		tracer__wait(recording->tracer);
	} else {
		recording->windows.any = true;
		recording_begin(recorder, now_ns);
		tracer__start(recording->tracer);
	}
	sampler__start(recording->sampler);
	waits__start(recording, options->launch ? 0 : now_ns);
	/* after the start: every call after this line is recorded */
	if (!recorder->all_gone)
		say_started(recording);
	if (options->launch)
		launch__go(options->launch);
}

/* Stops the programs and reads their last records. Returns when the recording ended. */
static uint64_t stop(struct recorder *recorder)
{
	struct recording *recording = &recorder->recording;
	uint64_t end_ns = clock_monotonic_ns();

	msg_status("reading the last records…");
	EACH_PART(sample, recording, recording->options->dump ? USAGE_TICK : USAGE_WHOLE);
	EACH_PART(stop, recording);
	if (!recording->begun)
		recording_begin(recorder, end_ns);
	else if (recording->windows.paused)
		end_ns = recording->windows.paused_ns;
	return end_ns;
}

/* Until a time of CLOCK_REALTIME, or an interrupt. */
static void sleep_until(uint64_t unix_ns)
{
	const struct timespec then = {.tv_sec = (time_t)(unix_ns / 1000000000u),
				      .tv_nsec = (long)(unix_ns % 1000000000u)};

	while (!interrupt_asked() &&
	       clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &then, NULL) == EINTR)
		;
}

/* Leaves the time to attach. */
static void await_day_time(const struct recorder_options *options)
{
	time_t then = (time_t)(options->at_unix_ns / 1000000000u);
	struct tm day;
	char text[32];

	if (!options->at_unix_ns)
		return;
	localtime_r(&then, &day);
	strftime(text, sizeof(text), "%F %T", &day);
	msg_say("the recording begins at %s", text);
	sleep_until(options->at_unix_ns - RECORDER_LEAD_NS);
}

static void await_begin(const struct recorder_options *options)
{
	uint64_t now_ns = clock_ns(CLOCK_REALTIME);

	if (options->at_unix_ns && now_ns > options->at_unix_ns)
		msg_say("the recording begins %s late: it took so long to attach",
			as_ns(now_ns - options->at_unix_ns));
	else if (options->at_unix_ns)
		sleep_until(options->at_unix_ns);
}

static int trace(struct recorder *recorder)
{
	struct recording *recording = &recorder->recording;
	const struct follow_result *followed = follow__result(recording->follow);
	struct ending ending = {0};

	if (recorder->observation) {
		observe(recorder);
		msg_status("attaching…");
		raise_priority(recording);
		probes__attach_rest(recording->probes);
		restore_priority(recording);
	}
	await_begin(recorder->recording.options);
	start(recorder);
	loop(recorder);
	ending.recording_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - recorder->begin_cpu_ns;
	ending.end_ns = stop(recorder);
	ending.spans_count = reader__spans_count(recording->reader);
	ending.killed =
		!recorder->all_gone && followed->main_ended && (followed->main_status & 0x7f);
	ending.exited = followed->main_ended;
	ending.interrupted = interrupt_asked();
	ending.dump = recording->options->dump;
	ending.maps_read_count = followed->maps_read_count;
	ending.untraced_read_count = followed->untraced_read_count;
	emit_host_peaks(recorder); /* for files that were mapped since the start */
	recording->ended_ns = ending.end_ns;
	EACH_PART(end, recording);
	observe_after(recorder, &ending);
	if (recording->options->flight_ns)
		return flight__finish(recording->flight, &ending);
	totals__close(recording->totals, recording->sink, &ending);
	return EXIT_OK;
}

static void close_all(struct recorder *recorder)
{
	struct recording *recording = &recorder->recording;

	for (size_t i = PARTS_COUNT; i-- > 0;)
		if (parts[i]->close)
			parts[i]->close(recording);
	if (recorder->loading) /* the plan has failed */
		recording->tracer = loading__end(recorder->loading, 0);
	tracer__free(recording->tracer);
	observation__free(recorder->observation);
	plan__free(recording->plan);
	skipped_clear(&recording->skipped);
	if (recorder->epoll_fd >= 0)
		close(recorder->epoll_fd);
	if (recorder->timer_fd >= 0)
		close(recorder->timer_fd);
	free(recording->windows.pauses);
}

static int plan_and_load(struct recorder *recorder)
{
	struct phases *phases = recorder->recording.options->phases;
	int code;

	recorder->recording.plan = plan__new(&recorder->recording.options->plan);
	if (!recorder->recording.plan) {
		msg_say("out of memory");
		return EXIT_FAILED;
	}
	msg_status("looking for functions…");
	phases_begin(phases, "plan");
	code = begin_load(recorder) ?: plan_targets(&recorder->recording);
	phases_begin(phases, "load");
	if (!code)
		code = load(recorder);
	return code;
}

static int attach(struct recorder *recorder)
{
	struct recording *recording = &recorder->recording;

	if (follow__targets(recording->follow))
		return say_gone(recording);
	progress_attaching(recording->plan);
	if (recorder->observation)
		probes__only(recording->probes, observation_ends_steps);
	if (follow__attach(recording->follow))
		return EXIT_FAILED;
	skip_rejected_programs(recording);
	if (recording->gpu_agents && !recording->options->launch)
		gpu_agents__inject(recording->gpu_agents);
	return EXIT_OK;
}

static int prepare(struct recorder *recorder)
{
	struct recording *recording = &recorder->recording;
	const struct recorder_options *options = recording->options;
	int code;

	raise_priority(recording);
	code = plan_and_load(recorder);
	restore_priority(recording);
	if (code)
		return code;
	/* after the load, which would make an idle host look busy */
	phases_begin(options->phases, "peaks");
	emit_host_peaks(recorder);
	raise_priority(recording);
	phases_begin(options->phases, "attach");
	/* only steps of a program that runs already, and that does not decide what is recorded */
	if (options->observe_ns && !options->launch && !options->wait &&
	    observation_is_possible(recording->plan)) {
		recorder->observation = observation__new(recording->sink);
		if (recorder->observation)
			recording->sink = observation__sink(recorder->observation);
	}
	for (size_t i = 0; !code && i < PARTS_COUNT; i++) {
		int err = parts[i]->open ? parts[i]->open(recording) : 0;

		if (err) {
			msg_say("cannot set up %s: %s", parts[i]->name, strerror(-err));
			code = EXIT_FAILED;
		}
	}
	code = code ?: attach(recorder);
	restore_priority(recording);
	return code ?: open_loop(recorder);
}

/* Tells the user why the program or the recording ended early. */
static int explain_end(const struct recorder *recorder, int code)
{
	const struct recording *recording = &recorder->recording;
	const struct follow_result *followed = follow__result(recording->follow);

	if (!code && followed->main_ended && (followed->main_status & 0x7f) &&
	    !recording->options->launch) {
		code = EXIT_TARGET;
		/* a report says it in its verdict */
		if (!recording->pipeline->aggregate)
			msg_say("process %d was killed by signal %d (%s)", recording->main_pid,
				followed->main_status & 0x7f,
				strsignal(followed->main_status & 0x7f));
	}
	if (recording->options->wait && !recording->windows.any)
		msg_say("perfx_trace_start was not called: nothing was recorded");
	return recorder->all_gone ? say_gone(recording) : code;
}

int recorder_run(const struct recorder_options *options, const struct features *features,
		 struct pipeline *pipeline, int *child_status)
{
	struct profiler_watch profiler_watch = {0};
	struct recorder recorder = {.recording = {.options = options,
						  .pipeline = pipeline,
						  .sink = &pipeline->sink,
						  .profiler_watch = &profiler_watch},
				    .features = features,
				    .epoll_fd = -1,
				    .timer_fd = -1};
	struct recording *recording = &recorder.recording;
	const struct follow_result *followed = NULL;
	int code;

	recording->main_pid = options->launch	    ? launch__pid(options->launch)
			      : options->pids_count ? options->pids[0]
						    : 0;
	if (options->gpu_level)
		recording->sink = profiler_watch_init(&profiler_watch, recording->sink);
	await_day_time(options);
	code = prepare(&recorder) ?: explain_end(&recorder, trace(&recorder));
	msg_status_clear();
	if (recording->follow)
		followed = follow__result(recording->follow);
	if (child_status)
		*child_status = followed && followed->main_ended ? followed->main_status : -1;
	close_all(&recorder);
	return code;
}
