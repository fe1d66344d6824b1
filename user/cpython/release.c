// SPDX-License-Identifier: BSD-2-Clause
#include "cpython/release.h"

#include <stdbool.h>
#include <string.h>

/* struct _gil_runtime_state: an interval, the last holder, locked. */
#define GIL_HOLDER 8
#define GIL_LOCKED 16

#define CODE_38(lines_format)                                                          \
	{                                                                              \
		.first_line = 40, .flags = 36, .file = 104, .name = 112, .lines = 120, \
		.string_data = 48, .string_wide_data = 72, .format = (lines_format)    \
	}

#define FRAMES_38(minor)                                                                          \
	{                                                                                         \
		.version = (minor), .entry = PERFX_PYTHON_ENTRY_CODE, .interpreter_threads = 8,   \
		.thread_next = 8, .thread_id = 176, .thread_frame = 24, .frame_locals = 360,      \
		.frame_bytes = 112, .frame_code = 32, .frame_back = 24, .frame_instruction = 104, \
		.index_bytes = 1                                                                  \
	}

static const struct cpython_release releases[] = {
	{
		.frames = FRAMES_38(0x0308),
		.code = CODE_38(LINE_TABLE_LNOTAB),
		.runtime_interpreters = 32,
		.runtime_gil = 1152,
	},
	{
		.frames = FRAMES_38(0x0309),
		.code = CODE_38(LINE_TABLE_LNOTAB),
		.runtime_interpreters = 32,
		.runtime_gil = 352,
	},
	{
		.frames = {.version = 0x030a,
			   .entry = PERFX_PYTHON_ENTRY_CFRAME_EACH,
			   .interpreter_threads = 8,
			   .thread_next = 8,
			   .thread_id = 176,
			   .thread_frame = 24,
			   .thread_cframe = 48,
			   .cframe_previous = 8,
			   .frame_locals = 352,
			   .frame_bytes = 104,
			   .frame_code = 32,
			   .frame_back = 24,
			   .frame_instruction = 96,
			   .index_bytes = 2},
		.code = CODE_38(LINE_TABLE_RANGES),
		.runtime_interpreters = 32,
		.runtime_gil = 352,
	},
	{
		.frames = {.version = 0x030b,
			   .entry = PERFX_PYTHON_ENTRY_CFRAME,
			   .interpreter_threads = 16,
			   .thread_next = 8,
			   .thread_id = 152,
			   .thread_cframe = 56,
			   .cframe_frame = 8,
			   .cframe_previous = 16,
			   .frame_locals = 72,
			   .frame_bytes = 72,
			   .frame_code = 32,
			   .frame_back = 48,
			   .frame_instruction = 56,
			   .frame_entry = 68,
			   .code_first = 184},
		.code = {.first_line = 72,
			 .flags = 48,
			 .file = 112,
			 .name = 120,
			 .qualname = 128,
			 .lines = 136,
			 .string_data = 48,
			 .string_wide_data = 72,
			 .format = LINE_TABLE_LOCATIONS},
		.runtime_interpreters = 40,
		.runtime_gil = 360,
	},
	{
		.frames = {.version = 0x030c,
			   .entry = PERFX_PYTHON_ENTRY_SHIM,
			   .interpreter_threads = 72,
			   .thread_next = 8,
			   .thread_id = 136,
			   .thread_cframe = 56,
			   .cframe_frame = 0,
			   .frame_locals = 72,
			   .frame_bytes = 72,
			   .frame_code = 0,
			   .frame_back = 8,
			   .frame_instruction = 56,
			   .frame_entry = 70,
			   .code_first = 192},
		.code = {.first_line = 68,
			 .flags = 48,
			 .file = 112,
			 .name = 120,
			 .qualname = 128,
			 .lines = 136,
			 .string_data = 40,
			 .string_wide_data = 56,
			 .format = LINE_TABLE_LOCATIONS},
		.runtime_interpreters = 40,
		.interpreter_gil = 384,
	},
};

#define COOKIE "xdebugpy"

/* Words of _Py_DebugOffsets: where its parts begin, which have the same members first. */
struct description {
	uint32_t minor;
	uint8_t interpreter, thread, frame, code;
	uint8_t gil;	  /* ceval_gil, counted from interpreter */
	uint8_t debugger; /* debugger_support; 0: there is none */
	uint8_t set, number, generator;
};

enum { WORD_VERSION = 1, WORD_FREE_THREADED = 2, WORD_INTERPRETERS = 5 };

static const struct description descriptions[] = {
	{.minor = 0x030d, .interpreter = 6, .thread = 19, .frame = 28, .code = 34, .gil = 8},
	{.minor = 0x030e,
	 .interpreter = 6,
	 .thread = 22,
	 .frame = 31,
	 .code = 39,
	 .gil = 9,
	 .debugger = 89,
	 .set = 62,
	 .number = 71,
	 .generator = 83},
};

static uint64_t word_of(const uint8_t *runtime, size_t index)
{
	uint64_t word;

	memcpy(&word, runtime + index * sizeof(word), sizeof(word));
	return word;
}

