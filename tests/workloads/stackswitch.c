/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A coroutine whose stack switch is written by hand, with nothing in the ELF file that tells: no
 * C++ runtime, no swapcontext. The generator's stack is once in .bss, far below the thread's, and
 * once inside the thread's own. `stackswitch migrate`: another thread resumes it half-way, so calls
 * end in another thread than they began.
 */
#include <pthread.h>

#include "known.h"

#define VALUES 1000

struct stack {
	void *sp;
};

/* Saves the callee-saved registers and the stack pointer in *from, and continues where `to` was
 * left. */
void switch_stack(struct stack *from, const struct stack *to);

#if defined(__x86_64__)
__asm__(".pushsection .text\n\t.globl switch_stack\n\t.type switch_stack,@function\n"
	"switch_stack:\n\t"
	"push %rbp\n\tpush %rbx\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n\t"
	"mov %rsp,(%rdi)\n\tmov (%rsi),%rsp\n\t"
	"pop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbx\n\tpop %rbp\n\tret\n\t"
	".size switch_stack,.-switch_stack\n\t.popsection");
#define SAVED 8 /* the slots of a suspended stack: registers, return address, one for alignment */
#define ENTRY 6
#elif defined(__aarch64__)
__asm__(".pushsection .text\n\t.globl switch_stack\n\t.type switch_stack,%function\n"
	"switch_stack:\n\t"
	"stp x29,x30,[sp,#-160]!\n\tstp x19,x20,[sp,#16]\n\tstp x21,x22,[sp,#32]\n\t"
	"stp x23,x24,[sp,#48]\n\tstp x25,x26,[sp,#64]\n\tstp x27,x28,[sp,#80]\n\t"
	"stp d8,d9,[sp,#96]\n\tstp d10,d11,[sp,#112]\n\tstp d12,d13,[sp,#128]\n\t"
	"stp d14,d15,[sp,#144]\n\t"
	"mov x9,sp\n\tstr x9,[x0]\n\tldr x9,[x1]\n\tmov sp,x9\n\t"
	"ldp x19,x20,[sp,#16]\n\tldp x21,x22,[sp,#32]\n\tldp x23,x24,[sp,#48]\n\t"
	"ldp x25,x26,[sp,#64]\n\tldp x27,x28,[sp,#80]\n\tldp d8,d9,[sp,#96]\n\t"
	"ldp d10,d11,[sp,#112]\n\tldp d12,d13,[sp,#128]\n\tldp d14,d15,[sp,#144]\n\t"
	"ldp x29,x30,[sp],#160\n\tret\n\t"
	".size switch_stack,.-switch_stack\n\t.popsection");
#define SAVED 20
#define ENTRY 1
#else
#error "write switch_stack for this architecture"
#endif

static struct stack main_stack, generator_stack;
static int value;
static bool migrate;

TRACED int yield_value(int x)
{
	value = x;
	switch_stack(&generator_stack, &main_stack);
	return x;
}

TRACED int produce(int x)
{
	int got = yield_value(2 * x);

	KEEP(got);
	return got + yield_value(2 * x + 1);
}

static void generator_main(void)
{
	for (int i = 0; i < VALUES / 4; i++)
		produce(i);
	switch_stack(&generator_stack, &main_stack);
}

TRACED int next_value(void)
{
	switch_stack(&main_stack, &generator_stack);
	return value;
}

TRACED int consume(int expected)
{
	int got = next_value();

	known_require(got == expected, "the generator's values come in order");
	return got;
}

/* Leaves the new stack as switch_stack() would have, about to return to the generator's start. */
static void start_generator(char *stack, size_t size)
{
	void **top = (void **)(((uintptr_t)stack + size) & ~(uintptr_t)15);

	top -= SAVED;
	memset(top, 0, SAVED * sizeof(*top));
	top[ENTRY] = (void *)generator_main;
	generator_stack.sp = top;
}

static void *consume_some(void *arg)
{
	int first = *(int *)arg;

	for (int i = 0; i < VALUES / 4; i++)
		consume(first + i);
	*(int *)arg = first + VALUES / 4;
	return NULL;
}

static void run_generator(char *stack, size_t size)
{
	pthread_t thread;
	int at = 0;

	start_generator(stack, size);
	consume_some(&at);
	if (migrate) {
		pthread_create(&thread, NULL, consume_some, &at);
		pthread_join(thread, NULL);
	} else {
		consume_some(&at);
	}
	next_value(); /* lets it run to its end */
}

static void scenario(void)
{
	static char low[64 << 10];
	char high[64 << 10];

	run_generator(low, sizeof(low));
	run_generator(high, sizeof(high));
}

int main(int argc, char **argv)
{
	uint64_t runs;

	migrate = argc > 1 && !strcmp(argv[1], "migrate");
	runs = known_main(scenario);
	known_expect("consume", "calls", runs * VALUES);
	known_expect("next_value", "calls", runs * (VALUES + 2));
	known_expect("yield_value", "calls", runs * VALUES);
	known_expect("produce", "calls", runs * VALUES / 2);
	known_expect("yield_value", "unwound", 0);
	known_expect("produce", "unwound", 0);
	return 0;
}
