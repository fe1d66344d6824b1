/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A time slice of a capture, [since, until), as a capture of its own.
 *
 * A call belongs to the slice in which it ends, an allocation or free to the one in which it
 * happens. What came before becomes a keyframe (keyframe.h). Samples of usage are interpolated at
 * both ends. Sums without a time (dropped calls, hits, losses) are known by segment: a slice has
 * those of the segments that lie wholly in it. Of segments that it cuts it leaves them out, and
 * reports which, and how many calls.
 */
#ifndef PERFX_REPLAY_TIME_SLICE_H
#define PERFX_REPLAY_TIME_SLICE_H

#include "decode/decode.h"

#include <stdbool.h>
#include <stdint.h>

/* ns since the start of the capture, or before its end. */
struct time_slice_bound {
	bool given, from_end;
	uint64_t ns;
};

struct time_slice_choice {
	struct time_slice_bound since, until;
};

/* Is it less than all of the capture? */
static inline bool time_slice_chosen(const struct time_slice_choice *choice)
{
	return choice->since.given || choice->until.given;
}

struct time_slice;

/* Takes an event; a value other than 0 ends the replay and is returned. */
typedef int time_slice_emit(void *ctx, const struct event *event);

/* duration_ns: of the capture, where a bound is from its end. NULL with errno: ENOMEM, ERANGE:
 * since is not before until. */
struct time_slice *time_slice__new(const struct time_slice_choice *choice, uint64_t duration_ns);
void time_slice__free(struct time_slice *time_slice);
void time_slice__to(struct time_slice *time_slice, time_slice_emit *emit, void *ctx);
/* The next event of the capture. 0, -ENOMEM, or what emit returned. */
int time_slice__event(struct time_slice *time_slice, const struct event *event);
/* The capture is over. -ERANGE: it ends before the slice begins; otherwise as above. */
int time_slice__finish(struct time_slice *time_slice);

#endif
