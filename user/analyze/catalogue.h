/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kinds of findings: what each says, how its rule judges, and what can be done. `explain` shows
 * it, docs/findings.md is made of it. The thresholds are not here, but in thresholds.def.
 */
#ifndef PERFX_ANALYZE_CATALOGUE_H
#define PERFX_ANALYZE_CATALOGUE_H

#include <stddef.h>

/* The texts are those of findings/KIND.md, each paragraph as one line. Texts are sentences in which
 * `code` stands between backticks; says is a clause. */
struct finding_kind {
	const char *kind;    /* as in struct finding */
	const char *says;    /* in one line */
	const char *judges;  /* what the rule looks at, and when there is no finding */
	const char *remedy;  /* what can be tried today */
	const char *example; /* lines of code, or of a shell; NULL: none */
	const char *look;    /* what to look at next */
	/* A report's texts, where the rule writes no other; NULL: the rule writes them. */
	const char *threshold;	/* "at least {medium} of the time": {medium} is KIND.medium */
	const char *suggestion; /* see framework_add() */
	const char *sections;	/* of the report that show more */
};

extern const struct finding_kind finding_kinds[];
extern const size_t finding_kinds_count;

/* NULL: there is none. */
const struct finding_kind *finding_kind_named(const char *name);

#endif
