// SPDX-License-Identifier: BSD-2-Clause
/* What is told of the past: the beginning of a capture. */
#include "replay/past_internal.h"

#include "aggregate/living.h"
#include "decode/decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int tell_packed(const struct perfx_record *packed, past_emit *emit, void *ctx)
{
	return emit(ctx, packed, packed->size);
}

/* The capture's zero is where it begins, by all clocks. */
static int tell_host(struct past *past, uint64_t from_ns, past_emit *emit, void *ctx)
{
	struct event event;
	struct perfx_host host;
	size_t skip;

	if (!past->host.used)
		return 0;
	decode_event(past->host.bytes, past->host.used, &event, &skip);
	host = event.host;
	host.start_unix_ns += from_ns - host.start_ns;
	host.start_boot_ns += from_ns - host.start_ns;
	host.start_ns = from_ns;
	return tell_packed(PACK(&past->buffer, PERFX_KIND_HOST, host, event.strings[0],
				event.strings[1], event.strings[2], event.strings[3],
				event.strings[4]),
			   emit, ctx);
}

static int tell_facts(struct past *past, past_emit *emit, void *ctx)
{
	const struct records *facts = &past->facts;
	size_t size;
	int err = 0;

	for (size_t at = 0; at < facts->used && !err; at += size) {
		struct event event;
		size_t skip;

		size = (size_t)decode_event(facts->bytes + at, facts->used - at, &event, &skip);
		if (!past_is_gone(past, past_owner(&event)))
			err = emit(ctx, facts->bytes + at, size);
	}
	return err;
}

int past__tell_usage(struct past *past, uint64_t from_ns, past_emit *emit, void *ctx)
{
	int err = 0;

	for (size_t i = 0; i < past->people_count && !err; i++) {
		const struct person *person = &past->people[i];
		struct perfx_usage usage = person->usage;

		if (!person->has_usage || person->gone)
			continue;
		/* where its counters stood when the part begins */
		if (!person->ended_ns)
			usage.time_ns = from_ns;
		err = tell_packed(PACK(&past->buffer, PERFX_KIND_USAGE, usage), emit, ctx);
	}
	return err;
}

/* A sample from long before would make its thread's time that of another part. */
static int tell_threads(struct past *past, uint64_t from_ns, past_emit *emit, void *ctx)
{
	int err = 0;

	for (size_t i = 0; i < past->threads_count && !err; i++) {
		const struct thread_seen *thread = &past->threads[i];

		if (past_is_stale(past, &thread->record) ||
		    thread->record.time_ns + PAST_GRACE_NS < from_ns)
			continue;
		err = tell_packed(PACK(&past->buffer, PERFX_KIND_THREAD, thread->record,
				       thread->comm),
				  emit, ctx);
	}
	return err;
}

static int tell_values(struct past *past, uint64_t from_ns, past_emit *emit, void *ctx)
{
	int err = 0;

	for (size_t i = 0; i < past->values_count && !err; i++) {
		const struct valued *valued = &past->values[i];
		struct perfx_value record = {.time_ns = from_ns,
					     .process = valued->process,
					     .value = valued->value,
					     .flags = PERFX_VALUE_BEFORE};

		memcpy(&record.number_bits, &valued->number, sizeof(record.number_bits));
		if (!past_is_gone(past, valued->process))
			err = tell_packed(PACK(&past->buffer, PERFX_KIND_VALUE, record), emit, ctx);
	}
	return err;
}

/* --wait: the part begins in the midst of what the program wants to be recorded, or in a pause. */
static int tell_turn(struct past *past, uint64_t from_ns, past_emit *emit, void *ctx)
{
	struct perfx_window record = past->turn;
	bool opens = record.flags & PERFX_WINDOW_OPENS;
	int err;

	if (!record.time_ns)
		return 0;
	record.time_ns = from_ns;
	record.flags |= PERFX_WINDOW_OPENS;
	err = tell_packed(PACK(&past->buffer, PERFX_KIND_WINDOW, record), emit, ctx);
	if (err || opens)
		return err;
	record.flags &= ~(uint32_t)PERFX_WINDOW_OPENS;
	return tell_packed(PACK(&past->buffer, PERFX_KIND_WINDOW, record), emit, ctx);
}

int past__tell(struct past *past, uint64_t from_ns, past_emit *emit, void *ctx)
{
	int err = past_forget_ended(past, from_ns);

	if (!err)
		err = tell_host(past, from_ns, emit, ctx);
	if (!err)
		err = tell_facts(past, emit, ctx);
	if (!err)
		err = tell_threads(past, from_ns, emit, ctx);
	if (!err)
		err = tell_values(past, from_ns, emit, ctx);
	return err ? err : tell_turn(past, from_ns, emit, ctx);
}

/* --- memory --- */

/* One walk over what lives. */
struct walk {
	struct past *past;
	past_emit *emit;
	void *ctx;
	uint64_t from_ns;
	enum perfx_domain domain; /* with a mode: of which */
	uint32_t mode;		  /* only what was sampled under this; 0: only what is exact */
	uint64_t *waiting;	  /* how many were, by domain and mode; NULL: not counted */
	/* what this thread reallocates, as a range: told when all of it is */
	struct living aside;
};

