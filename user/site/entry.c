// SPDX-License-Identifier: BSD-2-Clause
/*
 * The first instruction that the kernel emulates, in the function's first basic block, with the
 * stack pointer as the caller left it, and the wanted arguments, or where these have been copied.
 * It must be passed exactly once a call: no jump may lead to it or to anything between the entry
 * and it.
 */
#include "site/entry.h"

#include <errno.h>

/* The probe's time is the call's time only if it is not far from the entry. */
#define WALK_INSNS_MAX 32

static const uint8_t argument_registers[ARGUMENT_REGS] = {REG_RDI, REG_RSI, REG_RDX, REG_RCX,
							  REG_R8,  REG_R9,  REG_RAX};

/* The registers in which each wanted argument is found; 0: it is not wanted, or lost. */
struct arguments {
	uint16_t holders[ARGUMENT_REGS];
	uint8_t wanted;
	bool may_move;
};

static struct arguments arguments_at_entry(const struct site_options *options)
{
	struct arguments arguments = {.wanted = options->argument_regs,
				      .may_move = options->arguments_may_move};

	for (size_t i = 0; i < ARGUMENT_REGS; i++)
		if (arguments.wanted & (1u << i))
			arguments.holders[i] = REG_BIT(argument_registers[i]);
	return arguments;
}

static uint16_t argument_bits(void)
{
	uint16_t bits = 0;

	for (size_t i = 0; i < ARGUMENT_REGS; i++)
		bits |= REG_BIT(argument_registers[i]);
	return bits;
}

/* What an instruction does to them. False: one of them is nowhere any more. */
static bool arguments_pass(struct arguments *arguments, const struct insn *insn)
{
	bool kept = true, copies = arguments->may_move && insn->op == OP_MOVE && insn->moves_all;

	for (size_t i = 0; i < ARGUMENT_REGS; i++) {
		uint16_t *holders = &arguments->holders[i];
		bool copied = copies && insn->src < REG_RIP && insn->dst < REG_RIP &&
			      (*holders & REG_BIT(insn->src));

		*holders &= (uint16_t)~insn->writes;
		if (copied)
			*holders |= REG_BIT(insn->dst) & argument_bits();
		kept = kept && (*holders || !(arguments->wanted & (1u << i)));
	}
	return kept;
}

static void note_arguments(const struct arguments *arguments, struct site_plan *plan)
{
	for (uint8_t i = 0; i < ARGUMENT_REGS; i++)
		for (uint8_t j = ARGUMENT_REGS; j-- > 0;)
			if (arguments->holders[i] & REG_BIT(argument_registers[j]))
				plan->arguments[i] = j;
}

static bool is_usable(const struct insn *insn, const struct site_options *options)
{
	for (size_t i = 0; i < options->refused_count; i++)
		if (options->refused[i] == insn->vaddr)
			return false;
	if (options->nop5_kills && (insn->nop == NOP_FIVE || insn->nop == NOP_FIVE_ODD))
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
static const char *stops_at(const struct insn *insn, struct arguments *arguments)
{
	if (insn->flow != FLOW_NEXT)
		return "the first instructions branch away";
	if (insn->writes & REG_BIT(REG_RSP))
		return "the stack pointer moves first";
	if (!arguments_pass(arguments, insn))
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
static const char *walk_ends(const struct body *body, int32_t index, struct arguments *arguments)
{
	const struct insn *next = &body->insns.at[index + 1];
	const char *why = stops_at(&body->insns.at[index], arguments);

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
	struct arguments arguments = arguments_at_entry(options);
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
		struct arguments before = arguments;
		bool overwritten = at[i].nop == NOP_FIVE || at[i].nop == NOP_FIVE_ODD;

		why = walk_ends(body, i, &arguments);
		if (!is_usable(&at[i], options) || (overwritten && !at_entry))
			continue;
		if (kind < SITE_STEPPED) {
			take(&at[i], kind, plan);
			note_arguments(&before, plan);
			plan->entry_note = NULL;
			return 0;
		}
		/* the next best thing: the first that is not refused */
		if (!found) {
			take(&at[i], kind, plan);
			note_arguments(&before, plan);
		}
		found = true;
	}
	plan->entry_note = why;
	return found ? 0 : refuse(plan);
}
