/* SPDX-License-Identifier: BSD-2-Clause */
/* What a recording cannot have here, and why: said to the user, and kept for the report. */
#ifndef PERFX_SESSION_LACKING_H
#define PERFX_SESSION_LACKING_H

#include "attach/tracer.h"
#include "attach/unwind_tables.h"
#include "attach/waiting.h"
#include "plan/plan.h"

#include <stdint.h>

/* Parts whose programs the kernel has refused. */
void lacking_programs(const struct tracer *tracer, struct skipped_list *skipped);
/* Time off the CPU, where it cannot be recorded from then on; after the start of the tracer,
 * without which its programs do nothing. waiting NULL: it is not wanted. */
void start_waiting(struct waiting *waiting, struct skipped_list *skipped, uint64_t from_ns);
/* Stacks end at functions of files that were one too many. unwind_tables NULL: there are none. */
void lacking_files(const struct unwind_tables *unwind_tables, struct skipped_list *skipped);
/* Adds a hint if probes stay in the program after the recording. */
void hint_detaching(struct skipped_list *skipped);
/* Adds a hint for each process that has used up its share of the recording's names. */
void lacking_names(const struct tracer *tracer, struct skipped_list *skipped);
/* Where PERFX_DEBUG is set; unwind_tables as above. */
void say_unwind_tables(const struct unwind_tables *unwind_tables);

#endif
