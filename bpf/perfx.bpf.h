/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared by all BPF programs: configuration, maps, gates, condition codes of probed jumps, and the
 * windows in which a waiting tracer records. The maps are weak, so that objects linked together
 * (bpftool gen object) have one of each.
 *
 * Programs of uprobe_multi links can be preempted. So state of a thread lives in task storage,
 * never in per-CPU scratch; counters are added to atomically; programs run on the thread's stack
 * (stay_on_thread_stack).
 */
#ifndef PERFX_BPF_H
#define PERFX_BPF_H

#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "perfx_config.h"
#include "perfx_record.h"

/* 1 during the recording: probes are attached before it and detached after it. */
extern volatile __u32 perfx_tracing;
/* --wait: the program starts and stops the recording (see current_recording_window). */
extern volatile __u32 perfx_waiting;

/* Always false: a constant to the verifier, a variable to the compiler. */
extern const volatile bool perfx_never;

/*
 * Each program of a uprobe calls this first. Since Linux 6.13 a program whose frame is 64 bytes or
 * more has a private stack on each CPU, which is safe for programs that are neither preempted nor
 * sleep. Programs of uprobes are preempted and sleep: a hit by the next thread on that CPU
 * overwrites the first thread's variables, pointers included, and the kernel then writes to wrong
 * addresses (seen on 6.18). A program with a tail call has no private stack
 * (check_max_stack_depth() in kernel/bpf/verifier.c), even if the verifier removes that call as
 * unreachable.
 */
static __always_inline void stay_on_thread_stack(void *ctx)
{
	if (perfx_never)
		bpf_tail_call(ctx, NULL, 0);
}

/* A step of repeat(); a result other than 0 ends the loop. */
typedef long repeat_step(__u32 i, void *ctx);

enum bpf_func_id___loop { BPF_FUNC_loop___loop = 181 };

/*
 * Makes at most `count` steps, which share *ctx, a structure on the stack. The verifier walks a
 * step of bpf_loop (Linux 5.17) once, but the body of a loop once per iteration, and all programs
 * are verified whenever recording starts.
 */
static __always_inline void repeat(__u32 count, repeat_step *step, void *ctx)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id___loop, BPF_FUNC_loop___loop)) {
		bpf_loop(count, step, ctx, 0);
		return;
	}
	for (__u32 i = 0; i < count; i++)
		if (step(i, ctx))
			break;
}

/*
 * A task's value in a task storage map, which is created if absent; NULL: no memory. The kernel
 * keeps one or two free objects of each size on each CPU and refills them in an interrupt. If that
 * is late, an allocation fails, and the next try succeeds.
 */
#define TASK_STORAGE_TRIES 4
#define task_storage_make(map, task)                                                  \
	({                                                                            \
		void *_made = NULL;                                                   \
		for (int _try = 0; _try < TASK_STORAGE_TRIES && !_made; _try++)       \
			_made = bpf_task_storage_get(map, task, NULL,                 \
						     BPF_LOCAL_STORAGE_GET_F_CREATE); \
		_made;                                                                \
	})

/* Next free indices. User space assigns the first process indices before the recording starts. */
extern volatile __u32 perfx_next_process;
/* An index that adopt_process() reserved and did not use, for the next adoption; 0: none. */
extern volatile __u32 perfx_spare_process;
extern volatile __u32 perfx_next_context;
extern volatile __u32 perfx_gates_turned; /* PERFX_GATE_OPENS */
extern volatile __u32 perfx_next_function;

/* Wake the reader when a ring holds this many bytes; it also reads all rings periodically. */
extern const volatile __u32 perfx_wake_bytes;
/* Return probes belong to session links. */
extern const volatile bool perfx_sessions;
/* Each link is a perf event of many probes, whose cookies are arguments: see cookie_of(). */
extern const volatile bool perfx_cookie_arguments;
/* Number of entries of perfx_contexts. */
extern const volatile __u32 perfx_contexts_max;
extern const volatile __u32 perfx_probes_max;

/* Number of rings of a kind of records, a power of two, minus one. */
extern const volatile __u32 perfx_rings_mask;

/* A producer locks a ring to reserve space: threads on many CPUs would contend for a single ring.
 * All records of a thread go through one ring, which keeps their order; the reader merges rings by
 * time. */
struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* user space: --ring-size */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PERFX_MAX_RINGS);
	__type(key, __u32);
	__array(values, struct ring);
} perfx_spans __weak SEC(".maps");

/* The ring of a thread. Threads of a pool have consecutive ids, so they spread over all rings. */
static __always_inline void *ring_of(void *rings, __u32 tid)
{
	__u32 index = tid & perfx_rings_mask & (PERFX_MAX_RINGS - 1);

	return bpf_map_lookup_elem(rings, &index);
}

/* Process events: a ring that spans cannot fill. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, PERFX_CONTROL_RING_BYTES);
} perfx_control __weak SEC(".maps");

/* The traced processes. A BPF program adds a child at fork, so its first instruction is traced. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PERFX_MAX_PROCESSES);
	__type(key, __u32); /* tgid */
	__type(value, struct perfx_traced_process);
} perfx_traced_tgids __weak SEC(".maps");

/* Records with HAS_SUMS. */
#define SUM_MAP(name, entries)                        \
	struct {                                      \
		__uint(type, BPF_MAP_TYPE_HASH);      \
		__uint(map_flags, BPF_F_NO_PREALLOC); \
		__uint(max_entries, (entries));       \
		__type(key, struct perfx_sum_key);    \
		__type(value, struct perfx_##name);   \
	} perfx_sum_##name SEC(".maps")

static __always_inline __u32 current_tgid(void)
{
	return bpf_get_current_pid_tgid() >> 32;
}

static __always_inline struct perfx_traced_process *traced_process_of(__u32 tgid)
{
	return bpf_map_lookup_elem(&perfx_traced_tgids, &tgid);
}

/* The file of a thread's descriptor; NULL: none is open. A thread that ends has no descriptors:
 * reads then give 0. */
static __always_inline struct file *file_of(struct task_struct *task, __s32 fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file *file = NULL;

	if (fd < 0 || (__u32)fd >= BPF_CORE_READ(table, max_fds) ||
	    bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(table, fd) + fd))
		return NULL;
	return file;
}

/* The process of a thread; NULL if it is not traced or has ended. */
static __always_inline struct perfx_traced_process *traced_of(struct task_struct *task)
{
	struct perfx_traced_process *traced = traced_process_of(task->tgid);

	return traced && !traced->dead ? traced : NULL;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* user space makes it as large as it needs */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct perfx_probe);
} perfx_probes __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PERFX_MAX_ANNOTATIONS);
	__type(key, __u32);
	__type(value, struct perfx_annotation);
} perfx_annotations __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PERFX_MAX_GATES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} perfx_gates __weak SEC(".maps");

/* Hits by threads of traced processes: counts of all probes on CPU 0, then on CPU 1, and so on. A
 * per-CPU array would take 10 ms to create, and a system call per probe to read. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* user space: perfx_probes_max for each CPU */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} perfx_hits __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PERFX_COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} perfx_counters __weak SEC(".maps");

static __always_inline void counter_add(enum perfx_counter which, __u64 n)
{
	__u32 key = which;
	__u64 *count = bpf_map_lookup_elem(&perfx_counters, &key);

	if (count)
		__sync_fetch_and_add(count, n);
}

/* A word of the current process; 0 if it cannot be read. */
static __always_inline __u64 read_word(__u64 address)
{
	__u64 value = 0;

	if (bpf_probe_read_user(&value, sizeof(value), (void *)address))
		counter_add(PERFX_COUNTER_READ_FAULTS, 1);
	return value;
}

/* The sums of a key in a SUM_MAP, added if the key is new. `none`: a record with the key, all sums
 * 0. NULL: the map is full. */
static __always_inline void *sums_get(void *map, const void *none)
{
	struct perfx_sum_key key = ((const struct perfx_sums *)none)->key;
	void *sums = bpf_map_lookup_elem(map, &key);

	if (!sums) {
		bpf_map_update_elem(map, &key, none, BPF_NOEXIST);
		sums = bpf_map_lookup_elem(map, &key);
	}
	if (!sums)
		counter_add(PERFX_COUNTER_MAP_FULL, 1);
	return sums;
}

