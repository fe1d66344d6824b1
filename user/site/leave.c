// SPDX-License-Identifier: BSD-2-Clause
/*
 * A jump out of the function's range is one of two things. Either the frame is gone (the unwind
 * table says CFA = rsp + 8, as at the entry): then the callee returns to our caller, and the jump
 * is an exit. Or the frame is there: then the jump goes to a part of this function that the
 * compiler has put elsewhere (".cold", nameless when stripped), which has an unwind entry of its
 * own and starts with the frame that the jump leaves it.
 *
 * One case looks like the other: a function that has built no frame yet jumps to its cold part
 * just as it would to another function. What distinguishes them is that cold code mostly comes
 * back, and nothing else jumps into the middle of our function. Cold code that does not come
 * back is taken for a callee: the call ends, for us, where it enters it.
 *
 * Indirect jumps: with the frame there it is a switch or computed goto, whatever the operand
 * looks like; with the frame gone it may be a switch in a function without frame.
 */
#include "site/leave.h"

#include "site/table.h"

#include <errno.h>

/* Cold parts entered without a frame are small: mostly a call and a jump back. */
#define COMES_BACK_BYTES_MAX 1024

static bool jumps_into_middle(const struct body *body, const struct insns *insns)
{
	const struct part *own = &body->parts[0];

	for (size_t i = 0; i < insns->count; i++) {
		const struct insn *insn = &insns->at[i];

		if (insn->flow != FLOW_JMP && insn->flow != FLOW_JCC)
			continue;
		if (insn->target > own->start && insn->target - own->start < own->size)
			return true;
	}
	return false;
}

static bool comes_back(const struct body *body, uint64_t start, uint64_t size, int *err)
{
	struct insns insns = {0};
	const uint8_t *code;
	size_t available;
	bool back = false;
	int decoded;

	if (size > COMES_BACK_BYTES_MAX)
		return false;
	code = image__code(body->image, start, &available);
	if (!code || available < size)
		return false;
	decoded = insns__decode(&insns, code, size, start);
	if (decoded == -ENOMEM)
		*err = decoded;
	else if (!decoded)
		back = jumps_into_middle(body, &insns);
	insns__clear(&insns);
	return back;
}

static bool same_frame(const struct body *body, uint64_t a, uint64_t b)
{
	enum cfa_reg reg_a, reg_b;
	int64_t offset_a, offset_b;
	int err_a = image__cfa(body->image, a, &reg_a, &offset_a);
	int err_b = image__cfa(body->image, b, &reg_b, &offset_b);

	if (err_a || err_b)
		return err_a == -ENOTSUP && err_b == -ENOTSUP;
	return reg_a == reg_b && offset_a == offset_b;
}

/* The part that a jump with the frame in place goes to. */
static bool add_cold(struct body *body, uint64_t from, uint64_t target, int *err)
{
	uint64_t start, size;

	if (image__fde(body->image, target, &start, &size)) {
		body->exits_doubt = "jumps to code without an unwind entry";
		return false;
	}
	if (!same_frame(body, from, target)) {
		body->exits_doubt = "jumps out with a frame that its target does not have";
		return false;
	}
	return body__add_part(body, start, size, err);
}

static void decide_direct(struct body *body, int32_t index, int *err)
{
	uint64_t vaddr = body->insns.at[index].vaddr, target = body->insns.at[index].target;
	uint64_t start, size;

	if (body__contains(body, target))
		return;
	switch (body__frame(body, vaddr)) {
	case FRAME_UNKNOWN:
		body->exits_doubt = "jumps out and has no unwind table";
		break;
	case FRAME_THERE:
		add_cold(body, vaddr, target, err);
		break;
	case FRAME_GONE:
		if (!image__fde(body->image, target, &start, &size) &&
		    comes_back(body, start, size, err))
			body__add_part(body, start, size, err);
		else
			body->insns.at[index].leaves = true;
		break;
	}
}

/* return table[i](…) in a function that has no frame */
static bool is_function_table(const struct body *body, const struct jump_table *table)
{
	uint64_t target, start, size;

	return !table->is_relative && table_entry(body->image, table, 0, &target) &&
	       !body__contains(body, target) && !image__fde(body->image, target, &start, &size) &&
	       start == target;
}

/* A table entry that lies in no part yet: a case of the switch in the cold part. Relative tables
 * are a compiler's, they never lead to another function. */
static bool add_case(struct body *body, int32_t jump, const struct jump_table *table,
		     uint64_t target, enum frame frame, int *err)
{
	if (!table->is_bounded)
		return false;
	if (frame == FRAME_THERE || (frame == FRAME_GONE && table->is_relative))
		return add_cold(body, body->insns.at[jump].vaddr, target, err);
	body->exits_doubt = "has a switch that leads out of it";
	return false;
}

/* Without a range check the table ends where its entries stop making sense. */
static uint32_t mark_cases(struct body *body, int32_t jump, const struct jump_table *table,
			   enum frame frame, int *err)
{
	uint32_t count;
	uint64_t target;

	for (count = 0; count < table->entries_max; count++) {
		int32_t found;

		if (!table_entry(body->image, table, count, &target) || !target)
			break;
		if (!body__contains(body, target) &&
		    !add_case(body, jump, table, target, frame, err))
			break;
		found = body__find(body, target);
		if (found < 0)
			break;
		body->insns.at[found].is_table_target = true;
	}
	return count;
}

static void decide_table(struct body *body, int32_t index, const struct jump_table *table,
			 enum frame frame, int *err)
{
	uint32_t count;

	if (frame == FRAME_GONE && is_function_table(body, table)) {
		body->insns.at[index].leaves = true;
		return;
	}
	count = mark_cases(body, index, table, frame, err);
	if (table->is_bounded && count == table->entries_max)
		return;
	/* the table's end is a guess, or its entries are addresses that the loader fills in */
	if (count || frame == FRAME_THERE)
		body->goes_anywhere = true;
	else
		body->exits_doubt = "jumps through a table that can not be read";
}

static void decide_indirect(struct body *body, int32_t index, int *err)
{
	enum frame frame = body__frame(body, body->insns.at[index].vaddr);
	struct jump_table table;

	switch (table_find(body, index, &table)) {
	case JUMP_TABLE:
		decide_table(body, index, &table, frame, err);
		return;
	case JUMP_POINTER:
		if (frame == FRAME_GONE)
			body->insns.at[index].leaves = true;
		else if (frame == FRAME_THERE)
			body->goes_anywhere = true;
		else
			body->exits_doubt = "jumps through a pointer and has no unwind table";
		return;
	case JUMP_UNCLEAR:
		if (frame == FRAME_THERE)
			body->goes_anywhere = true;
		else
			body->exits_doubt = "has an indirect jump that can not be followed";
		return;
	}
}

int leave_decide(struct body *body)
{
	int err = 0;

	/* the array grows, and moves, with every part that is added */
	for (int32_t i = 0; i < (int32_t)body->insns.count; i++) {
		enum insn_flow flow = body->insns.at[i].flow;

		if (flow == FLOW_JMP || flow == FLOW_JCC)
			decide_direct(body, i, &err);
		else if (flow == FLOW_JMP_INDIRECT)
			decide_indirect(body, i, &err);
		if (err || body->undecoded)
			return err;
	}
	return 0;
}
