// SPDX-License-Identifier: BSD-2-Clause
/* GPUs at the end: tables of kinds of work → kernels, copies and waits, with who asked for them. */
#include "aggregate/gpu.h"

#include "aggregate/calls.h"
#include "base/order.h"
#include "cost/gpu_calls.h"
#include "peaks/gpu.h"

#include <math.h>
#include <stdlib.h>

/* State while the profile is filled. */
struct gpu_ctx {
	struct finish_ctx *w;
	const struct gpu *gpu;
	const struct gpu_call **calls; /* by function id; NULL: none of these */
	uint64_t *below_ns;	       /* by context: its device time, callees included */
	uint64_t *row_ns;	       /* by row, likewise */
	bool *launches;		       /* by context: it or a callee was seen to launch a kernel */
};

const char *profile_gpu_throttle_name(unsigned bit)
{
	/* nvml.h: nvmlClocksEventReason… */
	static const char *const names[PROFILE_GPU_THROTTLES] = {
		"gpu_idle",
		"applications_clocks_setting",
		"sw_power_cap",
		"hw_slowdown",
		"sync_boost",
		"sw_thermal_slowdown",
		"hw_thermal_slowdown",
		"hw_power_brake_slowdown",
		"display_clock_setting",
	};

	return bit < PROFILE_GPU_THROTTLES ? names[bit] : "";
}

uint64_t profile_gpu_throttled_count(const struct profile_gpu_device *device)
{
	static const unsigned bits[] = {2, 3, 5, 6, 7}; /* power and temperature */
	uint64_t most = 0;

	/* several hold at once: at least the most frequent one */
	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		most = max_u64(most, device->throttled_counts[bits[i]]);
	return most;
}

void profile_gpu_clear(struct profile *profile)
{
	for (size_t i = 0; i < profile->processes_count; i++) {
		struct profile_gpu *gpu = &profile->processes[i].gpu;

		free(gpu->places);
		free(gpu->kernels);
		free(gpu->copies);
		free(gpu->syncs);
	}
	free(profile->gpu_devices);
}

static struct profile_gpu_series series_of(const struct gpu_metric *metric)
{
	if (!metric->count)
		return (struct profile_gpu_series){PROFILE_ABSENT, PROFILE_ABSENT, PROFILE_ABSENT};
	return (struct profile_gpu_series){
		.last = metric->last,
		.avg = (metric->sum + metric->count / 2) / metric->count,
		.max = metric->highest,
	};
}

static int fill_devices(struct gpu_ctx *ctx)
{
	struct profile *p = ctx->w->profile;

	p->gpu_names = ctx->gpu->names;
	p->gpu_names_count = ctx->gpu->names_count;
	p->gpu_devices = calloc(PERFX_GPU_DEVICES_MAX, sizeof(*p->gpu_devices));
	if (!p->gpu_devices)
		return -ENOMEM;
	for (uint32_t i = 0; i < PERFX_GPU_DEVICES_MAX; i++) {
		const struct gpu_device *from = &ctx->gpu->devices[i];
		struct profile_gpu_device *device = &p->gpu_devices[p->gpu_devices_count];

		if (!from->described && !from->used && !from->samples_count)
			continue;
		*device = (struct profile_gpu_device){
			.index = i,
			.name = from->name ?: "",
			.uuid = from->uuid ?: "",
			.driver = from->driver ?: "",
			.facts = from->record,
			.throttle_samples_count = from->throttle_samples_count,
			.points = from->points,
			.points_count = from->points_count,
		};
		for (int k = 0; k < PROFILE_GPU_METRICS; k++)
			device->metrics[k] = series_of(&from->metrics[k]);
		memcpy(device->throttled_counts, from->throttled_counts,
		       sizeof(device->throttled_counts));
		energy_fill_device(ctx->w->a, device);
		p->gpu_devices_count++;
	}
	return 0;
}

static uint32_t function_of(const struct gpu_ctx *ctx, uint32_t context)
{
	return context ? ctx->w->a->calls->contexts[context].function : 0;
}

static const struct gpu_call *call_of_context(const struct gpu_ctx *ctx, uint32_t context)
{
	uint32_t function = ctx->w->a->calls->contexts[context].function;

	return function <= ctx->w->a->calls->functions_count ? ctx->calls[function] : NULL;
}

