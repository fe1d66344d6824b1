/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The open calls of a thread: how frames are entered, left, unwound and ended.
 *
 * Each thread has a stack of open frames in task storage. A frame is identified by the address of
 * its return address (CFA - 8): an exit searches for the frame with that address, and a frame that
 * was left without passing an exit (exception, longjmp) is detected because a later frame lies at
 * or above it. The stack grows down: deeper frames have smaller addresses.
 *
 * The verifier walks each iteration of a loop in each state that can reach it. So the body of a
 * loop over frames is a global function, which the verifier walks once; of its result it assumes
 * only that it is a number.
 */
#ifndef PERFX_FRAMES_BPF_H
#define PERFX_FRAMES_BPF_H

#include "cost.bpf.h"
#include "names.bpf.h"
#include "output.bpf.h"

volatile __u32 perfx_tracing = 0;
/* The recording has ended and the open calls are being examined (perfx_at_end). */
volatile __u32 perfx_ending = 0;
volatile __u32 perfx_waiting = 0;
volatile __u64 perfx_recording_windows = 0;
volatile __u64 perfx_window_opened_ns = 0;
volatile __u64 perfx_windows_ns = 0;
/* 1: the program switches stacks in user space (coroutines); see leave_any. */
volatile __u32 perfx_many_stacks = 0;
volatile __u32 perfx_goroutines_count = 0;
volatile __u32 perfx_next_process = 1;
volatile __u32 perfx_spare_process = 0;
volatile __u32 perfx_next_context = 1;
volatile __u32 perfx_gates_turned = 0;

/* --compensate: subtract the cost of probes from the durations that contain it. */
const volatile bool perfx_compensate = false;
/* Return probes belong to session links. */
const volatile bool perfx_sessions = false;
const volatile bool perfx_cookie_arguments = false;
const volatile __u32 perfx_contexts_max = PERFX_MAX_CONTEXTS;
const volatile __u32 perfx_probes_max = 1;
const volatile bool perfx_never = false;
const volatile __u32 perfx_wake_bytes = 1 << 20;
const volatile __u32 perfx_rings_mask = 0;

/* The kernel skips return probes nested deeper than 64 per thread, and logs that. Some may belong
 * to other tracers. */
#define RETURNS_MAX 48

/* Drops the open calls of a thread whose last hit was in an earlier window. */
__noinline int renew_thread(struct thread *t)
{
	struct perfx_traced_process *traced = current_process();
	__u32 recording_window = current_recording_window();

	if (!t)
		return 0;
	t->recording_window = recording_window;
	t->depth = t->ranges = t->skipped = 0;
	t->returns = t->declined = 0;
	t->flops_owner = t->transfer_owner = t->object_owner = t->call_costs_used = 0;
	t->start_function = 0;
	t->device_call = 0;
	if (traced && __sync_lock_test_and_set(&traced->recording_window, recording_window) !=
			      recording_window)
		traced->open_operators = traced->runs_objects = 0;
	return 0;
}

/* The first hit of a thread: creates its state if its process is traced. entry, leaves: as in
 * thread_find. */
__noinline int make_thread(const struct perfx_probe *entry, bool leaves)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct perfx_traced_process *traced = process_at(entry);
	struct thread *t;

	if (!traced) {
		counter_add(PERFX_COUNTER_FOREIGN_HITS, 1);
		return 0;
	}
	if (!entry) {
		if (leaves)
			counter_add(PERFX_COUNTER_UNMATCHED_RETURNS, 1);
		return 0;
	}
	t = task_storage_make(&perfx_threads, task);
	if (!t) {
		if (!count_stateless_call(entry, traced->process))
			counter_add(PERFX_COUNTER_MAP_FULL, 1);
		return 0;
	}
	t->process = traced->process;
	t->tid = task->pid;
	renew_thread(t);
	return 0;
}

/* The state of the current thread, which is created at its first hit of an entry probe. NULL: its
 * process is not traced, or there is no state and no room for one. entry: the entry probe that was
 * hit; NULL at other sites. leaves: the thread leaves a call; without state it entered that call
 * before tracing began. */
