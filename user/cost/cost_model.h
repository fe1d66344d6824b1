/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions with a known cost, and their programs: the built-in table and, before it, the
 *user's rules. A rules file has one rule a line, which lines that begin with a blank continue; '#'
 *begins a comment:
 *
 *	# MODULE:GLOB (as for -F, without blanks), then statements (cost/cost_program.h)
 *	libfast.so:fast_gemm*  dtype = f32; flops = 2*i32(arg1)*i32(arg2)*i32(arg3)
 *
 * The first rule that names a function is its; functions that a rule names are traced.
 */
#ifndef PERFX_COST_COST_MODEL_H
#define PERFX_COST_COST_MODEL_H

#include "cost/cost_program.h"
#include "elf/pattern.h"

struct cost_model;

/* path NULL: the built-in table alone. NULL with errno; in why one line that says which file and
 * line, what is wrong and what to do (EINVAL, or why the file cannot be read). */
struct cost_model *cost_model__load(const char *path, char *why, size_t why_size);
void cost_model__free(struct cost_model *model);

/* Does a rule name functions of this file, this function of it? NULL-tolerant. */
bool cost_model__names_module(const struct cost_model *model, const struct module_names *module);
bool cost_model__names(const struct cost_model *model, const struct module_names *module,
		       const char *symbol);

/* The program of a function, and in *origin where it comes from: "built in" or "FILE:LINE",
 * borrowed. -ENOENT: its work is not known. NULL-tolerant. */
int cost_model__find(const struct cost_model *model, const struct module_names *module,
		     const char *symbol, struct perfx_cost_program *cost, const char **origin);

#endif
