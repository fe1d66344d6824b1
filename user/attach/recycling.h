/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel's tables have of processes that are gone, in a recording that goes on: it is
 * taken out, and their indices are given to others. When, is for session/recycle.c to say.
 */
#ifndef PERFX_ATTACH_RECYCLING_H
#define PERFX_ATTACH_RECYCLING_H

#include "attach/tracer.h"

/* gone: by process index, up to PERFX_MAX_PROCESS_INDICES; set for those of which no program and no
 * record speaks any more. Takes out what the tables have of them, and sets contexts (by index, up
 * to PERFX_MAX_CONTEXTS) for their calling contexts, which can be given then. 0 or -errno: nothing
 * may be given. */
int tracer__forget(struct tracer *tracer, const bool gone[], bool contexts[]);

/* Stacks of samples are emitted anew, under other numbers. 0 or -errno: those of some are. */
int tracer__renew_sample_stacks(struct tracer *tracer);

#endif
