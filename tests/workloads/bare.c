/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions in assembler without type and size. */
#include "known.h"

#define CALLS 3000

#if defined(__x86_64__)
#define BODY "	push %rbp\n	mov %rdi, %rax\n	pop %rbp\n	ret\n"
#elif defined(__aarch64__)
#define BODY "	stp x29, x30, [sp, #-16]!\n	ldp x29, x30, [sp], #16\n	ret\n"
#else
#error "write the functions for this architecture"
#endif

__asm__(".pushsection .text\n"
	"bare_first:\n" BODY "bare_second:\n" BODY ".popsection\n");

long bare_first(long x);
long bare_second(long x);

static void scenario(void)
{
	for (long i = 0; i < CALLS; i++) {
		known_require(bare_first(i) == i, "bare_first");
		if (i % 3 == 0)
			known_require(bare_second(i) == i, "bare_second");
	}
}

int main(void)
{
	uint64_t runs = known_main(scenario);

	known_expect("bare_first", "calls", runs * CALLS);
	known_expect("bare_second", "calls", runs * CALLS / 3);
	return 0;
}
