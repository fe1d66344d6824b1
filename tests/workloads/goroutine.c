/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stack as Go makes it for a goroutine: rbp is 0, and the first function, which has no frame,
 * returns behind the first instruction of one that has not called it. Neither has unwind tables.
 *
 *	cpu_ns          of goroutine_spins, half a second with each "go", by the thread's own clock
 */
#include "known.h"

#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)

void goroutine_run(void *stack_end);
extern volatile int goroutine_ends;

asm(".pushsection .data\n"
    ".globl goroutine_ends\n"
    "goroutine_ends: .long 0\n"
    "caller_sp: .quad 0\n"
    ".popsection\n"
    ".pushsection .text\n"
    ".type goroutine_exit, @function\n"
    "goroutine_exit:\n"
    "	nop\n"
    "	mov caller_sp(%rip), %rsp\n"
    "	pop %rbp\n"
    "	ret\n"
    ".size goroutine_exit, . - goroutine_exit\n"
    ".type goroutine_spins, @function\n"
    "goroutine_spins:\n"
    "1:	pause\n"
    "	cmpl $0, goroutine_ends(%rip)\n"
    "	je 1b\n"
    "	ret\n"
    ".size goroutine_spins, . - goroutine_spins\n"
    ".globl goroutine_run\n"
    ".type goroutine_run, @function\n"
    "goroutine_run:\n"
    "	push %rbp\n"
    "	mov %rsp, caller_sp(%rip)\n"
    "	mov %rdi, %rsp\n"
    "	lea 1+goroutine_exit(%rip), %rax\n"
    "	push %rax\n"
    "	xor %ebp, %ebp\n"
    "	jmp goroutine_spins\n"
    ".size goroutine_run, . - goroutine_run\n"
    ".popsection\n");

static uint64_t cpu_ns;

static void end_it(int signal)
{
	(void)signal;
	goroutine_ends = 1;
}

static void run(void)
{
	static _Alignas(16) char stack[65536];
	const struct itimerval half_a_second = {.it_value.tv_usec = 500000};
	uint64_t begin_ns = known_clock_ns(CLOCK_THREAD_CPUTIME_ID);

	signal(SIGPROF, end_it);
	goroutine_ends = 0;
	setitimer(ITIMER_PROF, &half_a_second, NULL);
	goroutine_run(stack + sizeof(stack));
	cpu_ns += known_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
}

static void expect(uint64_t runs)
{
	(void)runs;
	known_expect("goroutine_spins", "cpu_ns", cpu_ns);
}

int main(int argc, char **argv)
{
	static const struct known_case cases[] = {{"spins", run, expect}};

	return known_cases_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}

#else

int main(void)
{
	return 0;
}

#endif
