/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory that the program takes from the kernel itself: mmap, munmap, mremap, brk outside of any
 * allocator that is probed (Python's arenas, ggml's buffers). Seen where libc makes the system
 * call: a tracepoint of system calls would slow down those of every process on the machine.
 * Included by memory.bpf.c alone.
 *
 * Counted are anonymous mappings that can be touched: no files, no reservations (PROT_NONE), no
 * stacks of threads (MAP_STACK).
 */
#ifndef PERFX_MAPPINGS_BPF_H
#define PERFX_MAPPINGS_BPF_H

#include "memory.bpf.h"

/* uapi/asm-generic/mman.h, mman-common.h */
#define PROT_READ     0x1
#define PROT_WRITE    0x2
#define MAP_ANONYMOUS 0x20
#define MAP_STACK     0x20000

#define MAX_ERRNO 4095

/* The smallest there is: the kernel refuses what is not aligned to its own. */
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

/* Where the heap of brk ends. */
static __always_inline __u64 heap_end(void)
{
	return BPF_CORE_READ(bpf_get_current_task_btf(), mm, brk);
}

/* Told before it is done, so only what will be done: whole pages. */
static __always_inline void unmap(struct memory_thread *m,
				  const struct perfx_alloc_probe *alloc_probe,
				  const __u64 *arguments, __u64 slot)
{
	__u64 address = arguments[alloc_probe->pointer_arg & 7],
	      size = arguments[alloc_probe->size_arg & 7];

	if (address & (PAGE_BYTES - 1) || !size || is_handed_on(m, alloc_probe, address, slot))
		return;
	m->handed_on = (struct open_free){slot, read_word(slot), address};
	emit_unmapped(m, address, (size + PAGE_BYTES - 1) & -PAGE_BYTES, 0);
}

/* A call begins. Returns whether its return is wanted. */
static __always_inline bool mapping_entry(struct memory_thread *m,
					  const struct perfx_alloc_probe *alloc_probe,
					  const __u64 *arguments, __u64 slot)
{
	struct open_call *open;
	__u64 address = arguments[alloc_probe->pointer_arg & 7],
	      size = arguments[alloc_probe->size_arg & 7];

	if (level_of(PERFX_DOMAIN_HOST) != PERFX_MEMORY_EXACT)
		return false;
	switch ((enum perfx_action)alloc_probe->action) {
	case PERFX_ACTION_UNMAP:
		unmap(m, alloc_probe, arguments, slot);
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
	open = place_of_open(m, PERFX_DOMAIN_HOST, slot);
	open->slot = slot;
	open->return_address = read_word(slot);
	open->pointer = address;
	open->size_bytes = size;
	open->left = 0;
	open->calls_back = 0;
	return true;
}

static __always_inline void emit_mapped(struct memory_thread *m, const struct open_call *open,
					struct pt_regs *ctx, struct block *block, __u64 slot)
{
	m->stack.addresses[0] = open->return_address;
	walk(&m->stack, 1, PT_REGS_FP(ctx), slot);
	emit_allocation(m, block, slot);
}

/* The heap has another end now. */
static __always_inline void emit_heap(struct memory_thread *m, const struct open_call *open,
				      struct pt_regs *ctx, __u64 slot)
{
	__u64 before = open->pointer, now = heap_end();
	struct block block;

	if (now < before) {
		emit_unmapped(m, now, before - now, 0);
	} else if (now > before) {
		block = mapped_block(before, now - before, PERFX_ALLOCATION_MAPPED);
		emit_mapped(m, open, ctx, &block, slot);
	}
}

/* The call that was open returns. */
static __always_inline void mapping_return(struct memory_thread *m,
					   const struct perfx_alloc_probe *alloc_probe,
					   const struct open_call *open, struct pt_regs *ctx,
					   __u64 slot)
{
	bool resized = alloc_probe->action == PERFX_ACTION_REMAP;
	__u64 address = PT_REGS_RC(ctx);
	struct block block;

	if (alloc_probe->action == PERFX_ACTION_BREAK) {
		emit_heap(m, open, ctx, slot);
	} else if (!is_error(address)) {
		block = mapped_block(address, open->size_bytes,
				     PERFX_ALLOCATION_MAPPED |
					     (resized ? PERFX_ALLOCATION_RESIZED : 0));
		emit_mapped(m, open, ctx, &block, slot);
	} else if (resized) {
		emit_unmapped(m, open->pointer, 0, PERFX_FREE_RESTORED);
	}
}

#endif