static __always_inline struct thread *thread_find(const struct perfx_probe *entry, bool leaves)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&perfx_threads, task, NULL, 0);

	if (!t || !t->process) {
		make_thread(entry, leaves);
		t = bpf_task_storage_get(&perfx_threads, task, NULL, 0);
		if (!t || !t->process)
			return NULL;
	}
	if (t->recording_window != current_recording_window())
		renew_thread(t);
	note_signal_stack(t, task);
	return t;
}

/* Returns whether the runtime.g at `g` is the goroutine that runs on the stack at `sp`. *bias is to
 * be added to addresses on that stack. */
static __always_inline bool is_goroutine_at(__u64 g, __u64 sp, __u64 *bias)
{
	struct {
		__u64 low, high;
	} stack; /* the first member of runtime.g */

	if (!g || bpf_probe_read_user(&stack, sizeof(stack), (const void *)g) ||
	    sp - stack.low >= stack.high - stack.low)
		return false;
	*bias = GOROUTINE_STACK_END - stack.high;
	return true;
}

/* Address of the g of the goroutine that runs at a hit; 0: none runs. It is in a register
 * (ABIInternal, Go 1.17) and in a thread-local variable, which older releases and assembler use. */
static __always_inline __u64 current_goroutine(struct pt_regs *ctx, __u64 *bias)
{
	__u64 sp = PT_REGS_SP(ctx), g;
#if defined(__TARGET_ARCH_x86)
	__u64 local = bpf_get_current_task_btf()->thread.fsbase - sizeof(g);

	g = ctx->r14;
	if (is_goroutine_at(g, sp, bias))
		return g;
	if (bpf_probe_read_user(&g, sizeof(g), (const void *)local))
		return 0;
#elif defined(__TARGET_ARCH_arm64)
	g = ((const struct user_pt_regs *)ctx)->regs[28];
#endif
	return is_goroutine_at(g, sp, bias) ? g : 0;
}

static const struct thread no_calls;

/* As thread_find, for a goroutine. Also NULL if there are too many. */
static __always_inline struct thread *goroutine_find(__u64 g, const struct perfx_probe *entry)
{
	struct perfx_traced_process *traced = process_at(entry);
	struct goroutine_key key = {.g = g};
	struct thread *t;

	if (!traced)
		return NULL;
	key.process = traced->process;
	t = bpf_map_lookup_elem(&perfx_goroutines, &key);
	if (!t && entry && !bpf_map_update_elem(&perfx_goroutines, &key, &no_calls, BPF_NOEXIST)) {
		__sync_fetch_and_add(&perfx_goroutines_count, 1);
		t = bpf_map_lookup_elem(&perfx_goroutines, &key);
	}
	if (!t)
		return NULL;
	t->goroutine = g;
	t->process = key.process;
	t->tid = bpf_get_current_pid_tgid();
	if (t->recording_window != current_recording_window())
		renew_thread(t);
	return t;
}

/* The state, of a goroutine or of a thread, to which the call of a hit belongs. *bias: added to
 * stack addresses, not 0 in a goroutine. Calls of a goroutine without a state (too many) count as
 * its thread's. */
static __always_inline struct thread *calls_at(struct pt_regs *ctx, const struct perfx_probe *probe,
					       const struct perfx_probe *entry, bool leaves,
					       __u64 *bias)
{
	__u64 g = probe->is_go ? current_goroutine(ctx, bias) : 0;
	struct thread *t;

	if (!g)
		return thread_find(entry, leaves);
	t = goroutine_find(g, entry);
	if (!t && entry)
		return thread_find(entry, false);
	if (!t && leaves)
		counter_add(PERFX_COUNTER_UNMATCHED_RETURNS, 1);
	return t;
}

/* Returns whether the program switches stacks on one thread. */
static __always_inline bool has_many_stacks(const struct thread *t)
{
	return perfx_many_stacks && !t->goroutine;
}

/* Probes of functions whose return probes were declined (RETURNS_MAX); user space handles them
 * (user/attach/probes.c). */
volatile __u32 perfx_declined[PERFX_DECLINED_PLACES] = {};

