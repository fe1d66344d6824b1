// SPDX-License-Identifier: BSD-2-Clause
/* Writes the keyframe: the beginning of a capture. */
#include "replay/keyframe_internal.h"

#include "aggregate/aggregate.h"
#include "decode/decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int write_packed(const struct perfx_record *packed, keyframe_emit *emit, void *ctx)
{
	return emit(ctx, packed, packed->size);
}

/* The capture's zero is where it begins, by all clocks. */
static int write_host(struct keyframe *keyframe, uint64_t from_ns, keyframe_emit *emit, void *ctx)
{
	struct event event;
	struct perfx_host host;
	size_t skip;

	if (!keyframe->host.used)
		return 0;
	decode_event(keyframe->host.bytes, keyframe->host.used, &event, &skip);
	host = event.host;
	host.start_unix_ns += from_ns - host.start_ns;
	host.start_boot_ns += from_ns - host.start_ns;
	host.start_ns = from_ns;
	return write_packed(PACK(&keyframe->buffer, PERFX_KIND_HOST, host, event.strings[0],
				 event.strings[1], event.strings[2], event.strings[3],
				 event.strings[4]),
			    emit, ctx);
}

static int write_facts(struct keyframe *keyframe, keyframe_emit *emit, void *ctx)
{
	const struct records *facts = &keyframe->facts;
	size_t size;
	int err = 0;

	for (size_t at = 0; at < facts->used && !err; at += size) {
		struct event event;
		size_t skip;

		size = (size_t)decode_event(facts->bytes + at, facts->used - at, &event, &skip);
		if (!keyframe_is_gone(keyframe, keyframe_owner(&event)))
			err = emit(ctx, facts->bytes + at, size);
	}
	return err;
}

int keyframe__write_usage(struct keyframe *keyframe, uint64_t from_ns, keyframe_emit *emit,
			  void *ctx)
{
	int err = 0;

	for (size_t i = 0; i < keyframe->processes_count && !err; i++) {
		const struct process_state *state = &keyframe->processes[i];
		struct perfx_usage usage = state->usage;

		if (!state->has_usage || state->gone)
			continue;
		/* where its counters stood when the slice begins */
		if (!state->ended_ns)
			usage.time_ns = from_ns;
		err = write_packed(PACK(&keyframe->buffer, PERFX_KIND_USAGE, usage), emit, ctx);
	}
	return err;
}

/* A sample from long before would make its thread's time that of another slice. */
static int write_threads(struct keyframe *keyframe, uint64_t from_ns, keyframe_emit *emit,
			 void *ctx)
{
	int err = 0;

	for (size_t i = 0; i < keyframe->threads_count && !err; i++) {
		const struct thread_state *thread = &keyframe->threads[i];

		if (keyframe_is_stale(keyframe, &thread->record) ||
		    thread->record.time_ns + KEYFRAME_GRACE_NS < from_ns)
			continue;
		err = write_packed(PACK(&keyframe->buffer, PERFX_KIND_THREAD, thread->record,
					thread->comm),
				   emit, ctx);
	}
	return err;
}

static int write_values(struct keyframe *keyframe, uint64_t from_ns, keyframe_emit *emit, void *ctx)
{
	int err = 0;

	for (size_t i = 0; i < keyframe->values_count && !err; i++) {
		const struct valued *valued = &keyframe->values[i];
		struct perfx_user_value record = {.time_ns = from_ns,
						  .process = valued->process,
						  .value = valued->value,
						  .flags = PERFX_USER_VALUE_BEFORE};

		memcpy(&record.number_bits, &valued->number, sizeof(record.number_bits));
		if (!keyframe_is_gone(keyframe, valued->process))
			err = write_packed(PACK(&keyframe->buffer, PERFX_KIND_USER_VALUE, record),
					   emit, ctx);
	}
	return err;
}

/* --wait: the slice begins in the midst of what the program wants to be recorded, or in a pause. */
static int write_turn(struct keyframe *keyframe, uint64_t from_ns, keyframe_emit *emit, void *ctx)
{
	struct perfx_recording_window record = keyframe->turn;
	bool opens = record.flags & PERFX_RECORDING_WINDOW_OPENS;
	int err;

	if (!record.time_ns)
		return 0;
	record.time_ns = from_ns;
	record.flags |= PERFX_RECORDING_WINDOW_OPENS;
	err = write_packed(PACK(&keyframe->buffer, PERFX_KIND_RECORDING_WINDOW, record), emit, ctx);
	if (err || opens)
		return err;
	record.flags &= ~(uint32_t)PERFX_RECORDING_WINDOW_OPENS;
	return write_packed(PACK(&keyframe->buffer, PERFX_KIND_RECORDING_WINDOW, record), emit,
			    ctx);
}

int keyframe__write(struct keyframe *keyframe, uint64_t from_ns, keyframe_emit *emit, void *ctx)
{
	int err = keyframe_forget_ended(keyframe, from_ns);

	if (!err)
		err = write_host(keyframe, from_ns, emit, ctx);
	if (!err)
		err = write_facts(keyframe, emit, ctx);
	if (!err)
		err = write_threads(keyframe, from_ns, emit, ctx);
	if (!err)
		err = write_values(keyframe, from_ns, emit, ctx);
	return err ? err : write_turn(keyframe, from_ns, emit, ctx);
}

/* --- memory --- */

