/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that says itself what it does, and one whose functions a rules file explains. Further
 * keys of "expect": flops, bytes: of the function's own calls; counted, unread, silenced: such
 * calls.
 */
#include "known.h"

#include <perfx.h>
#include <pthread.h>
#include <setjmp.h>

/* For rules: more arguments than registers, 32-bit ones with undefined upper halves. */
TRACED int kernel(const float *a, int m, int n, int k, int type, uint64_t unused, const int *groups,
		  int count)
{
	int sum = m + n + k + type + count;

	KEEP(a);
	KEEP(unused);
	KEEP(groups);
	KEEP(sum);
	return sum;
}

/* Its result is the amount of its work. */
TRACED uint64_t solve(uint64_t rounds)
{
	KEEP(rounds);
	return rounds * 3;
}

TRACED void copy(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	KEEP(to);
}

static inline void inlined_work(uint64_t n)
{
	perfx_flops(n);
}

static void step(int number)
{
	PERFX_TRACK();
	perfx_flops(1000);
	inlined_work((uint64_t)number);
}

/* The FLOPs belong to the innermost function. */
static void epoch(void)
{
	PERFX_TRACK();
	perfx_flops(7);
	for (int i = 0; i < 10; i++)
		step(i);
	perfx_flops(5000000000);
}

/* n is already in its register: only nops, then a jump. */
static TRACED void whole(uint64_t n)
{
	PERFX_TRACK();
	perfx_flops(n);
	step(0);
}

static jmp_buf out;

/* Its work until it is left is unknown. */
static void given_up(void)
{
	PERFX_TRACK();
	perfx_flops(123);
	longjmp(out, 1);
}

static void *in_thread(void *unused)
{
	for (int i = 0; i < 100; i++)
		step(i);
	return unused;
}

static void scenario(void)
{
	static const int groups[] = {3, 4};
	char from[64] = "", to[64];
	pthread_t thread;

	epoch();
	for (uint64_t i = 0; i < 3; i++)
		whole(11);
	if (!setjmp(out))
		given_up();
	known_require(!pthread_create(&thread, NULL, in_thread, NULL), "a thread");
	pthread_join(thread, NULL);
	kernel(NULL, 3, 4, 5, 0, UINT64_MAX, groups, 2);
	kernel(NULL, 3, 4, 5, 1, UINT64_MAX, groups, 2);
	kernel(NULL, -3, 4, 5, 1, UINT64_MAX, groups, 2);
	kernel(NULL, 3, 4, 5, 1, UINT64_MAX, NULL, 2);
	for (uint64_t i = 0; i < 5; i++)
		solve(i);
	copy(to, from, sizeof(to));
}

int main(void)
{
	uint64_t runs = known_main(scenario);

	known_expect("epoch", "calls", runs);
	known_expect("epoch", "flops", runs * 5000000007);
	known_expect("step", "calls", runs * 113);
	known_expect("step", "flops", runs * (113 * 1000 + 45 + 4950));
	known_expect("whole", "calls", runs * 3);
	known_expect("whole", "flops", runs * 33);
	known_expect("given_up", "calls", runs);
	known_expect("given_up", "unwound", runs);
	known_expect("given_up", "flops", 0);
	/* by the rules of the test: 60 · (3 + 4) multiply-adds; a type of 1 is complex */
	known_expect("kernel", "calls", runs * 4);
	known_expect("kernel", "flops", runs * 840 * (1 + 4));
	known_expect("kernel", "bytes", runs * 2 * 188);
	known_expect("kernel", "counted", runs * 2);
	known_expect("kernel", "unread", runs * 2);
	/* 3 · 0 + 1 … + 4 of 2 each, and 1 a call */
	known_expect("solve", "calls", runs * 5);
	known_expect("solve", "flops", runs * (60 + 5));
	known_expect("*", "moved", runs * 64);
	return 0;
}
