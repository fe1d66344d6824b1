// SPDX-License-Identifier: BSD-2-Clause
/* Expression trees to instructions: each part reads its tensors, then does its statements. */
#include "cost/cost_program.h"

#include "cost/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct tensor {
	const struct node *address;
	bool maybe;
};

/* A named value that is worked out once: for the exit, or because the entry asks for it often. */
struct held {
	const struct node *value;
	bool ready;
};

struct generator {
	const struct program *program;
	struct perfx_cost_program *cost;
	size_t depth;
	/* of the part that is being made */
	struct tensor tensors[PERFX_COST_TENSORS];
	size_t tensors_count;
	struct held held[PERFX_COST_KEPT];
	size_t read_cost; /* of memory of the process, in operations */
	char *why;
	size_t why_size;
	bool failed;
};

static void fail(struct generator *generator, const char *why, int limit)
{
	if (!generator->failed)
		snprintf(generator->why, generator->why_size, why, limit);
	generator->failed = true;
}

/* `pops` of its operands are on the stack, and it leaves `pushes`. */
static void emit(struct generator *generator, enum perfx_op op, unsigned n, int32_t imm,
		 size_t pops, size_t pushes)
{
	struct perfx_cost_program *cost = generator->cost;

	if (cost->count == PERFX_COST_CODE_MAX) {
		fail(generator, "needs more than %d instructions: simplify it, or use fewer names",
		     PERFX_COST_CODE_MAX);
		return;
	}
	cost->code[cost->count++] =
		(struct perfx_instruction){.op = (__u8)op, .n = (__u8)n, .imm = imm};
	generator->depth += pushes - pops;
	if (generator->depth > PERFX_COST_DEPTH)
		fail(generator, "holds more than %d values at a time: put the deeper part first",
		     PERFX_COST_DEPTH);
}

static bool equal(const struct node *a, const struct node *b)
{
	if (a == b)
		return true;
	if (a->op != b->op || a->n != b->n || a->imm != b->imm || a->of_tensor != b->of_tensor ||
	    a->maybe != b->maybe || a->children_count != b->children_count)
		return false;
	for (size_t i = 0; i < a->children_count; i++)
		if (!equal(a->children[i], b->children[i]))
			return false;
	return true;
}

static int tensor_of(const struct generator *generator, const struct node *node)
{
	for (size_t i = 0; i < generator->tensors_count; i++)
		if (generator->tensors[i].maybe == node->maybe &&
		    equal(generator->tensors[i].address, node->children[0]))
			return (int)i;
	return -1;
}

static int held_index(const struct generator *generator, const struct node *node)
{
	for (int i = 0; i < PERFX_COST_KEPT; i++)
		if (generator->held[i].value == node)
			return i;
	return -1;
}

static void emit_value(struct generator *generator, const struct node *node)
{
	int place = held_index(generator, node);

	if (generator->failed)
		return;
	if (place >= 0 && generator->held[place].ready) {
		emit(generator, PERFX_OP_KEPT, (unsigned)place, 0, 0, 1);
		return;
	}
	if (node->of_tensor) {
		int tensor = tensor_of(generator, node);

		if (tensor < 0)
			fail(generator, "a tensor's address depends on another tensor", 0);
		else
			emit(generator, (enum perfx_op)node->op, (unsigned)tensor, node->imm, 0, 1);
		return;
	}
	for (size_t i = 0; i < node->children_count; i++)
		emit_value(generator, node->children[i]);
	emit(generator, (enum perfx_op)node->op, node->n, node->imm, node->children_count, 1);
}

/* Reads the tensors that an expression asks for, in the order in which they come. */
static void read_tensors(struct generator *generator, const struct node *node)
{
	struct tensor *tensor;

	if (!node->of_tensor) {
		for (size_t i = 0; i < node->children_count; i++)
			read_tensors(generator, node->children[i]);
		return;
	}
	if (tensor_of(generator, node) >= 0)
		return;
	if (generator->tensors_count == PERFX_COST_TENSORS) {
		fail(generator, "reads more than %d tensors before or after 'exit'",
		     PERFX_COST_TENSORS);
		return;
	}
	emit_value(generator, node->children[0]);
	tensor = &generator->tensors[generator->tensors_count];
	*tensor = (struct tensor){.address = node->children[0], .maybe = node->maybe};
	emit(generator, node->maybe ? PERFX_OP_TENSOR_OR_NONE : PERFX_OP_TENSOR,
	     (unsigned)generator->tensors_count++, 0, 1, 0);
}

static void emit_statement(struct generator *generator, const struct statement *statement)
{
	for (size_t i = 0; i < statement->values_count; i++)
		emit_value(generator, statement->values[i]);
	if (statement->op != PERFX_OP_SAME) {
		emit(generator, (enum perfx_op)statement->op, statement->n, 0,
		     statement->values_count, 0);
		return;
	}
	/* there is no pop: 0 times the value is added to the bytes */
	emit(generator, PERFX_OP_SAME, 0, 0, 2, 1);
	emit(generator, PERFX_OP_CONST, 0, 0, 0, 1);
	emit(generator, PERFX_OP_MUL, 0, 0, 2, 1);
	emit(generator, PERFX_OP_BYTES, 0, 0, 1, 0);
}

