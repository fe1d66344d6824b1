// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/gpu.h"

#include "aggregate/calls.h"
#include "base/hash.h"
#include "base/text.h"
#include "cost/gpu_calls.h"

#include <stdlib.h>

/* The bucket of a time; made where there is none yet. */
static unsigned bucket_at(struct buckets *b, uint64_t time_ns)
{
	if (!b->width_ns)
		b->width_ns = BUCKETS_WIDTH_NS;
	while ((time_ns - b->from_ns) / b->width_ns >= BUCKETS_COUNT) {
		for (unsigned i = 0; i < BUCKETS_COUNT / 2; i++)
			b->values[i] = b->values[2 * i] + b->values[2 * i + 1];
		memset(b->values + BUCKETS_COUNT / 2, 0, sizeof(b->values) / 2);
		b->width_ns *= 2;
	}
	return (unsigned)((time_ns - b->from_ns) / b->width_ns);
}

void buckets_add(struct buckets *b, uint64_t time_ns, uint64_t value)
{
	if (time_ns >= b->from_ns)
		b->values[bucket_at(b, time_ns)] += value;
}

void buckets_add_time(struct buckets *b, uint64_t from_ns, uint64_t to_ns)
{
	from_ns = max_u64(from_ns, b->from_ns);
	if (to_ns <= from_ns)
		return;
	bucket_at(b, to_ns); /* no more widening below */
	while (from_ns < to_ns) {
		unsigned at = bucket_at(b, from_ns);
		uint64_t end_ns = b->from_ns + (at + 1) * b->width_ns;

		/* <: times of a damaged file, at the end of all that there are */
		if (end_ns > to_ns || end_ns < from_ns)
			end_ns = to_ns;
		b->values[at] += end_ns - from_ns;
		from_ns = end_ns;
	}
}

uint64_t buckets_between(const struct buckets *b, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < BUCKETS_COUNT; i++) {
		uint64_t start_ns = b->from_ns + i * b->width_ns, end_ns = start_ns + b->width_ns;
		uint64_t begin_ns = max_u64(start_ns, from_ns), stop_ns = min_u64(end_ns, to_ns);

		if (b->values[i] && begin_ns < stop_ns)
			sum += (uint64_t)((unsigned __int128)b->values[i] * (stop_ns - begin_ns) /
					  b->width_ns);
	}
	return sum;
}

/* NULL with errno: ERANGE, ENOMEM. */
static struct gpu_process *gpu_process_get(struct aggregate *a, uint32_t process)
{
	struct gpu *gpu = a->gpu;
	struct gpu_process *of;

	if (!process_get(a, process))
		return NULL;
	of = MAP64_ITEM(gpu->process_ids, process, gpu->processes);
	if (of)
		of->process = process;
	return of;
}

static int handle_gpu_name(struct aggregate *a, const struct event *event)
{
	const struct perfx_gpu_name *record = &event->gpu_name;
	struct gpu *gpu = a->gpu;
	struct profile_gpu_name *name;

	if (!record->name || record->name > AGGREGATE_GPU_NAMES_MAX)
		return undecoded(a);
	name = GROW_TO(gpu->names, record->name);
	if (!name)
		return -ENOMEM;
	name->name = pool_add(&a->strings, event->strings[0]);
	name->module = pool_add(&a->strings, event->strings[1]);
	name->flags = record->flags;
	return name->name && name->module ? 0 : -ENOMEM;
}

static int handle_gpu_device(struct aggregate *a, const struct event *event)
{
	struct gpu_device *device = &a->gpu->devices[event->gpu_device.device];

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
	add_up(&metric->sum, value);
	metric->count++;
}

static void metric_add_u32(struct gpu_metric *metric, uint32_t value)
{
	if (value != UINT32_MAX)
		metric_add(metric, value);
}

static int add_point(struct gpu_device *device, const struct perfx_gpu_usage *record)
{
	struct profile_gpu_point *point = THINNED_POINT(device, PROFILE_POINTS_MAX);

	if (!point)
		return -errno;
	*point = (struct profile_gpu_point){
		.time_ns = record->time_ns,
		.utilisation_percent = record->utilisation_percent,
		.memory_used_bytes = record->memory_used_bytes,
		.power_mw = record->power_mw,
	};
	return 0;
}

