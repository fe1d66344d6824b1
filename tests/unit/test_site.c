// SPDX-License-Identifier: BSD-2-Clause
#include "decode/names.h"
#include "site/site.h"
#include "site_fixture.h"

#include <errno.h>

#define NOP5 "\t.byte 0x0f,0x1f,0x44,0x00,0x00\n"
#define RDI  0x01
#define RSI  0x02

struct entry_row {
	struct asm_function function;
	struct site_options options;
	int offset;
	enum site_kind kind;
	const char *note;
	int err;
	bool repeats;
	int refused; /* offset that the kernel refused, or 0 */
	/* where arguments are then: pairs of an argument's number and its new one, "05" for rdi in
	 * r9 */
	const char *moved;
};

#define F(name_, code_) .function = {.name = name_, .code = code_}

/* clang-format off */
static const struct entry_row rows[] = {
	{F("push", "push %rbx\npop %rbx\nret\n"), .kind = SITE_PUSH},
	{F("push_r12", "push %r12\npop %r12\nret\n"), .kind = SITE_PUSH},
	/* 48 50: a REX prefix that the kernel's push does not know */
	{F("push_rex", ".byte 0x48,0x50\npop %rax\nret\n"), .kind = SITE_STEPPED,
	 .note = "the stack pointer moves first"},
	{F("endbr_push", "endbr64\npush %rbx\npop %rbx\nret\n"), .offset = 4, .kind = SITE_PUSH},
	{F("free_like", "test %rdi,%rdi\nje 1f\npush %rbx\npop %rbx\n1: ret\n"), .offset = 3,
	 .kind = SITE_BRANCH},
	{F("compare_push", "cmpb $0,1f(%rip)\npush %rbx\n1: pop %rbx\nret\n"), .offset = 7,
	 .kind = SITE_PUSH},
	{F("lea_push", "lea 8(%rdi),%rax\npush %rbx\npop %rbx\nret\n"), .offset = 4,
	 .kind = SITE_PUSH},
	{F("argument_free", "lea 8(%rdi),%rdi\npush %rbx\npop %rbx\nret\n"), .offset = 4,
	 .kind = SITE_PUSH},
	{F("argument_read", "lea 8(%rdi),%rdi\npush %rbx\npop %rbx\nret\n"),
	 .options.argument_regs = RDI, .kind = SITE_STEPPED,
	 .note = "an argument is overwritten first"},
	{F("argument_kept", "lea 8(%rdi),%rsi\npush %rbx\npop %rbx\nret\n"),
	 .options.argument_regs = RDI, .offset = 4, .kind = SITE_PUSH},
	/* mimalloc's malloc */
	{F("argument_moved", "mov %rdi,%rsi\nmov 1f(%rip),%rdi\ncmp $1,%rsi\nja 1f\n1: ret\n"),
	 .options = {.argument_regs = RDI, .arguments_may_move = true}, .offset = 14,
	 .kind = SITE_BRANCH, .moved = "01"},
	{F("argument_not_asked", "mov %rdi,%rsi\nxor %edi,%edi\nnop\nret\n"),
	 .options.argument_regs = RDI, .kind = SITE_STEPPED,
	 .note = "an argument is overwritten first"},
	{F("argument_in_both", "mov %rdi,%rsi\nnop\nret\n"), .offset = 3, .kind = SITE_NOP,
	 .options = {.argument_regs = RDI, .arguments_may_move = true}},
	{F("argument_halved", "mov %edi,%esi\nxor %edi,%edi\nnop\nret\n"),
	 .options = {.argument_regs = RDI, .arguments_may_move = true}, .kind = SITE_STEPPED,
	 .note = "an argument is overwritten first"},
	{F("arguments_shifted",
	   "mov %rsi,%rdx\nmov %rdi,%rsi\nmov %rax,%rdi\nnop\nret\n"),
	 .options = {.argument_regs = RDI | RSI, .arguments_may_move = true}, .offset = 9,
	 .kind = SITE_NOP, .moved = "0112"},
	{F("argument_in_rax", "mov %rdi,%rax\nxor %edi,%edi\nnop\nret\n"),
	 .options = {.argument_regs = RDI, .arguments_may_move = true}, .offset = 5,
	 .kind = SITE_NOP, .moved = "06"},
	/* nobody can read a callee-saved register there as an argument */
	{F("argument_in_rbx", "mov %rdi,%rbx\nxor %edi,%edi\nnop\nret\n"),
	 .options = {.argument_regs = RDI, .arguments_may_move = true}, .kind = SITE_STEPPED,
	 .note = "an argument is overwritten first"},
	{F("argument_swapped", "mov %rdi,%rsi\nxchg %rdi,%rsi\nnop\nret\n"),
	 .options = {.argument_regs = RDI, .arguments_may_move = true}, .kind = SITE_STEPPED,
	 .note = "an argument is overwritten first"},
	{F("jump", "jmp 1f\nnop\n1: ret\n"), .kind = SITE_BRANCH},
	{F("call", "call puts@plt\nret\n"), .kind = SITE_BRANCH},
	{F("nop", "nop\nret\n"), .kind = SITE_NOP},
	{F("nop_66", "xchg %ax,%ax\nret\n"), .kind = SITE_NOP},
	{F("pause", "pause\nret\n"), .kind = SITE_NOP},
	{F("nop5", NOP5 "nop\nret\n"), .offset = 5, .kind = SITE_NOP},
	{F("nop5_optimized", NOP5 "nop\nret\n"), .options.optimized_nop5 = true,
	 .kind = SITE_NOP5},
	{F("endbr_nop5", "endbr64\n" NOP5 "ret\n"), .options.optimized_nop5 = true, .offset = 4,
	 .kind = SITE_NOP5},
	/* nor one of which forked children die */
	{F("nop5_kills", NOP5 "nop\nret\n"), .options.optimized_nop5 = true,
	 .options.nop5_kills = true, .offset = 5, .kind = SITE_NOP},
	/* the call that replaces it would write below the stack pointer of a running function */
	{F("nop5_later", "mov %rdi,%rax\n" NOP5 "nop\nret\n"), .options.optimized_nop5 = true,
	 .offset = 8, .kind = SITE_NOP},
	{F("nop5_odd", "mov %rdi,%rax\n.byte 0x66,0x66,0x66,0x66,0x90\nnop\nret\n"), .offset = 8,
	 .kind = SITE_NOP},
	{F("long_nop", "nopl (%rax)\nnop\nret\n"), .offset = 3, .kind = SITE_NOP},
	{F("long_nop_new", "nopl (%rax)\nnop\nret\n"), .options.optimized_nop5 = true,
	 .kind = SITE_NOP},
	{F("frame_first", "sub $8,%rsp\nadd $8,%rsp\nret\n"), .kind = SITE_STEPPED,
	 .note = "the stack pointer moves first"},
	{F("getter", "mov (%rdi),%rax\nret\n"), .kind = SITE_STEPPED,
	 .note = "the first instructions branch away"},
	{F("copies", "mov %rdx,%rcx\nrep movsb\nnop\nret\n"), .kind = SITE_STEPPED,
	 .note = "the first instructions may take long"},
	{F("into_prologue", "mov %rdi,%rax\n1: dec %rax\npush %rbx\npop %rbx\njne 1b\nret\n"),
	 .kind = SITE_STEPPED, .note = "a jump leads into the first instructions"},
	{F("loop_behind", "test %rdi,%rdi\nje 2f\n1: dec %rdi\njne 1b\n2: ret\n"), .offset = 3,
	 .kind = SITE_BRANCH},
	{F("loop_to_entry", "1: test %rdi,%rdi\nje 2f\ndec %rdi\njmp 1b\n2: ret\n"),
	 .offset = 3, .kind = SITE_BRANCH, .repeats = true},
	/* Go: where the stack is too small, it grows and the function begins again */
	{F("grows_stack", "1: cmp 16(%r14),%rsp\njbe 2f\nsub $8,%rsp\nadd $8,%rsp\nret\n"
			  "2: nop\njmp 1b\n"),
	 .offset = 4, .kind = SITE_BRANCH, .repeats = true},
	/* a spin lock: the entry is refused, and what stands for it repeats as well */
	{F("spin", "1: lock decl (%rdi)\njne 1b\nret\n"), .offset = 3, .kind = SITE_BRANCH,
	 .repeats = true},
	{F("computed_goto",
	   "mov %rdi,%rax\npush %rbx\n.cfi_def_cfa_offset 16\njmp *%rsi\npop %rbx\nret\n"),
	 .kind = SITE_STEPPED,
	 .note = "an indirect jump could lead into the first instructions"},
	{F("no_code", "mov %rdi,%rax\npush %rbx\n.byte 0x06\nret\n"), .kind = SITE_STEPPED,
	 .note = "has bytes that are not instructions"},
	{F("no_code_push", "push %rbx\n.byte 0x06\nret\n"), .kind = SITE_PUSH},
	{F("into_insn", "mov %rdi,%rax\njmp .+3\nmov $1,%eax\nret\n"), .kind = SITE_STEPPED,
	 .note = "jumps into the middle of an instruction"},
	{F("lock", "lock incl (%rdi)\npush %rbx\npop %rbx\nret\n"), .offset = 3,
	 .kind = SITE_PUSH},
	{F("lock_stepped", "lock incl (%rdi)\nmov %rdi,%rax\nret\n"), .offset = 3,
	 .kind = SITE_STEPPED, .note = "the first instructions branch away"},
	{F("lock_only", "lock incl (%rdi)\nhlt\n"), .kind = SITE_STEPPED, .err = -ENOTSUP,
	 .note = "the kernel cannot probe the first instructions"},
	/* what the kernel takes for a conditional jump, a jump, a ret, a nop */
	{F("vzeroupper", "vzeroupper\npush %rbx\npop %rbx\nret\n"), .offset = 3,
	 .kind = SITE_PUSH},
	{F("vpor", "vpor %xmm0,%xmm1,%xmm2\npush %rbx\npop %rbx\nret\n"), .offset = 4,
	 .kind = SITE_PUSH},
	{F("vcmpps", "vcmpps $0,%xmm0,%xmm1,%xmm2\npush %rbx\npop %rbx\nret\n"), .offset = 5,
	 .kind = SITE_PUSH},
	{F("xchg_r8", "xchg %rax,%r8\npush %rbx\npop %rbx\nret\n"), .offset = 2,
	 .kind = SITE_PUSH},
	{F("segment_nop", ".byte 0x2e,0x0f,0x1f,0x00\npush %rbx\npop %rbx\nret\n"), .offset = 4,
	 .kind = SITE_PUSH},
	{F("entry_only", "mov %rdi,%rax\npush %rbx\npop %rbx\nret\n"),
	 .options.entry_only = true, .kind = SITE_STEPPED, .note = "requested"},
	{F("was_refused", "test %rdi,%rdi\nje 1f\nnop\n1: ret\n"), .kind = SITE_STEPPED,
	 .note = "the first instructions branch away", .refused = 3},
};
/* clang-format on */

