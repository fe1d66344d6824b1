// SPDX-License-Identifier: BSD-2-Clause
#include "attach/tracer.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/interrupt.h"
#include "base/message.h"
#include "decode/names.h"
#include "proc/process.h"
#include "session/recorder_internal.h"
#include "session/totals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Room in the tables for what arrives late (dlopen, children's programs). */
#define PROBES_SLACK 4096
/* Room for what is planned, guessed before that is known: all of PyTorch's operators fit. Where
 * more are wanted, the programs are loaded once more. */
#define PROBES_GUESS 4096
/* The rings are drained at least this often, and late mappings looked at. */
#define TICK_NS 50000000u
/* So many mappings wake the tracer between two ticks. */
#define MAPPINGS_WAKES_MAX 50
/* A capture file has what is older, but for the moment that the disk takes. */
#define FLUSH_NS 500000000u

/* The plan for what runs now, before anything is attached: a pattern without a match ends here. */
static int plan_targets(struct recorder *recorder)
{
	const struct recorder_options *options = recorder->options;
	pid_t pid = options->launch ? launch__pid(options->launch)
				    : (options->pids_count ? options->pids[0] : 0);
	size_t count = options->launch ? 1 : options->pids_count;
	char *nearest = NULL;
	int pattern;

	for (size_t i = 0; i < count; i++) {
		size_t *modules = NULL;
		pid_t target = options->launch ? pid : options->pids[i];
		ssize_t n = plan__scan(recorder->plan, target, &modules);

		free(modules);
		if (n < 0) {
			say_scan_error(target, recorder, n);
			return n == -E2BIG ? EXIT_USAGE : n == -ESRCH ? EXIT_TARGET : EXIT_FAILED;
		}
	}
	pattern = options->all ? -1 : plan__unmatched(recorder->plan, pid, &nearest);
	if (pattern < 0)
		return EXIT_OK;
	msg_say("-F '%s': no function of that name is mapped%s%s",
		pattern__text(options->plan.patterns[pattern]),
		nearest && *nearest ? "; near: " : "", nearest ? nearest : "");
	free(nearest);
	return EXIT_USAGE;
}

/* What the report does without because the kernel refuses a program. */
static void emit_lacking(struct recorder *recorder)
{
	static const char *const names[TRACER_PARTS] = {
		[TRACER_ANNOTATIONS] = "ranges and values that programs mark",
		[TRACER_MEMORY] = "allocations",
		[TRACER_SOCKETS] = "bytes over sockets",
	};

	for (int part = 0; part < TRACER_PARTS; part++) {
		if (!tracer__lacks(recorder->tracer, (enum tracer_part)part))
			continue;
		msg_say("%s: not recorded, for this kernel refuses the BPF program for it "
			"(PERFX_DEBUG=1 shows why)",
			names[part]);
		plan__skip(recorder->plan, names[part],
			   "this kernel refuses the BPF program for it");
	}
}

static int begin_load(struct recorder *recorder)
{
	const struct recorder_options *options = recorder->options;
	struct tracer_options tracer_options = {
		.link = options->link,
		.follow_children = options->follow_children,
		.compensate = options->compensate,
		.ring_bytes = options->ring_bytes,
		.rings_count = options->rings_count,
		.memory = options->plan.memory != MEMORY_OFF,
		.probes_max = PROBES_GUESS + PROBES_SLACK,
	};

	recorder->thread_counters =
		thread_counters__new(options->counters, options->counters_names);
	if (!recorder->thread_counters) {
		msg_say("out of memory");
		return EXIT_FAILED;
	}
	tracer_options.counters = thread_counters__counters(recorder->thread_counters);
	recorder->loading = loading__start(&tracer_options, recorder->features);
	if (!recorder->loading) {
		msg_say("out of memory");
		return EXIT_FAILED;
	}
	return EXIT_OK;
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
			msg_say("--link %s: this kernel has no such link: try without --link",
				name_of_link(options->link));
		else
			msg_say("the BPF programs do not load: %s: see perfx-trace doctor",
				strerror(errno));
		return errno == EPERM ? EXIT_PRIVILEGE : EXIT_FAILED;
	}
	emit_lacking(recorder);
	phases_begin(options->phases, "calibrate");
	if (options->calibrate && calibrate(recorder->tracer, &recorder->calibration))
		msg_say("cost of a hit not measured: %s", strerror(errno));
	return EXIT_OK;
}

