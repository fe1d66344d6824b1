/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What all BPF programs share: configuration, maps, gates, and the conditions under which a probed
 * jump is taken or a waiting tracer records. The maps are weak, so that objects linked together
 * (bpftool gen object) have one of each.
 *
 * Programs of uprobe_multi links are preemptible: state of a thread lives in task storage, never in
 * per-CPU scratch, per-CPU counters are added to atomically, and the stack is the thread's
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

/* On while the capture lasts: probes are attached before and detached after. */
extern volatile __u32 perfx_tracing;
/* --wait: the program starts and stops the recording (see current_recording_window). */
extern volatile __u32 perfx_waiting;

/* Always false, which the verifier knows and the compiler does not. */
extern const volatile bool perfx_never;

/*
 * Begins each program of a uprobe. Since Linux 6.13 a program whose frame is 64 bytes or more has a
 * private stack, one for each CPU, because programs like it are neither preempted nor do they
 * sleep. Those of uprobes are and do: a hit of the next thread on that CPU overwrites what the
 * first one kept there, pointers included, and the kernel then writes where they lead (seen
 * on 6.18). There is no private stack where a program has a tail call (check_max_stack_depth() in
 * kernel/bpf/verifier.c), not even where that is never reached and is removed.
 */
static __always_inline void stay_on_thread_stack(void *ctx)
{
	if (perfx_never)
		bpf_tail_call(ctx, NULL, 0);
}

/* A step of repeat(); other than 0: it was the last. */
typedef long repeat_step(__u32 i, void *ctx);

enum bpf_func_id___loop { BPF_FUNC_loop___loop = 181 };

/*
 * At most `count` steps, which share *ctx, a structure on the stack. The verifier follows a step of
 * bpf_loop (Linux 5.17) once, one of a loop each time around, and all programs are verified
 * whenever recording starts. Where one is called in a loop, the kernel makes it a loop again.
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
 * What a map keeps of a task, made if there is none; NULL: no memory. The kernel has one or two of
 * such a size ready on each CPU, and an allocation asks for the next one to be made, in an
 * interrupt that may come too late for the allocation after it: that finds none, but its next try
 * does.
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

/* Next free indices. User space sets the first process indices before it starts. */
extern volatile __u32 perfx_next_process;
/* An index that adopt_process() took and did not use, for the next adoption; 0: none. */
extern volatile __u32 perfx_spare_process;
extern volatile __u32 perfx_next_context;
extern volatile __u32 perfx_gates_turned; /* PERFX_GATE_OPENS */
extern volatile __u32 perfx_next_function;

/* Wake the reader when this much is waiting in a ring; it also drains by the clock. */
extern const volatile __u32 perfx_wake_bytes;
/* Return probes are made by session links. */
extern const volatile bool perfx_sessions;
/* Each link is a perf event of many probes, which have their cookies as arguments: cookie_of(). */
extern const volatile bool perfx_cookie_arguments;
/* Number of entries of perfx_contexts. */
extern const volatile __u32 perfx_contexts_max;
extern const volatile __u32 perfx_probes_max;

/* How many rings a kind of records has, less one: a power of two, less one. */
extern const volatile __u32 perfx_rings_mask;

/* A producer holds the lock of a ring while it reserves: with one ring for all, threads on many
 * CPUs wait for each other. A thread's records all go by the same one, so they keep their order;
 * the reader brings those of different threads together by time. */
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

/* The ring of a thread. Threads of a pool are numbered one after the other, and so share as few as
 * can be. */
static __always_inline void *ring_of(void *rings, __u32 tid)
{
	__u32 index = tid & perfx_rings_mask & (PERFX_MAX_RINGS - 1);

	return bpf_map_lookup_elem(rings, &index);
}

/* Process events have a ring of their own, which spans cannot fill. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, PERFX_CONTROL_RING_BYTES);
} perfx_control __weak SEC(".maps");

/* The traced processes. Kept in the kernel at fork, so that children are exact from their
 * first instruction. */
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

/* The process of a thread, if it is traced and lives. */
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
	__uint(max_entries, PERFX_MAX_GATES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} perfx_gates __weak SEC(".maps");

/* Hits by threads of traced processes: of all probes on the first CPU, then on the next. An array
 * for each CPU would take 10 ms to make, and a system call for each probe to read. */
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

/* The sums of a key in a SUM_MAP, made if it is new. `none` is a record with the key and sums of 0.
 * NULL: no room. */
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

/* Each failure is another CPU's success. */
#define FREE_TRIES 16

/* The next index of a kind (enum perfx_id_kind) that was given back, if it is above another; 0: it
 * is not, or there is none. Not static: the verifier walks it once. */
