/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A snapshot as the JSON that the live page draws (page.js): what stands on one screen, not all.
 *
 *     {"number": 7, "since_start_ns": …, "period_ns": …, "host": "node3", "verdict": "…",
 *      "processes": [{"pid": 4711, "comm": "python3", "step_ns": …, "phases": {"data": …},
 *                     "history": {"time_ns": […], "step_ns": […, null], …}}],
 *      "functions": […], "lines": […], "threads": […], "waits": […], "findings": […],
 *      "own": {…}, "losses": {"ring_drops": 3}}
 *
 * null: not measured.
 */
#ifndef PERFX_SERVE_LIVE_JSON_H
#define PERFX_SERVE_LIVE_JSON_H

#include "live/live.h"
#include "serve/live_metrics.h"

/* malloc'd; NULL: memory is out. */
char *live_json(const struct live_snapshot *snapshot, const struct own_usage *own);

#endif
