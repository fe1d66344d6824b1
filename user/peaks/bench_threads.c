// SPDX-License-Identifier: BSD-2-Clause
#include "peaks/internal.h"

#include "base/clock.h"

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

/* Memory is used in rows of three blocks, a b c; touched memory is always whole rows. */
#define BLOCK_BYTES (64u << 10)
#define ROW_BYTES   (3 * BLOCK_BYTES)
#define BLOCK_ITEMS (BLOCK_BYTES / sizeof(double))

/* First touches are the expensive part, most of all in virtual machines: after the first of these
 * times less than was wanted will do, after the second it ends. */
#define TOUCH_ENOUGH_NS 300000000u
#define TOUCH_MAX_NS	600000000u

struct slice {
	double *memory;
	size_t wanted, least, touched; /* bytes */
};

struct worker {
	struct bench_threads *bench_threads;
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

struct bench_threads {
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

/* A triad through the thread's own memory; a single thread uses the memory of all threads that
 * share its cache. */
static uint64_t step_triad(struct worker *worker)
{
	struct bench_threads *bench_threads = worker->bench_threads;
	struct slice *slice = &bench_threads->workers[worker->at_slice].slice;
	double *a;

	if (worker->at_bytes + ROW_BYTES > slice->touched) {
		worker->at_bytes = 0;
		do {
			if (bench_threads->size == 1)
				worker->at_slice = (worker->at_slice + 1) % bench_threads->count;
			slice = &bench_threads->workers[worker->at_slice].slice;
		} while (bench_threads->workers[worker->at_slice].cache != worker->cache);
	}
	a = slice->memory + worker->at_bytes / sizeof(double);
	triad(a, a + BLOCK_ITEMS, a + 2 * BLOCK_ITEMS, BLOCK_ITEMS);
	worker->at_bytes += ROW_BYTES;
	return BLOCK_ITEMS * TRIAD_BYTES;
}

/* Runs for some microseconds. Returns operations or bytes. */
static uint64_t step(struct worker *worker)
{
	const struct fma_kernel *kernel = worker->bench_threads->kernel;

	if (worker->bench_threads->task == TASK_TRIAD)
		return step_triad(worker);
	kernel->run(500, kernel->constants);
	return 500 * kernel->flops;
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

static void do_bursts(struct worker *worker)
{
	uint64_t start_ns = worker->bench_threads->start_ns;

	while (clock_monotonic_ns() < start_ns + WARM_NS)
		step(worker);
	start_ns += WARM_NS + ASSEMBLE_NS;
	for (int i = 0; i < BURSTS; i++, start_ns += PERIOD_NS) {
		struct burst *burst = &worker->bursts[i];
		uint64_t cpu_ns;

		*burst = (struct burst){0};
		wait_until(start_ns);
		cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		while ((burst->end_ns = clock_monotonic_ns()) < start_ns + BURST_NS)
			burst->units += step(worker);
		burst->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
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
		spent_ns = clock_monotonic_ns() - worker->bench_threads->start_ns;
	}
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	struct bench_threads *bench_threads = worker->bench_threads;
	bool called_off;

	pthread_mutex_lock(&bench_threads->gate);
	called_off = bench_threads->called_off;
	pthread_mutex_unlock(&bench_threads->gate);
	if (called_off)
		return NULL;
	if (pthread_barrier_wait(&bench_threads->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
		bench_threads->start_ns = clock_monotonic_ns();
	pthread_barrier_wait(&bench_threads->barrier);
	if (bench_threads->task == TASK_TOUCH)
		do_touch(worker);
	else
		do_bursts(worker);
	return NULL;
}

/* A thread of many stays on its CPU; one alone may be moved to where there is room, but for triads
 * not away from the memory it has. */
static void set_affinity(const struct bench_threads *bench_threads, const struct worker *worker,
			 pthread_attr_t *attributes)
{
	size_t size = CPU_ALLOC_SIZE(HOST_CPUS_MAX);
	cpu_set_t *set = CPU_ALLOC(HOST_CPUS_MAX);

	if (!set)
		return;
	CPU_ZERO_S(size, set);
	for (size_t i = 0; i < bench_threads->count; i++) {
		const struct worker *other = &bench_threads->workers[i];
		bool alone = bench_threads->size == 1;

		if (other == worker ||
		    (alone && (bench_threads->task == TASK_FLOPS || other->cache == worker->cache)))
			CPU_SET_S((size_t)other->cpu, size, set);
	}
	pthread_attr_setaffinity_np(attributes, size, set);
	CPU_FREE(set);
}

static int run(struct bench_threads *bench_threads, enum task task, bool all)
{
	sigset_t every, before;
	size_t started;
	int err = 0;

	bench_threads->task = task;
	bench_threads->size = all ? bench_threads->count : 1;
	for (size_t i = 0; i < bench_threads->count; i++) {
		bench_threads->workers[i].at_slice = i;
		bench_threads->workers[i].at_bytes = 0;
	}
	if (pthread_barrier_init(&bench_threads->barrier, NULL, (unsigned)bench_threads->size))
		return -ENOMEM;
	/* signals are the main thread's */
	sigfillset(&every);
	pthread_sigmask(SIG_BLOCK, &every, &before);
	pthread_mutex_lock(&bench_threads->gate);
	for (started = 0; started < bench_threads->size && !err; started += !err) {
		struct worker *worker = &bench_threads->workers[started];
		pthread_attr_t attributes;

		pthread_attr_init(&attributes);
		set_affinity(bench_threads, worker, &attributes);
		err = pthread_create(&worker->thread, &attributes, worker_main, worker);
		pthread_attr_destroy(&attributes);
	}
	bench_threads->called_off = err;
	pthread_mutex_unlock(&bench_threads->gate);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	for (size_t i = 0; i < started; i++)
		pthread_join(bench_threads->workers[i].thread, NULL);
	pthread_barrier_destroy(&bench_threads->barrier);
	return -err;
}

struct bench_threads *bench_threads__new(void)
{
	struct bench_threads *bench_threads = calloc(1, sizeof(*bench_threads));
	int *cpus = NULL;
	ssize_t count = host_cpus(&cpus);

	if (bench_threads && count > 0)
		bench_threads->workers = calloc((size_t)count, sizeof(*bench_threads->workers));
	if (!bench_threads || !bench_threads->workers) {
		free(cpus);
		free(bench_threads);
		errno = count < 0 ? (int)-count : ENOMEM;
		return NULL;
	}
	bench_threads->count = (size_t)count;
	pthread_mutex_init(&bench_threads->gate, NULL);
	for (size_t i = 0; i < bench_threads->count; i++) {
		bench_threads->workers[i].bench_threads = bench_threads;
		bench_threads->workers[i].cpu = cpus[i];
	}
	free(cpus);
	return bench_threads;
}

void bench_threads__free(struct bench_threads *bench_threads)
{
	if (!bench_threads)
		return;
	for (size_t i = 0; i < bench_threads->count; i++)
		if (bench_threads->workers[i].slice.memory)
			munmap(bench_threads->workers[i].slice.memory,
			       bench_threads->workers[i].slice.wanted);
	pthread_mutex_destroy(&bench_threads->gate);
	free(bench_threads->workers);
	free(bench_threads);
}

size_t bench_threads__size(const struct bench_threads *bench_threads)
{
	return bench_threads->count;
}

/* All threads ran for this share of the burst. */
static bool all_ran(const struct bench_threads *bench_threads, int burst, unsigned percent)
{
	for (size_t i = 0; i < bench_threads->size; i++)
		if (bench_threads->workers[i].bursts[burst].cpu_ns < BURST_NS / 100 * percent)
			return false;
	return true;
}

/* No thread was kept waiting, so none had a core's other half for itself. */
#define CLEAN_PERCENT 95
/* A shorter burst gives no rate by CPU time. */
#define LEAST_PERCENT 25

/* The sum of each thread's best burst, among those in which all ran long enough. */
static double best_flops(const struct bench_threads *bench_threads, unsigned percent)
{
	double sum = 0;

	for (size_t i = 0; i < bench_threads->size; i++) {
		double best = 0;

		for (int burst = 0; burst < BURSTS; burst++) {
			const struct burst *one = &bench_threads->workers[i].bursts[burst];
			double rate;

			if (one->cpu_ns < BURST_NS / 100 * LEAST_PERCENT)
				continue;
			rate = (double)one->units * 1e9 / (double)one->cpu_ns;
			if (rate > best && all_ran(bench_threads, burst, percent))
				best = rate;
		}
		if (best == 0)
			return 0;
		sum += best;
	}
	return sum;
}

static double burst_bandwidth(const struct bench_threads *bench_threads, int burst)
{
	uint64_t bytes = 0, start_ns, end_ns = 0;

	start_ns = bench_threads->start_ns + WARM_NS + ASSEMBLE_NS + (uint64_t)burst * PERIOD_NS;
	for (size_t i = 0; i < bench_threads->size; i++) {
		const struct burst *one = &bench_threads->workers[i].bursts[burst];

		bytes += one->units;
		end_ns = one->end_ns > end_ns ? one->end_ns : end_ns;
	}
	return end_ns > start_ns ? (double)bytes * 1e9 / (double)(end_ns - start_ns) : 0;
}

struct bench_rate bench_threads__flops(struct bench_threads *bench_threads,
				       const struct fma_kernel *kernel, bool all)
{
	struct bench_rate rate = {0};

	bench_threads->kernel = kernel;
	if (run(bench_threads, TASK_FLOPS, all))
		return rate;
	rate.per_s = best_flops(bench_threads, CLEAN_PERCENT);
	rate.clean = rate.per_s > 0;
	if (!rate.clean)
		rate.per_s = best_flops(bench_threads, 0);
	return rate;
}

/* Sets each thread's part of twice the cache, and the least that is needed. */
static void want_memory(struct bench_threads *bench_threads, uint64_t spare)
{
	for (size_t i = 0; i < bench_threads->count; i++) {
		struct worker *worker = &bench_threads->workers[i];
		struct host_cache cache = host_cache_of(worker->cpu);

		worker->cache = cache.first_cpu;
		worker->slice.wanted = (size_t)cache.bytes;
	}
	for (size_t i = 0; i < bench_threads->count; i++) {
		struct slice *slice = &bench_threads->workers[i].slice;
		size_t sharers = 1, share; /* itself */

		for (size_t k = 0; k < bench_threads->count; k++)
			sharers += k != i && bench_threads->workers[k].cache ==
						     bench_threads->workers[i].cache;
		share = slice->wanted / sharers;
		slice->least = share + share / 4 + ROW_BYTES;
		slice->wanted = 2 * share + 8 * ROW_BYTES;
		if (slice->wanted > spare / bench_threads->count)
			slice->wanted = (size_t)(spare / bench_threads->count);
	}
}

int bench_threads__allocate(struct bench_threads *bench_threads)
{
	want_memory(bench_threads, host_spare_memory());
	for (size_t i = 0; i < bench_threads->count; i++) {
		struct slice *slice = &bench_threads->workers[i].slice;

		if (slice->wanted < slice->least)
			return -ENOMEM;
		slice->memory = mmap(NULL, slice->wanted, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (slice->memory == MAP_FAILED) {
			slice->memory = NULL;
			return -ENOMEM;
		}
	}
	return run(bench_threads, TASK_TOUCH, true);
}

struct bench_rate bench_threads__bandwidth(struct bench_threads *bench_threads, bool all)
{
	struct bench_rate best;

	for (size_t i = 0; i < bench_threads->count; i++)
		if (bench_threads->workers[i].slice.touched < bench_threads->workers[i].slice.least)
			return (struct bench_rate){0};
	if (run(bench_threads, TASK_TRIAD, all))
		return (struct bench_rate){0};
	/* The best of the clean bursts; without any, the best of all. */
	best = (struct bench_rate){0};
	for (int burst = 0; burst < BURSTS; burst++) {
		bool clean = all_ran(bench_threads, burst, CLEAN_PERCENT);
		double rate = burst_bandwidth(bench_threads, burst);

		if (clean < best.clean || (clean == best.clean && rate <= best.per_s))
			continue;
		best = (struct bench_rate){.per_s = rate, .clean = clean};
	}
	return best;
}
