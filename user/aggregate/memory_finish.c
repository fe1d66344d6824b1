// SPDX-License-Identifier: BSD-2-Clause
/* Domain statistics → profile. */
#include "aggregate/memory.h"

#include "aggregate/calls.h"
#include "base/order.h"

#include <stdlib.h>

/* The source of a domain of a process. */
struct memory_source {
	const struct finish_ctx *ctx;
	struct aggregate *a;
	struct profile_process *process;
	struct domain_stats *stats; /* NULL: nothing happened */
	enum perfx_domain domain;
};

static void fill_live(const struct memory_source *source, const struct hotspot *hotspot,
		      const struct kept *kept, size_t alloc_windows_count,
		      struct profile_hotspot *out)
{
	if (source->stats->blind) {
		out->live_count = out->live_bytes = PROFILE_ABSENT;
		out->live_at_peak_bytes = out->peak_bytes = PROFILE_ABSENT;
		out->oldest_ns = out->old_bytes = PROFILE_ABSENT;
		return;
	}
	out->live_count = memory_whole(hotspot->live_count);
	out->live_bytes = memory_whole(hotspot->live_bytes);
	out->live_at_peak_bytes = memory_whole(hotspot->live_at_peak);
	out->peak_bytes = memory_whole(hotspot->peak_bytes);
	out->oldest_ns = hotspot->oldest_ns;
	out->old_bytes = memory_whole(hotspot->old_bytes);
	for (size_t i = 0; i < alloc_windows_count; i++) {
		out->live_windows[i] =
			memory_whole(i < hotspot->alloc_window ? hotspot->alloc_windows[i]
							       : hotspot->live_bytes);
		out->kept_windows[i] = memory_whole(kept->alloc_windows[i]);
	}
}

static void fill_hotspot(struct memory_source *source, const struct hotspot *hotspot,
			 const struct kept *kept, size_t alloc_windows_count,
			 struct profile_hotspot *out)
{
	const struct aggregate *a = source->a;
	const struct profile_stack *stack;
	const struct context *context;
	/* a copy, for the hotspot may go on changing */
	struct hotspot now = *hotspot;

	hotspot_touch(source->stats, &now, source->process->to_ns);
	*out = (struct profile_hotspot){
		.allocator = memory_allocator_of(a->memory, now.allocator)->name,
		.allocs = tally_count(&now.tally, &source->stats->tally),
		.allocated_bytes = tally_bytes(&now.tally),
		.left_out_count = now.left_out_count,
		.frees_count = memory_whole(now.frees),
		.temporary_count = source->stats->frees_inferred ? PROFILE_ABSENT
								 : memory_whole(now.temporary),
		.freed_bytes = memory_whole(now.freed_bytes),
		.lifetime_ns = now.ended ? (uint64_t)(now.lifetimes / now.ended) : PROFILE_ABSENT,
	};
	fill_live(source, &now, kept, alloc_windows_count, out);
	/* its context may be unknown, or another process's where records lie */
	context = now.context ? context_find(a, now.context) : NULL;
	if (context && (context->described || context->row) &&
	    context->process == source->process->index) {
		const struct profile_function *function = function_at(a, context->function);

		out->context = now.context;
		out->function = function && function->id ? context->function : 0;
	}
	stack = stack_of(source->ctx, source->process->index, now.stack);
	if (stack) {
		/* the marker's own function, inlined or libperfx's, is not the place that allocates
		 */
		bool marked = source->domain == PERFX_DOMAIN_USER && stack->frames_count > 1 &&
			      !strcmp(stack->frames[0]->function, "perfx_memory_alloc");

		out->frames = stack->frames + marked;
		out->frames_count = stack->frames_count - marked;
		out->stack_flags = stack->flags;
	}
}

ORDER(by_peak, struct profile_hotspot, DESCENDING(a->live_at_peak_bytes, b->live_at_peak_bytes),
      DESCENDING(a->allocated_bytes.value, b->allocated_bytes.value),
      DESCENDING(a->allocs.value, b->allocs.value), DESCENDING(b->context, a->context),
      strcmp(a->allocator, b->allocator))