static void check_arguments(const struct site_plan *plan, const struct entry_row *row)
{
	uint8_t wanted[ARGUMENT_REGS] = {0, 1, 2, 3, 4, 5, 6};

	for (const char *p = row->moved ? row->moved : ""; *p; p += 2)
		wanted[p[0] - '0'] = (uint8_t)(p[1] - '0');
	for (int i = 0; i < ARGUMENT_REGS; i++)
		if (row->options.argument_regs & (1u << i))
			cr_expect_eq(plan->arguments[i], wanted[i], "%s: argument %d is in %u",
				     row->function.name, i, plan->arguments[i]);
}

static void check_row(struct fixture *f, const struct entry_row *row)
{
	const char *name = row->function.name;
	struct symbol symbol = fixture__symbol(f, name);
	struct site_options options = row->options;
	uint64_t refused = symbol.vaddr + (uint64_t)row->refused;
	struct site_plan plan;
	int err;

	if (row->refused) {
		options.refused = &refused;
		options.refused_count = 1;
	}
	err = site_plan(f->image, symbol.vaddr, symbol.size, &options, &plan);
	cr_expect_eq(err, row->err, "%s: %d", name, err);
	cr_expect_eq(plan.entry_vaddr, symbol.vaddr + (uint64_t)row->offset, "%s: +%ld", name,
		     (long)(plan.entry_vaddr - symbol.vaddr));
	cr_expect_eq(plan.entry_kind, row->kind, "%s: %s", name,
		     name_of_site((enum perfx_site)plan.entry_kind));
	cr_expect_eq(plan.entry_repeats, row->repeats, "%s", name);
	check_arguments(&plan, row);
	if (row->note)
		cr_expect_str_eq(plan.entry_note ? plan.entry_note : "", row->note, "%s: %s", name,
				 plan.entry_note);
	else
		cr_expect_null(plan.entry_note, "%s: %s", name, plan.entry_note);
	site_plan__clear(&plan);
}

