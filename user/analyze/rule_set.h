/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules by which a profile is judged, as far as they are data. */
#ifndef PERFX_ANALYZE_RULE_SET_H
#define PERFX_ANALYZE_RULE_SET_H

#include "analyze/thresholds.h"

struct rule_set {
	struct thresholds thresholds;
};

extern const struct rule_set rule_set_builtin;

#endif
