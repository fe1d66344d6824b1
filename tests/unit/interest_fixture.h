/* SPDX-License-Identifier: BSD-2-Clause */
/* Is a name left for the rules when no functions are named? */
#ifndef INTEREST_FIXTURE_H
#define INTEREST_FIXTURE_H

#include "plan/defaults.h"
#include "plan/operators.h"

#include <criterion/criterion.h>

static inline bool interests(const char *base, const char *name)
{
	struct prefixes mangled = {0};
	char why[256];
	struct operators *operators = operators__load(NULL, why, sizeof(why));
	struct interest interest = {.mangled = &mangled, .operators = operators, .base = base};
	bool has;

	cr_assert_eq(interest_collect(&mangled, operators), 0);
	has = interest_has(name, &interest);
	prefixes_clear(&mangled);
	operators__free(operators);
	return has;
}

#endif