static uint32_t parent_context(const struct gpu_ctx *ctx, uint32_t context)
{
	const struct calls *calls = ctx->w->a->calls;

	return calls->contexts[context].described ? parent_of(calls, &calls->contexts[context]) : 0;
}

/* The innermost function around a call that is not of the GPU's library itself; where all are, the
 * outermost one that is no launch, copy or wait. */
static uint32_t caller_context(const struct gpu_ctx *ctx, uint32_t context)
{
	uint32_t library = 0;

	if (context >= ctx->w->a->calls->contexts_count)
		return 0;
	for (; context; context = parent_context(ctx, context)) {
		const struct gpu_call *call = call_of_context(ctx, context);
		const struct profile_function *f =
			profile_function(ctx->w->profile, function_of(ctx, context));

		if (!call && f && f->source != PERFX_SOURCE_CUDA)
			return context;
		if (!call)
			library = context;
	}
	return library;
}

static uint32_t caller_function(const struct gpu_ctx *ctx, uint32_t context)
{
	return function_of(ctx, caller_context(ctx, context));
}

/* The innermost Python line that led to a call. NULL: none is known. */
static const struct profile_frame *line_of(const struct gpu_ctx *ctx, uint32_t context)
{
	const struct aggregate *a = ctx->w->a;

	for (; context && context < a->calls->contexts_count;
	     context = parent_context(ctx, context))
		if (a->calls->contexts[context].caller)
			return frame_of(ctx->w, a->calls->contexts[context].process,
					a->calls->contexts[context].caller);
	return NULL;
}

/* The driver's function in the runtime's is the same launch or wait. */
static bool is_outermost_call(const struct gpu_ctx *ctx, uint32_t context)
{
	while ((context = parent_context(ctx, context)))
		if (call_of_context(ctx, context))
			return false;
	return true;
}

static const struct profile_gpu_name *name_of_work(const struct gpu_ctx *ctx,
						   const struct gpu_work *work)
{
	static const struct profile_gpu_name unknown = {.name = "", .module = ""};

	if (work->key.name >= ctx->gpu->names_count || !ctx->gpu->names[work->key.name].name)
		return &unknown;
	return &ctx->gpu->names[work->key.name];
}

/* The context of the function that most of it comes from: by time, else by number. */
static uint32_t main_context(const struct gpu_ctx *ctx, const struct gpu_work *work)
{
	struct gpu_caller sums[GPU_CALLERS_MAX];
	size_t count = 0, most = 0;

	for (size_t i = 0; i < work->callers_count; i++) {
		uint32_t context = work->callers[i].context, at = 0;

		while (at < count &&
		       caller_function(ctx, sums[at].context) != caller_function(ctx, context))
			at++;
		if (at == count)
			sums[count++] = (struct gpu_caller){.context = context};
		add_up(&sums[at].count, work->callers[i].count);
		add_up(&sums[at].ns, work->callers[i].ns);
	}
	for (size_t i = 1; i < count; i++)
		if (sums[i].ns > sums[most].ns ||
		    (sums[i].ns == sums[most].ns && sums[i].count > sums[most].count))
			most = i;
	return count ? sums[most].context : 0;
}

/* As devices did it where that was recorded, else as it was counted at the calls. */
static uint64_t count_of(const struct profile_gpu *gpu, const struct gpu_work *work)
{
	if (work->key.kind == GPU_WORK_CALL)
		return 0;
	return gpu->timed ? work->count : work->called_count;
}

static bool is_kernel(const struct gpu_work *work)
{
	return work->key.op == PERFX_GPU_OP_KERNEL || work->key.op == PERFX_GPU_OP_GRAPH;
}

static bool is_copy(const struct gpu_work *work)
{
	return work->key.op == PERFX_GPU_OP_COPY || work->key.op == PERFX_GPU_OP_MEMSET;
}

