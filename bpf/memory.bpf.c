// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory: what allocators hand out and take back, as records in the order in which it happens.
 *
 * A block is freed at the entry of `free` and allocated at the return of `malloc`: between the two
 * nobody else can hold the address. Of nested allocator calls only the thread's outermost counts,
 * in each domain: realloc calls malloc, malloc calls mmap.
 *
 * A hit costs a trap whatever is done here, so what is done is little: the tables of live blocks
 * are user space's, which sees every record.
 */
#include "condition.bpf.h"
#include "mappings.bpf.h"

volatile __u32 perfx_next_stack = 1;
volatile struct perfx_memory_knobs perfx_memory_knobs[PERFX_DOMAINS_MAX] = {};
const volatile __u32 perfx_sample_quantiles[PERFX_SAMPLE_QUANTILES] = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PERFX_MAX_HOOKS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct perfx_hook);
} perfx_hooks SEC(".maps");

/* Bytes that no allocator gives. */
#define TOO_MUCH (1ull << 62)

/* The registers of a hit, copied: the verifier refuses a computed offset into ctx. */
struct hit {
	__u64 arguments[8]; /* from 1 */
	__u64 sp, fp;
};

static __always_inline void read_hit(struct pt_regs *ctx, struct hit *hit)
{
	hit->arguments[0] = 0;
	hit->arguments[1] = PT_REGS_PARM1(ctx);
	hit->arguments[2] = PT_REGS_PARM2(ctx);
	hit->arguments[3] = PT_REGS_PARM3(ctx);
	hit->arguments[4] = PT_REGS_PARM4(ctx);
	hit->arguments[5] = PT_REGS_PARM5(ctx);
	hit->arguments[6] = PT_REGS_PARM6(ctx);
	hit->arguments[7] = PT_REGS_RC(ctx); /* where a first instruction may have put one */
	hit->sp = PT_REGS_SP(ctx);
	hit->fp = PT_REGS_FP(ctx);
}

static __always_inline __u64 argument(const struct hit *hit, __u8 number)
{
	return hit->arguments[number & 7];
}

/* Is it told of something that is none of ours (tracemalloc's other domains, another device)? */
static __always_inline bool is_foreign(const struct hit *hit, const struct perfx_hook *hook)
{
	__u64 value;

	if (!hook->tag_arg || is_mapping(hook->action))
		return false;
	value = argument(hit, hook->tag_arg);
	if (hook->tag_bytes == 1)
		value &= 0xff;
	else if (hook->tag_bytes == 4)
		value &= 0xffffffff;
	return value != hook->tag;
}

static __always_inline __u64 size_of_call(const struct hit *hit, const struct perfx_hook *hook)
{
	__u64 size = argument(hit, hook->size_arg), count, most;

	if (!hook->count_arg)
		return size;
	count = argument(hit, hook->count_arg);
	/* the allocator refuses a product that overflows; it must not look like a size of 0, by
	 * which realloc frees */
	most = count ? ~0ull / count : ~0ull;
	barrier_var(most); /* or clang makes a multiplication of 128 bits of it */
	return size > most ? TOO_MUCH : size * count;
}

static __always_inline struct block block_of(const struct perfx_hook *hook, __u64 address,
					     __u64 size_bytes, __u8 flags)
{
	return (struct block){.address = address,
			      .size_bytes = size_bytes,
			      .allocator = hook->allocator,
			      .domain = hook->domain,
			      .flags = flags};
}

static __always_inline void free_block(const struct hit *hit, struct memory_thread *m,
				       const struct perfx_hook *hook, __u32 level)
{
	__u64 address = argument(hit, hook->pointer_arg);
	struct block block = block_of(hook, address, 0, 0);

	if (!address || is_handed_on(m, hook, address, hit->sp))
		return;
	if (hook->flags & PERFX_HOOK_F_FORWARDS)
		m->handed_on = (struct open_free){hit->sp, read_word(hit->sp), address};
	if (wants_free(m, &block, level))
		tell_free(m, &block);
}

