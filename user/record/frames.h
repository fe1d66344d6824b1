/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the addresses of call stacks to FRAME records: function, file, line, inlined functions.
 *
 * Names are looked up once, at the end of the recording, when the distinct addresses of each file
 * can be done together (symbolize/symbolize.h says what that costs); until then a process may have
 * ended and a library may have been unloaded. So a process's executable mappings are looked at when
 * it appears and whenever they change, their files are held open (record/held.h), and an address is
 * bound to a file and an offset as soon as a stack shows it: to what was mapped there then.
 *
 * Costs: a look at a process with PyTorch 2 ms (reading /proc/PID/maps), the first one 5 ms more
 * (opening 300 files); a stack whose addresses are known about 10 ns a frame; 60 bytes a distinct
 * address, 32 bytes a mapping. Forked children share what their parent maps.
 *
 * Code without a file ([vdso], JIT) has neither module nor function: both "". Code of a file that
 * has no name for it has module and offset.
 */
#ifndef PERFX_RECORD_FRAMES_H
#define PERFX_RECORD_FRAMES_H

#include "stream/sink.h"

#include <sys/types.h>

struct frames;

/* sink is borrowed. NULL with errno: ENOMEM. */
struct frames *frames__new(struct sink *sink);
void frames__free(struct frames *frames);

/* Looks at what a process maps now: at the start, after exec, and when an executable mapping has
 * come. `process` is the index of its book. 0 or -errno; -ESRCH: it is gone. */
int frames__map(struct frames *frames, uint32_t process, pid_t pid);
/* A child begins with what its parent maps. Not needed to be followed by a look at it. */
int frames__fork(struct frames *frames, uint32_t child, uint32_t parent);

/* Remembers the addresses of a STACK record, in the order in which stacks and the calls above come
 * about. 0 or -ENOMEM. */
int frames__stack(struct frames *frames, const struct perfx_stack *stack);

/* Sends a FRAME record for each function at each address of each process. At the end, once. 0 or
 * -ENOMEM: then some are missing. */
int frames__emit(struct frames *frames);

#endif
