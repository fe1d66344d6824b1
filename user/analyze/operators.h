/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a framework's operators do beneath each line of the program, by the samples of one thread.
 * Pure functions of the profile.
 *
 * An operator costs 1 to 10 µs before it touches data: arguments are parsed, a kernel is looked up,
 * shapes and types are checked, a result is allocated. That code is spread over hundreds of
 * functions, none of which is in more than a few per cent of the samples; a kernel is a loop, and
 * most samples hit it. So kernels are known by where samples cluster: that needs no list of their
 * names, which change with each release, and no symbols, which distributions strip.
 */
#ifndef PERFX_ANALYZE_OPERATORS_H
#define PERFX_ANALYZE_OPERATORS_H

#include "aggregate/profile.h"

/* Times are sampled, on a CPU or waiting for one. */
struct operator_line {
	const struct profile_frame *frame; /* the program's own line, whatever it calls */
	uint64_t ns, count;
	double squares;	       /* of the samples' intervals: the variance of ns */
	uint64_t operators_ns; /* of ns, in native code of a framework; the rest is Python */
	uint64_t kernels_ns;   /* of operators_ns, in loops over data */
	uint64_t calls_ns; /* operators_ns, and Python of the line itself, not of what it calls */
	/* Part of kernels_ns on a CPU in copies and conversions; waiting for a CPU or for other
	 * threads does not count. */
	uint64_t copies_ns;
};

struct operator_lines {
	struct operator_line *list; /* ns descending */
	size_t count, capacity;
};

/* 0 or -ENOMEM. */
int operator_lines_find(struct operator_lines *lines, const struct profile *profile,
			const struct profile_process *process, uint32_t tid);
void operator_lines_clear(struct operator_lines *lines);
/* The CPU time, by samples, in which other threads than tid compute for operators of XLA. */
uint64_t operators_handed_over_ns(const struct profile_process *process, uint32_t tid);

struct operator_name {
	const char *name; /* shown to users: "aten::mul_.Tensor" */
	uint64_t ns;
};

#define OPERATOR_NAMES 16

struct operator_names {
	struct operator_name list[OPERATOR_NAMES]; /* ns descending; the first that were seen */
	size_t count;
	uint64_t ns; /* of all names, also of those that had no room */
};

/* The operators that a line calls itself, by the innermost code that is known by name; or those in
 * which it copies. 0 or -ENOMEM. */
int operator_names_find(struct operator_names *names, const struct profile_process *process,
			uint32_t tid, const struct profile_frame *line);
int operator_copies_find(struct operator_names *names, const struct profile_process *process,
			 uint32_t tid, const struct profile_frame *line);

/* On a CPU, by samples, in time that no traced operator has: outside of traced calls, in ranges and
 * in what the backward pass has for itself. */
struct sampled_operator {
	char name[64]; /* "aten::mul", without overload */
	uint64_t ns, count;
};

#define SAMPLED_OPERATORS_MAX 64

struct sampled_operators {
	struct sampled_operator list[SAMPLED_OPERATORS_MAX]; /* ns descending */
	size_t count;
};

/* 0 or -ENOMEM. */
int sampled_operators_find(struct sampled_operators *operators, const struct profile *profile,
			   const struct profile_process *process);

#endif
