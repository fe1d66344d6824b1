// SPDX-License-Identifier: BSD-2-Clause
/* The cost VM's operations, one by one, and their failures. */
#include "cost.h"

static struct arguments given = {.registers = {11, 22, 33, 44, 55, 66}, .stack = {77, 88}};

/* A program and its FLOPs; ~0: it must fail. */
static void expect_flops(const struct perfx_instruction *program, uint64_t flops)
{
	set_cost(OPERATOR, program, NULL, 0);
	call(OPERATOR, &given);
	if (flops == ~0ull)
		expect_span(OPERATOR, PERFX_COST_UNREAD, 0, 0, 0);
	else
		expect_span(OPERATOR, PERFX_COST_COUNTED, 0, flops, 0);
}

#define BINARY(a, b, op) PROGRAM(I(CONST, 0, a), I(CONST, 0, b), I(op, 0, 0), FLOPS)
/* 2^(8 n) */
#define HUGE_OF(n) I(CONST, 0, -1), I(LOW, n, 0), I(CONST, 0, 1), I(ADD, 0, 0)

static void arithmetic(void)
{
	begin("arithmetic");
	expect_flops(BINARY(7, 5, ADD), 12);
	expect_flops(BINARY(7, 5, SUB), 2);
	expect_flops(BINARY(7, 7, SUB), 0);
	expect_flops(BINARY(7, 5, MUL), 35);
	expect_flops(BINARY(0, 5, MUL), 0);
	expect_flops(BINARY(35, 5, DIV), 7);
	expect_flops(BINARY(5, 5, EQ), 1);
	expect_flops(BINARY(5, 6, EQ), 0);
	expect_flops(BINARY(5, 5, SAME), 5);
	expect_flops(
		PROGRAM(I(CONST, 0, 1), I(CONST, 0, 5), I(CONST, 0, 6), I(SELECT, 0, 0), FLOPS), 5);
	expect_flops(
		PROGRAM(I(CONST, 0, 0), I(CONST, 0, 5), I(CONST, 0, 6), I(SELECT, 0, 0), FLOPS), 6);
	expect_flops(PROGRAM(I(CONST, 0, -1), I(LOW, 2, 0), FLOPS), 0xffff);
	expect_flops(PROGRAM(I(CONST, 0, 7), I(DIM, 4, 0), FLOPS), 7);
	expect_flops(PROGRAM(HUGE_OF(5), I(DIM, 8, 0), FLOPS), 1ull << 40);
	expect_flops(PROGRAM(HUGE_OF(4), HUGE_OF(3), I(MUL, 0, 0), FLOPS), 1ull << 56);
	/* junk above an int's 32 bits */
	expect_flops(PROGRAM(HUGE_OF(4), I(CONST, 0, 3), I(ADD, 0, 0), I(DIM, 4, 0), FLOPS), 3);
	expect_flops(PROGRAM(I(CONST, 0, 3), FLOPS, I(CONST, 0, 4), FLOPS), 7);
}

static void failures(void)
{
	begin("failures");
	expect_flops(BINARY(5, 7, SUB), ~0ull);
	expect_flops(BINARY(5, 6, SAME), ~0ull);
	expect_flops(BINARY(36, 5, DIV), ~0ull);
	expect_flops(BINARY(36, 0, DIV), ~0ull);
	expect_flops(BINARY(-1, 1, ADD), ~0ull);
	expect_flops(PROGRAM(HUGE_OF(4), HUGE_OF(4), I(MUL, 0, 0), FLOPS), ~0ull);
	expect_flops(PROGRAM(I(CONST, 0, -1), I(DIM, 4, 0), FLOPS), ~0ull);
	expect_flops(PROGRAM(I(CONST, 0, -1), I(DIM, 8, 0), FLOPS), ~0ull);
	expect_flops(PROGRAM(HUGE_OF(5), I(CONST, 0, 1), I(ADD, 0, 0), I(DIM, 8, 0), FLOPS), ~0ull);
	expect_flops(PROGRAM(I(CONST, 0, -1), FLOPS, I(CONST, 0, 1), FLOPS), ~0ull);
	expect_flops(PROGRAM(I(CONST, 0, 1), FLOPS, (struct perfx_instruction){.op = PERFX_OPS}),
		     ~0ull);
	REQUIRE(!tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS));
}

