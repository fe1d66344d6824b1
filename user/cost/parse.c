// SPDX-License-Identifier: BSD-2-Clause
/* The text of a cost to statements and trees: recursive descent, one function for each rule. */
#include "cost/internal.h"
#include "perfx_record.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NESTING_MAX = 32 };

#define RESULT "result"

/* After the first failure nothing in it is of use. */
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
__attribute__((format(printf, 2, 3))) static const struct node *fail(struct parser *parser,
								     const char *format, ...)
{
	va_list list;
	int n;

	if (parser->failed)
		return NULL;
	parser->failed = true;
	va_start(list, format);
	n = vsnprintf(parser->why, parser->why_size, format, list);
	va_end(list);
	if (n >= 0 && (size_t)n < parser->why_size) {
		int rest = *parser->at == ';' ? 1 : (int)strcspn(parser->at, ";");

		snprintf(parser->why + n, parser->why_size - (size_t)n,
			 *parser->at ? ", before '%.*s'" : ", at the end", rest > 24 ? 24 : rest,
			 parser->at);
	}
	return NULL;
}

static void skip_blanks(struct parser *parser)
{
	while (isspace((unsigned char)*parser->at))
		parser->at++;
}

/* Skips the character if it is the next one. */
static bool skip_char(struct parser *parser, char c)
{
	skip_blanks(parser);
	if (*parser->at != c)
		return false;
	parser->at++;
	return true;
}

static bool expect(struct parser *parser, char c)
{
	if (skip_char(parser, c))
		return true;
	fail(parser, "'%c' is missing", c);
	return false;
}

/* A word: letters, digits, '_'; "" when there is none, or it is too long to be one. */
static void read_word(struct parser *parser, char word[NAME_MAX_BYTES])
{
	size_t n = 0;

	skip_blanks(parser);
	while (isalnum((unsigned char)parser->at[n]) || parser->at[n] == '_')
		n++;
	if (n >= NAME_MAX_BYTES) {
		fail(parser, "a name of more than %d letters", NAME_MAX_BYTES - 1);
		n = 0;
	}
	memcpy(word, parser->at, n);
	word[n] = '\0';
	parser->at += n;
}

static const struct node *parse_expression(struct parser *parser);

static struct node *new_node(struct parser *parser, enum perfx_op op, uint8_t n, int32_t imm)
{
	struct node *node = &parser->program->nodes[parser->program->nodes_count];

	if (parser->program->nodes_count == NODES_MAX) {
		fail(parser, "more than %d operations", NODES_MAX);
		return NULL;
	}
	parser->program->nodes_count++;
	*node = (struct node){.op = (uint8_t)op, .n = n, .imm = imm, .weight = 1};
	return node;
}

/* A name stands for its expression, so that names of names grow fast. */
static bool add_child(struct parser *parser, struct node *node, const struct node *child)
{
	if (!child)
		return false;
	node->children[node->children_count++] = child;
	node->weight += child->weight;
	if (node->weight > WEIGHT_MAX)
		fail(parser, "more than %d operations with all names written out", WEIGHT_MAX);
	return !parser->failed;
}

static bool is_number(const struct node *node, int32_t number)
{
	return node->op == PERFX_OP_CONST && node->imm == number;
}

/* Constants are folded here, not at every call. NULL: not constant. */
static const struct node *fold(struct parser *parser, enum perfx_op op, const struct node *a,
			       const struct node *b)
{
	int64_t value;

	if (op == PERFX_OP_MUL && is_number(a, 1))
		return b;
	if ((op == PERFX_OP_MUL || op == PERFX_OP_DIV) && is_number(b, 1))
		return a;
	if (a->op != PERFX_OP_CONST || b->op != PERFX_OP_CONST)
		return NULL;
	if (op == PERFX_OP_EQ)
		return new_node(parser, PERFX_OP_CONST, 0, a->imm == b->imm);
	value = op == PERFX_OP_MUL   ? (int64_t)a->imm * b->imm
		: op == PERFX_OP_ADD ? (int64_t)a->imm + b->imm
				     : -1;
	return value >= 0 && value <= INT32_MAX
		       ? new_node(parser, PERFX_OP_CONST, 0, (int32_t)value)
		       : NULL;
}

