// SPDX-License-Identifier: BSD-2-Clause
#include "site/insn.h"

#include "base/grow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <Zydis/Zydis.h>

/*
 * Part one: how the kernel's x86 uprobes treat the instruction under a probe
 * (arch/x86/kernel/uprobes.c, 5.15 to 6.18): emulate it in the trap, single-step a copy of it, or
 * refuse the probe.
 *
 * The kernel decides by prefixes and by the first opcode byte alone. For an instruction with a
 * VEX or EVEX prefix it takes the opcode byte behind that prefix and looks it up in the one-byte
 * map, where it means something else. Tried on 6.18: vpor (c5 f5 eb) is taken for a jmp to the
 * next instruction, emulated as such, and its result is missing; vzeroupper (77) likewise for a
 * ja; after vfnmadd132ss (9d), taken for popf, the trap flag stays set and the program dies of
 * SIGTRAP. The kernel does not refuse these probes, so we do. The same holds for 49 90
 * (xchg %rax,%r8), which it takes for a nop.
 */

#define PAGE_BYTES 4096

struct encoding {
	bool lock, segment, operand16, vector;
	uint8_t rex, opcode, second;
};

/* The caller has decoded the instruction, so these bytes exist. */
static struct encoding encoding_of(const uint8_t *code, uint8_t length)
{
	static const uint8_t prefixes[] = {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65,
					   0x66, 0x67, 0xf0, 0xf2, 0xf3};
	struct encoding e = {0};
	unsigned at = 0;

