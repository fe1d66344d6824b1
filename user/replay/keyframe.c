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

/* A thread that is missing from samples for longer has ended. */
#define STALE_NS 5000000000u
/* Facts of gone processes are dropped when there may be so many bytes of them. */
#define GARBAGE_BYTES (1u << 20)
/* Passing facts of a stream without end: the newest are kept, and as many more until the next
 * cleaning. */
#define PASSING_KEPT 65536

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
struct value_state {
	uint32_t process, value;
	double number;
};

struct keyframe {
	struct text facts;		    /* records, one after another */
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
	struct value_state *values;
	size_t values_count, values_capacity;
	struct map64 value_ids;		      /* process << 32 | value */
	struct perfx_recording_window window; /* --wait: the last; time 0: none */
	struct aggregate *memory;	      /* live blocks */
	bool is_borrowed;		      /* its owner adds all events to the memory */
	struct pack_buffer buffer;
};

static bool is_gone(const struct keyframe *keyframe, uint32_t process)
{
	return process < keyframe->processes_count && keyframe->processes[process].gone;
}

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

/* Adds an event to the live blocks, unless the owner of the aggregate does. 0 or -ENOMEM. */
static int add_to_memory(struct keyframe *keyframe, const struct event *event)
{
	return keyframe->is_borrowed || is_gone(keyframe, event_process(event))
		       ? 0
		       : aggregate__add(keyframe->memory, event);
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
	state->ended_ns = time_ns ? time_ns : 1;
	return LIST_ADD(keyframe->ending, process);
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
	FOR_EACH (thread, keyframe->threads) {
		const struct perfx_thread *record = &thread->record;

		if (is_stale(keyframe, record))
			continue;
		if (map64_put(&keyframe->thread_ids, MAP64_PAIR(record->process, record->tid),
			      (uint32_t)kept))
			return -ENOMEM;
		keyframe->threads[kept++] = *thread;
	}
	keyframe->threads_count = kept;
	return 0;
}

static int clean_values(struct keyframe *keyframe)
{
	size_t kept = 0;

	map64_clear(&keyframe->value_ids);
	FOR_EACH (value, keyframe->values) {
		if (is_gone(keyframe, value->process))
			continue;
		if (map64_put(&keyframe->value_ids, MAP64_PAIR(value->process, value->value),
			      (uint32_t)kept))
			return -ENOMEM;
		keyframe->values[kept++] = *value;
	}
	keyframe->values_count = kept;
	return 0;
}

/* Passing facts: a living process has no end of them. */
static bool is_passing(const struct event *event)
{
	return event->kind == PERFX_KIND_STACK || event->kind == PERFX_KIND_WAIT_OBJECT;
}

/* Stacks that contexts and live blocks name. 0 or -ENOMEM. */
static int find_named_stacks(const struct keyframe *keyframe, struct map64 *stacks)
{
	int err = aggregate__live_stacks(keyframe->memory, stacks);
	struct event event;

	for (size_t at = 0; !err && record_at(&keyframe->facts, at, &event); at += event.hdr.size) {
		uint64_t key;

		if (event.kind != PERFX_KIND_CONTEXT)
			continue;
		key = MAP64_PAIR(event.context.process, event.context.stack);
		if (map64_get(stacks, key) == MAP64_NONE)
			err = map64_put(stacks, key, 0);
	}
	return err;
}

/* Drops the facts of gone processes. Of a stream without end drops the oldest passing facts as
 * well: those in use are emitted anew (session/recycle.c). Named stacks stay. */
static void clean_facts(struct keyframe *keyframe)
{
	struct text *facts = &keyframe->facts;
	struct map64 named = {0};
	size_t kept = 0, passed_count = 0, number = 0, passing_count = 0;
	struct event event;

	/* without memory for the named stacks all facts are kept */
	if (keyframe->goes_on && keyframe->passing_count > PASSING_KEPT &&
	    !find_named_stacks(keyframe, &named))
		passed_count = keyframe->passing_count - PASSING_KEPT;
	for (size_t at = 0; record_at(facts, at, &event); at += event.hdr.size) {
		bool passing = is_passing(&event), has_passed;

		number += passing;
		has_passed = passing && number < passed_count &&
			     (event.kind != PERFX_KIND_STACK ||
			      map64_get(&named, MAP64_PAIR(event.stack.process,
							   event.stack.stack)) == MAP64_NONE);
		if (has_passed || is_gone(keyframe, event_process(&event)))
			continue;
		passing_count += passing;
		memmove(facts->data + kept, facts->data + at, event.hdr.size);
		kept += event.hdr.size;
	}
	map64_clear(&named);
	facts->length = keyframe->facts_kept = kept;
	keyframe->passing_count = passing_count;
	keyframe->passing_limit = passing_count + PASSING_KEPT;
}

