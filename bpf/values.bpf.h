/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What programs tell by perfx.h beside ranges: values of their own, and blocks of allocators of
 * their own. Included by ranges.bpf.h alone, which finds the names.
 */
#ifndef PERFX_VALUES_BPF_H
#define PERFX_VALUES_BPF_H

#include "memory.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PERFX_MAX_NAMES);
	__type(key, struct perfx_value_key);
	__type(value, struct perfx_value_lost);
} perfx_values_lost SEC(".maps");

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
	struct perfx_value_key key = {.process = t->process, .value = value};
	struct perfx_value_lost none = {}, *lost;
	__s64 number;

	counter_add(PERFX_COUNTER_VALUE_DROPS, 1);
	lost = bpf_map_lookup_elem(&perfx_values_lost, &key);
	if (!lost) {
		bpf_map_update_elem(&perfx_values_lost, &key, &none, BPF_NOEXIST);
		lost = bpf_map_lookup_elem(&perfx_values_lost, &key);
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

__noinline int tell_value(struct thread *t, __u32 value, __u64 bits, __u32 flags)
{
	struct perfx_value *record;
	void *ring;

	if (!t)
		return 0;
	ring = ring_of(&perfx_spans, t->tid);
	record = ring ? bpf_ringbuf_reserve(ring, sizeof(*record), 0) : NULL;
	if (!record) {
		lose_value(t, value, bits, flags & PERFX_VALUE_ADDED);
		return 0;
	}
	record->hdr.size = sizeof(*record);
	record->hdr.kind = PERFX_KIND_VALUE;
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

/* t->machine has the marker's registers but for the frame pointer. */
__noinline int tell_block(struct thread *t, const struct perfx_mark *mark, __u32 allocator,
			  __u64 fp)
{
	struct block block = {.allocator = allocator, .domain = PERFX_DOMAIN_USER};
	struct memory_thread *m;
	__u64 slot;

	if (!t || !mark || level_of(PERFX_DOMAIN_USER) == PERFX_MEMORY_OFF)
		return 0;
	block.address = t->machine.arguments[mark->key_arg & 7];
	m = block.address ? memory_thread(true) : NULL;
	if (!m)
		return 0;
	block.address ^= (__u64)allocator << ALLOCATOR_SHIFT;
	if (mark->action == PERFX_MARK_FREED) {
		tell_free(m, &block);
		return 0;
	}
	slot = t->machine.slot;
	block.size_bytes = t->machine.arguments[mark->size_arg & 7];
	m->stack.addresses[0] = read_word(slot);
	walk(&m->stack, 1, fp, slot);
	tell_allocation(m, &block, slot);
	return 0;
}

static __always_inline void mark_tells(struct thread *t, const struct perfx_mark *mark, __u32 id,
				       __u64 fp)
{
	__u64 bits = t->machine.arguments[mark->key_arg & 7];

	switch (mark->action) {
	case PERFX_MARK_SET:
		tell_value(t, id, bits, 0);
		break;
	case PERFX_MARK_ADD:
		tell_value(t, id, bits, PERFX_VALUE_ADDED);
		break;
	case PERFX_MARK_ALLOCATED:
	case PERFX_MARK_FREED:
		tell_block(t, mark, id, fp);
		break;
	}
}

#endif