/* One walk over what lives. */
struct walk {
	struct keyframe *keyframe;
	keyframe_emit *emit;
	void *ctx;
	uint64_t from_ns;
	enum perfx_domain domain; /* with a mode: of which */
	uint32_t mode;		  /* only what was sampled under this; 0: only what is exact */
	uint64_t *waiting;	  /* how many were, by domain and mode; NULL: not counted */
	/* what this thread reallocates, as a range: written when all of it is */
	struct live_block reallocated;
};

/* A reallocation that goes on: written as it began. */
static int write_aside(struct walk *walk)
{
	const struct live_block *reallocated = &walk->reallocated;
	struct perfx_free record = {.time_ns = walk->from_ns,
				    .address = reallocated->address,
				    .size_bytes = reallocated->mapped ? reallocated->size_bytes : 0,
				    .process = reallocated->process,
				    .tid = reallocated->realloc_tid,
				    .allocator = reallocated->allocator,
				    .domain = (uint8_t)reallocated->domain,
				    .flags = PERFX_FREE_REALLOC_BEGIN |
					     (reallocated->mapped ? PERFX_FREE_MAPPED : 0)};

	if (!reallocated->realloc_tid)
		return 0;
	walk->reallocated.realloc_tid = 0;
	return write_packed(PACK(&walk->keyframe->buffer, PERFX_KIND_FREE, record), walk->emit,
			    walk->ctx);
}

static void note_realloc(struct walk *walk, const struct live_block *live)
{
	struct live_block *reallocated = &walk->reallocated;
	uint64_t end = live->address + live->size_bytes;

	if (!reallocated->realloc_tid) {
		*reallocated = *live;
		return;
	}
	if (end < reallocated->address + reallocated->size_bytes)
		end = reallocated->address + reallocated->size_bytes;
	if (live->address < reallocated->address)
		reallocated->address = live->address;
	reallocated->size_bytes = end - reallocated->address;
}

static int write_living(struct walk *walk, const struct live_block *live)
{
	struct perfx_allocation record = {
		.time_ns = live->time_ns,
		.address = live->address,
		.size_bytes = live->size_bytes,
		.process = live->process,
		.tid = live->realloc_tid,
		.context = live->context,
		.stack = live->stack,
		.allocator = live->allocator,
		.domain = (uint8_t)live->domain,
		.flags = (uint8_t)(PERFX_ALLOCATION_BEFORE |
				   (live->mode ? PERFX_ALLOCATION_SAMPLED : 0) |
				   (live->mapped ? PERFX_ALLOCATION_MAPPED : 0))};

	return write_packed(PACK(&walk->keyframe->buffer, PERFX_KIND_ALLOCATION, record),
			    walk->emit, walk->ctx);
}

static int visit(void *ctx, const struct live_block *live)
{
	struct walk *walk = ctx;
	int err = 0;

	if (keyframe_is_gone(walk->keyframe, live->process))
		return 0;
	if (walk->waiting && live->mode && live->mode <= AGGREGATE_MODES_MAX)
		walk->waiting[live->domain * (AGGREGATE_MODES_MAX + 1) + live->mode]++;
	if (live->mode != walk->mode || (walk->mode && live->domain != walk->domain))
		return 0;
	/* of the thread before */
	if (walk->reallocated.realloc_tid != live->realloc_tid ||
	    walk->reallocated.process != live->process || walk->reallocated.domain != live->domain)
		err = write_aside(walk);
	if (!err)
		err = write_living(walk, live);
	if (live->realloc_tid)
		note_realloc(walk, live);
	return err;
}

static int walk_live_blocks(struct walk *walk)
{
	int err = aggregate__each_live_block(walk->keyframe->memory, visit, walk);

	return err ? err : write_aside(walk);
}

/* Each mode, and what was sampled under it before the next one changes the rate. */
static int write_modes(struct walk *walk)
{
	const struct records *modes = &walk->keyframe->modes;
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
			err = walk_live_blocks(walk);
	}
	return err;
}

static int write_doubts(struct keyframe *keyframe, keyframe_emit *emit, void *ctx)
{
	int err = 0;

	for (uint32_t process = 0; process < keyframe->processes_count && !err; process++) {
		for (int domain = 1; domain < PERFX_DOMAINS && !err; domain++) {
			struct perfx_overflow_memory record = {
				.process = process,
				.domain = (uint8_t)domain,
				.before = (uint8_t)aggregate__doubts(keyframe->memory, process,
								     domain)};

			if (record.before && !keyframe->processes[process].gone)
				err = write_packed(PACK(&keyframe->buffer,
							PERFX_KIND_OVERFLOW_MEMORY, record),
						   emit, ctx);
		}
	}
	return err;
}

int keyframe__write_memory(struct keyframe *keyframe, uint64_t from_ns, keyframe_emit *emit,
			   void *ctx)
{
	struct walk walk = {.keyframe = keyframe, .mode = UINT32_MAX, .from_ns = from_ns};
	uint64_t *waiting = NULL;
	int err;

	if (keyframe->modes.used) {
		waiting =
			calloc((size_t)PERFX_DOMAINS * (AGGREGATE_MODES_MAX + 1), sizeof(*waiting));
		if (!waiting)
			return -ENOMEM;
	}
	walk.waiting = waiting;
	err = waiting ? walk_live_blocks(&walk) : 0;
	walk = (struct walk){.keyframe = keyframe,
			     .emit = emit,
			     .ctx = ctx,
			     .from_ns = from_ns,
			     .waiting = waiting};
	if (!err)
		err = write_modes(&walk);
	free(waiting);
	walk.waiting = NULL;
	walk.mode = 0;
	if (!err)
		err = walk_live_blocks(&walk);
	return err ? err : write_doubts(keyframe, emit, ctx);
}
