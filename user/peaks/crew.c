// SPDX-License-Identifier: BSD-2-Clause
#include "peaks/crew.h"

#include "base/clock.h"
#include "peaks/machine.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BURSTS	  16
#define BURST_NS  2000000u
#define PERIOD_NS 2400000u
/* Frequencies rise, and wide units are powered, with the first work. */
#define WARM_NS	    6000000u
#define WAKE_NS	    150000u /* before a burst: how late a timer may be */
#define ASSEMBLE_NS 300000u

/* Memory is worked on in rows of three blocks, a b c: whatever was touched makes whole rows. */
#define BLOCK_BYTES (64u << 10)
#define ROW_BYTES   (3 * BLOCK_BYTES)
#define BLOCK_ITEMS (BLOCK_BYTES / sizeof(double))

/* First touches are the dear part, dearest in virtual machines: after the first of these times less
 * than was wanted will do, after the second it ends. */
#define TOUCH_ENOUGH_NS 300000000u
#define TOUCH_MAX_NS	600000000u

struct slice {
	double *memory;
	size_t wanted, least, touched; /* bytes */
};

struct worker {
	struct crew *crew;
	pthread_t thread;
	int cpu;
	int cache; /* which one it shares */
	struct slice slice;
	size_t at_slice, at_bytes; /* where its triad goes on */
	struct burst {
		uint64_t units, cpu_ns, end_ns;
	} bursts[BURSTS];
};

enum task { TASK_TOUCH = 1, TASK_FLOPS, TASK_TRIAD };

struct crew {
	struct worker *workers;
	size_t count;
	/* the task at hand */
	enum task task;
	const struct fma_kernel *kernel;
	size_t size; /* threads that take part */
	pthread_mutex_t gate;
	pthread_barrier_t barrier;
	bool called_off;
	uint64_t start_ns;
};

/* --- what a thread does --- */

/* Some microseconds of it. Returns operations or bytes. */
static uint64_t step_flops(struct worker *worker)
{
	const struct fma_kernel *kernel = worker->crew->kernel;

	kernel->run(500, kernel->constants);
	return 500 * kernel->flops;
}

/* Through the thread's own memory; one thread alone goes through that of all who share its cache.
 */
static uint64_t step_triad(struct worker *worker)
{
	struct crew *crew = worker->crew;
	struct slice *slice = &crew->workers[worker->at_slice].slice;
	double *a;

	if (worker->at_bytes + ROW_BYTES > slice->touched) {
		worker->at_bytes = 0;
		do {
			if (crew->size == 1)
				worker->at_slice = (worker->at_slice + 1) % crew->count;
			slice = &crew->workers[worker->at_slice].slice;
		} while (crew->workers[worker->at_slice].cache != worker->cache);
	}
	a = slice->memory + worker->at_bytes / sizeof(double);
	triad(a, a + BLOCK_ITEMS, a + 2 * BLOCK_ITEMS, BLOCK_ITEMS);
	worker->at_bytes += ROW_BYTES;
	return BLOCK_ITEMS * TRIAD_BYTES;
}

static uint64_t step(struct worker *worker)
{
	return worker->crew->task == TASK_FLOPS ? step_flops(worker) : step_triad(worker);
}