	for (; at < length && memchr(prefixes, code[at], sizeof(prefixes)); at++) {
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
	static const uint8_t refused[] = {0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27,
					  0x2f, 0x37, 0x3f, 0x60, 0x61, 0x62, 0x6c, 0x6d,
					  0x6e, 0x6f, 0x82, 0x9a, 0xcc, 0xcd, 0xce, 0xcf,
					  0xd4, 0xd5, 0xd6, 0xe4, 0xe5, 0xe6, 0xe7, 0xea,
					  0xec, 0xed, 0xee, 0xef, 0xf1, 0xf4, 0xfa, 0xfb};

	return memchr(refused, opcode, sizeof(refused));
}

/* Vector opcodes that mean a branch, nop, popf, ret or call in the one-byte map. */
static bool vector_mistaken(uint8_t opcode)
{
	static const uint8_t mistaken[] = {0x90, 0x9d, 0xc2, 0xc3, 0xca,
					   0xcb, 0xe8, 0xe9, 0xeb, 0xff};

	return (opcode & 0xf0) == 0x70 || memchr(mistaken, opcode, sizeof(mistaken));
}

static bool is_branch(const struct encoding *e)
{
	return e->opcode == 0xe8 || e->opcode == 0xe9 || e->opcode == 0xeb ||
	       (e->opcode & 0xf0) == 0x70 || (e->opcode == 0x0f && (e->second & 0xf0) == 0x80);
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

/* From the bytes of a decoded instruction: sets emulated, refused, nop. */
static void uprobes_classify(const uint8_t *code, struct insn *insn)
{
	struct encoding e = encoding_of(code, insn->length);

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
	} else if (e.opcode == 0x8e && (e.second & 0x38) == 0x10) {
		/* mov to %ss masks the next trap, so single-stepping would miss it */
		insn->refused = true;
	} else if ((e.opcode & 0xf8) == 0x50 &&
		   (insn->length == 1 || (insn->length == 2 && e.rex == 0x41))) {
		insn->emulated = true; /* push */
	} else if (e.opcode == 0x90 || (e.opcode == 0x0f && e.second == 0x1f)) {
		bool recommended = is_recommended_nop(code, insn->length);

		if (insn->length == 5 && insn->vaddr % PAGE_BYTES <= PAGE_BYTES - 5)
			insn->nop = recommended ? NOP_FIVE : NOP_FIVE_ODD;
		else if (e.opcode == 0x90)
			insn->nop = NOP_SHORT;
		else
			insn->nop = recommended ? NOP_LONG : NOP_OTHER;
	}
}

/* Part two: decoding. */

struct decoded {
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operand[ZYDIS_MAX_OPERAND_COUNT];
};

enum trait {
	STOPS = 1 << 0, /* the next instruction is not reached */
	MOVES = 1 << 1,
	STORES = 1 << 2,  /* moves, and compilers store results with it */
	ZEROES = 1 << 3,  /* if both operands are the same register */
	ADJUSTS = 1 << 4, /* may move the stack pointer by a constant */
	COMPARES = 1 << 5,
	SUBTRACTS = 1 << 6, /* with a lock prefix; add and xadd take a negative number */
	SETS = 1 << 7,	    /* one register, from the stack or an address */
	EPILOGUE = 1 << 8   /* part of an epilogue, whatever its operands are */
};

/* clang-format off */
#define ROW(mnemonic, traits) [ZYDIS_MNEMONIC_##mnemonic] = (traits)
static const uint16_t mnemonic_traits[ZYDIS_MNEMONIC_MAX_VALUE + 1] = {
	ROW(UD0, STOPS), ROW(UD1, STOPS), ROW(UD2, STOPS), ROW(HLT, STOPS), ROW(INT3, STOPS),
	ROW(IRETQ, STOPS), ROW(IRETD, STOPS), ROW(SYSRET, STOPS),
	ROW(MOV, MOVES | STORES), ROW(MOVQ, MOVES | STORES), ROW(MOVAPS, MOVES | STORES),
	ROW(MOVUPS, MOVES | STORES), ROW(MOVDQA, MOVES | STORES), ROW(MOVDQU, MOVES | STORES),
	ROW(MOVZX, MOVES), ROW(MOVSX, MOVES), ROW(MOVSXD, MOVES), ROW(MOVD, MOVES),
	ROW(MOVSS, MOVES), ROW(MOVSD, MOVES), ROW(MOVAPD, MOVES), ROW(MOVHPS, MOVES),
	ROW(MOVHPD, MOVES), ROW(VMOVD, MOVES), ROW(VMOVQ, MOVES), ROW(VMOVSS, MOVES),
	ROW(VMOVSD, MOVES), ROW(VMOVAPS, MOVES), ROW(VMOVAPD, MOVES), ROW(VMOVUPS, MOVES),
	ROW(VMOVDQA, MOVES), ROW(VMOVDQU, MOVES),
	ROW(XOR, ZEROES | COMPARES), ROW(XORPS, ZEROES), ROW(XORPD, ZEROES), ROW(PXOR, ZEROES),
	ROW(VXORPS, ZEROES), ROW(VXORPD, ZEROES), ROW(VPXOR, ZEROES),
	ROW(ADD, ADJUSTS | SUBTRACTS), ROW(SUB, ADJUSTS | SUBTRACTS | COMPARES),
	ROW(DEC, SUBTRACTS), ROW(XADD, SUBTRACTS), ROW(CMP, COMPARES),
	ROW(POP, SETS), ROW(LEA, SETS),
	ROW(LEAVE, EPILOGUE), ROW(NOP, EPILOGUE), ROW(ENDBR64, EPILOGUE),
	ROW(VZEROUPPER, EPILOGUE), ROW(CDQE, EPILOGUE)
};
#undef ROW
/* clang-format on */

/* 8- to 64-bit names of a general register are one register; the high bytes (ah) too. */
static uint8_t reg_number(ZydisRegister reg)
{
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	if (reg == ZYDIS_REGISTER_RIP)
		return REG_RIP;
	if (ZydisRegisterGetClass(whole) != ZYDIS_REGCLASS_GPR64)
		return REG_NONE;
	return (uint8_t)ZydisRegisterGetId(whole);
}

static bool is_reg(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_REGISTER;
}

static bool is_memory(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_MEMORY;
}

static bool is_immediate(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
}

static void set_memory(const struct decoded *d, struct insn *insn)
{
	for (unsigned i = 0; i < d->insn.operand_count_visible; i++) {
		const ZydisDecodedOperand *operand = &d->operand[i];

		if (!is_memory(operand))
			continue;
		insn->has_memory = true;
		insn->base = reg_number(operand->mem.base);
		insn->index = reg_number(operand->mem.index);
		insn->scale = operand->mem.scale;
		insn->mem_bytes = (uint8_t)(operand->size / 8);
		insn->displacement = operand->mem.disp.value;
		insn->reads_canary = operand->mem.segment == ZYDIS_REGISTER_FS &&
				     operand->mem.base == ZYDIS_REGISTER_NONE &&
				     operand->mem.disp.value == 0x28;
		if (insn->base == REG_RIP)
			insn->target = insn->vaddr + insn->length + (uint64_t)insn->displacement;
		return;
	}
}

/* The relative operand of a direct branch or call; false: it has none. */
static bool set_target(const struct decoded *d, struct insn *insn)
{
	const ZydisDecodedOperand *operand = &d->operand[0];

	if (!is_immediate(operand) || !operand->imm.is_relative)
		return false;
	insn->target = insn->vaddr + insn->length + operand->imm.value.u;
	return true;
}

static void set_flow(const struct decoded *d, struct insn *insn)
{
	insn->flow = FLOW_NEXT;
	insn->condition = CONDITION_NONE;
	switch (d->insn.meta.category) {
	case ZYDIS_CATEGORY_RET:
		insn->flow = d->insn.mnemonic == ZYDIS_MNEMONIC_RET ? FLOW_RET : FLOW_STOP;
		break;
	case ZYDIS_CATEGORY_CALL:
		insn->flow = set_target(d, insn) ? FLOW_CALL : FLOW_CALL_INDIRECT;
		break;
	case ZYDIS_CATEGORY_UNCOND_BR:
		insn->flow = set_target(d, insn) ? FLOW_JMP : FLOW_JMP_INDIRECT;
		break;
	case ZYDIS_CATEGORY_COND_BR:
		set_target(d, insn);
		insn->flow = FLOW_JCC;
		if (insn->emulated)
			insn->condition = d->insn.opcode & 0xf;
		break;
	default:
		break;
	}
	if (mnemonic_traits[d->insn.mnemonic] & STOPS)
		insn->flow = FLOW_STOP;
	if (d->insn.mnemonic == ZYDIS_MNEMONIC_XBEGIN) {
		set_target(d, insn);
		insn->flow = FLOW_JCC;
	}
	insn->enters_kernel = d->insn.meta.category == ZYDIS_CATEGORY_SYSCALL ||
			      d->insn.meta.category == ZYDIS_CATEGORY_INTERRUPT;
	insn->repeats = d->insn.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE |
					      ZYDIS_ATTRIB_HAS_REPNE) &&
			insn->flow == FLOW_NEXT;
}