static int handle_gpu_usage(struct aggregate *a, const struct event *event)
{
	const struct perfx_gpu_usage *record = &event->gpu_usage;
	struct gpu_device *device = &a->gpu->devices[record->device];
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
	if (record->throttle != UINT64_MAX) {
		device->throttle_samples_count++;
		for (unsigned i = 0; i < PROFILE_GPU_THROTTLES; i++)
			device->throttled_counts[i] += record->throttle >> i & 1;
	}
	return energy_usage(a, record) ? -ENOMEM : add_point(device, record);
}

/* NULL with errno: ERANGE, ENOMEM. */
static struct gpu_place *place_get(struct aggregate *a, uint32_t process, uint32_t device)
{
	struct gpu *gpu = a->gpu;
	uint64_t id = (uint64_t)process << 32 | device;
	struct gpu_place *place;

	if (!gpu_process_get(a, process))
		return NULL;
	place = MAP64_ITEM(gpu->place_ids, id, gpu->places);
	if (!place)
		return NULL;
	place->process = process;
	place->device = device;
	gpu->devices[device].used = true;
	return place;
}

static int handle_gpu_memory(struct aggregate *a, const struct event *event)
{
	const struct perfx_gpu_memory *record = &event->gpu_memory;
	struct gpu_place *place;

	saw_time(a, record->time_ns);
	if (record->process) {
		place = place_get(a, record->process, record->device);
		if (!place)
			return rejected(a);
		if (record->used_bytes != UINT64_MAX)
			metric_add(&place->memory_bytes, record->used_bytes);
		metric_add_u32(&place->sm_percent, record->sm_percent);
	}
	return energy_share(a, record);
}

static int handle_gpu_state(struct aggregate *a, const struct event *event)
{
	const struct perfx_gpu_state *record = &event->gpu_state;
	struct gpu_process *process = gpu_process_get(a, record->process);

	if (!process)
		return rejected(a);
	if (process->has_state && record->time_ns < process->state.time_ns)
		return 0;
	process->has_state = true;
	process->state = *record;
	a->gpu->follows |= record->state == PERFX_GPU_AGENT_ON;
	if (record->state == PERFX_GPU_AGENT_ON && record->level > process->level)
		process->level = record->level;
	process->why = pool_add(&a->strings, event->strings[0]);
	return process->why ? 0 : -ENOMEM;
}

/* *hash: under which the map has it or, returning MAP64_NONE, could have it. */
static uint32_t work_find(const struct gpu *gpu, const struct gpu_work_key *key, uint64_t *hash)
{
	uint32_t at;

	for (*hash = fnv1a(key, sizeof(*key));; ++*hash) {
		at = map64_get(&gpu->work_ids, *hash);
		if (at == MAP64_NONE || !memcmp(&gpu->works[at].key, key, sizeof(*key)))
			return at;
	}
}

/* Where there are too many kinds, one row of the process has the rest. NULL: memory is out. */
static struct gpu_work *work_get(struct gpu *gpu, const struct gpu_work_key *key)
{
	struct gpu_work_key other = {
		.process = key->process, .op = key->op, .kind = GPU_WORK_OTHER};
	struct gpu_work *work;
	uint64_t hash;

	if (work_find(gpu, key, &hash) == MAP64_NONE &&
	    gpu->works_count >= AGGREGATE_GPU_WORKS_MAX) {
		key = &other;
		work_find(gpu, key, &hash);
	}
	work = MAP64_ITEM(gpu->work_ids, hash, gpu->works);
	if (work)
		work->key = *key;
	return work;
}

static int work_time(struct gpu_work *work, uint64_t duration_ns)
{
	double distance = (double)duration_ns - work->mean_ns;

	if (!work->sketch)
		work->sketch = sketch__new();
	if (!work->sketch)
		return -ENOMEM;
	if (duration_ns < work->min_ns || !sketch__count(work->sketch))
		work->min_ns = duration_ns;
	if (sketch__add(work->sketch, duration_ns))
		return -ENOMEM;
	work->max_ns = max_u64(work->max_ns, duration_ns);
	work->mean_ns += distance / (double)sketch__count(work->sketch);
	work->squares += distance * ((double)duration_ns - work->mean_ns);
	work->count++;
	add_up(&work->total_ns, duration_ns);
	return 0;
}

/* Notes what records of a device's work have in common. registers 0: not known. */
static void work_done(struct gpu_work *work, uint32_t registers, uint32_t static_shared_bytes,
		      uint32_t stream, uint64_t bytes)
{
	if (registers) {
		work->registers = registers;
		work->static_shared_bytes = static_shared_bytes;
	}
	work->several_streams |= work->has_stream && work->stream != stream;
	work->stream = stream;
	work->has_stream = true;
	add_up(&work->bytes, bytes);
}

