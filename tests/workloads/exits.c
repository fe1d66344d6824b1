/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every shape of exit that a compiler makes: many rets, a jump table, a cold part elsewhere, a
 * stack protector's check, a switch whose cases are tail calls, an exit that never returns.
 */
#include <setjmp.h>

#include "known.h"

static volatile int sink;
static jmp_buf escape;

TRACED int callee(int x)
{
	KEEP(x);
	return x;
}

/* Four rets, one of them out of a loop, and a jump to another function. */
TRACED int exit_many(int x)
{
	if (x % 7 == 0)
		return 1;
	if (x % 7 == 1)
		return callee(x) + callee(x + 1);
	if (x % 7 == 2)
		return callee(x);
	for (int i = 0; i < x % 7; i++) {
		if (callee(i) == 4)
			return callee(5) + 1;
	}
	return 9;
}

/* The size of the frame is known only at run time: the frame is found by rbp. */
TRACED int exit_alloca(int x)
{
	char *text = alloca((size_t)(x % 64) + 1);

	KEEP(text);
	if (x % 3)
		return callee(3) + !text;
	return callee(text == NULL);
}

/* Dense cases that cannot be a lookup table: an indirect jump through .rodata. */
TRACED int exit_switch(int x)
{
	switch (x % 8) {
	case 0:
		return callee(1) + callee(2);
	case 1:
		sink = x;
		return 3;
	case 2:
		return callee(x) * 5;
	case 3:
		sink++;
		break;
	case 4:
		return callee(x) - callee(sink);
	case 5:
		sink = callee(x) & 3;
		return -x;
	case 6:
		return callee(7) ^ x;
	default:
		return 0;
	}
	return sink;
}

/* The same, each case a jump to another function. */
TRACED int exit_switch_tail(int x)
{
	switch (x % 6) {
	case 0:
		return exit_many(x);
	case 1:
		return exit_switch(x + 1);
	case 2:
		return callee(x);
	case 3:
		return exit_many(x + 3);
	case 4:
		return callee(-x);
	default:
		return exit_switch(x);
	}
}

__attribute__((cold)) TRACED static void rare(int x)
{
	sink = x;
}

/* Its cold part goes to .text.unlikely as exit_cold.cold, and returns from there. */
TRACED int exit_cold(int x)
{
	int got = callee(x);

	if (x % 100 == 99) {
		rare(x);
		got += callee(1);
		rare(got);
		return got;
	}
	return got + 1;
}

/* Built with -fstack-protector-strong: an additional exit, to __stack_chk_fail. */
TRACED int exit_protected(int x)
{
	char text[64];

	snprintf(text, sizeof(text), "%d", x);
	return callee(text[0]) - '0';
}

__attribute__((noreturn)) TRACED static void leave(int x)
{
	longjmp(escape, x);
}

/* Every tenth call ends in a function that does not return; the other exit is a ret. */
TRACED int exit_noreturn(int x)
{
	if (x % 10 == 9)
		leave(x);
	return callee(x);
}

TRACED void exit_void(int *x)
{
	if (*x)
		*x = 0;
}

#if defined(__x86_64__)
/* ret with a prefix, from old tuning for branch predictors, and ret that pops. */
int exit_rep_ret(int x);
__asm__(".pushsection .text\n\t.globl exit_rep_ret\n\t.type exit_rep_ret,@function\n"
	"\t.balign 16\nexit_rep_ret:\n\t.cfi_startproc\n\t"
	"lea 1(%rdi),%eax\n\ttest %edi,%edi\n\tje 1f\n\trep ret\n1:\trepz ret\n\t.cfi_endproc\n\t"
	".size exit_rep_ret,.-exit_rep_ret\n\t.popsection");
#else
TRACED int exit_rep_ret(int x)
{
	return x + 1;
}
#endif

static void scenario(void)
{
	for (volatile int i = 0; i < 4200; i++) {
		int x = i;

		exit_many(x);
		exit_alloca(x);
		exit_switch(x);
		exit_switch_tail(x);
		exit_cold(x);
		known_require(exit_rep_ret(x) == x + 1, "exit_rep_ret");
		known_require(exit_protected(x) < 10, "exit_protected");
		if (!setjmp(escape))
			exit_noreturn(x);
		exit_void(&x);
	}
}

int main(void)
{
	uint64_t runs = known_main(scenario);

	known_expect("exit_many", "calls", runs * (4200 + 1400));
	known_expect("exit_alloca", "calls", runs * 4200);
	known_expect("exit_switch", "calls", runs * (4200 + 1400));
	known_expect("exit_switch_tail", "calls", runs * 4200);
	known_expect("exit_cold", "calls", runs * 4200);
	known_expect("exit_protected", "calls", runs * 4200);
	known_expect("exit_noreturn", "calls", runs * 4200);
	known_expect("exit_noreturn", "unwound", runs * 420);
	known_expect("exit_void", "calls", runs * 4200);
	known_expect("exit_rep_ret", "calls", runs * 4200);
	known_expect("rare", "calls", runs * 84);
	return 0;
}