static int fill_hotspots(struct memory_source *source, struct profile_memory *out)
{
	struct domain_stats *stats = source->stats;
	struct kept *kept = calloc(stats->hotspots_count + 1, sizeof(*kept));
	uint32_t place = 0;

	out->hotspots = calloc(stats->hotspots_count + 1, sizeof(*out->hotspots));
	if (!out->hotspots || !kept) {
		free(kept);
		return -ENOMEM;
	}
	for (struct hotspot *h = stats->hotspots; h; h = h->next)
		h->place = place++;
	live_ages(stats, source->process->from_ns + profile_wall_ns(source->process) / 2, kept);
	for (const struct hotspot *h = stats->hotspots; h; h = h->next)
		fill_hotspot(source, h, &kept[h->place], out->alloc_windows_count,
			     &out->hotspots[out->hotspots_count++]);
	free(kept);
	SORT_ITEMS(out->hotspots, out->hotspots_count, by_peak);
	return 0;
}

void profile_memory_clear(struct profile_memory *memory, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(memory[i].hotspots);
		free(memory[i].allocators);
		free(memory[i].points);
	}
	free(memory);
}

/* How long a mode of the domain lasted while the process was there. */
static uint64_t lasted_ns(const struct memory_domain *domain, size_t mode,
			  const struct profile_process *process)
{
	struct profile_interval lasted = {domain->modes[mode].time_ns, UINT64_MAX};

	if (mode + 1 < domain->modes_count)
		lasted.to_ns = domain->modes[mode + 1].time_ns;
	return profile_overlap_ns(&lasted, process->from_ns, process->to_ns);
}

static uint64_t recorded_ns(const struct memory_domain *domain,
			    const struct profile_process *process)
{
	uint64_t sum = 0;

	if (!domain->modes_count)
		return profile_wall_ns(process);
	for (size_t i = 0; i < domain->modes_count; i++) {
		const struct memory_mode *mode = &domain->modes[i];
		uint64_t ns = mode->level == PERFX_MEMORY_OFF ? 0 : lasted_ns(domain, i, process);

		add_up(&sum, mode->on_ns < mode->period_ns
				     ? (uint64_t)((u128)ns * mode->on_ns / mode->period_ns)
				     : ns);
	}
	return sum;
}

/* The rarest sampling while the process was there; 0: none. */
static uint64_t sampled_at(const struct memory_domain *domain,
			   const struct profile_process *process)
{
	uint64_t most = 0;

	for (size_t i = 0; i < domain->modes_count; i++)
		if (lasted_ns(domain, i, process))
			most = max_u64(most, domain->modes[i].sample_bytes);
	return most;
}

static void add_lost(struct profile_estimate *estimate, uint64_t count)
{
	add_up(&estimate->value, count);
	add_up(&estimate->low, count);
	add_up(&estimate->high, count);
}

static void fill_estimates(const struct memory_source *source, const struct memory_domain *domain,
			   struct profile_memory *out)
{
	const struct domain_stats *stats = source->stats;
	struct tally tally = {0};

	if (stats)
		tally = stats->tally;
	/* nothing was sampled: a block of any size may have been missed */
	if (out->sampled && !tally.sampled_count)
		tally.missed_bytes = tally.missed_count =
			(double)sampled_at(domain, source->process);
	out->allocs = tally_count(&tally, &tally);
	out->allocated_bytes = tally_bytes(&tally);
	if (!stats)
		return;
	out->bound = stats->bound;
	out->lost_allocs_count = stats->lost_allocs;
	out->lost_allocated_bytes = stats->lost_bytes;
	out->lost_frees_count = stats->lost_frees;
	add_lost(&out->allocs, stats->lost_allocs);
	add_lost(&out->allocated_bytes, stats->lost_bytes);
}

