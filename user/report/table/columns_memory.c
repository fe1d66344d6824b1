// SPDX-License-Identifier: BSD-2-Clause
/* Columns about memory: domains, and the places that allocate. */
#include "analyze/location.h"
#include "decode/names.h"
#include "report/json/output.h"
#include "report/table/columns.h"

ITEM(memory_of, profile_memory, &r->process->memory[r->item])

static bool sees_frees(const struct data_table_row *r)
{
	return memory_of(r)->current_bytes != PROFILE_ABSENT;
}

static struct value get_allocators(struct data_table *s, const struct data_table_row *r)
{
	const struct profile_memory *memory = memory_of(r);

	text_clear(&s->made);
	for (size_t i = 0; i < memory->allocators_count; i++)
		text_printf(&s->made, "%s%s", i ? " " : "", memory->allocators[i].name);
	return words(text_peek(&s->made));
}

/* Bounds of an estimate. */
static struct value sampled(const struct data_table_row *r, uint64_t number)
{
	return memory_of(r)->sampled ? integer(number) : absent();
}

static struct value freed(const struct data_table_row *r, uint64_t number)
{
	return sees_frees(r) ? integer(number) : absent();
}

VALUE(get_bound, !sees_frees(r) || !memory_of(r)->bound		     ? absent()
		 : memory_of(r)->bound == PROFILE_MEMORY_LOST_ALLOCS ? words("lower")
		 : memory_of(r)->bound == PROFILE_MEMORY_LOST_FREES  ? words("upper")
								     : words("both"))
VALUE(get_domain, words(name_of_domain(memory_of(r)->domain)))
VALUE(get_allocator_list, nested(json_of_allocators(memory_of(r))))
VALUE(get_level, words(name_of_memory_level(memory_of(r)->level)))
VALUE(get_sample_bytes, sampled(r, memory_of(r)->sample_bytes))
VALUE(get_frees_seen, flag(sees_frees(r)))
VALUE(get_allocs_low, sampled(r, memory_of(r)->allocs.low))
VALUE(get_allocs_high, sampled(r, memory_of(r)->allocs.high))
VALUE(get_allocated_low, sampled(r, memory_of(r)->allocated_bytes.low))
VALUE(get_allocated_high, sampled(r, memory_of(r)->allocated_bytes.high))
VALUE(get_frees, freed(r, memory_of(r)->frees_count))
VALUE(get_unknown_frees, freed(r, memory_of(r)->unknown_frees_count))
VALUE(get_replaced, freed(r, memory_of(r)->replaced_count))
VALUE(get_temporary, freed(r, memory_of(r)->temporary_count))

/* A lower bound of the peak's address space that was only reserved, never resident. */
VALUE(get_reserved, memory_is_reserved(r->process, memory_of(r))
			    ? integer(memory_of(r)->peak_bytes - r->process->rss_peak_bytes)
			    : absent())
VALUE(get_peak_at, integer(profile_since_start(s->profile, memory_of(r)->peak_ns)))

static const struct data_table_column memory_columns[] = {
	OF_PROCESS,
	{"domain", .get = get_domain, WORDS},
	{"allocator", .get = get_allocators, WORDS, CSV},
	{"allocator", .get = get_allocator_list, NESTED, JSON},
	{"level", .get = get_level, WORDS},
	{"sampled", AT(profile_memory, sampled)},
	{"sample_bytes", .get = get_sample_bytes, JSON},
	{"recorded_ns", COUNT_AT(profile_memory, recorded_ns), JSON},
	{"frees_seen", .get = get_frees_seen, JSON},
	{"allocs", COUNT_AT(profile_memory, allocs.value)},
	{"allocated_bytes", COUNT_AT(profile_memory, allocated_bytes.value), JSON},
	{"allocs_low", .get = get_allocs_low, JSON},
	{"allocs_high", .get = get_allocs_high, JSON},
	{"allocated_bytes_low", .get = get_allocated_low, JSON},
	{"allocated_bytes_high", .get = get_allocated_high, JSON},
	{"frees", .get = get_frees},
	{"unknown_frees", .get = get_unknown_frees},
	{"replaced", .get = get_replaced, JSON},
	{"temporary", .get = get_temporary},
	{"allocated_bytes", COUNT_AT(profile_memory, allocated_bytes.value), CSV},
	{"current_count", AT(profile_memory, current_count)},
	{"current_bytes", AT(profile_memory, current_bytes)},
	{"peak_bytes", AT(profile_memory, peak_bytes)},
	{"peak_at_ns", .get = get_peak_at},
	{"peak_reserved_bytes", .get = get_reserved, JSON},
	{"bound", .get = get_bound, WORDS, JSON},
	{"lost_allocs", COUNT_AT(profile_memory, lost_allocs_count)},
	{"lost_allocated_bytes", COUNT_AT(profile_memory, lost_allocated_bytes), JSON},
	{"lost_frees", COUNT_AT(profile_memory, lost_frees_count)},
};