/* Operations needed to evaluate it. */
static size_t cost_of(const struct generator *generator, const struct node *node)
{
	bool reads = node->op == PERFX_OP_LOAD || node->op == PERFX_OP_STACK;
	size_t cost = reads ? generator->read_cost : 1;

	for (size_t i = 0; !node->of_tensor && i < node->children_count; i++)
		cost += cost_of(generator, node->children[i]);
	return cost;
}

static size_t uses_in(const struct generator *generator, const struct node *node,
		      const struct node *value)
{
	size_t uses = 0;

	if (node == value)
		return 1;
	if (held_index(generator, node) >= 0)
		return 0;
	for (size_t i = 0; !node->of_tensor && i < node->children_count; i++)
		uses += uses_in(generator, node->children[i], value);
	return uses;
}

/* How often the statements at the entry and the held values need it. */
static size_t uses_of(const struct generator *generator, const struct node *value)
{
	const struct program *program = generator->program;
	size_t uses = 0;

	for (size_t i = 0; i < program->statements_count; i++)
		for (size_t j = 0; j < program->statements[i].values_count; j++)
			if (!program->statements[i].at_exit)
				uses += uses_in(generator, program->statements[i].values[j], value);
	for (size_t i = 0; i < PERFX_COST_KEPT; i++) {
		const struct node *held = generator->held[i].value;

		for (size_t j = 0; held && j < held->children_count; j++)
			uses += uses_in(generator, held->children[j], value);
	}
	return uses;
}

/* The named value that is best worked out once, or NULL. */
static const struct node *best_to_hold(const struct generator *generator)
{
	const struct program *program = generator->program;
	const struct node *best = NULL;
	size_t most = 0;

	for (size_t i = 0; i < program->lets_count; i++) {
		const struct node *value = program->lets[i].value;
		size_t uses, cost = cost_of(generator, value), gain;

		if (program->lets[i].at_exit || held_index(generator, value) >= 0)
			continue;
		uses = uses_of(generator, value);
		gain = uses * cost > cost + 1 + uses ? uses * cost - cost - 1 - uses : 0;
		if (gain > most) {
			most = gain;
			best = value;
		}
	}
	return best;
}

/* In the order of their names, for one may be made of another. */
static void hold_values(struct generator *generator)
{
	const struct program *program = generator->program;

	for (size_t i = 0; i < program->lets_count; i++) {
		int place = held_index(generator, program->lets[i].value);

		if (place < 0 || generator->held[place].ready)
			continue;
		emit_value(generator, program->lets[i].value);
		emit(generator, PERFX_OP_KEEP, (unsigned)place, 0, 1, 0);
		generator->held[place].ready = true;
	}
}

static void emit_part(struct generator *generator, bool at_exit)
{
	const struct program *program = generator->program;

	generator->tensors_count = 0;
	for (size_t i = 0; i < program->statements_count; i++)
		for (size_t j = 0; j < program->statements[i].values_count; j++)
			if (program->statements[i].at_exit == at_exit)
				read_tensors(generator, program->statements[i].values[j]);
	for (size_t i = 0; !at_exit && i < program->lets_count; i++)
		if (program->lets[i].kept >= 0)
			read_tensors(generator, program->lets[i].value);
	if (!at_exit)
		hold_values(generator);
	for (size_t i = 0; i < program->statements_count; i++)
		if (program->statements[i].at_exit == at_exit)
			emit_statement(generator, &program->statements[i]);
}

static bool generate(struct generator *generator)
{
	const struct program *program = generator->program;

	generator->failed = false;
	memset(generator->held, 0, sizeof(generator->held));
	memset(generator->cost, 0, sizeof(*generator->cost));
	generator->depth = 0;
	generator->cost->flags = program->flags;
	for (size_t i = 0; i < program->lets_count; i++)
		if (program->lets[i].kept >= 0)
			generator->held[program->lets[i].kept].value = program->lets[i].value;
	for (size_t i = program->kept_count; i < PERFX_COST_KEPT; i++)
		generator->held[i].value = best_to_hold(generator);
	emit_part(generator, false);
	generator->cost->entry_count = generator->cost->count;
	emit_part(generator, true);
	return !generator->failed;
}

int cost_compile(const char *text, struct perfx_cost_program *cost, char *why, size_t why_size)
{
	struct program program;
	struct generator generator = {.program = &program,
				      .cost = cost,
				      .read_cost = 8,
				      .why = why,
				      .why_size = why_size};
	int err = cost_parse(text, &program, why, why_size);

	if (err)
		return err;
	/* holds values that are expensive to read; where that gets too long, values that are long
	 */
	if (generate(&generator))
		return 0;
	generator.read_cost = 1;
	return generate(&generator) ? 0 : -EINVAL;
}

uint8_t cost_argument_regs(const struct perfx_cost_program *cost)
{
	uint8_t regs = 0;

	for (size_t i = 0; i < cost->entry_count; i++)
		if (cost->code[i].op == PERFX_OP_ARG)
			regs |= (uint8_t)(1u << (cost->code[i].n - 1));
	return regs;
}

bool cost_has_exit(const struct perfx_cost_program *cost)
{
	return cost->count > cost->entry_count;
}

bool cost_reads_result(const struct perfx_cost_program *cost)
{
	for (size_t i = cost->entry_count; i < cost->count; i++)
		if (cost->code[i].op == PERFX_OP_ARG)
			return true;
	return false;
}
