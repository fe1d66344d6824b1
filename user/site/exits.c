// SPDX-License-Identifier: BSD-2-Clause
/*
 * A plain probe on every exit of a function. A return probe would be simpler, but it puts a
 * trampoline in place of the return address, and an exception that crosses such a frame ends
 * the program.
 *
 * The obvious site, the ret itself, is single-stepped: several times the cost of an emulated
 * instruction. But what stands before a ret is mostly this:
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
 * small buffer do, and only if it had to grow. "call" is emulated too, so the probe sits on it,
 * and that free is left out of the call's time:
 *
 *	cmp    %rax,%rdi
 *	je     1f              <- exit if taken
 *	call   free@plt        <- exit
 * 1:	add    $0x98,%rsp
 *
 * The entry site is never taken as a cheap exit: two programs on one instruction run in no
 * defined order.
 *
 * When the returned value is wanted, a jump to another function is no exit: that function's own
 * exits are taken instead. Others may call it too: of its hits only those count that find the
 * frame (CFA) of a call of ours open, for a tail call has its caller's.
 */
#include "site/exits.h"

#include "site/tails.h"

#include <errno.h>
#include <stdlib.h>

/* What replaces one stepped hit (three to ten emulated ones): a call passes at most the
 * conditional ones of these and one more. */
#define CHEAP_SITES_MAX	      4
#define CHEAP_CONDITIONAL_MAX 2
#define REGION_INSNS_MAX      48

