/* SPDX-License-Identifier: BSD-2-Clause */
/* What statements and expressions are parsed with. After the first failure nothing is of use. */
#ifndef PERFX_COST_PARSER_H
#define PERFX_COST_PARSER_H

#include "cost/internal.h"

struct parser {
	struct program *program;
	const char *at;
	char *why;
	size_t why_size;
	uint8_t int_bytes;
	bool slot, at_exit, saw_argument, failed;
	int nesting;
};

/* Keeps the first thing that was wrong, and where. NULL. */
__attribute__((format(printf, 2, 3))) const struct node *parser_fail(struct parser *parser,
								     const char *format, ...);

void parser_skip_blanks(struct parser *parser);
/* Is this the next character? Then it is taken. */
bool parser_take(struct parser *parser, char c);
bool parser_expect(struct parser *parser, char c);
/* Letters, digits, '_'; "" when there are none. */
void parser_take_word(struct parser *parser, char word[NAME_MAX_BYTES]);
bool parser_take_number(struct parser *parser, int32_t *number);

/* NULL: failed. */
const struct node *parser_expression(struct parser *parser);

#endif
