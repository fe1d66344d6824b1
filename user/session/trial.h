/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that is run to be measured: started as `run` starts one, traced until enough of its
 * rate was seen, then ended, with all that it has started. Its output is kept from the terminal;
 * its last line is what a failure is explained with.
 */
#ifndef PERFX_SESSION_TRIAL_H
#define PERFX_SESSION_TRIAL_H

#include "replay/replay.h"
#include "session/recorder.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A rate while it is recorded: training steps, calls, or a counter of the program's own, a second.
 * The time until the rate is steady is left out: up to the first event (imports, compilation of
 * kernels), and a warm-up after it. The rate is then measured from event to event, so that it does
 * not depend on where between two events the recording begins and ends.
 */

/* A rate needs at least this many events. */
#define RATE_EVENTS_MIN 3

enum rate_of {
	RATE_STEPS = 1, /* of the process that makes most of them, counted as the report does */
	RATE_CALLS,	/* of all functions that are traced, in all processes */
	RATE_COUNTER,	/* what is added to it; of one that is set, by how much it grows */
};

struct rate_options {
	enum rate_of of;
	const char *counter;  /* RATE_COUNTER: its name; borrowed */
	uint64_t warmup_ns;   /* from the first event on */
	uint64_t duration_ns; /* of what is measured; UINT64_MAX: not ended by time */
	uint64_t events_max;  /* measured; 0: not ended by them */
};

struct rate {
	double amount;	       /* steps, calls, or what the counter grew by */
	uint64_t events_count; /* steps, calls, or samples of the counter */
	uint64_t ns;	       /* in which they were; 0: none was measured */
	bool began;	       /* there was a first event */
	bool lost;	       /* some events had no record: the rate would be too low */
};

struct rate_watch;

/* Sees the events of the pipeline. options is copied. NULL: no memory. */
struct rate_watch *rate_watch__new(struct pipeline *pipeline, const struct rate_options *options);
void rate_watch__free(struct rate_watch *watch);
/* So far. */
struct rate rate_watch__rate(const struct rate_watch *watch);
/* Was enough of it seen? Of a struct rate_watch, for struct recorder_options. */
bool rate_watch__enough(void *watch);

/* Is it a rate? */
static inline bool rate_is_known(const struct rate *rate)
{
	return rate->ns && rate->events_count >= RATE_EVENTS_MIN && !rate->lost;
}

static inline double rate_per_s(const struct rate *rate)
{
	return rate->amount / (double)rate->ns * 1e9;
}

struct trial_options {
	char *const *argv;	  /* NULL-terminated */
	char *const *environment; /* NAME=value, added to its own; NULL: none */
	bool as_caller;
	uint64_t timeout_ns; /* it is ended after so long, whatever was seen */
	/* NULL: the time until it exits is measured, without tracing and its privileges. */
	const struct rate_options *rate;
	/* Options of the recording. The trial sets launch and end. */
	struct recorder_options recording;
	const struct features *features;
	struct aggregate *aggregate; /* of all that is traced; NULL: none */
};

struct trial_result {
	bool known; /* was it measured? */
	bool none;  /* it ran as it should, but without a single event of the rate */
	struct rate rate;
	uint64_t exit_ns; /* until it exited; rate: NULL */
	char *why;	  /* it was not; malloc'd; NULL: it was, or the user has ended it */
	int code;	  /* EXIT_OK, or that of a failure which ends all trials, and was said */
};

/* To be called before the first trial: what a program leaves behind becomes ours to end. */
void trials_begin(void);
void trial_run(const struct trial_options *options, struct trial_result *result);
void trial_result_clear(struct trial_result *result);

#endif
