/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is counted during a call beside its time: perf events of the calling thread. Included by
 * spans.bpf.c alone.
 *
 * An event that is bound to a thread goes with it over processors and stands still while others
 * run, so that its difference between entry and exit is the call's own; one that is bound to a
 * processor would count what runs there. The kernel lets a program read an event of the current
 * thread from anywhere in a perf event array (perf_event_read_local): a thread has a slot in it, of
 * PERFX_PERF_EVENTS elements, given by user space. Sums are kept by calling context and never go
 * through the ring: a record costs as much as ever, and nothing is lost.
 */
#ifndef PERFX_PERF_COUNTERS_BPF_H
#define PERFX_PERF_COUNTERS_BPF_H

#include "output.bpf.h"

const volatile bool perfx_perf_enabled = false;
const volatile __u32 perfx_perf_events_count = 0;
const volatile struct perfx_perf_event perfx_perf_events[PERFX_PERF_EVENTS] = {};
/* The counter that counts floating-point operations; PERFX_PERF_COUNTERS: none does. */
const volatile __u32 perfx_perf_flops = PERFX_PERF_COUNTERS;

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1); /* user space makes it as large as it needs */
	__type(key, __u32);
	__type(value, __u32);
} perfx_perf_array SEC(".maps");

/* tid → 1 + slot */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PERFX_PERF_THREADS);
	__type(key, __u32);
	__type(value, __u32);
} perfx_perf_slots SEC(".maps");

/* By calling context. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* as perfx_contexts, where perf events are counted */
	__type(key, __u32);
	__type(value, struct perfx_perf_sums);
} perfx_perf_sums SEC(".maps");

struct reading {
	__u64 values[PERFX_PERF_COUNTERS];
	/* How long events waited for a counter of the processor, over all events: a call during
	 * which this grows was not counted all the time. */
	__u64 waited_ns;
};

struct perf_thread {
	__u32 slot; /* 1 + slot; 0: not known */
	__u32 pad;
	struct reading now;
	struct reading frames[PERFX_MAX_DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct perf_thread);
} perfx_perf_threads SEC(".maps");

static __always_inline bool read_event(struct perf_thread *m, __u32 i)
{
	struct bpf_perf_event_value value;
	__u32 at = (m->slot - 1) * PERFX_PERF_EVENTS + i;

	if (bpf_perf_event_read_value(&perfx_perf_array, at, &value, sizeof(value)))
		return false;
	m->now.values[perfx_perf_events[i].counter & (PERFX_PERF_COUNTERS - 1)] +=
		value.counter * perfx_perf_events[i].weight;
	m->now.waited_ns += value.enabled - value.running;
	return true;
}

/* The current thread's events → m->now. */
static __always_inline bool read_perf(struct perf_thread *m)
{
	__u32 tid = bpf_get_current_pid_tgid();
	__u32 *slot;

	if (!m->slot) {
		slot = bpf_map_lookup_elem(&perfx_perf_slots, &tid);
		if (!slot)
			return false;
		m->slot = *slot;
	}
	__builtin_memset(&m->now, 0, sizeof(m->now));
	for (__u32 i = 0; i < PERFX_PERF_EVENTS; i++) {
		if (i >= perfx_perf_events_count)
			break;
		if (!read_event(m, i)) {
			m->slot = 0; /* it has become another thread's */
			return false;
		}
	}
	return true;
}

/* A frame opens. Returns what it keeps as frame.counted. */
__noinline int begin_perf(__u32 depth)
{
	struct perf_thread *m;

	m = bpf_task_storage_get(&perfx_perf_threads, bpf_get_current_task_btf(), NULL,
				 BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!m || !read_perf(m))
		return PERF_MISSED;
	m->frames[depth & (PERFX_MAX_DEPTH - 1)] = m->now;
	return PERF_OPEN;
}

static __always_inline void add_perf(struct perfx_perf_sums *sums, const struct reading *then,
				     const struct reading *now, const struct outcome *outcome)
{
	__sync_fetch_and_add(&sums->calls_count, 1);
	for (int i = 0; i < PERFX_PERF_COUNTERS; i++)
		__sync_fetch_and_add(&sums->values[i], now->values[i] - then->values[i]);
	if (outcome->state != PERFX_COST_COUNTED || outcome->moves ||
	    perfx_perf_flops >= PERFX_PERF_COUNTERS)
		return;
	__sync_fetch_and_add(&sums->flops, outcome->flops);
	__sync_fetch_and_add(&sums->counted_flops,
			     now->values[perfx_perf_flops & (PERFX_PERF_COUNTERS - 1)] -
				     then->values[perfx_perf_flops & (PERFX_PERF_COUNTERS - 1)]);
}

/* A frame of the current thread returns; t->outcome is what it computed. */
__noinline int end_perf(struct thread *t, __u32 frame)
{
	struct perfx_perf_sums *sums;
	struct perf_thread *m;
	struct reading *then;
	struct frame *f;
	__u32 context;

	if (!t)
		return 0;
	f = frame_at(t, frame);
	context = f->context;
	sums = bpf_map_lookup_elem(&perfx_perf_sums, &context);
	if (!sums)
		return 0;
	m = bpf_task_storage_get(&perfx_perf_threads, bpf_get_current_task_btf(), NULL, 0);
	if (m && f->perf == PERF_OPEN && read_perf(m)) {
		then = &m->frames[frame & (PERFX_MAX_DEPTH - 1)];
		if (m->now.waited_ns == then->waited_ns) {
			add_perf(sums, then, &m->now, &t->outcome);
			return 0;
		}
	}
	__sync_fetch_and_add(&sums->missed_count, 1);
	return 0;
}

#endif
