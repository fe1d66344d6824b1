// SPDX-License-Identifier: BSD-2-Clause
/* Meters: what is counted, and its sums by function and process. */
#include "aggregate/internal.h"

#include <stdlib.h>

int meters_meter(struct aggregate *a, const struct event *event)
{
	const struct perfx_meter *record = &event->meter;
	struct profile_meter *meter;

	if (record->kind == PERFX_METER_MISSING) {
		a->meters_why = pool_add(&a->strings, event->strings[2]);
		return a->meters_why ? 0 : -ENOMEM;
	}
	meter = &a->meters[record->meter];
	meter->name = pool_add(&a->strings, event->strings[0]);
	meter->unit = pool_add(&a->strings, event->strings[1]);
	meter->is_flops = record->kind == PERFX_METER_FLOPS;
	return meter->name && meter->unit ? 0 : -ENOMEM;
}

static void add_metered(struct profile_metered *to, const struct perfx_metered *record)
{
	to->calls_count = add_capped(to->calls_count, record->calls_count);
	to->missed_count = add_capped(to->missed_count, record->missed_count);
	for (int i = 0; i < PERFX_METERS; i++)
		to->values[i] = add_capped(to->values[i], record->values[i]);
	to->flops = add_capped(to->flops, record->flops);
	to->counted_flops = add_capped(to->counted_flops, record->counted_flops);
}

int meters_context(struct aggregate *a, const struct perfx_metered *record)
{
	struct row *row;
	int err = calls_context_row(a, record->context, &row);

	if (!row)
		return err ? err : undecoded(a);
	if (!row->metered)
		row->metered = calloc(1, sizeof(*row->metered));
	if (!row->metered)
		return -ENOMEM;
	add_metered(row->metered, record);
	return 0;
}

int meters_process(struct aggregate *a, const struct perfx_metered_process *record)
{
	struct book *book = books_get(a, record->process);
	struct profile_metered_process *to;

	if (!book)
		return errno == ENOMEM ? -ENOMEM : undecoded(a);
	to = &book->metered;
	to->threads_count = record->threads_count;
	to->enabled_ns = add_capped(to->enabled_ns, record->enabled_ns);
	to->running_ns = add_capped(to->running_ns, record->running_ns);
	for (int i = 0; i < PERFX_METERS; i++)
		to->values[i] = add_capped(to->values[i], record->values[i]);
	return 0;
}
