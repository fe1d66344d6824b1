// SPDX-License-Identifier: BSD-2-Clause
/* Exits of functions whose result is wanted, when they end by jumping to others. */
#include "site/site.h"

#include "site_fixture.h"

#define PUSH_RBX "push %rbx\n.cfi_def_cfa_offset 16\n"
#define POP_RBX	 "pop %rbx\n.cfi_def_cfa_offset 8\n"

static const struct asm_function functions[] = {
	/* jemalloc's operator new: fast, or by two others */
	{.name = "fast", .code = "cmp $64,%rdi\nja 1f\nmov %rdi,%rax\nret\n1: jmp middle\n"},
	{.name = "middle",
	 .code = PUSH_RBX "mov %rdi,%rbx\ncall work@plt\ntest %rax,%rax\nje 1f\n" POP_RBX "ret\n"
			  "1: .cfi_def_cfa_offset 16\nmov %rbx,%rdi\n" POP_RBX "jmp slow@plt\n"},
	{.name = "slow", .code = "mov %rdi,%rax\nadd $8,%rax\nret\n"},
	{.name = "back", .code = "dec %rdi\njne forth\nret\n"},
	{.name = "forth", .code = "dec %rdi\njmp back\n"},
	{.name = "elsewhere", .code = "test %rdi,%rdi\nje 1f\nret\n1: jmp work@plt\n"},
	{.name = "pointer", .code = "mov (%rdi),%rax\njmp *24(%rax)\n"},
	{.name = "leads_to_doubt", .code = "test %rdi,%rdi\nje elsewhere\nret\n"},
	{.name = "into", .code = "jmp fast+4\n"},
};

static struct fixture fixture;

static void set_up(void)
{
	fixture__assemble(&fixture, functions, sizeof(functions) / sizeof(functions[0]),
			  sizeof(functions[0]), LINK_SHARED);
}

static void tear_down(void)
{
	fixture__close(&fixture);
}

TestSuite(site_tails, .init = set_up, .fini = tear_down);

static struct site_plan plan_of(const char *name, bool needs_result)
{
	const struct site_options options = {.needs_result = needs_result};
	struct symbol symbol = fixture__symbol(&fixture, name);
	struct site_plan plan;

	cr_assert_eq(site_plan(fixture.image, symbol.vaddr, symbol.size, &options, &plan), 0);
	return plan;
}

/* Exactly these, in order of address: "function", offset. */
static void expect_exits(const char *name, const char *const *functions_, const uint64_t *offsets,
			 size_t count)
{
	struct site_plan plan = plan_of(name, true);

	cr_expect_eq(plan.exits_state, EXITS_KNOWN, "%s: %s", name, plan.exits_note);
	cr_assert_eq(plan.exits_count, count, "%s: %zu", name, plan.exits_count);
	for (size_t i = 0; i < count; i++) {
		struct symbol symbol = fixture__symbol(&fixture, functions_[i]);

		cr_expect_eq(plan.exits[i].vaddr, symbol.vaddr + offsets[i], "%s: %s+%ld", name,
			     functions_[i], (long)(plan.exits[i].vaddr - symbol.vaddr));
	}
	site_plan__clear(&plan);
}

static void expect_doubt(const char *name, const char *why)
{
	struct site_plan plan = plan_of(name, true);

	cr_expect_eq(plan.exits_state, EXITS_UNKNOWN, "%s", name);
	cr_expect_str_eq(plan.exits_note ? plan.exits_note : "", why, "%s", name);
	cr_expect_eq(plan.exits_count, 0);
	site_plan__clear(&plan);
}

Test(site_tails, the_others_ways_out_are_its_own)
{
	/* in middle: the je decides, and by then rax is final */
	expect_exits("fast", (const char *[]){"fast", "middle", "slow"}, (uint64_t[]){9, 12, 7}, 3);
}

Test(site_tails, two_that_jump_to_each_other)
{
	expect_exits("back", (const char *[]){"back"}, (uint64_t[]){5}, 1);
	/* forth begins elsewhere: the branch in back that decides is free for its exit */
	expect_exits("forth", (const char *[]){"back"}, (uint64_t[]){3}, 1);
}

Test(site_tails, what_cannot_be_followed)
{
	expect_doubt("elsewhere", "leaves by a jump to another file: what it returns is not seen");
	expect_doubt("pointer", "leaves by an indirect jump: what it returns is not seen");
	expect_doubt("leads_to_doubt",
		     "leaves by a jump to another file: what it returns is not seen");
	expect_doubt("into", "leaves by a jump that can not be followed");
}

Test(site_tails, without_result_the_jump_is_the_way_out)
{
	struct site_plan plan = plan_of("elsewhere", false);

	cr_expect_eq(plan.exits_state, EXITS_KNOWN);
	cr_expect_gt(plan.exits_count, 0);
	site_plan__clear(&plan);
}
