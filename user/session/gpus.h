/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GPUs that traced processes use, sampled beside /proc: what they do, what they draw, and what
 * memory of theirs each process has, as records. Nothing happens in the traced processes.
 */
#ifndef PERFX_SESSION_GPUS_H
#define PERFX_SESSION_GPUS_H

#include "gpu/gpu_thread.h"
#include "plan/skipped.h"
#include "session/process_table.h"

struct gpus;

struct gpus_parts {
	struct process_table *processes;
	struct sink *sink;
	struct skipped_list *skipped; /* why there are no samples, or no more */
	struct gpu_thread_options options;
};

/* NULL with errno. Everything that the parts point to is borrowed. */
struct gpus *gpus__new(const struct gpus_parts *parts);
void gpus__free(struct gpus *gpus);

/* Both of NULL do nothing: GPUs are not sampled. */
/* Asks for the next samples, unless the last ones are still waited for. */
void gpus__sample(struct gpus *gpus);
/* Emits samples that have come meanwhile. */
void gpus__tick(struct gpus *gpus);
/* The index of the GPU with this UUID; -ENOENT: none has it; -EAGAIN: not known yet; -ENODEV: GPUs
 * are not sampled, or there is no driver. */
int gpus__find(struct gpus *gpus, const char *uuid);
/* The last samples are waited for, for a moment. */
void gpus__finish(struct gpus *gpus);

#endif
