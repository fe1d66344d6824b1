// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory: records of allocations and frees, in the order in which they happen.
 *
 * A block is freed at the entry of `free` and allocated at the return of `malloc`, so no two live
 * blocks share an address. Of nested allocator calls only the thread's outermost counts in each
 * domain: realloc calls malloc, malloc calls mmap.
 *
 * These programs do little, because every microsecond is the traced program's: user space sees
 * every record and keeps the tables of live blocks.
 */
#include "memory.bpf.h"

volatile __u32 perfx_next_stack = 1;
volatile __u32 perfx_stacks_by = PERFX_STACKS_FRAME_POINTERS;
volatile struct perfx_memory_knobs perfx_memory_knobs[PERFX_DOMAINS_MAX] = {};
const volatile __u32 perfx_sample_quantiles[PERFX_SAMPLE_QUANTILES] = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PERFX_MAX_ALLOC_PROBES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct perfx_alloc_probe);
} perfx_alloc_probes SEC(".maps");

/*
 * Memory that the program requests from the kernel: mmap, munmap, mremap and brk outside of probed
 * allocators (Python's arenas, ggml's buffers). Probes are on libc's functions: a tracepoint of
 * system calls would slow down every process on the machine.
 *
 * Counts accessible anonymous mappings: no files, no reservations (PROT_NONE), no thread stacks
 * (MAP_STACK).
 */

/* uapi/asm-generic/mman.h, mman-common.h */
#define PROT_READ     0x1
#define PROT_WRITE    0x2
#define MAP_ANONYMOUS 0x20
#define MAP_STACK     0x20000

#define MAX_ERRNO 4095

/* The smallest page size; the kernel refuses addresses that are not aligned to its own. */
#define PAGE_BYTES 4096ULL

static __always_inline bool is_error(__u64 result)
{
	return result > ~0ULL - MAX_ERRNO;
}

static __always_inline struct block mapped_block(__u64 address, __u64 size_bytes, __u8 flags)
{
	return (struct block){.address = address,
			      .size_bytes = size_bytes,
			      .allocator = PERFX_ALLOCATOR_MMAP,
			      .domain = PERFX_DOMAIN_HOST,
			      .flags = flags};
}

static __always_inline void emit_unmapped(struct memory_thread *m, __u64 address, __u64 size_bytes,
					  __u8 flags)
{
	struct block block = mapped_block(address, size_bytes, flags | PERFX_FREE_MAPPED);

	emit_free(m, &block);
}

static __always_inline bool is_mapping(__u8 action)
{
	return action >= PERFX_ACTION_MAP && action <= PERFX_ACTION_BREAK;
}

static __always_inline bool is_counted(__u64 protection, __u64 flags)
{
	return (flags & MAP_ANONYMOUS) && !(flags & MAP_STACK) &&
	       (protection & (PROT_READ | PROT_WRITE));
}

/* The end of the brk heap. */
static __always_inline __u64 heap_end(void)
{
	return BPF_CORE_READ(bpf_get_current_task_btf(), mm, brk);
}

/* Emits, before the system call, what the kernel will unmap: whole pages, if the arguments are
 * valid. */
static __always_inline void unmap(struct memory_thread *m,
				  const struct perfx_alloc_probe *alloc_probe,
				  const __u64 *arguments, __u64 ret_addr_sp)
{
	__u64 address = arguments[alloc_probe->pointer_arg & 7],
	      size = arguments[alloc_probe->size_arg & 7];

	if (address & (PAGE_BYTES - 1) || !size ||
	    is_forwarded(m, alloc_probe, address, ret_addr_sp))
		return;
	m->forwarded = (struct open_free){ret_addr_sp, read_word(ret_addr_sp), address};
	emit_unmapped(m, address, (size + PAGE_BYTES - 1) & -PAGE_BYTES, 0);
}

