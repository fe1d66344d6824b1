/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A text of statements, as files of rules are: one a line, which lines that begin with a blank
 * continue; `#` begins a comment, outside of "quotes". Read in place.
 *
 *     struct statements statements = statements_of(text);
 *
 *     while ((statement = statements_next(&statements)))
 *             parse(statement, statements.line);
 *     if (statements.misplaced)
 *             …
 */
#ifndef PERFX_BASE_STATEMENTS_H
#define PERFX_BASE_STATEMENTS_H

#include <stdbool.h>
#include <stddef.h>

struct statements {
	char *at;
	size_t line;	/* the first of the statement; at the end the last; from 1 */
	size_t next;	/* lines read */
	bool misplaced; /* a line that begins with a blank continues nothing: reading has ended */
};

/* The text lives as long as its statements, and is changed. */
struct statements statements_of(char *text);
/* NULL at the end. */
char *statements_next(struct statements *statements);
/* The next word of a statement, or the text between "quotes", in place; NULL at the end. A
 * quote that is not closed ends with the statement. */
char *statement_word(char **statement);

#endif
