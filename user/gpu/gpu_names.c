// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/gpu_names.h"

#include "base/grow.h"
#include "base/hash.h"
#include "elf/demangle.h"

#include <stdlib.h>
#include <string.h>

struct gpu_names {
	struct sink *sink;
	struct map64 by_hash; /* of symbol and module: the number */
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
	uint64_t key = fnv1a(symbol, strlen(symbol) + 1) * 31 + fnv1a(module, strlen(module));
	uint32_t name = map64_get(&names->by_hash, key);

	if (name != MAP64_NONE)
		return name;
	name = names->count + 1;
	if (map64_put(&names->by_hash, key, name))
		return 0;
	names->count = name;
	gpu_names__emit(names, name, symbol, module, flags);
	return name;
}
