/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A thread's open calls, as spans.bpf.c keeps them and memory.bpf.c reads them.
 */
#ifndef PERFX_THREAD_BPF_H
#define PERFX_THREAD_BPF_H

#include "perfx.bpf.h"

/* The program switches stacks in user space (coroutines): see leave_any. */
extern volatile __u32 perfx_many_stacks;

/* In frame.entry, beside the index of the probe that opened it: a return probe ends it. */
#define FRAME_BY_RETURN 0x80000000u

struct frame {
	__u64 start_ns;
	__u64 slot;	/* address of its return address */
	__u64 child_ns; /* in traced calls that it made */
	__u32 function;
	__u32 context;
	__u32 entry;
	__u32 probe_ns; /* cost of probes hit inside, itself excluded */
	/* the child called last: saves the hash look-up in loops */
	__u32 child_function, child_context;
};

struct thread {
	__u32 process;
	__u32 tid;
	__u32 depth;
	__u32 returns;	/* open frames that wait for a return probe */
	__u32 declined; /* return probes that will fire though no frame was opened for them */
	__u32 records;
	__u32 root_function, root_context; /* as frame.child_*, at depth 0 */
	struct frame frames[PERFX_MAX_DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} perfx_threads __weak SEC(".maps");

/* Two frames further apart than any usual stack is large are on different stacks (a signal stack, a
 * coroutine): their order says nothing. */
#define STACK_SPAN_BYTES (64ULL << 20)

static __always_inline struct frame *frame_at(struct thread *t, __u32 index)
{
	return &t->frames[index & (PERFX_MAX_DEPTH - 1)];
}

#endif
