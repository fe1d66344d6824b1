/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two profiles → what changed from A to B. Pure: neither files nor globals.
 *
 * The two need not be of the same length: functions are compared by their mean time of a call, by
 * shares of wall time and by calls a second, memory by its peak and by what is allocated in a
 * second. A function is the same one when its name and its module's base name are; the k-th of
 * several of one name (overloads, by offset) answers to the k-th, or all to all where one side has
 * more of them. A range is the same one when its name and its source are. Steps are compared by
 * their mean time; significance is judged as for functions.
 *
 * Kernels of a GPU are the same when their name is, whatever their shapes and streams; they are
 * compared and judged as functions are. Copies are the same when direction and host memory are,
 * waits when their function and its caller are.
 *
 * Significance: Welch's t-test on the means says that the spread of the calls does not explain
 * the change. The probability of being wrong about any function at all is DIFF_ALPHA, whatever
 * their number (Bonferroni). It knows the spread within each recording only, not that from one
 * recording to the next, so changes below DIFF_SHARE_MIN are never significant.
 */
#ifndef PERFX_DIFF_DIFF_H
#define PERFX_DIFF_DIFF_H

#include "aggregate/profile.h"
#include "analyze/analyze.h"
#include "base/format.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Do two means differ by more than the spread of what they are means of explains? Welch's t-test
 * (Biometrika 34, 1947): no equal variances, no equal numbers needed.
 */

/* Means of fewer are not compared. */
#define WELCH_COUNT_MIN 5

struct sample {
	uint64_t count;
	double mean, stddev; /* stddev: of the population; < 0: not known */
};

struct welch {
	bool known;
	/* p: how often chance alone would make the means differ as much; two-sided. Where neither
	 * side has a spread, t is infinite or 0. */
	double t, df, p;
};

struct welch welch_test(const struct sample *a, const struct sample *b);

/* The probability of |T| >= t for Student's T with df degrees of freedom. */
double student_two_sided(double t, double df);

#define DIFF_ALPHA 0.01
/* Clock frequency, neighbours and the layout of memory move a mean by about as much from one
 * recording to the next. */
#define DIFF_SHARE_MIN 0.01
/* Minimum share of wall time, on either side, of a regression. */
#define DIFF_WEIGHT_MIN 0.01
/* Memory has one peak per recording and no spread: a smaller change is no difference. */
#define DIFF_MEMORY_SHARE_MIN 0.05
#define DIFF_MEMORY_BYTES_MIN (1024.0 * 1024.0)

/* Default of --fail-on. */
#define DIFF_THRESHOLD 0.05

enum diff_verdict {
	DIFF_UNJUDGED = 0, /* too few calls, or numbers that are not exact */
	DIFF_SAME,	   /* the spread explains it */
	DIFF_BETTER,
	DIFF_WORSE,
};

/* Where something is: in both, or in one alone. */
#define DIFF_IN_A 0x1
#define DIFF_IN_B 0x2

/* One quantity in both recordings; NAN: not known. */
struct diff_pair {
	double a, b;
};

/* (b - a) / a and b / a; NAN where one is not known or a is 0. */
double diff_change(struct diff_pair pair);
double diff_ratio(struct diff_pair pair);

struct diff_function {
	unsigned in;				 /* DIFF_IN_ */
	const struct profile_function *function; /* B's where it is there; borrowed */
	/* The Python line with most of its time, of B where it is known; NULL: of neither */
	const struct profile_frame *line;
	struct diff_pair calls;
	struct sample a, b;	 /* durations of recorded calls, about the mean of all */
	struct diff_pair avg_ns; /* of a call */
	struct diff_pair total_share, self_share; /* of wall time; threads and recursion add up */
	struct diff_pair calls_per_s;
	struct diff_pair flops_per_call, flops_per_s; /* with those of functions called */
	struct welch welch;			      /* of the means */
	double impact;		/* of B's wall time: the change of a call, times B's calls */
	enum diff_verdict time; /* of avg_ns */
	enum diff_verdict rate; /* of flops_per_s */
	bool regressed;		/* above the threshold: counts for --fail-on */
};

/* Bytes that a process holds: of a domain, or resident. */
struct diff_memory {
	enum perfx_domain domain; /* 0: resident */
	struct diff_pair peak_bytes;
	struct diff_pair allocated_per_s, allocs_per_s; /* not of resident memory */
	bool exact; /* on both sides: every allocation and free was seen */
	enum diff_verdict verdict;
	bool regressed;
};

/* A place that allocates: equal stacks, by function and module. */
struct diff_place {
	unsigned in;
	const struct profile *profile; /* of the next two, borrowed: B's where it is there */
	const struct profile_memory *memory;
	const struct profile_hotspot *hotspot;
	struct diff_pair live_at_peak_bytes, live_bytes;
	struct diff_pair allocated_per_s, allocs_per_s;
};

