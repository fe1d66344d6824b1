// SPDX-License-Identifier: BSD-2-Clause
/*
 * The steps of a training in the JSON report. Beside the contract's fields:
 *
 *     "whole": 0                                       ends of whole steps: the times are of these
 *     "divided": 0, "divided_ns": 0                    steps that "breakdown" is the sum of
 *     "flops": 0, "gflops_per_s": 0.0, "mfu": 0.0      of "computed" steps
 *     "why": "…"                                       why these are fewer than the whole ones
 *     "startup_ns": 0                                  before the first, of a process that began
 *     "series_each": 1,
 *     "series": [{"at_ns": 0, "steps": 1, "total_ns": 0, "max_ns": 0, "slow": false, "flops": 0,
 *                 "mfu": 0.0, "breakdown": {…}}, …]      PROFILE_STEPS_MAX of them at most
 */
#include "analyze/roofline.h"
#include "base/units.h"
#include "decode/names.h"
#include "report/json/output.h"

json_t *json_of_phases(const uint64_t phases[PROFILE_PHASES])
{
	json_t *object = json_object();

	for (int phase = PROFILE_PHASES - 1; phase >= 0; phase--)
		json_object_set_new(object, profile_phase_name((enum profile_phase)phase),
				    json_of_integer(phases[phase]));
	return object;
}

static void put_cost(struct json_output *o, const struct profile *profile,
		     const struct profile_process *process)
{
	const struct profile_step_cost *cost = &process->steps.cost;
	struct step_rates rates = steps_rates(profile, process);

	json_put_integer(o, "computed", cost->steps_count);
	json_put_integer(o, "computed_ns", cost->ns);
	if (rates.flops >= 0) {
		json_put_integer(o, "flops", cost->flops);
		json_put_integer(o, "thread_flops", cost->thread_flops);
		json_put(o, "gflops_per_s", json_of_known(rates.flops_per_s / 1e9));
		json_put(o, "mfu", json_of_known(rates.mfu));
	}
	if (cost->dtype != PERFX_DTYPE_UNKNOWN)
		json_put(o, "dtype", json_string(name_of_dtype(cost->dtype)));
	json_put(o, "figures",
		 json_object_of({"counted", json_of_integer(cost->counted_count)},
				{"unread", json_of_integer(cost->unread_count)},
				{"opaque", json_of_integer(cost->opaque_count)}));
	json_put(o, "unrecorded_flops", json_of_count(rates.unrecorded_flops));
}

void json_put_steps(struct json_output *o, const struct profile *profile,
		    const struct data_table_row *of_process)
{
	const struct profile_process *process = of_process->process;
	const struct profile_steps *steps = &process->steps;
	const struct profile_function *function = profile_function(profile, steps->function);
	json_t *ranges;
	struct text why = {0};

	steps_add_why(&why, profile, process);
	if (!steps->ends_count) {
		if (why.length)
			json_put(o, "no_steps", json_of_sentence(text_peek(&why)));
		text_clear(&why);
		return;
	}
	json_open(o, "steps", '{');
	json_put_integer(o, "count", steps->ends_count);
	if (function)
		json_put_string(o, "by", function->name);
	json_put(o, "found_by", json_string(profile_steps_by_name(steps->found_by)));
	json_put(o, "confidence", json_real(steps->confidence));
	json_put_integer(o, "tid", steps->tid);
	json_put_integer(o, "unrecorded", steps_unrecorded(process));
	json_put_integer(o, "whole", steps->count);
	if (why.length)
		json_put(o, "why", json_of_sentence(text_peek(&why)));
	text_clear(&why);
	if (!steps->count) {
		json_close(o, '}');
		return;
	}
	json_put_integer(o, "total_ns", steps->total_ns);
	json_put_integer(o, "avg_ns", steps->avg_ns);
	json_put_integer(o, "stddev_ns", u64_of(steps->stddev_ns + 0.5));
	json_put_integer(o, "p50_ns", steps->p50_ns);
	json_put_integer(o, "p95_ns", steps->p95_ns);
	json_put_integer(o, "max_ns", steps->max_ns);
	json_put_integer(o, "divided", steps->divided.count);
	json_put_integer(o, "divided_ns", steps->divided.ns);
	if (steps->divided.count) {
		json_put(o, "breakdown", json_of_phases(steps->divided.phases));
	} else { /* what is known without whole phases: data, backward, optimizer */
		ranges = json_object();
		for (int phase = PROFILE_PHASES - 1; phase >= 0; phase--)
			if (steps_phase_ns(steps, (enum profile_phase)phase) >= 0)
				json_set_integer(ranges, profile_phase_name(phase),
						 steps->phases[phase]);
		json_put(o, "breakdown", ranges);
	}
	if (steps->off_cpu_ns != PROFILE_ABSENT) {
		json_put_integer(o, "waited", steps->waited_count);
		json_put_integer(o, "waited_ns", steps->waited_ns);
		json_put_integer(o, "off_cpu_ns", steps->off_cpu_ns);
	}
	if (steps->gpu_used)
		json_put(o, "gpu",
			 json_object_of({"busy_ns", json_of_measured(steps->gpu.busy_ns)},
					{"kernels", json_of_measured(steps->gpu.kernels_count)},
					{"wait_ns", json_of_measured(steps->gpu.wait_ns)}));
	if (process->compute.measured)
		put_cost(o, profile, process);
	json_put(o, "startup_ns", json_of_count(steps->startup_ns));
	json_put_integer(o, "series_each", steps->series_each);
	json_put_rows(o, "series", "steps", profile, of_process);
	json_close(o, '}');
}

void json_put_step_time(struct json_output *o, const struct process_analysis *analysis)
{
	static const char *const names[TIME_CLASSES] = {
		[TIME_COMPUTE] = "compute_ns",
		[TIME_NATIVE] = "native_ns",
		[TIME_PYTHON] = "python_ns",
		[TIME_INPUT] = "input_ns",
		[TIME_GIL] = "gil_ns",
		[TIME_LOCK] = "lock_ns",
		[TIME_DISK] = "disk_ns",
		[TIME_OUTPUT] = "output_ns",
		[TIME_CHILD] = "child_ns",
		[TIME_SLEEP] = "sleep_ns",
		[TIME_LAUNCH] = "launch_ns",
		[TIME_GPU_SYNC] = "gpu_sync_ns",
		[TIME_COMMUNICATION] = "communication_ns",
		[TIME_RUNNABLE] = "runnable_ns",
		[TIME_OTHER] = "other_ns",
	};
	const struct step_time *time = &analysis->time;
	json_t *object;

	if (!time->known)
		return;
	object = json_object();
	json_set_integer(object, "unit_ns", u64_of(time->unit_ns + 0.5));
	for (int i = 0; i < TIME_CLASSES; i++)
		if (time->ns[i] >= 0.5)
			json_set_integer(object, names[i], u64_of(time->ns[i] + 0.5));
	json_put(o, "step_time", object);
}
