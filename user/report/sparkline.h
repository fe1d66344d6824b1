/* SPDX-License-Identifier: BSD-2-Clause */
/* A row of bars for a series: ▁▂▃▄▅▆▇█ */
#ifndef PERFX_REPORT_SPARKLINE_H
#define PERFX_REPORT_SPARKLINE_H

#include "base/text.h"

#include <stdint.h>

/* Heights by share of the largest value; "·" for 0. */
void spark(struct text *text, const uint64_t *values, size_t count);

#endif
