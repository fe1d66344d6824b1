// SPDX-License-Identifier: BSD-2-Clause
#include "attach/sampler.h"

#include "attach/cpu_events.h"
#include "attach/links.h"
#include "base/clock.h"
#include "base/emitted.h"
#include "base/message.h"
#include "base/order.h"
#include "base/thread.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Threads that wait change what they do less often, and each is visited in each round. */
#define OFF_CPU_TIMES 5
/* A round's share of a CPU: one in so many. */
#define ROUND_BUDGET 200
/* Up to so many processes are visited one by one; of more the whole machine's threads are. */
#define OWN_ROUNDS_MAX 16

/*
 * A timer of a CPU with one interval meets a program that repeats itself at the same places again
 * and again, where the program's period is a multiple of it. So each timer is restarted once in so
 * many intervals, at a rate drawn from 0.8 to 1.2 of the mean; the next rate is as far on the other
 * side of the mean, so that samples count the CPU time. A restart cuts off half an interval, which
 * shorter intervals make up for.
 */
#define RESTART_INTERVALS 36
#define RATE_LEAST	  0.8
#define RATE_WIDTH	  0.4
#define RESTART_LOSS	  (0.5 / RESTART_INTERVALS)

struct sampler {
	struct tracer *tracer;
	struct sink *sink;
	uint64_t on_cpu_ns, off_cpu_ns; /* intervals; 0: not sampled */
	char why[160];			/* something is not; "": everything is, or by choice */
	struct cpu_events clocks;
	double *rates;		 /* of the mean, by CPU */
	uint64_t restart_ns;	 /* when the clocks are restarted next, CLOCK_MONOTONIC */
	bool mirrors;		 /* then with their last rates mirrored at the mean */
	unsigned short draws[3]; /* state of erand48() */
	pthread_t rounds_thread;
	bool has_rounds;
	int stop_fd;		  /* eventfd: the rounds end */
	uint64_t thinned_at;	  /* different stacks when the rates were lowered last */
	struct emitted lost_sent; /* by process */
	uint64_t drops_count;
	struct pack_buffer buffer;
};

struct perf_event_attr cpu_clock_attr(uint64_t interval_ns)
{
	return (struct perf_event_attr){.type = PERF_TYPE_SOFTWARE,
					.size = sizeof(struct perf_event_attr),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_period = interval_ns,
					.disabled = 1,
					.exclude_idle = 1};
}

static double draw_rate(unsigned short draws[3])
{
	return RATE_LEAST + RATE_WIDTH * erand48(draws);
}

static int open_clocks(struct sampler *sampler)
{
	const struct perf_event_attr attr = cpu_clock_attr(sampler->on_cpu_ns);
	int err = cpu_events_open(&sampler->clocks, &attr, tracer__on_cpu_fd(sampler->tracer),
				  sampler->on_cpu_ns);

	if (err)
		return err;
	if (!sampler->rates)
		sampler->rates = calloc(sampler->clocks.count, sizeof(*sampler->rates));
	if (!sampler->rates) {
		cpu_events_close(&sampler->clocks);
		return -ENOMEM;
	}
	for (size_t i = 0; i < sampler->clocks.count; i++)
		sampler->rates[i] = 1;
	return 0;
}

static void start_clocks(const struct sampler *sampler)
{
	FOR_EACH_OF (clock, sampler->clocks)
		if (clock->event_fd >= 0)
			ioctl(clock->event_fd, PERF_EVENT_IOC_ENABLE, 0);
}

static void restart_clocks(struct sampler *sampler)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (now_ns < sampler->restart_ns)
		return;
	sampler->restart_ns = now_ns + RESTART_INTERVALS * sampler->on_cpu_ns;
	for (size_t i = 0; i < sampler->clocks.count; i++) {
		const struct cpu_event *clock = &sampler->clocks.list[i];
		double *rate = &sampler->rates[i];
		uint64_t interval_ns;

		*rate = sampler->mirrors ? 2 - *rate : draw_rate(sampler->draws);
		interval_ns = (uint64_t)((double)sampler->on_cpu_ns * (1 - RESTART_LOSS) / *rate);
		if (clock->event_fd >= 0)
			ioctl(clock->event_fd, PERF_EVENT_IOC_PERIOD, &interval_ns);
	}
	sampler->mirrors = !sampler->mirrors;
}

