/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A live recording as metrics. Names, units and labels are those of `export -f openmetrics`, where
 * the thing is the same; counters count from the start of the recording, and never fall.
 *
 * So many series there are at most: of functions those of live.h, of processes the first that came,
 * each until it has ended.
 */
#ifndef PERFX_SERVE_LIVE_METRICS_H
#define PERFX_SERVE_LIVE_METRICS_H

#include "live/live.h"

#include <stdio.h>

#define LIVE_METRICS_PROCESSES_MAX 100

struct live_metrics;

/* NULL with errno ENOMEM. */
struct live_metrics *live_metrics__new(void);
void live_metrics__free(struct live_metrics *metrics);

/* What the tracer itself has used. */
struct own_usage {
	uint64_t cpu_ns, rss_bytes;
};

/* Each snapshot, in turn, as OpenMetrics text. 0 or -errno. */
int live_metrics__write(struct live_metrics *metrics, FILE *out,
			const struct live_snapshot *snapshot, const struct own_usage *own);

/* The same as Prometheus text, version 0.0.4: there counters have their suffix in comments, too,
 * and neither units nor an end are known. 0 or -errno. */
int metrics_as_prometheus(FILE *out, const char *openmetrics);

#endif
