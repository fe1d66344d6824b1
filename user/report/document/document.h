/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The content of a report, independent of its format: paragraphs, findings, tables. It is composed
 * once (compose.h); the text formats only lay it out.
 *
 * Texts are sentences with marked names (base/escape.h).
 */
#ifndef PERFX_REPORT_DOCUMENT_DOCUMENT_H
#define PERFX_REPORT_DOCUMENT_DOCUMENT_H

#include "analyze/analyze.h"
#include "base/grow.h"
#include "base/text.h"
#include "base/units.h"
#include "report/report.h"

enum block_kind {
	BLOCK_VERDICT = 1,
	BLOCK_WARNING, /* the report is partial */
	BLOCK_HEADING,
	BLOCK_SECTION, /* a heading below that: Steps, Compute, Memory */
	BLOCK_PARAGRAPH,
	BLOCK_NOTE, /* small print */
	BLOCK_FINDING,
	BLOCK_CAPTION, /* of the table that follows */
	BLOCK_TABLE,
	BLOCK_PLOT, /* preformatted lines, or in HTML the figure that the block has */
	BLOCK_FOLD, /* begins a part that may be hidden at first; text: its title */
	BLOCK_UNFOLD,
	BLOCK_CHART, /* only where the limits ask for charts */
};

enum chart_kind {
	CHART_CALLS = 1,  /* flame graph of the calling contexts */
	CHART_RESIDENT,	  /* resident memory over time */
	CHART_HELD,	  /* a domain's live bytes over time, or allocated ones */
	CHART_PLACES,	  /* flame graph of a domain's hotspots */
	CHART_SAMPLES,	  /* flame graph of samples, on the CPU and waiting */
	CHART_STEPS,	  /* the steps of a training, one after the other */
	CHART_GPU,	  /* utilization and memory of its devices over time */
	CHART_ROOFLINE,	  /* functions that compute, under what the host can do */
	CHART_MEMORY_SUM, /* what resident memory consists of over time, one on top of the other */
	CHART_TIMELINE,	  /* what threads did between context switches */
};

/* The data of a chart; borrowed. */
struct chart {
	enum chart_kind kind;
	const struct profile_process *process;
	const struct profile_memory *memory; /* HELD and PLACES */
};

struct column {
	const char *title;
	bool right;	 /* numbers */
	unsigned rank;	 /* 0: always shown; the highest is left out first when space is short */
	bool takes_rest; /* gets the remaining width: one column of a table */
	bool hint;	 /* wide HTML tables move it to the row's tooltip */
	bool cut_end;	 /* shortened at its end, not in its middle */
	unsigned where;	 /* bits: only in tables that have these; 0: in all */
};

/* Columns: of numbers, of words, and the one that takes the rest; other members may follow. */
#define NUMBERS(heading, ...)                                    \
	{                                                        \
		.title = (heading), .right = true, ##__VA_ARGS__ \
	}
#define WORDS(heading, ...)                       \
	{                                         \
		.title = (heading), ##__VA_ARGS__ \
	}
#define REST(heading, ...)                                            \
	{                                                             \
		.title = (heading), .takes_rest = true, ##__VA_ARGS__ \
	}

struct table {
	struct column *columns; /* that are shown */
	size_t columns_count;
	size_t headings_count; /* with those that are not shown */
	uint32_t shown;	       /* bit i: heading i is */
	char **cells;	       /* row by row */
	size_t cells_count, cells_capacity;
	size_t body_cells; /* the rest is its foot; 0: it has none */
};

struct block {
	enum block_kind kind;
	char *text;
	struct {
		const struct finding *of;
		char *evidence, *suggestion;
		char *gain;	 /* "" : it saves no time, or that is not known */
		char *threshold; /* NULL: not shown */
		char *look;	 /* likewise */
	} finding;
	struct table table;
	struct chart chart;
	char *figure; /* of a plot: an HTML element; NULL: the lines will do */
};

struct document {
	struct block *blocks;
	size_t blocks_count, blocks_capacity;
	struct pool cells; /* of the row that is being made */
	bool failed;	   /* memory was out */
};

/* How much of the report a format shows. */
struct document_limits {
	bool brief;  /* one screen or two, and how to get the rest */
	bool groups; /* identical workers are one section; each its own is folded, unless brief */
	bool folds;  /* of compute and memory the details are folded */
	unsigned findings;
	unsigned functions; /* rows of a process's first table */
	unsigned more;	    /* rows of the folded tables, of all processes together; 0: none */
	unsigned callers;   /* functions whose callers are shown */
	unsigned hotspots;  /* rows of a domain's table */
	unsigned stacks;    /* of them, with their stacks */
	unsigned frames;    /* of such a stack, innermost */
	unsigned lines;	    /* of each language */
	bool sources;	    /* with their text */
	unsigned waits;	    /* of threads */
	unsigned threads;
	unsigned steps;	    /* of a training, in a table of their own */
	unsigned processes; /* that get a section of their own */
	unsigned not_attached;
	unsigned plot_columns; /* width of a plot */
	unsigned name_columns; /* longer names are shortened; 0: the layout does that */
	bool charts;
};

