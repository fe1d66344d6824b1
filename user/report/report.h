/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State and findings → a file. One writer a format; a writer never computes, it shows.
 */
#ifndef PERFX_REPORT_REPORT_H
#define PERFX_REPORT_REPORT_H

#include "aggregate/profile.h"
#include "analyze/analyze.h"

#include <stdbool.h>
#include <stdio.h>

struct report_options {
	bool color;	   /* terminal: ANSI colours */
	unsigned width;	   /* terminal: columns; 0: 80 */
	bool full;	   /* text: all of it, not one screen or two */
	unsigned top;	   /* rows a table; 0: the format's default */
	bool full_cmdline; /* show command lines as recorded (hidden values stay hidden) */
	/* CSV and TSV: which table (report/data_table.h), NULL: functions; by which of its columns,
	 * NULL: its own order; without names above. For the others report/selection.h sorts. */
	const char *table, *sort;
	bool no_header;
	const char *template; /* of report_writer_template: its text, which was checked */
};

struct report_writer {
	const char *name;     /* "text", "md", …: -f */
	const char *suffixes; /* " .txt .text ": -o FILE */
	/* 0 or -errno of the stream. */
	int (*write)(FILE *out, const struct profile *profile, const struct analysis *analysis,
		     const struct report_options *options);
	bool tables; /* writes one table: --table */
};

/* In a form of one's own (report/template.h). */
extern const struct report_writer report_writer_template;

/* By -f name or by the suffix of a path; NULL when unknown. */
const struct report_writer *report_writer_named(const char *name);
const struct report_writer *report_writer_for(const char *path);
/* "text, md, …" and ".txt .md …", for messages. Static. */
const char *report_writer_names(void);
const char *report_writer_suffixes(void);

#endif
