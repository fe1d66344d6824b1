// SPDX-License-Identifier: BSD-2-Clause
#include "replay/keyframe.h"

#include "aggregate/aggregate.h"
#include "base/grow.h"
#include "base/text.h"
#include "decode/decode.h"
#include "decode/pack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Grace period for the last records of a process after its end. */
#define KEYFRAME_GRACE_NS 2000000000u

struct process_state {
	bool gone, has_usage;
	uint64_t ended_ns;    /* 0: lives */
	uint64_t gone_number; /* the n-th that went */
	struct perfx_usage usage;
};

struct thread_state {
	struct perfx_thread record;
	char comm[64];
};

/* The current number of one of the program's own values. */
struct valued {
	uint32_t process, value;
	double number;
};

struct keyframe {
	struct text facts, modes;	    /* records, one after another */
	uint32_t merged_max;		    /* of a merged capture: the highest number in `modes` */
	size_t facts_kept;		    /* bytes after the last cleaning */
	uint64_t gone_count, cleaned_count; /* gone processes; those with no facts left */
	bool goes_on;
	size_t passing_count, passing_limit; /* passing facts; cleaned when there are more */
	struct text host, time_slice;	     /* one record each */
	struct process_state *processes;     /* by index */
	size_t processes_count, processes_capacity;
	uint32_t *ending; /* processes that have ended and are not gone yet */
	size_t ending_count, ending_capacity;
	struct thread_state *threads;
	size_t threads_count, threads_capacity;
	struct map64 thread_ids; /* process << 32 | tid */
	struct valued *values;
	size_t values_count, values_capacity;
	struct map64 value_ids;		    /* process << 32 | value */
	struct perfx_recording_window turn; /* --wait: the last; time 0: none */
	struct aggregate *memory;	    /* live blocks */
	bool is_borrowed;		    /* the memory: another one adds its events */
	struct pack_buffer buffer;
};

static bool is_gone(const struct keyframe *keyframe, uint32_t process)
{
	return process < keyframe->processes_count && keyframe->processes[process].gone;
}

/* A thread that is missing from samples for longer has ended. */
#define STALE_NS 5000000000u
/* Facts of gone processes are dropped when there may be so many bytes of them. */
#define GARBAGE_BYTES (1u << 20)
/* Passing facts of a recording without end: the newest are kept, and as many more until the next
 * cleaning. */
#define PASSING_KEPT 65536

struct keyframe *keyframe__new(uint32_t blocks_max)
{
	struct keyframe *keyframe = calloc(1, sizeof(*keyframe));

	if (!keyframe)
		return NULL;
	keyframe->memory = aggregate__new();
	if (!keyframe->memory) {
		free(keyframe);
		return NULL;
	}
	aggregate__limit_blocks(keyframe->memory, blocks_max);
	return keyframe;
}

/* The memory's part of the events, where no other one adds them. 0 or -ENOMEM. */
static int add_to_memory(struct keyframe *keyframe, const struct event *event)
{
	return keyframe->is_borrowed ? 0 : aggregate__add(keyframe->memory, event);
}

void keyframe__borrow_memory(struct keyframe *keyframe, struct aggregate *aggregate)
{
	if (!keyframe->is_borrowed)
		aggregate__free(keyframe->memory);
	keyframe->memory = aggregate;
	keyframe->is_borrowed = true;
}

void keyframe__goes_on(struct keyframe *keyframe)
{
	keyframe->goes_on = true;
	keyframe->passing_limit = 2 * PASSING_KEPT;
}

void keyframe__free(struct keyframe *keyframe)
{
	if (!keyframe)
		return;
	text_clear(&keyframe->facts);
	text_clear(&keyframe->modes);
	text_clear(&keyframe->host);
	text_clear(&keyframe->time_slice);
	free(keyframe->processes);
	free(keyframe->ending);
	free(keyframe->threads);
	map64_clear(&keyframe->thread_ids);
	free(keyframe->values);
	map64_clear(&keyframe->value_ids);
	if (!keyframe->is_borrowed)
		aggregate__free(keyframe->memory);
	free(keyframe);
}