/* A call begins. Returns whether its return must be seen. */
static __always_inline bool mapping_entry(struct memory_thread *m,
					  const struct perfx_alloc_probe *alloc_probe,
					  const __u64 *arguments, __u64 ret_addr_sp)
{
	struct open_call *open;
	__u64 address = arguments[alloc_probe->pointer_arg & 7],
	      size = arguments[alloc_probe->size_arg & 7];

	if (level_of(PERFX_DOMAIN_HOST) != PERFX_MEMORY_EXACT)
		return false;
	switch ((enum perfx_action)alloc_probe->action) {
	case PERFX_ACTION_UNMAP:
		unmap(m, alloc_probe, arguments, ret_addr_sp);
		return false;
	case PERFX_ACTION_MAP:
		if (!is_counted(arguments[alloc_probe->count_arg & 7],
				arguments[alloc_probe->tag_arg & 7]))
			return false;
		break;
	case PERFX_ACTION_REMAP:
		emit_unmapped(m, address, size, PERFX_FREE_REALLOC_BEGIN);
		size = arguments[alloc_probe->count_arg & 7];
		break;
	default:
		address = heap_end();
		break;
	}
	open = open_slot(m, PERFX_DOMAIN_HOST, ret_addr_sp);
	open->ret_addr_sp = ret_addr_sp;
	open->return_address = read_word(ret_addr_sp);
	open->pointer = address;
	open->size_bytes = size;
	open->left = 0;
	open->calls_back = 0;
	return true;
}

static __always_inline void emit_mapped(struct memory_thread *m, const struct open_call *open,
					struct pt_regs *ctx, struct block *block, __u64 ret_addr_sp)
{
	walk_return(m, open, ctx, PERFX_DOMAIN_HOST, ret_addr_sp);
	emit_allocation(m, block, ret_addr_sp);
}

/* Emits the change of the brk heap. */
static __always_inline void emit_heap(struct memory_thread *m, const struct open_call *open,
				      struct pt_regs *ctx, __u64 ret_addr_sp)
{
	__u64 before = open->pointer, now = heap_end();
	struct block block;

	if (now < before) {
		emit_unmapped(m, now, before - now, 0);
	} else if (now > before) {
		block = mapped_block(before, now - before, PERFX_ALLOCATION_MAPPED);
		emit_mapped(m, open, ctx, &block, ret_addr_sp);
	}
}

/* The open call returns. */
static __always_inline void mapping_return(struct memory_thread *m,
					   const struct perfx_alloc_probe *alloc_probe,
					   const struct open_call *open, struct pt_regs *ctx,
					   __u64 ret_addr_sp)
{
	bool resized = alloc_probe->action == PERFX_ACTION_REMAP;
	__u64 address = PT_REGS_RC(ctx);
	struct block block;

	if (alloc_probe->action == PERFX_ACTION_BREAK) {
		emit_heap(m, open, ctx, ret_addr_sp);
	} else if (!is_error(address)) {
		block = mapped_block(address, open->size_bytes,
				     PERFX_ALLOCATION_MAPPED |
					     (resized ? PERFX_ALLOCATION_RESIZED : 0));
		emit_mapped(m, open, ctx, &block, ret_addr_sp);
	} else if (resized) {
		emit_unmapped(m, open->pointer, 0, PERFX_FREE_RESTORED);
	}
}

/* More bytes than any allocator returns. */
#define TOO_MUCH (1ull << 62)

/* The registers of a hit, copied: the verifier refuses a computed offset into ctx. */
struct hit {
	__u64 arguments[8]; /* from 1 */
	__u64 sp, fp;
};

static __always_inline void read_hit(struct pt_regs *ctx, struct hit *hit)
{
	hit->arguments[0] = 0;
	read_arguments(hit->arguments, ctx);
	hit->sp = PT_REGS_SP(ctx);
	hit->fp = PT_REGS_FP(ctx);
}

static __always_inline __u64 argument(const struct hit *hit, __u8 number)
{
	return hit->arguments[number & 7];
}

/* Returns whether the call is about something else (another tracemalloc domain, another device). */
static __always_inline bool is_foreign(const struct hit *hit,
				       const struct perfx_alloc_probe *alloc_probe)
{
	__u64 value;

	if (!alloc_probe->tag_arg || is_mapping(alloc_probe->action))
		return false;
	value = argument(hit, alloc_probe->tag_arg);
	if (alloc_probe->tag_bytes == 1)
		value &= 0xff;
	else if (alloc_probe->tag_bytes == 4)
		value &= 0xffffffff;
	return value != alloc_probe->tag;
}