static bool is_triggered(const struct recorder_options *options)
{
	return options->trigger.ns || options->trigger.times > 0;
}

/* For what ends by them, and for the user who looks on; that is not worth decoding all records of a
 * recording of which no report is made. */
static bool watches_steps(const struct recorder *recorder)
{
	return recorder->options->steps_max || is_triggered(recorder->options) ||
	       (recorder->pipeline->aggregate && msg_has_status());
}

static int open_rooms(struct recorder *recorder)
{
	struct memory_options memory = {.sample_bytes = recorder->options->sample_bytes,
					.all_processes = recorder->options->all};

	recorder->queue = attach_queue__new();
	recorder->file_watch = file_watch__new();
	recorder->mappings = mappings__new(); /* NULL: mappings are looked at by the clock */
	recorder->processes = process_table__new(recorder->tracer, recorder->sink,
						 recorder->options->full_cmdline);
	recorder->probes = probes__new(recorder->plan, recorder->tracer, &recorder->calibration,
				       recorder->sink);
	if (recorder->probes && thread_counters__counters(recorder->thread_counters))
		probes__enable_counters(recorder->probes,
					thread_counters__all_functions(recorder->thread_counters));
	if (recorder->probes)
		recorder->memory = memory__new(recorder->plan, recorder->tracer, recorder->probes,
					       recorder->sink, &memory);
	if (recorder->options->plan.memory != MEMORY_OFF)
		recorder->frames = frames__new(recorder->sink);
	if (recorder->probes)
		recorder->operations = operations__new(recorder->plan, recorder->tracer,
						       recorder->probes, recorder->sink);
	recorder->reader = reader__new(recorder->tracer, recorder->sink, follow_record,
				       follow_object, recorder);
	if (recorder->reader)
		reader__name_steps(recorder->reader, recorder->options->plan.step_range);
	if (watches_steps(recorder))
		recorder->steps = step_watch__new(
			recorder->pipeline, recorder->options->steps_max,
			is_triggered(recorder->options) ? &recorder->options->trigger : NULL);
	if (recorder->probes)
		recorder->totals = totals__new(recorder->sink, recorder->tracer, recorder->plan,
					       recorder->probes);
	if (recorder->queue && recorder->processes && recorder->totals && recorder->memory &&
	    recorder->operations && recorder->reader &&
	    (recorder->steps || !watches_steps(recorder)))
		return EXIT_OK;
	msg_say("cannot set up the recording: %s", strerror(errno));
	return EXIT_FAILED;
}

/* --- the loop --- */

static int watch(int epoll_fd, int fd, uint32_t what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = what};

	return fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

enum watched { WATCH_TIMER = 1, WATCH_RINGS, WATCH_MAPPINGS, WATCH_FILES };

static int open_loop(struct recorder *recorder)
{
	struct itimerspec tick = {.it_interval.tv_nsec = TICK_NS, .it_value.tv_nsec = TICK_NS};
	int err;

	recorder->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	recorder->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	timerfd_settime(recorder->timer_fd, 0, &tick, NULL);
	err = watch(recorder->epoll_fd, recorder->timer_fd, WATCH_TIMER);
	if (!err)
		err = watch(recorder->epoll_fd, reader__fd(recorder->reader), WATCH_RINGS);
	if (!err && recorder->mappings)
		err = watch(recorder->epoll_fd, mappings__fd(recorder->mappings), WATCH_MAPPINGS);
	if (!err && recorder->file_watch)
		err = watch(recorder->epoll_fd, file_watch__fd(recorder->file_watch), WATCH_FILES);
	if (err)
		msg_say("cannot set up the recording: %s", strerror(-err));
	return err ? EXIT_FAILED : EXIT_OK;
}

/* Of more processes it is not worth asking. */
#define CPU_PROCESSES_MAX 32

