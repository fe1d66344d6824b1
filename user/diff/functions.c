// SPDX-License-Identifier: BSD-2-Clause
#include "base/order.h"
#include "decode/names.h"
#include "diff/diff.h"
#include "diff/internal.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A function of one side: its row, and its identity. All versions of a library are the same module,
 * and so are all names of the program. */
struct side_row {
	const struct profile_function *function;
	const char *module; /* base name; "": the program itself; of a range: its source */
	size_t module_length;
	const struct profile_row *row;
};

struct side_rows {
	const struct profile_process *process;
	struct side_row *rows;
	size_t count;
};

static int compare_names(const struct side_row *a, const struct side_row *b)
{
	return strcmp(a->function->name, b->function->name)
		       ?: memcmp(a->module, b->module, min_u64(a->module_length, b->module_length))
		       ?: ASCENDING(a->module_length, b->module_length);
}

ORDER(by_name, struct side_row, compare_names(a, b),
      ASCENDING(a->function->offset, b->function->offset))

static struct side_row side_row(const struct profile_process *process,
				const struct profile_function *function,
				const struct profile_row *row)
{
	struct side_row side = {.function = function, .row = row, .module = function->module_base};
	size_t length = strcspn(process->cmdline, "\x1f"), base = length;
	const char *suffix;

	while (base && process->cmdline[base - 1] != '/')
		base--;
	if (function->flags & PERFX_FUNCTION_RANGE)
		side.module = name_of_source(function->source);
	else if (strlen(side.module) == length - base &&
		 !strncmp(side.module, process->cmdline + base, length - base))
		side.module = ""; /* the program itself: the command line begins with it */
	/* libtorch_cpu.so.2.1 is libtorch_cpu.so */
	suffix = strstr(side.module, ".so.");
	side.module_length = suffix ? (size_t)(suffix - side.module) + 3 : strlen(side.module);
	return side;
}

static int collect_rows(struct side_rows *side, const struct profile *profile,
			const struct profile_process *process)
{
	*side = (struct side_rows){.process = process};
	if (!process)
		return 0;
	side->rows = calloc(process->rows_count + 1, sizeof(*side->rows));
	if (!side->rows)
		return -ENOMEM;
	for (size_t i = 0; i < process->rows_count; i++) {
		const struct profile_row *row = &process->rows[i];
		const struct profile_function *function = profile_function(profile, row->function);

		if (function)
			side->rows[side->count++] = side_row(process, function, row);
	}
	qsort(side->rows, side->count, sizeof(*side->rows), by_name);
	return 0;
}

/* Rows of one name on one side, added up. */
struct sum {
	uint64_t calls_count, timed_count, recorded_count, total_ns, self_ns, computing_ns;
	struct profile_cost inclusive;
	double squares; /* of the recorded durations, about 0 */
	bool spread;	/* every row with recorded calls has one */
};

static struct sum sum_rows(const struct side_row *rows, size_t count)
{
	struct sum sum = {.spread = true};

	for (size_t i = 0; i < count; i++) {
		const struct profile_row *row = rows[i].row;
		uint64_t recorded = row->timed_count - row->overflow_count;
		double mean =
			row->timed_count ? (double)row->total_ns / (double)row->timed_count : 0;

		sum.calls_count += row->calls_count;
		sum.timed_count += row->timed_count;
		sum.recorded_count += recorded;
		sum.total_ns += row->total_ns;
		sum.self_ns += row->self_ns;
		sum.computing_ns += row->computing_ns;
		sum.inclusive.flops += row->inclusive.flops;
		sum.inclusive.counted_count += row->inclusive.counted_count;
		sum.inclusive.submitted_count +=
			row->inclusive.submitted_count + profile_row_on_gpu(row);
		if (recorded && row->stddev_ns < 0)
			sum.spread = false;
		else if (recorded)
			sum.squares +=
				(double)recorded * (row->stddev_ns * row->stddev_ns + mean * mean);
	}
	return sum;
}

/* NULL: no Python line is known. */
static const struct profile_frame *line_of(const struct side_row *rows, size_t count)
{
	const struct profile_python_caller *most = NULL;

	for (size_t i = 0; i < count; i++) {
		const struct profile_row *row = rows[i].row;

		/* the lines of ranges are not known well enough */
		if (row->python_callers_count &&
		    !(rows[i].function->flags & PERFX_FUNCTION_RANGE) &&
		    (!most || row->python_callers->total_ns > most->total_ns))
			most = row->python_callers;
	}
	return most ? most->frame : NULL;
}

