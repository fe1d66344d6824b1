/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program's rate with each value of a parameter, and which of two programs is faster: evaluates
 * measurements, which session/trial.h makes. Pure.
 *
 * A round is one run of each: of each combination of values, or of A and B. Runs of a round are
 * compared with each other, so that changes from round to round (other programs, clocks, a
 * warm cache) cancel out; every second round goes backward, so that a drift within rounds does too.
 */
#ifndef PERFX_TUNE_TUNE_H
#define PERFX_TUNE_TUNE_H

#include "base/format.h"
#include "diff/diff.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* An interval holds the true value this often. */
#define TUNE_CONFIDENCE 0.95

/* Over the known values (not NAN); NAN: none is known. */
double tune_median(const double *values, size_t count);

/* The t for which |T| >= t has the probability p, for Student's T with df degrees of freedom. */
double student_quantile(double p, double df);

/* By how much B differs from A: 0.1: by a tenth. */
struct tune_change {
	size_t pairs_count; /* rounds in which both were measured */
	bool known;	    /* there are two at least; otherwise the interval and p are not */
	double change;	    /* NAN: no pair */
	double low, high;   /* TUNE_CONFIDENCE, of all comparisons together */
	double p;	    /* how often chance alone would make as much of nothing; two-sided */
};

/*
 * The paired t-test (Student: The probable error of a mean, Biometrika 6, 1908) on the logarithms
 * of b/a, round by round: a ratio and its inverse then count the same, and the mean is the
 * geometric one, as it should be of ratios (Fleming, Wallace: How not to lie with statistics,
 * CACM 29, 1986). Values are positive, or NAN: not measured. Of several comparisons each has an
 * interval that is as much wider (Bonferroni); p is that of the one.
 */
struct tune_change tune_paired(const double *a, const double *b, size_t rounds_count,
			       size_t comparisons_count);

/* Is the change significant among so many comparisons? Its interval is then on one side of 0. */
bool tune_is_significant(const struct tune_change *change, size_t comparisons_count);

enum tune_unit {
	TUNE_STEPS_PER_S = 1,
	TUNE_CALLS_PER_S,
	TUNE_COUNTER_PER_S,
	TUNE_SECONDS, /* until the program exits: less is better */
};

struct tune_metric {
	enum tune_unit unit;
	const char *name; /* of the counter, pattern of the functions; NULL: the unit says it */
};

/* One run's value; NAN: it failed, or was not made. */
struct tune_runs {
	double *values; /* by round */
	size_t rounds_count;
	char *why; /* the first run that failed; malloc'd; NULL: none did */
	/* tune_runs_summarize: */
	size_t measured_count, failed_count;
	double median, lowest, highest; /* NAN: none was measured */
};

/* 0 or -ENOMEM */
int tune_runs_init(struct tune_runs *runs, size_t rounds_count);
void tune_runs_clear(struct tune_runs *runs);
void tune_runs_add(struct tune_runs *runs, size_t round, double value);
/* Takes the reason, malloc'd; NULL: out of memory. */
void tune_runs_fail(struct tune_runs *runs, char *why);
void tune_runs_summarize(struct tune_runs *runs);

#define TUNE_LISTS_MAX	6
#define TUNE_POINTS_MAX 64

/* Within so much of the optimum, more is not worth much. */
#define TUNE_NEAR 0.05

struct tune_list {
	const char *name; /* borrowed */
	bool environment; /* of a variable; otherwise of a placeholder */
	char **values;
	size_t values_count, values_capacity;
};

struct tune_point {
	const char *values[TUNE_LISTS_MAX]; /* of each list, borrowed from it */
	struct tune_runs runs;
	/* tune_judge: */
	double share;		   /* of the optimum: 0.9 is a tenth slower; NAN: not measured */
	struct tune_change behind; /* the optimum against it, as a rate: > 0 is faster */
	bool level;		   /* the runs do not distinguish it from the optimum */
};

#define TUNE_NONE ((size_t)-1)

struct tune {
	struct tune_metric metric;
	char *const *command; /* with its placeholders, borrowed */
	struct tune_list lists[TUNE_LISTS_MAX];
	size_t lists_count;
	struct tune_point *points; /* each combination; the last list's values change first */
	size_t points_count;
	size_t rounds_count;
	bool interrupted;
	/* tune_judge; TUNE_NONE: nothing was measured */
	size_t best;
	size_t next;	       /* the second best; TUNE_NONE: no other was measured */
	size_t compared_count; /* with the best */
	size_t enough;	       /* the first within TUNE_NEAR of the best */
};

#define TUNE_WHY 256

/* "0,1,2" becomes a list. 0, or -EINVAL with why. Names and values are copied or borrowed as above.
 */
int tune_add_list(struct tune *tune, const char *name, const char *values, bool environment,
		  char why[TUNE_WHY]);
/* Lists and command are complete: checks that each list is used, and makes the points. */
int tune_prepare(struct tune *tune, size_t rounds_count, char why[TUNE_WHY]);
void tune_clear(struct tune *tune);

/* The point that is run next: runs are counted from 0, over all rounds. */
size_t tune_order(const struct tune *tune, size_t run);
/* The command of a point, its placeholders filled; and its environment. Both NULL-terminated, one
 * block with their strings to be freed by tune_free_words(); NULL: memory was out. */
char **tune_command(const struct tune *tune, const struct tune_point *point);
char **tune_environment(const struct tune *tune, const struct tune_point *point);
void tune_free_words(char **words);

/* After the last run. */
void tune_judge(struct tune *tune);

struct comparison {
	struct tune_metric metric;
	const char *command_a, *command_b;
	struct tune_runs a, b;
	size_t rounds_count;
	bool interrupted;
	/* comparison_judge: of the values, and whether that is better or worse. */
	struct tune_change change;
	bool significant, worse;
};

/* Is B's turn first? A B, B A, A B, … */
bool comparison_begins_with_b(size_t round);
void comparison_judge(struct comparison *comparison);
/* Is B worse by more than a share of A's time? */
bool comparison_regressed(const struct comparison *comparison, double share);

static inline bool tune_less_is_better(const struct tune_metric *metric)
{
	return metric->unit == TUNE_SECONDS;
}

/* Writes the result to a file. */
struct tune_layout {
	bool color;	/* terminal */
	unsigned width; /* terminal; 0: 80 */
};

/* 0 or -errno. */
struct tune_writer {
	struct format format;
	int (*write)(FILE *out, const struct tune *tune, const struct tune_layout *layout);
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
