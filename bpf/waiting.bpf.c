// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Time off the CPU: exact sums of the waits of traced processes' threads, by reason.
 *
 * A thread that leaves the CPU shows the reason: it is still runnable, or it sleeps in a system
 * call, whose number and arguments are in its saved registers, or in a page fault. The wait ends
 * when another thread wakes it; until it gets a CPU it is runnable, which is another kind of wait.
 * So four tracepoints of the scheduler suffice, and no records are written.
 *
 * They run for every switch on the machine, under the lock of a run queue. So nothing here locks:
 * no hash map is updated, no task storage is created. A thread has an entry in perfx_waiters by its
 * tid, even without a probe hit, and equal waits share an entry in perfx_wait_sums. User space maps
 * both and reads the sums while they grow.
 *
 * A thread that waits for a CPU waits for the processes that use it meanwhile. Each CPU keeps its
 * last turns: which process ran, and since when. When a traced thread gets the CPU, its wait is
 * divided among the turns during the wait. A rest, because the CPU was idle (the thread came from
 * another queue) or the turns are not kept any more, is charged to no process.
 *
 * Two traced threads may share a CPU only because another program uses the second CPU: without it
 * neither would wait. And of two threads that wait for a CPU which another program uses, one would
 * wait for the other without it. So each CPU of another program is the reason why one traced thread
 * waits, in any queue. While W threads wait and other programs use P of the CPUs on which a thread
 * may run, P of W waits are charged to these programs; the rest is the traced processes' own demand
 * beyond the number of CPUs.
 */
#include "stack.bpf.h"
#include "thread.bpf.h"
#include "wait.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* user space: PERFX_MAX_WAIT_SUMS of each level */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct perfx_wait_sum);
} perfx_wait_sums SEC(".maps");

/* Turns that a CPU keeps. A power of two. */
#define TURNS_MAX 64

/* Consecutive threads of one process are one turn. */
struct turn {
	__u64 from_ns;
	__u32 tgid; /* 0: idle */
	__u32 traced;
	char comm[PERFX_COMM_BYTES];
};

struct turns {
	__u64 count; /* of all turns so far; the newest is list[(count - 1) % TURNS_MAX] */
	struct turn list[TURNS_MAX];
};

/* By CPU; written only on that CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* user space: perfx_cpus_count */
	__type(key, __u32);
	__type(value, struct turns);
} perfx_turns SEC(".maps");

const volatile __u32 perfx_cpus_count = 1;

/* Traced threads that wait for a CPU now, and waits so far; in a separate cache line, because all
 * CPUs change them. */
struct {
	volatile __s64 count;
	volatile __u64 waits_count;
	__u8 pad[48];
} perfx_runnable __attribute__((aligned(64))) = {};

/* Start of the recording: waits that began earlier count from then. */
volatile __u64 perfx_waiting_from_ns = 0;

/* --timeline: SLICE records are wanted; and not any more, because they cost too much. */
const volatile bool perfx_timeline = false;
volatile bool perfx_timeline_stopped = false;
/* Since then every switch is seen; 0: not yet. */
volatile __u64 perfx_timeline_from_ns = 0;
/* When the recording ended; 0: it has not. */
volatile __u64 perfx_timeline_end_ns = 0;

/* Other descriptors of the same file are the same object. */
static __always_inline __u64 key_of(const struct perfx_wait *wait)
{
	__u64 hash = mix(mix(0, wait->object), (__u64)wait->process << 32 | wait->tid);

	hash = mix(hash, (__u64)wait->holder_tid << 32 | wait->reason << 16 | wait->syscall);
	return hash > PERFX_WAIT_RETIRED ? hash : PERFX_WAIT_RETIRED + 1;
}

static __always_inline struct perfx_wait_sum *sum_of(const struct perfx_wait *wait, __u32 level)
{
	__u64 key = key_of(wait), before;

	for (__u32 i = 0; i < PERFX_WAIT_TRIES; i++) {
		__u32 place = ((__u32)key + i) & (PERFX_MAX_WAIT_SUMS - 1);
		struct perfx_wait_sum *sum;

		place += level * PERFX_MAX_WAIT_SUMS;
		sum = bpf_map_lookup_elem(&perfx_wait_sums, &place);
		if (!sum)
			return NULL;
		if (sum->key == key)
			return sum;
		if (sum->key)
			continue;
		before = __sync_val_compare_and_swap(&sum->key, 0, key);
		if (before && before != key)
			continue;
		sum->wait = *wait;
		counter_add(PERFX_COUNTER_WAITS, 1);
		return sum;
	}
	return NULL;
}