/* FNV-1a with a wider prime. */
#define HASH_BASIS 0xcbf29ce484222325ULL

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x100000001b3ULL;
	return hash ^ hash >> 29;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PERFX_ID_KINDS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct perfx_free_ids);
} perfx_free_ids __weak SEC(".maps");

/* A try fails only if another CPU's succeeds. */
#define FREE_TRIES 16

/* The next returned index of a kind (enum perfx_id_kind), if it is greater than `above`; otherwise
 * 0. A global function: the verifier walks it once. */
__weak __noinline __u32 reuse_id(__u32 kind, __u32 above)
{
	struct perfx_free_ids *ids = bpf_map_lookup_elem(&perfx_free_ids, &kind);
	__u32 taken, id;

	if (!ids)
		return 0;
	for (int i = 0; i < FREE_TRIES; i++) {
		taken = *(volatile __u32 *)&ids->taken;
		if (taken == *(volatile __u32 *)&ids->given)
			return 0;
		id = ids->ids[taken & (PERFX_FREE_PLACES - 1)];
		if (id <= above)
			return 0;
		if (__sync_val_compare_and_swap(&ids->taken, taken, taken + 1) == taken)
			return id;
	}
	return 0;
}

/* An index for a new process; 0: no index is left, so the process is not traced. */
static __always_inline __u32 new_process(void)
{
	__u32 process = reuse_id(PERFX_ID_PROCESS, 0);

	if (process)
		return process;
	if (perfx_next_process <= PERFX_MAX_PROCESS_INDICES)
		return __sync_fetch_and_add(&perfx_next_process, 1);
	counter_add(PERFX_COUNTER_PROCESSES_FULL, 1);
	return 0;
}

#define EEXIST 17 /* errno.h */

/* A PROCESS record with its strings: comm and an empty command line. */
struct adopted {
	struct perfx_process process;
	char comm[16];
	char cmdline[8];
};

static __always_inline void emit_adopted(struct task_struct *task, __u32 process)
{
	struct adopted *record = bpf_ringbuf_reserve(&perfx_control, sizeof(*record), 0);

	if (!record) {
		counter_add(PERFX_COUNTER_CONTROL_DROPS, 1);
		return;
	}
	__builtin_memset(record, 0, sizeof(*record));
	record->process.hdr.size = sizeof(*record);
	record->process.hdr.kind = PERFX_KIND_PROCESS;
	record->process.hdr.fixed = sizeof(record->process);
	record->process.time_ns = bpf_ktime_get_ns();
	record->process.start_boot_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	record->process.process = process;
	record->process.pid = task->tgid;
	record->process.ppid = BPF_CORE_READ(task, group_leader, real_parent, tgid);
	BPF_CORE_READ_STR_INTO(&record->comm, task, group_leader, comm);
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

/*
 * -a: starts to trace the current process, which has hit a probe with PERFX_PROBE_F_ADOPTS. Done
 * here because the process may end before user space reads the event of its mapping. 0: no room.
 */
__weak __noinline int adopt_process(void)
{
	struct perfx_traced_process traced = {.tensor_layouts = PERFX_TENSOR_LAYOUTS_ALL};
	__u32 tgid = current_tgid();
	long err;

	traced.process = __sync_lock_test_and_set(&perfx_spare_process, 0);
	if (!traced.process)
		traced.process = new_process();
	if (!traced.process)
		return 0;
	traced.memory_process = traced.born = traced.process;
	err = bpf_map_update_elem(&perfx_traced_tgids, &tgid, &traced, BPF_NOEXIST);
	if (!err) {
		emit_adopted(bpf_get_current_task_btf(), traced.process);
		return 1;
	}
	perfx_spare_process = traced.process;
	if (err != -EEXIST)
		counter_add(PERFX_COUNTER_PROCESSES_FULL, 1);
	return err == -EEXIST;
}

/* The current thread's process; NULL if it is not traced. entry: the entry probe that was hit,
 * which may start to trace the process; NULL at other sites. */
static __always_inline struct perfx_traced_process *process_at(const struct perfx_probe *entry)
{
	__u32 tgid = current_tgid();
	struct perfx_traced_process *traced = traced_process_of(tgid);

	if (!traced && entry && (entry->flags & PERFX_PROBE_F_ADOPTS) && adopt_process())
		traced = traced_process_of(tgid);
	return traced && !traced->dead ? traced : NULL;
}

static __always_inline struct perfx_probe *probe_of(__u32 index)
{
	return bpf_map_lookup_elem(&perfx_probes, &index);
}

/* The cookie of the probe that was hit. A perf event of many probes has one attach cookie, so each
 * of its probes has its own cookie as a constant first argument (user/attach/perf_links.c). The
 * kernel stores the probe's address in the thread's utask (uprobe_dispatcher(),
 * kernel/trace/trace_uprobe.c). */
static __always_inline __u64 cookie_of(void *ctx)
{
	struct uprobe_dispatch_data *data;
	__u64 cookie = 0;

	if (!perfx_cookie_arguments)
		return bpf_get_attach_cookie(ctx);
	data = (void *)BPF_CORE_READ(bpf_get_current_task_btf(), utask, vaddr);
	BPF_CORE_READ_INTO(&cookie, data, tu, tp.args[0].code, immediate);
	return cookie;
}

/* The value of perfx_gates_turned that the program of a new link read, for the program of the old
 * link at the same hit. */
struct gate_turn {
	__u64 thread, ip;
	__u64 turned;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gate_turn);
} perfx_gate_turns __weak SEC(".maps");

