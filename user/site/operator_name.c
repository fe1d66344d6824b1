// SPDX-License-Identifier: BSD-2-Clause
/*
 * Where the name of a PyTorch operator ends and its overload begins.
 *
 * A symbol joins both by '_', which names contain too: add_Tensor is the overload Tensor of add,
 * but unique_dim has no overload, and sum_dim_IntList is dim_IntList of sum. The operator's code
 * separates them: on its first call, at::_ops::NAME::call looks the operator up in the dispatcher
 * by the two strings "aten::add" and "Tensor", itself or in a function of its own. Either one loads
 * the address of the name relative to the instruction pointer.
 */
#include "cost/builtin.h"
#include "site/insn.h"
#include "site/site.h"

#include <string.h>

/* Limits of the search; PyTorch 1.13 and 2.15 need less than half. */
enum { INSTRUCTIONS_MAX = 4096, LOOKUP_BYTES_MAX = 512 };

static const char namespace_prefix[] = "aten::";
#define PREFIX_BYTES (sizeof(namespace_prefix) - 1)

/* The length of the operator's name at vaddr, a prefix of name; 0: the string is another one. */
static uint16_t bytes_named_at(const struct image *image, uint64_t vaddr, const char *name)
{
	size_t available, length;
	const char *text = (const char *)image__data(image, vaddr, &available);

	if (!text || available <= PREFIX_BYTES || memcmp(text, namespace_prefix, PREFIX_BYTES))
		return 0;
	text += PREFIX_BYTES;
	length = strnlen(text, available - PREFIX_BYTES);
	if (length == available - PREFIX_BYTES || length > UINT16_MAX ||
	    strncmp(text, name, length) != 0 || (name[length] && name[length] != '_'))
		return 0;
	return (uint16_t)length;
}

static uint16_t find_in_code(const struct image *image, const char *name, uint64_t vaddr,
			     uint64_t size, bool follow_calls, unsigned *left)
{
	size_t available;
	const uint8_t *code = image__code(image, vaddr, &available);
	uint16_t found = 0;
	struct insn insn;

	if (!code)
		return 0;
	size = size < available ? size : available;
	for (uint64_t at = 0; !found && at < size && *left; at += insn.length) {
		(*left)--;
		if (insn_decode(code + at, size - at, vaddr + at, &insn))
			return 0;
		if (insn.op == OP_LEA && insn.base == REG_RIP)
			found = bytes_named_at(image, insn.target, name);
		else if (insn.flow == FLOW_CALL && follow_calls)
			found = find_in_code(image, name, insn.target, LOOKUP_BYTES_MAX, false,
					     left);
		else if (!follow_calls && insn.flow != FLOW_NEXT && insn.flow != FLOW_JCC &&
			 insn.flow != FLOW_CALL)
			return 0;
	}
	return found;
}

uint16_t operator_name_bytes(const struct image *image, const char *symbol, uint64_t vaddr,
			     uint64_t size)
{
	unsigned left = INSTRUCTIONS_MAX;
	char name[128];

	if (!builtin_torch_name(symbol, name, sizeof(name)))
		return 0;
	return find_in_code(image, name, vaddr, size, true, &left);
}
