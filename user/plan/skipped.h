/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that are not attached, and why: planning has a list, attaching and following another.
 */
#ifndef PERFX_PLAN_SKIPPED_H
#define PERFX_PLAN_SKIPPED_H

#include <stddef.h>
#include <stdint.h>

/* Functions that share a reason for not being attached. */
struct skipped {
	char *name; /* of the first */
	char *reason;
	uint32_t count;
	uint32_t flags; /* PERFX_NOT_ATTACHED_ */
};

/* Begins as all zero. */
struct skipped_list {
	struct skipped *items;
	size_t count, capacity;
};

void skipped_add(struct skipped_list *list, const char *name, const char *reason);
/* The same where attaching is no way at all; the reason names another way. */
void skipped_hint(struct skipped_list *list, const char *name, const char *reason);
/* Time off the CPU from now on. */
void skipped_waits(struct skipped_list *list, const char *reason);
void skipped_clear(struct skipped_list *list);

#endif