static void set_occupancy(const struct profile_gpu *gpu, struct profile_gpu_kernel *kernel)
{
	struct gpu_shape shape = {
		.block_threads = kernel->block[0] * kernel->block[1] * kernel->block[2],
		.registers = kernel->registers,
		.shared_bytes = (uint32_t)kernel->shared_bytes,
	};
	struct gpu_occupancy occupancy = gpu_occupancy(&gpu->places[0].device->facts, &shape);

	kernel->occupancy = occupancy.share;
	kernel->limit = occupancy.share < 0 ? "" : gpu_limit_name(occupancy.limit);
}

static struct profile_gpu_kernel kernel_of(const struct gpu_ctx *ctx, const struct profile_gpu *gpu,
					   const struct gpu_work *work)
{
	const struct profile_gpu_name *name = name_of_work(ctx, work);
	uint32_t context = main_context(ctx, work);
	struct profile_gpu_kernel kernel = {
		.op = work->key.op,
		.name = name->name,
		.module = name->module,
		.other = work->key.kind == GPU_WORK_OTHER,
		.unnamed = name->flags & PERFX_GPU_NAME_UNKNOWN,
		.communicates = gpu_communicates(name->name),
		.count = count_of(gpu, work),
		.total_ns = PROFILE_ABSENT,
		.avg_ns = PROFILE_ABSENT,
		.max_ns = PROFILE_ABSENT,
		.p99_ns = PROFILE_ABSENT,
		.stddev_ns = -1,
		.registers = work->registers,
		.shared_bytes =
			(uint64_t)work->static_shared_bytes + work->key.dynamic_shared_bytes,
		.occupancy = -1,
		.limit = "",
		.stream = work->has_stream && !work->several_streams ? work->stream : UINT32_MAX,
		.function = caller_function(ctx, context),
		.context = context,
		.line = line_of(ctx, context),
	};

	memcpy(kernel.grid, work->key.grid, sizeof(kernel.grid));
	memcpy(kernel.block, work->key.block, sizeof(kernel.block));
	/* sums of many kinds do not say, nor those in captures from before they had these fields */
	if (kernel.other || work->key.op == PERFX_GPU_OP_GRAPH ||
	    (gpu->timed && !work->sketch && !work->registers))
		kernel.shared_bytes = PROFILE_ABSENT;
	else if (gpu->timed && work->registers && gpu->places_count)
		set_occupancy(gpu, &kernel); /* without registers it would be a bound only */
	if (!gpu->timed)
		return kernel;
	kernel.total_ns = work->total_ns;
	kernel.avg_ns = work->total_ns / work->count;
	if (!work->sketch)
		return kernel;
	kernel.recorded_count = sketch__count(work->sketch);
	kernel.stddev_ns = sqrt(work->squares / (double)kernel.recorded_count);
	kernel.max_ns = work->max_ns;
	/* a bucket's middle may lie outside of the measured values */
	kernel.p99_ns = sketch__quantile(work->sketch, 0.99);
	kernel.p99_ns = max_u64(min_u64(kernel.p99_ns, work->max_ns), work->min_ns);
	return kernel;
}

static struct profile_gpu_copy copy_of(const struct gpu_ctx *ctx, const struct profile_gpu *gpu,
				       const struct gpu_work *work)
{
	uint32_t context = main_context(ctx, work);

	return (struct profile_gpu_copy){
		.op = work->key.op,
		.direction = work->key.direction,
		.host_memory = work->key.host_memory,
		.count = count_of(gpu, work),
		.bytes = gpu->timed ? work->bytes : work->called_bytes,
		.total_ns = gpu->timed ? work->total_ns : PROFILE_ABSENT,
		.function = caller_function(ctx, context),
		.line = line_of(ctx, context),
	};
}

ORDER(by_total, struct profile_gpu_kernel, DESCENDING(a->total_ns, b->total_ns),
      DESCENDING(a->count, b->count), strcmp(a->name, b->name))

ORDER(by_bytes, struct profile_gpu_copy, DESCENDING(a->bytes, b->bytes),
      DESCENDING(a->count, b->count), (int)a->direction - (int)b->direction)

