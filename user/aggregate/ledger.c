// SPDX-License-Identifier: BSD-2-Clause
/* Ledgers: one domain of one process. Their threads, the points of their series, and how they were
 * recorded meanwhile. */
#include "aggregate/internal.h"

#include <stdlib.h>

struct memory_process *memory_process_get(struct aggregate *a, uint32_t process)
{
	struct memory *memory = &a->memory;

	if (process < memory->processes_capacity && memory->processes[process])
		return memory->processes[process];
	/* its book goes with it; errno is set */
	if (!books_get(a, process))
		return NULL;
	if (grow_array(&memory->processes, &memory->processes_capacity, (size_t)process + 1,
		       sizeof(*memory->processes))) {
		errno = ENOMEM;
		return NULL;
	}
	if (!memory->processes[process])
		memory->processes[process] = calloc(1, sizeof(struct memory_process));
	return memory->processes[process];
}

struct ledger *ledger_get(struct aggregate *a, uint32_t process, enum perfx_domain domain)
{
	struct memory_process *owner;
	struct ledger *ledger;

	owner = memory_process_get(a, process);
	if (!owner || owner->ledgers[domain])
		return owner ? owner->ledgers[domain] : NULL;
	ledger = calloc(1, sizeof(*ledger));
	if (!ledger)
		return NULL;
	ledger->process = process;
	ledger->domain = domain;
	ledger->modes_seen = (uint32_t)a->memory.domains[domain].modes_count;
	ledger->blind_seen = a->memory.domains[domain].blind_count;
	owner->ledgers[domain] = ledger;
	return ledger;
}

static void threads_free(struct memory *memory, struct ledger *ledger)
{
	for (size_t i = 0; i < ledger->threads_count; i++) {
		struct memory_thread *thread = &ledger->threads[i];

		if (thread->aside == ASIDE_BLOCK)
			block_release(&memory->blocks, thread->aside_block);
		while (thread->aside == ASIDE_MAPPINGS && thread->aside_mappings)
			thread->aside_mappings = mapping_release(memory, thread->aside_mappings);
	}
	free(ledger->threads);
	map64_clear(&ledger->thread_ids);
	ledger->threads = NULL;
	ledger->threads_capacity = ledger->threads_count = 0;
}

static void tables_free(struct memory *memory, struct ledger *ledger)
{
	threads_free(memory, ledger);
	block_table_clear(&memory->blocks, &ledger->blocks);
	mapped_clear(memory, &ledger->mappings);
}

void ledger__free(struct memory *memory, struct ledger *ledger)
{
	if (!ledger)
		return;
	tables_free(memory, ledger);
	map64_clear(&ledger->hotspot_ids);
	free(ledger->points);
	free(ledger);
}

const struct memory_mode *memory_mode_now(const struct memory_domain *domain)
{
	static const struct memory_mode exact = {.level = PERFX_MEMORY_EXACT};

	return domain->modes_count ? &domain->modes[domain->modes_count - 1] : &exact;
}

bool mode_is_blind(const struct memory_mode *mode)
{
	return mode->level == PERFX_MEMORY_OFF || mode->level == PERFX_MEMORY_SAMPLED_IN ||
	       mode->on_ns < mode->period_ns;
}

void ledger_note_modes(const struct memory *memory, struct ledger *ledger)
{
	const struct memory_domain *domain = &memory->domains[ledger->domain];

	/* what lived when it began may have gone unseen */
	if (ledger->blind_seen != domain->blind_count && ledger->live_count)
		ledger->blind = true;
	ledger->blind_seen = domain->blind_count;
	ledger->modes_seen = (uint32_t)domain->modes_count;
}

/* Every second point goes; the last one stays what the series ends with. */
static void thin_out(struct ledger *ledger)
{
	for (size_t i = 0; i < ledger->points_count; i += 2)
		ledger->points[i / 2] = ledger->points[i];
	ledger->points_count = (ledger->points_count + 1) / 2;
	ledger->point_step_ns *= 2;
	ledger->point_slot /= 2;
}

void ledger_point(const struct ledger *ledger, uint64_t time_ns, struct profile_memory_point *point)
{
	*point = (struct profile_memory_point){
		.time_ns = time_ns,
		.live_bytes = ledger->blind ? PROFILE_ABSENT : memory_whole(ledger->live_bytes),
		.allocs_count = tally_count_value(&ledger->tally),
		.allocated_bytes = tally_bytes_value(&ledger->tally),
	};
}