/* Sets the numbers of one side; the line is B's where both have one. */
static void set_side(struct diff_function *f, bool is_b, const struct side_rows *side, size_t first,
		     size_t count)
{
	const struct side_row *rows = count ? &side->rows[first] : NULL;
	struct sum sum = sum_rows(rows, count);
	struct sample *sample = is_b ? &f->b : &f->a;
	uint64_t wall_ns;

	if (!count)
		return;
	wall_ns = profile_wall_ns(side->process);
	/* the mean of all timed calls, those of the overflow sums as well; the spread of the
	 * recorded ones */
	sample->count = sum.recorded_count;
	sample->mean = diff_of(sum.total_ns, sum.timed_count);
	if (sum.recorded_count && sum.spread) {
		double variance =
			sum.squares / (double)sum.recorded_count - sample->mean * sample->mean;

		/* of one row as it was measured: no digits lost */
		sample->stddev = count == 1 ? rows->row->stddev_ns : sqrt(fmax(variance, 0));
	}
	*diff_side(&f->calls, is_b) = (double)sum.calls_count;
	*diff_side(&f->avg_ns, is_b) = sample->mean;
	*diff_side(&f->total_share, is_b) = diff_of(sum.total_ns, wall_ns);
	*diff_side(&f->self_share, is_b) = diff_of(sum.self_ns, wall_ns);
	*diff_side(&f->calls_per_s, is_b) = diff_per_s(sum.calls_count, wall_ns);
	f->line = line_of(rows, count) ?: f->line;
	if (!sum.inclusive.counted_count || !sum.inclusive.flops)
		return;
	*diff_side(&f->flops_per_call, is_b) = diff_of(sum.inclusive.flops, sum.calls_count);
	if (!sum.inclusive.submitted_count)
		*diff_side(&f->flops_per_s, is_b) =
			diff_per_s(sum.inclusive.flops, sum.computing_ns);
}

enum diff_verdict diff_judge(const struct diff *diff, const struct welch *welch, double change)
{
	if (!welch->known || isnan(change))
		return DIFF_UNJUDGED;
	if (welch->p * (double)diff->tested_count >= DIFF_ALPHA || fabs(change) < DIFF_SHARE_MIN)
		return DIFF_SAME;
	return change > 0 ? DIFF_WORSE : DIFF_BETTER;
}

/*
 * A rate is the work of a call over its time. The spread is that of the time, so the test is of the
 * times for equal work: A's mean and spread scaled to B's work.
 */
static enum diff_verdict judge_rate(const struct diff *diff, const struct diff_function *f)
{
	double cost = diff_ratio(f->flops_per_call), change = diff_change(f->flops_per_s);
	struct sample a = f->a;
	struct welch welch;

	if (!f->welch.known || isnan(cost) || isnan(change))
		return DIFF_UNJUDGED;
	a.mean *= cost;
	a.stddev *= cost;
	welch = welch_test(&a, &f->b);
	return diff_judge(diff, &welch, -change);
}

void diff_judge_function(const struct diff *diff, struct diff_function *f)
{
	double change = diff_change(f->avg_ns);

	f->time = diff_judge(diff, &f->welch, change);
	f->rate = judge_rate(diff, f);
	f->regressed = f->time == DIFF_WORSE && change > diff->threshold &&
		       (f->total_share.a >= DIFF_WEIGHT_MIN || f->total_share.b >= DIFF_WEIGHT_MIN);
}

static int significance(const struct diff_function *f)
{
	return f->in != (DIFF_IN_A | DIFF_IN_B) ? 0 : 1 + (f->time >= DIFF_BETTER);
}

static double weight_of(const struct diff_function *f)
{
	double weight =
		significance(f) == 2 ? fabs(f->impact) : fmax(f->total_share.a, f->total_share.b);

	return isnan(weight) ? 0 : weight;
}

int diff_order_functions(const void *a, const void *b)
{
	const struct diff_function *x = a, *y = b;

	return DESCENDING(significance(x), significance(y))
		       ?: DESCENDING(weight_of(x), weight_of(y))
		       ?: strcmp(x->function->name, y->function->name)
		       ?: strcmp(x->function->module, y->function->module)
		       ?: ASCENDING(x->function->offset, y->function->offset);
}

/* Of those from `at` on, how many have the name of the first. */
static size_t same_name(const struct side_rows *side, size_t at, const struct side_row *of)
{
	size_t end = at;

	while (end < side->count && !compare_names(&side->rows[end], of))
		end++;
	return end - at;
}

