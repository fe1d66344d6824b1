/* SPDX-License-Identifier: BSD-2-Clause */
/* CPython's garbage collector in call stacks. */
#ifndef PERFX_ANALYZE_COLLECTOR_H
#define PERFX_ANALYZE_COLLECTOR_H

#include "aggregate/profile.h"

#include <stdbool.h>

/* Is the innermost Python function of a stack interrupted by a collection? What a finalizer runs
 * meanwhile is Python again. stack NULL: no. */
bool stack_collects_garbage(const struct profile_stack *stack);

#endif
