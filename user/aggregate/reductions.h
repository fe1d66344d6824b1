/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The overhead budget reduces a function: its calls are only counted, or not seen at all. Their
 * times are lost then. Their FLOPs are kept if all measured calls of the function had the same
 * cost: each counted call is taken to have that cost. Nothing is lost with a function that was
 * always called by another one with a cost, because the other one's cost contains its work. In all
 * other cases the costs of the processes that called the function end at that time (step_costs.h).
 */
#ifndef PERFX_AGGREGATE_REDUCTIONS_H
#define PERFX_AGGREGATE_REDUCTIONS_H

#include "base/grow.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of fewer measured calls nobody knows whether the others are like them. By the rule of three, at a
 * confidence of 95 %, at most 3 % of all calls are not. */
#define USUAL_CALLS_MIN 100
/* That calls are made by another one whose cost is known follows from the code rather than from
 * their arguments: fewer show it. */
#define USUAL_INSIDE_MIN 20

/* The cost that the measured calls of one function had in one process. */
struct usual_cost {
	uint32_t process, function;
	uint64_t calls_count;
	uint64_t flops, bytes; /* of each call */
	uint16_t flags;	       /* PERFX_SPAN_MOVES, PERFX_SPAN_SUBMITTED */
	uint8_t state, dtype;
	bool varies;
	bool reduced; /* its calls no longer have a cost of their own */
	bool assumed; /* they are counted, and taken to have this one */
	bool is_part; /* their work is that of calls that are only counted */
};

struct usual_costs {
	struct usual_cost *list;
	size_t count, capacity;
	struct map64 ids; /* process << 32 | function → list[] */
};

struct aggregate;
struct row;

/* The value for row->usual_cost; 0: no call of the function was measured yet. */
uint32_t usual_cost_of(const struct usual_costs *usual, uint32_t process, uint32_t function);
/* A measured call of the row's function. 0 or -ENOMEM. */
int usual_cost_add(struct usual_costs *usual, struct row *row, const struct perfx_span *span);
/* Is the work of the row's calls a part of others', although it looks as if they were alone? */
bool usual_cost_is_part(const struct usual_costs *usual, const struct row *row);
/* Gives a call that was only counted the cost that is assumed for it. false: there is none. */
bool usual_cost_assume(const struct usual_costs *usual, struct perfx_span *span);
/* Processes go on in these, which have none yet. 0 or -ENOMEM. */
int usual_costs_continue(struct usual_costs *usual, const struct usual_costs *before,
			 bool (*goes_on)(void *ctx, uint32_t process), void *ctx);
void usual_costs_clear(struct usual_costs *usual);
/* When the overhead budget removed the probes that show the process's calls of a function; 0: it
 * did not. with: whose probes these are; may be NULL. */
uint64_t calls_seen_until(const struct aggregate *aggregate, uint32_t process, uint32_t function,
			  uint32_t *with);

#endif
