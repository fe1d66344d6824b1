/* SPDX-License-Identifier: BSD-2-Clause */
/* Sums of time by line, of samples and waits. */
#ifndef PERFX_ANALYZE_LINES_H
#define PERFX_ANALYZE_LINES_H

#include "aggregate/profile.h"

/* The Python function that leads, by its hottest line; of a stack without Python a native one. */
struct place {
	const struct profile_frame *frame; /* NULL: not known */
	uint64_t ns, line_ns; /* of the function, all of its lines; of the frame's line */
};

/* Sums by line. The first are the most frequent ones: rows of samples are in that order. */
#define LINES_MAX 256

struct lines {
	struct place lines[LINES_MAX];
	size_t count;
};

/* frame may be NULL. */
void lines_add(struct lines *lines, const struct profile_frame *frame, uint64_t ns);
/* Finds the function with the most time, and its line with the most. */
struct place lines_lead(const struct lines *lines);

#endif
