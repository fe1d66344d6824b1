// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/gpu_names.h"

#include "base/grow.h"
#include "base/hash.h"
#include "elf/demangle.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct known_name {
	const char *symbol, *module;
	uint32_t name;
	uint32_t next; /* index of the next name with the same hash; MAP64_NONE: the last */
};

struct gpu_names {
	struct sink *sink;
	struct map64 by_hash; /* hash of symbol and module → index of the first in known */
	struct known_name *known;
	size_t known_count, known_capacity;
	struct pool pool;
	uint32_t count;
};

struct gpu_names *gpu_names__new(struct sink *sink)
{
	struct gpu_names *names = calloc(1, sizeof(*names));

	if (names)
		names->sink = sink;
	return names;
}

void gpu_names__free(struct gpu_names *names)
{
	if (!names)
		return;
	map64_clear(&names->by_hash);
	free(names->known);
	pool_clear(&names->pool);
	free(names);
}

uint32_t gpu_names__reserve(struct gpu_names *names)
{
	return ++names->count;
}

void gpu_names__emit(struct gpu_names *names, uint32_t name, const char *symbol, const char *module,
		     uint32_t flags)
{
	struct perfx_gpu_name record = {.name = name, .flags = flags};
	char *readable = demangle_kernel(symbol);
	struct pack_buffer buffer;

	SINK_PACK(names->sink, &buffer, PERFX_KIND_GPU_NAME, record, readable ? readable : symbol,
		  module);
	free(readable);
}

uint32_t gpu_names__id(struct gpu_names *names, const char *symbol, const char *module,
		       uint32_t flags)
{
	uint64_t hash = fnv1a(symbol, strlen(symbol) + 1) * 31 + fnv1a(module, strlen(module));
	uint32_t last = MAP64_NONE, index = map64_get(&names->by_hash, hash);
	struct known_name known = {.name = names->count + 1, .next = MAP64_NONE};

	for (; index != MAP64_NONE; index = names->known[index].next) {
		if (!strcmp(names->known[index].symbol, symbol) &&
		    !strcmp(names->known[index].module, module))
			return names->known[index].name;
		last = index;
	}
	known.symbol = pool_add(&names->pool, symbol);
	known.module = pool_add(&names->pool, module);
	index = (uint32_t)names->known_count;
	if (!known.symbol || !known.module || GROW_BY_ONE(names->known) ||
	    (last == MAP64_NONE && map64_put(&names->by_hash, hash, index)))
		return 0;
	names->known[names->known_count++] = known;
	if (last != MAP64_NONE)
		names->known[last].next = index;
	names->count = known.name;
	gpu_names__emit(names, known.name, symbol, module, flags);
	return known.name;
}
