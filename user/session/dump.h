/* SPDX-License-Identifier: BSD-2-Clause */
/* A dump, as a part of a recording, and what it finds about waits. */
#ifndef PERFX_SESSION_DUMP_H
#define PERFX_SESSION_DUMP_H

#include "perfx_record.h"

#include <stdbool.h>
#include <sys/types.h>

struct recording;

/* A THREAD_STATE record passes: it gets the holder of the GIL by the tracer's own ids. */
void dump__on_state(struct recording *recording, struct perfx_thread_state *state);
/* A SAMPLE record passes. */
void dump__on_sample(struct recording *recording, const struct perfx_sample *sample);
/* Begins a dump in a recording that goes on. False: this recording has none
 * (recorder_options.dumps, the kernel). */
bool dump__begin(struct recording *recording);
/* The dump that was begun has not ended. */
bool dump__is_running(const struct recording *recording);
/* perfx-trace dump: all threads were seen, and what they wait for. */
bool dump__done(const struct recording *recording);

/*
 * wait_targets.c: what a thread waits for, read from outside: /proc and the memory of its process.
 * Threads that wait for one object ask once. Reads are bounded; whatever has ended, moved on or
 * cannot be read meanwhile is left unknown.
 */
struct wait_targets;

struct wait_targets *wait_targets__new(void); /* NULL: memory is out */
void wait_targets__free(struct wait_targets *targets);
/* Sets kind, pid, owner_tid and deadline_ns of *target, whose other members are set. Returns its
 * text, malloc'd; NULL: there is none. pid: of the thread's process. */
char *wait_targets__find(struct wait_targets *targets, pid_t pid,
			 const struct perfx_thread_state *state, struct perfx_wait_target *target);

#endif
