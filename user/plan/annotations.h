/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions that mark ranges, and how they do it: NVTX, ROCTX, ITT as PyTorch calls it,
 * PyTorch's own, TensorFlow's operations. Pure: names in, rules out.
 */
#ifndef PERFX_PLAN_ANNOTATIONS_H
#define PERFX_PLAN_ANNOTATIONS_H

#include "perfx_config.h"
#include "plan/plan.h"

#include <stdbool.h>

/* (name, arguments, RecordFunction &), which it ends by calling: local, so only where a file has
 * its symbols still, as PyTorch's wheels do. */
#define ENTER_NAMED                                                                 \
	"_ZN5torch8autograd8profilerL21record_function_enterERKNSt7__cxx1112basic_" \
	"stringIcSt11char_"                                                         \
	"traitsIcESaIcEEERKSt8optionalIS7_ERN2at14RecordFunctionE"

#define RANGE_END     "_ZN2at14RecordFunction3endEv"
#define RANGE_DESTROY "_ZN2at14RecordFunctionD1Ev"
/* What ends the ranges that ENTER_NAMED begins, local like it; one that was handed to a future ends
 * with its object. */
#define EXIT_NEW    "_ZN5torch8autograd8profilerL24record_function_exit_newE"
#define EXIT_LEGACY "_ZN5torch8autograd8profilerL27record_function_exit_legacyERKN2at6TensorE"
#define NAMED_D0    "_ZN5torch8autograd8profiler20PythonRecordFunctionD0Ev"
#define NAMED_D1    "_ZN5torch8autograd8profiler20PythonRecordFunctionD1Ev"

/* Is a file of that base name worth searching? Others that export a marking function are too. */
bool annotation_module(const char *base);
/* NULL-terminated: functions one of which a file exports that implements NVTX or ROCTX. */
extern const char *const annotation_entry_points[];

/* Finds the annotation of a function by its mangled name; false: none. *shown: the name of a range
 * that has none, NULL otherwise; *level: the lowest host_level at which it is traced. */
bool annotation_find(const char *symbol, struct perfx_annotation *annotation, const char **shown,
		     enum host_level *level);

/* Adds the beginnings of these functions' names. 0 or -ENOMEM. */
struct prefixes;
int annotation_prefixes(struct prefixes *set);

/* Calls an operation, or a traced function, of TensorFlow. */
bool annotation_runs_eager(const char *symbol);

/* PyTorch before 2.4 may pass record_function's names by a way that has no allocation probe: then
 * there are ranges without names. True for a symbol that shows it. */
bool annotation_is_old_torch(const char *symbol);

#endif
