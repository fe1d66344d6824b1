/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state of the thread that a hit is of. Included by frames.bpf.h alone.
 */
#ifndef PERFX_CURRENT_BPF_H
#define PERFX_CURRENT_BPF_H

#include "cost.bpf.h"

/* A thread that was met in an earlier window: what was open then is not. */
__noinline int renew_thread(struct thread *t)
{
	struct perfx_traced_process *traced = current_process();
	__u32 recording_window = current_recording_window();

	if (!t)
		return 0;
	t->recording_window = recording_window;
	t->depth = t->ranges = t->skipped = 0;
	t->returns = t->declined = 0;
	t->flops_owner = t->transfer_owner = t->call_costs_taken = 0;
	t->start_function = 0;
	if (traced && __sync_lock_test_and_set(&traced->recording_window, recording_window) !=
			      recording_window)
		traced->open_operators = 0;
	return 0;
}

/* The current thread, if its process is traced. Without its state, one that `leaves` a call entered
 * it before tracing began. */
static __always_inline struct thread *thread_find(bool create, bool leaves)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct perfx_traced_process *traced;
	struct thread *t;
	__u32 tgid;

	t = bpf_task_storage_get(&perfx_threads, task, NULL, 0);
	if (t) {
		if (t->recording_window != current_recording_window())
			renew_thread(t);
		note_signal_stack(t, task);
		return t;
	}
	tgid = current_tgid();
	traced = bpf_map_lookup_elem(&perfx_traced_tgids, &tgid);
	if (!traced || traced->dead) {
		counter_add(PERFX_COUNTER_FOREIGN_HITS, 1);
		return NULL;
	}
	if (!create) {
		if (leaves)
			counter_add(PERFX_COUNTER_UNMATCHED_RETURNS, 1);
		return NULL;
	}
	t = bpf_task_storage_get(&perfx_threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t) {
		counter_add(PERFX_COUNTER_MAP_FULL, 1);
		return NULL;
	}
	t->process = traced->process;
	t->tid = task->pid;
	renew_thread(t);
	note_signal_stack(t, task);
	return t;
}

#endif