static __always_inline void emit_declined(__u32 index)
{
	volatile __u32 *place = &perfx_declined[index & (PERFX_DECLINED_PLACES - 1)];

	/* written once, not by each call on each CPU */
	if (*place != index)
		*place = index;
}

/* Returns whether the overhead budget detached the exit sites of the frame's function, so that a
 * missing exit means nothing. */
static __always_inline bool lost_its_exits(const struct frame *f)
{
	struct perfx_probe *probe = probe_of(f->entry & FRAME_PROBE);

	return probe &&
	       (probe->kind == PERFX_PROBE_COUNT || (probe->flags & PERFX_PROBE_F_BY_CHOICE));
}

/* A duration minus the cost of the probes inside it: those of inner calls and its own. */
static __always_inline __u64 without_probe_cost(const struct frame *f, __u64 duration_ns)
{
	struct perfx_probe *probe = probe_of(f->entry & FRAME_PROBE);
	__u64 cost_ns = f->probe_ns + (probe ? probe->own_cost_ns : 0);

	return duration_ns > cost_ns ? duration_ns - cost_ns : 0;
}

/* Flag for end_frame, beside PERFX_SPAN_: a range, or a call that marks one. It has no cost
 * program, so BPF programs that end nothing else need not contain the VM. */
#define SPAN_OF_RANGE 0x8000

/* Ends the innermost frame at `now`; its caller is the innermost of `callers` frames. The time of
 * an unwound frame is unknown, so only its children's time is charged to its caller. */
static __always_inline void end_frame(struct thread *t, __u32 callers, __u64 now,
				      __u32 call_cost_ns, __u16 flags)
{
	bool runs_program = !flags;
	__u64 duration = 0, self = 0, nested;
	struct frame *f, *caller;

	flags &= ~SPAN_OF_RANGE;
	t->depth--;
	if (t->pending_flops > t->depth)
		t->pending_flops = 0;
	if (t->device_call > t->depth)
		t->device_call = 0;
	f = frame_at(t, t->depth);
	if (f->entry & FRAME_BY_RETURN)
		t->returns--;
	if (f->entry & (FRAME_RANGE | FRAME_PENDING))
		t->ranges--;

	nested = f->child_ns;
	if ((flags & PERFX_SPAN_UNWOUND) && lost_its_exits(f))
		flags = PERFX_SPAN_UNTIMED;
	if (!flags) {
		duration = now - f->start_ns;
		if (perfx_compensate)
			duration = without_probe_cost(f, duration);
		self = duration > f->child_ns ? duration - f->child_ns : 0;
		nested = duration > f->charged_ns ? duration - f->charged_ns : 0;
	}
	if (callers) {
		caller = frame_at(t, callers - 1);
		caller->child_ns += nested;
		caller->probe_ns += f->probe_ns + call_cost_ns;
	}
	t->outcome.state = PERFX_COST_NONE;
	if ((f->cost_state || f->call_cost) && !runs_program)
		drop_cost(t, t->depth, flags);
	else if (f->cost_state || f->call_cost)
		end_cost(t, t->depth);
	emit(t, f, duration, self, flags);
}

/* Adds the perf events of a timed call after end_frame, which leaves the frame intact. Not part of
 * end_frame: tracepoints and sleepable programs must not refer to perf events. */
static __always_inline void end_readings(struct thread *t)
{
	if (perfx_perf_enabled && frame_at(t, t->depth)->perf)
		end_perf(t, t->depth);
}

/* Ends the innermost frame without a time. Returns whether there was one. */
__noinline int unwind_frame(struct thread *t)
{
	if (!t || !t->depth)
		return 0;
	end_frame(t, t->depth - 1, 0, 0, PERFX_SPAN_UNWOUND);
	return 1;
}

/* Returns whether the return probe's trampoline is still in place of the return address, as after a
 * tail call: then the frame that waits for it is alive. */
static __always_inline bool ret_addr_is_trampoline(__u64 ret_addr_sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 trampoline, value = 0;

	trampoline = BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
	if (bpf_probe_read_user(&value, sizeof(value), (void *)ret_addr_sp)) {
		counter_add(PERFX_COUNTER_READ_FAULTS, 1);
		return false;
	}
	return trampoline && value == trampoline;
}