/* The record at an offset, which was decoded before. False: there is none. */
static bool record_at(const struct text *records, size_t at, struct event *event)
{
	size_t skip;

	return at < records->length &&
	       decode_event(records->data + at, records->length - at, event, &skip) > 0;
}

static int append_event(struct text *records, const struct event *event)
{
	text_add_bytes(records, event->record, event->hdr.size);
	return records->failed ? -ENOMEM : 0;
}

/* NULL with errno: ERANGE, ENOMEM. */
static struct process_state *process_state_get(struct keyframe *keyframe, uint32_t process)
{
	errno = ERANGE;
	if (process > AGGREGATE_PROCESSES_MAX)
		return NULL;
	return GROW_TO(keyframe->processes, process);
}

static int end_process(struct keyframe *keyframe, uint32_t process, uint64_t time_ns)
{
	struct process_state *state = process_state_get(keyframe, process);

	if (!state || state->ended_ns)
		return state || errno == ERANGE ? 0 : -ENOMEM;
	if (GROW_BY_ONE(keyframe->ending))
		return -ENOMEM;
	keyframe->ending[keyframe->ending_count++] = process;
	state->ended_ns = time_ns ? time_ns : 1;
	return 0;
}

/* A thread of a process that is gone, or one that its process's samples show no more. */
static bool is_stale(const struct keyframe *keyframe, const struct perfx_thread *thread)
{
	const struct process_state *state = &keyframe->processes[thread->process];

	return state->gone ||
	       (state->has_usage && state->usage.time_ns > thread->time_ns + STALE_NS);
}

static int clean_threads(struct keyframe *keyframe)
{
	size_t kept = 0;

	map64_clear(&keyframe->thread_ids);
	for (size_t i = 0; i < keyframe->threads_count; i++) {
		const struct perfx_thread *thread = &keyframe->threads[i].record;

		if (is_stale(keyframe, thread))
			continue;
		if (map64_put(&keyframe->thread_ids, (uint64_t)thread->process << 32 | thread->tid,
			      (uint32_t)kept))
			return -ENOMEM;
		keyframe->threads[kept++] = keyframe->threads[i];
	}
	keyframe->threads_count = kept;
	return 0;
}

/* Facts that a living process has without end: stacks, objects of waits. */
static bool is_passing(const struct event *event)
{
	return event->kind == PERFX_KIND_STACK || event->kind == PERFX_KIND_WAIT_OBJECT;
}

static uint64_t stack_key(uint32_t process, uint32_t stack)
{
	return (uint64_t)process << 32 | stack;
}

static int note_stack(struct map64 *stacks, uint32_t process, uint32_t stack)
{
	uint64_t key = stack_key(process, stack);

	return map64_get(stacks, key) == MAP64_NONE ? map64_put(stacks, key, 0) : 0;
}

static int note_stack_of_block(void *ctx, const struct live_block *live)
{
	return note_stack(ctx, live->process, live->stack);
}

/* Stacks that contexts and live blocks name. */
static int find_named_stacks(const struct keyframe *keyframe, struct map64 *stacks)
{
	struct event event;
	int err = 0;

	for (size_t at = 0; !err && record_at(&keyframe->facts, at, &event); at += event.hdr.size)
		if (event.kind == PERFX_KIND_CONTEXT)
			err = note_stack(stacks, event.context.process, event.context.stack);
	return err ? err
		   : aggregate__each_live_block(keyframe->memory, note_stack_of_block, stacks);
}

/* The oldest passing facts go: those in use are emitted anew (session/recycle.c). */
static bool has_passed(const struct event *event, size_t number, size_t passed_count,
		       const struct map64 *named)
{
	return number < passed_count &&
	       (event->kind != PERFX_KIND_STACK ||
		map64_get(named, stack_key(event->stack.process, event->stack.stack)) ==
			MAP64_NONE);
}

/* All are kept if there is no memory for the named stacks. */
static size_t count_passed(const struct keyframe *keyframe, struct map64 *named)
{
	if (!keyframe->goes_on || keyframe->passing_count <= PASSING_KEPT ||
	    find_named_stacks(keyframe, named))
		return 0;
	return keyframe->passing_count - PASSING_KEPT;
}

