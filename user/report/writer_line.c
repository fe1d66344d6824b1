// SPDX-License-Identifier: BSD-2-Clause
/*
 * One line for a log; with several processes that made calls, one each:
 *
 *     [PERF] forward=125.432ms(1x) | matmul=98.765ms(5x) | free=-(50x) | partial
 *     [PERF 4300] load_batch=800.000ms(40x)
 *
 * Total time and number of calls. A name's own bar is \x7c, so that " | " only ever divides.
 */
#include "report/writers.h"

#include "base/escape.h"

#include <errno.h>

#define FUNCTIONS_SHOWN 10

static void add_name(struct text *line, const char *name)
{
	struct text shown = {0};

	escape_display(&shown, name[0] ? name : "?");
	for (const char *p = text_peek(&shown); *p; p++)
		text_add_bytes(line, *p == '|' ? "\\x7c" : p, *p == '|' ? 4 : 1);
	line->failed |= shown.failed;
	text_clear(&shown);
}

static void add_function(struct text *line, const struct profile *profile,
			 const struct profile_row *row)
{
	const struct profile_function *function = profile_function(profile, row->function);

	add_name(line, function ? function->name : "");
	if (row->timed_count)
		text_printf(line, "=%llu.%03llums", (unsigned long long)(row->total_ns / 1000000),
			    (unsigned long long)(row->total_ns / 1000 % 1000));
	else
		text_add(line, "=-");
	text_printf(line, "(%llux)", (unsigned long long)row->calls_count);
}

static void add_process(struct text *line, const struct profile *profile,
			const struct profile_process *process, bool alone,
			const struct report_options *options)
{
	size_t shown = options->top ? options->top : FUNCTIONS_SHOWN;

	if (alone)
		text_add(line, "[PERF] ");
	else
		text_printf(line, "[PERF %u] ", process->pid);
	if (shown > process->rows_count)
		shown = process->rows_count;
	for (size_t i = 0; i < shown; i++) {
		text_add(line, i ? " | " : "");
		add_function(line, profile, &process->rows[i]);
	}
	text_add(line, profile->partial ? " | partial\n" : "\n");
}

int report_write_line(FILE *out, const struct profile *profile, const struct analysis *analysis,
		      const struct report_options *options)
{
	size_t with_calls = 0;
	struct text line = {0};
	int err = 0;

	(void)analysis;
	for (size_t i = 0; i < profile->processes_count; i++)
		with_calls += profile->processes[i].rows_count > 0;
	for (size_t i = 0; i < profile->processes_count; i++) {
		if (profile->processes[i].rows_count)
			add_process(&line, profile, &profile->processes[i], with_calls == 1,
				    options);
	}
	if (!with_calls)
		text_printf(&line, "[PERF] no calls%s\n", profile->partial ? " | partial" : "");
	if (line.failed)
		err = -ENOMEM;
	else if (fwrite(text_peek(&line), 1, line.length, out) != line.length)
		err = errno ? -errno : -EIO;
	text_clear(&line);
	return err;
}
