// SPDX-License-Identifier: BSD-2-Clause
#include "report/report.h"

#include "report/writers.h"

#include <stdbool.h>
#include <string.h>

static const struct report_writer writers[] = {
	{"text", " .txt .text ", report_write_text, false},
	{"md", " .md .markdown ", report_write_md, false},
	{"html", " .html .htm ", report_write_html, false},
	{"json", " .json ", report_write_json, false},
	{"csv", " .csv ", report_write_csv, true},
	{"tsv", " .tsv .tab ", report_write_tsv, true},
	{"line", " .line ", report_write_line, false},
};

#define WRITERS (sizeof(writers) / sizeof(writers[0]))

const struct report_writer *report_writer_named(const char *name)
{
	for (size_t i = 0; i < WRITERS; i++) {
		if (!strcmp(writers[i].name, name))
			return &writers[i];
	}
	return NULL;
}

/* Is " .txt " in " .txt .text "? */
static bool has_suffix(const struct report_writer *writer, const char *suffix)
{
	const char *at = writer->suffixes;
	size_t length = strlen(suffix);

	while ((at = strstr(at, suffix))) {
		if (at[-1] == ' ' && at[length] == ' ')
			return true;
		at += length;
	}
	return false;
}

const struct report_writer *report_writer_for(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *suffix = strrchr(name, '.');

	if (!suffix || suffix == name || !suffix[1])
		return NULL;
	for (size_t i = 0; i < WRITERS; i++) {
		if (has_suffix(&writers[i], suffix))
			return &writers[i];
	}
	return NULL;
}

const char *report_writer_names(void)
{
	return "text, md, html, json, csv, tsv, line";
}

const char *report_writer_suffixes(void)
{
	return ".txt .md .html .json .csv .tsv .line";
}
