/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of a process, and of all, as a sum of parts (struct perfx_memory_sum). */
#ifndef PERFX_ANALYZE_MEMORY_SUM_H
#define PERFX_ANALYZE_MEMORY_SUM_H

#include "aggregate/profile.h"
#include "base/text.h"

enum memory_moment { MEMORY_BEGIN, MEMORY_PEAK, MEMORY_END, MEMORY_MOMENTS };

/* "begin", "peak", "end" */
const char *memory_moment_name(enum memory_moment moment);
/* "heap_used"; "blocks of malloc in use" */
const char *memory_part_key(int part);
const char *memory_part_words(int part);

/* The allocators whose heaps were read, with their names in a list ("glibc, jemalloc"), or those
 * that are mapped and whose heaps could not be read. How many. */
size_t memory_sum_allocators(const struct perfx_memory_sum *sum, bool were_read,
			     struct text *names);

/* Of a process that has sums. */
const struct perfx_memory_sum *memory_sum_at(const struct profile_process *process,
					     enum memory_moment moment);
/* Of resident memory, the blocks that were allocated while recording and live at that time;
 * PROFILE_ABSENT: not known. At most what malloc has in use: a block may be untouched. */
uint64_t memory_sum_traced(const struct profile_process *process,
			   const struct perfx_memory_sum *sum);

/* All processes at the same moment, shared memory counted once: `proportional` adds up, `resident`
 * does not. Returns how many processes are in it. The peak is the point at which the sum of their
 * latest readings is largest; time_ns is its time. */
size_t memory_sum_of_job(const struct profile *profile, enum memory_moment moment,
			 struct perfx_memory_sum *sum);

#endif
