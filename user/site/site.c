// SPDX-License-Identifier: BSD-2-Clause
#include "site/site.h"

#include "base/grow.h"
#include "base/hash.h"
#include "base/order.h"
#include "site/body.h"

#include <errno.h>
#include <stdlib.h>

#if defined(__x86_64__)
#define DECODES_CODE true
#else
#define DECODES_CODE false
#endif

/*
 * The entry site.
 *
 * The first instruction that the kernel emulates, in the function's first basic block, with the
 * stack pointer as the caller left it, and the wanted arguments, or where these have been copied.
 * It must be passed exactly once a call: no jump may lead to it or to anything between the entry
 * and it.
 */

/* The probe's time is the call's time only if it is not far from the entry. */
#define WALK_INSNS_MAX 32

static const uint8_t argument_registers[ARGUMENT_REGS] = {REG_RDI, REG_RSI, REG_RDX, REG_RCX,
							  REG_R8,  REG_R9,  REG_RAX};

#define ARGUMENT_BITS                                                                \
	(REG_BIT(REG_RDI) | REG_BIT(REG_RSI) | REG_BIT(REG_RDX) | REG_BIT(REG_RCX) | \
	 REG_BIT(REG_R8) | REG_BIT(REG_R9) | REG_BIT(REG_RAX))

/* The registers that hold each wanted argument; 0: not wanted, or lost. */
struct arguments {
	uint16_t holders[ARGUMENT_REGS];
	uint8_t wanted;
	bool may_move;
};

