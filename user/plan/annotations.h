/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which functions of which files mark ranges, and how: NVTX, ROCTX, ITT as PyTorch calls it,
 * PyTorch's own, TensorFlow's operations. Pure: names in, rules out.
 */
#ifndef PERFX_PLAN_ANNOTATIONS_H
#define PERFX_PLAN_ANNOTATIONS_H

#include "perfx_config.h"
#include "plan/plan.h"

#include <stdbool.h>

/* Is a file of that base name worth searching? Others that export a marking function are too. */
bool annotation_module(const char *base);
/* NULL-terminated: functions one of which a file exports that implements NVTX or ROCTX. */
extern const char *const annotation_entry_points[];

/* What a function of that (mangled) name marks; false: nothing. *shown: what a range without a name
 * is called, NULL otherwise; *level: from which on. */
bool annotation_find(const char *symbol, struct perfx_annotation *annotation, const char **shown,
		     enum host_level *level);

/* Adds the beginnings of these functions' names; jitted: of those that run a jitted function, and
 * of those that lead to its name. 0 or -ENOMEM. */
struct prefixes;
int annotation_prefixes(struct prefixes *set);
int annotation_jitted_prefixes(struct prefixes *set);

/* Calls a jitted function of JAX, named by its module. */
bool annotation_runs_jitted(const char *symbol);

/* Calls an operation, or a traced function, of TensorFlow. */
bool annotation_runs_eager(const char *symbol);

/* PyTorch before 2.4 may pass record_function's names by a way that has no allocation probe: then
 * there are ranges without names. True for a symbol that shows it. */
bool annotation_is_old_torch(const char *symbol);

#endif
