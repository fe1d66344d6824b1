/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The energy that the host's processors and their memory have used, as the kernel's powercap
 * counts it (RAPL of Intel and AMD): the whole machine's, whoever used it. Virtual machines have
 * none of it.
 */
#ifndef PERFX_SESSION_POWERCAP_H
#define PERFX_SESSION_POWERCAP_H

#include "decode/pack.h"

#include <stddef.h>

struct powercap;

/* root: NULL for /sys/class/powercap. NULL: memory is out. One without a readable domain has
 * powercap__count() 0. */
struct powercap *powercap__new(const char *root);
void powercap__free(struct powercap *powercap);
size_t powercap__count(const struct powercap *powercap);

/* HOST_ENERGY of each domain; of NULL nothing. */
void powercap__sample(struct powercap *powercap, struct sink *sink);

#endif