/* Composes the report. 0 or -ENOMEM. */
int document_compose(struct document *document, const struct profile *profile,
		     const struct analysis *analysis, const struct report_options *options,
		     const struct document_limits *limits);
void document_clear(struct document *document);
/* The text layouts: 0 or -errno of the stream. */
int document_write_text(FILE *out, const struct document *document, bool color, unsigned width);
int document_write_md(FILE *out, const struct document *document);
/* One file of HTML, for what needs no profile: no charts but figures of plots. json: the same for
 * programs, which is put into it. */
int document_write_html(FILE *out, const struct document *document, const char *title,
			const char *json);
/* Adds a <figure>. What is only drawn by the script (html/report.js) comes as JSON in it. */
void html_chart(struct text *into, const struct profile *profile, const struct chart *chart);
/* Adds JSON in a form that cannot end the <script> element around it: "<" as \u003c. */
void html_json(struct text *into, const char *json);

/* For composing: takes the text and leaves it empty. */
void document_add(struct document *document, enum block_kind kind, struct text *text);
/* The same, unless it is empty. */
void document_add_any(struct document *document, enum block_kind kind, struct text *text);
void document_say(struct document *document, enum block_kind kind, const char *sentence);
void document_printf(struct document *document, enum block_kind kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Takes subject and gain, as document_add does. With details: its threshold, and where to look. */
void document_add_finding(struct document *document, const struct finding *finding,
			  struct text *subject, struct text *gain, bool with_details);
void document_add_chart(struct document *document, struct chart chart);
/* A plot as lines, and as an HTML element; takes both. */
void document_add_plot(struct document *document, struct text *lines, struct text *figure);
/*
 * A table is made, then filled row by row, before the next block is added: with a heading for each
 * column, of which those are shown whose `where` it has.
 *
 *     document_headings(document, 0, NUMBERS("Waited"), NUMBERS("Calls", .rank = 1), REST("Name"));
 */
#define document_headings(document, has, ...)                                                    \
	document_add_table((document), (const struct column[]){__VA_ARGS__},                     \
			   sizeof((const struct column[]){__VA_ARGS__}) / sizeof(struct column), \
			   (has))
void document_add_table(struct document *document, const struct column *columns, size_t count,
			unsigned has);
/*
 * A row of the table that was added last: a cell for each of its columns, those that are not shown
 * included.
 *
 *     document_row(document, cell_ns(sync->wait_ns), cell_count(sync->count),
 *                  document_name(document, sync->name, 0));
 *
 * A cell is a sentence with marked names; "-" is not known, as PROFILE_ABSENT is. It lives until
 * the end of its block of code or, if made by a document_ function, until the row is added.
 */
#define document_row(document, ...)                                      \
	document_add_row((document), (const char *const[]){__VA_ARGS__}, \
			 sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))
void document_add_row(struct document *document, const char *const *cells, size_t count);
/* A single cell; takes the text. */
void document_cell(struct document *document, struct text *cell);
void document_cell_printf(struct document *document, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* The following rows are the table's foot: they stay at the end, whatever the order. */
void document_foot(struct document *document);

#define CELL(format, ...)	format((char[UNITS_MAX]){0}, __VA_ARGS__)
#define cell_ns(ns)		CELL(format_known, ns, format_ns)
#define cell_count(count)	CELL(format_known, count, format_count)
#define cell_bytes(bytes)	CELL(format_known, bytes, format_bytes)
#define cell_share(part, whole) CELL(format_part, part, whole, format_percent)
/* Of a sum over threads. */
#define cell_threads_share(ns, wall_ns) CELL(format_part, ns, wall_ns, format_share)
/* Operations, "-" where no call has a known cost; a rate in GFLOP/s, "-" below 0 and for NAN. */
#define cell_flops(cost)	 CELL(format_flops, cost)
#define cell_gflops(flops_per_s) CELL(format_gflops, flops_per_s)
const char *format_known(char buffer[UNITS_MAX], uint64_t value,
			 const char *(*format)(char *buffer, uint64_t value));
const char *format_part(char buffer[UNITS_MAX], uint64_t part, uint64_t whole,
			const char *(*format)(char *buffer, double share));
const char *format_flops(char buffer[UNITS_MAX], const struct profile_cost *cost);
const char *format_gflops(char buffer[UNITS_MAX], double flops_per_s);
/* A name from the traced program, marked; "?" when it is empty. Shortened to `columns` unless 0. */
const char *document_name(struct document *document, const char *name, unsigned columns);
/* A name that a frame is shown by, likewise; "-": NULL. */
const char *document_frame(struct document *document, const struct profile_frame *frame,
			   unsigned columns);
/* A function's module; a range is in none: its source is shown instead. */
const char *document_module(struct document *document, const struct profile_function *function,
			    unsigned columns);
/* Takes the text. */
const char *document_words(struct document *document, struct text *text);
const char *document_format(struct document *document, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Adds what a thread waited for, marked: "read from /data/train.bin", "the GIL, held by thread
 * loader (4243)". */
void document_add_wait(struct text *text, const struct profile_process *process,
		       const struct profile_activity *wait);

#endif
