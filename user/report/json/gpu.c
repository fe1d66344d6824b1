// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a process did with GPUs:
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

static void set_text(json_t *object, const char *key, const char *text)
{
	if (*text)
		json_set_string(object, key, text);
}

/* Its last value, with mean and maximum beside it. */
static void set_metric(json_t *object, const struct profile_gpu_series *metric, const char *key,
		       const char *avg_key, const char *max_key)
{
	json_set_measured(object, key, metric->last);
	json_set_measured(object, avg_key, metric->avg);
	json_set_measured(object, max_key, metric->max);
}

static void set_metrics(json_t *object, const struct profile_gpu_series *metrics)
{
#define METRIC(metric, key) \
	set_metric(object, &metrics[PROFILE_GPU_##metric], key, key "_avg", key "_max")
	METRIC(UTILISATION, "utilisation_percent");
	METRIC(MEMORY_UTILISATION, "memory_utilisation_percent");
	METRIC(MEMORY_USED, "memory_used_bytes");
	METRIC(POWER, "power_mw");
	METRIC(SM_CLOCK, "sm_clock_mhz");
	METRIC(MEMORY_CLOCK, "memory_clock_mhz");
	METRIC(TEMPERATURE, "temperature_c");
	METRIC(SM_ACTIVE, "sm_active_permille");
	METRIC(SM_OCCUPANCY, "sm_occupancy_permille");
	METRIC(TENSOR_ACTIVE, "tensor_active_permille");
	METRIC(DRAM_ACTIVE, "dram_active_permille");
#undef METRIC
}

static void set_throttle(json_t *object, const struct profile_gpu_device *device)
{
	json_t *reasons = json_array();

	if (!device->throttle_samples_count) {
		json_decref(reasons);
		return;
	}
	for (unsigned i = 0; i < PROFILE_GPU_THROTTLES; i++)
		if (device->throttled_counts[i])
			json_array_append_new(reasons, json_string(profile_gpu_throttle_name(i)));
	json_object_set_new(object, "throttle", reasons);
	json_object_set_new(object, "throttled_percent",
			    json_real(100.0 * (double)profile_gpu_throttled_count(device) /
				      (double)device->throttle_samples_count));
}

static json_t *place_object(const struct profile_gpu_place *place)
{
	const struct profile_gpu_device *device = place->device;
	json_t *object = json_object();

	json_set_integer(object, "index", device->index);
	set_text(object, "name", device->name);
	set_text(object, "uuid", device->uuid);
	set_text(object, "driver", device->driver);
	json_set_count(object, "memory_bytes", device->facts.memory_bytes);
	json_set_count(object, "multiprocessors", device->facts.multiprocessors);
	set_metrics(object, device->metrics);
	json_set_measured(object, "energy_mj", device->energy_mj);
	set_throttle(object, device);
	set_metric(object, &place->memory_bytes, "process_memory_bytes", "process_memory_bytes_avg",
		   "process_memory_bytes_max");
	json_set_measured(object, "busy_ns", place->busy_ns);
	json_set_measured(object, "computing_ns", place->computing_ns);
	json_set_measured(object, "communicating_ns", place->communicating_ns);
	json_set_measured(object, "exposed_communication_ns", place->exposed_ns);
	return object;
}

static json_t *gap_object(const struct profile *profile, const struct profile_gpu_gap *gap)
{
	const struct profile_function *function = profile_function(profile, gap->function);
	json_t *object = json_object();

	json_set_integer(object, "at_ns", profile_since_start(profile, gap->from_ns));
	json_set_integer(object, "ns", gap->to_ns - gap->from_ns);
	json_set_integer(object, "device", gap->device);
	json_set_count(object, "tid", gap->tid);
	if (function)
		json_set_string(object, "function", function->name);
	if (gap->stack)
		json_object_set_new(object, "stack",
				    json_of_frames(gap->stack->frames, gap->stack->frames_count));
	return object;
}

/* Rates of calls whose operations and kernels are both known. */
static void put_rates(struct json_output *o, const struct profile_process *process)
{
	struct gpu_rates rates = gpu_rates(process);

	if (rates.flops_per_s < 0)
		return;
	json_put_integer(o, "flops", process->gpu.flops);
	json_put_integer(o, "flops_ns", process->gpu.flops_ns);
	json_put(o, "gflops_per_s", json_real(rates.flops_per_s / 1e9));
	if (process->gpu.dtype != PERFX_DTYPE_UNKNOWN)
		json_put(o, "dtype", json_string(name_of_dtype(process->gpu.dtype)));
	if (rates.mfu < 0)
		return;
	json_put(o, "peak_gflops_per_s", json_real(process->gpu.peak_flops_per_s / 1e9));
	json_put(o, "mfu", json_real(rates.mfu));
}

void json_put_gpu(struct json_output *o, const struct profile *profile,
		  const struct data_table_row *of_process)
{
	const struct profile_process *process = of_process->process;
	const struct profile_gpu *gpu = &process->gpu;

	if (!gpu->used)
		return;
	json_open(o, "gpu", '{');
	json_put_integer(o, "level", gpu->level);
	if (gpu->has_state)
		json_put(o, "agent",
			 json_pack("{s:s,s:o,s:o}", "state", name_of_gpu_agent_state(gpu->state),
				   "what", json_of_string(gpu->why), "left_mapped_bytes",
				   json_of_integer(gpu->left_mapped_bytes)));
	json_open(o, "devices", '[');
	for (size_t i = 0; i < gpu->places_count; i++)
		json_put(o, NULL, place_object(&gpu->places[i]));
	json_close(o, ']');
	json_put(o, "devices_known", json_boolean(gpu->places_known));
	json_put_integer(o, "launches", gpu->launches_count);
	if (gpu->launch_ns)
		json_put_integer(o, "launch_ns", gpu->launch_ns);
	if (gpu->called_until_ns)
		json_put_integer(o, "called_until_ns",
				 profile_since_start(profile, gpu->called_until_ns));
	json_put_rows(o, "kernels", "gpu_kernels", profile, of_process);
	json_put_rows(o, "copies", "gpu_copies", profile, of_process);
	json_put_rows(o, "syncs", "gpu_syncs", profile, of_process);
	json_put_integer(o, "wait_ns", gpu->wait_ns);
	json_put_measured(o, "busy_ns", gpu->busy_ns);
	if (gpu->timed)
		json_put_integer(o, "kernel_ns", gpu->kernel_ns);
	json_put_measured(o, "launch_latency_p50_ns", gpu->latency_p50_ns);
	json_put_measured(o, "launch_latency_p99_ns", gpu->latency_p99_ns);
	put_rates(o, process);
	json_open(o, "idle_gaps", '[');
	for (size_t i = 0; i < gpu->gaps_count; i++)
		json_put(o, NULL, gap_object(profile, &gpu->gaps[i]));
	json_close(o, ']');
	json_put_integer(o, "drops", gpu->dropped_count);
	if (gpu->timed) {
		json_put_integer(o, "activities", gpu->activities_count);
		json_put_integer(o, "activities_as_sums", gpu->overflow_count);
		json_put_integer(o, "activities_without_caller", gpu->unlinked_count);
	}
	json_close(o, '}');
}

json_t *json_of_step_gpu(const struct profile_step_gpu *gpu)
{
	json_t *object = json_object();

	json_set_measured(object, "busy_ns", gpu->busy_ns);
	json_set_measured(object, "kernels", gpu->kernels_count);
	json_set_measured(object, "wait_ns", gpu->wait_ns);
	return object;
}