/* Returns whether the program has left this frame, given that it enters one at `ret_addr_sp`. */
static __always_inline bool is_stale(const struct thread *t, const struct frame *f,
				     __u64 ret_addr_sp)
{
	if (!is_left(t->signal_stack, f->ret_addr_sp, ret_addr_sp))
		return false;
	if (f->ret_addr_sp == ret_addr_sp && (f->entry & FRAME_BY_RETURN))
		return !ret_addr_is_trampoline(ret_addr_sp);
	return true;
}

struct raising {
	struct thread *thread;
	__u32 index;
};

/* Puts the frame above the one at `index` where that was. */
static long raise_step(__u32 i, void *ctx)
{
	struct raising *at = ctx;
	struct thread *t = at->thread;
	__u32 index = at->index;
	struct frame *f;

	if (index + 1 >= t->depth)
		return 1;
	f = frame_at(t, index);
	*f = *frame_at(t, index + 1);
	if (f->perf)
		f->perf = PERF_MISSED;
	at->index = index + 1;
	return 0;
}

/* Moves a frame to the top; those above it move down. */
__noinline int raise_frame(struct thread *t, __u32 index)
{
	struct raising at = {t, index};

	if (!t)
		return 0;
	t->raised = *frame_at(t, index);
	/* perf readings are stored by depth */
	if (t->raised.perf && index + 1 < t->depth)
		t->raised.perf = PERF_MISSED;
	repeat(PERFX_MAX_DEPTH, raise_step, &at);
	*frame_at(t, at.index) = t->raised;
	return 0;
}

/* Step of find_frame: false when the uppermost of t->kept frames matches, or none is left. */
__noinline int pass_frame(struct thread *t, __u64 ret_addr_sp, __u32 function)
{
	struct frame *f;

	if (!t || !t->kept)
		return 0;
	f = frame_at(t, t->kept - 1);
	if (f->ret_addr_sp == ret_addr_sp && (!function || f->function == function))
		return 0;
	t->kept--;
	return 1;
}

struct frame_search {
	struct thread *thread;
	__u64 ret_addr_sp;
	__u32 wanted; /* a function; of a range: its source */
};

static long find_step(__u32 i, void *ctx)
{
	const struct frame_search *search = ctx;

	return !pass_frame(search->thread, search->ret_addr_sp, search->wanted);
}

/* 1 + the index of the uppermost frame at `ret_addr_sp`, of `function` unless that is 0; 0: none.
 */
__noinline int find_frame(struct thread *t, __u64 ret_addr_sp, __u32 function)
{
	struct frame_search search = {t, ret_addr_sp, function};

	if (!t)
		return 0;
	t->kept = t->depth;
	repeat(PERFX_MAX_DEPTH, find_step, &search);
	return t->kept;
}

/* Of two neighbouring frames on one stack, the upper called the lower. Frames further apart may be
 * on neighbouring stacks, which are larger than this. */
#define CALLER_BYTES (8 << 10)

/* Step of find_caller, whose result so far is t->kept. Returns whether the index is a frame. */
__noinline int consider_caller(struct thread *t, __u32 index, __u64 ret_addr_sp)
{
	struct frame *f;
	__u64 distance;

	if (!t || index >= t->depth)
		return 0;
	f = frame_at(t, index);
	distance = f->ret_addr_sp - ret_addr_sp;
	if ((f->entry & FRAME_RANGE) ||
	    (distance && distance < CALLER_BYTES &&
	     (!t->kept || f->ret_addr_sp < frame_at(t, t->kept - 1)->ret_addr_sp)))
		t->kept = index + 1;
	return 1;
}

static long caller_step(__u32 i, void *ctx)
{
	const struct frame_search *search = ctx;

	return !consider_caller(search->thread, i, search->ret_addr_sp);
}

/* 1 + the index of the frame that called the one at `ret_addr_sp`, or of the range around that
 * call; 0: none. The innermost frame may be on another stack, where it waits. */