static __always_inline struct perfx_wait_sum *find_sum(const struct perfx_wait *wait)
{
	struct perfx_wait_sum *sum = sum_of(wait, 0);
	struct perfx_wait less;

	if (sum)
		return sum;
	less = *wait;
	less.object = less.inode = less.holder_tid = less.device = less.mode = 0;
	less.fd = -1;
	sum = sum_of(&less, 1);
	if (sum)
		return sum;
	less.tid = 0;
	return sum_of(&less, 2);
}

/* A clock that stands still while nothing is recorded (--wait): a wait may last over many windows.
 * The time may have been read before the window opened. */
static __always_inline __u64 recorded_time(__u64 now)
{
	__u64 opened_ns = perfx_window_opened_ns;

	return perfx_windows_ns + (is_wanted() && now > opened_ns ? now - opened_ns : 0);
}

static __always_inline void vote(struct perfx_wait_sum *sum, __u32 tid)
{
	if (sum->waker_tid == tid) {
		sum->waker_votes++;
	} else if (sum->waker_votes) {
		sum->waker_votes--;
	} else {
		sum->waker_tid = tid;
		sum->waker_votes = 1;
	}
}

/* longest_ns: of the whole wait, which ends with this part; 0: the wait has other parts. A global
 * function, which the verifier checks once, like others below. */
__noinline int add_part(const struct perfx_waiter *waiter, __u64 ns, __u64 longest_ns)
{
	struct perfx_wait_sum *sum = waiter ? find_sum(&waiter->wait) : NULL;

	if (!sum) {
		counter_add(PERFX_COUNTER_MAP_FULL, 1);
		return 0;
	}
	__sync_fetch_and_add(&sum->blocked_ns, ns);
	if (!longest_ns)
		return 0;
	__sync_fetch_and_add(&sum->count, 1);
	if (longest_ns > sum->max_ns)
		sum->max_ns = longest_ns;
	if (waiter->waker_tid)
		vote(sum, waiter->waker_tid);
	return 0;
}

static __always_inline void add_wait(const struct perfx_waiter *waiter, __u64 since_ns, __u64 now)
{
	__u64 until_ns = recorded_time(now) + 1;

	if (until_ns > since_ns)
		add_part(waiter, until_ns - since_ns, until_ns - waiter->began_ns);
}

static __always_inline bool records_timeline(void)
{
	return perfx_timeline && !perfx_timeline_stopped && is_wanted();
}

#define NR_FUTEX_WAKE	 454
#define NR_FUTEX_REQUEUE 456

/* Does this thread wake the other one, and not an interrupt that it has met? A thread that runs its
 * own code wakes nobody, and a lock is released by few system calls. */
static __always_inline bool is_waker(const struct perfx_slice *sleeper, struct task_struct *task)
{
	bool at_lock = sleeper->reason == PERFX_WAIT_FUTEX || sleeper->reason == PERFX_WAIT_GIL;
	struct call call;

	if (!task->pid || sleeper->reason == PERFX_WAIT_SLEEP)
		return false;
	if (task->flags & PF_KTHREAD)
		return !at_lock;
	read_call(&call, task);
	if (at_lock)
		return call.number == __NR_futex || call.number == NR_FUTEX_WAKE ||
		       call.number == NR_FUTEX_REQUEUE || call.number == __NR_exit ||
		       call.number == __NR_exit_group;
	return call.number >= 0 && sleeper->reason != PERFX_WAIT_DISK &&
	       sleeper->reason != PERFX_WAIT_PAGE_FAULT;
}

/* The slice is over: at its thread's next turn on a CPU, or for good. */
static __always_inline void emit_slice(struct perfx_waiter *waiter, __u64 now, __u8 flags)
{
	struct perfx_slice *slice = &waiter->slice;
	void *ring = ring_of(&perfx_memory, waiter->tid);

	slice->hdr.size = slice->hdr.fixed = sizeof(*slice);
	slice->hdr.kind = PERFX_KIND_SLICE;
	slice->time_ns = now;
	slice->process = waiter->wait.process;
	slice->tid = waiter->tid;
	slice->flags |= flags;
	slice->on_ns = slice->on_ns ?: slice->left_ns;
	slice->woken_ns = slice->woken_ns ?: now;
	if (!ring || bpf_ringbuf_output(ring, slice, sizeof(*slice), BPF_RB_NO_WAKEUP))
		counter_add(PERFX_COUNTER_SLICE_DROPS, 1);
}