static const struct node *binary(struct parser *parser, enum perfx_op op, const struct node *a,
				 const struct node *b)
{
	const struct node *known = a && b ? fold(parser, op, a, b) : NULL;
	struct node *node = a && b && !known ? new_node(parser, op, 0, 0) : NULL;

	if (!node)
		return known;
	return add_child(parser, node, a) && add_child(parser, node, b) ? node : NULL;
}

static bool read_number(struct parser *parser, int32_t *number)
{
	unsigned long long value;
	char *end;

	skip_blanks(parser);
	if (!isdigit((unsigned char)*parser->at)) {
		fail(parser, "a number is missing");
		return false;
	}
	errno = 0;
	value = strtoull(parser->at, &end, 0);
	if (errno || value > INT32_MAX) {
		fail(parser, "a number above 2147483647");
		return false;
	}
	parser->at = end;
	*number = (int32_t)value;
	return true;
}

/* "arg3" with stem "arg" gives 3; 0: is not that. */
static int numbered(const char *word, const char *stem)
{
	size_t length = strlen(stem);
	char *end;
	unsigned long value;

	if (strncmp(word, stem, length) != 0 || !isdigit((unsigned char)word[length]))
		return 0;
	value = strtoul(word + length, &end, 10);
	return *end || value > 200 ? 0 : (int)value;
}

static const struct node *parse_let(struct parser *parser, const char *name)
{
	for (size_t i = parser->program->lets_count; i-- > 0;) {
		struct let *let = &parser->program->lets[i];

		if (strcmp(let->name, name) != 0)
			continue;
		if (!parser->at_exit || let->at_exit)
			return let->value;
		if (let->value && let->value->op == PERFX_OP_CONST)
			return let->value;
		if (let->kept < 0 && parser->program->kept_count == PERFX_COST_KEPT)
			return fail(parser, "more than %d names are needed after 'exit'",
				    PERFX_COST_KEPT);
		if (let->kept < 0)
			let->kept = (int)parser->program->kept_count++;
		return new_node(parser, PERFX_OP_KEPT, (uint8_t)let->kept, 0);
	}
	return fail(parser, "unknown word '%s'", name);
}

/* size(t, i) */
static const struct node *parse_size(struct parser *parser, struct node *node)
{
	bool negative;

	if (!expect(parser, ','))
		return NULL;
	negative = skip_char(parser, '-');
	if (!read_number(parser, &node->imm))
		return NULL;
	if (node->imm >= PERFX_COST_DIMS_MAX)
		return fail(parser, "a tensor has at most %d dimensions", PERFX_COST_DIMS_MAX);
	if (negative)
		node->imm = -node->imm;
	return node;
}

/* numel(t), or numel(maybe(t)): the address is that of the tensor. */
static const struct node *parse_tensor(struct parser *parser, enum perfx_op op)
{
	struct node *node = new_node(parser, op, 0, 0);
	const struct node *address;
	const char *before;
	char word[NAME_MAX_BYTES];

	if (!node || !expect(parser, '('))
		return NULL;
	before = parser->at;
	read_word(parser, word);
	node->maybe = !strcmp(word, "maybe") && skip_char(parser, '(');
	if (!node->maybe)
		parser->at = before;
	address = parse_expression(parser);
	if (!address || (node->maybe && !expect(parser, ')')))
		return NULL;
	node->of_tensor = true;
	if (!add_child(parser, node, address))
		return NULL;
	if (op == PERFX_OP_SIZE && !parse_size(parser, node))
		return NULL;
	return expect(parser, ')') ? node : NULL;
}

static const struct {
	const char *name;
	uint8_t op, children, n; /* children 0: its value is a tensor */
} functions[] = {
	{"i32", PERFX_OP_DIM, 1, 4},	   {"i64", PERFX_OP_DIM, 1, 8},
	{"u8", PERFX_OP_LOW, 1, 1},	   {"u16", PERFX_OP_LOW, 1, 2},
	{"u32", PERFX_OP_LOW, 1, 4},	   {"load8", PERFX_OP_LOAD, 1, 1},
	{"load16", PERFX_OP_LOAD, 1, 2},   {"load32", PERFX_OP_LOAD, 1, 4},
	{"load64", PERFX_OP_LOAD, 1, 8},   {"eq", PERFX_OP_EQ, 2, 0},
	{"pair", PERFX_OP_PAIR, 2, 0},	   {"same", PERFX_OP_SAME, 2, 0},
	{"select", PERFX_OP_SELECT, 3, 0}, {"noted0", PERFX_OP_NOTED0, 1, 0},
	{"noted1", PERFX_OP_NOTED1, 1, 0}, {"numel", PERFX_OP_NUMEL, 0, 0},
	{"ndim", PERFX_OP_NDIM, 0, 0},	   {"size", PERFX_OP_SIZE, 0, 0},
	{"elem", PERFX_OP_ELEMENT, 0, 0},  {"complex", PERFX_OP_COMPLEX, 0, 0},
};

