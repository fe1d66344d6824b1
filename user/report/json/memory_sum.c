// SPDX-License-Identifier: BSD-2-Clause
/* What the memory of a process, and of the job, consists of. */
#include "analyze/memory_sum.h"

#include "base/grow.h"
#include "report/json/output.h"

/* Resident parts that are not 0, in bytes; of all processes the proportional ones. */
static json_t *memory_parts_of(const __u64 *parts)
{
	json_t *object = json_object();

	for (int i = 0; i < PERFX_MEMORY_PARTS; i++)
		json_set(object, memory_part_key(i), json_of_count(parts[i]));
	return object;
}

static json_t *memory_sum_of(const struct profile *p, const struct perfx_memory_sum *sum)
{
	bool proportional = sum->flags & PERFX_MEMORY_SUM_PROPORTIONAL;

	return json_object_of(
		{"time_ns", json_of_integer(profile_since_start(p, sum->time_ns))},
		{"resident_bytes", json_of_integer(memory_sum_resident(sum))},
		{"proportional_bytes",
		 json_of_measured(proportional ? memory_sum_proportional(sum) : PROFILE_ABSENT)},
		{"private_bytes", json_of_integer(sum->private_bytes)},
		{"swapped_bytes", json_of_integer(sum->swapped_bytes)},
		{"reserved_bytes", json_of_integer(sum->reserved_bytes)},
		{"huge_page_bytes", json_of_count(sum->huge_bytes)},
		{"resident", memory_parts_of(sum->resident)},
		{"proportional", proportional ? memory_parts_of(sum->proportional) : json_null()});
}

/* Heaps of other allocators than glibc's. */
static void put_other_heaps(json_t *object, const struct perfx_memory_sum *sum)
{
	struct perfx_memory_sum others = *sum;
	struct text names = {0};

	others.flags &= ~(uint32_t)PERFX_MEMORY_SUM_GLIBC;
	if (memory_sum_allocators(&others, true, &names))
		json_set(object, "other_heaps",
			 json_object_of(
				 {"libraries", json_string(text_peek(&names))},
				 {"held_bytes", json_of_integer(sum->other_heaps_held_bytes)},
				 {"free_bytes", json_of_integer(sum->other_heaps_free_bytes)}));
	text_clear(&names);
	if (memory_sum_allocators(sum, false, &names))
		json_set(object, "unread_heaps", json_string(text_peek(&names)));
	text_clear(&names);
}

void json_put_memory_sums(struct json_output *o, const struct profile *p,
			  const struct profile_process *process)
{
	const struct profile_memory_sums *sums = process->memory_sums;

	if (!sums)
		return;
	json_open(o, "memory_sum", '{');
	for (int i = 0; i < MEMORY_MOMENTS; i++) {
		const struct perfx_memory_sum *sum = memory_sum_at(process, i);
		json_t *object = memory_sum_of(p, sum);

		json_set(object, "traced_live_bytes",
			 json_of_measured(memory_sum_traced(process, sum)));
		if (sum->flags & PERFX_MEMORY_SUM_GLIBC)
			json_set(object, "malloc",
				 json_object_of(
					 {"library", json_string("glibc")},
					 {"arenas", json_of_integer(sum->heap_arenas_count)},
					 {"held_bytes", json_of_integer(sum->heap_held_bytes)},
					 {"free_bytes", json_of_integer(sum->heap_free_bytes)},
					 {"mapped_bytes", json_of_measured(sum->heap_mapped_bytes)},
					 {"rough", sum->flags & PERFX_MEMORY_SUM_ROUGH
							   ? json_true()
							   : json_null()}));
		put_other_heaps(object, sum);
		if (sum->flags & PERFX_MEMORY_SUM_PYTHON)
			json_set_integer(object, "python_blocks", sum->python_blocks_count);
		json_put(o, memory_moment_name(i), object);
	}
	json_open(o, "series", '[');
	for (size_t i = 0; i < sums->points_count; i++)
		json_put(o, NULL,
			 json_object_of({"time_ns", json_of_integer(profile_since_start(
							    p, sums->points[i].time_ns))},
					{"resident", memory_parts_of(sums->points[i].resident)}));
	json_close(o, ']');
	json_close(o, '}');
}

/* All processes: shared memory counts once. */
void json_put_job_memory(struct json_output *o, const struct profile *p)
{
	struct perfx_memory_sum sum;

	if (!memory_sum_of_job(p, MEMORY_END, &sum) || !(sum.flags & PERFX_MEMORY_SUM_PROPORTIONAL))
		return;
	json_open(o, "memory_sum", '{');
	for (int i = 0; i < MEMORY_MOMENTS; i++) {
		size_t count = memory_sum_of_job(p, i, &sum);

		json_put(o, memory_moment_name(i),
			 json_object_of({"time_ns",
					 json_of_integer(profile_since_start(p, sum.time_ns))},
					{"processes", json_of_integer(count)},
					{"bytes", json_of_integer(memory_sum_proportional(&sum))},
					{"swapped_bytes", json_of_integer(sum.swapped_bytes)},
					{"parts", memory_parts_of(sum.proportional)}));
	}
	json_close(o, '}');
}