/* Visits the threads of a process, of pid 0 all threads. -E2BIG: this kernel cannot visit those of
 * one process (6.1). */
static int visit(int program_fd, pid_t pid)
{
	union bpf_iter_link_info info = {.task.pid = (uint32_t)pid};
	LIBBPF_OPTS(bpf_link_create_opts, opts, .iter_info = pid ? &info : NULL,
		    .iter_info_len = pid ? sizeof(info) : 0);
	int link_fd = bpf_link_create(program_fd, 0, BPF_TRACE_ITER, &opts);
	int err;

	if (link_fd < 0)
		return -errno;
	err = link_iterate(link_fd);
	close(link_fd);
	return err;
}

/* Visits the threads of the traced processes. 0 or -errno. */
static int visit_traced(const struct sampler *sampler, int program_fd)
{
	pid_t pids[OWN_ROUNDS_MAX + 1];
	size_t count = tracer__pids(sampler->tracer, pids, OWN_ROUNDS_MAX + 1);
	int err = count > OWN_ROUNDS_MAX ? -E2BIG : 0;

	for (size_t i = 0; !err && i < count; i++)
		err = visit(program_fd, pids[i]);
	return err == -E2BIG ? visit(program_fd, 0) : err;
}

int sampler__visit_threads(struct sampler *sampler)
{
	return visit_traced(sampler, tracer__dump_fd(sampler->tracer));
}

static void *make_rounds(void *arg)
{
	const struct sampler *sampler = arg;
	uint64_t last_ns = clock_monotonic_ns(), wait_ns = sampler->off_cpu_ns;
	struct pollfd stop = {.fd = sampler->stop_fd, .events = POLLIN};
	unsigned short draws[3] = {0};

	for (;;) {
		uint64_t pause_ns = (uint64_t)(draw_rate(draws) * (double)wait_ns), now_ns, cpu_ns;
		struct timespec pause = {.tv_sec = (time_t)(pause_ns / 1000000000),
					 .tv_nsec = (long)(pause_ns % 1000000000)};

		if (ppoll(&stop, 1, &pause, NULL))
			return NULL;
		now_ns = clock_monotonic_ns();
		cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		tracer__set_off_cpu_interval(sampler->tracer, now_ns - last_ns);
		last_ns = now_ns;
		visit_traced(sampler, tracer__off_cpu_fd(sampler->tracer));
		cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
		wait_ns = max_u64(cpu_ns * ROUND_BUDGET,
				  __atomic_load_n(&sampler->off_cpu_ns, __ATOMIC_RELAXED));
	}
}

/* Adds a reason why samples are missing. err: -errno, which is added to it, or 0. */
static void add_reason(struct sampler *sampler, const char *what, int err)
{
	size_t used = strlen(sampler->why);

	snprintf(sampler->why + used, sizeof(sampler->why) - used, "%s%s%s%s%s", used ? "; " : "",
		 what, err ? " (" : "", err ? strerror(-err) : "", err ? ")" : "");
}

struct sampler *sampler__new(struct tracer *tracer, struct sink *sink, uint64_t hz)
{
	struct sampler *sampler = calloc(1, sizeof(*sampler));
	int err;

	if (!sampler)
		return NULL;
	sampler->tracer = tracer;
	sampler->sink = sink;
	sampler->lost_sent.width = 1;
	sampler->stop_fd = -1;
	if (!hz)
		return sampler;
	sampler->on_cpu_ns = 1000000000 / hz;
	sampler->off_cpu_ns = OFF_CPU_TIMES * sampler->on_cpu_ns;
	err = open_clocks(sampler);
	if (err) {
		sampler->on_cpu_ns = 0;
		add_reason(sampler,
			   "threads that run are not sampled: no perf event by the CPU's clock",
			   err);
	}
	if (tracer__off_cpu_fd(tracer) < 0)
		sampler->off_cpu_ns = 0;
	if (tracer__off_cpu_fd(tracer) < 0 && tracer__dump_fd(tracer) < 0) {
		add_reason(sampler, "threads that wait are not sampled: needs Linux 5.18", 0);
	}
	if (*sampler->why)
		msg_say("%s", sampler->why);
	return sampler;
}

