/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adds up what the calls of each process compute, so that steps can be given their share. Keeps the
 * time at which the overhead budget first stopped measuring a part of it: figures of steps rest on
 * the steps before that time.
 */
#ifndef PERFX_AGGREGATE_STEP_COSTS_H
#define PERFX_AGGREGATE_STEP_COSTS_H

#include "aggregate/step_series.h"
#include "base/grow.h"
#include "perfx_record.h"

/* Until when calls' times, their costs, their waits and backward passes were measured. 0: to the
 * end. */
struct step_limits {
	uint64_t times_ns, costs_ns, waits_ns, backward_ns;
};

struct step_process;

struct step_costs {
	struct step_limits limits; /* of processes that come later */
	struct step_process *list;
	size_t count, capacity;
	struct map64 ids; /* process → list[] */
};

/* A call that step_counts(). 0 or -ENOMEM. */
int step_costs_add(struct step_costs *costs, const struct perfx_span *span);
/* Of all calls so far. */
struct step_tally step_costs_sum(const struct step_costs *costs, uint32_t process);
/* Adds up the calls that ended after from_ns; thread_flops: those of the thread tid. false: some of
 * these calls are no longer kept. */
bool step_costs_since(const struct step_costs *costs, uint32_t process, uint32_t tid,
		      uint64_t from_ns, struct step_tally *into);

/* Something that a process rests on is not measured from some time on; earlier limits stay. 0 or
 * -ENOMEM. */
int step_costs_limit(struct step_costs *costs, uint32_t process, const struct step_limits *limits);
/* The same for processes that are not known yet: nor were their calls of the time before. */
void step_costs_limit_later(struct step_costs *costs, const struct step_limits *limits);
struct step_limits step_costs_limits(const struct step_costs *costs, uint32_t process);
/* FLOPs of the calls that had ended by the process's costs_ns. */
uint64_t step_costs_limited_flops(const struct step_costs *costs, uint32_t process);

/* For a while until then calls of a process were not seen. 0 or -ENOMEM. */
int step_costs_gap(struct step_costs *costs, uint32_t process, uint64_t until_ns);
/* When the last such time ended; 0: there was none. */
uint64_t step_costs_gap_end(const struct step_costs *costs, uint32_t process);

/* The overhead budget changes probes of a process: meanwhile calls may be missed. 0 or -ENOMEM. */
int step_costs_change(struct step_costs *costs, uint32_t process, uint64_t time_ns);
/* Did it do so between two times? */
bool step_costs_changed(const struct step_costs *costs, uint32_t process, uint64_t from_ns,
			uint64_t to_ns);

/* Processes go on in these costs, which have none yet, from a time on. 0 or -ENOMEM. */
int step_costs_continue(struct step_costs *costs, struct step_costs *before, uint64_t from_ns,
			bool (*goes_on)(void *ctx, uint32_t process), void *ctx);
/* Calls that ended by now_ns are in no step that is to come. */
void step_costs_forget_calls(struct step_costs *costs, uint32_t process, uint64_t now_ns);
void step_costs_clear(struct step_costs *costs);

#endif
