/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel types that the BPF programs look at, with the fields that they read and no others, for
 * all architectures. Only names and types matter here, neither order nor place: every access is
 * relocated by the running kernel's BTF when the program is loaded (preserve_access_index). Above
 * each struct is the kernel's own file; names are those of Linux 5.15 to 6.18.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* kernel/events/uprobes.c */
struct xol_area {
	unsigned long vaddr;
};

/* include/linux/uprobes.h */
struct uprobes_state {
	struct xol_area *xol_area;
};

/* include/linux/fs.h */
struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
	void *s_fs_info;
};

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	long long i_size;
};

/* include/linux/dcache.h */
struct qstr {
	__u32 len;
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
};

/* include/linux/path.h */
struct path {
	struct dentry *dentry;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
	long long f_pos;
	void *private_data;
};

/* include/linux/fdtable.h */
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

/* include/linux/percpu_counter.h */
struct percpu_counter {
	__s64 count;
	__s32 *counters;
};

/* include/linux/shmem_fs.h */
struct shmem_sb_info {
	unsigned long max_blocks;
	struct percpu_counter used_blocks;
};

/* include/linux/bpf.h */
struct bpf_array {
	void *pptrs[1];
};

/* include/linux/task_io_accounting.h */
struct task_io_accounting {
	__u64 read_bytes;
	__u64 write_bytes;
};

/* include/uapi/linux/bpf_perf_event.h */
struct bpf_perf_event_data {
	__u64 addr;
};

/* include/linux/mm_types.h */
struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

struct mm_struct {
	unsigned long start_brk;
	unsigned long brk;
	unsigned long start_stack;
	struct file *exe_file;
	unsigned long hiwater_rss;
	struct percpu_counter rss_stat[4];
	struct uprobes_state uprobes_state;
};

/* include/linux/sched.h */
struct cfs_rq {
	int throttle_count;
};

struct sched_entity {
	__u64 sum_exec_runtime;
	__u64 prev_sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_arrival;
	unsigned long long last_queued;
};

/* include/linux/types.h */
typedef int pid_t;
typedef struct {
	int counter;
} atomic_t;
typedef struct {
	__s64 counter;
} atomic_long_t;

/* include/linux/page_counter.h */
struct page_counter {
	atomic_long_t usage;
	unsigned long max;
};

/* include/linux/kernfs.h */
struct kernfs_node {
	__u64 id;
};

/* include/linux/cgroup-defs.h */
enum cgroup_subsys_id { memory_cgrp_id };

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct css_set {
	struct cgroup_subsys_state *subsys[1];
};

/* include/linux/memcontrol.h */
struct mem_cgroup {
	struct cgroup_subsys_state css;
	struct page_counter memory;
};

/* include/linux/signal_types.h */
union __sifields {
	struct {
		void *_addr;
	} _sigfault;
};

struct kernel_siginfo {
	int si_code;
	union __sifields _sifields;
};

struct sigaction {
	void *sa_handler;
};

struct k_sigaction {
	struct sigaction sa;
};

/* include/linux/sched/signal.h */
struct sighand_struct {
	struct k_sigaction action[1];
};

struct signal_struct {
	atomic_t live;
	unsigned int flags;
	__u64 utime;
	__u64 stime;
	unsigned long maj_flt;
	unsigned long maxrss;
	struct task_io_accounting ioac;
	unsigned long long sum_sched_runtime;
	struct mm_struct *oom_mm;
};

/* include/linux/uprobes.h, as uprobe_task */
struct return_instance {
	unsigned long stack;
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
};

struct uprobe_task {
	struct return_instance *return_instances;
	unsigned long vaddr;
	unsigned long xol_vaddr;
};

/* kernel/trace/trace_probe.h */
struct fetch_insn {
	unsigned long immediate;
};

struct probe_arg {
	struct fetch_insn *code;
};

struct trace_probe {
	unsigned int nr_args;
	struct probe_arg args[];
};

/* kernel/trace/trace_uprobe.c */
struct trace_uprobe {
	struct trace_probe tp;
};

struct uprobe_dispatch_data {
	struct trace_uprobe *tu;
};

/* arch/x86/include/asm/processor.h */
struct thread_struct {
	unsigned long fsbase;
};

/* include/linux/sched.h */
struct task_struct {
	unsigned int __state;
	unsigned int flags;
	unsigned int ptrace;
	int on_cpu;
	const void *cpus_ptr; /* its cpumask */
	struct sched_entity se;
	unsigned int policy;
	struct mm_struct *mm;
	int exit_state;
	int exit_code;
	unsigned long jobctl;
	unsigned in_iowait : 1;
	unsigned frozen : 1;
	int tgid;
	struct task_struct *group_leader;
	__u64 utime;
	__u64 stime;
	__u64 self_exec_id; /* counts execs */
	struct files_struct *files;
	struct signal_struct *signal;
	struct sighand_struct *sighand;
	struct css_set *cgroups;
	int pid;
	unsigned long sas_ss_sp;
	unsigned long sas_ss_size;
	struct uprobe_task *utask;
	unsigned long nvcsw;
	unsigned long nivcsw;
	__u64 start_time;
	__u64 start_boottime;
	struct task_struct *real_parent;
	struct task_struct *parent;
	char comm[16];
	struct sched_info sched_info;
	unsigned long maj_flt;
	struct task_io_accounting ioac;
	struct thread_struct thread;
};

/* kernel/bpf/task_iter.c */
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

/* include/net/sock.h, as sock */
struct sock_common {
	__u32 skc_daddr;
	__u16 skc_dport;
	unsigned short skc_family;
	struct in6_addr {
		__u8 bytes[16];
	} skc_v6_daddr;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_type;
};

/* include/linux/net.h */
struct socket {
	struct sock *sk;
};

/* arch/x86/include/asm/ptrace.h */
#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};
/* arch/arm64/include/uapi/asm/ptrace.h; asm/ptrace.h */
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
	__u64 orig_x0;
	__s32 syscallno;
};
#else
#error "pt_regs of this architecture are not here yet"
#endif

#pragma clang attribute pop

#endif
