// SPDX-License-Identifier: BSD-2-Clause
/* Perf counters and their sums by function and process. */
#include "aggregate/internal.h"

#include <stdlib.h>

int perf_counters_add(struct aggregate *a, const struct event *event)
{
	const struct perfx_perf_counter *record = &event->perf_counter;
	struct profile_perf_counter *counter;

	if (record->kind == PERFX_PERF_COUNTER_MISSING) {
		a->perf_counters_why = pool_add(&a->strings, event->strings[2]);
		return a->perf_counters_why ? 0 : -ENOMEM;
	}
	counter = &a->perf_counters[record->counter];
	counter->name = pool_add(&a->strings, event->strings[0]);
	counter->unit = pool_add(&a->strings, event->strings[1]);
	counter->is_flops = record->kind == PERFX_PERF_COUNTER_FLOPS;
	return counter->name && counter->unit ? 0 : -ENOMEM;
}

static void add_call_counters(struct profile_call_counters *to,
			      const struct perfx_call_counters *record)
{
	to->calls_count = add_capped(to->calls_count, record->calls_count);
	to->missed_count = add_capped(to->missed_count, record->missed_count);
	for (int i = 0; i < PERFX_PERF_COUNTERS; i++)
		to->values[i] = add_capped(to->values[i], record->values[i]);
	to->flops = add_capped(to->flops, record->flops);
	to->counted_flops = add_capped(to->counted_flops, record->counted_flops);
}

int perf_counters_context(struct aggregate *a, const struct perfx_call_counters *record)
{
	struct row *row;
	int err = calls_context_row(a, record->context, &row);

	if (!row)
		return err ? err : undecoded(a);
	if (!row->perf)
		row->perf = calloc(1, sizeof(*row->perf));
	if (!row->perf)
		return -ENOMEM;
	add_call_counters(row->perf, record);
	return 0;
}

int perf_counters_process(struct aggregate *a, const struct perfx_process_counters *record)
{
	struct process *proc = process_get(a, record->process);
	struct profile_process_counters *to;

	if (!proc)
		return errno == ENOMEM ? -ENOMEM : undecoded(a);
	to = &proc->perf;
	to->threads_count = record->threads_count;
	to->enabled_ns = add_capped(to->enabled_ns, record->enabled_ns);
	to->running_ns = add_capped(to->running_ns, record->running_ns);
	for (int i = 0; i < PERFX_PERF_COUNTERS; i++)
		to->values[i] = add_capped(to->values[i], record->values[i]);
	return 0;
}
