// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/state.h"

#include <stdlib.h>

void row_samples__free(struct row_samples *samples)
{
	if (!samples)
		return;
	map64_clear(&samples->ids);
	free(samples->list);
	free(samples);
}

static int add_sample(struct row_samples *samples, const struct sample_time *time)
{
	struct row_sample *sample = MAP64_ITEM_OF(samples, time->activity);

	if (!sample)
		return -ENOMEM;
	sample->activity = time->activity;
	sample->ns += (uint64_t)time->interval_us * 1000;
	sample->count++;
	return 0;
}

static bool is_of_call(const struct aggregate *a, const struct perfx_span *span,
		       const struct sample_time *time)
{
	const struct activity_key *key = &a->samples.sampled.list[time->activity].key;

	return key->process == span->process && key->state == PERFX_SAMPLE_ON_CPU &&
	       time->time_ns < span->start_ns + span->duration_ns;
}

int parallel_span(struct aggregate *a, struct row *row, const struct perfx_span *span)
{
	const struct sample_times *times = &a->samples.times;
	int err = 0;

	if (!times->count || row->threads_count > 1 || span->flags & PERFX_SPAN_ASYNC)
		return 0;
	if (!row->samples)
		row->samples = calloc(1, sizeof(*row->samples));
	if (!row->samples)
		return -ENOMEM;
	row->samples->tid = span->tid;
	add_up(&row->samples->wall_ns, span->duration_ns);
	for (size_t i = times->count; i > 0 && times->list[i - 1].time_ns >= span->start_ns; i--)
		if (!err && is_of_call(a, span, &times->list[i - 1]))
			err = add_sample(row->samples, &times->list[i - 1]);
	return err;
}

static int fill_row(const struct finish_ctx *ctx, const struct row_samples *samples,
		    struct profile_row *out)
{
	out->during.list = calloc(samples->count + 1, sizeof(*out->during.list));
	if (!out->during.list)
		return -ENOMEM;
	out->during_ns = samples->wall_ns;
	out->during_tid = samples->tid;
	for (size_t i = 0; i < samples->count; i++) {
		const struct row_sample *sample = &samples->list[i];
		struct profile_activity *to = &out->during.list[out->during.count++];

		*to = samples_describe(ctx, &ctx->a->samples.sampled.list[sample->activity]);
		to->count = sample->count;
		to->ns = sample->ns;
	}
	return 0;
}

int parallel_fill(struct finish_ctx *ctx)
{
	const struct aggregate *a = ctx->a;
	int err = 0;

	for (size_t p = 0; p < ctx->profile->processes_count; p++) {
		struct profile_process *process = &ctx->profile->processes[p];

		for (size_t i = 0; i < process->rows_count && !err; i++) {
			struct profile_row *out = &process->rows[i];
			const struct row *row = row_find(a, process->index, out->function);

			if (row && row->samples && row->threads_count == 1)
				err = fill_row(ctx, row->samples, out);
		}
	}
	return err;
}
