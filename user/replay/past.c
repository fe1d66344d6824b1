// SPDX-License-Identifier: BSD-2-Clause
#include "replay/past_internal.h"

#include "aggregate/living.h"
#include "base/grow.h"
#include "decode/decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A thread that was not seen in samples for longer is no more. */
#define STALE_NS 5000000000u
/* Facts of processes that are gone are thrown out when there may be so many. */
#define GARBAGE_BYTES (1u << 20)

struct past *past__new(uint32_t blocks_max)
{
	struct past *past = calloc(1, sizeof(*past));

	if (!past)
		return NULL;
	past->memory = aggregate__new();
	if (!past->memory) {
		free(past);
		return NULL;
	}
	aggregate__limit_blocks(past->memory, blocks_max);
	return past;
}

void past__free(struct past *past)
{
	if (!past)
		return;
	free(past->facts.bytes);
	free(past->modes.bytes);
	free(past->host.bytes);
	free(past->part.bytes);
	free(past->people);
	free(past->ending);
	free(past->threads);
	map64_clear(&past->thread_ids);
	free(past->values);
	map64_clear(&past->value_ids);
	aggregate__free(past->memory);
	free(past);
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
static struct person *person_get(struct past *past, uint32_t process)
{
	errno = ERANGE;
	if (process > AGGREGATE_PROCESSES_MAX)
		return NULL;
	errno = ENOMEM;
	if (grow_array(&past->people, &past->people_capacity, (size_t)process + 1,
		       sizeof(*past->people)))
		return NULL;
	if (process >= past->people_count)
		past->people_count = (size_t)process + 1;
	return &past->people[process];
}

static int end_person(struct past *past, uint32_t process, uint64_t time_ns)
{
	struct person *person = person_get(past, process);

	if (!person || person->ended_ns)
		return person || errno == ERANGE ? 0 : -ENOMEM;
	if (grow_array(&past->ending, &past->ending_capacity, past->ending_count + 1,
		       sizeof(*past->ending)))
		return -ENOMEM;
	past->ending[past->ending_count++] = process;
	person->ended_ns = time_ns ? time_ns : 1;
	return 0;
}

uint32_t past_owner(const struct event *event)
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

bool past_is_stale(const struct past *past, const struct perfx_thread *thread)
{
	const struct person *person = &past->people[thread->process];

	return person->gone ||
	       (person->has_usage && person->usage.time_ns > thread->time_ns + STALE_NS);
}

static int clean_threads(struct past *past)
{
	size_t kept = 0;

	map64_clear(&past->thread_ids);
	for (size_t i = 0; i < past->threads_count; i++) {
		const struct perfx_thread *thread = &past->threads[i].record;

		if (past_is_stale(past, thread))
			continue;
		if (map64_put(&past->thread_ids, (uint64_t)thread->process << 32 | thread->tid,
			      (uint32_t)kept))
			return -ENOMEM;
		past->threads[kept++] = past->threads[i];
	}
	past->threads_count = kept;
	return 0;
}

static void clean_facts(struct past *past)
{
	struct records *facts = &past->facts;
	size_t kept = 0, size;

	for (size_t at = 0; at < facts->used; at += size) {
		struct event event;
		size_t skip;

		size = (size_t)decode_event(facts->bytes + at, facts->used - at, &event, &skip);
		if (past_is_gone(past, past_owner(&event)))
			continue;
		memmove(facts->bytes + kept, facts->bytes + at, size);
		kept += size;
	}
	facts->used = past->facts_kept = kept;
}

int past_forget_ended(struct past *past, uint64_t time_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < past->ending_count; i++) {
		struct person *person = &past->people[past->ending[i]];

		person->gone = person->ended_ns + PAST_GRACE_NS < time_ns;
		if (person->gone)
			aggregate__forget_memory(past->memory, past->ending[i]);
		else
			past->ending[kept++] = past->ending[i];
	}
	if (kept == past->ending_count)
		return 0;
	past->ending_count = kept;
	if (past->facts.used > past->facts_kept + past->facts_kept / 2 + GARBAGE_BYTES)
		clean_facts(past);
	return clean_threads(past);
}

/* --- what goes by --- */

static int add_usage(struct past *past, const struct perfx_usage *usage)
{
	struct person *person = person_get(past, usage->process);

	if (!person)
		return errno == ERANGE ? 0 : -ENOMEM;
	person->usage = *usage;
	person->has_usage = true;
	return 0;
}

static int add_thread(struct past *past, const struct event *event)
{
	const struct perfx_thread *record = &event->thread;
	uint64_t key = (uint64_t)record->process << 32 | record->tid;
	uint32_t at = map64_get(&past->thread_ids, key);

	if (!person_get(past, record->process))
		return errno == ERANGE ? 0 : -ENOMEM;
	if (at == MAP64_NONE) {
		if (past->threads_count >= AGGREGATE_THREADS_MAX && clean_threads(past))
			return -ENOMEM;
		if (past->threads_count >= AGGREGATE_THREADS_MAX)
			return 0;
		at = (uint32_t)past->threads_count;
		if (grow_array(&past->threads, &past->threads_capacity, past->threads_count + 1,
			       sizeof(*past->threads)) ||
		    map64_put(&past->thread_ids, key, at))
			return -ENOMEM;
		past->threads_count++;
	}
	past->threads[at].record = *record;
	strncpy(past->threads[at].comm, event->strings[0], sizeof(past->threads[at].comm) - 1);
	return 0;
}