/* Merges copies that differ only by members that are not shown. */
static void merge_copies(struct profile_gpu *gpu)
{
	size_t kept = 0;

	for (size_t i = 0; i < gpu->copies_count; i++) {
		struct profile_gpu_copy *copy = &gpu->copies[i], *same = gpu->copies;

		while (same < gpu->copies + kept &&
		       (same->op != copy->op || same->direction != copy->direction ||
			same->host_memory != copy->host_memory))
			same++;
		if (same == gpu->copies + kept) {
			gpu->copies[kept++] = *copy;
			continue;
		}
		add_up(&same->count, copy->count);
		add_up(&same->bytes, copy->bytes);
		if (gpu->timed)
			add_up(&same->total_ns, copy->total_ns);
	}
	gpu->copies_count = kept;
}

static int fill_works(const struct gpu_ctx *ctx, uint32_t process, struct profile_gpu *gpu)
{
	const struct gpu *from = ctx->gpu;
	size_t kernels = 0, copies = 0;

	for (size_t i = 0; i < from->works_count; i++) {
		if (from->works[i].key.process != process || !count_of(gpu, &from->works[i]))
			continue;
		kernels += is_kernel(&from->works[i]);
		copies += is_copy(&from->works[i]);
	}
	gpu->kernels = calloc(kernels + 1, sizeof(*gpu->kernels));
	gpu->copies = calloc(copies + 1, sizeof(*gpu->copies));
	if (!gpu->kernels || !gpu->copies)
		return -ENOMEM;
	for (size_t i = 0; i < from->works_count; i++) {
		const struct gpu_work *work = &from->works[i];

		if (work->key.process != process || !count_of(gpu, work))
			continue;
		if (is_kernel(work)) {
			gpu->kernels[gpu->kernels_count++] = kernel_of(ctx, gpu, work);
			add_up(&gpu->kernel_ns, work->total_ns);
		} else if (is_copy(work)) {
			gpu->copies[gpu->copies_count++] = copy_of(ctx, gpu, work);
		}
	}
	merge_copies(gpu);
	SORT_ITEMS(gpu->kernels, gpu->kernels_count, by_total);
	SORT_ITEMS(gpu->copies, gpu->copies_count, by_bytes);
	return 0;
}

static int add_sync(struct profile_gpu *gpu, size_t *capacity, struct profile_gpu_sync more)
{
	struct profile_gpu_sync *sync = NULL;

	for (size_t i = 0; i < gpu->syncs_count && !sync; i++)
		if (gpu->syncs[i].function == more.function && gpu->syncs[i].line == more.line &&
		    !strcmp(gpu->syncs[i].name, more.name))
			sync = &gpu->syncs[i];
	if (!sync) {
		if (grow_array(&gpu->syncs, capacity, gpu->syncs_count + 1, sizeof(*gpu->syncs)))
			return -ENOMEM;
		sync = &gpu->syncs[gpu->syncs_count++];
		*sync = (struct profile_gpu_sync){
			.name = more.name, .function = more.function, .line = more.line};
	}
	add_up(&sync->count, more.count);
	add_up(&sync->wait_ns, more.wait_ns);
	add_up(&gpu->wait_ns, more.wait_ns);
	return 0;
}

/* When the overhead budget removed the first probe that counted calls of the process; 0: never. */
static uint64_t called_until(const struct gpu_ctx *ctx, uint32_t process)
{
	const struct aggregate *a = ctx->w->a;

	for (size_t i = 0; i < ctx->w->profile->reduced_count; i++) {
		const struct perfx_reduced *reduced = &ctx->w->profile->reduced[i];

		if (reduced->to == PERFX_REDUCED_REMOVED && reduced->function &&
		    reduced->function <= a->calls->functions_count &&
		    ctx->calls[reduced->function] &&
		    (!reduced->merged || a->processes->list[process]->merged == reduced->merged))
			return reduced->time_ns;
	}
	return 0;
}

/* From the spans of the library's functions: exact, with those whose records were dropped. */
static int add_traced_calls(const struct gpu_ctx *ctx, uint32_t process, struct profile_gpu *gpu,
			    size_t *capacity)
{
	const struct aggregate *a = ctx->w->a;
	int err = 0;

	for (uint32_t i = 1; i < a->calls->contexts_count && !err; i++) {
		const struct context *context = &a->calls->contexts[i];
		const struct gpu_call *call =
			context->process == process ? call_of_context(ctx, i) : NULL;

		if (!call || !context->sums.calls_count || !is_outermost_call(ctx, i))
			continue;
		gpu->used = true;
		if (call->op == PERFX_GPU_OP_KERNEL || call->op == PERFX_GPU_OP_GRAPH) {
			add_up(&gpu->launches_count, context->sums.calls_count);
			add_up(&gpu->launch_ns, context->sums.total_ns);
		}
		if (call->waits)
			err = add_sync(
				gpu, capacity,
				(struct profile_gpu_sync){
					.name = a->calls->functions[context->function - 1].name,
					.function = caller_function(ctx, i),
					.line = line_of(ctx, i),
					.count = context->sums.calls_count,
					.wait_ns = context->sums.total_ns});
	}
	return err;
}

