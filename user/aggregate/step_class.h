/* SPDX-License-Identifier: BSD-2-Clause */
/* Which calls end steps, and to which phase of a step their time belongs. */
#ifndef PERFX_AGGREGATE_STEP_CLASS_H
#define PERFX_AGGREGATE_STEP_CLASS_H

#include "perfx_record.h"

#include <stddef.h>

/* Bits that say which part calls of a function have in steps. */
#define STEP_PHASE_MASK 0x07 /* enum profile_phase */
#define STEP_RANGE	0x08 /* a step may begin with it */
#define STEP_RANK_SHIFT 4    /* above: 0 ends no step; the highest counts */
#define STEP_RANK_MASK	0x70
#define STEP_TRACED	0x80  /* the thread was in a traced function: aggregate adds it */
#define STEP_UNDECIDED	0x100 /* its function is not described yet */

/* As enum profile_steps_by. */
enum step_rank {
	STEP_BY_PERIOD = 0,
	STEP_BY_BACKWARD,
	STEP_BY_CALL,
	STEP_BY_OPTIMIZER,
	STEP_BY_NAME
};

/* Returns the bits of a function by its source, name and flags (PERFX_FUNCTION_). Pure. */
unsigned step_class(unsigned source, const char *name, unsigned flags);

/* Of functions by id, for who follows steps without an aggregate. */
struct step_classes {
	unsigned *list;
	size_t capacity;
};

/* Without memory the function has none. */
void step_classes_add(struct step_classes *classes, const struct perfx_function *function,
		      const char *name);
/* 0: the span means nothing for steps, or has no time. */
unsigned step_classes_of(const struct step_classes *classes, const struct perfx_span *span);
void step_classes_clear(struct step_classes *classes);

#endif
