// SPDX-License-Identifier: BSD-2-Clause
#include "record/recorder.h"

#include "attach/calibrate.h"
#include "attach/mappings.h"
#include "attach/tracer.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/message.h"
#include "decode/names.h"
#include "record/books.h"
#include "record/memory.h"
#include "record/probes.h"
#include "record/totals.h"
#include "stream/reader.h"
#include "target/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Room in the tables for what arrives late (dlopen, children's programs). */
#define PROBES_SLACK 4096
/* The rings are drained at least this often, and late mappings looked at. */
#define TICK_NS 50000000u

struct recorder {
	const struct recorder_options *options;
	const struct features *features;
	struct sink *sink;
	struct plan *plan;
	struct tracer *tracer;
	struct calibration calibration;
	struct probes *probes;
	struct memory *memory;
	struct books *books;
	struct reader *reader;
	struct mappings *mappings;
	int epoll_fd, timer_fd;
	uint64_t start_ns, end_ns, next_sample_ns, next_scan_ns;
	pid_t main_pid; /* the first target: whose end by a signal is told */
	bool main_ended, rescan;
	int main_status;
	pid_t *scans; /* processes whose mappings have changed */
	size_t scans_count;
	size_t waiting_said;
};

/* --- planning and attaching for a process --- */

static void scan_error(pid_t pid, const struct recorder *recorder, ssize_t err)
{
	if (err == -E2BIG)
		msg_say("the patterns match more than %zu functions: narrow them, or raise "
			"--max-functions",
			recorder->options->plan.functions_max);
	else
		msg_say("process %d: %s", (int)pid, strerror((int)-err));
}

/* Which of the pids in the family may share files with strangers. */
static bool for_everybody(struct recorder *recorder, size_t module)
{
	size_t count;
	const pid_t *pids = books__pids(recorder->books, &count);

	return recorder->options->all ||
	       !module_is_shared(&recorder->plan->modules[module], pids, count);
}

/* Attaches for a process what it maps and what is planned for that. */
static ssize_t attach_process(struct recorder *recorder, pid_t pid)
{
	bool trusted = recorder->plan->c_alone;
	size_t *modules;
	ssize_t count = plan__scan(recorder->plan, pid, &modules);

	if (count < 0)
		return count;
	if (recorder->plan->many_stacks)
		tracer__expect_many_stacks(recorder->tracer);
	if (trusted && !recorder->plan->c_alone)
		probes__distrust_returns(recorder->probes);
	memory__consider(recorder->memory);
	for (ssize_t i = 0; i < count; i++)
		probes__attach(recorder->probes, modules[i], pid,
			       for_everybody(recorder, modules[i]));
	free(modules);
	return count;
}

/* --- records that the recorder itself acts upon --- */

static void on_fork(struct recorder *recorder, const struct perfx_fork *fork)
{
	books__on_fork(recorder->books, fork);
	/* files that others map too have links by process: the child needs its own */
	attach_process(recorder, (pid_t)fork->pid);
}

static void on_exit_event(struct recorder *recorder, const struct perfx_exit *exit)
{
	books__on_exit(recorder->books, exit);
	if ((pid_t)exit->pid == recorder->main_pid) {
		recorder->main_ended = true;
		recorder->main_status = exit->status;
	}
}

static void on_record(void *ctx, const struct perfx_record *record)
{
	struct recorder *recorder = ctx;

	switch (record->kind) {
	case PERFX_KIND_FORK:
		on_fork(recorder, (const struct perfx_fork *)record);
		break;
	case PERFX_KIND_EXEC:
		books__on_exec(recorder->books, (const struct perfx_exec *)record);
		attach_process(recorder, (pid_t)((const struct perfx_exec *)record)->pid);
		break;
	case PERFX_KIND_EXIT:
		on_exit_event(recorder, (const struct perfx_exit *)record);
		break;
	}
}

/* --- late mappings --- */

static void note_mapping(pid_t pid, void *ctx)
{
	struct recorder *recorder = ctx;
	pid_t *scans;

	if (!pid)
		recorder->rescan = true;
	if (!pid || (!recorder->options->all && !books__has(recorder->books, pid)))
		return;
	for (size_t i = 0; i < recorder->scans_count; i++)
		if (recorder->scans[i] == pid)
			return;
	scans = realloc(recorder->scans, (recorder->scans_count + 1) * sizeof(*scans));
	if (!scans)
		return;
	recorder->scans = scans;
	scans[recorder->scans_count++] = pid;
}

