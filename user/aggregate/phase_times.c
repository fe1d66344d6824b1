// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/step_thread.h"

#include "base/grow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int add_interval(struct phase_times *times, struct phase_time interval)
{
	return interval.from_ns < interval.to_ns ? LIST_ADD_TO(times, interval) : 0;
}

/* Puts an interval among those that it overlaps, `rest`. Phases of precedence stay whole. */
static int merge(struct phase_times *times, const struct phase_time *rest, size_t rest_count,
		 struct phase_time new)
{
	struct phase_time after = {0};
	int err = 0;

	for (size_t i = 0; !err && i < rest_count; i++) {
		struct phase_time old = rest[i];

		if (old.from_ns >= new.to_ns) {
			err = add_interval(times, new) ?: add_interval(times, after);
			err = err ?: add_interval(times, old);
			new.from_ns = new.to_ns;
			after = (struct phase_time){0};
		} else if (old.phase >= new.phase) {
			struct phase_time part = {new.from_ns, min_u64(old.from_ns, new.to_ns),
						  new.phase};

			err = add_interval(times, part) ?: add_interval(times, old);
			new.from_ns = max_u64(new.from_ns, old.to_ns);
		} else {
			if (old.to_ns > new.to_ns)
				after = (struct phase_time){new.to_ns, old.to_ns, old.phase};
			old.to_ns = min_u64(old.to_ns, new.from_ns);
			err = add_interval(times, old);
		}
	}
	return err ?: add_interval(times, new) ?: add_interval(times, after);
}

/* Calls inside a call add nothing to its interval. */
static void drop_inner(struct phase_times *times, const struct phase_time *outer)
{
	while (times->count) {
		const struct phase_time *last = &times->list[times->count - 1];

		if (last->from_ns < outer->from_ns || last->phase != outer->phase)
			break;
		times->count--;
	}
}

/* Spans come by their ends, so a new one overlaps mostly the last intervals. */
static int insert_one(struct phase_times *times, struct phase_time new)
{
	size_t first, rest_count;
	struct phase_time *rest;
	int err;

	first = times->count;
	while (first && times->list[first - 1].to_ns > new.from_ns)
		first--;
	rest_count = times->count - first;
	if (!rest_count)
		return add_interval(times, new);
	rest = malloc(rest_count * sizeof(*rest));
	if (!rest)
		return -ENOMEM;
	memcpy(rest, times->list + first, rest_count * sizeof(*rest));
	times->count = first;
	err = merge(times, rest, rest_count, new);
	free(rest);
	return err;
}

/* The work of an optimizer that was given a closure, which it calls for forward and backward
 * passes. */
#define OWN_PARTS_MAX 64

struct own_work {
	struct phase_time parts[OWN_PARTS_MAX];
	size_t count;
	uint64_t from_ns; /* of the next part; 0: in the closure */
	/* Closures reset the gradients first, or (Lightning's) between forward and backward. */
	uint64_t reset_from_ns, reset_to_ns; /* the first; 0: none yet */
	bool resets_first, has_backward;
};

static void end_part(struct own_work *own, uint64_t to_ns)
{
	if (own->from_ns && own->count < OWN_PARTS_MAX)
		own->parts[own->count++] =
			(struct phase_time){own->from_ns, to_ns, PROFILE_PHASE_OPTIMIZER};
	own->from_ns = 0;
}

/* After a backward pass the optimizer works until the closure resets the gradients anew; where that
 * does not show when the closure begins, only after the last backward pass. */
static struct own_work own_work_of(const struct phase_times *times, const struct phase_time *new)
{
	struct own_work own = {0};
	size_t i = times->count;

	while (i && times->list[i - 1].to_ns > new->from_ns)
		i--;
	for (; i < times->count; i++) {
		const struct phase_time *inner = &times->list[i];

		if (inner->phase == PROFILE_PHASE_BACKWARD) {
			if (!own.has_backward)
				own.resets_first =
					own.reset_to_ns && own.reset_from_ns - new->from_ns <
								   inner->from_ns - own.reset_to_ns;
			own.has_backward = true;
			own.from_ns = inner->to_ns;
		} else if (inner->phase == PROFILE_PHASE_OPTIMIZER && !own.has_backward) {
			own.reset_from_ns = inner->from_ns;
			own.reset_to_ns = inner->to_ns;
		} else if (inner->phase == PROFILE_PHASE_OPTIMIZER && own.resets_first) {
			end_part(&own, inner->from_ns);
		}
	}
	if (!own.has_backward)
		own.from_ns = new->from_ns;
	end_part(&own, new->to_ns);
	return own;
}

int phase_times_add(struct phase_times *times, struct phase_time new)
{
	struct own_work own;
	int err = 0;

	if (new.phase != PROFILE_PHASE_OPTIMIZER) {
		times->has_backward |= new.phase == PROFILE_PHASE_BACKWARD;
		drop_inner(times, &new);
		return insert_one(times, new);
	}
	own = own_work_of(times, &new);
	if (!own.has_backward)
		drop_inner(times, &new);
	times->has_closure |= own.has_backward;
	for (size_t i = 0; i < own.count && !err; i++)
		err = insert_one(times, own.parts[i]);
	return err;
}

void phase_times_divide(const struct phase_times *times, uint64_t from_ns, uint64_t to_ns,
			bool by_backward, uint64_t phases[PROFILE_PHASES])
{
	uint64_t at_ns = from_ns; /* divided up to here */
	uint64_t waiting_ns = 0;  /* traced code: forward, if a backward pass follows */
	bool knows_forward = !by_backward;
	size_t first = times->count;

	while (first && times->list[first - 1].to_ns > from_ns)
		first--;
	for (size_t i = first; i < times->count; i++)
		knows_forward |= times->list[i].phase == PROFILE_PHASE_DATA;
	for (size_t i = first; i < times->count && times->list[i].from_ns < to_ns; i++) {
		const struct phase_time *interval = &times->list[i];
		uint64_t begin_ns = max_u64(interval->from_ns, from_ns);
		uint64_t end_ns = min_u64(interval->to_ns, to_ns);

		phases[PROFILE_PHASE_UNTRACED] += sub_capped(begin_ns, at_ns);
		at_ns = end_ns;
		if (interval->phase == PROFILE_PHASE_OTHER && knows_forward)
			waiting_ns += end_ns - begin_ns;
		else
			phases[interval->phase] += end_ns - begin_ns;
		if (interval->phase != PROFILE_PHASE_BACKWARD &&
		    interval->phase != PROFILE_PHASE_DATA)
			continue;
		phases[interval->phase == PROFILE_PHASE_DATA ? PROFILE_PHASE_OTHER
							     : PROFILE_PHASE_FORWARD] += waiting_ns;
		waiting_ns = 0;
	}
	phases[PROFILE_PHASE_UNTRACED] += sub_capped(to_ns, at_ns);
	phases[PROFILE_PHASE_OTHER] += waiting_ns;
}

void phase_times_forget(struct phase_times *times, uint64_t until_ns, size_t most)
{
	size_t done = 0;

	while (done < times->count && times->list[done].to_ns <= until_ns)
		done++;
	/* moving the others costs time: not for a few */
	if (done > 64)
		LIST_DROP_FROM(times, done);
	if (times->count > most)
		LIST_DROP_FROM(times, most / 2);
}

void phase_times_clear(struct phase_times *times)
{
	free(times->list);
	*times = (struct phase_times){0};
}