ITEM(hotspot_of, profile_hotspot, &memory_of(r)->hotspots[r->part])

VALUE(get_stack, column_frames(s, hotspot_of(r)->frames, hotspot_of(r)->frames_count))

VALUE(get_running, function_name(s, hotspot_of(r)->function))
VALUE(get_slope, rounded(r->analysis->memory[r->item].trends[r->part].slope_bytes_per_s))
VALUE(get_frames, nested(json_of_frames(hotspot_of(r)->frames, hotspot_of(r)->frames_count)))
VALUE(get_stack_guessed, hotspot_of(r)->stack_flags &PERFX_STACK_GUESSED ? flag(true) : absent())
VALUE(get_stack_cut, flag((hotspot_of(r)->stack_flags & PERFX_STACK_CUT) != 0))
VALUE(get_hotspot_allocs_low, sampled(r, hotspot_of(r)->allocs.low))
VALUE(get_hotspot_allocs_high, sampled(r, hotspot_of(r)->allocs.high))
VALUE(get_hotspot_allocated_low, sampled(r, hotspot_of(r)->allocated_bytes.low))
VALUE(get_hotspot_allocated_high, sampled(r, hotspot_of(r)->allocated_bytes.high))
VALUE(get_hotspot_frees, freed(r, hotspot_of(r)->frees_count))
VALUE(get_hotspot_temporary, freed(r, hotspot_of(r)->temporary_count))
VALUE(get_oldest, hotspot_of(r)->live_count
			  ? freed(r, profile_since_start(s->profile, hotspot_of(r)->oldest_ns))
			  : absent())
VALUE(get_windows, sees_frees(r) ? nested(json_of_windows(memory_of(r), hotspot_of(r))) : absent())
VALUE(get_leak, flag(r->analysis->memory[r->item].trends[r->part].leak))

static const struct data_table_column hotspots_columns[] = {
	OF_PROCESS,
	{"domain", .get = get_domain, WORDS, CSV},
	{"allocator", AT(profile_hotspot, allocator), CSV},
	{"stack", .get = get_stack, WORDS, CSV},
	{"stack", .get = get_frames, NESTED, JSON},
	{"stack_cut", .get = get_stack_cut, JSON},
	{"stack_guessed", .get = get_stack_guessed, JSON},
	{"function", .get = get_running, WORDS},
	{"allocator", AT(profile_hotspot, allocator), JSON},
	{"allocs", COUNT_AT(profile_hotspot, allocs.value)},
	{"allocated_bytes", COUNT_AT(profile_hotspot, allocated_bytes.value), JSON},
	{"allocs_low", .get = get_hotspot_allocs_low, JSON},
	{"allocs_high", .get = get_hotspot_allocs_high, JSON},
	{"allocated_bytes_low", .get = get_hotspot_allocated_low, JSON},
	{"allocated_bytes_high", .get = get_hotspot_allocated_high, JSON},
	{"frees", .get = get_hotspot_frees},
	{"allocated_bytes", COUNT_AT(profile_hotspot, allocated_bytes.value), CSV},
	{"temporary", .get = get_hotspot_temporary, JSON},
	{"live_count", AT(profile_hotspot, live_count)},
	{"live_bytes", AT(profile_hotspot, live_bytes)},
	{"live_at_peak_bytes", AT(profile_hotspot, live_at_peak_bytes)},
	{"peak_bytes", AT(profile_hotspot, peak_bytes)},
	{"lifetime_ns", AT(profile_hotspot, lifetime_ns)},
	{"oldest_at_ns", .get = get_oldest, JSON},
	{"slope_bytes_per_s", .get = get_slope},
	{"windows", .get = get_windows, NESTED, JSON},
	{"leak", .get = get_leak},
};

static int fill_hotspots(struct data_table *s, const struct data_table_row *r)
{
	int err = 0;

	for (size_t i = 0; i < r->process->memory_count; i++)
		for (size_t j = 0; j < r->process->memory[i].hotspots_count && !err; j++)
			err = data_table_add(s, r, i, j);
	return err;
}

const struct data_table_kind memory_table = {COLUMNS(memory), NULL, memory_of_item,
					     EACH(memory_count)};
const struct data_table_kind hotspots_table = {COLUMNS(hotspots), NULL, hotspot_of_item,
					       .fill = fill_hotspots};
