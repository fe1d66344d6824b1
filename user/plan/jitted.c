// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls of jitted functions, by name: XLA's executable has a module, whose name is the Python
 * function's with "jit_" before it. Where the name lies is read from the accessors that the file
 * has.
 */
#include "base/prefixes.h"
#include "plan/accessor.h"
#include "plan/annotations.h"
#include "plan/internal.h"

#include <string.h>

/* What is called, by prefix; its accessor of the executable, unless it is one itself; and that
 * one's of the name. */
static const struct release {
	const char *call, *executable, *name;
} releases[] = {
	{"_ZNK3xla23PjRtCpuLoadedExecutable7ExecuteE",
	 "_ZNK3xla23PjRtCpuLoadedExecutable13GetExecutableEv",
	 "_ZNK3xla17PjRtCpuExecutable4nameEv"},
	/* jaxlib 0.7; before */
	{"_ZNK3xla17PjRtCpuExecutable7ExecuteE", NULL, "_ZNK3xla17PjRtCpuExecutable4nameEv"},
	{"_ZN3xla17TfrtCpuExecutable7ExecuteE", NULL, "_ZNK3xla17TfrtCpuExecutable4nameEv"},
};

enum { EXECUTABLE, NAME, SYMBOLS };

struct wanted {
	const char *symbols[SYMBOLS]; /* NULL: not wanted */
	struct symbol found[SYMBOLS]; /* without a name: not there */
};

static const struct release *release_of(const char *symbol)
{
	for (size_t i = 0; i < sizeof(releases) / sizeof(releases[0]); i++)
		if (!strncmp(symbol, releases[i].call, strlen(releases[i].call)))
			return &releases[i];
	return NULL;
}

bool annotation_runs_jitted(const char *symbol)
{
	return release_of(symbol) != NULL;
}

int annotation_jitted_prefixes(struct prefixes *set)
{
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(releases) / sizeof(releases[0]); i++) {
		err = prefixes_add(set, releases[i].call);
		if (!err && releases[i].executable)
			err = prefixes_add(set, releases[i].executable);
		if (!err)
			err = prefixes_add(set, releases[i].name);
	}
	return err;
}

static int match(const struct symbol *symbol, void *ctx)
{
	struct wanted *wanted = ctx;

	for (size_t i = 0; i < SYMBOLS; i++)
		if (wanted->symbols[i] && !strcmp(symbol->name, wanted->symbols[i]))
			wanted->found[i] = *symbol;
	return 0;
}

static bool read_accessor(const struct image *image, const struct symbol *symbol, bool is_text,
			  struct accessor *accessor)
{
	size_t available = 0;
	const uint8_t *code = symbol->name ? image__code(image, symbol->vaddr, &available) : NULL;

	if (!code)
		return false;
	if (symbol->size && symbol->size < available)
		available = (size_t)symbol->size;
	return is_text ? accessor_of_text(code, available, accessor)
		       : accessor_of_pointer(code, available, accessor);
}

bool plan_jitted_name(struct image *image, const char *call, struct perfx_annotation *annotation)
{
	const struct release *release = release_of(call);
	struct accessor executable = {0}, name;
	struct wanted wanted = {0};

	if (!release)
		return false;
	wanted.symbols[EXECUTABLE] = release->executable;
	wanted.symbols[NAME] = release->name;
	image__each_function(image, match, &wanted);
	if ((release->executable &&
	     !read_accessor(image, &wanted.found[EXECUTABLE], false, &executable)) ||
	    !read_accessor(image, &wanted.found[NAME], true, &name) ||
	    executable.count + name.count - 1 > PERFX_PATH_MAX)
		return false;
	annotation->path_count = 0;
	for (size_t i = 0; i < executable.count; i++)
		annotation->path[annotation->path_count++] = executable.steps[i];
	for (size_t i = 0; i + 1 < name.count; i++)
		annotation->path[annotation->path_count++] = name.steps[i];
	annotation->text_offset = name.steps[name.count - 1];
	return true;
}