__noinline int find_caller(struct thread *t, __u64 ret_addr_sp)
{
	struct frame_search search = {.thread = t, .ret_addr_sp = ret_addr_sp};

	if (!t)
		return 0;
	t->kept = 0;
	repeat(PERFX_MAX_DEPTH, caller_step, &search);
	return t->kept;
}

/*
 * Ends the frame of `function` at `ret_addr_sp` at `now`, on a thread that runs on several stacks:
 * there the order of addresses means nothing, and frames do not end in reverse order. Returns
 * whether there was one.
 */
__noinline int leave_any(struct thread *t, __u64 ret_addr_sp, __u64 now, __u32 function,
			 __u32 call_cost_ns)
{
	__u32 index = find_frame(t, ret_addr_sp, function);

	if (!t || !t->depth || !index)
		return 0;
	raise_frame(t, index - 1);
	end_frame(t, find_caller(t, ret_addr_sp), now, call_cost_ns, 0);
	return 1;
}

/* On such a thread, a stack slot is being reused, so the frame in that slot was left: unwinds it.
 */
__noinline int unwind_any(struct thread *t, __u64 ret_addr_sp)
{
	__u32 index = find_frame(t, ret_addr_sp, 0);

	if (!t || !t->depth || !index)
		return 0;
	index--;
	if ((frame_at(t, index)->entry & FRAME_BY_RETURN) && ret_addr_is_trampoline(ret_addr_sp))
		return 0;
	raise_frame(t, index);
	end_frame(t, find_caller(t, ret_addr_sp), 0, 0, PERFX_SPAN_UNWOUND);
	return 1;
}

/* Drops the oldest frame, for lack of room: abandoned coroutines leave frames behind. */
__noinline int evict_oldest(struct thread *t)
{
	if (!t || !t->depth)
		return 0;
	raise_frame(t, 0);
	end_frame(t, 0, 0, 0, PERFX_SPAN_UNWOUND);
	return 0;
}

/*
 * Returns whether the call that covers all costs is over. The frame of a call that an exception
 * left stays until its stack slot is reused, and until then no other call's cost would be counted.
 * If its return address is not in place any more, the call is over, or its stack is switched out
 * and it calls nothing now. (Checked only here: the kernel allows 512 bytes of stack for a whole
 * chain of calls.)
 */
__noinline int flops_owner_is_over(struct thread *t)
{
	const struct call_cost *call;
	__u64 value = 0;

	if (!t || !t->flops_owner)
		return 0;
	call = call_cost_at(t, t->flops_owner - 1);
	if (!call->ret_addr_sp ||
	    bpf_probe_read_user(&value, sizeof(value), (void *)call->ret_addr_sp) ||
	    value == call->back || ret_addr_is_trampoline(call->ret_addr_sp))
		return 0;
	return 1;
}

/* Saves the return address for flops_owner_is_over. */
static __always_inline void note_return_address(struct thread *t, __u64 ret_addr_sp)
{
	struct call_cost *call = call_cost_at(t, t->outcome.call_cost - 1);

	call->ret_addr_sp = 0;
	if (!has_many_stacks(t))
		return;
	if (!bpf_probe_read_user(&call->back, sizeof(call->back), (void *)ret_addr_sp))
		call->ret_addr_sp = ret_addr_sp;
}

/*
 * Ends the frame at `index` at `now`, even if frames lie above it. The time that the frame above
 * ran inside it is charged to it now, and not to the frame below when the upper one ends. kind: 0
 * or SPAN_OF_RANGE.
 */
static __always_inline int end_inside(struct thread *t, __u32 index, __u64 now, __u32 call_cost_ns,
				      __u16 kind)
{
	struct frame *f, *above;
	__u64 inside;

	if (!t || index >= t->depth || index >= PERFX_MAX_DEPTH)
		return 0;
	if (index + 1 < t->depth) {
		f = frame_at(t, index);
		above = frame_at(t, index + 1);
		if (now > above->start_ns + above->charged_ns) {
			inside = now - above->start_ns - above->charged_ns;
			f->child_ns += inside;
			above->charged_ns += inside;
		}
		raise_frame(t, index);
	}
	end_frame(t, index, now, call_cost_ns, kind);
	return 0;
}

