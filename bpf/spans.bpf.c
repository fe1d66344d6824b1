// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Spans: one record per ended call, with its self time and its calling context. This file
 * interprets probe hits; frames.bpf.h updates the thread's open calls.
 */
#include "ranges.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* A function that is a single jump: its call ends at its entry. */
static __always_inline bool leaves_at_entry(struct pt_regs *ctx, const struct perfx_probe *probe)
{
	if (probe->flags & PERFX_PROBE_F_LEAVES)
		return true;
	return (probe->flags & PERFX_PROBE_F_LEAVES_IF) && condition_holds(ctx, probe->condition);
}

static __always_inline void hint_hit(struct pt_regs *ctx, const struct perfx_probe *probe,
				     __u32 index)
{
	struct thread *t = thread_find(probe, false);

	if (!t)
		return;
	count_hit(index);
	save_arguments(t, ctx);
	hint(t, probe);
	if (t->new_context)
		follow_first_call(t, PT_REGS_IP(ctx), PT_REGS_SP(ctx), PT_REGS_FP(ctx),
				  PERFX_STACK_PC);
}

/* A hit after the end of the recording, before the probes are removed: calls that were open at the
 * end may return now, so perfx_at_end must not compare them with the thread's stack. */
static __always_inline void hit_after_end(void)
{
	struct thread *t;

	if (!perfx_ending)
		return;
	t = bpf_task_storage_get(&perfx_threads, bpf_get_current_task_btf(), NULL, 0);
	if (t)
		t->depth = 0;
}

/* A hit at an entry or exit site. Returns whether a frame was opened that a return probe ends. */
static __always_inline bool hit(struct pt_regs *ctx)
{
	struct perfx_probe *probe;
	__u32 index;
	__u64 now = 0, ret_addr_sp, sp = PT_REGS_SP(ctx), fp = PT_REGS_FP(ctx), bias = 0;
	struct thread *t;
	bool opened, leaves;

	if (!is_recording()) {
		hit_after_end();
		return false;
	}
	if (!gate_open(ctx, &index))
		return false;
	probe = probe_of(index);
	if (!probe || probe->kind == PERFX_PROBE_INVALID)
		return false;
	if (probe->kind < PERFX_PROBE_EXIT) {
		t = calls_at(ctx, probe, probe, false, &bias);
		if (!t)
			return false;
		count_hit(index);
		if (probe->cost_program || probe->object_arg)
			save_arguments(t, ctx);
		opened = enter(t, probe, index, sp + bias, bias && !t->goroutine);
		if (t->new_context)
			follow_first_call(t, read_word(sp), sp + 8, fp, 0);
		if (opened && leaves_at_entry(ctx, probe)) {
			leave(t, probe, sp + bias, bpf_ktime_get_ns());
			return false;
		}
		/* from the frame: the probe's kind may have changed meanwhile */
		return opened && (frame_at(t, t->depth - 1)->entry & FRAME_BY_RETURN);
	}
	if (probe->kind == PERFX_PROBE_HINT) {
		hint_hit(ctx, probe, index);
		return false;
	}
	leaves = probe->kind == PERFX_PROBE_EXIT || condition_holds(ctx, probe->condition);
	if (leaves)
		now = bpf_ktime_get_ns();
	t = calls_at(ctx, probe, NULL, leaves, &bias);
	if (!t)
		return false;
	count_hit(index);
	if (!leaves)
		return false;
	save_result(t, ctx);
	/* read above: the verifier refuses a computed offset into ctx */
	barrier_var(sp);
	barrier_var(fp);
	ret_addr_sp = (probe->cfa_is_fp ? fp : sp) + bias + (__s64)probe->cfa_offset - 8;
	if (!(probe->flags & PERFX_PROBE_F_TAKES_OVER) ||
	    !ends_by_return(t, ret_addr_sp, probe->function))
		leave(t, probe, ret_addr_sp, now);
	if (t->goroutine && !t->depth && perfx_goroutines_count > GOROUTINES_KEPT)
		goroutine_forget(&(struct goroutine_key){.g = t->goroutine, .process = t->process});
	return false;
}

/* A return probe fired: the return address has been popped. */
static __always_inline void returned(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	struct perfx_probe *probe;
	struct thread *t;
	__u32 index;

	if (!is_recording()) {
		hit_after_end();
		return;
	}
	if (!gate_open(ctx, &index))
		return;
	probe = probe_of(index);
	t = thread_find(NULL, true);
	if (!probe || !t)
		return;
	save_result(t, ctx);
	leave(t, probe, PT_REGS_SP(ctx) - 8, now);
}

/* Entry and exit sites, and entries of functions whose return probe has a link of its own. */
SEC("uprobe")
int perfx_on_hit(struct pt_regs *ctx)
{
	stay_on_thread_stack(ctx);
	hit(ctx);
	return 0;
}

