/* SPDX-License-Identifier: BSD-2-Clause */
/* A comparison → a file: a document for users, JSON for programs (perfx.diff/1). */
#ifndef PERFX_DIFF_WRITERS_H
#define PERFX_DIFF_WRITERS_H

#include "base/text.h"
#include "diff/diff.h"

#include <stdbool.h>
#include <stdio.h>

struct difference_options {
	const char *name_a, *name_b; /* of the captures */
	bool fails;		     /* regressions are marked as such: --fail-on */
	bool color;		     /* terminal */
	unsigned width;		     /* terminal; 0: 80 */
	unsigned top;		     /* rows a table; 0: the format's default */
};

struct difference_writer {
	const char *name;
	int (*write)(FILE *out, const struct diff *diff, const struct difference_options *options);
};

/* By -f name or by the suffix of a path; NULL when unknown. */
const struct difference_writer *difference_writer_named(const char *name);
const struct difference_writer *difference_writer_for(const char *path);
/* For messages. Static. */
const char *difference_writer_names(void);

/* What matters most, a sentence with marked names. */
void difference_verdict(struct text *into, const struct diff *diff);
/* "slower", "faster", "same", "unknown"; of memory "more" and "less". */
const char *difference_of_time(enum diff_verdict verdict);
const char *difference_of_memory(enum diff_verdict verdict);
int difference_write_json(FILE *out, const struct diff *diff,
			  const struct difference_options *options);

#endif
