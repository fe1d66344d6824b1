/* SPDX-License-Identifier: BSD-2-Clause */
/* The compilers of frameworks, by the Python that traces, lowers and compiles: what runs when code
 * that is compiled already is called does not come here. */
#ifndef PERFX_ANALYZE_COMPILERS_H
#define PERFX_ANALYZE_COMPILERS_H

#include "aggregate/profile.h"

#define NO_COMPILER SIZE_MAX

/* The outermost such frame of a stack, which may be NULL: functions that are traced can be compiled
 * themselves. */
size_t stack_compiler(const struct profile_stack *stack);

#endif
