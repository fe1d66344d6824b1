// SPDX-License-Identifier: BSD-2-Clause
#include "base/grow.h"
#include "site/body.h"

#include <errno.h>
#include <string.h>

/*
 * Part one: where an indirect jump gets its target from: a pointer, or a table that gcc and clang
 * make of a switch.
 *
 *	cmp    $5,%edi                   cmp    $5,%edi
 *	ja     default                   ja     default
 *	lea    table(%rip),%rdx          mov    %edi,%eax
 *	movslq (%rdx,%rdi,4),%rax        jmp    *table(,%rax,8)
 *	add    %rdx,%rax
 *	notrack jmp *%rax
 *
 * On the left position-independent code, on the right not; registers and order vary. The search
 * goes backwards along one way only, for compilers keep these lines together; what it finds
 * decides between "switch" and "pointer", it is no proof of a value.
 */

#define SEARCH_INSNS_MAX 64
#define BOUND_INSNS_MAX	 16
#define ENTRIES_MAX	 65536
#define MOVES_MAX	 4

struct jump_table {
	uint64_t vaddr;
	uint64_t base;	  /* what relative entries are added to: mostly the table itself */
	bool is_relative; /* 32-bit entries; else 64-bit addresses */
	bool is_bounded;  /* entries_max comes from the range check before the jump */
	uint32_t entries_max;
};

enum jump_source {
	JUMP_TABLE = 1,
	JUMP_POINTER, /* a function pointer: argument, vtable, GOT */
	JUMP_UNCLEAR
};

enum {
	WRITER_NONE = -1, /* unchanged since the function's entry */
	WRITER_UNCLEAR = -2
};

/* Registers that have a value of use after a call: the result, and what the callee must keep. */
#define AFTER_CALLS (REG_BIT(REG_RAX) | REG_BIT(REG_RBX) | REG_BIT(REG_RBP) | 0xf << 12)

/* The first jump to an address. */
static int32_t jump_to(const struct body *body, uint64_t vaddr)
{
	for (int32_t i = 0; i < (int32_t)body->insns.count; i++) {
		const struct insn *insn = &body->insns.list[i];

		if ((insn->flow == FLOW_JMP || insn->flow == FLOW_JCC) && insn->target == vaddr)
			return i;
	}
	return WRITER_UNCLEAR;
}

/* The instruction that ran before one: the one before it in memory, or a jump that leads here.
 * A call that would have destroyed the register is none: it did not come back. */
static int32_t ran_before(const struct body *body, int32_t index, uint8_t reg)
{
	int32_t before = body__before(body, index);
	const struct insn *insn;

	if (index == 0)
		return WRITER_NONE;
	if (before < 0)
		return jump_to(body, body->insns.list[index].vaddr);
	insn = &body->insns.list[before];
	if (!body__falls_through(body, before) ||
	    ((insn->flow == FLOW_CALL || insn->flow == FLOW_CALL_INDIRECT) &&
	     !(1u << reg & AFTER_CALLS))) {
		/* only a jump leads here, or into the padding before */
		while (body->insns.list[index].nop)
			if (++index >= (int32_t)body->insns.count)
				return WRITER_UNCLEAR;
		return jump_to(body, body->insns.list[index].vaddr);
	}
	return before;
}

/* The last instruction before index that writes reg. */
static int32_t writer(const struct body *body, int32_t index, uint8_t reg)
{
	if (reg >= REG_RIP)
		return WRITER_UNCLEAR;
	for (int steps = 0; steps < SEARCH_INSNS_MAX; steps++) {
		const struct insn *insn;

		index = ran_before(body, index, reg);
		if (index < 0)
			return index;
		insn = &body->insns.list[index];
		if (insn->writes & REG_BIT(reg))
			return index;
		if (reg == REG_RAX && (insn->flow == FLOW_CALL || insn->flow == FLOW_CALL_INDIRECT))
			return index;
	}
	return WRITER_UNCLEAR;
}

/* The writer behind register moves and widenings. */
static int32_t origin(const struct body *body, int32_t index, uint8_t reg)
{
	for (int moves = 0; moves < MOVES_MAX; moves++) {
		const struct insn *insn;

		index = writer(body, index, reg);
		if (index < 0)
			return index;
		insn = &body->insns.list[index];
		if (insn->op == OP_MOVE)
			reg = insn->src;
		else if (insn->op != OP_WIDEN)
			return index;
	}
	return WRITER_UNCLEAR;
}

/* The constant address in a register: lea table(%rip),%reg. 0: none found. */
static uint64_t address_in(const struct body *body, int32_t index, uint8_t reg)
{
	int32_t from = origin(body, index, reg);
	const struct insn *insn;

	if (from < 0)
		return 0;
	insn = &body->insns.list[from];
	return insn->op == OP_LEA && insn->base == REG_RIP ? insn->target : 0;
}

