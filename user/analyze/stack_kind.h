/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The activity of a call stack, by the functions and files of its frames: the interpreter, input,
 * collectives, garbage collection, compiling. A stack may be NULL: then it is doing nothing.
 */
#ifndef PERFX_ANALYZE_STACK_KIND_H
#define PERFX_ANALYZE_STACK_KIND_H

#include "analyze/known_code.h"

bool frame_is_same_function(const struct profile_frame *a, const struct profile_frame *b);
bool frame_is_same_line(const struct profile_frame *a, const struct profile_frame *b);
/* "score" of Runner.score, "<genexpr>" of score.<locals>.<genexpr> */
const char *frame_last_name(const struct profile_frame *frame);
/* The interpreter, or one of its own modules in C (math, _json, …). */
bool frame_is_interpreter(const struct profile_frame *frame);
/* glibc's function for a system call? "__GI___libc_read", "fsync" */
bool frame_is_system_call(const struct profile_frame *frame);

/* frames_count: there is none. stack: not NULL. */
size_t stack_innermost_python(const struct profile_stack *stack);
/* NULL has none. */
bool stack_has_python(const struct profile_stack *stack);
bool stack_has_function(const struct profile_stack *stack, const struct profile_frame *function);
/* Is a Python function in it, inside of which is nothing but the interpreter? */
bool stack_is_in_interpreter(const struct profile_stack *stack);
/* The same, and no system call? */
bool stack_runs_python(const struct profile_stack *stack);
/* Is the innermost Python function interrupted by CPython's garbage collector? What a finalizer
 * runs meanwhile is Python again. */
bool stack_collects_garbage(const struct profile_stack *stack);

/* The outermost frame of a framework's compiler, by the Python that traces, lowers and compiles:
 * what runs when code that is compiled already is called does not come here. The outermost, for
 * functions that are traced can be compiled themselves. */
#define NO_COMPILER SIZE_MAX
size_t stack_compiler(const struct profile_stack *stack);

#endif
