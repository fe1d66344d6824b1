/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Coroutines by swapcontext, which yield inside traced functions: frames of several stacks end in
 * another order than they began, stack pointers jump in both directions, and no frame is stale.
 */
#include <ucontext.h>

#include "known.h"

#define COROUTINES 4
#define TURNS	   100

static ucontext_t scheduler;
static struct coroutine {
	ucontext_t context;
	char stack[64 << 10] __attribute__((aligned(16)));
	int turns;
} coroutines[COROUTINES];
static struct coroutine *current;

TRACED int yield_inside(int x)
{
	struct coroutine *self = current;

	swapcontext(&self->context, &scheduler);
	KEEP(x);
	return x + 1;
}

TRACED int step(int x)
{
	return yield_inside(x) + yield_inside(x + 1);
}

TRACED int between(int x)
{
	KEEP(x);
	return x;
}

static void coroutine_main(void)
{
	for (int i = 0; i < TURNS; i++) {
		known_require(step(i) == 2 * i + 3, "step");
		current->turns++;
	}
}

/* Resumes them in turn, itself inside a traced function. */
TRACED int resume(struct coroutine *next)
{
	current = next;
	swapcontext(&scheduler, &next->context);
	between(1);
	return next->turns;
}

static void scenario(void)
{
	for (int c = 0; c < COROUTINES; c++) {
		struct coroutine *new = &coroutines[c];

		new->turns = 0;
		getcontext(&new->context);
		new->context.uc_stack.ss_sp = new->stack;
		new->context.uc_stack.ss_size = sizeof(new->stack);
		new->context.uc_link = &scheduler;
		makecontext(&new->context, coroutine_main, 0);
	}
	/* Two yields a turn, and the first resume starts it. */
	for (int turn = 0; turn < 2 * TURNS + 1; turn++)
		for (int c = 0; c < COROUTINES; c++)
			resume(&coroutines[turn % 2 ? c : COROUTINES - 1 - c]);
	for (int c = 0; c < COROUTINES; c++)
		known_require(coroutines[c].turns == TURNS, "every coroutine came to its end");
}

int main(void)
{
	uint64_t runs = known_main(scenario);

	known_expect("step", "calls", runs * COROUTINES * TURNS);
	known_expect("yield_inside", "calls", runs * COROUTINES * TURNS * 2);
	known_expect("resume", "calls", runs * COROUTINES * (2 * TURNS + 1));
	known_expect("between", "calls", runs * COROUTINES * (2 * TURNS + 1));
	for (const char *const *name =
		     (const char *const[]){"step", "yield_inside", "resume", NULL};
	     *name; name++)
		known_expect(*name, "unwound", 0);
	return 0;
}
