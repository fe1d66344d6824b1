// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/gpu.h"

#include "aggregate/state.h"
#include "base/hash.h"

#include <stdlib.h>

void gpu_clear(struct gpu *gpu)
{
	for (size_t i = 0; i < gpu->works_count; i++)
		sketch__free(gpu->works[i].sketch);
	free(gpu->works);
	map64_clear(&gpu->work_ids);
	for (size_t i = 0; i < PERFX_GPU_DEVICES_MAX; i++)
		free(gpu->devices[i].points);
	free(gpu->names);
	free(gpu->places);
	map64_clear(&gpu->place_ids);
	free(gpu->processes);
	map64_clear(&gpu->process_ids);
	*gpu = (struct gpu){0};
}

/* NULL with errno: ERANGE, ENOMEM. */
static struct gpu_process *gpu_process_get(struct aggregate *a, uint32_t process)
{
	struct gpu *gpu = &a->gpu;
	uint32_t at = map64_get(&gpu->process_ids, process);

	if (at != MAP64_NONE)
		return &gpu->processes[at];
	if (!process_get(a, process))
		return NULL;
	errno = ENOMEM;
	at = (uint32_t)gpu->processes_count;
	if (grow_array(&gpu->processes, &gpu->processes_capacity, (size_t)at + 1,
		       sizeof(*gpu->processes)) ||
	    map64_put(&gpu->process_ids, process, at))
		return NULL;
	gpu->processes_count++;
	gpu->processes[at] = (struct gpu_process){.process = process};
	return &gpu->processes[at];
}

static int not_found(struct aggregate *a)
{
	return errno == ENOMEM ? -ENOMEM : undecoded(a);
}

/* --- names and devices --- */

int handle_gpu_name(struct aggregate *a, const struct event *event)
{
	const struct perfx_gpu_name *record = &event->gpu_name;
	struct gpu *gpu = &a->gpu;
	struct gpu_name *name;

	if (!record->name || record->name > AGGREGATE_GPU_NAMES_MAX)
		return undecoded(a);
	if (grow_array(&gpu->names, &gpu->names_capacity, (size_t)record->name + 1,
		       sizeof(*gpu->names)))
		return -ENOMEM;
	if (record->name >= gpu->names_count)
		gpu->names_count = (size_t)record->name + 1;
	name = &gpu->names[record->name];
	name->name = pool_add(&a->strings, event->strings[0]);
	name->module = pool_add(&a->strings, event->strings[1]);
	name->flags = record->flags;
	return name->name && name->module ? 0 : -ENOMEM;
}

int handle_gpu_device(struct aggregate *a, const struct event *event)
{
	struct gpu_device *device = &a->gpu.devices[event->gpu_device.device];

	device->record = event->gpu_device;
	device->described = true;
	device->name = pool_add(&a->strings, event->strings[0]);
	device->uuid = pool_add(&a->strings, event->strings[1]);
	device->driver = pool_add(&a->strings, event->strings[2]);
	return device->name && device->uuid && device->driver ? 0 : -ENOMEM;
}

static void metric_add(struct gpu_metric *metric, uint64_t value)
{
	metric->last = value;
	if (!metric->count || value > metric->highest)
		metric->highest = value;
	metric->sum = add_capped(metric->sum, value);
	metric->count++;
}

static void metric_add_u32(struct gpu_metric *metric, uint32_t value)
{
	if (value != UINT32_MAX)
		metric_add(metric, value);
}

static void add_energy(struct gpu_device *device, const struct perfx_gpu_usage *record)
{
	if (record->energy_mj == UINT64_MAX)
		return;
	/* a driver that was loaded anew counts from 0 */
	if (!device->last_energy_ns || record->energy_mj < device->last_energy_mj) {
		device->first_energy_mj = record->energy_mj;
		device->first_energy_ns = record->time_ns;
	}
	device->last_energy_mj = record->energy_mj;
	device->last_energy_ns = record->time_ns;
}

