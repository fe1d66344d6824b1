/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What may make a function faster follows from what kind of work it does: that is judged by its
 * name and source, by who calls it, and by what was measured of it (roofline.h). A function of
 * which nothing is known has the neutral remedy: look at callers and lines.
 */
#ifndef PERFX_ANALYZE_REMEDY_H
#define PERFX_ANALYZE_REMEDY_H

#include "aggregate/profile.h"
#include "base/text.h"

enum remedy_kind {
	REMEDY_NEUTRAL = 0,
	REMEDY_OPERATOR,     /* of a framework; what bounds it is not known */
	REMEDY_COMPUTE,	     /* bound by arithmetic */
	REMEDY_MEMORY_BOUND, /* bound by memory traffic */
	REMEDY_OVERHEAD,     /* far from both */
	REMEDY_BLAS,
	REMEDY_COPY,
	REMEDY_COMPILE,
	REMEDY_AUTOGRAD,
	REMEDY_DATA,
	REMEDY_OPTIMIZER,
	REMEDY_SYNCHRONIZE,
	REMEDY_COLLECTIVE,
	REMEDY_SLEEP,
	REMEDY_RANGE,	/* a range around code of any kind */
	REMEDY_WAITING, /* its process was mostly off the CPUs */
	REMEDY_USER,	/* annotated, or chosen by -F */
	REMEDY_KINDS
};

/* Which one computes: by its traced calls, else by the libraries that samples are in. */
enum framework {
	FRAMEWORK_TORCH = 0,
	FRAMEWORK_JAX,
	FRAMEWORK_TENSORFLOW,
	FRAMEWORK_NONE, /* of these; or it is not known */
	FRAMEWORKS
};
enum framework framework_of(const struct profile *profile, const struct profile_process *process);
/* Adds words in which "{a|b|c|d}" has the words for each framework, in this order. */
void framework_add(struct text *text, enum framework framework, const char *words);

enum remedy_kind remedy_kind(const struct profile *profile, const struct profile_process *process,
			     const struct profile_row *row);
/* By its name and source alone. */
enum remedy_kind remedy_of_name(const struct profile_function *function);
/* Is it REMEDY_DATA? Asked of all functions for each process. */
bool remedy_is_data(const struct profile_function *function);
/* A function in which its thread waits instead of computing? */
bool remedy_waits(enum remedy_kind kind);
/* One or two sentences, for framework_add(). Static. */
const char *remedy_text(enum remedy_kind kind);

#endif
