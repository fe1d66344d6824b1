/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state of the thread that a hit is of. Included by frames.bpf.h alone.
 */
#ifndef PERFX_CURRENT_BPF_H
#define PERFX_CURRENT_BPF_H

#include "figures.bpf.h"

/* A thread that was met in an earlier window: what was open then is not. */
__noinline int renew_thread(struct thread *t)
{
	struct perfx_family *family = current_family();
	__u32 window = current_window();

	if (!t)
		return 0;
	t->window = window;
	t->depth = t->ranges = t->skipped = 0;
	t->returns = t->declined = 0;
	t->silencer = t->mover = t->works_taken = 0;
	t->start_function = 0;
	if (family && __sync_lock_test_and_set(&family->window, window) != window)
		family->open_figures = 0;
	return 0;
}

/* The current thread, if its process is traced. Without its state, one that `leaves` a call entered
 * it before tracing began. */
static __always_inline struct thread *thread_find(bool create, bool leaves)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct perfx_family *family;
	struct thread *t;
	__u32 tgid;

	t = bpf_task_storage_get(&perfx_threads, task, NULL, 0);
	if (t) {
		if (t->window != current_window())
			renew_thread(t);
		note_signal_stack(t, task);
		return t;
	}
	tgid = current_tgid();
	family = bpf_map_lookup_elem(&perfx_families, &tgid);
	if (!family || family->dead) {
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
	t->process = family->process;
	t->tid = task->pid;
	renew_thread(t);
	note_signal_stack(t, task);
	return t;
}

#endif
