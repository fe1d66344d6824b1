// SPDX-License-Identifier: BSD-2-Clause
#include "session/frames.h"

#include "attach/tracer.h"
#include "base/clock.h"
#include "base/grow.h"
#include "cpython/code.h"
#include "cpython/cpython.h"
#include "cpython/package.h"
#include "cpython/tasks.h"
#include "proc/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A code object that frames have shown. */
struct python_code {
	uint64_t address;
	uint32_t identity; /* code_identity() */
	uint32_t before;   /* 1 + index of the one that had its address before; 0: none was seen */
	struct code code;  /* empty: it was gone before it could be read */
	bool of_package;
};

struct python_frame {
	uint64_t address;     /* as in the records */
	uint32_t code;	      /* index */
	uint32_t instruction; /* in it */
};

enum python_state {
	PYTHON_NONE,	 /* no interpreter */
	PYTHON_STARTING, /* it is asked again */
	PYTHON_READ,
	PYTHON_REFUSED,
};

struct python_process {
	uint32_t process;
	pid_t pid;
	pid_t parent; /* whose memory a forked child began with; 0: unknown */
	enum python_state state;
	bool described;
	uint32_t tries_count;
	uint64_t next_try_ns;
	struct cpython python;
	const char *why; /* its frames are not read */
	struct python_code *codes;
	size_t codes_count, codes_capacity;
	struct python_frame *frames;
	size_t frames_count, frames_capacity, emitted_count;
	uint32_t numbers_count;	   /* of frames without an address of their own */
	struct map64 known_codes;  /* by code_key() */
	struct map64 last_codes;   /* by address */
	struct map64 known_frames; /* by frame_key() */
};

struct python_frames {
	struct tracer *tracer;
	struct sink *sink;
	struct python_process **processes; /* each malloc'd */
	size_t processes_count, processes_capacity;
	struct map64 by_process;
	struct packages packages;
	struct pack_buffer buffer;
};

struct python_frames *python_frames__new(struct tracer *tracer, struct sink *sink)
{
	struct python_frames *python = calloc(1, sizeof(*python));

	if (!python)
		return NULL;
	python->tracer = tracer;
	python->sink = sink;
	return python;
}

static void free_process(struct python_process *process)
{
	for (size_t k = 0; k < process->codes_count; k++)
		code_clear(&process->codes[k].code);
	free(process->codes);
	free(process->frames);
	map64_clear(&process->known_codes);
	map64_clear(&process->last_codes);
	map64_clear(&process->known_frames);
	free(process);
}

void python_frames__free(struct python_frames *python)
{
	if (!python)
		return;
	for (size_t i = 0; i < python->processes_count; i++)
		free_process(python->processes[i]);
	free(python->processes);
	map64_clear(&python->by_process);
	packages_clear(&python->packages);
	free(python);
}

static struct python_process *python_process_of(const struct python_frames *python,
						uint32_t process)
{
	struct python_process **found = MAP64_FIND(python->by_process, process, python->processes);

	return found ? *found : NULL;
}

/* NULL: memory is out. */
static struct python_process *find_or_add(struct python_frames *python, uint32_t process, pid_t pid)
{
	struct python_process *found = python_process_of(python, process);

	if (found || GROW_BY_ONE(python->processes))
		return found;
	found = calloc(1, sizeof(*found));
	if (!found || map64_put(&python->by_process, process, (uint32_t)python->processes_count)) {
		free(found);
		return NULL;
	}
	found->process = process;
	found->pid = pid;
	python->processes[python->processes_count++] = found;
	return found;
}

static void refuse(struct python_process *process, const char *why)
{
	process->state = PYTHON_REFUSED;
	process->why = why;
}

static void set_layout(struct python_frames *python, struct python_process *process)
{
	if (python->tracer &&
	    tracer__set_python(python->tracer, process->pid, &process->python.release.frames))
		refuse(process, "too many processes with Python");
}

/* Programs that have Python in them may never start it. Once it has started, its first threads run
 * Python soon. */
#define TRY_FIRST_NS	100000000u
#define TRY_DOUBLES_MAX 6
/* An interpreter whose memory never reads as its release lays it out, however often it is tried. */
#define TRIES_MAX 8

static void search_interpreter(struct python_frames *python, struct python_process *process,
			       const struct maps *maps, uint64_t now_ns)
{
	const char *why = "";
	struct process_info info;
	uint32_t doubles =
		process->tries_count < TRY_DOUBLES_MAX ? process->tries_count : TRY_DOUBLES_MAX;

	switch (cpython_find(process->pid, maps, &process->python, &why)) {
	case CPYTHON_NONE:
		return;
	case CPYTHON_UNREADABLE:
		refuse(process, why);
		return;
	case CPYTHON_NOT_YET:
		process->state = PYTHON_STARTING;
		process->why = *why ? why : "its interpreter has not started, or has ended";
		process->next_try_ns = now_ns + ((uint64_t)TRY_FIRST_NS << doubles);
		if (++process->tries_count >= TRIES_MAX && *why)
			refuse(process, why);
		return;
	case CPYTHON_FOUND:
		break;
	}
	process->state = PYTHON_READ;
	process->why = "";
	if (!process->parent && !process_info(process->pid, &info))
		process->parent = info.ppid;
	set_layout(python, process);
}