/* Returns whether the gates have turned for this hit. The kernel calls the newest link first, whose
 * gate opens. The old link reuses the value that the new one read, so that a hit counts once even
 * if the gates turn during it. */
static __noinline bool gates_turned(__u64 ip, bool opens)
{
	__u32 key = 0, turned = perfx_gates_turned;
	__u64 thread = bpf_get_current_pid_tgid();
	struct gate_turn *turn = bpf_map_lookup_elem(&perfx_gate_turns, &key);

	if (!turn)
		return turned;
	if (opens)
		*turn = (struct gate_turn){thread, ip, turned};
	else if (turn->thread == thread && turn->ip == ip)
		turned = turn->turned;
	return turned;
}

/* Returns whether all probes that belong together are attached; *index is the index of this one. */
static __always_inline bool gate_open(void *ctx, __u32 *index)
{
	__u64 cookie = cookie_of(ctx);
	__u32 gate = cookie >> PERFX_COOKIE_GATE_SHIFT, place = gate & (PERFX_MAX_GATES - 1);
	volatile __u64 *at = bpf_map_lookup_elem(&perfx_gates, &place);
	__u64 number = at ? *at : ~0ull;

	*index = (__u32)cookie;
	if ((__u32)number != gate)
		return false;
	number >>= 32;
	return !number ||
	       (number == PERFX_GATE_OPENS) ==
		       gates_turned(PT_REGS_IP((struct pt_regs *)ctx), number == PERFX_GATE_OPENS);
}

static __always_inline void count_hit(__u32 index)
{
	__u32 place = bpf_get_smp_processor_id() * perfx_probes_max + index;
	__u64 *hits = bpf_map_lookup_elem(&perfx_hits, &place);

	if (hits)
		__sync_fetch_and_add(hits, 1);
}

/* Decides at every 32nd record of a thread whether to wake the reader. */
static __always_inline __u64 wake_flags(void *ring, __u32 *records)
{
	if (++*records & 31)
		return BPF_RB_NO_WAKEUP;
	if (bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) < perfx_wake_bytes)
		return BPF_RB_NO_WAKEUP;
	return BPF_RB_FORCE_WAKEUP;
}

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
/* Exit sites exist on x86-64 only so far; elsewhere return probes time functions. */
static __always_inline bool condition_holds(struct pt_regs *ctx, __u8 condition)
{
	return true;
}
#endif

/*
 * Recording windows of --wait: each lasts from perfx_trace_start to perfx_trace_stop. The tracer
 * records while at least one traced process is between the two. The program itself switches
 * recording on, so it begins with the instruction after the marker.
 *
 * A thread that hits a probe in a later window starts with no open calls, as after attaching:
 * whether its calls ended between the windows is unknown.
 */

/* One word, so that both halves change at once. Low half: processes between start and stop. High
 * half: the window's number; without --wait, user space increments it to make threads start anew
 * (tracer__observe). */
