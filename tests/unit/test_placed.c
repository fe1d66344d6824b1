// SPDX-License-Identifier: BSD-2-Clause
/* What attaching makes of a planned function where the plan's choices do not hold. */
#include "attach/placed.h"
#include "site_fixture.h"

#include <criterion/criterion.h>

static const struct plan by_mode[] = {
	[RETURN_AUTO] = {.options.return_mode = RETURN_AUTO},
	[RETURN_PROBE] = {.options.return_mode = RETURN_PROBE},
};

static struct placed by_return(const struct plan *plan, const struct plan_function *function)
{
	struct placed placed;

	placed_begin(&placed, plan, function);
	cr_assert_eq(placed.ret, PERFX_RETURN_PROBE);
	return placed;
}

static const struct plan_function exits_known = {
	.symbol = (char *)"f", .ret = PERFX_RETURN_PROBE, .site.exits_state = EXITS_KNOWN};
static const struct plan_function exits_unknown = {
	.symbol = (char *)"f", .ret = PERFX_RETURN_PROBE, .site.exits_state = EXITS_UNKNOWN};

Test(placed, known_exits_take_over)
{
	const struct plan *plan = &by_mode[RETURN_AUTO];
	struct placed placed = by_return(plan, &exits_known);

	cr_expect(placed_prefer_exits(&placed, plan, &exits_known));
	cr_expect_eq(placed.ret, PERFX_RETURN_EXIT);
	cr_expect_not(placed_prefer_exits(&placed, plan, &exits_known), "once");
}

Test(placed, exits_that_are_not_known_do_not)
{
	const struct plan *plan = &by_mode[RETURN_AUTO];
	struct placed placed = by_return(plan, &exits_unknown);

	cr_expect_not(placed_prefer_exits(&placed, plan, &exits_unknown));
	cr_expect_eq(placed.ret, PERFX_RETURN_PROBE);
}

Test(placed, return_probes_that_were_asked_for_stay)
{
	const struct plan *plan = &by_mode[RETURN_PROBE];
	struct placed placed = by_return(plan, &exits_known);

	cr_expect_not(placed_prefer_exits(&placed, plan, &exits_known));
	cr_expect_eq(placed.ret, PERFX_RETURN_PROBE);
}

Test(placed, exits_that_cannot_be_probed_are_not_tried_again)
{
	const struct plan *plan = &by_mode[RETURN_AUTO];
	struct placed placed = by_return(plan, &exits_known);

	cr_assert(placed_prefer_exits(&placed, plan, &exits_known));
	placed_doubt_exits(&placed);
	cr_expect_eq(placed.ret, PERFX_RETURN_PROBE);
	cr_expect_not(placed_prefer_exits(&placed, plan, &exits_known));
}

static const struct plan c_alone = {.c_alone = true};
static const struct plan_function returns_if_c = {.symbol = (char *)"f",
						  .ret = PERFX_RETURN_EXIT,
						  .return_if_c = true,
						  .site.exits_state = EXITS_KNOWN};

Test(placed, what_relied_on_c_is_timed_at_its_exits)
{
	struct placed placed = by_return(&c_alone, &returns_if_c);

	placed_distrust_returns(&placed, &returns_if_c);
	cr_expect_eq(placed.ret, PERFX_RETURN_EXIT);
	cr_expect_not(placed.relies_on_c);
}

Test(placed, what_did_not_rely_on_c_stays)
{
	struct placed placed = by_return(&c_alone, &exits_known);

	placed_distrust_returns(&placed, &exits_known);
	cr_expect_eq(placed.ret, PERFX_RETURN_PROBE);
}

Test(placed, exits_that_cannot_be_probed_leave_counting)
{
	struct placed placed = by_return(&c_alone, &returns_if_c);

	cr_assert(placed_prefer_exits(&placed, &c_alone, &returns_if_c));
	placed_doubt_exits(&placed);
	placed_distrust_returns(&placed, &returns_if_c);
	cr_expect_eq(placed.ret, PERFX_RETURN_NONE);
}