/* A call by the agent's account, where its function is not traced. */
static int add_recorded_call(const struct gpu_ctx *ctx, const struct gpu_work *work,
			     struct profile_gpu *gpu, size_t *capacity)
{
	const char *name = name_of_work(ctx, work)->name;
	const struct gpu_call *call = gpu_call_find(name);
	uint64_t left = work->count, left_ns = work->total_ns;
	int err = 0;

	if (work->key.op != PERFX_GPU_OP_SYNC && !(call && call->waits))
		return 0;
	for (size_t i = 0; i < work->callers_count && !err; i++) {
		const struct gpu_caller *caller = &work->callers[i];

		err = add_sync(
			gpu, capacity,
			(struct profile_gpu_sync){.name = name,
						  .function = caller_function(ctx, caller->context),
						  .count = caller->count,
						  .wait_ns = caller->ns});
		left -= min_u64(caller->count, left);
		left_ns -= min_u64(caller->ns, left_ns);
	}
	if (err || !left)
		return err;
	return add_sync(gpu, capacity,
			(struct profile_gpu_sync){.name = name, .count = left, .wait_ns = left_ns});
}

/* As they were counted at their calls, or by the agent's account. */
static void add_other_launches(const struct gpu_ctx *ctx, uint32_t process, struct profile_gpu *gpu,
			       bool by_agent)
{
	uint64_t called = 0, count = 0;

	for (size_t i = 0; i < ctx->gpu->works_count; i++) {
		const struct gpu_work *work = &ctx->gpu->works[i];

		if (work->key.process != process || !is_kernel(work))
			continue;
		add_up(&called, work->called_count);
		if (work->key.kind != GPU_WORK_CALL)
			continue;
		add_up(&count, work->count);
		add_up(&gpu->launch_ns, work->total_ns);
	}
	gpu->launches_count = called && !by_agent ? called : count;
}

static int add_recorded_calls(const struct gpu_ctx *ctx, uint32_t process, struct profile_gpu *gpu,
			      size_t *capacity)
{
	int err = 0;

	for (size_t i = 0; i < ctx->gpu->works_count && !err; i++) {
		const struct gpu_work *work = &ctx->gpu->works[i];

		if (work->key.process == process && work->key.kind == GPU_WORK_CALL)
			err = add_recorded_call(ctx, work, gpu, capacity);
	}
	return err;
}

/* Where the budget removed probes, the agent has seen all calls. It does not know Python lines: a
 * call gets the one from which traced calls of its name were made most. */
static int replace_by_recorded(const struct gpu_ctx *ctx, uint32_t process, struct profile_gpu *gpu)
{
	struct profile_gpu_sync *traced = gpu->syncs;
	size_t traced_count = gpu->syncs_count, capacity = 0;
	int err;

	gpu->syncs = NULL;
	gpu->syncs_count = 0;
	gpu->wait_ns = gpu->launches_count = gpu->launch_ns = 0;
	err = add_recorded_calls(ctx, process, gpu, &capacity);
	FOR_EACH (sync, gpu->syncs) {
		uint64_t most = 0;

		for (size_t i = 0; i < traced_count; i++) {
			if (!traced[i].line || traced[i].count <= most ||
			    strcmp(traced[i].name, sync->name))
				continue;
			most = traced[i].count;
			sync->line = traced[i].line;
		}
	}
	free(traced);
	add_other_launches(ctx, process, gpu, true);
	gpu->called_until_ns = 0;
	return err;
}

ORDER(by_wait, struct profile_gpu_sync, DESCENDING(a->wait_ns, b->wait_ns),
      DESCENDING(a->count, b->count), strcmp(a->name, b->name))

