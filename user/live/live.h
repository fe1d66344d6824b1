/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A recording while it goes on: its counts so far, and its last seconds.
 *
 *   events ─▶ keyframe ─ begins ─▶ the aggregate of an epoch ─▶ a snapshot each period
 *                                          └─▶ sums of the whole run, which never fall
 *
 * An aggregate grows with all that it has seen. So it lasts an epoch, and the next one begins with
 * a keyframe (replay/keyframe.h): memory does not grow with the length of the recording. What has
 * been counted in an epoch is added to the sums of the run, exactly once.
 *
 * Times are ns of CLOCK_MONOTONIC; PROFILE_ABSENT: not measured. Not thread safe.
 */
#ifndef PERFX_LIVE_LIVE_H
#define PERFX_LIVE_LIVE_H

#include "aggregate/profile.h"
#include "analyze/analyze.h"
#include "decode/decode.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct live_options {
	uint64_t period_ns; /* between snapshots; 0: LIVE_PERIOD_NS */
	uint64_t epoch_ns;  /* 0: LIVE_EPOCH_NS */
	double own_share;   /* of the time that snapshots take at most; 0: LIVE_OWN_SHARE */
	bool judges;	    /* snapshots have findings */
	const struct rule_set *rules; /* borrowed; NULL: those that are built in */
};

#define LIVE_PERIOD_NS 1000000000u
#define LIVE_EPOCH_NS  60000000000u
/* With more processes an epoch is over: they come and go fast. */
#define LIVE_EPOCH_PROCESSES 2048
#define LIVE_OWN_SHARE	     0.05

/* What a function, or all of a process, has done: in a period, or in the whole run. */
struct live_sums {
	uint64_t calls_count;
	uint64_t timed_count; /* of these: total_ns and self_ns are theirs */
	uint64_t total_ns, self_ns, flops, bytes;
};

void live_sums_add(struct live_sums *sums, const struct live_sums *more);

/* PROFILE_ABSENT where calls were only counted. */
static inline uint64_t live_timed(const struct live_sums *sums, uint64_t ns)
{
	return sums->timed_count ? ns : PROFILE_ABSENT;
}

/* A function in a process that lives or has just ended. */
struct live_row {
	const struct profile_process *process;
	const struct profile_row *row; /* of the epoch */
	struct live_sums period;
};

/* A function of a file, in all processes of the run, also those that have ended. Bounded: functions
 * beyond LIVE_FUNCTIONS_MAX are in one of name LIVE_OTHERS. */
#define LIVE_FUNCTIONS_MAX 1000
#define LIVE_OTHERS	   "(others)"

struct live_function {
	const char *name, *module; /* its label; its path */
	enum perfx_source source;
	struct live_sums run;
};

/* A line of the code, sampled: in the period. */
struct live_line {
	const struct profile_process *process;
	const struct profile_line *line; /* of the epoch */
	uint64_t samples_count, on_cpu_ns, off_cpu_ns;
};

/* What a thread waited for in the period. */
struct live_wait {
	const struct profile_process *process;
	const struct profile_activity *wait; /* of the epoch: reason, object, holder */
	uint64_t count, ns;
};

/* A thread in the period; PROFILE_ABSENT: not known. */
struct live_thread {
	const struct profile_process *process;
	const struct profile_thread *thread;
	uint64_t on_cpu_ns, runnable_ns, blocked_ns;
	uint64_t wall_ns;		 /* between the samples by which these are known */
	const struct live_wait *longest; /* of its waits in the period; NULL: none */
};

#define LIVE_HISTORY 240 /* periods */

/* One point of a process's history. */
struct live_point {
	uint64_t time_ns;     /* the period's end */
	uint64_t steps_count; /* ended in the period */
	uint64_t step_ns;     /* their average; PROFILE_ABSENT: none ended */
	uint64_t cpu_ns;      /* used in the period, */
	uint64_t cpu_wall_ns; /* between the samples by which that is known */
	uint64_t rss_bytes;   /* last */
	uint64_t live_bytes;  /* of its first domain; PROFILE_ABSENT: not recorded */
	uint64_t gpu_busy_ns; /* PROFILE_ABSENT likewise */
	uint64_t flops;	      /* in the period; PROFILE_ABSENT: not known */
};

/* A process that lives, or that ended in this epoch. Sums of the whole run, but as far as it is
 * said. */
struct live_process {
	const struct profile_process *process;	 /* of the epoch */
	const struct process_analysis *analysis; /* NULL: not judged, or it was not there then */
	struct live_sums period, run;
	uint64_t cpu_ns, read_bytes, write_bytes;
	uint64_t steps_count, steps_ns, steps_flops; /* once the steps are certain */
	/* The overhead budget removed probes that FLOPs rest on: what comes later is not known. */
	bool flops_cut;
	uint64_t phases[PROFILE_PHASES];	/* ns, of the steps */
	uint64_t period_phases[PROFILE_PHASES]; /* of those that ended in the period */
	uint64_t blocked_ns[PERFX_WAIT_REASONS], blocked_counts[PERFX_WAIT_REASONS];
	/* By domain, enum perfx_domain; of those that the epoch's profile has. */
	uint64_t allocs_counts[PERFX_DOMAINS], alloc_bytes[PERFX_DOMAINS];
	const struct live_point *history; /* in order; the last is the period */
	size_t history_count;
};

