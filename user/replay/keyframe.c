// SPDX-License-Identifier: BSD-2-Clause
#include "replay/keyframe_internal.h"

#include "aggregate/aggregate.h"
#include "base/grow.h"
#include "decode/decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A thread that was not seen in samples for longer is no more. */
#define STALE_NS 5000000000u
/* Facts of processes that are gone are thrown out when there may be so many. */
#define GARBAGE_BYTES (1u << 20)

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

void keyframe__free(struct keyframe *keyframe)
{
	if (!keyframe)
		return;
	free(keyframe->facts.bytes);
	free(keyframe->modes.bytes);
	free(keyframe->host.bytes);
	free(keyframe->time_slice.bytes);
	free(keyframe->processes);
	free(keyframe->ending);
	free(keyframe->threads);
	map64_clear(&keyframe->thread_ids);
	free(keyframe->values);
	map64_clear(&keyframe->value_ids);
	aggregate__free(keyframe->memory);
	free(keyframe);
}

static int keep(struct records *records, const void *record, size_t size)
{
	if (grow_array(&records->bytes, &records->capacity, records->used + size, 1))
		return -ENOMEM;
	memcpy(records->bytes + records->used, record, size);
	records->used += size;
	return 0;
}

/* Of which there is one. */
static int replace(struct records *records, const void *record, size_t size)
{
	records->used = 0;
	return keep(records, record, size);
}

/* --- processes --- */

/* NULL with errno: ERANGE, ENOMEM. */
static struct process_state *process_state_get(struct keyframe *keyframe, uint32_t process)
{
	errno = ERANGE;
	if (process > AGGREGATE_PROCESSES_MAX)
		return NULL;
	errno = ENOMEM;
	if (grow_array(&keyframe->processes, &keyframe->processes_capacity, (size_t)process + 1,
		       sizeof(*keyframe->processes)))
		return NULL;
	if (process >= keyframe->processes_count)
		keyframe->processes_count = (size_t)process + 1;
	return &keyframe->processes[process];
}

static int end_process(struct keyframe *keyframe, uint32_t process, uint64_t time_ns)
{
	struct process_state *state = process_state_get(keyframe, process);

	if (!state || state->ended_ns)
		return state || errno == ERANGE ? 0 : -ENOMEM;
	if (grow_array(&keyframe->ending, &keyframe->ending_capacity, keyframe->ending_count + 1,
		       sizeof(*keyframe->ending)))
		return -ENOMEM;
	keyframe->ending[keyframe->ending_count++] = process;
	state->ended_ns = time_ns ? time_ns : 1;
	return 0;
}

uint32_t keyframe_owner(const struct event *event)
{
	switch (event->kind) {
	case PERFX_KIND_CONTEXT:
		return event->context.process;
	case PERFX_KIND_STACK:
		return event->stack.process;
	case PERFX_KIND_FRAME:
		return event->frame.process;
	case PERFX_KIND_PROCESS:
		return event->process.process;
	case PERFX_KIND_FORK:
		return event->fork.process;
	case PERFX_KIND_EXEC:
		return event->exec.process;
	case PERFX_KIND_EXIT:
		return event->exit.process;
	default:
		return 0;
	}
}

bool keyframe_is_stale(const struct keyframe *keyframe, const struct perfx_thread *thread)
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

		if (keyframe_is_stale(keyframe, thread))
			continue;
		if (map64_put(&keyframe->thread_ids, (uint64_t)thread->process << 32 | thread->tid,
			      (uint32_t)kept))
			return -ENOMEM;
		keyframe->threads[kept++] = keyframe->threads[i];
	}
	keyframe->threads_count = kept;
	return 0;
}

static void clean_facts(struct keyframe *keyframe)
{
	struct records *facts = &keyframe->facts;
	size_t kept = 0, size;

	for (size_t at = 0; at < facts->used; at += size) {
		struct event event;
		size_t skip;

		size = (size_t)decode_event(facts->bytes + at, facts->used - at, &event, &skip);
		if (keyframe_is_gone(keyframe, keyframe_owner(&event)))
			continue;
		memmove(facts->bytes + kept, facts->bytes + at, size);
		kept += size;
	}
	facts->used = keyframe->facts_kept = kept;
}

int keyframe_forget_ended(struct keyframe *keyframe, uint64_t time_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < keyframe->ending_count; i++) {
		struct process_state *state = &keyframe->processes[keyframe->ending[i]];

		state->gone = state->ended_ns + KEYFRAME_GRACE_NS < time_ns;
		if (state->gone)
			aggregate__forget_memory(keyframe->memory, keyframe->ending[i]);
		else
			keyframe->ending[kept++] = keyframe->ending[i];
	}
	if (kept == keyframe->ending_count)
		return 0;
	keyframe->ending_count = kept;
	if (keyframe->facts.used > keyframe->facts_kept + keyframe->facts_kept / 2 + GARBAGE_BYTES)
		clean_facts(keyframe);
	return clean_threads(keyframe);
}

