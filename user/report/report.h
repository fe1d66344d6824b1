/* SPDX-License-Identifier: BSD-2-Clause */
/* Profile and findings → a file, by one writer per format. Writers show; they do not analyze. */
#ifndef PERFX_REPORT_REPORT_H
#define PERFX_REPORT_REPORT_H

#include "aggregate/profile.h"
#include "analyze/analyze.h"
#include "analyze/catalogue.h"
#include "analyze/thresholds.h"
#include "base/format.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdio.h>

struct report_options {
	bool color;	   /* terminal: ANSI colours */
	unsigned width;	   /* terminal: columns; 0: 80 */
	bool full;	   /* text: all of it, not one screen or two */
	unsigned top;	   /* rows a table; 0: the format's default */
	bool full_cmdline; /* show command lines as recorded (hidden values stay hidden) */
	/* CSV and TSV: which table (report/table/table.h), NULL: functions; by which of its
	 * columns, NULL: its own order; without names above. For the others selection_sort. */
	const char *table, *sort;
	bool no_header;
	const char *template;	 /* of report_writer_template: its text, which was checked */
	double carbon_intensity; /* g CO2 per kWh; 0: not given */
};

/* 0 or -errno of the stream. */
typedef int report_write(FILE *out, const struct profile *profile, const struct analysis *analysis,
			 const struct report_options *options);

report_write report_write_text, report_write_md, report_write_html, report_write_json,
	report_write_csv, report_write_tsv, report_write_line;

struct report_writer {
	struct format format; /* "text", "md", … */
	const char *type;     /* by HTTP */
	report_write *write;
	bool tables; /* writes one table: --table */
};

/* Energy of the host and its GPUs; what was not measured is missing. */
static inline double report_joules(const struct profile_host_energy *energy)
{
	return (energy->host_uj == PROFILE_ABSENT ? 0 : (double)energy->host_uj / 1e6) +
	       (energy->gpu_mj == PROFILE_ABSENT ? 0 : (double)energy->gpu_mj / 1e3);
}

/* The emissions of that energy, g CO2. */
static inline double report_carbon_g(double joules, double g_per_kwh)
{
	return joules / 3.6e6 * g_per_kwh;
}

/* A user's own template (report/table/table.h). */
extern const struct report_writer report_writer_template;

extern struct format_table report_formats;

static inline const struct report_writer *report_writer_named(const char *name)
{
	return format_named(&report_formats, name);
}

/*
 * Processes and order of a report: --process and --sort. A selection is a profile like any other,
 * so rules and writers do not know of it.
 */

/* Copies of what differs; the rest is borrowed from the original profile. */
struct selection {
	struct profile profile;
};

/* The processes that `process` names, by pid or comm; NULL: all. 0, -ENOENT when there is none,
 * -ENOMEM. */
int selection_make(struct selection *selection, const struct profile *profile, const char *process);
/* Puts each process's functions in the order of a column of the table "functions". Rules look at
 * them in the order of the aggregate: sort after them. 0, -EINVAL for no such column, -ENOMEM. */
int selection_sort(struct selection *selection, const char *column);
/* Drops all processes but this one. */
void selection_keep(struct selection *selection, size_t process);
void selection_clear(struct selection *selection);

/* The catalogue of findings as text: for `explain`. */

/* All kinds, a line each. */
void explain_all(struct text *into, const struct thresholds *thresholds);
void explain_kind(struct text *into, const struct finding_kind *kind,
		  const struct thresholds *thresholds);

/*
 * A JSON report → the profile that it was made of, for diff. What the report does not hold, such as
 * calls by thread, is empty. The file's types and numbers are not trusted: any file becomes a
 * profile or an error.
 */
#define JSON_REPORT_WHY 200 /* bytes */

struct json_report;

/* Does the file begin as JSON does? */
bool json_report_is(const char *path);
/* NULL: why it could not be read, one line without the path. */
struct json_report *json_report__read(const char *path, char why[JSON_REPORT_WHY]);
const struct profile *json_report__profile(const struct json_report *report);
/* The report's findings on the processes of a selection of its profile. They borrow from the
 * report. NULL: memory was out. */
struct analysis *json_report__analysis(const struct json_report *report,
				       const struct profile *selected);
void json_report__free(struct json_report *report);

#endif
