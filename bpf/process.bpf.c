// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The traced processes: fork, exec, exit, the signals that end them, and the bytes that each moves
 * over internet sockets. Executable mappings are reported by perf's sideband
 * (user/attach/mapped_files.c).
 */
#include "python.bpf.h"
#include "signals.bpf.h"
#include "thread.bpf.h"
#include "unwind.bpf.h"

const volatile bool perfx_follow_children = true;
const volatile __u64 perfx_page_bytes = 4096;
volatile __u32 perfx_pythons_count = 0;
volatile __u32 perfx_unwind_drops = 0;

#define CONTROL_RECORD(type, name, value)                                          \
	struct type *name = bpf_ringbuf_reserve(&perfx_control, sizeof(*name), 0); \
	if (!name) {                                                               \
		counter_add(PERFX_COUNTER_CONTROL_DROPS, 1);                       \
		return 0;                                                          \
	}                                                                          \
	name->hdr.size = sizeof(*name);                                            \
	name->hdr.kind = (value);                                                  \
	name->hdr.fixed = sizeof(*name);                                           \
	name->time_ns = bpf_ktime_get_ns()

SEC("tp_btf/sched_process_fork")
int BPF_PROG(perfx_on_fork, struct task_struct *parent, struct task_struct *child)
{
	/* dead until it has an index, so that a process without room reserves none */
	struct perfx_traced_process *traced, *born, none = {.dead = 1};
	__u32 parent_tgid = parent->tgid, child_tgid = child->tgid, process;

	if (parent_tgid == child_tgid || !perfx_follow_children)
		return 0;
	traced = traced_process_of(parent_tgid);
	if (!traced || traced->dead)
		return 0;
	bpf_map_update_elem(&perfx_traced_tgids, &child_tgid, &none, BPF_ANY);
	born = traced_process_of(child_tgid);
	if (!born) {
		counter_add(PERFX_COUNTER_PROCESSES_FULL, 1);
		return 0;
	}
	process = new_process();
	if (!process) {
		bpf_map_delete_elem(&perfx_traced_tgids, &child_tgid);
		return 0;
	}
	born->process = born->born = process;
	/* vfork: until exec the child uses its parent's memory */
	born->memory_process = BPF_CORE_READ(child, mm) == BPF_CORE_READ(parent, mm)
				       ? traced->memory_process
				       : process;
	born->tensor_layouts = traced->tensor_layouts;
	barrier();
	born->dead = 0;
	unwind_fork(parent_tgid, child_tgid);
	python_fork(parent_tgid, child_tgid);
	CONTROL_RECORD(perfx_fork, record, PERFX_KIND_FORK);
	record->process = process;
	record->parent_process = traced->process;
	record->pid = child_tgid;
	record->ppid = parent_tgid;
	bpf_ringbuf_submit(record, 0);
	return 0;
}

#define DEVICE_MINOR_BITS 20 /* of the kernel's dev_t */

/* A pointer as a number, read from the stack: the verifier allows little arithmetic on pointers to
 * maps and their elements. */
static __always_inline __u64 address_of(const void *pointer)
{
	__u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), &pointer);
	return address;
}

struct percpu_sum {
	__u64 counters; /* address to which each CPU's offset is added */
	__u64 elements; /* the same for an element of perfx_counters */
	__s64 sum;
};

static long percpu_sum_step(__u32 cpu, void *ctx)
{
	struct percpu_sum *sum = ctx;
	__u32 key = 0;
	__u64 element = address_of(bpf_map_lookup_percpu_elem(&perfx_counters, &key, cpu));
	__s32 part = 0;

	if (!element)
		return 1;
	if (!bpf_probe_read_kernel(&part, sizeof(part),
				   (const void *)(sum->counters + element - sum->elements)))
		sum->sum += part;
	return 0;
}

/* The address to which the kernel adds a CPU's offset for its elements of perfx_counters: the
 * difference to an element is that offset. (The kernel's __per_cpu_offset needs
 * CONFIG_KALLSYMS_ALL, and libbpf would read all of /proc/kallsyms for it.) */
static __always_inline __u64 counters_base(void)
{
	const struct bpf_array *array = (const void *)address_of(&perfx_counters);

	return (__u64)BPF_CORE_READ(array, pptrs[0]);
}

