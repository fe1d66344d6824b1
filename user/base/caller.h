/* SPDX-License-Identifier: BSD-2-Clause */
/* The user who called sudo. */
#ifndef PERFX_BASE_CALLER_H
#define PERFX_BASE_CALLER_H

#include <stdbool.h>
#include <sys/types.h>

/* False when this was not started by sudo. */
bool caller_ids(uid_t *uid, gid_t *gid);

/* In a child before exec: becomes that user, groups included. 0 or -errno. */
int caller_become(uid_t uid, gid_t gid);

#endif
