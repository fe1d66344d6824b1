/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations of compiled programs: XLA's thunks. The programs in the kernel emit each thunk when
 * it is run for the first time; here it gets its name, and what a run of it computes is read from
 * the process (xla/thunk.h) and passed to the stream and to the kernel.
 *
 * Reading takes 5 to 20 µs, of a fusion 0.1 ms, once for each thunk. Runs before that are emitted
 * with the thunk's id alone; the OBJECT_COST record that follows gives their cost.
 */
#ifndef PERFX_SESSION_OPERATIONS_H
#define PERFX_SESSION_OPERATIONS_H

#include "attach/tracer.h"

#include <stdbool.h>

struct operations;

void operations__on_object(struct operations *operations, const struct perfx_object_record *record);
/* OVERFLOW_CALLS records of runs, since the last time, that had not been read yet and found no
 * room. last: also of what has not been read by now. */
void operations__report(struct operations *operations, bool last);

#endif
