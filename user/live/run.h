/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sums of the whole run: they take what each epoch's profile has grown by. Functions are kept by
 * name and file, for their numbers and those of processes are given again.
 *
 * Memory: LIVE_FUNCTIONS_MAX functions; 2 KB for each process of this epoch and the one before, and
 * up to 15 KB for its history.
 */
#ifndef PERFX_LIVE_RUN_H
#define PERFX_LIVE_RUN_H

#include "aggregate/profile.h"
#include "base/emitted.h"
#include "base/grow.h"
#include "live/live.h"

/* Growth of the sums of an epoch's profile since the last snapshot: for each key as many integers
 * as its table is wide. */
enum growth_table {
	GROWTH_ROWS,
	GROWTH_LINES,
	GROWTH_WAITS,
	GROWTH_THREADS,
	GROWTH_PROCESSES,
	GROWTH_REASONS,
	GROWTH_DOMAINS,
	GROWTH_TABLES
};

struct growth {
	struct emitted tables[GROWTH_TABLES];
	uint64_t losses[PERFX_LOSS_KINDS], hits_count;
	double overhead_ns;
};

/* Frees it, and begins an epoch. */
void growth_reset(struct growth *growth);

struct run {
	struct pool names;
	struct live_function functions[LIVE_FUNCTIONS_MAX + 1]; /* the last: the others */
	size_t functions_count;
	struct map64 function_ids;
	struct run_process **processes;
	size_t processes_count, processes_capacity;
	struct map64 process_ids; /* by index */
	struct live_totals totals;
};

void run_clear(struct run *run);
/* An epoch is over: processes that it did not have are forgotten. 0 or -ENOMEM. */
int run_forget(struct run *run, uint64_t epoch);
/* Fills the lists of a snapshot with the growth of the profile in its period, and adds that to the
 * run. 0 or -ENOMEM. */
int run_snapshot(struct run *run, struct live_snapshot *view, struct growth *growth,
		 const struct profile *profile, uint64_t epoch, uint64_t to_ns);

#endif
