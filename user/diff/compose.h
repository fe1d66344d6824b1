/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files that compose a comparison share. */
#ifndef PERFX_DIFF_COMPOSE_H
#define PERFX_DIFF_COMPOSE_H

#include "diff/writers.h"
#include "report/document/document.h"

struct comparer {
	struct document *document;
	const struct diff *diff;
	const struct diff_options *options;
	size_t functions, places; /* rows */
	unsigned name_columns;
};

/* A value, as text. Of what is not known "-" is shown. */
typedef void add_value(struct text *text, double value);
void add_share(struct text *text, double share);
void add_rate(struct text *text, double per_s);
void add_size(struct text *text, double bytes);
void add_time(struct text *text, double ns);
void add_number(struct text *text, double value);
void add_flops(struct text *text, double per_s);
/* "40.2 % → 50.2 %": both in one column, so that both are shown or neither. */
void add_both(struct text *text, struct diff_pair pair, add_value *add);
/* " · " what, and both; nothing where neither is known. */
void add_fact(struct text *text, const char *what, struct diff_pair pair, add_value *add);

void cell_change(struct comparer *c, struct diff_pair pair);
void cell_ratio(struct comparer *c, struct diff_pair pair);
void cell_both(struct comparer *c, struct diff_pair pair, add_value *add);
void cell_one(struct comparer *c, double value, add_value *add);
/* What both sides have, side by side: always shown. */
void cells_ns(struct comparer *c, struct diff_pair pair);
void cells_bytes(struct comparer *c, struct diff_pair pair);
void cells_gflops(struct comparer *c, struct diff_pair pair);
void cell_verdict(struct comparer *c, const char *verdict, enum diff_verdict of, bool regressed,
		  const char *unjudged);

/* story.c: what happened to a process, a line each; parts of it for the verdict */
void compose_story(struct comparer *c, const struct diff_process *p);
void story_add_finding(struct text *into, const struct finding *finding);
void story_add_peak(struct text *into, const struct diff_memory *memory);
void story_add_steps(struct text *into, const struct diff_steps *steps);

#endif
