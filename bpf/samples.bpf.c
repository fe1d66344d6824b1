// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Samples of the threads of traced processes at regular times, independent of probes. A timer on
 * each CPU interrupts running threads; an iterator over tasks, which user space reads
 * (user/attach/sampler.c), visits the others.
 *
 * The timer's program may interrupt a probe's program of the same thread, so it only reads the
 * thread's state. It writes to a ring and to the table of sampled stacks: their locks are only held
 * with interrupts off, so none is held on this CPU, and the table's elements are preallocated. If
 * it interrupts the few instructions in which a bucket is only marked as locked, the kernel refuses
 * the update (-EBUSY), and the stack is emitted again later.
 */
#include "stack.bpf.h"
#include "wait.bpf.h"

/* Time between two rounds of the iterator, which a sample represents. For the timer it is the
 * link's cookie. */
volatile __u64 perfx_off_cpu_interval_ns = 0;
/* Stacks of samples emitted so far, which user space keeps until the recording ends. */
volatile __u64 perfx_sample_stacks_count = 0;

/* User space increments it when it empties the table: ids emitted earlier must not be used any
 * more. */
volatile __u32 perfx_stacks_round = 0;

/* Ids of stacks. The least recently used one is evicted, and gets another id if it recurs. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* user space: PERFX_MAX_SAMPLE_STACKS where it samples */
	__type(key, struct stack_key);
	__type(value, struct stack_value);
} perfx_sample_stack_ids SEC(".maps");

/* The timer's program builds a stack here: it does not nest and is not preempted. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct call_stack);
} perfx_running_stack SEC(".maps");

/* The iterator builds a stack here; one thread of the tracer reads it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct call_stack);
} perfx_waiting_stack SEC(".maps");

/* Samples without room, by process; 0: processes beyond the table. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PERFX_MAX_PROCESSES);
	__type(key, __u32);
	__type(value, __u64);
} perfx_samples_lost SEC(".maps");

/* The result of the iterator for a thread, valid until the thread runs again. */
struct standing {
	__u64 switches; /* context switches of the thread at that time */
	__u32 process;
	__u32 context;
	__u32 stack;
	__u32 round; /* perfx_stacks_round at that time */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct standing);
} perfx_standing SEC(".maps");

static __always_inline void count_lost_sample(__u32 process)
{
	__u32 key = process < PERFX_MAX_PROCESSES ? process : 0;
	__u64 *lost = bpf_map_lookup_elem(&perfx_samples_lost, &key);

	counter_add(PERFX_COUNTER_SAMPLE_DROPS, 1);
	if (lost)
		__sync_fetch_and_add(lost, 1);
}

static __always_inline void emit_sample(struct perfx_sample *sample)
{
	void *ring = ring_of(&perfx_memory, sample->tid);

	sample->hdr.size = sizeof(*sample);
	sample->hdr.kind = PERFX_KIND_SAMPLE;
	sample->hdr.fixed = sizeof(*sample);
	sample->time_ns = bpf_ktime_get_ns();
	if (!ring || bpf_ringbuf_output(ring, sample, sizeof(*sample), BPF_RB_NO_WAKEUP))
		count_lost_sample(sample->process);
}

/* The id of a stack, which is emitted if it is new; 0: no room. */
__noinline __u32 sample_stack_id(struct call_stack *record, __u32 process, __u32 tid)
{
	struct stack_key key = {.process = process};
	struct stack_value value, *known;
	void *ring = ring_of(&perfx_memory, tid);

	if (!record || !ring)
		return 0;
	value.check = hash_of(record, &key.hash);
	known = bpf_map_lookup_elem(&perfx_sample_stack_ids, &key);
	if (known && known->check == value.check)
		return known->stack;
	value.stack = emit_stack(record, ring, process);
	if (!value.stack)
		return 0;
	__sync_fetch_and_add(&perfx_sample_stacks_count, 1);
	/* if this fails, the stack will be emitted again */
	bpf_map_update_elem(&perfx_sample_stack_ids, &key, &value, BPF_ANY);
	return value.stack;
}

/* io_uring's workers are threads of the process that never run its code. */
static __always_inline bool has_stack(const struct task_struct *task)
{
	return !(task->flags & PF_IO_WORKER);
}

/* The stack of the interrupted thread. regs: its registers in user space, or at its entry into the
 * kernel. */
static __always_inline __u32 running_stack(struct task_struct *task, const struct pt_regs *regs,
					   __u32 process)
{
	__u32 zero = 0;
	struct call_stack *stack = bpf_map_lookup_elem(&perfx_running_stack, &zero);

	if (!stack)
		return 0;
	stack_walk(stack, program_ip(task, regs), PT_REGS_SP(regs), PT_REGS_FP(regs),
		   PERFX_STACK_PC);
	return sample_stack_id(stack, process, task->pid);
}

SEC("?perf_event")
int perfx_sample_on_cpu(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct perfx_traced_process *traced;
	struct perfx_sample sample = {};
	struct pt_regs *regs;

	if (!is_recording())
		return 0;
	traced = traced_of(task);
	if (!traced)
		return 0;
	counter_add(PERFX_COUNTER_SAMPLES, 1);
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	sample.interval_ns = bpf_get_attach_cookie(ctx);
	sample.process = traced->process;
	sample.tid = task->pid;
	if (has_stack(task)) {
		sample.context = open_context(task, PT_REGS_SP(regs));
		sample.stack = running_stack(task, regs, traced->memory_process);
	}
	sample.state = PERFX_SAMPLE_ON_CPU;
	emit_sample(&sample);
	return 0;
}