/* The members that GPU_ACTIVITY, GPU_OVERFLOW and GPU_LAUNCHES records have in common, and others.
 */
#define WORK_KEY(record, ...)                                                          \
	{                                                                              \
		.process = (record)->process, .name = (record)->name,                  \
		.grid = {(record)->grid[0], (record)->grid[1], (record)->grid[2]},     \
		.block = {(record)->block[0], (record)->block[1], (record)->block[2]}, \
		.op = (record)->op, __VA_ARGS__                                        \
	}

static int handle_gpu_activity(struct aggregate *a, const struct event *event)
{
	const struct perfx_gpu_activity *record = &event->gpu_activity;
	struct gpu_work_key key =
		WORK_KEY(record, .dynamic_shared_bytes = record->dynamic_shared_bytes,
			 .direction = record->direction, .host_memory = record->host_memory);
	struct gpu_place *place = place_get(a, record->process, record->device);
	struct gpu_work *work;

	if (!place)
		return rejected(a);
	saw_time(a, record->end_ns);
	gpu_process_get(a, record->process)->activities_count++;
	a->gpu->activities_count++;
	a->gpu->follows = true;
	work = work_get(a->gpu, &key);
	if (!work)
		return -ENOMEM;
	work_done(work, record->registers, record->static_shared_bytes, record->stream,
		  record->bytes);
	if (work_time(work, record->end_ns - record->time_ns))
		return -ENOMEM;
	return history_activity(a, record, (uint32_t)(work - a->gpu->works));
}

static int handle_gpu_overflow(struct aggregate *a, const struct event *event)
{
	const struct perfx_gpu_overflow *record = &event->gpu_overflow;
	struct gpu_work_key key =
		WORK_KEY(record, .dynamic_shared_bytes = record->dynamic_shared_bytes,
			 .direction = record->direction, .host_memory = record->host_memory);
	struct gpu_process *process;
	struct gpu_work *work;

	if (!place_get(a, record->process, record->device))
		return rejected(a);
	process = gpu_process_get(a, record->process);
	add_up(&process->overflow_count, record->count);
	work = work_get(a->gpu, &key);
	if (!work)
		return -ENOMEM;
	work_done(work, record->registers, record->static_shared_bytes, record->stream,
		  record->bytes);
	add_up(&work->count, record->count);
	add_up(&work->total_ns, record->total_ns);
	return 0;
}

/* Waits of more threads than GPU_WAITERS_MAX are not kept. 0 or -ENOMEM. */
static int add_wait(struct aggregate *a, struct gpu_process *process, uint32_t tid,
		    uint64_t from_ns, uint64_t to_ns)
{
	struct gpu_waiter *waiter = NULL;

	for (size_t i = 0; i < process->waiters_count && !waiter; i++)
		if (process->waiters[i]->tid == tid)
			waiter = process->waiters[i];
	if (!waiter) {
		if (process->waiters_count == GPU_WAITERS_MAX)
			return 0;
		waiter = calloc(1, sizeof(*waiter));
		if (!waiter)
			return -ENOMEM;
		waiter->tid = tid;
		waiter->waited.from_ns = capture_host(a) ? capture_host(a)->start_ns : 0;
		process->waiters[process->waiters_count++] = waiter;
	}
	buckets_add_time(&waiter->waited, from_ns, to_ns);
	return 0;
}

/* The overhead budget has removed a probe on a call that waits: from then on waits are those that
 * the agent records. */
static bool is_left_to_agent(const struct gpu *gpu, const struct gpu_process *process,
			     uint64_t time_ns)
{
	return process->level && gpu->waits_removed_ns && time_ns >= gpu->waits_removed_ns;
}

void gpu_reduced(struct aggregate *a, const struct perfx_reduced *record)
{
	const struct profile_function *f = function_at(a, record->function);
	const struct gpu_call *call = f && f->name ? gpu_call_find(f->name) : NULL;

	if (call && call->waits && record->to == PERFX_REDUCED_REMOVED && !a->gpu->waits_removed_ns)
		a->gpu->waits_removed_ns = record->time_ns;
}