static uint64_t cpu_of_all(struct recorder *recorder)
{
	uint64_t cpu_ns = 0;
	size_t count;
	const pid_t *pids = process_table__pids(recorder->processes, &count);

	if (count > CPU_PROCESSES_MAX)
		return UINT64_MAX;
	for (size_t i = 0; i < count; i++) {
		struct process_usage usage;

		if (!process_usage(pids[i], &usage) && usage.cpu_user_ns != UINT64_MAX)
			cpu_ns += usage.cpu_user_ns + usage.cpu_system_ns;
	}
	return cpu_ns;
}

void count_threads(struct recorder *recorder)
{
	size_t count;
	const pid_t *pids = process_table__pids(recorder->processes, &count);

	thread_counters__scan(recorder->thread_counters, recorder->tracer, pids, count);
}

static void drain(struct recorder *recorder)
{
	reader__drain(recorder->reader);
	recording_window_settle(recorder);
}

/* Who maps code all the time is looked at by the clock: not each mapping wakes the tracer. */
static void heed_mappings(struct recorder *recorder, bool heeded)
{
	struct epoll_event event = {.events = heeded ? EPOLLIN : 0, .data.u32 = WATCH_MAPPINGS};

	bool ignored = recorder->mappings_wakes >= MAPPINGS_WAKES_MAX;

	if (heeded)
		recorder->mappings_wakes = 0;
	if (recorder->mappings && ignored)
		epoll_ctl(recorder->epoll_fd, EPOLL_CTL_MOD, mappings__fd(recorder->mappings),
			  &event);
}

static void on_tick(struct recorder *recorder)
{
	uint64_t expirations, now = clock_monotonic_ns();

	if (read(recorder->timer_fd, &expirations, sizeof(expirations)) < 0)
		return;
	heed_mappings(recorder, true);
	drain(recorder);
	count_threads(recorder);
	follow_untraced(recorder, now);
	probes__watch_cost(recorder->probes);
	probes__heed_nesting(recorder->probes);
	probes__enforce_budget(recorder->probes, now);
	if (!recorder->paused)
		memory__enforce_budget(recorder->memory, now,
				       memory__due(recorder->memory, now) ? cpu_of_all(recorder)
									  : UINT64_MAX);
	if (!recorder->paused && now >= recorder->next_sample_ns) {
		process_table__sample(recorder->processes, false);
		recorder->next_sample_ns = now + recorder->options->interval_ns;
	}
	progress_tick(recorder, now);
	flight_tick(recorder, now);
	/* memory needs no flush */
	if (!recorder->options->flight_ns && now >= recorder->next_flush_ns) {
		pipeline_flush(recorder->pipeline);
		recorder->next_flush_ns = now + FLUSH_NS;
	}
	if (recorder->mappings)
		return;
	if (now >= recorder->next_scan_ns) {
		recorder->rescan = true;
		recorder->next_scan_ns = now + 1000000000u;
	}
}

static bool finished(struct recorder *recorder)
{
	size_t living;

	process_table__pids(recorder->processes, &living);
	return interrupt_asked() || recorder->pipeline->err || pipeline_full(recorder->pipeline) ||
	       step_watch__done(recorder->steps) || clock_monotonic_ns() >= recorder->end_ns ||
	       (!living && !recorder->options->all) || recorder->all_gone ||
	       (recorder->options->launch && recorder->main_ended);
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
				if (++recorder->mappings_wakes == MAPPINGS_WAKES_MAX)
					heed_mappings(recorder, false);
				break;
			case WATCH_FILES:
				file_watch__take(recorder->file_watch);
				follow_files(recorder);
				break;
			}
		}
		follow_mappings(recorder);
		if (attach_queue__is_empty(recorder->queue))
			continue;
		/* what has become of them by now */
		drain(recorder);
		follow_files(recorder);
		follow_attach_queued(recorder);
	}
}

/* --- a whole recording --- */

void emit_perf_counters(struct recorder *recorder)
{
	if (thread_counters__counters(recorder->thread_counters) ||
	    thread_counters__all_functions(recorder->thread_counters) ||
	    any_cost_known(recorder->plan))
		thread_counters__describe(recorder->thread_counters, recorder->sink);
}