static void fill_sums(const struct domain_stats *stats, struct profile_memory *out)
{
	out->frees_count = add_capped(memory_whole(stats->frees), stats->lost_frees);
	out->unknown_frees_count = stats->unknown_frees;
	out->replaced_count = stats->replaced;
	out->frees_inferred = stats->frees_inferred;
	out->temporary_count =
		stats->frees_inferred ? PROFILE_ABSENT : memory_whole(stats->temporary);
	for (int i = 0; i < PROFILE_SIZES; i++)
		out->sizes[i] = memory_whole(stats->sizes[i]);
	out->current_count = memory_whole(stats->live_count);
	out->current_bytes = memory_whole(stats->live_bytes);
	out->peak_bytes = memory_whole(stats->peak_bytes);
	out->peak_ns = stats->peak_bytes ? stats->peak_ns : PROFILE_ABSENT;
	if (!stats->blind)
		return;
	out->current_count = out->current_bytes = PROFILE_ABSENT;
	out->peak_bytes = out->peak_ns = PROFILE_ABSENT;
}

/* The series, and where it ends. */
static int fill_points(const struct memory_source *source, struct profile_memory *out)
{
	const struct domain_stats *stats = source->stats;
	uint64_t end_ns = source->process->to_ns;

	out->points = calloc(stats->points_count + 2, sizeof(*out->points));
	if (!out->points)
		return -ENOMEM;
	out->points_count = stats->points_count;
	if (stats->points_count) {
		memcpy(out->points, stats->points, stats->points_count * sizeof(*out->points));
		end_ns = max_u64(end_ns, out->points[stats->points_count - 1].time_ns);
	}
	/* nothing has happened since that slot was over */
	if (stats->point_due_ns && stats->point_due_ns < end_ns)
		out->points[out->points_count++] = domain_stats_point(stats, stats->point_due_ns);
	out->points[out->points_count++] = domain_stats_point(stats, end_ns);
	return 0;
}

ORDER(by_allocated, struct profile_allocator, DESCENDING(a->allocated_bytes, b->allocated_bytes),
      strcmp(a->name, b->name))

/* Sums over the hotspots. */
static int fill_allocators(const struct memory_source *source, struct profile_memory *out)
{
	uint32_t places[AGGREGATE_ALLOCATORS_MAX + 1] = {0}; /* by id: index + 1 */
	size_t capacity = 0;

	for (const struct hotspot *h = source->stats->hotspots; h; h = h->next) {
		uint32_t *place = &places[h->allocator];
		struct profile_allocator *sums;

		if (!*place) {
			const struct memory_allocator *allocator =
				memory_allocator_of(source->a->memory, h->allocator);

			if (grow_array(&out->allocators, &capacity, out->allocators_count + 1,
				       sizeof(*out->allocators)))
				return -ENOMEM;
			out->allocators[out->allocators_count] = (struct profile_allocator){
				.name = allocator->name, .module = allocator->module};
			*place = (uint32_t)++out->allocators_count;
		}
		sums = &out->allocators[*place - 1];
		add_up(&sums->allocs_count, tally_count_value(&h->tally));
		add_up(&sums->allocated_bytes, tally_bytes_value(&h->tally));
		add_up(&sums->frees_count, memory_whole(h->frees));
		if (source->stats->blind)
			sums->live_bytes = PROFILE_ABSENT;
		else
			add_up(&sums->live_bytes, memory_whole(h->live_bytes));
	}
	SORT_ITEMS(out->allocators, out->allocators_count, by_allocated);
	return 0;
}

static int fill_domain_stats(struct memory_source *source, struct profile_memory *out)
{
	struct memory *memory = source->a->memory;
	struct domain_stats *stats = source->stats;
	const struct memory_domain *domain =
		memory_domain_of(memory, source->process->merged, source->domain);

	out->domain = source->domain;
	if (stats)
		domain_stats_note_modes(stats);
	out->recorded_ns = recorded_ns(domain, source->process);
	out->level = memory_mode_now(domain)->level;
	out->sampled =
		sampled_at(domain, source->process) > 0 || (stats && stats->tally.sampled_count);
	if (domain->sampling_mode)
		out->sample_bytes = domain->modes[domain->sampling_mode - 1].sample_bytes;
	fill_estimates(source, domain, out);
	out->peak_ns = PROFILE_ABSENT;
	if (!stats)
		return 0;
	fill_sums(stats, out);
	if (memory->clock.started && !stats->blind) {
		out->alloc_windows_count = alloc_window_at(memory, source->process->to_ns) + 1;
		out->alloc_window_ns = ALLOC_WINDOW_NS << memory->clock.level;
		out->alloc_windows_from_ns = memory->clock.start_ns;
		domain_stats_level_unknown(stats);
		memcpy(out->unknown_frees_windows, stats->unknown_windows,
		       sizeof(out->unknown_frees_windows));
	}
	return fill_points(source, out) ?: fill_allocators(source, out)
		       ?: fill_hotspots(source, out);
}

