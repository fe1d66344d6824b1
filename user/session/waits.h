/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What threads wait for, as records: BLOCKED, the sums of the kernel (attach/waiting.h) as
 * differences, and WAIT_OBJECT, the names of what they wait for, looked up soon after the first
 * wait, while the process still has it.
 */
#ifndef PERFX_SESSION_WAITS_H
#define PERFX_SESSION_WAITS_H

#include "attach/tracer.h"
#include "decode/pack.h"

#include <stdbool.h>
#include <stdint.h>

struct waits;

/* Both are borrowed; tracer__waiting must not be NULL. NULL: ENOMEM. */
struct waits *waits__new(struct tracer *tracer, struct sink *sink);
void waits__free(struct waits *waits);

/* All of these do nothing with NULL, where time off the CPU is not recorded. */

/* To be called often. Emits the names of objects that are new, and what has been waited where the
 * kernel's table would be full before the next waits__emit. */
void waits__tick(struct waits *waits, uint64_t now_ns);
/* Names are emitted anew, of what is waited for from now on. */
void waits__renew(struct waits *waits);
/* What has been waited since the last time, up to now; ended: the recording ends then. */
void waits__emit(struct waits *waits, uint64_t now_ns, bool ended);
/* The same, and it is no longer recorded. */
void waits__give_up(struct waits *waits, uint64_t now_ns);

#endif
