// SPDX-License-Identifier: BSD-2-Clause
#include "cpython/cpython.h"

#include "base/text.h"
#include "elf/image.h"
#include "proc/process.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is asked of its symbols; addresses in the process, 0: it has none. */
struct symbols {
	uint64_t runtime, version, code_type;
	uint64_t eval_start, eval_end;
};

static bool find_symbols(pid_t pid, const struct maps *maps, const struct module_ref *module,
			 struct symbols *symbols)
{
	const struct mapping *mapping = maps__find(maps, module->map_start);
	uint64_t bias, eval_bytes = 0;
	struct image *image = mapping ? mapped_image_open(pid, mapping, &bias) : NULL;

	*symbols = (struct symbols){0};
	if (image) {
		symbols->runtime = mapped_variable(pid, maps, image, bias, "_PyRuntime");
		symbols->version = mapped_variable(pid, maps, image, bias, "Py_Version");
		symbols->code_type = mapped_variable(pid, maps, image, bias, "PyCode_Type");
		symbols->eval_start =
			mapped_symbol(image, bias, "_PyEval_EvalFrameDefault", &eval_bytes);
		symbols->eval_end = symbols->eval_start + eval_bytes;
	}
	image__free(image);
	return symbols->runtime && symbols->code_type;
}

/* The release in a name such as "libpython3.9.so.1.0" or "/usr/lib/python3.9/…", as in the upper
 * half of PY_VERSION_HEX; 0: none. */
static uint32_t minor_in(const char *name)
{
	static const char prefix[] = "python3.";
	unsigned long minor;

	for (; (name = strstr(name, prefix)); name++) {
		if (!isdigit((unsigned char)name[strlen(prefix)]))
			continue;
		minor = strtoul(name + strlen(prefix), NULL, 10);
		return minor < 0x100 ? 0x0300 | (uint32_t)minor : 0;
	}
	return 0;
}

/* PY_VERSION_HEX; of what is only known by names, without its last parts. 0: not known. */
static uint32_t version_of(pid_t pid, const struct maps *maps, const struct module_ref *module,
			   const struct symbols *symbols)
{
	uint32_t version = 0;

	/* since 3.11 */
	if (symbols->version && !process_read(pid, symbols->version, &version, sizeof(version)) &&
	    version >> 24 == 3)
		return version;
	version = minor_in(module->base);
	for (size_t i = 0; !version && i < maps__count(maps); i++)
		version = minor_in(maps__at(maps, i)->path);
	return version << 16;
}

/* struct PyTypeObject and PyMemberDef, the same in all releases. */
#define TYPE_BASIC_SIZE 32
#define TYPE_MEMBERS	240
#define MEMBERS_MAX	64

struct member_definition {
	uint64_t name;
	int32_t type, pad;
	uint64_t offset;
	uint64_t flags, doc;
};

static bool agrees(const char *name, uint64_t offset, const struct code_offsets *code)
{
	const struct {
		const char *name;
		uint16_t offset;
	} expected[] = {{"co_firstlineno", code->first_line},
			{"co_filename", code->file},
			{"co_name", code->name},
			{"co_qualname", code->qualname},
			{"co_linetable", code->lines},
			{"co_lnotab", code->lines}};

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		if (!strcmp(name, expected[i].name))
			return offset == expected[i].offset;
	return true;
}

/* Does the type's own list of members confirm the offsets? A list that cannot be read says
 * nothing. */
static bool members_agree(pid_t pid, const struct cpython *python)
{
	const struct perfx_python_layout *frames = &python->release.frames;
	struct member_definition member;
	uint64_t members, basic_bytes;
	char name[16];

	if (process_read(pid, python->code_type + TYPE_MEMBERS, &members, sizeof(members)) ||
	    process_read(pid, python->code_type + TYPE_BASIC_SIZE, &basic_bytes,
			 sizeof(basic_bytes)))
		return false;
	/* since 3.11 the instructions follow the object's fixed part */
	if (frames->code_first && basic_bytes != frames->code_first)
		return false;
	for (size_t i = 0; i < MEMBERS_MAX; i++, members += sizeof(member)) {
		if (process_read(pid, members, &member, sizeof(member)) || !member.name)
			break;
		if (process_read(pid, member.name, name, sizeof(name)))
			continue;
		name[sizeof(name) - 1] = '\0';
		if (!agrees(name, member.offset, &python->release.code))
			return false;
	}
	return true;
}