static int fill_calls(const struct gpu_ctx *ctx, uint32_t process, struct profile_gpu *gpu)
{
	size_t capacity = 0;
	int err = add_traced_calls(ctx, process, gpu, &capacity);

	gpu->called_until_ns = called_until(ctx, process);
	if (!err && gpu->called_until_ns && gpu->timed && !gpu->overflow_count)
		err = replace_by_recorded(ctx, process, gpu);
	else if (!err && !gpu->syncs_count)
		err = add_recorded_calls(ctx, process, gpu, &capacity);
	if (!gpu->launches_count)
		add_other_launches(ctx, process, gpu, false);
	SORT_ITEMS(gpu->syncs, gpu->syncs_count, by_wait);
	return err;
}

static struct profile_gpu_place place_of(const struct gpu_ctx *ctx, const struct profile_gpu *gpu,
					 const struct gpu_place *from)
{
	struct profile_gpu_place place = {
		.memory_bytes = series_of(&from->memory_bytes),
		.sm_percent = series_of(&from->sm_percent),
		.busy_ns = PROFILE_ABSENT,
		.computing_ns = PROFILE_ABSENT,
		.communicating_ns = PROFILE_ABSENT,
		.exposed_ns = PROFILE_ABSENT,
	};

	FOR_EACH (device, ctx->w->profile->gpu_devices)
		if (device->index == from->device)
			place.device = device;
	if (!gpu->timed)
		return place;
	place.busy_ns = from->busy.ns;
	place.computing_ns = from->computing.ns;
	place.communicating_ns = from->communicating.ns;
	place.exposed_ns = from->either.ns - from->computing.ns;
	return place;
}

ORDER(by_length, struct profile_gpu_gap, DESCENDING(a->to_ns - a->from_ns, b->to_ns - b->from_ns),
      ASCENDING(a->from_ns, b->from_ns))

/* The longest of all places. */
static void add_gaps(const struct gpu_ctx *ctx, struct profile_gpu *gpu,
		     const struct gpu_place *from)
{
	struct profile_gpu_gap gaps[PROFILE_GPU_GAPS_MAX + GPU_GAPS_MAX];
	size_t count = gpu->gaps_count;

	memcpy(gaps, gpu->gaps, count * sizeof(*gaps));
	for (size_t i = 0; i < from->gaps_count; i++)
		gaps[count++] = (struct profile_gpu_gap){
			.from_ns = from->gaps[i].from_ns,
			.to_ns = from->gaps[i].to_ns,
			.device = from->device,
			.tid = from->gaps[i].tid,
			.function = from->gaps[i].context < ctx->w->a->calls->contexts_count
					    ? function_of(ctx, from->gaps[i].context)
					    : 0,
			.stack = stack_of(ctx->w, from->process, from->gaps[i].stack),
		};
	SORT_ITEMS(gaps, count, by_length);
	gpu->gaps_count = min_u64(count, PROFILE_GPU_GAPS_MAX);
	memcpy(gpu->gaps, gaps, gpu->gaps_count * sizeof(*gaps));
}

ORDER(by_device, struct profile_gpu_place, (int)a->device->index - (int)b->device->index)

/* Lists all devices of the machine if those of the process are unknown. */
static int fill_places(const struct gpu_ctx *ctx, uint32_t process, struct profile_gpu *gpu)
{
	const struct profile *p = ctx->w->profile;

	gpu->places = calloc(PERFX_GPU_DEVICES_MAX, sizeof(*gpu->places));
	if (!gpu->places)
		return -ENOMEM;
	gpu->busy_ns = gpu->timed ? 0 : PROFILE_ABSENT;
	for (size_t i = 0; i < ctx->gpu->places_count; i++) {
		const struct gpu_place *from = &ctx->gpu->places[i];

		if (from->process != process)
			continue;
		gpu->places[gpu->places_count++] = place_of(ctx, gpu, from);
		if (gpu->timed)
			add_up(&gpu->busy_ns, from->busy.ns);
		add_gaps(ctx, gpu, from);
	}
	gpu->places_known = gpu->places_count > 0 || p->gpu_devices_count == 1;
	for (size_t i = 0; i < p->gpu_devices_count && gpu->places_count <= i; i++) {
		struct gpu_place none = {.device = p->gpu_devices[i].index};

		gpu->places[gpu->places_count++] = place_of(ctx, gpu, &none);
	}
	SORT_ITEMS(gpu->places, gpu->places_count, by_device);
	return 0;
}

