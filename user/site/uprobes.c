// SPDX-License-Identifier: BSD-2-Clause
/*
 * The kernel decides by prefixes and by the first opcode byte alone. For an instruction with a
 * VEX or EVEX prefix it takes the opcode byte behind that prefix and looks it up in the one-byte
 * map, where it means something else. Tried on 6.18: vpor (c5 f5 eb) is taken for a jmp to the
 * next instruction, emulated as such, and its result is missing; vzeroupper (77) likewise for a
 * ja; after vfnmadd132ss (9d), taken for popf, the trap flag stays set and the program dies of
 * SIGTRAP. The kernel does not refuse these probes, so we do. The same holds for 49 90
 * (xchg %rax,%r8), which it takes for a nop.
 */
#include "site/uprobes.h"

#include <string.h>

#define PAGE_BYTES 4096

struct encoding {
	bool lock, segment, operand16, vector;
	uint8_t rex, opcode, second;
};

static bool is_legacy_prefix(uint8_t byte)
{
	switch (byte) {
	case 0x26:
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x64:
	case 0x65:
	case 0x66:
	case 0x67:
	case 0xf0:
	case 0xf2:
	case 0xf3:
		return true;
	}
	return false;
}

/* The caller has decoded the instruction, so the bytes looked at here exist. */
static struct encoding encoding_of(const uint8_t *code, uint8_t length)
{
	struct encoding e = {0};
	unsigned at = 0;

	for (; at < length && is_legacy_prefix(code[at]); at++) {
		e.lock |= code[at] == 0xf0;
		/* fs and gs are accepted, es, cs, ss, ds (branch hints, notrack) are not */
		e.segment |= code[at] < 0x40;
		e.operand16 |= code[at] == 0x66;
	}
	if (at < length && (code[at] & 0xf0) == 0x40)
		e.rex = code[at++];
	if (at + 1 >= length) {
		e.opcode = code[length - 1];
		return e;
	}
	e.opcode = code[at];
	e.second = code[at + 1];
	switch (e.opcode) {
	case 0xc5:
		at += 2;
		break;
	case 0xc4:
		at += 3;
		break;
	case 0x62:
		at += 4;
		break;
	default:
		return e;
	}
	e.vector = true;
	e.opcode = at < length ? code[at] : 0x62;
	return e;
}

/* Opcodes missing in the kernel's table for 64-bit programs: invalid ones, port I/O, int, iret,
 * hlt, cli, sti. */
static bool opcode_refused(uint8_t opcode)
{
	switch (opcode) {
	case 0x06 ... 0x07:
	case 0x0e:
	case 0x16 ... 0x17:
	case 0x1e ... 0x1f:
	case 0x27:
	case 0x2f:
	case 0x37:
	case 0x3f:
	case 0x60 ... 0x62:
	case 0x6c ... 0x6f:
	case 0x82:
	case 0x9a:
	case 0xcc ... 0xcf:
	case 0xd4 ... 0xd6:
	case 0xe4 ... 0xe7:
	case 0xea:
	case 0xec ... 0xef:
	case 0xf1:
	case 0xf4:
	case 0xfa ... 0xfb:
		return true;
	}
	return false;
}

/* Vector opcodes that mean a branch, nop, popf, ret or call in the one-byte map. */
static bool vector_mistaken(uint8_t opcode)
{
	switch (opcode) {
	case 0x70 ... 0x7f:
	case 0x90:
	case 0x9d:
	case 0xc2:
	case 0xc3:
	case 0xca:
	case 0xcb:
	case 0xe8:
	case 0xe9:
	case 0xeb:
	case 0xff:
		return true;
	}
	return false;
}

static bool is_branch(const struct encoding *e)
{
	switch (e->opcode) {
	case 0xe8:
	case 0xe9:
	case 0xeb:
	case 0x70 ... 0x7f:
		return true;
	case 0x0f:
		return (e->second & 0xf0) == 0x80;
	}
	return false;
}

/* mov to %ss masks the trap after the next instruction, which single-stepping would miss. */
static bool masks_trap(const struct encoding *e)
{
	return e->opcode == 0x8e && (e->second & 0x38) == 0x10;
}

static bool is_push(const struct encoding *e, uint8_t length)
{
	if (e->opcode < 0x50 || e->opcode > 0x57)
		return false;
	return length == 1 || (length == 2 && e->rex == 0x41);
}

static bool is_recommended_nop(const uint8_t *code, uint8_t length)
{
	static const uint8_t forms[][8] = {
		[3] = {0x0f, 0x1f, 0x00},
		[4] = {0x0f, 0x1f, 0x40, 0x00},
		[5] = {0x0f, 0x1f, 0x44, 0x00, 0x00},
		[6] = {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00},
		[7] = {0x0f, 0x1f, 0x80},
		[8] = {0x0f, 0x1f, 0x84},
	};

	return length >= 3 && length <= 8 && memcmp(code, forms[length], length) == 0;
}

static enum insn_nop nop_kind(const struct encoding *e, const uint8_t *code,
			      const struct insn *insn)
{
	bool is_short = e->opcode == 0x90;
	bool is_long = e->opcode == 0x0f && e->second == 0x1f;

	if (!is_short && !is_long)
		return NOP_NO;
	if (insn->length == 5 && insn->vaddr % PAGE_BYTES <= PAGE_BYTES - 5)
		return is_recommended_nop(code, 5) ? NOP_FIVE : NOP_FIVE_ODD;
	if (is_short)
		return NOP_SHORT;
	return is_recommended_nop(code, insn->length) ? NOP_LONG : NOP_OTHER;
}

void uprobes_classify(const uint8_t *code, struct insn *insn)
{
	struct encoding e = encoding_of(code, insn->length);

	insn->emulated = false;
	insn->nop = NOP_NO;
	insn->refused = e.lock || e.segment || opcode_refused(e.opcode);
	if (insn->refused)
		return;
	if (e.vector) {
		insn->refused = vector_mistaken(e.opcode);
	} else if (is_branch(&e)) {
		/* Intel and AMD differ about a 16-bit branch, so the kernel takes none. */
		insn->refused = e.operand16;
		insn->emulated = !e.operand16;
	} else if (e.opcode == 0x90 && (e.rex & 1)) {
		insn->refused = true;
	} else if (masks_trap(&e)) {
		insn->refused = true;
	} else if (is_push(&e, insn->length)) {
		insn->emulated = true;
	} else {
		insn->nop = nop_kind(&e, code, insn);
	}
}
