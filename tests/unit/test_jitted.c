// SPDX-License-Identifier: BSD-2-Clause
#include "plan/jitted.h"

#include <criterion/criterion.h>

/* xla::PjRtCpuExecutable::name() of jaxlib 0.10.2, to where its ways part. */
static const uint8_t name[] = {
	0x55,						/* push %rbp */
	0x48, 0x89, 0xe5,				/* mov %rsp,%rbp */
	0x41, 0x57, 0x41, 0x56, 0x53, 0x50,		/* push … */
	0x48, 0x8b, 0x8f, 0x08, 0x0b, 0x00, 0x00,	/* mov 0xb08(%rdi),%rcx */
	0x48, 0x8b, 0x41, 0x08,				/* mov 0x8(%rcx),%rax */
	0x48, 0x8b, 0x59, 0x10,				/* mov 0x10(%rcx),%rbx */
	0x48, 0x85, 0xdb,				/* test %rbx,%rbx */
	0x74, 0x0f,					/* je */
	0x48, 0x83, 0x3d, 0xb2, 0xaf, 0x80, 0x06, 0x00, /* cmpq $0,…(%rip) */
	0x75, 0x0f,					/* jne */
	0xff, 0x43, 0x08,				/* incl 0x8(%rbx) */
	0xeb, 0x0e,					/* jmp */
	0x48, 0x8b, 0x50, 0x08,				/* mov 0x8(%rax),%rdx */
	0x48, 0x8b, 0x40, 0x10,				/* mov 0x10(%rax),%rax */
	0xeb, 0x7c,					/* jmp */
};

/* xla::PjRtCpuLoadedExecutable::GetExecutable() */
static const uint8_t executable[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x87,
				     0xe8, 0x00, 0x00, 0x00, 0x5d, 0xc3};

Test(accessor, text_behind_two_pointers)
{
	struct accessor found;

	cr_assert(accessor_of_text(name, sizeof(name), &found));
	cr_assert_eq(found.count, 3);
	cr_assert_eq(found.steps[0], 0xb08);
	cr_assert_eq(found.steps[1], 8);
	cr_assert_eq(found.steps[2], 8);
}

Test(accessor, pointer)
{
	struct accessor found;

	cr_assert(accessor_of_pointer(executable, sizeof(executable), &found));
	cr_assert_eq(found.count, 1);
	cr_assert_eq(found.steps[0], 0xe8);
}

Test(accessor, what_is_not_understood)
{
	/* mov %rsi,%rax ; ret — not from `this` */
	static const uint8_t other[] = {0x48, 0x89, 0xf0, 0xc3};
	/* mov 0x8(%rdi),%rax ; xor %eax,%eax ; ret */
	static const uint8_t cleared[] = {0x48, 0x8b, 0x47, 0x08, 0x31, 0xc0, 0xc3};
	/* mov %rdi,%rax ; ret: itself */
	static const uint8_t itself[] = {0x48, 0x89, 0xf8, 0xc3};
	struct accessor found;

	cr_assert_not(accessor_of_pointer(other, sizeof(other), &found));
	cr_assert_not(accessor_of_pointer(cleared, sizeof(cleared), &found));
	cr_assert_not(accessor_of_pointer(itself, sizeof(itself), &found));
	cr_assert_not(accessor_of_text(executable, sizeof(executable), &found));
	for (size_t size = 0; size < sizeof(name) - 6; size++)
		cr_assert_not(accessor_of_text(name, size, &found), "%zu", size);
}