/* The thread gets this CPU. */
static __always_inline void slice_begin(struct perfx_waiter *waiter, __u64 now)
{
	struct perfx_slice *slice = &waiter->slice;

	if (slice->left_ns && records_timeline())
		emit_slice(waiter, now, 0);
	slice->on_ns = now;
	slice->left_ns = 0;
	slice->cpu = bpf_get_smp_processor_id();
}

/* It leaves the CPU, for the reason in waiter->wait. */
static __always_inline void slice_leaves(struct perfx_waiter *waiter, __u64 now)
{
	const struct perfx_wait *wait = &waiter->wait;
	struct perfx_slice *slice = &waiter->slice;

	slice->left_ns = now;
	slice->woken_ns = wait->reason == PERFX_WAIT_RUNNABLE ? now : 0;
	slice->reason = wait->reason;
	slice->syscall = wait->syscall;
	slice->object = wait->object;
	slice->waker_process = slice->waker_tid = 0;
	slice->flags = 0;
	__builtin_memset(slice->waker_comm, 0, sizeof(slice->waker_comm));
}

static __always_inline void note_waker(struct perfx_slice *slice, struct task_struct *waker)
{
	struct perfx_traced_process *traced = traced_of(waker);

	slice->flags = 0;
	if (!is_waker(slice, waker)) {
		slice->flags = PERFX_SLICE_INTERRUPT;
		return;
	}
	slice->waker_tid = waker->pid;
	slice->waker_process = traced ? traced->process : 0;
	bpf_get_current_comm(slice->waker_comm, sizeof(slice->waker_comm));
}

static __always_inline struct turns *turns_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&perfx_turns, &cpu);
}

static __always_inline struct turn *turn_at(struct turns *turns, __u64 index)
{
	return &turns->list[index & (TURNS_MAX - 1)];
}

/* The count is incremented last, because other CPUs read the newest turn. */
static __always_inline void begin_turn(struct turns *turns, struct task_struct *task, bool traced,
				       __u64 now)
{
	struct turn *turn = turn_at(turns, turns->count - 1);

	if (turns->count && turn->tgid == (__u32)task->tgid) {
		turn->traced |= traced; /* it may have begun with a thread that exits */
		return;
	}
	turn = turn_at(turns, turns->count);
	turn->from_ns = now;
	turn->tgid = (__u32)task->tgid;
	turn->traced = traced;
	__builtin_memset(turn->comm, 0, sizeof(turn->comm));
	if (turn->tgid)
		BPF_CORE_READ_INTO(&turn->comm, task, group_leader, comm);
	__sync_fetch_and_add(&turns->count, 1);
}

/* The search for another program visits this many CPUs after this one: neighbours share caches, so
 * the scheduler moves threads between them first. */
#define NEIGHBOURS_MAX 256

/* cpus: the address of the thread's cpumask. */
static __always_inline bool may_run_on(__u64 cpus, __u32 cpu)
{
	__u64 bits = 0;

	bpf_probe_read_kernel(&bits, sizeof(bits), (void *)(cpus + cpu / 64 * sizeof(bits)));
	return bits >> cpu % 64 & 1;
}

struct turn_search {
	struct turns *turns;
	__u64 at_ns, number;
};

static long turn_step(__u32 i, void *ctx)
{
	struct turn_search *search = ctx;
	__u64 count = search->turns->count;

	if (i >= count)
		return 1;
	if (turn_at(search->turns, count - 1 - i)->from_ns > search->at_ns)
		return 0;
	search->number = count - i;
	return 1;
}

/* Number, from 1, of a CPU's turn at a time; 0: not kept any more. */
__noinline __u64 number_of_turn(__u32 cpu, __u64 at_ns)
{
	struct turn_search search = {.turns = turns_of(cpu), .at_ns = at_ns};

	if (search.turns)
		repeat(TURNS_MAX, turn_step, &search);
	return search.number;
}

static __always_inline const struct turn *turn_then(__u32 cpu, __u64 at_ns)
{
	struct turns *turns = turns_of(cpu);
	__u64 number = turns ? number_of_turn(cpu, at_ns) : 0;

	return number ? turn_at(turns, number - 1) : NULL;
}

