// SPDX-License-Identifier: BSD-2-Clause
#include "export/nesting.h"

#include "base/chunks.h"
#include "base/grow.h"
#include "base/map64.h"

#include <errno.h>
#include <stdlib.h>

struct thread {
	struct nesting_thread public;
	struct perfx_span *held;
	size_t held_count, held_capacity;
};

struct nesting {
	struct nesting_output output;
	struct map64 ids; /* process, tid → threads */
	struct chunks threads;
	/* calls that are open while a thread's calls go out */
	struct lane {
		uint64_t *ends;
		size_t count, capacity;
	} lanes[NESTING_LANES];
};

struct nesting *nesting__new(const struct nesting_output *output)
{
	struct nesting *nesting = calloc(1, sizeof(*nesting));

	if (nesting)
		nesting->output = *output;
	return nesting;
}

static struct thread *thread_at(struct nesting *nesting, size_t i)
{
	return chunks_at(&nesting->threads, i, sizeof(struct thread));
}

void nesting__free(struct nesting *nesting)
{
	if (!nesting)
		return;
	for (size_t i = 0; i < nesting->threads.count; i++)
		free(thread_at(nesting, i)->held);
	for (size_t i = 0; i < NESTING_LANES; i++)
		free(nesting->lanes[i].ends);
	chunks_clear(&nesting->threads);
	map64_clear(&nesting->ids);
	free(nesting);
}

static struct thread *thread_get(struct nesting *nesting, const struct perfx_span *span)
{
	uint64_t key = (uint64_t)span->process << 32 | span->tid;
	uint32_t id = map64_get(&nesting->ids, key);
	struct thread *thread;

	if (id != MAP64_NONE)
		return thread_at(nesting, id);
	thread = chunks_add(&nesting->threads, sizeof(*thread));
	if (!thread || map64_put(&nesting->ids, key, (uint32_t)nesting->threads.count - 1))
		return NULL;
	thread->public.process = span->process;
	thread->public.tid = span->tid;
	return thread;
}

struct nesting_thread *nesting__thread(struct nesting *nesting, const struct perfx_span *span)
{
	struct thread *thread = thread_get(nesting, span);

	return thread ? &thread->public : NULL;
}

/* --- a thread's calls go out ------------------------------------------------------------------ */

static uint64_t end_of(const struct perfx_span *span)
{
	uint64_t end;

	return __builtin_add_overflow(span->start_ns, span->duration_ns, &end) ? UINT64_MAX : end;
}

/* Callers first: earlier, longer, outer. */
static int by_begin(const void *left, const void *right)
{
	const struct perfx_span *a = left, *b = right;
	uint64_t a_end, b_end;

	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	a_end = end_of(a);
	b_end = end_of(b);
	if (a_end != b_end)
		return a_end > b_end ? -1 : 1;
	return a->depth < b->depth ? -1 : a->depth > b->depth;
}

/* Ends what ends up to now. */
static int lane_close(struct nesting *nesting, struct thread *thread, unsigned i, uint64_t now_ns)
{
	struct lane *lane = &nesting->lanes[i];
	int err = 0;

	while (lane->count && lane->ends[lane->count - 1] <= now_ns && !err) {
		uint64_t end_ns = lane->ends[--lane->count];

		if (nesting->output.end)
			err = nesting->output.end(nesting->output.ctx, &thread->public, i, end_ns);
	}
	return err;
}

static int lane_open(struct nesting *nesting, struct thread *thread, unsigned i,
		     const struct perfx_span *span, uint64_t end_ns)
{
	struct lane *lane = &nesting->lanes[i];

	if (grow_array(&lane->ends, &lane->capacity, lane->count + 1, sizeof(*lane->ends)))
		return -ENOMEM;
	lane->ends[lane->count++] = end_ns;
	return nesting->output.begin(nesting->output.ctx, &thread->public, i, span);
}

/* Into the first lane where it nests; in the last one it ends with what it is in at the latest. */
static int place(struct nesting *nesting, struct thread *thread, const struct perfx_span *span)
{
	uint64_t end_ns = end_of(span);

	for (unsigned i = 0; i < NESTING_LANES; i++) {
		struct lane *lane = &nesting->lanes[i];
		struct perfx_span cut = *span;
		uint64_t last;
		int err = lane_close(nesting, thread, i, span->start_ns);

		if (err)
			return err;
		last = lane->count ? lane->ends[lane->count - 1] : UINT64_MAX;
		if (last >= end_ns)
			return lane_open(nesting, thread, i, span, end_ns);
		if (i < NESTING_LANES - 1)
			continue;
		cut.duration_ns = last - span->start_ns;
		return lane_open(nesting, thread, i, &cut, last);
	}
	return 0;
}

static int thread_flush(struct nesting *nesting, struct thread *thread)
{
	int err = 0;

	if (thread->held_count > 1)
		qsort(thread->held, thread->held_count, sizeof(*thread->held), by_begin);
	for (size_t i = 0; i < thread->held_count && !err; i++)
		err = place(nesting, thread, &thread->held[i]);
	for (unsigned i = 0; i < NESTING_LANES; i++) {
		if (!err)
			err = lane_close(nesting, thread, i, UINT64_MAX);
		nesting->lanes[i].count = 0;
	}
	thread->held_count = 0;
	return err;
}

int nesting__add(struct nesting *nesting, const struct perfx_span *span)
{
	struct thread *thread = thread_get(nesting, span);

	if (!thread || grow_array(&thread->held, &thread->held_capacity, thread->held_count + 1,
				  sizeof(*thread->held)))
		return -ENOMEM;
	thread->held[thread->held_count++] = *span;
	if (span->depth && thread->held_count < NESTING_HELD)
		return 0;
	return thread_flush(nesting, thread);
}

int nesting__flush(struct nesting *nesting)
{
	int err = 0;

	for (size_t i = 0; i < nesting->threads.count && !err; i++)
		err = thread_flush(nesting, thread_at(nesting, i));
	return err;
}
