/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs with known calls: how a test drives them, and the expectations that they print.
 *
 *	program → "ready PID"              started, idle: attach now
 *	test    → "go"                     one run of the scenario (or one step of it)
 *	program → "done"                   idle again
 *	test closes the program's stdin
 *	program → "expect FUNCTION KEY VALUE" …, then exits with 0
 *
 * Values cover all runs since "ready" and the program with its children; a KEY "calls@PID" is for
 * one of the processes. Values of lines with the same FUNCTION and KEY add up (a program that
 * executes another prints its own before). Keys:
 *	calls           calls that ended: returned, or left by a jump, an exception, an unwinding
 *	unwound         calls among them that did not return
 *	running         calls still open when the process ended
 *	begun_before    calls entered before "ready" that returned afterwards
 *	depth           deepest recursion
 *	at_most         upper bound of calls, if tracing may start too late for some
 *	own_ns          duration of the calls by the program's own clock, probes included
 * The function is named without arguments: exceptions.cc's expectations are by base name.
 * A program that finds its own behavior changed (a destructor not run, a wrong result) prints that
 * on stderr and exits with 1: then the tracer did harm.
 */
#ifndef TESTS_WORKLOADS_KNOWN_H
#define TESTS_WORKLOADS_KNOWN_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A function whose every call in the source is a call in the machine code. */
#if defined(__clang__)
#define TRACED __attribute__((noinline))
#else
#define TRACED __attribute__((noipa))
#endif

/* Prevents a value and its computation from being optimized away. */
#define KEEP(value) __asm__ __volatile__("" : "+r"(value) : : "memory")

static inline uint64_t known_clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline void known_say(const char *what)
{
	puts(what);
	fflush(stdout);
}

static inline void known_ready(void)
{
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
}

/* True for each "go". Reads byte by byte, because the rest belongs to the program that is executed
 * next. */
static inline bool known_go(void)
{
	char line[16];
	size_t length = 0;
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1) {
		if (c != '\n') {
			if (length < sizeof(line) - 1)
				line[length++] = c;
			continue;
		}
		line[length] = '\0';
		if (!strcmp(line, "go"))
			return true;
		length = 0;
	}
	return false;
}

static inline void known_expect(const char *function, const char *key, uint64_t value)
{
	printf("expect %s %s %" PRIu64 "\n", function, key, value);
	fflush(stdout);
}

static inline void known_expect_of(const char *function, pid_t pid, uint64_t calls)
{
	char key[32];

	snprintf(key, sizeof(key), "calls@%d", (int)pid);
	known_expect(function, key, calls);
}

static inline void known_require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "harmed: %s\n", what);
	exit(1);
}

/* The usual main: ready, runs of the scenario, end of input. Returns the number of runs. */
static inline uint64_t known_main(void (*scenario)(void))
{
	uint64_t runs = 0;

	known_ready();
	for (; known_go(); runs++) {
		scenario();
		known_say("done");
	}
	return runs;
}

/* A program of several scenarios: the first argument names one. */
struct known_case {
	const char *name;
	void (*run)(void);
	void (*expect)(uint64_t runs); /* NULL: no expectations */
};

/* The exit status. */
static inline int known_cases_main(int argc, char **argv, const struct known_case *cases,
				   size_t count)
{
	for (size_t i = 0; argc > 1 && i < count; i++) {
		uint64_t runs;

		if (strcmp(argv[1], cases[i].name))
			continue;
		runs = known_main(cases[i].run);
		if (cases[i].expect)
			cases[i].expect(runs);
		return 0;
	}
	fprintf(stderr, "usage: %s CASE\n", argv[0]);
	return 2;
}

#endif
