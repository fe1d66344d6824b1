// SPDX-License-Identifier: BSD-2-Clause
/* Reports: perfx-trace report FILE, explain, and what the recording verbs share with them. */
#include "report/report.h"
#include "analyze/rule_set.h"
#include "base/escape.h"
#include "base/file.h"
#include "base/message.h"
#include "cmd/cmd.h"
#include "elf/pattern.h"
#include "report/dump.h"
#include "report/table/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

const char *output_path(const struct options *options)
{
	return options->output && strcmp(options->output, "-") ? options->output : NULL;
}

void say_unknown_suffix(const char *path, struct format_table *table)
{
	struct stat file;

	if (!stat(path, &file) && S_ISDIR(file.st_mode))
		msg_say("%s: %s", path, output_error(EISDIR));
	else
		msg_say("%s: unknown suffix (%s): give the format with -f (%s)", path,
			format_suffixes(table), format_names(table));
}

const void *output_format(struct format_table *table, const char *verb,
			  const struct options *options)
{
	const char *path = output_path(options);
	const void *row;

	if (options->format)
		row = format_named(table, options->format);
	else
		row = path ? format_for_path(table, path) : format_named(table, "text");
	if (!row && options->format)
		msg_say("%s -f %s: no such format: %s", verb, options->format, format_names(table));
	else if (!row)
		say_unknown_suffix(path, table);
	return row;
}

int output_result(const char *path, int err)
{
	if (!err || (err == -EPIPE && !path))
		return EXIT_OK;
	msg_say("%s: %s", path ? path : "stdout", output_error(err));
	return EXIT_FAILED;
}

int output_whole(const char *path, FILE *stream, char **text, const size_t *size, int err)
{
	struct output output;

	if ((!stream || fclose(stream)) && !err)
		err = -ENOMEM;
	if (!err)
		err = output_open(&output, path, OUTPUT_WHOLE);
	if (!err)
		err = output_store(&output, *text, *size);
	free(*text);
	return output_result(path, err);
}

void output_terminal(const char *path, unsigned *width, bool *color)
{
	bool terminal = !path && isatty(STDOUT_FILENO);
	struct winsize size = {0};

	*width = terminal && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) ? size.ws_col : 0;
	*color = terminal && !getenv("NO_COLOR");
}

/* Do --table and --sort name what the format has? */
static int check_table(const struct report_writer *writer, const struct options *options)
{
	const struct data_table_kind *kind =
		data_table_kind_named(options->table ? options->table : "functions");
	struct text columns = {0};

	if ((options->table || options->no_header) && !writer->tables) {
		msg_say("%s needs CSV or TSV: add -f csv",
			options->table ? "--table" : "--no-header");
		return EXIT_USAGE;
	}
	if (!kind) {
		msg_say("--table %s: no such table: %s", options->table, data_table_kind_names());
		return EXIT_USAGE;
	}
	if (!options->sort || data_table_column_named(kind, options->sort))
		return EXIT_OK;
	data_table_column_names(kind, &columns);
	msg_say("--sort %s: no such column of %s: %s", options->sort, kind->name,
		text_peek(&columns));
	text_clear(&columns);
	return EXIT_USAGE;
}

/* Read first: a mistake in it is reported before anything is traced. */
static int load_template(struct report_target *target, const struct options *options)
{
	char why[TEMPLATE_WHY];

	if (options->format) {
		msg_say("--template replaces the format and excludes -f: use one of them");
		return EXIT_USAGE;
	}
	target->template = file_read_text(options->template);
	if (!target->template) {
		msg_say("--template %s: %s", options->template, file_error(errno));
		return EXIT_USAGE;
	}
	if (!template_check(target->template, why) &&
	    !template_check_names(target->template, why)) {
		target->writer = &report_writer_template;
		return EXIT_OK;
	}
	msg_say("--template %s:%s", options->template, why);
	return EXIT_USAGE;
}

