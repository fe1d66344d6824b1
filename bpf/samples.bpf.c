// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Samples of the threads of traced processes at regular times, independent of probes. A timer on
 * each CPU interrupts running threads; an iterator over tasks, which user space reads
 * (user/attach/sampler.c), visits the others. For a dump another iterator records the state of each
 * thread once.
 *
 * The timer's program may interrupt a probe's program of the same thread, so it only reads the
 * thread's state. It writes to a ring and to the table of sampled stacks: their locks are only held
 * with interrupts off, so none is held on this CPU, and the table's elements are preallocated. If
 * it interrupts the few instructions in which a bucket is only marked as locked, the kernel refuses
 * the update (-EBUSY), and the stack is emitted again later.
 */
#include "signals.bpf.h"
#include "stack.bpf.h"
#include "wait.bpf.h"

/* The number of the dump in progress; 0: none was made yet. */
volatile __u32 perfx_dump = 0;
/* The kernel's fair class runs threads, no scheduler of BPF programs (sched_ext). */
volatile __u32 perfx_fair = 0;
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

/* The result of the iterator for a thread, valid until the thread runs again. */
struct standing {
	__u64 switches; /* context switches of the thread at that time */
	__u32 process;
	__u32 context;
	__u32 stack;
	__u32 round; /* perfx_stacks_round at that time */
	__u32 dump;  /* perfx_dump when its state was recorded last */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct standing);
} perfx_standing SEC(".maps");

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

/* A thread that ends its process: a sample without time, which shows where it was. As for the
 * timer's program, interrupts are off. */
SEC("?tp_btf/signal_generate")
int BPF_PROG(perfx_sample_dying, int signal, struct kernel_siginfo *info, struct task_struct *task,
	     int group, int result)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct perfx_traced_process *traced;
	struct perfx_sample sample = {.state = PERFX_SAMPLE_ON_CPU};
	struct pt_regs *regs;

	if (!may_end(signal, result) || current->tgid != task->tgid || !is_recording())
		return 0;
	traced = traced_of(current);
	if (!traced || is_handled(task, signal))
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(current);
	sample.process = traced->process;
	sample.tid = current->pid;
	if (has_stack(current)) {
		sample.context = open_context(current, PT_REGS_SP(regs));
		sample.stack = running_stack(current, regs, traced->memory_process);
	}
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

