// SPDX-License-Identifier: BSD-2-Clause
/*
 * The first instruction that the kernel emulates, in the function's first basic block, with the
 * stack pointer and the wanted arguments as the caller left them. It must be passed exactly once
 * a call: no jump may lead to it or to anything between the entry and it.
 */
#include "site/entry.h"

#include <errno.h>

/* The probe's time is the call's time only if it is not far from the entry. */
#define WALK_INSNS_MAX 32

static const uint8_t argument_registers[] = {REG_RDI, REG_RSI, REG_RDX, REG_RCX,
					     REG_R8,  REG_R9,  REG_RAX};

static uint16_t untouchable(const struct site_options *options)
{
	uint16_t mask = REG_BIT(REG_RSP);

	for (size_t i = 0; i < sizeof(argument_registers); i++)
		if (options->argument_regs & (1u << i))
			mask |= REG_BIT(argument_registers[i]);
	return mask;
}

static bool is_usable(const struct insn *insn, const struct site_options *options)
{
	for (size_t i = 0; i < options->refused_count; i++)
		if (options->refused[i] == insn->vaddr)
			return false;
	return !insn->refused;
}

/* at_entry: nothing of the function lies on the stack or below it (in its red zone) yet, so the
 * call that replaces a nop5 overwrites nothing. */
static enum site_kind kind_of(const struct insn *insn, bool at_entry,
			      const struct site_options *options)
{
	switch ((enum insn_nop)insn->nop) {
	case NOP_SHORT:
		return SITE_NOP;
	case NOP_LONG:
		return options->optimized_nop5 ? SITE_NOP : SITE_STEPPED;
	case NOP_FIVE:
		return options->optimized_nop5 && at_entry ? SITE_NOP5 : SITE_STEPPED;
	case NOP_NO:
	case NOP_FIVE_ODD:
	case NOP_OTHER:
		break;
	}
	if (!insn->emulated)
		return SITE_STEPPED;
	return insn->op == OP_PUSH ? SITE_PUSH : SITE_BRANCH;
}

/* Why the walk may not go past an instruction, or NULL. */
static const char *stops_at(const struct insn *insn, uint16_t mask)
{
	if (insn->flow != FLOW_NEXT)
		return "the first instructions branch away";
	if (insn->writes & mask & REG_BIT(REG_RSP))
		return "the stack pointer moves first";
	if (insn->writes & mask)
		return "an argument is overwritten first";
	if (insn->repeats || insn->enters_kernel)
		return "the first instructions may take long";
	return NULL;
}

static bool is_jump_target(const struct insn *insn)
{
	return insn->jumps_here >= 0 || insn->is_table_target;
}

static void take(const struct insn *insn, enum site_kind kind, struct site_plan *plan)
{
	plan->entry_vaddr = insn->vaddr;
	plan->entry_kind = kind;
}

static int refuse(struct site_plan *plan)
{
	plan->entry_note = "the kernel takes no probe on the first instructions";
	return -ENOTSUP;
}

int entry_keep(const struct insn *first, const struct site_options *options, const char *note,
	       struct site_plan *plan)
{
	take(first, kind_of(first, true, options), plan);
	plan->entry_note = plan->entry_kind == SITE_STEPPED ? note : NULL;
	return is_usable(first, options) ? 0 : refuse(plan);
}

/* May the walk go on from an instruction to the next? NULL, or why not. */
static const char *walk_ends(const struct body *body, int32_t index, uint16_t mask)
{
	const struct insn *next = &body->insns.at[index + 1];
	const char *why = stops_at(&body->insns.at[index], mask);

	if (why)
		return why;
	if (index + 1 >= body->parts[0].count)
		return "the function ends first";
	if (index + 1 >= WALK_INSNS_MAX)
		return "no cheap instruction is near";
	if (is_jump_target(next))
		return "a jump leads into the first instructions";
	if (body->goes_anywhere)
		return "an indirect jump could lead into the first instructions";
	return NULL;
}

int entry_choose(const struct body *body, const struct site_options *options,
		 struct site_plan *plan)
{
	const struct insn *at = body->insns.at;
	uint16_t mask = untouchable(options);
	const char *why = NULL;
	bool found = false;

	plan->entry_repeats = is_jump_target(at);
	if (options->entry_only)
		return entry_keep(at, options, "asked for", plan);
	if (plan->entry_repeats && is_usable(at, options))
		return entry_keep(at, options, "the function loops to its entry", plan);
	for (int32_t i = 0; !why; i++) {
		bool at_entry = i == 0 || (i == 1 && at[0].is_endbr);
		enum site_kind kind = kind_of(&at[i], at_entry, options);
		bool overwritten = at[i].nop == NOP_FIVE || at[i].nop == NOP_FIVE_ODD;

		why = walk_ends(body, i, mask);
		if (!is_usable(&at[i], options) || (overwritten && !at_entry))
			continue;
		if (kind < SITE_STEPPED) {
			take(&at[i], kind, plan);
			plan->entry_note = NULL;
			return 0;
		}
		/* the next best thing: the first that is not refused */
		if (!found)
			take(&at[i], kind, plan);
		found = true;
	}
	plan->entry_note = why;
	return found ? 0 : refuse(plan);
}