Test(site_entry, known_answers)
{
	struct fixture f;

	fixture__assemble(&f, rows, sizeof(rows) / sizeof(rows[0]), sizeof(rows[0]), LINK_SHARED);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check_row(&f, &rows[i]);
	fixture__close(&f);
}

Test(site_entry, unknown_size_keeps_the_entry)
{
	static const struct asm_function function = {.name = "f",
						     .code = "test %rdi,%rdi\nje 1f\n1: ret\n"};
	const struct site_options options = {0};
	struct site_plan plan;
	struct fixture f;
	struct symbol symbol;

	fixture__assemble(&f, &function, 1, sizeof(function), LINK_SHARED);
	symbol = fixture__symbol(&f, "f");
	cr_expect_eq(site_plan(f.image, symbol.vaddr, 0, &options, &plan), 0);
	cr_expect_eq(plan.entry_vaddr, symbol.vaddr);
	cr_expect_eq(plan.entry_kind, SITE_STEPPED);
	cr_expect_str_eq(plan.entry_note, "its size is not known");
	cr_expect_eq(plan.exits_state, EXITS_UNKNOWN);
	site_plan__clear(&plan);
	fixture__close(&f);
}

Test(site_entry, outside_the_code)
{
	static const struct asm_function function = {.name = "f", .code = "ret\n"};
	const struct site_options options = {0};
	struct site_plan plan;
	struct fixture f;

	fixture__assemble(&f, &function, 1, sizeof(function), LINK_SHARED);
	cr_expect_eq(site_plan(f.image, 0x7fff00000000, 16, &options, &plan), -ENOENT);
	cr_expect_eq(plan.exits_state, EXITS_UNKNOWN);
	cr_expect_eq(plan.exits_count, 0);
	site_plan__clear(&plan);
	fixture__close(&f);
}

/* Exits of functions whose result is wanted, when they end by jumping to others. */

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
	{.name = "calls", .code = PUSH_RBX "call fast\n" POP_RBX "jmp middle\n"},
	{.name = "twice", .code = PUSH_RBX "call fast\n" POP_RBX "jmp fast\n"},
	/* at::native::convolution_backward of PyTorch's wheels: a Tensor goes last */
	{.name = "drop",
	 .code = "mov 8(%rdi),%rax\ncmp $1,%rax\nje 1f\nmov $-1,%rax\nlock xadd %rax,8(%rdi)\n"
		 "ret\n1: jmp work@plt\n"},
	{.name = "drops",
	 .code = PUSH_RBX "call work@plt\ncmp %rax,%rbx\nje 1f\ncall drop\n"
			  "1: mov %rbx,%rax\n" POP_RBX "ret\n"},
	{.name = "calls_last",
	 .code = PUSH_RBX "call work@plt\ncmp %rax,%rbx\nje 1f\ncall middle\n"
			  "1: mov %rbx,%rax\n" POP_RBX "ret\n"},
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

