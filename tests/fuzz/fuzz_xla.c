// SPDX-License-Identifier: BSD-2-Clause
/* The memory of a process in which XLA runs a thunk: its address and its operation's name, the
 * ranges that can be read, then what is in them. */
#include "fuzz.h"

#include "xla/thunk.h"

struct memory {
	struct fuzz_xla head;
	const uint8_t *bytes;
	size_t size;
};

/* A byte that lies in a range, and in the input. */
static bool read_byte(const struct memory *memory, uint64_t address, uint8_t *to)
{
	size_t before = 0;

	for (size_t i = 0; i < FUZZ_XLA_RANGES; i++) {
		const struct fuzz_xla_range *range = &memory->head.ranges[i];
		uint64_t at = address - range->address;

		if (at < range->bytes && before + at < memory->size) {
			*to = memory->bytes[before + at];
			return true;
		}
		before += range->bytes;
	}
	return false;
}

static bool read_memory(void *ctx, uint64_t address, void *to, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (!read_byte(ctx, address + i, (uint8_t *)to + i))
			return false;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct memory memory;
	const struct xla_memory reader = {.read = read_memory, .ctx = &memory};
	struct xla_cost cost;

	if (size < sizeof(memory.head))
		return 0;
	memcpy(&memory.head, data, sizeof(memory.head));
	memory.head.operation[sizeof(memory.head.operation) - 1] = '\0';
	memory.bytes = data + sizeof(memory.head);
	memory.size = size - sizeof(memory.head);
	xla_thunk_cost(&reader, memory.head.thunk, memory.head.operation, &cost);
	if (cost.state != PERFX_COST_COUNTED && cost.state != PERFX_COST_UNREAD &&
	    cost.state != PERFX_COST_OPAQUE && cost.state != PERFX_COST_NONE)
		abort();
	return 0;
}