/* As the kernel's percpu_counter_sum: the parts that CPUs have not added yet may be megabytes. */
static __noinline __u64 percpu_sum(const struct percpu_counter *counter)
{
	struct percpu_sum sum = {.counters = (__u64)BPF_CORE_READ(counter, counters),
				 .elements = counters_base(),
				 .sum = BPF_CORE_READ(counter, count)};

	if (sum.elements)
		repeat(PERFX_MAX_CPUS, percpu_sum_step, &sum);
	return sum.sum > 0 ? sum.sum : 0;
}

/* enum in include/linux/mm_types_task.h */
#define MM_FILE_PAGES  0
#define MM_ANON_PAGES  1
#define MM_SHMEM_PAGES 3

/* Pointers in task_struct are read with a helper: for each direct read the verifier searches all
 * types of the kernel by name, which takes 4 ms. */

/* Before Linux 6.16 the mm is gone at this point. */
static __always_inline void set_memory(struct perfx_exit *record, struct task_struct *task)
{
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	__u64 pages;

	record->peak_pages = BPF_CORE_READ(task, signal, maxrss);
	if (!mm || !bpf_core_field_exists(struct percpu_counter, counters) ||
	    !bpf_core_field_exists(mm->rss_stat[0].counters))
		return;
	record->flags |= PERFX_EXIT_MEMORY;
	record->file_pages = percpu_sum(&mm->rss_stat[MM_FILE_PAGES]);
	record->anon_pages = percpu_sum(&mm->rss_stat[MM_ANON_PAGES]);
	record->shmem_pages = percpu_sum(&mm->rss_stat[MM_SHMEM_PAGES]);
	pages = record->file_pages + record->anon_pages + record->shmem_pages;
	record->peak_pages = BPF_CORE_READ(mm, hiwater_rss);
	if (pages > record->peak_pages)
		record->peak_pages = pages;
}

/* A SIGNAL record with its strings, packed one after the other. */
struct signal_record {
	struct perfx_signal signal;
	char text[112]; /* two of comm[16], a file's name */
};

/* The last signals, by tgid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PERFX_MAX_PROCESSES);
	__type(key, __u32);
	__type(value, struct signal_record);
} perfx_signals SEC(".maps");

/* Signals are sent with interrupts off, under a lock, so programs neither nest nor are preempted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct signal_record);
} perfx_signal_scratch SEC(".maps");

/* include/linux/sched.h */
#define PF_EXITING 0x00000004
/* include/uapi/linux/magic.h */
#define TMPFS_MAGIC 0x01021994
/* include/linux/mm.h */
#define VM_READ	 0x1
#define VM_WRITE 0x2
#define VM_EXEC	 0x4

enum bpf_func_id___find_vma { BPF_FUNC_find_vma___find_vma = 180 };

struct mapping_found {
	__u64 start, end, flags, pgoff, file;
};

static long note_mapping(struct task_struct *task, struct vm_area_struct *vma, void *ctx)
{
	struct mapping_found *found = ctx;

	found->start = BPF_CORE_READ(vma, vm_start);
	found->end = BPF_CORE_READ(vma, vm_end);
	found->flags = BPF_CORE_READ(vma, vm_flags);
	found->pgoff = BPF_CORE_READ(vma, vm_pgoff);
	found->file = (__u64)BPF_CORE_READ(vma, vm_file);
	return 0;
}

/* Is there room in the file system of a file in memory? The kernel's own numbers: a container's
 * /dev/shm is not to be seen from outside. */
static __always_inline void note_storage(struct perfx_signal *signal, struct super_block *storage)
{
	const struct shmem_sb_info *info = BPF_CORE_READ(storage, s_fs_info);

	if (BPF_CORE_READ(storage, s_magic) != TMPFS_MAGIC)
		return;
	signal->flags |= PERFX_SIGNAL_TMPFS;
	if (!info || !bpf_core_type_exists(struct shmem_sb_info))
		return;
	signal->storage_bytes = BPF_CORE_READ(info, max_blocks) * perfx_page_bytes;
	if (signal->storage_bytes)
		signal->storage_used_bytes = percpu_sum(&info->used_blocks) * perfx_page_bytes;
}