/* Drops the facts, values and threads of gone processes. 0 or -ENOMEM. */
static int clean(struct keyframe *keyframe)
{
	clean_facts(keyframe);
	keyframe->cleaned_count = keyframe->gone_count;
	return clean_values(keyframe) ?: clean_threads(keyframe);
}

/* Forgets processes that ended long enough before a time. 0 or -ENOMEM. */
static int forget_ended(struct keyframe *keyframe, uint64_t time_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < keyframe->ending_count; i++) {
		struct process_state *state = &keyframe->processes[keyframe->ending[i]];

		state->gone = state->ended_ns + AGGREGATE_GRACE_NS < time_ns;
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
	return keyframe->facts.length >
			       keyframe->facts_kept + keyframe->facts_kept / 2 + GARBAGE_BYTES
		       ? clean(keyframe)
		       : clean_threads(keyframe);
}

static int add_thread(struct keyframe *keyframe, const struct event *event)
{
	const struct perfx_thread *record = &event->thread;
	uint64_t key = MAP64_PAIR(record->process, record->tid);
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

/* Sets one of the program's values, or adds to it. 0 or -ENOMEM. */
static int set_value(struct keyframe *keyframe, uint32_t process, uint32_t value, bool adds,
		     double number)
{
	uint64_t key = MAP64_PAIR(process, value);
	struct value_state *state;

	if (keyframe->values_count >= AGGREGATE_VALUES_MAX &&
	    map64_get(&keyframe->value_ids, key) == MAP64_NONE)
		return 0;
	state = MAP64_ITEM(keyframe->value_ids, key, keyframe->values);
	if (!state)
		return -ENOMEM;
	*state = (struct value_state){process, value, adds ? state->number + number : number};
	return 0;
}

static int add_value(struct keyframe *keyframe, const struct perfx_user_value *record)
{
	double number;

	memcpy(&number, &record->number_bits, sizeof(number));
	return set_value(keyframe, record->process, record->value,
			 record->flags & PERFX_USER_VALUE_ADDED, number);
}

static int add_lost_values(struct keyframe *keyframe, const struct perfx_overflow_values *record)
{
	bool was_set = record->sets_count && record->last_ns;
	double number = (double)record->sum;

	if (was_set)
		memcpy(&number, &record->last_bits, sizeof(number));
	return set_value(keyframe, record->process, record->value, !was_set, number);
}

/* A process begins. In a stream without end its index may be that of a process that is long gone
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

static int add_fact(struct keyframe *keyframe, const struct event *event)
{
	int err = 0;

	if (event->kind == PERFX_KIND_FORK || event->kind == PERFX_KIND_EXEC ||
	    event->kind == PERFX_KIND_PROCESS)
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
	return err ?: append_event(&keyframe->facts, event);
}

int keyframe__add(struct keyframe *keyframe, const struct event *event)
{
	struct process_state *state;

	switch (role_of(event->kind)) {
	case PERFX_ROLE_STATE:
		/* the process of a merged capture has that one's memory modes */
		if (event->kind == PERFX_KIND_PROCESS && event->process.merged &&
		    add_to_memory(keyframe, event))
			return -ENOMEM;
		return add_fact(keyframe, event);
	case PERFX_ROLE_FACT:
		return add_fact(keyframe, event);
	case PERFX_ROLE_EVENT: /* others are over */
		if (event->kind == PERFX_KIND_USER_VALUE)
			return add_value(keyframe, &event->user_value);
		if (event->kind == PERFX_KIND_THREAD)
			return add_thread(keyframe, event);
		if (event->kind == PERFX_KIND_RECORDING_WINDOW &&
		    event->recording_window.time_ns >= keyframe->window.time_ns)
			keyframe->window = event->recording_window;
		break;
	case PERFX_ROLE_MEMORY:
		return add_to_memory(keyframe, event);
	case PERFX_ROLE_SAMPLE:
		state = process_state_get(keyframe, event->usage.process);
		if (!state)
			return errno == ERANGE ? 0 : -ENOMEM;
		state->usage = event->usage;
		state->has_usage = true;
		return 0;
	case PERFX_ROLE_SUM: /* others are over */
		if (event->kind == PERFX_KIND_OVERFLOW_VALUES)
			return add_lost_values(keyframe, &event->overflow_values);
		if (event->kind == PERFX_KIND_OVERFLOW_MEMORY)
			return add_to_memory(keyframe, event);
		break;
	case PERFX_ROLE_CAPTURE:
		if (event->kind == PERFX_KIND_SEGMENT)
			return forget_ended(keyframe, event->segment.time_ns);
		if (event->kind == PERFX_KIND_TIME_SLICE) {
			keyframe->time_slice.length = 0;
			return append_event(&keyframe->time_slice, event);
		}
		if (event->kind != PERFX_KIND_HOST)
			break;
		keyframe->host.length = 0;
		/* the memory's clock begins with it */
		return append_event(&keyframe->host, event) ?: add_to_memory(keyframe, event);
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

/* A keyframe that is being written. */
struct writer {
	struct keyframe *keyframe;
	uint64_t from_ns;
	keyframe_emit *emit;
	void *ctx;
};

#define WRITE(writer, kind, ...)      \
	(writer)->emit((writer)->ctx, \
		       PACK(&(writer)->keyframe->buffer, PERFX_KIND_##kind, __VA_ARGS__))

/* The clocks of the new capture begin at from_ns. */
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

static int write_values(const struct writer *writer)
{
	int err = 0;

	FOR_EACH (state, writer->keyframe->values) {
		struct perfx_user_value record = {.time_ns = writer->from_ns,
						  .process = state->process,
						  .value = state->value,
						  .flags = PERFX_USER_VALUE_BEFORE};

		memcpy(&record.number_bits, &state->number, sizeof(record.number_bits));
		if (!err && !is_gone(writer->keyframe, state->process))
			err = WRITE(writer, USER_VALUE, record);
	}
	return err;
}

/* --wait: the capture begins inside of a recording window or between two. */
static int write_window(const struct writer *writer)
{
	struct perfx_recording_window record = writer->keyframe->window;
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
	const struct writer writer = {keyframe, from_ns, emit, ctx};
	int err = forget_ended(keyframe, from_ns) ?: write_host(&writer);
	struct event event;

	for (size_t at = 0; !err && record_at(&keyframe->facts, at, &event); at += event.hdr.size)
		if (!is_gone(keyframe, event_process(&event)))
			err = emit(ctx, event.record);
	/* a sample from long before from_ns would move its thread's time into the capture */
	FOR_EACH (thread, keyframe->threads)
		if (!err && !is_stale(keyframe, &thread->record) &&
		    thread->record.time_ns + AGGREGATE_GRACE_NS >= from_ns)
			err = WRITE(&writer, THREAD, thread->record, thread->comm);
	return err ?: write_values(&writer) ?: write_window(&writer);
}

int keyframe__write_memory(struct keyframe *keyframe, uint64_t from_ns, keyframe_emit *emit,
			   void *ctx)
{
	return aggregate__write_memory(keyframe->memory, from_ns, emit, ctx);
}

int keyframe__write_all(struct keyframe *keyframe, uint64_t from_ns, keyframe_emit *emit, void *ctx)
{
	const struct writer writer = {keyframe, from_ns, emit, ctx};
	int err = keyframe__write(keyframe, from_ns, emit, ctx);

	FOR_EACH (state, keyframe->processes) {
		struct perfx_usage usage = state->usage;

		if (err || !state->has_usage || state->gone)
			continue;
		/* its counters at the beginning of the capture */
		if (!state->ended_ns)
			usage.time_ns = from_ns;
		err = WRITE(&writer, USAGE, usage);
	}
	return err ?: keyframe__write_memory(keyframe, from_ns, emit, ctx);
}