/* A block that the function is told of, with its address and size. */
static __always_inline void take_block(const struct hit *hit, struct memory_thread *m,
				       const struct perfx_hook *hook, __u64 address, __u64 size)
{
	__u32 level = level_of(hook->domain);
	struct block block = block_of(hook, address, size, 0);

	if (!address)
		return;
	if (hook->flags & PERFX_HOOK_F_REPLACES)
		block.flags |= PERFX_ALLOCATION_REPLACES;
	if (is_sampling(level)) {
		if (!in_sample(m, hook->domain & (PERFX_DOMAINS_MAX - 1), size))
			return;
		block.flags |= PERFX_ALLOCATION_SAMPLED;
		if (level == PERFX_MEMORY_SAMPLED)
			remember_sampled(m, &block);
	}
	m->stack.addresses[0] = read_word(hit->sp);
	walk(&m->stack, 1, hit->fp, hit->sp);
	tell_allocation(m, &block, hit->sp);
}

/* realloc: its block is set aside until it returns. */
static __always_inline void set_aside(struct memory_thread *m, const struct perfx_hook *hook,
				      struct open_call *open, __u32 level)
{
	struct block block = block_of(hook, open->pointer, 0, PERFX_FREE_ASIDE);

	open->set_aside = open->pointer && wants_free(m, &block, level);
	if (open->set_aside)
		tell_free(m, &block);
}

/* Opens an outermost call whose return tells what came of it. Returns whether that is wanted. */
static __always_inline bool open_call(const struct hit *hit, struct memory_thread *m,
				      const struct perfx_hook *hook)
{
	struct open_call *open;
	__u32 domain = hook->domain & (PERFX_DOMAINS_MAX - 1), level = level_of(domain);
	__u64 size = size_of_call(hit, hook), slot = hit->sp;

	if (perfx_sessions && return_probe_kills(slot)) {
		lose(m->process, domain, size, false);
		return false;
	}
	open = place_of_open(m, domain, slot);
	open->sampled = 1;
	if (is_sampling(level)) {
		open->sampled = in_sample(m, domain, size);
		if (!open->sampled && (hook->flags & PERFX_HOOK_F_LEAF))
			return false;
	}
	open->size_bytes = size;
	open->pointer = argument(hit, hook->pointer_arg);
	open->return_address = read_word(slot);
	open->slot = slot;
	open->left = 0;
	open->calls_back = !!(hook->flags & PERFX_HOOK_F_CALLS_BACK);
	if (hook->action == PERFX_ACTION_REALLOCATE)
		set_aside(m, hook, open, level);
	return true;
}

/* Returns whether the call's return is wanted. */
static __always_inline bool memory_entry(const struct hit *hit, struct memory_thread *m,
					 const struct perfx_hook *hook)
{
	__u32 level = level_of(hook->domain);
	struct open_call *open = &m->open[hook->domain & (PERFX_DOMAINS_MAX - 1)];
	__s64 size;

	if (level == PERFX_MEMORY_OFF || is_foreign(hit, hook))
		return false;
	if (is_inside(open, hit->sp) && !(open->calls_back && hook->action == PERFX_ACTION_FREE))
		return false;
	switch ((enum perfx_action)hook->action) {
	case PERFX_ACTION_ALLOCATE:
	case PERFX_ACTION_REALLOCATE:
		return open_call(hit, m, hook);
	case PERFX_ACTION_ALLOCATED:
		take_block(hit, m, hook, argument(hit, hook->pointer_arg), size_of_call(hit, hook));
		break;
	case PERFX_ACTION_FREE:
		free_block(hit, m, hook, level);
		break;
	case PERFX_ACTION_CHANGE:
		size = (__s64)argument(hit, hook->size_arg);
		if (size > 0)
			take_block(hit, m, hook, argument(hit, hook->pointer_arg), size);
		else if (size < 0)
			free_block(hit, m, hook, level);
		break;
	case PERFX_ACTION_MAP:
	case PERFX_ACTION_UNMAP:
	case PERFX_ACTION_REMAP:
	case PERFX_ACTION_BREAK:
		return mapping_entry(m, hook, hit->arguments, hit->sp);
	case PERFX_ACTION_INVALID:
		break;
	}
	return false;
}

/* What became of a reallocation: its old block is gone, or still there. */
static __always_inline void settle_aside(struct memory_thread *m, const struct perfx_hook *hook,
					 struct open_call *open, __u8 flags)
{
	struct block block = block_of(hook, open->pointer, 0, flags);

	if (!open->set_aside)
		return;
	tell_free(m, &block);
	if (flags == PERFX_FREE_RESTORED && level_of(hook->domain) == PERFX_MEMORY_SAMPLED)
		remember_sampled(m, &block);
}