static bool worth_tracing(struct recorder *recorder, const size_t *modules, ssize_t count)
{
	for (ssize_t i = 0; i < count; i++)
		if (recorder->plan->modules[modules[i]].is_ml)
			return true;
	return false;
}

/* -a: a process that has not been known becomes a member when it maps something of interest. */
static void adopt(struct recorder *recorder, pid_t pid)
{
	size_t *modules = NULL;
	ssize_t count;
	int64_t process;

	if (books__has(recorder->books, pid) || pid == getpid())
		return;
	count = plan__scan(recorder->plan, pid, &modules);
	if (count > 0 && worth_tracing(recorder, modules, count)) {
		process = tracer__add_family(recorder->tracer, pid, NULL);
		if (process > 0)
			books__open(recorder->books, (uint32_t)process, pid);
	}
	free(modules);
}

static void scan_late(struct recorder *recorder)
{
	size_t count;
	const pid_t *pids;

	mappings__take(recorder->mappings, note_mapping, recorder);
	if (recorder->rescan) {
		recorder->rescan = false;
		pids = books__pids(recorder->books, &count);
		for (size_t i = 0; i < count; i++)
			note_mapping(pids[i], recorder);
	}
	for (size_t i = 0; i < recorder->scans_count; i++) {
		if (recorder->options->all)
			adopt(recorder, recorder->scans[i]);
		if (books__has(recorder->books, recorder->scans[i]))
			attach_process(recorder, recorder->scans[i]);
	}
	recorder->scans_count = 0;
}

/* --- start --- */

/* Adds a process and, unless told not to, its living descendants. */
static int add_target(struct recorder *recorder, pid_t pid)
{
	pid_t *children = NULL;
	bool existed;
	int64_t process = tracer__add_family(recorder->tracer, pid, &existed);
	ssize_t count;
	int err;

	if (process < 0)
		return (int)process;
	if (!books__has(recorder->books, pid)) {
		err = books__open(recorder->books, (uint32_t)process, pid);
		if (err)
			return err;
	}
	if (!recorder->options->follow_children)
		return 0;
	/* after the family is in the kernel: a child born meanwhile comes by its fork record */
	count = process_descendants(pid, &children);
	for (ssize_t i = 0; i < count; i++) {
		process = tracer__add_family(recorder->tracer, children[i], &existed);
		if (process > 0 && !existed)
			books__open(recorder->books, (uint32_t)process, children[i]);
	}
	free(children);
	return 0;
}

static int add_targets(struct recorder *recorder)
{
	const struct recorder_options *options = recorder->options;
	pid_t *everybody = NULL;
	ssize_t count;
	int err;

	for (size_t i = 0; i < options->pids_count; i++) {
		err = add_target(recorder, options->pids[i]);
		if (err)
			return err;
	}
	if (options->launch)
		return add_target(recorder, launch__pid(options->launch));
	if (!options->all)
		return 0;
	count = process_find(NULL, &everybody);
	for (ssize_t i = 0; i < count; i++)
		adopt(recorder, everybody[i]);
	free(everybody);
	return 0;
}

static int attach_targets(struct recorder *recorder)
{
	size_t count, i = 0;
	const pid_t *pids = books__pids(recorder->books, &count);

	while (i < count) {
		ssize_t err = attach_process(recorder, pids[i]);

		if (err < 0 && err != -ESRCH && err != -ENOENT) {
			scan_error(pids[i], recorder, err);
			return (int)err;
		}
		i++;
		pids = books__pids(recorder->books, &count);
	}
	return 0;
}

/* The plan for what runs now, before anything is loaded: its size decides the tables', and a
 * pattern without a match ends here. */
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
			scan_error(target, recorder, n);
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

static int load(struct recorder *recorder)
{
	const struct recorder_options *options = recorder->options;
	size_t sites = 0;
	struct tracer_options tracer_options = {
		.link = options->link,
		.follow_children = options->follow_children,
		.compensate = options->compensate,
		.ring_bytes = options->ring_bytes,
		.memory = options->plan.memory != MEMORY_OFF,
		.mappings = options->plan.memory == MEMORY_ALL,
	};

	for (size_t i = 0; i < recorder->plan->functions_count; i++)
		sites += 1 + recorder->plan->functions[i].site.exits_count;
	tracer_options.probes_max = (uint32_t)(sites + PROBES_SLACK);
	recorder->tracer = tracer__new(&tracer_options, recorder->features);
	if (!recorder->tracer) {
		if (errno == ENOTSUP)
			msg_say("--link %s: this kernel has no such link: try without --link",
				name_of_link(options->link));
		else
			msg_say("the BPF programs do not load: %s: see perfx-trace doctor",
				strerror(errno));
		return errno == EPERM ? EXIT_PRIVILEGE : EXIT_FAILED;
	}
	if (options->calibrate && calibrate(recorder->tracer, &recorder->calibration))
		msg_say("cost of a hit not measured: %s", strerror(errno));
	return EXIT_OK;
}

