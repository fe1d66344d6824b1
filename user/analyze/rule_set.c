// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/rule_set.h"

const struct rule_set rule_set_builtin = {
	.thresholds =
		{
#define THRESHOLD(member, kind, name, value, unit, meaning) .member = value,
#include "analyze/thresholds.def"
#undef THRESHOLD
		},
};
