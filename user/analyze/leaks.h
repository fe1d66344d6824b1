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
 * part the second one keeps less. Halves of the program's progress, and of the CPU time that it
 * used: a program that allocates for its cache alone makes no progress by allocations when that is
 * full. In a queue of fixed length old blocks go as new ones come: what lived at a time and does
 * not live at the end is as much as came since. In sampled mode the second half must be known to
 * keep its share, with the blocks that were sampled; frees of blocks from before the trace are not
 * seen there, so that resident memory has to grow as well.
 *
 * Of a block of s bytes kept in each step the slope is right within 3.4/N, N blocks in the judged
 * windows: a pair of points with n steps between them sees n·s with an error below s, and half of
 * all pairs lie 0.29 of the judged part or more apart.
 */
#ifndef PERFX_ANALYZE_LEAKS_H
#define PERFX_ANALYZE_LEAKS_H

#include "aggregate/profile.h"

/* Windows to judge, with kept bytes in how many; what the trace must have. */
#define LEAK_WINDOWS	  8
#define LEAK_WINDOWS_KEPT 6
#define LEAK_TRACE_NS	  2000000000ULL
/* What is judged in so many parts; each keeps its share, or this much of it at least. */
#define LEAK_PARTS	4
#define LEAK_PART_SHARE 0.5
/* Slower growth does not matter: a day makes 24 MiB of it. */
#define LEAK_HOUR_BYTES (1ULL << 20)
/* Recorded all the time, or frees are missing. */
#define LEAK_RECORDED 0.99
/* Lost frees look like leaks: a hotspot has to hold so many blocks for each of them. */
#define LEAK_BLOCKS_PER_LOST_FREE 4
/* Old blocks that go while new ones come are replaced, not leaked: so many kept blocks for each
 * free of a block from before the trace. */
#define LEAK_BLOCKS_PER_REPLACED 2
/* Growth from this share of resident memory on must be seen there, this part of it at least. Else
 * its pages were never touched, or (sampled, where frees of old blocks are not seen) it replaces
 * old blocks. */
#define LEAK_RSS_SHARE	 0.25
#define LEAK_RSS_VISIBLE 0.25
/* Where the frees of old blocks are not seen, from this share on. */
#define LEAK_RSS_SHARE_SAMPLED 0.05
/* What the second half keeps of what the first one does; with so many standard deviations less of
 * the sampled blocks' numbers (95 % on one side), at least this. */
#define LEAK_HALVES	    0.70
#define LEAK_HALVES_SAMPLED 0.50
#define LEAK_DEVIATIONS	    1.645
/* A place whose freed blocks lived for this share of the trace on average is a queue or a cache:
 * there, what went of what lived in the third quarter is compared with what came in the last. */
#define LEAK_LIFETIME 0.25
#define LEAK_REPLACED 0.50

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

/* 0 or -ENOMEM; memory_analysis_clear either way. */
int leaks_judge(struct memory_analysis *analysis, const struct profile_process *process,
		const struct profile_memory *memory);
void memory_analysis_clear(struct memory_analysis *analysis);

/* --- lines through series --- */

#define TREND_POINTS (PROFILE_ALLOC_WINDOWS + 1)

/* Theil and Sen's slope through (x[0], y[0]), (x[1], y[1]), …, x ascending: at most TREND_POINTS of
 * them; 0 for fewer than two of different x. */
double trend_theil_sen(const double *x, const double *y, size_t count);

struct line {
	double growth;	     /* over the whole series, bytes */
	double straightness; /* R² */
	double first;	     /* bytes at its beginning, as measured */
	size_t points_count; /* 0: there is no line */
};

/* Least squares through the samples of resident memory: all of it or the anonymous part. */
/* A line that says that memory grows: by enough, and steadily. */
#define GROWTH_BYTES	(16ULL << 20)
#define GROWTH_SHARE	0.05 /* of what there was at first */
#define GROWTH_STRAIGHT 0.80 /* R² */
bool growth_is_steady(const struct line *line);

struct line trend_rss(const struct profile_process *process, bool anon);

#endif