static void set_move(const struct decoded *d, struct insn *insn)
{
	const ZydisDecodedOperand *to = &d->operand[0], *from = &d->operand[1];

	if (is_reg(to) && is_reg(from)) {
		insn->op = OP_MOVE;
		insn->moves_all = to->size == 64;
		insn->dst = reg_number(to->reg.value);
		insn->src = reg_number(from->reg.value);
	} else if (is_reg(to) && is_memory(from)) {
		insn->op = OP_LOAD;
		insn->dst = reg_number(to->reg.value);
	} else if (is_memory(to) && is_reg(from) && insn->base == REG_RSP &&
		   insn->index == REG_NONE && insn->displacement == 0) {
		insn->op = OP_STORE_TOP;
	}
}

static void set_op(const struct decoded *d, struct insn *insn)
{
	const ZydisDecodedOperand *operand = d->operand;

	insn->op = OP_OTHER;
	switch (d->insn.mnemonic) {
	case ZYDIS_MNEMONIC_MOV:
	case ZYDIS_MNEMONIC_MOVSXD:
	case ZYDIS_MNEMONIC_MOVZX:
	case ZYDIS_MNEMONIC_MOVSX:
		set_move(d, insn);
		break;
	case ZYDIS_MNEMONIC_LEA:
		insn->op = OP_LEA;
		insn->dst = reg_number(operand[0].reg.value);
		break;
	case ZYDIS_MNEMONIC_ADD:
		if (!is_reg(&operand[0]) || !is_reg(&operand[1]))
			break;
		insn->op = OP_ADD;
		insn->dst = reg_number(operand[0].reg.value);
		insn->src = reg_number(operand[1].reg.value);
		break;
	case ZYDIS_MNEMONIC_CDQE:
		insn->op = OP_WIDEN;
		insn->dst = REG_RAX;
		break;
	case ZYDIS_MNEMONIC_CMP:
		if (!is_immediate(&operand[1]))
			break;
		insn->op = OP_COMPARE;
		if (is_reg(&operand[0]))
			insn->src = reg_number(operand[0].reg.value);
		insn->value = operand[1].imm.value.s;
		break;
	case ZYDIS_MNEMONIC_PUSH:
		insn->op = OP_PUSH;
		break;
	case ZYDIS_MNEMONIC_JMP:
	case ZYDIS_MNEMONIC_CALL:
		if (is_reg(&operand[0]))
			insn->src = reg_number(operand[0].reg.value);
		break;
	default:
		break;
	}
}

