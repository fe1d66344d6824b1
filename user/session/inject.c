// SPDX-License-Identifier: BSD-2-Clause
#include "session/inject.h"

#include "base/message.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NVTX_VARIABLE "NVTX_INJECTION64_PATH"

static const char *value_in(char *const *environment, const char *name)
{
	size_t length = strlen(name);

	if (!environment)
		return getenv(name);
	for (; *environment; environment++)
		if (!strncmp(*environment, name, length) && (*environment)[length] == '=')
			return *environment + length + 1;
	return NULL;
}

/* The folder of this program's file. */
static bool own_folder(char folder[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
	char *slash;

	if (length <= 0)
		return false;
	folder[length] = '\0';
	slash = strrchr(folder, '/');
	if (!slash)
		return false;
	*slash = '\0';
	return true;
}

/* A file that was built or installed with it; malloc'd, NULL: it is not there. */
static char *find_beside(const char *name)
{
	static const char *const places[] = {"lib/perfx", "../lib/perfx"};
	char folder[PATH_MAX], *path, *found = NULL;

	if (!own_folder(folder))
		return NULL;
	for (size_t i = 0; !found && i < sizeof(places) / sizeof(places[0]); i++) {
		if (asprintf(&path, "%s/%s/%s", folder, places[i], name) < 0)
			return NULL;
		found = realpath(path, NULL);
		free(path);
	}
	return found;
}

static void add(struct inject *inject, const char *name, const char *value, const char *rest)
{
	char *entry;

	if (asprintf(&entry, "%s=%s%s%s", name, value, rest && *rest ? ":" : "",
		     rest ? rest : "") >= 0)
		inject->entries[inject->count++] = entry;
}

static void prepare_nvtx(struct inject *inject, char *const *environment)
{
	const char *taken = value_in(environment, NVTX_VARIABLE);
	char *library;

	if (taken && *taken) {
		msg_say(NVTX_VARIABLE " is set, to %s: it stays, and ranges of NVTX 3 that are "
				      "inlined are not seen",
			taken);
		return;
	}
	library = find_beside("libperfx-nvtx.so");
	if (!library)
		return;
	add(inject, NVTX_VARIABLE, library, NULL);
	inject->nvtx = inject->count > 0;
	inject->files[inject->files_count++] = library;
}

static bool prepare_python(struct inject *inject, char *const *environment)
{
	char *library = find_beside("libperfx-python.so");
	char *hook = find_beside("python/sitecustomize.py");
	bool found;

	if (library && hook) {
		*strrchr(hook, '/') = '\0';
		add(inject, "PYTHONPATH", hook, value_in(environment, "PYTHONPATH"));
		add(inject, "PERFX_PYTHON_LIBRARY", library, NULL);
	} else {
		msg_say("--python-level 1: %s is not where make install puts it",
			library ? "lib/perfx/python" : "lib/perfx/libperfx-python.so");
	}
	found = library && hook;
	free(hook);
	if (found)
		inject->files[inject->files_count++] = library;
	else
		free(library);
	return found;
}

bool inject_prepare(struct inject *inject, char *const *environment, bool nvtx,
		    bool python_functions)
{
	*inject = (struct inject){0};
	if (nvtx)
		prepare_nvtx(inject, environment);
	return !python_functions || prepare_python(inject, environment);
}

void inject_apply(const struct inject *inject)
{
	for (size_t i = 0; i < inject->count; i++)
		putenv(inject->entries[i]);
}

void inject_clear(struct inject *inject)
{
	for (size_t i = 0; i < inject->count; i++)
		free(inject->entries[i]);
	for (size_t i = 0; i < inject->files_count; i++)
		free(inject->files[i]);
	inject->count = inject->files_count = 0;
}
