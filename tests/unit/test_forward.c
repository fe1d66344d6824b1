// SPDX-License-Identifier: BSD-2-Clause
#include "site/site.h"

#include "site_fixture.h"

#define PUSH_RBX "push %rbx\n.cfi_def_cfa_offset 16\n"
#define POP_RBX	 "pop %rbx\n.cfi_def_cfa_offset 8\n"
#define SUB_8	 "sub $8,%rsp\n.cfi_def_cfa_offset 16\n"
#define ADD_8	 "add $8,%rsp\n.cfi_def_cfa_offset 8\n"

struct row {
	struct asm_function function;
	enum forward forwards;
	bool passes; /* or only now and then */
};

#define F(name_, code_) .function = {.name = name_, .code = code_}

/* "target" is defined here, "imported" is not. */
static const struct row rows[] = {
	{F("target", "push %rbx\npop %rbx\nret\n"), FORWARD_NO},
	{F("jumps", "jmp imported@plt\n"), FORWARD_JUMPS},
	{F("jumps_here", "jmp target\n"), FORWARD_JUMPS},
	{F("endbr_jumps", "endbr64\njmp imported@plt\n"), FORWARD_JUMPS},
	{F("calls", SUB_8 "call imported@plt\n" ADD_8 "ret\n"), FORWARD_CALLS},
	{F("null", "test %rdi,%rdi\nje 1f\njmp imported@plt\n1: ret\n"), FORWARD_JUMPS},
	{F("null_other_way", "test %rdi,%rdi\njne 1f\nret\n1: jmp imported@plt\n"), FORWARD_JUMPS},
	/* jemalloc's delete of an aligned block of known size */
	{F("null_and_more",
	   "test %rdi,%rdi\nje 1f\n" PUSH_RBX
	   "mov %rdi,%rbx\ncall work@plt\nmov %rbx,%rdi\n" POP_RBX "jmp imported@plt\n1: ret\n"),
	 FORWARD_JUMPS},
	/* libstdc++'s operator new: until it works, or throws */
	{F("retries",
	   PUSH_RBX "1: mov %rdi,%rbx\ncall imported@plt\ntest %rax,%rax\nje 2f\n" POP_RBX "ret\n"
		    "2: .cfi_def_cfa_offset 16\ncall work@plt\ntest %rax,%rax\njne 1b\n"
		    "call __cxa_throw@plt\n"),
	 FORWARD_CALLS},
	/* glibc's reallocarray: fails without */
	{F("overflows",
	   "mov %rsi,%rax\nmul %rdx\njo 1f\njmp imported@plt\n1: xor %eax,%eax\nret\n"),
	 FORWARD_JUMPS},
	{F("own_work", "test %rsi,%rsi\nje 1f\ncall work@plt\nret\n1: jmp imported@plt\n"),
	 FORWARD_NO, true},
	{F("another", "jmp work@plt\n"), FORWARD_NO},
	{F("nothing", "ret\n"), FORWARD_NO},
	{F("pointer", "jmp *(%rsi)\n"), FORWARD_NO},
	{F("not_null_but_second",
	   "test %rsi,%rsi\nje 1f\n" SUB_8 "call work@plt\n" ADD_8 "jmp imported@plt\n1: ret\n"),
	 FORWARD_NO, true},
};

struct others {
	uint64_t target;
};

static bool is_other(uint64_t vaddr, const char *name, void *ctx)
{
	const struct others *others = ctx;

	return vaddr == others->target || (name && !strcmp(name, "imported"));
}

Test(site_forward, known_answers)
{
	struct others others;
	struct fixture f;

	fixture__assemble(&f, rows, sizeof(rows) / sizeof(rows[0]), sizeof(rows[0]), LINK_SHARED);
	others.target = fixture__symbol(&f, "target").vaddr;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct symbol symbol = fixture__symbol(&f, rows[i].function.name);

		cr_expect_eq(forward_decide(f.image, symbol.vaddr, symbol.size, is_other, &others),
			     rows[i].forwards, "%s", symbol.name);
		cr_expect_eq(forward_passes(f.image, symbol.vaddr, symbol.size, is_other, &others),
			     rows[i].forwards != FORWARD_NO || rows[i].passes, "%s", symbol.name);
	}
	fixture__close(&f);
}

Test(site_forward, unknown_size_proves_nothing)
{
	struct others others = {0};
	struct fixture f;

	fixture__assemble(&f, &rows[1], 1, sizeof(rows[0]), LINK_SHARED);
	cr_expect_eq(forward_decide(f.image, fixture__symbol(&f, "jumps").vaddr, 0, is_other,
				    &others),
		     0);
	cr_expect_lt(forward_passes(f.image, fixture__symbol(&f, "jumps").vaddr, 0, is_other,
				    &others),
		     0);
	fixture__close(&f);
}