static bool is_own_frame(const struct insn *insn)
{
	return insn->has_memory && insn->index == REG_NONE &&
	       (insn->base == REG_RSP || insn->base == REG_RBP);
}

/*
 * What compilers put between the last decision of a function and its ret: a probe on that
 * decision misses these few cycles of the call's time and nothing else.
 */
static bool belongs_to_epilogue(const struct decoded *d, const struct insn *insn)
{
	const ZydisDecodedOperand *to = &d->operand[0], *from;
	unsigned traits = mnemonic_traits[d->insn.mnemonic], count = d->insn.operand_count_visible;

	if (traits & EPILOGUE)
		return true;
	if (!count || !is_reg(to))
		return false;
	from = &d->operand[count - 1];
	if (traits & ADJUSTS)
		return is_immediate(from) && reg_number(to->reg.value) == REG_RSP;
	/* restores a saved register, or puts the result in place */
	if (traits & MOVES && count >= 2)
		return is_reg(from) || is_immediate(from) || is_own_frame(insn);
	if (traits & ZEROES && count >= 2)
		return is_reg(from) && to->reg.value == from->reg.value;
	return traits & SETS;
}

/* Loads of rsp that set_move() does not show. */
static bool loads_rsp_oddly(const struct decoded *d)
{
	return d->insn.mnemonic == ZYDIS_MNEMONIC_XCHG ||
	       d->insn.meta.category == ZYDIS_CATEGORY_CMOV ||
	       (d->insn.mnemonic == ZYDIS_MNEMONIC_POP && is_reg(&d->operand[0]) &&
		reg_number(d->operand[0].reg.value) == REG_RSP);
}

static int decode_with(const ZydisDecoder *decoder, const uint8_t *code, size_t available,
		       uint64_t vaddr, struct insn *insn)
{
	struct decoded d;
	unsigned traits;

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder, code, available, &d.insn, d.operand)))
		return -EILSEQ;
	*insn = (struct insn){.vaddr = vaddr, .length = d.insn.length};
	insn->target_index = insn->jumps_here = insn->next_jump = -1;
	insn->dst = insn->src = insn->base = insn->index = REG_NONE;
	uprobes_classify(code, insn);
	for (unsigned i = 0; i < d.insn.operand_count; i++) {
		const ZydisDecodedOperand *operand = &d.operand[i];

		if (is_reg(operand) && operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
		    reg_number(operand->reg.value) < REG_RIP)
			insn->writes |= REG_BIT(reg_number(operand->reg.value));
	}
	set_memory(&d, insn);
	set_flow(&d, insn);
	set_op(&d, insn);
	insn->is_endbr = d.insn.mnemonic == ZYDIS_MNEMONIC_ENDBR64;
	traits = mnemonic_traits[d.insn.mnemonic];
	insn->compares_frame = traits & COMPARES && is_own_frame(insn);
	insn->odd_rsp = insn->writes & REG_BIT(REG_RSP) && loads_rsp_oddly(&d);
	insn->restores = insn->flow == FLOW_NEXT && belongs_to_epilogue(&d, insn);
	insn->stores = traits & STORES && insn->has_memory && is_reg(&d.operand[1]);
	insn->subtracts = traits & SUBTRACTS && d.insn.attributes & ZYDIS_ATTRIB_HAS_LOCK;
	return 0;
}

int insn_decode(const uint8_t *code, size_t available, uint64_t vaddr, struct insn *insn)
{
	ZydisDecoder decoder;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	return decode_with(&decoder, code, available, vaddr, insn);
}

int insns__decode(struct insns *insns, const uint8_t *code, size_t size, uint64_t vaddr)
{
	ZydisDecoder decoder;
	size_t at = 0;
	int err;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	while (at < size) {
		/* compiled code has about one instruction in four bytes */
		if (insns->count == insns->capacity &&
		    grow_array(&insns->list, &insns->capacity, insns->count + (size - at) / 4 + 16,
			       sizeof(*insns->list)))
			return -ENOMEM;
		err = decode_with(&decoder, code + at, size - at, vaddr + at,
				  &insns->list[insns->count]);
		if (err)
			return err;
		at += insns->list[insns->count++].length;
	}
	return 0;
}

void insns__clear(struct insns *insns)
{
	free(insns->list);
	*insns = (struct insns){0};
}