/* The process runs on while its threads are read, so an attempt may fail. */
#define TRIES_MAX	 50
#define INTERPRETERS_MAX 64
#define THREADS_MAX	 65536
#define CHECKED_MAX	 64 /* threads: more only where none of these has a frame */
#define FRAMES_MAX	 64 /* of each thread: as good as all */

static bool read_pointer(pid_t pid, uint64_t address, uint64_t *pointer)
{
	return !process_read(pid, address, pointer, sizeof(*pointer));
}

/* A frame and the one that called it; *is_code: it runs code, and of that kind. */
static bool check_frame(pid_t pid, const struct cpython *python, uint64_t *frame, bool *runs_code)
{
	const struct perfx_python_layout *at = &python->release.frames;
	uint8_t bytes[PERFX_PYTHON_WORDS * sizeof(uint64_t)];
	uint64_t code, type;

	if (process_read(pid, *frame, bytes, at->frame_bytes))
		return false;
	*runs_code = at->entry != PERFX_PYTHON_ENTRY_SHIM ||
		     bytes[at->frame_entry] < PERFX_PYTHON_OWNER_SHIM;
	memcpy(&code, bytes + at->frame_code, sizeof(code));
	memcpy(frame, bytes + at->frame_back, sizeof(*frame));
	if (!*runs_code)
		return true;
	return read_pointer(pid, (code & ~7ull) + 8, &type) && type == python->code_type;
}

/* All frames of a thread have code. Adds the frames to *count if the thread is there, which its
 * control block shows by pointing to itself: a subinterpreter's state up to 3.11 is that of the
 * thread that made it, which may have ended. */
static bool check_thread(pid_t pid, const struct cpython *python, uint64_t thread, size_t *count)
{
	const struct perfx_python_layout *at = &python->release.frames;
	uint64_t id, itself, cframe, frame; /* 0: there is none */
	bool runs_code, is_there, found;

	if (at->thread_frame)
		found = read_pointer(pid, thread + at->thread_frame, &frame);
	else
		found = read_pointer(pid, thread + at->thread_cframe, &cframe) &&
			read_pointer(pid, cframe + at->cframe_frame, &frame);
	if (!found || !read_pointer(pid, thread + at->thread_id, &id))
		return false;
	is_there = id && read_pointer(pid, id, &itself) && itself == id;
	for (size_t i = 0; frame && i < FRAMES_MAX; i++) {
		if (!check_frame(pid, python, &frame, &runs_code))
			return false;
		*count += runs_code && is_there;
	}
	return true;
}

/* Reads all threads once: false where one is not as expected. *count: frames with code. */
static bool check_threads(pid_t pid, const struct cpython *python, size_t *count)
{
	const struct perfx_python_layout *at = &python->release.frames;
	uint64_t interpreter, thread;

	*count = 0;
	if (!read_pointer(pid, at->interpreters, &interpreter))
		return false;
	for (size_t i = 0; interpreter && i < INTERPRETERS_MAX; i++) {
		if (!read_pointer(pid, interpreter + at->interpreter_threads, &thread))
			return false;
		for (size_t n = 0; thread && n < (*count ? CHECKED_MAX : THREADS_MAX); n++)
			if (!check_thread(pid, python, thread, count) ||
			    !read_pointer(pid, thread + at->thread_next, &thread))
				return false;
		if (!read_pointer(pid, interpreter + at->interpreter_next, &interpreter))
			return false;
	}
	return true;
}

static enum cpython_found inspect(pid_t pid, const struct symbols *symbols, uint32_t version,
				  struct cpython *python, const char **why)
{
	uint8_t runtime[CPYTHON_RUNTIME_BYTES];
	struct perfx_python_layout *frames = &python->release.frames;
	uint64_t interpreter, main, gil;
	size_t count = 0;

