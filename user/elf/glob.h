/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Globs on names: '*' any text, '?' any character, [abc] [a-z] [!a] sets, {a,b} alternatives
 * (nested), '\' takes away a meaning. C++ names need no escapes in practice: a '[' without ']'
 * (operator[]) and braces without a comma outside parentheses ({lambda(int, int)#1}) stand for
 * themselves.
 */
#ifndef PERFX_ELF_GLOB_H
#define PERFX_ELF_GLOB_H

#include <stdbool.h>
#include <stddef.h>

struct glob_list {
	char **globs; /* without alternatives */
	size_t globs_count, globs_capacity;
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

/*
 * Literals: words without which a mangled name's demangled form matches no pattern. Demangling
 * costs some 3 µs a name, looking for a word 20 ns; a library has half a million names.
 *
 * Identifiers stand in mangled names as they are, at least once each (repetitions are abbreviated),
 * except those that the demangler makes up: names of builtin types and operators, std and its most
 * common classes, "(anonymous namespace)", "{lambda()#1}", numbers. A word of the pattern is used
 * only when no made-up text contains it, or, if the pattern bounds it on both sides, equals it.
 */
enum { LITERALS_MAX = 6 };

struct literals {
	struct literal {
		char *word;
		/* "4call" for a whole identifier, as C++ counts them; NULL for a part of one */
		char *counted;
	} items[LITERALS_MAX]; /* longest first */
	size_t count;
};

/* The literals of a glob without alternatives, or of a POSIX extended regular expression. -ENOMEM.
 */
int literals__of_glob(struct literals *literals, const char *glob);
int literals__of_ere(struct literals *literals, const char *ere);
void literals__clear(struct literals *literals);

/* About how many nodes regcomp() of glibc makes of an expression: it copies what '+' and '{n,m}'
 * repeat, so that "((a+)+)+" doubles with each '+'. */
double ere_nodes(const char *ere);

/* False: neither the symbol's name nor its demangled form can match. */
bool literals__may_match(const struct literals *literals, const char *symbol_name);
/* False: its demangled form cannot match. Ask the other one first. */
bool literals__may_match_demangled(const struct literals *literals, const char *symbol_name);

#endif