/* Follows the arguments through an instruction. False: one of them is lost. */
static bool arguments_pass(struct arguments *arguments, const struct insn *insn)
{
	bool kept = true, copies = arguments->may_move && insn->op == OP_MOVE && insn->moves_all;

	for (size_t i = 0; i < ARGUMENT_REGS; i++) {
		uint16_t *holders = &arguments->holders[i];
		bool copied = copies && insn->src < REG_RIP && insn->dst < REG_RIP &&
			      (*holders & REG_BIT(insn->src));

		*holders &= (uint16_t)~insn->writes;
		if (copied)
			*holders |= REG_BIT(insn->dst) & ARGUMENT_BITS;
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

static bool is_jump_target(const struct insn *insn)
{
	return insn->jumps_here >= 0 || insn->is_table_target;
}

static void set_entry(const struct insn *insn, enum site_kind kind, struct site_plan *plan)
{
	plan->entry_vaddr = insn->vaddr;
	plan->entry_kind = kind;
}

static const char not_probed[] = "the kernel cannot probe the first instructions";

static int entry_keep(const struct insn *first, const struct site_options *options,
		      const char *note, struct site_plan *plan)
{
	set_entry(first, kind_of(first, true, options), plan);
	plan->entry_note = plan->entry_kind == SITE_STEPPED ? note : NULL;
	if (is_usable(first, options))
		return 0;
	plan->entry_note = not_probed;
	return -ENOTSUP;
}

/* May the walk go on from an instruction to the next? NULL, or why not. */
static const char *walk_ends(const struct body *body, int32_t index, struct arguments *arguments)
{
	const struct insn *insn = &body->insns.list[index];

	if (insn->flow != FLOW_NEXT)
		return "the first instructions branch away";
	if (insn->writes & REG_BIT(REG_RSP))
		return "the stack pointer moves first";
	if (!arguments_pass(arguments, insn))
		return "an argument is overwritten first";
	if (insn->repeats || insn->enters_kernel)
		return "the first instructions may take long";
	if (index + 1 >= body->parts[0].count)
		return "the function ends first";
	if (index + 1 >= WALK_INSNS_MAX)
		return "no cheap instruction is near";
	if (is_jump_target(insn + 1))
		return "a jump leads into the first instructions";
	if (body->goes_anywhere)
		return "an indirect jump could lead into the first instructions";
	return NULL;
}

static int entry_choose(const struct body *body, const struct site_options *options,
			struct site_plan *plan)
{
	const struct insn *at = body->insns.list;
	struct arguments arguments = {.wanted = options->argument_regs,
				      .may_move = options->arguments_may_move};
	const char *why = NULL;
	bool found = false;

	plan->entry_repeats = is_jump_target(at);
	if (options->entry_only)
		return entry_keep(at, options, "requested", plan);
	for (size_t i = 0; i < ARGUMENT_REGS; i++)
		if (arguments.wanted & (1u << i))
			arguments.holders[i] = REG_BIT(argument_registers[i]);
	for (int32_t i = 0; !why; i++) {
		bool at_entry = i == 0 || (i == 1 && at[0].is_endbr);
		enum site_kind kind = kind_of(&at[i], at_entry, options);
		struct arguments before = arguments;
		bool overwritten = at[i].nop == NOP_FIVE || at[i].nop == NOP_FIVE_ODD;

		why = walk_ends(body, i, &arguments);
		if (!is_usable(&at[i], options) || (overwritten && !at_entry))
			continue;
		/* a cheap one, or, should there be none, the first that is not refused */
		if (found && kind == SITE_STEPPED)
			continue;
		set_entry(&at[i], kind, plan);
		note_arguments(&before, plan);
		plan->entry_note = NULL;
		if (kind < SITE_STEPPED)
			return 0;
		found = true;
	}
	plan->entry_note = found ? why : not_probed;
	return found ? 0 : -ENOTSUP;
}

/*
 * Functions that this one ends by jumping to.
 *
 * Their returns are its exits: needed only when its result is wanted.
 */

/* Operator new and its like go through three. */
#define TAILS_MAX 8

struct tails {
	uint64_t starts[TAILS_MAX], sizes[TAILS_MAX];
	int count;
};

/* Past the linkage table, if the function there is this file's own. */
static uint64_t destination(const struct body *body, uint64_t target)
{
	uint64_t vaddr = 0;

	return import_at(body->image, target, &vaddr) ? vaddr : target;
}

/* Notes the function that a leaving jump goes to. NULL, or why that cannot be followed (static). */
static const char *tails_add(struct tails *tails, const struct body *body, const struct insn *jump)
{
	uint64_t own = body->parts[0].start, start, size, target;

	if (jump->flow != FLOW_JMP && jump->flow != FLOW_JCC)
		return "exits by an indirect jump: its result is not known";
	target = destination(body, jump->target);
	if (!target)
		return "exits by a jump to another file: its result is not known";
	for (int i = 0; i < tails->count; i++)
		if (tails->starts[i] == target)
			return NULL;
	/* addresses and offsets move alike within one segment only, and sites are offsets */
	if (image__fde(body->image, target, &start, &size) || start != target ||
	    image__offset(body->image, target) - image__offset(body->image, own) !=
		    (int64_t)(target - own) ||
	    tails->count == TAILS_MAX)
		return "exits by a jump that cannot be followed";
	tails->starts[tails->count] = target;
	tails->sizes[tails->count++] = size;
	return NULL;
}

/*
 * The exit sites.
 *
 * A plain probe on every exit of a function. A return probe would be simpler, but it puts a
 * trampoline in place of the return address, and an exception that crosses such a frame ends
 * the program.
 *
 * The obvious site, the ret itself, is single-stepped: several times the cost of an emulated
 * instruction. But a ret mostly follows code like this:
 *
 *	sub    %fs:0x28,%rax
 *	jne    fail            <- here it is decided
 *	add    $0x18,%rsp
 *	pop    %rbx
 *	ret
 *
 * The jne is emulated, and the program at the probe sees from the flags which way it will go. So
 * for each ret we walk backwards over restores, along every edge that leads there, until a branch
 * is met on each: fall-through from a jcc (exit if not taken), a jcc or jmp that goes there. Is
 * one of the ways plain code that falls into the epilogue, or something that we can not follow,
 * then the ret it is. Also when the branch would be hit again without leaving, in a loop: a
 * stepped hit once a call is cheaper than an emulated one each round.
 *
 * One call counts as a restore: free or operator delete, the last thing that C++ functions with a
 * small buffer do, and only if it had to grow; or one that drops a reference (a Tensor's, which is
 * mostly none any more). "call" is emulated too, so the probe sits on it, and that free is left out
 * of the call's time:
 *
 *	cmp    %rax,%rdi
 *	je     1f              <- exit if taken
 *	call   free@plt        <- exit
 * 1:	add    $0x98,%rsp
 *
 * The entry site is never taken as a cheap exit: two programs on one instruction run in no
 * defined order.
 *
 * When what is returned is wanted, a jump to another function is no exit: that function's own
 * exits are taken instead. Others may call it too: of its hits only those count that find the
 * frame (CFA) of a call of ours open, for a tail call has its caller's.
 */

/* Equivalents of one single-stepped hit (three to ten emulated ones): a call executes at most the
 * conditional ones of these and one more. */
#define CHEAP_SITES_MAX	      4
#define CHEAP_CONDITIONAL_MAX 2
#define REGION_INSNS_MAX      48

struct search {
	struct body *body;
	uint64_t entry_vaddr;
	bool needs_result, needs_rax;
	struct tails tails; /* functions that it jumps to in the end */
	struct exit_site sites[CHEAP_SITES_MAX];
	int sites_count, conditional;
	int32_t region[REGION_INSNS_MAX]; /* instructions between the sites and the ret */
	int region_count;
};

static bool region_add(struct search *search, int32_t index)
{
	if (search->region_count == REGION_INSNS_MAX)
		return false;
	search->region[search->region_count++] = index;
	return true;
}

static bool site_add(struct search *search, int32_t index, enum exit_when when)
{
	struct body *body = search->body;
	const struct insn *insn = &body->insns.list[index];
	int32_t stay = when == EXIT_IF_TAKEN ? index + 1 : insn->target_index;
	struct exit_site site = {.vaddr = insn->vaddr, .kind = SITE_BRANCH, .when = when};
	int64_t offset;

	for (int i = 0; i < search->sites_count; i++) {
		if (search->sites[i].vaddr == insn->vaddr) {
			search->sites[i].when = EXIT_ALWAYS; /* both ways lead here */
			return true;
		}
	}
	if (search->sites_count == CHEAP_SITES_MAX || !insn->emulated ||
	    insn->vaddr == search->entry_vaddr ||
	    image__cfa(body->image, insn->vaddr, &site.cfa_reg, &offset))
		return false;
	site.cfa_offset = (int32_t)offset;
	if (offset != site.cfa_offset)
		return false;
	if (insn->flow == FLOW_JCC) {
		/* can it be met again after it has not left? */
		if (++search->conditional > CHEAP_CONDITIONAL_MAX ||
		    (stay >= 0 && stay < (int32_t)body->insns.count &&
		     body__reaches(body, stay, index)))
			return false;
		site.condition = insn->condition;
	}
	search->sites[search->sites_count++] = site;
	return true;
}

/* Covers the way from an instruction to the next: by a site, or as a restore of the region. */
static bool cover_fall_through(struct search *search, int32_t before)
{
	const struct body *body = search->body;
	const struct insn *insn = &body->insns.list[before];
	bool overwrites_result = search->needs_rax && (insn->writes & REG_BIT(REG_RAX));

	if (insn->flow == FLOW_JCC)
		return site_add(search, before, EXIT_IF_NOT_TAKEN);
	if (insn->flow == FLOW_CALL && !search->needs_rax &&
	    (insn->frees || body__drops_reference(body, destination(body, insn->target))))
		return site_add(search, before, EXIT_ALWAYS);
	return (insn->stores ? !search->needs_result : insn->restores && !overwrites_result) &&
	       region_add(search, before);
}

/* Every way to one instruction of the region: covered by a site, or in the region itself. */
static bool cover(struct search *search, int32_t index)
{
	const struct body *body = search->body;
	const struct insn *insn = &body->insns.list[index];
	int32_t before = body__before(body, index);
	bool reached = false;

	if (index == 0 || insn->is_table_target)
		return false;
	if (before >= 0 && body__falls_through(body, before)) {
		if (!cover_fall_through(search, before))
			return false;
		reached = true;
	}
	for (int32_t i = insn->jumps_here; i >= 0; i = body->insns.list[i].next_jump) {
		enum exit_when when =
			body->insns.list[i].flow == FLOW_JMP ? EXIT_ALWAYS : EXIT_IF_TAKEN;

		if (!site_add(search, i, when))
			return false;
		reached = true;
	}
	return reached;
}

/* The cheap sites that stand for a stepped exit. */
static bool search_cheap(struct search *search, int32_t exit)
{
	if (search->body->goes_anywhere)
		return false;
	search->sites_count = 0;
	search->conditional = 0;
	search->region_count = 0;
	region_add(search, exit);
	for (int i = 0; i < search->region_count; i++)
		if (!cover(search, search->region[i]))
			return false;
	return search->sites_count > 0;
}

static int add_exit(struct search *search, int32_t index, struct site_plan *plan)
{
	const struct insn *insn = &search->body->insns.list[index];
	/* at a ret and at a tail jump nothing is left above the return address */
	struct exit_site site = {.vaddr = insn->vaddr,
				 .kind = insn->emulated ? SITE_BRANCH : SITE_STEPPED,
				 .when = insn->flow == FLOW_JCC ? EXIT_IF_TAKEN : EXIT_ALWAYS,
				 .condition = insn->flow == FLOW_JCC ? insn->condition : 0,
				 .cfa_reg = CFA_RSP,
				 .cfa_offset = 8};
	int err = 0;

	if (insn->leaves && search->needs_result) {
		search->body->exits_doubt = tails_add(&search->tails, search->body, insn);
		return 0;
	}
	if (insn->flow != FLOW_JCC && !insn->emulated && search_cheap(search, index)) {
		for (int i = 0; i < search->sites_count && !err; i++)
			err = LIST_ADD(plan->exits, search->sites[i]);
		return err;
	}
	if (insn->refused)
		search->body->exits_doubt = "the kernel cannot probe an exit";
	else if (insn->flow == FLOW_JCC && insn->condition == CONDITION_NONE)
		search->body->exits_doubt = "exits by a branch that does not test flags";
	return LIST_ADD(plan->exits, site);
}

/* A branch between two exits is met from both. */
static void merge_sites(struct site_plan *plan)
{
	size_t kept = 0;

	if (!plan->exits_count)
		return;
	SORT_ITEMS(plan->exits, plan->exits_count, compare_u64); /* by vaddr */
	for (size_t i = 1; i < plan->exits_count; i++) {
		struct exit_site *last = &plan->exits[kept], *site = &plan->exits[i];

		if (last->vaddr != site->vaddr)
			plan->exits[++kept] = *site;
		else if (last->when != site->when)
			last->when = EXIT_ALWAYS;
	}
	plan->exits_count = kept + 1;
	FOR_EACH (site, plan->exits) {
		if (site->when == EXIT_ALWAYS)
			site->condition = 0;
		plan->entry_is_exit |= site->vaddr == plan->entry_vaddr;
	}
}

static int find_in_body(struct search *search, struct site_plan *plan)
{
	struct body *body = search->body;
	int err = 0;

	for (int32_t i = 0; !err && i < (int32_t)body->insns.count && !body->exits_doubt; i++)
		if (body->insns.list[i].flow == FLOW_RET || body->insns.list[i].leaves)
			err = add_exit(search, i, plan);
	return err;
}

/* The list grows while it is walked; the first is the function itself. */
static int find_in_tails(struct search *search, struct body *own, struct site_plan *plan)
{
	int err = 0;

	for (int i = 1; !err && i < search->tails.count && !own->exits_doubt; i++) {
		struct body body;

		err = body__decode(&body, own->image, search->tails.starts[i],
				   search->tails.sizes[i]);
		search->body = &body;
		if (!err && !body.undecoded)
			err = find_in_body(search, plan);
		own->exits_doubt = body.undecoded ? body.undecoded : body.exits_doubt;
		body__clear(&body);
	}
	search->body = own;
	return err;
}

/* Fills exits*, exits_state, exits_note, entry_is_exit; after the entry is chosen. 0, -ENOMEM. */
static int exits_find(struct body *body, const struct site_options *options, struct site_plan *plan)
{
	struct search search = {
		.body = body,
		.entry_vaddr = plan->entry_vaddr,
		.needs_result = options->needs_result,
		.needs_rax = options->needs_result && !options->result_in_memory,
	};
	int err;

	if (options->needs_result) /* its own code may be jumped back to */
		search.tails = (struct tails){.starts = {body->parts[0].start},
					      .sizes = {body->parts[0].size},
					      .count = 1};
	err = find_in_body(&search, plan) ?: find_in_tails(&search, body, plan);
	if (err)
		return err;
	plan->exits_state = body->exits_doubt ? EXITS_UNKNOWN : EXITS_KNOWN;
	plan->exits_note = body->exits_doubt;
	if (body->exits_doubt)
		plan->exits_count = 0;
	merge_sites(plan);
	return 0;
}

static void exits_unknown(struct site_plan *plan, const char *note)
{
	plan->exits_state = EXITS_UNKNOWN;
	plan->exits_note = note;
}

/* The plan of a function that cannot be decoded whole: its entry alone. */
static int plan_entry_alone(struct image *image, uint64_t vaddr, const char *note,
			    const struct site_options *options, struct site_plan *plan)
{
	struct insn first;
	size_t available;
	const uint8_t *code = image__code(image, vaddr, &available);

	exits_unknown(plan, note);
	if (insn_decode(code, available, vaddr, &first)) {
		plan->entry_kind = SITE_STEPPED;
		plan->entry_note = "the first bytes are not an instruction";
		return -ENOTSUP;
	}
	return entry_keep(&first, options, note, plan);
}

int site_plan(struct image *image, uint64_t vaddr, uint64_t size,
	      const struct site_options *options, struct site_plan *plan)
{
	size_t available;
	struct body body;
	int err;

	*plan = (struct site_plan){.entry_vaddr = vaddr,
				   .entry_kind = SITE_STEPPED,
				   .arguments = {0, 1, 2, 3, 4, 5, 6}};
	if (!image__code(image, vaddr, &available)) {
		exits_unknown(plan, "not in the file's code");
		return -ENOENT;
	}
	if (!DECODES_CODE) {
		plan->entry_note = "code of this architecture cannot be decoded";
		exits_unknown(plan, plan->entry_note);
		return 0;
	}
	if (!size)
		return plan_entry_alone(image, vaddr, "its size is not known", options, plan);
	err = body__decode(&body, image, vaddr, size);
	if (err)
		goto out;
	if (body.undecoded) {
		err = plan_entry_alone(image, vaddr, body.undecoded, options, plan);
		goto out;
	}
	plan->calls_itself = body.calls_itself;
	plan->switches_stack = body.switches_stack;
	err = entry_choose(&body, options, plan);
	if (err)
		exits_unknown(plan, plan->entry_note);
	else
		err = exits_find(&body, options, plan);
out:
	body__clear(&body);
	return err;
}

void site_plan__clear(struct site_plan *plan)
{
	free(plan->exits);
	plan->exits = NULL;
	plan->exits_count = plan->exits_capacity = 0;
}

uint64_t site_of_call(struct image *image, uint64_t vaddr, uint64_t size, uint64_t target)
{
	struct body body;
	uint64_t found = 0;
	bool several = false;

	if (!DECODES_CODE)
		return 0;
	if (!body__decode(&body, image, vaddr, size))
		FOR_EACH_OF (insn, body.insns) {
			if ((insn->flow != FLOW_CALL && insn->flow != FLOW_JMP) ||
			    !insn->emulated || destination(&body, insn->target) != target)
				continue;
			several |= found != 0;
			found = insn->vaddr;
		}
	body__clear(&body);
	return several ? 0 : found;
}

#define RSP 4
#define RBP 5

/* How far apart a switch saves one stack pointer and loads the other, in bytes of code. */
#define SWITCH_BYTES 128

/* REX.W mov between r/m and a register; Intel SDM volume 2, opcode and ModRM. */
struct move {
	uint8_t mod, reg, rm; /* numbers with their REX bits */
};

static bool is_move(const uint8_t *at, uint8_t opcode, struct move *move)
{
	if ((at[0] & 0xf8) != 0x48 || at[1] != opcode)
		return false;
	move->mod = at[2] >> 6;
	move->reg = (uint8_t)((at[2] >> 3 & 7) | (at[0] & 4) << 1);
	move->rm = (uint8_t)((at[2] & 7) | (at[0] & 1) << 3);
	return true;
}

/* Memory of the function's own frame: mod 0 with rm 5 is relative to rip instead. rm 4 is a SIB
 * byte, which names rsp as base in practice. */
static bool own_memory(const struct move *move)
{
	return (move->rm == RBP && move->mod != 0) || move->rm == RSP;
}

/* Arguments in the order of the System V ABI: rdi rsi rdx rcx. */
static bool is_argument(uint8_t reg)
{
	return reg == 7 || reg == 6 || reg == 2 || reg == 1;
}

/* The stack pointer comes from an object or an argument. */
static bool loads_foreign_rsp(const uint8_t *at)
{
	struct move move;

	if (is_move(at, 0x8b, &move) && move.reg == RSP)
		return move.mod == 3 ? is_argument(move.rm) : !own_memory(&move);
	if (is_move(at, 0x89, &move) && move.mod == 3 && move.rm == RSP)
		return is_argument(move.reg);
	return is_move(at, 0x87, &move) && (move.reg == RSP || (move.mod == 3 && move.rm == RSP));
}

/* Does an instruction nearby move the stack pointer to an object or a register? */
static bool saves_nearby(const uint8_t *code, size_t size, size_t at)
{
	size_t from = at > SWITCH_BYTES ? at - SWITCH_BYTES : 0;
	size_t to = size - at > SWITCH_BYTES ? at + SWITCH_BYTES : size;
	struct move move;

	for (size_t i = from; i + 3 <= to; i++) {
		if (is_move(code + i, 0x89, &move) && move.reg == RSP &&
		    (move.mod == 3 ? move.rm != RBP : !own_memory(&move)))
			return true;
		if (is_move(code + i, 0x87, &move) && move.reg == RSP)
			return true;
	}
	return false;
}

static bool find_switch(struct image *image, void *limit)
{
	const struct site_options options = {0};
	uint64_t vaddr, start, fde_size, decoded = UINT64_MAX; /* the function decoded last */
	struct site_plan plan;
	const uint8_t *code;
	bool switches;
	size_t size;

	for (size_t i = 0; (code = image__code_segment(image, i, &vaddr, &size)); i++) {
		if (size > *(size_t *)limit)
			return false;
		for (size_t at = 0; at + 3 <= size; at++) {
			if ((code[at] & 0xf8) != 0x48 || !loads_foreign_rsp(code + at) ||
			    !saves_nearby(code, size, at))
				continue;
			/* hand-written code often has no unwind table: then nothing tells that the
			 * bytes are in the middle of another instruction */
			if (image__fde(image, vaddr + at, &start, &fde_size))
				return true;
			if (start == decoded)
				continue;
			decoded = start;
			switches = site_plan(image, start, fde_size, &options, &plan) ||
				   plan.switches_stack;
			site_plan__clear(&plan);
			if (switches)
				return true;
		}
	}
	return false;
}

bool image_switches_stacks(struct image *image, size_t limit)
{
	static const char question[] = "switches stacks";

	/* elsewhere it is not known */
	return !DECODES_CODE ||
	       image__answer(image, fnv1a(question, sizeof(question)) ^ limit, find_switch, &limit);
}
