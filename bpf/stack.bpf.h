/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Call stacks by frame pointers, identified by their hash: a stack goes through the ring once, and
 * later allocations name it. Without frame pointers the walk ends early; the immediate caller is
 * always known, because the call has just pushed its address.
 *
 * bpf_get_stack() would lose that caller (the callee's first instruction has not yet pushed its own
 * frame), shows the trampoline where a return probe has replaced a return address, and needs more
 * time; bpf_get_stackid() loses stacks that collide.
 */
#ifndef PERFX_STACK_BPF_H
#define PERFX_STACK_BPF_H

#include "thread.bpf.h"

/* A STACK record, and a way to build it: in task storage. */
struct call_stack {
	struct perfx_stack head;
	__u64 addresses[PERFX_STACK_FRAMES_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PERFX_MAX_RINGS);
	__type(key, __u32);
	__array(values, struct ring);
} perfx_memory __weak SEC(".maps");

struct stack_key {
	__u64 hash;
	__u32 process;
	__u32 pad;
};

struct stack_value {
	__u32 stack;
	__u32 check; /* of another hash function: a collision of both is not to be expected */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* user space: PERFX_MAX_STACKS when memory is recorded */
	__type(key, struct stack_key);
	__type(value, struct stack_value);
} perfx_stack_ids __weak SEC(".maps");

extern volatile __u32 perfx_next_stack;

/* Nested return probes that are searched for a replaced return address. */
#define RETURN_INSTANCES_MAX 64

static __always_inline __u64 trampoline_of(struct task_struct *task)
{
	return BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
}

/* The return address that a return probe has replaced at `ret_addr_sp`; 0: not found. Out of line,
 * as what follows: verified once, not once for every way that leads there. */
__weak __noinline __u64 replaced_address(__u64 ret_addr_sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct return_instance *instance = BPF_CORE_READ(task, utask, return_instances);

	for (int i = 0; i < RETURN_INSTANCES_MAX && instance; i++) {
		if (BPF_CORE_READ(instance, stack) == ret_addr_sp)
			return BPF_CORE_READ(instance, orig_ret_vaddr);
		instance = BPF_CORE_READ(instance, next);
	}
	return 0;
}

struct caller {
	__u64 frame_pointer;
	__u64 return_address;
};

/* Adds the callers of the first `count` frames. Frame pointers must rise and be aligned; anything
 * else ends the walk. */
__weak __noinline int walk(struct call_stack *record, __u32 count, __u64 frame_pointer, __u64 sp)
{
	__u64 trampoline = trampoline_of(bpf_get_current_task_btf()), below = sp;

	if (!record)
		return 0;
	for (int i = 0; i < PERFX_STACK_FRAMES_MAX; i++) {
		struct caller caller;
		__u32 at;

		if (count >= PERFX_STACK_FRAMES_MAX)
			break;
		if (frame_pointer <= below || frame_pointer - below > STACK_SPAN_BYTES ||
		    (frame_pointer & 7) ||
		    bpf_probe_read_user(&caller, sizeof(caller), (void *)frame_pointer))
			break;
		if (trampoline && caller.return_address == trampoline)
			caller.return_address = replaced_address(frame_pointer + 8);
		/* user space begins above the first pages */
		if (caller.return_address < 65536 || caller.return_address >> 56)
			break;
		at = count++;
		barrier_var(at); /* the compiler knows its range, the verifier does not */
		record->addresses[at & (PERFX_STACK_FRAMES_MAX - 1)] = caller.return_address;
		below = frame_pointer;
		frame_pointer = caller.frame_pointer;
	}
	record->head.frames_count = count;
	record->head.flags = count == PERFX_STACK_FRAMES_MAX ? PERFX_STACK_CUT : 0;
	return 0;
}

static __always_inline __u32 hash_of(const struct call_stack *record, __u64 *hash)
{
	/* the same addresses mean something else where the first is no return address */
	__u64 a = 0x9e3779b97f4a7c15ULL ^ record->head.flags, b = 0xc2b2ae3d27d4eb4fULL;

	for (__u32 i = 0; i < PERFX_STACK_FRAMES_MAX; i++) {
		if (i >= record->head.frames_count)
			break;
		/* a is multiplied (FNV-1a with a wider prime), b rotated and added */
		a = (a ^ record->addresses[i]) * 0x100000001b3ULL;
		a ^= a >> 29;
		b = (b << 7 | b >> 57) + record->addresses[i];
	}
	*hash = a;
	return b ^ (b >> 32);
}

/* Emits a stack. Returns its id; 0: there is no room. */
static __always_inline __u32 emit_stack(struct call_stack *record, void *ring, __u32 process)
{
	__u32 size = sizeof(record->head) +
		     (record->head.frames_count & (2 * PERFX_STACK_FRAMES_MAX - 1)) * sizeof(__u64);

	if (size > sizeof(*record))
		size = sizeof(*record);
	record->head.hdr.size = size;
	record->head.hdr.kind = PERFX_KIND_STACK;
	record->head.hdr.fixed = sizeof(record->head);
	record->head.stack = __sync_fetch_and_add(&perfx_next_stack, 1);
	record->head.process = process;
	return bpf_ringbuf_output(ring, record, size, BPF_RB_NO_WAKEUP) ? 0 : record->head.stack;
}

/* The id of the stack, which is emitted when it is new; 0: no room to keep or emit it. */
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
	/* emitted before it can be found, so that records that name it come later */
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
