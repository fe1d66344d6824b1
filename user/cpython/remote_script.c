// SPDX-License-Identifier: BSD-2-Clause
#include "cpython/remote_script.h"

#include "proc/process.h"

#include <string.h>

static bool read_word(pid_t pid, uint64_t address, uint64_t *word)
{
	return !process_read(pid, address, word, sizeof(*word)) && *word;
}

const char *remote_script_ask(struct remote_script *script, pid_t pid, const struct cpython *python,
			      const char *path)
{
	const struct remote_script_offsets *at = &python->release.remote;
	uint64_t interpreter, thread;
	int32_t enabled = 0, pending = 0;
	const int32_t ask = 1;

	if (!at->path_bytes)
		return "its Python has no remote debugging (before 3.14)";
	if (strlen(path) >= at->path_bytes)
		return "the script's path is too long";
	if (!read_word(pid, python->release.frames.interpreters, &interpreter) ||
	    !read_word(pid, interpreter + at->main_thread, &thread) ||
	    process_read(pid, interpreter + at->enabled, &enabled, sizeof(enabled)) ||
	    process_read(pid, thread + at->pending, &pending, sizeof(pending)))
		return "its interpreter cannot be read";
	if (enabled != 1)
		return "remote debugging is disabled in its Python "
		       "(PYTHON_DISABLE_REMOTE_DEBUG)";
	if (pending)
		return "another debugger uses it";
	*script = (struct remote_script){.pid = pid, .pending = thread + at->pending};
	if (process_write(pid, thread + at->path, path, strlen(path) + 1) ||
	    process_write(pid, script->pending, &ask, sizeof(ask)))
		return "its memory cannot be written";
	return NULL;
}

bool remote_script_is_pending(const struct remote_script *script)
{
	int32_t pending = 0;

	return !process_read(script->pid, script->pending, &pending, sizeof(pending)) && pending;
}

void remote_script_withdraw(const struct remote_script *script)
{
	const int32_t none = 0;

	process_write(script->pid, script->pending, &none, sizeof(none));
}
