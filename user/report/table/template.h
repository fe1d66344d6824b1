/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A report by a user's template: a text with tags for values of the JSON report (Mustache, with
 * formats after a colon; docs/formats.md):
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

/* 0, or -EINVAL: why has the line and the error. */
int template_check(const char *text, char why[TEMPLATE_WHY]);
/* Are all names in a checked text names of the JSON report? 0, or -EINVAL: why gives the line, the
 * unknown name and similar ones. */
int template_check_names(const char *text, char why[TEMPLATE_WHY]);
/* A text that was checked. 0 or -ENOMEM; the stream's errors are the caller's to look at. */
int template_render(FILE *out, const char *text, const json_t *report);

#endif
