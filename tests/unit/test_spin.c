// SPDX-License-Identifier: BSD-2-Clause
/* Loops that only wait, beside those that compute, as compilers write them. */
#include "site/insn.h"
#include "site/spin.h"

#include "site_fixture.h"

struct loop {
	struct asm_function function;
	unsigned waits; /* instructions of it that are in a loop that only waits */
};

#define LOOP(function_name, function_code) \
	.function = {.name = function_name, .code = function_code}

static const struct loop loops[] = {
	/* while (!atomic_load(&flag)) pause(); */
	{LOOP("pause", "jmp 2f\n1: pause\n2: mov 64(%rdi), %eax\ntest %eax, %eax\nje 1b\nret\n"),
	 .waits = 4},
	/* libgomp's do_spin, which gives up after some rounds */
	{LOOP("rounds", "1: mov (%rdi), %eax\ncmp %esi, %eax\njne 2f\nadd $1, %rdx\n"
			"pause\ncmp %rcx, %rdx\njb 1b\n2: ret\n"),
	 .waits = 7},
	/* while (!flag); compiled without and with optimization */
	{LOOP("load", "nop\n1: mov 64(%rip), %eax\ntest %eax, %eax\nje 1b\nret\n"), .waits = 3},
	{LOOP("compare", "1: cmpl $0, (%rdi)\nje 1b\nret\n"), .waits = 2},
	{LOOP("byte", "1: movzbl (%rdi,%rsi), %eax\nxor $1, %eax\ntest %al, %al\njne 1b\nret\n"),
	 .waits = 4},
	/* while (atomic_exchange(&lock, 1)); and one that waits for the lock to be free first */
	{LOOP("exchange", "1: mov $1, %eax\nxchg %eax, (%rdi)\ntest %eax, %eax\njne 1b\nret\n"),
	 .waits = 4},
	{LOOP("test_and_set", "1: mov $1, %eax\nxchg %al, (%rdi)\ntest %al, %al\nje 3f\n"
			      "2: movzbl (%rdi), %eax\ntest %al, %al\njne 2b\njmp 1b\n3: ret\n"),
	 .waits = 3},
	/* until a time */
	{LOOP("time", "1: rdtsc\nshl $32, %rdx\nor %rdx, %rax\ncmp %rsi, %rax\njb 1b\nret\n"),
	 .waits = 5},

	/* what computes: a sum, a product by division, a search, a list, a count */
	{LOOP("sum", "1: add (%rdi), %rax\nadd $8, %rdi\ncmp %rsi, %rdi\njne 1b\nret\n")},
	{LOOP("sum_at", "1: add (%rdi), %rax\ncmp %rsi, %rax\njb 1b\nret\n")},
	{LOOP("divide",
	      "1: mov %rcx, %rax\ncqo\nidivq (%rsi)\nmov %rax, %rcx\ndec %edi\njne 1b\nret\n")},
	{LOOP("length", "1: cmpb $0, 1(%rax)\nlea 1(%rax), %rax\njne 1b\nret\n")},
	{LOOP("list", "1: mov (%rdi), %rdi\ntest %rdi, %rdi\njne 1b\nret\n")},
	{LOOP("countdown", "1: sub $1, %rdi\njne 1b\nret\n")},
	{LOOP("fill", "1: mov %rsi, (%rdi)\nadd $8, %rdi\ncmp %rdx, %rdi\njne 1b\nret\n")},
	{LOOP("fill_at", "1: mov (%rsi), %eax\nmov %eax, (%rdi)\ntest %eax, %eax\njne 1b\nret\n")},
	{LOOP("root", "1: sqrtsd (%rdi), %xmm0\ncmpl $0, (%rsi)\nje 1b\nret\n")},
	{LOOP("add_float", "1: mov %ecx, %eax\nlock cmpxchg %edx, (%rdi)\njne 1b\nret\n")},
	{LOOP("calls", "1: cmpl $0, (%rdi)\nje 2f\ncall calls\n2: jmp 1b\n")},
	{LOOP("sometimes", "1: mov (%rdi), %ecx\ntest %ecx, %ecx\nje 2f\nmov (%rsi), %eax\n"
			   "2: test %eax, %eax\nje 1b\nret\n")},
	{LOOP("forever", "1: jmp 1b\n")},
	{LOOP("scan", "1: rep scasb\njne 1b\nret\n")},
	{LOOP("no_loop", "mov (%rdi), %eax\ntest %eax, %eax\nje 1f\nret\n1: ud2\n")},
};
#define LOOPS (sizeof(loops) / sizeof(loops[0]))

static unsigned count_waits(const struct image *image, const struct symbol *symbol)
{
	size_t available;
	const uint8_t *code = image__code(image, symbol->vaddr, &available);
	unsigned count = 0;
	struct insn insn;

	for (size_t at = 0; at < symbol->size; at += insn.length) {
		cr_assert_eq(insn_decode(code + at, symbol->size - at, at, &insn), 0);
		count += spin_loop_at(code, symbol->size, at);
	}
	return count;
}

Test(spin, loops_that_only_wait)
{
	struct fixture f;

	fixture__assemble(&f, loops, LOOPS, sizeof(loops[0]), LINK_SHARED);
	for (size_t i = 0; i < LOOPS; i++) {
		struct symbol symbol = fixture__symbol(&f, loops[i].function.name);
		unsigned waits = count_waits(f.image, &symbol);

		cr_expect_eq(waits, loops[i].waits, "%s: %u", symbol.name, waits);
	}
	fixture__close(&f);
}

/* Code may end anywhere, and be anything. */
Test(spin, bytes_that_are_cut_or_no_code)
{
	const uint8_t wait[] = {0xf3, 0x90, 0x8b, 0x07, 0x85, 0xc0, 0x74, 0xf8},
		      bad[] = {0x06, 0x06};
	const uint8_t back[] = {0xeb, 0x80};

	cr_expect(spin_loop_at(wait, sizeof(wait), 2));
	for (size_t size = 0; size < sizeof(wait); size++)
		cr_expect_not(spin_loop_at(wait, size, 2));
	cr_expect_not(spin_loop_at(wait, sizeof(wait), 100));
	cr_expect_not(spin_loop_at(bad, sizeof(bad), 0));
	cr_expect_not(spin_loop_at(back, sizeof(back), 0));
}
