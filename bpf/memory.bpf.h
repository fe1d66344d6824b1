/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared by the programs of memory: a thread's open calls into allocators, the records of a block,
 * and the sample of blocks.
 */
#ifndef PERFX_MEMORY_BPF_H
#define PERFX_MEMORY_BPF_H

#include "stack.bpf.h"

/* By domain. */
extern volatile struct perfx_memory_knobs perfx_memory_knobs[PERFX_DOMAINS_MAX];
/* Sampling distances: -ln(1 - quantile) in PERFX_SAMPLE_ONE-ths. */
extern const volatile __u32 perfx_sample_quantiles[PERFX_SAMPLE_QUANTILES];

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PERFX_MAX_PROCESSES *PERFX_DOMAINS_MAX);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct perfx_memory_lost);
} perfx_memory_lost __weak SEC(".maps");

struct block_key {
	__u64 address;
	__u32 process, domain;
};

/* Live sampled blocks: only their frees are recorded. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* user space: PERFX_MAX_SAMPLED where it samples */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct block_key);
	__type(value, __u32);
} perfx_sampled __weak SEC(".maps");

/* A thread's outermost call into a domain's allocator. */
struct open_call {
	__u64 ret_addr_sp; /* address of its return address; 0: no call is open */
	__u64 return_address;
	__u64 size_bytes;
	__u64 pointer; /* where the result is stored, or the block that is reallocated */
	__u8 sampled;
	__u8 realloc_begun; /* FREE_REALLOC_BEGIN has been emitted */
	__u8 left;	    /* probably left by an exception or longjmp */
	__u8 calls_back;    /* PERFX_ALLOC_F_CALLS_BACK */
	__u8 pad[4];
};

/* A free that may be forwarded to another allocator: PERFX_ALLOC_F_FORWARDS. */
struct open_free {
	__u64 ret_addr_sp, return_address;
	__u64 address; /* 0: none */
};

struct memory_thread {
	__u32 process, tid;
	__u32 records;
	__u32 drawn;		/* the distances below have been drawn */
	__u32 recording_window; /* current_recording_window() at its last hit */
	__u32 pad;
	__s64 until_sample[PERFX_DOMAINS_MAX]; /* bytes to the next sample */
	struct open_call open[PERFX_DOMAINS_MAX];
	struct open_call
		returning; /* interrupted by a signal as it returned; ret_addr_sp 0: none */
	__u32 returning_domain;
	__u32 pad2;
	struct open_free forwarded;
	struct call_stack stack;
};
/* With the kernel's struct bpf_local_storage_elem this fills 8 KiB; one byte more would need 16. */
_Static_assert(sizeof(struct memory_thread) <= 8192 - 72, "the state of a thread that allocates");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct memory_thread);
} perfx_memory_threads __weak SEC(".maps");

/* Drops the open calls of a thread whose last hit was in an earlier window. */
static __always_inline void forget_open(struct memory_thread *m)
{
	m->recording_window = current_recording_window();
	m->forwarded.address = 0;
	m->returning.ret_addr_sp = 0;
	for (int i = 0; i < PERFX_DOMAINS; i++)
		m->open[i].ret_addr_sp = 0;
}

/* The state of the current thread, or NULL. create: creates it if the thread's process is traced;
 * entry: for process_at(), which may start to trace the process. */
static __always_inline struct memory_thread *memory_thread(bool create,
							   const struct perfx_probe *entry)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct perfx_traced_process *traced;
	struct memory_thread *m;

	m = bpf_task_storage_get(&perfx_memory_threads, task, NULL, 0);
	if (m && m->recording_window != current_recording_window())
		forget_open(m);
	if (m && m->process)
		return m;
	traced = create ? process_at(entry) : NULL;
	if (!traced)
		return NULL;
	m = task_storage_make(&perfx_memory_threads, task);
	if (m) {
		m->process = traced->memory_process;
		m->tid = task->pid;
		m->recording_window = current_recording_window();
	} else {
		counter_add(PERFX_COUNTER_MAP_FULL, 1);
	}
	return m;
}

static __always_inline void count_lost(__u32 process, __u32 domain, __u64 size_bytes, bool is_free)
{
	__u32 key = (process < PERFX_MAX_PROCESSES ? process : 0) * PERFX_DOMAINS_MAX +
		    (domain & (PERFX_DOMAINS_MAX - 1));
	struct perfx_memory_lost *lost = bpf_map_lookup_elem(&perfx_memory_lost, &key);

	counter_add(PERFX_COUNTER_MEMORY_DROPS, 1);
	if (!lost)
		return;
	if (is_free) {
		__sync_fetch_and_add(&lost->frees_count, 1);
		return;
	}
	__sync_fetch_and_add(&lost->allocs_count, 1);
	__sync_fetch_and_add(&lost->allocated_bytes, size_bytes);
}

