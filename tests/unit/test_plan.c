// SPDX-License-Identifier: BSD-2-Clause
/* Which functions of a file are planned, and how each is timed by what maps so far. */
#include "cost/builtin.h"
#include "cost/cost_program.h"
#include "cost/gpu_calls.h"
#include "plan/plan.h"
#include "site_fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#define LINK_SONAME "cc -shared -nostdlib -Wl,-soname,libf.so.1 -o %s/t.so %s/t.o"

/* bytes that are no instruction */
#define EXIT_UNKNOWN "push %rbx\n.byte 0x06\nret\n"
#define EXIT_KNOWN   "push %rbx\npop %rbx\nret\n"

static const struct asm_function functions[] = {{.name = "f", .code = EXIT_KNOWN},
						{.name = "g", .code = EXIT_UNKNOWN}};
static const struct asm_function unwinding[] = {
	{.name = "h",
	 .code = EXIT_KNOWN,
	 .extra = "\t.section .gcc_except_table,\"a\",@progbits\n\t.byte 0\n\t.text\n"}};

static struct fixture planned, thrower;

static void set_up(void)
{
	fixture__assemble(&planned, functions, 2, sizeof(*functions), LINK_SONAME);
	fixture__assemble(&thrower, unwinding, 1, sizeof(*unwinding), LINK_SHARED);
}

static void tear_down(void)
{
	fixture__close(&planned);
	fixture__close(&thrower);
}

TestSuite(plan, .init = set_up, .fini = tear_down);

static const struct plan_function *find(const struct plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->functions_count; i++)
		if (!strcmp(plan->functions[i].name, name))
			return &plan->functions[i];
	cr_assert_fail("%s is not planned", name);
	return NULL;
}

static void expect_return(const struct plan *plan, const char *name, enum perfx_return ret)
{
	enum perfx_return seen = plan_return(plan, find(plan, name));

	cr_expect_eq(seen, ret, "%s: %d", name, seen);
}

static struct pattern *pattern;

static struct plan *plan_named(const char *functions_wanted, struct plan_options options)
{
	char why[128];
	struct plan *plan;

	pattern = pattern__parse(functions_wanted, why, sizeof(why));
	cr_assert_not_null(pattern);
	options.patterns = &pattern;
	options.patterns_count = 1;
	options.functions_max = 10;
	plan = plan__new(&options);
	cr_assert_not_null(plan);
	cr_assert_geq(plan__add_file(plan, planned.library, 0), 0);
	return plan;
}

static struct plan *plan_of(struct plan_options options)
{
	return plan_named("t.so:*", options);
}

static void plan_done(struct plan *plan)
{
	plan__free(plan);
	pattern__free(pattern);
}

Test(plan, trusts_return_probes_while_all_is_c)
{
	struct plan *plan = plan_of((struct plan_options){.return_guard = true});
	struct plan_function before = *find(plan, "f");

	expect_return(plan, "f", PERFX_RETURN_PROBE);
	expect_return(plan, "g", PERFX_RETURN_PROBE);
	cr_assert_geq(plan__add_file(plan, thrower.library, 0), 0);
	cr_assert_not(plan->c_alone);
	expect_return(plan, "f", PERFX_RETURN_EXIT);
	expect_return(plan, "g", PERFX_RETURN_NONE);
	expect_return(plan, "h", PERFX_RETURN_EXIT);
	cr_expect_not(memcmp(&before, find(plan, "f"), sizeof(before)), "what is planned stays");
	plan_done(plan);
}

Test(plan, without_session_links_prefers_known_exits)
{
	struct plan *plan = plan_of((struct plan_options){0});

	expect_return(plan, "f", PERFX_RETURN_EXIT);
	expect_return(plan, "g", PERFX_RETURN_PROBE);
	plan_done(plan);
}

Test(plan, does_what_was_asked_for)
{
	struct plan *plan = plan_of((struct plan_options){.return_mode = RETURN_EXIT});

	expect_return(plan, "f", PERFX_RETURN_EXIT);
	expect_return(plan, "g", PERFX_RETURN_NONE);
	plan_done(plan);
	plan = plan_of((struct plan_options){.return_mode = RETURN_PROBE});
	expect_return(plan, "f", PERFX_RETURN_PROBE);
	expect_return(plan, "g", PERFX_RETURN_PROBE);
	plan_done(plan);
}

/* Of this process, whose heap can be recorded. */
static uint32_t kinds_of_scan(struct plan *plan, bool has_framework)
{
	size_t *modules;

	plan->has_framework = has_framework;
	cr_assert_geq(plan__scan(plan, getpid(), &modules), 0);
	free(modules);
	return plan->kinds;
}

Test(plan, loads_no_programs_for_what_stays_off)
{
	struct plan *plan = plan_of((struct plan_options){.return_guard = true});
	const uint32_t heap = PLAN_KIND_ALLOCS | PLAN_KIND_ALLOC_RETURNS;

	cr_expect_eq(plan->kinds, PLAN_KIND_CALLS, "a later file may unwind");
	cr_assert_geq(plan__add_file(plan, thrower.library, 0), 0);
	cr_expect_eq(kinds_of_scan(plan, true), PLAN_KIND_CALLS);
	cr_expect_eq(kinds_of_scan(plan, false), PLAN_KIND_CALLS | heap);
	plan_done(plan);
	plan = plan_of((struct plan_options){.memory = MEMORY_ALL});
	cr_expect_eq(kinds_of_scan(plan, true) & heap, heap);
	plan_done(plan);
}

static void expect_planned(const char *functions_wanted, size_t count)
{
	struct plan *plan = plan_named(functions_wanted, (struct plan_options){0});

	cr_expect_eq(plan->functions_count, count, "%s: %zu", functions_wanted,
		     plan->functions_count);
	cr_expect_eq(plan__waits(plan, 0), !count, "%s", functions_wanted);
	plan_done(plan);
}

Test(plan, knows_a_file_by_its_name_and_its_soname)
{
	expect_planned("t.so:f", 1);
	expect_planned("libf.so.1:f", 1);
	expect_planned("libf.so.1:*", 2);
	expect_planned("libf.so:f", 0);
}

/* Launches and copies are described, not counted as work; the shape of a matrix is noted for a
 * product that reads it. */
Test(plan, knows_which_programs_flops_rest_on)
{
	struct perfx_cost_program programs[4] = {0};
	struct plan plan = {.cost_programs = programs, .cost_programs_count = 4};
	struct builtin layout, product;
	char why[256];

	cr_assert(builtin_find("libcublasLt.so.13", "cublasLtMatrixLayoutCreate", &layout));
	cr_assert(builtin_find("libcublasLt.so.13", "cublasLtMatmul", &product));
	cr_assert_eq(gpu_call_program("libcuda.so.1", "cuLaunchKernel", &programs[1]), 0);
	cr_assert_eq(cost_compile(layout.text, &programs[2], why, sizeof(why)), 0, "%s", why);
	cr_assert_eq(cost_compile(product.text, &programs[3], why, sizeof(why)), 0, "%s", why);
	cr_expect(!plan_flops_rest_on(&plan, 0));
	cr_expect(!plan_flops_rest_on(&plan, 1));
	cr_expect(plan_flops_rest_on(&plan, 2));
	cr_expect(plan_flops_rest_on(&plan, 3));
}
