/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Work that traced calls submit to a GPU: kernels with their shape, copies by direction, memsets.
 *
 * Cost programs (user/cost/gpu_calls.c) read the work from a call's arguments as the call begins,
 * and add it to a table of sums that user space reads: so counts are exact at any rate of launches.
 * If a runtime's call calls the driver for the same work, only the outermost call counts.
 *
 * A kernel is identified by the address of its host stub if the runtime launches it, or by its
 * handle if the driver does. The driver's calls that return a handle for a name are traced as well.
 */
#ifndef PERFX_GPU_BPF_H
#define PERFX_GPU_BPF_H

#include "tensor.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PERFX_MAX_GPU_SUMS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct perfx_gpu_sum);
} perfx_gpu_sums SEC(".maps");

/* Index of a sum. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PERFX_MAX_GPU_SUMS);
	__type(key, struct perfx_gpu_key);
	__type(value, __u32);
} perfx_gpu_ids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PERFX_MAX_KERNELS);
	__type(key, struct perfx_kernel_key);
	__type(value, struct perfx_kernel);
} perfx_kernels SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PERFX_MAX_KERNEL_NAMES);
	__type(key, __u64); /* key_of_name() */
	__type(value, struct perfx_kernel_name);
} perfx_kernel_names SEC(".maps");

/* Scratch of a thread. Keys and values as large as these do not fit on the stack, and kernels
 * before 6.2 accept them only from the stack or from a map. */
struct gpu_thread {
	struct perfx_gpu_key key;
	struct perfx_kernel_key handle;
	struct perfx_kernel kernel;
	struct perfx_kernel_name name;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct gpu_thread);
} perfx_gpu_threads SEC(".maps");

/* Next free index; 0 stands for none. */
volatile __u32 perfx_next_gpu_sum = 1;

static __always_inline struct gpu_thread *gpu_thread(void)
{
	return task_storage_make(&perfx_gpu_threads, bpf_get_current_task_btf());
}

/* The index of the key's sum, added if the key is new; 0: there are `limit` already. */
static __always_inline __u32 gpu_sum_id(const struct perfx_gpu_key *key, __u32 limit)
{
	__u32 *known = bpf_map_lookup_elem(&perfx_gpu_ids, key), id;
	struct perfx_gpu_sum *sum;

	if (known)
		return *known;
	if (perfx_next_gpu_sum >= limit)
		return 0;
	id = __sync_fetch_and_add(&perfx_next_gpu_sum, 1);
	sum = bpf_map_lookup_elem(&perfx_gpu_sums, &id);
	if (!sum)
		return 0;
	/* filled before it can be found; a sum that loses the race below stays unused */
	sum->key = *key;
	if (!bpf_map_update_elem(&perfx_gpu_ids, key, &id, BPF_NOEXIST))
		return id;
	known = bpf_map_lookup_elem(&perfx_gpu_ids, key);
	return known ? *known : 0;
}

static __always_inline bool add_to_gpu_sum(const struct perfx_gpu_key *key, __u64 bytes,
					   __u32 limit)
{
	__u32 id = gpu_sum_id(key, limit);
	struct perfx_gpu_sum *sum = id ? bpf_map_lookup_elem(&perfx_gpu_sums, &id) : NULL;

	if (!sum)
		return false;
	__sync_fetch_and_add(&sum->bytes, bytes);
	__sync_fetch_and_add(&sum->count, 1);
	return true;
}

static __always_inline void clear_shape(struct perfx_gpu_key *key)
{
	__builtin_memset(key->grid, 0, sizeof(key->grid));
	__builtin_memset(key->block, 0, sizeof(key->block));
	key->shared_bytes = 0;
}

/* static, like all functions below: older verifiers do not accept an argument of a global function
 * as a map value, and so not as a key. */
static __noinline int count_on_gpu(struct gpu_thread *g, __u64 bytes)
{
	if (!g)
		return 0;
	if (add_to_gpu_sum(&g->key, bytes, PERFX_MAX_GPU_SUMS / 4 * 3))
		return 0;
	clear_shape(&g->key);
	if (add_to_gpu_sum(&g->key, bytes, PERFX_MAX_GPU_SUMS / 16 * 15))
		return 0;
	g->key.kernel = 0;
	g->key.is_named = 0;
	if (!add_to_gpu_sum(&g->key, bytes, PERFX_MAX_GPU_SUMS))
		counter_add(PERFX_COUNTER_GPU_KEYS, 1);
	return 0;
}

static __always_inline void set_handle(struct gpu_thread *g, const struct thread *t, __u64 handle)
{
	g->handle.handle = handle;
	g->handle.process = t->process;
}

/* From now on the handle stands for g->kernel. */
static __always_inline void set_kernel(struct gpu_thread *g, const struct thread *t, __u64 handle)
{
	set_handle(g, t, handle);
	if (bpf_map_update_elem(&perfx_kernels, &g->handle, &g->kernel, BPF_ANY))
		counter_add(PERFX_COUNTER_MAP_FULL, 1);
}