static int choose_writer(struct report_target *target, const struct options *options)
{
	const char *path = target->path;

	if (options->template)
		return load_template(target, options);
	if (options->format)
		target->writer = report_writer_named(options->format);
	else
		target->writer =
			path ? format_for_path(&report_formats, path) : report_writer_named("text");
	if (!target->writer && options->format) {
		msg_say("-f %s: no such format: %s", options->format,
			format_names(&report_formats));
		return EXIT_USAGE;
	}
	if (!target->writer && format_for_path(&export_formats, path)) {
		msg_say("%s: export writes this format, from a capture: perfx-trace export "
			"FILE.perfx -o FILE%s",
			path, strrchr(path, '.'));
		return EXIT_USAGE;
	}
	if (!target->writer) {
		say_unknown_suffix(path, &report_formats);
		return EXIT_USAGE;
	}
	return EXIT_OK;
}

int report_target_open(struct report_target *target, const struct options *options)
{
	const char *path = output_path(options);
	int code, err;

	*target = (struct report_target){.path = path, .output.fd = -1};
	target->says_written = !options->capture;
	code = choose_writer(target, options) ?: check_table(target->writer, options);
	if (code)
		return code;
	err = output_open(&target->output, path, OUTPUT_WHOLE);
	if (target->output.part)
		output_discard(&target->output);
	return output_result(path, err);
}

static struct report_options look_of(const struct report_target *target,
				     const struct options *options)
{
	struct report_options look = {.full = options->full,
				      .top = (unsigned)options->top,
				      .full_cmdline = options->full_cmdline,
				      .table = options->table,
				      .sort = options->sort,
				      .no_header = options->no_header,
				      .template = target->template,
				      .carbon_intensity = options->carbon_intensity};

	output_terminal(target->path, &look.width, &look.color);
	return look;
}

/* The whole report in memory, malloc'd; NULL: out of memory. */
static char *render(const struct report_writer *writer, const struct report_options *look,
		    const struct profile *profile, const struct analysis *analysis, size_t *size)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, size);
	int err;

	if (!out)
		return NULL;
	err = writer->write(out, profile, analysis, look);
	if (fclose(out) || err) {
		free(text);
		return NULL;
	}
	return text;
}

static int write_out(struct report_target *target, const struct report_options *look,
		     const struct profile *profile, const struct analysis *analysis)
{
	size_t size;
	char *text = render(target->writer, look, profile, analysis, &size);
	int err = text ? 0 : -ENOMEM;
	bool is_file;

	msg_status_clear();
	if (!err && target->output.fd < 0)
		err = output_open(&target->output, target->path, OUTPUT_WHOLE);
	is_file = target->output.part;
	if (!err)
		err = output_store(&target->output, text, size);
	free(text);
	if (!err && is_file && (target->says_written || isatty(STDERR_FILENO))) {
		/* for a user at a terminal, or a recording's log */
		struct text verdict = {0};

		escape_unmarked(&verdict, analysis->verdict);
		msg_say("%s", text_peek(&verdict));
		msg_say("%s: written", target->path);
		text_clear(&verdict);
	}
	if (output_result(target->path, err) == EXIT_OK)
		return EXIT_OK;
	if (target->path) {
		msg_say("the report follows on the terminal instead");
		text = render(report_writer_named("text"), look, profile, analysis, &size);
		if (text)
			output_write(STDOUT_FILENO, text, size);
		free(text);
	}
	return EXIT_FAILED;
}

static int check_findings(const struct analysis *analysis, enum finding_severity severity)
{
	const struct finding *first = NULL;
	size_t count = 0;
	struct text line;

	for (size_t i = 0; i < analysis->processes_count; i++) {
		const struct process_analysis *process = &analysis->processes[i];

		for (size_t j = 0; j < process->findings_count; j++) {
			const struct finding *finding = &process->findings[j];

			if (finding->severity > severity)
				continue;
			if (!first || finding->severity < first->severity)
				first = finding;
			count++;
		}
	}
	if (!first)
		return EXIT_OK;
	/* "--fail-on high: DataBound of python3 (pid 42): waiting … (and 2 more)" */
	line = (struct text){0};
	text_printf(&line, "--fail-on %s: %s of ", finding_severity_name(severity), first->kind);
	escape_unmarked(&line, first->subject);
	text_add(&line, ": ");
	escape_unmarked(&line, first->evidence);
	if (count > 1)
		text_printf(&line, " (and %zu more)", count - 1);
	msg_say("%s", text_peek(&line));
	text_clear(&line);
	return EXIT_FINDINGS;
}

