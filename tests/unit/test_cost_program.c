// SPDX-License-Identifier: BSD-2-Clause
#include "cost_fixture.h"

static struct outcome result_of(const char *text, const struct call *call)
{
	struct perfx_cost_program cost;
	char why[256] = "";

	cr_assert_eq(cost_compile(text, &cost, why, sizeof(why)), 0, "%s: %s", text, why);
	return run_cost_program(&cost, call);
}

Test(cost_program, expressions)
{
	uint32_t words[4] = {7, 0xfffffffe, 3, 0x01020304};
	uint64_t wide = 1ull << 33;
	struct call call = {.args = {0, 10, 0xabcd00000005, address(words), 1ull << 32 | 20,
				     address(&wide)},
			    .stack = {0, 100, 0x107}};
	static const struct {
		const char *text;
		uint64_t flops;
	} rows[] = {
		{"flops = 2 + 3 * 4", 14},
		{"flops = (2 + 3) * 4", 20},
		{"flops = 20 / 2 / 5", 2},
		{"flops = 10 - 3 - 2", 5},
		{"flops = 0x10", 16},
		{"flops = arg1", 10},
		{"flops = arg1 * 1", 10},
		{"flops = i32(arg2)", 5},
		{"flops = u16(arg2)", 5},
		{"flops = i32(arg4)", 20},
		{"flops = stack1 + u8(stack2)", 107},
		{"flops = *i32(arg3)", 7},
		{"flops = *int(arg3 + 8)", 3},
		{"flops = 2**i32(arg3)", 14},
		{"flops = load32(arg3 + 4) - 0x7fffffff", 0x7fffffff},
		{"flops = load8(arg3 + 12) + load16(arg3 + 14)", 4 + 0x102},
		{"flops = load32(arg3 + 16 - 8)", 3},
		{"flops = select(eq(arg1, 10), 1, 2)", 1},
		{"flops = select(eq(arg1, 11), 1, 2)", 2},
		{"flops = same(arg1, 10)", 10},
		{"flops = 1; flops = 2", 3},
		{"let x = arg1; let y = x * x; flops = y + x", 110},
		{"let x = arg1; exit; flops = x * result", 10},
		{"slot; exit; flops = result", 10},
		{"slot; let x = u16(arg1); exit; flops = x * result", 50},
		{"slot; flops = u16(arg1)", 5},
		{"int = 64; flops = *int(arg5)", 1ull << 33},
		{"flops = 1; same(arg1, 10)", 1},
		{" ; flops=1;; ", 1},
	};

	call.result = 1;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct outcome outcome = result_of(rows[i].text, &call);

		cr_expect(outcome.ok, "%s", rows[i].text);
		cr_expect_eq(outcome.flops, rows[i].flops, "%s: %lu", rows[i].text,
			     (unsigned long)outcome.flops);
	}
}

