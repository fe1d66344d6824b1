/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a stopped thread may call dlopen: that no frame of its stack holds a lock for it. */
#ifndef PERFX_INJECT_STACK_H
#define PERFX_INJECT_STACK_H

#include "inject/target.h"

struct stack_place {
	uint64_t pc, sp, fp;
	uint64_t tls; /* address of the thread's control block */
	bool asleep;  /* stopped behind a system call, not at the entry of a function */
};

#define STACK_WHY_BYTES 96

/* 0: it may; *where: the function of libc in which it is asleep, else NULL. Else -EAGAIN, and why
 * not, as "in the dynamic linker". */
int stack_check(const struct target *target, const struct stack_place *place, const char **where,
		char why[STACK_WHY_BYTES]);

#endif