Test(site_tails, a_reference_that_goes_last_is_left_out)
{
	struct site_plan plan = plan_of("drops", false);

	/* the je that decides, and the call */
	cr_assert_eq(plan.exits_count, 2);
	cr_expect_eq(plan.exits[0].when, EXIT_IF_TAKEN);
	cr_expect_eq(plan.exits[1].vaddr, plan.exits[0].vaddr + 2);
	cr_expect_eq(plan.exits[1].when, EXIT_ALWAYS);
	cr_expect_eq(plan.exits[1].kind, SITE_BRANCH);
	site_plan__clear(&plan);
	/* not where the result is wanted, which is in rax only after the call */
	expect_exits("drops", (const char *[]){"drops"}, (uint64_t[]){20}, 1);
	plan = plan_of("calls_last", false);
	cr_assert_eq(plan.exits_count, 1);
	cr_expect_eq(plan.exits[0].kind, SITE_STEPPED);
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

Test(site_tails, where_they_are_called)
{
	struct symbol calls = fixture__symbol(&fixture, "calls"),
		      fast = fixture__symbol(&fixture, "fast"),
		      middle = fixture__symbol(&fixture, "middle"),
		      twice = fixture__symbol(&fixture, "twice");

	/* push %rbx; call fast; pop %rbx; jmp middle */
	cr_expect_eq(site_of_call(fixture.image, calls.vaddr, calls.size, fast.vaddr),
		     calls.vaddr + 1);
	cr_expect_eq(site_of_call(fixture.image, calls.vaddr, calls.size, middle.vaddr),
		     calls.vaddr + 7);
	cr_expect_eq(site_of_call(fixture.image, calls.vaddr, calls.size, twice.vaddr), 0);
	cr_expect_eq(site_of_call(fixture.image, twice.vaddr, twice.size, fast.vaddr), 0);
}

Test(site_tails, what_cannot_be_followed)
{
	expect_doubt("elsewhere", "exits by a jump to another file: its result is not known");
	expect_doubt("pointer", "exits by an indirect jump: its result is not known");
	expect_doubt("leads_to_doubt", "exits by a jump to another file: its result is not known");
	expect_doubt("into", "exits by a jump that cannot be followed");
}

Test(site_tails, without_result_the_jump_is_the_way_out)
{
	struct site_plan plan = plan_of("elsewhere", false);

	cr_expect_eq(plan.exits_state, EXITS_KNOWN);
	cr_expect_gt(plan.exits_count, 0);
	site_plan__clear(&plan);
}

/*
 * Exits, as text: "+14 branch if-not-taken/5 rsp+32" is a branch 14 bytes into the function at
 * which a call leaves when condition 5 (ne) does not hold. "cold+3" counts from the cold part.
 */

struct exits_row {
	struct asm_function function;
	struct site_options options;
	const char *exits; /* or, if they are unknown, "? " and why */
	bool calls_itself, switches_stack, entry_is_exit;
};

#define F(name_, code_)		      .function = {.name = name_, .code = code_}
#define F_PARTS(name_, code_, extra_) .function = {.name = name_, .code = code_, .extra = extra_}
#define F_NO_CFI(name_, code_)	      .function = {.name = name_, .code = code_, .without_cfi = true}

#define PUSH_RBX "push %rbx\n.cfi_def_cfa_offset 16\n"
#define POP_RBX	 "pop %rbx\n.cfi_def_cfa_offset 8\n"
/* what follows is reached with the frame in place */
#define FRAME_16 ".cfi_def_cfa_offset 16\n"
#define COLD_BEGIN(name) \
	"\t.section .text.unlikely\n\t.type " name ".cold,@function\n" name ".cold:\n"
#define COLD_END(name) "\t.size " name ".cold,.-" name ".cold\n"

/* clang-format off */
static const struct exits_row exits_rows[] = {
	{F("single_ret", "mov %rdi,%rax\nret\n"), .exits = "+3 stepped always rsp+8"},
	{F("ret_imm", "mov %rdi,%rax\nret $8\n"), .exits = "+3 stepped always rsp+8"},
	{F("rep_ret", "mov %rdi,%rax\nrepz ret\n"), .exits = "+3 stepped always rsp+8"},
	/* no operand that is seen */
	{F("string_move", "movsl\nret\n"), .exits = "+1 stepped always rsp+8"},
	{F("bnd_ret", "mov %rdi,%rax\nbnd ret\n"), .exits = "+3 stepped always rsp+8"},
	{F("protector",
	   PUSH_RBX "sub $16,%rsp\n.cfi_def_cfa_offset 32\n"
	   "mov %fs:0x28,%rax\nmov %rax,8(%rsp)\n"
	   "call work@plt\n"
	   "mov 8(%rsp),%rax\nsub %fs:0x28,%rax\njne 1f\n"
	   "mov %rbx,%rax\nadd $16,%rsp\n.cfi_def_cfa_offset 16\n" POP_RBX "ret\n"
	   "1: .cfi_def_cfa_offset 32\ncall __stack_chk_fail@plt\n"),
	 .exits = "+38 branch if-not-taken/5 rsp+32"},
	/* clang: the failure lies in the middle, landing pads that loop behind it */
	{F("protector_middle",
	   PUSH_RBX "1: call work@plt\n"
	   "mov %fs:0x28,%rax\ncmp 8(%rsp),%rax\njne 2f\n" POP_RBX "ret\n"
	   "2: " FRAME_16 "call __stack_chk_fail@plt\n"
	   "mov %rax,%rdi\njmp 1b\n"),
	 .exits = "+20 branch if-not-taken/5 rsp+16"},
	{F("protector_sub",
	   PUSH_RBX "1: call work@plt\n"
	   "mov 8(%rsp),%rax\nsub %fs:0x28,%rax\njne 2f\n" POP_RBX "ret\n"
	   "2: " FRAME_16 "call __stack_chk_fail@plt\n"
	   "mov %rax,%rdi\njmp 1b\n"),
	 .exits = "+20 branch if-not-taken/5 rsp+16"},
	/* the canary is set up, and the branch behind it is another one's */
	{F("protector_prologue",
	   PUSH_RBX "mov %fs:0x28,%rax\ntest %rdi,%rdi\njne 1f\nud2\n"
	   "1: call work@plt\n2: " POP_RBX "ret\n"),
	 .exits = "+23 stepped always rsp+8"},
	{F("two_rets",
	   PUSH_RBX "test %rdi,%rdi\nje 1f\ncall work@plt\n" POP_RBX "ret\n"
	   "1: " FRAME_16 POP_RBX "ret\n"),
	 .exits = "+4 branch if-taken/4 rsp+16, +12 stepped always rsp+8"},
	{F("both_ways",
	   PUSH_RBX "call work@plt\ntest %eax,%eax\njg 1f\n" POP_RBX "ret\n"
	   "1: " FRAME_16 "xor %eax,%eax\n" POP_RBX "ret\n"),
	 .exits = "+8 branch always rsp+16"},
	{F("shared_epilogue",
	   PUSH_RBX "test %rdi,%rdi\nje 1f\ndec %rdi\nje 2f\ncall work@plt\njmp 3f\n"
	   "1: call work1@plt\njmp 3f\n"
	   "2: call work2@plt\njmp 3f\nud2\n"
	   "3: " POP_RBX "ret\n"),
	 .exits = "+16 branch always rsp+16, +23 branch always rsp+16, +30 branch always rsp+16"},
	{F("too_many",
	   PUSH_RBX "call work@plt\njmp 3f\ncall work@plt\njmp 3f\ncall work@plt\njmp 3f\n"
	   "call work@plt\njmp 3f\ncall work@plt\njmp 3f\nud2\n"
	   "3: " POP_RBX "ret\n"),
	 .exits = "+39 stepped always rsp+8"},
	{F("too_conditional",
	   PUSH_RBX "call work@plt\ntest %eax,%eax\nje 1f\ncall work@plt\ntest %eax,%eax\nje 1f\n"
	   "call work@plt\ntest %eax,%eax\nje 1f\nud2\n"
	   "1: " POP_RBX "ret\n"),
	 .exits = "+31 stepped always rsp+8"},
	{F("falls_in",
	   PUSH_RBX "call work@plt\ntest %eax,%eax\nje 1f\ncall work@plt\n"
	   "1: " POP_RBX "ret\n"),
	 .exits = "+16 stepped always rsp+8"},
	{F("loop", PUSH_RBX "1: call work@plt\ntest %eax,%eax\njne 1b\n" POP_RBX "ret\n"),
	 .exits = "+11 stepped always rsp+8"},
	/* the branch that leaves is in the middle of the loop */
	{F("loop_middle",
	   PUSH_RBX "1: call work@plt\ntest %eax,%eax\njs 2f\ncall work@plt\njmp 1b\n"
	   "2: " POP_RBX "ret\n"),
	 .exits = "+18 stepped always rsp+8"},
	{F("result_late",
	   PUSH_RBX "call work@plt\ntest %eax,%eax\njs 1f\nmov %rbx,%rax\n" POP_RBX "ret\n"
	   "1: " FRAME_16 "call abort@plt\n"),
	 .exits = "+8 branch if-not-taken/8 rsp+16"},
	{F("result_read",
	   PUSH_RBX "call work@plt\ntest %eax,%eax\njs 1f\nmov %rbx,%rax\n" POP_RBX "ret\n"
	   "1: " FRAME_16 "call abort@plt\n"),
	 .options.needs_result = true, .exits = "+14 stepped always rsp+8"},
	{F("restores",
	   "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset 6,-16\nmov %rsp,%rbp\n"
	   ".cfi_def_cfa_register 6\nsub $64,%rsp\ncall work@plt\ntest %eax,%eax\njle 1f\n"
	   "movaps -32(%rbp),%xmm0\nvzeroupper\nmov -8(%rbp),%rbx\nleave\n.cfi_def_cfa 7,8\nret\n"
	   "1: .cfi_def_cfa 6,16\ncall abort@plt\n"),
	 .exits = "+15 branch if-not-taken/e rbp+16"},
	{F("stores",
	   PUSH_RBX "call work@plt\ntest %eax,%eax\njle 1f\nmov %rax,(%rbx)\n" POP_RBX "ret\n"
	   "1: " FRAME_16 "call abort@plt\n"),
	 .exits = "+8 branch if-not-taken/e rsp+16"},
	{F("noreturn", PUSH_RBX "call abort@plt\n"), .exits = ""},
	{F("noreturn_padded", PUSH_RBX "call abort@plt\nnopl (%rax)\n"), .exits = ""},
	{F("trap", "ud2\n"), .exits = ""},
	{F("jrcxz", PUSH_RBX "call work@plt\nmov %rax,%rcx\njrcxz 1f\nud2\n1: " POP_RBX "ret\n"),
	 .exits = "+14 stepped always rsp+8"},

	/* a small buffer that may have grown: mm::call of PyTorch's wheels */
	{F("frees",
	   PUSH_RBX "call work@plt\ncmp %rax,%rbx\nje 1f\ncall free@plt\n"
	   "1: mov %rbx,%rax\n" POP_RBX "ret\n"),
	 .exits = "+9 branch if-taken/4 rsp+16, +11 branch always rsp+16"},
	{F("frees_result",
	   PUSH_RBX "call work@plt\ncmp %rax,%rbx\nje 1f\ncall free@plt\n1: " POP_RBX "ret\n"),
	 .options.needs_result = true, .exits = "+17 stepped always rsp+8"},
	/* a Tensor in memory, returned by convolution::call */
	{F("frees_memory",
	   PUSH_RBX "call work@plt\ncmp %rax,%rbx\nje 1f\ncall free@plt\n"
	   "1: mov %rbx,%rax\n" POP_RBX "ret\n"),
	 .options.needs_result = true, .options.result_in_memory = true,
	 .exits = "+9 branch if-taken/4 rsp+16, +11 branch always rsp+16"},
	{F("stores_memory",
	   PUSH_RBX "call work@plt\ntest %eax,%eax\njle 1f\nmov %rax,(%rbx)\n" POP_RBX "ret\n"
	   "1: " FRAME_16 "call abort@plt\n"),
	 .options.needs_result = true, .options.result_in_memory = true,
	 .exits = "+14 stepped always rsp+8"},
	{F("deletes", PUSH_RBX "call work@plt\ncall _ZdlPvm@plt\n" POP_RBX "ret\n"),
	 .exits = "+6 branch always rsp+16"},
	{F("throws",
	   PUSH_RBX "call work@plt\ntest %eax,%eax\njs 1f\n"
	   "call _ZSt20__throw_length_errorPKc@plt\n1: " POP_RBX "ret\n"),
	 .exits = "+8 branch if-taken/8 rsp+16"},

	{F("tail", "jmp work@plt\n"), .exits = "+0 branch always rsp+8", .entry_is_exit = true},
	{F("tail_framed", PUSH_RBX "call work@plt\n" POP_RBX "jmp work@plt\n"),
	 .exits = "+7 branch always rsp+8"},
	{F("tail_got", PUSH_RBX "call work@plt\n" POP_RBX "jmp *work@GOTPCREL(%rip)\n"),
	 .exits = "+7 stepped always rsp+8"},
	{F("tail_got_cheap",
	   PUSH_RBX "call work@plt\ntest %eax,%eax\njne 1f\n" POP_RBX "jmp *work@GOTPCREL(%rip)\n"
	   "1: " FRAME_16 "call abort@plt\n"),
	 .exits = "+8 branch if-not-taken/5 rsp+16"},
	{F("tail_virtual", "mov (%rdi),%rax\njmp *24(%rax)\n"), .exits = "+3 stepped always rsp+8"},
	{F("tail_loaded", "mov (%rdi),%rax\nmov 16(%rax),%rax\njmp *%rax\n"),
	 .exits = "+7 stepped always rsp+8"},
	{F("tail_argument", "mov %rdi,%rax\nmov %esi,%edi\njmp *%rax\n"),
	 .exits = "+5 stepped always rsp+8"},
	{F("tail_array", "movslq %edi,%rdi\njmp *(%rsi,%rdi,8)\n"),
	 .exits = "+3 stepped always rsp+8"},
	{F("tail_if", "test %rdi,%rdi\njne work@plt\nret\n"),
	 .exits = "+3 branch if-taken/5 rsp+8, +9 stepped always rsp+8", .entry_is_exit = true},
	{F("tail_or_ret",
	   PUSH_RBX "call work@plt\n" POP_RBX "test %eax,%eax\nje work@plt\nret\n"),
	 .exits = "+9 branch always rsp+8"},
	{F("tail_notrack", "mov (%rdi),%rax\nnotrack jmp *%rax\n"),
	 .exits = "? the kernel cannot probe an exit"},
	{F("tail_odd", "xor %rdi,%rsi\njmp *%rsi\n"),
	 .exits = "? has an indirect jump that cannot be followed"},

	{F_PARTS("cold",
	   PUSH_RBX "call work@plt\ntest %eax,%eax\njne cold.cold\n.Lcold: " POP_RBX "ret\n",
	   COLD_BEGIN("cold") ".cfi_startproc\n" FRAME_16 "call work@plt\njmp .Lcold\n"
	   ".cfi_endproc\n" COLD_END("cold")),
	 .exits = "cold+5 branch always rsp+16, +8 branch if-not-taken/5 rsp+16"},
	{F_PARTS("cold_ret",
	   PUSH_RBX "call work@plt\ntest %eax,%eax\njne cold_ret.cold\n" POP_RBX "jmp work@plt\n",
	   COLD_BEGIN("cold_ret") ".cfi_startproc\n" FRAME_16 "call work@plt\n" POP_RBX "ret\n"
	   ".cfi_endproc\n" COLD_END("cold_ret")),
	 .exits = "cold+6 stepped always rsp+8, +15 branch always rsp+8"},
	/* no frame yet: only the jump back shows that it is no tail call */
	{F_PARTS("cold_bare",
	   "mov %rdi,%rax\ntest %rdi,%rdi\njne cold_bare.cold\n.Lcold_bare: mov %rsi,(%rdx)\nret\n",
	   COLD_BEGIN("cold_bare") ".cfi_startproc\n" PUSH_RBX "call work@plt\n" POP_RBX
	   "jmp .Lcold_bare\n.cfi_endproc\n" COLD_END("cold_bare")),
	 .exits = "+15 stepped always rsp+8"},
	{F_PARTS("cold_without_entry",
	   PUSH_RBX "call work@plt\ntest %eax,%eax\njne cold_without_entry.cold\n" POP_RBX "ret\n",
	   COLD_BEGIN("cold_without_entry") "call abort@plt\n" COLD_END("cold_without_entry")),
	 .exits = "? jumps to code without an unwind entry"},
	{F_PARTS("cold_other_frame",
	   PUSH_RBX "call work@plt\ntest %eax,%eax\njne cold_other_frame.cold\n" POP_RBX "ret\n",
	   COLD_BEGIN("cold_other_frame") ".cfi_startproc\ncall abort@plt\n.cfi_endproc\n"
	   COLD_END("cold_other_frame")),
	 .exits = "? jumps out with a stack frame that its target does not expect"},

	{F_PARTS("switch_gcc",
	   PUSH_RBX "cmp $2,%edi\nja 9f\nmov %edi,%edi\nlea 8f(%rip),%rdx\n"
	   "movslq (%rdx,%rdi,4),%rax\nadd %rdx,%rax\nnotrack jmp *%rax\n"
	   "1: call work@plt\njmp 9f\n2: call work1@plt\njmp 9f\n3: call work2@plt\njmp 9f\nud2\n"
	   "9: " POP_RBX "ret\n\t.section .rodata\n8: .long 1b-8b,2b-8b,3b-8b\n\t.text\n",
	   NULL),
	 .exits = "+4 branch if-taken/7 rsp+16, +30 branch always rsp+16, +37 branch always rsp+16, "
		  "+44 branch always rsp+16"},
	/* case 1 goes straight to the epilogue */
	{F_PARTS("switch_clang",
	   PUSH_RBX "cmp $1,%edi\nja 9f\nmov %edi,%eax\nlea 8f(%rip),%rcx\n"
	   "movslq (%rcx,%rax,4),%rax\nadd %rcx,%rax\njmp *%rax\n"
	   "1: call work@plt\njmp 9f\nud2\n"
	   "9: " POP_RBX "ret\n\t.section .rodata\n8: .long 1b-8b,9b-8b\n\t.text\n", NULL),
	 .exits = "+34 stepped always rsp+8"},
	/* the check is not of the index: how long the table is, is not known */
	{F_PARTS("switch_unbounded",
	   PUSH_RBX "mov %edi,%eax\ncmp $9,%edi\nja 9f\nshr $3,%eax\nlea 8f(%rip),%rcx\n"
	   "movslq (%rcx,%rax,4),%rax\nadd %rcx,%rax\njmp *%rax\n"
	   "1: call work@plt\njmp 9f\nud2\n"
	   "9: " POP_RBX "ret\n\t.section .rodata\n8: .long 1b-8b,1b-8b\n\t.text\n", NULL),
	 .exits = "+37 stepped always rsp+8"},
	{F_PARTS("switch_bare",
	   "cmp $1,%edi\nja 2f\nlea 8f(%rip),%rdx\nmovslq (%rdx,%rdi,4),%rax\nadd %rdx,%rax\n"
	   "jmp *%rax\n1: mov (%rsi),%rax\nret\n2: xor %eax,%eax\nret\n"
	   "\t.section .rodata\n8: .long 1b-8b,2b-8b\n\t.text\n", NULL),
	 .exits = "+24 stepped always rsp+8, +27 stepped always rsp+8"},
	{F_PARTS("switch_cold",
	   PUSH_RBX "cmp $1,%edi\nja 9f\nlea 8f(%rip),%rdx\n"
	   "movslq (%rdx,%rdi,4),%rax\nadd %rdx,%rax\njmp *%rax\n"
	   "1: call work@plt\njmp 9f\nud2\n"
	   "9: " POP_RBX "ret\n\t.section .rodata\n8: .long 1b-8b,switch_cold.cold-8b\n\t.text\n",
	   COLD_BEGIN("switch_cold") ".cfi_startproc\n" FRAME_16 "call work@plt\n" POP_RBX "ret\n"
	   ".cfi_endproc\n" COLD_END("switch_cold")),
	 .exits = "cold+6 stepped always rsp+8, +4 branch if-taken/7 rsp+16, "
		  "+27 branch always rsp+16"},
	/* computed goto: inside, for the frame is there; but it may go to any instruction */
	{F("goto_pointer",
	   PUSH_RBX "call work@plt\njmp *8(%rax)\n"
	   "call work@plt\njmp 1f\nud2\n1: " POP_RBX "ret\n"),
	 .exits = "+19 stepped always rsp+8"},

	{F_NO_CFI("bare_ret", "push %rbx\npop %rbx\nret\n"), .exits = "+2 stepped always rsp+8"},
	{F_NO_CFI("bare_tail", "mov %rdi,%rsi\njmp work@plt\n"), .exits = "+3 branch always rsp+8",
	 .entry_is_exit = true},
	{F_NO_CFI("bare_out", "push %rbx\npop %rbx\njmp work@plt\n"),
	 .exits = "? jumps out and has no unwind table"},
	{F_NO_CFI("bare_jne", "push %rbx\ncall work@plt\ntest %eax,%eax\njne 1f\npop %rbx\nret\n"
			      "1: call abort@plt\n"),
	 .exits = "+11 stepped always rsp+8"},

	{F("recursive", "1: " PUSH_RBX "call 1b\n" POP_RBX "ret\n"),
	 .exits = "+7 stepped always rsp+8", .calls_itself = true},
	{F("recursive_stub", PUSH_RBX "call recursive_stub@plt\n" POP_RBX "ret\n"),
	 .exits = "+7 stepped always rsp+8", .calls_itself = true},
	{F("calls_middle", "call 1f\nret\n1: mov %rdi,%rax\nret\n"),
	 .exits = "? calls into its own middle"},
	{F("own_address", "call 1f\n1: pop %rax\nret\n"), .exits = "+6 stepped always rsp+8"},
	{F("runs_on", "mov %rdi,%rax\n"), .exits = "? falls through into the code behind it"},
	{F("push_ret", "push %rdi\nret\n"), .exits = "? uses a return as a jump"},
	{F("retpoline", "call 1f\n2: pause\njmp 2b\n1: mov %rax,(%rsp)\nret\n"),
	 .exits = "? uses a return as a jump"},
	{F("coroutine", "push %rbx\nmov %rsp,(%rdi)\nmov (%rsi),%rsp\npop %rbx\nret\n"),
	 .exits = "? switches to another stack", .switches_stack = true},
	{F("coroutine_argument", "push %rbp\nmov %rsp,%rax\nmov %rdi,%rsp\npop %rbp\njmp *%rsi\n"),
	 .exits = "? switches to another stack", .switches_stack = true},
	{F("coroutine_xchg", "xchg (%rdi),%rsp\nret\n"), .exits = "? switches to another stack",
	 .switches_stack = true},
	{F("coroutine_pop", "push %rdi\npop %rsp\nret\n"), .exits = "? switches to another stack",
	 .switches_stack = true},
	{F("coroutine_spilled",
	   "push %rbp\nmov %rsp,%rbp\nmov %rdi,-8(%rbp)\nmov -8(%rbp),%rax\nmov (%rax),%rsp\n"
	   "leave\nret\n"),
	 .exits = "? switches to another stack", .switches_stack = true},
	{F("array_freed",
	   "push %rbp\nmov %rsp,%rbp\nmov %rsp,%rbx\nsub %rdi,%rsp\ncall work@plt\nmov %rbx,%rsp\n"
	   "leave\nret\n"),
	 .exits = "+19 stepped always rsp+8"},
	{F("array_spilled",
	   "push %rbp\nmov %rsp,%rbp\nmov %rsp,-8(%rbp)\nsub %rdi,%rsp\ncall work@plt\n"
	   "mov -8(%rbp),%rsp\nleave\nret\n"),
	 .exits = "+21 stepped always rsp+8"},
	{F("realigned",
	   "lea 8(%rsp),%r10\nand $-32,%rsp\npush -8(%r10)\nlea -8(%r10),%rsp\nret\n"),
	 .exits = "+17 stepped always rsp+8"},
	{F("no_code", "push %rbx\n.byte 0x06\nret\n"),
	 .exits = "? has bytes that are not instructions"},
};

static const struct exits_row static_rows[] = {
	{F_PARTS("switch_absolute",
	   PUSH_RBX "cmp $1,%edi\nja 9f\nmov %edi,%eax\njmp *8f(,%rax,8)\n"
	   "1: call switch_absolute\njmp 9f\n2: call 9f+64\njmp 9f\nud2\n"
	   "9: " POP_RBX "ret\n\t.section .rodata\n8: .quad 1b,2b\n\t.text\n", NULL),
	 .exits = "+4 branch if-taken/7 rsp+16, +20 branch always rsp+16, +27 branch always rsp+16",
	 .calls_itself = true},
	{F("switch_moved",
	   PUSH_RBX "cmp $1,%edi\nja 9f\nmov %edi,%eax\nmov 8f(,%rax,8),%rax\njmp *%rax\n"
	   "1: call switch_moved\njmp 9f\nud2\n"
	   "9: " POP_RBX "ret\n\t.section .rodata\n8: .quad 1b,9b\n\t.text\n"),
	 .exits = "+28 stepped always rsp+8", .calls_itself = true},
	/* return table[i](…) */
	{F("function_table",
	   "cmp $1,%edi\nja 1f\nmov %edi,%eax\njmp *8f(,%rax,8)\n1: ret\n"
	   "\t.section .rodata\n8: .quad switch_absolute,switch_moved\n\t.text\n"),
	 .exits = "+7 stepped always rsp+8, +14 stepped always rsp+8"},
};
/* clang-format on */

static const char *when_name(enum exit_when when)
{
	switch (when) {
	case EXIT_ALWAYS:
		return "always";
	case EXIT_IF_TAKEN:
		return "if-taken";
	case EXIT_IF_NOT_TAKEN:
		return "if-not-taken";
	}
	return "?";
}

static void print_place(FILE *out, struct fixture *f, const struct symbol *symbol, uint64_t vaddr)
{
	char name[64];

	if (vaddr - symbol->vaddr < symbol->size) {
		fprintf(out, "+%lu", (unsigned long)(vaddr - symbol->vaddr));
		return;
	}
	snprintf(name, sizeof(name), "%s.cold", symbol->name);
	fprintf(out, "cold+%lu", (unsigned long)(vaddr - fixture__symbol(f, name).vaddr));
}

static void print_exits(FILE *out, struct fixture *f, const struct symbol *symbol,
			const struct site_plan *plan)
{
	if (plan->exits_state == EXITS_UNKNOWN)
		fprintf(out, "? %s", plan->exits_note);
	for (size_t i = 0; i < plan->exits_count; i++) {
		const struct exit_site *site = &plan->exits[i];

		fprintf(out, "%s", i ? ", " : "");
		print_place(out, f, symbol, site->vaddr);
		fprintf(out, " %s %s", name_of_site((enum perfx_site)site->kind),
			when_name(site->when));
		if (site->when != EXIT_ALWAYS)
			fprintf(out, "/%x", site->condition);
		fprintf(out, " %s%+d", site->cfa_reg == CFA_RSP ? "rsp" : "rbp", site->cfa_offset);
	}
}

static void check_exits_row(struct fixture *f, const struct exits_row *row)
{
	const char *name = row->function.name;
	struct symbol symbol = fixture__symbol(f, name);
	struct site_plan plan;
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	cr_expect_eq(site_plan(f->image, symbol.vaddr, symbol.size, &row->options, &plan), 0, "%s",
		     name);
	print_exits(out, f, &symbol, &plan);
	fclose(out);
	cr_expect_str_eq(text, row->exits, "%s: %s", name, text);
	cr_expect_eq(plan.calls_itself, row->calls_itself, "%s: calls itself", name);
	cr_expect_eq(plan.switches_stack, row->switches_stack, "%s: switches stack", name);
	cr_expect_eq(plan.entry_is_exit, row->entry_is_exit, "%s: entry is exit", name);
	free(text);
	site_plan__clear(&plan);
	cr_expect_null(plan.exits);
}

static void check_rows(const struct exits_row *table, size_t count, const char *link)
{
	struct fixture f;

	fixture__assemble(&f, table, count, sizeof(*table), link);
	for (size_t i = 0; i < count; i++)
		check_exits_row(&f, &table[i]);
	fixture__close(&f);
}

Test(site_exits, known_answers)
{
	check_rows(exits_rows, sizeof(exits_rows) / sizeof(exits_rows[0]), LINK_SHARED);
}

Test(site_exits, known_answers_at_fixed_addresses)
{
	check_rows(static_rows, sizeof(static_rows) / sizeof(static_rows[0]), LINK_STATIC);
}

/* What this machine's compiler makes of it differs from version to version; that the exits are
 * found, and lie in the function or its cold part, does not. */
Test(site_exits, compiled_cold_part)
{
	struct fixture f;
	struct symbol symbol, cold;
	const struct site_options options = {0};
	struct site_plan plan;
	FILE *out = fixture__create(&f, "t.c");

	fprintf(out, "int work(int), rare(int);\n"
		     "int f(int a)\n{\n\tint r = work(a);\n"
		     "\tif (__builtin_expect(r < 0, 0)) {\n\t\trare(r);\n\t\trare(a);\n"
		     "\t\tif (rare(1)) return rare(r + 1) + 1;\n\t\twork(r);\n\t}\n"
		     "\treturn work(r) + 1;\n}\n");
	fclose(out);
	fixture__run("gcc -O2 -fPIC -freorder-blocks-and-partition -c -o %s/t.o %s/t.c",
		     f.directory);
	fixture__run(LINK_SHARED, f.directory);
	fixture__open(&f);
	symbol = fixture__symbol(&f, "f");
	cr_expect_eq(site_plan(f.image, symbol.vaddr, symbol.size, &options, &plan), 0);
	cr_expect_eq(plan.exits_state, EXITS_KNOWN, "%s", plan.exits_note);
	cr_expect_gt(plan.exits_count, 0);
	for (size_t i = 0; i < plan.exits_count; i++) {
		uint64_t vaddr = plan.exits[i].vaddr;

		if (vaddr - symbol.vaddr < symbol.size)
			continue;
		cold = fixture__symbol(&f, "f.cold");
		cr_expect_lt(vaddr - cold.vaddr, cold.size);
	}
	site_plan__clear(&plan);
	fixture__close(&f);
}

/* Files whose code goes on on another stack, and files that only look like it. */

#if defined(__x86_64__)

struct switch_row {
	struct asm_function function;
	bool switches;
};

#define CODE(label, text) .function = {.name = (label), .code = (text)}

/* clang-format off */
static const struct switch_row switch_rows[] = {
	{CODE("plain", "push %rbp\nmov %rsp,%rbp\nsub $32,%rsp\nmov %rbp,%rsp\npop %rbp\nret\n")},
	{CODE("array", "push %rbp\nmov %rsp,%rbp\nmov %rsp,%rax\nsub %rdi,%rsp\nmov %rax,%rsp\nleave\nret\n")},
	{CODE("spilled", "push %rbp\nmov %rsp,%rbp\nsub $32,%rsp\nmov %rsp,-8(%rbp)\nsub %rdi,%rsp\n"
		      "mov -8(%rbp),%rsp\nleave\nret\n")},
	{CODE("realigned", "lea 8(%rsp),%r10\nand $-32,%rsp\npush -8(%r10)\npush %r10\npop %r10\n"
			"lea -8(%r10),%rsp\nret\n")},
	{CODE("inside_a_constant", "movabs $0x268b48278b48,%rax\nret\n")},
	/* longjmp loads, and saves elsewhere */
	{CODE("load_alone", "mov 160(%r14),%rsp\nret\n")},
	{CODE("load", "mov %rsp,(%rdi)\nmov (%rsi),%rsp\nret\n"), .switches = true},
	{CODE("load_global", "mov %rsp,(%rdi)\nmov 0(%rip),%rsp\nret\n"), .switches = true},
	{CODE("move", "mov %rsp,%rax\nmov %rdi,%rsp\nret\n"), .switches = true},
	{CODE("move_other_encoding", "mov %rsp,%rax\n.byte 0x48,0x8b,0xe7\nret\n"), .switches = true},
	{CODE("xchg_memory", "xchg %rsp,(%rdi)\nret\n"), .switches = true},
	{.function = {.name = "nobody_knows_where", .code = "ret\n",
		      .extra = "\t.p2align 4\n\tmov %rsp,(%rdi)\n\tmov (%rsi),%rsp\n\tret\n"},
	 .switches = true},
};
/* clang-format on */

Test(switches, by_code)
{
	for (size_t i = 0; i < sizeof(switch_rows) / sizeof(switch_rows[0]); i++) {
		struct fixture f;

		fixture__assemble(&f, &switch_rows[i], 1, sizeof(switch_rows[i]), LINK_SHARED);
		cr_expect_eq(image_switches_stacks(f.image, 1 << 20), switch_rows[i].switches, "%s",
			     switch_rows[i].function.name);
		fixture__close(&f);
	}
}

#endif