static int handle_gpu_call(struct aggregate *a, const struct event *event)
{
	const struct perfx_gpu_call *record = &event->gpu_call;
	struct gpu_work_key key = {.process = record->process,
				   .name = record->name,
				   .op = record->op,
				   .kind = GPU_WORK_CALL};
	struct gpu_process *process = gpu_process_get(a, record->process);
	struct gpu_work *work;
	int err;

	if (!process)
		return rejected(a);
	a->gpu->follows = true;
	saw_time(a, record->end_ns);
	work = work_get(a->gpu, &key);
	err = work ? work_time(work, record->end_ns - record->time_ns) : -ENOMEM;
	if (!err && record->op == PERFX_GPU_OP_SYNC &&
	    (!process->has_wait_spans || is_left_to_agent(a->gpu, process, record->time_ns)))
		err = add_wait(a, process, record->tid, record->time_ns, record->end_ns);
	return err ?: history_call(a, record, (uint32_t)(work - a->gpu->works));
}

/* The driver's function in the runtime's is the same wait. */
static bool is_outermost(const struct aggregate *a, uint32_t id)
{
	const struct context *context = context_find(a, id);
	const struct context *parent =
		context && context->parent ? context_find(a, context->parent) : NULL;
	const struct profile_function *caller = parent ? function_at(a, parent->function) : NULL;

	return !id || !caller || !caller->name || !gpu_call_find(caller->name);
}

int gpu_span(struct aggregate *a, struct row *row, const struct perfx_span *span)
{
	struct gpu_process *process;
	int err = 0;

	if (row->gpu_class & UNDECIDED) {
		const struct profile_function *f = function_at(a, row->function);
		const struct gpu_call *call = f && f->id ? gpu_call_find(f->name) : NULL;

		if (f && f->id)
			row->gpu_class = call && call->waits ? GPU_CLASS_WAITS : 0;
	}
	if (row->gpu_class & GPU_CLASS_WAITS && is_outermost(a, span->context)) {
		process = gpu_process_get(a, span->process);
		if (!process)
			return rejected(a);
		process->has_wait_spans = true;
		if (!is_left_to_agent(a->gpu, process, span->start_ns))
			err = add_wait(a, process, span->tid, span->start_ns,
				       add_capped(span->start_ns, span->duration_ns));
	}
	if (!err && a->gpu->follows && map64_get(&a->gpu->process_ids, span->process) != MAP64_NONE)
		err = history_span(a, span);
	return err;
}

int gpu_sample(struct aggregate *a, const struct perfx_sample *sample)
{
	if (!a->gpu->follows || map64_get(&a->gpu->process_ids, sample->process) == MAP64_NONE)
		return 0;
	return history_sample(a, sample);
}

struct gpu_place *gpu_place_find(struct gpu *gpu, uint32_t process, uint32_t device)
{
	return &gpu->places[map64_get(&gpu->place_ids, (uint64_t)process << 32 | device)];
}

static void cover(struct gpu_covered *covered, uint64_t from_ns, uint64_t to_ns)
{
	from_ns = max_u64(from_ns, covered->until_ns);
	if (to_ns <= from_ns)
		return;
	covered->ns += to_ns - from_ns;
	covered->until_ns = to_ns;
}

/* NCCL's and RCCL's kernels, of all their releases. */
bool gpu_communicates(const char *name)
{
	return begins_with(name, "nccl") || strstr(name, "ncclDev") || strstr(name, "ncclKernel");
}

static struct buckets *buckets_new(const struct aggregate *a)
{
	struct buckets *buckets = calloc(1, sizeof(*buckets));

	if (buckets)
		buckets->from_ns = capture_host(a) ? capture_host(a)->start_ns : 0;
	return buckets;
}

int gpu_cover(struct aggregate *a, struct gpu_place *place, const struct past_activity *activity)
{
	struct gpu_process *process = gpu_process_get(a, place->process);
	uint64_t from_ns = activity->start_ns, to_ns = activity->end_ns, before_ns;
	bool runs = activity->op == PERFX_GPU_OP_KERNEL || activity->op == PERFX_GPU_OP_GRAPH;
	uint32_t id = a->gpu->works[activity->work].key.name;
	const char *name = id < a->gpu->names_count ? a->gpu->names[id].name : NULL;
	bool comm = runs && name && gpu_communicates(name);

	if (!process->busy)
		process->busy = buckets_new(a);
	if (!process->kernels)
		process->kernels = buckets_new(a);
	if (!process->busy || !process->kernels)
		return -ENOMEM;
	/* a device that waits is not busy */
	if (activity->op == PERFX_GPU_OP_SYNC)
		return 0;
	before_ns = place->busy.until_ns;
	cover(&place->busy, from_ns, to_ns);
	buckets_add_time(process->busy, max_u64(from_ns, before_ns), to_ns);
	if (!runs)
		return 0;
	buckets_add(process->kernels, from_ns, 1);
	cover(comm ? &place->communicating : &place->computing, from_ns, to_ns);
	cover(&place->either, from_ns, to_ns);
	return 0;
}

