// SPDX-License-Identifier: BSD-2-Clause
/*
 * A process's use of GPUs:
 *
 *     "gpu": {
 *       "level": 1, "launches": 20, "busy_ns": 0, "wait_ns": 0, "drops": 0, …
 *       "devices": [{"index": 0, "name": "…", "utilisation_percent": 0, "throttle": [], …}],
 *       "kernels": […], "copies": […], "syncs": […]         the tables gpu_kernels, …
 *       "idle_gaps": [{"at_ns": 0, "ns": 0, "device": 0, "tid": 0, "function": "…"}]
 *     }
 */
#include "analyze/roofline.h"
#include "decode/names.h"
#include "report/json/output.h"

json_t *json_of_shape(const uint32_t shape[3])
{
	return json_pack("[o,o,o]", json_of_integer(shape[0]), json_of_integer(shape[1]),
			 json_of_integer(shape[2]));
}

/* Members of a metric: its last value, with mean and maximum beside it. */
#define METRIC(series, key)                                                                   \
	{key, json_of_measured((series).last)}, {key "_avg", json_of_measured((series).avg)}, \
	{                                                                                     \
		key "_max", json_of_measured((series).max)                                    \
	}

/* Why its clock was reduced. */
static json_t *throttle_array(const struct profile_gpu_device *device)
{
	json_t *reasons = json_array();

	for (unsigned i = 0; i < PROFILE_GPU_THROTTLES; i++)
		if (device->throttled_counts[i])
			json_array_append_new(reasons, json_string(profile_gpu_throttle_name(i)));
	return reasons;
}

static json_t *place_object(const struct profile_gpu_place *place)
{
	const struct profile_gpu_device *device = place->device;
	const struct profile_gpu_series *metrics = device->metrics;
	uint64_t samples = device->throttle_samples_count;

	return json_object_of(
		{"index", json_of_integer(device->index)},
		{"name", json_of_any_string(device->name)},
		{"uuid", json_of_any_string(device->uuid)},
		{"driver", json_of_any_string(device->driver)},
		{"memory_bytes", json_of_count(device->facts.memory_bytes)},
		{"multiprocessors", json_of_count(device->facts.multiprocessors)},
		METRIC(metrics[PROFILE_GPU_UTILISATION], "utilisation_percent"),
		METRIC(metrics[PROFILE_GPU_MEMORY_UTILISATION], "memory_utilisation_percent"),
		METRIC(metrics[PROFILE_GPU_MEMORY_USED], "memory_used_bytes"),
		METRIC(metrics[PROFILE_GPU_POWER], "power_mw"),
		METRIC(metrics[PROFILE_GPU_SM_CLOCK], "sm_clock_mhz"),
		METRIC(metrics[PROFILE_GPU_MEMORY_CLOCK], "memory_clock_mhz"),
		METRIC(metrics[PROFILE_GPU_TEMPERATURE], "temperature_c"),
		METRIC(metrics[PROFILE_GPU_SM_ACTIVE], "sm_active_permille"),
		METRIC(metrics[PROFILE_GPU_SM_OCCUPANCY], "sm_occupancy_permille"),
		METRIC(metrics[PROFILE_GPU_TENSOR_ACTIVE], "tensor_active_permille"),
		METRIC(metrics[PROFILE_GPU_DRAM_ACTIVE], "dram_active_permille"),
		{"energy_mj", json_of_measured(device->energy_mj)},
		{"throttle", samples ? throttle_array(device) : json_null()},
		{"throttled_percent",
		 samples ? json_real(100.0 * (double)profile_gpu_throttled_count(device) /
				     (double)samples)
			 : json_null()},
		METRIC(place->memory_bytes, "process_memory_bytes"),
		{"busy_ns", json_of_measured(place->busy_ns)},
		{"computing_ns", json_of_measured(place->computing_ns)},
		{"communicating_ns", json_of_measured(place->communicating_ns)},
		{"exposed_communication_ns", json_of_measured(place->exposed_ns)});
}

