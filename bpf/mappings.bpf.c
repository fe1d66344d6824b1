// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory that the program takes from the kernel itself: mmap, munmap, mremap, brk outside of any
 * allocator that is hooked (Python's arenas, ggml's buffers). By system call, for many are made
 * without libc.
 *
 * Counted are anonymous mappings that can be touched: no files, no reservations (PROT_NONE), no
 * stacks of threads (MAP_STACK).
 */
#include "memory.bpf.h"

#if defined(__TARGET_ARCH_x86)
#define NR_MMAP	  9
#define NR_MUNMAP 11
#define NR_BRK	  12
#define NR_MREMAP 25
#else
#define NR_MMAP	  222
#define NR_MUNMAP 215
#define NR_BRK	  214
#define NR_MREMAP 216
#endif

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

static __always_inline void tell_unmapped(struct memory_thread *m, __u64 address, __u64 size_bytes,
					  __u8 flags)
{
	struct block block = mapped_block(address, size_bytes, flags | PERFX_FREE_MAPPED);

	tell_free(m, &block);
}

/* Is there a call instruction before this address: is it a return address? The forms of CALL: e8
 * rel32; ff /2 with a register or memory operand of 2, 3, 6 or 7 bytes. */
static __always_inline bool follows_call(__u64 address)
{
	__u8 code[8] = {};

	if (bpf_probe_read_user(code, 7, (void *)(address - 7)))
		return false;
#if defined(__TARGET_ARCH_x86)
	return code[2] == 0xe8 || (code[5] == 0xff && (code[6] & 0x38) == 0x10) ||
	       (code[4] == 0xff && (code[5] & 0x38) == 0x10) ||
	       (code[1] == 0xff && (code[2] & 0x38) == 0x10) ||
	       (code[0] == 0xff && (code[1] & 0x38) == 0x10);
#else
	return false;
#endif
}

static __always_inline void tell_mapped(struct memory_thread *m, struct pt_regs *regs,
					__u64 address, __u64 size_bytes, __u8 flags)
{
	struct block block = mapped_block(address, size_bytes, flags | PERFX_ALLOCATION_MAPPED);
	__u64 sp = PT_REGS_SP_CORE(regs), caller = 0;
	__u32 count = 1;

	m->stack.addresses[0] = PT_REGS_IP_CORE(regs);
	/* libc's wrapper has no frame of its own: its return address is uppermost */
	if (!bpf_probe_read_user(&caller, sizeof(caller), (void *)sp) && caller > 65536 &&
	    follows_call(caller))
		m->stack.addresses[count++] = caller;
	walk(&m->stack, count, PT_REGS_FP_CORE(regs), sp);
	tell_allocation(m, &block, sp);
}

static __always_inline bool is_counted(__u64 protection, __u64 flags)
{
	return (flags & MAP_ANONYMOUS) && !(flags & MAP_STACK) &&
	       (protection & (PROT_READ | PROT_WRITE));
}

static __always_inline bool is_mapping(long number)
{
	return number == NR_MMAP || number == NR_MUNMAP || number == NR_BRK || number == NR_MREMAP;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(perfx_on_syscall, struct pt_regs *regs, long number)
{
	struct memory_thread *m;
	struct mapping_call *call;
	__u64 address, size;

	if (!is_mapping(number) || !is_recording() ||
	    perfx_memory_knobs[PERFX_DOMAIN_HOST].level != PERFX_MEMORY_EXACT)
		return 0;
	m = memory_thread(true);
	if (!m)
		return 0;
	call = &m->mapping;
	call->number = 0;
	if (is_inside(&m->open[PERFX_DOMAIN_HOST], PT_REGS_SP_CORE(regs)))
		return 0;
	address = PT_REGS_PARM1_CORE_SYSCALL(regs);
	size = PT_REGS_PARM2_CORE_SYSCALL(regs);
	switch (number) {
	case NR_MMAP:
		if (!is_counted(PT_REGS_PARM3_CORE_SYSCALL(regs), PT_REGS_PARM4_CORE_SYSCALL(regs)))
			return 0;
		break;
	case NR_MUNMAP:
		/* told before it is done, so only what will be done: whole pages */
		if (!(address & (PAGE_BYTES - 1)) && size)
			tell_unmapped(m, address, (size + PAGE_BYTES - 1) & -PAGE_BYTES, 0);
		return 0;
	case NR_MREMAP:
		tell_unmapped(m, address, size, PERFX_FREE_ASIDE);
		size = PT_REGS_PARM3_CORE_SYSCALL(regs);
		break;
	default:
		address = BPF_CORE_READ(bpf_get_current_task_btf(), mm, brk);
		break;
	}
	call->address = address;
	call->size_bytes = size;
	call->number = number;
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(perfx_on_syscall_exit, struct pt_regs *regs, long result)
{
	struct memory_thread *m = memory_thread(false);
	struct mapping_call call;
	__u64 address = result;

	if (!m || !m->mapping.number)
		return 0;
	call = m->mapping;
	m->mapping.number = 0;
	if (call.number == NR_BRK) {
		if (address > call.address)
			tell_mapped(m, regs, call.address, address - call.address, 0);
		else if (address < call.address)
			tell_unmapped(m, address, call.address - address, 0);
	} else if (call.number == NR_MREMAP) {
		if (is_error(address))
			tell_unmapped(m, call.address, 0, PERFX_FREE_RESTORED);
		else
			tell_mapped(m, regs, address, call.size_bytes, PERFX_ALLOCATION_RESIZED);
	} else if (!is_error(address)) {
		tell_mapped(m, regs, address, call.size_bytes, 0);
	}
	return 0;
}