void gpu_caller_add(struct gpu_work *work, uint32_t context, uint64_t count, uint64_t ns)
{
	struct gpu_caller *caller = work->callers, *end = caller + work->callers_count;

	while (caller < end && caller->context != context)
		caller++;
	if (caller == end && work->callers_count == GPU_CALLERS_MAX)
		return;
	if (caller == end)
		work->callers[work->callers_count++] = (struct gpu_caller){.context = context};
	add_up(&caller->count, count);
	add_up(&caller->ns, ns);
}

int gpu_link(struct aggregate *a, const struct past_activity *activity,
	     const struct past_call *call)
{
	struct gpu *gpu = a->gpu;
	struct gpu_process *process = gpu_process_get(a, activity->process);
	uint32_t context = call && call->placed ? call->context : 0;
	uint64_t ns = activity->end_ns - activity->start_ns;

	gpu_caller_add(&gpu->works[activity->work], context, 1, ns);
	if (!context) {
		process->unlinked_count++;
	} else {
		if (grow_array(&gpu->context_ns, &gpu->contexts_capacity, (size_t)context + 1,
			       sizeof(*gpu->context_ns)))
			return -ENOMEM;
		add_up(&gpu->context_ns[context], ns);
	}
	if (!call || (activity->op != PERFX_GPU_OP_KERNEL && activity->op != PERFX_GPU_OP_GRAPH))
		return 0;
	if (!process->latency)
		process->latency = sketch__new();
	return process->latency ? sketch__add(process->latency,
					      sub_capped(activity->start_ns, call->start_ns))
				: -ENOMEM;
}

static int add_called(struct aggregate *a, const struct gpu_work_key *key, uint32_t context,
		      uint64_t count, uint64_t bytes)
{
	struct gpu_work *work;

	if (!gpu_process_get(a, key->process))
		return rejected(a);
	work = work_get(a->gpu, key);
	if (!work)
		return -ENOMEM;
	add_up(&a->gpu->called_count, count);
	add_up(&work->called_count, count);
	add_up(&work->called_bytes, bytes);
	gpu_caller_add(work, context, count, 0);
	return 0;
}

static int handle_gpu_launches(struct aggregate *a, const struct event *event)
{
	const struct perfx_gpu_launches *record = &event->gpu_launches;
	struct gpu_work_key key =
		WORK_KEY(record, .dynamic_shared_bytes = record->dynamic_shared_bytes);

	return add_called(a, &key, record->context, record->count, 0);
}

static int handle_gpu_copies(struct aggregate *a, const struct event *event)
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

static void gpu_clear(void *state)
{
	struct gpu *gpu = state;

	FOR_EACH (work, gpu->works)
		sketch__free(work->sketch);
	free(gpu->works);
	map64_clear(&gpu->work_ids);
	for (size_t i = 0; i < PERFX_GPU_DEVICES_MAX; i++)
		free(gpu->devices[i].points);
	free(gpu->names);
	free(gpu->places);
	map64_clear(&gpu->place_ids);
	FOR_EACH (process, gpu->processes) {
		sketch__free(process->latency);
		free(process->busy);
		free(process->kernels);
		for (size_t i = 0; i < process->waiters_count; i++)
			free(process->waiters[i]);
	}
	free(gpu->context_ns);
	history_clear(&gpu->history);
	free(gpu->processes);
	map64_clear(&gpu->process_ids);
}

const struct part part_gpu = {
	PART_STATE(gpu),
	.add = {TAKES(GPU_NAME, gpu_name), TAKES(GPU_DEVICE, gpu_device),
		TAKES(GPU_USAGE, gpu_usage), TAKES(GPU_MEMORY, gpu_memory),
		TAKES(GPU_STATE, gpu_state), TAKES(GPU_ACTIVITY, gpu_activity),
		TAKES(GPU_OVERFLOW, gpu_overflow), TAKES(GPU_CALL, gpu_call),
		TAKES(GPU_LAUNCHES, gpu_launches), TAKES(GPU_COPIES, gpu_copies)},
	.finish = gpu_fill,
	.clear = gpu_clear,
};