static int add_point(struct ledger *ledger, uint64_t time_ns)
{
	if (grow_array(&ledger->points, &ledger->points_capacity, ledger->points_count + 1,
		       sizeof(*ledger->points)))
		return -ENOMEM;
	ledger_point(ledger, time_ns, &ledger->points[ledger->points_count++]);
	return 0;
}

/*
 * A slot of time is over: what there was at its end is a point, and where nothing happened for
 * longer another one at the end of that, so that a line through them is flat. The series begins
 * with the slot of the first record.
 */
static int note_points(struct memory *memory, struct ledger *ledger, uint64_t time_ns)
{
	uint64_t start = memory->clock.start_ns, since = time_ns > start ? time_ns - start : 0;
	uint64_t slot;
	int err = 0;

	if (!ledger->point_step_ns)
		ledger->point_step_ns = MEMORY_POINT_NS;
	/* room for two more, and the two that end the series */
	if (ledger->points_count + 4 > PROFILE_POINTS_MAX)
		thin_out(ledger);
	slot = since / ledger->point_step_ns;
	if (ledger->points_count && slot > ledger->point_slot)
		err = add_point(ledger, start + (ledger->point_slot + 1) * ledger->point_step_ns);
	if (!err && (!ledger->points_count || slot > ledger->point_slot + 1))
		err = add_point(ledger, start + slot * ledger->point_step_ns);
	ledger->point_slot = slot;
	ledger->point_due_ns = add_capped(start, (slot + 1) * ledger->point_step_ns);
	return err;
}

int ledger_tick(struct memory *memory, struct ledger *ledger, uint64_t time_ns)
{
	if (ledger->modes_seen != memory->domains[ledger->domain].modes_count)
		ledger_note_modes(memory, ledger);
	if (time_ns < ledger->point_due_ns)
		return 0;
	return note_points(memory, ledger, time_ns);
}

void ledger_level_unknown(const struct memory *memory, struct ledger *ledger)
{
	uint64_t *windows = ledger->unknown_windows;

	for (; ledger->unknown_level < memory->clock.level; ledger->unknown_level++) {
		for (size_t i = 0; i < PROFILE_WINDOWS; i++)
			windows[i] =
				2 * i < PROFILE_WINDOWS ? windows[2 * i] + windows[2 * i + 1] : 0;
	}
}

void ledger_note_unknown(struct memory *memory, struct ledger *ledger, uint64_t time_ns)
{
	uint32_t window = memory_window(memory, time_ns);

	ledger_level_unknown(memory, ledger);
	ledger->unknown_windows[window]++;
	ledger->unknown_frees++;
}

/* Makes room: a thread that is in no reallocation is remembered only for what it did last. */
static int forget_threads(struct ledger *ledger)
{
	size_t kept = 0;

	map64_clear(&ledger->thread_ids);
	for (size_t i = 0; i < ledger->threads_count; i++) {
		if (ledger->threads[i].aside == ASIDE_NONE)
			continue;
		ledger->threads[kept] = ledger->threads[i];
		if (map64_put(&ledger->thread_ids, ledger->threads[kept].tid, (uint32_t)kept))
			return -ENOMEM;
		kept++;
	}
	ledger->threads_count = kept;
	return kept < AGGREGATE_THREADS_MAX ? 0 : -ENOSPC;
}

struct memory_thread *ledger_thread(struct ledger *ledger, uint32_t tid)
{
	uint32_t at;
	int err = 0;

	if (ledger->last_thread < ledger->threads_count &&
	    ledger->threads[ledger->last_thread].tid == tid)
		return &ledger->threads[ledger->last_thread];
	at = map64_get(&ledger->thread_ids, tid);
	if (at == MAP64_NONE) {
		if (ledger->threads_count == AGGREGATE_THREADS_MAX)
			err = forget_threads(ledger);
		at = (uint32_t)ledger->threads_count;
		if (!err)
			err = grow_array(&ledger->threads, &ledger->threads_capacity,
					 (size_t)at + 1, sizeof(*ledger->threads));
		if (!err)
			err = map64_put(&ledger->thread_ids, tid, at);
		if (err) {
			errno = -err;
			return NULL;
		}
		ledger->threads[at] = (struct memory_thread){.tid = tid};
		ledger->threads_count++;
	}
	ledger->last_thread = at;
	return &ledger->threads[at];
}
