/* SPDX-License-Identifier: BSD-2-Clause */
/* Trees and statements, from the parser (parse.c) to the generator (cost_program.c). */
#ifndef PERFX_COST_INTERNAL_H
#define PERFX_COST_INTERNAL_H

#include "cost/cost_program.h"

enum { NODES_MAX = 256, STATEMENTS_MAX = 24, LETS_MAX = 24, NAME_MAX_BYTES = 24 };
enum { STATEMENT_VALUES_MAX = 6 };
/* Operations of an expression with all names written out: no program is nearly that long. */
enum { WEIGHT_MAX = 1024 };

/* One operation and its operands. A tensor's has its address as its first child, and is not
 * worked out by itself: the tensor is read before the statements of its part. */
struct node {
	uint8_t op; /* enum perfx_op */
	uint8_t n;
	bool of_tensor, maybe;
	int32_t imm;
	uint32_t weight; /* operations, names written out */
	uint8_t children_count;
	const struct node *children[5];
};

struct statement {
	uint8_t op; /* FLOPS, BYTES, DTYPE, NOTE, SAME, BUS, LAUNCH … KERNEL_ALIAS */
	uint8_t n;  /* DTYPE, BUS, COPY */
	bool at_exit;
	uint8_t values_count;
	const struct node *values[STATEMENT_VALUES_MAX];
};

struct let {
	char name[NAME_MAX_BYTES];
	const struct node *value;
	bool at_exit;
	int kept; /* its place, from 0; -1: not needed at the exit */
};

struct program {
	struct node nodes[NODES_MAX];
	size_t nodes_count;
	struct statement statements[STATEMENTS_MAX];
	size_t statements_count;
	struct let lets[LETS_MAX];
	size_t lets_count;
	size_t kept_count;
	uint32_t flags; /* PERFX_COST_F_ */
};

/* 0, -EINVAL with why. */
int cost_parse(const char *text, struct program *program, char *why, size_t why_size);

#endif
