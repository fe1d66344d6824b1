// SPDX-License-Identifier: BSD-2-Clause
/*
 * Memory in the JSON report: an entry for each domain, never summed. Beside the contract's fields:
 *
 *     "level": "exact", "recorded_ns": 10000000000, "frees_seen": true, "bound": "lower",
 *     "allocs_low": …, "allocs_high": …            when sampled: the truth 19 times out of 20
 *     "sizes": [{"min_bytes": 65, "max_bytes": 128, "allocs": 12}, …]
 *     "series": [{"at_ns": 1000, "live_bytes": 64, "allocs": 1, "allocated_bytes": 64}, …]
 *     "hotspots": [{"stack": ["append (/src/train.c:12)", "trainer+0x4321"], …}]
 */
#include "analyze/location.h"
#include "decode/names.h"
#include "report/json/output.h"

#define HOTSPOTS_MAX 1000

static uint64_t since_start(const struct profile *p, uint64_t time_ns)
{
	if (time_ns == PROFILE_ABSENT)
		return PROFILE_ABSENT;
	return time_ns > p->start_ns ? time_ns - p->start_ns : 0;
}

static json_t *frame_string(const struct profile_frame *frame)
{
	struct text text = {0};
	json_t *json = NULL;

	location_frame(&text, frame, LOCATION_FULL);
	if (!text.failed)
		json = json_of_string(text_peek(&text));
	text_clear(&text);
	return json;
}

static json_t *stack_array(const struct profile_hotspot *hotspot)
{
	json_t *array = json_array();

	for (size_t i = 0; i < hotspot->frames_count; i++)
		json_array_append_new(array, frame_string(hotspot->frames[i]));
	return array;
}

static void set_estimate(json_t *object, const struct profile_hotspot *hotspot)
{
	json_object_set_new(object, "allocs_low", json_of_integer(hotspot->allocs.low));
	json_object_set_new(object, "allocs_high", json_of_integer(hotspot->allocs.high));
	json_object_set_new(object, "allocated_bytes_low",
			    json_of_integer(hotspot->allocated_bytes.low));
	json_object_set_new(object, "allocated_bytes_high",
			    json_of_integer(hotspot->allocated_bytes.high));
}

/* What is known only where frees are seen. */
static void set_live(json_t *object, const struct profile *p, const struct profile_memory *memory,
		     const struct profile_hotspot *hotspot, const struct hotspot_trend *trend)
{
	json_t *alloc_windows = json_array();

	json_object_set_new(object, "frees", json_of_integer(hotspot->frees_count));
	json_object_set_new(object, "temporary", json_of_integer(hotspot->temporary_count));
	json_set_measured(object, "live_count", hotspot->live_count);
	json_set_measured(object, "live_bytes", hotspot->live_bytes);
	json_set_measured(object, "live_at_peak_bytes", hotspot->live_at_peak_bytes);
	json_set_measured(object, "peak_bytes", hotspot->peak_bytes);
	json_set_measured(object, "lifetime_ns", hotspot->lifetime_ns);
	if (hotspot->live_count)
		json_set_measured(object, "oldest_at_ns", since_start(p, hotspot->oldest_ns));
	if (trend->slope_bytes_per_s >= 0)
		json_object_set_new(object, "slope_bytes_per_s",
				    json_of_integer((uint64_t)(trend->slope_bytes_per_s + 0.5)));
	for (size_t i = 0; i < memory->alloc_windows_count && i < PROFILE_ALLOC_WINDOWS; i++)
		json_array_append_new(alloc_windows, json_of_integer(hotspot->live_windows[i]));
	json_object_set_new(object, "windows", alloc_windows);
}