SEC("uprobe")
int perfx_on_return(struct pt_regs *ctx)
{
	stay_on_thread_stack(ctx);
	returned(ctx);
	return 0;
}

/* Entries and exits of functions that mark ranges. Loaded as a sleepable program if
 * perfx_annotations_sleep. */
SEC("uprobe")
int perfx_on_mark(struct pt_regs *ctx)
{
	struct perfx_probe *probe;
	struct perfx_annotation *annotation;
	__u32 index;

	stay_on_thread_stack(ctx);
	if (!perfx_tracing || !gate_open(ctx, &index))
		return 0;
	probe = probe_of(index);
	annotation = probe ? mark_of(probe) : NULL;
	if (!annotation || turn_recording(probe, annotation, index) || !is_recording())
		return 0;
	if (probe->kind == PERFX_PROBE_ANNOTATION)
		annotation_entered(ctx, probe, annotation, index);
	else if (probe->kind == PERFX_PROBE_ANNOTATION_EXIT)
		annotation_left(ctx, probe, annotation, index);
	return 0;
}

/* A session link calls one program at entry and return; a result of 1 at entry skips the return. So
 * a probe that becomes one of kind ENTRY need not be attached again. At entry the instruction
 * pointer is the probed address; the kfunc that tells both apart has changed its prototype between
 * kernels. */
SEC("uprobe")
int perfx_on_session(struct pt_regs *ctx)
{
	stay_on_thread_stack(ctx);
	if (PT_REGS_IP(ctx) != bpf_get_func_ip(ctx)) {
		returned(ctx);
		return 0;
	}
	return !hit(ctx);
}

/*
 * A thread ends. pthread_exit or cancellation left its open frames; if the whole process ends,
 * frames above the stack pointer are calls that never ended, and those below it had been unwound
 * before. Ranges that the program did not end stay without an end.
 */
#define SIGNAL_GROUP_EXIT 0x4

/* The user stack pointer at the task's last entry into the kernel. */
static __always_inline __u64 stack_pointer_of(struct task_struct *task)
{
	return ((struct pt_regs *)bpf_task_pt_regs(task))->sp;
}

/* Drops the innermost frame. sp: stack pointer if the whole process ends; 0: only this thread ends.
 * Returns whether a frame was dropped. */
__noinline int drop_at_exit(struct thread *t, __u64 sp)
{
	struct frame *f;

	if (!t || !t->depth)
		return 0;
	f = frame_at(t, t->depth - 1);
	if (sp && (perfx_many_stacks || !is_stale(t, f, sp - 1)))
		return 0;
	if (!is_range(f))
		return unwind_frame(t);
	t->depth--;
	return 1;
}

struct leaving {
	struct thread *thread;
	__u64 sp;
};

static long drop_at_exit_step(__u32 i, void *ctx)
{
	const struct leaving *leaving = ctx;

	return !drop_at_exit(leaving->thread, leaving->sp);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(perfx_on_thread_exit, struct task_struct *task)
{
	struct leaving leaving = {.thread = bpf_task_storage_get(&perfx_threads, task, NULL, 0)};

	if (!leaving.thread || !is_recording() ||
	    leaving.thread->recording_window != current_recording_window())
		return 0;
	if (BPF_CORE_READ(task, signal, flags) & SIGNAL_GROUP_EXIT)
		leaving.sp = stack_pointer_of(task);
	repeat(PERFX_MAX_DEPTH, drop_at_exit_step, &leaving);
	return 0;
}

/* At the end of the recording: drops calls that a thread left without passing an exit, which are
 * not running any more. Ranges stay open. */
SEC("iter/task")
int perfx_at_end(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *t = task ? bpf_task_storage_get(&perfx_threads, task, NULL, 0) : NULL;

	if (t && !perfx_many_stacks && is_wanted() &&
	    t->recording_window == current_recording_window())
		drop_stale(t, stack_pointer_of(task) - 1);
	return 0;
}

/* exec: no frame of the old image can end. process.bpf.c assigns the new process index, which a
 * thread reads at its first hit. The kernel refuses to delete storage while a preempted program on
 * this CPU uses it; then the storage is reused. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(perfx_on_exec_thread, struct task_struct *task)
{
	struct python_thread *python;
	struct thread *t;

	if (bpf_task_storage_delete(&perfx_threads, task)) {
		t = bpf_task_storage_get(&perfx_threads, task, NULL, 0);
		if (t) {
			t->process = t->depth = t->ranges = 0;
			t->root_function = t->root_context = 0;
			t->goroutine = 0;
		}
	}
	if (bpf_task_storage_delete(&perfx_python_threads, task)) {
		python = bpf_task_storage_get(&perfx_python_threads, task, NULL, 0);
		if (python) {
			python->state = python->layout.version = 0;
			python->count = 0;
		}
	}
	return 0;
}