static __always_inline void note_mapped_file(struct perfx_signal *signal,
					     const struct mapping_found *found)
{
	const struct file *file = (const void *)found->file;
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	struct super_block *storage = BPF_CORE_READ(inode, i_sb);
	__u32 device = BPF_CORE_READ(storage, s_dev);

	signal->dev_major = device >> DEVICE_MINOR_BITS;
	signal->dev_minor = device & ((1 << DEVICE_MINOR_BITS) - 1);
	signal->file_bytes = BPF_CORE_READ(inode, i_size);
	signal->file_offset =
		signal->address - found->start + found->pgoff * (__u64)perfx_page_bytes;
	note_storage(signal, storage);
}

/* Which mapping contains the address of a fault? Returns the file mapped there, if there is one. */
static __always_inline const struct file *note_address(struct perfx_signal *signal,
						       struct task_struct *task)
{
	struct mapping_found found = {};
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	__u64 stack = BPF_CORE_READ(mm, start_stack);

	if (!bpf_core_enum_value_exists(enum bpf_func_id___find_vma,
					BPF_FUNC_find_vma___find_vma) ||
	    bpf_find_vma(task, signal->address, note_mapping, &found, 0))
		return NULL;
	signal->flags |= PERFX_SIGNAL_MAPPED;
	signal->flags |= found.flags & VM_READ ? PERFX_SIGNAL_READ : 0;
	signal->flags |= found.flags & VM_WRITE ? PERFX_SIGNAL_WRITE : 0;
	signal->flags |= found.flags & VM_EXEC ? PERFX_SIGNAL_EXEC : 0;
	if (found.start <= BPF_CORE_READ(mm, brk) && found.end > BPF_CORE_READ(mm, start_brk))
		signal->flags |= PERFX_SIGNAL_HEAP;
	if (found.start <= stack && stack < found.end)
		signal->flags |= PERFX_SIGNAL_STACK;
	signal->mapping_start = found.start;
	signal->mapping_end = found.end;
	if (found.file)
		note_mapped_file(signal, &found);
	return (const struct file *)found.file;
}

/* Pushing to a stack that has no more room faults just below its pointer; large frames further. */
#define NEAR_STACK 65536

static __always_inline const struct file *note_fault(struct perfx_signal *signal,
						     struct task_struct *task,
						     struct kernel_siginfo *info)
{
	const struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	signal->flags |= PERFX_SIGNAL_FAULT;
	signal->address = (__u64)BPF_CORE_READ(info, _sifields._sigfault._addr);
	signal->ip = PT_REGS_IP(regs);
	if (signal->address - PT_REGS_SP(regs) + NEAR_STACK < 2 * NEAR_STACK)
		signal->flags |= PERFX_SIGNAL_NEAR_STACK;
	return note_address(signal, task);
}

#define CGROUPS_MAX 16 /* levels */

struct cgroup_walk {
	struct perfx_signal *signal;
	const struct cgroup_subsys_state *group;
	__u64 least; /* bytes left */
};

static long cgroup_step(__u32 level, void *ctx)
{
	struct cgroup_walk *walk = ctx;
	const struct cgroup_subsys_state *group = walk->group;
	const struct mem_cgroup *memory = (const void *)group; /* its first member */
	__u64 limit, used, left;

	if (!memory)
		return 1;
	limit = BPF_CORE_READ(memory, memory.max);
	used = BPF_CORE_READ(memory, memory.usage.counter);
	left = limit > used ? limit - used : 0;
	/* without a limit it is the most that a counter has */
	if (left < walk->least && limit < (~0ull >> 1) / perfx_page_bytes) {
		walk->least = left;
		walk->signal->cgroup = BPF_CORE_READ(group, cgroup, kn, id);
		walk->signal->cgroup_limit_bytes = limit * perfx_page_bytes;
		walk->signal->cgroup_used_bytes = used * perfx_page_bytes;
	}
	walk->group = BPF_CORE_READ(group, parent);
	return 0;
}

/* Notes the control group with the least memory left, if the kernel kills the process. */
static __always_inline void note_cgroup(struct perfx_signal *signal, struct task_struct *task)
{
	struct css_set *groups = BPF_CORE_READ(task, cgroups);
	struct cgroup_walk walk = {.signal = signal, .least = ~0ull};
	__u64 at = (__u64)groups + bpf_core_field_offset(struct css_set, subsys) +
		   sizeof(void *) * bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);

	if (!bpf_core_type_exists(struct mem_cgroup))
		return;
	bpf_probe_read_kernel(&walk.group, sizeof(walk.group), (const void *)at);
	repeat(CGROUPS_MAX, cgroup_step, &walk);
}