Test(cost_program, calls_without_a_cost)
{
	uint32_t words[2] = {7, 0xfffffffe};
	struct call call = {.args = {0, 10, 3, address(words)}};
	static const char *const texts[] = {
		"flops = arg2 - arg1",		 "flops = arg1 / arg2",
		"flops = arg1 / (arg2 - 3)",	 "flops = same(arg1, arg2)",
		"flops = 1; same(arg1, arg2)",	 "flops = *i32(arg3 + 4)",
		"flops = i32(load32(arg3 + 4))", "flops = load64(0)",
		"flops = arg3 * arg3 * arg3",	 "flops = noted0(arg1)",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		cr_expect_not(result_of(texts[i], &call).ok, "%s", texts[i]);
}

Test(cost_program, moved)
{
	struct call call = {.args = {0, 600, 0x7000, 4}};

	cr_expect_eq(result_of("moves; bytes=arg1; bus(once)", &call).flops, 600);
	cr_expect_eq(result_of("moves; bytes=arg1; bus(ring, arg2)", &call).flops, 0);
	result_of("note(arg2, arg3, 0)", &call);
	cr_expect_eq(result_of("moves; bytes=arg1; bus(ring, arg2)", &call).flops, 900);
	cr_expect_eq(result_of("moves; bytes=arg1; bus(others, arg2)", &call).flops, 1800);
}

Test(cost_program, tensors)
{
	struct tensor none = {0};
	struct call call = {.args = {0, TENSOR(F32, 2, 3, 5), TENSOR(C64, 4), address(&none)}};

	cr_expect_eq(result_of("flops=numel(arg1)", &call).flops, 30);
	cr_expect_eq(result_of("flops=size(arg1,0)+10*size(arg1,-1)", &call).flops, 52);
	cr_expect_eq(result_of("flops=ndim(arg1)*elem(arg1)", &call).flops, 12);
	cr_expect_eq(result_of("flops=complex(arg1)+10*complex(arg2)", &call).flops, 41);
	cr_expect_eq(result_of("flops=1+numel(maybe(arg3))", &call).flops, 1);
	cr_expect_eq(result_of("let t=arg2; flops=numel(t)", &call).dtype, PERFX_DTYPE_C64);
	cr_expect_eq(result_of("dtype=f16; flops=numel(arg2)", &call).dtype, PERFX_DTYPE_F16);
	cr_expect_not(result_of("flops=numel(arg3)", &call).ok);
	cr_expect_not(result_of("flops=size(arg1,3)", &call).ok);
	cr_expect_not(result_of("flops=size(arg1,-4)", &call).ok);
}

Test(cost_program, a_tensor_is_read_once)
{
	struct perfx_cost_program cost;
	char why[256];
	size_t reads = 0;

	cr_assert_eq(cost_compile("let a=arg1; flops=numel(a)*size(arg1,0)+numel(arg2); "
				  "bytes=elem(arg1)",
				  &cost, why, sizeof(why)),
		     0);
	for (size_t i = 0; i < cost.count; i++)
		reads += cost.code[i].op == PERFX_OP_TENSOR;
	cr_expect_eq(reads, 2);
}

/* What is read often is read once, where a place is free. */
Test(cost_program, names_are_worked_out_once)
{
	struct perfx_cost_program cost;
	char why[256];
	size_t loads = 0;

	cr_assert_eq(cost_compile("let m=*i32(arg1); let n=*i32(arg2); let k=*i32(arg3); "
				  "flops=2*m*n*k; bytes=4*(m*n+n*k+k*m)",
				  &cost, why, sizeof(why)),
		     0);
	for (size_t i = 0; i < cost.count; i++)
		loads += cost.code[i].op == PERFX_OP_LOAD;
	cr_expect_eq(loads, 3);
	cr_expect_not(cost_has_exit(&cost));
	cr_expect_eq(cost_argument_regs(&cost), 7);
}

Test(cost_program, kinds)
{
	static const struct {
		const char *text;
		uint32_t flags;
	} rows[] = {
		{"flops=1", 0},
		{"kernel; flops=1", PERFX_COST_F_KERNEL},
		{"moves; bytes=arg1", PERFX_COST_F_MOVES},
		{"leaf; flops=1", PERFX_COST_F_LEAF},
		{"note(arg1,arg2,arg3)", PERFX_COST_F_NOTES},
		{"kernel_alias(arg1,arg2)", PERFX_COST_F_NOTES},
		{"copy(types(arg1,arg2),arg3)", PERFX_COST_F_DEVICE | PERFX_COST_F_NOTES},
		{"wait", PERFX_COST_F_DEVICE | PERFX_COST_F_NOTES},
	};
	struct perfx_cost_program cost;
	char why[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cr_assert_eq(cost_compile(rows[i].text, &cost, why, sizeof(why)), 0);
		cr_expect_eq(cost.flags, rows[i].flags, "%s", rows[i].text);
	}
}

Test(cost_program, mistakes)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{"", "no effect: flops = … is missing, at the end"},
		{"flops", "'=' is missing, at the end"},
		{"flops = ", "a value is missing, at the end"},
		{"flops = 1 bytes = 2", "';' is missing, before 'bytes = 2'"},
		{"flops = foo", "unknown word 'foo', at the end"},
		{"flops = foo(1)", "unknown function 'foo', before '(1)'"},
		{"flops = (1", "')' is missing, at the end"},
		{"flops = eq(1)", "',' is missing, before ')'"},
		{"flops = 2147483648", "a number above 2147483647, before '2147483648'"},
		{"flops = arg7", "arg7 is not in a register: use stack1, at the end"},
		{"slot; flops = arg6", "arg6 is not in a register: use stack1, at the end"},
		{"flops = arg1; slot", "'slot' must come before the first argument, at the end"},
		{"exit; flops = arg1",
		 "arg1 is gone at the exit: let x = arg1 before 'exit', at the end"},
		{"exit; flops = stack2",
		 "stack2 is gone at the exit: let x = stack2 before 'exit', at the end"},
		{"flops = result", "the result is known only after 'exit', at the end"},
		{"exit; exit", "a second 'exit', at the end"},
		{"dtype = float; flops = 1", "'float' is not a number type: f64 f32 tf32 f16 bf16 "
					     "f8 c128 c64 integer cuda(…), before ';'"},
		{"flop = 1",
		 "'flop' is not a statement: flops bytes dtype let same note bus int "
		 "slot kernel leaf worker shared submits moves exit launch launch_by_stub graph "
		 "copy wait kernel_name kernel_alias, before ' = 1'"},
		{"launch(arg1, arg2)", "',' is missing, before ')'"},
		{"copy(sideways, arg1)",
		 "'sideways' is not a direction, memset, kind() or types(), before ', arg1)'"},
		{"copy(kind(arg1))", "',' is missing, before ')'"},
		{"copy(types(arg1), arg2)", "',' is missing, before '), arg2)'"},
		{"int = 16; flops = 1", "int = 32, or int = 64, before ';'"},
		{"bytes = 1", "bytes without flops: add 'moves', at the end"},
		{"moves; flops = 1", "'moves' excludes flops, at the end"},
		{"flops = 1; bus(once)", "'bus' needs 'moves' and bytes = …, at the end"},
		{"moves; bus(once)", "'bus' needs 'moves' and bytes = …, at the end"},
		{"moves; bytes = 1; bus(tree, arg1)",
		 "'tree': bus(once), bus(others, key) or bus(ring, key), before ', arg1)'"},
		{"let 3 = 1; flops = 1", "let NAME = …: the name is missing, before ' = 1'"},
		{"flops = *arg1", "unary '*' takes int(address), i32() or i64(), at the end"},
		{"flops = numel(arg1) + numel(arg2) + numel(arg3) + numel(arg4)",
		 "reads more than 3 tensors before or after 'exit'"},
		{"flops = numel(arg1 + numel(arg2))",
		 "a tensor's address depends on another tensor"},
		{"flops = size(arg1, 8)", "a tensor has at most 8 dimensions, before ')'"},
		{"flops = maybe(arg1)", "maybe() takes a tensor: numel(maybe(t)), before '(arg1)'"},
		{"let a=arg1; let b=arg2; let c=arg3; let d=arg4; let e=arg5; exit; "
		 "flops=a+b+c+d+e",
		 "more than 4 names are needed after 'exit', at the end"},
		{"flops = arg1+(arg1+(arg1+(arg1+(arg1+(arg1+(arg1+(arg1+arg1)))))))",
		 "holds more than 8 values at a time: put the deeper part first"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct perfx_cost_program cost;
		char why[256] = "";

		cr_expect_neq(cost_compile(rows[i].text, &cost, why, sizeof(why)), 0, "%s",
			      rows[i].text);
		cr_expect_str_eq(why, rows[i].why, "%s: %s", rows[i].text, why);
	}
}