/* The functions of one name: one to one, or added up where their numbers differ. */
static void match_name(struct diff_process *process, const struct side_rows *a, size_t i,
		       size_t in_a, const struct side_rows *b, size_t j, size_t in_b)
{
	static const struct diff_function unknown = {
		.calls = {NAN, NAN},
		.a = {.mean = NAN, .stddev = -1},
		.b = {.mean = NAN, .stddev = -1},
		.avg_ns = {NAN, NAN},
		.total_share = {NAN, NAN},
		.self_share = {NAN, NAN},
		.calls_per_s = {NAN, NAN},
		.flops_per_call = {NAN, NAN},
		.flops_per_s = {NAN, NAN},
	};
	bool single = !in_a || !in_b || in_a == in_b;
	size_t rows = single ? (in_a > in_b ? in_a : in_b) : 1;

	for (size_t k = 0; k < rows; k++) {
		struct diff_function *f = &process->functions[process->functions_count++];

		*f = unknown;
		set_side(f, false, a, i + k, single && in_a ? 1 : in_a);
		set_side(f, true, b, j + k, single && in_b ? 1 : in_b);
		f->welch = welch_test(&f->a, &f->b);
		f->impact = (f->avg_ns.b - f->avg_ns.a) * f->calls_per_s.b / 1e9;
		f->in = (in_a ? DIFF_IN_A : 0) | (in_b ? DIFF_IN_B : 0);
		f->function = in_b ? b->rows[j + k].function : a->rows[i + k].function;
	}
}

int diff_functions(const struct diff *diff, struct diff_process *process)
{
	struct side_rows a = {0}, b = {0};
	int err = collect_rows(&a, diff->a, process->a);

	if (!err)
		err = collect_rows(&b, diff->b, process->b);
	if (!err) {
		process->functions = calloc(a.count + b.count + 1, sizeof(*process->functions));
		err = process->functions ? 0 : -ENOMEM;
	}
	if (!err) {
		for (size_t i = 0, j = 0; i < a.count || j < b.count;) {
			bool is_b = i == a.count ||
				    (j < b.count && compare_names(&a.rows[i], &b.rows[j]) > 0);
			const struct side_row *name = is_b ? &b.rows[j] : &a.rows[i];
			size_t in_a = same_name(&a, i, name), in_b = same_name(&b, j, name);

			match_name(process, &a, i, in_a, &b, j, in_b);
			i += in_a;
			j += in_b;
		}
	}
	free(a.rows);
	free(b.rows);
	return err;
}

#define TERMS_MAX 500
#define TINY	  1e-300

/* One step of Lentz's method for continued fractions (Abramowitz, Stegun: 5.2; Thompson, Barnett:
 * J. Comput. Phys. 64, 1986). */
static double lentz(double term, double *c, double *d)
{
	*d = 1 + term * *d;
	*d = 1 / (fabs(*d) < TINY ? TINY : *d);
	*c = 1 + term / *c;
	if (fabs(*c) < TINY)
		*c = TINY;
	return *c * *d;
}

/* The continued fraction of the incomplete beta function (Abramowitz, Stegun: 26.5.8), which
 * converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double x, double a, double b)
{
	double c = 1, d = 1 - (a + b) * x / (a + 1), fraction;

	d = 1 / (fabs(d) < TINY ? TINY : d);
	fraction = d;
	for (int i = 1; i <= TERMS_MAX; i++) {
		double even = i * (b - i) * x / ((a + 2 * i - 1) * (a + 2 * i));
		double odd = -(a + i) * (a + b + i) * x / ((a + 2 * i) * (a + 2 * i + 1));
		double step = lentz(even, &c, &d);

		step *= lentz(odd, &c, &d);
		fraction *= step;
		if (fabs(step - 1) < DBL_EPSILON * 4)
			break;
	}
	return fraction;
}

/* By the regularised incomplete beta function I_x(a, b). */
double student_two_sided(double t, double df)
{
	double x = df / (df + t * t), a = df / 2, b = 0.5, front;

	if (isinf(t))
		return 0;
	if (x <= 0 || x >= 1)
		return x >= 1;
	front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
	if (x < (a + 1) / (a + b + 2))
		return front * beta_fraction(x, a, b) / a;
	return 1 - front * beta_fraction(1 - x, b, a) / b;
}

static bool is_enough(const struct sample *sample)
{
	return sample->count >= WELCH_COUNT_MIN && sample->stddev >= 0;
}

/* Of the mean; the variance of the population is put right for its being estimated. */
static double variance_of_mean(const struct sample *sample)
{
	return sample->stddev * sample->stddev / (double)(sample->count - 1);
}

struct welch welch_test(const struct sample *a, const struct sample *b)
{
	double va, vb, sum;
	struct welch welch = {.known = is_enough(a) && is_enough(b)};

	if (!welch.known)
		return welch;
	va = variance_of_mean(a);
	vb = variance_of_mean(b);
	sum = va + vb;
	if (sum <= 0) {
		welch.t = a->mean == b->mean ? 0 : b->mean > a->mean ? INFINITY : -INFINITY;
		welch.df = (double)(a->count + b->count - 2);
	} else {
		welch.t = (b->mean - a->mean) / sqrt(sum);
		welch.df = sum * sum /
			   (va * va / (double)(a->count - 1) + vb * vb / (double)(b->count - 1));
	}
	welch.p = student_two_sided(welch.t, welch.df);
	return welch;
}
