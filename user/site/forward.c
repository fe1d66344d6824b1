// SPDX-License-Identifier: BSD-2-Clause
/*
 * Functions that are only another way to a function: operator delete that jumps to free. A probe on
 * both would see one call twice.
 */
#include "site/body.h"
#include "site/site.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A test for NULL, a call, a return, whatever moves the arguments. A function that gives memory
 * back without any call is longer. */
#define TRIVIAL_INSNS_MAX 12

/* Condition codes, as in struct insn. */
#define CONDITION_E  4
#define CONDITION_NE 5

struct search {
	const struct body *body;
	forward_fn is_other;
	void *ctx;
	bool *seen;
	int32_t *stack;
	int32_t depth;
	bool passes;	  /* some path reaches one of the others, */
	bool calls;	  /* by a call */
	bool goes_around; /* some path does not */
	bool calls_more;  /* it also calls or jumps to something else */
};

static bool leads_to_other(const struct search *search, const struct insn *insn)
{
	uint64_t vaddr = 0;
	const char *name;

	if (insn->flow != FLOW_JMP && insn->flow != FLOW_JCC && insn->flow != FLOW_CALL)
		return false;
	if (search->is_other(insn->target, NULL, search->ctx))
		return true;
	name = import_at(search->body->image, insn->target, &vaddr);
	return name && search->is_other(vaddr, name, search->ctx);
}

static void push(struct search *search, int32_t index)
{
	if (index < 0 || index >= (int32_t)search->body->insns.count || search->seen[index])
		return;
	search->seen[index] = true;
	search->stack[search->depth++] = index;
}

/* test %rdi,%rdi at the start, then a branch: which way goes NULL? */
static bool branches_on_null(const struct search *search, int32_t index)
{
	static const uint8_t test[] = {0x48, 0x85, 0xff};
	const struct insn *at = search->body->insns.list;
	size_t available;
	const uint8_t *code;

	if (at[index].flow != FLOW_JCC || index < 1 || index > (at[0].is_endbr ? 2 : 1))
		return false;
	code = image__code(search->body->image, at[index - 1].vaddr, &available);
	return code && available > sizeof(test) && !memcmp(code, test, sizeof(test)) &&
	       (at[index].condition == CONDITION_E || at[index].condition == CONDITION_NE);
}

static void step(struct search *search, int32_t index)
{
	const struct insn *insn = &search->body->insns.list[index];
	bool other = leads_to_other(search, insn), on_null = branches_on_null(search, index);

	search->passes |= other;
	search->calls |= other && insn->flow == FLOW_CALL;
	if (insn->flow == FLOW_CALL || insn->flow == FLOW_CALL_INDIRECT)
		search->calls_more |= !other;
	search->goes_around |= insn->flow == FLOW_RET || (insn->leaves && !other);
	search->calls_more |= insn->leaves && !other;
	if (!insn->leaves && (insn->flow == FLOW_JMP || insn->flow == FLOW_JCC) &&
	    !(on_null && insn->condition == CONDITION_E))
		push(search, insn->target_index);
	if (body__falls_through(search->body, index) && !(other && insn->flow == FLOW_CALL) &&
	    !(on_null && insn->condition == CONDITION_NE))
		push(search, index + 1);
}

/* Walks the whole function. 0, or why nothing can be said: -ENOENT, -ENOMEM. */
static int walk_function(struct search *search, struct body *body, struct image *image,
			 uint64_t vaddr, uint64_t size)
{
	int err = size ? body__decode(body, image, vaddr, size) : -ENOENT;

	if (!err && (body->undecoded || body->goes_anywhere || !body->insns.count))
		err = -ENOENT;
	search->body = body;
	if (!err) {
		search->seen = calloc(body->insns.count, sizeof(*search->seen));
		search->stack = calloc(body->insns.count, sizeof(*search->stack));
		err = search->seen && search->stack ? 0 : -ENOMEM;
	}
	if (!err)
		push(search, 0);
	while (search->depth)
		step(search, search->stack[--search->depth]);
	free(search->seen);
	free(search->stack);
	return err;
}

int forward_decide(struct image *image, uint64_t vaddr, uint64_t size, forward_fn is_other,
		   void *ctx)
{
	struct search search = {.is_other = is_other, .ctx = ctx};
	struct body body = {0};
	int err = walk_function(&search, &body, image, vaddr, size);
	bool trivial = body.insns.count <= TRIVIAL_INSNS_MAX;

	body__clear(&body);
	if (err)
		return err == -ENOENT ? 0 : err;
	if (!search.passes || (search.goes_around && (!trivial || search.calls_more)))
		return FORWARD_NO;
	return search.calls ? FORWARD_CALLS : FORWARD_JUMPS;
}

int forward_passes(struct image *image, uint64_t vaddr, uint64_t size, forward_fn is_other,
		   void *ctx)
{
	struct search search = {.is_other = is_other, .ctx = ctx};
	struct body body = {0};
	int err = walk_function(&search, &body, image, vaddr, size);

	body__clear(&body);
	return err ? err : search.passes;
}
