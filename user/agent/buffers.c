// SPDX-License-Identifier: BSD-2-Clause
/*
 * The buffers that CUPTI fills: a pool. CUPTI asks for one, and gives it back, on threads of the
 * program and its own: there a state is changed, nothing else. The agent's thread reads them.
 */
#include "agent.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define BUFFERS_COUNT 8
#define BUFFER_BYTES  (1u << 20)
/* Before API 27 CUPTI does not take "no buffer" for an answer: it gets one of these, whose records
 * nobody reads. */
#define THROWN_COUNT 4
#define THROWN_BYTES (64u << 10)

enum state { FREE = 0, LENT, COMPLETE };

struct buffer {
	uint8_t *bytes;
	_Atomic int state;
	size_t valid;	/* COMPLETE */
	uint64_t order; /* COMPLETE: in which they were completed */
};

static struct buffer buffers[BUFFERS_COUNT], thrown[THROWN_COUNT];
static uint8_t *memory;
static bool null_is_allowed;
static _Atomic uint64_t completed_count;

#define MEMORY_BYTES (BUFFERS_COUNT * (size_t)BUFFER_BYTES + THROWN_COUNT * (size_t)THROWN_BYTES)

bool buffers_map(bool null_allowed)
{
	memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (memory == MAP_FAILED) {
		memory = NULL;
		return false;
	}
	null_is_allowed = null_allowed;
	for (size_t i = 0; i < BUFFERS_COUNT; i++)
		buffers[i].bytes = memory + i * BUFFER_BYTES;
	for (size_t i = 0; i < THROWN_COUNT; i++)
		thrown[i].bytes = memory + BUFFERS_COUNT * (size_t)BUFFER_BYTES + i * THROWN_BYTES;
	return true;
}

/* Takes the buffers that nobody has. All of them? */
static bool withhold(struct buffer *pool, size_t count)
{
	size_t withheld = 0;

	for (size_t i = 0; i < count; i++) {
		int state = FREE;

		withheld += atomic_compare_exchange_strong(&pool[i].state, &state, LENT);
	}
	return withheld == count;
}

void buffers_end(void)
{
	bool all = withhold(buffers, BUFFERS_COUNT);

	if (!withhold(thrown, THROWN_COUNT) || !all || !memory)
		return;
	munmap(memory, MEMORY_BYTES);
	memory = NULL;
}

size_t buffers_mapped_bytes(void)
{
	return memory ? MEMORY_BYTES : 0;
}

static uint8_t *lend(struct buffer *pool, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int state = FREE;

		if (pool[i].bytes && atomic_compare_exchange_strong(&pool[i].state, &state, LENT))
			return pool[i].bytes;
	}
	return NULL;
}

void buffer_requested(uint8_t **buffer, size_t *size, size_t *records_max)
{
	*buffer = agent_is_here() ? lend(buffers, BUFFERS_COUNT) : NULL;
	*size = *buffer ? BUFFER_BYTES : 0;
	*records_max = 0; /* as many as fit */
	if (*buffer || !agent_is_here())
		return;
	loss_add(LOSS_UNBUFFERED, 1);
	if (null_is_allowed)
		return;
	*buffer = lend(thrown, THROWN_COUNT);
	*size = *buffer ? THROWN_BYTES : 0;
}

static struct buffer *find_lent(struct buffer *pool, size_t count, const uint8_t *bytes)
{
	for (size_t i = 0; bytes && i < count; i++)
		if (pool[i].bytes == bytes && atomic_load(&pool[i].state) == LENT)
			return &pool[i];
	return NULL;
}

/* The context is always NULL since CUDA 6. */
void buffer_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	struct buffer *own, *unread;

	(void)context, (void)stream, (void)size;
	if (!agent_is_here())
		return;
	own = find_lent(buffers, BUFFERS_COUNT, buffer);
	unread = own ? NULL : find_lent(thrown, THROWN_COUNT, buffer);
	if (own) {
		own->valid = valid < BUFFER_BYTES ? valid : BUFFER_BYTES;
		own->order = atomic_fetch_add(&completed_count, 1);
		atomic_store_explicit(&own->state, COMPLETE, memory_order_release);
		agent_wake();
	} else if (unread) {
		atomic_store(&unread->state, FREE);
		loss_add(LOSS_THROWN_BUFFERS, valid > 0);
	} else {
		loss_add(LOSS_UNKNOWN_BUFFERS, 1);
	}
}

static struct buffer *oldest_complete(void)
{
	struct buffer *oldest = NULL;

	for (size_t i = 0; i < BUFFERS_COUNT; i++)
		if (atomic_load_explicit(&buffers[i].state, memory_order_acquire) == COMPLETE &&
		    (!oldest || buffers[i].order < oldest->order))
			oldest = &buffers[i];
	return oldest;
}

void buffers_drain(void (*parse)(uint8_t *bytes, size_t valid))
{
	struct buffer *buffer;

	while ((buffer = oldest_complete())) {
		parse(buffer->bytes, buffer->valid);
		atomic_store_explicit(&buffer->state, FREE, memory_order_release);
	}
}
