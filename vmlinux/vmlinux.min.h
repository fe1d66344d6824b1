/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel types that the BPF programs look at, with the fields that they read and no others.
 * Used where the running kernel's BTF cannot be dumped at build time, and for other architectures:
 * every access is relocated when the program is loaded (CO-RE), so only names matter here.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>


#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct xol_area {
	unsigned long vaddr;
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct mm_struct {
	unsigned long brk;
	struct uprobes_state uprobes_state;
};

struct sched_entity {
	__u64 sum_exec_runtime;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
	unsigned int flags;
	__u64 utime;
	__u64 stime;
	unsigned long long sum_sched_runtime;
};

struct return_instance {
	unsigned long stack;
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
};

struct uprobe_task {
	struct return_instance *return_instances;
};

struct task_struct {
	struct sched_entity se;
	struct mm_struct *mm;
	int exit_code;
	int tgid;
	struct task_struct *group_leader;
	__u64 utime;
	__u64 stime;
	struct signal_struct *signal;
	int pid;
	struct uprobe_task *utask;
};

struct sock_common {
	unsigned short skc_family;
};

struct sock {
	struct sock_common __sk_common;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};

struct pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};
#else
#error "pt_regs of this architecture are not here yet"
#endif

#pragma clang attribute pop

#endif
