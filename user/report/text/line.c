// SPDX-License-Identifier: BSD-2-Clause
/*
 * One line for a log; with several processes that made calls, one each:
 *
 *     [PERF] steps=40x(median 101.250ms) | matmul=98.765ms(5x) | forward=26.667ms(1x) | partial
 *     [PERF 4300] load_batch=800.000ms(40x) | free=-(50x)
 *
 * Self time and number of calls: of nested functions each has its own time, so that the times of a
 * thread add up. Steps come first, where there are any. A name's own bar is \x7c, so that " | "
 * only ever divides.
 */
#include "base/escape.h"
#include "base/order.h"
#include "report/report.h"

#define FUNCTIONS_SHOWN 10

static void add_ms(struct text *line, uint64_t ns)
{
	text_printf(line, "%llu.%03llums", (unsigned long long)(ns / 1000000),
		    (unsigned long long)(ns / 1000 % 1000));
}

static void add_process(struct text *line, const struct profile *profile,
			const struct profile_process *process, bool alone,
			const struct report_options *options)
{
	size_t shown = min_u64(options->top ?: FUNCTIONS_SHOWN, process->rows_count);

	if (alone)
		text_add(line, "[PERF] ");
	else
		text_printf(line, "[PERF %u] ", process->pid);
	if (process->steps.count) {
		text_printf(line, "steps=%llux(median ", (unsigned long long)process->steps.count);
		add_ms(line, process->steps.p50_ns);
		text_add(line, ")");
	}
	for (size_t i = 0; i < shown; i++) {
		const struct profile_row *row = &process->rows[i];
		const struct profile_function *function = profile_function(profile, row->function);

		const char *name = function ? function_label(function) : "";
		struct text shown_name = {0};

		text_add(line, i || process->steps.count ? " | " : "");
		escape_display(&shown_name, name[0] ? name : "?");
		for (const char *p = text_peek(&shown_name); *p; p++)
			text_add_bytes(line, *p == '|' ? "\\x7c" : p, *p == '|' ? 4 : 1);
		text_finish(&shown_name, &line->failed);
		text_add(line, "=");
		if (row->timed_count)
			add_ms(line, row->self_ns);
		else
			text_add(line, "-");
		text_printf(line, "(%llux)", (unsigned long long)row->calls_count);
	}
	text_add(line, profile->partial ? " | partial\n" : "\n");
}

int report_write_line(FILE *out, const struct profile *profile, const struct analysis *analysis,
		      const struct report_options *options)
{
	size_t with_calls = 0;
	struct text line = {0};
	int err;

	(void)analysis;
	for (size_t i = 0; i < profile->processes_count; i++)
		with_calls += profile->processes[i].rows_count > 0;
	for (size_t i = 0; i < profile->processes_count; i++)
		if (profile->processes[i].rows_count)
			add_process(&line, profile, &profile->processes[i], with_calls == 1,
				    options);
	if (!with_calls)
		text_printf(&line, "[PERF] no calls%s\n", profile->partial ? " | partial" : "");
	err = text_write(&line, out);
	text_clear(&line);
	return err;
}
