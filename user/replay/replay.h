/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where records go: through decode into an aggregate, into a capture file, or both. Live and
 * replayed records take this same way, so that a report made live equals one made from a capture.
 */
#ifndef PERFX_REPLAY_REPLAY_H
#define PERFX_REPLAY_REPLAY_H

#include "aggregate/aggregate.h"
#include "capture/capture.h"
#include "decode/decode.h"
#include "decode/pack.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A time slice of a capture, [since, until), as a capture of its own.
 *
 * A call belongs to the slice in which it ends, an allocation or free to the one in which it
 * happens. What came before becomes a keyframe (keyframe.h). Samples of usage are interpolated at
 * both ends. Sums without a time (waits, hits, dropped calls, losses) are known by segment: a slice
 * has those of the segments that lie wholly in it. So capture_source_replay() moves both bounds to
 * ends of segments. Of segments that a slice cuts nevertheless, because those of merged captures
 * overlap, it leaves the sums out, and reports which, and how many calls.
 */

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

/* Bounds in ns after the start of the capture; until UINT64_MAX: to its end. NULL with errno:
 * ENOMEM, ERANGE: since is not before until. */
struct time_slice *time_slice__new(uint64_t since_after_ns, uint64_t until_after_ns);
void time_slice__free(struct time_slice *time_slice);
void time_slice__to(struct time_slice *time_slice, time_slice_emit *emit, void *ctx);
/* The next event of the capture. 0, -ENOMEM, or what emit returned. */
int time_slice__event(struct time_slice *time_slice, const struct event *event);
/* The capture is over. -ERANGE: it ends before the slice begins; otherwise as above. */
int time_slice__finish(struct time_slice *time_slice);

struct pipeline {
	struct sink sink;		/* pipeline_init */
	struct aggregate *aggregate;	/* borrowed; NULL: not wanted */
	struct capture_writer *capture; /* borrowed; NULL: not wanted */
	uint64_t capture_max;		/* bytes of the file; 0: as long as it gets */
	bool full;			/* last result of pipeline_full */
	/* Sees each event; a value other than 0 ends a replay. NULL: not wanted. */
	int (*on_event)(void *ctx, const struct event *event);
	void *ctx;
	struct time_slice *time_slice; /* borrowed; selects events of a replay. NULL: all */
	int err;		       /* the first error: -ENOSPC, -ENOMEM, …; later records are
								 still aggregated */
};

/* Makes the sink of it; the rest is the caller's to fill. */
void pipeline_init(struct pipeline *pipeline);

/* Sends the added records to the file, and notices the disk's errors. */
void pipeline_flush(struct pipeline *pipeline);

/* The file has reached capture_max: time to end the recording. */
bool pipeline_full(struct pipeline *pipeline);

/* Feeds a capture to a pipeline: 0 or -errno of reading; -ERANGE: it ends before the slice begins.
 * Damage and a cut tail are counted as losses in the aggregate and are not errors; the reader knows
 * them too. */
int pipeline_replay(struct pipeline *pipeline, struct capture_reader *reader);

/* A capture file, or a time slice of it in whole segments, through a pipeline. */
struct capture_source {
	const char *path;
	struct time_slice_choice time_slice; /* all zero: the whole */
};

/* 0 or -errno; -ERANGE: the slice is empty. *damage: what could not be read; NULL: not asked. */
int capture_source_replay(const struct capture_source *source, struct pipeline *pipeline,
			  struct capture_damage *damage);

/* The last part of a capture as a capture of its own. */
struct cut {
	const char *path;   /* of a capture with segments, as a flight recorder writes it */
	const char *to;	    /* the file that is made */
	uint64_t length_ns; /* at least so much of its end, in whole segments */
	/* Called now and then: a value other than 0 ends the cut and is returned. */
	int (*check)(void *ctx); /* NULL: nobody is asked */
	void *ctx;
};

/* 0 or -errno: of reading, writing or check. */
int capture_cut(const struct cut *cut);

/*
 * A flight recorder: the last seconds of a capture in memory, as the blocks that a file would have.
 *
 *   blocks ──▶ kept, the newest last ──▶ opened, added to the keyframe (keyframe.h), given back
 *                      └──── a dump: the keyframe, the kept blocks, what closes it ──▶ file
 *
 * So there is one keyframe, always that of where the oldest block begins. It is moved by segments
 * (PERFX_KIND_SEGMENT), for at these sums are emitted: the sums in the kept segments are those of
 * the time that they cover. Not thread safe: it belongs to the writer's thread.
 */

/* A quarter of what a flight buffer may use is for the keyframe's live blocks. */
#define FLIGHT_KEYFRAME_SHARE 4

/* A store for capture_writer__new_store. NULL with errno ENOMEM. */
struct block_store *flight_buffer__new(uint64_t length_ns, uint64_t bytes_max);

#endif