static void clean_facts(struct keyframe *keyframe)
{
	struct text *facts = &keyframe->facts;
	struct map64 named = {0};
	size_t kept = 0, passed_count = count_passed(keyframe, &named), number = 0,
	       passing_count = 0;
	struct event event;

	for (size_t at = 0; record_at(facts, at, &event); at += event.hdr.size) {
		number += is_passing(&event);
		if (is_gone(keyframe, event_process(&event)) ||
		    (is_passing(&event) && has_passed(&event, number, passed_count, &named)))
			continue;
		passing_count += is_passing(&event);
		memmove(facts->data + kept, facts->data + at, event.hdr.size);
		kept += event.hdr.size;
	}
	map64_clear(&named);
	facts->length = keyframe->facts_kept = kept;
	keyframe->passing_count = passing_count;
	keyframe->passing_limit = passing_count + PASSING_KEPT;
}

static int clean_values(struct keyframe *keyframe)
{
	size_t kept = 0;

	map64_clear(&keyframe->value_ids);
	for (size_t i = 0; i < keyframe->values_count; i++) {
		const struct valued *valued = &keyframe->values[i];

		if (is_gone(keyframe, valued->process))
			continue;
		if (map64_put(&keyframe->value_ids, (uint64_t)valued->process << 32 | valued->value,
			      (uint32_t)kept))
			return -ENOMEM;
		keyframe->values[kept++] = *valued;
	}
	keyframe->values_count = kept;
	return 0;
}

/* Drops the facts, values and threads of gone processes. 0 or -ENOMEM. */
static int clean(struct keyframe *keyframe)
{
	int err;

	clean_facts(keyframe);
	err = clean_values(keyframe);
	keyframe->cleaned_count = keyframe->gone_count;
	return err ? err : clean_threads(keyframe);
}

/* Forgets processes that ended long enough before a time. 0 or -ENOMEM. */
static int forget_ended(struct keyframe *keyframe, uint64_t time_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < keyframe->ending_count; i++) {
		struct process_state *state = &keyframe->processes[keyframe->ending[i]];

		state->gone = state->ended_ns + KEYFRAME_GRACE_NS < time_ns;
		if (!state->gone) {
			keyframe->ending[kept++] = keyframe->ending[i];
			continue;
		}
		state->gone_number = ++keyframe->gone_count;
		if (!keyframe->is_borrowed)
			aggregate__forget_memory(keyframe->memory, keyframe->ending[i]);
	}
	if (kept == keyframe->ending_count)
		return 0;
	keyframe->ending_count = kept;
	if (keyframe->facts.length >
	    keyframe->facts_kept + keyframe->facts_kept / 2 + GARBAGE_BYTES)
		return clean(keyframe);
	return clean_threads(keyframe);
}

/* A process begins. In a recording without end its index may be that of a process that is long gone
 * (session/recycle.c), whose data is dropped. 0 or -ENOMEM. */
static int begin_process(struct keyframe *keyframe, uint32_t process)
{
	struct process_state *state;
	int err = 0;

	if (!is_gone(keyframe, process))
		return 0;
	state = &keyframe->processes[process];
	if (state->gone_number > keyframe->cleaned_count)
		err = clean(keyframe);
	*state = (struct process_state){0};
	return err;
}

static int add_usage(struct keyframe *keyframe, const struct perfx_usage *usage)
{
	struct process_state *state = process_state_get(keyframe, usage->process);

	if (!state)
		return errno == ERANGE ? 0 : -ENOMEM;
	state->usage = *usage;
	state->has_usage = true;
	return 0;
}