/* The kind of process whose turn on another CPU is searched. */
enum turn_owner { NOT_TRACED, TRACED_OTHER, OWN };

static __always_inline bool is_owner(const struct turn *turn, __u32 own, enum turn_owner owner)
{
	if (owner == NOT_TRACED)
		return turn->tgid && !turn->traced;
	return turn->traced && (turn->tgid == own) == (owner == OWN);
}

/* 1 + the nth other CPU, of those on which the thread may run, that such a process used at the time
 * of a turn; or 0 or a negative number: how many such CPUs were missing. */
__noinline int find_turn(const struct turn *than, __u64 cpus, __u32 nth, __u32 own,
			 enum turn_owner owner)
{
	__u32 here = bpf_get_smp_processor_id();

	for (__u32 i = 1; than && i < NEIGHBOURS_MAX && i < perfx_cpus_count; i++) {
		__u32 cpu = (here + i) % perfx_cpus_count;
		const struct turn *turn = turn_then(cpu, than->from_ns);

		if (turn && is_owner(turn, own, owner) && may_run_on(cpus, cpu) && !nth--)
			return cpu + 1;
	}
	return -(int)nth;
}

/* The turn that is charged with the nth waiting thread's wait: each CPU of another program is one
 * thread's reason, untraced programs first; threads of the same process are the reason of the rest.
 */
static __always_inline const struct turn *reason_of_turn(const struct turn *turn,
							 const struct perfx_waiter *waiter,
							 __u64 cpus)
{
	__u32 own = waiter->wait.tgid;
	__s64 others = perfx_runnable.count;
	int found;
	/* the start of the wait serves as a random number that is the same for all of its turns */
	__u32 nth = waiter->began_ns % (others > 0 ? (__u64)others + 1 : 1);

	if (!turn->tgid || (!turn->traced && !nth))
		return turn;
	found = find_turn(turn, cpus, nth - !turn->traced, own, NOT_TRACED);
	if (!found && is_owner(turn, own, TRACED_OTHER))
		return turn;
	if (found <= 0)
		found = find_turn(turn, cpus, -found - is_owner(turn, own, TRACED_OTHER), own,
				  TRACED_OTHER);
	if (found <= 0 && !turn->traced)
		found = find_turn(turn, cpus, 0, own, OWN);
	return (found > 0 ? turn_then(found - 1, turn->from_ns) : NULL) ?: turn;
}

/* turn: from_ns is within the wait. longest_ns is add_part()'s, cpus is may_run_on()'s. */
__noinline int add_turn(struct perfx_waiter *waiter, const struct turn *turn, __u64 ns,
			__u64 longest_ns, __u64 cpus)
{
	if (!waiter || !turn)
		return 0;
	turn = reason_of_turn(turn, waiter, cpus);
	waiter->wait.object = turn->tgid;
	__builtin_memcpy(waiter->wait.comm, turn->comm, sizeof(turn->comm));
	add_part(waiter, ns, longest_ns);
	return 0;
}

/* The part of a turn that is added. Not on the stack: Linux 6.1 adds up the stacks of all open
 * calls, which have no room left. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct turn);
} perfx_turn_part SEC(".maps");

static __always_inline struct turn *turn_part(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&perfx_turn_part, &key);
}

/* Divides a wait among the turns during it, from the newest one on. */
struct wait_division {
	struct perfx_waiter *waiter;
	struct turns *turns;
	__u64 cpus; /* may_run_on()'s */
	__u64 to_ns, left_ns;
	__u64 longest_ns;
	/* the turn with most of it: 1 + its distance from the newest (0: none), and its time */
	__u64 longest_at_ns;
	__u32 longest;
};

static long divide_step(__u32 i, void *ctx)
{
	struct wait_division *division = ctx;
	struct turn *part = turn_part();
	__u64 ns, from_ns;

	if (!part || i >= division->turns->count || !division->left_ns)
		return 1;
	*part = *turn_at(division->turns, division->turns->count - 1 - i);
	from_ns = part->from_ns;
	ns = division->to_ns - from_ns;
	ns = ns < division->left_ns ? ns : division->left_ns;
	part->from_ns = division->to_ns - ns / 2;
	add_turn(division->waiter, part, ns, 0, division->cpus);
	if (ns > division->longest_ns) {
		division->longest_ns = ns;
		division->longest_at_ns = part->from_ns;
		division->longest = i + 1;
	}
	division->to_ns = from_ns;
	division->left_ns -= ns;
	return 0;
}

