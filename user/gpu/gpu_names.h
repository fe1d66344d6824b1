/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of kernels and of calls, for all that speaks of them: one numbering, and a GPU_NAME record
 * before a number's first use. */
#ifndef PERFX_GPU_GPU_NAMES_H
#define PERFX_GPU_GPU_NAMES_H

#include "decode/pack.h"

#include <stdint.h>

struct gpu_names;

/* NULL with errno ENOMEM. The sink is borrowed. */
struct gpu_names *gpu_names__new(struct sink *sink);
void gpu_names__free(struct gpu_names *names);

/* The number of a name as its symbol has it ("_ZN2at6native…"), which the record demangles. module:
 * where it is from, "" unknown; flags: PERFX_GPU_NAME_. 0: memory is out. */
uint32_t gpu_names__id(struct gpu_names *names, const char *symbol, const char *module,
		       uint32_t flags);

#endif
