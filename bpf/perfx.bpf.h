/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What all BPF programs share: configuration, maps, per-thread state. The maps are weak, so that
 * objects linked together (bpftool gen object) have one of each.
 *
 * Programs of uprobe_multi links are preemptible: state of a thread lives in task storage, never in
 * per-CPU scratch, and per-CPU counters are added to atomically.
 */
#ifndef PERFX_BPF_H
#define PERFX_BPF_H

#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "perfx_config.h"
#include "perfx_record.h"

/* On while the capture lasts: probes are attached before and detached after. */
extern volatile __u32 perfx_tracing;
/* --wait: the program says when it is recorded (recording_window.bpf.h). */
extern volatile __u32 perfx_waiting;

/* Next free indices. User space sets the first process indices before it starts. */
extern volatile __u32 perfx_next_process;
extern volatile __u32 perfx_next_context;
extern volatile __u32 perfx_next_function;

/* Wake the reader when this much is waiting in a ring; it also drains by the clock. */
extern const volatile __u32 perfx_wake_bytes;
/* Return probes are made by session links. */
extern const volatile bool perfx_sessions;

/* How many rings a kind of records has, less one: a power of two, less one. */
extern const volatile __u32 perfx_rings_mask;

/* A producer holds the lock of a ring while it reserves: with one ring for all, threads on many
 * CPUs wait for each other. A thread's records all go by the same one, so they keep their order;
 * the reader brings those of different threads together by time. */
struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* user space: --ring-size */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PERFX_MAX_RINGS);
	__type(key, __u32);
	__array(values, struct ring);
} perfx_spans __weak SEC(".maps");

/* The ring of a thread. Threads of a pool are numbered one after the other, and so share as few as
 * can be. */
static __always_inline void *ring_of(void *rings, __u32 tid)
{
	__u32 index = tid & perfx_rings_mask & (PERFX_MAX_RINGS - 1);

	return bpf_map_lookup_elem(rings, &index);
}

/* Process events have a ring of their own, which spans cannot fill. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 << 10);
} perfx_control __weak SEC(".maps");

/* The traced processes. Kept in the kernel at fork, so that children are exact from their
 * first instruction. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PERFX_MAX_PROCESSES);
	__type(key, __u32); /* tgid */
	__type(value, struct perfx_traced_process);
} perfx_traced_tgids __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* user space makes it as large as it needs */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct perfx_probe);
} perfx_probes __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PERFX_MAX_GATES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} perfx_gates __weak SEC(".maps");

/* Hits by threads of traced processes, per probe. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* as perfx_probes */
	__type(key, __u32);
	__type(value, __u64);
} perfx_hits __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PERFX_COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} perfx_counters __weak SEC(".maps");

static __always_inline void counter_add(enum perfx_counter which, __u64 n)
{
	__u32 key = which;
	__u64 *count = bpf_map_lookup_elem(&perfx_counters, &key);

	if (count)
		__sync_fetch_and_add(count, n);
}

static __always_inline struct perfx_probe *probe_of(__u32 index)
{
	return bpf_map_lookup_elem(&perfx_probes, &index);
}

/* Is all that belongs together attached? Then *index is the probe's. */
static __always_inline bool gate_open(void *ctx, __u32 *index)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 gate = cookie >> PERFX_COOKIE_GATE_SHIFT, place = gate & (PERFX_MAX_GATES - 1);
	volatile __u64 *number = bpf_map_lookup_elem(&perfx_gates, &place);

	*index = (__u32)cookie;
	return number && *number == gate;
}

static __always_inline void count_hit(__u32 index)
{
	__u64 *hits = bpf_map_lookup_elem(&perfx_hits, &index);

	if (hits)
		__sync_fetch_and_add(hits, 1);
}

/* Reader's wake-up: asked for at every 32nd record of a thread. */
static __always_inline __u64 wake_flags(void *ring, __u32 *records)
{
	if (++*records & 31)
		return BPF_RB_NO_WAKEUP;
	if (bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) < perfx_wake_bytes)
		return BPF_RB_NO_WAKEUP;
	return BPF_RB_FORCE_WAKEUP;
}

static __always_inline __u32 current_tgid(void)
{
	return bpf_get_current_pid_tgid() >> 32;
}

#endif