/* A traced thread gets this CPU: divides its wait, which counts once, for the turn with most of it.
 */
static __always_inline void divide_wait(struct perfx_waiter *waiter, struct turns *turns,
					__u64 cpus, __u64 since_ns, __u64 now)
{
	__u64 until_ns = recorded_time(now) + 1;
	struct wait_division division = {
		.waiter = waiter, .turns = turns, .cpus = cpus, .to_ns = now};
	struct turn *part = turn_part();

	if (!part || until_ns <= since_ns)
		return;
	division.left_ns = until_ns - since_ns;
	repeat(TURNS_MAX, divide_step, &division);
	if (division.left_ns) {
		__builtin_memset(part, 0, sizeof(*part));
		add_turn(waiter, part, division.left_ns, 0, cpus);
	}
	__builtin_memset(part, 0, sizeof(*part));
	if (division.longest) {
		*part = *turn_at(turns, turns->count - division.longest);
		part->from_ns = division.longest_at_ns;
	}
	add_turn(waiter, part, 0, until_ns - waiter->began_ns, cpus);
}

static __always_inline struct perfx_waiter *waiter_new(__u32 tid)
{
	for (__u32 i = 0; i < PERFX_WAIT_TRIES; i++) {
		struct perfx_waiter *waiter = waiter_at(tid, i);

		if (waiter && !waiter->tid && !__sync_val_compare_and_swap(&waiter->tid, 0, tid)) {
			__builtin_memset(&waiter->slice, 0, sizeof(waiter->slice));
			return waiter;
		}
	}
	counter_add(PERFX_COUNTER_MAP_FULL, 1);
	return NULL;
}

/* Ends a wait. Returns the start of the part that is not in the sums yet; 0: none. */
static __always_inline __u64 wait_end(struct perfx_waiter *waiter)
{
	__u64 since_ns = __sync_lock_test_and_set(&waiter->since_ns, 0);

	if (since_ns && waiter->wait.reason == PERFX_WAIT_RUNNABLE)
		__sync_fetch_and_add(&perfx_runnable.count, -1);
	return since_ns;
}

static __always_inline void waiter_free(__u32 tid, __u64 now)
{
	struct perfx_waiter *waiter = waiter_find(tid);

	if (!waiter)
		return;
	wait_end(waiter);
	if (records_timeline() && waiter->slice.on_ns && !waiter->slice.left_ns) {
		slice_leaves(waiter, now);
		emit_slice(waiter, now, PERFX_SLICE_EXITS);
	}
	waiter->tid = 0;
}

/* Prepares a wait, before its reason is found and wait_start() is called. NULL: no entry is free.
 */
static __always_inline struct perfx_waiter *wait_prepare(struct task_struct *task,
							 const struct perfx_traced_process *traced,
							 __u64 now)
{
	struct perfx_waiter *waiter = waiter_find(task->pid) ?: waiter_new(task->pid);

	if (!waiter)
		return NULL;
	wait_end(waiter); /* the thread may have got a CPU while tracing was off */
	waiter->off_cpu_ns = now;
	waiter->waker_tid = 0;
	__builtin_memset(&waiter->wait, 0, sizeof(waiter->wait));
	waiter->wait.process = traced->process;
	waiter->wait.tgid = task->tgid;
	waiter->wait.tid = task->pid;
	waiter->wait.reason = PERFX_WAIT_RUNNABLE;
	waiter->wait.fd = -1;
	return waiter;
}

/* Called last: user space reads entries that have a time. */
static __always_inline void wait_start(struct perfx_waiter *waiter, __u64 now)
{
	waiter->began_ns = recorded_time(now) + 1;
	__sync_fetch_and_add(&perfx_runnable.waits_count, 1);
	if (waiter->wait.reason == PERFX_WAIT_RUNNABLE)
		__sync_fetch_and_add(&perfx_runnable.count, 1);
	__sync_lock_test_and_set(&waiter->since_ns, waiter->began_ns);
}

/* As traced_of, but NULL for kernel threads, which most switches involve, and for threads that
 * exit: the process may not be traced any more when such a thread runs again, and its wait would
 * not end. */
