/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * State of a thread: its open calls. Written by spans.bpf.c, read by memory.bpf.c.
 */
#ifndef PERFX_THREAD_BPF_H
#define PERFX_THREAD_BPF_H

#include "perfx.bpf.h"

/* 1: the program switches stacks in user space (coroutines); see leave_any. */
extern volatile __u32 perfx_many_stacks;

/* Flags in frame.entry, above the index of the probe that opened the frame. A return probe ends it:
 */
#define FRAME_BY_RETURN 0x80000000u
/* A range that the program annotates (ranges.bpf.h). It has no return address: its ret_addr_sp is
 * above all addresses, so that no unwinding ends it. */
#define FRAME_RANGE 0x40000000u
/* A range whose key is unknown until the function that begins it returns; until then it is a call.
 */
#define FRAME_PENDING	   0x20000000u
#define FRAME_SOURCE_SHIFT 24 /* of a range: 5 bits, enum perfx_source */
#define FRAME_SOURCE_MASK  0x1fu
#define FRAME_PROBE	   0x00ffffffu

struct frame {
	__u64 start_ns;
	__u64 ret_addr_sp; /* address of its return address */
	__u64 child_ns;	   /* in traced calls that it made */
	__u32 function;
	__u32 context;
	__u32 entry;
	__u32 probe_ns; /* cost of probes hit inside, without its own */
	/* the last child called: saves a hash lookup in loops */
	__u32 child_function, child_context;
	__u8 cost_state;  /* enum perfx_cost_state */
	__u8 dtype;	  /* enum perfx_dtype, without a call_cost */
	__u8 call_cost;	  /* 1 + index into thread.call_costs; 0: none */
	__u8 perf;	  /* PERF_; 0: not wanted */
	__u32 operation;  /* of the object that the call runs; recorded as its function; or 0 */
	__u64 charged_ns; /* time charged to callers that ended before it */
	__u64 off_cpu_ns; /* thread.off_cpu_ns when it opened */
	__u64 within;	  /* a range: id of the started range that is its parent; 0: none */
	__u16 object;	  /* a range: as perfx_span's */
	__u16 pad[3];
};
#define PERF_OPEN   1 /* counters were read at entry */
#define PERF_MISSED 2 /* counters could not be read */

/* Open calls of a thread with a cost of their own; a power of two. Calls inside them have none, so
 * more than one is rare: others keep a note (NOTE), transfer data or have a hint. */
#define CALL_COSTS_MAX 8

#define CALL_COST_GIVEN_DTYPE 0x1  /* dtype is from the cost program, not from tensors */
#define CALL_COST_OPERATOR    0x2  /* counted in perfx_traced_process.open_operators */
#define CALL_COST_MOVES	      0x4  /* its flops are bytes over the bus */
#define CALL_COST_SUBMITS     0x8  /* goes on after the call */
#define CALL_COST_EVENT	      0x10 /* of an object; kept[0]: where its event will be, or 0 */

struct call_cost {
	__u64 flops, bytes;
	__u64 kept[4];
	__u64 ret_addr_sp,
		back;  /* as frame.ret_addr_sp, and the value there; only with many stacks */
	__u32 program; /* exit part to run; 0: none */
	__u8 dtype;    /* enum perfx_dtype */
	__u8 flags;    /* CALL_COST_ */
	__u16 pad;
};

struct tensor {
	__u64 sizes[PERFX_COST_DIMS_MAX];
	__u64 numel;
	__u64 keys; /* c10::DispatchKeySet */
	__u32 ndim;
	__u32 scalar; /* c10::ScalarType */
};

/* State of the cost VM. Per thread, not per CPU, because a program may be preempted. Arrays have
 * powers of two as sizes, so that a mask keeps an index inside. */
struct cost_vm {
	__u64 arguments[8]; /* from 1 */
	__u64 ret_addr_sp;  /* address of the call's return address */
	__u64 stack[PERFX_COST_DEPTH];
	__u64 kept[4];
	__u64 flops, bytes;
	/* volatile: otherwise the verifier would explore each value separately */
	volatile __u32 depth; /* of stack */
	volatile __u32 pc;
	__u32 layouts; /* traced->tensor_layouts */
	/* of the tensor being read: layouts under which it was readable, made sense, and disagreed
	 */
	volatile __u32 readable, fitting, differ;
	__u8 dtype;
	__u8 given_dtype;
	__u8 submits; /* done by a device */
	__u8 pad[5];
	struct tensor tensors[4]; /* the last one: the candidate being tried */
	__u64 impl[15];		  /* of a TensorImpl, from its number of dimensions */
	__u64 words[4];		  /* read just now */
};

