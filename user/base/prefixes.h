/* SPDX-License-Identifier: BSD-2-Clause */
/* A set of prefixes: does a name begin with one of them? Made for asking of a million names. */
#ifndef PERFX_BASE_PREFIXES_H
#define PERFX_BASE_PREFIXES_H

#include <stdbool.h>
#include <stddef.h>

/* All-zero is an empty set, which no name matches. */
struct prefixes {
	const char **list;
	size_t count, capacity;
};

/* The text is borrowed. 0 or -ENOMEM. */
int prefixes_add(struct prefixes *prefixes, const char *text);
/* After the last was added, before the first question. */
void prefixes_sort(struct prefixes *prefixes);
bool prefixes_match(const struct prefixes *prefixes, const char *name);
void prefixes_clear(struct prefixes *prefixes);

#endif
