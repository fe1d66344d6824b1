/* SPDX-License-Identifier: BSD-2-Clause */
/* Comparison → a file: a document for users, JSON for programs (perfx.diff/1). */
#ifndef PERFX_DIFF_WRITERS_H
#define PERFX_DIFF_WRITERS_H

#include "base/format.h"
#include "diff/diff.h"

#include <stdbool.h>
#include <stdio.h>

struct diff_options {
	const char *name_a, *name_b; /* of the captures */
	bool fails;		     /* regressions are marked as such: --fail-on */
	bool color;		     /* terminal */
	unsigned width;		     /* terminal; 0: 80 */
	unsigned top;		     /* rows a table; 0: the format's default */
};

struct diff_writer {
	struct format format;
	int (*write)(FILE *out, const struct diff *diff, const struct diff_options *options);
};

extern struct format_table diff_formats;

static inline const struct diff_writer *diff_writer_named(const char *name)
{
	return format_named(&diff_formats, name);
}

/* The most important change, a sentence with marked names. */
void diff_say_verdict(struct text *into, const struct diff *diff);
/* "slower", "faster", "same", "unknown"; of memory "more" and "less". */
const char *diff_time_word(enum diff_verdict verdict);
const char *diff_memory_word(enum diff_verdict verdict);
int diff_write_json(FILE *out, const struct diff *diff, const struct diff_options *options);
/* Adds the comparison to a document that has a verdict of its own. name_columns: longer names are
 * shortened; 0: the layout does that. 0 or -ENOMEM. */
struct document;
int diff_compose_inside(struct document *document, const struct diff *diff,
			const struct diff_options *options, unsigned name_columns);

#endif
