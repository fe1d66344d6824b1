// SPDX-License-Identifier: BSD-2-Clause
/* Rules for counting once: calls inside calls, kernels on pool threads, calls that never return,
 * hints. */
#include "cost.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/stat.h>

#define FLOPS_OF(n)	PROGRAM(I(CONST, 0, n), I(FLOPS, 0, 0))
#define FAILS		PROGRAM(I(CONST, 0, 1), I(CONST, 0, 2), I(SAME, 0, 0))
#define TYPED(n, dtype) PROGRAM(I(CONST, 0, n), I(FLOPS, 0, 0), I(DTYPE, dtype, 0))
#define MOVES_OF(n)	PROGRAM(I(CONST, 0, n), I(BYTES, 0, 0))

#define COUNTED_AS(function, n) expect_span(function, PERFX_COST_COUNTED, 0, n, 0)
#define SILENT(function, state) expect_span(function, PERFX_COST_##state, 0, 0, 0)

static void (*then)(void);

static void call_kernel(void)
{
	call_plainly(KERNEL);
}

static void call_kernel_inside(void)
{
	call_plainly(KERNEL_INSIDE);
}

static void call_operator_inside(void)
{
	call(OPERATOR_INSIDE, &(struct arguments){.inside = then});
}

static void call_transfer_inside(void)
{
	call_plainly(TRANSFER_INSIDE);
}

static void call_counted(void)
{
	call_plainly(COUNTED);
}

static void usual_costs(void)
{
	set_cost(OPERATOR, FLOPS_OF(100), NULL, 0);
	set_cost(OPERATOR_INSIDE, FLOPS_OF(50), NULL, 0);
	set_cost(KERNEL, FLOPS_OF(10), NULL, PERFX_COST_F_KERNEL);
	set_cost(KERNEL_INSIDE, FLOPS_OF(5), NULL, PERFX_COST_F_KERNEL);
	set_cost(TRANSFER, MOVES_OF(7), NULL, PERFX_COST_F_MOVES);
	set_cost(TRANSFER_INSIDE, MOVES_OF(3), NULL, PERFX_COST_F_MOVES);
	set_cost(COUNTED, FLOPS_OF(1), NULL, 0);
	then = NULL;
}

static void nested(void)
{
	usual_costs();
	then = call_kernel;
	call(OPERATOR, &(struct arguments){.inside = call_operator_inside});
	SILENT(KERNEL, INSIDE);
	SILENT(OPERATOR_INSIDE, INSIDE);
	COUNTED_AS(OPERATOR, 100);
	then = NULL;
	/* then everything is as before */
	call(KERNEL, &(struct arguments){.inside = call_kernel_inside});
	SILENT(KERNEL_INSIDE, INSIDE);
	COUNTED_AS(KERNEL, 10);
	call_plainly(KERNEL_INSIDE);
	COUNTED_AS(KERNEL_INSIDE, 5);
	call(OPERATOR, &(struct arguments){.inside = call_counted});
	SILENT(COUNTED, INSIDE);
	COUNTED_AS(OPERATOR, 100);
	/* a function without a known cost in between */
	call(PLAIN, &(struct arguments){.inside = call_kernel});
	COUNTED_AS(KERNEL, 10);
	expect_plain(PLAIN);
}

/* autocast: the operator calls itself with other types. */
static void inner_type(void)
{
	set_cost(OPERATOR, TYPED(100, PERFX_DTYPE_F32), NULL, 0);
	set_cost(OPERATOR_INSIDE, TYPED(50, PERFX_DTYPE_BF16), NULL, 0);
	call(OPERATOR, &(struct arguments){.inside = call_operator_inside});
	expect_span(OPERATOR_INSIDE, PERFX_COST_INSIDE, PERFX_DTYPE_BF16, 0, 0);
	expect_span(OPERATOR, PERFX_COST_COUNTED, PERFX_DTYPE_BF16, 100, 0);
	call_plainly(OPERATOR);
	expect_span(OPERATOR, PERFX_COST_COUNTED, PERFX_DTYPE_F32, 100, 0);
	usual_costs();
}

