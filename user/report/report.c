// SPDX-License-Identifier: BSD-2-Clause
#include "report/report.h"

#include "report/table/table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const struct report_writer writers[] = {
	{{"text", " .txt .text "}, TYPE_PLAIN, report_write_text, false},
	{{"md", " .md .markdown "}, "text/markdown; charset=utf-8", report_write_md, false},
	{{"html", " .html .htm "}, "text/html; charset=utf-8", report_write_html, false},
	{{"json", " .json "}, TYPE_JSON, report_write_json, false},
	{{"csv", " .csv "}, "text/csv; charset=utf-8", report_write_csv, true},
	{{"tsv", " .tsv .tab "},
	 "text/tab-separated-values; charset=utf-8",
	 report_write_tsv,
	 true},
	{{"line", " .line "}, TYPE_PLAIN, report_write_line, false},
};

struct format_table report_formats = FORMAT_TABLE(writers);

static bool is_named(const struct profile_process *process, const char *name)
{
	unsigned long pid;
	char *end;

	errno = 0;
	pid = strtoul(name, &end, 10);
	if (*name >= '0' && *name <= '9' && !*end && !errno)
		return pid == process->pid;
	return !strcmp(name, process->comm);
}

int selection_make(struct selection *selection, const struct profile *profile, const char *process)
{
	struct profile *p = &selection->profile;

	*p = *profile;
	p->processes_count = 0;
	p->processes = calloc(profile->processes_count + 1, sizeof(*p->processes));
	if (!p->processes)
		return -ENOMEM;
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *from = &profile->processes[i];
		struct profile_process *copy = &p->processes[p->processes_count];

		if (process && !is_named(from, process))
			continue;
		/* rows of its own: selection_sort changes their order */
		*copy = *from;
		copy->rows = calloc(from->rows_count + 1, sizeof(*copy->rows));
		p->processes_count++;
		if (!copy->rows)
			return -ENOMEM;
		if (from->rows_count)
			memcpy(copy->rows, from->rows, from->rows_count * sizeof(*copy->rows));
	}
	return process && !p->processes_count ? -ENOENT : 0;
}

int selection_sort(struct selection *selection, const char *name)
{
	struct data_table table = {.kind = data_table_kind_named("functions"),
				   .profile = &selection->profile};
	const struct data_table_column *column = data_table_column_named(table.kind, name);
	int err = column ? 0 : -EINVAL;

	for (size_t i = 0; i < selection->profile.processes_count && !err; i++) {
		struct profile_process *process = &selection->profile.processes[i];
		struct data_table_row of_process = {.process = process};
		struct profile_row *rows = malloc((process->rows_count + 1) * sizeof(*rows));

		table.rows_count = 0;
		err = rows ? data_table_fill_process(&table, &of_process) : -ENOMEM;
		if (!err)
			err = data_table_sort(&table, column);
		for (size_t k = 0; k < process->rows_count && !err; k++)
			rows[k] = process->rows[table.rows[k].item];
		free(err ? rows : process->rows);
		process->rows = err ? process->rows : rows;
	}
	data_table_clear(&table);
	return err;
}

void selection_keep(struct selection *selection, size_t process)
{
	struct profile *p = &selection->profile;

	for (size_t i = 0; i < p->processes_count; i++)
		if (i != process)
			free(p->processes[i].rows);
	p->processes[0] = p->processes[process];
	p->processes_count = 1;
}

void selection_clear(struct selection *selection)
{
	for (size_t i = 0; i < selection->profile.processes_count; i++)
		free(selection->profile.processes[i].rows);
	free(selection->profile.processes);
	*selection = (struct selection){0};
}
