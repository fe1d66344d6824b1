// SPDX-License-Identifier: BSD-2-Clause
#include "diff/internal.h"

#include "base/units.h"

#include <math.h>

const char *diff_cell_change(struct comparer *c, struct diff_pair pair)
{
	double change = diff_change(pair);

	if (isnan(change))
		return "-";
	if (change >= 9.995)
		return document_format(c->document, "×%.3g", change + 1);
	return document_format(c->document, fabs(change) < 0.0005 ? "0 %%" : "%+.1f %%",
			       100 * change);
}

const char *diff_cell_ratio(struct comparer *c, struct diff_pair pair)
{
	double ratio = diff_ratio(pair);

	if (isnan(ratio))
		return "-";
	return document_format(c->document, ratio < 9.995 ? "%.2f" : "%.3g", ratio);
}

static uint64_t whole(double value)
{
	if (isnan(value) || value < 0)
		return PROFILE_ABSENT;
	return value < 0x1p63 ? (uint64_t)llround(value) : PROFILE_ABSENT - 1;
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

const char *diff_cell_both(struct comparer *c, struct diff_pair pair, diff_add_value *add)
{
	struct text cell = {0};

	diff_add_both(&cell, pair, add);
	return document_words(c->document, &cell);
}

const char *diff_cell_one(struct comparer *c, double value, diff_add_value *add)
{
	struct text cell = {0};

	add_known(&cell, value, add);
	return document_words(c->document, &cell);
}

const char *diff_cell_verdict(const struct comparer *c, const char *verdict, enum diff_verdict of,
			      bool regressed, const char *unjudged)
{
	if (regressed && c->options->fails)
		return "regression";
	if (of == DIFF_UNJUDGED || of == DIFF_SAME)
		return of == DIFF_SAME ? "no" : unjudged;
	return verdict;
}

void diff_add_fact(struct text *text, const char *what, struct diff_pair pair, diff_add_value *add)
{
	if (isnan(pair.a) && isnan(pair.b))
		return;
	text_printf(text, "%s%s ", text->length ? " · " : "", what);
	diff_add_both(text, pair, add);
}
