/* SPDX-License-Identifier: BSD-2-Clause */
/* The steps of a training, found again among the calls as they are read: each, where the profile
 * has but some at a time when there are many. */
#ifndef PERFX_EXPORT_STEPS_H
#define PERFX_EXPORT_STEPS_H

#include "aggregate/profile.h"

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

#endif