static bool have_all_ended(const struct recorder *recorder)
{
	size_t count;
	const pid_t *pids = process_table__pids(recorder->processes, &count);

	if (recorder->options->all)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!process_has_ended(pids[i]))
			return false;
	return true;
}

static void start(struct recorder *recorder)
{
	uint64_t now_ns = clock_monotonic_ns(), duration_ns = recorder->options->duration_ns;

	recorder->end_ns = duration_ns == UINT64_MAX ? UINT64_MAX : now_ns + duration_ns;
	if (recorder->options->wait) {
		recorder->paused = true;
		process_table__hold(recorder->processes, true);
		tracer__wait(recorder->tracer);
	} else {
		recording_begin(recorder, now_ns);
		tracer__start(recorder->tracer);
	}
	/* an end from here on is seen as it comes to pass, one before it never */
	recorder->all_gone = have_all_ended(recorder);
	/* after the start: whoever reads the line may count on every call from here on */
	say_waiting(recorder);
	if (recorder->options->wait)
		say_program_decides(recorder);
	say_tracing(recorder);
	say_phases(recorder);
	if (recorder->options->launch)
		launch__go(recorder->options->launch);
}

static int trace(struct recorder *recorder)
{
	struct ending ending = {0};

	start(recorder);
	loop(recorder);

	ending.end_ns = clock_monotonic_ns();
	ending.recording_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - recorder->begin_cpu_ns;
	msg_status("reading what was recorded last…");
	process_table__sample(recorder->processes, true);
	tracer__stop(recorder->tracer);
	reader__finish(recorder->reader);
	recording_window_settle(recorder);
	if (!recorder->begun)
		recording_begin(recorder, ending.end_ns);
	else if (recorder->paused)
		ending.end_ns = recorder->paused_ns;
	ending.spans_count = reader__spans_count(recorder->reader);
	ending.killed = recorder->main_ended && (recorder->main_status & 0x7f);
	ending.exited = recorder->main_ended;
	ending.interrupted = interrupt_asked();
	ending.looks_count = recorder->looks_count;
	ending.untraced_read_count = recorder->untraced_read_count;
	emit_perf_counters(recorder);
	thread_counters__report(recorder->thread_counters, recorder->tracer, recorder->sink);
	host_peaks_emit(recorder); /* for what has been mapped since the start */
	memory__report(recorder->memory);
	operations__report(recorder->operations, true);
	if (recorder->frames)
		frames__emit(recorder->frames);
	totals__emit(recorder->totals);
	if (recorder->options->flight_ns)
		return flight_finish(recorder, &ending);
	totals__close(recorder->totals, recorder->sink, &ending);
	return EXIT_OK;
}

static void close_rooms(struct recorder *recorder)
{
	reader__free(recorder->reader);
	step_watch__free(recorder->steps);
	totals__free(recorder->totals);
	thread_counters__free(recorder->thread_counters);
	frames__free(recorder->frames);
	memory__free(recorder->memory);
	operations__free(recorder->operations);
	probes__free(recorder->probes);
	process_table__free(recorder->processes);
	mappings__free(recorder->mappings);
	if (recorder->loading) /* what was planned is no good */
		recorder->tracer = loading__end(recorder->loading, 0);
	tracer__free(recorder->tracer);
	plan__free(recorder->plan);
	if (recorder->epoll_fd >= 0)
		close(recorder->epoll_fd);
	if (recorder->timer_fd >= 0)
		close(recorder->timer_fd);
	attach_queue__free(recorder->queue);
	file_watch__free(recorder->file_watch);
	free(recorder->pauses);
}

