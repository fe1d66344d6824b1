// SPDX-License-Identifier: BSD-2-Clause
#include "attach/rings.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/order.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

/* Before each record in a lane. */
struct head {
	uint64_t time_ns;
	uint64_t size; /* bytes, without this and without what rounds it up */
};

struct lane {
	unsigned char *bytes; /* a queue: [begin, end) */
	size_t begin, end, capacity;
	uint64_t last_ns;
};

struct merge {
	size_t lanes_count;
	struct lane lanes[];
};

struct merge *merge__new(size_t lanes_count)
{
	struct merge *merge = calloc(1, sizeof(*merge) + lanes_count * sizeof(merge->lanes[0]));

	if (merge)
		merge->lanes_count = lanes_count;
	return merge;
}

void merge__free(struct merge *merge)
{
	if (!merge)
		return;
	for (size_t i = 0; i < merge->lanes_count; i++)
		free(merge->lanes[i].bytes);
	free(merge);
}

static size_t room_for(size_t size)
{
	return sizeof(struct head) + (size + 7) / 8 * 8;
}

static const struct head *head_at(const struct lane *lane, size_t at)
{
	return at < lane->end ? (const struct head *)(lane->bytes + at) : NULL;
}

int merge__insert(struct merge *merge, size_t index, uint64_t time_ns, const void *record,
		  size_t size)
{
	struct lane *lane = &merge->lanes[index];
	struct head head = {.time_ns = time_ns, .size = size};
	size_t length = lane->end - lane->begin, at;
	const struct head *next;

	/* moves the queue to the front once most of it has been taken: each byte moves at most once
	 * on average */
	if (lane->begin > length) {
		memmove(lane->bytes, lane->bytes + lane->begin, length);
		lane->begin = 0;
		lane->end = length;
	}
	if (grow_array(&lane->bytes, &lane->capacity, lane->end + room_for(size), 1))
		return -ENOMEM;
	/* before the first younger record */
	at = time_ns >= lane->last_ns ? lane->end : lane->begin;
	while ((next = head_at(lane, at)) && next->time_ns <= time_ns)
		at += room_for(next->size);
	memmove(lane->bytes + at + room_for(size), lane->bytes + at, lane->end - at);
	memcpy(lane->bytes + at, &head, sizeof(head));
	memcpy(lane->bytes + at + sizeof(head), record, size);
	lane->end += room_for(size);
	if (time_ns > lane->last_ns)
		lane->last_ns = time_ns;
	return 0;
}

static const struct head *first_of(const struct lane *lane)
{
	return head_at(lane, lane->begin);
}

int merge__add(struct merge *merge, size_t lane, uint64_t time_ns, const void *record, size_t size)
{
	return merge__insert(merge, lane, max_u64(time_ns, merge->lanes[lane].last_ns), record,
			     size);
}

/* The lane with the oldest first record; of several the lowest lane. *next_ns: time of the next
 * lane's first record. NULL: all are empty. */
static struct lane *oldest(struct merge *merge, uint64_t *next_ns)
{
	struct lane *found = NULL;
	uint64_t found_ns = UINT64_MAX;

	*next_ns = UINT64_MAX;
	for (size_t i = 0; i < merge->lanes_count; i++) {
		const struct head *head = first_of(&merge->lanes[i]);

		if (!head)
			continue;
		if (!found || head->time_ns < found_ns) {
			*next_ns = found_ns;
			found = &merge->lanes[i];
			found_ns = head->time_ns;
		} else if (head->time_ns < *next_ns) {
			*next_ns = head->time_ns;
		}
	}
	return found;
}

void merge__drain(struct merge *merge, uint64_t until_ns,
		  void (*consume)(void *ctx, const void *record, size_t size), void *ctx)
{
	uint64_t next_ns;
	struct lane *lane;

	while ((lane = oldest(merge, &next_ns)) && first_of(lane)->time_ns <= until_ns) {
		const struct head *head = first_of(lane);

		/* a run of one lane, without looking at the others each time */
		do {
			lane->begin += room_for(head->size);
			consume(ctx, head + 1, head->size);
			head = first_of(lane);
		} while (head && head->time_ns < next_ns && head->time_ns <= until_ns);
	}
}

#define DRAIN_MAX 2000000
/* Records taken from a ring before the next ring's turn: limits the backlog to be merged. */
#define TURN_MAX 65536

/*
 * A BPF ring buffer (kernel/bpf/ringbuf.c): a page that the consumer writes, one that the producer
 * writes, and the data twice, so that no record is cut at the end. libbpf maps all of it; here only
 * a longest record's bytes are mapped again: that halves the memory.
 */

#define AGAIN_BYTES (64u << 10)

struct ring {
	uint64_t *consumer;
	const uint64_t *producer;
	const unsigned char *data; /* NULL: not mapped */
	size_t bytes, page_bytes, again_bytes;
};

static int ring_open(struct ring *ring, int fd)
{
	struct bpf_map_info info = {0};
	uint32_t size = sizeof(info);
	void *memory;

	if (bpf_map_get_info_by_fd(fd, &info, &size))
		return -errno;
	ring->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	ring->bytes = info.max_entries;
	ring->again_bytes = ring->bytes < AGAIN_BYTES ? ring->bytes : AGAIN_BYTES;
	memory = mmap(NULL, ring->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	ring->consumer = memory;
	memory = mmap(NULL, ring->page_bytes + ring->bytes + ring->again_bytes, PROT_READ,
		      MAP_SHARED, fd, (off_t)ring->page_bytes);
	if (memory == MAP_FAILED)
		return -errno;
	ring->producer = memory;
	ring->data = (const unsigned char *)memory + ring->page_bytes;
	return 0;
}

/* Bytes that have not been consumed. */
static uint64_t ring_left(const struct ring *ring)
{
	return __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) - *ring->consumer;
}

