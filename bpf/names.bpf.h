/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Functions that the program names while it runs: ranges, and operations of compiled modules. BPF
 * assigns their ids, so that contexts need no user space; the reader of the rings finds the names
 * in perfx_names.
 */
#ifndef PERFX_NAMES_BPF_H
#define PERFX_NAMES_BPF_H

#include "tensor.bpf.h"

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
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PERFX_MAX_NAMES);
	__type(key, struct perfx_name_key);
	__type(value, __u32); /* id */
} perfx_name_ids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PERFX_MAX_NAME_SHARES);
	__type(key, __u32); /* index of the process */
	__type(value, struct perfx_name_share);
} perfx_name_shares SEC(".maps");

static __always_inline void set_text(struct perfx_name_key *name, const char *text, __u32 bytes)
{
	__builtin_memset(name->text, 0, sizeof(name->text));
	__builtin_memcpy(name->text, text, bytes);
}
#define SET_TEXT(name, literal) set_text(name, literal, sizeof(literal))

/* An id for t->name, entry `at` of the table; 0: no id is left for an allocator. */
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

/* Returns whether the process may add a name: the limit keeps a process with endless names from
 * filling the table. A process that reuses another one's index starts with a new share. */
static __always_inline bool reserve_name(const struct thread *t, __u32 limit)
{
	__u32 process = t->process, tgid = current_tgid(), used = perfx_next_name;
	struct perfx_name_share first = {.tgid = tgid, .count = 1}, *share;

	share = bpf_map_lookup_elem(&perfx_name_shares, &process);
	if (!share || share->tgid != tgid) {
		bpf_map_update_elem(&perfx_name_shares, &process, &first, BPF_ANY);
		return used < limit;
	}
	if (used >= limit || share->count >= limit - used) {
		__sync_fetch_and_add(&share->refused, 1);
		return false;
	}
	__sync_fetch_and_add(&share->count, 1);
	return true;
}

/* The id of t->name, added if it is new; 0: there are `limit` names. */
static __always_inline __u32 find_name(struct thread *t, __u32 limit)
{
	struct perfx_name *name;
	__u32 *known, at, id;

	known = bpf_map_lookup_elem(&perfx_name_ids, &t->name);
	if (known)
		return *known;
	if (limit == PERFX_MAX_NAMES ? perfx_next_name >= limit : !reserve_name(t, limit))
		return 0;
	at = __sync_fetch_and_add(&perfx_next_name, 1);
	name = bpf_map_lookup_elem(&perfx_names, &at);
	if (!name)
		return 0;
	id = new_id(t, at, limit == PERFX_MAX_NAMES);
	if (!id)
		return 0;
	/* in one call: the compiler would copy the structure byte by byte */
	if (bpf_probe_read_kernel(&name->key, sizeof(name->key), &t->name))
		return 0;
	name->id = id; /* last: now the entry is complete */
	if (bpf_map_update_elem(&perfx_name_ids, &t->name, &id, BPF_NOEXIST)) {
		/* another thread was first: use its id */
		known = bpf_map_lookup_elem(&perfx_name_ids, &t->name);
		return known ? *known : 0;
	}
	return id;
}

/* The id of t->name, or of "(other)" without room; 0: no room for that either. static: older
 * verifiers do not accept an argument of a global function as a map value, and so not as a key. */
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

/*
 * Objects by which calls of one function are distinguished (perfx_config.h: struct perfx_object).
 *
 * An object is identified by its address and the hash of its head, which distinguishes it from an
 * earlier object at that address. Objects whose operation and module have equal names (a function
 * compiled for several shapes) are one function, whose id is found by the hash of the names.
 */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 << 10); /* some 800 objects between two reads */
} perfx_new_objects SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PERFX_MAX_OBJECTS);
	__type(key, struct perfx_object_key);
	__type(value, struct perfx_object);
} perfx_objects SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PERFX_MAX_OPERATIONS);
	__type(key, __u64); /* hash of the names */
	__type(value, __u32);
} perfx_operations SEC(".maps");

/* Ids of functions are assigned here and by user space, for those that it attaches. */
volatile __u32 perfx_next_function = 1;
volatile __u32 perfx_next_object_cost = 1;

/* Offsets in an object's head, in words. */
#define OBJECT_OPERATION 2 /* std::string: pointer, length */
#define OBJECT_MODULE	 6

/* Copies a std::string, as much as fits. False: it is not one. */
static __always_inline bool read_name(char *to, __u64 pointer, __u64 length)
{
	__u32 bytes;

	__builtin_memset(to, 0, PERFX_OBJECT_TEXT);
	if (!length || length > PERFX_RECORD_MAX)
		return false;
	bytes = length < PERFX_OBJECT_TEXT ? length : PERFX_OBJECT_TEXT - 1;
	barrier_var(bytes); /* the compiler would drop the mask, which the verifier needs */
	if (!bpf_probe_read_user(to, bytes & (PERFX_OBJECT_TEXT - 1), (void *)pointer))
		return true;
	counter_add(PERFX_COUNTER_READ_FAULTS, 1);
	return false;
}

