/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Starts a program and holds it before its own first instruction: its libraries are mapped and
 * relocated, no constructor has run. So probes see everything from the start.
 *
 * A debugger's way: ptrace to the exec, then a breakpoint on the dynamic linker's _dl_debug_state,
 * which it calls when its list of libraries has become consistent. A static program is held at
 * exec.
 */
#ifndef PERFX_SESSION_LAUNCH_H
#define PERFX_SESSION_LAUNCH_H

#include <stdbool.h>
#include <sys/types.h>

struct launch;

struct launch_options {
	bool as_caller;	       /* under sudo: as the calling user, with that user's environment */
	bool nvtx;	       /* make NVTX 3 seen, unless another tool listens */
	bool python_functions; /* make Python functions ranges */
	/* --gpu 1: CUDA loads our agent, which connects there; NULL: it does not. */
	const char *gpu_socket;
	char *const *environment; /* NAME=value, added to its own; NULL: none */
	/* In a session of its own, without input, and its output goes to this file: signals of the
	 * terminal do not reach it, and it does not outlive this program. 0: as this program. */
	int apart_fd;
};

/* argv is NULL-terminated. NULL after a message: it could not be started; *exit_code is a shell's
 * for that (126, 127). */
struct launch *launch__start(char *const *argv, const struct launch_options *options,
			     int *exit_code);
/* Do its NVTX ranges go to our library? */
bool launch__nvtx(const struct launch *launch);
/* Libraries that it will map later, borrowed. */
char *const *launch__files(const struct launch *launch, size_t *count);
pid_t launch__pid(const struct launch *launch);
/* Lets it run. */
void launch__go(struct launch *launch);
/* Waits for its end, for so long at most or until a signal comes, and reaps it: true and its status
 * as wait(2) gives it. */
bool launch__wait(struct launch *launch, int timeout_ms, int *status);
/* Kills it if it was never let go; otherwise leaves it alone. */
void launch__free(struct launch *launch);

#endif
