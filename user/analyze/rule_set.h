/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules by which a profile is judged, as far as they are data: thresholds, kinds that are
 * silenced, rules of the user's own. A file of them (--rules; docs/rules.md):
 *
 *     PythonBound.medium = 40%
 *     silence UnevenSteps
 *     silence SlowOperation *softmax*
 *     rule SlowLoss: function loss_* total_share > 5% severity medium "Compute it every 10 steps."
 */
#ifndef PERFX_ANALYZE_RULE_SET_H
#define PERFX_ANALYZE_RULE_SET_H

#include "analyze/own_rules.h"
#include "analyze/thresholds.h"

struct silence {
	char *kind; /* a glob */
	char *of;   /* a glob of the subject or the place; NULL: all */
};

struct rule_set {
	struct thresholds thresholds;
	struct silence *silences;
	size_t silences_count, silences_capacity;
	struct own_rule *own;
	size_t own_count, own_capacity;
	char *file; /* NULL: what is built in */
};

extern const struct rule_set rule_set_builtin;

#define RULE_SET_WHY 512

/* What is built in, changed by a file. NULL after writing why: "FILE:LINE: what is wrong, what
 * would be right". */
struct rule_set *rule_set__load(const char *path, char why[RULE_SET_WHY]);
void rule_set__free(struct rule_set *rules);

#endif
