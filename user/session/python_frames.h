/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Python frames: in which processes they can be read, and what they are called.
 *
 * A code object lives as long as its module or closure, and its address is then given to another
 * one. So the kernel side says which code object a frame had (python_code() in bpf/python.bpf.h);
 * its names and its line table are read from the process soon after a record has shown it, if it
 * is still that one, and kept. Frames of one that was gone by then have no name
 * (PERFX_FRAME_GONE); frames of a later one at a known address get numbers in place of it.
 *
 * Costs: reading a process with Python 2 to 5 ms, once; a new code object 15 µs, 500 bytes.
 */
#ifndef PERFX_SESSION_PYTHON_FRAMES_H
#define PERFX_SESSION_PYTHON_FRAMES_H

#include "decode/pack.h"
#include "proc/maps.h"

#include <stdint.h>
#include <sys/types.h>

struct tracer;
struct python_frames;

/* Both are borrowed. tracer: gets the layout of each interpreter (tracer__set_python); may be NULL.
 * NULL with errno. */
struct python_frames *python_frames__new(struct tracer *tracer, struct sink *sink);
void python_frames__free(struct python_frames *python);

/* Searches a process's mappings for an interpreter, unless it is known already. */
void python_frames__map(struct python_frames *python, uint32_t process, pid_t pid,
			const struct maps *maps);
/* A child has its parent's. */
void python_frames__fork(struct python_frames *python, uint32_t child, pid_t pid, uint32_t parent);
/* Searches again for interpreters that had not started. */
void python_frames__tick(struct python_frames *python, uint64_t now_ns);
/* A process that has ended. */
void python_frames__forget(struct python_frames *python, uint32_t process);

/* Names a frame (PERFX_FRAME_PYTHON) that a record has shown, and changes it where its address had
 * another code object before. identity: of its code object then; NULL: it is not known, and taken
 * to be what it is now. 0 or -ENOMEM. */
int python_frames__add(struct python_frames *python, uint32_t process, uint64_t *frame,
		       const uint32_t *identity);
/* Sends a FRAME record for each frame that has come since the last time, and a PYTHON record for
 * each process that has Python. */
void python_frames__emit(struct python_frames *python);

#endif