/* Reads pages that are not present from disk. */
static __always_inline long read_other(void *to, __u32 bytes, __u64 from, void *task)
{
	return bpf_copy_from_user_task(to, bytes, (const void *)from, task, 0);
}

static long stack_read_other(__u32 i, void *ctx)
{
	return stack_read(ctx, read_other);
}

static long python_read_other(__u32 i, void *ctx)
{
	return python_read(ctx, read_other);
}

/* The stack of a waiting thread. *final: it stays valid until the thread runs; false if an unwind
 * table was missing, which user space is loading. */
static __always_inline __u32 waiting_stack(struct task_struct *task, const struct pt_regs *regs,
					   __u32 process, bool *final)
{
	__u32 zero = 0;
	struct call_stack *stack = bpf_map_lookup_elem(&perfx_waiting_stack, &zero);

	if (!stack)
		return 0;
	stack_begin(stack, (__u64)task, task->tgid, program_ip(task, regs), PT_REGS_SP(regs),
		    PT_REGS_FP(regs), PERFX_STACK_PC);
	if (perfx_stacks_by != PERFX_STACKS_OFF)
		python_begin_of(&stack->python, &stack->python_memory, task, python_read_other,
				task);
	stack_run(stack, stack_read_other, task);
	*final = PERFX_STACK_END(stack->head.flags) != PERFX_STACK_END_NO_TABLE;
	return sample_stack_id(stack, process, task->pid);
}

/* Reuses the stack of a thread that has not run since the last round, as most threads of a pool. */
static __always_inline void find_standing(struct task_struct *task, const struct pt_regs *regs,
					  const struct perfx_traced_process *traced,
					  struct perfx_sample *sample)
{
	struct standing *standing =
		bpf_task_storage_get(&perfx_standing, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	__u64 switches = task->nvcsw + task->nivcsw;
	__u32 round = perfx_stacks_round;
	bool final = false;

	if (standing && standing->stack && standing->switches == switches &&
	    standing->process == traced->process && standing->round == round) {
		sample->stack = standing->stack;
		sample->context = standing->context;
		return;
	}
	sample->context = open_context(task, PT_REGS_SP(regs));
	sample->stack = waiting_stack(task, regs, traced->memory_process, &final);
	/* fetched again, so that the verifier walks the call above in one state of the pointer */
	standing = bpf_task_storage_get(&perfx_standing, task, NULL, 0);
	if (!standing || !final)
		return;
	*standing = (struct standing){.switches = switches,
				      .process = traced->process,
				      .context = sample->context,
				      .stack = sample->stack,
				      .round = round};
}

static __always_inline bool is_off_cpu(struct task_struct *task)
{
	return !(task->flags & PF_EXITING) && BPF_CORE_READ(task, mm) &&
	       !(bpf_core_field_exists(task->on_cpu) && task->on_cpu);
}

/* The time that a sample represents: less than an interval for a thread that has just started. */
static __always_inline __u64 standing_ns(struct task_struct *task)
{
	__u64 age_ns = bpf_ktime_get_ns() - task->start_time;

	return age_ns < perfx_off_cpu_interval_ns ? age_ns : perfx_off_cpu_interval_ns;
}

/* Returns whether the tracer's thread, which runs this, displaced a runnable thread from its CPU:
 * it was queued when the tracer's thread started to run, or later. Both times are of one clock; a
 * thread that moves to another CPU is queued again. */
static __always_inline bool is_displaced(struct task_struct *task)
{
	struct task_struct *here = bpf_get_current_task_btf();

	return bpf_core_field_exists(task->sched_info.last_queued) &&
	       task->sched_info.last_queued >= here->sched_info.last_arrival;
}

/* The wait of a thread. If waits are recorded, it was found when the thread left the CPU, when its
 * memory, and so the holder of a lock, could be read. */
static __always_inline void find_wait(struct task_struct *task, struct perfx_sample *sample)
{
	struct perfx_waiter *waiter = waiter_find(task->pid);
	struct perfx_wait wait = {.tgid = task->tgid};

	if (waiter && waiter->since_ns && waiter->wait.reason != PERFX_WAIT_RUNNABLE)
		wait = waiter->wait;
	else
		find_reason(&wait, task, false);
	sample->reason = wait.reason;
	sample->syscall = wait.syscall;
	sample->holder_tid = wait.holder_tid;
	sample->object = wait.object;
}

SEC("?iter.s/task")
int perfx_sample_off_cpu(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct perfx_traced_process *traced;
	struct perfx_sample sample = {};
	struct pt_regs *regs;

	if (!task || !is_recording())
		return 0;
	traced = traced_of(task);
	if (!traced || !is_off_cpu(task) || (!task->__state && is_displaced(task)))
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	sample.interval_ns = standing_ns(task);
	sample.process = traced->process;
	sample.tid = task->pid;
	if (task->__state) {
		sample.state = PERFX_SAMPLE_WAITING;
		find_wait(task, &sample);
	} else {
		sample.state = PERFX_SAMPLE_RUNNABLE;
		sample.reason = PERFX_WAIT_RUNNABLE;
	}
	if (has_stack(task))
		find_standing(task, regs, traced, &sample);
	emit_sample(&sample);
	return 0;
}
