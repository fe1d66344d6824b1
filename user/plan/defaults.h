/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions traced by default: few, called often enough to explain a step and seldom enough to cost
 * nothing. Annotated functions are traced beside them.
 */
#ifndef PERFX_PLAN_DEFAULTS_H
#define PERFX_PLAN_DEFAULTS_H

#include "base/grow.h"
#include "perfx_config.h"
#include "perfx_record.h"

#include <stdbool.h>

/* Can a file of this base name hold any of them? Others are not searched: a Python process maps a
 * hundred files. */
bool default_module(const char *base_name);

/* The source of a symbol that is traced by default; PERFX_SOURCE_INVALID: it is not. What has a
 * known cost (cost/builtin.h) is, and functions whose time alone matters. */
enum perfx_source default_function(const char *base_name, const char *symbol_name);

/* A part of the program's, whose own time may be in Python: no operation. */
bool default_range(const char *symbol_name);

/* Are steps found by calls of this function? */
bool default_may_be_step(const char *symbol_name);

/* The source to show for a function however it was chosen: its library's kind of function, or
 * PERFX_SOURCE_SYMBOL. */
enum perfx_source source_of_function(const char *base_name, const char *symbol_name);

/* Runs an operation of a compiled module; which one, its second argument says (perfx_config.h:
 * struct perfx_object). */
bool runs_thunks(const char *symbol_name);

/* C functions that run no code of their callers and that nothing unwinds through, so that a return
 * probe on them is harmless in any process: BLAS, allocators, CUDA and NCCL entry points. */
bool return_probe_is_safe(const char *base_name, const char *symbol_name);

bool is_c_library(const char *base_name);
/* The rule of a call on files and sockets, in file_calls.c; NULL: it is none. */
const struct perfx_annotation *file_call_find(const char *symbol_name);

/* Does the function show training steps? These are traced whenever annotations are. */
bool default_step(const char *symbol_name);

/*
 * A filter before all rules that choose by name (this file's, annotations.h's, allocators.h's), for
 * when no functions are named: asked of each of half a million names, it leaves few for the rules.
 */
struct operators;
struct interest {
	const struct prefixes *mangled;	   /* interest_collect's; borrowed */
	const struct operators *operators; /* their built-in rules */
	const char *base;		   /* name of the file */
};

/* Collects the prefixes of the mangled names of all rules. 0 or -ENOMEM. */
int interest_collect(struct prefixes *mangled, const struct operators *operators);
/* ctx: struct interest. */
bool interest_has(const char *name, void *ctx);

/* Libraries that do nothing without NVIDIA's driver. */
bool cuda_module(const char *base_name);

/* The functions by which a process's own profiler subscribes to CUPTI, which has room for one:
 * --gpu 1 gives way to it. */
bool profiler_module(const char *base_name);
bool profiler_function(const char *base_name, const char *symbol_name);

#endif