static int add_thread(struct keyframe *keyframe, const struct event *event)
{
	const struct perfx_thread *record = &event->thread;
	uint64_t key = (uint64_t)record->process << 32 | record->tid;
	struct thread_state *thread;

	if (!process_state_get(keyframe, record->process))
		return errno == ERANGE ? 0 : -ENOMEM;
	if (keyframe->threads_count >= AGGREGATE_THREADS_MAX &&
	    map64_get(&keyframe->thread_ids, key) == MAP64_NONE) {
		if (clean_threads(keyframe))
			return -ENOMEM;
		if (keyframe->threads_count >= AGGREGATE_THREADS_MAX)
			return 0;
	}
	thread = MAP64_ITEM(keyframe->thread_ids, key, keyframe->threads);
	if (!thread)
		return -ENOMEM;
	thread->record = *record;
	strncpy(thread->comm, event->strings[0], sizeof(thread->comm) - 1);
	return 0;
}

/* NULL with errno: ERANGE, ENOMEM. */
static struct valued *value_get(struct keyframe *keyframe, uint32_t process, uint32_t value)
{
	uint64_t id = (uint64_t)process << 32 | value;
	struct valued *valued;

	errno = ERANGE;
	if (keyframe->values_count >= AGGREGATE_VALUES_MAX &&
	    map64_get(&keyframe->value_ids, id) == MAP64_NONE)
		return NULL;
	valued = MAP64_ITEM(keyframe->value_ids, id, keyframe->values);
	if (valued) {
		valued->process = process;
		valued->value = value;
	}
	return valued;
}

static int add_value(struct keyframe *keyframe, const struct perfx_user_value *record)
{
	struct valued *valued = value_get(keyframe, record->process, record->value);
	double number;

	memcpy(&number, &record->number_bits, sizeof(number));
	if (valued)
		valued->number =
			record->flags & PERFX_USER_VALUE_ADDED ? valued->number + number : number;
	return valued || errno == ERANGE ? 0 : -ENOMEM;
}

static int add_lost_values(struct keyframe *keyframe, const struct perfx_overflow_values *record)
{
	struct valued *valued = value_get(keyframe, record->process, record->value);

	if (valued && record->sets_count && record->last_ns)
		memcpy(&valued->number, &record->last_bits, sizeof(valued->number));
	else if (valued)
		valued->number += (double)record->sum;
	return valued || errno == ERANGE ? 0 : -ENOMEM;
}

static bool begins_process(enum perfx_kind kind)
{
	return kind == PERFX_KIND_FORK || kind == PERFX_KIND_EXEC || kind == PERFX_KIND_PROCESS;
}

static int add_fact(struct keyframe *keyframe, const struct event *event)
{
	int err = 0;

	if (begins_process(event->kind))
		err = begin_process(keyframe, event_process(event));
	if (err)
		return err;
	if (event->kind == PERFX_KIND_EXIT)
		err = end_process(keyframe, event->exit.process, event->exit.time_ns);
	else if (event->kind == PERFX_KIND_EXEC && event->exec.old_process != event->exec.process)
		err = end_process(keyframe, event->exec.old_process, event->exec.time_ns);
	if (!err && is_passing(event) && ++keyframe->passing_count > keyframe->passing_limit &&
	    keyframe->goes_on)
		err = clean(keyframe);
	return err ? err : append_event(&keyframe->facts, event);
}

static int add_event(struct keyframe *keyframe, const struct event *event)
{
	switch (event->kind) {
	case PERFX_KIND_USER_VALUE:
		return add_value(keyframe, &event->user_value);
	case PERFX_KIND_THREAD:
		return add_thread(keyframe, event);
	case PERFX_KIND_RECORDING_WINDOW:
		if (event->recording_window.time_ns >= keyframe->turn.time_ns)
			keyframe->turn = event->recording_window;
		return 0;
	default: /* over */
		return 0;
	}
}

static int add_state(struct keyframe *keyframe, const struct event *event)
{
	/* its capture has modes of its own */
	if (event->kind == PERFX_KIND_PROCESS && event->process.merged &&
	    add_to_memory(keyframe, event))
		return -ENOMEM;
	return add_fact(keyframe, event);
}

static int add_memory(struct keyframe *keyframe, const struct event *event)
{
	if (event->kind == PERFX_KIND_MEMORY_MODE) {
		if (event->memory_mode.merged > PERFX_MERGED_MAX)
			return 0;
		if (append_event(&keyframe->modes, event))
			return -ENOMEM;
		if (event->memory_mode.merged > keyframe->merged_max)
			keyframe->merged_max = event->memory_mode.merged;
	}
	return add_to_memory(keyframe, event);
}