static void wait_until(uint64_t ns)
{
	uint64_t wake = ns - WAKE_NS;
	struct timespec ts = {.tv_sec = (time_t)(wake / 1000000000u),
			      .tv_nsec = (long)(wake % 1000000000u)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	while (clock_monotonic_ns() < ns)
		;
}

static void do_burst(struct worker *worker, struct burst *burst, uint64_t start_ns)
{
	uint64_t cpu_ns;

	wait_until(start_ns);
	cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	while ((burst->end_ns = clock_monotonic_ns()) < start_ns + BURST_NS)
		burst->units += step(worker);
	burst->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
}

static void do_bursts(struct worker *worker)
{
	uint64_t start_ns = worker->crew->start_ns;

	while (clock_monotonic_ns() < start_ns + WARM_NS)
		step(worker);
	start_ns += WARM_NS + ASSEMBLE_NS;
	for (int i = 0; i < BURSTS; i++) {
		worker->bursts[i] = (struct burst){0};
		do_burst(worker, &worker->bursts[i], start_ns + (uint64_t)i * PERIOD_NS);
	}
}

static void do_touch(struct worker *worker)
{
	struct slice *slice = &worker->slice;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t spent_ns = 0;

	while (slice->touched + ROW_BYTES <= slice->wanted && spent_ns < TOUCH_MAX_NS &&
	       (spent_ns < TOUCH_ENOUGH_NS || slice->touched < slice->least)) {
		for (size_t i = 0; i < ROW_BYTES; i += page)
			*(volatile double *)(slice->memory +
					     (slice->touched + i) / sizeof(double)) = 1;
		slice->touched += ROW_BYTES;
		spent_ns = clock_monotonic_ns() - worker->crew->start_ns;
	}
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	struct crew *crew = worker->crew;
	bool called_off;

	pthread_mutex_lock(&crew->gate);
	called_off = crew->called_off;
	pthread_mutex_unlock(&crew->gate);
	if (called_off)
		return NULL;
	if (pthread_barrier_wait(&crew->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
		crew->start_ns = clock_monotonic_ns();
	pthread_barrier_wait(&crew->barrier);
	if (crew->task == TASK_TOUCH)
		do_touch(worker);
	else
		do_bursts(worker);
	return NULL;
}

/* --- the crew --- */

/* A thread of many stays on its CPU; one alone may be moved to where there is room, but for triads
 * not away from the memory it has. */
static void place(const struct crew *crew, const struct worker *worker, pthread_attr_t *attributes)
{
	size_t size = CPU_ALLOC_SIZE(MACHINE_CPUS_MAX);
	cpu_set_t *set = CPU_ALLOC(MACHINE_CPUS_MAX);

	if (!set)
		return;
	CPU_ZERO_S(size, set);
	for (size_t i = 0; i < crew->count; i++) {
		const struct worker *other = &crew->workers[i];
		bool alone = crew->size == 1;

		if (other == worker ||
		    (alone && (crew->task == TASK_FLOPS || other->cache == worker->cache)))
			CPU_SET_S((size_t)other->cpu, size, set);
	}
	pthread_attr_setaffinity_np(attributes, size, set);
	CPU_FREE(set);
}

static int start_workers(struct crew *crew, size_t *started)
{
	int err = 0;

	for (*started = 0; *started < crew->size && !err; *started += !err) {
		struct worker *worker = &crew->workers[*started];
		pthread_attr_t attributes;

		pthread_attr_init(&attributes);
		place(crew, worker, &attributes);
		err = pthread_create(&worker->thread, &attributes, worker_main, worker);
		pthread_attr_destroy(&attributes);
	}
	return err;
}

static int run(struct crew *crew, enum task task, bool all)
{
	sigset_t every, before;
	size_t started;
	int err;

	crew->task = task;
	crew->size = all ? crew->count : 1;
	for (size_t i = 0; i < crew->count; i++) {
		crew->workers[i].at_slice = i;
		crew->workers[i].at_bytes = 0;
	}
	if (pthread_barrier_init(&crew->barrier, NULL, (unsigned)crew->size))
		return -ENOMEM;
	/* signals are the main thread's */
	sigfillset(&every);
	pthread_sigmask(SIG_BLOCK, &every, &before);
	pthread_mutex_lock(&crew->gate);
	err = start_workers(crew, &started);
	crew->called_off = err;
	pthread_mutex_unlock(&crew->gate);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	for (size_t i = 0; i < started; i++)
		pthread_join(crew->workers[i].thread, NULL);
	pthread_barrier_destroy(&crew->barrier);
	return -err;
}

struct crew *crew__new(void)
{
	struct crew *crew = calloc(1, sizeof(*crew));
	int *cpus = NULL;
	ssize_t count = machine_cpus(&cpus);

	if (crew && count > 0)
		crew->workers = calloc((size_t)count, sizeof(*crew->workers));
	if (!crew || !crew->workers) {
		free(cpus);
		free(crew);
		errno = count < 0 ? (int)-count : ENOMEM;
		return NULL;
	}
	crew->count = (size_t)count;
	pthread_mutex_init(&crew->gate, NULL);
	for (size_t i = 0; i < crew->count; i++) {
		crew->workers[i].crew = crew;
		crew->workers[i].cpu = cpus[i];
	}
	free(cpus);
	return crew;
}

void crew__free(struct crew *crew)
{
	if (!crew)
		return;
	for (size_t i = 0; i < crew->count; i++)
		if (crew->workers[i].slice.memory)
			munmap(crew->workers[i].slice.memory, crew->workers[i].slice.wanted);
	pthread_mutex_destroy(&crew->gate);
	free(crew->workers);
	free(crew);
}

size_t crew__size(const struct crew *crew)
{
	return crew->count;
}

/* --- rates --- */

/* All threads ran for this share of the burst. */
static bool all_ran(const struct crew *crew, int burst, unsigned percent)
{
	for (size_t i = 0; i < crew->size; i++)
		if (crew->workers[i].bursts[burst].cpu_ns < BURST_NS / 100 * percent)
			return false;
	return true;
}

/* Nobody was kept waiting, and so neither did anybody have a core's other half for himself. */
#define CLEAN_PERCENT 95
/* Of less than this a rate by CPU time tells nothing. */
#define LEAST_PERCENT 25

static double by_cpu_time(const struct burst *burst)
{
	if (burst->cpu_ns < BURST_NS / 100 * LEAST_PERCENT)
		return 0;
	return (double)burst->units * 1e9 / (double)burst->cpu_ns;
}

/* What each thread did in its best burst; of those in which all ran for so long. */
static double best_flops(const struct crew *crew, unsigned percent)
{
	double sum = 0;

	for (size_t i = 0; i < crew->size; i++) {
		double best = 0;

		for (int burst = 0; burst < BURSTS; burst++) {
			double rate = by_cpu_time(&crew->workers[i].bursts[burst]);

			if (rate > best && all_ran(crew, burst, percent))
				best = rate;
		}
		if (best == 0)
			return 0;
		sum += best;
	}
	return sum;
}

static double burst_bandwidth(const struct crew *crew, int burst)
{
	uint64_t bytes = 0, start_ns, end_ns = 0;

	start_ns = crew->start_ns + WARM_NS + ASSEMBLE_NS + (uint64_t)burst * PERIOD_NS;
	for (size_t i = 0; i < crew->size; i++) {
		const struct burst *one = &crew->workers[i].bursts[burst];

		bytes += one->units;
		end_ns = one->end_ns > end_ns ? one->end_ns : end_ns;
	}
	return end_ns > start_ns ? (double)bytes * 1e9 / (double)(end_ns - start_ns) : 0;
}

/* The best of the clean bursts, or of all when none is. */
static struct crew_rate best_bandwidth(const struct crew *crew)
{
	struct crew_rate best = {0};

	for (int burst = 0; burst < BURSTS; burst++) {
		bool clean = all_ran(crew, burst, CLEAN_PERCENT);
		double rate = burst_bandwidth(crew, burst);

		if (clean < best.clean || (clean == best.clean && rate <= best.per_s))
			continue;
		best = (struct crew_rate){.per_s = rate, .clean = clean};
	}
	return best;
}

struct crew_rate crew__flops(struct crew *crew, const struct fma_kernel *kernel, bool all)
{
	struct crew_rate rate = {0};

	crew->kernel = kernel;
	if (run(crew, TASK_FLOPS, all))
		return rate;
	rate.per_s = best_flops(crew, CLEAN_PERCENT);
	rate.clean = rate.per_s > 0;
	if (!rate.clean)
		rate.per_s = best_flops(crew, 0);
	return rate;
}

/* A thread's part of what makes twice a cache, and of what is needed at least. */
static void want_memory(struct crew *crew, uint64_t spare)
{
	for (size_t i = 0; i < crew->count; i++) {
		struct worker *worker = &crew->workers[i];
		struct machine_cache cache = machine_cache_of(worker->cpu);

		worker->cache = cache.first_cpu;
		worker->slice.wanted = (size_t)cache.bytes;
	}
	for (size_t i = 0; i < crew->count; i++) {
		struct slice *slice = &crew->workers[i].slice;
		size_t sharers = 1, share; /* itself */

		for (size_t k = 0; k < crew->count; k++)
			sharers += k != i && crew->workers[k].cache == crew->workers[i].cache;
		share = slice->wanted / sharers;
		slice->least = share + share / 4 + ROW_BYTES;
		slice->wanted = 2 * share + 8 * ROW_BYTES;
		if (slice->wanted > spare / crew->count)
			slice->wanted = (size_t)(spare / crew->count);
	}
}

int crew__take_memory(struct crew *crew)
{
	want_memory(crew, machine_spare_memory());
	for (size_t i = 0; i < crew->count; i++) {
		struct slice *slice = &crew->workers[i].slice;

		if (slice->wanted < slice->least)
			return -ENOMEM;
		slice->memory = mmap(NULL, slice->wanted, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (slice->memory == MAP_FAILED) {
			slice->memory = NULL;
			return -ENOMEM;
		}
	}
	return run(crew, TASK_TOUCH, true);
}

struct crew_rate crew__bandwidth(struct crew *crew, bool all)
{
	for (size_t i = 0; i < crew->count; i++)
		if (crew->workers[i].slice.touched < crew->workers[i].slice.least)
			return (struct crew_rate){0};
	if (run(crew, TASK_TRIAD, all))
		return (struct crew_rate){0};
	return best_bandwidth(crew);
}
