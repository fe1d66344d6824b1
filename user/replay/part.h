/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A part of a capture, as a capture of its own: from `since` on, up to but without `until`.
 *
 * A call belongs to the part in which it ends, an allocation and a free to the one in which it
 * happens. What came before is told as what is still true then (past.h). Samples of usage are
 * interpolated at both ends. Sums without a time (calls that found no room in the rings, hits,
 * losses) are told by segments: those that lie whole in the part are in it; the calls of those
 * that it cuts are left out, and their number said.
 */
#ifndef PERFX_REPLAY_PART_H
#define PERFX_REPLAY_PART_H

#include "decode/event.h"

#include <stdbool.h>
#include <stdint.h>

/* ns since the start of the capture, or before its end. */
struct part_bound {
	bool given, from_end;
	uint64_t ns;
};

struct part_choice {
	struct part_bound since, until;
};

/* Is there anything to choose? */
static inline bool part_chosen(const struct part_choice *choice)
{
	return choice->since.given || choice->until.given;
}

struct part;

/* Takes an event; what is not 0 ends it all and is returned. */
typedef int part_emit(void *ctx, const struct event *event);

/* duration_ns: of the capture, where a bound is from its end. NULL with errno: ENOMEM, ERANGE:
 * since is not before until. */
struct part *part__new(const struct part_choice *choice, uint64_t duration_ns);
void part__free(struct part *part);
void part__to(struct part *part, part_emit *emit, void *ctx);
/* The next event of the capture. 0, -ENOMEM, or what emit returned. */
int part__event(struct part *part, const struct event *event);
/* That was all: -ERANGE, the capture ends before the part begins, or as above. */
int part__finish(struct part *part);

#endif
