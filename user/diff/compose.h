/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of a comparison's document share: its state, and cells of pairs. */
#ifndef PERFX_DIFF_COMPOSE_H
#define PERFX_DIFF_COMPOSE_H

#include "base/text.h"
#include "diff/writers.h"
#include "report/document/document.h"

struct comparer {
	struct document *document;
	const struct diff *diff;
	const struct diff_options *options;
	size_t functions, places; /* rows */
	unsigned name_columns;
	enum block_kind verdict; /* a paragraph, where another verdict stands above it */
};

/* A value, as text. Of what is not known "-" is shown. */
typedef void diff_add_value(struct text *text, double value);

void diff_add_share(struct text *text, double value);
void diff_add_rate(struct text *text, double value);
void diff_add_size(struct text *text, double value);
void diff_add_time(struct text *text, double value);
void diff_add_number(struct text *text, double value);
void diff_add_flops(struct text *text, double value);

/* "40.2 % → 50.2 %": both in one column, so that both are shown or neither. */
void diff_add_both(struct text *text, struct diff_pair pair, diff_add_value *add);
/* The same behind a word, in a line of such facts; nothing where neither is known. */
void diff_add_fact(struct text *text, const char *what, struct diff_pair pair, diff_add_value *add);

void diff_cell_change(struct comparer *c, struct diff_pair pair);
void diff_cell_ratio(struct comparer *c, struct diff_pair pair);
void diff_cell_both(struct comparer *c, struct diff_pair pair, diff_add_value *add);
void diff_cell_one(struct comparer *c, double value, diff_add_value *add);
/* What both sides have, side by side: always shown. */
void diff_cells_ns(struct comparer *c, struct diff_pair pair);
void diff_cells_bytes(struct comparer *c, struct diff_pair pair);
void diff_cells_gflops(struct comparer *c, struct diff_pair pair);
/* unjudged: why there is no verdict */
void diff_cell_verdict(struct comparer *c, const char *verdict, enum diff_verdict of,
		       bool regressed, const char *unjudged);

/* compose_gpu.c: what GPUs did for a process. */
void diff_compose_gpu(struct comparer *c, const struct diff_gpu *gpu);

#endif
