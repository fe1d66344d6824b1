/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stacks are identified by their hash: each goes through the ring once, and later records refer to
 * its id.
 */
#ifndef PERFX_STACK_BPF_H
#define PERFX_STACK_BPF_H

#include "walk.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PERFX_MAX_RINGS);
	__type(key, __u32);
	__array(values, struct ring);
} perfx_memory __weak SEC(".maps");

/* Samples without room, by process; 0: processes beyond the table. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PERFX_MAX_PROCESSES);
	__type(key, __u32);
	__type(value, __u64);
} perfx_samples_lost __weak SEC(".maps");

static __always_inline void count_lost_sample(__u32 process)
{
	__u32 key = process < PERFX_MAX_PROCESSES ? process : 0;
	__u64 *lost = bpf_map_lookup_elem(&perfx_samples_lost, &key);

	counter_add(PERFX_COUNTER_SAMPLE_DROPS, 1);
	if (lost)
		__sync_fetch_and_add(lost, 1);
}

struct stack_key {
	__u64 hash;
	__u32 process;
	__u32 pad;
};

struct stack_value {
	__u32 stack;
	__u32 check; /* by another hash function: a collision of both is not expected */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* user space: PERFX_MAX_STACKS when memory is recorded */
	__type(key, struct stack_key);
	__type(value, struct stack_value);
} perfx_stack_ids __weak SEC(".maps");

extern volatile __u32 perfx_next_stack;

struct stack_hash {
	const struct call_stack *stack;
	__u64 a, b; /* multiplied (FNV-1a with a wider prime); rotated and added */
};

static long stack_hash_step(__u32 i, void *ctx)
{
	struct stack_hash *hash = ctx;
	__u64 address;

	if (i >= hash->stack->head.frames_count || i >= PERFX_STACK_FRAMES_MAX)
		return 1;
	address = hash->stack->addresses[i];
	hash->a = mix(hash->a, address);
	hash->b = (hash->b << 7 | hash->b >> 57) + address;
	return 0;
}

static __always_inline __u32 hash_of(const struct call_stack *stack, __u64 *hash)
{
	/* the same addresses mean something else if the first is not a return address */
	struct stack_hash steps = {.stack = stack,
				   .a = 0x9e3779b97f4a7c15ULL ^ stack->head.flags,
				   .b = 0xc2b2ae3d27d4eb4fULL};

	/* and if other code objects reuse the addresses of Python frames */
	if (stack->python.merged)
		steps.a ^= stack->python.codes_hash;
	repeat(PERFX_STACK_FRAMES_MAX, stack_hash_step, &steps);
	*hash = steps.a;
	return steps.b ^ (steps.b >> 32);
}

struct code_append {
	struct call_stack *stack;
	__u32 at; /* in addresses, counted in halves */
};

static long code_append_step(__u32 slot, void *ctx)
{
	struct code_append *append = ctx;
	struct python_walk *w = &append->stack->python;
	__u32 at = append->at;

	slot &= PERFX_STACK_FRAMES_MAX - 1;
	if (slot >= w->merged || at >= 2 * PERFX_STACK_FRAMES_MAX)
		return 1;
	if (w->slots[slot] & PERFX_FRAME_PYTHON) {
		((__u32 *)append->stack->addresses)[at & (2 * PERFX_STACK_FRAMES_MAX - 1)] =
			w->codes[slot];
		append->at = at + 1;
	}
	return 0;
}

/* Appends the time and, as far as there is room, the code objects of the Python frames, for user
 * space. Returns the size of all. */
__weak __noinline __u32 append_tail(struct call_stack *record)
{
	struct code_append append = {.stack = record};
	__u32 count = record ? record->head.frames_count : 0;

	if (!record || count > PERFX_STACK_FRAMES_MAX)
		return 0;
	record->addresses[count] = bpf_ktime_get_ns();
	append.at = 2 * (count + 1);
	if (record->python.merged)
		repeat(PERFX_STACK_FRAMES_MAX, code_append_step, &append);
	return (append.at + 1) / 2 * sizeof(__u64);
}

/* Emits a stack. Returns its id; 0: no room. */
static __always_inline __u32 emit_stack(struct call_stack *record, void *ring, __u32 process)
{
	__u32 size = sizeof(record->head) + append_tail(record);

	if (size > sizeof(record->head) + sizeof(record->addresses))
		size = sizeof(record->head) + sizeof(record->addresses);
	record->head.hdr.size = size;
	record->head.hdr.kind = PERFX_KIND_STACK;
	record->head.hdr.fixed = sizeof(record->head);
	record->head.stack = __sync_fetch_and_add(&perfx_next_stack, 1);
	record->head.process = process;
	return bpf_ringbuf_output(ring, &record->head, size, BPF_RB_NO_WAKEUP) ? 0
									       : record->head.stack;
}

/* The id of a stack, which is emitted if it is new; 0: no room to store or emit it. */
__weak __noinline __u32 stack_id(struct call_stack *record, __u32 process, __u32 tid)
{
	struct stack_key key = {.process = process};
	struct stack_value value, *known;
	void *ring = ring_of(&perfx_memory, tid);

	if (!record || !ring)
		return 0;
	value.check = hash_of(record, &key.hash);
	known = bpf_map_lookup_elem(&perfx_stack_ids, &key);
	if (known) {
		if (known->check == value.check)
			return known->stack;
		counter_add(PERFX_COUNTER_STACK_FAILURES, 1);
		return 0;
	}
	value.stack = emit_stack(record, ring, process);
	/* emitted before it can be found, so that records that refer to it come later */
	if (!value.stack || bpf_map_update_elem(&perfx_stack_ids, &key, &value, BPF_NOEXIST)) {
		known = bpf_map_lookup_elem(&perfx_stack_ids, &key);
		if (known && known->check == value.check)
			return known->stack;
		counter_add(PERFX_COUNTER_STACK_FAILURES, 1);
		return 0;
	}
	return value.stack;
}

#endif
