/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Starts and ends of processes, by scenario:
 *
 *	helpers      a server that forks ten helpers a run, each of which allocates and ends
 *	recycled     a pid that six processes have one after the other, with time to attach to each
 *	recycled-fast  a hundred, without
 *	thread-exec  a thread other than the main one executes the program again, which then calls
 *	main-exit    the main thread ends, another one continues
 *	loop         a forked child that makes calls all the time, also while it is attached
 *	workers      a given number of children, all alive at the same time
 */
#include <linux/sched.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "known.h"

#define HELPERS	      10
#define CALLS	      20
#define PAIRS	      2000
#define LOOP_NS	      300000000
#define WORKERS_CALLS 100

static const char *path;
static uint64_t calls, runs;

TRACED int work(int x)
{
	KEEP(x);
	return x + 1;
}

TRACED int leaf(int x)
{
	KEEP(x);
	return x + 1;
}

TRACED int outer(int x)
{
	x = leaf(x);
	x = leaf(x);
	x = leaf(x);
	KEEP(x);
	return x;
}

static void call_work(int count)
{
	for (int i = 0; i < count; i++)
		work(i);
	calls += (uint64_t)count;
}

static void rest(long ms)
{
	struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&time, NULL);
}

static uint64_t first_pair_ns, last_pair_ns; /* after the first run, after the last */

/* The minimum of a few rounds, because noise only adds. */
static uint64_t pair_ns(void)
{
	uint64_t least = UINT64_MAX;

	for (int round = 0; round < 5; round++) {
		uint64_t start = known_clock_ns(CLOCK_MONOTONIC);

		for (int i = 0; i < PAIRS; i++) {
			void *block = malloc(64);

			KEEP(block);
			free(block);
		}
		start = (known_clock_ns(CLOCK_MONOTONIC) - start) / PAIRS;
		if (start < least)
			least = start;
	}
	return least;
}

static void help(void)
{
	void *block = malloc(64);

	KEEP(block);
	free(block);
	rest(50);
	_exit(0);
}

static void serve(void)
{
	pid_t helpers[HELPERS];

	for (int i = 0; i < HELPERS; i++) {
		helpers[i] = fork();
		if (!helpers[i])
			help();
	}
	for (int i = 0; i < HELPERS; i++)
		waitpid(helpers[i], NULL, 0);
	last_pair_ns = pair_ns();
	if (!first_pair_ns)
		first_pair_ns = last_pair_ns;
}

static pid_t fork_as(pid_t pid)
{
	struct clone_args args = {.exit_signal = SIGCHLD,
				  .set_tid = pid ? (uintptr_t)&pid : 0,
				  .set_tid_size = pid ? 1 : 0};

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static void recycle(int predecessors, long rest_ms)
{
	pid_t pid = 0;

	for (int i = 0; i <= predecessors; i++) {
		pid_t child = fork_as(pid);

		if (!child) {
			rest(rest_ms);
			call_work(CALLS);
			_exit(0);
		}
		known_require(child > 0 && (!pid || child == pid), "the pid is taken");
		waitpid(child, NULL, 0);
		pid = child;
		calls += CALLS;
	}
}

static void recycle_slowly(void)
{
	recycle(5, 100);
}

static void recycle_fast(void)
{
	recycle(99, 5);
}

static void *execute(void *arg)
{
	char count[24];

	snprintf(count, sizeof(count), "%" PRIu64, calls);
	execl(path, path, "thread-exec", count, NULL);
	known_require(false, "exec");
	return arg;
}

/* Returns as another program. */
static void exec_by_thread(void)
{
	pthread_t thread;

	call_work(CALLS);
	pthread_create(&thread, NULL, execute, NULL);
	pthread_join(thread, NULL);
}

static void executed(const char *before)
{
	calls = strtoull(before, NULL, 10);
	known_say("done");
	while (known_go()) {
		call_work(3 * CALLS);
		known_say("done");
		if (known_go())
			exec_by_thread();
	}
}

static void loop(void)
{
	uint64_t end_ns = known_clock_ns(CLOCK_MONOTONIC) + LOOP_NS;
	pid_t pid = fork();

	if (!pid) {
		for (int i = 0; known_clock_ns(CLOCK_MONOTONIC) < end_ns; i++)
			outer(i);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static int workers_count;

/* Each waits until the tracer has seen them all, works and ends. */
static void employ(void)
{
	pid_t *pids = calloc((size_t)workers_count, sizeof(*pids));
	int gate[2];
	char byte;

	known_require(pids && !pipe(gate), "pipe");
	for (int i = 0; i < workers_count; i++) {
		pids[i] = fork();
		if (pids[i])
			continue;
		close(gate[1]);
		known_require(!read(gate[0], &byte, 1), "gate");
		call_work(WORKERS_CALLS);
		_exit(0);
	}
	rest(2000);
	close(gate[0]);
	close(gate[1]);
	for (int i = 0; i < workers_count; i++)
		waitpid(pids[i], NULL, 0);
	calls += (uint64_t)workers_count * WORKERS_CALLS;
	free(pids);
}

static void *go_on(void *arg)
{
	runs = known_main(arg);
	known_expect("work", "calls", runs * CALLS);
	exit(0);
}

static void work_once(void)
{
	call_work(CALLS);
}

static const struct scenario {
	const char *name;
	void (*run)(void);
} scenarios[] = {
	{"helpers", serve},
	{"recycled", recycle_slowly},
	{"recycled-fast", recycle_fast},
	{"thread-exec", exec_by_thread},
	{"loop", loop},
	{"workers", employ},
};
#define SCENARIOS (sizeof(scenarios) / sizeof(*scenarios))

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	pthread_t thread;

	path = argv[0];
	if (!strcmp(name, "main-exit")) {
		pthread_create(&thread, NULL, go_on, work_once);
		pthread_exit(NULL);
	}
	if (!strcmp(name, "workers") && argc > 2)
		workers_count = atoi(argv[2]);
	else if (argc > 2)
		executed(argv[2]);
	for (size_t i = 0; argc < 3 + !!workers_count && i < SCENARIOS; i++)
		if (!strcmp(name, scenarios[i].name))
			known_main(scenarios[i].run);
	known_expect("work", "calls", calls);
	known_expect("pair", "first_ns", first_pair_ns);
	known_expect("pair", "last_ns", last_pair_ns);
	return 0;
}
