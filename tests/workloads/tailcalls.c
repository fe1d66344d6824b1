/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions that end by a jump to another: to a name, through a pointer, on a condition, to
 * themselves. tail_called runs on the frame of its caller's caller; each of both is one call.
 */
#include "known.h"

TRACED int tail_called(int x)
{
	KEEP(x);
	return x + 1;
}

TRACED int tail_direct(int x)
{
	KEEP(x);
	return tail_called(x);
}

static int (*volatile target)(int) = tail_called;

TRACED int tail_pointer(int x)
{
	KEEP(x);
	return target(x);
}

/* Sometimes a call and a return, sometimes a jump. */
TRACED int tail_sometimes(int x)
{
	if (x % 2)
		return tail_called(x);
	return tail_called(x) + 1;
}

/* A frame with saved registers, popped before the jump. */
TRACED int tail_framed(int x)
{
	int first = tail_called(x), second = tail_called(x + 1);

	KEEP(first);
	return tail_direct(first + second);
}

/* Two functions that jump to each other, as in interpreters: one frame, many calls. */
TRACED int tail_ping(int n);

TRACED int tail_pong(int n)
{
	KEEP(n);
	return n ? tail_ping(n - 1) : 7;
}

TRACED int tail_ping(int n)
{
	KEEP(n);
	return n ? tail_pong(n - 1) : 7;
}

#if defined(__x86_64__)
/* Compilers rarely emit a conditional branch out of a function; hand-written code does. */
int tail_conditional(int x);
__asm__(".pushsection .text\n\t.globl tail_conditional\n\t.type tail_conditional,@function\n"
	"\t.balign 16\ntail_conditional:\n\t.cfi_startproc\n\t"
	"test $1,%dil\n\tjne tail_called\n\tlea 1(%rdi),%eax\n\tret\n\t.cfi_endproc\n\t"
	".size tail_conditional,.-tail_conditional\n\t.popsection");
#else
TRACED int tail_conditional(int x)
{
	return x % 2 ? tail_called(x) : x + 1;
}
#endif

static void scenario(void)
{
	for (int i = 0; i < 1000; i++) {
		known_require(tail_direct(i) == i + 1, "tail_direct");
		known_require(tail_pointer(i) == i + 1, "tail_pointer");
		known_require(tail_sometimes(i) == i + 2 - i % 2, "tail_sometimes");
		known_require(tail_framed(i) == 2 * i + 4, "tail_framed");
		known_require(tail_conditional(i) == i + 1, "tail_conditional");
	}
	for (int i = 0; i < 10; i++)
		known_require(tail_ping(199) == 7, "tail_ping");
}

int main(void)
{
	uint64_t runs = known_main(scenario);

	known_expect("tail_direct", "calls", runs * 2000);
	known_expect("tail_pointer", "calls", runs * 1000);
	known_expect("tail_sometimes", "calls", runs * 1000);
	known_expect("tail_framed", "calls", runs * 1000);
	known_expect("tail_conditional", "calls", runs * 1000);
	known_expect("tail_called", "calls", runs * (1000 * 3 + 500 + 3000));
	known_expect("tail_ping", "calls", runs * 1000);
	known_expect("tail_pong", "calls", runs * 1000);
	return 0;
}
