/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the writers of this module. */
#ifndef PERFX_TUNE_INTERNAL_H
#define PERFX_TUNE_INTERNAL_H

#include "base/text.h"
#include "report/document/document.h"
#include "tune/tune.h"

#include <jansson.h>

/* A value without its unit, where a heading has it; "-" of NAN. */
void tune_add_number(struct text *into, const struct tune_metric *metric, double value);
void tune_cell_number(struct document *document, const struct tune_metric *metric, double value);
/* "steps/s", "tokens/s", "s until it exits": not marked as a name. */
void tune_add_unit(struct text *into, const struct tune_metric *metric);
/* "81.3 ms", of a step; "-" */
void tune_add_step(struct text *into, double steps_per_s);
/* "3.1 % faster than" */
void tune_add_faster(struct text *into, double change);
/* "+3.1 %" */
void tune_add_change(struct text *into, double change);
/* "95 % interval -1.0 % to +7.4 %"; of a change that is known. */
void tune_add_interval(struct text *into, const struct tune_change *change);

/* The curve: lines of text, and an SVG (figure.c). */
void tune_plot(struct text *lines, const struct tune *tune);
void tune_figure(struct text *figure, const struct tune *tune);

/* Members that both reports have. */
void tune_json_number(json_t *object, const char *key, double value);
json_t *tune_json_metric(const struct tune_metric *metric);
json_t *tune_json_change(const struct tune_change *change);
void tune_json_runs(json_t *object, const struct tune_runs *runs);

/* The sentence on top. */
void tune_add_verdict(struct text *into, const struct tune *tune);
int tune_write_json(FILE *out, const struct tune *tune);
int tune_write_csv(FILE *out, const struct tune *tune);

#endif
