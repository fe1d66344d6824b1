// SPDX-License-Identifier: BSD-2-Clause
#include "export/export.h"

#include "base/escape.h"
#include "export/formats.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const struct export_format formats[] = {
	{"perfetto", " .pftrace .perfetto-trace ", true, export_perfetto},
	{"chrome", " .trace.json .pt.trace.json ", true, export_chrome},
	{"pprof", " .pb.gz .pprof ", false, export_pprof},
	{"folded", " .folded ", false, export_folded},
	{"speedscope", " .speedscope.json ", false, export_speedscope},
	{"openmetrics", " .prom .openmetrics ", false, export_openmetrics},
};

#define FORMATS (sizeof(formats) / sizeof(formats[0]))

const struct export_format *export_format_named(const char *name)
{
	for (size_t i = 0; i < FORMATS; i++) {
		if (!strcmp(formats[i].name, name))
			return &formats[i];
	}
	return NULL;
}

/* Does the name end in one of these, with something in front? */
static bool ends_in(const char *name, const char *suffixes)
{
	size_t length = strlen(name);

	while (*(suffixes += strspn(suffixes, " "))) {
		size_t count = strcspn(suffixes, " ");

		if (length > count && !strncmp(name + length - count, suffixes, count))
			return true;
		suffixes += count;
	}
	return false;
}

const struct export_format *export_format_for(const char *path)
{
	const char *slash = strrchr(path, '/');

	for (size_t i = 0; i < FORMATS; i++) {
		if (ends_in(slash ? slash + 1 : path, formats[i].suffixes))
			return &formats[i];
	}
	return NULL;
}

const char *export_format_names(void)
{
	return "perfetto, chrome, pprof, folded, speedscope, openmetrics";
}

const char *export_format_suffixes(void)
{
	return ".pftrace .trace.json .pb.gz .folded .speedscope.json .prom";
}

int export_error(FILE *out)
{
	if (!ferror(out))
		return 0;
	return errno ? -errno : -EIO;
}

void export_function_name(struct text *into, const struct profile *profile, uint32_t id)
{
	const struct profile_function *function = profile_function(profile, id);

	escape_display(into, function && function->name[0] ? function->name : "?");
}

void export_json_string(struct text *into, const char *name)
{
	struct text shown = {0};
	json_t *json = NULL;
	char *dumped = NULL;

	escape_display(&shown, name);
	if (!shown.failed)
		json = json_string(text_peek(&shown));
	if (json)
		dumped = json_dumps(json, JSON_ENCODE_ANY);
	if (dumped)
		text_add(into, dumped);
	else
		into->failed = true;
	free(dumped);
	json_decref(json);
	text_clear(&shown);
}

void export_process_name(struct text *into, const struct profile_process *process)
{
	escape_display(into, process->comm[0] ? process->comm : "?");
	text_printf(into, " (pid %u", process->pid);
	if (process->exec_count)
		text_printf(into, ", exec %u", process->exec_count);
	text_add(into, ")");
}

const struct profile_process *export_process(const struct profile *profile, uint32_t index)
{
	for (size_t i = 0; i < profile->processes_count; i++) {
		if (profile->processes[i].index == index)
			return &profile->processes[i];
	}
	return NULL;
}