/* load64(x + 8): the distance goes into the instruction. */
static void fold_offset(struct node *load)
{
	const struct node *sum = load->children[0];

	if ((sum->op != PERFX_OP_ADD && sum->op != PERFX_OP_SUB) ||
	    sum->children[1]->op != PERFX_OP_CONST)
		return;
	load->imm = sum->op == PERFX_OP_ADD ? sum->children[1]->imm : -sum->children[1]->imm;
	load->children[0] = sum->children[0];
}

static const struct node *simplify(struct parser *parser, const struct node *node)
{
	const struct node *known = NULL;

	if (node->op == PERFX_OP_EQ)
		known = fold(parser, PERFX_OP_EQ, node->children[0], node->children[1]);
	else if (node->op == PERFX_OP_SELECT && node->children[0]->op == PERFX_OP_CONST)
		known = node->children[node->children[0]->imm ? 1 : 2];
	return known ? known : node;
}

/* The part in parentheses of a function of `count` values. */
static const struct node *parse_call(struct parser *parser, enum perfx_op op, uint8_t n,
				     uint8_t count)
{
	struct node *node = new_node(parser, op, n, 0);

	if (!node || !expect(parser, '('))
		return NULL;
	for (uint8_t i = 0; i < count; i++) {
		if (i && !expect(parser, ','))
			return NULL;
		if (!add_child(parser, node, parse_expression(parser)))
			return NULL;
	}
	if (op == PERFX_OP_LOAD)
		fold_offset(node);
	return expect(parser, ')') ? simplify(parser, node) : NULL;
}

static const struct node *parse_function(struct parser *parser, const char *name)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		enum perfx_op op = (enum perfx_op)functions[i].op;

		if (!strcmp(functions[i].name, name))
			return functions[i].children ? parse_call(parser, op, functions[i].n,
								  functions[i].children)
						     : parse_tensor(parser, op);
	}
	if (!strcmp(name, "int"))
		return parse_call(parser, PERFX_OP_DIM, parser->int_bytes, 1);
	if (!strcmp(name, "groups"))
		return parse_call(parser, PERFX_OP_GROUPS, parser->int_bytes, 5);
	if (!strcmp(name, "maybe"))
		return fail(parser, "maybe() takes a tensor: numel(maybe(t))");
	return fail(parser, "unknown function '%s'", name);
}

/* *i32(address): a dimension that is passed by reference. */
static const struct node *parse_reference(struct parser *parser)
{
	char word[NAME_MAX_BYTES];
	const struct node *load;
	struct node *node;
	uint8_t bytes;

	read_word(parser, word);
	if (!strcmp(word, "int"))
		bytes = parser->int_bytes;
	else if (!strcmp(word, "i32") || !strcmp(word, "i64"))
		bytes = word[1] == '3' ? 4 : 8;
	else
		return fail(parser, "unary '*' takes int(address), i32() or i64()");
	load = parse_call(parser, PERFX_OP_LOAD, bytes == 4 ? 4 | PERFX_OP_SIGNED : 8, 1);
	node = load ? new_node(parser, PERFX_OP_DIM, bytes, 0) : NULL;
	return node && add_child(parser, node, load) ? node : NULL;
}

static const struct node *parse_word(struct parser *parser)
{
	char word[NAME_MAX_BYTES];
	int number;

	read_word(parser, word);
	if (!*word)
		return fail(parser, "a value is missing");
	skip_blanks(parser);
	if (*parser->at == '(')
		return parse_function(parser, word);
	if ((number = numbered(word, "arg"))) {
		int place = number + (parser->slot ? 1 : 0);

		parser->saw_argument = true;
		if (parser->at_exit)
			return fail(parser,
				    "arg%d is gone at the exit: let x = arg%d before 'exit'",
				    number, number);
		if (place > 6)
			return fail(parser, "arg%d is not in a register: use stack%d", number,
				    place - 6);
		return new_node(parser, PERFX_OP_ARG, (uint8_t)place, 0);
	}
	if ((number = numbered(word, "stack"))) {
		if (parser->at_exit)
			return fail(parser,
				    "stack%d is gone at the exit: let x = stack%d before 'exit'",
				    number, number);
		return new_node(parser, PERFX_OP_STACK, (uint8_t)number, 0);
	}
	if (!strcmp(word, RESULT)) {
		/* An object in memory lies where the caller has said, which is known at the entry
		 * already. */
		if (!parser->at_exit)
			return fail(parser, "the result is known only after 'exit'");
		return parser->slot ? parse_let(parser, RESULT)
				    : new_node(parser, PERFX_OP_ARG, 7, 0);
	}
	return parse_let(parser, word);
}

