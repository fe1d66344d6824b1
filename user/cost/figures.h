/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whose work is known, and by what program: the built-in table and, before it, the user's rules.
 * A rules file has one rule a line, which lines that begin with a blank continue; '#' begins a
 * comment:
 *
 *	# MODULE:GLOB (as for -F, without blanks), then statements (cost/figure.h)
 *	libfast.so:fast_gemm*  dtype = f32; flops = 2*i32(arg1)*i32(arg2)*i32(arg3)
 *
 * The first rule that names a function is its; functions that a rule names are traced.
 */
#ifndef PERFX_COST_FIGURES_H
#define PERFX_COST_FIGURES_H

#include "cost/figure.h"

struct figures;

/* path NULL: the built-in table alone. NULL with errno; in why one line that says which file and
 * line, what is wrong and what to do (EINVAL, or why the file cannot be read). */
struct figures *figures__load(const char *path, char *why, size_t why_size);
void figures__free(struct figures *figures);

/* Does a rule name functions of this file, this function of it? NULL-tolerant. */
bool figures__names_module(const struct figures *figures, const char *base_name);
bool figures__names(const struct figures *figures, const char *base_name, const char *symbol);

/* The program of a function, and in *origin where it comes from: "built in" or "FILE:LINE",
 * borrowed. -ENOENT: its work is not known. NULL-tolerant. */
int figures__find(const struct figures *figures, const char *base_name, const char *symbol,
		  struct perfx_figure *figure, const char **origin);

#endif