/* Sets g->kernel to the kernel that a handle stands for. An unknown handle stands for itself: it
 * may be a stub's address. Returns whether it is known. */
static __always_inline bool find_kernel(struct gpu_thread *g, const struct thread *t, __u64 handle)
{
	struct perfx_kernel *known;

	set_handle(g, t, handle);
	known = bpf_map_lookup_elem(&perfx_kernels, &g->handle);
	g->kernel.kernel = known ? known->kernel : handle;
	g->kernel.is_named = known ? known->is_named : 0;
	return known;
}

#define NAME_WORDS (PERFX_KERNEL_NAME_BYTES / 8)

static __always_inline __u64 word_of_name(const struct perfx_kernel_name *name, __u32 i)
{
	return *(const __u64 *)(name->text + 8 * (i & (NAME_WORDS - 1)));
}

struct name_walk {
	struct gpu_thread *g;		       /* has the name and its hash */
	const struct perfx_kernel_name *other; /* compared with it */
	bool differs;
};

static long name_hash_step(__u32 i, void *ctx)
{
	struct gpu_thread *g = ((struct name_walk *)ctx)->g;
	__u64 word = word_of_name(&g->name, i);

	if (word)
		g->kernel.kernel = mix(g->kernel.kernel, word);
	return !word;
}

static long name_compare_step(__u32 i, void *ctx)
{
	struct name_walk *walk = ctx;
	__u64 word = word_of_name(&walk->g->name, i);

	walk->differs = word != word_of_name(walk->other, i);
	return walk->differs || !word;
}

/* Names with equal hashes have consecutive keys; at most this many are tried. */
#define NAME_STEPS 4

/* Sets g->kernel.kernel to the key of g->name, which is added to the map if it is new. False: no
 * room. Inlined, with one name_walk for both loops: the kernel allows 512 bytes of stack for a
 * whole chain of calls. */
static __always_inline bool key_of_name(struct gpu_thread *g)
{
	struct name_walk walk = {.g = g};
	struct perfx_kernel_name *known;

	g->kernel.kernel = HASH_BASIS;
	repeat(NAME_WORDS, name_hash_step, &walk);
	for (int step = 0; step < NAME_STEPS; step++) {
		known = bpf_map_lookup_elem(&perfx_kernel_names, &g->kernel.kernel);
		if (!known) {
			/* another thread may have added another name with this hash */
			bpf_map_update_elem(&perfx_kernel_names, &g->kernel.kernel, &g->name,
					    BPF_NOEXIST);
			known = bpf_map_lookup_elem(&perfx_kernel_names, &g->kernel.kernel);
		}
		if (!known)
			return false;
		walk.other = known;
		repeat(NAME_WORDS, name_compare_step, &walk);
		if (!walk.differs)
			return true;
		g->kernel.kernel++;
	}
	return false;
}

/* Gives a handle the name at `address`. False: it could not be read, or there is no room. */
static __always_inline bool name_kernel(struct gpu_thread *g, const struct thread *t, __u64 handle,
					__u64 address)
{
	__builtin_memset(&g->name, 0, sizeof(g->name));
	if (bpf_probe_read_user_str(g->name.text, sizeof(g->name.text), (void *)address) <= 1) {
		counter_add(PERFX_COUNTER_READ_FAULTS, 1);
		return false;
	}
	g->kernel.is_named = 1;
	if (!key_of_name(g)) {
		counter_add(PERFX_COUNTER_MAP_FULL, 1);
		return false;
	}
	set_kernel(g, t, handle);
	return true;
}

static __always_inline void name_as_other(struct gpu_thread *g, const struct thread *t,
					  __u64 handle, __u64 other)
{
	find_kernel(g, t, other);
	set_kernel(g, t, handle);
}

static __always_inline __u64 from_top(struct cost_vm *m, __u32 n)
{
	return *stack_at(m, m->depth - n);
}

static __always_inline void set_shape(struct perfx_gpu_key *key, struct cost_vm *m)
{
	__u64 grid = from_top(m, 5), block = from_top(m, 3);

	key->grid[0] = grid;
	key->grid[1] = grid >> 32;
	key->grid[2] = from_top(m, 4);
	key->block[0] = block;
	key->block[1] = block >> 32;
	key->block[2] = from_top(m, 2);
	key->shared_bytes = from_top(m, 1);
}

static __always_inline void set_launched(struct gpu_thread *g, struct thread *t, __u64 handle,
					 bool by_stub)
{
	bool known = find_kernel(g, t, handle);
	__u64 *caller = t->vm.words;

	g->key.kernel = g->kernel.kernel;
	g->key.is_named = g->kernel.is_named;
	if (by_stub && !known && read_user(caller, 8, t->vm.ret_addr_sp))
		g->key.kernel = *caller - 1; /* inside the call instruction */
}

