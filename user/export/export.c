// SPDX-License-Identifier: BSD-2-Clause
#include "export/export.h"

#include "aggregate/aggregate.h"
#include "decode/decode.h"
#include "export/formats.h"

#include <stdio.h>
#include <string.h>

static const struct export_format formats[] = {
#define ROW(name, suffixes, type, ...) {{#name, suffixes}, type, __VA_ARGS__, export_##name},
	EXPORT_FORMATS(ROW)
#undef ROW
};

struct format_table export_formats = FORMAT_TABLE(formats);

void export_add_formats(struct text *into, enum export_of of)
{
	const char *separator = "";

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		if (!(formats[i].of & EXPORT_BIT(of)))
			continue;
		text_printf(into, "%s%s", separator, formats[i].format.name);
		separator = ", ";
	}
}

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

/* One pass over a capture. */
struct pass {
	const struct capture_source *source;
	const struct profile *profile; /* if it is a selection, of these processes only */
	int (*on_event)(void *ctx, const struct event *event);
	void *ctx;
};

static int pass_event(void *ctx, const struct event *event)
{
	const struct pass *pass = ctx;

	if (pass->profile->selected && !export_process(pass->profile, event_process(event)))
		return 0;
	return pass->on_event(pass->ctx, event);
}

/* capture: a struct pass. */
static int read_capture(void *capture, int (*on_event)(void *ctx, const struct event *event),
			void *ctx)
{
	struct pass *pass = capture;
	struct pipeline pipeline = {.on_event = pass_event, .ctx = pass};

	pass->on_event = on_event;
	pass->ctx = ctx;
	return capture_source_replay(pass->source, &pipeline, NULL);
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
	struct pass pass = {.source = source, .profile = profile};
	const struct export export = {
		.out = out,
		.of = of,
		.profile = profile,
		.read = read_capture,
		.capture = &pass,
		.has_values = profile->value_samples_count,
		.has_samples = export_any_samples(profile),
		.has_gpu = profile->gpu_activities_count,
		.has_slices = profile->slices_count,
	};

	return format->write(&export);
}
