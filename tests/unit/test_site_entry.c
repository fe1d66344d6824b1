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
	 .kind = SITE_STEPPED, .note = "the function loops to its entry", .repeats = true},
	/* a spin lock: the entry is refused, and what stands for it repeats as well */
	{F("spin", "1: lock decl (%rdi)\njne 1b\nret\n"), .offset = 3, .kind = SITE_BRANCH,
	 .repeats = true},
	{F("computed_goto",
	   "mov %rdi,%rax\npush %rbx\n.cfi_def_cfa_offset 16\njmp *%rsi\npop %rbx\nret\n"),
	 .kind = SITE_STEPPED,
	 .note = "an indirect jump could lead into the first instructions"},
	{F("no_code", "mov %rdi,%rax\npush %rbx\n.byte 0x06\nret\n"), .kind = SITE_STEPPED,
	 .note = "has bytes that are no instructions"},
	{F("no_code_push", "push %rbx\n.byte 0x06\nret\n"), .kind = SITE_PUSH},
	{F("into_insn", "mov %rdi,%rax\njmp .+3\nmov $1,%eax\nret\n"), .kind = SITE_STEPPED,
	 .note = "jumps into the middle of an instruction"},
	{F("lock", "lock incl (%rdi)\npush %rbx\npop %rbx\nret\n"), .offset = 3,
	 .kind = SITE_PUSH},
	{F("lock_stepped", "lock incl (%rdi)\nmov %rdi,%rax\nret\n"), .offset = 3,
	 .kind = SITE_STEPPED, .note = "the first instructions branch away"},
	{F("lock_only", "lock incl (%rdi)\nhlt\n"), .kind = SITE_STEPPED, .err = -ENOTSUP,
	 .note = "the kernel takes no probe on the first instructions"},
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
	 .options.entry_only = true, .kind = SITE_STEPPED, .note = "asked for"},
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