static void expect_refused(const char *unit, size_t times, const char *end, const char *want)
{
	char text[8192] = "", why[256] = "";
	struct perfx_cost_program cost;

	for (size_t i = 0; i < times; i++)
		strcat(text, unit);
	strcat(text, end);
	cr_expect_neq(cost_compile(text, &cost, why, sizeof(why)), 0);
	cr_expect(strstr(why, want), "%s", why);
}

Test(cost_program, limits)
{
	struct perfx_cost_program cost;
	char why[256];

	expect_refused("flops = 1; ", 25, "", "more than 24 statements");
	expect_refused("let a = arg1; ", 25, "flops = a", "more than 24 names");
	expect_refused("flops = arg1*arg2+arg3*arg4; ", 10, "", "needs more than 64 instructions");
	expect_refused("flops = (", 1, "((((((((((((((((((((((((((((((((((((((((1", "parentheses");
	expect_refused("let abcdefghijklmnopqrstuvwxyz = 1; ", 1, "flops=1",
		       "a name of more than 23 letters");
	/* names of names */
	cr_expect_neq(cost_compile("let a=arg1+arg1; let b=a+a+a+a; let c=b+b+b+b; "
				   "let d=c+c+c+c; let e=d+d+d+d; let f=e+e+e+e; flops=f",
				   &cost, why, sizeof(why)),
		      0);
	cr_expect(strstr(why, "with all names written out"), "%s", why);
}