/* Cost of a call that begins or ends now. */
struct outcome {
	__u64 flops, bytes;
	__u8 state; /* enum perfx_cost_state */
	__u8 dtype;
	__u8 call_cost; /* of a call that begins: frame.call_cost */
	__u8 moves;	/* flops are bytes over the bus */
	__u8 submitted; /* goes on after the call */
	__u8 pad[3];
};

/* The thread's sigaltstack; size 0: none. */
struct signal_stack {
	__u64 from, size_bytes;
};

struct thread {
	__u32 process;
	__u32 tid;
	__u32 depth;
	__u32 returns;	/* open frames that a return probe will end */
	__u32 declined; /* return probes that will fire without a frame */
	__u32 records;
	__u32 root_function, root_context; /* as frame.child_*, at depth 0 */
	/* 1 + index of the open call_cost that covers all calls inside it, and of the one that
	 * transfers data; 0: none */
	__u8 flops_owner, transfer_owner;
	__u8 call_costs_used; /* bit set */
	/* 1 + index of the open operation whose FLOPs are not known yet; 0: none */
	__u8 pending_flops;
	__u32 recording_window; /* current_recording_window() at its last hit */
	__u32 ranges;		/* open frames that are ranges or pending ones */
	__u32 skipped;		/* ranges begun without room for a frame */
	__u32 new_context;	/* created by this hit, see follow_first_call; 0: none */
	__u32 call_context;	/* of the call that begins */
	__u32 device_call;	/* 1 + index of the outermost open call that has handed work to a
				 * device (PERFX_COST_F_DEVICE); 0: none */
	__u32 caller_code;	/* python_code() of the Python frame that calls */
	__u16 optimizer;	/* whose step the range that begins is, as perfx_span.object */
	/* 1 + index of the outermost open call that runs an object whose cost is read; 0: none */
	__u8 object_owner;
	__u8 pad[5];
	__u64 goroutine; /* address of its g, if this is the state of a goroutine; 0: of a thread */
	/* of the last launch by a stub: its kernel's handle, the address of its return address */
	__u64 stub_handle, stub_sp;
	struct call_cost call_costs[CALL_COSTS_MAX];
	struct cost_vm vm;
	struct outcome outcome;
	struct perfx_object object; /* that the beginning call runs; function 0: none */
	struct perfx_name_key name; /* being read */
	__u64 unread;		    /* its address, if it could not be read */
	__u64 start_ns;		    /* of the started range that begins, */
	__u32 start_function;	    /* and its function; 0: none is */
	__u64 within;		    /* parent of the range that begins; 0: none */
	/* loop variable; volatile as those of the VM */
	volatile __u32 kept;
	__u64 pending; /* where the address of a pending range's object will be */
	struct signal_stack signal_stack;
	__u64 off_cpu_ns; /* all its time off the CPU so far, if that is recorded: waiting.bpf.c */
	/* scratch of raise_frame, and a call that is recorded as it begins: the stack of old
	 * kernels has no room for them */
	struct frame raised, instant;
	struct frame frames[PERFX_MAX_DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} perfx_threads __weak SEC(".maps");

/*
 * Open calls of goroutines, which change threads in the middle of a call. The runtime copies a
 * growing stack to another address, where a frame keeps its distance from the stack's end. So
 * addresses here are stored as if each goroutine's stack ended at GOROUTINE_STACK_END.
 */
struct goroutine_key {
	__u64 g;
	__u32 process, pad;
};

#define GOROUTINES_MAX	    2048
#define GOROUTINES_KEPT	    256 /* above this, goroutines without open calls lose their state */
#define GOROUTINE_STACK_END (1ULL << 62)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, GOROUTINES_MAX);
	__type(key, struct goroutine_key);
	__type(value, struct thread);
} perfx_goroutines __weak SEC(".maps");

extern volatile __u32 perfx_goroutines_count;

static __always_inline void goroutine_forget(const struct goroutine_key *key)
{
	if (!bpf_map_delete_elem(&perfx_goroutines, key))
		__sync_fetch_and_add(&perfx_goroutines_count, -1);
}

struct bpf_map;