static void arguments(void)
{
	static const uint64_t word = 0x8877665544332211;

	begin("arguments");
	for (int i = 1; i <= 6; i++)
		expect_flops(PROGRAM(I(ARG, i, 0), FLOPS), 11 * (uint64_t)i);
	expect_flops(PROGRAM(I(STACK, 1, 0), FLOPS), 77);
	expect_flops(PROGRAM(I(STACK, 2, 0), FLOPS), 88);
	given.registers[0] = (uint64_t)(uintptr_t)&word;
	expect_flops(PROGRAM(I(ARG, 1, 0), I(LOAD, 8, 0), FLOPS), word);
	expect_flops(PROGRAM(I(ARG, 1, 0), I(LOAD, 4, 4), FLOPS), 0x88776655);
	expect_flops(PROGRAM(I(ARG, 1, 0), I(LOAD, 4 | PERFX_OP_SIGNED, 4), FLOPS),
		     0xffffffff88776655);
	expect_flops(PROGRAM(I(ARG, 1, 0), I(LOAD, 2, 1), FLOPS), 0x3322);
	given.registers[0] += 8;
	expect_flops(PROGRAM(I(ARG, 1, 0), I(LOAD, 1, -3), FLOPS), 0x66);
	given.registers[0] = 8;
	REQUIRE(!tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS));
	expect_flops(PROGRAM(I(ARG, 1, 0), I(LOAD, 8, 0), FLOPS), ~0ull);
	REQUIRE(tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS) == 1);
}

static void exits(void)
{
	const struct perfx_instruction *keep = PROGRAM(I(ARG, 2, 0), I(KEEP, 2, 0));

	begin("exits");
	given.result = 1000;
	set_cost(OPERATOR, keep,
		 PROGRAM(I(KEPT, 2, 0), I(ARG, 7, 0), I(MUL, 0, 0), FLOPS, I(CONST, 0, 5),
			 I(BYTES, 0, 0), I(DTYPE, PERFX_DTYPE_F32, 0)),
		 0);
	call(OPERATOR, &given);
	expect_span(OPERATOR, PERFX_COST_COUNTED, PERFX_DTYPE_F32, 22000, 5);
	/* arguments are gone at the exit */
	set_cost(OPERATOR, keep, PROGRAM(I(ARG, 1, 0), FLOPS), 0);
	call(OPERATOR, &given);
	expect_span(OPERATOR, PERFX_COST_UNREAD, 0, 0, 0);
	/* its end is not seen */
	set_cost(COUNTED, keep, PROGRAM(I(KEPT, 2, 0), FLOPS), 0);
	call(COUNTED, &given);
	expect_span(COUNTED, PERFX_COST_UNREAD, 0, 0, 0);
	set_cost(COUNTED, PROGRAM(I(ARG, 2, 0), FLOPS), NULL, 0);
	call(COUNTED, &given);
	expect_span(COUNTED, PERFX_COST_COUNTED, 0, 22, 0);
	REQUIRE(!open_operators());
}

static void dtypes(void)
{
	begin("dtypes");
	set_cost(OPERATOR, PROGRAM(I(ARG, 2, 0), I(DTYPE, 0, 0)), NULL, 0);
	given.registers[1] = 14; /* CUDA_R_16BF */
	call(OPERATOR, &given);
	expect_span(OPERATOR, PERFX_COST_COUNTED, PERFX_DTYPE_BF16, 0, 0);
	given.registers[1] = 64;
	call(OPERATOR, &given);
	expect_span(OPERATOR, PERFX_COST_COUNTED, PERFX_DTYPE_UNKNOWN, 0, 0);
	given.registers[1] = 22;
}

static void expect_groups(size_t bytes, uint64_t count, uint64_t flops)
{
	given.registers[4] = count;
	expect_flops(PROGRAM(I(ARG, 1, 0), I(ARG, 2, 0), I(ARG, 3, 0), I(ARG, 4, 0), I(ARG, 5, 0),
			     I(GROUPS, bytes, 0), FLOPS),
		     flops);
}

static void groups(void)
{
	int32_t m[] = {1, 2, 3}, n[] = {4, 5, 6}, k[] = {7, 8, -9}, sizes[] = {10, 11, 12};
	int64_t wide[PERFX_COST_GROUPS + 1];
	const struct arguments before = given;
	uint64_t faults = tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS);

	begin("groups");
	given.registers[0] = (uintptr_t)m;
	given.registers[1] = (uintptr_t)n;
	given.registers[2] = (uintptr_t)k;
	given.registers[3] = (uintptr_t)sizes;
	expect_groups(4, 2, 280 + 880);
	expect_groups(4, 0, 0);
	expect_groups(4, 3, ~0ull);
	for (size_t i = 0; i <= PERFX_COST_GROUPS; i++)
		wide[i] = 2;
	for (int i = 0; i < 4; i++)
		given.registers[i] = (uintptr_t)wide;
	expect_groups(8, PERFX_COST_GROUPS, 16 * PERFX_COST_GROUPS);
	expect_groups(8, PERFX_COST_GROUPS + 1, ~0ull);
	wide[1] = 1ll << 17;
	expect_groups(8, 2, ~0ull); /* 2^68 */
	wide[1] = (1ll << 40) + 1;
	expect_groups(8, 2, ~0ull);
	REQUIRE(tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS) == faults);
	given.registers[2] = 8;
	expect_groups(8, 1, ~0ull);
	REQUIRE(tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS) == faults + 1);
	given = before;
}

