// SPDX-License-Identifier: BSD-2-Clause
/* The agent's side of the ring: the only producer. */
#include "agent.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

_Static_assert(sizeof(struct perfx_agent_ring) <= PERFX_AGENT_RING_DATA, "header");
_Static_assert(sizeof(struct perfx_agent_activity) % 8 == 0, "records are multiples of 8");
_Static_assert(sizeof(struct perfx_agent_call) % 8 == 0, "records are multiples of 8");

static struct perfx_agent_ring *ring;
static uint8_t *data;
static size_t ring_bytes, data_bytes;
static uint64_t head; /* ours: the ring's own may have been written over */
static uint64_t published;

/* Counted by all threads; the agent's thread copies them into the ring. */
static _Atomic uint64_t losses[PERFX_AGENT_LOSSES];

#define NAMES_SLOTS 32768 /* a power of two */
#define NAMES_MAX   (NAMES_SLOTS / 2)

struct name_slot {
	uint64_t hash; /* 0: free */
	uint32_t name;
};

static struct name_slot *names;
static uint32_t names_count;

bool ring_map(int memfd, uint64_t bytes)
{
	void *memory;

	if (bytes <= PERFX_AGENT_RING_DATA || bytes > 1ull << 31)
		return false;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	if (memory == MAP_FAILED)
		return false;
	ring = memory;
	ring_bytes = bytes;
	data = (uint8_t *)memory + PERFX_AGENT_RING_DATA;
	data_bytes = ring->data_bytes;
	/* a child has no use for it, and would only write into its parent's records */
	madvise(memory, bytes, MADV_DONTFORK);
	memory = mmap(NULL, NAMES_SLOTS * sizeof(*names), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	names = memory == MAP_FAILED ? NULL : memory;
	if (names && ring->magic == PERFX_AGENT_RING_MAGIC &&
	    ring->version == PERFX_AGENT_VERSION && data_bytes == bytes - PERFX_AGENT_RING_DATA &&
	    !(data_bytes & (data_bytes - 1)))
		return true;
	ring_unmap();
	return false;
}

void ring_unmap(void)
{
	if (ring)
		munmap(ring, ring_bytes);
	if (names)
		munmap(names, NAMES_SLOTS * sizeof(*names));
	ring = NULL;
	names = NULL;
}

void loss_add(enum loss loss, uint64_t count)
{
	if (count)
		atomic_fetch_add_explicit(&losses[loss], count, memory_order_relaxed);
}

/* Where a record of this size goes: not around the end. NULL: no room. */
static uint8_t *reserve(size_t size)
{
	size_t at = head & (data_bytes - 1), to_end = data_bytes - at;
	size_t padding = to_end < size ? to_end : 0;
	uint64_t used = head - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);

	if (used > data_bytes || data_bytes - used < padding + size)
		return NULL;
	if (padding) {
		struct perfx_agent_record pad = {.size = (uint32_t)padding,
						 .kind = PERFX_AGENT_PAD};

		memcpy(data + at, &pad, sizeof(pad));
		head += padding;
		at = 0;
	}
	return data + at;
}

bool ring_put(void *record, size_t fixed_size, enum perfx_agent_record_kind kind, const char *text,
	      size_t text_bytes)
{
	size_t size = fixed_size + (text_bytes + 7) / 8 * 8;
	struct perfx_agent_record *header = record;
	uint8_t *to = reserve(size);

	if (!to) {
		loss_add(LOSS_RING_FULL, 1);
		return false;
	}
	header->size = (uint32_t)size;
	header->kind = kind;
	memcpy(to, record, fixed_size);
	if (text_bytes) {
		memset(to + size - 8, 0, 8);
		memcpy(to + fixed_size, text, text_bytes);
	}
	head += size;
	__atomic_store_n(&ring->head, head, __ATOMIC_RELEASE);
	return true;
}

bool ring_publish(void)
{
	uint64_t counts[PERFX_AGENT_LOSSES];
	bool news = head != published;

	for (size_t i = 0; i < PERFX_AGENT_LOSSES; i++)
		counts[i] = atomic_load_explicit(&losses[i], memory_order_relaxed);
	_Static_assert(sizeof(counts) == sizeof(ring->losses), "struct perfx_agent_losses");
	memcpy(&ring->losses, counts, sizeof(counts));
	published = head;
	return news;
}

/* FNV-1a, 64 bits; never 0. */
static uint64_t hash_of(const char *text, size_t size)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (uint8_t)text[i]) * 0x100000001b3ULL;
	return hash ? hash : 1;
}

uint32_t ring_name(const char *text, uint32_t flags)
{
	struct perfx_agent_name record = {.flags = flags};
	char copy[PERFX_AGENT_NAME_MAX];
	size_t size = strnlen(text, sizeof(copy) - 1);
	uint64_t hash = hash_of(text, size);
	size_t at = hash & (NAMES_SLOTS - 1);

	while (names[at].hash && names[at].hash != hash)
		at = (at + 1) & (NAMES_SLOTS - 1);
	if (names[at].hash)
		return names[at].name;
	record.name = names_count + 1;
	memcpy(copy, text, size);
	copy[size] = '\0';
	if (names_count == NAMES_MAX) {
		loss_add(LOSS_UNNAMED, 1);
		return 0;
	}
	/* without room it is not known yet: its next record tries again */
	if (!ring_put(&record, sizeof(record), PERFX_AGENT_NAME, copy, size + 1))
		return 0;
	names[at] = (struct name_slot){.hash = hash, .name = ++names_count};
	return record.name;
}