/* Only the sums of values and live blocks still hold. */
static int add_sum(struct keyframe *keyframe, const struct event *event)
{
	if (event->kind == PERFX_KIND_OVERFLOW_VALUES)
		return add_lost_values(keyframe, &event->overflow_values);
	if (event->kind != PERFX_KIND_OVERFLOW_MEMORY)
		return 0;
	/* write_doubts goes by the processes that are known */
	if (!process_state_get(keyframe, event->overflow_memory.process))
		return errno == ERANGE ? 0 : -ENOMEM;
	return add_to_memory(keyframe, event);
}

static int add_of_capture(struct keyframe *keyframe, const struct event *event)
{
	if (event->kind == PERFX_KIND_SEGMENT)
		return forget_ended(keyframe, event->segment.time_ns);
	if (event->kind == PERFX_KIND_TIME_SLICE) {
		keyframe->time_slice.length = 0;
		return append_event(&keyframe->time_slice, event);
	}
	if (event->kind != PERFX_KIND_HOST)
		return 0;
	keyframe->host.length = 0;
	if (append_event(&keyframe->host, event))
		return -ENOMEM;
	return add_to_memory(keyframe, event); /* its clock */
}

int keyframe__add(struct keyframe *keyframe, const struct event *event)
{
	switch (role_of(event->kind)) {
	case PERFX_ROLE_FACT:
		return add_fact(keyframe, event);
	case PERFX_ROLE_EVENT:
		return add_event(keyframe, event);
	case PERFX_ROLE_STATE:
		return add_state(keyframe, event);
	case PERFX_ROLE_MEMORY:
		return add_memory(keyframe, event);
	case PERFX_ROLE_SAMPLE:
		return add_usage(keyframe, &event->usage);
	case PERFX_ROLE_SUM:
		return add_sum(keyframe, event);
	case PERFX_ROLE_CAPTURE:
		return add_of_capture(keyframe, event);
	case PERFX_ROLE_CALL: /* over */
	case PERFX_ROLE_NONE:
		break;
	}
	return 0;
}

const struct perfx_time_slice *keyframe__time_slice(const struct keyframe *keyframe,
						    const char **why)
{
	const struct perfx_time_slice *time_slice = (const void *)keyframe->time_slice.data;

	if (!keyframe->time_slice.length)
		return NULL;
	*why = keyframe->time_slice.data + time_slice->hdr.fixed;
	return time_slice;
}

/* One keyframe that is written. */
struct writer {
	struct keyframe *keyframe;
	uint64_t from_ns;
	keyframe_emit *emit;
	void *ctx;
};

static int write_packed(const struct writer *writer, const struct perfx_record *packed)
{
	return writer->emit(writer->ctx, packed, packed->size);
}