/* Gives away records up to one that is being written, or until consume() returns false. */
static void ring_consume(struct ring *ring, bool (*consume)(void *ctx, void *record, size_t size),
			 void *ctx)
{
	bool more = true;

	while (more && ring_left(ring)) {
		const unsigned char *head = ring->data + (*ring->consumer & (ring->bytes - 1));
		uint32_t word = __atomic_load_n((const uint32_t *)head, __ATOMIC_ACQUIRE);
		size_t length = word & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

		if (word & BPF_RINGBUF_BUSY_BIT)
			return;
		if (!(word & BPF_RINGBUF_DISCARD_BIT) &&
		    length + BPF_RINGBUF_HDR_SZ <= ring->again_bytes)
			more = consume(ctx, (void *)(head + BPF_RINGBUF_HDR_SZ), length);
		__atomic_store_n(ring->consumer,
				 *ring->consumer + (length + BPF_RINGBUF_HDR_SZ + 7) / 8 * 8,
				 __ATOMIC_RELEASE);
	}
}

struct rings {
	struct rings_options options;
	int epoll_fd;
	struct merge *merge; /* NULL: there is one ring, and its order is taken */
	uint32_t turn_left, drain_left;
	uint64_t taken_ns;
	struct source {
		struct rings *rings;
		struct ring ring;
		size_t lane;
		uint64_t last_ns; /* the latest time of its records */
	} sources[];
};

static bool on_record(void *ctx, void *record, size_t size)
{
	struct source *source = ctx;
	struct rings *rings = source->rings;
	const struct rings_options *options = &rings->options;
	uint64_t time_ns = options->time_of(record);
	int err = -ENOMEM; /* then it goes out at once, out of order */

	if (time_ns > source->last_ns)
		source->last_ns = time_ns;
	if (rings->merge && time_ns)
		err = (options->exact_times ? merge__insert : merge__add)(
			rings->merge, source->lane, time_ns, record, size);
	if (err)
		options->take(options->ctx, record, size);
	rings->drain_left--;
	return --rings->turn_left;
}

struct rings *rings__new(const struct rings_options *options)
{
	struct rings *rings =
		calloc(1, sizeof(*rings) + options->count * sizeof(rings->sources[0]));
	struct epoll_event event = {.events = EPOLLIN};
	int err;

	if (!rings)
		return NULL;
	rings->options = *options;
	rings->options.fds = NULL;
	rings->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	err = rings->epoll_fd < 0 ? -errno : 0;
	for (size_t i = 0; i < options->count && !err; i++) {
		rings->sources[i] = (struct source){.rings = rings, .lane = i};
		err = ring_open(&rings->sources[i].ring, options->fds[i]);
		if (!err && epoll_ctl(rings->epoll_fd, EPOLL_CTL_ADD, options->fds[i], &event))
			err = -errno;
	}
	if (!err && options->count > 1) {
		rings->merge = merge__new(options->count);
		err = rings->merge ? 0 : -ENOMEM;
	}
	if (!err)
		return rings;
	rings__free(rings);
	errno = -err;
	return NULL;
}

void rings__free(struct rings *rings)
{
	if (!rings)
		return;
	for (size_t i = 0; i < rings->options.count; i++) {
		struct ring *ring = &rings->sources[i].ring;

		if (ring->consumer)
			munmap(ring->consumer, ring->page_bytes);
		if (ring->data)
			munmap((void *)ring->producer,
			       ring->page_bytes + ring->bytes + ring->again_bytes);
	}
	if (rings->epoll_fd >= 0)
		close(rings->epoll_fd);
	merge__free(rings->merge);
	free(rings);
}

int rings__fd(const struct rings *rings)
{
	return rings->epoll_fd;
}

/* A turn of each. Returns whether some ring had more than its turn. */
static bool drain_lanes(struct rings *rings)
{
	uint64_t now_ns = clock_monotonic_ns(), until_ns = now_ns;
	bool more = false;

	for (size_t i = 0; i < rings->options.count && rings->drain_left; i++) {
		struct source *source = &rings->sources[i];

		rings->turn_left = (uint32_t)min_u64(TURN_MAX, rings->drain_left);
		ring_consume(&source->ring, on_record, source);
		more = more || !rings->turn_left;
		/* Its records are taken up to now_ns, which is before the turn; or, if some are
		 * left or being written, up to the last one taken. */
		if (ring_left(&source->ring))
			until_ns = min_u64(until_ns, source->last_ns);
	}
	if (rings->merge)
		merge__drain(rings->merge, until_ns, rings->options.take, rings->options.ctx);
	rings->taken_ns = until_ns;
	return more;
}

bool rings__drain(struct rings *rings)
{
	bool more = true;

	rings->drain_left = DRAIN_MAX;
	while (more && rings->drain_left)
		more = drain_lanes(rings);
	return more;
}

uint64_t rings__drained_ns(const struct rings *rings)
{
	return rings->taken_ns;
}

void rings__flush(struct rings *rings)
{
	if (rings->merge)
		merge__drain(rings->merge, UINT64_MAX, rings->options.take, rings->options.ctx);
}
