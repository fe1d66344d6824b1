// SPDX-License-Identifier: BSD-2-Clause
/* For programs: perfx.tune/1, and a row for each combination as CSV. */
#include "report/json/output.h"
#include "base/escape.h"
#include "report/table/table.h"
#include "tune/internal.h"

#include <math.h>

static json_t *values_object(const struct tune *tune, const struct tune_point *point)
{
	json_t *object = json_object();

	for (size_t i = 0; i < tune->lists_count; i++)
		json_set_string(object, tune->lists[i].name, point->values[i]);
	return object;
}

static json_t *point_object(const struct tune *tune, const struct tune_point *point)
{
	json_t *object = json_object();

	json_object_set_new(object, "values", values_object(tune, point));
	tune_json_runs(object, &point->runs);
	if (isnan(point->share) || tune->best == TUNE_NONE)
		return object;
	tune_json_number(object, "share_of_best", point->share);
	json_object_set_new(object, "best_is_faster_by", tune_json_change(&point->behind));
	json_object_set_new(object, "level_with_best", json_boolean(point->level));
	return object;
}

static json_t *list_object(const struct tune_list *list)
{
	json_t *object = json_object(), *values = json_array();

	json_set_string(object, "name", list->name);
	json_object_set_new(object, "environment", json_boolean(list->environment));
	for (size_t i = 0; i < list->values_count; i++)
		json_array_append_new(values, json_of_string(list->values[i]));
	json_object_set_new(object, "values", values);
	return object;
}

int tune_write_json(FILE *out, const struct tune *tune)
{
	struct json_output o = {.file = out};
	struct text verdict = {0};
	json_t *command = json_array();

	for (char *const *word = tune->command; *word; word++)
		json_array_append_new(command, json_of_string(*word));
	tune_add_verdict(&verdict, tune);
	json_open(&o, NULL, '{');
	json_put(&o, "schema", json_string("perfx.tune/1"));
	json_put(&o, "verdict", json_of_sentence(text_peek(&verdict)));
	json_put(&o, "metric", tune_json_metric(&tune->metric));
	json_put(&o, "command", command);
	json_put_integer(&o, "rounds", tune->rounds_count);
	json_put(&o, "interrupted", json_boolean(tune->interrupted));
	json_open(&o, "lists", '[');
	for (size_t i = 0; i < tune->lists_count; i++)
		json_put(&o, NULL, list_object(&tune->lists[i]));
	json_close(&o, ']');
	json_open(&o, "points", '[');
	for (size_t i = 0; i < tune->points_count; i++)
		json_put(&o, NULL, point_object(tune, &tune->points[i]));
	json_close(&o, ']');
	if (tune->best != TUNE_NONE) {
		json_put(&o, "best", values_object(tune, &tune->points[tune->best]));
		json_put(&o, "within_5_percent", values_object(tune, &tune->points[tune->enough]));
	}
	text_clear(&verdict);
	return json_end(&o);
}

static void add_number(struct text *line, double value)
{
	text_add(line, ",");
	if (isfinite(value))
		text_printf(line, "%.9g", value);
}

static void add_text(struct text *line, const char *value)
{
	struct text plain = {0};

	escape_display(&plain, value);
	csv_add_field(line, text_peek(&plain), ',');
	text_finish(&plain, &line->failed);
}

static void add_row(struct text *line, const struct tune *tune, size_t number)
{
	const struct tune_point *point = &tune->points[number];
	const struct tune_runs *runs = &point->runs;
	bool judged = tune->best != TUNE_NONE;
	struct text unit = {0};

	for (size_t i = 0; i < tune->lists_count; i++) {
		text_add(line, i ? "," : "");
		add_text(line, point->values[i]);
	}
	text_add(line, ",");
	tune_add_unit(&unit, &tune->metric);
	add_text(line, text_peek(&unit));
	text_finish(&unit, &line->failed);
	text_printf(line, ",%zu,%zu", runs->measured_count, runs->failed_count);
	add_number(line, runs->median);
	add_number(line, runs->lowest);
	add_number(line, runs->highest);
	add_number(line, judged ? point->share : NAN);
	add_number(line, judged ? point->behind.change : NAN);
	add_number(line, judged ? point->behind.low : NAN);
	add_number(line, judged ? point->behind.high : NAN);
	add_number(line, judged ? point->behind.p : NAN);
	text_printf(line, ",%s,%s,", number == tune->best ? "true" : "false",
		    number == tune->enough ? "true" : "false");
	if (runs->why)
		add_text(line, runs->why);
	text_add(line, "\r\n");
}

/* Medians are in the metric; times to exit in seconds. */
int tune_write_csv(FILE *out, const struct tune *tune)
{
	struct text text = {0};
	int err;

	for (size_t i = 0; i < tune->lists_count; i++) {
		text_add(&text, i ? "," : "");
		add_text(&text, tune->lists[i].name);
	}
	text_add(&text,
		 ",metric,measured,failed,median,lowest,highest,share_of_best,best_is_faster_by,"
		 "low,high,p,best,within_5_percent,why\r\n");
	for (size_t i = 0; i < tune->points_count; i++)
		add_row(&text, tune, i);
	err = text_write(&text, out);
	text_clear(&text);
	return err;
}