uint32_t cpython_runtime_version(const uint8_t runtime[CPYTHON_RUNTIME_BYTES])
{
	return memcmp(runtime, COOKIE, strlen(COOKIE)) != 0
		       ? 0
		       : (uint32_t)word_of(runtime, WORD_VERSION);
}

/* An offset into a structure of at most so many bytes; clears *valid where it is not. */
static uint16_t offset_at(const uint8_t *runtime, size_t index, uint64_t limit, bool *valid)
{
	uint64_t offset = word_of(runtime, index);

	if (offset >= limit || offset > UINT16_MAX)
		*valid = false;
	return (uint16_t)offset;
}

static bool holds_pointer(const struct perfx_python_layout *frames, uint16_t offset)
{
	return offset % sizeof(uint64_t) == 0 && offset + sizeof(uint64_t) <= frames->frame_bytes;
}

/* A thread state is read from its pointer to frames up to its thread_id, at once. */
static bool holds_state(const struct perfx_python_layout *frames)
{
	return frames->thread_frame % sizeof(uint64_t) == 0 &&
	       frames->thread_id % sizeof(uint64_t) == 0 &&
	       frames->thread_frame < frames->thread_id &&
	       frames->thread_id + sizeof(uint64_t) - frames->thread_frame <=
		       PERFX_PYTHON_WORDS * sizeof(uint64_t);
}

static bool describe_frames(const uint8_t *runtime, const struct description *at,
			    struct perfx_python_layout *frames)
{
	enum { NEXT = 2, THREADS = 3, T_NEXT = 2, T_FRAME = 4, T_ID = 5 };
	enum { BACK = 1, CODE = 2, INSTRUCTION = 3, LOCALS = 4, OWNER = 5, C_FIRST = 9 };
	uint64_t interpreter = word_of(runtime, at->interpreter),
		 thread = word_of(runtime, at->thread), frame = word_of(runtime, at->frame),
		 code = word_of(runtime, at->code);
	bool valid = frame <= PERFX_PYTHON_WORDS * sizeof(uint64_t);

	*frames = (struct perfx_python_layout){
		.entry = PERFX_PYTHON_ENTRY_SHIM,
		.interpreter_next = offset_at(runtime, at->interpreter + NEXT, interpreter, &valid),
		.interpreter_threads =
			offset_at(runtime, at->interpreter + THREADS, interpreter, &valid),
		.thread_next = offset_at(runtime, at->thread + T_NEXT, thread, &valid),
		.thread_frame = offset_at(runtime, at->thread + T_FRAME, thread, &valid),
		.thread_id = offset_at(runtime, at->thread + T_ID, thread, &valid),
		.frame_back = offset_at(runtime, at->frame + BACK, frame, &valid),
		.frame_code = offset_at(runtime, at->frame + CODE, frame, &valid),
		.frame_instruction = offset_at(runtime, at->frame + INSTRUCTION, frame, &valid),
		.frame_locals = offset_at(runtime, at->frame + LOCALS, frame, &valid),
		.frame_entry = offset_at(runtime, at->frame + OWNER, frame, &valid),
		.code_first = offset_at(runtime, at->code + C_FIRST, code, &valid),
		.gil_locked = GIL_LOCKED,
		.gil_holder = GIL_HOLDER,
	};
	/* its last member that is read: what follows, its variables, need not be mapped */
	frames->frame_bytes = (uint16_t)(frames->frame_entry / 8 * 8 + 8);
	return valid && holds_state(frames) && holds_pointer(frames, frames->frame_back) &&
	       holds_pointer(frames, frames->frame_code) &&
	       holds_pointer(frames, frames->frame_instruction);
}

static bool describe_code(const uint8_t *runtime, const struct description *at,
			  struct code_offsets *code)
{
	enum { FILE_NAME = 1, NAME, QUALNAME, LINES, FIRST_LINE };
	uint64_t limit = word_of(runtime, at->code);
	bool valid = true;

	*code = (struct code_offsets){
		.file = offset_at(runtime, at->code + FILE_NAME, limit, &valid),
		.name = offset_at(runtime, at->code + NAME, limit, &valid),
		.qualname = offset_at(runtime, at->code + QUALNAME, limit, &valid),
		.lines = offset_at(runtime, at->code + LINES, limit, &valid),
		.first_line = offset_at(runtime, at->code + FIRST_LINE, limit, &valid),
		.string_data = 40,
		.string_wide_data = 56,
		.format = LINE_TABLE_LOCATIONS,
	};
	/* with four counts of arguments and of the stack between them: not described */
	code->flags = (uint16_t)(code->first_line - 5 * sizeof(int));
	return valid && code->first_line > 5 * sizeof(int);
}

static bool describe_remote(const uint8_t *runtime, const struct description *at,
			    struct remote_script_offsets *remote)
{
	enum { MAIN_THREAD = 4 };
	enum { SUPPORT = 1, ENABLED, PENDING, PATH, PATH_BYTES };
	uint64_t interpreter = word_of(runtime, at->interpreter),
		 thread = word_of(runtime, at->thread);
	bool valid = true;
	uint16_t support = offset_at(runtime, at->debugger + SUPPORT, thread, &valid);

