/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time off the CPU, as bpf/waiting.bpf.c sums it: its programs, which run from the start of a
 * recording to its end, and its tables, which are mapped here.
 */
#ifndef PERFX_ATTACH_WAITING_H
#define PERFX_ATTACH_WAITING_H

#include "perfx_config.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct perfx_bpf;
struct waiting;

/* Before the programs are loaded: whether those of waiting are, and whether their maps have room.
 * timeline: they write SLICE records. cpus_count: that the machine may have. */
void waiting_open(struct perfx_bpf *skel, bool wanted, bool timeline, unsigned cpus_count);

/* The skeleton is borrowed. NULL with errno. */
struct waiting *waiting__new(struct perfx_bpf *skel);
void waiting__free(struct waiting *waiting);

/* Threads that wait already are counted from a time on; from_ns 0: they are not, as the tracer
 * holds the program that it has started. 0 or -errno. */
int waiting__start(struct waiting *waiting, uint64_t from_ns);
/* Emits the slices that go on. */
void waiting__stop(struct waiting *waiting);
/* No SLICE records from now on: the slices that go on are emitted first. */
void waiting__stop_timeline(struct waiting *waiting);
bool waiting__has_timeline(const struct waiting *waiting);
/* Stops for good before the recording does: waits that are open now are not followed. */
void waiting__give_up(struct waiting *waiting);

/* Waits of a thread that are alike, since the last time. count is 0 where one goes on. */
struct waited {
	const struct perfx_wait *wait;
	uint64_t blocked_ns, count, max_ns;
	uint32_t waker_tid; /* as in struct perfx_wait_sum */
};
typedef void waited_fn(void *ctx, const struct waited *waited);

/* Takes what has been added to the sums, and of waits that go on the time up to until_ns. ended: to
 * that time they count as whole ones, because the recording ends there. */
void waiting__drain(struct waiting *waiting, uint64_t until_ns, bool ended, waited_fn *visit,
		    void *ctx);
/* Places among the sums of threads that have ended, which are free after the next time. */
size_t waiting__retired_count(const struct waiting *waiting);
/* All there are, with what they have now. */
void waiting__each(const struct waiting *waiting, waited_fn *visit, void *ctx);

#endif