__noinline int end_below(struct thread *t, __u32 index, __u64 now, __u32 call_cost_ns)
{
	return end_inside(t, index, now, call_cost_ns, 0);
}

/* As unwind_frame, for a frame with others above it. */
__noinline int unwind_below(struct thread *t, __u32 index)
{
	if (!t || index >= t->depth || index >= PERFX_MAX_DEPTH)
		return 0;
	if (index + 1 < t->depth)
		raise_frame(t, index);
	end_frame(t, index, 0, 0, PERFX_SPAN_UNWOUND);
	return 0;
}

static __always_inline bool is_range(const struct frame *f)
{
	return f->entry & FRAME_RANGE;
}

/* Keeps the frame below the t->kept innermost ones if it is a range, drops it if it is stale.
 * Returns whether it is either. */
__noinline int drop_or_pass(struct thread *t, __u64 ret_addr_sp)
{
	struct frame *f;

	if (!t || t->kept >= t->depth)
		return 0;
	f = frame_at(t, t->depth - 1 - t->kept);
	if (is_range(f))
		t->kept++;
	else if (is_stale(t, f, ret_addr_sp))
		unwind_below(t, t->depth - 1 - t->kept);
	else
		return 0;
	return 1;
}

static long drop_step(__u32 i, void *ctx)
{
	const struct frame_search *search = ctx;

	return !drop_or_pass(search->thread, search->ret_addr_sp);
}

/* Drops the frames that the program has left when it enters one at `ret_addr_sp`. Ranges above such
 * frames stay. */
__noinline int drop_stale(struct thread *t, __u64 ret_addr_sp)
{
	struct frame_search search = {.thread = t, .ret_addr_sp = ret_addr_sp};

	if (!t)
		return 0;
	t->kept = 0;
	repeat(PERFX_MAX_DEPTH, drop_step, &search);
	return 0;
}

/* As leave, with open ranges: a call that returns below a range ends, the range goes on. Returns
 * whether the call was there. */
static __always_inline bool leave_below_ranges(struct thread *t, __u64 ret_addr_sp, __u64 now,
					       __u32 function, __u32 call_cost_ns)
{
	__u32 index = find_frame(t, ret_addr_sp, function);

	if (!index)
		return t->depth >= PERFX_MAX_DEPTH; /* counted when it was entered */
	drop_stale(t, ret_addr_sp - 8);
	index = find_frame(t, ret_addr_sp, function);
	if (!index)
		return true;
	end_below(t, index - 1, now, call_cost_ns);
	end_readings(t);
	return true;
}

/* Drops frames that the program has left, before it enters one at `ret_addr_sp`. */
static __always_inline void drop_left_frames(struct thread *t, __u64 ret_addr_sp)
{
	if (!t->depth)
		return;
	if (has_many_stacks(t)) {
		unwind_any(t, ret_addr_sp);
		if (t->flops_owner && flops_owner_is_over(t))
			unwind_any(t, call_cost_at(t, t->flops_owner - 1)->ret_addr_sp);
		if (t->depth >= PERFX_MAX_DEPTH)
			evict_oldest(t);
	} else if (t->ranges || is_stale(t, frame_at(t, t->depth - 1), ret_addr_sp)) {
		drop_stale(t, ret_addr_sp);
	}
}

/* Sets t->outcome to the cost of a call that begins in `context`. */
static __always_inline void begin_call(struct thread *t, const struct perfx_probe *probe,
				       __u32 context, bool has_frame)
{
	t->call_context = context;
	t->outcome.state = PERFX_COST_NONE;
	t->outcome.call_cost = 0;
	if (probe->cost_program)
		begin_cost(t, probe->cost_program, has_frame);
	else if (probe->object_arg && t->object.function)
		begin_object(t, has_frame, probe->event_arg);
}

/* The operation that a call runs, recorded instead of its function; 0: none, or unknown. */
static __always_inline __u32 operation_of_call(struct thread *t, const struct perfx_probe *probe)
{
	if (!probe->object_arg)
		return 0;
	find_object(t->vm.arguments[probe->object_arg & 7], probe->function);
	return t->object.function;
}