/* The outermost call returns. */
static __always_inline void memory_return(struct pt_regs *ctx, struct memory_thread *m,
					  const struct perfx_hook *hook, __u64 slot)
{
	struct open_call *open = open_at(m, hook->domain, slot);
	__u64 result = PT_REGS_RC(ctx);
	struct block block;

	if (!open)
		return;
	open->slot = 0;
	if (is_mapping(hook->action)) {
		mapping_return(m, hook, open, ctx, slot);
		return;
	}
	if (hook->result == PERFX_RESULT_OUT)
		result = (__u32)result ? 0 : read_word(open->pointer);
	if (!result || (!open->sampled && hook->action == PERFX_ACTION_REALLOCATE)) {
		settle_aside(m, hook, open,
			     result || !open->size_bytes ? PERFX_FREE_SETTLED
							 : PERFX_FREE_RESTORED);
		return;
	}
	if (!open->sampled)
		return;
	block = block_of(hook, result, open->size_bytes, 0);
	if (open->set_aside)
		block.flags |= PERFX_ALLOCATION_RESIZED;
	if (is_sampling(level_of(hook->domain))) {
		block.flags |= PERFX_ALLOCATION_SAMPLED;
		if (level_of(hook->domain) == PERFX_MEMORY_SAMPLED)
			remember_sampled(m, &block);
	}
	m->stack.addresses[0] = open->return_address;
	walk(&m->stack, 1, PT_REGS_FP(ctx), slot);
	tell_allocation(m, &block, slot);
}

/* --- programs --- */

static __always_inline struct perfx_hook *hook_of(const struct perfx_probe *probe)
{
	__u32 index = probe->hook;

	return bpf_map_lookup_elem(&perfx_hooks, &index);
}

static __always_inline bool memory_hit(struct pt_regs *ctx)
{
	struct perfx_probe *probe;
	struct perfx_hook *hook;
	struct memory_thread *m;
	struct hit hit;
	__u32 index;

	if (!is_recording() || !gate_open(ctx, &index))
		return false;
	probe = probe_of(index);
	hook = probe ? hook_of(probe) : NULL;
	if (!hook)
		return false;
	m = memory_thread(probe->kind == PERFX_PROBE_HOOK);
	if (!m) {
		if (probe->kind == PERFX_PROBE_HOOK)
			counter_add(PERFX_COUNTER_FOREIGN_HITS, 1);
		return false;
	}
	count_hit(index);
	read_hit(ctx, &hit);
	if (probe->kind == PERFX_PROBE_HOOK)
		return memory_entry(&hit, m, hook);
	if (probe->kind == PERFX_PROBE_HOOK_EXIT &&
	    ((probe->flags & PERFX_PROBE_F_LEAVES) || condition_holds(ctx, probe->condition)))
		memory_return(ctx, m, hook,
			      (probe->cfa_is_fp ? hit.fp : hit.sp) + (__s64)probe->cfa_offset - 8);
	return false;
}

static __always_inline void memory_returned(struct pt_regs *ctx)
{
	struct memory_thread *m;
	struct perfx_probe *probe;
	struct perfx_hook *hook;
	__u32 index;

	if (!is_recording() || !gate_open(ctx, &index))
		return;
	m = memory_thread(false);
	probe = probe_of(index);
	hook = probe ? hook_of(probe) : NULL;
	if (m && hook)
		memory_return(ctx, m, hook, PT_REGS_SP(ctx) - 8);
}

SEC("uprobe")
int perfx_on_memory_hit(struct pt_regs *ctx)
{
	memory_hit(ctx);
	return 0;
}

SEC("uprobe")
int perfx_on_memory_return(struct pt_regs *ctx)
{
	memory_returned(ctx);
	return 0;
}

/* As perfx_on_session. */
SEC("uprobe")
int perfx_on_memory_session(struct pt_regs *ctx)
{
	if (PT_REGS_IP(ctx) != bpf_get_func_ip(ctx)) {
		memory_returned(ctx);
		return 0;
	}
	return !memory_hit(ctx);
}

/* A new image: its memory is another one, whoever used the old. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(perfx_on_exec_memory, struct task_struct *task)
{
	bpf_task_storage_delete(&perfx_memory_threads, task);
	return 0;
}