/* NULL: the thread has run since its stack was found. */
static __always_inline struct standing *standing_of(struct task_struct *task,
						    const struct perfx_traced_process *traced)
{
	struct standing *standing =
		bpf_task_storage_get(&perfx_standing, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	return standing && standing->stack && standing->switches == task->nvcsw + task->nivcsw &&
			       standing->process == traced->process &&
			       standing->round == perfx_stacks_round
		       ? standing
		       : NULL;
}

/* Reuses the stack of a thread that has not run since the last round, as most threads of a pool.
 * False: an unwind table was missing. */
static __always_inline bool find_standing(struct task_struct *task, const struct pt_regs *regs,
					  const struct perfx_traced_process *traced, __u32 *context,
					  __u32 *stack)
{
	struct standing *standing = standing_of(task, traced);
	__u64 switches = task->nvcsw + task->nivcsw;
	__u32 round = perfx_stacks_round;
	bool final = false;

	if (standing) {
		*stack = standing->stack;
		*context = standing->context;
		return true;
	}
	*context = open_context(task, PT_REGS_SP(regs));
	*stack = waiting_stack(task, regs, traced->memory_process, &final);
	/* fetched again, so that the verifier walks the call above in one state of the pointer */
	standing = bpf_task_storage_get(&perfx_standing, task, NULL, 0);
	if (standing && final)
		*standing = (struct standing){.switches = switches,
					      .process = traced->process,
					      .context = *context,
					      .stack = *stack,
					      .round = round};
	return final;
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
static __always_inline void find_wait(struct task_struct *task, struct perfx_wait *wait)
{
	struct perfx_waiter *waiter = waiter_find(task->pid);

	*wait = (struct perfx_wait){.tgid = task->tgid, .fd = -1};
	if (waiter && waiter->since_ns && waiter->wait.reason != PERFX_WAIT_RUNNABLE)
		*wait = waiter->wait;
	else
		find_reason(wait, task, false);
}

SEC("?iter.s/task")
int perfx_sample_off_cpu(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct perfx_traced_process *traced;
	struct perfx_sample sample = {};
	struct perfx_wait wait;
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
		find_wait(task, &wait);
		sample.reason = wait.reason;
		sample.syscall = wait.syscall;
		sample.holder_tid = wait.holder_tid;
		sample.object = wait.object;
	} else {
		sample.state = PERFX_SAMPLE_RUNNABLE;
		sample.reason = PERFX_WAIT_RUNNABLE;
	}
	if (has_stack(task))
		find_standing(task, regs, traced, &sample.context, &sample.stack);
	emit_sample(&sample);
	return 0;
}

/* As the kernel's task_state_array, for /proc/PID/stat. */
static __always_inline char letter_of(const struct task_struct *task)
{
	__u32 state = task->__state;

	if (task->exit_state)
		return task->exit_state & EXIT_DEAD ? 'X' : 'Z';
	return !state			    ? 'R'
	       : state & TASK_INTERRUPTIBLE ? 'S'
	       : state & TASK_STOPPED	    ? 'T'
	       : state & TASK_TRACED	    ? 't'
	       : state & TASK_PARKED	    ? 'P'
	       : state & TASK_NOLOAD	    ? 'I'
					    : 'D';
}

/* include/uapi/linux/sched.h: SCHED_NORMAL, _BATCH and _IDLE are of the fair class. */
#define IS_FAIR(policy) ((policy) == 0 || (policy) == 3 || (policy) == 5)

/*
 * When a thread that is off the CPU left it: it got the CPU at last_arrival, and has run since then
 * for as long as its CPU time has grown (the fair class keeps both ends, set_next_entity() in
 * kernel/sched/fair.c). That leaves out what interrupts and a hypervisor had meanwhile.
 */
static __always_inline void find_since(struct task_struct *task, struct perfx_thread_state *state)
{
	__u64 arrival_ns, ran_ns, now_ns = state->time_ns;

	if (!bpf_core_field_exists(task->sched_info.last_arrival))
		return;
	arrival_ns = state->since_ns = task->sched_info.last_arrival;
	ran_ns = task->se.sum_exec_runtime - task->se.prev_sum_exec_runtime;
	if (!arrival_ns || !perfx_fair || !IS_FAIR(task->policy) || arrival_ns > now_ns ||
	    ran_ns > now_ns - arrival_ns)
		return;
	state->since_ns = arrival_ns + ran_ns;
	state->flags |= PERFX_THREAD_STATE_EXACT;
}

static __always_inline void find_target(struct task_struct *task, struct perfx_thread_state *state)
{
	const struct perfx_python_layout *python = python_of(task->tgid);
	struct perfx_wait wait;
	struct call call;

	find_wait(task, &wait);
	state->reason = wait.reason;
	state->object = wait.object;
	state->holder_tid = wait.holder_tid;
	if (wait.reason == PERFX_WAIT_GIL && !wait.holder_tid && python)
		state->holder_tid = find_holder(python, wait.object, read_other, task);
	if (wait.fd >= 0) {
		state->fd = wait.fd;
		state->inode = wait.inode;
		state->device = wait.device;
		state->mode = wait.mode;
	}
	if (wait.reason == PERFX_WAIT_STOPPED)
		state->object = task->jobctl & JOBCTL_STOP_SIGMASK;
	read_call(&call, task);
	if (call.number < 0)
		return;
	state->syscall = call.number;
	for (int i = 0; i < PERFX_STATE_ARGUMENTS; i++)
		state->arguments[i] = call.arguments[i];
}

static __always_inline bool is_throttled(struct task_struct *task)
{
	return bpf_core_field_exists(task->se.cfs_rq) &&
	       bpf_core_field_exists(((struct cfs_rq *)0)->throttle_count) &&
	       BPF_CORE_READ(task, se.cfs_rq, throttle_count) > 0;
}

/* A thread on a CPU, or one that only the tracer's thread keeps from it, runs. */
static __always_inline void find_state(struct task_struct *task, struct perfx_thread_state *state)
{
	bool on_cpu = bpf_core_field_exists(task->on_cpu) && task->on_cpu;

	state->state = letter_of(task);
	if (state->state == 'Z' || state->state == 'X')
		return;
	if (on_cpu || (!task->__state && is_displaced(task))) {
		state->flags |= PERFX_THREAD_STATE_ON_CPU;
		return;
	}
	if (is_throttled(task))
		state->flags |= PERFX_THREAD_STATE_THROTTLED;
	if (!task->__state) {
		state->reason = PERFX_WAIT_RUNNABLE;
		if (bpf_core_field_exists(task->sched_info.last_queued)) {
			state->since_ns = task->sched_info.last_queued;
			state->flags |= PERFX_THREAD_STATE_EXACT;
		}
		return;
	}
	if (is_stopped(task) && !(task->__state & (TASK_STOPPED | TASK_TRACED)))
		state->flags |= PERFX_THREAD_STATE_FROZEN;
	if (task->ptrace)
		state->tracer_pid = BPF_CORE_READ(task, parent, tgid);
	find_target(task, state);
	find_since(task, state);
}

struct thread_state {
	struct perfx_thread_state state;
	char comm[PERFX_COMM_BYTES];
};

static __always_inline bool emit_thread_state(struct thread_state *record, struct task_struct *task)
{
	void *ring = ring_of(&perfx_memory, task->pid);

	record->state.hdr.size = sizeof(*record);
	record->state.hdr.kind = PERFX_KIND_THREAD_STATE;
	record->state.hdr.fixed = sizeof(record->state);
	bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), task->comm);
	return ring && !bpf_ringbuf_output(ring, record, sizeof(*record), BPF_RB_NO_WAKEUP);
}

/* Several rounds make a dump: unwind tables are loaded between them. A thread is recorded again if
 * its stack was cut, or if it has run meanwhile. */
SEC("?iter.s/task")
int perfx_dump_thread(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread_state record = {};
	struct perfx_thread_state *state = &record.state;
	struct perfx_traced_process *traced;
	struct standing *standing;
	__u32 context = 0;

	if (!task || !is_recording())
		return 0;
	traced = traced_of(task);
	if (!traced)
		return 0;
	standing = standing_of(task, traced);
	if (standing && standing->dump == perfx_dump)
		return 0;
	state->time_ns = bpf_ktime_get_ns();
	state->process = traced->process;
	state->tid = task->pid;
	state->syscall = PERFX_NO_SYSCALL;
	state->fd = -1;
	if (!has_stack(task))
		state->flags = PERFX_THREAD_STATE_KERNEL;
	find_state(task, state);
	if (has_stack(task) && is_off_cpu(task) &&
	    !find_standing(task, (struct pt_regs *)bpf_task_pt_regs(task), traced, &context,
			   &state->stack))
		state->flags |= PERFX_THREAD_STATE_UNFINISHED;
	if (!emit_thread_state(&record, task)) {
		count_lost_sample(traced->process);
		return 0;
	}
	standing = standing_of(task, traced);
	if (standing)
		standing->dump = perfx_dump;
	return 0;
}