/* How many values pass "cmp $last; ja" (condition 7) or "cmp $count; jae" (3). 0: no such check. */
static uint32_t values_passing(const struct insn *compare, uint8_t condition)
{
	if ((condition != 7 && condition != 3) || compare->value < 0 ||
	    compare->value >= ENTRIES_MAX)
		return 0;
	return (uint32_t)compare->value + (condition == 7);
}

/*
 * The range check of the index of a table load: the compare of that register, or of the one it
 * was copied from, or of the memory it was loaded from. Anything computed in between (a protobuf
 * parser switches on tag >> 3 and checks tag) makes it another value's check.
 */
static uint32_t find_bound(const struct body *body, int32_t load)
{
	const struct insn *at = body->insns.list, *from = NULL;
	uint8_t reg = at[load].index, condition = CONDITION_NONE;

	for (int steps = 0; steps < BOUND_INSNS_MAX; steps++) {
		load = body__before(body, load);
		if (load < 0 || (at[load].flow != FLOW_NEXT && at[load].flow != FLOW_JCC))
			return 0;
		if (at[load].flow == FLOW_JCC)
			condition = at[load].condition;
		if (at[load].op == OP_COMPARE && at[load].src < REG_RIP && at[load].src == reg)
			return values_passing(&at[load], condition);
		if (at[load].op == OP_COMPARE && from && at[load].has_memory && from->has_memory &&
		    at[load].base == from->base && at[load].index == from->index &&
		    at[load].displacement == from->displacement)
			return values_passing(&at[load], condition);
		if (from || !(at[load].writes & REG_BIT(reg)))
			continue;
		if (at[load].op == OP_MOVE)
			reg = at[load].src;
		else if (at[load].op == OP_LOAD)
			from = &at[load];
		else
			return 0;
		if (reg >= REG_RIP)
			return 0;
	}
	return 0;
}

static enum jump_source table_at(const struct body *body, int32_t load, uint64_t vaddr,
				 uint64_t base, struct jump_table *table)
{
	uint32_t bound = find_bound(body, load);

	if (!vaddr)
		return JUMP_UNCLEAR;
	*table = (struct jump_table){
		.vaddr = vaddr,
		.base = base,
		.is_relative = base != 0,
		.is_bounded = bound != 0,
		.entries_max = bound ? bound : ENTRIES_MAX,
	};
	return JUMP_TABLE;
}

/* Target or function pointer loaded from memory, by a jump's operand or into its register. */
static enum jump_source from_memory(const struct body *body, int32_t load, struct jump_table *table)
{
	const struct insn *insn = &body->insns.list[load];
	int32_t base;

	if (insn->index == REG_NONE)
		return JUMP_POINTER;
	if (insn->base == REG_NONE)
		return table_at(body, load, (uint64_t)insn->displacement, 0, table);
	base = origin(body, load, insn->base);
	if (base >= 0 && body->insns.list[base].op == OP_LEA)
		return table_at(body, load, address_in(body, load, insn->base), 0, table);
	/* an array of function pointers that was handed in or loaded: no compiler's switch */
	return base == WRITER_UNCLEAR ? JUMP_UNCLEAR : JUMP_POINTER;
}

/* add: one operand is the offset from the table, the other the table's address. */
static enum jump_source from_sum(const struct body *body, int32_t add, struct jump_table *table)
{
	const uint8_t operand[2] = {body->insns.list[add].dst, body->insns.list[add].src};

	for (int i = 0; i < 2; i++) {
		int32_t load = origin(body, add, operand[i]);
		uint64_t vaddr, base;

		if (load < 0 || !(body->insns.list[load].op == OP_LOAD &&
				  body->insns.list[load].mem_bytes == 4 &&
				  body->insns.list[load].index != REG_NONE))
			continue;
		vaddr = address_in(body, load, body->insns.list[load].base);
		base = address_in(body, add, operand[1 - i]);
		if (vaddr && base)
			return table_at(body, load, vaddr, base, table);
	}
	return JUMP_UNCLEAR;
}

static enum jump_source from_register(const struct body *body, int32_t jump, uint8_t reg,
				      struct jump_table *table)
{
	int32_t from = origin(body, jump, reg);
	const struct insn *insn;

	if (from < 0)
		return from == WRITER_NONE ? JUMP_POINTER : JUMP_UNCLEAR;
	insn = &body->insns.list[from];
	if (insn->op == OP_ADD)
		return from_sum(body, from, table);
	if (insn->op == OP_LOAD)
		return from_memory(body, from, table);
	/* the function pointer that a call returned (dlsym) */
	if (insn->flow == FLOW_CALL || insn->flow == FLOW_CALL_INDIRECT)
		return JUMP_POINTER;
	return JUMP_UNCLEAR;
}

/* False: the file has no bytes there. */
static bool table_entry(const struct image *image, const struct jump_table *table, uint32_t index,
			uint64_t *target)
{
	size_t bytes = table->is_relative ? sizeof(int32_t) : sizeof(uint64_t), available;
	const uint8_t *data;

	data = image__data(image, table->vaddr + index * bytes, &available);
	if (!data || available < bytes)
		return false;
	if (table->is_relative) {
		int32_t offset;

		memcpy(&offset, data, sizeof(offset));
		*target = table->base + (uint64_t)(int64_t)offset;
	} else {
		memcpy(target, data, sizeof(*target));
	}
	return true;
}