static int open_rooms(struct recorder *recorder)
{
	struct memory_options memory = {.sample_bytes = recorder->options->sample_bytes,
					.everybody = recorder->options->all};

	recorder->mappings = mappings__new(); /* NULL: mappings are looked at by the clock */
	recorder->books =
		books__new(recorder->tracer, recorder->sink, recorder->options->full_cmdline);
	recorder->probes = probes__new(recorder->plan, recorder->tracer, &recorder->calibration,
				       recorder->sink);
	if (recorder->probes)
		recorder->memory = memory__new(recorder->plan, recorder->tracer, recorder->probes,
					       recorder->sink, &memory);
	recorder->reader = reader__new(recorder->tracer, recorder->sink, on_record, recorder);
	if (recorder->books && recorder->memory && recorder->reader)
		return EXIT_OK;
	msg_say("cannot set up the recording: %s", strerror(errno));
	return EXIT_FAILED;
}

/* --- what is said --- */

static void say_waiting(struct recorder *recorder)
{
	const struct plan_options *options = &recorder->plan->options;

	for (size_t i = 0; i < options->patterns_count; i++)
		if (plan__waits(recorder->plan, i))
			msg_say("-F '%s': no such file is mapped yet; waiting for it",
				pattern__text(options->patterns[i]));
}

static size_t refused_count(const struct plan *plan)
{
	size_t count = 0;

	for (size_t i = 0; i < plan->refusals_count; i++)
		count += plan->refusals[i].count;
	return count;
}

static void say_tracing(struct recorder *recorder)
{
	struct process_info info = {.comm = "?"};
	size_t count, refused = refused_count(recorder->plan);
	const pid_t *pids = books__pids(recorder->books, &count);
	char who[128], not_attached[256] = "", *memory;

	if (recorder->main_pid || count == 1)
		process_info(recorder->main_pid ? recorder->main_pid : pids[0], &info);
	if (count == 1)
		snprintf(who, sizeof(who), "%d %s", (int)pids[0], info.comm);
	else if (recorder->main_pid)
		snprintf(who, sizeof(who), "%d %s and %zu more", (int)recorder->main_pid, info.comm,
			 count ? count - 1 : 0);
	else
		snprintf(who, sizeof(who), "%zu processes", count);
	if (refused)
		snprintf(not_attached, sizeof(not_attached), "; %zu not attached (%s: %s%s)",
			 refused, recorder->plan->refusals[0].name,
			 recorder->plan->refusals[0].reason,
			 recorder->plan->refusals_count > 1 ? ", …" : "");
	memory = memory__summary(recorder->memory);
	msg_say("tracing %s: %zu probes on %zu functions%s%s%s", who,
		probes__sites_count(recorder->probes), probes__functions_count(recorder->probes),
		memory && *memory ? "; memory: " : "", memory ? memory : "", not_attached);
	free(memory);
	if (!probes__functions_count(recorder->probes) && !recorder->options->all)
		msg_say("no annotated function and no known ML library is mapped: choose functions "
			"with -F 'MODULE:GLOB'");
}

/* --- the loop --- */

static int watch(int epoll_fd, int fd, uint32_t what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = what};

	return fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

enum watched { WATCH_TIMER = 1, WATCH_RINGS, WATCH_MAPPINGS };

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
	const pid_t *pids = books__pids(recorder->books, &count);

	if (count > CPU_PROCESSES_MAX)
		return UINT64_MAX;
	for (size_t i = 0; i < count; i++) {
		struct process_usage usage;

		if (!process_usage(pids[i], &usage) && usage.cpu_user_ns != UINT64_MAX)
			cpu_ns += usage.cpu_user_ns + usage.cpu_system_ns;
	}
	return cpu_ns;
}

