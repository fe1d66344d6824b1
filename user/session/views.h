/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process maps executably at some time. Never changed, shared by a family. */
#ifndef PERFX_SESSION_VIEWS_H
#define PERFX_SESSION_VIEWS_H

#include "elf/held.h"

#include <stdbool.h>
#include <stddef.h>

struct span {
	uint64_t start, end; /* addresses in the process, [start, end) */
	uint64_t offset;     /* of start in the file */
	uint32_t file;	     /* held file; HELD_NONE: code without one */
	uint32_t pad;
};

struct view {
	size_t users;
	size_t count;
	struct span spans[]; /* in order of address */
};

/* Opens the files that are new. One user; NULL: out of memory. */
struct view *view__new(struct held_files *files, pid_t pid, const struct maps *maps);
struct view *view__get(struct view *view);
/* The last user's frees it. NULL is fine. */
void view__put(struct view *view);

/* The span that contains an address. view NULL: nothing is mapped. */
const struct span *view__find(const struct view *view, uint64_t address);
bool view__same(const struct view *a, const struct view *b);
bool span_same(const struct span *a, const struct span *b);

#endif
