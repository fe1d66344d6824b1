// SPDX-License-Identifier: BSD-2-Clause
/*
 * The process's "counters": values of its own. (Perf events are "perf_counters".) Whole numbers are
 * integers; what is infinite, or no number, is left out.
 *
 *     {"name": "tokens", "value": 1280, "unit": "", "samples": 40, "added": 40, "last": 1280,
 *      "sum": 1280, "min": 32, "max": 32, "rate": 127.6}
 */
#include "report/json_output.h"

#include <math.h>

/* Every whole number up to here is a double. */
#define WHOLE_MAX 9007199254740992.0 /* 2^53 */

static void set_number(json_t *object, const char *key, double number)
{
	if (!isfinite(number))
		return;
	if (number == floor(number) && fabs(number) <= WHOLE_MAX)
		json_object_set_new(object, key, json_integer((json_int_t)number));
	else
		json_object_set_new(object, key, json_real(number));
}

static void set_count(json_t *object, const char *key, uint64_t count)
{
	if (count)
		json_object_set_new(object, key, json_of_integer(count));
}

static json_t *value_object(const struct profile_user_value *value)
{
	json_t *object = json_object();
	bool any = value->lowest <= value->highest;

	json_object_set_new(object, "name", json_of_string(value->name));
	set_number(object, "value", value->value);
	json_object_set_new(object, "unit", json_string(""));
	json_object_set_new(object, "samples", json_of_integer(value->samples_count));
	set_count(object, "added", value->added_count);
	set_number(object, "last", value->value);
	set_number(object, "sum", any || value->lost_count ? value->sum : NAN);
	set_number(object, "min", any ? value->lowest : NAN);
	set_number(object, "max", any ? value->highest : NAN);
	set_number(object, "rate", any || value->lost_count ? value->rate : NAN);
	set_count(object, "not_finite", value->strange_count);
	set_count(object, "lost", value->lost_count);
	set_count(object, "not_summed", value->unsummed_count);
	return object;
}

void json_put_values(struct json_output *o, const struct profile_process *process)
{
	if (!process->values_count)
		return;
	json_open(o, "counters", '[');
	for (size_t i = 0; i < process->values_count; i++)
		json_put_exact(o, NULL, value_object(&process->values[i]));
	json_close(o, ']');
}