/* Appends a string, at most `most` bytes of it with its end. Returns where the next one begins. */
static __always_inline __u32 append_string(struct signal_record *record, __u32 at, __u32 most,
					   const void *string)
{
	long size;

	at &= 63;
	size = string ? bpf_probe_read_kernel_str(record->text + at, most, string) : 0;
	if (size > 0)
		return at + size;
	record->text[at] = 0;
	return at + 1;
}

static __always_inline void note_strings(struct signal_record *record, const struct file *file)
{
	struct task_struct *sender = bpf_get_current_task_btf();
	struct task_struct *parent = BPF_CORE_READ(sender, real_parent);
	bool sent = record->signal.flags & PERFX_SIGNAL_SENT;
	__u32 at = 0;

	if (sent) {
		record->signal.sender_pid = bpf_get_current_pid_tgid() >> 32;
		record->signal.sender_ppid = BPF_CORE_READ(parent, tgid);
		sender = BPF_CORE_READ(sender, group_leader);
	}
	at = append_string(record, at, sizeof(sender->comm), sent ? sender->comm : NULL);
	at = append_string(record, at, sizeof(sender->comm), sent ? parent->comm : NULL);
	at = append_string(record, at, 64,
			   file ? BPF_CORE_READ(file, f_path.dentry, d_name.name) : NULL);
	record->signal.hdr.size = (sizeof(record->signal) + at + 7) / 8 * 8;
}

/* A handler of a fault raises the signal again, by which the process ends. */
static __always_inline bool raises_again(__u32 tgid, int signal)
{
	const struct signal_record *last = bpf_map_lookup_elem(&perfx_signals, &tgid);

	return last && last->signal.flags & PERFX_SIGNAL_FAULT &&
	       last->signal.signal == (__u32)signal && (bpf_get_current_pid_tgid() >> 32) == tgid;
}

SEC("tp_btf/signal_generate")
int BPF_PROG(perfx_on_signal, int signal, struct kernel_siginfo *info, struct task_struct *task,
	     int group, int result)
{
	const struct perfx_traced_process *traced;
	const struct file *file = NULL;
	struct signal_record *record;
	__u32 zero = 0, tgid;
	bool handled;
	int code = 0;

	if (!may_end(signal, result))
		return 0;
	tgid = BPF_CORE_READ(task, tgid);
	traced = traced_process_of(tgid);
	if (!traced || traced->dead)
		return 0;
	handled = is_handled(task, signal);
	if (handled && !(BIT(signal) & SIGNALS_OF_AN_END))
		return 0;
	if ((__u64)info > SEND_SIG_PRIV)
		code = BPF_CORE_READ(info, si_code);
	if (code <= 0 && raises_again(tgid, signal))
		return 0;
	record = bpf_map_lookup_elem(&perfx_signal_scratch, &zero);
	if (!record)
		return 0;
	__builtin_memset(record, 0, sizeof(*record));
	record->signal.sent_ns = bpf_ktime_get_ns();
	record->signal.pid = tgid;
	record->signal.signal = signal;
	record->signal.code = code;
	record->signal.tid = BPF_CORE_READ(task, pid);
	if (handled)
		record->signal.flags |= PERFX_SIGNAL_HANDLED;
	if (code <= 0 && code != SI_TIMER && (__u64)info != SEND_SIG_PRIV)
		record->signal.flags |= PERFX_SIGNAL_SENT;
	if (BPF_CORE_READ(bpf_get_current_task_btf(), flags) & PF_EXITING)
		record->signal.flags |= PERFX_SIGNAL_SENDER_ENDS;
	if (code > 0 && BIT(signal) & FAULTS)
		file = note_fault(&record->signal, task, info);
	if (signal == SIGKILL && (__u64)info == SEND_SIG_PRIV)
		note_cgroup(&record->signal, task);
	note_strings(record, file);
	bpf_map_update_elem(&perfx_signals, &tgid, record, BPF_ANY);
	return 0;
}

