/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which symbols of a file can matter at all when no functions are named: at least all that the
 * rules of defaults.h, marks.h and allocators.h choose by name. Asked of each of half a million
 * names, so that these rules need to look only at the few that are left.
 */
#ifndef PERFX_PLAN_INTEREST_H
#define PERFX_PLAN_INTEREST_H

#include "base/prefixes.h"

#include <stdbool.h>

struct interest {
	const struct prefixes *mangled; /* interest_collect's; borrowed */
	const char *base;		/* name of the file */
};

/* What the mangled names of all rules begin with. 0 or -ENOMEM. */
int interest_collect(struct prefixes *mangled);
/* ctx: struct interest. */
bool interest_has(const char *name, void *ctx);

#endif
