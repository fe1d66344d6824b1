/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Names that are read in the target while it runs (ranges, jitted functions) and become functions'
 * ids here, so that the table of contexts needs no user space: which of them there are is read from
 * perfx_names by who reads the rings. Included by objects.bpf.h alone.
 */
#ifndef PERFX_NAMES_BPF_H
#define PERFX_NAMES_BPF_H

#include "thread.bpf.h"

volatile __u32 perfx_next_name = 0;
volatile __u32 perfx_next_allocator = PERFX_ALLOCATOR_NAMED;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PERFX_MAX_NAMES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct perfx_name);
} perfx_names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PERFX_MAX_NAMES);
	__type(key, struct perfx_name_key);
	__type(value, __u32); /* id */
} perfx_name_ids SEC(".maps");

static __always_inline void set_text(struct perfx_name_key *name, const char *text, __u32 bytes)
{
	__builtin_memset(name->text, 0, sizeof(name->text));
	__builtin_memcpy(name->text, text, bytes);
}
#define SET_TEXT(name, literal) set_text(name, literal, sizeof(literal))

/* An id for t->name, the table's entry `at`; 0: allocators have no more. */
static __always_inline __u32 new_id(const struct thread *t, __u32 at, bool last)
{
	__u32 id;

	if (t->name.source & PERFX_NAME_OF_VALUE)
		return at + 1;
	if (!(t->name.source & PERFX_NAME_OF_ALLOCATOR))
		return __sync_fetch_and_add(&perfx_next_function, 1);
	if (last)
		return PERFX_ALLOCATOR_OTHER;
	if (perfx_next_allocator >= PERFX_ALLOCATOR_OTHER)
		return 0;
	id = __sync_fetch_and_add(&perfx_next_allocator, 1);
	return id < PERFX_ALLOCATOR_OTHER ? id : 0;
}

/* The id of t->name, made when it is new, unless `limit` names are there. */
static __always_inline __u32 find_name(struct thread *t, __u32 limit)
{
	struct perfx_name *name;
	__u32 *known, at, id;

	known = bpf_map_lookup_elem(&perfx_name_ids, &t->name);
	if (known)
		return *known;
	if (perfx_next_name >= limit)
		return 0;
	at = __sync_fetch_and_add(&perfx_next_name, 1);
	name = bpf_map_lookup_elem(&perfx_names, &at);
	if (!name)
		return 0;
	id = new_id(t, at, limit == PERFX_MAX_NAMES);
	if (!id)
		return 0;
	name->key = t->name;
	name->id = id; /* last: it is complete */
	if (bpf_map_update_elem(&perfx_name_ids, &t->name, &id, BPF_NOEXIST)) {
		/* another thread was first: that one's is used */
		known = bpf_map_lookup_elem(&perfx_name_ids, &t->name);
		return known ? *known : 0;
	}
	return id;
}

/* static: what is given to a global function is, to older verifiers, no map's value, and so no key.
 *
 * The id of t->name, or of what stands for all for which there is no room; 0: not even that. */
static __noinline int name_id(struct thread *t)
{
	__u32 id;

	if (!t)
		return 0;
	id = find_name(t, PERFX_MAX_NAMES - PERFX_NAMES_KEPT);
	if (id)
		return id;
	counter_add(PERFX_COUNTER_MAP_FULL, 1);
	SET_TEXT(&t->name, "(other)");
	return find_name(t, PERFX_MAX_NAMES);
}

#endif
