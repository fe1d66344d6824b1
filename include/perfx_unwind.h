/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rules to get from a frame to its caller's without frame pointers. User space compiles them from a
 * file's .eh_frame (user/elf/eh_frame.h); the BPF programs follow them. Not part of a capture.
 *
 * sp and fp are rsp and rbp on x86-64. The CFA (canonical frame address) is the caller's sp behind
 * the call; the return address lies at CFA - 8.
 */
#ifndef PERFX_UNWIND_H
#define PERFX_UNWIND_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

enum perfx_unwind_cfa {
	PERFX_CFA_NONE = 0, /* no FDE covers the address */
	PERFX_CFA_BASE,	    /* base + cfa_offset */
	PERFX_CFA_DEREF,    /* *(base + cfa_offset) + addend: realigned stacks */
	/* base + cfa_offset + ((pc & 15) >= addend ? 8 : 0): a procedure linkage table with entries
	 * of 16 bytes, which push the function's number after the first `addend` bytes */
	PERFX_CFA_PLT,
	/* The kernel's frame for a signal handler: the caller, with all its registers, is the
	 * interrupted code. CFA = *(base + cfa_offset); pc = *(base + addend), which is not a
	 * return address. */
	PERFX_CFA_SIGNAL,
	PERFX_CFA_END, /* the thread's first frame: there is no caller */
	PERFX_CFA_BAD  /* a rule that cannot be expressed here */
};

enum perfx_unwind_base { PERFX_BASE_SP = 1, PERFX_BASE_FP };

/* Where the caller's fp is. */
enum perfx_unwind_fp {
	PERFX_FP_SAME = 0, /* still in the register */
	PERFX_FP_AT_CFA,   /* *(CFA + fp_offset) */
	PERFX_FP_AT_SP,	   /* *(sp + fp_offset): signal frames */
	PERFX_FP_AT_FP,	   /* *(fp + fp_offset) */
	PERFX_FP_UNKNOWN   /* lost, or a rule that cannot be expressed here; the CFA is known */
};

/* Unused members are 0, so equal rules have equal bytes. */
struct perfx_unwind_rule {
	__u8 cfa;     /* enum perfx_unwind_cfa */
	__u8 base;    /* enum perfx_unwind_base; 0: the CFA needs none */
	__u8 fp_rule; /* enum perfx_unwind_fp */
	__u8 pad;
	__s32 cfa_offset; /* bytes, as those below */
	__s32 addend;
	__s32 fp_offset;
};

_Static_assert(sizeof(struct perfx_unwind_rule) == 16, "a rule takes 16 bytes of a BPF map");

#endif
