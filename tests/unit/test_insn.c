// SPDX-License-Identifier: BSD-2-Clause
/* What the kernel makes of instructions, from their bytes. */
#include "site/insn.h"

#include <criterion/criterion.h>
#include <errno.h>

struct row {
	const char *text;
	uint8_t bytes[15];
	uint8_t length;
	bool emulated, refused;
	enum insn_nop nop;
	uint64_t vaddr;
};

/* clang-format off */
static const struct row rows[] = {
	{.text = "push %rbp", .bytes = {0x55}, .length = 1, .emulated = true},
	{.text = "push %r15", .bytes = {0x41, 0x57}, .length = 2, .emulated = true},
	{.text = "push %ax", .bytes = {0x66, 0x50}, .length = 2},
	{.text = "jmp 8", .bytes = {0xeb, 0x10}, .length = 2, .emulated = true},
	{.text = "jmp 32", .bytes = {0xe9, 1, 0, 0, 0}, .length = 5, .emulated = true},
	{.text = "bnd jmp", .bytes = {0xf2, 0xe9, 1, 0, 0, 0}, .length = 6, .emulated = true},
	{.text = "call", .bytes = {0xe8, 1, 0, 0, 0}, .length = 5, .emulated = true},
	{.text = "je 8", .bytes = {0x74, 0x10}, .length = 2, .emulated = true},
	{.text = "jg 32", .bytes = {0x0f, 0x8f, 1, 0, 0, 0}, .length = 6, .emulated = true},
	{.text = "jne, hint", .bytes = {0x2e, 0x75, 0x10}, .length = 3, .refused = true},
	{.text = "data16 call", .bytes = {0x66, 0xe8, 1, 0, 0, 0}, .length = 6, .refused = true},
	{.text = "jmp *%rax", .bytes = {0xff, 0xe0}, .length = 2},
	{.text = "notrack jmp *%rax", .bytes = {0x3e, 0xff, 0xe0}, .length = 3, .refused = true},
	{.text = "jrcxz", .bytes = {0xe3, 0x10}, .length = 2},
	{.text = "ret", .bytes = {0xc3}, .length = 1},
	{.text = "endbr64", .bytes = {0xf3, 0x0f, 0x1e, 0xfa}, .length = 4},
	{.text = "mov %fs:0,%eax", .bytes = {0x64, 0x8b, 0x04, 0x25, 0, 0, 0, 0}, .length = 8},
	{.text = "nop", .bytes = {0x90}, .length = 1, .nop = NOP_SHORT},
	{.text = "pause", .bytes = {0xf3, 0x90}, .length = 2, .nop = NOP_SHORT},
	{.text = "nopl (%rax)", .bytes = {0x0f, 0x1f, 0x00}, .length = 3, .nop = NOP_LONG},
	{.text = "nopl 1(%rax)", .bytes = {0x0f, 0x1f, 0x40, 0x01}, .length = 4, .nop = NOP_OTHER},
	{.text = "nop5", .bytes = {0x0f, 0x1f, 0x44, 0, 0}, .length = 5, .nop = NOP_FIVE},
	{.text = "nop5 at a page's end", .bytes = {0x0f, 0x1f, 0x44, 0, 0}, .length = 5,
	 .nop = NOP_FIVE, .vaddr = 0xffb},
	{.text = "nop5 over a page's end", .bytes = {0x0f, 0x1f, 0x44, 0, 0}, .length = 5,
	 .nop = NOP_LONG, .vaddr = 0xffc},
	{.text = "nopw, 5 bytes", .bytes = {0x66, 0x0f, 0x1f, 0x40, 0}, .length = 5,
	 .nop = NOP_FIVE_ODD},
	{.text = "xchg %r8,%rax", .bytes = {0x49, 0x90}, .length = 2, .refused = true},
	{.text = "lock incl", .bytes = {0xf0, 0xff, 0x07}, .length = 3, .refused = true},
	{.text = "mov %eax,%ss", .bytes = {0x8e, 0xd0}, .length = 2, .refused = true},
	{.text = "hlt", .bytes = {0xf4}, .length = 1, .refused = true},
	{.text = "int3", .bytes = {0xcc}, .length = 1, .refused = true},
	{.text = "vzeroupper", .bytes = {0xc5, 0xf8, 0x77}, .length = 3, .refused = true},
	{.text = "vpor", .bytes = {0xc5, 0xf1, 0xeb, 0xd0}, .length = 4, .refused = true},
	{.text = "vpxor", .bytes = {0xc5, 0xf9, 0xef, 0xc0}, .length = 4, .refused = true},
	{.text = "vmovdqu", .bytes = {0xc5, 0xfa, 0x6f, 0x07}, .length = 4, .refused = true},
	{.text = "vfnmadd132ss", .bytes = {0xc4, 0xe2, 0x71, 0x9d, 0xd0}, .length = 5,
	 .refused = true},
	{.text = "vxorps", .bytes = {0xc5, 0xf8, 0x57, 0xc0}, .length = 4},
	{.text = "vmovups %zmm", .bytes = {0x62, 0xf1, 0x7c, 0x48, 0x10, 0x07}, .length = 6},
	{.text = "vpord %zmm", .bytes = {0x62, 0xf1, 0x7d, 0x48, 0xeb, 0xc0}, .length = 6,
	 .refused = true},
};
/* clang-format on */

Test(site_uprobes, classes)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		struct insn insn;

		cr_assert_eq(insn_decode(row->bytes, sizeof(row->bytes), row->vaddr, &insn), 0,
			     "%s", row->text);
		cr_expect_eq(insn.length, row->length, "%s: length %d", row->text, insn.length);
		cr_expect_eq(insn.emulated, row->emulated, "%s: emulated", row->text);
		cr_expect_eq(insn.refused, row->refused, "%s: refused", row->text);
		cr_expect_eq(insn.nop, row->nop, "%s: nop %d", row->text, insn.nop);
	}
}

Test(site_uprobes, any_bytes_decode_or_fail)
{
	uint8_t bytes[16];
	struct insn insn;

	srandom(1);
	for (int round = 0; round < 200000; round++) {
		size_t available = (size_t)random() % sizeof(bytes) + 1;
		int err;

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)random();
		err = insn_decode(bytes, available, 0x1000, &insn);
		cr_assert(err == -EILSEQ || (!err && insn.length <= available));
	}
}
