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

#include "analyze/analyze.h"
#include "analyze/thresholds.h"

/*
 * Rules of the user's own: a metric of an object beyond a value is a finding.
 *
 *     rule SlowLoss: function loss_* total_share > 5% severity medium "Compute it every 10 steps."
 *
 * Metrics are named as in the JSON report and in CSV; shares and rates are of the process's wall
 * time.
 */

enum own_object { OWN_FUNCTION, OWN_STEPS, OWN_MEMORY, OWN_PROCESS, OWN_OBJECTS };

struct rules_ctx;

struct own_metric {
	enum own_object object;
	const char *name;
	enum threshold_unit unit;
	enum {
		METRIC_FIELD, /* a uint64_t of the object's struct */
		METRIC_RATE,  /* the same, in a second of the wall time */
		METRIC_TIMED, /* of the calls that were timed */
		METRIC_TIMED_SHARE,
		METRIC_ALLOCATED,     /* where memory is recorded */
		METRIC_RECORDED_RATE, /* in a second of the time in which it was recorded */
		METRIC_PHASE,	      /* of a step */
		METRIC_MFU,
		METRIC_CPU_SHARE,
	} how;
	size_t at; /* offset of the field, or enum profile_phase */
};

struct own_rule {
	char *name;  /* the kind of its findings */
	char *glob;  /* of the object's name; NULL: all */
	char *text;  /* what to do */
	size_t line; /* of the file */
	const struct own_metric *metric;
	bool below; /* a finding is below the value, not above it */
	double value;
	enum finding_severity severity;
};

extern const struct own_metric own_metrics[];
extern const size_t own_metrics_count;

/* "function", …; NULL past the last. */
const char *own_object_name(enum own_object object);
const struct own_metric *own_metric_named(enum own_object object, const char *name);

/* Adds what the rules of its rule set find about ctx->process. */
void rules_own(struct rules_ctx *ctx);

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

/* The built-in rules, changed by a file. NULL after writing why: "FILE:LINE: what is wrong, what
 * would be right". */
struct rule_set *rule_set__load(const char *path, char why[RULE_SET_WHY]);
void rule_set__free(struct rule_set *rules);

#endif
