// SPDX-License-Identifier: BSD-2-Clause
#include "site/spin.h"

#include <Zydis/Zydis.h>

struct decoded {
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

static bool decode(const uint8_t *code, size_t size, size_t at, struct decoded *d)
{
	ZydisDecoder decoder;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	return at < size && ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code + at, size - at,
								&d->insn, d->operands));
}

/* Where a direct branch at `at` leads to; SIZE_MAX: it is none. */
static size_t target_of(const struct decoded *d, size_t at)
{
	if ((d->insn.meta.category != ZYDIS_CATEGORY_COND_BR &&
	     d->insn.meta.category != ZYDIS_CATEGORY_UNCOND_BR) ||
	    d->operands[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
		return SIZE_MAX;
	return at + d->insn.length + (size_t)d->operands[0].imm.value.s;
}

/* What a round of a loop does, from its begin to the branch back. */
struct round {
	uint32_t written;      /* general registers, by number */
	uint32_t read_first;   /* before this round has written them */
	bool pauses, observes; /* observes: memory or the time stamp counter */
	bool works;	       /* does anything else, or not each time */
};

/* Bit of a general register. Flags and the instruction pointer have none. */
static uint32_t bit_of(struct round *round, ZydisRegister reg)
{
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	switch (ZydisRegisterGetClass(whole)) {
	case ZYDIS_REGCLASS_GPR64:
		return 1u << ZydisRegisterGetId(whole);
	case ZYDIS_REGCLASS_XMM:
	case ZYDIS_REGCLASS_YMM:
	case ZYDIS_REGCLASS_ZMM:
	case ZYDIS_REGCLASS_X87:
		round->works = true; /* numbers and blocks of memory */
		return 0;
	default:
		return 0;
	}
}

static void add_memory(struct round *round, const struct decoded *d,
		       const ZydisDecodedOperand *operand, uint32_t *reads)
{
	*reads |= bit_of(round, operand->mem.base) | bit_of(round, operand->mem.index);
	if (operand->mem.type != ZYDIS_MEMOP_TYPE_MEM)
		return; /* lea, nop */
	round->observes |= operand->actions & ZYDIS_OPERAND_ACTION_MASK_READ;
	round->works |= operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
			d->insn.mnemonic != ZYDIS_MNEMONIC_XCHG;
}

static void add_instruction(struct round *round, const struct decoded *d)
{
	uint32_t reads = 0, writes = 0;

	round->pauses |= d->insn.mnemonic == ZYDIS_MNEMONIC_PAUSE;
	round->observes |= d->insn.mnemonic == ZYDIS_MNEMONIC_RDTSC ||
			   d->insn.mnemonic == ZYDIS_MNEMONIC_RDTSCP;
	round->works |= d->insn.meta.category == ZYDIS_CATEGORY_CALL ||
			d->insn.meta.category == ZYDIS_CATEGORY_RET ||
			d->insn.meta.category == ZYDIS_CATEGORY_SYSCALL;
	for (unsigned i = 0; i < d->insn.operand_count; i++) {
		const ZydisDecodedOperand *operand = &d->operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY)
			add_memory(round, d, operand, &reads);
		if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER)
			continue;
		if (operand->actions & ZYDIS_OPERAND_ACTION_MASK_READ)
			reads |= bit_of(round, operand->reg.value);
		if (operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
			writes |= bit_of(round, operand->reg.value);
	}
	round->read_first |= reads & ~round->written;
	round->written |= writes;
}

/* Does the loop from `begin` to the branch at `end` only wait? Branches that stay inside of it make
 * what a round does unknown. */
static bool only_waits(const uint8_t *code, size_t size, size_t begin, size_t end)
{
	struct round round = {0};
	struct decoded d;

	for (size_t at = begin; at <= end; at += d.insn.length) {
		size_t target;

		if (!decode(code, size, at, &d))
			return false;
		target = target_of(&d, at);
		round.works |= at != end && target >= begin && target <= end;
		add_instruction(&round, &d);
	}
	return round.pauses ||
	       (round.observes && !round.works && !(round.read_first & round.written));
}

bool spin_loop_at(const uint8_t *code, size_t size, size_t at)
{
	struct decoded d;
	bool is_inner = true;

	for (size_t end = at; end < at + SPIN_LOOP_BYTES_MAX; end += d.insn.length) {
		size_t target;

		if (!decode(code, size, end, &d))
			return false;
		target = target_of(&d, end);
		if (target > at || end - target >= SPIN_LOOP_BYTES_MAX)
			continue;
		if (only_waits(code, size, target, end))
			return true;
		/* a lock may be tried again after each of its waits; loops around that work */
		if (!is_inner)
			return false;
		is_inner = false;
	}
	return false;
}