static json_t *hotspot_object(const struct profile *p, const struct profile_memory *memory,
			      const struct profile_hotspot *hotspot,
			      const struct hotspot_trend *trend)
{
	const struct profile_function *function = profile_function(p, hotspot->function);
	json_t *object = json_object();

	json_object_set_new(object, "stack", stack_array(hotspot));
	json_object_set_new(object, "stack_cut", json_boolean(hotspot->stack_cut));
	if (function)
		json_object_set_new(object, "function", json_of_string(function->name));
	json_object_set_new(object, "allocator", json_of_string(hotspot->allocator));
	json_object_set_new(object, "allocs", json_of_integer(hotspot->allocs.value));
	json_object_set_new(object, "allocated_bytes",
			    json_of_integer(hotspot->allocated_bytes.value));
	if (memory->sampled)
		set_estimate(object, hotspot);
	if (memory->current_bytes != PROFILE_ABSENT)
		set_live(object, p, memory, hotspot, trend);
	json_object_set_new(object, "leak", json_boolean(trend->leak));
	return object;
}

static void put_hotspots(struct json_output *o, const struct profile *p,
			 const struct profile_memory *memory,
			 const struct memory_analysis *analysis)
{
	size_t count =
		memory->hotspots_count < HOTSPOTS_MAX ? memory->hotspots_count : HOTSPOTS_MAX;

	json_put(o, "hotspots_left_out", json_of_integer(memory->hotspots_count - count));
	json_open(o, "hotspots", '[');
	for (size_t i = 0; i < count; i++)
		json_put(o, NULL,
			 hotspot_object(p, memory, &memory->hotspots[i], &analysis->trends[i]));
	json_close(o, ']');
}

/* Each name once: the CUDA runtime and the driver are two files. */
static json_t *allocator_names(const struct profile_memory *memory)
{
	json_t *array = json_array();

	for (size_t i = 0; i < memory->allocators_count; i++) {
		json_t *name = json_of_string(memory->allocators[i].name), *known;
		bool is_new = true;
		size_t k;

		json_array_foreach(array, k, known) is_new = is_new && !json_equal(known, name);
		if (is_new)
			json_array_append(array, name);
		json_decref(name);
	}
	return array;
}

static void put_allocators(struct json_output *o, const struct profile_memory *memory)
{
	bool frees_seen = memory->current_bytes != PROFILE_ABSENT;

	json_open(o, "allocators", '[');
	for (size_t i = 0; i < memory->allocators_count; i++) {
		const struct profile_allocator *allocator = &memory->allocators[i];
		json_t *object = json_object();

		json_object_set_new(object, "name", json_of_string(allocator->name));
		json_object_set_new(object, "module", json_of_string(allocator->module));
		json_object_set_new(object, "allocs", json_of_integer(allocator->allocs_count));
		if (frees_seen)
			json_object_set_new(object, "frees",
					    json_of_integer(allocator->frees_count));
		json_object_set_new(object, "allocated_bytes",
				    json_of_integer(allocator->allocated_bytes));
		if (frees_seen)
			json_set_measured(object, "live_bytes", allocator->live_bytes);
		json_put(o, NULL, object);
	}
	json_close(o, ']');
}

/* See PROFILE_SIZES. */
static uint64_t largest_of(unsigned bucket)
{
	return bucket ? 1ULL << (bucket - 1) : 0;
}

static void put_sizes(struct json_output *o, const struct profile_memory *memory)
{
	json_open(o, "sizes", '[');
	for (unsigned i = 0; i < PROFILE_SIZES; i++) {
		json_t *object;

		if (!memory->sizes[i])
			continue;
		object = json_object();
		json_object_set_new(object, "min_bytes",
				    json_of_integer(i ? largest_of(i - 1) + 1 : 0));
		if (i < PROFILE_SIZES - 1)
			json_object_set_new(object, "max_bytes", json_of_integer(largest_of(i)));
		json_object_set_new(object, "allocs", json_of_integer(memory->sizes[i]));
		json_put(o, NULL, object);
	}
	json_close(o, ']');
}

