/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the addresses of call stacks to FRAME records: function, file, line, inlined functions.
 *
 * Names are looked up once, at the end of the recording, when the distinct addresses of each file
 * can be done together (elf/symbolize.h says what that costs); until then a process may have
 * ended and a library may have been unloaded. So a process's executable mappings are read when
 * it appears and whenever they change, their files are held open (elf/file_cache.h), and an address
 * is bound to a file and an offset as soon as a stack shows it: to what was mapped there then.
 *
 * Libraries may lie at one address in turn. The programs know stacks by their addresses, so a later
 * record may name a stack that was shown when other code lay there. Each mapping is therefore known
 * with the time in which it lay there, and so is each record: a stack whose addresses have another
 * meaning by then is replaced by one that says so, in which those addresses are numbered
 * (PERFX_FRAME_NUMBERED).
 *
 * Costs: reading a process with PyTorch 1 to 2 ms (most of it reading /proc/PID/maps), the first
 * one 3 to 14 ms (opening its 100 to 300 files); 0.1 µs for each new address and less for a known
 * one; 70 bytes a distinct address, 48 bytes an executable mapping, 8 bytes a frame of each stack
 * (8 MiB at most). Forked children share what their parent maps. frames__emit: 5,000 addresses all
 * over Debian's PyTorch 0.2 s and 27 MB, all over a wheel's PyTorch and JAX (1.8 million symbols)
 * 0.6 s and 80 MB, 1.3 s when they are not in the page cache. One file is open for reading at a
 * time.
 *
 * Code without a file (JIT) has neither module nor function: both "". Code of a file that
 * has no name for it has module and offset.
 */
#ifndef PERFX_SESSION_FRAMES_H
#define PERFX_SESSION_FRAMES_H

#include "attach/mapped_files.h"
#include "decode/pack.h"
#include "elf/image.h"
#include "plan/skipped.h"
#include "proc/maps.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tracer;
struct frames;

/* All are borrowed. tracer: gets the layout of each interpreter (tracer__set_python); may be NULL.
 * skipped: gets the files whose source lines take too long; may be NULL. NULL with errno: ENOMEM.
 */
struct frames *frames__new(struct sink *sink, struct tracer *tracer, struct skipped_list *skipped);
void frames__free(struct frames *frames);

/* Reads the mappings of a process: at the start, after exec, and when an executable mapping is
 * new. `process` is its index. 0 or -errno; -ESRCH: it is gone. */
int frames__map(struct frames *frames, uint32_t process, pid_t pid);
/* A process has mapped code, which replaces the code at these addresses. To be called in order of
 * time, before the stacks that may show it. 0 or -ENOMEM. */
int frames__mapped(struct frames *frames, uint32_t process, const struct new_mapping *mapping);
/* A child begins with its parent's mappings; frames__map need not read them. */
int frames__fork(struct frames *frames, uint32_t child, pid_t pid, uint32_t parent);

/* Forgets a process that has ended. */
void frames__forget(struct frames *frames, uint32_t process);

/* Remembers the addresses of a STACK record and prepares it for the sink: removes the time and the
 * code objects that the kernel side appended to the frames, and renumbers addresses at which other
 * code lay before. To be called in order of time, like the functions above. 0 or -ENOMEM. */
int frames__stack(struct frames *frames, struct perfx_stack *stack);
/* When the BPF programs made a STACK record. Only before frames__stack, which removes the time. */
uint64_t frames__stack_time_ns(const struct perfx_stack *stack);
/* A record of time_ns names a stack, which may be older. If other code lies at the stack's
 * addresses by then, *stack becomes the id of a stack with that code; 0: the code is not known. */
void frames__name_stack(struct frames *frames, uint32_t process, uint32_t *stack, uint64_t time_ns);
/* Forgets the stacks: no further record names one. */
void frames__forget_stacks(struct frames *frames);
/* Names the Python frame of a CONTEXT record, as python_frames__add. 0 or -ENOMEM. */
int frames__caller(struct frames *frames, struct perfx_context *context);

/* A file that processes map, and an offset in it. */
struct code_place {
	uint32_t file;
	uint64_t offset;
};

/* Finds the file whose code is at an address, or was last. False: none is known. */
bool frames__locate(struct frames *frames, uint32_t process, uint64_t address,
		    struct code_place *place);
/* The path of a place's file, borrowed, and its image, which the caller frees. NULL: it cannot be
 * read. */
const char *frames__path(const struct frames *frames, uint32_t file);
struct image *frames__image(const struct frames *frames, uint32_t file);

/* python_frames__find_threads of its Python frames. */
void frames__find_threads(struct frames *frames);
/* python_frames__emit_tasks of its Python frames. */
void frames__emit_tasks(struct frames *frames);
/* Sends a FRAME record for each function at each address that is new since the last call. 0 or
 * -ENOMEM: then some are missing. */
int frames__emit(struct frames *frames);

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
struct python_frames;

/* Both are borrowed. tracer: gets the layout of each interpreter (tracer__set_python); may be NULL.
 * NULL with errno. */
struct python_frames *python_frames__new(struct tracer *tracer, struct sink *sink);
void python_frames__free(struct python_frames *python);

/* Searches a process's mappings for an interpreter, unless it is known already. */
void python_frames__map(struct python_frames *python, uint32_t process, pid_t pid,
			const struct maps *maps);
/* A child has its parent's interpreter. */
void python_frames__fork(struct python_frames *python, uint32_t child, pid_t pid, uint32_t parent);
/* Tells the BPF programs where the states of all threads are, for a dump. */
void python_frames__find_threads(struct python_frames *python);
/* Sends an ASYNC_TASK record for each asyncio task, where the release says where they are. */
void python_frames__emit_tasks(struct python_frames *python);
/* Searches again for interpreters that had not started. */
void python_frames__tick(struct python_frames *python, uint64_t now_ns);
/* Forgets a process that has ended. */
void python_frames__forget(struct python_frames *python, uint32_t process);

/* Names a frame (PERFX_FRAME_PYTHON) that a record has shown, and changes it where its address had
 * another code object before. identity: of the code object at that time; NULL: not known, then
 * today's counts. 0 or -ENOMEM. */
int python_frames__add(struct python_frames *python, uint32_t process, uint64_t *frame,
		       const uint32_t *identity);
/* Sends a FRAME record for each frame that is new since the last call, and a PYTHON record for each
 * process that has Python. */
void python_frames__emit(struct python_frames *python);

#endif