	*why = "its memory cannot be read";
	if (process_read(pid, symbols->runtime, runtime, sizeof(runtime)))
		return CPYTHON_UNREADABLE;
	if (cpython_runtime_version(runtime))
		version = cpython_runtime_version(runtime);
	/* the lowest byte, the kind of release, is never 0 in one that is known whole */
	if (version & 0xff)
		snprintf(python->version, sizeof(python->version), "%u.%u.%u", version >> 24,
			 version >> 16 & 0xff, version >> 8 & 0xff);
	else if (version)
		snprintf(python->version, sizeof(python->version), "%u.%u", version >> 24,
			 version >> 16 & 0xff);
	*why = cpython_release(runtime, version, &python->release);
	if (*why)
		return CPYTHON_UNREADABLE;
	*why = "";
	python->code_type = symbols->code_type;
	frames->interpreters = symbols->runtime + python->release.runtime_interpreters;
	frames->interpreter_gil = python->release.interpreter_gil;
	frames->eval_start = symbols->eval_start;
	frames->eval_end = symbols->eval_end;
	if (!read_pointer(pid, frames->interpreters, &interpreter) || !interpreter)
		return CPYTHON_NOT_YET;
	if (python->release.runtime_gil)
		frames->gil = symbols->runtime + python->release.runtime_gil;
	else if (read_pointer(pid, frames->interpreters + sizeof(uint64_t), &main) &&
		 read_pointer(pid, main + python->release.interpreter_gil, &gil))
		frames->gil = gil;
	if (!members_agree(pid, python)) {
		*why = "its code objects are not as its release has them";
		return CPYTHON_UNREADABLE;
	}
	*why = "its threads' frames are not as its release has them";
	for (int i = 0; i < TRIES_MAX; i++) {
		bool whole = check_threads(pid, python, &count);

		if (whole && count)
			return CPYTHON_FOUND;
		/* no thread runs Python: it starts, or ends */
		if (whole)
			*why = "";
	}
	/* a thread may have lost its CPU in the middle of a call all the while */
	return CPYTHON_NOT_YET;
}

enum cpython_found cpython_find(pid_t pid, const struct maps *maps, struct cpython *python,
				const char **why)
{
	enum cpython_found found = CPYTHON_NONE;
	struct module_ref *modules;
	ssize_t count = maps__modules(maps, &modules);
	struct symbols symbols;

	*python = (struct cpython){0};
	*why = "";
	pid = process_task(pid);
	/* Python is a program or a library, with its version in the name; or a program has it
	 * built in, which is then the first file mapped */
	for (ssize_t i = 0; found == CPYTHON_NONE && i < count; i++)
		if ((!i || begins_with(modules[i].base, "python") ||
		     begins_with(modules[i].base, "libpython")) &&
		    find_symbols(pid, maps, &modules[i], &symbols))
			found = inspect(pid, &symbols, version_of(pid, maps, &modules[i], &symbols),
					python, why);
	if (count >= 0)
		free(modules);
	return found;
}

bool cpython_may_have_started(pid_t pid, const struct cpython *python)
{
	uint64_t at = python->release.frames.interpreters, interpreter;

	return !at || !read_pointer(process_task(pid), at, &interpreter) || interpreter;
}

void cpython_each_thread(pid_t pid, const struct cpython *python,
			 void (*visit)(void *ctx, uint64_t thread_id, uint64_t state), void *ctx)
{
	const struct perfx_python_layout *at = &python->release.frames;
	uint64_t interpreter, next, state, id;

	if (!read_pointer(pid, at->interpreters, &interpreter) || !interpreter ||
	    !read_pointer(pid, interpreter + at->interpreter_next, &next) || next ||
	    !read_pointer(pid, interpreter + at->interpreter_threads, &state))
		return;
	for (size_t n = 0; state && n < THREADS_MAX; n++) {
		if (read_pointer(pid, state + at->thread_id, &id))
			visit(ctx, id, state);
		if (!read_pointer(pid, state + at->thread_next, &state))
			return;
	}
}