struct block {
	__u64 address, size_bytes;
	__u16 allocator;
	__u8 domain;
	__u8 flags; /* of the record */
};

/* Global functions write the records, so that these are verified once. */
__weak __noinline int emit_free(struct memory_thread *m, const struct block *block)
{
	struct perfx_free *record;
	void *ring;

	if (!m || !block)
		return 0;
	ring = ring_of(&perfx_memory, m->tid);
	record = ring ? bpf_ringbuf_reserve(ring, sizeof(*record), 0) : NULL;
	if (!record) {
		/* records that complete a reallocation are not frees */
		if (!(block->flags & (PERFX_FREE_RESTORED | PERFX_FREE_SETTLED)))
			count_lost(m->process, block->domain, 0, true);
		return 0;
	}
	record->hdr.size = sizeof(*record);
	record->hdr.kind = PERFX_KIND_FREE;
	record->hdr.fixed = sizeof(*record);
	record->time_ns = bpf_ktime_get_ns();
	record->address = block->address;
	record->size_bytes = block->size_bytes;
	record->process = m->process;
	record->tid = m->tid;
	record->allocator = block->allocator;
	record->domain = block->domain;
	record->flags = block->flags;
	record->pad = 0;
	bpf_ringbuf_submit(record, wake_flags(ring, &m->records));
	return 0;
}

/* m->stack holds the stack. */
__weak __noinline int emit_allocation(struct memory_thread *m, const struct block *block, __u64 sp)
{
	struct perfx_allocation *record;
	__u32 stack;
	void *ring;

	if (!m || !block)
		return 0;
	stack = stack_id(&m->stack, m->process, m->tid);
	ring = ring_of(&perfx_memory, m->tid);
	record = ring ? bpf_ringbuf_reserve(ring, sizeof(*record), 0) : NULL;
	if (!record) {
		count_lost(m->process, block->domain, block->size_bytes, false);
		return 0;
	}
	record->hdr.size = sizeof(*record);
	record->hdr.kind = PERFX_KIND_ALLOCATION;
	record->hdr.fixed = sizeof(*record);
	record->time_ns = bpf_ktime_get_ns();
	record->address = block->address;
	record->size_bytes = block->size_bytes;
	record->process = m->process;
	record->tid = m->tid;
	record->context = open_context(bpf_get_current_task_btf(), sp);
	record->stack = stack;
	record->allocator = block->allocator;
	record->domain = block->domain;
	record->flags = block->flags;
	record->pad = 0;
	bpf_ringbuf_submit(record, wake_flags(ring, &m->records));
	return 0;
}

static __always_inline __s64 draw_distance(__u64 sample_bytes)
{
	__u32 index = bpf_get_prandom_u32() & (PERFX_SAMPLE_QUANTILES - 1);

	return (__s64)(sample_bytes * perfx_sample_quantiles[index] / PERFX_SAMPLE_ONE);
}

/* Returns whether a point of the Poisson process lies in the next size_bytes that this thread
 * allocates. */
static __always_inline bool in_sample(struct memory_thread *m, __u32 domain, __u64 size_bytes)
{
	__u64 mean = perfx_memory_knobs[domain].sample_bytes;
	__s64 *until = &m->until_sample[domain];

	if (!(m->drawn & 1u << domain)) {
		m->drawn |= 1u << domain;
		*until = draw_distance(mean);
	}
	if (size_bytes < (1ULL << 62) && *until > (__s64)size_bytes) {
		*until -= (__s64)size_bytes;
		return false;
	}
	/* the process is memoryless: the rest of this allocation need not be subtracted */
	*until = draw_distance(mean);
	return true;
}

static __always_inline __u32 level_of(__u32 domain)
{
	return perfx_memory_knobs[domain & (PERFX_DOMAINS_MAX - 1)].level;
}

static __always_inline void remember_sampled(struct memory_thread *m, const struct block *block)
{
	struct block_key key = {block->address, m->process, block->domain};
	__u32 one = 1;

	if (bpf_map_update_elem(&perfx_sampled, &key, &one, BPF_ANY))
		counter_add(PERFX_COUNTER_MAP_FULL, 1);
}

/* Returns whether to record the free of this block; a sampled block leaves the sample. */
static __always_inline bool records_free(struct memory_thread *m, const struct block *block,
					 __u32 level)
{
	struct block_key key = {block->address, m->process, block->domain};

	/* with inferred frees, functions that only free have no probe; frees by functions that also
	 * allocate cost no extra hit */
	if (level == PERFX_MEMORY_EXACT || level == PERFX_MEMORY_FREES_INFERRED)
		return true;
	return level == PERFX_MEMORY_SAMPLED && !bpf_map_delete_elem(&perfx_sampled, &key);
}

