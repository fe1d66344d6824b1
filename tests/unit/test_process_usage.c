// SPDX-License-Identifier: BSD-2-Clause
#include "proc/process.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TICK_NS = 10000000, MEBIBYTE = 1 << 20 };

static uint64_t timeval_ns(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_usec * 1000;
}

static void burn(void)
{
	volatile uint64_t sum = 0;

	for (uint64_t i = 0; i < 30000000; i++)
		sum += i;
}

/* The kernel's own account, asked before and after, brackets ours. */
Test(process_usage, cpu_time)
{
	struct process_usage usage;
	struct rusage before, after;

	burn();
	getrusage(RUSAGE_SELF, &before);
	cr_assert_eq(process_usage(getpid(), &usage), 0);
	getrusage(RUSAGE_SELF, &after);
	cr_expect_geq(usage.cpu_user_ns + TICK_NS, timeval_ns(before.ru_utime));
	cr_expect_leq(usage.cpu_user_ns, timeval_ns(after.ru_utime));
	cr_expect_geq(usage.cpu_system_ns + TICK_NS, timeval_ns(before.ru_stime));
	cr_expect_leq(usage.cpu_system_ns, timeval_ns(after.ru_stime));
	cr_expect_geq(usage.minor_faults, (uint64_t)before.ru_minflt);
	cr_expect_leq(usage.minor_faults, (uint64_t)after.ru_minflt);
}

/* The file is about the main thread; the test's is one, or this says nothing. */
Test(process_usage, switches)
{
	struct timespec nap = {.tv_nsec = 1000};
	struct process_usage usage;
	struct rusage before, after;

	cr_assert_eq(getpid(), (pid_t)syscall(SYS_gettid));
	for (int i = 0; i < 5; i++)
		nanosleep(&nap, NULL);
	getrusage(RUSAGE_THREAD, &before);
	cr_assert_eq(process_usage(getpid(), &usage), 0);
	getrusage(RUSAGE_THREAD, &after);
	cr_expect_geq(before.ru_nvcsw, 5);
	cr_expect_geq(usage.voluntary_switches, (uint64_t)before.ru_nvcsw);
	cr_expect_leq(usage.voluntary_switches, (uint64_t)after.ru_nvcsw);
	cr_expect_geq(usage.involuntary_switches, (uint64_t)before.ru_nivcsw);
	cr_expect_leq(usage.involuntary_switches, (uint64_t)after.ru_nivcsw);
}

Test(process_usage, memory)
{
	const size_t size = 64 * MEBIBYTE;
	struct process_usage before, after;
	char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(bytes, MAP_FAILED);
	cr_assert_eq(process_usage(getpid(), &before), 0);
	memset(bytes, 1, size);
	cr_assert_eq(process_usage(getpid(), &after), 0);
	/* the kernel sums its per-CPU counts up with an error of some dozen pages a CPU */
	cr_expect_geq(after.rss_anon_bytes, before.rss_anon_bytes + size - 4 * MEBIBYTE);
	cr_expect_geq(after.rss_bytes, before.rss_bytes + size - 4 * MEBIBYTE);
	cr_expect_leq(after.rss_file_bytes, before.rss_file_bytes + 4 * MEBIBYTE);
	cr_expect_gt(before.rss_file_bytes, 0);
	cr_expect_neq(before.rss_shmem_bytes, UINT64_MAX);
	cr_expect_neq(before.read_bytes, UINT64_MAX);
	cr_expect_neq(before.write_bytes, UINT64_MAX);
}

struct other {
	pthread_barrier_t started, finish;
	pid_t tid;
};

static void *run_other(void *ctx)
{
	struct other *other = ctx;

	prctl(PR_SET_NAME, "pt_data) 1");
	other->tid = (pid_t)syscall(SYS_gettid);
	pthread_barrier_wait(&other->started);
	pthread_barrier_wait(&other->finish);
	return NULL;
}

static bool holds(const pid_t *list, ssize_t count, pid_t tid)
{
	for (ssize_t i = 0; i < count; i++)
		if (list[i] == tid)
			return true;
	return false;
}

/* The test framework may have threads of its own here. */
Test(process_usage, threads)
{
	struct thread_usage thread;
	struct process_usage usage;
	struct other other;
	ssize_t before, count;
	pthread_t id;
	pid_t *list;

	before = process_threads(getpid(), &list);
	cr_assert_geq(before, 1);
	free(list);
	pthread_barrier_init(&other.started, NULL, 2);
	pthread_barrier_init(&other.finish, NULL, 2);
	cr_assert_eq(pthread_create(&id, NULL, run_other, &other), 0);
	pthread_barrier_wait(&other.started);
	count = process_threads(getpid(), &list);
	cr_expect_eq(count, before + 1);
	cr_expect(holds(list, count, getpid()) && holds(list, count, other.tid));
	free(list);
	cr_assert_eq(process_usage(getpid(), &usage), 0);
	cr_expect_eq(usage.threads_count, (uint64_t)count);
	cr_assert_eq(thread_usage(getpid(), other.tid, &thread), 0);
	cr_expect_eq(thread.tid, other.tid);
	cr_expect_str_eq(thread.comm, "pt_data) 1");
	pthread_barrier_wait(&other.finish);
	pthread_join(id, NULL);
}

Test(process_usage, thread_time)
{
	struct timespec before, after, nap = {.tv_nsec = 2000000};
	struct thread_usage thread;

	burn();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
	nanosleep(&nap, NULL); /* the books are up to date after a switch */
	cr_assert_eq(thread_usage(getpid(), getpid(), &thread), 0);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
	cr_expect_eq(thread.state, 'R');
	if (thread.on_cpu_ns == UINT64_MAX)
		cr_skip("this kernel keeps no schedstat");
	cr_expect_geq(thread.on_cpu_ns,
		      (uint64_t)before.tv_sec * 1000000000 + (uint64_t)before.tv_nsec);
	cr_expect_leq(thread.on_cpu_ns,
		      (uint64_t)after.tv_sec * 1000000000 + (uint64_t)after.tv_nsec);
	cr_expect_neq(thread.runnable_ns, UINT64_MAX);
}
