/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The processes of a recording: what /proc says of them goes into the stream as records, so that a
 * replay needs no /proc. A book is an incarnation of a process: (pid, start, exec); its index is
 * what the kernel side calls `process`.
 */
#ifndef PERFX_SESSION_BOOKS_H
#define PERFX_SESSION_BOOKS_H

#include "attach/tracer.h"
#include "decode/sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct books;

/* tracer and sink are borrowed. full_cmdline: do not hide what looks like a secret. */
struct books *books__new(struct tracer *tracer, struct sink *sink, bool full_cmdline);
/* From here on nobody is sampled, nor told what was used meanwhile; or again. */
void books__hold(struct books *books, bool held);
void books__free(struct books *books);

/* A traced process that was running before: PROCESS record. */
int books__open(struct books *books, uint32_t process, pid_t pid);
/* Events of the control ring. */
void books__on_fork(struct books *books, const struct perfx_fork *fork);
void books__on_exec(struct books *books, const struct perfx_exec *exec);
/* The index of the first book of what has ended; 0: nobody has known it. */
uint32_t books__on_exit(struct books *books, const struct perfx_exit *exit);

/* USAGE of all living; threads: THREAD records too (start and end of the recording). */
void books__sample(struct books *books, bool threads);

/* Living pids, borrowed until the next call. */
const pid_t *books__pids(const struct books *books, size_t *count);
/* Of a process that lives, by its index; 0: it is none. */
pid_t books__pid(const struct books *books, uint32_t process);
/* The index of the first book of whoever has this pid now; 0: nobody. */
uint32_t books__born(const struct books *books, pid_t pid);
bool books__has(const struct books *books, pid_t pid);

#endif