static void notes(void)
{
	uint64_t handle = 0;
	const struct arguments creates = {.registers = {(uintptr_t)&handle, 30, 40}};
	const struct arguments uses = {.registers = {0x1234}}, other = {.registers = {0x4321}};

	begin("notes");
	/* the handle is returned through a pointer, so it is known at the exit */
	set_cost(NOTER,
		 PROGRAM(I(ARG, 1, 0), I(KEEP, 0, 0), I(ARG, 2, 0), I(KEEP, 1, 0), I(ARG, 3, 0),
			 I(KEEP, 2, 0)),
		 PROGRAM(I(KEPT, 0, 0), I(LOAD, 8, 0), I(KEPT, 1, 0), I(KEPT, 2, 0), I(NOTE, 0, 0)),
		 PERFX_COST_F_NOTES);
	set_cost(OPERATOR,
		 PROGRAM(I(ARG, 1, 0), I(NOTED0, 0, 0), FLOPS, I(ARG, 1, 0), I(NOTED1, 0, 0),
			 I(BYTES, 0, 0)),
		 NULL, 0);
	call(OPERATOR, &uses);
	expect_span(OPERATOR, PERFX_COST_UNREAD, 0, 0, 0);
	handle = 0x1234;
	call(NOTER, &creates);
	expect_plain(NOTER);
	call(OPERATOR, &uses);
	expect_span(OPERATOR, PERFX_COST_COUNTED, 0, 30, 40);
	call(OPERATOR, &other);
	expect_span(OPERATOR, PERFX_COST_UNREAD, 0, 0, 0);
	REQUIRE(!open_operators());
}

static void expect_moved(const struct arguments *arguments, uint64_t bytes, uint64_t bus_bytes)
{
	struct perfx_span span;

	call(TRANSFER, arguments);
	span = next_span();
	REQUIRE(span.flags == PERFX_SPAN_MOVES && span.cost_state == PERFX_COST_COUNTED);
	REQUIRE(span.bytes == bytes && span.flops == bus_bytes);
}

#define MOVED(kind, ...) \
	PROGRAM(I(ARG, 3, 0), I(BYTES, 0, 0), __VA_ARGS__ I(BUS, PERFX_BUS_##kind, 0))

static void buses(void)
{
	const struct arguments creates = {.registers = {0x77, 6}};
	const struct arguments uses = {.registers = {0x77, 0, 601}},
			       other = {.registers = {0x78, 0, 601}};
	const struct arguments huge = {.registers = {0x77, 0, 1ull << 63}};

	begin("buses");
	set_cost(NOTER, PROGRAM(I(ARG, 1, 0), I(ARG, 2, 0), I(CONST, 0, 0), I(NOTE, 0, 0)), NULL,
		 PERFX_COST_F_NOTES);
	call(NOTER, &creates);
	expect_plain(NOTER);
	set_cost(TRANSFER, MOVED(ONCE, ), NULL, PERFX_COST_F_MOVES);
	expect_moved(&other, 601, 601);
	set_cost(TRANSFER, MOVED(OTHERS, I(ARG, 1, 0), ), NULL, PERFX_COST_F_MOVES);
	expect_moved(&uses, 601, 601 * 5);
	expect_moved(&other, 601, 0);
	expect_moved(&huge, 1ull << 63, 0);
	set_cost(TRANSFER, MOVED(RING, I(ARG, 1, 0), ), NULL, PERFX_COST_F_MOVES);
	expect_moved(&uses, 601, 601 * 10 / 6);
	expect_moved(&other, 601, 0);
	/* if its end is not seen */
	set_cost(COUNTED, MOVED(RING, I(ARG, 1, 0), ), NULL, PERFX_COST_F_MOVES);
	call(COUNTED, &uses);
	REQUIRE(next_span().flags == (PERFX_SPAN_MOVES | PERFX_SPAN_UNTIMED));
}

void vm_cases(void)
{
	arithmetic();
	failures();
	arguments();
	exits();
	dtypes();
	groups();
	notes();
	buses();
}