/* An unreadable call covers nothing: its nested calls count. */
static void unread_outside(void)
{
	set_cost(OPERATOR, FAILS, NULL, 0);
	call(OPERATOR, &(struct arguments){.inside = call_kernel});
	COUNTED_AS(KERNEL, 10);
	SILENT(OPERATOR, UNREAD);
	usual_costs();
}

/* Nor does a call that computes nothing: a nested tensor has no readable sizes. */
static void nothing_outside(void)
{
	set_cost(OPERATOR, FLOPS_OF(0), NULL, 0);
	call(OPERATOR, &(struct arguments){.inside = call_kernel});
	COUNTED_AS(KERNEL, 10);
	COUNTED_AS(OPERATOR, 0);
	usual_costs();
}

static void transfers(void)
{
	then = call_transfer_inside;
	call(OPERATOR, &(struct arguments){.inside = call_transfer_inside});
	expect_span(TRANSFER_INSIDE, PERFX_COST_COUNTED, 0, 0, 3);
	COUNTED_AS(OPERATOR, 100);
	call(TRANSFER, &(struct arguments){.inside = call_operator_inside});
	SILENT(TRANSFER_INSIDE, INSIDE);
	COUNTED_AS(OPERATOR_INSIDE, 50);
	expect_span(TRANSFER, PERFX_COST_COUNTED, 0, 0, 7);
	then = NULL;
}

static void *kernel_thread(void *arg)
{
	(void)arg;
	call(KERNEL, &(struct arguments){.inside = then});
	return NULL;
}

static void *operator_thread(void *arg)
{
	(void)arg;
	call_plainly(OPERATOR_INSIDE);
	return NULL;
}

static size_t threads_count(void)
{
	struct stat tasks;

	REQUIRE(!stat("/proc/self/task", &tasks));
	return tasks.st_nlink - 2;
}

/* Until the thread is gone: in older kernels it can be joined before its exit is reported. */
static void run_thread(void *(*main_of)(void *))
{
	size_t count = threads_count();
	pthread_t thread;

	REQUIRE(!pthread_create(&thread, NULL, main_of, NULL));
	REQUIRE(!pthread_join(thread, NULL));
	while (threads_count() > count)
		sched_yield();
}

static void on_other_threads(void)
{
	REQUIRE(open_operators() == 1);
	run_thread(kernel_thread);
	run_thread(operator_thread);
}

static void pool(void)
{
	call(OPERATOR, &(struct arguments){.inside = on_other_threads});
	SILENT(KERNEL, ELSEWHERE);
	COUNTED_AS(OPERATOR_INSIDE, 50);
	COUNTED_AS(OPERATOR, 100);
	REQUIRE(!open_operators());
	run_thread(kernel_thread);
	COUNTED_AS(KERNEL, 10);
	/* and calls of the kernel */
	then = call_kernel_inside;
	call(OPERATOR, &(struct arguments){.inside = on_other_threads});
	SILENT(KERNEL_INSIDE, ELSEWHERE);
	SILENT(KERNEL, ELSEWHERE);
	COUNTED_AS(OPERATOR_INSIDE, 50);
	COUNTED_AS(OPERATOR, 100);
	run_thread(kernel_thread);
	SILENT(KERNEL_INSIDE, INSIDE);
	COUNTED_AS(KERNEL, 10);
	then = NULL;
}

static jmp_buf out;

static void jump_out(void)
{
	longjmp(out, 1);
}

static void *gone_thread(void *arg)
{
	(void)arg;
	call(OPERATOR, &(struct arguments){.inside = (void (*)(void))pthread_exit});
	return NULL;
}

/* Calls that never return release the calls nested in them. */
static void unwound(void)
{
	then = jump_out;
	if (!setjmp(out))
		call(OPERATOR, &(struct arguments){.inside = call_operator_inside});
	REQUIRE(open_operators() == 1); /* not detected yet */
	call_plainly(KERNEL);
	expect_unwound(OPERATOR_INSIDE);
	expect_unwound(OPERATOR);
	COUNTED_AS(KERNEL, 10);
	REQUIRE(!open_operators());
	/* nor do they run their exit part */
	set_cost(OPERATOR, FLOPS_OF(1), FLOPS_OF(1), 0);
	if (!setjmp(out))
		call(OPERATOR, &(struct arguments){.inside = jump_out});
	call_plainly(KERNEL);
	expect_unwound(OPERATOR);
	COUNTED_AS(KERNEL, 10);
	call_plainly(OPERATOR);
	COUNTED_AS(OPERATOR, 2);
	usual_costs();
	run_thread(gone_thread);
	expect_unwound(OPERATOR);
	REQUIRE(!open_operators());
}