	*remote = (struct remote_script_offsets){
		.main_thread =
			offset_at(runtime, at->interpreter + MAIN_THREAD, interpreter, &valid),
		.enabled = offset_at(runtime, at->debugger + ENABLED, interpreter, &valid),
		.pending = support + offset_at(runtime, at->debugger + PENDING, thread, &valid),
		.path = support + offset_at(runtime, at->debugger + PATH, thread, &valid),
		.path_bytes = offset_at(runtime, at->debugger + PATH_BYTES, thread, &valid),
	};
	return valid && (uint64_t)remote->path + remote->path_bytes <= thread;
}

static bool describe_tasks(const uint8_t *runtime, const struct description *at,
			   struct task_offsets *tasks)
{
	enum { T_NATIVE_ID = 6, F_STACK_POINTER = 6, S_TABLE = 2, S_MASK, L_TAG = 1, L_DIGITS };
	enum { G_FRAME = 2, G_STATE };
	bool valid = true;

	*tasks = (struct task_offsets){
		.thread_tid = offset_at(runtime, at->thread + T_NATIVE_ID,
					word_of(runtime, at->thread), &valid),
		.frame_top = offset_at(runtime, at->frame + F_STACK_POINTER,
				       word_of(runtime, at->frame), &valid),
		.set_table =
			offset_at(runtime, at->set + S_TABLE, word_of(runtime, at->set), &valid),
		.set_mask = offset_at(runtime, at->set + S_MASK, word_of(runtime, at->set), &valid),
		.long_tag = offset_at(runtime, at->number + L_TAG, UINT16_MAX, &valid),
		.long_digits = offset_at(runtime, at->number + L_DIGITS, UINT16_MAX, &valid),
		.generator_frame = offset_at(runtime, at->generator + G_FRAME,
					     word_of(runtime, at->generator), &valid),
		.generator_state = offset_at(runtime, at->generator + G_STATE,
					     word_of(runtime, at->generator), &valid),
	};
	return valid;
}

static const char *describe(const uint8_t *runtime, const struct description *at,
			    struct cpython_release *release)
{
	uint64_t limit = word_of(runtime, at->interpreter);
	bool valid = true;

	*release = (struct cpython_release){0};
	release->runtime_interpreters = offset_at(runtime, WORD_INTERPRETERS, UINT16_MAX, &valid);
	release->interpreter_gil =
		offset_at(runtime, (size_t)at->interpreter + at->gil, limit, &valid);
	if (!describe_frames(runtime, at, &release->frames) ||
	    !describe_code(runtime, at, &release->code) ||
	    (at->debugger && !describe_remote(runtime, at, &release->remote)) || !valid)
		return "its _Py_DebugOffsets make no sense";
	/* frames can be read without them */
	if (at->generator && !describe_tasks(runtime, at, &release->tasks))
		release->tasks = (struct task_offsets){0};
	return NULL;
}

/* Since 3.12 a code object has a version of its own among its first members; before, the texts of
 * its names tell it from another that was made in the same way. */
static const char *set_identity(struct cpython_release *release)
{
	struct perfx_python_layout *frames = &release->frames;
	const struct code_offsets *code = &release->code;

	frames->code_from = code->first_line & ~7;
	frames->code_bytes = code->lines + sizeof(uint64_t) - frames->code_from;
	if (code->lines < code->first_line ||
	    frames->code_bytes > PERFX_PYTHON_CODE_WORDS * sizeof(uint64_t))
		return "its code objects make no sense";
	if (CPYTHON_MINOR(frames->version) < 0x030c) {
		frames->code_file = (code->file - frames->code_from) / sizeof(uint64_t);
		frames->code_name = (code->name - frames->code_from) / sizeof(uint64_t);
		frames->string_data = code->string_data;
		frames->string_wide_data = code->string_wide_data;
	}
	return NULL;
}

const char *cpython_release(const uint8_t runtime[CPYTHON_RUNTIME_BYTES], uint32_t version,
			    struct cpython_release *release)
{
	uint32_t described = cpython_runtime_version(runtime);
	const char *why = "its release is not among " CPYTHON_RELEASES;

	if (!described && CPYTHON_MINOR(version) > 0x030c)
		return "its _PyRuntime does not begin with _Py_DebugOffsets";
	if (described && word_of(runtime, WORD_FREE_THREADED))
		return "it is a free-threaded build";
	if (described)
		version = described;
	for (size_t i = 0; described && i < sizeof(descriptions) / sizeof(descriptions[0]); i++)
		if (descriptions[i].minor == CPYTHON_MINOR(version))
			why = describe(runtime, &descriptions[i], release);
	for (size_t i = 0; !described && i < sizeof(releases) / sizeof(releases[0]); i++) {
		if (releases[i].frames.version != CPYTHON_MINOR(version))
			continue;
		*release = releases[i];
		release->frames.gil_locked = GIL_LOCKED;
		release->frames.gil_holder = GIL_HOLDER;
		why = NULL;
	}
	if (why)
		return why;
	release->frames.version = version;
	return set_identity(release);
}
