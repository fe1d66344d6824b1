// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls of jitted functions, by name: XLA's executable has a module, whose name is the Python
 * function's with "jit_" before it. Where the name lies is read from the accessors that the file
 * has: PjRtCpuLoadedExecutable::GetExecutable and PjRtCpuExecutable::name.
 */
#include "plan/accessor.h"
#include "plan/internal.h"
#include "plan/marks.h"

#include <string.h>

static const char *const symbols[] = {"_ZNK3xla23PjRtCpuLoadedExecutable13GetExecutableEv",
				      "_ZNK3xla17PjRtCpuExecutable4nameEv"};
#define SYMBOLS (sizeof(symbols) / sizeof(symbols[0]))

struct wanted {
	struct symbol found[SYMBOLS];
	size_t count;
};

static int match(const struct symbol *symbol, void *ctx)
{
	struct wanted *wanted = ctx;

	for (size_t i = 0; i < SYMBOLS; i++) {
		if (strcmp(symbol->name, symbols[i]) || wanted->found[i].name)
			continue;
		wanted->found[i] = *symbol;
		wanted->count++;
	}
	return wanted->count == SYMBOLS;
}

static bool read_accessor(const struct image *image, const struct symbol *symbol, bool is_text,
			  struct accessor *accessor)
{
	size_t available = 0;
	const uint8_t *code = image__code(image, symbol->vaddr, &available);

	if (!code)
		return false;
	if (symbol->size && symbol->size < available)
		available = (size_t)symbol->size;
	return is_text ? accessor_of_text(code, available, accessor)
		       : accessor_of_pointer(code, available, accessor);
}

bool plan_jitted_name(struct image *image, struct perfx_mark *mark)
{
	struct accessor executable, name;
	struct wanted wanted = {0};

	image__each_function(image, match, &wanted);
	if (wanted.count < SYMBOLS || !read_accessor(image, &wanted.found[0], false, &executable) ||
	    !read_accessor(image, &wanted.found[1], true, &name) ||
	    executable.count + name.count - 1 > PERFX_PATH_MAX)
		return false;
	mark->path_count = 0;
	for (size_t i = 0; i < executable.count; i++)
		mark->path[mark->path_count++] = executable.steps[i];
	for (size_t i = 0; i + 1 < name.count; i++)
		mark->path[mark->path_count++] = name.steps[i];
	mark->text_offset = name.steps[name.count - 1];
	return true;
}