/* --- what goes by --- */

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
	uint32_t at = map64_get(&keyframe->thread_ids, key);

	if (!process_state_get(keyframe, record->process))
		return errno == ERANGE ? 0 : -ENOMEM;
	if (at == MAP64_NONE) {
		if (keyframe->threads_count >= AGGREGATE_THREADS_MAX && clean_threads(keyframe))
			return -ENOMEM;
		if (keyframe->threads_count >= AGGREGATE_THREADS_MAX)
			return 0;
		at = (uint32_t)keyframe->threads_count;
		if (grow_array(&keyframe->threads, &keyframe->threads_capacity,
			       keyframe->threads_count + 1, sizeof(*keyframe->threads)) ||
		    map64_put(&keyframe->thread_ids, key, at))
			return -ENOMEM;
		keyframe->threads_count++;
	}
	keyframe->threads[at].record = *record;
	strncpy(keyframe->threads[at].comm, event->strings[0],
		sizeof(keyframe->threads[at].comm) - 1);
	return 0;
}

/* NULL with errno: ERANGE, ENOMEM. */
static struct valued *value_get(struct keyframe *keyframe, uint32_t process, uint32_t value)
{
	uint64_t id = (uint64_t)process << 32 | value;
	uint32_t at = map64_get(&keyframe->value_ids, id);

	if (at != MAP64_NONE)
		return &keyframe->values[at];
	errno = ERANGE;
	if (keyframe->values_count >= AGGREGATE_VALUES_MAX)
		return NULL;
	errno = ENOMEM;
	at = (uint32_t)keyframe->values_count;
	if (grow_array(&keyframe->values, &keyframe->values_capacity, keyframe->values_count + 1,
		       sizeof(*keyframe->values)) ||
	    map64_put(&keyframe->value_ids, id, at))
		return NULL;
	keyframe->values_count++;
	keyframe->values[at] = (struct valued){.process = process, .value = value};
	return &keyframe->values[at];
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

static int add_fact(struct keyframe *keyframe, const struct event *event)
{
	int err = 0;

	if (event->kind == PERFX_KIND_EXIT)
		err = end_process(keyframe, event->exit.process, event->exit.time_ns);
	else if (event->kind == PERFX_KIND_EXEC && event->exec.old_process != event->exec.process)
		err = end_process(keyframe, event->exec.old_process, event->exec.time_ns);
	return err ? err : keep(&keyframe->facts, event->record, event->hdr.size);
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
	case PERFX_KIND_LATE: /* over */
		return 0;
	default: /* of the life of a process */
		return add_fact(keyframe, event);
	}
}

static int add_memory(struct keyframe *keyframe, const struct event *event)
{
	if (event->kind == PERFX_KIND_MEMORY_MODE &&
	    keep(&keyframe->modes, event->record, event->hdr.size))
		return -ENOMEM;
	return aggregate__add(keyframe->memory, event);
}

/* Sums are over, but for what they say of values and live blocks. */
static int add_sum(struct keyframe *keyframe, const struct event *event)
{
	if (event->kind == PERFX_KIND_OVERFLOW_VALUES)
		return add_lost_values(keyframe, &event->overflow_values);
	if (event->kind == PERFX_KIND_OVERFLOW_MEMORY)
		return aggregate__add(keyframe->memory, event);
	return 0;
}

static int add_of_capture(struct keyframe *keyframe, const struct event *event)
{
	if (event->kind == PERFX_KIND_SEGMENT)
		return keyframe_forget_ended(keyframe, event->segment.time_ns);
	if (event->kind == PERFX_KIND_TIME_SLICE)
		return replace(&keyframe->time_slice, event->record, event->hdr.size);
	if (event->kind != PERFX_KIND_HOST)
		return 0;
	if (replace(&keyframe->host, event->record, event->hdr.size))
		return -ENOMEM;
	return aggregate__add(keyframe->memory, event); /* its clock */
}

int keyframe__add(struct keyframe *keyframe, const struct event *event)
{
	switch (role_of(event->kind)) {
	case PERFX_ROLE_FACT:
		return add_fact(keyframe, event);
	case PERFX_ROLE_EVENT:
		return add_event(keyframe, event);
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

/* --- what is asked --- */

uint64_t keyframe__start_ns(const struct keyframe *keyframe)
{
	struct event event;
	size_t skip;

	if (!keyframe->host.used)
		return 0;
	decode_event(keyframe->host.bytes, keyframe->host.used, &event, &skip);
	return event.host.start_ns;
}

const struct perfx_time_slice *keyframe__time_slice(const struct keyframe *keyframe,
						    const char **why)
{
	const struct perfx_time_slice *time_slice = (const void *)keyframe->time_slice.bytes;

	if (!keyframe->time_slice.used)
		return NULL;
	*why = keyframe->time_slice.bytes + time_slice->hdr.fixed;
	return time_slice;
}
