// SPDX-License-Identifier: BSD-2-Clause
#include "export/capture.h"

#include "aggregate/aggregate.h"
#include "export/formats.h"

#include <stdio.h>
#include <string.h>

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

/* What is exported: the capture, and of its processes those in the profile alone. */
struct exported {
	const struct capture_source *source;
	const struct profile *profile;
};

/* Who gets what; NULL: nobody. */
struct readers {
	export_on_span *on_span;
	export_on_value *on_value;
	export_on_sample *on_sample;
	export_on_gpu *on_gpu;
	void *ctx;
	const struct exported *exported;
};

/* The process of an event that a reader may want; 0: of none. */
static uint32_t process_of(const struct event *event)
{
	switch (event->kind) {
	case PERFX_KIND_SPAN:
		return event->span.process;
	case PERFX_KIND_USER_VALUE:
		return event->user_value.process;
	case PERFX_KIND_SAMPLE:
		return event->sample.process;
	case PERFX_KIND_GPU_CALL:
		return event->gpu_call.process;
	case PERFX_KIND_GPU_ACTIVITY:
		return event->gpu_activity.process;
	default:
		return 0;
	}
}

static int pass_event(void *ctx, const struct event *event)
{
	const struct readers *to = ctx;

	if (to->exported->profile->selected &&
	    !export_process(to->exported->profile, process_of(event)))
		return 0;
	if (event->kind == PERFX_KIND_SPAN && to->on_span)
		return to->on_span(to->ctx, &event->span);
	if (event->kind == PERFX_KIND_USER_VALUE && to->on_value)
		return to->on_value(to->ctx, &event->user_value);
	if (event->kind == PERFX_KIND_SAMPLE && to->on_sample)
		return to->on_sample(to->ctx, &event->sample);
	if (event->kind == PERFX_KIND_GPU_CALL && to->on_gpu)
		return to->on_gpu(to->ctx, &event->gpu_call, NULL);
	if (event->kind == PERFX_KIND_GPU_ACTIVITY && to->on_gpu)
		return to->on_gpu(to->ctx, NULL, &event->gpu_activity);
	return 0;
}

/* capture: its struct exported. */
static int each(void *capture, struct readers to)
{
	struct pipeline pipeline = {.on_event = pass_event, .ctx = &to};

	to.exported = capture;
	return capture_source_replay(to.exported->source, &pipeline, NULL);
}

static int each_span(void *capture, export_on_span *on_span, void *ctx)
{
	return each(capture, (struct readers){.on_span = on_span, .ctx = ctx});
}

static int each_value(void *capture, export_on_value *on_value, void *ctx)
{
	return each(capture, (struct readers){.on_value = on_value, .ctx = ctx});
}

static int each_sample(void *capture, export_on_sample *on_sample, void *ctx)
{
	return each(capture, (struct readers){.on_sample = on_sample, .ctx = ctx});
}

static int each_gpu(void *capture, export_on_gpu *on_gpu, void *ctx)
{
	return each(capture, (struct readers){.on_gpu = on_gpu, .ctx = ctx});
}

export_read *export_reader(const struct export_format *format)
{
	return format->spans ? add_all_but_spans : add_all;
}

bool export_only_rank(struct profile *view, struct profile_process *kept, const char *rank)
{
	size_t count = 0;

	for (size_t i = 0; i < view->processes_count; i++) {
		const struct profile_process *process = &view->processes[i];
		char number[16];

		snprintf(number, sizeof(number), "%u", process->rank.rank);
		if (process->rank.world_size && !strcmp(number, rank))
			kept[count++] = *process;
	}
	view->processes = kept;
	view->processes_count = count;
	view->selected = true;
	return count > 0;
}

int export_write(FILE *out, const struct export_format *format, enum export_of of,
		 const struct profile *profile, const struct capture_source *source)
{
	struct exported exported = {source, profile};
	const struct export export = {
		.out = out,
		.of = of,
		.profile = profile,
		.each_span = each_span,
		/* most captures have none, and need no further pass */
		.each_value = profile->value_samples_count ? each_value : NULL,
		.each_sample = export_any_samples(profile) ? each_sample : NULL,
		.each_gpu = profile->gpu_activities_count ? each_gpu : NULL,
		.capture = &exported,
	};

	return format->write(&export);
}