/* A reallocation that goes on: told as it began. */
static int tell_aside(struct walk *walk)
{
	const struct living *aside = &walk->aside;
	struct perfx_free record = {.time_ns = walk->from_ns,
				    .address = aside->address,
				    .size_bytes = aside->mapped ? aside->size_bytes : 0,
				    .process = aside->process,
				    .tid = aside->aside_tid,
				    .allocator = aside->allocator,
				    .domain = (uint8_t)aside->domain,
				    .flags = PERFX_FREE_ASIDE |
					     (aside->mapped ? PERFX_FREE_MAPPED : 0)};

	if (!aside->aside_tid)
		return 0;
	walk->aside.aside_tid = 0;
	return tell_packed(PACK(&walk->past->buffer, PERFX_KIND_FREE, record), walk->emit,
			   walk->ctx);
}

static void note_aside(struct walk *walk, const struct living *living)
{
	struct living *aside = &walk->aside;
	uint64_t end = living->address + living->size_bytes;

	if (!aside->aside_tid) {
		*aside = *living;
		return;
	}
	if (end < aside->address + aside->size_bytes)
		end = aside->address + aside->size_bytes;
	if (living->address < aside->address)
		aside->address = living->address;
	aside->size_bytes = end - aside->address;
}

static int tell_living(struct walk *walk, const struct living *living)
{
	struct perfx_allocation record = {
		.time_ns = living->time_ns,
		.address = living->address,
		.size_bytes = living->size_bytes,
		.process = living->process,
		.tid = living->aside_tid,
		.context = living->context,
		.stack = living->stack,
		.allocator = living->allocator,
		.domain = (uint8_t)living->domain,
		.flags = (uint8_t)(PERFX_ALLOCATION_BEFORE |
				   (living->mode ? PERFX_ALLOCATION_SAMPLED : 0) |
				   (living->mapped ? PERFX_ALLOCATION_MAPPED : 0))};

	return tell_packed(PACK(&walk->past->buffer, PERFX_KIND_ALLOCATION, record), walk->emit,
			   walk->ctx);
}

static int visit(void *ctx, const struct living *living)
{
	struct walk *walk = ctx;
	int err = 0;

	if (past_is_gone(walk->past, living->process))
		return 0;
	if (walk->waiting && living->mode && living->mode <= AGGREGATE_MODES_MAX)
		walk->waiting[living->domain * (AGGREGATE_MODES_MAX + 1) + living->mode]++;
	if (living->mode != walk->mode || (walk->mode && living->domain != walk->domain))
		return 0;
	/* of the thread before */
	if (walk->aside.aside_tid != living->aside_tid || walk->aside.process != living->process ||
	    walk->aside.domain != living->domain)
		err = tell_aside(walk);
	if (!err)
		err = tell_living(walk, living);
	if (living->aside_tid)
		note_aside(walk, living);
	return err;
}

static int walk_living(struct walk *walk)
{
	int err = aggregate__each_living(walk->past->memory, visit, walk);

	return err ? err : tell_aside(walk);
}

/* Each mode, and what was sampled under it before the next one changes the rate. */
static int tell_modes(struct walk *walk)
{
	const struct records *modes = &walk->past->modes;
	uint32_t numbers[PERFX_DOMAINS] = {0};
	const uint64_t *waiting = walk->waiting;
	size_t size;
	int err = 0;

	walk->waiting = NULL;
	for (size_t at = 0; at < modes->used && !err; at += size) {
		struct event event;
		size_t skip;

		size = (size_t)decode_event(modes->bytes + at, modes->used - at, &event, &skip);
		err = walk->emit(walk->ctx, modes->bytes + at, size);
		walk->domain = event.memory_mode.domain;
		walk->mode = ++numbers[walk->domain];
		if (!err && walk->mode <= AGGREGATE_MODES_MAX &&
		    waiting[walk->domain * (AGGREGATE_MODES_MAX + 1) + walk->mode])
			err = walk_living(walk);
	}
	return err;
}

static int tell_doubts(struct past *past, past_emit *emit, void *ctx)
{
	int err = 0;

	for (uint32_t process = 0; process < past->people_count && !err; process++) {
		for (int domain = 1; domain < PERFX_DOMAINS && !err; domain++) {
			struct perfx_memory_book record = {.process = process,
							   .domain = (uint8_t)domain,
							   .before = (uint8_t)aggregate__doubts(
								   past->memory, process, domain)};

			if (record.before && !past->people[process].gone)
				err = tell_packed(PACK(&past->buffer, PERFX_KIND_MEMORY_BOOK,
						       record),
						  emit, ctx);
		}
	}
	return err;
}

int past__tell_memory(struct past *past, uint64_t from_ns, past_emit *emit, void *ctx)
{
	struct walk walk = {.past = past, .mode = UINT32_MAX, .from_ns = from_ns};
	uint64_t *waiting = NULL;
	int err;

	if (past->modes.used) {
		waiting =
			calloc((size_t)PERFX_DOMAINS * (AGGREGATE_MODES_MAX + 1), sizeof(*waiting));
		if (!waiting)
			return -ENOMEM;
	}
	walk.waiting = waiting;
	err = waiting ? walk_living(&walk) : 0;
	walk = (struct walk){
		.past = past, .emit = emit, .ctx = ctx, .from_ns = from_ns, .waiting = waiting};
	if (!err)
		err = tell_modes(&walk);
	free(waiting);
	walk.waiting = NULL;
	walk.mode = 0;
	if (!err)
		err = walk_living(&walk);
	return err ? err : tell_doubts(past, emit, ctx);
}