static __always_inline __u64 size_of_call(const struct hit *hit,
					  const struct perfx_alloc_probe *alloc_probe)
{
	__u64 size = argument(hit, alloc_probe->size_arg), count, most;

	if (!alloc_probe->count_arg)
		return size;
	count = argument(hit, alloc_probe->count_arg);
	/* the allocator refuses a product that overflows; it must not become 0, with which realloc
	 * frees */
	most = count ? ~0ull / count : ~0ull;
	barrier_var(most); /* otherwise clang emits a 128-bit multiplication */
	return size > most ? TOO_MUCH : size * count;
}

static __always_inline struct block block_of(const struct perfx_alloc_probe *alloc_probe,
					     __u64 address, __u64 size_bytes, __u8 flags)
{
	return (struct block){.address = address,
			      .size_bytes = size_bytes,
			      .allocator = alloc_probe->allocator,
			      .domain = alloc_probe->domain,
			      .flags = flags};
}

static __always_inline void free_block(const struct hit *hit, struct memory_thread *m,
				       const struct perfx_alloc_probe *alloc_probe, __u32 level)
{
	__u64 address = argument(hit, alloc_probe->pointer_arg);
	struct block block = block_of(alloc_probe, address, 0, 0);

	if (!address || is_forwarded(m, alloc_probe, address, hit->sp))
		return;
	if (alloc_probe->flags & PERFX_ALLOC_F_FORWARDS)
		m->forwarded = (struct open_free){hit->sp, read_word(hit->sp), address};
	if (records_free(m, &block, level))
		emit_free(m, &block);
}

/* Emits a block whose address and size are arguments of the function. */
static __always_inline void emit_given_block(const struct hit *hit, struct memory_thread *m,
					     const struct perfx_alloc_probe *alloc_probe,
					     __u64 address, __u64 size)
{
	__u32 level = level_of(alloc_probe->domain);
	struct block block = block_of(alloc_probe, address, size, 0);
	__u64 return_address;

	if (!address)
		return;
	if (alloc_probe->flags & PERFX_ALLOC_F_REPLACES)
		block.flags |= PERFX_ALLOCATION_REPLACES;
	if (PERFX_MEMORY_IS_SAMPLED(level)) {
		if (!in_sample(m, alloc_probe->domain & (PERFX_DOMAINS_MAX - 1), size))
			return;
		block.flags |= PERFX_ALLOCATION_SAMPLED;
		if (level == PERFX_MEMORY_SAMPLED)
			remember_sampled(m, &block);
	}
	return_address = read_word(hit->sp);
	if (!omits_stack(m, alloc_probe->domain, return_address))
		stack_walk(&m->stack, return_address, hit->sp + 8, hit->fp, 0);
	emit_allocation(m, &block, hit->sp);
}

/* realloc frees the old block only if it succeeds. */
static __always_inline void begin_realloc(struct memory_thread *m,
					  const struct perfx_alloc_probe *alloc_probe,
					  struct open_call *open, __u32 level)
{
	struct block block = block_of(alloc_probe, open->pointer, 0, PERFX_FREE_REALLOC_BEGIN);

	open->realloc_begun = open->pointer && records_free(m, &block, level);
	if (open->realloc_begun)
		emit_free(m, &block);
}