static const struct node *parse_value(struct parser *parser)
{
	const struct node *node;
	int32_t number;

	if (skip_char(parser, '(')) {
		node = parse_expression(parser);
		return node && expect(parser, ')') ? node : NULL;
	}
	if (skip_char(parser, '*'))
		return parse_reference(parser);
	if (isdigit((unsigned char)*parser->at))
		return read_number(parser, &number) ? new_node(parser, PERFX_OP_CONST, 0, number)
						    : NULL;
	return parse_word(parser);
}

static const struct node *parse_product(struct parser *parser)
{
	const struct node *node = parse_value(parser);

	while (node) {
		if (skip_char(parser, '*'))
			node = binary(parser, PERFX_OP_MUL, node, parse_value(parser));
		else if (skip_char(parser, '/'))
			node = binary(parser, PERFX_OP_DIV, node, parse_value(parser));
		else
			break;
	}
	return node;
}

static const struct node *parse_expression(struct parser *parser)
{
	const struct node *node;

	if (++parser->nesting > NESTING_MAX)
		return fail(parser, "parentheses nested more than %d deep", NESTING_MAX);
	node = parse_product(parser);
	while (node) {
		if (skip_char(parser, '+'))
			node = binary(parser, PERFX_OP_ADD, node, parse_product(parser));
		else if (skip_char(parser, '-'))
			node = binary(parser, PERFX_OP_SUB, node, parse_product(parser));
		else
			break;
	}
	parser->nesting--;
	return node;
}

static struct statement *new_statement(struct parser *parser, enum perfx_op op)
{
	struct statement *statement =
		&parser->program->statements[parser->program->statements_count];

	if (parser->program->statements_count == STATEMENTS_MAX) {
		fail(parser, "more than %d statements", STATEMENTS_MAX);
		return NULL;
	}
	parser->program->statements_count++;
	*statement = (struct statement){.op = (uint8_t)op, .at_exit = parser->at_exit};
	return statement;
}

/* Further values, each after a comma but the statement's first. */
static void parse_values(struct parser *parser, struct statement *statement, uint8_t count)
{
	while (count--) {
		if (statement->values_count && !expect(parser, ','))
			return;
		statement->values[statement->values_count] = parse_expression(parser);
		if (!statement->values[statement->values_count])
			return;
		statement->values_count++;
	}
}

static void parse_dtype(struct parser *parser)
{
	static const char *const names[PERFX_DTYPES] = {
		[PERFX_DTYPE_F64] = "f64",	  [PERFX_DTYPE_F32] = "f32",
		[PERFX_DTYPE_TF32] = "tf32",	  [PERFX_DTYPE_F16] = "f16",
		[PERFX_DTYPE_BF16] = "bf16",	  [PERFX_DTYPE_F8] = "f8",
		[PERFX_DTYPE_C128] = "c128",	  [PERFX_DTYPE_C64] = "c64",
		[PERFX_DTYPE_INTEGER] = "integer"};
	struct statement *statement = new_statement(parser, PERFX_OP_DTYPE);
	char word[NAME_MAX_BYTES];

	if (!statement || !expect(parser, '='))
		return;
	read_word(parser, word);
	if (!strcmp(word, "cuda") && expect(parser, '(')) {
		parse_values(parser, statement, 1);
		expect(parser, ')');
		return;
	}
	for (uint8_t dtype = PERFX_DTYPE_UNKNOWN + 1; dtype < PERFX_DTYPES; dtype++)
		if (names[dtype] && !strcmp(names[dtype], word))
			statement->n = dtype;
	if (!statement->n)
		fail(parser,
		     "'%s' is not a number type: f64 f32 tf32 f16 bf16 f8 c128 c64 integer cuda(…)",
		     word);
}

