// SPDX-License-Identifier: BSD-2-Clause
#include "stream/past.h"

#include "aggregate/living.h"
#include "base/grow.h"
#include "base/map64.h"
#include "decode/decode.h"
#include "stream/pack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* What comes late of a process that has ended comes within this time. */
#define GRACE_NS 2000000000u
/* A thread that was not seen in samples for longer is no more. */
#define STALE_NS 5000000000u
/* Facts of processes that are gone are thrown out when there may be so many. */
#define GARBAGE_BYTES (1u << 20)

/* Records, one after another. */
struct records {
	char *bytes;
	size_t used, capacity;
};

/* A process. */
struct person {
	bool gone, has_usage;
	uint64_t ended_ns; /* 0: lives */
	struct perfx_usage usage;
};

struct thread_seen {
	struct perfx_thread record;
	char comm[64];
};

struct past {
	struct records facts, modes;
	size_t facts_kept; /* bytes after the last cleaning */
	struct records host, part;
	struct person *people; /* by index */
	size_t people_count, people_capacity;
	uint32_t *ending; /* processes that have ended and are not gone yet */
	size_t ending_count, ending_capacity;
	struct thread_seen *threads;
	size_t threads_count, threads_capacity;
	struct map64 thread_ids; /* process << 32 | tid */
	struct aggregate *memory;
	struct pack_buffer buffer;
};

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

static bool is_gone(const struct past *past, uint32_t process)
{
	return process < past->people_count && past->people[process].gone;
}

/* Whose process a fact is; 0: nobody's. */
static uint32_t owner_of(const struct event *event)
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

/* A thread of a process that is gone, or one that its process's samples show no more. */
static bool is_stale(const struct past *past, const struct perfx_thread *thread)
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

		if (is_stale(past, thread))
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
		if (is_gone(past, owner_of(&event)))
			continue;
		memmove(facts->bytes + kept, facts->bytes + at, size);
		kept += size;
	}
	facts->used = past->facts_kept = kept;
}

/* Those whose end is long enough ago at a time. */
static int forget_ended(struct past *past, uint64_t time_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < past->ending_count; i++) {
		struct person *person = &past->people[past->ending[i]];

		person->gone = person->ended_ns + GRACE_NS < time_ns;
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
		return forget_ended(past, event->segment.time_ns);
	/* over, or known only at the end */
	case PERFX_KIND_SPAN:
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

/* --- the telling --- */

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
		if (!is_gone(past, owner_of(&event)))
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

		if (is_stale(past, &thread->record) || thread->record.time_ns + GRACE_NS < from_ns)
			continue;
		err = tell_packed(PACK(&past->buffer, PERFX_KIND_THREAD, thread->record,
				       thread->comm),
				  emit, ctx);
	}
	return err;
}

int past__tell(struct past *past, uint64_t from_ns, past_emit *emit, void *ctx)
{
	int err = forget_ended(past, from_ns);

	if (!err)
		err = tell_host(past, from_ns, emit, ctx);
	if (!err)
		err = tell_facts(past, emit, ctx);
	return err ? err : tell_threads(past, from_ns, emit, ctx);
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

	if (is_gone(walk->past, living->process))
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