void json_put_gpu(struct json_output *o, const struct profile *profile,
		  const struct data_table_row *of_process)
{
	const struct profile_process *process = of_process->process;
	const struct profile_gpu *gpu = &process->gpu;
	/* of calls whose operations and kernels are both known */
	struct gpu_rates rates = gpu_rates(process);

	if (!gpu->used)
		return;
	json_open(o, "gpu", '{');
	json_put_integer(o, "level", gpu->level);
	if (gpu->has_state)
		json_put(o, "agent",
			 json_object_of({"state", json_string(name_of_gpu_agent_state(gpu->state))},
					{"what", json_of_string(gpu->why)},
					{"left_mapped_bytes",
					 json_of_integer(gpu->left_mapped_bytes)}));
	json_open(o, "devices", '[');
	for (size_t i = 0; i < gpu->places_count; i++)
		json_put(o, NULL, place_object(&gpu->places[i]));
	json_close(o, ']');
	json_put(o, "devices_known", json_boolean(gpu->places_known));
	json_put_integer(o, "launches", gpu->launches_count);
	json_put(o, "launch_ns", json_of_count(gpu->launch_ns));
	if (gpu->called_until_ns)
		json_put_integer(o, "called_until_ns",
				 profile_since_start(profile, gpu->called_until_ns));
	json_put_rows(o, "kernels", "gpu_kernels", profile, of_process);
	json_put_rows(o, "copies", "gpu_copies", profile, of_process);
	json_put_rows(o, "syncs", "gpu_syncs", profile, of_process);
	json_put_integer(o, "wait_ns", gpu->wait_ns);
	json_put(o, "busy_ns", json_of_measured(gpu->busy_ns));
	if (gpu->timed)
		json_put_integer(o, "kernel_ns", gpu->kernel_ns);
	json_put(o, "launch_latency_p50_ns", json_of_measured(gpu->latency_p50_ns));
	json_put(o, "launch_latency_p99_ns", json_of_measured(gpu->latency_p99_ns));
	if (rates.flops_per_s >= 0) {
		json_put_integer(o, "flops", gpu->flops);
		json_put_integer(o, "flops_ns", gpu->flops_ns);
		json_put(o, "gflops_per_s", json_real(rates.flops_per_s / 1e9));
		if (gpu->dtype != PERFX_DTYPE_UNKNOWN)
			json_put(o, "dtype", json_string(name_of_dtype(gpu->dtype)));
		if (rates.mfu >= 0)
			json_put(o, "peak_gflops_per_s", json_real(gpu->peak_flops_per_s / 1e9));
		json_put(o, "mfu", json_of_known(rates.mfu));
	}
	json_open(o, "idle_gaps", '[');
	for (size_t i = 0; i < gpu->gaps_count; i++) {
		const struct profile_gpu_gap *gap = &gpu->gaps[i];
		const struct profile_function *function = profile_function(profile, gap->function);
		const struct profile_stack *stack = gap->stack;

		json_put(o, NULL,
			 json_object_of({"at_ns", json_of_integer(profile_since_start(
							  profile, gap->from_ns))},
					{"ns", json_of_integer(gap->to_ns - gap->from_ns)},
					{"device", json_of_integer(gap->device)},
					{"tid", json_of_count(gap->tid)},
					{"function",
					 function ? json_of_string(function->name) : json_null()},
					{"stack",
					 stack ? json_of_frames(stack->frames, stack->frames_count)
					       : json_null()}));
	}
	json_close(o, ']');
	json_put_integer(o, "drops", gpu->dropped_count);
	if (gpu->timed) {
		json_put_integer(o, "activities", gpu->activities_count);
		json_put_integer(o, "activities_as_sums", gpu->overflow_count);
		json_put_integer(o, "activities_without_caller", gpu->unlinked_count);
	}
	json_close(o, '}');
}