/* Opens an outermost call whose return has the result. Returns whether its return must be seen. */
static __always_inline bool open_call(const struct hit *hit, struct memory_thread *m,
				      const struct perfx_alloc_probe *alloc_probe)
{
	struct open_call *open;
	__u32 domain = alloc_probe->domain & (PERFX_DOMAINS_MAX - 1), level = level_of(domain);
	__u64 size = size_of_call(hit, alloc_probe), ret_addr_sp = hit->sp;

	if (perfx_sessions && return_probe_kills(ret_addr_sp)) {
		count_lost(m->process, domain, size, false);
		return false;
	}
	open = open_slot(m, domain, ret_addr_sp);
	open->sampled = 1;
	if (PERFX_MEMORY_IS_SAMPLED(level)) {
		open->sampled = in_sample(m, domain, size);
		if (!open->sampled && (alloc_probe->flags & PERFX_ALLOC_F_LEAF))
			return false;
	}
	open->size_bytes = size;
	open->pointer = argument(hit, alloc_probe->pointer_arg);
	open->return_address = read_word(ret_addr_sp);
	open->ret_addr_sp = ret_addr_sp;
	open->left = 0;
	open->calls_back = !!(alloc_probe->flags & PERFX_ALLOC_F_CALLS_BACK);
	if (alloc_probe->action == PERFX_ACTION_REALLOCATE)
		begin_realloc(m, alloc_probe, open, level);
	return true;
}

/* Returns whether the call's return must be seen. */
static __always_inline bool memory_entry(const struct hit *hit, struct memory_thread *m,
					 const struct perfx_alloc_probe *alloc_probe)
{
	__u32 level = level_of(alloc_probe->domain);
	struct open_call *open = &m->open[alloc_probe->domain & (PERFX_DOMAINS_MAX - 1)];
	__s64 size;

	if (level == PERFX_MEMORY_OFF || is_foreign(hit, alloc_probe))
		return false;
	if (is_inside(open, hit->sp) &&
	    !(open->calls_back && alloc_probe->action == PERFX_ACTION_FREE))
		return false;
	switch ((enum perfx_action)alloc_probe->action) {
	case PERFX_ACTION_ALLOCATE:
	case PERFX_ACTION_REALLOCATE:
		return open_call(hit, m, alloc_probe);
	case PERFX_ACTION_ALLOCATED:
		emit_given_block(hit, m, alloc_probe, argument(hit, alloc_probe->pointer_arg),
				 size_of_call(hit, alloc_probe));
		break;
	case PERFX_ACTION_FREE:
		free_block(hit, m, alloc_probe, level);
		break;
	case PERFX_ACTION_CHANGE:
		size = (__s64)argument(hit, alloc_probe->size_arg);
		if (size > 0)
			emit_given_block(hit, m, alloc_probe,
					 argument(hit, alloc_probe->pointer_arg), size);
		else if (size < 0)
			free_block(hit, m, alloc_probe, level);
		break;
	case PERFX_ACTION_MAP:
	case PERFX_ACTION_UNMAP:
	case PERFX_ACTION_REMAP:
	case PERFX_ACTION_BREAK:
		return mapping_entry(m, alloc_probe, hit->arguments, hit->sp);
	case PERFX_ACTION_INVALID:
		break;
	}
	return false;
}

/* A reallocation ends: its old block is gone, or still live. */
static __always_inline void settle_realloc(struct memory_thread *m,
					   const struct perfx_alloc_probe *alloc_probe,
					   struct open_call *open, __u8 flags)
{
	struct block block = block_of(alloc_probe, open->pointer, 0, flags);

	if (!open->realloc_begun)
		return;
	emit_free(m, &block);
	if (flags == PERFX_FREE_RESTORED && level_of(alloc_probe->domain) == PERFX_MEMORY_SAMPLED)
		remember_sampled(m, &block);
}

/* The outermost call returns. */
static __always_inline void memory_return(struct pt_regs *ctx, struct memory_thread *m,
					  const struct perfx_alloc_probe *alloc_probe,
					  __u64 ret_addr_sp)
{
	struct open_call *open = open_at(m, alloc_probe->domain, ret_addr_sp);
	__u64 result = PT_REGS_RC(ctx);
	struct block block;

	if (!open)
		return;
	open->ret_addr_sp = 0;
	if (is_mapping(alloc_probe->action)) {
		mapping_return(m, alloc_probe, open, ctx, ret_addr_sp);
		return;
	}
	if (alloc_probe->result == PERFX_RESULT_OUT)
		result = (__u32)result ? 0 : read_word(open->pointer);
	if (!result || (!open->sampled && alloc_probe->action == PERFX_ACTION_REALLOCATE)) {
		settle_realloc(m, alloc_probe, open,
			       result || !open->size_bytes ? PERFX_FREE_SETTLED
							   : PERFX_FREE_RESTORED);
		return;
	}
	if (!open->sampled)
		return;
	block = block_of(alloc_probe, result, open->size_bytes, 0);
	if (open->realloc_begun)
		block.flags |= PERFX_ALLOCATION_RESIZED;
	if (PERFX_MEMORY_IS_SAMPLED(level_of(alloc_probe->domain))) {
		block.flags |= PERFX_ALLOCATION_SAMPLED;
		if (level_of(alloc_probe->domain) == PERFX_MEMORY_SAMPLED)
			remember_sampled(m, &block);
	}
	walk_return(m, open, ctx, alloc_probe->domain, ret_addr_sp);
	emit_allocation(m, &block, ret_addr_sp);
}