/* Analyzes the selection, then sorts it. */
static int write_selection(struct report_target *target, struct selection *selection,
			   const struct options *options)
{
	struct report_options look = look_of(target, options);
	struct analysis *analysis = analyze(&selection->profile, options->rules);
	int code = EXIT_FAILED, err = 0;

	if (analysis && options->sort && !target->writer->tables)
		err = selection_sort(selection, options->sort);
	if (analysis && !err)
		code = write_out(target, &look, &selection->profile, analysis);
	else
		msg_say("out of memory");
	if (!code)
		code = check_findings(analysis, options->fail_on_severity);
	analysis__free(analysis);
	return code;
}

int report_target_write(struct report_target *target, struct aggregate *aggregate,
			const struct options *options)
{
	const struct profile *profile;
	struct selection selection = {0};
	int code = EXIT_OK, refused = EXIT_OK, err = -ENOMEM;

	msg_status("writing the report…");
	profile = aggregate__finish(aggregate);

	if (profile)
		err = selection_make(&selection, profile, options->process);
	if (err == -ENOENT) {
		msg_say("--process %s: no such process was traced; %s", options->process,
			options->capture ? "--table processes lists them" : "the report has all");
		refused = EXIT_USAGE;
		/* a wrong name must not cost a measurement; a capture can be read again */
		if (!options->capture) {
			selection_clear(&selection);
			err = selection_make(&selection, profile, NULL);
		}
	}
	if (!err)
		code = write_selection(target, &selection, options);
	if (err && err != -ENOENT) {
		msg_say("out of memory");
		code = EXIT_FAILED;
	}
	code = code ? code : refused;
	selection_clear(&selection);
	return code;
}

void report_target_close(struct report_target *target)
{
	output_discard(&target->output);
	free(target->template);
	target->template = NULL;
}

int cmd_report(const struct options *options)
{
	struct report_target target = {.output.fd = -1};
	struct pipeline pipeline = {.aggregate = aggregate__new()};
	int code, err;

	interrupt_says("ended at once: no report is written");
	err = pipeline.aggregate ? replay_capture(options, &pipeline, true) : -ENOMEM;
	if (err) {
		code = replay_say_error(options, err);
	} else if (aggregate__is_dump(pipeline.aggregate)) {
		const struct dump_writer *writer = output_format(&dump_formats, "report", options);

		code = writer ? dump_write(writer, pipeline.aggregate, options) : EXIT_USAGE;
	} else {
		code = report_target_open(&target, options)
			       ?: report_target_write(&target, pipeline.aggregate, options);
		report_target_close(&target);
	}
	aggregate__free(pipeline.aggregate);
	return code;
}

/* explain KIND: how a kind of finding is judged, and what to try. */

static const char *kind_at(size_t index)
{
	return index < finding_kinds_count ? finding_kinds[index].kind : NULL;
}

int cmd_explain(const struct options *options)
{
	const struct rule_set *rules = options->rules ? options->rules : &rule_set_builtin;
	const struct finding_kind *kind = NULL;
	struct text text = {0};

	for (size_t i = 0; options->kind && i < finding_kinds_count; i++)
		if (!strcasecmp(finding_kinds[i].kind, options->kind))
			kind = &finding_kinds[i];
	if (options->kind && !kind) {
		struct text near = {0};

		nearest_names(&near, options->kind, kind_at);
		msg_say("explain %s: no such kind of finding%s%s; perfx-trace explain lists them",
			options->kind, near.length ? "; similar: " : "", text_peek(&near));
		text_clear(&near);
		return EXIT_USAGE;
	}
	if (kind)
		explain_kind(&text, kind, &rules->thresholds);
	else
		explain_all(&text, &rules->thresholds);
	fputs(text_peek(&text), stdout);
	text_clear(&text);
	return EXIT_OK;
}