/* The function of an operation with these names; *is_new: it is new. 0: too many. */
static __always_inline __u32 function_of_names(const struct perfx_object_record *record,
					       __u32 *is_new)
{
	__u64 hash = mix(HASH_BASIS, record->runner);
	__u32 *known, id;

	for (int i = 0; i < PERFX_OBJECT_TEXT; i += 8) {
		hash = mix(hash, *(const __u64 *)(record->operation + i));
		hash = mix(hash, *(const __u64 *)(record->module + i));
	}
	known = bpf_map_lookup_elem(&perfx_operations, &hash);
	if (known)
		return *known;
	id = __sync_fetch_and_add(&perfx_next_function, 1);
	if (!bpf_map_update_elem(&perfx_operations, &hash, &id, BPF_NOEXIST)) {
		*is_new = 1;
		return id;
	}
	known = bpf_map_lookup_elem(&perfx_operations, &hash);
	if (known)
		return *known;
	counter_add(PERFX_COUNTER_MAP_FULL, 1);
	return 0;
}

/* The function from which the module was compiled, by its name. */
static __always_inline __u32 owner_of_module(struct thread *t, const char *module)
{
	__builtin_memset(&t->name, 0, sizeof(t->name));
	t->name.source = PERFX_SOURCE_JAX;
	__builtin_memcpy(t->name.text, module, PERFX_OBJECT_TEXT);
	return name_id(t);
}

/* Fills record and t->object. False: do not emit it. */
static __always_inline bool describe_object(struct thread *t, struct perfx_object_record *record,
					    const struct perfx_object_key *key, __u32 runner)
{
	const __u64 *head = t->vm.impl;

	record->hdr.size = sizeof(*record);
	record->hdr.kind = PERFX_KIND_INVALID;
	record->hdr.fixed = sizeof(*record);
	record->key = *key;
	record->pid = current_tgid();
	record->runner = runner;
	record->new_function = 0;
	record->owner = 0;
	if (!read_name(record->operation, head[OBJECT_OPERATION], head[OBJECT_OPERATION + 1]) ||
	    !read_name(record->module, head[OBJECT_MODULE], head[OBJECT_MODULE + 1]))
		return false;
	record->function = function_of_names(record, &record->new_function);
	if (!record->function)
		return false;
	record->owner = owner_of_module(t, record->module);
	record->object_cost = __sync_fetch_and_add(&perfx_next_object_cost, 1);
	t->object.owner = record->owner;
	t->object.function = record->function;
	t->object.object_cost = record->object_cost;
	t->object.state = PERFX_COST_BY_OBJECT;
	return true;
}

/* Reports a new object. Without room for its record this run counts as a call of its runner, and
 * the next run tries again. */
static __noinline int meet_object(struct thread *t, __u64 address, __u64 check, __u32 runner)
{
	struct perfx_object_key key = {.address = address, .check = check};
	struct perfx_object_record *record;
	struct perfx_object *known, object;

	if (!t)
		return 0;
	key.process = t->process;
	record = bpf_ringbuf_reserve(&perfx_new_objects, sizeof(*record), 0);
	if (!record) {
		counter_add(PERFX_COUNTER_CONTROL_DROPS, 1);
		return 0;
	}
	if (!describe_object(t, record, &key, runner)) {
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return 0;
	}
	/* a copy: kernels before 6.2 accept a map value only from the stack or from a map */
	object = t->object;
	/* stored before it is emitted, because user space writes its cost there */
	if (bpf_map_update_elem(&perfx_objects, &key, &object, BPF_NOEXIST)) {
		known = bpf_map_lookup_elem(&perfx_objects, &key);
		t->object.function = 0;
		if (known)
			t->object = *known; /* another thread was first */
		else
			counter_add(PERFX_COUNTER_MAP_FULL, 1);
		/* only this record names a new function */
		if (record->new_function)
			bpf_ringbuf_submit(record, 0);
		else
			bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return 0;
	}
	bpf_ringbuf_submit(record, 0);
	return 0;
}

/* Copies the object at `address` to the current thread's t->object; function 0: unknown. Finds the
 * thread itself because of older verifiers: see name_id. */
__noinline int find_object(__u64 address, __u32 runner)
{
	struct thread *t =
		bpf_task_storage_get(&perfx_threads, bpf_get_current_task_btf(), NULL, 0);
	struct perfx_object_key key = {.address = address};
	struct perfx_object *known;
	__u64 *head;

	if (!t)
		return 0;
	head = t->vm.impl;
	__builtin_memset(&t->object, 0, sizeof(t->object));
	if (!read_user(head, PERFX_OBJECT_WORDS * 8, address))
		return 0;
	key.check = HASH_BASIS;
	for (int i = 0; i < PERFX_OBJECT_WORDS; i++)
		key.check = mix(key.check, head[i]);
	key.process = t->process;
	known = bpf_map_lookup_elem(&perfx_objects, &key);
	if (known)
		t->object = *known;
	else
		meet_object(t, address, key.check, runner);
	return 0;
}

#endif