static void fill_state(const struct gpu_process *from, struct profile_gpu *gpu)
{
	gpu->level = from->level;
	gpu->has_state = from->has_state;
	gpu->state = from->state.state;
	gpu->why = from->why ? from->why : "";
	gpu->dropped_count = from->state.dropped_count;
	gpu->left_mapped_bytes = from->state.left_mapped_bytes;
	gpu->activities_count = from->activities_count;
	gpu->overflow_count = from->overflow_count;
	gpu->unlinked_count = from->unlinked_count;
	gpu->timed = from->activities_count || from->overflow_count;
	if (gpu->timed && !gpu->level)
		gpu->level = 1;
	if (!from->latency)
		return;
	gpu->latency_p50_ns = sketch__quantile(from->latency, 0.5);
	gpu->latency_p99_ns = sketch__quantile(from->latency, 0.99);
}

static void fill_steps(const struct gpu_process *from, const struct profile_gpu *gpu,
		       struct profile_steps *steps)
{
	uint64_t from_ns, to_ns;

	if (!steps->count || !steps->series_count)
		return;
	from_ns = steps->series[0].from_ns;
	to_ns = steps->series[steps->series_count - 1].to_ns;
	steps->gpu_used = true;
	steps->gpu = (struct profile_step_gpu){.busy_ns = PROFILE_ABSENT,
					       .kernels_count = PROFILE_ABSENT,
					       .wait_ns = PROFILE_ABSENT};
	if (from && gpu->timed && from->busy) {
		steps->gpu.busy_ns = buckets_between(from->busy, from_ns, to_ns);
		steps->gpu.kernels_count = buckets_between(from->kernels, from_ns, to_ns);
	}
	if (gpu->syncs_count)
		steps->gpu.wait_ns = 0;
	for (size_t i = 0; from && i < from->waiters_count; i++)
		if (from->waiters[i]->tid == steps->tid)
			steps->gpu.wait_ns =
				buckets_between(&from->waiters[i]->waited, from_ns, to_ns);
}

static void sum_contexts(const struct gpu_ctx *ctx)
{
	const struct calls *calls = ctx->w->a->calls;

	FOR_EACH (work, ctx->gpu->works) {
		for (size_t j = 0; j < work->callers_count && is_kernel(work); j++) {
			uint32_t at = work->callers[j].context;

			for (; at && at < calls->contexts_count && !ctx->launches[at];
			     at = parent_context(ctx, at))
				ctx->launches[at] = true;
		}
	}
	for (uint32_t i = 1; i < ctx->gpu->contexts_capacity && i < calls->contexts_count; i++) {
		uint64_t ns = ctx->gpu->context_ns[i];

		/* device time of a context goes to each function on its path, once */
		for (uint32_t at = ns ? i : 0; at; at = parent_context(ctx, at)) {
			const struct row *row = calls->contexts[at].row;
			uint32_t inner = i;

			add_up(&ctx->below_ns[at], ns);
			while (inner != at && calls->contexts[inner].row != row)
				inner = parent_context(ctx, inner);
			if (row && inner == at)
				add_up(&ctx->row_ns[row->index], ns);
		}
	}
}

/* Operations of calls that launch kernels: where these are timed, of those whose kernels are known.
 */