/*
 * Part two: which jumps leave a function for good (tail calls), and which only go to its cold part?
 *
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

/* Cold parts entered without a frame are small: mostly a call and a jump back. */
#define COMES_BACK_BYTES_MAX 1024

/* Does code jump into the middle of the function? */
static bool comes_back(const struct body *body, uint64_t start, uint64_t size, int *err)
{
	const struct part *own = &body->parts[0];
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
	FOR_EACH_OF (insn, insns)
		back |= (insn->flow == FLOW_JMP || insn->flow == FLOW_JCC) &&
			insn->target > own->start && insn->target - own->start < own->size;
	insns__clear(&insns);
	return !decoded && back;
}

/* The part that a jump with the frame in place goes to. */
static bool add_cold(struct body *body, uint64_t from, uint64_t target, int *err)
{
	enum cfa_reg reg, target_reg;
	int64_t offset, target_offset;
	int cfa_err, target_err;
	uint64_t start, size;

	if (image__fde(body->image, target, &start, &size)) {
		body->exits_doubt = "jumps to code without an unwind entry";
		return false;
	}
	cfa_err = image__cfa(body->image, from, &reg, &offset);
	target_err = image__cfa(body->image, target, &target_reg, &target_offset);
	if (cfa_err || target_err ? cfa_err != -ENOTSUP || target_err != -ENOTSUP
				  : reg != target_reg || offset != target_offset) {
		body->exits_doubt = "jumps out with a stack frame that its target does not expect";
		return false;
	}
	return body__add_part(body, start, size, err);
}

static void decide_direct(struct body *body, int32_t index, int *err)
{
	uint64_t vaddr = body->insns.list[index].vaddr, target = body->insns.list[index].target;
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
			body->insns.list[index].leaves = true;
		break;
	}
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
		/* A case in the cold part. Relative tables are a compiler's, they never lead to
		 * another function. */
		if (!body__contains(body, target)) {
			if (!table->is_bounded)
				break;
			if (frame != FRAME_THERE && !(frame == FRAME_GONE && table->is_relative)) {
				body->exits_doubt = "has a switch that leads out of it";
				break;
			}
			if (!add_cold(body, body->insns.list[jump].vaddr, target, err))
				break;
		}
		found = body__find(body, target);
		if (found < 0)
			break;
		body->insns.list[found].is_table_target = true;
	}
	return count;
}

static void decide_table(struct body *body, int32_t index, const struct jump_table *table,
			 enum frame frame, int *err)
{
	uint64_t target, start, size;
	uint32_t count;

	/* return table[i](…) in a function that has no frame */
	if (frame == FRAME_GONE && !table->is_relative &&
	    table_entry(body->image, table, 0, &target) && !body__contains(body, target) &&
	    !image__fde(body->image, target, &start, &size) && start == target) {
		body->insns.list[index].leaves = true;
		return;
	}
	count = mark_cases(body, index, table, frame, err);
	if (table->is_bounded && count == table->entries_max)
		return;
	/* the table's end is a guess, or its entries are addresses that the loader fills in */
	if (count || frame == FRAME_THERE)
		body->goes_anywhere = true;
	else
		body->exits_doubt = "jumps through a table that cannot be read";
}

static void decide_indirect(struct body *body, int32_t index, int *err)
{
	const struct insn *insn = &body->insns.list[index];
	enum frame frame = body__frame(body, insn->vaddr);
	struct jump_table table;

	switch (insn->has_memory ? from_memory(body, index, &table)
				 : from_register(body, index, insn->src, &table)) {
	case JUMP_TABLE:
		decide_table(body, index, &table, frame, err);
		return;
	case JUMP_POINTER:
		if (frame == FRAME_GONE)
			body->insns.list[index].leaves = true;
		else if (frame == FRAME_THERE)
			body->goes_anywhere = true;
		else
			body->exits_doubt = "jumps through a pointer and has no unwind table";
		return;
	case JUMP_UNCLEAR:
		if (frame == FRAME_THERE)
			body->goes_anywhere = true;
		else
			body->exits_doubt = "has an indirect jump that cannot be followed";
		return;
	}
}

int body__decide_jumps(struct body *body)
{
	int err = 0;

	/* the array grows, and moves, with every part that is added */
	for (int32_t i = 0; i < (int32_t)body->insns.count; i++) {
		enum insn_flow flow = body->insns.list[i].flow;

		if (flow == FLOW_JMP || flow == FLOW_JCC)
			decide_direct(body, i, &err);
		else if (flow == FLOW_JMP_INDIRECT)
			decide_indirect(body, i, &err);
		if (err || body->undecoded)
			return err;
	}
	return 0;
}