static void add_throttle(struct gpu_device *device, uint64_t throttle)
{
	if (throttle == UINT64_MAX)
		return;
	for (unsigned i = 0; i < PROFILE_GPU_THROTTLES; i++)
		device->throttled_counts[i] += throttle >> i & 1;
}

/* Every second point goes. */
static void thin_out(struct gpu_device *device)
{
	for (size_t i = 0; i < device->points_count; i += 2)
		device->points[i / 2] = device->points[i];
	device->points_count = (device->points_count + 1) / 2;
	device->points_stride *= 2;
}

static int add_point(struct gpu_device *device, const struct perfx_gpu_usage *record)
{
	if (!device->points_stride)
		device->points_stride = 1;
	if (device->points_skipped++ % device->points_stride)
		return 0;
	if (device->points_count == PROFILE_POINTS_MAX)
		thin_out(device);
	if (grow_array(&device->points, &device->points_capacity, device->points_count + 1,
		       sizeof(*device->points)))
		return -ENOMEM;
	device->points[device->points_count++] = (struct profile_gpu_point){
		.time_ns = record->time_ns,
		.utilisation_percent = record->utilisation_percent,
		.memory_used_bytes = record->memory_used_bytes,
		.power_mw = record->power_mw,
	};
	return 0;
}

int handle_gpu_usage(struct aggregate *a, const struct event *event)
{
	const struct perfx_gpu_usage *record = &event->gpu_usage;
	struct gpu_device *device = &a->gpu.devices[record->device];
	struct gpu_metric *metrics = device->metrics;

	saw_time(a, record->time_ns);
	device->samples_count++;
	metric_add_u32(&metrics[PROFILE_GPU_UTILISATION], record->utilisation_percent);
	metric_add_u32(&metrics[PROFILE_GPU_MEMORY_UTILISATION],
		       record->memory_utilisation_percent);
	metric_add_u32(&metrics[PROFILE_GPU_POWER], record->power_mw);
	metric_add_u32(&metrics[PROFILE_GPU_SM_CLOCK], record->sm_clock_mhz);
	metric_add_u32(&metrics[PROFILE_GPU_MEMORY_CLOCK], record->memory_clock_mhz);
	metric_add_u32(&metrics[PROFILE_GPU_TEMPERATURE], record->temperature_c);
	metric_add_u32(&metrics[PROFILE_GPU_SM_ACTIVE], record->sm_active);
	metric_add_u32(&metrics[PROFILE_GPU_SM_OCCUPANCY], record->sm_occupancy);
	metric_add_u32(&metrics[PROFILE_GPU_TENSOR_ACTIVE], record->tensor_active);
	metric_add_u32(&metrics[PROFILE_GPU_DRAM_ACTIVE], record->dram_active);
	if (record->memory_used_bytes != UINT64_MAX)
		metric_add(&metrics[PROFILE_GPU_MEMORY_USED], record->memory_used_bytes);
	add_energy(device, record);
	add_throttle(device, record->throttle);
	return energy_usage(&a->energy, record) ? -ENOMEM : add_point(device, record);
}

/* --- processes --- */

/* NULL with errno: ERANGE, ENOMEM. */
static struct gpu_place *place_get(struct aggregate *a, uint32_t process, uint32_t device)
{
	struct gpu *gpu = &a->gpu;
	uint64_t id = (uint64_t)process << 32 | device;
	uint32_t at = map64_get(&gpu->place_ids, id);

	if (at != MAP64_NONE)
		return &gpu->places[at];
	if (!gpu_process_get(a, process))
		return NULL;
	errno = ENOMEM;
	at = (uint32_t)gpu->places_count;
	if (grow_array(&gpu->places, &gpu->places_capacity, (size_t)at + 1, sizeof(*gpu->places)) ||
	    map64_put(&gpu->place_ids, id, at))
		return NULL;
	gpu->places_count++;
	gpu->places[at] = (struct gpu_place){.process = process, .device = device};
	gpu->devices[device].used = true;
	return &gpu->places[at];
}