static const struct asm_function entries[] = {
	{.name = "two", .code = "test %rdi,%rdi\npush %rbx\npop %rbx\nret\n"}};

/* A function with a cost, planned at its first site. */
static struct plan_function with_cost(struct fixture *f, const char *name)
{
	struct symbol symbol = fixture__symbol(f, name);
	struct plan_function function = {.role = PLAN_CALLS,
					 .symbol = (char *)"f",
					 .vaddr = symbol.vaddr,
					 .size = symbol.size,
					 .ret = PERFX_RETURN_EXIT,
					 .cost_program = 7,
					 .calls = {.object_arg = 2, .event_arg = 1}};
	const struct site_options options = {0};

	cr_assert_not(site_plan(f->image, symbol.vaddr, symbol.size, &options, &function.site));
	return function;
}

Test(placed, a_refused_entry_moves_and_loses_its_cost)
{
	struct fixture f;
	struct plan_function function;
	struct site_options options = {.refused_count = 1};
	struct perfx_cost_program costs[8] = {0};
	const struct plan plan = {
		.c_alone = true, .cost_programs = costs, .cost_programs_count = 8};
	struct placed placed;
	uint64_t refused;

	fixture__assemble(&f, entries, 1, sizeof(*entries), LINK_SHARED);
	function = with_cost(&f, "two");
	placed_begin(&placed, &plan, &function);
	cr_expect_eq(placed.entry_site.vaddr, function.site.entry_vaddr);
	cr_expect_eq(placed.cost_program, 7);
	cr_expect_eq(placed.object_arg, 2);
	refused = placed.entry_site.vaddr;
	options.refused = &refused;
	cr_assert(placed_move_entry(&placed, &function, f.image, &options));
	cr_expect_neq(placed.entry_site.vaddr, refused);
	cr_expect_not(placed.cost_program);
	cr_expect_not(placed.object_arg);
	cr_expect_eq(function.site.entry_vaddr, refused, "the plan stays");
	site_plan__clear(&function.site);
	fixture__close(&f);
}

Test(placed, worth)
{
	struct perfx_cost_program costs[2] = {0};
	const struct plan plan = {
		.options.step_range = "epoch", .cost_programs = costs, .cost_programs_count = 2};
	const struct {
		struct plan_function function;
		enum worth worth;
		bool ends_steps;
	} table[] = {
		{{.role = PLAN_CALLS, .symbol = (char *)"softmax"}, WORTH_DETAIL, false},
		{{.role = PLAN_CALLS, .symbol = (char *)"sgemm_", .cost_program = 1},
		 WORTH_FLOPS,
		 false},
		{{.role = PLAN_ANNOTATION, .symbol = (char *)"nvtxRangePushA"},
		 WORTH_PHASES,
		 false},
		{{.role = PLAN_ANNOTATION,
		  .source = PERFX_SOURCE_TORCH,
		  .by_default = true,
		  .symbol = (char *)"_ZN5torch8autograd8profiler20PythonRecordFunctionD1Ev"},
		 WORTH_DETAIL,
		 false},
		{{.role = PLAN_CALLS,
		  .symbol = (char *)"_ZNK3xla23PjRtCpuLoadedExecutable7ExecuteENS_4SpanE"},
		 WORTH_STEPS,
		 false},
		{{.role = PLAN_ANNOTATION, .symbol = (char *)"TFE_Execute"}, WORTH_STEPS, false},
		{{.role = PLAN_CALLS,
		  .symbol = (char *)"_ZN5torch8autograd6Engine7executeERKSt6vectorIvE"},
		 WORTH_STEP_ENDS,
		 true},
		{{.role = PLAN_CALLS, .symbol = (char *)"_Z5epochv", .name = (char *)"epoch"},
		 WORTH_STEP_ENDS,
		 true},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct plan_function function = table[i].function;
		struct placed placed;

		function.name = function.name ? function.name : function.symbol;
		placed_begin(&placed, &plan, &function);
		cr_expect_eq(placed.worth, table[i].worth, "%s", function.symbol);
		cr_expect_eq(placed.ends_steps, table[i].ends_steps, "%s", function.symbol);
	}
}
