/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The asyncio tasks of a process that have not ended, read from outside while it runs. Since 3.14
 * CPython publishes where they are, for `python -m asyncio pstree`: each thread has a list of its
 * tasks, the interpreter one of those whose threads have ended; the offsets are in _PyRuntime
 * (_Py_DebugOffsets) and in the section .AsyncioDebug of the module _asyncio. What is read may be
 * gone already, so all is checked, and lists are bounded.
 */
#ifndef PERFX_CPYTHON_TASKS_H
#define PERFX_CPYTHON_TASKS_H

#include "cpython/cpython.h"
#include "proc/maps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Offsets of the module's structures (Modules/_asynciomodule.c, Py_AsyncioModuleDebugOffsets). */
struct asyncio_offsets {
	uint16_t name, awaited_by, awaited_by_is_set, coroutine, node; /* in a task */
	uint16_t interpreter_tasks, thread_tasks;		       /* heads of lists */
};

/* Words of the section, which are those offsets among others. */
#define ASYNCIO_DEBUG_WORDS 13

/* False: they make no sense. */
bool asyncio_offsets_of(const uint64_t words[ASYNCIO_DEBUG_WORDS], struct asyncio_offsets *at);
/* Looks for them in the process. False: asyncio is not loaded, or this release has none. */
bool asyncio_find(pid_t pid, const struct maps *maps, const struct cpython *python,
		  struct asyncio_offsets *at);

#define TASK_AWAITERS_MAX 8

struct python_task {
	uint64_t id; /* its address */
	/* Ids of the tasks that wait for its end. */
	uint64_t awaiters[TASK_AWAITERS_MAX];
	size_t awaiters_count;
	uint32_t tid; /* of the thread of its event loop, as the process numbers it; 0: it has ended
		       */
	bool runs;    /* its stack is that of the thread; otherwise it waits */
	const char *name;
	/* Its coroutines, innermost first, a line of "function\tfile\tline" each. */
	const char *stack;
};

/* The task is valid during the call. 0 or -ENOMEM. */
int asyncio_each_task(pid_t pid, const struct cpython *python, const struct asyncio_offsets *at,
		      void (*visit)(void *ctx, const struct python_task *task), void *ctx);

#endif