struct search {
	struct body *body;
	uint64_t entry_vaddr;
	bool needs_result;
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

static struct exit_site *find_site(struct search *search, uint64_t vaddr)
{
	for (int i = 0; i < search->sites_count; i++)
		if (search->sites[i].vaddr == vaddr)
			return &search->sites[i];
	return NULL;
}

/* Can a conditional branch be met again after it has not left? */
static bool is_met_again(struct search *search, int32_t index, enum exit_when when)
{
	const struct insn *insn = &search->body->insns.at[index];
	int32_t stay = when == EXIT_IF_TAKEN ? index + 1 : insn->target_index;

	if (stay < 0 || stay >= (int32_t)search->body->insns.count)
		return false;
	return body__reaches(search->body, stay, index);
}

static bool frame_at(struct search *search, uint64_t vaddr, struct exit_site *site)
{
	int64_t offset;

	if (image__cfa(search->body->image, vaddr, &site->cfa_reg, &offset))
		return false;
	site->cfa_offset = (int32_t)offset;
	return offset == site->cfa_offset;
}

static bool site_add(struct search *search, int32_t index, enum exit_when when)
{
	const struct insn *insn = &search->body->insns.at[index];
	struct exit_site *site = find_site(search, insn->vaddr);

	if (site) {
		site->when = EXIT_ALWAYS; /* both ways lead here */
		return true;
	}
	if (search->sites_count == CHEAP_SITES_MAX || !insn->emulated ||
	    insn->vaddr == search->entry_vaddr)
		return false;
	site = &search->sites[search->sites_count];
	*site = (struct exit_site){.vaddr = insn->vaddr, .kind = SITE_BRANCH, .when = when};
	if (!frame_at(search, insn->vaddr, site))
		return false;
	if (insn->flow == FLOW_JCC) {
		if (++search->conditional > CHEAP_CONDITIONAL_MAX ||
		    is_met_again(search, index, when))
			return false;
		site->condition = insn->condition;
	}
	search->sites_count++;
	return true;
}

static bool cover_fall_through(struct search *search, int32_t before)
{
	const struct insn *insn = &search->body->insns.at[before];

	if (insn->flow == FLOW_JCC)
		return site_add(search, before, EXIT_IF_NOT_TAKEN);
	if (insn->frees && !search->needs_result)
		return site_add(search, before, EXIT_ALWAYS);
	if (!insn->restores || (search->needs_result && (insn->writes & REG_BIT(REG_RAX))))
		return false;
	return region_add(search, before);
}

/* Every way to one instruction of the region: covered by a site, or in the region itself. */
static bool cover(struct search *search, int32_t index)
{
	const struct body *body = search->body;
	const struct insn *insn = &body->insns.at[index];
	int32_t before = body__before(body, index);
	bool reached = false;

	if (index == 0 || insn->is_table_target)
		return false;
	if (before >= 0 && body__falls_through(body, before)) {
		if (!cover_fall_through(search, before))
			return false;
		reached = true;
	}
	for (int32_t i = insn->jumps_here; i >= 0; i = body->insns.at[i].next_jump) {
		enum exit_when when =
			body->insns.at[i].flow == FLOW_JMP ? EXIT_ALWAYS : EXIT_IF_TAKEN;

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

static int plan_add(struct site_plan *plan, const struct exit_site *site)
{
	struct exit_site *exits = plan->exits;

	if ((plan->exits_count & (plan->exits_count - 1)) == 0) {
		size_t room = plan->exits_count ? 2 * plan->exits_count : 1;

		exits = realloc(exits, room * sizeof(*exits));
		if (!exits)
			return -ENOMEM;
		plan->exits = exits;
	}
	exits[plan->exits_count++] = *site;
	return 0;
}

/* At a ret and at a tail jump nothing is left above the return address. */
static struct exit_site site_itself(const struct insn *insn)
{
	struct exit_site site = {
		.vaddr = insn->vaddr,
		.kind = insn->emulated ? SITE_BRANCH : SITE_STEPPED,
		.when = EXIT_ALWAYS,
		.cfa_reg = CFA_RSP,
		.cfa_offset = 8,
	};

	if (insn->flow == FLOW_JCC) {
		site.when = EXIT_IF_TAKEN;
		site.condition = insn->condition;
	}
	return site;
}

static int add_exit(struct search *search, int32_t index, struct site_plan *plan)
{
	const struct insn *insn = &search->body->insns.at[index];
	struct exit_site site = site_itself(insn);
	int err = 0;

	if (insn->leaves && search->needs_result) {
		search->body->exits_doubt = tails_add(&search->tails, search->body, insn);
		return 0;
	}
	if (insn->flow != FLOW_JCC && !insn->emulated && search_cheap(search, index)) {
		for (int i = 0; i < search->sites_count && !err; i++)
			err = plan_add(plan, &search->sites[i]);
		return err;
	}
	if (insn->refused)
		search->body->exits_doubt = "the kernel takes no probe on an exit";
	else if (insn->flow == FLOW_JCC && insn->condition == CONDITION_NONE)
		search->body->exits_doubt = "leaves by a branch that no flags decide";
	return plan_add(plan, &site);
}

static int compare_sites(const void *left, const void *right)
{
	const struct exit_site *a = left, *b = right;

	return (a->vaddr > b->vaddr) - (a->vaddr < b->vaddr);
}

/* A branch between two exits is met from both. */
static void merge_sites(struct site_plan *plan)
{
	size_t kept = 0;

	if (!plan->exits_count)
		return;
	qsort(plan->exits, plan->exits_count, sizeof(*plan->exits), compare_sites);
	for (size_t i = 1; i < plan->exits_count; i++) {
		struct exit_site *last = &plan->exits[kept], *site = &plan->exits[i];

		if (last->vaddr != site->vaddr)
			plan->exits[++kept] = *site;
		else if (last->when != site->when)
			last->when = EXIT_ALWAYS;
	}
	plan->exits_count = kept + 1;
	for (size_t i = 0; i < plan->exits_count; i++) {
		if (plan->exits[i].when == EXIT_ALWAYS)
			plan->exits[i].condition = 0;
		plan->entry_is_exit |= plan->exits[i].vaddr == plan->entry_vaddr;
	}
}

static int find_in_body(struct search *search, struct site_plan *plan)
{
	struct body *body = search->body;
	int err = 0;

	for (int32_t i = 0; !err && i < (int32_t)body->insns.count && !body->exits_doubt; i++)
		if (body->insns.at[i].flow == FLOW_RET || body->insns.at[i].leaves)
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

int exits_find(struct body *body, const struct site_options *options, struct site_plan *plan)
{
	struct search search = {
		.body = body,
		.entry_vaddr = plan->entry_vaddr,
		.needs_result = options->needs_result,
	};
	int err;

	if (options->needs_result) /* its own code may be jumped back to */
		search.tails = (struct tails){.starts = {body->parts[0].start},
					      .sizes = {body->parts[0].size},
					      .count = 1};
	err = find_in_body(&search, plan);
	if (!err)
		err = find_in_tails(&search, body, plan);
	if (err)
		return err;
	plan->exits_state = body->exits_doubt ? EXITS_UNKNOWN : EXITS_KNOWN;
	plan->exits_note = body->exits_doubt;
	if (body->exits_doubt)
		plan->exits_count = 0;
	merge_sites(plan);
	return 0;
}
