/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What threads wait for, as records: BLOCKED, the sums of the kernel (attach/waiting.h) as
 * differences, and WAIT_OBJECT, the names of what they wait for, looked up soon after the first
 * wait, while the process still has it.
 */
#ifndef PERFX_SESSION_WAITS_H
#define PERFX_SESSION_WAITS_H

#include <stdbool.h>
#include <stdint.h>

struct waits;

/* Each does nothing with NULL: time off the CPU is not recorded. */

/* Names are emitted anew, of what is waited for from now on. */
void waits__renew(struct waits *waits);
/* What has been waited since the last time, up to now; ended: the recording ends then. */
void waits__emit(struct waits *waits, uint64_t now_ns, bool ended);
/* The same, and it is no longer recorded. */
void waits__give_up(struct waits *waits, uint64_t now_ns);

#endif
