// SPDX-License-Identifier: BSD-2-Clause
#include "export/capture.h"

#include "aggregate/aggregate.h"

static int add_all(void *ctx, const struct event *event)
{
	return aggregate__add(ctx, event);
}

/* Calls are read again when they are written; only those that make steps are aggregated. */
static int add_all_but_spans(void *ctx, const struct event *event)
{
	if (event->kind == PERFX_KIND_SPAN && !aggregate__shows_step(ctx, &event->span))
		return 0;
	return aggregate__add(ctx, event);
}

struct spans {
	export_on_span *on_span;
	void *ctx;
};

static int give_span(void *ctx, const struct event *event)
{
	const struct spans *spans = ctx;

	return event->kind == PERFX_KIND_SPAN ? spans->on_span(spans->ctx, &event->span) : 0;
}

/* capture: its struct capture_source. */
static int each_span(void *capture, export_on_span *on_span, void *ctx)
{
	struct spans spans = {on_span, ctx};
	struct pipeline pipeline = {.on_event = give_span, .ctx = &spans};

	return capture_source_replay(capture, &pipeline, NULL);
}

struct values {
	export_on_value *on_value;
	void *ctx;
};

static int give_value(void *ctx, const struct event *event)
{
	const struct values *values = ctx;

	return event->kind == PERFX_KIND_USER_VALUE
		       ? values->on_value(values->ctx, &event->user_value)
		       : 0;
}

static int each_value(void *capture, export_on_value *on_value, void *ctx)
{
	struct values values = {on_value, ctx};
	struct pipeline pipeline = {.on_event = give_value, .ctx = &values};

	return capture_source_replay(capture, &pipeline, NULL);
}

struct gpu_events {
	export_on_gpu *on_gpu;
	void *ctx;
};

static int give_gpu(void *ctx, const struct event *event)
{
	const struct gpu_events *events = ctx;

	if (event->kind == PERFX_KIND_GPU_CALL)
		return events->on_gpu(events->ctx, &event->gpu_call, NULL);
	if (event->kind == PERFX_KIND_GPU_ACTIVITY)
		return events->on_gpu(events->ctx, NULL, &event->gpu_activity);
	return 0;
}

static int each_gpu(void *capture, export_on_gpu *on_gpu, void *ctx)
{
	struct gpu_events events = {on_gpu, ctx};
	struct pipeline pipeline = {.on_event = give_gpu, .ctx = &events};

	return capture_source_replay(capture, &pipeline, NULL);
}

export_read *export_reader(const struct export_format *format)
{
	return format->spans ? add_all_but_spans : add_all;
}

int export_write(FILE *out, const struct export_format *format, enum export_of of,
		 const struct profile *profile, const struct capture_source *source)
{
	const struct export export = {
		.out = out,
		.of = of,
		.profile = profile,
		.each_span = each_span,
		/* most captures have none, and need no further pass */
		.each_value = profile->value_samples_count ? each_value : NULL,
		.each_gpu = profile->gpu_activities_count ? each_gpu : NULL,
		.capture = (void *)source,
	};

	return format->write(&export);
}