static void add_let(struct parser *parser, const struct let *let)
{
	if (parser->program->lets_count == LETS_MAX)
		fail(parser, "more than %d names", LETS_MAX);
	else
		parser->program->lets[parser->program->lets_count++] = *let;
}

static void parse_let_statement(struct parser *parser)
{
	struct let made = {.at_exit = parser->at_exit, .kept = -1};

	read_word(parser, made.name);
	if (!*made.name || isdigit((unsigned char)*made.name)) {
		fail(parser, "let NAME = …: the name is missing");
		return;
	}
	if (!expect(parser, '='))
		return;
	made.value = parse_expression(parser);
	add_let(parser, &made);
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

	if (!statement || !expect(parser, '('))
		return;
	read_word(parser, word);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i].name, word))
			statement->n = (uint8_t)names[i].bus;
	if (!statement->n) {
		fail(parser, "'%s': bus(once), bus(others, key) or bus(ring, key)", word);
		return;
	}
	if (statement->n != PERFX_BUS_ONCE && expect(parser, ','))
		parse_values(parser, statement, 1);
	expect(parser, ')');
}

/* copy(peer, bytes), copy(memset, bytes), copy(kind(k), bytes), copy(types(from, to), bytes) */
static void parse_copy(struct parser *parser)
{
	static const struct {
		const char *name;
		uint8_t n, values_count;
	} names[] = {
		{"unknown", PERFX_GPU_DIRECTION_UNKNOWN, 0},
		{"host_to_device", PERFX_GPU_HOST_TO_DEVICE, 0},
		{"device_to_host", PERFX_GPU_DEVICE_TO_HOST, 0},
		{"device_to_device", PERFX_GPU_DEVICE_TO_DEVICE, 0},
		{"host_to_host", PERFX_GPU_HOST_TO_HOST, 0},
		{"peer", PERFX_GPU_PEER, 0},
		{"memset", PERFX_COPY_MEMSET, 0},
		{"kind", PERFX_COPY_KIND, 1},
		{"types", PERFX_COPY_TYPES, 2},
	};
	struct statement *statement = new_statement(parser, PERFX_OP_COPY);
	char word[NAME_MAX_BYTES];
	size_t i = 0;

	if (!statement || !expect(parser, '('))
		return;
	read_word(parser, word);
	while (i < sizeof(names) / sizeof(names[0]) && strcmp(names[i].name, word) != 0)
		i++;
	if (i == sizeof(names) / sizeof(names[0])) {
		fail(parser, "'%s' is not a direction, memset, kind() or types()", word);
		return;
	}
	statement->n = names[i].n;
	if (names[i].values_count) {
		expect(parser, '(');
		parse_values(parser, statement, names[i].values_count);
		expect(parser, ')');
	}
	if (!statement->values_count && !expect(parser, ','))
		return;
	parse_values(parser, statement, 1);
	expect(parser, ')');
}

static void parse_int(struct parser *parser)
{
	int32_t bits;

	if (!expect(parser, '=') || !read_number(parser, &bits))
		return;
	if (bits != 32 && bits != 64)
		fail(parser, "int = 32, or int = 64");
	parser->int_bytes = (uint8_t)(bits / 8);
}

static void parse_slot(struct parser *parser)
{
	const struct let result = {
		.name = RESULT, .value = new_node(parser, PERFX_OP_ARG, 1, 0), .kept = -1};

	if (parser->saw_argument)
		fail(parser, "'slot' must come before the first argument");
	parser->slot = true;
	add_let(parser, &result);
}

static void parse_exit(struct parser *parser)
{
	if (parser->at_exit)
		fail(parser, "a second 'exit'");
	parser->at_exit = true;
}

