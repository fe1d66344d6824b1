/* SPDX-License-Identifier: BSD-2-Clause */
/* What was measured → a file. */
#ifndef PERFX_TUNE_WRITERS_H
#define PERFX_TUNE_WRITERS_H

#include "base/format.h"
#include "diff/writers.h"
#include "tune/tune.h"

#include <stdbool.h>
#include <stdio.h>

struct tune_look {
	bool color;	/* terminal */
	unsigned width; /* terminal; 0: 80 */
};

/* 0 or -errno. */
struct tune_writer {
	struct format format;
	int (*write)(FILE *out, const struct tune *tune, const struct tune_look *look);
};

extern struct format_table tune_formats;

/* diff: what changed inside, by a traced run of both; NULL: they were not traced. */
struct comparison_writer {
	struct format format;
	int (*write)(FILE *out, const struct comparison *comparison, const struct diff *diff,
		     const struct diff_options *options);
};

extern struct format_table comparison_formats;

/* "12.3 steps/s", "4.20 s"; "-" of NAN */
void tune_add_value(struct text *into, const struct tune_metric *metric, double value);
/* "workers=4 batch=64" */
void tune_add_point(struct text *into, const struct tune *tune, const struct tune_point *point);

#endif
