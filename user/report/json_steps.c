// SPDX-License-Identifier: BSD-2-Clause
/*
 * The steps of a training in the JSON report. Beside the contract's fields:
 *
 *     "flops": 0, "gflops_per_s": 0.0, "mfu": 0.0      of all of them; "computed" says of how many
 *     "series_each": 1,
 *     "series": [{"at_ns": 0, "steps": 1, "total_ns": 0, "max_ns": 0, "slow": false, "flops": 0,
 *                 "mfu": 0.0, "breakdown": {…}}, …]      PROFILE_STEPS_MAX of them at most
 */
#include "analyze/steps.h"
#include "decode/names.h"
#include "report/json_output.h"

static json_t *breakdown_of(const uint64_t phases[PROFILE_PHASES])
{
	json_t *object = json_object();

	for (int phase = PROFILE_PHASES - 1; phase >= 0; phase--)
		json_object_set_new(object, profile_phase_name((enum profile_phase)phase),
				    json_of_integer(phases[phase]));
	return object;
}

static void put_real(struct json_output *o, const char *key, double value)
{
	if (value >= 0)
		json_put(o, key, json_real(value));
}

static void put_cost(struct json_output *o, const struct profile *profile,
		     const struct profile_process *process)
{
	const struct profile_step_cost *cost = &process->steps.cost;
	struct step_rates rates = steps_rates(profile, process);

	if (!process->compute.measured)
		return;
	json_put(o, "computed", json_of_integer(cost->steps_count));
	json_put(o, "computed_ns", json_of_integer(cost->ns));
	if (cost->counted_count) {
		json_put(o, "flops", json_of_integer(cost->flops));
		json_put(o, "thread_flops", json_of_integer(cost->thread_flops));
		put_real(o, "gflops_per_s", rates.flops_per_s / 1e9);
		put_real(o, "mfu", rates.mfu);
	}
	if (cost->dtype != PERFX_DTYPE_UNKNOWN)
		json_put(o, "dtype", json_string(name_of_dtype(cost->dtype)));
	json_put(o, "figures",
		 json_pack("{s:o,s:o,s:o}", "counted", json_of_integer(cost->counted_count),
			   "unread", json_of_integer(cost->unread_count), "opaque",
			   json_of_integer(cost->opaque_count)));
	if (rates.unrecorded_flops)
		json_put(o, "unrecorded_flops", json_of_integer(rates.unrecorded_flops));
}

static json_t *step_object(const struct profile *profile, const struct profile_steps *steps,
			   const struct profile_step *step)
{
	double mfu = steps_mfu(profile, steps, step);
	json_t *object = json_object();

	json_object_set_new(object, "at_ns",
			    json_of_integer(step->from_ns > profile->start_ns
						    ? step->from_ns - profile->start_ns
						    : 0));
	json_object_set_new(object, "steps", json_of_integer(step->count));
	json_object_set_new(object, "total_ns", json_of_integer(step->total_ns));
	json_object_set_new(object, "max_ns", json_of_integer(step->max_ns));
	json_object_set_new(object, "slow", json_boolean(steps_slow(steps, step)));
	if (steps->cost.counted_count)
		json_object_set_new(object, "flops", json_of_integer(step->flops));
	if (mfu >= 0)
		json_object_set_new(object, "mfu", json_real(mfu));
	json_object_set_new(object, "breakdown", breakdown_of(step->phases));
	return object;
}

void json_put_steps(struct json_output *o, const struct profile *profile,
		    const struct profile_process *process)
{
	const struct profile_steps *steps = &process->steps;
	const struct profile_function *function = profile_function(profile, steps->function);

	if (!steps->count)
		return;
	json_open(o, "steps", '{');
	json_put(o, "count", json_of_integer(steps->count));
	if (function)
		json_put(o, "by", json_of_string(function->name));
	json_put(o, "tid", json_of_integer(steps->tid));
	json_put(o, "unrecorded", json_of_integer(steps_unrecorded(process)));
	json_put(o, "total_ns", json_of_integer(steps->total_ns));
	json_put(o, "avg_ns", json_of_integer(steps->avg_ns));
	json_put(o, "stddev_ns", json_of_integer((uint64_t)(steps->stddev_ns + 0.5)));
	json_put(o, "p50_ns", json_of_integer(steps->p50_ns));
	json_put(o, "p95_ns", json_of_integer(steps->p95_ns));
	json_put(o, "max_ns", json_of_integer(steps->max_ns));
	json_put(o, "breakdown", breakdown_of(steps->phases));
	put_cost(o, profile, process);
	json_put(o, "series_each", json_of_integer(steps->series_each));
	json_open(o, "series", '[');
	for (size_t i = 0; i < steps->series_count; i++)
		json_put(o, NULL, step_object(profile, steps, &steps->series[i]));
	json_close(o, ']');
	json_close(o, '}');
}