/* The steps of a training. */
struct diff_steps {
	unsigned in;	    /* 0: neither has any */
	struct sample a, b; /* durations */
	struct diff_pair count, avg_ns, p50_ns, p95_ns, max_ns;
	struct diff_pair phases_ns[PROFILE_PHASES]; /* of a step, on average */
	struct diff_pair flops, flops_per_s, mfu;   /* flops: of a step */
	/* Of a step: what the process's GPUs did, and the step's thread waited for them. */
	struct diff_pair gpu_busy_ns, gpu_kernels, gpu_wait_ns, gpu_energy_j;
	struct welch welch;	/* of the means */
	enum diff_verdict time; /* of avg_ns */
	bool regressed;
};

/* Which table work belongs to, in their order. */
enum diff_gpu_table { DIFF_GPU_KERNELS, DIFF_GPU_COPIES, DIFF_GPU_WAITS };
enum diff_gpu_table diff_gpu_table(enum perfx_gpu_op op);

/* A kind of work of GPUs. */
struct diff_gpu_work {
	unsigned in;
	enum perfx_gpu_op op; /* KERNEL, GRAPH; COPY, MEMSET; SYNC: a wait */
	const char *name;     /* of the kernel, or of the function that waits; "": unknown */
	const char *caller;   /* of a wait: the function around it; "": not known */
	enum perfx_gpu_direction direction;	/* of copies */
	enum perfx_gpu_host_memory host_memory; /* likewise */
	struct diff_pair calls, calls_per_s;
	struct diff_pair avg_ns;	    /* on the device; of a wait, of the thread */
	struct diff_pair share;		    /* of wall time; streams and threads add up */
	struct diff_pair bytes_per_s, rate; /* copies: over wall time, and while they ran */
	/* Kernels, as functions. */
	struct sample a, b;
	struct welch welch;
	double impact;
	enum diff_verdict time;
	bool regressed;
};

/* A process's use of its GPUs. */
struct diff_gpu {
	struct diff_pair busy_share, exposed_share; /* of wall time; devices add up */
	struct diff_pair utilisation;		    /* of its devices, by the driver; 0 to 1 */
	struct diff_pair wait_share;		    /* of wall time; threads add up */
	struct diff_pair launches_per_s, latency_p50_ns;
	struct diff_pair flops_per_s, mfu; /* flops_per_s: while kernels ran */
	struct diff_pair power_w;	   /* its energy over wall time */
	/* Kernels, then copies, then waits, each in the order of functions. */
	struct diff_gpu_work *works;
	size_t works_count;
};

/* A finding of one side that the other has not. */
struct diff_finding {
	unsigned in;		       /* DIFF_IN_A: it went; DIFF_IN_B: it came */
	const struct finding *finding; /* borrowed */
};

struct diff_process {
	const struct profile_process *a, *b; /* NULL: has no counterpart */
	struct diff_pair wall_ns, cores;     /* cores: CPU time for wall time */
	struct diff_pair flops_per_s;	     /* roofline_flops_per_s() */
	/* Significant changes by impact, then the others by share, then those of one side by share.
	 */
	struct diff_function *functions;
	size_t functions_count;
	struct diff_memory *memory;
	size_t memory_count;
	struct diff_place *places; /* change at the peak, then what is allocated, descending */
	size_t places_count;
	struct diff_steps steps;
	struct diff_gpu gpu;
	/* Those of A, then those of B, each in their order; diff_findings fills them in. */
	struct diff_finding *findings;
	size_t findings_count;
};

struct diff {
	const struct profile *a, *b;
	double threshold; /* a change above it is a regression */
	/* B's in their order, then A's that have no counterpart. */
	struct diff_process *processes;
	size_t processes_count;
	size_t compared_count;		  /* functions on both sides */
	size_t tested_count;		  /* of these, with calls enough; and steps, kernels */
	size_t judged_domains_count;	  /* peaks that are exact on both sides */
	size_t worse_count, better_count; /* functions */
	size_t regressions_count;	  /* functions, kernels, steps and memory */
};

/* Both are borrowed and outlive it. NULL: memory was out. */
struct diff *diff__new(const struct profile *a, const struct profile *b, double threshold);
/* Compares the findings on the processes, too: analyses of the same two profiles,
 * which outlive it. 0 or -ENOMEM. */
int diff_findings(struct diff *diff, const struct analysis *a, const struct analysis *b);
void diff__free(struct diff *diff);

/* Comparison → a file: a document for users, JSON for programs (perfx.diff/1). */
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
