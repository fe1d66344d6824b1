// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls that are told apart by an object which says what each of them does. What was read from it
 * comes once, as a WORK record; calls that were faster wait for that.
 */
#include "aggregate/internal.h"

/* Ids are handed out from 1, one for each object. */
#define WORKS_MAX   (1u << 20)
#define WAITING_MAX (1u << 20)

int works_add(struct aggregate *a, const struct perfx_work *record)
{
	if (record->work == 0 || record->work > WORKS_MAX)
		return undecoded(a);
	if (grow_array(&a->works, &a->works_capacity, (size_t)record->work + 1, sizeof(*a->works)))
		return -ENOMEM;
	if (record->work >= a->works_count)
		a->works_count = (size_t)record->work + 1;
	a->works[record->work] = (struct object_work){.flops = record->flops,
						      .bytes = record->bytes,
						      .state = record->state,
						      .dtype = record->dtype,
						      .told = true};
	return 0;
}

static const struct object_work *find(const struct aggregate *a, uint64_t work)
{
	return work < a->works_count && a->works[work].told ? &a->works[work] : NULL;
}

static int take(struct aggregate *a, struct figures **figures, const struct perfx_span *span,
		const struct object_work *work, bool late)
{
	struct perfx_span told = *span;
	int err;

	if (work->state == PERFX_FIGURE_NONE)
		return 0;
	told.figure = work->state;
	told.dtype = work->dtype;
	told.flops = work->flops;
	told.bytes = work->bytes;
	err = figures_span(figures, &told);
	return err ? err : steps_figure(&a->steps, &told, late);
}

int works_span(struct aggregate *a, struct figures **figures, const struct perfx_span *span)
{
	static const struct object_work unread = {.state = PERFX_FIGURE_UNREAD};
	const struct object_work *work = find(a, span->flops);

	if (work)
		return take(a, figures, span, work, false);
	if (a->waiting_count >= WAITING_MAX)
		return take(a, figures, span, &unread, false);
	if (grow_array(&a->waiting, &a->waiting_capacity, a->waiting_count + 1,
		       sizeof(*a->waiting)))
		return -ENOMEM;
	a->waiting[a->waiting_count++] = *span;
	return 0;
}

int works_settle(struct aggregate *a)
{
	static const struct object_work unread = {.state = PERFX_FIGURE_UNREAD};
	size_t count = a->waiting_count;

	a->waiting_count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct perfx_span *span = &a->waiting[i];
		const struct object_work *work = find(a, span->flops);
		struct sums *sums = calls_sums(a, span);

		if (sums && take(a, &sums->figures, span, work ? work : &unread, true))
			return -ENOMEM;
	}
	return 0;
}
