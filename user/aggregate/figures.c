// SPDX-License-Identifier: BSD-2-Clause
/* The figures of single calls and of the overflow book, added up by calling context. */
#include "aggregate/internal.h"

#include <stdlib.h>

void work_add(struct profile_work *work, const struct profile_work *more)
{
	work->flops = add_capped(work->flops, more->flops);
	work->bytes = add_capped(work->bytes, more->bytes);
	work->moved_bytes = add_capped(work->moved_bytes, more->moved_bytes);
	work->bus_bytes = add_capped(work->bus_bytes, more->bus_bytes);
	work->bus_moved_bytes = add_capped(work->bus_moved_bytes, more->bus_moved_bytes);
	work->counted_count = add_capped(work->counted_count, more->counted_count);
	work->unread_count = add_capped(work->unread_count, more->unread_count);
	work->opaque_count = add_capped(work->opaque_count, more->opaque_count);
	work->silenced_count = add_capped(work->silenced_count, more->silenced_count);
	work->submitted_count = add_capped(work->submitted_count, more->submitted_count);
}

static int make(struct figures **figures)
{
	if (!*figures)
		*figures = calloc(1, sizeof(**figures));
	return *figures ? 0 : -ENOMEM;
}

static void add_ns(uint64_t *sum_ns, uint64_t ns)
{
	*sum_ns = add_capped(*sum_ns, ns);
}

/* Of a call without a record the type is not known. */
static void add_counted(struct figures *figures, uint64_t flops, uint64_t bytes, uint64_t count,
			enum perfx_dtype dtype)
{
	const struct profile_work more = {
		.flops = flops,
		.bytes = flops ? bytes : 0,
		.moved_bytes = flops ? 0 : bytes,
		.counted_count = count,
	};

	work_add(&figures->work, &more);
	figures->dtypes[dtype] = add_capped(figures->dtypes[dtype], flops);
}

static void add_moved(struct figures *figures, const struct perfx_span *span)
{
	const struct profile_work more = {
		.moved_bytes = span->bytes,
		.bus_bytes = span->flops,
		.bus_moved_bytes = span->flops ? span->bytes : 0,
		.counted_count = 1,
	};

	work_add(&figures->work, &more);
}

int figures_span(struct figures **figures, const struct perfx_span *span)
{
	bool timed = !(span->flags & PERFX_SPAN_UNTIMED);
	struct figures *f;

	/* what it did before the exception is not known */
	if (span->flags & PERFX_SPAN_UNWOUND)
		return 0;
	if (make(figures))
		return -ENOMEM;
	f = *figures;
	switch ((enum perfx_figure_state)span->figure) {
	case PERFX_FIGURE_NONE:
	case PERFX_FIGURE_BY_OBJECT: /* works.c */
		break;
	case PERFX_FIGURE_OPAQUE:
		f->work.opaque_count++;
		add_ns(&f->opaque_ns, span->self_ns);
		break;
	case PERFX_FIGURE_COUNTED:
		if (span->flags & PERFX_SPAN_MOVES) {
			add_moved(f, span);
			break;
		}
		add_counted(f, span->flops, span->bytes, 1, span->dtype);
		f->work.submitted_count += !!(span->flags & PERFX_SPAN_SUBMITTED);
		if (timed && span->flops)
			add_ns(&f->counted_ns, span->duration_ns);
		break;
	case PERFX_FIGURE_INSIDE:
	case PERFX_FIGURE_ELSEWHERE:
		f->work.silenced_count++;
		if (timed)
			add_ns(&f->silenced_ns, span->duration_ns);
		break;
	case PERFX_FIGURE_UNREAD:
		f->work.unread_count++;
		if (timed)
			add_ns(&f->unread_ns, span->duration_ns);
		break;
	}
	return 0;
}

static uint64_t share_of(uint64_t ns, uint64_t part, u128 whole)
{
	return (uint64_t)((u128)ns * part / whole);
}

int figures_book(struct figures **figures, const struct perfx_book *record)
{
	u128 all = (u128)record->counted_count + record->unread_count + record->silenced_count +
		   record->opaque_count;
	const struct profile_work more = {.unread_count = record->unread_count,
					  .silenced_count = record->silenced_count,
					  .opaque_count = record->opaque_count,
					  .bus_bytes = record->bus_bytes,
					  .bus_moved_bytes = record->bus_moved_bytes};
	struct figures *f;

	if (!all)
		return 0;
	if (make(figures))
		return -ENOMEM;
	f = *figures;
	add_counted(f, record->flops, record->bytes, record->counted_count, PERFX_DTYPE_UNKNOWN);
	work_add(&f->work, &more);
	if (record->flops)
		add_ns(&f->counted_ns, share_of(record->total_ns, record->counted_count, all));
	add_ns(&f->unread_ns, share_of(record->total_ns, record->unread_count, all));
	add_ns(&f->silenced_ns, share_of(record->total_ns, record->silenced_count, all));
	add_ns(&f->opaque_ns, share_of(record->self_ns, record->opaque_count, all));
	return 0;
}