/* Emits a call whose end no probe will see. */
static __always_inline void count_call(struct thread *t, const struct perfx_probe *probe,
				       __u32 callers)
{
	struct frame *f = instant_frame(t, probe->function);

	if (!(probe->flags & PERFX_PROBE_F_BY_CHOICE))
		counter_add(PERFX_COUNTER_UNTIMED_CALLS, 1);
	f->operation = operation_of_call(t, probe);
	f->context = context_of_run(t, f->operation, probe->function, callers);
	begin_call(t, probe, f->context, false);
	emit(t, f, 0, 0, PERFX_SPAN_UNTIMED);
}

/* perfx_flops(n): adds n operations to the innermost open call; without one, emits a record. */
static __always_inline void hint(struct thread *t, const struct perfx_probe *probe)
{
	struct frame *f = instant_frame(t, probe->function);
	struct outcome *outcome = &t->outcome;
	bool read;

	if (!probe->cost_program)
		return;
	/* the hint may be at any instruction of a function, even where the stack has only the
	 * return address */
	drop_left_frames(t, t->vm.ret_addr_sp - 8);
	start_cost_vm(t, NULL);
	read = !run_cost_program(t, probe->cost_program, 0);
	if (read && credit_hint(t))
		return;
	outcome->state = read ? PERFX_COST_COUNTED : PERFX_COST_UNREAD;
	outcome->flops = read ? t->vm.flops : 0;
	outcome->bytes = read ? t->vm.bytes : 0;
	outcome->dtype = t->vm.dtype;
	outcome->moves = outcome->submitted = 0;
	f->context = context_of_call(t, probe->function);
	emit(t, f, 0, 0, PERFX_SPAN_UNTIMED);
}

/* Returns whether a return probe ends the call of `function` at `ret_addr_sp`. */
static __always_inline bool ends_by_return(struct thread *t, __u64 ret_addr_sp, __u32 function)
{
	__u32 index = find_frame(t, ret_addr_sp, function);

	return index && (frame_at(t, index - 1)->entry & FRAME_BY_RETURN);
}

/* Enters a call. Returns whether a frame was opened, whose end must be seen. count_only: its end
 * cannot be seen. */
__noinline int enter(struct thread *t, const struct perfx_probe *probe, __u32 index,
		     __u64 ret_addr_sp, bool count_only)
{
	struct frame *f;
	__u32 context, operation, callers;
	bool by_return;

	if (!t || !probe)
		return 0;
	by_return = probe->kind == PERFX_PROBE_RETURN;
	if (t->depth && (probe->flags & PERFX_PROBE_F_REPEATS)) {
		f = frame_at(t, t->depth - 1);
		if (f->ret_addr_sp == ret_addr_sp && f->function == probe->function) {
			counter_add(PERFX_COUNTER_REPEATS, 1);
			return 0;
		}
	}
	if (!count_only)
		drop_left_frames(t, ret_addr_sp);
	callers = count_only ? 0 : has_many_stacks(t) ? find_caller(t, ret_addr_sp) : t->depth;
	if (t->device_call && (probe->flags & PERFX_PROBE_F_OUTERMOST)) {
		counter_add(PERFX_COUNTER_REPEATS, 1);
		if (by_return && !perfx_sessions)
			t->declined++;
		return 0;
	}
	if (count_only || probe->kind == PERFX_PROBE_COUNT || t->depth >= PERFX_MAX_DEPTH ||
	    (by_return && (t->returns >= RETURNS_MAX || return_probe_kills(ret_addr_sp)))) {
		count_call(t, probe, callers);
		/* a session link can skip the return; other links report it anyway */
		if (by_return && !perfx_sessions)
			t->declined++;
		else if (by_return && t->returns >= RETURNS_MAX)
			emit_declined(index);
		return 0;
	}
	operation = operation_of_call(t, probe);
	context = context_of_run(t, operation, probe->function, callers);
	begin_call(t, probe, context, true);
	if (t->outcome.call_cost)
		note_return_address(t, ret_addr_sp);
	f = frame_at(t, t->depth);
	f->ret_addr_sp = ret_addr_sp;
	f->cost_state = t->outcome.state;
	f->dtype = t->outcome.dtype;
	f->call_cost = t->outcome.call_cost;
	f->child_ns = 0;
	f->function = probe->function;
	f->operation = operation;
	f->context = context;
	f->entry = index | (by_return ? FRAME_BY_RETURN : 0);
	f->probe_ns = 0;
	f->child_function = 0;
	f->charged_ns = 0;
	f->perf = 0;
	f->object = 0;
	/* not with many stacks or goroutines: other calls of the thread run meanwhile */
	if (perfx_perf_enabled && (probe->flags & PERFX_PROBE_F_PERF) && !perfx_many_stacks &&
	    !t->goroutine)
		f->perf = begin_perf(t->depth);
	t->depth++;
	if (by_return)
		t->returns++;
	/* last, so that the work above is not in the span */
	start_clocks(t, f);
	return 1;
}

