// SPDX-License-Identifier: BSD-2-Clause
/*
 * Folded stacks, for flamegraph.pl, inferno and the like: outermost first, then nanoseconds of self
 * time. A semicolon in a name is \x3b.
 *
 *     trainer (pid 4242);train_step;cblas_sgemm 5800500000
 */
#include "base/map64.h"
#include "export/formats.h"

#include <errno.h>
#include <string.h>

static void add_frame(struct text *line, const char *name)
{
	for (const char *p = name; *p; p++)
		text_add_bytes(line, *p == ';' ? "\\x3b" : p, *p == ';' ? 4 : 1);
}

/* Callers first. Ids of parents are smaller than their children's, so it ends. */
static void add_stack(struct text *line, const struct profile *profile,
		      const struct profile_process *process, const struct map64 *places, size_t at)
{
	size_t path[512], count = 0;
	struct text name = {0};

	for (uint32_t place = (uint32_t)at; place != MAP64_NONE && count < 512;) {
		path[count++] = place;
		place = map64_get(places, process->contexts[place].parent);
	}
	export_process_name(&name, process);
	add_frame(line, text_peek(&name));
	while (count--) {
		name.length = 0;
		export_function_name(&name, profile, process->contexts[path[count]].function);
		text_add(line, ";");
		add_frame(line, text_peek(&name));
	}
	line->failed |= name.failed;
	text_clear(&name);
}

static int put_process(const struct export *export, const struct profile_process *process)
{
	struct map64 places = {0};
	struct text line = {0};
	int err = 0;

	for (size_t i = 0; i < process->contexts_count && !err; i++)
		err = map64_put(&places, process->contexts[i].id, (uint32_t)i);
	for (size_t i = 0; i < process->contexts_count && !err; i++) {
		if (!process->contexts[i].self_ns)
			continue;
		line.length = 0;
		add_stack(&line, export->profile, process, &places, i);
		text_printf(&line, " %llu\n", (unsigned long long)process->contexts[i].self_ns);
		fwrite(text_peek(&line), 1, line.length, export->out);
		err = line.failed ? -ENOMEM : export_error(export->out);
	}
	map64_clear(&places);
	text_clear(&line);
	return err;
}

int export_folded(const struct export *export)
{
	int err = 0;

	for (size_t i = 0; i < export->profile->processes_count && !err; i++)
		err = put_process(export, &export->profile->processes[i]);
	return err;
}
