// SPDX-License-Identifier: BSD-2-Clause
/* Text to statements. */
#include "cost/parser.h"
#include "perfx_record.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

static struct statement *new_statement(struct parser *parser, enum perfx_op op)
{
	struct statement *statement =
		&parser->program->statements[parser->program->statements_count];

	if (parser->program->statements_count == STATEMENTS_MAX) {
		parser_fail(parser, "more than %d statements", STATEMENTS_MAX);
		return NULL;
	}
	parser->program->statements_count++;
	*statement = (struct statement){.op = (uint8_t)op, .at_exit = parser->at_exit};
	return statement;
}

/* flops = EXPR */
static void parse_amount(struct parser *parser, enum perfx_op op)
{
	struct statement *statement = new_statement(parser, op);

	if (!statement || !parser_expect(parser, '='))
		return;
	statement->values[0] = parser_expression(parser);
	statement->values_count = 1;
}

/* same(a, b), note(key, a, b) */
static void parse_list(struct parser *parser, enum perfx_op op, uint8_t count)
{
	struct statement *statement = new_statement(parser, op);

	if (!statement || !parser_expect(parser, '('))
		return;
	for (uint8_t i = 0; i < count; i++) {
		if (i && !parser_expect(parser, ','))
			return;
		statement->values[i] = parser_expression(parser);
		if (!statement->values[i])
			return;
	}
	statement->values_count = count;
	parser_expect(parser, ')');
}

static void parse_dtype(struct parser *parser)
{
	static const struct {
		const char *name;
		enum perfx_dtype dtype;
	} names[] = {
		{"f64", PERFX_DTYPE_F64},	  {"f32", PERFX_DTYPE_F32},
		{"tf32", PERFX_DTYPE_TF32},	  {"f16", PERFX_DTYPE_F16},
		{"bf16", PERFX_DTYPE_BF16},	  {"f8", PERFX_DTYPE_F8},
		{"c128", PERFX_DTYPE_C128},	  {"c64", PERFX_DTYPE_C64},
		{"integer", PERFX_DTYPE_INTEGER},
	};
	struct statement *statement = new_statement(parser, PERFX_OP_DTYPE);
	char word[NAME_MAX_BYTES];

	if (!statement || !parser_expect(parser, '='))
		return;
	parser_take_word(parser, word);
	if (!strcmp(word, "cuda") && parser_expect(parser, '(')) {
		statement->values[0] = parser_expression(parser);
		statement->values_count = 1;
		parser_expect(parser, ')');
		return;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i].name, word))
			statement->n = (uint8_t)names[i].dtype;
	if (!statement->n)
		parser_fail(parser,
			    "'%s' is no type of number: f64 f32 tf32 f16 bf16 f8 c128 c64 "
			    "integer cuda(…)",
			    word);
}

static void parse_let_statement(struct parser *parser)
{
	struct let *let = &parser->program->lets[parser->program->lets_count];
	struct let made = {.at_exit = parser->at_exit, .kept = -1};

	parser_take_word(parser, made.name);
	if (!*made.name || isdigit((unsigned char)*made.name)) {
		parser_fail(parser, "let NAME = …: the name is missing");
		return;
	}
	if (parser->program->lets_count == LETS_MAX) {
		parser_fail(parser, "more than %d names", LETS_MAX);
		return;
	}
	if (!parser_expect(parser, '='))
		return;
	made.value = parser_expression(parser);
	*let = made;
	parser->program->lets_count++;
}

/* bus(once), bus(others, key), bus(ring, key) */
static void parse_bus(struct parser *parser)
{
	static const struct {
		const char *name;
		enum perfx_bus bus;
	} names[] = {
		{"once", PERFX_BUS_ONCE}, {"others", PERFX_BUS_OTHERS}, {"ring", PERFX_BUS_RING}};
	struct statement *statement = new_statement(parser, PERFX_OP_BUS);
	char word[NAME_MAX_BYTES];

	if (!statement || !parser_expect(parser, '('))
		return;
	parser_take_word(parser, word);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i].name, word))
			statement->n = (uint8_t)names[i].bus;
	if (!statement->n) {
		parser_fail(parser, "'%s': bus(once), bus(others, key) or bus(ring, key)", word);
		return;
	}
	if (statement->n != PERFX_BUS_ONCE && parser_expect(parser, ',')) {
		statement->values[0] = parser_expression(parser);
		statement->values_count = 1;
	}
	parser_expect(parser, ')');
}

