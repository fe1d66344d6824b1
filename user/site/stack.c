// SPDX-License-Identifier: BSD-2-Clause
/*
 * Ordinary code loads rsp, too: leave and "mov %rbp,%rsp" drop a frame, a variable-length array
 * goes by "mov %rax,%rsp" with a value saved earlier, a realigned frame ends in
 * "lea -8(%r10),%rsp". What they have in common is that the value was computed from rsp or rbp,
 * or spilled to the function's own frame. So: which registers ever hold such a value? Order of
 * execution is left out; that errs towards "own stack".
 */
#include "site/stack.h"

static bool holds(uint16_t own, uint8_t reg)
{
	return reg < REG_RIP && (own & REG_BIT(reg));
}

/* Only what lies in the frame itself: another register that points into it may be a context that
 * was spilled there. */
static bool loads_own(const struct insn *insn)
{
	return insn->has_memory && (insn->base == REG_RSP || insn->base == REG_RBP);
}

/* Is the value that an instruction moves to dst one of the function's own stack? */
static bool moves_own(const struct insn *insn, uint16_t own)
{
	switch ((enum insn_op)insn->op) {
	case OP_MOVE:
	case OP_ADD:
		return holds(own, insn->src);
	case OP_LEA:
		return holds(own, insn->base) || holds(own, insn->index);
	case OP_LOAD:
		return loads_own(insn);
	case OP_OTHER:
	case OP_WIDEN:
	case OP_COMPARE:
	case OP_PUSH:
	case OP_STORE_TOP:
		break;
	}
	return false;
}

static uint16_t own_registers(const struct body *body)
{
	uint16_t own = REG_BIT(REG_RSP) | REG_BIT(REG_RBP), before;

	do {
		before = own;
		for (size_t i = 0; i < body->insns.count; i++) {
			const struct insn *insn = &body->insns.at[i];

			if (insn->dst < REG_RIP && moves_own(insn, own))
				own |= REG_BIT(insn->dst);
		}
	} while (own != before);
	return own;
}

static bool sets_rsp(const struct insn *insn)
{
	return insn->dst == REG_RSP &&
	       (insn->op == OP_MOVE || insn->op == OP_LEA || insn->op == OP_LOAD);
}

bool stack_is_switched(const struct body *body)
{
	uint16_t own = 0;

	for (size_t i = 0; i < body->insns.count; i++) {
		const struct insn *insn = &body->insns.at[i];

		if (insn->odd_rsp)
			return true;
		if (!sets_rsp(insn))
			continue;
		if (!own)
			own = own_registers(body);
		if (!moves_own(insn, own))
			return true;
	}
	return false;
}
