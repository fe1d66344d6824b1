// SPDX-License-Identifier: BSD-2-Clause
/*
 * The slices of threads that --timeline records, and the calls beside them. All are counted; the
 * last ones are kept for a chart: a capture has them all.
 */
#include "aggregate/process.h"
#include "aggregate/state.h"

#include <stdlib.h>

static int handle_slice(struct aggregate *a, const struct event *event)
{
	const struct perfx_slice *slice = &event->slice;
	struct slices *slices = a->slices;

	if (!process_get(a, slice->process))
		return rejected(a);
	saw_time(a, slice->time_ns);
	if (!slices->last) {
		slices->last = calloc(PROFILE_SLICES_MAX, sizeof(*slices->last));
		slices->last_spans = calloc(PROFILE_SLICE_SPANS_MAX, sizeof(*slices->last_spans));
	}
	if (!slices->last || !slices->last_spans)
		return -ENOMEM;
	slices->last[slices->count++ % PROFILE_SLICES_MAX] = *slice;
	return 0;
}

ORDER(by_time, struct perfx_slice, ASCENDING(a->time_ns, b->time_ns))

static void *copy_of(const void *list, size_t count, size_t bytes)
{
	void *copy = malloc((count + 1) * bytes);

	return copy ? memcpy(copy, list, count * bytes) : NULL;
}

static int fill_slices(struct finish_ctx *ctx)
{
	struct slices *slices = ctx->a->slices;
	struct profile *profile = ctx->profile;

	profile->slices_count = slices->count;
	profile->last_slices_count = (size_t)min_u64(slices->count, PROFILE_SLICES_MAX);
	profile->slice_spans_count = (size_t)min_u64(slices->spans_count, PROFILE_SLICE_SPANS_MAX);
	if (!slices->count)
		return 0;
	profile->last_slices =
		copy_of(slices->last, profile->last_slices_count, sizeof(*slices->last));
	profile->slice_spans = copy_of(slices->last_spans, profile->slice_spans_count,
				       sizeof(*slices->last_spans));
	if (!profile->last_slices || !profile->slice_spans)
		return -ENOMEM;
	SORT_ITEMS(profile->last_slices, profile->last_slices_count, by_time);
	return 0;
}

static void clear_slices(void *state)
{
	struct slices *slices = state;

	free(slices->last);
	free(slices->last_spans);
}

const struct part part_slices = {
	PART_STATE(slices),
	.add = {TAKES(SLICE, slice)},
	.finish = fill_slices,
	.clear = clear_slices,
};
