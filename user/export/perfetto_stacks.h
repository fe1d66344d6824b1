/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Call stacks as Perfetto has them: a stack is numbers of frames, a frame a name in a mapping, a
 * mapping a path; each is sent once. Field numbers: perfetto.proto.
 */
#ifndef PERFX_EXPORT_PERFETTO_STACKS_H
#define PERFX_EXPORT_PERFETTO_STACKS_H

#include "aggregate/profile.h"
#include "base/grow.h"
#include "base/text.h"

#include <stdbool.h>

struct perfetto_stacks {
	const struct profile *profile;
	struct map64 places;   /* process << 32 | id → profile->stacks[] */
	bool *sent;	       /* by place */
	struct map64 frames;   /* address of a profile_frame → number */
	struct map64 mappings; /* address of a path → number */
	uint32_t frames_count, mappings_count;
	struct text interned, sample; /* messages that perfetto_sample has made */
	struct text inner;
};

/* Profile is borrowed. 0 or -ENOMEM; to be cleared in any case. */
int perfetto_stacks_make(struct perfetto_stacks *stacks, const struct profile *profile);
void perfetto_stacks_clear(struct perfetto_stacks *stacks);
/* A sample as a PerfSample, and InternedData (may be empty) that comes with it. 0 or -ENOMEM. */
int perfetto_sample(struct perfetto_stacks *stacks, const struct perfx_sample *sample,
		    uint32_t pid);

#endif