void sampler__free(struct sampler *sampler)
{
	if (!sampler)
		return;
	sampler__stop(sampler);
	free(sampler->rates);
	emitted_clear(&sampler->lost_sent);
	free(sampler);
}

void sampler__start(struct sampler *sampler)
{
	int err;

	start_clocks(sampler);
	if (!sampler->off_cpu_ns)
		return;
	sampler->stop_fd = eventfd(0, EFD_CLOEXEC);
	err = sampler->stop_fd < 0 ? -errno
				   : thread_start(&sampler->rounds_thread, make_rounds, sampler);
	sampler->has_rounds = !err;
	if (!err)
		return;
	sampler->off_cpu_ns = 0;
	add_reason(sampler, "threads that wait are not sampled: no thread for it", err);
	msg_say("%s", sampler->why);
	sampler__describe(sampler);
}

void sampler__stop(struct sampler *sampler)
{
	cpu_events_close(&sampler->clocks);
	if (sampler->has_rounds && !eventfd_write(sampler->stop_fd, 1))
		pthread_join(sampler->rounds_thread, NULL);
	sampler->has_rounds = false;
	if (sampler->stop_fd >= 0)
		close(sampler->stop_fd);
	sampler->stop_fd = -1;
}

void sampler__describe(struct sampler *sampler)
{
	struct perfx_sampling record = {.on_cpu_interval_ns = sampler->on_cpu_ns,
					.off_cpu_interval_ns = sampler->off_cpu_ns,
					.stacks = tracer__stacks(sampler->tracer)};

	SINK_PACK(sampler->sink, &sampler->buffer, PERFX_KIND_SAMPLING, record, sampler->why);
}

void sampler__thin(struct sampler *sampler, const char *note)
{
	char now[32];

	sampler->on_cpu_ns *= 2;
	__atomic_store_n(&sampler->off_cpu_ns, 2 * sampler->off_cpu_ns, __ATOMIC_RELAXED);
	cpu_events_close(&sampler->clocks);
	if (sampler->on_cpu_ns && !open_clocks(sampler))
		start_clocks(sampler);
	sampler__describe(sampler);
	snprintf(now, sizeof(now), "taken at %.3g Hz",
		 sampler->on_cpu_ns ? 1e9 / (double)sampler->on_cpu_ns : 0);
	msg_reduced("samples", now, note);
}

void sampler__tick(struct sampler *sampler)
{
	uint64_t stacks_count = tracer__sample_stacks(sampler->tracer);

	restart_clocks(sampler);
	if (stacks_count - sampler->thinned_at < PERFX_MAX_SAMPLE_STACKS)
		return;
	sampler->thinned_at = stacks_count;
	sampler__thin(sampler, "there are too many different call stacks");
}

void sampler__renew(struct sampler *sampler)
{
	if (!sampler->on_cpu_ns && !sampler->off_cpu_ns)
		return;
	tracer__renew_sample_stacks(sampler->tracer);
	sampler->thinned_at = tracer__sample_stacks(sampler->tracer);
}

void sampler__report(struct sampler *sampler)
{
	uint64_t drops_count = tracer__counter(sampler->tracer, PERFX_COUNTER_SAMPLE_DROPS);
	uint32_t count = tracer__processes_count(sampler->tracer);

	if (drops_count == sampler->drops_count)
		return;
	sampler->drops_count = drops_count;
	for (uint32_t process = 0; process < count && process < PERFX_MAX_PROCESSES; process++) {
		struct perfx_loss record = {.loss = PERFX_LOSS_SAMPLE_DROPS,
					    .process = process,
					    .count =
						    tracer__samples_lost(sampler->tracer, process)};

		if (emitted_advance(&sampler->lost_sent, process, &record.count) > 0)
			SINK_PACK(sampler->sink, &sampler->buffer, PERFX_KIND_LOSS, record);
	}
}
