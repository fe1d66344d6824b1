/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of this module. */
#ifndef PERFX_DIFF_INTERNAL_H
#define PERFX_DIFF_INTERNAL_H

#include "base/text.h"
#include "diff/diff.h"
#include "report/document/document.h"

/* NAN where the count is absent or the time 0. */
double diff_per_s(uint64_t count, uint64_t ns);
double diff_of(uint64_t part, uint64_t whole);
/* A rate that is below 0 where it is not known. */
double diff_known(double number);

/* One side's number of a pair. */
static inline double *diff_side(struct diff_pair *pair, bool is_b)
{
	return is_b ? &pair->b : &pair->a;
}

/* functions.c, memory.c, gpu.c: both of one process; 0 or -ENOMEM */
int diff_functions(const struct diff *diff, struct diff_process *process);
int diff_memory(struct diff *diff, struct diff_process *process);
int diff_gpu(const struct diff *diff, struct diff_process *process);
/* Once it is known how many tests there are. */
void diff_judge_function(const struct diff *diff, struct diff_function *function);
void diff_judge_gpu(const struct diff *diff, struct diff_gpu *gpu);
int diff_order_functions(const void *a, const void *b);
/* change: of a mean; > 0 is worse */
enum diff_verdict diff_judge(const struct diff *diff, const struct welch *welch, double change);

/* The state of composing a document, and cells of pairs (cells.c). */
struct comparer {
	struct document *document;
	const struct diff *diff;
	const struct diff_options *options;
	size_t functions, places; /* rows */
	unsigned name_columns;
	bool comment;		   /* significant changes are open, everything else is folded */
	const struct shape *shape; /* of a comment */
	enum block_kind verdict;   /* a paragraph, where another verdict stands above it */
};

/* Adds a value as text; callers show "-" for an unknown one. */
typedef void diff_add_value(struct text *text, double value);

void diff_add_rate(struct text *text, double value);
void diff_add_size(struct text *text, double value);
void diff_add_time(struct text *text, double value);
void diff_add_number(struct text *text, double value);
void diff_add_flops(struct text *text, double value);

/* "40.2 % → 50.2 %": both in one column, so that both are shown or neither. */
void diff_add_both(struct text *text, struct diff_pair pair, diff_add_value *add);
/* The same behind a word, in a line of such facts; nothing where neither is known. */
void diff_add_fact(struct text *text, const char *what, struct diff_pair pair, diff_add_value *add);

/* The first columns of most tables, and their cells. */
#define DIFF_CHANGE_COLUMNS	   NUMBERS("Change"), NUMBERS("Ratio", .rank = 5)
#define DIFF_CHANGE_CELLS(c, pair) diff_cell_change(c, pair), diff_cell_ratio(c, pair)
const char *diff_cell_change(struct comparer *c, struct diff_pair pair);
const char *diff_cell_ratio(struct comparer *c, struct diff_pair pair);
const char *diff_cell_both(struct comparer *c, struct diff_pair pair, diff_add_value *add);
const char *diff_cell_one(struct comparer *c, double value, diff_add_value *add);
/* Cells with the values of both sides; never left out. */
#define DIFF_PAIR_CELLS(c, pair, add) \
	diff_cell_one(c, (pair).a, add), diff_cell_one(c, (pair).b, add)
/* unjudged: why there is no verdict */
const char *diff_cell_verdict(const struct comparer *c, const char *verdict, enum diff_verdict of,
			      bool regressed, const char *unjudged);

static inline const char *diff_name(struct comparer *c, const char *name)
{
	return document_name(c->document, name, c->name_columns);
}

/* compose_gpu.c: the work of GPUs for a process. */
void diff_compose_gpu(struct comparer *c, const struct diff_gpu *gpu);

#endif
