/* SPDX-License-Identifier: BSD-2-Clause */
/* longjmp across traced frames: from a call, half-way up, and out of a signal handler, which may
 * have its own stack: far from the others, or (longjmp above) above the frames that it interrupts.
 * */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>

#include "known.h"

static jmp_buf top, half;
static sigjmp_buf from_signal;
static volatile bool jumps;

TRACED int jump_leaf(int x)
{
	if (x % 3 == 0)
		longjmp(top, 1);
	if (x % 3 == 1)
		longjmp(half, 1);
	return x;
}

TRACED int jump_inner(int x)
{
	int got = jump_leaf(x);

	KEEP(got);
	return got;
}

/* Catches every third jump itself, and then returns normally. */
TRACED int jump_middle(int x)
{
	int got = 0;

	if (!setjmp(half))
		got = jump_inner(x);
	KEEP(got);
	return got;
}

TRACED int jump_outer(int x)
{
	int got = jump_middle(x);

	KEEP(got);
	return got;
}

TRACED int plain(int x)
{
	KEEP(x);
	return x;
}

TRACED int raise_inner(int x)
{
	raise(SIGUSR1);
	return x;
}

TRACED int raise_outer(int x)
{
	int got = raise_inner(x);

	KEEP(got);
	return got;
}

static void on_signal(int number)
{
	(void)number;
	siglongjmp(from_signal, 1);
}

TRACED int handler_inner(int x)
{
	if (jumps)
		siglongjmp(from_signal, 1);
	return x;
}

TRACED int handler_outer(int x)
{
	int got = handler_inner(x);

	KEEP(got);
	return got;
}

static void on_own_stack(int number)
{
	handler_outer(number);
}

TRACED int interrupted(int x)
{
	raise(SIGUSR2);
	return x;
}

static void scenario(void)
{
	for (volatile int i = 0; i < 3000; i++) {
		if (!setjmp(top))
			jump_outer(i);
		plain(i);
	}
	for (volatile int i = 0; i < 500; i++) {
		if (!sigsetjmp(from_signal, 1))
			raise_outer(i);
		plain(i);
	}
	for (volatile int i = 0; i < 1000; i++) {
		jumps = i % 2;
		if (!sigsetjmp(from_signal, 1))
			interrupted(i);
		plain(i);
	}
}

/* longjmp last: nothing follows the jump; two threads are in a call that goes on. */

static atomic_int inside_count;

TRACED void waits_inside(void)
{
	inside_count++;
	for (;;)
		pause();
}

TRACED void spins_inside(void)
{
	inside_count++;
	while (inside_count)
		;
}

static void *stays(void *function)
{
	((void (*)(void))function)();
	return NULL;
}

static void jumps_last(void)
{
	pthread_t threads[2];

	if (!inside_count) {
		pthread_create(&threads[0], NULL, stays, (void *)waits_inside);
		pthread_create(&threads[1], NULL, stays, (void *)spins_inside);
	}
	while (inside_count < 2)
		sched_yield();
	if (!setjmp(top))
		jump_outer(0);
}

static void expect_last(uint64_t runs)
{
	const char *const names[] = {"jump_leaf", "jump_inner", "jump_middle", "jump_outer"};

	for (int i = 0; i < 4; i++) {
		known_expect(names[i], "calls", runs);
		known_expect(names[i], "unwound", runs);
	}
	known_expect("waits_inside", "running", 1);
	known_expect("spins_inside", "running", 1);
}

int main(int argc, char **argv)
{
	static char far_away[65536];
	char above[65536];
	const bool is_above = argc > 1 && !strcmp(argv[1], "above");
	const stack_t stack = {.ss_sp = is_above ? above : far_away, .ss_size = sizeof(above)};
	struct sigaction action = {.sa_handler = on_own_stack, .sa_flags = SA_ONSTACK};
	uint64_t runs;

	if (argc > 1 && !strcmp(argv[1], "last")) {
		expect_last(known_main(jumps_last));
		return 0;
	}
	signal(SIGUSR1, on_signal);
	sigaction(SIGUSR2, &action, NULL);
	sigaltstack(&stack, NULL);
	runs = known_main(scenario);
	known_expect("jump_leaf", "calls", runs * 3000);
	known_expect("jump_leaf", "unwound", runs * 2000);
	known_expect("jump_inner", "calls", runs * 3000);
	known_expect("jump_inner", "unwound", runs * 2000);
	known_expect("jump_middle", "calls", runs * 3000);
	known_expect("jump_middle", "unwound", runs * 1000);
	known_expect("jump_outer", "calls", runs * 3000);
	known_expect("jump_outer", "unwound", runs * 1000);
	known_expect("plain", "calls", runs * 4500);
	for (int i = 0; i < 3; i++) {
		const char *const names[] = {"handler_inner", "handler_outer", "interrupted"};

		known_expect(names[i], "calls", runs * 1000);
		/* return probes are not made there */
		if (!is_above || i == 2)
			known_expect(names[i], "unwound", runs * 500);
	}
	known_expect("raise_inner", "calls", runs * 500);
	known_expect("raise_inner", "unwound", runs * 500);
	known_expect("raise_outer", "calls", runs * 500);
	known_expect("raise_outer", "unwound", runs * 500);
	return 0;
}
