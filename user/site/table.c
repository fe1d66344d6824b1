// SPDX-License-Identifier: BSD-2-Clause
/*
 *	cmp    $5,%edi                   cmp    $5,%edi
 *	ja     default                   ja     default
 *	lea    table(%rip),%rdx          mov    %edi,%eax
 *	movslq (%rdx,%rdi,4),%rax        jmp    *table(,%rax,8)
 *	add    %rdx,%rax
 *	notrack jmp *%rax
 *
 * On the left position-independent code, on the right not; registers and order vary. The search
 * goes backwards in memory, not along the flow: compilers keep these lines together.
 */
#include "site/table.h"

#include <string.h>

#define SEARCH_INSNS_MAX 64
#define BOUND_INSNS_MAX	 16
#define ENTRIES_MAX	 65536
#define MOVES_MAX	 4

enum {
	WRITER_NONE = -1, /* unchanged since the function's entry */
	WRITER_UNCLEAR = -2
};

static bool is_callee_saved(uint8_t reg)
{
	return reg == REG_RBX || reg == REG_RBP || (reg >= 12 && reg <= 15);
}

/* The last instruction before index that writes reg. */
static int32_t writer(const struct body *body, int32_t index, uint8_t reg)
{
	if (reg >= REG_RIP)
		return WRITER_UNCLEAR;
	for (int steps = 0; steps < SEARCH_INSNS_MAX; steps++) {
		int32_t before = body__before(body, index);
		const struct insn *insn;

		if (before < 0)
			return index == 0 ? WRITER_NONE : WRITER_UNCLEAR;
		insn = &body->insns.at[before];
		if (insn->writes & REG_BIT(reg))
			return before;
		if (insn->flow == FLOW_CALL || insn->flow == FLOW_CALL_INDIRECT) {
			if (reg == REG_RAX)
				return before;
			if (!is_callee_saved(reg))
				return WRITER_UNCLEAR;
		} else if (insn->flow != FLOW_NEXT && insn->flow != FLOW_JCC) {
			return WRITER_UNCLEAR;
		}
		index = before;
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
		insn = &body->insns.at[index];
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
	insn = &body->insns.at[from];
	return insn->op == OP_LEA && insn->base == REG_RIP ? insn->target : 0;
}

/* The range check: cmp $last,index; ja default (or jae). */
static void find_bound(const struct body *body, int32_t load, struct jump_table *table)
{
	const struct insn *at = body->insns.at;
	int32_t index = load;
	uint8_t condition = CONDITION_NONE;

	table->entries_max = ENTRIES_MAX;
	for (int steps = 0; steps < BOUND_INSNS_MAX; steps++) {
		index = body__before(body, index);
		if (index < 0)
			return;
		if (at[index].flow == FLOW_JCC)
			condition = at[index].condition;
		else if (at[index].flow != FLOW_NEXT)
			return;
		if (at[index].op != OP_COMPARE || condition == CONDITION_NONE)
			continue;
		if ((condition != 7 && condition != 3) || at[index].value < 0 ||
		    at[index].value >= ENTRIES_MAX)
			return;
		table->entries_max = (uint32_t)at[index].value + (condition == 7);
		table->is_bounded = true;
		return;
	}
}

static enum jump_source table_at(const struct body *body, int32_t load, uint64_t vaddr,
				 bool is_relative, struct jump_table *table)
{
	if (!vaddr)
		return JUMP_UNCLEAR;
	*table = (struct jump_table){.vaddr = vaddr, .is_relative = is_relative};
	find_bound(body, load, table);
	return JUMP_TABLE;
}

/* Target or function pointer loaded from memory, by a jump's operand or into its register. */
static enum jump_source from_memory(const struct body *body, int32_t load, struct jump_table *table)
{
	const struct insn *insn = &body->insns.at[load];
	int32_t base;

	if (insn->index == REG_NONE)
		return JUMP_POINTER;
	if (insn->base == REG_NONE)
		return table_at(body, load, (uint64_t)insn->displacement, false, table);
	base = origin(body, load, insn->base);
	if (base >= 0 && body->insns.at[base].op == OP_LEA)
		return table_at(body, load, address_in(body, load, insn->base), false, table);
	/* an array of function pointers that was handed in or loaded: no compiler's switch */
	return base == WRITER_UNCLEAR ? JUMP_UNCLEAR : JUMP_POINTER;
}

static bool is_offset_load(const struct insn *insn)
{
	return insn->op == OP_LOAD && insn->mem_bytes == 4 && insn->index != REG_NONE;
}

/* add: one operand is the offset from the table, the other the table's address. */
static enum jump_source from_sum(const struct body *body, int32_t add, struct jump_table *table)
{
	const uint8_t operand[2] = {body->insns.at[add].dst, body->insns.at[add].src};

	for (int i = 0; i < 2; i++) {
		int32_t load = origin(body, add, operand[i]);
		uint64_t vaddr;

		if (load < 0 || !is_offset_load(&body->insns.at[load]))
			continue;
		vaddr = address_in(body, load, body->insns.at[load].base);
		if (!vaddr)
			vaddr = address_in(body, add, operand[1 - i]);
		return table_at(body, load, vaddr, true, table);
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
	insn = &body->insns.at[from];
	if (insn->op == OP_ADD)
		return from_sum(body, from, table);
	if (insn->op == OP_LOAD)
		return from_memory(body, from, table);
	/* the function pointer that a call returned (dlsym) */
	if (insn->flow == FLOW_CALL || insn->flow == FLOW_CALL_INDIRECT)
		return JUMP_POINTER;
	return JUMP_UNCLEAR;
}

enum jump_source table_find(const struct body *body, int32_t jump, struct jump_table *table)
{
	const struct insn *insn = &body->insns.at[jump];

	return insn->has_memory ? from_memory(body, jump, table)
				: from_register(body, jump, insn->src, table);
}

bool table_entry(const struct image *image, const struct jump_table *table, uint32_t index,
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
		*target = table->vaddr + (uint64_t)(int64_t)offset;
	} else {
		memcpy(target, data, sizeof(*target));
	}
	return true;
}
