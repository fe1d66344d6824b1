/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is counted during a call beside its time: perf events of the calling thread. Included by
 * spans.bpf.c alone.
 *
 * An event that is bound to a thread goes with it over processors and stands still while others
 * run, so that its difference between entry and exit is the call's own; one that is bound to a
 * processor would count whoever runs there. The kernel lets a program read an event of the current
 * thread from anywhere in a perf event array (perf_event_read_local): a thread has a slot in it, of
 * PERFX_METER_EVENTS elements, given by user space. Sums are kept by calling context and never go
 * through the ring: a record costs as much as ever, and nothing is lost.
 */
#ifndef PERFX_METERS_BPF_H
#define PERFX_METERS_BPF_H

#include "tell.bpf.h"

const volatile bool perfx_metering = false;
const volatile __u32 perfx_meter_events_count = 0;
const volatile struct perfx_meter_event perfx_meter_events[PERFX_METER_EVENTS] = {};
/* The meter that counts floating-point operations; PERFX_METERS: none does. */
const volatile __u32 perfx_meter_flops = PERFX_METERS;

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1); /* user space makes it as large as it needs */
	__type(key, __u32);
	__type(value, __u32);
} perfx_meter_array SEC(".maps");

/* tid → 1 + slot */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PERFX_METER_THREADS);
	__type(key, __u32);
	__type(value, __u32);
} perfx_meter_threads SEC(".maps");

/* By calling context. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* as perfx_contexts, where something is metered */
	__type(key, __u32);
	__type(value, struct perfx_meter_sums);
} perfx_meter_sums SEC(".maps");

struct reading {
	__u64 values[PERFX_METERS];
	/* How long events waited for a counter of the processor, over all events: a call during
	 * which this grows was not counted all the time. */
	__u64 waited_ns;
};

struct metered_thread {
	__u32 slot; /* 1 + slot; 0: not known */
	__u32 pad;
	struct reading now;
	struct reading frames[PERFX_MAX_DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct metered_thread);
} perfx_metered_threads SEC(".maps");

static __always_inline bool read_event(struct metered_thread *m, __u32 i)
{
	struct bpf_perf_event_value value;
	__u32 at = (m->slot - 1) * PERFX_METER_EVENTS + i;

	if (bpf_perf_event_read_value(&perfx_meter_array, at, &value, sizeof(value)))
		return false;
	m->now.values[perfx_meter_events[i].meter & (PERFX_METERS - 1)] +=
		value.counter * perfx_meter_events[i].weight;
	m->now.waited_ns += value.enabled - value.running;
	return true;
}

/* The current thread's events → m->now. */
static __always_inline bool read_meters(struct metered_thread *m)
{
	__u32 tid = bpf_get_current_pid_tgid();
	__u32 *slot;

	if (!m->slot) {
		slot = bpf_map_lookup_elem(&perfx_meter_threads, &tid);
		if (!slot)
			return false;
		m->slot = *slot;
	}
	__builtin_memset(&m->now, 0, sizeof(m->now));
	for (__u32 i = 0; i < PERFX_METER_EVENTS; i++) {
		if (i >= perfx_meter_events_count)
			break;
		if (!read_event(m, i)) {
			m->slot = 0; /* it has become another thread's */
			return false;
		}
	}
	return true;
}

/* A frame opens. Returns what it keeps as frame.metered. */
__noinline int begin_meters(__u32 depth)
{
	struct metered_thread *m;

	m = bpf_task_storage_get(&perfx_metered_threads, bpf_get_current_task_btf(), NULL,
				 BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!m || !read_meters(m))
		return METERED_MISSED;
	m->frames[depth & (PERFX_MAX_DEPTH - 1)] = m->now;
	return METERED_OPEN;
}

static __always_inline void add_meters(struct perfx_meter_sums *sums, const struct reading *then,
				       const struct reading *now, const struct outcome *outcome)
{
	__sync_fetch_and_add(&sums->calls_count, 1);
	for (int i = 0; i < PERFX_METERS; i++)
		__sync_fetch_and_add(&sums->values[i], now->values[i] - then->values[i]);
	if (outcome->state != PERFX_FIGURE_COUNTED || outcome->moves ||
	    perfx_meter_flops >= PERFX_METERS)
		return;
	__sync_fetch_and_add(&sums->flops, outcome->flops);
	__sync_fetch_and_add(&sums->counted_flops,
			     now->values[perfx_meter_flops & (PERFX_METERS - 1)] -
				     then->values[perfx_meter_flops & (PERFX_METERS - 1)]);
}

/* A frame of the current thread returns; t->outcome is what it computed. */
__noinline int end_meters(struct thread *t, __u32 frame)
{
	struct perfx_meter_sums *sums;
	struct metered_thread *m;
	struct reading *then;
	struct frame *f;
	__u32 context;

	if (!t)
		return 0;
	f = frame_at(t, frame);
	context = f->context;
	sums = bpf_map_lookup_elem(&perfx_meter_sums, &context);
	if (!sums)
		return 0;
	m = bpf_task_storage_get(&perfx_metered_threads, bpf_get_current_task_btf(), NULL, 0);
	if (m && f->metered == METERED_OPEN && read_meters(m)) {
		then = &m->frames[frame & (PERFX_MAX_DEPTH - 1)];
		if (m->now.waited_ns == then->waited_ns) {
			add_meters(sums, then, &m->now, &t->outcome);
			return 0;
		}
	}
	__sync_fetch_and_add(&sums->missed_count, 1);
	return 0;
}

#endif
