/* SPDX-License-Identifier: BSD-2-Clause */
/* The numbers that rules judge by (thresholds.def): their defaults, and how a file names them. */
#ifndef PERFX_ANALYZE_THRESHOLDS_H
#define PERFX_ANALYZE_THRESHOLDS_H

#include "base/text.h"

#include <stddef.h>

struct thresholds {
#define THRESHOLD(member, kind, name, value, unit, meaning) double member;
#include "analyze/thresholds.def"
#undef THRESHOLD
};

enum threshold_unit {
	THRESHOLD_SHARE,	  /* 0.25: "25%" */
	THRESHOLD_NUMBER,	  /* "1.645" */
	THRESHOLD_COUNT,	  /* "10" */
	THRESHOLD_PER_S,	  /* "10000/s" */
	THRESHOLD_TIME,		  /* ns: "5us" */
	THRESHOLD_BYTES,	  /* "64M" */
	THRESHOLD_BYTES_PER_S,	  /* "50M/s" */
	THRESHOLD_BYTES_PER_HOUR, /* "1G/h" */
};

struct threshold_row {
	const char *kind, *name;
	double value; /* the default */
	enum threshold_unit unit;
	const char *meaning;
	size_t offset; /* in struct thresholds */
};

extern const struct threshold_row threshold_rows[];
extern const size_t threshold_rows_count;

/* NULL: there is none. */
const struct threshold_row *threshold_named(const char *kind, const char *name);
double threshold_value(const struct thresholds *thresholds, const struct threshold_row *row);
/* By the kind and name, for rules that are rows of a table. */
double threshold_of(const struct thresholds *thresholds, const char *kind, const char *name);
void threshold_set(struct thresholds *thresholds, const struct threshold_row *row, double value);
/* The value that a file gives. NULL, or what would be right: "a share: try 25%". */
const char *threshold_parse(const char *text, enum threshold_unit unit, double *value);
/* Adds a value as a file gives it: "25%", "5us"; and as reports show it: "25.0 %", "5.00 µs". */
void threshold_add_value(struct text *into, double value, enum threshold_unit unit);
void threshold_add_shown(struct text *into, double value, enum threshold_unit unit);
/* Adds a sentence in which {NAME} is the value of KIND.NAME, and {OTHER.NAME} that of another kind:
 * "25 %", "5 µs", "64 MiB", "10000". */
void threshold_add_sentence(struct text *into, const char *sentence, const char *kind,
			    const struct thresholds *thresholds);
/* Adds "KIND.NAME = 25%", as a file sets it. */
void threshold_add(struct text *into, const struct threshold_row *row,
		   const struct thresholds *thresholds);

#endif
