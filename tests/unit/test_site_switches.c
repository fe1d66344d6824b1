// SPDX-License-Identifier: BSD-2-Clause
/* Files whose code goes on on another stack, and files that only look like it. */
#include "site/switches.h"

#include "site_fixture.h"

#if defined(__x86_64__)

struct row {
	struct asm_function function;
	bool switches;
};

#define F(label, text) .function = {.name = (label), .code = (text)}

/* clang-format off */
static const struct row rows[] = {
	{F("plain", "push %rbp\nmov %rsp,%rbp\nsub $32,%rsp\nmov %rbp,%rsp\npop %rbp\nret\n")},
	{F("array", "push %rbp\nmov %rsp,%rbp\nmov %rsp,%rax\nsub %rdi,%rsp\nmov %rax,%rsp\nleave\nret\n")},
	{F("spilled", "push %rbp\nmov %rsp,%rbp\nsub $32,%rsp\nmov %rsp,-8(%rbp)\nsub %rdi,%rsp\n"
		      "mov -8(%rbp),%rsp\nleave\nret\n")},
	{F("realigned", "lea 8(%rsp),%r10\nand $-32,%rsp\npush -8(%r10)\npush %r10\npop %r10\n"
			"lea -8(%r10),%rsp\nret\n")},
	{F("inside_a_constant", "movabs $0x268b48278b48,%rax\nret\n")},
	/* longjmp loads, and saves elsewhere */
	{F("load_alone", "mov 160(%r14),%rsp\nret\n")},
	{F("load", "mov %rsp,(%rdi)\nmov (%rsi),%rsp\nret\n"), .switches = true},
	{F("load_global", "mov %rsp,(%rdi)\nmov 0(%rip),%rsp\nret\n"), .switches = true},
	{F("move", "mov %rsp,%rax\nmov %rdi,%rsp\nret\n"), .switches = true},
	{F("move_other_encoding", "mov %rsp,%rax\n.byte 0x48,0x8b,0xe7\nret\n"), .switches = true},
	{F("xchg_memory", "xchg %rsp,(%rdi)\nret\n"), .switches = true},
	{.function = {.name = "nobody_knows_where", .code = "ret\n",
		      .extra = "\t.p2align 4\n\tmov %rsp,(%rdi)\n\tmov (%rsi),%rsp\n\tret\n"},
	 .switches = true},
};
/* clang-format on */

Test(switches, by_code)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture f;

		fixture__assemble(&f, &rows[i], 1, sizeof(rows[i]), LINK_SHARED);
		cr_expect_eq(image_switches_stacks(f.image, 1 << 20), rows[i].switches, "%s",
			     rows[i].function.name);
		fixture__close(&f);
	}
}

#endif