/* Before the EXIT record. */
static __always_inline void emit_signal(__u32 tgid, __u32 process)
{
	struct signal_record *last = bpf_map_lookup_elem(&perfx_signals, &tgid);
	__u32 size;

	if (!last)
		return;
	last->signal.hdr.kind = PERFX_KIND_SIGNAL;
	last->signal.hdr.fixed = sizeof(last->signal);
	last->signal.time_ns = bpf_ktime_get_ns();
	last->signal.process = process;
	size = last->signal.hdr.size;
	if (size <= sizeof(*last) &&
	    bpf_ringbuf_output(&perfx_control, last, size, BPF_RB_NO_WAKEUP))
		counter_add(PERFX_COUNTER_CONTROL_DROPS, 1);
	bpf_map_delete_elem(&perfx_signals, &tgid);
}

struct thread_record {
	struct perfx_thread thread;
	char comm[16];
};

/* Threads use at most half of the ring, because thousands may start and end; the rest is for
 * processes. */
#define CONTROL_RING_HALF (PERFX_CONTROL_RING_BYTES / 2)

/* The CPU time of a thread so far, as in /proc/PID/task/TID/schedstat. */
static __always_inline void emit_thread(struct task_struct *task, __u32 process, char state,
					__u8 flags)
{
	struct thread_record *record = NULL;

	if (bpf_ringbuf_query(&perfx_control, BPF_RB_AVAIL_DATA) < CONTROL_RING_HALF)
		record = bpf_ringbuf_reserve(&perfx_control, sizeof(*record), 0);
	if (!record) {
		counter_add(PERFX_COUNTER_CONTROL_DROPS, 1);
		return;
	}
	__builtin_memset(record, 0, sizeof(*record));
	record->thread.hdr.size = sizeof(*record);
	record->thread.hdr.kind = PERFX_KIND_THREAD;
	record->thread.hdr.fixed = sizeof(record->thread);
	record->thread.time_ns = bpf_ktime_get_ns();
	record->thread.on_cpu_ns = task->se.sum_exec_runtime;
	record->thread.runnable_ns = ~0ull;
	if (bpf_core_field_exists(task->sched_info.run_delay))
		record->thread.runnable_ns = task->sched_info.run_delay;
	record->thread.process = process;
	record->thread.tid = task->pid;
	record->thread.state = state;
	record->thread.flags = flags;
	record->thread.start_ns = task->start_time;
	bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), task->comm);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

static __always_inline int emit_exit(struct task_struct *task,
				     const struct perfx_traced_process *traced)
{
	struct signal_struct *signal = BPF_CORE_READ(task, signal);
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);

	CONTROL_RECORD(perfx_exit, record, PERFX_KIND_EXIT);
	record->process = traced->process;
	record->pid = task->tgid;
	record->status = task->exit_code;
	record->flags = PERFX_EXIT_USAGE;
	if (BPF_CORE_READ(signal, oom_mm))
		record->flags |= PERFX_EXIT_OOM;
	/* signal has the sums of threads that have ended, but not the last one's and not those of a
	 * leader that waits for it */
	record->runtime_ns = BPF_CORE_READ(signal, sum_sched_runtime) + task->se.sum_exec_runtime;
	record->user_tick_ns = BPF_CORE_READ(signal, utime) + task->utime;
	record->system_tick_ns = BPF_CORE_READ(signal, stime) + task->stime;
	if (leader != task) {
		record->runtime_ns += BPF_CORE_READ(leader, se.sum_exec_runtime);
		record->user_tick_ns += BPF_CORE_READ(leader, utime);
		record->system_tick_ns += BPF_CORE_READ(leader, stime);
	}
	record->net_rx_bytes = traced->net_rx_bytes;
	record->net_tx_bytes = traced->net_tx_bytes;
	record->major_faults_count = BPF_CORE_READ(signal, maj_flt) + task->maj_flt;
	record->read_bytes = record->write_bytes = ~0ull;
	if (bpf_core_field_exists(task->ioac.read_bytes)) {
		record->read_bytes = BPF_CORE_READ(signal, ioac.read_bytes) + task->ioac.read_bytes;
		record->write_bytes =
			BPF_CORE_READ(signal, ioac.write_bytes) + task->ioac.write_bytes;
	}
	record->anon_pages = record->file_pages = record->shmem_pages = 0;
	set_memory(record, task);
	bpf_ringbuf_submit(record, 0);
	return 0;
}

