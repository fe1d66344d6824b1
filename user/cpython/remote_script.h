/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CPython's own door for debuggers (PEP 768, since 3.14): the path of a script is left in the state
 * of a thread, which runs it when it next looks at what is pending, between two instructions of
 * Python code.
 *
 * sys.remote_exec() also sets a bit in the thread's eval_breaker, so that it looks at once. From
 * outside that is a read and a write, between which the interpreter may have set another bit, of a
 * signal, say, that would be lost. So here that is left alone: a thread looks anyway when garbage
 * is to be collected, another thread wants the GIL, or a signal has come; one that does none of it
 * never runs the script.
 */
#ifndef PERFX_CPYTHON_REMOTE_SCRIPT_H
#define PERFX_CPYTHON_REMOTE_SCRIPT_H

#include "cpython/cpython.h"

#include <stdbool.h>

struct remote_script {
	pid_t pid;
	uint64_t pending; /* address of the flag that it is to be run */
};

/* Asks the main thread to run the script; path is as the process sees it. NULL, or why that cannot
 * be (static): nothing has been changed. */
const char *remote_script_ask(struct remote_script *script, pid_t pid, const struct cpython *python,
			      const char *path);
/* Has it not begun yet? */
bool remote_script_is_pending(const struct remote_script *script);
/* It is not to be run any more; it may have begun a moment ago. */
void remote_script_withdraw(const struct remote_script *script);

#endif
