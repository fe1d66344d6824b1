/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data of charts that the page's script draws, as JSON in a script element.
 */
#ifndef PERFX_REPORT_HTML_CHART_DATA_H
#define PERFX_REPORT_HTML_CHART_DATA_H

#include "base/grow.h"
#include "base/text.h"

#include <jansson.h>
#include <stdint.h>

/* Names, each once; the data refers to them by place. */
struct chart_names {
	json_t *list; /* NULL: none yet */
	struct map64 places;
};

uint32_t chart_name(struct chart_names *names, const char *name);

/* Takes the data; NULL: memory was out. It ends a figure whose caption is open. */
void chart_write_data(struct text *into, json_t *data);

/* Opens a figure and its caption. kind: its classes, quoted if several. */
void chart_open(struct text *into, const char *kind, const char *caption);

/* The figure of CHART_TIMELINE. */
struct profile;
struct chart;
void chart_timeline(struct text *into, const struct profile *profile, const struct chart *chart);

#endif
