// SPDX-License-Identifier: BSD-2-Clause
#include "session/python_frames.h"

#include "attach/tracer.h"
#include "base/grow.h"
#include "cpython/code.h"
#include "cpython/cpython.h"
#include "cpython/package.h"

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
	PYTHON_NONE,	 /* there is none */
	PYTHON_STARTING, /* it is asked again */
	PYTHON_READ,
	PYTHON_REFUSED,
};

struct python_process {
	uint32_t process;
	pid_t pid;
	enum python_state state;
	bool described;
	uint32_t tries_count;
	uint64_t next_try_ns;
	struct cpython python;
	const char *why; /* its frames are not read */
	struct python_code *codes;
	size_t codes_count, codes_room;
	struct python_frame *frames;
	size_t frames_count, frames_room, emitted_count;
	uint32_t numbers_count;	   /* of frames without an address of their own */
	struct map64 known_codes;  /* by code_key() */
	struct map64 last_codes;   /* by address */
	struct map64 known_frames; /* by frame_key() */
};

struct python_frames {
	struct tracer *tracer;
	struct sink *sink;
	struct python_process **processes; /* each malloc'd */
	size_t count, room;
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
	for (size_t i = 0; i < python->count; i++)
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

	if (found || grow_array(&python->processes, &python->room, python->count + 1,
				sizeof(struct python_process *)))
		return found;
	found = calloc(1, sizeof(*found));
	if (!found || map64_put(&python->by_process, process, (uint32_t)python->count)) {
		free(found);
		return NULL;
	}
	found->process = process;
	found->pid = pid;
	python->processes[python->count++] = found;
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
	set_layout(python, process);
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
	python->processes[index] = python->processes[--python->count];
	if (index == python->count)
		return;
	map64_remove(&python->by_process, python->processes[index]->process);
	map64_put(&python->by_process, python->processes[index]->process, index);
}

/* Not ended, and no other program yet: that leaves nothing of it in the programs' tables. */
static bool is_running(const struct python_frames *python, const struct python_process *process)
{
	struct perfx_traced_process traced;

	return python->tracer && !tracer__traced_process(python->tracer, process->pid, &traced) &&
	       traced.process == process->process;
}

void python_frames__fork(struct python_frames *python, uint32_t child, pid_t pid, uint32_t parent)
{
	const struct python_process *from = python_process_of(python, parent);
	struct python_process *found;

	if (!from || from->state == PYTHON_NONE)
		return;
	found = find_or_add(python, child, pid);
	if (!found || found->state != PYTHON_NONE)
		return;
	found->state = from->state;
	found->why = from->why;
	found->python = from->python;
	/* the programs do not know it if it was forked before its parent's interpreter was found */
	if (found->state == PYTHON_READ && is_running(python, found))
		set_layout(python, found);
}

void python_frames__tick(struct python_frames *python, uint64_t now_ns)
{
	for (size_t i = 0; i < python->count; i++) {
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

static uint64_t code_key(uint64_t address, uint32_t identity)
{
	return perfx_python_mix(address, identity);
}

static uint64_t frame_key(uint32_t code, uint32_t instruction)
{
	return (uint64_t)code << 32 | instruction;
}

/* Reads the names of a code object, unless another one has its address by now. */
static void name_code(struct packages *packages, const struct python_process *process,
		      struct python_code *code)
{
	uint32_t identity;

	if (code->code.function ||
	    code_read(process->pid, &process->python, code->address, &code->code))
		return;
	/* afterwards: then the names that were read are those of this one */
	if (code_identity(process->pid, &process->python, code->address, &identity) ||
	    identity != code->identity)
		code_clear(&code->code);
	else
		code->of_package = packages_have(packages, process->pid, code->code.file);
}

/* Generated code is often generated again: the same names and lines are the same code. */
static bool is_alike(const struct code *a, const struct code *b)
{
	return a->function && b->function && !strcmp(a->function, b->function) &&
	       !strcmp(a->file, b->file) && a->lines.first_line == b->lines.first_line &&
	       a->lines.length == b->lines.length &&
	       !memcmp(a->lines.bytes, b->lines.bytes, a->lines.length);
}

/* The index of a code object; one that had the address before may have been the same. */
static uint32_t same_before(const struct python_process *process, uint32_t index)
{
	for (uint32_t at = process->codes[index].before; at; at = process->codes[at - 1].before)
		if (is_alike(&process->codes[at - 1].code, &process->codes[index].code))
			return at - 1;
	return index;
}

/* Adds a code object that was not known. Its index or -ENOMEM. */
static int64_t add_code(struct packages *packages, struct python_process *process, uint64_t address,
			uint32_t identity)
{
	uint32_t last = map64_get(&process->last_codes, address), index, same;
	struct python_code *code;

	index = (uint32_t)process->codes_count;
	if (grow_array(&process->codes, &process->codes_room, process->codes_count + 1,
		       sizeof(*process->codes)))
		return -ENOMEM;
	code = &process->codes[index];
	*code = (struct python_code){.address = address,
				     .identity = identity,
				     .before = last == MAP64_NONE ? 0 : last + 1};
	name_code(packages, process, code);
	same = same_before(process, index);
	if (map64_put(&process->known_codes, code_key(address, identity), same) ||
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

/* The code object that had an address when its identity was taken. Its index or -ENOMEM. */
static int64_t code_at(struct packages *packages, struct python_process *process, uint64_t address,
		       uint32_t identity)
{
	uint32_t index = map64_get(&process->known_codes, code_key(address, identity));

	if (index == MAP64_NONE)
		return add_code(packages, process, address, identity);
	name_code(packages, process, &process->codes[index]);
	return index;
}

int python_frames__add(struct python_frames *python, uint32_t process, uint64_t *frame,
		       const uint32_t *identity)
{
	struct python_process *found = python_process_of(python, process);
	uint32_t instruction = PERFX_FRAME_INSTRUCTION(*frame), index, now = 0;
	uint64_t address = *frame;
	int64_t code;

	if (!found || found->state != PYTHON_READ)
		return 0;
	if (!identity &&
	    !code_identity(found->pid, &found->python, PERFX_FRAME_CODE(address), &now))
		identity = &now;
	code = code_at(&python->packages, found, PERFX_FRAME_CODE(address),
		       identity ? *identity : 0);
	if (code < 0)
		return (int)code;
	index = map64_get(&found->known_frames, frame_key((uint32_t)code, instruction));
	if (index != MAP64_NONE) {
		*frame = found->frames[index].address;
		return 0;
	}
	if (grow_array(&found->frames, &found->frames_room, found->frames_count + 1,
		       sizeof(*found->frames)) ||
	    map64_put(&found->known_frames, frame_key((uint32_t)code, instruction),
		      (uint32_t)found->frames_count))
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

static void describe(struct python_frames *python, struct python_process *process)
{
	struct perfx_python record = {.process = process->process,
				      .flags = process->state == PYTHON_READ ? PERFX_PYTHON_FRAMES
									     : 0};

	if (process->described || process->state == PYTHON_NONE)
		return;
	process->described = process->state != PYTHON_STARTING;
	SINK_PACK(python->sink, &python->buffer, PERFX_KIND_PYTHON, record, process->python.version,
		  process->why);
}

void python_frames__emit(struct python_frames *python)
{
	for (size_t i = 0; i < python->count; i++) {
		struct python_process *process = python->processes[i];

		describe(python, process);
		while (process->emitted_count < process->frames_count)
			emit_frame(python, process, &process->frames[process->emitted_count++]);
	}
}
