// SPDX-License-Identifier: BSD-2-Clause
/* Values and their words, for people and for programs. */
#include "base/escape.h"
#include "base/units.h"
#include "report/json/output.h"
#include "tune/internal.h"

#include <math.h>

void tune_add_unit(struct text *into, const struct tune_metric *metric)
{
	switch (metric->unit) {
	case TUNE_STEPS_PER_S:
		text_add(into, "steps/s");
		break;
	case TUNE_CALLS_PER_S:
		text_add(into, "calls/s");
		break;
	case TUNE_COUNTER_PER_S:
		escape_display(into, metric->name);
		text_add(into, "/s");
		break;
	case TUNE_SECONDS:
		text_add(into, "time to exit");
		break;
	}
}

void tune_add_number(struct text *into, const struct tune_metric *metric, double value)
{
	if (isnan(value))
		text_add(into, "-");
	else if (metric->unit == TUNE_SECONDS)
		add_ns(into, u64_of(value * 1e9));
	else if (fabs(value) < 99.95)
		text_printf(into, "%#.3g", value);
	else
		add_count(into, u64_of(round(value)));
}

void tune_cell_number(struct document *document, const struct tune_metric *metric, double value)
{
	struct text cell = {0};

	tune_add_number(&cell, metric, value);
	document_cell(document, &cell);
}

void tune_add_value(struct text *into, const struct tune_metric *metric, double value)
{
	tune_add_number(into, metric, value);
	if (metric->unit == TUNE_SECONDS || isnan(value))
		return;
	text_add(into, " ");
	tune_add_unit(into, metric);
}

void tune_add_step(struct text *into, double steps_per_s)
{
	if (steps_per_s > 0)
		add_ns(into, u64_of(1e9 / steps_per_s));
	else
		text_add(into, "-");
}

void tune_add_faster(struct text *into, double change)
{
	if (change >= 9.995)
		text_printf(into, "%.3g times as fast as", change + 1);
	else
		text_printf(into, "%.1f %% faster than", 100 * change);
}

void tune_add_change(struct text *into, double change)
{
	if (isnan(change))
		text_add(into, "-");
	else if (change >= 9.995)
		text_printf(into, "×%.3g", change + 1);
	else
		text_printf(into, fabs(change) < 0.0005 ? "0 %%" : "%+.1f %%", 100 * change);
}

void tune_add_interval(struct text *into, const struct tune_change *change)
{
	text_printf(into, "%.0f %% interval ", 100 * TUNE_CONFIDENCE);
	tune_add_change(into, change->low);
	text_add(into, " to ");
	tune_add_change(into, change->high);
}

void tune_add_point(struct text *into, const struct tune *tune, const struct tune_point *point)
{
	for (size_t i = 0; i < tune->lists_count; i++)
		text_printf(into, "%s%s=%s", i ? " " : "", tune->lists[i].name, point->values[i]);
}

void tune_json_number(json_t *object, const char *key, double value)
{
	if (isfinite(value))
		json_object_set_new(object, key, json_real(value));
}

json_t *tune_json_metric(const struct tune_metric *metric)
{
	static const char *const kinds[] = {"", "steps", "calls", "counter", "exit-time"};
	json_t *object = json_object();

	json_object_set_new(object, "kind", json_string(kinds[metric->unit]));
	if (metric->name)
		json_set_string(object, "name", metric->name);
	json_set_string(object, "unit", metric->unit == TUNE_SECONDS ? "s" : "1/s");
	json_object_set_new(object, "less_is_better", json_boolean(tune_less_is_better(metric)));
	return object;
}

json_t *tune_json_change(const struct tune_change *change)
{
	json_t *object = json_object();

	json_set_integer(object, "pairs", change->pairs_count);
	tune_json_number(object, "change", change->change);
	if (!change->known)
		return object;
	tune_json_number(object, "low", change->low);
	tune_json_number(object, "high", change->high);
	tune_json_number(object, "confidence", TUNE_CONFIDENCE);
	tune_json_number(object, "p", change->p);
	return object;
}

void tune_json_runs(json_t *object, const struct tune_runs *runs)
{
	json_t *values = json_array();

	for (size_t i = 0; i < runs->rounds_count; i++)
		json_array_append_new(values, isnan(runs->values[i]) ? json_null()
								     : json_real(runs->values[i]));
	json_object_set_new(object, "runs", values);
	json_set_integer(object, "measured", runs->measured_count);
	json_set_integer(object, "failed", runs->failed_count);
	tune_json_number(object, "median", runs->median);
	tune_json_number(object, "lowest", runs->lowest);
	tune_json_number(object, "highest", runs->highest);
	if (runs->why)
		json_set_string(object, "why", runs->why);
}