static void parse_int(struct parser *parser)
{
	int32_t bits;

	if (!parser_expect(parser, '=') || !parser_take_number(parser, &bits))
		return;
	if (bits != 32 && bits != 64)
		parser_fail(parser, "int = 32, or int = 64");
	parser->int_bytes = (uint8_t)(bits / 8);
}

static void parse_exit(struct parser *parser)
{
	if (parser->at_exit)
		parser_fail(parser, "a second 'exit'");
	parser->at_exit = true;
}

static void parse_slot(struct parser *parser)
{
	if (parser->saw_argument)
		parser_fail(parser, "'slot' comes before the first argument");
	parser->slot = true;
}

static void parse_statement(struct parser *parser)
{
	char word[NAME_MAX_BYTES];

	parser_take_word(parser, word);
	if (!strcmp(word, "flops"))
		parse_amount(parser, PERFX_OP_FLOPS);
	else if (!strcmp(word, "bytes"))
		parse_amount(parser, PERFX_OP_BYTES);
	else if (!strcmp(word, "dtype"))
		parse_dtype(parser);
	else if (!strcmp(word, "let"))
		parse_let_statement(parser);
	else if (!strcmp(word, "same"))
		parse_list(parser, PERFX_OP_SAME, 2);
	else if (!strcmp(word, "note"))
		parse_list(parser, PERFX_OP_NOTE, 3);
	else if (!strcmp(word, "bus"))
		parse_bus(parser);
	else if (!strcmp(word, "int"))
		parse_int(parser);
	else if (!strcmp(word, "slot"))
		parse_slot(parser);
	else if (!strcmp(word, "exit"))
		parse_exit(parser);
	else if (!strcmp(word, "kernel"))
		parser->program->flags |= PERFX_COST_F_KERNEL;
	else if (!strcmp(word, "leaf"))
		parser->program->flags |= PERFX_COST_F_LEAF;
	else if (!strcmp(word, "worker"))
		parser->program->flags |= PERFX_COST_F_KERNEL | PERFX_COST_F_WORKER;
	else if (!strcmp(word, "submits"))
		parser->program->flags |= PERFX_COST_F_SUBMITS;
	else if (!strcmp(word, "moves"))
		parser->program->flags |= PERFX_COST_F_MOVES;
	else
		parser_fail(parser,
			    "'%s' is no statement: flops bytes dtype let same note bus int slot "
			    "kernel leaf worker submits moves exit",
			    word);
}

static bool has_statement(const struct program *program, enum perfx_op op)
{
	for (size_t i = 0; i < program->statements_count; i++)
		if (program->statements[i].op == op)
			return true;
	return false;
}

/* What it is for follows from what it says. */
static void conclude(struct parser *parser)
{
	struct program *program = parser->program;
	bool flops = has_statement(program, PERFX_OP_FLOPS);
	bool bytes = has_statement(program, PERFX_OP_BYTES);
	bool bus = has_statement(program, PERFX_OP_BUS);

	if (flops && program->flags & PERFX_COST_F_MOVES)
		parser_fail(parser, "what moves data has no flops");
	else if (bus && !(program->flags & PERFX_COST_F_MOVES && bytes))
		parser_fail(parser, "a bus is for what moves data: say 'moves' and bytes = …");
	else if (!flops && bytes && !(program->flags & PERFX_COST_F_MOVES))
		parser_fail(parser, "bytes without flops: say 'moves'");
	else if (!flops && !bytes && !has_statement(program, PERFX_OP_NOTE))
		parser_fail(parser, "says nothing: flops = … is missing");
	else if (!flops && !bytes)
		program->flags |= PERFX_COST_F_NOTES;
}

int cost_parse(const char *text, struct program *program, char *why, size_t why_size)
{
	struct parser parser = {
		.program = program, .at = text, .why = why, .why_size = why_size, .int_bytes = 4};

	memset(program, 0, sizeof(*program));
	do {
		parser_skip_blanks(&parser);
		if (!*parser.at || *parser.at == ';')
			continue;
		parse_statement(&parser);
		parser_skip_blanks(&parser);
		if (*parser.at && *parser.at != ';')
			parser_fail(&parser, "';' is missing");
	} while (!parser.failed && parser_take(&parser, ';'));
	if (!parser.failed)
		conclude(&parser);
	return parser.failed ? -EINVAL : 0;
}
