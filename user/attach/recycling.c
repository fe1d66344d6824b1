// SPDX-License-Identifier: BSD-2-Clause
/* Removes entries of ended processes from the kernel's tables, so that their indices can be
 * reused. */
#include "attach/tracer_internal.h"

#include <assert.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Entries are read so many at a time: each on its own would be a system call. */
#define BATCH_ENTRIES 4096
#define KEY_BYTES_MAX 64

/* A hash map whose keys have an index. */
struct keyed {
	struct bpf_map *map;
	size_t offset; /* of the index in a key */
};

/* Takes out the entries whose index is in a set. */
static int forget_in(const struct keyed *keyed, const bool gone[], unsigned char *keys,
		     unsigned char *values)
{
	int map_fd = bpf_map__fd(keyed->map);
	size_t key_bytes = bpf_map__key_size(keyed->map);
	uint64_t batch = 0;
	bool more = true;
	int err = 0;

	for (bool first = true; more && !err; first = false) {
		uint32_t count = BATCH_ENTRIES, index;

		err = bpf_map_lookup_batch(map_fd, first ? NULL : &batch, &batch, keys, values,
					   &count, NULL);
		more = !err;
		if (err == -ENOENT) /* these are the last */
			err = 0;
		for (uint32_t i = 0; !err && i < count; i++) {
			memcpy(&index, keys + i * key_bytes + keyed->offset, sizeof(index));
			if (index <= PERFX_FREE_PLACES && gone[index])
				bpf_map_delete_elem(map_fd, keys + i * key_bytes);
		}
	}
	return err;
}

static int forget_in_all(const struct keyed *keyed, size_t count, const bool gone[])
{
	size_t value_bytes = 0;
	unsigned char *keys, *values;
	int err = 0;

	for (size_t i = 0; i < count; i++)
		if (bpf_map__value_size(keyed[i].map) > value_bytes)
			value_bytes = bpf_map__value_size(keyed[i].map);
	keys = malloc((size_t)BATCH_ENTRIES * KEY_BYTES_MAX);
	values = malloc(BATCH_ENTRIES * ((value_bytes + 7) / 8 * 8));
	for (size_t i = 0; keys && values && i < count && !err; i++)
		err = forget_in(&keyed[i], gone, keys, values);
	if (!keys || !values)
		err = -ENOMEM;
	free(keys);
	free(values);
	return err;
}

#define PROCESS_AT(type) offsetof(struct type, process)

int tracer__forget(struct tracer *tracer, const bool gone[], bool contexts[])
{
	const struct perfx_bpf *skel = tracer->skel;
	/* struct context_key, stack_key, block_key and note_key are the programs' own */
	const struct keyed by_process[] = {
		{skel->maps.perfx_context_ids, 2 * sizeof(uint32_t)},
		{skel->maps.perfx_stack_ids, sizeof(uint64_t)},
		{skel->maps.perfx_sample_stack_ids, sizeof(uint64_t)},
		{skel->maps.perfx_sampled, sizeof(uint64_t)},
		{skel->maps.perfx_notes, sizeof(uint64_t)},
		{skel->maps.perfx_started, PROCESS_AT(perfx_started_key)},
		{skel->maps.perfx_objects, PROCESS_AT(perfx_object_key)},
		{skel->maps.perfx_kernels, PROCESS_AT(perfx_kernel_key)},
	};
	const struct keyed by_context[] = {
		{skel->maps.perfx_pending_runs, offsetof(struct perfx_pending_key, context)},
	};
	int err = forget_in_all(by_process, sizeof(by_process) / sizeof(by_process[0]), gone);
	uint32_t count;

	for (enum perfx_kind kind = 1; kind < PERFX_KINDS && !err; kind++) {
		const struct keyed sums = {tracer_sum_map(tracer, kind), PROCESS_AT(perfx_sum_key)};

		if (sums.map)
			err = forget_in_all(&sums, 1, gone);
	}
	if (err)
		return err;
	/* No program finds the nodes of these calling contexts any more, so they can be reused. The
	 * sums stay, because the emitted part of them is known by their index. */
	tracer__contexts(tracer, &count);
	for (uint32_t id = 1; id < count; id++) {
		struct perfx_context_node *node = &tracer->contexts[id];

		contexts[id] = node->process && gone[node->process];
		if (!contexts[id])
			continue;
		__atomic_store_n(&node->function, 0, __ATOMIC_RELEASE);
		node->process = node->parent = node->stack = 0;
		node->caller = 0;
	}
	return forget_in_all(by_context, sizeof(by_context) / sizeof(by_context[0]), contexts);
}

int tracer__renew_sample_stacks(struct tracer *tracer)
{
	struct bpf_map *map = tracer->skel->maps.perfx_sample_stack_ids;
	unsigned char *keys = malloc((size_t)BATCH_ENTRIES * KEY_BYTES_MAX);
	uint64_t values[BATCH_ENTRIES], batch = 0;
	int err = keys ? 0 : -ENOMEM;

	assert(bpf_map__value_size(map) == sizeof(values[0]));
	__atomic_add_fetch(&tracer->skel->bss->perfx_stacks_round, 1, __ATOMIC_SEQ_CST);
	for (bool first = true; !err; first = false) {
		uint32_t count = BATCH_ENTRIES;

		err = bpf_map_lookup_and_delete_batch(bpf_map__fd(map), first ? NULL : &batch,
						      &batch, keys, values, &count, NULL);
	}
	free(keys);
	return err == -ENOENT ? 0 : err; /* there are no more */
}
