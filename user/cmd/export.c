// SPDX-License-Identifier: BSD-2-Clause
/* perfx-trace export FILE: a capture as a file of another tool. */
#include "export/export.h"

#include "base/file.h"
#include "base/message.h"
#include "cmd/cmd.h"
#include "push/push.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Several formats fit run.json. Returns the format if only one can show --of; otherwise NULL, and
 * names lists them: "-f chrome (.trace.json) or -f speedscope (.speedscope.json)". */
static const struct export_format *guess_format(const struct options *options, const char *path,
						struct text *names)
{
	const struct export_format *format = NULL, *found = NULL;
	const char *suffix;
	size_t count = 0;

	while ((format = format_like(&export_formats, path, format))) {
		if (options->of && !(format->of & EXPORT_BIT(options->of)))
			continue;
		suffix = format->format.suffixes + 1; /* the first */
		text_printf(names, "%s-f %s (%.*s)", count++ ? " or " : "", format->format.name,
			    (int)strcspn(suffix, " "), suffix);
		found = format;
	}
	return count == 1 ? found : NULL;
}

static const struct export_format *format_of_path(const struct options *options, const char *path)
{
	const struct export_format *format = format_for_path(&export_formats, path);
	struct text names = {0};

	if (!format)
		format = guess_format(options, path, &names);
	if (!format && names.length)
		msg_say("%s: its suffix has several formats: add %s", path, text_peek(&names));
	else if (!format && format_for_path(&report_formats, path))
		msg_say("%s: report writes this format: perfx-trace report FILE.perfx -o FILE%s",
			path, strrchr(path, '.'));
	else if (!format)
		say_unknown_suffix(path, &export_formats);
	text_clear(&names);
	return format;
}

static const struct export_format *choose_format(const struct options *options)
{
	const struct export_format *format;

	if (!options->format && output_path(options))
		return format_of_path(options, output_path(options));
	format = options->format ? export_format_named(options->format) : NULL;
	if (!format && options->format)
		msg_say("export -f %s: no such format: %s", options->format,
			format_names(&export_formats));
	else if (!format)
		msg_say("export needs a format: -f %s", format_names(&export_formats));
	return format;
}

/* Through a stream; the descriptor stays the output's. */
static int write_to(const struct output *output, const struct options *options,
		    const struct export_format *format, const struct profile *profile)
{
	const struct capture_source source = source_of(options);
	int fd = fcntl(output->fd, F_DUPFD_CLOEXEC, 0), err;
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

	if (!out) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	setvbuf(out, NULL, _IOFBF, 1 << 18);
	err = export_write(out, format, options->of, profile, &source);
	if (fclose(out) && !err)
		err = -errno;
	return err;
}

/* A receiver that restarts has this long; what is left stays in the spool. */
#define PUSH_NS 60000000000u

static int push(const struct options *options, const struct profile *profile)
{
	const struct push_options pushing = {
		.url = options->push, .spool = options->spool, .spool_bytes = options->spool_bytes};
	const struct capture_source source = source_of(options);
	struct push_counts counts;
	struct push *push;
	int code, err;

	push = push__new(&pushing, &code);
	if (!push)
		return code;
	err = push__store(push, profile, &source);
	push__drain(push, PUSH_NS);
	push__say(push);
	counts = push__counts(push);
	push__free(push);
	if (err)
		msg_say("--push: %s", strerror(-err));
	return err || counts.waiting || counts.refused || counts.dropped ? EXIT_FAILED : EXIT_OK;
}

static int write_file(const struct options *options, const struct export_format *format,
		      const struct profile *profile)
{
	const char *path = output_path(options);
	struct output output;
	int err;

	if (options->push)
		return push(options, profile);
	err = output_open(&output, path, OUTPUT_WHOLE);

	if (!err)
		err = write_to(&output, options, format, profile);
	if (!err)
		err = output_close(&output);
	else
		output_discard(&output);
	return output_result(path, err);
}

/* All of them, or one. */
static int write_ranks(const struct options *options, const struct export_format *format,
		       const struct profile *profile)
{
	struct profile view = *profile;
	struct profile_process *kept;
	int code = EXIT_USAGE;

	if (!options->rank)
		return write_file(options, format, profile);
	kept = calloc(profile->processes_count + 1, sizeof(*kept));
	if (!kept)
		return output_result(output_path(options), -ENOMEM);
	if (export_only_rank(&view, kept, options->rank))
		code = write_file(options, format, &view);
	else
		msg_say("export --rank %s: no process of %s has this rank", options->rank,
			options->capture);
	free(kept);
	return code;
}

int cmd_export(const struct options *options)
{
	const struct export_format *format =
		options->push ? export_format_named("otlp") : choose_format(options);
	const struct profile *profile = NULL;
	struct aggregate *aggregate;
	struct pipeline pipeline = {0};
	int code = EXIT_FAILED, err = -ENOMEM;

	if (!format)
		return EXIT_USAGE;
	if (options->of && !(format->of & EXPORT_BIT(options->of))) {
		struct text formats = {0};

		export_add_formats(&formats, options->of);
		msg_say("export --of: %s cannot be limited to this; these can: %s",
			format->format.name, text_peek(&formats));
		text_clear(&formats);
		return EXIT_USAGE;
	}
	aggregate = aggregate__new();
	pipeline.on_event = export_reader(format);
	pipeline.ctx = aggregate;
	if (aggregate)
		err = replay_capture(options, &pipeline, true);
	if (!err)
		profile = aggregate__finish(aggregate);
	if (profile) {
		if (!profile->ended)
			msg_say("%s: the capture is truncated: its later records are missing",
				options->capture);
		code = write_ranks(options, format, profile);
	} else {
		code = replay_say_error(options, err ? err : -ENOMEM);
	}
	aggregate__free(aggregate);
	return code;
}
