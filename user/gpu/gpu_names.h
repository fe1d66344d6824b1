/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of kernels and of calls, for all that speaks of them: one numbering, and a GPU_NAME record
 * for each, before its first use where it is known by then. */
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

/* A number for a name that becomes known later, and its record then. */
uint32_t gpu_names__reserve(struct gpu_names *names);
void gpu_names__emit(struct gpu_names *names, uint32_t name, const char *symbol, const char *module,
		     uint32_t flags);

#endif
