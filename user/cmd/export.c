// SPDX-License-Identifier: BSD-2-Clause
/* perfx-trace export FILE: what is in a capture, for other tools. */
#include "export/export.h"

#include "base/file.h"
#include "base/message.h"
#include "cmd/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct export_format *choose_format(const struct options *options)
{
	const char *path = output_path(options);
	const struct export_format *format = NULL;

	if (options->format)
		format = export_format_named(options->format);
	else if (path)
		format = format_for_path(&export_formats, path);
	if (format)
		return format;
	if (options->format)
		msg_say("export -f %s: no such format: %s", options->format,
			format_names(&export_formats));
	else if (path)
		msg_say("%s: unknown suffix (%s): give the format with -f", path,
			format_suffixes(&export_formats));
	else
		msg_say("export needs a format: -f %s", format_names(&export_formats));
	return NULL;
}

/* --- the capture, read once for what is in it and once for its calls ----------------------------
 */

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

/* capture: the options that choose it. */
static int each_span(void *capture, export_on_span *on_span, void *ctx)
{
	struct spans spans = {on_span, ctx};
	struct pipeline pipeline = {.on_event = give_span, .ctx = &spans};

	return replay_capture(capture, &pipeline, false);
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

	return replay_capture(capture, &pipeline, false);
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

	return replay_capture(capture, &pipeline, false);
}

/* --- the file -----------------------------------------------------------------------------------
 */

/* A stream to it; the descriptor stays the output's. NULL with errno. */
static FILE *stream_to(const struct output *output)
{
	int fd = fcntl(output->fd, F_DUPFD_CLOEXEC, 0);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

	if (out)
		setvbuf(out, NULL, _IOFBF, 1 << 18);
	else if (fd >= 0)
		close(fd);
	return out;
}

static int write_to(const struct output *output, const struct options *options,
		    const struct export_format *format, const struct profile *profile)
{
	struct export export = {.profile = profile,
				.of = options->of,
				.each_span = each_span,
				/* most captures have none, and need no further pass */
				.each_value = profile->value_samples_count ? each_value : NULL,
				.each_gpu = profile->gpu_activities_count ? each_gpu : NULL,
				.capture = (void *)options,
				.out = stream_to(output)};
	int err = export.out ? format->write(&export) : -errno;

	if (export.out && fclose(export.out) && !err)
		err = -errno;
	return err;
}

static int write_file(const struct options *options, const struct export_format *format,
		      const struct profile *profile)
{
	const char *path = output_path(options);
	struct output output;
	int err = output_open(&output, path, OUTPUT_WHOLE);

	if (!err)
		err = write_to(&output, options, format, profile);
	if (!err)
		err = output_close(&output);
	else
		output_discard(&output);
	return output_result(path, err);
}

int cmd_export(const struct options *options)
{
	const struct export_format *format = choose_format(options);
	const struct profile *profile = NULL;
	struct aggregate *aggregate;
	struct pipeline pipeline = {0};
	int code = EXIT_FAILED, err = -ENOMEM;

	if (!format)
		return EXIT_USAGE;
	if (options->of && !format->stacks) {
		msg_say("export --of: %s has all calls; folded, pprof and speedscope can be of "
			"one thing",
			format->format.name);
		return EXIT_USAGE;
	}
	aggregate = aggregate__new();
	pipeline.on_event = format->spans ? add_all_but_spans : add_all;
	pipeline.ctx = aggregate;
	if (aggregate)
		err = replay_capture(options, &pipeline, true);
	if (!err)
		profile = aggregate__finish(aggregate);
	if (profile) {
		if (!profile->ended)
			msg_say("%s: the capture has no end: what came later is missing",
				options->capture);
		code = write_file(options, format, profile);
	} else {
		code = replay_say_error(options, err ? err : -ENOMEM);
	}
	aggregate__free(aggregate);
	return code;
}
