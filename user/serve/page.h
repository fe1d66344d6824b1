/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The live page: the HTML report's style and script, and its own (page.js), which draws a snapshot
 * as JSON. It has what stands on one screen, not all:
 *
 *     {"number": 7, "since_start_ns": …, "period_ns": …, "host": "node3", "verdict": "…",
 *      "processes": [{"pid": 4711, "comm": "python3", "step_ns": …, "phases": {"data": …},
 *                     "history": {"time_ns": […], "step_ns": […, null], …}}],
 *      "functions": […], "lines": […], "threads": […], "waits": […], "findings": […],
 *      "own": {…}, "losses": {"ring_drops": 3}}
 *
 * null: not measured.
 */
#ifndef PERFX_SERVE_PAGE_H
#define PERFX_SERVE_PAGE_H

#include "live/live.h"

#include <stddef.h>
#include <stdio.h>

/* The tracer's own CPU time and memory. */
struct own_usage {
	uint64_t cpu_ns, rss_bytes;
};

/* malloc'd; NULL: memory is out. */
char *live_json(const struct live_snapshot *snapshot, const struct own_usage *own);

/*
 * A live recording as metrics. Names, units and labels are those of `export -f openmetrics`, where
 * the thing is the same; counters count from the start of the recording, and never fall.
 *
 * So many series there are at most: of functions those of live.h, of processes the first that came,
 * each until it has ended.
 */
#define LIVE_METRICS_PROCESSES_MAX 100

struct live_metrics;

/* NULL with errno ENOMEM. */
struct live_metrics *live_metrics__new(void);
void live_metrics__free(struct live_metrics *metrics);

/* Each snapshot, in turn, as OpenMetrics text. 0 or -errno. */
int live_metrics__write(struct live_metrics *metrics, FILE *out,
			const struct live_snapshot *snapshot, const struct own_usage *own);

/* The same as Prometheus text, version 0.0.4: there counters have their suffix in comments, too,
 * and neither units nor an end are known. 0 or -errno. */
int metrics_as_prometheus(FILE *out, const char *openmetrics);

#endif
