/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CPython interpreter of a process: which release it is, and where it keeps the frames of its
 * threads. Found from outside: _PyRuntime is exported by python or libpython; the offsets in it are
 * those of the release; and before they are used all threads are walked by them, each of whose
 * frames must have a code object.
 */
#ifndef PERFX_CPYTHON_CPYTHON_H
#define PERFX_CPYTHON_CPYTHON_H

#include "cpython/release.h"
#include "proc/maps.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cpython {
	struct cpython_release release; /* .frames complete: for this process */
	uint64_t code_type;		/* PyCode_Type: the type of code objects */
	char version[16];		/* "3.11.2"; where only that is known "3.8" */
};

enum cpython_found {
	CPYTHON_NONE,	   /* no Python is mapped */
	CPYTHON_NOT_YET,   /* the interpreter has not started: try again later */
	CPYTHON_FOUND,	   /* its frames can be read */
	CPYTHON_UNREADABLE /* *why: one line */
};

/* Looks for the interpreter in a process's mappings. *why is never NULL: of UNREADABLE the reason;
 * of NOT_YET what does not match its release, or ""; otherwise "". */
enum cpython_found cpython_find(pid_t pid, const struct maps *maps, struct cpython *python,
				const char **why);
/* Of one that was NOT_YET: may another look find more? A read of 8 bytes, where a look opens files.
 */
bool cpython_may_have_started(pid_t pid, const struct cpython *python);

/* Visits the state of each thread, with pthread_self() of the thread. None where there are
 * subinterpreters, in which a thread may have several. */
void cpython_each_thread(pid_t pid, const struct cpython *python,
			 void (*visit)(void *ctx, uint64_t thread_id, uint64_t state), void *ctx);

#endif