extern volatile __u64 perfx_recording_windows;
#define RECORDING_WINDOW_NUMBER(windows) ((__u32)((windows) >> 32))
#define RECORDING_WINDOW_OPEN(windows)	 ((__u32)(windows))

/* Opening time of the last window, and total length of all closed ones. */
extern volatile __u64 perfx_window_opened_ns, perfx_windows_ns;

/* A try fails only if another thread's succeeds: fewer threads than this collide. */
#define WINDOW_TRIES 64

/* Number of the open window, or of the last one. */
static __always_inline __u32 current_recording_window(void)
{
	return RECORDING_WINDOW_NUMBER(perfx_recording_windows);
}

static __always_inline bool is_wanted(void)
{
	return !perfx_waiting || RECORDING_WINDOW_OPEN(perfx_recording_windows);
}

static __always_inline bool is_recording(void)
{
	return perfx_tracing && is_wanted();
}

static __always_inline void emit_recording_window(__u32 process, __u64 time_ns, __u32 flags)
{
	struct perfx_recording_window *record =
		bpf_ringbuf_reserve(&perfx_control, sizeof(*record), 0);

	if (!record) {
		counter_add(PERFX_COUNTER_CONTROL_DROPS, 1);
		return;
	}
	record->hdr.size = sizeof(*record);
	record->hdr.kind = PERFX_KIND_RECORDING_WINDOW;
	record->hdr.fixed = sizeof(*record);
	record->time_ns = time_ns;
	record->process = process;
	record->pid = current_tgid();
	record->flags = flags;
	record->pad = 0;
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

/* Adds n to the number of recording processes; returns 0 if another thread changed it meanwhile.
 * The record of a window's end may follow that of the next window, but its time does not: it is
 * read before the exchange. A global function: the verifier walks it once, not in each iteration
 * below. */
__weak __noinline int recording_windows_try(__u32 process, __s32 n)
{
	__u64 before = perfx_recording_windows, time_ns = bpf_ktime_get_ns(), after;
	__u32 open = RECORDING_WINDOW_OPEN(before) + n;

	after = (__u64)(RECORDING_WINDOW_NUMBER(before) + (n > 0 && open == 1)) << 32 | open;
	if (__sync_val_compare_and_swap(&perfx_recording_windows, before, after) != before)
		return 0;
	if (n > 0 && open == 1) {
		perfx_window_opened_ns = time_ns;
		emit_recording_window(process, time_ns, PERFX_RECORDING_WINDOW_OPENS);
	} else if (n < 0 && open == 0) {
		perfx_windows_ns += time_ns - perfx_window_opened_ns;
		emit_recording_window(process, time_ns, 0);
	}
	return 1;
}

__weak __noinline int recording_windows_add(__u32 process, __s32 n)
{
	for (int i = 0; i < WINDOW_TRIES; i++)
		if (recording_windows_try(process, n))
			return 0;
	counter_add(PERFX_COUNTER_CONTROL_DROPS, 1);
	return 0;
}

/* The mark is set after the process is counted, and cleared before it is uncounted, because a
 * thread that finds the mark records. */
static __always_inline void recording_window_open(struct perfx_traced_process *traced)
{
	if (traced->recording)
		return;
	recording_windows_add(traced->process, 1);
	if (__sync_lock_test_and_set(&traced->recording, 1))
		recording_windows_add(traced->process, -1);
}

/* At perfx_trace_stop, at the process's end and at exec. */
static __always_inline void recording_window_close(struct perfx_traced_process *traced)
{
	if (traced->recording && __sync_lock_test_and_set(&traced->recording, 0))
		recording_windows_add(traced->process, -1);
}

/* The integer arguments of a hit, numbered from 1 as in cost programs. */
static __always_inline void read_arguments(__u64 arguments[8], struct pt_regs *ctx)
{
	arguments[1] = PT_REGS_PARM1(ctx);
	arguments[2] = PT_REGS_PARM2(ctx);
	arguments[3] = PT_REGS_PARM3(ctx);
	arguments[4] = PT_REGS_PARM4(ctx);
	arguments[5] = PT_REGS_PARM5(ctx);
	arguments[6] = PT_REGS_PARM6(ctx);
	arguments[7] = PT_REGS_RC(ctx); /* a first instruction may have moved one there */
}

#endif