struct found_threads {
	struct tracer *tracer;
	pid_t pid;
};

static void found_thread(void *ctx, uint64_t thread_id, uint64_t state)
{
	const struct found_threads *found = ctx;

	tracer__set_python_state(found->tracer, found->pid, thread_id, state);
}

void python_frames__find_threads(struct python_frames *python)
{
	for (size_t i = 0; i < python->processes_count; i++) {
		const struct python_process *process = python->processes[i];
		struct found_threads found = {python->tracer, process->pid};

		if (process->state == PYTHON_READ)
			cpython_each_thread(process->pid, &process->python, found_thread, &found);
	}
}

/* Where the tasks of one process go. */
struct found_tasks {
	struct python_frames *python;
	const struct python_process *process;
	uint64_t time_ns;
	uint32_t own_tid, tid; /* of the thread seen last; as the tracer numbers it */
};

static void found_task(void *ctx, const struct python_task *task)
{
	struct found_tasks *found = ctx;
	size_t i = 0;

	if (task->tid != found->own_tid)
		found->tid = task->tid ? (uint32_t)process_thread_by_own_id(found->process->pid,
									    (pid_t)task->tid)
				       : 0;
	found->own_tid = task->tid;
	do {
		struct perfx_async_task record = {
			.time_ns = found->time_ns,
			.task = task->id,
			.awaited_by = task->awaiters_count ? task->awaiters[i] : 0,
			.process = found->process->process,
			.tid = found->tid,
			.flags = task->runs ? PERFX_ASYNC_TASK_RUNS : 0};

		SINK_PACK(found->python->sink, &found->python->buffer, PERFX_KIND_ASYNC_TASK,
			  record, task->name, task->stack);
	} while (++i < task->awaiters_count);
}

void python_frames__emit_tasks(struct python_frames *python)
{
	struct found_tasks found = {.python = python, .time_ns = clock_monotonic_ns()};

	for (size_t i = 0; i < python->processes_count; i++) {
		const struct python_process *process = python->processes[i];
		struct asyncio_offsets at;
		struct maps *maps;

		if (process->state != PYTHON_READ || !process->python.release.tasks.generator_frame)
			continue;
		found.process = process;
		maps = maps__read(process->pid);
		if (maps && asyncio_find(process->pid, maps, &process->python, &at))
			asyncio_each_task(process->pid, &process->python, &at, found_task, &found);
		maps__free(maps);
	}
}

void python_frames__map(struct python_frames *python, uint32_t process, pid_t pid,
			const struct maps *maps)
{
	struct python_process *found = find_or_add(python, process, pid);

	if (found && found->state <= PYTHON_STARTING)
		search_interpreter(python, found, maps, 0);
}

void python_frames__forget(struct python_frames *python, uint32_t process)
{
	uint32_t index = map64_get(&python->by_process, process);

	if (index == MAP64_NONE)
		return;
	free_process(python->processes[index]);
	map64_remove(&python->by_process, process);
	python->processes[index] = python->processes[--python->processes_count];
	if (index == python->processes_count)
		return;
	map64_remove(&python->by_process, python->processes[index]->process);
	map64_put(&python->by_process, python->processes[index]->process, index);
}

void python_frames__fork(struct python_frames *python, uint32_t child, pid_t pid, uint32_t parent)
{
	const struct python_process *from = python_process_of(python, parent);
	struct perfx_traced_process traced;
	struct python_process *found;

	if (!from || from->state == PYTHON_NONE)
		return;
	found = find_or_add(python, child, pid);
	if (!found || found->state != PYTHON_NONE)
		return;
	found->parent = from->pid;
	found->state = from->state;
	found->why = from->why;
	found->python = from->python;
	/* The programs do not know it if it was forked before its parent's interpreter was found.
	 * One that has ended, or runs another program, leaves nothing in their tables. */
	if (found->state == PYTHON_READ && python->tracer &&
	    !tracer__traced_process(python->tracer, found->pid, &traced) &&
	    traced.process == found->process)
		set_layout(python, found);
}

void python_frames__tick(struct python_frames *python, uint64_t now_ns)
{
	for (size_t i = 0; i < python->processes_count; i++) {
		struct python_process *process = python->processes[i];
		struct maps *maps;

		if (process->state != PYTHON_STARTING || now_ns < process->next_try_ns)
			continue;
		if (!cpython_may_have_started(process->pid, &process->python)) {
			process->next_try_ns = now_ns + TRY_FIRST_NS;
			continue;
		}
		maps = maps__read(process->pid);
		if (maps)
			search_interpreter(python, process, maps, now_ns);
		else
			refuse(process, "it ended before its interpreter had started");
		maps__free(maps);
	}
}

/* Reads the names of a code object from a process, unless another one has its address by now. */
static void name_code_of(struct packages *packages, const struct python_process *process, pid_t pid,
			 struct python_code *code)
{
	uint32_t identity;