/* Direction by a cudaMemcpyKind (driver_types.h); Default means that the addresses decide. */
static __always_inline __u8 direction_of_kind(__u32 kind)
{
	if (!kind)
		return PERFX_GPU_HOST_TO_HOST;
	return kind <= 3 ? kind : PERFX_GPU_DIRECTION_UNKNOWN;
}

/* Direction by two CUmemorytype (cuda.h): 1 host, 2 device, 3 array, 4 unified (address decides).
 */
static __always_inline __u8 direction_of_types(__u32 source, __u32 destination)
{
	bool from_host = source == 1, to_host = destination == 1;

	if (!source || source > 3 || !destination || destination > 3)
		return PERFX_GPU_DIRECTION_UNKNOWN;
	if (from_host)
		return to_host ? PERFX_GPU_HOST_TO_HOST : PERFX_GPU_HOST_TO_DEVICE;
	return to_host ? PERFX_GPU_DEVICE_TO_HOST : PERFX_GPU_DEVICE_TO_DEVICE;
}

/* Returns how many values it pops. */
static __always_inline int set_copy(struct perfx_gpu_key *key, struct cost_vm *m, __u32 n)
{
	key->op = PERFX_GPU_OP_COPY;
	switch (n) {
	case PERFX_COPY_MEMSET:
		key->op = PERFX_GPU_OP_MEMSET;
		return 1;
	case PERFX_COPY_KIND:
		key->direction = direction_of_kind(from_top(m, 2));
		return 2;
	case PERFX_COPY_TYPES:
		key->direction = direction_of_types(from_top(m, 3), from_top(m, 2));
		return 3;
	default:
		key->direction = n;
		return 1;
	}
}

/* LAUNCH, GRAPH, COPY: fills g->key. Returns how many values it pops. */
static __always_inline int fill_gpu_key(struct gpu_thread *g, struct thread *t, __u32 op, __u32 n)
{
	struct cost_vm *m = &t->vm;
	struct perfx_gpu_key *key = &g->key;

	__builtin_memset(key, 0, sizeof(*key));
	key->process = t->process;
	key->context = t->call_context;
	switch (op) {
	case PERFX_OP_LAUNCH:
	case PERFX_OP_LAUNCH_BY_STUB:
		key->op = PERFX_GPU_OP_KERNEL;
		set_launched(g, t, from_top(m, 6), op == PERFX_OP_LAUNCH_BY_STUB);
		set_shape(key, m);
		return 6;
	case PERFX_OP_GRAPH:
		key->op = PERFX_GPU_OP_GRAPH;
		key->kernel = from_top(m, 1);
		return 1;
	default:
		return set_copy(key, m, n);
	}
}

/*
 * Returns whether this launch is part of a counted one: of a call around it, or of the stub's,
 * which CUDA 13.0 ends with a jump to the function that other programs call. If a jump counts as
 * the end of a call, the stub's call is over by then.
 */
static __always_inline bool is_counted(struct thread *t, __u32 op)
{
	__u64 handle = from_top(&t->vm, 6), sp = t->vm.ret_addr_sp;

	if (t->device_call)
		return true;
	if (op == PERFX_OP_LAUNCH_BY_STUB) {
		t->stub_handle = handle;
		t->stub_sp = sp;
	}
	return op == PERFX_OP_LAUNCH && t->stub_sp == sp && t->stub_handle == handle;
}

static __always_inline bool is_gpu_op(__u32 op)
{
	return op >= PERFX_OP_LAUNCH && op <= PERFX_OP_KERNEL_ALIAS;
}

/* Runs an instruction for which is_gpu_op(). Returns how many values it pops, or -1. */
static __always_inline int perform_on_gpu(struct gpu_thread *g, struct thread *t, __u32 op, __u32 n)
{
	int popped;

	switch (op) {
	case PERFX_OP_KERNEL_NAME:
		return name_kernel(g, t, from_top(&t->vm, 2), from_top(&t->vm, 1)) ? 2 : -1;
	case PERFX_OP_KERNEL_ALIAS:
		name_as_other(g, t, from_top(&t->vm, 2), from_top(&t->vm, 1));
		return 2;
	default:
		popped = fill_gpu_key(g, t, op, n);
		if (!is_counted(t, op))
			count_on_gpu(g, op == PERFX_OP_COPY ? from_top(&t->vm, 1) : 0);
		return popped;
	}
}

/* As step() in cost.bpf.h, whose chain of calls is too deep to include this. 0 or -1. */
__noinline int gpu_op(struct thread *t, __u32 op, __u32 n)
{
	struct gpu_thread *g = gpu_thread();
	int popped;

	if (!t)
		return -1;
	if (!g) {
		counter_add(PERFX_COUNTER_MAP_FULL, 1);
		return -1;
	}
	popped = perform_on_gpu(g, t, op, n);
	if (popped < 0)
		return -1;
	t->vm.depth -= popped;
	return 0;
}

#endif
