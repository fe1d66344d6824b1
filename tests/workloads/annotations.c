/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Annotations of perfx.h, in usual and unusual ways: annotations CASE. Expectations of a range are
 * printed under its name, as of a function; of a counter its samples, of an allocator its allocs
 * and frees.
 */
#include <perfx.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "hostile.h"
#include "known.h"

#define ROUNDS 500

static void work(int n)
{
	for (int i = 0; i < n; i++)
		KEEP(i);
}

static void push_pop(const char *name)
{
	perfx_range_push(name);
	perfx_range_pop();
}

static void part(const char *name, uint64_t task)
{
	perfx_range_push_in(name, task);
	work(50);
	perfx_range_pop();
}

static void tasks(void)
{
	PERFX_SCOPE("event loop");
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t a = perfx_range_start("task a"), b = perfx_range_start("task b"), inner;

		part("part", a);
		part("part", b);
		inner = perfx_range_start_in("await", b);
		part("part", a);
		part("inside", inner);
		perfx_range_end(inner);
		perfx_range_end(a);
		perfx_range_end(b);
		/* a range that is over, and one that never was: their parent is unknown */
		part("orphan", a);
		part("orphan", 12345);
	}
}

static void expect_tasks(uint64_t runs)
{
	known_expect("event loop", "calls", runs);
	known_expect("task a", "calls", runs * ROUNDS);
	known_expect("task b", "calls", runs * ROUNDS);
	known_expect("await", "calls", runs * ROUNDS);
	known_expect("part", "calls", runs * ROUNDS * 3);
	known_expect("inside", "calls", runs * ROUNDS);
	known_expect("orphan", "calls", runs * ROUNDS * 2);
}

static void unbalanced(void)
{
	for (int i = 0; i < 100; i++) {
		uint64_t id = perfx_range_start("ended twice");

		perfx_range_end(id);
		perfx_range_end(id);
		perfx_range_push("pushed");
		perfx_step_begin();
		perfx_step_begin(); /* the end of the one before is missing */
		perfx_range_pop();  /* inside the step: pops the pushed range, not the step */
		perfx_step_end();
		perfx_step_end();
	}
	for (int i = 0; i < 7; i++)
		perfx_range_pop();
	perfx_range_start("never ended");
}

static void expect_unbalanced(uint64_t runs)
{
	known_expect("ended twice", "calls", runs * 100);
	known_expect("pushed", "calls", runs * 100);
	known_expect("step", "calls", runs * 100);
	known_expect("perfx", "begun_before", runs * (100 + 100 + 7));
	known_expect("perfx", "running", runs * (100 + 1));
}

static uint64_t handed[64];

static void *ends(void *arg)
{
	(void)arg;
	for (int i = 0; i < 64; i++)
		perfx_range_end(handed[63 - i]);
	perfx_range_pop(); /* of another thread */
	perfx_range_push("of a thread that ends");
	return NULL;
}

static void threads(void)
{
	pthread_t thread;

	perfx_range_push("here");
	for (int i = 0; i < 64; i++)
		handed[i] = perfx_range_start(i % 2 ? "odd" : "even");
	if (pthread_create(&thread, NULL, ends, NULL) || pthread_join(thread, NULL))
		exit(1);
	perfx_range_pop();
}

static void expect_threads(uint64_t runs)
{
	known_expect("here", "calls", runs);
	known_expect("odd", "calls", runs * 32);
	known_expect("even", "calls", runs * 32);
	known_expect("perfx", "begun_before", runs);
	known_expect("of a thread that ends", "running", runs);
}

static void names(void)
{
	char name[32];

	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "name %d", i);
		push_pop(name);
		if (i % 5)
			continue;
		perfx_counter(name, i);
		perfx_memory_alloc(name, name, 1);
		perfx_memory_free(name, name);
	}
}

static void tell_all(const char *name)
{
	static char block;

	push_pop(name);
	perfx_range_end(perfx_range_start(name));
	perfx_mark(name);
	perfx_counter(name, 1);
	perfx_counter_add(name, 1);
	perfx_memory_alloc(name, &block, 8);
	perfx_memory_free(name, &block);
}

static void hostile(void)
{
	for (int i = 0; i < 10; i++)
		hostile_names(tell_all);
}

