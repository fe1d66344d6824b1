/* SPDX-License-Identifier: BSD-2-Clause */
/* Which files are mapped by processes that are not traced, so that probes in them would cost those.
 */
#ifndef PERFX_ATTACH_SHARING_H
#define PERFX_ATTACH_SHARING_H

#include "plan/plan.h"

struct sharing {
	size_t module; /* index in the plan */
	bool shared;   /* out: a process that is no member maps it */
};

/* One pass over /proc for all of them, which ends when nothing is left to be found. Returns how
 * many processes' maps were read. */
size_t sharing_find(const struct plan *plan, const pid_t *members, size_t members_count,
		    struct sharing *files, size_t count);

#endif