#define WRITE(writer, kind, ...) \
	write_packed(writer, PACK(&(writer)->keyframe->buffer, PERFX_KIND_##kind, __VA_ARGS__))

/* All clocks of the capture begin with it. */
static int write_host(const struct writer *writer)
{
	struct event event;
	struct perfx_host host;

	if (!record_at(&writer->keyframe->host, 0, &event))
		return 0;
	host = event.host;
	host.start_unix_ns += writer->from_ns - host.start_ns;
	host.start_boot_ns += writer->from_ns - host.start_ns;
	host.start_ns = writer->from_ns;
	return WRITE(writer, HOST, host, event.strings[0], event.strings[1], event.strings[2],
		     event.strings[3], event.strings[4]);
}

static int write_facts(const struct writer *writer)
{
	struct event event;
	int err = 0;

	for (size_t at = 0; !err && record_at(&writer->keyframe->facts, at, &event);
	     at += event.hdr.size)
		if (!is_gone(writer->keyframe, event_process(&event)))
			err = writer->emit(writer->ctx, event.record, event.hdr.size);
	return err;
}

static int write_usage(const struct writer *writer)
{
	const struct keyframe *keyframe = writer->keyframe;
	int err = 0;

	for (size_t i = 0; i < keyframe->processes_count && !err; i++) {
		const struct process_state *state = &keyframe->processes[i];
		struct perfx_usage usage = state->usage;

		if (!state->has_usage || state->gone)
			continue;
		/* its counters at the beginning of the slice */
		if (!state->ended_ns)
			usage.time_ns = writer->from_ns;
		err = WRITE(writer, USAGE, usage);
	}
	return err;
}

/* A sample from long before the slice would move its thread's time into the slice. */
static int write_threads(const struct writer *writer)
{
	const struct keyframe *keyframe = writer->keyframe;
	int err = 0;

	for (size_t i = 0; i < keyframe->threads_count && !err; i++) {
		const struct thread_state *thread = &keyframe->threads[i];

		if (!is_stale(keyframe, &thread->record) &&
		    thread->record.time_ns + KEYFRAME_GRACE_NS >= writer->from_ns)
			err = WRITE(writer, THREAD, thread->record, thread->comm);
	}
	return err;
}

static int write_values(const struct writer *writer)
{
	const struct keyframe *keyframe = writer->keyframe;
	int err = 0;

	for (size_t i = 0; i < keyframe->values_count && !err; i++) {
		const struct valued *valued = &keyframe->values[i];
		struct perfx_user_value record = {.time_ns = writer->from_ns,
						  .process = valued->process,
						  .value = valued->value,
						  .flags = PERFX_USER_VALUE_BEFORE};

		memcpy(&record.number_bits, &valued->number, sizeof(record.number_bits));
		if (!is_gone(keyframe, valued->process))
			err = WRITE(writer, USER_VALUE, record);
	}
	return err;
}

/* --wait: the slice begins inside of a recording window or between two. */
static int write_turn(const struct writer *writer)
{
	struct perfx_recording_window record = writer->keyframe->turn;
	bool opens = record.flags & PERFX_RECORDING_WINDOW_OPENS;
	int err;

	if (!record.time_ns)
		return 0;
	record.time_ns = writer->from_ns;
	record.flags |= PERFX_RECORDING_WINDOW_OPENS;
	err = WRITE(writer, RECORDING_WINDOW, record);
	if (err || opens)
		return err;
	record.flags &= ~(uint32_t)PERFX_RECORDING_WINDOW_OPENS;
	return WRITE(writer, RECORDING_WINDOW, record);
}

int keyframe__write(struct keyframe *keyframe, uint64_t from_ns, keyframe_emit *emit, void *ctx)
{
	static int (*const parts[])(const struct writer *writer) = {
		write_host, write_facts, write_threads, write_values, write_turn};
	const struct writer writer = {keyframe, from_ns, emit, ctx};
	int err = forget_ended(keyframe, from_ns);

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && !err; i++)
		err = parts[i](&writer);
	return err;
}

/* One walk over live blocks. */
struct walk {
	struct writer writer;
	/* blocks that are written: those sampled under a mode of a domain of a merged capture; mode
	 * 0: those that were not sampled, of all */
	enum perfx_domain domain;
	uint32_t merged;
	uint32_t mode;
	uint64_t *waiting; /* count of sampled blocks by domain and mode; NULL: not counted */
	/* the range that this thread reallocates: written when it is complete */
	struct live_block reallocated;
};

/* A pending reallocation is written as it began. */
static int write_pending_realloc(struct walk *walk)
{
	const struct live_block *reallocated = &walk->reallocated;
	struct perfx_free record = {.time_ns = walk->writer.from_ns,
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
	return WRITE(&walk->writer, FREE, record);
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

static int write_live_block(struct walk *walk, const struct live_block *live)
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

	return WRITE(&walk->writer, ALLOCATION, record);
}

/* In walk->waiting. */
static size_t waiting_at(uint32_t merged, enum perfx_domain domain, uint32_t mode)
{
	return ((size_t)merged * PERFX_DOMAINS + domain) * (AGGREGATE_MODES_MAX + 1) + mode;
}

static int visit_block(void *ctx, const struct live_block *live)
{
	struct walk *walk = ctx;
	const struct keyframe *keyframe = walk->writer.keyframe;
	int err = 0;

	if (is_gone(keyframe, live->process))
		return 0;
	if (walk->waiting && live->mode && live->mode <= AGGREGATE_MODES_MAX &&
	    live->merged <= keyframe->merged_max)
		walk->waiting[waiting_at(live->merged, live->domain, live->mode)]++;
	if (live->mode != walk->mode ||
	    (walk->mode && (live->domain != walk->domain || live->merged != walk->merged)))
		return 0;
	/* of the thread before */
	if (walk->reallocated.realloc_tid != live->realloc_tid ||
	    walk->reallocated.process != live->process || walk->reallocated.domain != live->domain)
		err = write_pending_realloc(walk);
	if (!err)
		err = write_live_block(walk, live);
	if (live->realloc_tid)
		note_realloc(walk, live);
	return err;
}

static int write_live_blocks(struct walk *walk)
{
	int err = aggregate__each_live_block(walk->writer.keyframe->memory, visit_block, walk);

	return err ? err : write_pending_realloc(walk);
}

/* Writes each mode, and the blocks sampled under it before the next one changes the rate. */
static int write_modes(struct walk *walk, const uint64_t *waiting)
{
	const struct keyframe *keyframe = walk->writer.keyframe;
	uint32_t(*numbers)[PERFX_DOMAINS] =
		calloc((size_t)keyframe->merged_max + 1, sizeof(*numbers));
	struct event event;
	int err = numbers ? 0 : -ENOMEM;

	for (size_t at = 0; !err && record_at(&keyframe->modes, at, &event); at += event.hdr.size) {
		err = walk->writer.emit(walk->writer.ctx, event.record, event.hdr.size);
		walk->domain = event.memory_mode.domain;
		walk->merged = event.memory_mode.merged;
		walk->mode = ++numbers[walk->merged][walk->domain];
		if (!err && walk->mode <= AGGREGATE_MODES_MAX &&
		    waiting[waiting_at(walk->merged, walk->domain, walk->mode)])
			err = write_live_blocks(walk);
	}
	free(numbers);
	return err;
}

static int write_doubts(const struct writer *writer)
{
	const struct keyframe *keyframe = writer->keyframe;
	int err = 0;

	for (uint32_t process = 0; process < keyframe->processes_count; process++) {
		for (int domain = 1; domain < PERFX_DOMAINS && !err; domain++) {
			struct perfx_overflow_memory record = {
				.process = process,
				.domain = (uint8_t)domain,
				.before = (uint8_t)aggregate__doubts(keyframe->memory, process,
								     domain)};

			if (record.before && !keyframe->processes[process].gone)
				err = WRITE(writer, OVERFLOW_MEMORY, record);
		}
	}
	return err;
}

int keyframe__write_memory(struct keyframe *keyframe, uint64_t from_ns, keyframe_emit *emit,
			   void *ctx)
{
	struct walk walk = {.writer = {keyframe, from_ns, emit, ctx}, .mode = UINT32_MAX};
	uint64_t *waiting = NULL;
	int err = 0;

	if (keyframe->modes.length) {
		walk.waiting = waiting =
			calloc(waiting_at(keyframe->merged_max + 1, 0, 0), sizeof(*waiting));
		if (!waiting)
			return -ENOMEM;
		err = write_live_blocks(&walk); /* counts: no block has this mode */
		walk.waiting = NULL;
	}
	if (!err)
		err = write_modes(&walk, waiting);
	free(waiting);
	walk.mode = 0;
	if (!err)
		err = write_live_blocks(&walk);
	return err ? err : write_doubts(&walk.writer);
}

int keyframe__write_all(struct keyframe *keyframe, uint64_t from_ns, keyframe_emit *emit, void *ctx)
{
	const struct writer writer = {keyframe, from_ns, emit, ctx};
	int err = keyframe__write(keyframe, from_ns, emit, ctx);

	err = err ?: write_usage(&writer);
	return err ?: keyframe__write_memory(keyframe, from_ns, emit, ctx);
}
