/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What top shows, without a terminal: a frame of numbers and texts (frame.c), the user's choices
 * (model.c), and the two as lines of text (layout.c).
 */
#ifndef PERFX_TOP_LAYOUT_H
#define PERFX_TOP_LAYOUT_H

#include "base/grow.h"
#include "base/text.h"
#include "live/live.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The content of top at one moment: copies of a snapshot's numbers and texts, so that a frame
 * does not change while the recording goes on.
 *
 * Texts are harmless on a terminal (base/escape.h). NAN: not measured.
 */
enum top_view { TOP_FUNCTIONS, TOP_LINES, TOP_THREADS, TOP_FINDINGS, TOP_MEMORY, TOP_VIEWS };
const char *top_view_name(enum top_view view);

/* How a number is written. */
enum top_unit { TOP_NS, TOP_SHARE, TOP_RATE, TOP_BYTES, TOP_FLOPS, TOP_NUMBER, TOP_TEXT };

struct top_column {
	const char *title;
	enum top_unit unit;
	unsigned width; /* the last column takes the rest */
	unsigned rank;	/* 0: always shown; the highest is left out first where space is short */
	bool processes; /* only where there are several processes */
	bool cut_end;	/* a text is shortened at its end, not in its middle */
};

#define TOP_COLUMNS_MAX 8

struct top_cell {
	double value;	  /* TOP_TEXT: sorts it, where it is not NAN */
	const char *text; /* TOP_TEXT */
};

struct top_row {
	struct top_cell cells[TOP_COLUMNS_MAX];
	uint32_t pid;
	enum finding_severity severity; /* 0: it is no finding */
	const char *details;		/* of the selected row, lines; NULL: none */
};

/* The most important rows first. */
struct top_table {
	const struct top_column *columns;
	size_t columns_count;
	struct top_row *rows;
	size_t rows_count, rows_capacity;
	const char *why; /* there are none; NULL: there are, or nothing has happened yet */
};

/* One number over time, a point a period; 0: not measured, or none. */
struct top_series {
	uint64_t points[LIVE_HISTORY];
	size_t count;
};

struct top_process {
	uint32_t pid;
	bool exited;
	const char *name;			  /* "python3 (pid 4711)"; of a job with its rank */
	double step_ns, steps_per_s, flops_per_s; /* NAN: not known */
	bool flops_cut;		       /* the overhead budget removed probes that FLOPs rest on */
	uint64_t steps_count;	       /* of the run */
	double phases[PROFILE_PHASES]; /* shares of the steps of the period */
	bool has_phases;
	double cpu_share; /* 1: one CPU */
	double rss_bytes, live_bytes;
	enum perfx_domain live_domain; /* of live_bytes */
	double gpu_share;
	struct top_series steps, cpu, rss, live, gpu;
};

struct top_frame {
	struct pool pool; /* of the texts */
	bool failed;	  /* memory was out */
	uint64_t elapsed_ns, period_ns;
	const char *verdict;			   /* "" : not judged yet */
	unsigned findings_counts[FINDING_LOW + 1]; /* by severity */
	struct top_process *processes;		   /* those with most steps first */
	size_t processes_count;
	struct top_table tables[TOP_VIEWS];
	double slowdown;     /* by tracing, of the program; 0.05: 5 % */
	double tracer_share; /* CPU time of the tracer; 1: one CPU */
	double hits_per_s;
	const char *losses; /* "" : none */
};

/* State of the frames before this one. All-zero: there were none. */
struct top_past {
	uint64_t hits_count, tracer_cpu_ns;
	struct top_known { /* a finding */
		uint64_t key, since_ns, number;
	} * known;
	size_t known_count, known_capacity;
};

/* tracer_cpu_ns: CPU time that this program has used. NULL: out of memory. */
struct top_frame *top_frame__new(const struct live_snapshot *snapshot, struct top_past *past,
				 uint64_t tracer_cpu_ns);
void top_frame__free(struct top_frame *frame);
void top_past_clear(struct top_past *past);

/* The user's choices of what to see, and how keys change them. */

/* A key is a character of Unicode, or one of these. */
enum top_key {
	TOP_KEY_TAB = '\t',
	TOP_KEY_ENTER = '\n',
	TOP_KEY_ESCAPE = 0x1b,
	TOP_KEY_BACKSPACE = 0x7f,
	TOP_KEY_CLEAR = 0x15, /* Ctrl-U */
	TOP_KEY_UP = 0x110000,
	TOP_KEY_DOWN,
	TOP_KEY_LEFT,
	TOP_KEY_RIGHT,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_BACK_TAB,
};

enum top_mode {
	TOP_BROWSE = 0,
	TOP_FILTER, /* the filter is being typed; it takes effect at once */
	TOP_WRITE,  /* the name of the report's file is being typed */
	TOP_HELP,
};

/* The action that the caller takes. */
enum top_action { TOP_NOTHING = 0, TOP_QUIT, TOP_WRITE_REPORT };

#define TOP_INPUT_MAX 256
#define TOP_NO_SORT   SIZE_MAX

struct top_model {
	enum top_mode mode;
	enum top_view view;
	bool paused;
	struct top_order {
		size_t column; /* TOP_NO_SORT: the table's own order */
		bool reversed; /* otherwise numbers descend and texts ascend */
	} order[TOP_VIEWS];
	size_t selected[TOP_VIEWS]; /* of the rows that are shown */
	uint32_t pid;		    /* the process of the header; 0: the first */
	char filter[TOP_INPUT_MAX]; /* rows whose texts contain it, whatever the case */
	char path[TOP_INPUT_MAX];   /* of the report */
	size_t page;		    /* rows that the last layout had room for */
};

void top_model_init(struct top_model *model);
/* frame NULL: there is none yet. */
enum top_action top_model_key(struct top_model *model, const struct top_frame *frame, uint32_t key);

/* The process of the header; NULL: there is none. */
const struct top_process *top_model_process(const struct top_model *model,
					    const struct top_frame *frame);
/* The rows of the view that pass the filter, in order: their number, and malloc'd pointers, NULL
 * where there are none. */
size_t top_model_rows(const struct top_model *model, const struct top_frame *frame,
		      const struct top_row ***rows);

/*
 * A frame as lines of text with styles, for a given width and height. The code that draws the lines
 * does not depend on their content.
 */
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
