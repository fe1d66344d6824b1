/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The profile as tables of values: the rows of CSV and TSV, the elements of the JSON report's
 * arrays, and what --sort orders by. A table is a list of columns (columns*.c); a new number is one
 * line there and a word in docs/formats.md. A column is a field in CSV and a member in JSON, of one
 * name; some are in one of the two only.
 */
#ifndef PERFX_REPORT_TABLE_TABLE_H
#define PERFX_REPORT_TABLE_TABLE_H

#include "aggregate/profile.h"
#include "analyze/analyze.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum value_kind {
	VALUE_ABSENT = 0, /* not measured */
	VALUE_INTEGER,
	VALUE_REAL,
	VALUE_TEXT,	/* possibly from the traced process: to be escaped */
	VALUE_SENTENCE, /* ours, with marked names (base/escape.h) */
	VALUE_RANK,	/* one of our words, ordered by `integer`, ascending */
	VALUE_FLAG,	/* 0 or 1 */
	VALUE_JSON,	/* an object or an array: columns of JSON only */
};

/* Text is borrowed from the profile, or from the table until the next value. */
struct value {
	enum value_kind kind;
	uint64_t integer;
	double real;
	const char *text;
	json_t *json; /* a new reference */
};

struct data_table_row {
	const struct profile_process *process;
	const struct process_analysis *analysis; /* NULL where none is needed */
	size_t item, part; /* index in the process; index in that item: see columns*.c */
};

struct data_table {
	const struct data_table_kind *kind;
	const struct profile *profile;
	struct data_table_row *rows;
	size_t rows_count, rows_capacity;
	struct text made; /* a value's text */
};

enum column_place {
	COLUMN_BOTH = 0,
	COLUMN_CSV,
	COLUMN_JSON,
	COLUMN_SQL, /* keys of the SQLite export, which has those of CSV and JSON, too */
};

/* A member of a row's item, and when it is absent; of a column with `get`, what that returns. */
enum column_type {
	COLUMN_U64 = 0,	 /* PROFILE_ABSENT */
	COLUMN_COUNT,	 /* a u64, never */
	COLUMN_U32,	 /* never */
	COLUMN_REAL,	 /* negative */
	COLUMN_TRUTH,	 /* never */
	COLUMN_TEXT,	 /* NULL */
	COLUMN_SENTENCE, /* never */
	COLUMN_NESTED,	 /* an object or an array: only with get */
};

struct data_table_column {
	const char *name;
	struct value (*get)(struct data_table *table, const struct data_table_row *row);
	size_t offset; /* without get */
	enum column_type type;
	bool unless_zero; /* 0 and "" are absent, too */
	enum column_place only;
};

struct data_table_kind {
	const char *name; /* --table */
	const struct data_table_column *columns;
	size_t columns_count;
	const char *order; /* column; NULL: the order of the reports */
	/* The struct that columns without `get` read. */
	const void *(*item)(const struct data_table_row *row);
	/* Adds the rows of one process: 0 or -ENOMEM. Without fill: a row for each of so many, a
	 * size_t at this place of the process. */
	int (*fill)(struct data_table *table, const struct data_table_row *of_process);
	size_t count_offset;
};

/* NULL when unknown. */
const struct data_table_kind *data_table_kind_named(const char *name);
/* "functions, callers, …" and "pid, comm, …", for messages. */
const char *data_table_kind_names(void);
/* The next three are of the columns of CSV, which --sort takes. */
void data_table_column_names(const struct data_table_kind *kind, struct text *into);

const struct data_table_column *data_table_column_named(const struct data_table_kind *kind,
							const char *name);
/* All kinds, by number; NULL: there are no more. */
const struct data_table_kind *data_table_kind_at(size_t number);
/* Is the column one of CSV, JSON or the SQLite export? The latter has each name once: that of CSV
 * where CSV and JSON differ. */
bool data_table_column_in(const struct data_table_kind *kind,
			  const struct data_table_column *column, enum column_place place);
/* The next column of CSV from there on; NULL: none is left. */
const struct data_table_column *data_table_csv_column(const struct data_table_kind *kind,
						      const struct data_table_column *from);
struct value data_table_value(struct data_table *table, const struct data_table_row *row,
			      const struct data_table_column *column);

/* Reads the members that JSON has back into an item; other members, and sentences, stay as they
 * are. Text is borrowed from the object. */
void data_table_read(const struct data_table_kind *kind, void *item, const json_t *object);

int data_table_add(struct data_table *table, const struct data_table_row *of_process, size_t item,
		   size_t part);
/* The rows of one process. 0 or -ENOMEM. */
int data_table_fill_process(struct data_table *table, const struct data_table_row *of_process);
/* All rows; analysis may be NULL for tables that need none. 0 or -ENOMEM; data_table_clear either
 * way.
 */
int data_table_fill(struct data_table *table, const struct data_table_kind *kind,
		    const struct profile *profile, const struct analysis *analysis);
/* Stable: numbers descending, words ascending, absent values last. */
int data_table_sort(struct data_table *table, const struct data_table_column *column);
void data_table_clear(struct data_table *table);

/* Adds a field of CSV: text without control characters. */
void csv_add_field(struct text *line, const char *text, char separator);

/*
 * A report by a user's template: a text with tags for values of the JSON report (Mustache, with
 * formats after a colon; docs/formats.md):
 *
 *     {{verdict}}
 *     {{#processes}}
 *     {{comm}} ({{pid}}): {{wall_ns:ns}}
 *     {{#functions:10}}
 *     | {{name:md}} | {{calls:count}} | {{self_ns:ns}} |
 *     {{/functions}}
 *     {{/processes}}
 */
#define TEMPLATE_WHY 200 /* bytes */

/* 0, or -EINVAL: why has the line and the error. */
int template_check(const char *text, char why[TEMPLATE_WHY]);
/* Are all names in a checked text names of the JSON report? 0, or -EINVAL: why gives the line, the
 * unknown name and similar ones. */
int template_check_names(const char *text, char why[TEMPLATE_WHY]);
/* A text that was checked. 0 or -ENOMEM; the caller checks the stream for errors. */
int template_render(FILE *out, const char *text, const json_t *report);

#endif
