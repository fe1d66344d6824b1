/* SPDX-License-Identifier: BSD-2-Clause */
/* million: calls a function of a microsecond of work continuously, and another one a hundred times
 * a second. Prints every 100 ms "at NS calls N cpu NS": CLOCK_MONOTONIC, the calls since the line
 * before, and their CPU time. Until stdin is closed. */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define LINE_NS 100000000u
#define OFTEN	10000

static volatile uint64_t result;

__attribute__((noinline)) void often(void)
{
	uint64_t x = result;

	for (int i = 0; i < 700; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	result = x;
}

__attribute__((noinline)) void seldom(void)
{
	result++;
}

static uint64_t now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int is_open(void)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&in, 1, 0) == 0;
}

int main(void)
{
	uint64_t line_ns = now(CLOCK_MONOTONIC), cpu_ns = now(CLOCK_THREAD_CPUTIME_ID), calls = 0;

	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (is_open()) {
		uint64_t at_ns;

		for (int i = 0; i < OFTEN; i++)
			often();
		seldom();
		calls += OFTEN;
		at_ns = now(CLOCK_MONOTONIC);
		if (at_ns - line_ns < LINE_NS)
			continue;
		printf("at %lu calls %lu cpu %lu\n", (unsigned long)at_ns, (unsigned long)calls,
		       (unsigned long)(now(CLOCK_THREAD_CPUTIME_ID) - cpu_ns));
		fflush(stdout);
		calls = 0;
		line_ns = at_ns;
		cpu_ns = now(CLOCK_THREAD_CPUTIME_ID);
	}
	return 0;
}
