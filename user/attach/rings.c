// SPDX-License-Identifier: BSD-2-Clause
#include "attach/rings.h"

#include "attach/merge.h"
#include "base/clock.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>

#define DRAIN_MAX 2000000
/* Records taken from a ring before the others have their turn: bounds what waits to be merged. */
#define TURN_MAX 65536

struct rings {
	struct rings_options options;
	struct ring_buffer *buffers;
	struct merge *merge; /* NULL: there is one ring, and its order is taken */
	uint32_t turn_left, drain_left;
	struct source {
		struct rings *rings;
		size_t lane;
	} sources[];
};

static int keep(struct rings *rings, size_t lane, const void *record, size_t size)
{
	uint64_t time_ns = rings->options.time_of(record);

	return rings->options.exact_times ? merge__insert(rings->merge, lane, time_ns, record, size)
					  : merge__add(rings->merge, lane, time_ns, record, size);
}

static int on_record(void *ctx, void *record, size_t size)
{
	const struct source *source = ctx;
	struct rings *rings = source->rings;
	const struct rings_options *options = &rings->options;

	/* without memory out of order rather than lost */
	if (!rings->merge || !options->time_of(record) || keep(rings, source->lane, record, size))
		options->take(options->ctx, record, size);
	rings->drain_left--;
	return --rings->turn_left ? 0 : -EAGAIN;
}

static int open_buffers(struct rings *rings)
{
	const struct rings_options *options = &rings->options;

	for (size_t i = 0; i < options->count; i++) {
		struct source *source = &rings->sources[i];

		*source = (struct source){.rings = rings, .lane = i};
		if (!i)
			rings->buffers = ring_buffer__new(options->fds[i], on_record, source, NULL);
		else if (ring_buffer__add(rings->buffers, options->fds[i], on_record, source))
			return -errno;
		if (!rings->buffers)
			return -errno;
	}
	return 0;
}

struct rings *rings__new(const struct rings_options *options)
{
	struct rings *rings =
		calloc(1, sizeof(*rings) + options->count * sizeof(rings->sources[0]));
	int err;

	if (!rings)
		return NULL;
	rings->options = *options;
	err = open_buffers(rings);
	rings->options.fds = NULL;
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
	ring_buffer__free(rings->buffers);
	merge__free(rings->merge);
	free(rings);
}

int rings__fd(const struct rings *rings)
{
	return ring_buffer__epoll_fd(rings->buffers);
}

/* A turn of one ring. Returns the time up to which everything of it has been taken: `now_ns`, from
 * before the turn, or, where records are left (also one that is just being made), that of the last
 * one taken. */
static uint64_t take_turn(struct rings *rings, size_t lane, uint64_t now_ns)
{
	struct ring *ring = ring_buffer__ring(rings->buffers, (unsigned int)lane);
	uint64_t last_ns;

	rings->turn_left = TURN_MAX < rings->drain_left ? TURN_MAX : rings->drain_left;
	ring__consume(ring);
	if (!rings->merge || !ring__avail_data_size(ring))
		return now_ns;
	last_ns = merge__last_ns(rings->merge, lane);
	return last_ns < now_ns ? last_ns : now_ns;
}

/* A turn of each. Returns whether some ring had more than its turn. */
static bool take_turns(struct rings *rings)
{
	uint64_t now_ns = clock_monotonic_ns(), until_ns = now_ns;
	bool more = false;

	for (size_t i = 0; i < rings->options.count && rings->drain_left; i++) {
		uint64_t taken_ns = take_turn(rings, i, now_ns);

		more = more || !rings->turn_left;
		if (taken_ns < until_ns)
			until_ns = taken_ns;
	}
	if (rings->merge)
		merge__take(rings->merge, until_ns, rings->options.take, rings->options.ctx);
	return more;
}

bool rings__drain(struct rings *rings)
{
	bool more = true;

	rings->drain_left = DRAIN_MAX;
	while (more && rings->drain_left)
		more = take_turns(rings);
	return more;
}

void rings__flush(struct rings *rings)
{
	if (rings->merge)
		merge__take(rings->merge, UINT64_MAX, rings->options.take, rings->options.ctx);
}
