/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Globs on names: '*' any text, '?' any byte, [abc] [a-z] [!a] sets, {a,b} alternatives (nested),
 * '\' takes away a meaning. C++ names need no escapes in practice: a '[' without ']' (operator[])
 * and braces without a comma outside parentheses ({lambda(int, int)#1}) stand for themselves.
 */
#ifndef PERFX_ELF_GLOB_H
#define PERFX_ELF_GLOB_H

#include <stdbool.h>
#include <stddef.h>

struct glob_list {
	char **globs; /* without alternatives */
	size_t count;
};

enum { GLOB_ALTERNATIVES_MAX = 1024 };

/* Writes alternatives out. 0, -E2BIG: more than that many; -ENOMEM. */
int glob_list__expand(struct glob_list *list, const char *glob);
void glob_list__clear(struct glob_list *list);

/* All of the text; for a glob without alternatives. Time is at most glob times text.
 * Not glob_match: a static libbpf has one. */
bool glob_matches(const char *glob, const char *text);

/* The ']' that closes the set which starts at p, or NULL: p is a plain '['. */
const char *glob_set_end(const char *p);

#endif