int handle_gpu_memory(struct aggregate *a, const struct event *event)
{
	const struct perfx_gpu_memory *record = &event->gpu_memory;
	struct gpu_place *place;

	saw_time(a, record->time_ns);
	if (record->process) {
		place = place_get(a, record->process, record->device);
		if (!place)
			return not_found(a);
		if (record->used_bytes != UINT64_MAX)
			metric_add(&place->memory_bytes, record->used_bytes);
		metric_add_u32(&place->sm_percent, record->sm_percent);
	}
	return energy_share(&a->energy, record);
}

int handle_gpu_state(struct aggregate *a, const struct event *event)
{
	const struct perfx_gpu_state *record = &event->gpu_state;
	struct gpu_process *process = gpu_process_get(a, record->process);

	if (!process)
		return not_found(a);
	if (process->has_state && record->time_ns < process->state.time_ns)
		return 0;
	process->has_state = true;
	process->state = *record;
	if (record->state == PERFX_GPU_AGENT_ON && record->level > process->level)
		process->level = record->level;
	process->why = pool_add(&a->strings, event->strings[0]);
	return process->why ? 0 : -ENOMEM;
}

/* --- work --- */

static uint32_t work_find(const struct gpu *gpu, const struct gpu_work_key *key)
{
	uint32_t at = map64_get(&gpu->work_ids, fnv1a(key, sizeof(*key)));

	for (at = at == MAP64_NONE ? 0 : at + 1; at; at = gpu->works[at - 1].next)
		if (!memcmp(&gpu->works[at - 1].key, key, sizeof(*key)))
			return at - 1;
	return MAP64_NONE;
}

/* NULL: memory is out. */
static struct gpu_work *work_new(struct gpu *gpu, const struct gpu_work_key *key)
{
	uint64_t hash = fnv1a(key, sizeof(*key));
	uint32_t first = map64_get(&gpu->work_ids, hash), at = (uint32_t)gpu->works_count;
	struct gpu_work *work;

	if (grow_array(&gpu->works, &gpu->works_capacity, (size_t)at + 1, sizeof(*gpu->works)) ||
	    (first == MAP64_NONE && map64_put(&gpu->work_ids, hash, at)))
		return NULL;
	work = &gpu->works[gpu->works_count++];
	*work = (struct gpu_work){.key = *key};
	if (first != MAP64_NONE) {
		work->next = gpu->works[first].next;
		gpu->works[first].next = at + 1;
	}
	return work;
}

/* Where there are too many kinds, one row of the process has the rest. NULL: memory is out. */
static struct gpu_work *work_get(struct gpu *gpu, const struct gpu_work_key *key)
{
	struct gpu_work_key other = {.process = key->process, .op = key->op, .other = 1};
	uint32_t at = work_find(gpu, key);

	if (at == MAP64_NONE && gpu->works_count < AGGREGATE_GPU_WORKS_MAX)
		return work_new(gpu, key);
	if (at == MAP64_NONE) {
		at = work_find(gpu, &other);
		if (at == MAP64_NONE)
			return work_new(gpu, &other);
	}
	return &gpu->works[at];
}

static int work_time(struct gpu_work *work, const struct perfx_gpu_activity *record)
{
	uint64_t duration_ns = record->end_ns - record->time_ns;

	if (!work->sketch)
		work->sketch = sketch__new();
	if (!work->sketch || sketch__add(work->sketch, duration_ns))
		return -ENOMEM;
	if (duration_ns > work->max_ns)
		work->max_ns = duration_ns;
	work->count++;
	work->total_ns = add_capped(work->total_ns, duration_ns);
	work->bytes = add_capped(work->bytes, record->bytes);
	return 0;
}

static void work_stream(struct gpu_work *work, uint32_t stream)
{
	if (work->has_stream && work->stream != stream)
		work->several_streams = true;
	work->stream = stream;
	work->has_stream = true;
}

