// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls one function again and again, and says what a call takes: for tools to attach to meanwhile.
 *
 *	calls_per_second FUNCTION [THREADS]
 *
 *	program → "ready PID"                   idle: attach now
 *	bench   → "run MS [CALLS_PER_SECOND]"   all threads; 0 or none: as fast as it goes
 *	program → "window CALLS CPU_NS"         each window of a thread, by its own clock
 *	program → "done CALLS NS"               of all threads, from first to last
 *	bench closes the program's stdin
 *
 * A window's time is the thread's CPU time, so that what else runs here, the tracer too, is not
 * taken for the cost of a call.
 *
 * The functions are written in assembler so that the first instruction is certain. Each name is
 * FIRST_EXIT: what it starts with, and whether a branch (as a stack protector's) decides for the
 * ret or the ret is all that there is.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 1024
#define BATCH_CALLS 64
#define WINDOW_NS   5000000u
#define WINDOWS_MAX 1024
#define PACE_NS	    1000000u

typedef int traced_function(int);

#if defined(__x86_64__)
#define FUNCTION(name, code)                                                              \
	__asm__(".pushsection .text\n\t.globl " #name "\n\t.type " #name ",@function\n\t" \
		".balign 64\n" #name ":\n\t.cfi_startproc\n\t" code                       \
		"\n\t.cfi_endproc\n\t.size " #name ",.-" #name "\n\t.popsection");        \
	traced_function name;

#define PUSH "push %rbx\n\t.cfi_adjust_cfa_offset 8\n\t"
#define POP  "pop %rbx\n\t.cfi_adjust_cfa_offset -8\n\t"
/* Returns the argument plus 1; a negative one would be a smashed stack. */
#define BRANCH                                                                                 \
	"lea 1(%rdi),%eax\n\ttest %edi,%edi\n\tjs 9f\n\t.cfi_remember_state\n\t" POP "ret\n\t" \
	".cfi_restore_state\n9:\tud2"
#define RET "lea 1(%rdi),%eax\n\t" POP "ret"

FUNCTION(push_branch, PUSH BRANCH)
FUNCTION(push_ret, PUSH RET)
FUNCTION(endbr64_branch, "endbr64\n\t" PUSH BRANCH)
FUNCTION(test_branch, "test %edi,%edi\n\tje 8f\n8:\t" PUSH BRANCH)
FUNCTION(lea_branch, "lea 8(%rdi),%eax\n\t" PUSH BRANCH)
FUNCTION(nop5_branch, ".byte 0x0f,0x1f,0x44,0,0\n\tnop\n\t" PUSH BRANCH)
/* No cheap instruction to move the probe to. */
FUNCTION(lea_ret, "lea 1(%rdi),%eax\n\tret")
#else
#define FUNCTION(name, code)                         \
	__attribute__((noipa)) traced_function name; \
	int name(int x)                              \
	{                                            \
		__asm__ volatile("" : "+r"(x));      \
		return x + 1;                        \
	}
FUNCTION(push_branch, )
FUNCTION(push_ret, )
FUNCTION(endbr64_branch, )
FUNCTION(test_branch, )
FUNCTION(lea_branch, )
FUNCTION(nop5_branch, )
FUNCTION(lea_ret, )
#endif

#define ROW(name)           \
	{                   \
#name, name \
	}
static const struct row {
	const char *name;
	traced_function *function;
} rows[] = {
	ROW(push_branch), ROW(push_ret),    ROW(endbr64_branch), ROW(test_branch),
	ROW(lea_branch),  ROW(nop5_branch), ROW(lea_ret),
};

struct window {
	uint32_t calls_count;
	uint32_t duration_ns;
};

struct worker {
	pthread_t thread;
	traced_function *function;
	uint64_t duration_ns;
	uint64_t rate; /* calls per second; 0: no limit */
	uint64_t calls_count;
	size_t windows_count;
	struct window windows[WINDOWS_MAX];
};

static struct worker workers[THREADS_MAX];

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void sleep_until(uint64_t when_ns)
{
	struct timespec ts = {.tv_sec = (time_t)(when_ns / 1000000000u),
			      .tv_nsec = (long)(when_ns % 1000000000u)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static void call(struct worker *w, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		if (w->function((int)i & 0xffff) != ((int)i & 0xffff) + 1) {
			fprintf(stderr, "harmed: a wrong result\n");
			exit(1);
		}
	}
	w->calls_count += count;
}

static void add_recording_window(struct worker *w, uint64_t calls, uint64_t ns)
{
	if (w->windows_count < WINDOWS_MAX)
		w->windows[w->windows_count++] = (struct window){(uint32_t)calls, (uint32_t)ns};
}

static void run_freely(struct worker *w)
{
	uint64_t start = now_ns(), end = start + w->duration_ns, now = start;
	uint64_t window_start = start, window_calls = w->calls_count, window_cpu = cpu_ns();

	while (now < end) {
		call(w, BATCH_CALLS);
		now = now_ns();
		if (now - window_start < WINDOW_NS)
			continue;
		add_recording_window(w, w->calls_count - window_calls, cpu_ns() - window_cpu);
		window_start = now = now_ns();
		window_calls = w->calls_count;
		window_cpu = cpu_ns();
	}
}

/* A millisecond's calls at once, then a pause; delays are made up for. */
static void run_paced(struct worker *w)
{
	uint64_t start = now_ns(), now = start;

	while (now - start < w->duration_ns) {
		uint64_t due = (now - start + PACE_NS) / 1000 * w->rate / 1000000;

		if (due > w->calls_count)
			call(w, due - w->calls_count < 100000 ? due - w->calls_count : 100000);
		sleep_until(now + PACE_NS);
		now = now_ns();
	}
}

static void *run_worker(void *ctx)
{
	struct worker *w = ctx;

	if (w->rate)
		run_paced(w);
	else
		run_freely(w);
	return NULL;
}

static void run(traced_function *function, size_t threads, uint64_t duration_ns, uint64_t rate)
{
	uint64_t start = now_ns(), calls = 0;

	for (size_t i = 0; i < threads; i++) {
		struct worker *w = &workers[i];

		w->function = function;
		w->duration_ns = duration_ns;
		w->rate = rate / threads;
		w->calls_count = w->windows_count = 0;
		if (pthread_create(&w->thread, NULL, run_worker, w)) {
			perror("thread");
			exit(1);
		}
	}
	for (size_t i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		calls += workers[i].calls_count;
	}
	start = now_ns() - start;
	for (size_t i = 0; i < threads; i++)
		for (size_t j = 0; j < workers[i].windows_count; j++)
			printf("window %" PRIu32 " %" PRIu32 "\n",
			       workers[i].windows[j].calls_count,
			       workers[i].windows[j].duration_ns);
	printf("done %" PRIu64 " %" PRIu64 "\n", calls, start);
	fflush(stdout);
}

static traced_function *function_of(const char *name)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].name, name))
			return rows[i].function;
	return NULL;
}

int main(int argc, char **argv)
{
	traced_function *function = argc > 1 ? function_of(argv[1]) : NULL;
	size_t threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
	char line[64];

	if (!function || !threads || threads > THREADS_MAX) {
		fprintf(stderr, "usage: calls_per_second FUNCTION [THREADS]\nfunctions:");
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			fprintf(stderr, " %s", rows[i].name);
		fprintf(stderr, "\n");
		return 2;
	}
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t ms = 0, rate = 0;

		if (sscanf(line, "run %" SCNu64 " %" SCNu64, &ms, &rate) < 1 || !ms) {
			fprintf(stderr, "not a command: %s", line);
			return 2;
		}
		run(function, threads, ms * 1000000u, rate);
	}
	return 0;
}
