/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a waiting tracer records (--wait): from perfx_trace_start to perfx_trace_stop, and again. It
 * is recorded while at least one traced process has said so. The tracer turns nothing on or
 * off itself, so what follows the marker is recorded from the next instruction on.
 *
 * What was open when a window closed is not known to have gone on: a thread that is met in a later
 * one begins anew, as if it had just been attached to.
 */
#ifndef PERFX_RECORDING_WINDOW_BPF_H
#define PERFX_RECORDING_WINDOW_BPF_H

#include "perfx.bpf.h"

/* Whose start and stop count: one word, so that there is no moment between the first open window
 * and its number. Low half: processes that have said start and not stop, high half: the window's
 * number; without --wait both stay 0. */
extern volatile __u64 perfx_recording_windows;
#define RECORDING_WINDOW_NUMBER(windows) ((__u32)((windows) >> 32))
#define RECORDING_WINDOW_OPEN(windows)	 ((__u32)(windows))

/* Each failure is another thread's success: there are not so many at once. */
#define WINDOW_TRIES 64

/* Number of the window that is open, or was last. */
static __always_inline __u32 current_recording_window(void)
{
	return RECORDING_WINDOW_NUMBER(perfx_recording_windows);
}

static __always_inline bool is_wanted(void)
{
	return !perfx_waiting || RECORDING_WINDOW_OPEN(perfx_recording_windows);
}

static __always_inline bool is_recording(void)
{
	return perfx_tracing && is_wanted();
}

static __always_inline void emit_recording_window(const struct perfx_traced_process *traced,
						  __u64 time_ns, __u32 flags)
{
	struct perfx_recording_window *record =
		bpf_ringbuf_reserve(&perfx_control, sizeof(*record), 0);

	if (!record) {
		counter_add(PERFX_COUNTER_CONTROL_DROPS, 1);
		return;
	}
	record->hdr.size = sizeof(*record);
	record->hdr.kind = PERFX_KIND_RECORDING_WINDOW;
	record->hdr.fixed = sizeof(*record);
	record->time_ns = time_ns;
	record->process = traced->process;
	record->pid = current_tgid();
	record->flags = flags;
	record->pad = 0;
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

/* One process more or less. The record of a window that ends may come after that of the next one,
 * but not its time, which is taken before the exchange. */
static __always_inline void recording_windows_add(const struct perfx_traced_process *traced,
						  __s32 n)
{
	__u64 before, after, time_ns;
	__u32 open;

	for (int i = 0; i < WINDOW_TRIES; i++) {
		before = perfx_recording_windows;
		time_ns = bpf_ktime_get_ns();
		open = RECORDING_WINDOW_OPEN(before) + n;
		after = (__u64)(RECORDING_WINDOW_NUMBER(before) + (n > 0 && open == 1)) << 32 |
			open;
		if (__sync_val_compare_and_swap(&perfx_recording_windows, before, after) != before)
			continue;
		if (n > 0 && open == 1)
			emit_recording_window(traced, time_ns, PERFX_RECORDING_WINDOW_OPENS);
		else if (n < 0 && open == 0)
			emit_recording_window(traced, time_ns, 0);
		return;
	}
	counter_add(PERFX_COUNTER_CONTROL_DROPS, 1);
}

/* The process is counted before it is marked, and the other way round at its end: whoever finds the
 * mark records. */
static __always_inline void recording_window_open(struct perfx_traced_process *traced)
{
	if (traced->recording)
		return;
	recording_windows_add(traced, 1);
	if (__sync_lock_test_and_set(&traced->recording, 1))
		recording_windows_add(traced, -1);
}

/* Also when the process ends, or becomes another program. */
static __always_inline void recording_window_close(struct perfx_traced_process *traced)
{
	if (traced->recording && __sync_lock_test_and_set(&traced->recording, 0))
		recording_windows_add(traced, -1);
}

#endif