static void on_tick(struct recorder *recorder)
{
	uint64_t expirations, now = clock_monotonic_ns();

	if (read(recorder->timer_fd, &expirations, sizeof(expirations)) < 0)
		return;
	reader__drain(recorder->reader);
	probes__enforce_budget(recorder->probes, now - recorder->start_ns);
	memory__enforce_budget(recorder->memory, now,
			       memory__due(recorder->memory, now) ? cpu_of_all(recorder)
								  : UINT64_MAX);
	if (now >= recorder->next_sample_ns) {
		books__sample(recorder->books, false);
		recorder->next_sample_ns = now + recorder->options->interval_ns;
		if (recorder->sink->capture)
			capture_writer__flush(recorder->sink->capture);
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

	books__pids(recorder->books, &living);
	return interrupt_asked() || recorder->sink->err ||
	       clock_monotonic_ns() >= recorder->end_ns || (!living && !recorder->options->all) ||
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
				reader__drain(recorder->reader);
				break;
			case WATCH_MAPPINGS:
				break;
			}
		}
		if (recorder->mappings || recorder->rescan)
			scan_late(recorder);
	}
}

/* --- a whole recording --- */

static void trace(struct recorder *recorder)
{
	struct totals totals = {0};

	recorder->start_ns = clock_monotonic_ns();
	totals_host(recorder->sink, recorder->options, recorder->start_ns);
	books__sample(recorder->books, true);
	recorder->next_sample_ns = recorder->start_ns + recorder->options->interval_ns;
	if (recorder->options->duration_ns == UINT64_MAX)
		recorder->end_ns = UINT64_MAX;
	else
		recorder->end_ns = recorder->start_ns + recorder->options->duration_ns;
	memory__start(recorder->memory, recorder->start_ns);
	tracer__start(recorder->tracer);
	/* after the start: whoever reads the line may count on every call from here on */
	say_waiting(recorder);
	say_tracing(recorder);
	if (recorder->options->launch)
		launch__go(recorder->options->launch);
	loop(recorder);

	totals.end_ns = clock_monotonic_ns();
	books__sample(recorder->books, true);
	tracer__stop(recorder->tracer);
	while (reader__drain(recorder->reader))
		;
	totals.spans_count = reader__spans_count(recorder->reader);
	totals.killed = recorder->main_ended && (recorder->main_status & 0x7f);
	totals.exited = recorder->main_ended;
	totals.interrupted = interrupt_asked();
	memory__report(recorder->memory);
	totals_end(recorder->sink, recorder->tracer, recorder->plan, recorder->probes, &totals);
}

static void close_rooms(struct recorder *recorder)
{
	reader__free(recorder->reader);
	memory__free(recorder->memory);
	probes__free(recorder->probes);
	books__free(recorder->books);
	mappings__free(recorder->mappings);
	tracer__free(recorder->tracer);
	plan__free(recorder->plan);
	if (recorder->epoll_fd >= 0)
		close(recorder->epoll_fd);
	if (recorder->timer_fd >= 0)
		close(recorder->timer_fd);
	free(recorder->scans);
}

static int prepare(struct recorder *recorder)
{
	int code, err;

	recorder->plan = plan__new(&recorder->options->plan);
	if (!recorder->plan) {
		msg_say("out of memory");
		return EXIT_FAILED;
	}
	code = plan_targets(recorder);
	if (!code)
		code = load(recorder);
	if (!code)
		code = open_rooms(recorder);
	if (code)
		return code;
	err = add_targets(recorder);
	if (err) {
		msg_say("the process is gone before anything was attached");
		return EXIT_TARGET;
	}
	if (attach_targets(recorder))
		return EXIT_FAILED;
	return open_loop(recorder);
}

int recorder_run(const struct recorder_options *options, const struct features *features,
		 struct sink *sink, int *child_status)
{
	struct recorder recorder = {.options = options,
				    .features = features,
				    .sink = sink,
				    .epoll_fd = -1,
				    .timer_fd = -1};
	int code;

	recorder.main_pid = options->launch	  ? launch__pid(options->launch)
			    : options->pids_count ? options->pids[0]
						  : 0;
	code = prepare(&recorder);
	if (!code) {
		trace(&recorder);
		if (recorder.main_ended && (recorder.main_status & 0x7f) && !options->launch)
			code = EXIT_TARGET;
	}
	if (child_status)
		*child_status = recorder.main_ended ? recorder.main_status : -1;
	close_rooms(&recorder);
	return code;
}
