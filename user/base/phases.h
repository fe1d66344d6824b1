/* SPDX-License-Identifier: BSD-2-Clause */
/* How long the parts of a start took, one after another. */
#ifndef PERFX_BASE_PHASES_H
#define PERFX_BASE_PHASES_H

#include <stddef.h>
#include <stdint.h>

#define PHASES_MAX 8

struct phases {
	struct phase {
		const char *name; /* not copied */
		uint64_t begin_ns;
	} list[PHASES_MAX];
	size_t count;
};

/* A phase begins, the one before it ends. Of more than PHASES_MAX the last goes on. */
void phases_begin(struct phases *phases, const char *name);

/* "ready in 812 ms: features 95, plan 310, load 240, calibrate 40, attach 127": the last one ends
 * at end_ns. */
void phases_format(const struct phases *phases, uint64_t end_ns, char *text, size_t size);

#endif
