/* SPDX-License-Identifier: BSD-2-Clause */
/* Formats of output files: a table of them is chosen from by the name after -f or by the suffix of
 * the path after -o, and is what messages list. */
#ifndef PERFX_BASE_FORMAT_H
#define PERFX_BASE_FORMAT_H

#include "base/text.h"

#include <stddef.h>

/* The first member of a table's rows. */
struct format {
	const char *name;     /* -f */
	const char *suffixes; /* " .txt .text ": of a path; the first is the one to show */
};

/* Types by HTTP. */
#define TYPE_BYTES "application/octet-stream"
#define TYPE_PLAIN "text/plain; charset=utf-8"
#define TYPE_JSON  "application/json"

struct format_table {
	const void *rows;
	size_t rows_count, row_size;
	struct text names, suffixes; /* made when they are asked for */
};

#define FORMAT_TABLE(array)                                                      \
	{                                                                        \
		.rows = (array), .rows_count = sizeof(array) / sizeof(*(array)), \
		.row_size = sizeof(*(array))                                     \
	}

/* The row; NULL when unknown. */
const void *format_named(const struct format_table *table, const char *name);
const void *format_for_path(const struct format_table *table, const char *path);
/* The first row after `before` (NULL: of all) with a suffix that ends in the path's last suffix:
 * ".trace.json" for run.json. NULL: there is none. */
const void *format_like(const struct format_table *table, const char *path, const void *before);
/* "text, md, …" and ".txt .md …", for messages. */
const char *format_names(struct format_table *table);
const char *format_suffixes(struct format_table *table);

#endif
