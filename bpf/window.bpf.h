/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a waiting tracer records (--wait): from perfx_trace_start to perfx_trace_stop, and again. It
 * is recorded while at least one process of the family has said so. The tracer turns nothing on or
 * off itself, so what follows the marker is recorded from the next instruction on.
 *
 * What was open when a window closed is not known to have gone on: a thread that is met in a later
 * one begins anew, as if it had just been attached to.
 */
#ifndef PERFX_WINDOW_BPF_H
#define PERFX_WINDOW_BPF_H

#include "perfx.bpf.h"

/* Number of the window that is open, or was last; without --wait it stays 0. */
extern volatile __u32 perfx_window;
extern volatile __u32 perfx_windows_open; /* processes that have said so */

static __always_inline void tell_window(const struct perfx_family *family, __u32 flags)
{
	struct perfx_window *record = bpf_ringbuf_reserve(&perfx_control, sizeof(*record), 0);

	if (!record) {
		counter_add(PERFX_COUNTER_CONTROL_DROPS, 1);
		return;
	}
	record->hdr.size = sizeof(*record);
	record->hdr.kind = PERFX_KIND_WINDOW;
	record->hdr.fixed = sizeof(*record);
	record->time_ns = bpf_ktime_get_ns();
	record->process = family->process;
	record->pid = current_tgid();
	record->flags = flags;
	record->pad = 0;
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

static __always_inline void window_open(struct perfx_family *family)
{
	if (__sync_lock_test_and_set(&family->recording, 1) ||
	    __sync_fetch_and_add(&perfx_windows_open, 1))
		return;
	__sync_fetch_and_add(&perfx_window, 1);
	/* told first: before whatever is recorded */
	tell_window(family, PERFX_WINDOW_OPENS);
	perfx_tracing = 1;
}

/* Also when the process ends, or becomes another program. */
static __always_inline void window_close(struct perfx_family *family)
{
	if (!family->recording || !__sync_lock_test_and_set(&family->recording, 0) ||
	    __sync_fetch_and_add(&perfx_windows_open, -1) != 1)
		return;
	perfx_tracing = 0;
	tell_window(family, 0);
}

#endif