/* NULL with errno: ERANGE, ENOMEM. */
static struct valued *value_get(struct past *past, uint32_t process, uint32_t value)
{
	uint64_t id = (uint64_t)process << 32 | value;
	uint32_t at = map64_get(&past->value_ids, id);

	if (at != MAP64_NONE)
		return &past->values[at];
	errno = ERANGE;
	if (past->values_count >= AGGREGATE_VALUES_MAX)
		return NULL;
	errno = ENOMEM;
	at = (uint32_t)past->values_count;
	if (grow_array(&past->values, &past->values_capacity, past->values_count + 1,
		       sizeof(*past->values)) ||
	    map64_put(&past->value_ids, id, at))
		return NULL;
	past->values_count++;
	past->values[at] = (struct valued){.process = process, .value = value};
	return &past->values[at];
}

static int add_value(struct past *past, const struct perfx_value *record)
{
	struct valued *valued = value_get(past, record->process, record->value);
	double number;

	memcpy(&number, &record->number_bits, sizeof(number));
	if (valued)
		valued->number =
			record->flags & PERFX_VALUE_ADDED ? valued->number + number : number;
	return valued || errno == ERANGE ? 0 : -ENOMEM;
}

static int add_lost_values(struct past *past, const struct perfx_value_book *record)
{
	struct valued *valued = value_get(past, record->process, record->value);

	if (valued && record->sets_count && record->last_ns)
		memcpy(&valued->number, &record->last_bits, sizeof(valued->number));
	else if (valued)
		valued->number += (double)record->sum;
	return valued || errno == ERANGE ? 0 : -ENOMEM;
}

static int add_fact(struct past *past, const struct event *event)
{
	int err = 0;

	if (event->kind == PERFX_KIND_EXIT)
		err = end_person(past, event->exit.process, event->exit.time_ns);
	else if (event->kind == PERFX_KIND_EXEC && event->exec.old_process != event->exec.process)
		err = end_person(past, event->exec.old_process, event->exec.time_ns);
	return err ? err : keep(&past->facts, event->record, event->hdr.size);
}

int past__add(struct past *past, const struct event *event)
{
	switch (event->kind) {
	case PERFX_KIND_FUNCTION:
	case PERFX_KIND_PROBE:
	case PERFX_KIND_CONTEXT:
	case PERFX_KIND_STACK:
	case PERFX_KIND_ALLOCATOR:
	case PERFX_KIND_CALIBRATION:
	case PERFX_KIND_PEAK:
	case PERFX_KIND_METER:
	case PERFX_KIND_WORK:
	case PERFX_KIND_FRAME:
	case PERFX_KIND_NOT_ATTACHED:
	case PERFX_KIND_VALUE_NAME:
	case PERFX_KIND_PROCESS:
	case PERFX_KIND_FORK:
	case PERFX_KIND_EXEC:
	case PERFX_KIND_EXIT:
		return add_fact(past, event);
	case PERFX_KIND_HOST:
		if (replace(&past->host, event->record, event->hdr.size))
			return -ENOMEM;
		return aggregate__add(past->memory, event); /* its clock */
	case PERFX_KIND_PART:
		return replace(&past->part, event->record, event->hdr.size);
	case PERFX_KIND_USAGE:
		return add_usage(past, &event->usage);
	case PERFX_KIND_VALUE:
		return add_value(past, &event->value);
	case PERFX_KIND_VALUE_BOOK:
		return add_lost_values(past, &event->value_book);
	case PERFX_KIND_WINDOW:
		if (event->window.time_ns >= past->turn.time_ns)
			past->turn = event->window;
		return 0;
	case PERFX_KIND_THREAD:
		return add_thread(past, event);
	case PERFX_KIND_MEMORY_MODE:
		if (keep(&past->modes, event->record, event->hdr.size))
			return -ENOMEM;
		return aggregate__add(past->memory, event);
	case PERFX_KIND_ALLOCATION:
	case PERFX_KIND_FREE:
	case PERFX_KIND_MEMORY_BOOK:
		return aggregate__add(past->memory, event);
	case PERFX_KIND_SEGMENT:
		return past_forget_ended(past, event->segment.time_ns);
	/* over, or known only at the end */
	case PERFX_KIND_SPAN:
	case PERFX_KIND_LATE:
	case PERFX_KIND_BOOK:
	case PERFX_KIND_HITS:
	case PERFX_KIND_LOSS:
	case PERFX_KIND_METERED:
	case PERFX_KIND_METERED_PROCESS:
	case PERFX_KIND_END:
	case PERFX_KIND_INVALID:
		break;
	}
	return 0;
}

/* --- what is asked --- */

uint64_t past__start_ns(const struct past *past)
{
	struct event event;
	size_t skip;

	if (!past->host.used)
		return 0;
	decode_event(past->host.bytes, past->host.used, &event, &skip);
	return event.host.start_ns;
}

const struct perfx_part *past__part(const struct past *past, const char **why)
{
	const struct perfx_part *part = (const void *)past->part.bytes;

	if (!past->part.used)
		return NULL;
	*why = past->part.bytes + part->hdr.fixed;
	return part;
}
