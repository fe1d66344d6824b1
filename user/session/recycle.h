/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Indices of processes and calling contexts, in a recording that goes on (--flight, top, serve):
 * tables have room for so many, and processes come and go by the thousand. What has ended is
 * forgotten, in the kernel and here, and its indices are others' then.
 *
 * Not before nobody can take the one for the other: records of the flight buffer, and who watches
 * the recording (known_from_ns in recorder.h), know processes by their index alone.
 */
#ifndef PERFX_SESSION_RECYCLE_H
#define PERFX_SESSION_RECYCLE_H

#include <stdint.h>

struct recycle;

/* Nothing of that index comes after this time, but what is in the rings. Once more does nothing.
 * recycle may be NULL. */
void recycle__ended(struct recycle *recycle, uint32_t process, uint64_t time_ns);

#endif