static void forks(void)
{
	/* not literals, which a child must first read from the file, and some links cannot */
	char in_the_child[] = "in the child", children[] = "children";

	for (int i = 0; i < 5; i++) {
		uint64_t id = perfx_range_start("started before fork");
		pid_t child;
		int status;

		perfx_range_push("around fork");
		child = fork();
		if (!child) {
			perfx_range_pop();
			perfx_range_end(id);
			for (int k = 0; k < 10; k++)
				push_pop(in_the_child);
			perfx_counter(children, i);
			_exit(0);
		}
		known_require(waitpid(child, &status, 0) == child && !status, "a child died");
		perfx_range_pop();
		perfx_range_end(id);
	}
}

static void expect_forks(uint64_t runs)
{
	known_expect("around fork", "calls", runs * 5);
	known_expect("started before fork", "calls", runs * 5);
	known_expect("in the child", "calls", runs * 50);
	/* each child ends ranges that it has not begun */
	known_expect("perfx", "begun_before", runs * 10);
	known_expect("children", "samples", runs * 5);
}

static volatile sig_atomic_t handled;

static void handler(int number)
{
	(void)number;
	perfx_range_push("handler");
	perfx_counter_add("signals", 1);
	perfx_mark("signal");
	perfx_range_pop();
	handled++;
}

static uint64_t handled_in_all;

static void signals(void)
{
	static char stack[65536];
	const stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_ONSTACK};
	struct itimerval often = {.it_interval.tv_usec = 500, .it_value.tv_usec = 500}, never = {0};

	handled = 0;
	sigaltstack(&other, NULL);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 2000 || handled < 20; i++) {
		push_pop("interrupted");
		perfx_counter("interrupted", i);
		handled_in_all += 1ull << 32;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	signal(SIGALRM, SIG_IGN);
	handled_in_all += (uint32_t)handled;
}

static void expect_signals(uint64_t runs)
{
	(void)runs;
	known_expect("handler", "calls", handled_in_all & 0xffffffff);
	known_expect("signal", "calls", handled_in_all & 0xffffffff);
	known_expect("signals", "samples", handled_in_all & 0xffffffff);
	known_expect("interrupted", "calls", handled_in_all >> 32);
	known_expect("interrupted", "samples", handled_in_all >> 32);
}

static void values(void)
{
	for (int i = 0; i < 1000; i++) {
		perfx_counter("whole", i - 200);
		perfx_counter_add("tokens", 32);
		perfx_counter_add("tenths", 0.1);
	}
	perfx_counter("strange", 1);
	perfx_counter("strange", __builtin_nan(""));
	perfx_counter("strange", -__builtin_inf());
	perfx_counter("both", 10);
	perfx_counter_add("both", 5);
	perfx_counter_add("both", -2.5);
	perfx_counter("large", 1e300);
	perfx_counter("large", -4.9e-324);
}

static void expect_values(uint64_t runs)
{
	known_expect("whole", "samples", runs * 1000);
	known_expect("tokens", "samples", runs * 1000);
	known_expect("tenths", "samples", runs * 1000);
	known_expect("strange", "samples", runs * 3);
	known_expect("both", "samples", runs * 3);
	known_expect("large", "samples", runs * 2);
}

static char arena[1 << 16];

static void keep_some(int i)
{
	PERFX_TRACK();
	perfx_memory_alloc("cache", arena + 100 * i, 100);
	work(1); /* it returns instead of ending by a jump */
}

static void blocks(void)
{
	for (int i = 0; i < 10; i++) {
		/* the second divides blocks of the first: the same address */
		perfx_memory_alloc("pool", arena, sizeof(arena));
		for (int k = 0; k < 10; k++)
			keep_some(k);
		for (int k = 0; k < 8; k++)
			perfx_memory_free("cache", arena + 100 * k);
		perfx_memory_free("pool", arena);
		perfx_memory_free("nobody's", arena);
		perfx_memory_alloc("pool", NULL, 5);
		perfx_memory_free("pool", NULL);
	}
}

