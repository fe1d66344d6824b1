/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loads the BPF programs while something else is done: the kernel takes a quarter of a second of
 * CPU time to verify them, as planning takes for the files of a framework.
 */
#ifndef PERFX_ATTACH_LOADING_H
#define PERFX_ATTACH_LOADING_H

#include "attach/tracer.h"

struct loading;

/* options is copied; what it points to, and features, are borrowed until the end. NULL: out of
 * memory. */
struct loading *loading__start(const struct tracer_options *options,
			       const struct features *features);
/* Waits for the tracer, and loads it again if its tables have no room for so many probes. NULL with
 * errno, as tracer__new. Frees `loading`. */
struct tracer *loading__end(struct loading *loading, uint32_t probes_count);

#endif