int handle_gpu_activity(struct aggregate *a, const struct event *event)
{
	const struct perfx_gpu_activity *record = &event->gpu_activity;
	struct gpu_work_key key = {
		.process = record->process,
		.name = record->name,
		.grid = {record->grid[0], record->grid[1], record->grid[2]},
		.block = {record->block[0], record->block[1], record->block[2]},
		.dynamic_shared_bytes = record->dynamic_shared_bytes,
		.op = record->op,
		.direction = record->direction,
		.host_memory = record->host_memory,
	};
	struct gpu_place *place = place_get(a, record->process, record->device);
	struct gpu_work *work;

	if (!place)
		return not_found(a);
	saw_time(a, record->end_ns);
	gpu_process_get(a, record->process)->activities_count++;
	a->gpu.activities_count++;
	work = work_get(&a->gpu, &key);
	if (!work)
		return -ENOMEM;
	work->registers = record->registers;
	work->static_shared_bytes = record->static_shared_bytes;
	work_stream(work, record->stream);
	return work_time(work, record);
}

int handle_gpu_overflow(struct aggregate *a, const struct event *event)
{
	const struct perfx_gpu_overflow *record = &event->gpu_overflow;
	struct gpu_work_key key = {
		.process = record->process,
		.name = record->name,
		.grid = {record->grid[0], record->grid[1], record->grid[2]},
		.block = {record->block[0], record->block[1], record->block[2]},
		.op = record->op,
		.direction = record->direction,
		.host_memory = record->host_memory,
	};
	struct gpu_process *process = gpu_process_get(a, record->process);
	struct gpu_work *work;

	if (!process)
		return not_found(a);
	process->overflow_count = add_capped(process->overflow_count, record->count);
	work = work_get(&a->gpu, &key);
	if (!work)
		return -ENOMEM;
	work_stream(work, record->stream);
	work->count = add_capped(work->count, record->count);
	work->total_ns = add_capped(work->total_ns, record->total_ns);
	work->bytes = add_capped(work->bytes, record->bytes);
	return 0;
}

int handle_gpu_call(struct aggregate *a, const struct event *event)
{
	const struct perfx_gpu_call *record = &event->gpu_call;

	if (!gpu_process_get(a, record->process))
		return not_found(a);
	saw_time(a, record->end_ns);
	return 0;
}

/* --- counted at the calls --- */

static void add_caller(struct gpu_work *work, uint32_t context, uint64_t count, uint64_t ns)
{
	struct gpu_caller *caller = work->callers, *end = caller + work->callers_count;

	while (caller < end && caller->context != context)
		caller++;
	if (caller == end && work->callers_count == GPU_CALLERS_MAX)
		return;
	if (caller == end)
		work->callers[work->callers_count++] = (struct gpu_caller){.context = context};
	caller->count = add_capped(caller->count, count);
	caller->ns = add_capped(caller->ns, ns);
}

static int add_called(struct aggregate *a, const struct gpu_work_key *key, uint32_t context,
		      uint64_t count, uint64_t bytes)
{
	struct gpu_work *work;

	if (!gpu_process_get(a, key->process))
		return not_found(a);
	work = work_get(&a->gpu, key);
	if (!work)
		return -ENOMEM;
	a->gpu.called_count = add_capped(a->gpu.called_count, count);
	work->called_count = add_capped(work->called_count, count);
	work->called_bytes = add_capped(work->called_bytes, bytes);
	add_caller(work, context, count, 0);
	return 0;
}

int handle_gpu_launches(struct aggregate *a, const struct event *event)
{
	const struct perfx_gpu_launches *record = &event->gpu_launches;
	struct gpu_work_key key = {
		.process = record->process,
		.name = record->name,
		.grid = {record->grid[0], record->grid[1], record->grid[2]},
		.block = {record->block[0], record->block[1], record->block[2]},
		.dynamic_shared_bytes = record->dynamic_shared_bytes,
		.op = record->op,
	};

	return add_called(a, &key, record->context, record->count, 0);
}

int handle_gpu_copies(struct aggregate *a, const struct event *event)
{
	const struct perfx_gpu_copies *record = &event->gpu_copies;
	struct gpu_work_key key = {
		.process = record->process,
		.op = record->op,
		.direction = record->direction,
		.host_memory = record->host_memory,
	};

	return add_called(a, &key, record->context, record->count, record->bytes);
}
