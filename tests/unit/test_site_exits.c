// SPDX-License-Identifier: BSD-2-Clause
/*
 * Exits, as text: "+14 branch if-not-taken/5 rsp+32" is a branch 14 bytes into the function at
 * which a call leaves when condition 5 (ne) does not hold. "cold+3" counts from the cold part.
 */
#include "decode/names.h"
#include "site/site.h"

#include "site_fixture.h"

#include <errno.h>

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
static const struct exits_row rows[] = {
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
	 .exits = "+14 stepped always rsp+8"},
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
	 .exits = "? the kernel takes no probe on an exit"},
	{F("tail_odd", "xor %rdi,%rsi\njmp *%rsi\n"),
	 .exits = "? has an indirect jump that can not be followed"},

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
	 .exits = "? jumps out with a frame that its target does not have"},

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
	{F("runs_on", "mov %rdi,%rax\n"), .exits = "? runs on into the code behind it"},
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
	 .exits = "? has bytes that are no instructions"},
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

static void check_row(struct fixture *f, const struct exits_row *row)
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
		check_row(&f, &table[i]);
	fixture__close(&f);
}

Test(site_exits, known_answers)
{
	check_rows(rows, sizeof(rows) / sizeof(rows[0]), LINK_SHARED);
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
