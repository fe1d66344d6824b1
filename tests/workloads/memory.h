/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs with known memory: they record their own blocks by the rules that a tracer must follow,
 * and print expectations (known.h) with the names of the report's `memory` entry:
 *
 *	expect memory KEY VALUE		of the process that printed "ready"
 *	expect memory KEY@PID VALUE	of another process
 *	expect FUNCTION KEY VALUE	of all hotspots with FUNCTION in their stack
 *
 * KEY is allocs, frees, unknown_frees, allocated_bytes, current_bytes, peak_bytes or temporary; of
 * hotspots allocs, frees, allocated_bytes, live_bytes or live_at_peak_bytes. KEY_min and KEY_max
 * are bounds of random values.
 *
 * Between "go" and "done" nothing else allocates: stdio has had its buffer since "ready".
 */
#ifndef TESTS_WORKLOADS_MEMORY_H
#define TESTS_WORKLOADS_MEMORY_H

#include "known.h"

struct memory {
	uint64_t allocs, frees, unknown_frees, temporary;
	uint64_t allocated_bytes, current_bytes, peak_bytes;
	uintptr_t last; /* the last call's block, if no other call came after it */
};

/* One per thread: peak and temporary belong to one thread, the rest can be added up. */
static __thread struct memory memory;

/* A block of this size was allocated; NULL is ignored. */
static inline void *memory_took(void *block, size_t size)
{
	KEEP(block);
	if (!block)
		return NULL;
	memory.allocs++;
	memory.allocated_bytes += size;
	memory.current_bytes += size;
	if (memory.current_bytes > memory.peak_bytes)
		memory.peak_bytes = memory.current_bytes;
	memory.last = (uintptr_t)block;
	return block;
}

/* A block is freed: call this before the call that frees it. */
static inline void memory_gave(const void *block, size_t size)
{
	memory.frees++;
	memory.current_bytes -= size;
	memory.temporary += (uintptr_t)block == memory.last;
	memory.last = 0;
}

/* The same for a block from before "ready". */
static inline void memory_gave_unknown(void)
{
	memory.unknown_frees++;
	memory.last = 0;
}

static inline void memory_expect_of(const struct memory *m, pid_t pid)
{
	const struct {
		const char *key;
		uint64_t value;
	} rows[] = {
		{"allocs", m->allocs},
		{"frees", m->frees},
		{"unknown_frees", m->unknown_frees},
		{"allocated_bytes", m->allocated_bytes},
		{"current_bytes", m->current_bytes},
		{"temporary", m->temporary},
		{"peak_bytes", m->peak_bytes},
	};
	char key[48];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(key, sizeof(key), pid ? "%s@%d" : "%s", rows[i].key, (int)pid);
		known_expect("memory", key, rows[i].value);
	}
}

static inline void memory_expect(void)
{
	memory_expect_of(&memory, 0);
}

/* Work of threads and children, added to that of their peers; the latter two are not sums. */
static inline void memory_add(struct memory *sum, const struct memory *m)
{
	sum->allocs += m->allocs;
	sum->frees += m->frees;
	sum->unknown_frees += m->unknown_frees;
	sum->allocated_bytes += m->allocated_bytes;
	sum->current_bytes += m->current_bytes;
}

/* The scenario that argv[1] names, or the first. */
struct memory_scenario {
	const char *name;
	void (*run)(void);
};

static inline void (*memory_find(const struct memory_scenario *all, const char *name))(void)
{
	if (!name)
		return all->run;
	for (; all->name; all++)
		if (!strcmp(all->name, name))
			return all->run;
	fprintf(stderr, "there is no scenario %s\n", name);
	exit(2);
}

#endif