	if (code_read(pid, &process->python, code->address, &code->code))
		return;
	/* afterwards: then the names that were read are those of this one */
	if (code_identity(pid, &process->python, code->address, &identity) ||
	    identity != code->identity)
		code_clear(&code->code);
	else
		code->of_package = packages_have(packages, pid, code->code.file);
}

/* A forked child that has ended had most of its code from its parent. */
static void name_code(struct packages *packages, const struct python_process *process,
		      struct python_code *code)
{
	if (!code->code.function)
		name_code_of(packages, process, process->pid, code);
	if (!code->code.function && process->parent)
		name_code_of(packages, process, process->parent, code);
}

/* The same names and lines are the same code. */
static bool is_alike(const struct code *a, const struct code *b)
{
	return a->function && b->function && !strcmp(a->function, b->function) &&
	       !strcmp(a->file, b->file) && a->lines.first_line == b->lines.first_line &&
	       a->lines.length == b->lines.length &&
	       !memcmp(a->lines.bytes, b->lines.bytes, a->lines.length);
}

/* Adds a code object that was not known. Its index or -ENOMEM. */
static int64_t add_code(struct packages *packages, struct python_process *process, uint64_t address,
			uint32_t identity)
{
	uint32_t last = map64_get(&process->last_codes, address), index, same, before;
	struct python_code *code;

	same = index = (uint32_t)process->codes_count;
	before = last == MAP64_NONE ? 0 : last + 1;
	if (GROW_BY_ONE(process->codes))
		return -ENOMEM;
	code = &process->codes[index];
	*code = (struct python_code){.address = address, .identity = identity, .before = before};
	name_code(packages, process, code);
	/* generated code is often generated again: the one that had the address before may have
	 * been the same */
	for (; before && same == index; before = process->codes[before - 1].before)
		if (is_alike(&process->codes[before - 1].code, &code->code))
			same = before - 1;
	if (map64_put(&process->known_codes, perfx_python_mix(address, identity), same) ||
	    (same == index && map64_put(&process->last_codes, address, index))) {
		code_clear(&code->code);
		return -ENOMEM;
	}
	if (same == index)
		process->codes_count++;
	else
		code_clear(&code->code);
	return same;
}

int python_frames__add(struct python_frames *python, uint32_t process, uint64_t *frame,
		       const uint32_t *identity)
{
	struct python_process *found = python_process_of(python, process);
	uint64_t address = PERFX_FRAME_CODE(*frame), key;
	uint32_t instruction = PERFX_FRAME_INSTRUCTION(*frame), index, known, now = 0;
	int64_t code;

	if (!found || found->state != PYTHON_READ)
		return 0;
	if (!identity && !code_identity(found->pid, &found->python, address, &now))
		identity = &now;
	known = map64_get(&found->known_codes, perfx_python_mix(address, identity ? *identity : 0));
	code = known;
	if (known == MAP64_NONE)
		code = add_code(&python->packages, found, address, identity ? *identity : 0);
	else
		name_code(&python->packages, found, &found->codes[known]);
	if (code < 0)
		return (int)code;
	key = (uint64_t)code << 32 | instruction;
	index = map64_get(&found->known_frames, key);
	if (index != MAP64_NONE) {
		*frame = found->frames[index].address;
		return 0;
	}
	if (GROW_BY_ONE(found->frames) ||
	    map64_put(&found->known_frames, key, (uint32_t)found->frames_count))
		return -ENOMEM;
	if (found->codes[code].before)
		*frame = PERFX_FRAME_PYTHON | ++found->numbers_count;
	found->frames[found->frames_count++] = (struct python_frame){
		.address = *frame, .code = (uint32_t)code, .instruction = instruction};
	return 0;
}

static void emit_frame(struct python_frames *python, const struct python_process *process,
		       const struct python_frame *frame)
{
	const struct python_code *shown = &process->codes[frame->code];
	const struct code *code = &shown->code;
	struct perfx_frame record = {.address = frame->address,
				     .process = process->process,
				     .flags = (code->function ? 0 : PERFX_FRAME_GONE) |
					      (shown->of_package ? PERFX_FRAME_PACKAGE : 0) |
					      (code->is_generator ? PERFX_FRAME_GENERATOR : 0),
				     .language = PERFX_LANGUAGE_PYTHON};

	if (code->function)
		record.line = line_of_instruction(&code->lines, frame->instruction);
	SINK_PACK(python->sink, &python->buffer, PERFX_KIND_FRAME, record,
		  code->function ? code->function : "", "", code->file ? code->file : "");
}

void python_frames__emit(struct python_frames *python)
{
	FOR_EACH (each, python->processes) {
		struct python_process *process = *each;
		struct perfx_python record = {
			.process = process->process,
			.flags = process->state == PYTHON_READ ? PERFX_PYTHON_FRAMES : 0};

		if (!process->described && process->state != PYTHON_NONE) {
			process->described = process->state != PYTHON_STARTING;
			SINK_PACK(python->sink, &python->buffer, PERFX_KIND_PYTHON, record,
				  process->python.version, process->why);
		}
		while (process->emitted_count < process->frames_count)
			emit_frame(python, process, &process->frames[process->emitted_count++]);
	}
}
