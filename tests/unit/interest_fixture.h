/* SPDX-License-Identifier: BSD-2-Clause */
/* Is a name left for the rules when no functions are named? */
#ifndef INTEREST_FIXTURE_H
#define INTEREST_FIXTURE_H

#include "plan/defaults.h"

#include <criterion/criterion.h>

static inline bool interests(const char *base, const char *name)
{
	struct prefixes mangled = {0};
	struct interest interest = {.mangled = &mangled, .base = base};
	bool has;

	cr_assert_eq(interest_collect(&mangled), 0);
	has = interest_has(name, &interest);
	prefixes_clear(&mangled);
	return has;
}

#endif