static int fill_process(const struct finish_ctx *w, struct profile_process *process)
{
	const struct memory *memory = w->a->memory;
	struct memory_source sources[PERFX_DOMAINS];
	size_t count = 0;
	int err = 0;

	for (int domain = 1; domain < PERFX_DOMAINS; domain++) {
		const struct memory_domain *recorded =
			memory_domain_of(memory, process->merged, domain);

		sources[count] = (struct memory_source){
			.ctx = w,
			.a = w->a,
			.process = process,
			.stats = domain_stats_find(memory, process->index, domain),
			.domain = domain,
		};
		/* nothing happened in a domain that was recorded while the process was there: it is
		 * 0 where there is something to allocate with */
		count += sources[count].stats ||
			 (memory->has_allocator[domain] && recorded->modes_count &&
			  recorded_ns(recorded, process));
	}
	/* of thousands of processes most may have none */
	process->memory = count ? calloc(count, sizeof(*process->memory)) : NULL;
	if (count && !process->memory)
		return -ENOMEM;
	for (size_t i = 0; i < count && !err; i++)
		err = fill_domain_stats(&sources[i], &process->memory[process->memory_count++]);
	return err;
}

/* Which of its domains a process's functions are charged by. */
static const struct profile_memory *charged(const struct profile_process *process)
{
	static const enum perfx_domain order[] = {PERFX_DOMAIN_TENSOR, PERFX_DOMAIN_HOST,
						  PERFX_DOMAIN_GPU, PERFX_DOMAIN_USER};

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		FOR_EACH (memory, process->memory)
			if (memory->domain == order[i] && memory->allocs.value)
				return memory;
	return process->memory_count ? &process->memory[0] : NULL;
}

static int charge_rows(struct profile_process *process)
{
	const struct profile_memory *memory = charged(process);
	struct map64 rows = {0};
	int err = 0;

	if (!memory)
		return 0;
	for (uint32_t i = 0; i < process->rows_count && !err; i++) {
		process->rows[i].alloc_bytes = 0;
		err = map64_put(&rows, process->rows[i].function, i);
	}
	FOR_EACH (hotspot, memory->hotspots) {
		struct profile_row *row = MAP64_FIND(rows, hotspot->function, process->rows);

		if (row && !err)
			add_up(&row->alloc_bytes, hotspot->allocated_bytes.value);
	}
	map64_clear(&rows);
	return err;
}

int memory_fill(struct finish_ctx *w)
{
	struct profile *p = w->profile;
	int err = 0;

	/* the windows of all processes are of one length: that which the whole trace needs */
	if (w->a->memory->clock.started)
		alloc_window_at(w->a->memory, add_capped(p->start_ns, p->duration_ns));
	for (size_t i = 0; i < p->processes_count && !err; i++)
		err = fill_process(w, &p->processes[i]) ?: charge_rows(&p->processes[i]);
	/* of processes that nothing described */
	FOR_EACH (slot, w->a->memory->stats) {
		const struct domain_stats *stats = *slot;
		const struct process *proc = stats ? process_find(w->a, stats->process) : NULL;

		if (proc && w->places[stats->process] == MAP64_NONE &&
		    !process_is_bygone(w->a, proc))
			add_up(&w->hidden_records, stats->records_count);
	}
	p->memory_records_count = w->a->memory->records_count;
	return err;
}
