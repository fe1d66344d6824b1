// SPDX-License-Identifier: BSD-2-Clause
/*
 * Ordinary code loads rsp, too: leave and "mov %rbp,%rsp" drop a frame, a variable-length array
 * goes by "mov %rax,%rsp" with a value saved earlier, a realigned frame ends in
 * "lea -8(%r10),%rsp". What they have in common is that the value was computed from rsp or rbp,
 * or spilled to the function's own frame. So: which registers ever hold such a value? Order of
 * execution is left out; that errs towards "own stack".
 */
#include "site/stack.h"

static bool holds(uint16_t set, uint8_t reg)
{
	return reg < REG_RIP && (set & REG_BIT(reg));
}

/* Is what an instruction moves to dst computed from a register of the set? */
static bool computes_from(const struct insn *insn, uint16_t set)
{
	switch ((enum insn_op)insn->op) {
	case OP_MOVE:
	case OP_ADD:
		return holds(set, insn->src);
	case OP_LEA:
		return holds(set, insn->base) || holds(set, insn->index);
	case OP_LOAD:
	case OP_OTHER:
	case OP_WIDEN:
	case OP_COMPARE:
	case OP_PUSH:
	case OP_STORE_TOP:
		break;
	}
	return false;
}

/* frame: registers that point into the frame. own: those, and what is loaded from there. Not what
 * is loaded through a loaded pointer: that may be a context that was spilled. */
struct sets {
	uint16_t frame, own;
};

static bool is_own(const struct insn *insn, const struct sets *sets)
{
	if (insn->op == OP_LOAD)
		return holds(sets->frame, insn->base);
	return computes_from(insn, sets->own);
}

static bool widen_sets(const struct body *body, struct sets *sets)
{
	struct sets before = *sets;

	for (size_t i = 0; i < body->insns.count; i++) {
		const struct insn *insn = &body->insns.at[i];

		if (insn->dst >= REG_RIP)
			continue;
		if (computes_from(insn, sets->frame))
			sets->frame |= REG_BIT(insn->dst);
		if (is_own(insn, sets))
			sets->own |= REG_BIT(insn->dst);
	}
	return sets->frame != before.frame || sets->own != before.own;
}

static bool sets_rsp(const struct insn *insn)
{
	return insn->dst == REG_RSP &&
	       (insn->op == OP_MOVE || insn->op == OP_LEA || insn->op == OP_LOAD);
}

/* Most functions never load rsp: look for that first. */
static bool loads_rsp(const struct body *body)
{
	for (size_t i = 0; i < body->insns.count; i++)
		if (body->insns.at[i].odd_rsp || sets_rsp(&body->insns.at[i]))
			return true;
	return false;
}

bool stack_is_switched(const struct body *body)
{
	const uint16_t start = REG_BIT(REG_RSP) | REG_BIT(REG_RBP);
	struct sets sets = {start, start};

	if (!loads_rsp(body))
		return false;
	while (widen_sets(body, &sets))
		;
	for (size_t i = 0; i < body->insns.count; i++) {
		const struct insn *insn = &body->insns.at[i];

		if (insn->odd_rsp || (sets_rsp(insn) && !is_own(insn, &sets)))
			return true;
	}
	return false;
}
