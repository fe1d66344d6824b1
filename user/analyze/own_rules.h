/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules of the user's own: a metric of an object beyond a value is a finding.
 *
 *     rule SlowLoss: function loss_* total_share > 5% severity medium "Compute it every 10 steps."
 *
 * Metrics are named as in the JSON report and in CSV; shares and rates are of the process's wall
 * time.
 */
#ifndef PERFX_ANALYZE_OWN_RULES_H
#define PERFX_ANALYZE_OWN_RULES_H

#include "analyze/analyze.h"
#include "analyze/thresholds.h"

enum own_object { OWN_FUNCTION, OWN_STEPS, OWN_MEMORY, OWN_PROCESS, OWN_OBJECTS };

struct rules_ctx;

struct own_metric {
	enum own_object object;
	const char *name;
	enum threshold_unit unit;
	/* Of a struct profile_row or profile_memory, NULL of the process or its steps. < 0: not
	 * known. */
	double (*get)(const struct rules_ctx *ctx, const void *item);
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

#endif
