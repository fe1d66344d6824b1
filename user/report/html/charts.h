/* SPDX-License-Identifier: BSD-2-Clause */
/* The charts of the HTML report. */
#ifndef PERFX_REPORT_HTML_CHARTS_H
#define PERFX_REPORT_HTML_CHARTS_H

#include "base/text.h"
#include "report/document/document.h"

/* Adds a <figure>. What is only drawn by the script (html/report.js) comes as JSON in it. */
void html_chart(struct text *into, const struct profile *profile, const struct chart *chart);
/* Adds JSON in a form that cannot end the <script> element around it: "<" as \u003c. */
void html_json(struct text *into, const char *json);

#endif
