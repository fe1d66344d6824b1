/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a thread's seccomp filters let through what loading a library takes. */
#ifndef PERFX_INJECT_SECCOMP_H
#define PERFX_INJECT_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What a classic BPF program answers to that system call: SECCOMP_RET_…. A program that is damaged
 * (the kernel would not have taken it) kills: SECCOMP_RET_KILL_PROCESS. */
uint32_t seccomp_run(const struct sock_filter *program, size_t count,
		     const struct seccomp_data *data);

/* Of a thread that we have stopped. NULL: all is let through; else why not, a static text, or one
 * made in `why`. */
const char *seccomp_forbids(pid_t tid, char *why, size_t why_bytes);

#endif
