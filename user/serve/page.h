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
#include "serve/live_metrics.h"

#include <stddef.h>

/* malloc'd; NULL: memory is out. */
char *page_new(size_t *size);
char *live_json(const struct live_snapshot *snapshot, const struct own_usage *own);
/* The Content-Security-Policy by which it, and an HTML report, work: nothing but their own styles
 * and scripts, and of the network only this server. */
const char *page_policy(void);

#endif