/* Far more than the call costs that a thread can keep. */
static void again_and_again(void)
{
	for (volatile int i = 0; i < 40; i++) {
		if (!setjmp(out))
			call(OPERATOR, &(struct arguments){.inside = jump_out});
		call_plainly(OPERATOR_INSIDE);
		expect_unwound(OPERATOR);
		COUNTED_AS(OPERATOR_INSIDE, 50);
	}
	REQUIRE(!open_operators());
}

static void give_hints(void)
{
	call(HINT, &(struct arguments){.registers = {1000}});
	call(HINT, &(struct arguments){.registers = {234}});
}

static int depth;

/* Nested calls without a known cost, each with its own hint. */
static void hint_deeper(void)
{
	call(HINT, &(struct arguments){.registers = {1}});
	if (++depth < 12)
		call(PLAIN, &(struct arguments){.inside = hint_deeper});
}

static void hints(void)
{
	struct perfx_span span;
	uint64_t flops = 0;

	set_cost(HINT, PROGRAM(I(ARG, 1, 0), I(FLOPS, 0, 0)), NULL, 0);
	call(PLAIN, &(struct arguments){.inside = give_hints});
	COUNTED_AS(PLAIN, 1234);
	call(OPERATOR, &(struct arguments){.inside = give_hints});
	COUNTED_AS(OPERATOR, 1334);
	/* its own cost belongs to another call, the hint does not */
	then = give_hints;
	call(OPERATOR, &(struct arguments){.inside = call_operator_inside});
	COUNTED_AS(OPERATOR_INSIDE, 1234);
	COUNTED_AS(OPERATOR, 100);
	then = NULL;
	/* outside all calls */
	call(HINT, &(struct arguments){.registers = {77}});
	span = next_span();
	REQUIRE(span.function == HINT && span.flags == PERFX_SPAN_UNTIMED);
	REQUIRE(span.cost_state == PERFX_COST_COUNTED && span.flops == 77);
	if (call_leaf(55))
		COUNTED_AS(LEAF, 55);
	/* it owns no nested calls */
	call(PLAIN, &(struct arguments){.inside = call_kernel});
	COUNTED_AS(KERNEL, 10);
	expect_plain(PLAIN);
	/* without room it is a separate record */
	depth = 0;
	call(PLAIN, &(struct arguments){.inside = hint_deeper});
	for (int i = 0; i < 12 + 4; i++)
		flops += next_span().flops;
	REQUIRE(flops == 12);
}

/* The budget removed a function's exit probes during a call, so its missing end means nothing. The
 * cost from its arguments holds; a cost from its result is unknown. */
static void give_up_exits(void)
{
	count_only(OPERATOR);
	longjmp(out, 1);
}

static void expect_ended_unseen(enum perfx_cost_state state, uint64_t flops)
{
	struct perfx_span span;

	if (!setjmp(out))
		call(OPERATOR, &(struct arguments){.inside = give_up_exits});
	call_plainly(PLAIN);
	span = next_span();
	REQUIRE(span.function == OPERATOR && span.flags == PERFX_SPAN_UNTIMED);
	REQUIRE(span.cost_state == state && span.flops == flops);
	expect_plain(PLAIN);
	REQUIRE(!open_operators());
	time_again(OPERATOR);
}

static void exits_given_up(void)
{
	expect_ended_unseen(PERFX_COST_COUNTED, 100);
	set_cost(OPERATOR, FLOPS_OF(1), FLOPS_OF(1), 0);
	expect_ended_unseen(PERFX_COST_UNREAD, 0);
	usual_costs();
}

void guard_cases(void)
{
	begin("nested");
	nested();
	begin("inner type");
	inner_type();
	begin("unread outside");
	unread_outside();
	nothing_outside();
	begin("transfers");
	transfers();
	begin("pool");
	pool();
	begin("unwound");
	unwound();
	begin("again and again");
	again_and_again();
	begin("exits given up");
	exits_given_up();
	begin("hints");
	hints();
}
