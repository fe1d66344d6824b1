/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the sums of an epoch's profile have grown by since they were looked at last. Sums of a key
 * are so many integers as the table is wide; PROFILE_ABSENT counts as 0.
 */
#ifndef PERFX_LIVE_GROWTH_H
#define PERFX_LIVE_GROWTH_H

#include "aggregate/profile.h"
#include "base/emitted.h"
#include "live/live.h"

#include <stdbool.h>
#include <stdint.h>

#define GROWTH_ROW_WIDTH     (sizeof(struct live_sums) / sizeof(uint64_t))
#define GROWTH_LINE_WIDTH    3
#define GROWTH_WAIT_WIDTH    2
#define GROWTH_THREAD_WIDTH  4
#define GROWTH_PROCESS_WIDTH 5
#define GROWTH_REASON_WIDTH  2
#define GROWTH_DOMAIN_WIDTH  2

/* Of one epoch. */
struct growth {
	struct emitted rows, lines, waits, threads, processes, reasons, domains;
	uint64_t losses[PERFX_LOSS_KINDS], hits_count;
	double overhead_ns;
};

void growth_init(struct growth *growth);
void growth_clear(struct growth *growth);

/* Makes the sums what they have grown by; what has become less, because a sample was named anew, is
 * 0. 1: something has grown, 0, or -ENOMEM. */
int grown(struct emitted *table, uint64_t key, void *sums);
/* Likewise of one; *before: when it was looked at last. */
uint64_t grown_by(uint64_t *before, uint64_t now);

#endif