/* Returns whether to record the immediate caller instead of the whole stack of an allocation. */
static __always_inline bool omits_stack(struct memory_thread *m, __u32 domain, __u64 return_address)
{
	__u32 every = perfx_memory_knobs[domain & (PERFX_DOMAINS_MAX - 1)].stacks_every;

	if (every < 2 || bpf_get_prandom_u32() % every == 0)
		return false;
	m->stack.addresses[0] = return_address;
	m->stack.head.frames_count = 1;
	m->stack.python.merged = 0;
	m->stack.head.flags = PERFX_STACK_ENDED(PERFX_STACK_END_LEFT_OUT);
	return true;
}

/* Records the stack of a call that returns. */
static __always_inline void walk_return(struct memory_thread *m, const struct open_call *open,
					struct pt_regs *ctx, __u32 domain, __u64 ret_addr_sp)
{
	if (omits_stack(m, domain, open->return_address))
		return;
	stack_walk_return(&m->stack, ctx, open->return_address, ret_addr_sp);
}

/*
 * Returns whether a call at `ret_addr_sp` is inside the open one: deeper on the same stack, while
 * the open call's return address, or the trampoline that replaced it, is still in place. Otherwise
 * an exception or longjmp left the open call, and its stack slot is reused. On another stack (a
 * signal handler's) the open call is interrupted; allocations by the handler count as inside it.
 */
static __always_inline bool is_inside(struct open_call *open, __u64 ret_addr_sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool left = is_left(signal_stack_of(task), open->ret_addr_sp, ret_addr_sp);
	__u64 value;

	if (!open->ret_addr_sp || open->left)
		return false;
	value = read_word(open->ret_addr_sp);
	/* a function that jumps to another one leaves the trampoline in place */
	if ((!left || open->ret_addr_sp == ret_addr_sp) && value == trampoline_of(task))
		return true;
	if (!left && value == open->return_address)
		return true;
	/* It may be returning: the kernel's trampoline saves registers in the slot of the return
	 * address (arch/x86/kernel/uprobes.c, uretprobe_trampoline), where a signal may interrupt
	 * it. So a later return from this slot still ends this call. */
	open->left = 1;
	return false;
}

/* The slot for a call that begins at `ret_addr_sp`. The call that it replaces may be returning: a
 * signal interrupted the kernel's trampoline, and the handler calls an allocator. */
static __always_inline struct open_call *open_slot(struct memory_thread *m, __u32 domain,
						   __u64 ret_addr_sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct open_call *open = &m->open[domain & (PERFX_DOMAINS_MAX - 1)];

	if (m->returning.ret_addr_sp &&
	    is_left(signal_stack_of(task), m->returning.ret_addr_sp, ret_addr_sp))
		m->returning.ret_addr_sp = 0;
	if (open->ret_addr_sp && open->left &&
	    !is_left(signal_stack_of(task), open->ret_addr_sp, ret_addr_sp)) {
		m->returning = *open;
		m->returning_domain = domain;
	}
	return open;
}

/* The open call that returns from `ret_addr_sp`; NULL: none. */
static __always_inline struct open_call *open_at(struct memory_thread *m, __u32 domain,
						 __u64 ret_addr_sp)
{
	struct open_call *open = &m->open[domain & (PERFX_DOMAINS_MAX - 1)];

	if (open->ret_addr_sp == ret_addr_sp)
		return open;
	return m->returning.ret_addr_sp == ret_addr_sp && m->returning_domain == domain
		       ? &m->returning
		       : NULL;
}

/* Returns whether an outer call, or one that jumped here, is freeing the block already. No probe
 * sees that call return, and its return address may stay in place long after, but not with this
 * block. */
static __always_inline bool is_forwarded(struct memory_thread *m,
					 const struct perfx_alloc_probe *alloc_probe, __u64 address,
					 __u64 ret_addr_sp)
{
	struct open_free *outer = &m->forwarded;

	if (!outer->address || outer->address != address || ret_addr_sp > outer->ret_addr_sp ||
	    outer->ret_addr_sp - ret_addr_sp > STACK_SPAN_BYTES)
		return false;
	if (ret_addr_sp == outer->ret_addr_sp && (alloc_probe->flags & PERFX_ALLOC_F_FORWARDS))
		return false;
	return read_word(outer->ret_addr_sp) == outer->return_address;
}

#endif
