/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Steps where nothing marks them: a thread that trains makes the same calls again and again. Its
 * period is found in the sequence of its outermost traced calls.
 *
 * A call (a function, and a function as it is called from one line: a calling context) is tried as
 * the end of a step. What lies between two of its calls is a period. Periods are alike if they
 * consist of the same calls, whatever their order, and if they take between half and twice the
 * median (those of a compiled function: if they consist of the same compiled ones, but for those
 * that come now and then). The share of those that are alike is the call's score: of most of them,
 * it has to be. A library's operation that is called again and again with nothing in between makes
 * no period. Of the calls with a good score compiled functions count, then those that the
 * outermost Python function makes, for a loop in a function is a part of a step; of these the one
 * with the best score, then the one with the longest period, for a layer repeats within a step,
 * then the one with the most time. If a compiled function comes several times as often, and its
 * periods make up all of the time, it is a step, and the rarer one is done once in so many steps.
 *
 * When the overhead budget has reduced a probe, periods consist of fewer calls than before: those
 * since the last reduction are compared with each other, or else those before the first one. A call
 * that is only counted ends a step at its entry; so does one of a compiled function, whose work is
 * done after it has returned. Periods of which less than PERIOD_CONFIDENCE are
 * alike make no steps. A few periods, periods shorter than a millisecond (of compiled functions 100
 * µs), and calls that come in less than half of the time make no steps.
 */
#ifndef PERFX_AGGREGATE_PERIOD_H
#define PERFX_AGGREGATE_PERIOD_H

#include "base/grow.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERIODS_MIN	   10
#define PERIOD_LEAST_NS	   1000000
#define PERIOD_COMPILED_NS 100000 /* the same of compiled functions */
#define PERIOD_ALIKE	   0.7	  /* of its periods */
#define PERIOD_COVERS	   0.5	  /* of the time of all calls */
#define PERIOD_CONFIDENCE  0.9
#define PERIOD_CALLS_MAX   8192

/* A traced call in no other one that has ended. */
struct outer_call {
	uint64_t start_ns, end_ns, off_cpu_ns;
	uint32_t context, function; /* 0: it ended by an exception, and so ends no step */
	bool compiled; /* a compiled function of the program's, which is never a part of a step */
	bool untimed;  /* its end is that of its entry */
	bool is_operation; /* of a library, such as a product of matrices */
};

/* Of a thread, in order of time. */
struct period_calls {
	uint32_t process, tid;
	bool is_main;
	struct outer_call *list;
	size_t count, capacity;
	/* Calls before the budget first reduced a probe, and before it last did. */
	size_t before_first, before_last;
};

struct period {
	uint32_t function, context; /* whose calls end steps; context 0: in all of its contexts */
	double confidence;	    /* of all periods, those that are alike, at least */
	bool compiled;		    /* they only submit work: the next one's begin ends a step */
};

/* How many Python functions are around the calls of a context. */
typedef unsigned period_depth_fn(void *ctx, uint32_t context);

/* Searches the calls since the last reduction, or else those before the first one. 1: found, 0:
 * there is none, -ENOMEM. */
int period_find(struct period *found, const struct period_calls *calls, period_depth_fn *depth_of,
		void *ctx);

#endif
