/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What programs record by perfx.h beside ranges: values of their own, and blocks of allocators of
 * their own. Included by ranges.bpf.h alone, which finds the names.
 */
#ifndef PERFX_USER_VALUES_BPF_H
#define PERFX_USER_VALUES_BPF_H

#include "memory.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PERFX_MAX_NAMES);
	__type(key, struct perfx_user_value_key);
	__type(value, struct perfx_user_value_lost);
} perfx_user_values_lost SEC(".maps");

/* IEEE 754, binary64 */
#define DOUBLE_FRACTION 52
#define DOUBLE_BIAS	1023

/* The whole number that a double is, up to 2^53: BPF has no floating point, so of others no sum is
 * kept here. */
static __always_inline bool whole_number(__u64 bits, __s64 *number)
{
	__u64 fraction = bits & ((1ull << DOUBLE_FRACTION) - 1);
	__u32 exponent = bits >> DOUBLE_FRACTION & 0x7ff, shift;

	*number = 0;
	if (!exponent && !fraction)
		return true;
	if (exponent < DOUBLE_BIAS || exponent > DOUBLE_BIAS + DOUBLE_FRACTION)
		return false;
	shift = DOUBLE_BIAS + DOUBLE_FRACTION - exponent;
	fraction |= 1ull << DOUBLE_FRACTION;
	if (fraction & ((1ull << shift) - 1))
		return false;
	fraction >>= shift;
	*number = bits >> 63 ? -(__s64)fraction : (__s64)fraction;
	return true;
}

/* A value that finds no room in the ring. */
static __always_inline void lose_value(struct thread *t, __u32 value, __u64 bits, bool added)
{
	struct perfx_user_value_key key = {.process = t->process, .value = value};
	struct perfx_user_value_lost none = {}, *lost;
	__s64 number;

	counter_add(PERFX_COUNTER_VALUE_DROPS, 1);
	lost = bpf_map_lookup_elem(&perfx_user_values_lost, &key);
	if (!lost) {
		bpf_map_update_elem(&perfx_user_values_lost, &key, &none, BPF_NOEXIST);
		lost = bpf_map_lookup_elem(&perfx_user_values_lost, &key);
	}
	if (!lost) {
		counter_add(PERFX_COUNTER_MAP_FULL, 1);
		return;
	}
	if (whole_number(bits, &number))
		__sync_fetch_and_add(&lost->sum, number);
	else
		__sync_fetch_and_add(&lost->unsummed_count, 1);
	if (added) {
		__sync_fetch_and_add(&lost->adds_count, 1);
		return;
	}
	__sync_fetch_and_add(&lost->sets_count, 1);
	lost->last_bits = bits;
	lost->last_ns = bpf_ktime_get_ns();
}

__noinline int emit_value(struct thread *t, __u32 value, __u64 bits, __u32 flags)
{
	struct perfx_user_value *record;
	void *ring;

	if (!t)
		return 0;
	ring = ring_of(&perfx_spans, t->tid);
	record = ring ? bpf_ringbuf_reserve(ring, sizeof(*record), 0) : NULL;
	if (!record) {
		lose_value(t, value, bits, flags & PERFX_USER_VALUE_ADDED);
		return 0;
	}
	record->hdr.size = sizeof(*record);
	record->hdr.kind = PERFX_KIND_USER_VALUE;
	record->hdr.fixed = sizeof(*record);
	record->time_ns = bpf_ktime_get_ns();
	record->number_bits = bits;
	record->process = t->process;
	record->tid = t->tid;
	record->value = value;
	record->flags = flags;
	bpf_ringbuf_submit(record, wake_flags(ring, &t->records));
	return 0;
}

/* Two allocators may know a block by the same address: a pool, and what divides its blocks. */
#define ALLOCATOR_SHIFT 53

/* t->vm has the marker's registers but for the frame pointer. */
__noinline int emit_block(struct thread *t, const struct perfx_annotation *annotation,
			  __u32 allocator, __u64 fp)
{
	struct block block = {.allocator = allocator, .domain = PERFX_DOMAIN_USER};
	struct memory_thread *m;
	__u64 slot;

	if (!t || !annotation || level_of(PERFX_DOMAIN_USER) == PERFX_MEMORY_OFF)
		return 0;
	block.address = t->vm.arguments[annotation->key_arg & 7];
	m = block.address ? memory_thread(true) : NULL;
	if (!m)
		return 0;
	block.address ^= (__u64)allocator << ALLOCATOR_SHIFT;
	if (annotation->action == PERFX_ANNOTATION_FREED) {
		emit_free(m, &block);
		return 0;
	}
	slot = t->vm.slot;
	block.size_bytes = t->vm.arguments[annotation->size_arg & 7];
	m->stack.addresses[0] = read_word(slot);
	walk(&m->stack, 1, fp, slot);
	emit_allocation(m, &block, slot);
	return 0;
}

static __always_inline void emit_marked(struct thread *t, const struct perfx_annotation *annotation,
					__u32 id, __u64 fp)
{
	__u64 bits = t->vm.arguments[annotation->key_arg & 7];

	switch (annotation->action) {
	case PERFX_ANNOTATION_SET:
		emit_value(t, id, bits, 0);
		break;
	case PERFX_ANNOTATION_ADD:
		emit_value(t, id, bits, PERFX_USER_VALUE_ADDED);
		break;
	case PERFX_ANNOTATION_ALLOCATED:
	case PERFX_ANNOTATION_FREED:
		emit_block(t, annotation, id, fp);
		break;
	}
}

#endif
