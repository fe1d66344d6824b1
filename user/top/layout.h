/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A frame as lines of text with styles, for a given width and height. What draws them needs to know
 * nothing of what they say.
 */
#ifndef PERFX_TOP_LAYOUT_H
#define PERFX_TOP_LAYOUT_H

#include "base/text.h"
#include "top/model.h"

enum top_style {
	TOP_STYLE_PLAIN = 0,
	TOP_STYLE_STRONG,
	TOP_STYLE_DIM,
	TOP_STYLE_HEAD,	  /* of a table */
	TOP_STYLE_SORTED, /* the head of the column by which it is sorted; the view that is shown */
	TOP_STYLE_SELECTED,
	TOP_STYLE_LABEL,
	TOP_STYLE_CHART,
	TOP_STYLE_HIGH, /* severities */
	TOP_STYLE_MEDIUM,
	TOP_STYLE_LOW,
	TOP_STYLE_PHASE, /* and enum profile_phase */
	TOP_STYLES = TOP_STYLE_PHASE + PROFILE_PHASES
};

/* A part of a line, up to the next one. */
struct top_run {
	size_t at;	 /* byte */
	unsigned column; /* whatever widths a terminal gives to the characters before it */
	enum top_style style;
};

struct top_line {
	struct text text;
	unsigned columns;
	struct top_run *runs;
	size_t runs_count, runs_capacity;
};

struct top_layout {
	unsigned width, height; /* of the terminal; height 0: as many lines as it takes */
	unsigned rows_max;	/* plain: of each table */
	const char *message;	/* above the keys; "": none */
	uint64_t flight_ns;	/* how long a report can be */
	struct top_line *lines;
	size_t lines_count, lines_capacity;
	bool failed; /* memory was out: lines may be missing */
};

/* The screen: `height` lines at most, none of more than `width` columns. Notes in the model how
 * many rows there is room for. frame NULL: there is none yet. */
void top_layout_screen(struct top_layout *layout, const struct top_frame *frame,
		       struct top_model *model);
/* The same as a block of text: the header, then all tables. */
void top_layout_plain(struct top_layout *layout, const struct top_frame *frame);
/* Adds the lines, without styles. */
void top_layout_text(const struct top_layout *layout, struct text *text);
void top_layout_clear(struct top_layout *layout);

#endif