static void put_series(struct json_output *o, const struct profile *p,
		       const struct profile_memory *memory)
{
	json_open(o, "series", '[');
	for (size_t i = 0; i < memory->points_count; i++) {
		const struct profile_memory_point *point = &memory->points[i];
		json_t *object = json_object();

		json_object_set_new(object, "at_ns",
				    json_of_integer(since_start(p, point->time_ns)));
		if (memory->current_bytes != PROFILE_ABSENT)
			json_set_measured(object, "live_bytes", point->live_bytes);
		json_object_set_new(object, "allocs", json_of_integer(point->allocs_count));
		json_object_set_new(object, "allocated_bytes",
				    json_of_integer(point->allocated_bytes));
		json_put(o, NULL, object);
	}
	json_close(o, ']');
}

static const char *bound_name(unsigned bound)
{
	if (bound == PROFILE_MEMORY_LOST_ALLOCS)
		return "lower";
	return bound == PROFILE_MEMORY_LOST_FREES ? "upper" : "both";
}

static void put_live_totals(struct json_output *o, const struct profile *p,
			    const struct profile_memory *memory)
{
	json_put(o, "frees", json_of_integer(memory->frees_count));
	json_put_measured(o, "unknown_frees", memory->unknown_frees_count);
	json_put_measured(o, "replaced", memory->replaced_count);
	json_put_measured(o, "temporary", memory->temporary_count);
	json_put_measured(o, "current_count", memory->current_count);
	json_put_measured(o, "current_bytes", memory->current_bytes);
	json_put_measured(o, "peak_bytes", memory->peak_bytes);
	json_put_measured(o, "peak_at_ns", since_start(p, memory->peak_ns));
	if (memory->bound)
		json_put(o, "bound", json_string(bound_name(memory->bound)));
}

static void put_totals(struct json_output *o, const struct profile *p,
		       const struct profile_memory *memory)
{
	json_put(o, "domain", json_string(profile_domain_name(memory->domain)));
	json_put(o, "allocator", allocator_names(memory));
	json_put(o, "level", json_string(name_of_memory_level(memory->level)));
	json_put(o, "sampled", json_boolean(memory->sampled));
	if (memory->sampled)
		json_put(o, "sample_bytes", json_of_integer(memory->sample_bytes));
	json_put_measured(o, "recorded_ns", memory->recorded_ns);
	json_put(o, "frees_seen", json_boolean(memory->current_bytes != PROFILE_ABSENT));
	json_put(o, "allocs", json_of_integer(memory->allocs.value));
	json_put(o, "allocated_bytes", json_of_integer(memory->allocated_bytes.value));
	if (memory->sampled) {
		json_put(o, "allocs_low", json_of_integer(memory->allocs.low));
		json_put(o, "allocs_high", json_of_integer(memory->allocs.high));
		json_put(o, "allocated_bytes_low", json_of_integer(memory->allocated_bytes.low));
		json_put(o, "allocated_bytes_high", json_of_integer(memory->allocated_bytes.high));
	}
	if (memory->current_bytes != PROFILE_ABSENT)
		put_live_totals(o, p, memory);
	json_put(o, "lost_allocs", json_of_integer(memory->lost_allocs_count));
	json_put(o, "lost_allocated_bytes", json_of_integer(memory->lost_allocated_bytes));
	json_put(o, "lost_frees", json_of_integer(memory->lost_frees_count));
}

void json_put_memory(struct json_output *o, const struct profile *p,
		     const struct profile_process *process, const struct process_analysis *analysis)
{
	if (!process->memory_count)
		return;
	json_open(o, "memory", '[');
	for (size_t i = 0; i < process->memory_count; i++) {
		const struct profile_memory *memory = &process->memory[i];

		json_open(o, NULL, '{');
		put_totals(o, p, memory);
		put_allocators(o, memory);
		put_sizes(o, memory);
		if (memory->alloc_windows_count) {
			json_put(o, "window_ns", json_of_integer(memory->alloc_window_ns));
			json_put(o, "windows_from_ns",
				 json_of_integer(since_start(p, memory->alloc_windows_from_ns)));
		}
		put_series(o, p, memory);
		if (analysis->memory[i].unjudged)
			json_put(o, "leaks_not_judged", json_string(analysis->memory[i].unjudged));
		put_hotspots(o, p, memory, &analysis->memory[i]);
		json_close(o, '}');
	}
	json_close(o, ']');
}