static void fill_flops(const struct gpu_ctx *ctx, uint32_t process, struct profile_gpu *gpu)
{
	const struct aggregate *a = ctx->w->a;
	uint64_t dtypes[PERFX_DTYPES] = {0};
	int most = PERFX_DTYPE_UNKNOWN;

	for (uint32_t i = 1; i < a->calls->contexts_count; i++) {
		const struct costs *costs = a->calls->contexts[i].sums.costs;
		uint32_t above = i;

		if (a->calls->contexts[i].process != process || !costs || !costs->cost.flops ||
		    !(gpu->timed ? ctx->below_ns[i] : ctx->launches[i]))
			continue;
		add_up(&gpu->flops, costs->cost.flops);
		for (int d = 0; d < PERFX_DTYPES; d++)
			add_up(&dtypes[d], costs->dtypes[d]);
		while ((above = parent_context(ctx, above)))
			if (a->calls->contexts[above].sums.costs &&
			    a->calls->contexts[above].sums.costs->cost.flops)
				break;
		if (!above)
			add_up(&gpu->flops_ns, ctx->below_ns[i]);
	}
	for (int d = PERFX_DTYPE_UNKNOWN + 1; d < PERFX_DTYPES; d++)
		if (dtypes[d] > dtypes[most])
			most = d;
	gpu->dtype = most;
	for (size_t i = 0; i < gpu->places_count && gpu->flops && gpu->places_known; i++)
		gpu->peak_flops_per_s += gpu_peak_flops(&gpu->places[i].device->facts, most);
}

static int fill_process(const struct gpu_ctx *ctx, struct profile_process *process)
{
	const struct gpu_process *from =
		MAP64_FIND(ctx->gpu->process_ids, process->index, ctx->gpu->processes);
	struct profile_gpu *gpu = &process->gpu;
	int err;

	*gpu = (struct profile_gpu){.why = "",
				    .busy_ns = PROFILE_ABSENT,
				    .latency_p50_ns = PROFILE_ABSENT,
				    .latency_p99_ns = PROFILE_ABSENT};
	if (from)
		fill_state(from, gpu);
	err = fill_calls(ctx, process->index, gpu);
	if (err || !(from || gpu->used))
		return err;
	err = fill_places(ctx, process->index, gpu) ?: fill_works(ctx, process->index, gpu);
	gpu->used |= gpu->has_state || gpu->timed || gpu->kernels_count || gpu->copies_count ||
		     gpu->syncs_count || gpu->launches_count ||
		     (gpu->places_count && gpu->places[0].memory_bytes.last != PROFILE_ABSENT);
	if (err || !gpu->used)
		return err;
	for (size_t i = 0; i < process->rows_count && gpu->timed; i++) {
		struct profile_row *row = &process->rows[i];
		const struct row *known = row_find(ctx->w->a, process->index, row->function);

		row->gpu_ns = known ? ctx->row_ns[known->index] : 0;
	}
	fill_flops(ctx, process->index, gpu);
	fill_steps(from, gpu, &process->steps);
	process->steps.gpu.computes = gpu->flops > 0;
	process->steps.gpu.peak_flops_per_s = gpu->peak_flops_per_s;
	return 0;
}

static int prepare(struct gpu_ctx *ctx)
{
	const struct aggregate *a = ctx->w->a;

	ctx->calls = calloc(a->calls->functions_count + 1, sizeof(*ctx->calls));
	ctx->below_ns = calloc(a->calls->contexts_count + 1, sizeof(*ctx->below_ns));
	ctx->row_ns = calloc(a->calls->rows_count + 1, sizeof(*ctx->row_ns));
	ctx->launches = calloc(a->calls->contexts_count + 1, sizeof(*ctx->launches));
	if (!ctx->calls || !ctx->below_ns || !ctx->row_ns || !ctx->launches)
		return -ENOMEM;
	for (size_t i = 0; i < a->calls->functions_count; i++)
		if (a->calls->functions[i].id)
			ctx->calls[i + 1] = gpu_call_find(a->calls->functions[i].name);
	sum_contexts(ctx);
	return 0;
}

int gpu_fill(struct finish_ctx *w)
{
	struct gpu_ctx ctx = {.w = w, .gpu = w->a->gpu};
	int err = ctx.gpu->follows ? history_settle(w->a, w->profile->ended) : 0;

	w->profile->gpu_activities_count = ctx.gpu->activities_count;
	w->profile->gpu_calls_count = ctx.gpu->called_count;
	err = err ?: prepare(&ctx) ?: fill_devices(&ctx);
	for (size_t i = 0; i < w->profile->processes_count && !err; i++)
		err = fill_process(&ctx, &w->profile->processes[i]);
	free(ctx.calls);
	free(ctx.below_ns);
	free(ctx.row_ns);
	free(ctx.launches);
	return err;
}
