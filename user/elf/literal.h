/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What must occur in a mangled name for its demangled form to match a pattern. Demangling costs
 * some 3 µs a name, looking for a word 20 ns; a library has half a million names.
 *
 * Identifiers stand in mangled names as they are, at least once each (repetitions are abbreviated),
 * except what the demangler makes up: names of builtin types and operators, std and its favourite
 * classes, "(anonymous namespace)", "{lambda()#1}", numbers. A word of the pattern is used only
 * when no made-up text can contain it; where the pattern bounds it on both sides, when it equals
 * none.
 */
#ifndef PERFX_ELF_LITERAL_H
#define PERFX_ELF_LITERAL_H

#include <stdbool.h>
#include <stddef.h>

enum { LITERALS_MAX = 6 };

struct literals {
	struct literal {
		char *word;
		/* "4call" for a whole identifier, as C++ counts them; NULL for a part of one */
		char *counted;
	} items[LITERALS_MAX]; /* longest first */
	size_t count;
};

/* Of a glob without alternatives, or of a POSIX extended regular expression. -ENOMEM. */
int literals__of_glob(struct literals *literals, const char *glob);
int literals__of_ere(struct literals *literals, const char *ere);
void literals__clear(struct literals *literals);

/* False: neither the symbol's name nor its demangled form can match. */
bool literals__may_match(const struct literals *literals, const char *symbol_name);
/* False: its demangled form cannot match. Ask the other one first. */
bool literals__may_match_demangled(const struct literals *literals, const char *symbol_name);

#endif
