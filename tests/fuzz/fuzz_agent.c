// SPDX-License-Identifier: BSD-2-Clause
/* The ring that an agent shares with the process that it is in: positions, then what lies there. */
#include "fuzz.h"

#include "decode/decode.h"
#include "gpu/internal.h"

#define DATA_BYTES 4096 /* of a small ring */

/* What is made of it has to be a record that decode takes. */
static void take(struct sink *sink, const void *record, size_t size)
{
	struct event event;
	size_t skip;

	(void)sink;
	if (decode_event(record, size, &event, &skip) != (ssize_t)size)
		abort();
}

static void read_ring(struct agent_ring *ring, struct agent_events *events)
{
	union agent_record record;
	uint64_t before = ring->tail;

	while (agent_ring_next(ring, &record) > 0) {
		if (ring->tail <= before || ring->tail % 8)
			abort();
		before = ring->tail;
		agent_events_add(events, &record);
	}
	agent_ring_losses(ring);
}

/* An input: where the agent's head is, where the tracer has read to, then the data. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_Alignas(8) static uint8_t memory[PERFX_AGENT_RING_DATA + DATA_BYTES];
	struct sink sink = {.record = take};
	struct gpu_names *names = gpu_names__new(&sink);
	struct gpu_events all = {.sink = &sink, .names = names, .events_max = 16};
	struct agent_events events;
	struct agent_ring ring;
	uint64_t head;

	if (size < 2 * sizeof(uint64_t) || !names) {
		gpu_names__free(names);
		return 0;
	}
	memset(memory, 0, sizeof(memory));
	agent_ring_init(&ring, memory, sizeof(memory));
	memcpy(&head, data, sizeof(head));
	memcpy(&ring.tail, data + 8, sizeof(ring.tail));
	ring.tail &= ~7ull; /* the tracer's own */
	ring.shared->head = head;
	data += 16;
	size -= 16;
	memcpy(memory + PERFX_AGENT_RING_DATA, data, size < DATA_BYTES ? size : DATA_BYTES);
	agent_events_init(&events, &all, getpid(), 1);
	read_ring(&ring, &events);
	gpu_events_emit_sums(&all);
	agent_events_clear(&events);
	gpu_events_clear(&all);
	gpu_names__free(names);
	return 0;
}
