// SPDX-License-Identifier: BSD-2-Clause
#include "site/tails.h"

#include "site/imports.h"

/* Past the linkage table, if the function there is this file's own. */
static uint64_t destination(const struct body *body, uint64_t target)
{
	uint64_t vaddr = 0;

	return import_at(body->image, target, &vaddr) ? vaddr : target;
}

/* Addresses and offsets move alike within one segment only, and sites are offsets in the end. */
static bool same_segment(const struct body *body, uint64_t vaddr)
{
	uint64_t start = body->parts[0].start;

	return image__offset(body->image, vaddr) - image__offset(body->image, start) ==
	       (int64_t)(vaddr - start);
}

const char *tails_add(struct tails *tails, const struct body *body, const struct insn *jump)
{
	uint64_t start, size, target;

	if (jump->flow != FLOW_JMP && jump->flow != FLOW_JCC)
		return "leaves by an indirect jump: what it returns is not seen";
	target = destination(body, jump->target);
	if (!target)
		return "leaves by a jump to another file: what it returns is not seen";
	for (int i = 0; i < tails->count; i++)
		if (tails->starts[i] == target)
			return NULL;
	if (image__fde(body->image, target, &start, &size) || start != target ||
	    !same_segment(body, target) || tails->count == TAILS_MAX)
		return "leaves by a jump that can not be followed";
	tails->starts[tails->count] = target;
	tails->sizes[tails->count++] = size;
	return NULL;
}