__weak __noinline __u32 take_free(__u32 kind, __u32 above)
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

/* An index for a new process; 0: none is left, so the process cannot be traced. */
static __always_inline __u32 new_process(void)
{
	__u32 process = take_free(PERFX_ID_PROCESS, 0);

	if (process)
		return process;
	if (perfx_next_process <= PERFX_MAX_PROCESS_INDICES)
		return __sync_fetch_and_add(&perfx_next_process, 1);
	counter_add(PERFX_COUNTER_PROCESSES_FULL, 1);
	return 0;
}

#define EEXIST 17 /* errno.h */

/* A PROCESS record and its strings: comm and an empty command line. */
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
 * -a: starts tracing the current process, which has hit a probe with PERFX_PROBE_F_ADOPTS. A BPF
 * program does this because the process may end before user space reads the event of its mapping.
 * 0: there is no room for another process.
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

/* The current thread's process if it is traced; NULL: it is not. entry: the entry probe that was
 * hit, which may start tracing the process; NULL at other sites. */
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

/* The cookie of the probe that was hit. A perf event of many probes has a single attach cookie, so
 * each of these probes has its own cookie as its first argument, a constant
 * (user/attach/perf_links.c). The kernel leaves the probe's address in the thread's utask at entry
 * and return probes (uprobe_dispatcher(), kernel/trace/trace_uprobe.c). */
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

/* The program of a link whose gate opens notes here the value of perfx_gates_turned that it read,
 * for the program of the old link at the same hit. */
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

/* Have the gates turned for this hit? The kernel calls the newest link first, whose gate opens. The
 * old link uses the value that the new one read, so that a hit during which the gates turn counts
 * once. */
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

/* Is all that belongs together attached? Then *index is the probe's. */
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

/* Reader's wake-up: asked for at every 32nd record of a thread. */
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
/* Sites are chosen for x86-64 only so far; elsewhere functions are timed by return probe. */
static __always_inline bool condition_holds(struct pt_regs *ctx, __u8 condition)
{
	return true;
}
#endif

/*
 * What a waiting tracer records: from perfx_trace_start to perfx_trace_stop, and again. It records
 * while at least one traced process has said start. The tracer turns nothing on or off itself, so
 * recording begins with the instruction after the marker.
 *
 * Calls that were open when a window closed are not known to have gone on: a thread that is met in
 * a later window begins anew, as if it had just been attached to.
 */

/* Whose start and stop count: one word, so that there is no moment between the first open window
 * and its number. Low half: processes that have said start and not stop, high half: the window's
 * number, also without --wait: a thread begins anew where user space makes it larger
 * (tracer__observe). */
extern volatile __u64 perfx_recording_windows;
#define RECORDING_WINDOW_NUMBER(windows) ((__u32)((windows) >> 32))
#define RECORDING_WINDOW_OPEN(windows)	 ((__u32)(windows))

/* When the last window opened, and how long all were that have closed. */
extern volatile __u64 perfx_window_opened_ns, perfx_windows_ns;

/* Each failure is another thread's success: there are not so many at once. */
#define WINDOW_TRIES 64

/* Number of the window that is open, or was last. */
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

/* One process more or less, unless another thread changes the number meanwhile. Returns whether it
 * did it. The record of a window that ends may come after that of the next one, but not its time,
 * which is taken before the exchange. Not static: the verifier walks it once, and not in each turn
 * of the loop below. */
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

/* The process is counted before it is marked, and unmarked before it is uncounted: a thread that
 * finds the mark records. */
static __always_inline void recording_window_open(struct perfx_traced_process *traced)
{
	if (traced->recording)
		return;
	recording_windows_add(traced->process, 1);
	if (__sync_lock_test_and_set(&traced->recording, 1))
		recording_windows_add(traced->process, -1);
}

/* Also when the process ends, or becomes another program. */
static __always_inline void recording_window_close(struct perfx_traced_process *traced)
{
	if (traced->recording && __sync_lock_test_and_set(&traced->recording, 0))
		recording_windows_add(traced->process, -1);
}

/* The integer arguments of a hit, from 1, as programs number them. */
static __always_inline void read_arguments(__u64 arguments[8], struct pt_regs *ctx)
{
	arguments[1] = PT_REGS_PARM1(ctx);
	arguments[2] = PT_REGS_PARM2(ctx);
	arguments[3] = PT_REGS_PARM3(ctx);
	arguments[4] = PT_REGS_PARM4(ctx);
	arguments[5] = PT_REGS_PARM5(ctx);
	arguments[6] = PT_REGS_PARM6(ctx);
	arguments[7] = PT_REGS_RC(ctx); /* where a first instruction may have put one */
}

#endif