static const struct statement_kind {
	const char *word;
	void (*parse)(struct parser *parser);
	enum perfx_op op; /* word = EXPR, or with values word(EXPR, EXPR, …) */
	uint8_t values;
	uint32_t flags;
} statement_kinds[] = {
	{"flops", .op = PERFX_OP_FLOPS},
	{"bytes", .op = PERFX_OP_BYTES},
	{"dtype", .parse = parse_dtype},
	{"let", .parse = parse_let_statement},
	{"bus", .parse = parse_bus},
	{"copy", .parse = parse_copy},
	{"int", .parse = parse_int},
	{"slot", .parse = parse_slot},
	{"exit", .parse = parse_exit},
	{"same", .op = PERFX_OP_SAME, .values = 2},
	{"note", .op = PERFX_OP_NOTE, .values = 3},
	{"launch", .op = PERFX_OP_LAUNCH, .values = 6},
	{"launch_by_stub", .op = PERFX_OP_LAUNCH_BY_STUB, .values = 6},
	{"graph", .op = PERFX_OP_GRAPH, .values = 1},
	{"kernel_name", .op = PERFX_OP_KERNEL_NAME, .values = 2},
	{"kernel_alias", .op = PERFX_OP_KERNEL_ALIAS, .values = 2},
	{"wait", .flags = PERFX_COST_F_DEVICE},
	{"kernel", .flags = PERFX_COST_F_KERNEL},
	{"leaf", .flags = PERFX_COST_F_LEAF},
	{"worker", .flags = PERFX_COST_F_KERNEL | PERFX_COST_F_WORKER},
	{"shared", .flags = PERFX_COST_F_KERNEL | PERFX_COST_F_SHARED},
	{"submits", .flags = PERFX_COST_F_SUBMITS},
	{"moves", .flags = PERFX_COST_F_MOVES},
};

/* flops = EXPR; same(a, b), note(key, a, b), launch(kernel, …) */
static void parse_operation(struct parser *parser, const struct statement_kind *kind)
{
	struct statement *statement = new_statement(parser, kind->op);

	if (!statement || !expect(parser, kind->values ? '(' : '='))
		return;
	parse_values(parser, statement, kind->values ? kind->values : 1);
	if (kind->values)
		expect(parser, ')');
}

static void parse_statement(struct parser *parser)
{
	const struct statement_kind *kind = statement_kinds;
	const struct statement_kind *end =
		kind + sizeof(statement_kinds) / sizeof(statement_kinds[0]);
	char word[NAME_MAX_BYTES];

	read_word(parser, word);
	while (kind < end && strcmp(word, kind->word) != 0)
		kind++;
	if (kind < end && kind->parse)
		kind->parse(parser);
	else if (kind < end && kind->op)
		parse_operation(parser, kind);
	else if (kind < end)
		parser->program->flags |= kind->flags;
	else
		fail(parser,
		     "'%s' is not a statement: flops bytes dtype let same note bus int slot kernel "
		     "leaf worker shared submits moves exit launch launch_by_stub graph copy wait "
		     "kernel_name kernel_alias",
		     word);
}

#define HAS(op) (1ull << PERFX_OP_##op)
_Static_assert(PERFX_OPS <= 64, "a bit for each");

/* The kind of a program follows from its statements. */
static void conclude(struct parser *parser)
{
	struct program *program = parser->program;
	bool flops, bytes, moves = program->flags & PERFX_COST_F_MOVES;
	uint64_t ops = 0;

	for (size_t i = 0; i < program->statements_count; i++)
		ops |= 1ull << program->statements[i].op;
	flops = ops & HAS(FLOPS);
	bytes = ops & HAS(BYTES);
	if (ops & (HAS(LAUNCH) | HAS(LAUNCH_BY_STUB) | HAS(GRAPH) | HAS(COPY)))
		program->flags |= PERFX_COST_F_DEVICE;
	if (flops && moves)
		fail(parser, "'moves' excludes flops");
	else if ((ops & HAS(BUS)) && !(moves && bytes))
		fail(parser, "'bus' needs 'moves' and bytes = …");
	else if (!flops && bytes && !moves)
		fail(parser, "bytes without flops: add 'moves'");
	else if (!flops && !bytes && !(program->flags & PERFX_COST_F_DEVICE) &&
		 !(ops & (HAS(NOTE) | HAS(KERNEL_NAME) | HAS(KERNEL_ALIAS))))
		fail(parser, "no effect: flops = … is missing");
	else if (!flops && !bytes)
		program->flags |= PERFX_COST_F_NOTES;
}

int cost_parse(const char *text, struct program *program, char *why, size_t why_size)
{
	struct parser parser = {
		.program = program, .at = text, .why = why, .why_size = why_size, .int_bytes = 4};

	memset(program, 0, sizeof(*program));
	do {
		skip_blanks(&parser);
		if (!*parser.at || *parser.at == ';')
			continue;
		parse_statement(&parser);
		skip_blanks(&parser);
		if (*parser.at && *parser.at != ';')
			fail(&parser, "';' is missing");
	} while (!parser.failed && skip_char(&parser, ';'));
	if (!parser.failed)
		conclude(&parser);
	return parser.failed ? -EINVAL : 0;
}
