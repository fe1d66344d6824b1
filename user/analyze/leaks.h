/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which hotspots leak: what is live, by when it was allocated.
 *
 * A trainer allocates in each step and frees at its end, so live bytes go up and down whether it
 * leaks or not. What leaks is what stays: of the bytes that live at the end of the trace, those
 * allocated long before (profile_hotspot.kept_windows). Of a step's own blocks only the last step's
 * are there; of a cache that has warmed up, only the first windows'; of a block allocated once, one
 * window's. A leak has its share in each part of the trace.
 *
 * Windows that are judged: without the first quarter, in which everything is new, and the last one,
 * which may be short. What is kept is seen against what the domain has allocated meanwhile, not
 * against time: a trainer that another program slows down leaks slower, and no less in a step. The
 * slope is Theil and Sen's (the median of the slopes between all pairs of points) of the kept bytes
 * summed up, so that neither a cache that fills meanwhile nor the last step's blocks move it; times
 * what was allocated a second it is bytes a second.
 *
 * What levels off is no leak: a cache fills ever more slowly, so that of two halves of the judged
 * part the second one keeps less. Halves of the program's progress, and of its steps or else of the
 * CPU time that it used: a program that allocates for its cache alone makes no progress by
 * allocations when that is full. In a queue of fixed length old blocks go as new ones come: what
 * lived at a time and does not live at the end is as much as came since. In sampled mode the second
 * half must be known to keep its share, with the blocks that were sampled; frees of blocks from
 * before the trace are not seen there, so that resident memory has to grow as well. Where frees are
 * inferred from memory that is given out again, it must not grow much faster either: what others
 * get meanwhile is not given out again.
 *
 * Of a block of s bytes kept in each step the slope is right within 3.4/N, N blocks in the judged
 * windows: a pair of points with n steps between them sees n·s with an error below s, and half of
 * all pairs lie 0.29 of the judged part or more apart.
 */
#ifndef PERFX_ANALYZE_LEAKS_H
#define PERFX_ANALYZE_LEAKS_H

#include "aggregate/profile.h"
#include "analyze/thresholds.h"

/* Windows to judge, with kept bytes in how many. */
#define LEAK_WINDOWS	  8
#define LEAK_WINDOWS_KEPT 6
/* The judged time is divided into this many parts. */
#define LEAK_PARTS 4

struct hotspot_trend {
	bool leak;
	bool unseen;		  /* a leak, but resident memory did not grow with it */
	double slope_bytes_per_s; /* of what stays; 0: nothing does; < 0: not judged */
};

struct memory_analysis {
	/* Why nothing can be judged here, as text; NULL: it was. Static. */
	const char *unjudged;
	struct hotspot_trend *trends; /* same index as profile_memory.hotspots */
	size_t leaks_count;
	double leaks_bytes_per_s; /* their sum */
};

#define TREND_POINTS (PROFILE_ALLOC_WINDOWS + 1)

/* Theil and Sen's slope through (x[0], y[0]), (x[1], y[1]), …, x ascending: at most TREND_POINTS of
 * them; 0 for fewer than two of different x. */
double trend_theil_sen(const double *x, const double *y, size_t count);

/* A line through the samples of resident memory. */
struct line {
	double growth;	     /* over the whole series, bytes */
	double straightness; /* R² */
	double first, last;  /* bytes at its ends, as measured */
	double per_s;	     /* the same growth, bytes a second */
	double early, late;  /* growth in its first and second half, bytes a second */
	double slowest;	     /* the least growth in an eighth of it, bytes a second */
	size_t points_count; /* 0: there is no line */
	bool is_steady;	     /* grows all the time, by more than its samples scatter */
};

enum rss_part {
	RSS_ALL = 0,
	RSS_ANON,
	RSS_SHMEM, /* of files in memory, which processes share: /dev/shm, memfd */
	RSS_PARTS
};

struct rss_growth {
	struct line parts[RSS_PARTS];
	/* Does resident memory grow, and which part of it: shared memory if it is most of the
	 * growth; else all or, where pages of files come and go, the anonymous part. */
	bool grows;
	enum rss_part part;
};

/* By the thresholds of MemoryGrowth. */
struct rss_growth growth_find(const struct profile_process *process,
			      const struct thresholds *thresholds);

/* By the thresholds of MemoryLeak. 0 or -ENOMEM; memory_analysis_clear either way. */
int leaks_judge(struct memory_analysis *analysis, const struct profile_process *process,
		const struct profile_memory *memory, const struct rss_growth *growth,
		const struct thresholds *thresholds);
void memory_analysis_clear(struct memory_analysis *analysis);

/* The option that shows where memory grows, such as "--memory all"; NULL: it was given. Static. */
const char *growth_option(const struct profile_process *process);
/* The same as words: "--memory all shows where". Growth need not be in tensors. */
const char *growth_option_words(const struct profile_process *process);

#endif