static __always_inline struct perfx_traced_process *traced_by(struct task_struct *task)
{
	return task->flags & (PF_KTHREAD | PF_EXITING) ? NULL : traced_of(task);
}

static __always_inline void leaves_cpu(struct task_struct *task,
				       const struct perfx_traced_process *traced, bool preempted,
				       __u64 now)
{
	struct perfx_waiter *waiter = wait_prepare(task, traced, now);

	if (!waiter)
		return;
	if (task->__state && !preempted)
		find_reason(&waiter->wait, task, true);
	if (perfx_timeline) {
		/* its first switch */
		if (!waiter->slice.on_ns && perfx_timeline_from_ns < now)
			waiter->slice.on_ns = perfx_timeline_from_ns;
		waiter->slice.cpu = bpf_get_smp_processor_id();
		slice_leaves(waiter, now);
	}
	wait_start(waiter, now);
}

/* Ends the wait of a thread that gets this CPU. Returns how long it was off the CPU; 0: unknown. */
__noinline __u64 wait_over(__u32 tid, __u64 cpus, __u64 now)
{
	struct turns *turns = turns_of(bpf_get_smp_processor_id());
	struct perfx_waiter *waiter = waiter_find(tid);
	__u64 since_ns = waiter ? wait_end(waiter) : 0;

	if (waiter && perfx_timeline)
		slice_begin(waiter, now);
	if (!turns || !since_ns)
		return 0;
	if (waiter->wait.reason == PERFX_WAIT_RUNNABLE)
		divide_wait(waiter, turns, cpus, since_ns, now);
	else
		add_wait(waiter, since_ns, now);
	return now - waiter->off_cpu_ns;
}

static __always_inline void gets_cpu(struct task_struct *task, __u64 now)
{
	__u64 off_cpu_ns = wait_over(task->pid, (__u64)BPF_CORE_READ(task, cpus_ptr), now);
	struct thread *t = bpf_task_storage_get(&perfx_threads, task, NULL, 0);

	if (t)
		t->off_cpu_ns += off_cpu_ns;
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(perfx_on_switch, bool preempted, struct task_struct *prev, struct task_struct *next)
{
	struct perfx_traced_process *leaves, *gets;
	struct turns *turns;
	__u64 now;

	if (!perfx_tracing)
		return 0;
	leaves = traced_by(prev);
	gets = traced_by(next);
	turns = turns_of(bpf_get_smp_processor_id());
	if (!turns)
		return 0;
	now = bpf_ktime_get_ns();
	/* first: the thread that leaves now did not wait at the same time */
	if (gets)
		gets_cpu(next, now);
	if (leaves)
		leaves_cpu(prev, leaves, preempted, now);
	begin_turn(turns, next, gets, now);
	return 0;
}

/* The thread that releases a lock wakes the next one. Here it is the current thread; at
 * sched_wakeup, which may run on another CPU, it need not be. */
SEC("?tp_btf/sched_waking")
int BPF_PROG(perfx_on_waking, struct task_struct *task)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct perfx_waiter *waiter;

	if (!perfx_tracing || (current->tgid != task->tgid && !perfx_timeline) || !traced_by(task))
		return 0;
	waiter = waiter_find(task->pid);
	if (!waiter)
		return 0;
	if (waiter->wait.reason == PERFX_WAIT_FUTEX && current->tgid == task->tgid)
		waiter->waker_tid = current->pid;
	if (perfx_timeline && waiter->slice.left_ns && !waiter->slice.woken_ns)
		note_waker(&waiter->slice, current);
	return 0;
}

/* A thread's wait for an event is over; now it waits for a CPU. */
SEC("?tp_btf/sched_wakeup")
int BPF_PROG(perfx_on_wakeup, struct task_struct *task)
{
	struct perfx_waiter *waiter;
	__u64 since_ns, now;

	if (!perfx_tracing || !traced_by(task))
		return 0;
	waiter = waiter_find(task->pid);
	if (!waiter || waiter->wait.reason == PERFX_WAIT_RUNNABLE)
		return 0;
	since_ns = wait_end(waiter);
	if (!since_ns)
		return 0;
	now = bpf_ktime_get_ns();
	add_wait(waiter, since_ns, now);
	waiter->slice.woken_ns = now;
	waiter->waker_tid = 0;
	waiter->wait.reason = PERFX_WAIT_RUNNABLE;
	waiter->wait.syscall = 0;
	waiter->wait.object = waiter->wait.holder_tid = 0;
	waiter->wait.inode = waiter->wait.device = waiter->wait.mode = 0;
	waiter->wait.fd = -1;
	wait_start(waiter, now);
	return 0;
}

