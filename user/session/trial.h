/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that is run to be measured: started as `run` starts one, traced until enough of its
 * rate was seen, then ended, with all that it has started. Its output is kept from the terminal;
 * its last line is what a failure is explained with.
 */
#ifndef PERFX_SESSION_TRIAL_H
#define PERFX_SESSION_TRIAL_H

#include "session/rate_watch.h"
#include "session/recorder.h"

#include <stdbool.h>
#include <stdint.h>

struct trial_options {
	char *const *argv;	  /* NULL-terminated */
	char *const *environment; /* NAME=value, added to its own; NULL: none */
	bool as_caller;
	uint64_t timeout_ns; /* it is ended after so long, whatever was seen */
	/* NULL: the time until it exits is measured, without tracing and its privileges. */
	const struct rate_options *rate;
	/* What is traced. Its launch and its end are set by the trial. */
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
