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

json_t *json_of_stack(const struct profile_hotspot *hotspot)
{
	json_t *array = json_array();

	for (size_t i = 0; i < hotspot->frames_count; i++)
		json_array_append_new(array, frame_string(hotspot->frames[i]));
	return array;
}

json_t *json_of_windows(const struct profile_memory *memory, const struct profile_hotspot *hotspot)
{
	json_t *array = json_array();

	for (size_t i = 0; i < memory->alloc_windows_count && i < PROFILE_ALLOC_WINDOWS; i++)
		json_array_append_new(array, json_of_integer(hotspot->live_windows[i]));
	return array;
}

static void put_hotspots(struct json_output *o, const struct profile *p,
			 const struct data_table_row *of_memory)
{
	const struct profile_memory *memory = &of_memory->process->memory[of_memory->item];
	struct data_table table = {.kind = data_table_kind_named("hotspots"), .profile = p};
	struct data_table_row row = *of_memory;
	size_t count =
		memory->hotspots_count < HOTSPOTS_MAX ? memory->hotspots_count : HOTSPOTS_MAX;

	json_put(o, "hotspots_left_out", json_of_integer(memory->hotspots_count - count));
	json_open(o, "hotspots", '[');
	for (; row.part < count; row.part++)
		json_put(o, NULL, json_of_row(&table, &row));
	json_close(o, ']');
	data_table_clear(&table);
}

/* Each name once: the CUDA runtime and the driver are two files. */
json_t *json_of_allocators(const struct profile_memory *memory)
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
				    json_of_integer(profile_since_start(p, point->time_ns)));
		if (memory->current_bytes != PROFILE_ABSENT)
			json_set_measured(object, "live_bytes", point->live_bytes);
		json_object_set_new(object, "allocs", json_of_integer(point->allocs_count));
		json_object_set_new(object, "allocated_bytes",
				    json_of_integer(point->allocated_bytes));
		json_put(o, NULL, object);
	}
	json_close(o, ']');
}

static void put_domain(struct json_output *o, struct data_table *table,
		       const struct data_table_row *row)
{
	const struct profile_memory *memory = &row->process->memory[row->item];
	const char *unjudged = row->analysis->memory[row->item].unjudged;
	const struct profile *p = table->profile;

	json_open(o, NULL, '{');
	json_put_members(o, json_of_row(table, row));
	put_allocators(o, memory);
	put_sizes(o, memory);
	if (memory->alloc_windows_count) {
		json_put(o, "window_ns", json_of_integer(memory->alloc_window_ns));
		json_put(o, "windows_from_ns",
			 json_of_integer(profile_since_start(p, memory->alloc_windows_from_ns)));
	}
	put_series(o, p, memory);
	if (unjudged)
		json_put(o, "leaks_not_judged", json_string(unjudged));
	put_hotspots(o, p, row);
	json_close(o, '}');
}

void json_put_memory(struct json_output *o, const struct profile *p,
		     const struct data_table_row *of_process)
{
	struct data_table table = {.kind = data_table_kind_named("memory"), .profile = p};
	struct data_table_row row = *of_process;

	if (!row.process->memory_count)
		return;
	json_open(o, "memory", '[');
	for (; row.item < row.process->memory_count; row.item++)
		put_domain(o, &table, &row);
	json_close(o, ']');
	data_table_clear(&table);
}