/* Unwinds the innermost frame if it was left before `function` at `ret_addr_sp`. Returns whether it
 * was. */
__noinline int unwind_deeper(struct thread *t, __u64 ret_addr_sp, __u32 function)
{
	struct frame *f;

	if (!t || !t->depth)
		return 0;
	f = frame_at(t, t->depth - 1);
	if (!is_left(t->signal_stack, f->ret_addr_sp, ret_addr_sp) ||
	    (f->ret_addr_sp == ret_addr_sp && f->function == function))
		return 0;
	return unwind_frame(t);
}

static long unwind_step(__u32 i, void *ctx)
{
	const struct frame_search *search = ctx;

	return !unwind_deeper(search->thread, search->ret_addr_sp, search->wanted);
}

/* As leave, for a frame that may not be the innermost one. */
static __always_inline int leave_deeper(struct thread *t, const struct perfx_probe *probe,
					__u64 ret_addr_sp, __u64 now)
{
	struct frame_search search = {.thread = t, .ret_addr_sp = ret_addr_sp};
	struct frame *f;

	if (t->ranges && !has_many_stacks(t) &&
	    leave_below_ranges(t, ret_addr_sp, now, probe->function, probe->call_cost_ns))
		return 0;
	/* the call has no frame: the frame at the same address is a tail call's caller, and stays
	 */
	if (probe->kind == PERFX_PROBE_RETURN && t->declined &&
	    !find_frame(t, ret_addr_sp, probe->function)) {
		t->declined--;
		return 0;
	}
	if (!t->ranges && !has_many_stacks(t)) {
		search.wanted = probe->function;
		repeat(PERFX_MAX_DEPTH, unwind_step, &search);
		f = frame_at(t, t->depth - 1);
		if (t->depth && f->ret_addr_sp == ret_addr_sp && f->function == probe->function) {
			end_frame(t, t->depth - 1, now, probe->call_cost_ns, 0);
			end_readings(t);
			return 0;
		}
		/* deeper than the deepest frame: counted when it was entered */
		if (t->depth >= PERFX_MAX_DEPTH && f->ret_addr_sp > ret_addr_sp)
			return 0;
	}
	if (probe->kind == PERFX_PROBE_RETURN && t->declined)
		t->declined--;
	else if (!(probe->flags & (PERFX_PROBE_F_BY_CHOICE | PERFX_PROBE_F_TAKES_OVER)))
		counter_add(PERFX_COUNTER_UNMATCHED_RETURNS, 1);
	return 0;
}

/* Leaves the call of `probe` at `ret_addr_sp`; unwinds deeper frames. */
__noinline int leave(struct thread *t, const struct perfx_probe *probe, __u64 ret_addr_sp,
		     __u64 now)
{
	struct frame *f;

	if (!t || !probe)
		return 0;
	f = frame_at(t, t->depth - 1);
	if (has_many_stacks(t)) {
		if (leave_any(t, ret_addr_sp, now, probe->function, probe->call_cost_ns))
			return 0;
	} else if (t->depth && f->ret_addr_sp == ret_addr_sp && f->function == probe->function) {
		end_frame(t, t->depth - 1, now, probe->call_cost_ns, 0);
		end_readings(t);
		return 0;
	}
	return leave_deeper(t, probe, ret_addr_sp, now);
}

#endif
