/* SPDX-License-Identifier: BSD-2-Clause */
/* What is not attached, and why: planning has a list, attaching and following have another. */
#ifndef PERFX_PLAN_SKIPPED_H
#define PERFX_PLAN_SKIPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Functions that share a reason for not being attached. */
struct skipped {
	char *name; /* of the first */
	char *reason;
	uint32_t count;
	bool by_design; /* attaching cannot do it: a hint, no failure */
};

/* Begins as all zero. */
struct skipped_list {
	struct skipped *items;
	size_t count, capacity;
};

void skipped_add(struct skipped_list *list, const char *name, const char *reason);
/* The same where attaching is no way at all; the reason names another way. */
void skipped_hint(struct skipped_list *list, const char *name, const char *reason);
void skipped_clear(struct skipped_list *list);

#endif