/* Stops tracing a process that has ended. */
static __always_inline void end_process(struct task_struct *task,
					struct perfx_traced_process *traced)
{
	__u32 tgid = task->tgid;

	recording_window_close(traced);
	unwind_forget(tgid);
	python_forget(tgid);
	goroutines_forget(traced->process);
	emit_signal(tgid, traced->process);
	emit_exit(task, traced);
	bpf_map_delete_elem(&perfx_traced_tgids, &tgid);
}

/* A thread other than the main one takes over the main thread's id; old_pid: its previous id. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(perfx_on_exec, struct task_struct *task, pid_t old_pid)
{
	__u32 tgid = task->tgid, old_process, process;
	__u64 net_rx_bytes, net_tx_bytes;
	struct perfx_traced_process *traced = traced_process_of(tgid);
	struct inode *file;
	__u32 device;

	if (!traced)
		return 0;
	process = new_process();
	if (!process) {
		traced->dead = 1;
		end_process(task, traced);
		return 0;
	}
	recording_window_close(traced);
	unwind_forget(tgid);
	python_forget(tgid);
	goroutines_forget(traced->process);
	old_process = traced->process;
	net_rx_bytes = traced->net_rx_bytes;
	net_tx_bytes = traced->net_tx_bytes;
	traced->process = traced->memory_process = process;
	traced->open_operators = traced->runs_objects = 0;
	traced->tensor_layouts = PERFX_TENSOR_LAYOUTS_ALL;
	traced->net_rx_bytes = traced->net_tx_bytes = 0;
	CONTROL_RECORD(perfx_exec, record, PERFX_KIND_EXEC);
	record->process = traced->process;
	record->old_process = old_process;
	record->pid = tgid;
	record->flags = (__u32)old_pid == tgid ? 0 : PERFX_EXEC_BY_THREAD;
	record->net_rx_bytes = net_rx_bytes;
	record->net_tx_bytes = net_tx_bytes;
	file = BPF_CORE_READ(task, mm, exe_file, f_inode);
	record->inode = BPF_CORE_READ(file, i_ino);
	device = BPF_CORE_READ(file, i_sb, s_dev);
	record->dev_major = device >> DEVICE_MINOR_BITS;
	record->dev_minor = device & ((1 << DEVICE_MINOR_BITS) - 1);
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	bpf_ringbuf_submit(record, 0);
	if (is_recording())
		emit_thread(task, process, 'R', 0);
	return 0;
}

/* Deletes the entry of a process at its end: when user space reads the record, the pid may be in
 * use again. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(perfx_on_exit, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	struct perfx_traced_process *traced = traced_process_of(tgid);

	if (traced && is_recording())
		emit_thread(task, traced->process, 'X', PERFX_THREAD_ENDED);
	/* live has been decremented: 0 is the last thread. Two threads that exit at once may both
	 * read 0. */
	if (!traced || BPF_CORE_READ(task, signal, live.counter) != 0 ||
	    __sync_lock_test_and_set(&traced->dead, 1))
		return 0;
	end_process(task, traced);
	return 0;
}

#define AF_INET	 2
#define AF_INET6 10
#define MSG_PEEK 2

static __always_inline struct perfx_traced_process *socket_owner(struct sock *sk, int bytes)
{
	__u16 address_family = sk->__sk_common.skc_family;

	if (bytes <= 0 || (address_family != AF_INET && address_family != AF_INET6))
		return NULL;
	return traced_process_of(current_tgid());
}

/* Both tracepoints exist since Linux 6.3. */
SEC("?tp_btf/sock_send_length")
int BPF_PROG(perfx_on_send, struct sock *sk, int bytes, int flags)
{
	struct perfx_traced_process *traced = socket_owner(sk, bytes);

	if (traced)
		__sync_fetch_and_add(&traced->net_tx_bytes, (__u64)bytes);
	return 0;
}

SEC("?tp_btf/sock_recv_length")
int BPF_PROG(perfx_on_receive, struct sock *sk, int bytes, int flags)
{
	struct perfx_traced_process *traced = socket_owner(sk, bytes);

	if (traced && !(flags & MSG_PEEK))
		__sync_fetch_and_add(&traced->net_rx_bytes, (__u64)bytes);
	return 0;
}
