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

#include <stdint.h>

/*
 * Growth of the sums of an epoch's profile since the last snapshot. Sums of a key are so
 * many integers as the table is wide; PROFILE_ABSENT counts as 0.
 */
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

/* Replaces the sums by their growth. A sum that fell, because a sample was named anew, grew by 0.
 * 1: something has grown, 0, or -ENOMEM. */
int grown(struct emitted *table, uint64_t key, void *sums);
/* A process of the run, as long as its epoch shows it. */
struct run_process {
	struct live_process live; /* its pointers: of the last snapshot */
	uint32_t index;
	uint64_t epoch;	       /* the last one that had it */
	uint64_t last_step_ns; /* the end of its last step */
	size_t history_capacity;
	struct live_point *history;
};

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

/* Adds to the sums of a function. 0 or -ENOMEM. */
int run_function(struct run *run, const struct profile_function *function,
		 const struct live_sums *more);
/* NULL: no memory. */
struct run_process *run_process(struct run *run, const struct profile_process *process,
				uint64_t epoch);
/* Adds what the process has used, waited for and allocated, and its steps, since the last time, and
 * a point to its history. Its calls have been added before. 0 or -ENOMEM. */
int run_process_add(struct run *run, struct run_process *process, const struct profile *profile,
		    struct growth *growth, uint64_t to_ns);
/* Losses, hits. */
void run_totals(struct run *run, const struct profile *profile, struct growth *growth);

/* Fills the lists of a snapshot with the growth of the profile in its period, and adds that to the
 * run (view.c). 0 or -ENOMEM. */
int view_fill(struct live_snapshot *view, struct run *run, struct growth *growth,
	      const struct profile *profile, uint64_t epoch, uint64_t to_ns);
void view_clear(struct live_snapshot *view);

#endif