static void expect_blocks(uint64_t runs)
{
	known_expect("pool", "allocs", runs * 10);
	known_expect("pool", "frees", runs * 10);
	known_expect("cache", "allocs", runs * 100);
	known_expect("cache", "frees", runs * 80);
}

static void closes(void)
{
	PERFX_TRACK();
	work(10);
	perfx_trace_stop();
	work(1);
}

static void inside(void)
{
	PERFX_TRACK();
	perfx_step_begin();
	work(10);
	perfx_counter_add("inside", 1);
	perfx_step_end();
}

static void windows(void)
{
	uint64_t id;

	for (int window = 0; window < 3; window++) {
		inside();
		push_pop("outside");
		perfx_trace_stop(); /* ignored */
		perfx_range_push("open at the start");
		perfx_trace_start();
		perfx_range_pop();
		perfx_trace_start(); /* it is already on */
		for (int i = 0; i < 10; i++)
			inside();
		push_pop("recorded");
		perfx_range_push("open at the end");
		id = perfx_range_start("started in one");
		closes();
		perfx_range_pop();
		push_pop("outside");
		perfx_counter("outside", 1);
		perfx_trace_start();
		perfx_range_end(id); /* in another window */
		push_pop("recorded");
		perfx_trace_stop();
		inside();
	}
}

static void expect_windows(uint64_t runs)
{
	known_expect("inside", "calls", runs * 30);
	known_expect("inside", "samples", runs * 30);
	known_expect("recorded", "calls", runs * 6);
	known_expect("step", "calls", runs * 30);
	/* the range that was open at the start; that of another window */
	known_expect("perfx", "begun_before", runs * 6);
	/* closes() itself, and the two ranges */
	known_expect("perfx", "running", runs * 9);
	known_expect("perfx", "windows", runs * 6);
}

#define SAYERS	    3
#define SAID_ROUNDS 2000 /* more windows than a report lists */

static void say_often(void)
{
	for (int i = 0; i < SAID_ROUNDS; i++) {
		perfx_trace_start();
		for (int k = 0; k < 3; k++)
			inside();
		perfx_trace_stop();
	}
}

static void expect_unrecorded(void)
{
	for (int i = 0; i < 1000; i++)
		push_pop("outside");
	perfx_trace_start();
	for (int i = 0; i < 1000; i++)
		push_pop("recorded");
	perfx_trace_stop();
}

static void windows_of_processes(void)
{
	for (int i = 0; i < SAYERS; i++) {
		if (fork())
			continue;
		say_often();
		_exit(0);
	}
	for (int i = 0, status; i < SAYERS; i++)
		known_require(wait(&status) > 0 && !status, "a child died");
	expect_unrecorded();
}

static void expect_windows_of_processes(uint64_t runs)
{
	known_expect("inside", "calls", runs * SAYERS * SAID_ROUNDS * 3);
	known_expect("recorded", "calls", runs * 1000);
}

static void *says_often(void *arg)
{
	say_often();
	return arg;
}

/* A start or stop applies to the whole process: which of the calls between are recorded is
 * undefined. */
static void windows_of_threads(void)
{
	pthread_t threads[SAYERS];

	for (int i = 0; i < SAYERS; i++)
		known_require(!pthread_create(&threads[i], NULL, says_often, NULL), "no thread");
	for (int i = 0; i < SAYERS; i++)
		pthread_join(threads[i], NULL);
	expect_unrecorded();
}

static void expect_windows_of_threads(uint64_t runs)
{
	known_expect("inside", "at_most", runs * SAYERS * SAID_ROUNDS * 3);
	known_expect("recorded", "calls", runs * 1000);
}

static const struct known_case cases[] = {
	{"tasks", tasks, expect_tasks},
	{"unbalanced", unbalanced, expect_unbalanced},
	{"threads", threads, expect_threads},
	{"names", names, NULL},
	{"hostile", hostile, NULL},
	{"forks", forks, expect_forks},
	{"signals", signals, expect_signals},
	{"values", values, expect_values},
	{"blocks", blocks, expect_blocks},
	{"windows", windows, expect_windows},
	{"windows_of_processes", windows_of_processes, expect_windows_of_processes},
	{"windows_of_threads", windows_of_threads, expect_windows_of_threads},
};

int main(int argc, char **argv)
{
	return known_cases_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
