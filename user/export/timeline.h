/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls as they end → calls as they begin, which is how other tools nest them: a caller before its
 * callees, also where both began in the same nanosecond. A thread's calls are held back until its
 * outermost traced call ends, or until there are NESTING_HELD of them: then all go out, and a
 * caller that ends later goes out later, with its own, earlier beginning.
 *
 * Calls of a thread that overlap without one being in the other (coroutines, stack switches, ranges
 * that outlive the call that opened them) get lanes: within a lane everything nests, also with what
 * went out before.
 *
 * Ranges that any thread may end are on no thread's stack: they get tracks of their process, on
 * each of which one follows the other. So do calls for which no lane is left.
 */
#ifndef PERFX_EXPORT_TIMELINE_H
#define PERFX_EXPORT_TIMELINE_H

#include "aggregate/profile.h"
#include "base/grow.h"
#include "base/text.h"
#include "perfx_record.h"

#include <stddef.h>
#include <stdint.h>

#define NESTING_HELD  1024
#define NESTING_LANES 4
/* Outermost calls that each lane of a thread remembers after they went out: later calls that
 * overlap them without nesting are put elsewhere. Calls that overlap older ones are taken for
 * nested. */
#define NESTING_ROOTS 4096
/* Tracks of a process for ranges that are on no thread's stack. With more at a time, one begins
 * when another ends. */
#define NESTING_ASYNC 64

/* A thread that made calls; data is the user's. */
struct nesting_thread {
	uint32_t process, tid;
	unsigned async; /* 0: a thread; 1, 2, …: a track of the process, in lane 0 */
	uint64_t data[NESTING_LANES];
};

struct nesting_output {
	/* Each in the order of time within a thread's lane and between two flushes. end may be
	 * NULL. 0 or -errno. */
	int (*begin)(void *ctx, struct nesting_thread *thread, unsigned lane,
		     const struct perfx_span *span);
	int (*end)(void *ctx, struct nesting_thread *thread, unsigned lane, uint64_t end_ns);
	void *ctx;
};

struct nesting;

struct nesting *nesting__new(const struct nesting_output *output);
void nesting__free(struct nesting *nesting);
/* 0, -ENOMEM or the error of the output. */
int nesting__add(struct nesting *nesting, const struct perfx_span *span);
/* Puts out the calls that are still held back. */
int nesting__flush(struct nesting *nesting);
/* The thread of a call, made when it is new; NULL: memory is out. */
struct nesting_thread *nesting__thread(struct nesting *nesting, const struct perfx_span *span);

/* The steps of a training, each of them, from the calls as they are read: the profile's series may
 * have several steps per entry. */

struct export_step {
	size_t place; /* of its process in the profile */
	uint64_t number;
	uint64_t from_ns, to_ns;
};

struct export_steps;

/* NULL: memory is out. */
struct export_steps *export_steps__new(const struct profile *profile);
void export_steps__free(struct export_steps *steps);
/* Does the call end a step? Calls in the order of the capture. */
bool export_steps__ends(struct export_steps *steps, const struct perfx_span *span,
			struct export_step *step);

/* Values of the traced programs as tracks: the value after every sample. */

struct value_track {
	size_t process; /* place in the profile */
	const struct profile_user_value *value;
	double now;
	uint64_t data; /* the writer's */
};

struct value_tracks {
	struct map64 ids; /* process << 32 | value → tracks[] */
	struct value_track *tracks;
	size_t count;
};

/* One for each value of the profile, in its order. 0 or -ENOMEM; to be cleared in any case. */
int value_tracks_make(struct value_tracks *tracks, const struct profile *profile);
void value_tracks_clear(struct value_tracks *tracks);
/* The value after this record. NULL: it is not in the profile, or not finite now. */
struct value_track *value_tracks_follow(struct value_tracks *tracks,
					const struct perfx_user_value *record);

/* Tracks of GPU work, one for each stream of a device and process. */

struct gpu_track {
	uint32_t process, device, stream;
	uint32_t ordinal; /* of the process among those that use GPUs: 0, 1, … */
	uint64_t data;	  /* the writer's */
};

struct gpu_tracks {
	const struct profile *profile;
	struct map64 ids; /* process, device, stream → list[] */
	struct gpu_track *list;
	size_t count, capacity;
	struct map64 ordinals; /* process → ordinal */
};

/* The track of an activity, made when it is new; valid until the next one is. NULL: memory is out.
 */
struct gpu_track *gpu_tracks_get(struct gpu_tracks *tracks,
				 const struct perfx_gpu_activity *activity);
/* MAP64_NONE: memory is out. */
uint32_t gpu_tracks_ordinal(struct gpu_tracks *tracks, uint32_t process);
void gpu_tracks_clear(struct gpu_tracks *tracks);

/* As PyTorch's profiler names it: the kernel, "Memcpy HtoD (Pageable -> Device)", "Memset (Device)"
 */
void gpu_activity_name(struct text *into, const struct profile *profile,
		       const struct perfx_gpu_activity *activity);
/* "kernel", "gpu_memcpy", "gpu_memset"; NULL: a wait, of which no track is made. */
const char *gpu_activity_category(const struct perfx_gpu_activity *activity);
/* The name of a call; "?": unknown. */
const char *gpu_name_of(const struct profile *profile, uint32_t name);

#endif
