/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Does a conditional jump that is probed leave its function? Read from the flags. */
#ifndef PERFX_CONDITION_BPF_H
#define PERFX_CONDITION_BPF_H

#include "perfx.bpf.h"

#if defined(__TARGET_ARCH_x86)
#define FLAG_CF (1 << 0)
#define FLAG_PF (1 << 2)
#define FLAG_ZF (1 << 6)
#define FLAG_SF (1 << 7)
#define FLAG_OF (1 << 11)

/* Condition codes of jcc: Intel SDM volume 2, appendix B, "Condition Test Field (tttn)". */
static __always_inline bool condition_holds(struct pt_regs *ctx, __u8 condition)
{
	__u64 flags = ctx->flags;
	bool less = !(flags & FLAG_SF) != !(flags & FLAG_OF), holds;

	switch (condition >> 1) {
	case 0:
		holds = flags & FLAG_OF;
		break;
	case 1:
		holds = flags & FLAG_CF;
		break;
	case 2:
		holds = flags & FLAG_ZF;
		break;
	case 3:
		holds = flags & (FLAG_CF | FLAG_ZF);
		break;
	case 4:
		holds = flags & FLAG_SF;
		break;
	case 5:
		holds = flags & FLAG_PF;
		break;
	case 6:
		holds = less;
		break;
	default:
		holds = less || (flags & FLAG_ZF);
		break;
	}
	return condition & 1 ? !holds : holds;
}
#else
/* Sites are chosen for x86-64 only so far; elsewhere functions are timed by return probe. */
static __always_inline bool condition_holds(struct pt_regs *ctx, __u8 condition)
{
	return true;
}
#endif

#endif
