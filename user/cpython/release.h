/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Layout of CPython's structures, by release. Up to 3.12 a table, taken from the debug information
 * of builds; since 3.13 the interpreter describes itself: _PyRuntime begins with _Py_DebugOffsets
 * (Include/internal/pycore_debug_offsets.h), whose own layout differs from one release to the next.
 */
#ifndef PERFX_CPYTHON_RELEASE_H
#define PERFX_CPYTHON_RELEASE_H

#include "cpython/lines.h"
#include "perfx_python.h"

#include <stddef.h>
#include <stdint.h>

#define CPYTHON_RELEASES       "3.8 to 3.14"
#define CPYTHON_MINOR(version) ((version) >> 16) /* of PY_VERSION_HEX: 0x030b for 3.11 */

/* Offsets in a code object, bytes. */
struct code_offsets {
	uint16_t first_line, file, name;
	uint16_t flags;	      /* co_flags, an int */
	uint16_t qualname;    /* 0: there is none */
	uint16_t lines;	      /* its line table */
	uint16_t string_data; /* of ASCII; of other compact strings 16 or, to 3.11, 24 more */
	uint16_t string_wide_data;
	enum line_table format;
};

/* Where a debugger leaves the path of a script for a thread to run (PEP 768). path_bytes 0: the
 * release has no such place. */
struct remote_script_offsets {
	uint16_t main_thread, enabled; /* in an interpreter; enabled: an int */
	uint16_t pending, path;	       /* in a thread state; pending: an int32_t */
	uint16_t path_bytes;
};

/* For asyncio's tasks (cpython/tasks.h); generator_frame 0: the release does not describe them. */
struct task_offsets {
	uint16_t thread_tid;	      /* in a thread state */
	uint16_t frame_top;	      /* pointer behind the top of a frame's stack */
	uint16_t set_table, set_mask; /* of a set */
	uint16_t long_tag, long_digits;
	uint16_t generator_frame, generator_state; /* of a coroutine, too */
};

struct cpython_release {
	struct perfx_python_layout frames; /* without its addresses */
	struct code_offsets code;
	struct remote_script_offsets remote;
	struct task_offsets tasks;
	uint16_t runtime_interpreters; /* in _PyRuntime */
	/* GIL struct: in _PyRuntime, or where the first interpreter points to */
	uint16_t runtime_gil, interpreter_gil;
};

/* Bytes of _PyRuntime to be given to cpython_release. */
#define CPYTHON_RUNTIME_BYTES 1024

/* runtime: the first bytes of _PyRuntime; version: PY_VERSION_HEX, 0 where it is not known (from
 * 3.13 on runtime has it). NULL, or why its frames cannot be read. */
const char *cpython_release(const uint8_t runtime[CPYTHON_RUNTIME_BYTES], uint32_t version,
			    struct cpython_release *release);
/* PY_VERSION_HEX as such a runtime stores it; 0: it does not. */
uint32_t cpython_runtime_version(const uint8_t runtime[CPYTHON_RUNTIME_BYTES]);

#endif
