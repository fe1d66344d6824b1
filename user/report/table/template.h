/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A report in a form of one's own: a text with places for what the JSON report holds (Mustache's
 * tags, with formats after a colon; docs/formats.md):
 *
 *     {{verdict}}
 *     {{#processes}}
 *     {{comm}} ({{pid}}): {{wall_ns:ns}}
 *     {{#functions:10}}
 *     | {{name:md}} | {{calls:count}} | {{self_ns:ns}} |
 *     {{/functions}}
 *     {{/processes}}
 */
#ifndef PERFX_REPORT_TABLE_TEMPLATE_H
#define PERFX_REPORT_TABLE_TEMPLATE_H

#include <jansson.h>
#include <stdio.h>

#define TEMPLATE_WHY 200 /* bytes */

/* 0, or -EINVAL: why says in which line what is wrong. */
int template_check(const char *text, char why[TEMPLATE_WHY]);
/* Whether a report can have what a text that was checked names, absent as it may be from this one:
 * 0, or -EINVAL: why says in which line what is no name of any, and which are near. */
int template_check_names(const char *text, char why[TEMPLATE_WHY]);
/* A text that was checked. 0 or -ENOMEM; the stream's errors are the caller's to look at. */
int template_render(FILE *out, const char *text, const json_t *report);

#endif