static long forget_step(struct bpf_map *map, const void *key, void *value, void *ctx)
{
	const struct goroutine_key *goroutine = key;

	if (goroutine->process == *(const __u32 *)ctx)
		goroutine_forget(goroutine);
	return 0;
}

/* Drops the goroutines of a process that has ended. */
static __always_inline void goroutines_forget(__u32 process)
{
	if (perfx_goroutines_count)
		bpf_for_each_map_elem(&perfx_goroutines, forget_step, &process, 0);
}

/* Frames further apart are on different stacks (signal stack, coroutine): their order means
 * nothing. */
#define STACK_SPAN_BYTES (64ULL << 20)

static __always_inline struct signal_stack signal_stack_of(const struct task_struct *task)
{
	return (struct signal_stack){.from = task->sas_ss_sp, .size_bytes = task->sas_ss_size};
}

static __always_inline void note_signal_stack(struct thread *t, const struct task_struct *task)
{
	t->signal_stack = signal_stack_of(task);
}

static __always_inline bool on_signal_stack(struct signal_stack stack, __u64 address)
{
	return address - stack.from < stack.size_bytes;
}

/*
 * Returns whether a thread whose stack ends at `sp` has left the call at `ret_addr_sp`. It has left
 * the deeper calls on the same stack and, if it runs on its ordinary stack, all calls on its signal
 * stack, because a handler ends before its thread continues. Calls that a signal interrupted are
 * still open.
 */
static __always_inline bool is_left(struct signal_stack stack, __u64 ret_addr_sp, __u64 sp)
{
	bool in_handler = on_signal_stack(stack, ret_addr_sp);

	if (in_handler != on_signal_stack(stack, sp))
		return in_handler;
	return ret_addr_sp <= sp && sp - ret_addr_sp <= STACK_SPAN_BYTES;
}

/*
 * Returns whether a return probe here would kill the process. When a return probe begins, the
 * kernel drops those at lower addresses, which it assumes were left (arch_uretprobe_is_alive). If a
 * signal handler's stack lies above that of the interrupted calls, their return probes are dropped,
 * and the kernel kills the process when such a call returns.
 */
static __always_inline bool return_probe_kills(__u64 ret_addr_sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct signal_stack stack = signal_stack_of(task);
	struct return_instance *last;
	__u64 waits_at;

	if (!on_signal_stack(stack, ret_addr_sp))
		return false;
	last = BPF_CORE_READ(task, utask, return_instances);
	waits_at = last ? BPF_CORE_READ(last, stack) : ret_addr_sp;
	return waits_at < ret_addr_sp && !on_signal_stack(stack, waits_at);
}

static __always_inline struct frame *frame_at(struct thread *t, __u32 index)
{
	return &t->frames[index & (PERFX_MAX_DEPTH - 1)];
}

/* A call or range begins. The clock is read first: a preemption between the two counts as time of
 * the call on the CPU, not as time off the CPU before it began. */
static __always_inline void start_clocks(const struct thread *t, struct frame *f)
{
	f->start_ns = bpf_ktime_get_ns();
	barrier();
	f->off_cpu_ns = t->off_cpu_ns;
}

struct innermost_search {
	struct thread *thread;
	__u64 sp;
	__u32 depth;
	__u32 context; /* found; 0: not */
};

static long innermost_step(__u32 i, void *ctx)
{
	struct innermost_search *search = ctx;
	struct frame *f;

	if (!search->depth)
		return 1;
	f = frame_at(search->thread, --search->depth);
	if (!perfx_many_stacks && is_left(search->thread->signal_stack, f->ret_addr_sp, search->sp))
		return 0;
	search->context = f->context;
	return 1;
}

/* Frames below the stack pointer, which the program left without a probed exit, that a search
 * skips. */
#define FRAMES_LEFT_MAX 8

/* A global function: the verifier walks it once. */
__weak __noinline __u32 innermost_context(struct thread *t, __u64 sp)
{
	struct innermost_search search = {.thread = t, .sp = sp};

	if (!t || t->recording_window != current_recording_window())
		return 0;
	search.depth = t->depth;
	repeat(FRAMES_LEFT_MAX, innermost_step, &search);
	return search.context;
}

/* The calling context of a thread's innermost traced call; 0: none is open. sp: its stack pointer.
 */
static __always_inline __u32 open_context(struct task_struct *task, __u64 sp)
{
	return innermost_context(bpf_task_storage_get(&perfx_threads, task, NULL, 0), sp);
}

#endif