static int say_gone(void)
{
	msg_say("the process is gone before anything was attached");
	return EXIT_TARGET;
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
	/* not beside the load, which would make an idle host look busy */
	phases_begin(phases, "peaks");
	if (!code)
		host_peaks_emit(recorder);
	phases_begin(phases, "attach");
	if (!code)
		code = open_rooms(recorder);
	if (code)
		return code;
	err = follow_targets(recorder);
	if (err)
		return say_gone();
	progress_attaching(recorder);
	if (follow_attach(recorder))
		return EXIT_FAILED;
	return open_loop(recorder);
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
	int code;

	recorder.main_pid = options->launch	  ? launch__pid(options->launch)
			    : options->pids_count ? options->pids[0]
						  : 0;
	code = prepare(&recorder);
	if (!code) {
		code = trace(&recorder);
		if (!code && recorder.main_ended && (recorder.main_status & 0x7f) &&
		    !options->launch)
			code = EXIT_TARGET;
		if (options->wait && !recorder.windowed)
			msg_say("perfx_trace_start was not called: nothing is recorded");
		if (recorder.all_gone && !recorder.main_ended)
			code = say_gone();
	}
	msg_status_clear();
	if (child_status)
		*child_status = recorder.main_ended ? recorder.main_status : -1;
	close_rooms(&recorder);
	return code;
}

/*
 * --wait: the program says what is recorded. The BPF programs turn themselves on and off; here what
 * belongs to it is done when that is heard of: the recording begins with the first window, and in
 * between no samples are taken.
 */

void recording_begin(struct recorder *recorder, uint64_t start_ns)
{
	recorder->begun = true;
	recorder->start_ns = start_ns;
	recorder->begin_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	flight_begin(recorder);
	totals_host(recorder->sink, recorder->options, start_ns);
	process_table__hold(recorder->processes, false);
	process_table__sample(recorder->processes, true);
	recorder->next_sample_ns = start_ns + recorder->options->interval_ns;
	count_threads(recorder);
	emit_perf_counters(recorder);
	memory__start(recorder->memory, start_ns);
}

/* Control records are read before others: what was recorded before the pause may still be on its
 * way. */
static void note_pause(struct recorder *recorder, uint64_t from_ns, uint64_t to_ns)
{
	if (++recorder->pauses_emitted >= PERFX_RECORDING_WINDOWS_MAX)
		return;
	if (grow_array(&recorder->pauses, &recorder->pauses_capacity, recorder->pauses_count + 1,
		       sizeof(*recorder->pauses)))
		return;
	recorder->pauses[recorder->pauses_count++] = (struct recording_pause){from_ns, to_ns};
}

void recording_window_settle(struct recorder *recorder)
{
	for (size_t i = 0; i < recorder->pauses_count; i++)
		memory__paused(recorder->memory, recorder->pauses[i].from_ns,
			       recorder->pauses[i].to_ns);
	recorder->pauses_count = 0;
}

/* /proc counts in units of this; and a program may turn so often that there is no time for more. */
#define TURN_SAMPLE_NS 10000000u

static void opens(struct recorder *recorder, const struct perfx_recording_window *recording_window)
{
	bool paused = recorder->paused;

	recorder->paused = false;
	recorder->windowed = true;
	recorder->opened_ns = recording_window->time_ns;
	if (!recorder->begun) {
		recording_begin(recorder, recording_window->time_ns);
		return;
	}
	/* the record of the pause's beginning may be behind that of its end */
	if (!paused)
		return;
	process_table__hold(recorder->processes, false);
	note_pause(recorder, recorder->paused_ns, recording_window->time_ns);
}

static void closes(struct recorder *recorder, const struct perfx_recording_window *recording_window)
{
	if (recording_window->time_ns < recorder->opened_ns) {
		note_pause(recorder, recording_window->time_ns, recorder->opened_ns);
		return;
	}
	recorder->paused = true;
	recorder->paused_ns = recording_window->time_ns;
	if (recording_window->time_ns >= recorder->next_turn_sample_ns) {
		process_table__sample(recorder->processes, true);
		recorder->next_turn_sample_ns = recording_window->time_ns + TURN_SAMPLE_NS;
	}
	process_table__hold(recorder->processes, true);
}

void recording_window_turns(struct recorder *recorder,
			    const struct perfx_recording_window *recording_window)
{
	if (recording_window->flags & PERFX_RECORDING_WINDOW_OPENS)
		opens(recorder, recording_window);
	else
		closes(recorder, recording_window);
	say_turned(recorder, recording_window);
}
