// SPDX-License-Identifier: BSD-2-Clause
#include "diff/internal.h"

#include "base/units.h"

#include <math.h>

void diff_cell_change(struct comparer *c, struct diff_pair pair)
{
	double change = diff_change(pair);

	if (isnan(change))
		document_cell_printf(c->document, "-");
	else if (change >= 9.995)
		document_cell_printf(c->document, "×%.3g", change + 1);
	else
		document_cell_printf(c->document, fabs(change) < 0.0005 ? "0 %%" : "%+.1f %%",
				     100 * change);
}

void diff_cells_change(struct comparer *c, struct diff_pair pair)
{
	double ratio = diff_ratio(pair);

	diff_cell_change(c, pair);
	if (isnan(ratio))
		document_cell_printf(c->document, "-");
	else
		document_cell_printf(c->document, ratio < 9.995 ? "%.2f" : "%.3g", ratio);
}

static uint64_t whole(double value)
{
	if (isnan(value) || value < 0)
		return PROFILE_ABSENT;
	return value < 0x1p63 ? (uint64_t)llround(value) : PROFILE_ABSENT - 1;
}

void diff_add_share(struct text *text, double share)
{
	add_share(text, share);
}

void diff_add_rate(struct text *text, double per_s)
{
	if (per_s < 99.95)
		text_printf(text, "%.3g", per_s);
	else
		add_count(text, whole(per_s));
}

void diff_add_size(struct text *text, double bytes)
{
	add_bytes(text, whole(bytes));
}

void diff_add_time(struct text *text, double ns)
{
	add_ns(text, whole(ns));
}

void diff_add_number(struct text *text, double value)
{
	text_printf(text, "%.2f", value);
}

void diff_add_flops(struct text *text, double per_s)
{
	add_si(text, per_s, "FLOP/s");
}

static void add_known(struct text *text, double value, diff_add_value *add)
{
	if (isnan(value))
		text_add(text, "-");
	else
		add(text, value);
}

void diff_add_both(struct text *text, struct diff_pair pair, diff_add_value *add)
{
	if (isnan(pair.a) && isnan(pair.b)) {
		text_add(text, "-");
		return;
	}
	add_known(text, pair.a, add);
	text_add(text, " → ");
	add_known(text, pair.b, add);
}

void diff_cell_both(struct comparer *c, struct diff_pair pair, diff_add_value *add)
{
	struct text cell = {0};

	diff_add_both(&cell, pair, add);
	document_cell(c->document, &cell);
}

void diff_cell_one(struct comparer *c, double value, diff_add_value *add)
{
	struct text cell = {0};

	add_known(&cell, value, add);
	document_cell(c->document, &cell);
}

void diff_cells_ns(struct comparer *c, struct diff_pair pair)
{
	diff_cell_one(c, pair.a, diff_add_time);
	diff_cell_one(c, pair.b, diff_add_time);
}

void diff_cells_bytes(struct comparer *c, struct diff_pair pair)
{
	diff_cell_one(c, pair.a, diff_add_size);
	diff_cell_one(c, pair.b, diff_add_size);
}

void diff_cells_gflops(struct comparer *c, struct diff_pair pair)
{
	document_cell_gflops(c->document, isnan(pair.a) ? -1 : pair.a);
	document_cell_gflops(c->document, isnan(pair.b) ? -1 : pair.b);
}

void diff_cell_verdict(struct comparer *c, const char *verdict, enum diff_verdict of,
		       bool regressed, const char *unjudged)
{
	const char *word = verdict;

	if (of == DIFF_UNJUDGED || of == DIFF_SAME)
		word = of == DIFF_SAME ? "no" : unjudged;
	document_cell_printf(c->document, "%s",
			     regressed && c->options->fails ? "regression" : word);
}

void diff_add_fact(struct text *text, const char *what, struct diff_pair pair, diff_add_value *add)
{
	if (isnan(pair.a) && isnan(pair.b))
		return;
	text_printf(text, "%s%s ", text->length ? " · " : "", what);
	diff_add_both(text, pair, add);
}