/* A new thread waits for its first turn. */
SEC("?tp_btf/sched_wakeup_new")
int BPF_PROG(perfx_on_wakeup_new, struct task_struct *task)
{
	struct perfx_traced_process *traced = perfx_tracing ? traced_by(task) : NULL;
	__u64 now = bpf_ktime_get_ns();
	struct perfx_waiter *waiter = traced ? wait_prepare(task, traced, now) : NULL;

	if (!waiter)
		return 0;
	if (perfx_timeline) {
		slice_leaves(waiter, now);
		note_waker(&waiter->slice, bpf_get_current_task_btf());
	}
	wait_start(waiter, now);
	return 0;
}

/* After the recording the table stays as it is: user space reads it later, and a thread that waited
 * at the end of the recording may have exited by then. */
SEC("?tp_btf/sched_process_exit")
int BPF_PROG(perfx_on_exit_waiting, struct task_struct *task)
{
	if (perfx_tracing)
		waiter_free(task->pid, bpf_ktime_get_ns());
	return 0;
}

/* A thread that calls exec takes over the main thread's id. */
SEC("?tp_btf/sched_process_exec")
int BPF_PROG(perfx_on_exec_waiting, struct task_struct *task, pid_t old_pid)
{
	if (perfx_tracing && old_pid != task->pid)
		waiter_free(old_pid, bpf_ktime_get_ns());
	return 0;
}

/* Kernels for a single CPU lack the member: the current task is on the CPU. */
static __always_inline bool is_on_cpu(struct task_struct *task)
{
	return bpf_core_field_exists(task->on_cpu) ? task->on_cpu
						   : task == bpf_get_current_task_btf();
}

/* Start of the recording: adds the threads that have left the CPU before. */
SEC("?iter/task")
int perfx_at_begin(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct perfx_traced_process *traced = task ? traced_by(task) : NULL;
	struct perfx_waiter *waiter;

	if (!traced || is_on_cpu(task) || waiter_find(task->pid))
		return 0;
	waiter = wait_prepare(task, traced, perfx_waiting_from_ns);
	if (!waiter)
		return 0;
	if (task->__state)
		find_reason(&waiter->wait, task, false);
	slice_leaves(waiter, perfx_waiting_from_ns);
	wait_start(waiter, perfx_waiting_from_ns);
	/* the thread has got a CPU meanwhile */
	if (is_on_cpu(task))
		wait_end(waiter);
	return 0;
}

struct thread_info___cpu {
	__u32 cpu;
} __attribute__((preserve_access_index));
struct task_struct___cpu {
	struct thread_info___cpu thread_info;
} __attribute__((preserve_access_index));

/* End of the recording, when the other programs are detached: emits the slices that go on. */
SEC("?iter/task")
int perfx_at_end_of_timeline(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct perfx_traced_process *traced = task ? traced_by(task) : NULL;
	const struct task_struct___cpu *placed = (const void *)task;
	__u64 now = perfx_timeline_end_ns ?: bpf_ktime_get_ns();
	struct perfx_waiter *waiter;

	if (!traced || !records_timeline())
		return 0;
	waiter = waiter_find(task->pid) ?: wait_prepare(task, traced, now);
	if (!waiter)
		return 0;
	/* without a switch so far, it has run all the time */
	if (!waiter->slice.left_ns && !waiter->slice.on_ns) {
		waiter->slice.on_ns = perfx_timeline_from_ns;
		if (bpf_core_field_exists(placed->thread_info.cpu))
			waiter->slice.cpu = BPF_CORE_READ(placed, thread_info.cpu);
	}
	/* a switch may have been seen a little later */
	now = now > waiter->slice.on_ns ? now : waiter->slice.on_ns;
	if (!waiter->slice.left_ns)
		slice_leaves(waiter, now);
	now = now > waiter->slice.left_ns ? now : waiter->slice.left_ns;
	now = now > waiter->slice.woken_ns ? now : waiter->slice.woken_ns;
	emit_slice(waiter, now, PERFX_SLICE_UNFINISHED);
	return 0;
}