/* All of the run, whichever process it was; exact. */
struct live_totals {
	struct live_sums sums;
	uint64_t processes_count; /* that were seen */
	uint64_t steps_count;
	uint64_t losses[PERFX_LOSS_KINDS];
	uint64_t hits_count;
	double overhead_ns; /* sum of hits × cost */
};

/* What a process has computed, of sums of it; PROFILE_ABSENT: none of it is known, or no longer all
 * of it. */
static inline uint64_t live_flops(const struct live_process *process, const struct live_sums *sums)
{
	return process->run.flops && !process->flops_cut ? sums->flops : PROFILE_ABSENT;
}

struct live_snapshot {
	uint64_t number;	       /* from 1 */
	uint64_t run_from_ns;	       /* when the recording began */
	uint64_t from_ns, to_ns;       /* the period */
	const struct profile *profile; /* of the epoch so far */
	/* Of some seconds ago, for judging costs more than the rest, or of the epoch before while
	 * this one is short; NULL: not judged yet. Its processes are those of analyzed, of which
	 * only index, pid, comm and cmdline are set. */
	const struct analysis *analysis;
	const struct profile *analyzed;
	struct live_process *processes; /* steps, then time in the period, descending */
	size_t processes_count, processes_capacity;
	struct live_row *rows; /* own time in the period, descending; those that were called */
	size_t rows_count, rows_capacity;
	struct live_line *lines; /* sampled time in the period, descending */
	size_t lines_count, lines_capacity;
	struct live_thread *threads; /* on-CPU time in the period, descending */
	size_t threads_count, threads_capacity;
	struct live_wait *waits; /* time in the period, descending */
	size_t waits_count, waits_capacity;
	const struct live_function *functions; /* of the run, in the order in which they came */
	size_t functions_count;
	struct live_totals totals; /* of the run */
	uint64_t own_ns;	   /* CPU time that making the snapshot took */
};

struct live;

/* NULL with errno ENOMEM. The caller frees. */
struct live *live__new(const struct live_options *options);
void live__free(struct live *live);

/* The next event of the stream: an on_event of a pipeline (ctx: the struct live). 0 or -ENOMEM. */
int live__event(void *ctx, const struct event *event);

/* To be called often. Makes a snapshot when a period is over: true: there is a new one. Periods
 * become longer where snapshots take more than own_share of the time. */
bool live__tick(struct live *live, uint64_t now_ns);

/* Makes the last snapshot after the end of the stream, with all its records. NULL: an error, or
 * nothing was recorded. */
const struct live_snapshot *live__finish(struct live *live, uint64_t now_ns);

/* A process that ended before is known by its index no more: another one may have it. */
uint64_t live__known_from_ns(const struct live *live);

/* The last one; NULL: there is none yet. Valid, with all that it refers to, until the next one is
 * made. */
const struct live_snapshot *live__snapshot(const struct live *live);

/*
 * Runs `live` in a thread of its own. The thread that drains the rings only copies records, so a
 * slow snapshot does not delay it.
 *
 *   drain ─ records ─▶ batch being filled ⇄ batch being read ─▶ live ─▶ snapshot ─▶ on_snapshot
 *
 * There are two batches. A tick swaps them if the thread has read the other one. When a batch is
 * full (LIVE_FEED_BYTES), the draining thread waits for the other one; meanwhile the rings fill,
 * and the kernel counts the records that it drops.
 */
#define LIVE_FEED_BYTES ((size_t)128 << 20)

struct live_feed;

/* live: borrowed; only the thread may use it between start and stop. NULL with errno. */
struct live_feed *live_feed__new(struct live *live);
void live_feed__free(struct live_feed *feed);

/* on_snapshot is called by the thread; the snapshot is borrowed until it returns. 0 or -errno. */
int live_feed__start(struct live_feed *feed,
		     void (*on_snapshot)(void *ctx, const struct live_snapshot *snapshot),
		     void *ctx);
/* Returns when the thread has read all records and has ended. */
void live_feed__stop(struct live_feed *feed);

/* Copies a record; before start it is dropped. 0, -ENOMEM, or an earlier error of the thread. */
int live_feed__record(struct live_feed *feed, const void *record, size_t size);
/* To be called at each tick: hands the batch to the thread if it is idle. */
void live_feed__tick(struct live_feed *feed, uint64_t now_ns);
/* live__known_from_ns() after the batch that the thread read last. */
uint64_t live_feed__known_from_ns(struct live_feed *feed);

#endif