static __always_inline struct perfx_alloc_probe *alloc_probe_of(const struct perfx_probe *probe)
{
	__u32 index = probe->rule;

	return bpf_map_lookup_elem(&perfx_alloc_probes, &index);
}

static __always_inline bool memory_hit(struct pt_regs *ctx)
{
	struct perfx_probe *probe;
	struct perfx_alloc_probe *alloc_probe;
	struct memory_thread *m;
	struct hit hit;
	__u32 index;

	if (!is_recording() || !gate_open(ctx, &index))
		return false;
	probe = probe_of(index);
	alloc_probe = probe ? alloc_probe_of(probe) : NULL;
	if (!alloc_probe)
		return false;
	m = memory_thread(probe->kind == PERFX_PROBE_ALLOC, probe);
	if (!m) {
		if (probe->kind == PERFX_PROBE_ALLOC)
			counter_add(PERFX_COUNTER_FOREIGN_HITS, 1);
		return false;
	}
	count_hit(index);
	read_hit(ctx, &hit);
	if (probe->kind == PERFX_PROBE_ALLOC)
		return memory_entry(&hit, m, alloc_probe);
	if (probe->kind == PERFX_PROBE_ALLOC_EXIT &&
	    ((probe->flags & PERFX_PROBE_F_LEAVES) || condition_holds(ctx, probe->condition)))
		memory_return(ctx, m, alloc_probe,
			      (probe->cfa_is_fp ? hit.fp : hit.sp) + (__s64)probe->cfa_offset - 8);
	return false;
}

static __always_inline void memory_returned(struct pt_regs *ctx)
{
	struct memory_thread *m;
	struct perfx_probe *probe;
	struct perfx_alloc_probe *alloc_probe;
	__u32 index;

	if (!is_recording() || !gate_open(ctx, &index))
		return;
	m = memory_thread(false, NULL);
	probe = probe_of(index);
	alloc_probe = probe ? alloc_probe_of(probe) : NULL;
	if (m && alloc_probe)
		memory_return(ctx, m, alloc_probe, PT_REGS_SP(ctx) - 8);
}

SEC("uprobe")
int perfx_on_memory_hit(struct pt_regs *ctx)
{
	stay_on_thread_stack(ctx);
	memory_hit(ctx);
	return 0;
}

SEC("uprobe")
int perfx_on_memory_return(struct pt_regs *ctx)
{
	stay_on_thread_stack(ctx);
	memory_returned(ctx);
	return 0;
}

/* As perfx_on_session. */
SEC("uprobe")
int perfx_on_memory_session(struct pt_regs *ctx)
{
	stay_on_thread_stack(ctx);
	if (PT_REGS_IP(ctx) != bpf_get_func_ip(ctx)) {
		memory_returned(ctx);
		return 0;
	}
	return !memory_hit(ctx);
}

/* exec discards the allocator's state. As in perfx_on_exec_thread, storage that the kernel does not
 * delete is reused. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(perfx_on_exec_memory, struct task_struct *task)
{
	struct memory_thread *m;

	if (!bpf_task_storage_delete(&perfx_memory_threads, task))
		return 0;
	m = bpf_task_storage_get(&perfx_memory_threads, task, NULL, 0);
	if (m) {
		forget_open(m);
		m->process = 0;
	}
	return 0;
}
