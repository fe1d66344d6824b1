/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Python frames of a thread, read from the interpreter's structures: user space provides their
 * layout in a process (user/cpython/, perfx_python.h).
 *
 * The thread state is found in the interpreter's list of states, by the address of the thread's
 * control block, which Python uses as its thread_id. (_Py_tss_tstate is NULL while the GIL is
 * released, as in most calls of interest here.) The state is cached, and verified at each use.
 *
 * A process with subinterpreters is searched anew each time: a thread that runs one has a state in
 * it beside its state in the main interpreter, whose frames are further out on the same native
 * stack. New interpreters are listed first, so the states come innermost first. Up to 3.11 a state
 * has the thread_id of the thread that created it, but any thread may run it: the CFrame lies on
 * the stack of the thread that does. Before 3.10 there is no CFrame, and only the main interpreter
 * is searched.
 *
 * The Python frames that one native frame of the interpreter's function runs form a group. The
 * group's first slot is its entry: an address in that native frame, by which the walk of the native
 * stack merges both.
 */
#ifndef PERFX_PYTHON_BPF_H
#define PERFX_PYTHON_BPF_H

#include "perfx.bpf.h"
#include "perfx_python.h"

/* Number of processes in which Python has been found; 0: skip all of this. */
extern volatile __u32 perfx_pythons_count;

/* By tgid. A forked child has its parent's layout from its first instruction. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PERFX_MAX_PROCESSES);
	__type(key, __u32);
	__type(value, struct perfx_python_layout);
} perfx_pythons __weak SEC(".maps");

volatile __u32 perfx_python_states_count __weak = 0; /* not exact: 0 if there is none */

/* Thread states that user space has found ahead (a dump), by process and thread: the search through
 * the list of a process with thousands of threads would take each of them too many steps. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* user space: PERFX_MAX_PYTHON_STATES where it fills it */
	__type(key, struct perfx_python_state);
	__type(value, __u64);
} perfx_python_states __weak SEC(".maps");

enum python_stage {
	PYTHON_RUNTIME, /* reads the first interpreter and the main one */
	PYTHON_INTERPRETER,
	PYTHON_HEAD, /* of the list of its thread states */
	PYTHON_ID,   /* of a state in the list */
	PYTHON_NEXT,
	PYTHON_STATE, /* reads a thread state and checks that it is the thread's */
	PYTHON_INNERMOST,
	PYTHON_FRAME,
};

/*
 * Memory read from a thread: a piece with frames, followed by single reads. Since 3.11 a function's
 * frame lies above its caller's, so one read covers several frames.
 */
#define PYTHON_PIECE_WORDS 96
#define PYTHON_PIECE_BYTES (8 * PYTHON_PIECE_WORDS)
#define PYTHON_WORDS	   (PYTHON_PIECE_WORDS + PERFX_PYTHON_WORDS) /* a power of two */

struct python_memory {
	__u64 piece;	   /* address of the piece */
	__u32 piece_bytes; /* and its size */
	__u32 at;	   /* index of the requested words */
	__u64 words[PYTHON_WORDS];
	__u64 code[PERFX_PYTHON_CODE_WORDS]; /* of the frame's code object, and of its names */
	/* Addresses of its name and of the string being read. Not on the stack, where the kernel
	 * allows 512 bytes for a whole chain of calls; a compiler barrier keeps them here. */
	__u64 code_name, string;
};

/* A walk of a thread's Python frames. Each step processes the memory that the last one requested.
 */
struct python_walk {
	__u64 thread_id;
	__u64 sp;	/* of the thread, in user space */
	__u64 state;	/* address of the thread state */
	__u64 newest;	/* newest thread state of the process when this thread had none, */
	__u64 asked_ns; /* and the time of that search */
	__u64 interpreter;
	__u64 frame, cframe;
	__u64 eval_start, eval_end;
	__u64 wanted; /* address to read */
	__u64 last;   /* last frame added; 0: none */
	__u32 wanted_bytes;
	__u32 stage;
	__u32 count;
	__u32 merged;
	__u32 group; /* slot of its entry */
	__u32 max;   /* frames to find */
	/* offset in an entry of the address of the next one; 0: none, slots have all entries */
	__u32 entry_previous;
	__u32 code; /* python_code() of the frame just read */
	__u32 many; /* the process has subinterpreters */
	__u32 pad;
	__u64 entry;	  /* of the next group; 0: it is in the group's slot */
	__u64 codes_hash; /* over all of codes */
	/* groups: an entry, then frames (PERFX_FRAME_PYTHON) */
	__u64 slots[PERFX_STACK_FRAMES_MAX];
	__u32 codes[PERFX_STACK_FRAMES_MAX]; /* python_code() of each frame in slots */
};

/* Cached state of a thread, and the walk of python_caller. Programs may interrupt each other, so
 * the cache is verified before use. */
struct python_thread {
	__u64 state, newest, asked_ns; /* as in python_walk */
	__u32 count;		       /* perfx_pythons_count at the lookup of the layout */
	__u32 pad;
	struct perfx_python_layout layout; /* version 0: the process has no Python */
	struct python_memory memory;
	struct python_walk walk;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct python_thread);
} perfx_python_threads __weak SEC(".maps");

static __always_inline const struct perfx_python_layout *python_of(__u32 tgid)
{
	return perfx_pythons_count ? bpf_map_lookup_elem(&perfx_pythons, &tgid) : NULL;
}

/* Gives a forked child its parent's layout. */
static __always_inline void python_fork(__u32 parent, __u32 child)
{
	const struct perfx_python_layout *python = python_of(parent);

	if (python && bpf_map_update_elem(&perfx_pythons, &child, python, BPF_ANY))
		counter_add(PERFX_COUNTER_MAP_FULL, 1);
}

/* Drops the layout of a process that has ended or called exec. */
static __always_inline void python_forget(__u32 tgid)
{
	if (perfx_pythons_count)
		bpf_map_delete_elem(&perfx_pythons, &tgid);
}

/* Reads memory of a task, as bpf_probe_read_user does of the current task. A constant at each call.
 */
typedef long memory_reader(void *to, __u32 bytes, __u64 from, void *ctx);

static __always_inline long read_current(void *to, __u32 bytes, __u64 from, void *ctx)
{
	return bpf_probe_read_user(to, bytes, (const void *)from);
}

/* pthread_self() of the thread. */
static __always_inline __u64 thread_id_of(const struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	return task->thread.fsbase;
#else
	return 0; /* offsets are known for x86-64 only so far */
#endif
}

static __always_inline __u64 user_sp(struct task_struct *task)
{
	return PT_REGS_SP((struct pt_regs *)bpf_task_pt_regs(task));
}

/* A thread without a state is searched again after this time: it may have created one that is not
 * the process's newest any more. */
#define PYTHON_ASK_NS 100000000ull

static __always_inline int python_request(struct python_walk *w, __u32 stage, __u64 address)
{
	w->stage = stage;
	w->wanted = address;
	w->wanted_bytes = sizeof(__u64);
	return address >= sizeof(__u64) * PERFX_PYTHON_WORDS;
}

/* A thread state is read from its pointer to frames up to its thread_id. */
static __always_inline __u32 state_from(const struct perfx_python_layout *python)
{
	return python->thread_frame ? python->thread_frame : python->thread_cframe;
}

static __always_inline __u32 state_bytes(const struct perfx_python_layout *python)
{
	return python->thread_id + sizeof(__u64) - state_from(python);
}

static __always_inline int python_request_state(struct python_walk *w,
						const struct perfx_python_layout *python)
{
	if (!python_request(w, PYTHON_STATE, w->state + state_from(python)))
		return 0;
	w->wanted_bytes = state_bytes(python);
	return 1;
}

/* The word at an offset in the requested memory. */
static __always_inline __u64 word_of(const struct python_memory *memory, __u32 offset)
{
	return memory->words[(memory->at + offset / 8) & (PYTHON_WORDS - 1)];
}

static __always_inline __u8 byte_of(const struct python_memory *memory, __u32 offset)
{
	return word_of(memory, offset) >> (offset & 7) * 8;
}

static __always_inline int python_request_runtime(struct python_walk *w,
						  const struct perfx_python_layout *python)
{
	if (!python_request(w, PYTHON_RUNTIME, python->interpreters))
		return 0;
	w->wanted_bytes = 2 * sizeof(__u64);
	return 1;
}

/* Returns whether the thread that runs a subinterpreter can be found. */
static __always_inline bool knows_runners(const struct perfx_python_layout *python)
{
	return python->entry != PERFX_PYTHON_ENTRY_CODE;
}

/* With one interpreter the cached state is the thread's only one. */
static __always_inline int python_got_runtime(struct python_walk *w,
					      const struct python_memory *memory,
					      const struct perfx_python_layout *python)
{
	__u64 main = word_of(memory, sizeof(__u64));

	w->interpreter = knows_runners(python) ? word_of(memory, 0) : main;
	w->many = w->interpreter != main;
	if (w->state && !w->many)
		return python_request_state(w, python);
	w->state = 0;
	return w->interpreter &&
	       python_request(w, PYTHON_HEAD, w->interpreter + python->interpreter_threads);
}

static __always_inline int python_request_next(struct python_walk *w,
					       const struct perfx_python_layout *python)
{
	return python_request(w, PYTHON_NEXT, w->state + python->thread_next);
}

/* Steps through the thread states of all interpreters. The list grows at its head: if the head is
 * the same as at the last search, a thread without a state has none now. */
static __always_inline int python_step_threads(struct python_walk *w,
					       const struct python_memory *memory,
					       const struct perfx_python_layout *python)
{
	__u64 word = word_of(memory, 0), now_ns;

	switch (w->stage) {
	case PYTHON_INTERPRETER:
		w->interpreter = word;
		return word && python_request(w, PYTHON_HEAD, word + python->interpreter_threads);
	case PYTHON_HEAD:
		if (w->many || w->state)
			break;
		now_ns = bpf_ktime_get_ns();
		if (word == w->newest && now_ns - w->asked_ns < PYTHON_ASK_NS)
			return 0;
		w->newest = word;
		w->asked_ns = now_ns;
		break;
	case PYTHON_ID:
		if (word == w->thread_id)
			return python_request_state(w, python);
		return python_request_next(w, python);
	}
	/* the next state of the list, or the next interpreter */
	if (!word) {
		word = w->interpreter;
		return python_request(w, PYTHON_INTERPRETER, word + python->interpreter_next);
	}
	w->state = word;
	if (w->many)
		return python_request_state(w, python);
	return python_request(w, PYTHON_ID, word + python->thread_id);
}

/* Returns whether a frame runs code; entries do not. */
static __always_inline bool runs_code(const struct python_memory *memory,
				      const struct perfx_python_layout *python)
{
	return python->entry != PERFX_PYTHON_ENTRY_SHIM ||
	       byte_of(memory, python->frame_entry) < PERFX_PYTHON_OWNER_SHIM;
}

/* A frame as encoded in records; 0: damaged. */
static __always_inline __u64 encoded_frame(const struct python_memory *memory,
					   const struct perfx_python_layout *python)
{
	/* the lowest bits of a reference are tags */
	__u64 code = word_of(memory, python->frame_code) & ~7ull;
	__s64 at = word_of(memory, python->frame_instruction);

	if (!code || code & 15 || code >> 47)
		return 0;
	if (python->code_first)
		at = (__s64)(at - code - python->code_first);
	else
		at = (__s64)(__s32)at * python->index_bytes;
	/* negative before its first instruction */
	if (at < 0)
		at = 0;
	return PERFX_FRAME_PYTHON | code >> 4 << 20 | ((__u64)at / 2 & 0xfffff);
}

static __always_inline bool has_cframes(const struct perfx_python_layout *python)
{
	return python->entry == PERFX_PYTHON_ENTRY_CFRAME ||
	       python->entry == PERFX_PYTHON_ENTRY_CFRAME_EACH;
}

static __always_inline void python_add(struct python_walk *w, __u64 slot)
{
	__u32 at = w->count;

	if (at >= PERFX_STACK_FRAMES_MAX)
		return;
	w->slots[at & (PERFX_STACK_FRAMES_MAX - 1)] = slot;
	w->codes[at & (PERFX_STACK_FRAMES_MAX - 1)] = w->code;
	w->codes_hash = perfx_python_mix(w->codes_hash, w->code);
	w->count = at + 1;
}

/* Opens a group, or reuses the last one if it has no frames. entry 0: found later, in a frame or by
 * the walk of the native stack. */
static __always_inline void python_open(struct python_walk *w, __u64 entry)
{
	if (w->count && w->group == w->count - 1) {
		w->slots[w->group & (PERFX_STACK_FRAMES_MAX - 1)] = entry;
		return;
	}
	w->group = w->count;
	python_add(w, entry);
}

/* Returns whether the frame just read ends its group. */
static __always_inline bool ends_group(const struct python_memory *memory,
				       const struct perfx_python_layout *python)
{
	if (python->entry == PERFX_PYTHON_ENTRY_CFRAME)
		return byte_of(memory, python->frame_entry);
	return python->entry != PERFX_PYTHON_ENTRY_SHIM || !runs_code(memory, python);
}

/* Requests the next frame; after a state's last frame, the thread's next state. */
static __always_inline int python_request_frame(struct python_walk *w,
						const struct perfx_python_layout *python)
{
	if (w->count >= w->max)
		return 0;
	if (!w->frame && w->many)
		return python_request_next(w, python);
	if (!python_request(w, PYTHON_FRAME, w->frame))
		return 0;
	w->wanted_bytes = python->frame_bytes;
	return 1;
}

/* Adds the frame just read, and requests its caller. */
static __always_inline int python_got_frame(struct python_walk *w,
					    const struct python_memory *memory,
					    const struct perfx_python_layout *python)
{
	bool is_last = ends_group(memory, python);
	__u64 encoded;

	if (runs_code(memory, python)) {
		w->last = w->frame;
		encoded = encoded_frame(memory, python);
		if (encoded)
			python_add(w, encoded);
	} else {
		w->slots[w->group & (PERFX_STACK_FRAMES_MAX - 1)] = w->frame;
	}
	w->frame = word_of(memory, python->frame_back);
	if (is_last)
		python_open(w, 0);
	return python_request_frame(w, python);
}

static __always_inline int python_got_innermost(struct python_walk *w,
						const struct perfx_python_layout *python,
						__u64 frame)
{
	w->frame = frame;
	if (frame || !w->many)
		python_open(w, has_cframes(python) ? w->cframe : 0);
	return python_request_frame(w, python);
}

/* Returns whether a state is the thread's: its CFrame is on the thread's stack, which ends below
 * the control block; nothing is mapped above the main thread's stack. */
static __always_inline bool is_state_of(const struct python_walk *w,
					const struct perfx_python_layout *python, __u64 thread_id)
{
	__u64 end = w->thread_id > w->sp ? w->thread_id : -1ull;

	if (w->many && python->thread_cframe)
		return w->cframe >= w->sp && w->cframe < end;
	return thread_id == w->thread_id;
}

/* Checks a thread state: a cached one may now be another thread's. */
static __always_inline int python_got_state(struct python_walk *w,
					    const struct python_memory *memory,
					    const struct perfx_python_layout *python)
{
	__u32 from = state_from(python);

	w->cframe = python->thread_cframe ? word_of(memory, python->thread_cframe - from) : 0;
	if (!is_state_of(w, python, word_of(memory, python->thread_id - from))) {
		if (w->many)
			return python_request_next(w, python);
		w->state = w->newest = 0;
		return python_request(w, PYTHON_INTERPRETER, python->interpreters);
	}
	if (!python->thread_frame)
		return python_request(w, PYTHON_INNERMOST, w->cframe + python->cframe_frame);
	return python_got_innermost(w, python, word_of(memory, 0));
}

/* Processes the memory just read; 0: the walk has ended. */
__weak __noinline int python_step(struct python_walk *w, const struct python_memory *memory,
				  const struct perfx_python_layout *python)
{
	if (!w || !memory || !python)
		return 0;
	switch (w->stage) {
	case PYTHON_FRAME:
		return python_got_frame(w, memory, python);
	case PYTHON_STATE:
		return python_got_state(w, memory, python);
	case PYTHON_INNERMOST:
		return python_got_innermost(w, python, word_of(memory, 0));
	case PYTHON_RUNTIME:
		return python_got_runtime(w, memory, python);
	}
	return python_step_threads(w, memory, python);
}

static __always_inline __u64 python_mix_words(struct python_memory *memory, __u64 hash, __u32 count)
{
	for (__u32 i = 0; i < count; i++)
		hash = perfx_python_mix(hash, memory->code[i]);
	return hash;
}

/* Adds the length and the end of the string at memory->string to a hash. */
static __always_inline __u64 python_mix_string(struct python_memory *memory,
					       const struct perfx_python_layout *python,
					       memory_reader *read, void *ctx, __u64 hash)
{
	__u64 *head = memory->code, from = 0;
	__u32 bytes;

	for (__u32 i = 0; i < PERFX_PYTHON_STRING_WORDS; i++)
		head[i] = 0;
	read(head, PERFX_PYTHON_STRING_WORDS * sizeof(*head),
	     memory->string + PERFX_PYTHON_STRING_HEAD, ctx);
	bytes = perfx_python_text(python, head, &from);
	hash = perfx_python_mix(hash, head[0]);
	for (__u32 i = 0; i < PERFX_PYTHON_TEXT_WORDS; i++)
		memory->code[i] = 0;
	if (bytes) {
		barrier_var(bytes);
		if (bytes <= 8 * PERFX_PYTHON_TEXT_WORDS)
			read(memory->code, bytes, memory->string + PERFX_PYTHON_STRING_HEAD + from,
			     ctx);
	}
	return python_mix_words(memory, hash, PERFX_PYTHON_TEXT_WORDS);
}

/* A number that distinguishes code objects at the same address, which is reused as soon as a
 * module, a closure or generated code is freed. code_identity() in user/cpython/code.c computes the
 * same. */
static __always_inline __u64 python_code(struct python_memory *memory,
					 const struct perfx_python_layout *python,
					 memory_reader *read, void *ctx)
{
	__u64 code = word_of(memory, python->frame_code) & ~7ull, hash = 0;
	__u32 bytes = python->code_bytes;

	for (__u32 i = 0; i < PERFX_PYTHON_CODE_WORDS; i++)
		memory->code[i] = 0;
	/* two comparisons: before Linux 6.13 the verifier forgets the result of a combined one */
	if (!bytes)
		return 0;
	barrier_var(bytes);
	if (bytes > sizeof(memory->code) ||
	    read(memory->code, bytes, code + python->code_from, ctx))
		return 0;
	memory->string = memory->code[python->code_file & (PERFX_PYTHON_CODE_WORDS - 1)];
	memory->code_name = memory->code[python->code_name & (PERFX_PYTHON_CODE_WORDS - 1)];
	hash = python_mix_words(memory, hash, PERFX_PYTHON_CODE_WORDS);
	barrier();
	if (python->code_file) {
		hash = python_mix_string(memory, python, read, ctx, hash);
		barrier();
		memory->string = memory->code_name;
		hash = python_mix_string(memory, python, read, ctx, hash);
	}
	return hash ^ hash >> 32;
}

/* Bound on the steps through threads and frames. */
#define PYTHON_STEPS_MAX 1024

struct python_run {
	struct python_walk *walk;
	struct python_memory *memory;
	const struct perfx_python_layout *python;
	void *ctx; /* of the reader */
};

/* A frame further from the one it called is allocated separately: an entry's, a generator's. */
#define PYTHON_NEAR_BYTES 65536

/* Reads the requested frame together with the memory below it in the same page: the page before may
 * not be mapped. Returns whether it did. */
static __always_inline bool python_read_piece(const struct python_run *run, memory_reader *read)
{
	const struct python_walk *w = run->walk;
	struct python_memory *memory = run->memory;
	__u64 end = w->wanted + w->wanted_bytes, from = end - PYTHON_PIECE_BYTES, bytes;

	if (w->last && w->wanted - w->last + PYTHON_NEAR_BYTES > 2ull * PYTHON_NEAR_BYTES)
		return false;
	if (from < (w->wanted & ~4095ull))
		from = w->wanted & ~4095ull;
	bytes = end - from;
	if (bytes > PYTHON_PIECE_BYTES || read(memory->words, bytes, from, run->ctx))
		return false;
	memory->piece = from;
	memory->piece_bytes = bytes;
	memory->at = (w->wanted - from) / 8;
	return true;
}

/* A step of python_run: reads the requested memory unless the piece has it, and processes it. */
static __always_inline long python_read(const struct python_run *run, memory_reader *read)
{
	const struct python_walk *w = run->walk;
	struct python_memory *memory = run->memory;
	__u64 at = w->wanted - memory->piece, bytes = w->wanted_bytes;

	if (w->stage == PYTHON_FRAME && at < memory->piece_bytes &&
	    at + bytes <= memory->piece_bytes && !(at & 7)) {
		memory->at = at / 8;
	} else if (w->stage != PYTHON_FRAME || !python_read_piece(run, read)) {
		memory->at = PYTHON_PIECE_WORDS;
		if (bytes > 8 * PERFX_PYTHON_WORDS ||
		    read(&memory->words[PYTHON_PIECE_WORDS], bytes, w->wanted, run->ctx))
			return 1;
	}
	if (w->stage == PYTHON_FRAME && runs_code(memory, run->python))
		run->walk->code = python_code(memory, run->python, read, run->ctx);
	return !python_step(run->walk, memory, run->python);
}

static long python_read_current(__u32 i, void *ctx)
{
	return python_read(ctx, read_current);
}

/* Fills the slots with at most w->max of a thread's frames; a group's entry counts as a frame. */
static __always_inline void python_run(struct python_walk *w, struct python_memory *memory,
				       struct python_thread *thread, repeat_step *read, void *ctx)
{
	const struct perfx_python_layout *python = &thread->layout;
	struct python_run run = {w, memory, python, ctx};

	w->state = thread->state;
	w->newest = thread->newest;
	w->asked_ns = thread->asked_ns;
	w->last = 0;
	w->code = 0;
	w->codes_hash = 0;
	memory->piece = memory->piece_bytes = 0;
	w->count = w->group = 0;
	w->many = 0;
	if (python_request_runtime(w, python))
		repeat(PYTHON_STEPS_MAX, read, &run);
	/* keep the state only if the search reached its frames */
	thread->state = w->stage > PYTHON_STATE && !w->many ? w->state : 0;
	thread->newest = w->newest;
	thread->asked_ns = w->asked_ns;
}

/* State of a thread; NULL: its process has no Python. */
static __always_inline struct python_thread *python_thread_of(struct task_struct *task)
{
	const struct perfx_python_layout *python;
	struct python_thread *thread;
	__u32 count = perfx_pythons_count;

	if (!count)
		return NULL;
	thread = bpf_task_storage_get(&perfx_python_threads, task, NULL,
				      BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (thread && thread->count != count) {
		python = python_of(task->tgid);
		if (python)
			thread->layout = *python;
		thread->count = count;
	}
	return thread && thread->layout.version ? thread : NULL;
}

/* 0: unknown. What it was may have ended since: it is checked before its use. */
static __always_inline __u64 python_known_state(__u32 tgid, __u64 thread_id)
{
	struct perfx_python_state key = {.thread_id = thread_id, .tgid = tgid};
	__u64 *state = bpf_map_lookup_elem(&perfx_python_states, &key);

	return state ? *state : 0;
}

/* Finds all Python frames of a thread, before its native stack is walked. */
static __always_inline void python_begin_of(struct python_walk *w, struct python_memory *memory,
					    struct task_struct *task, repeat_step *read, void *ctx)
{
	struct python_thread *thread = python_thread_of(task);

	w->count = w->merged = 0;
	w->codes_hash = 0;
	w->entry = 0;
	if (!thread)
		return;
	w->thread_id = thread_id_of(task);
	w->sp = user_sp(task);
	w->eval_start = thread->layout.eval_start;
	w->eval_end = thread->layout.eval_end;
	w->entry_previous = has_cframes(&thread->layout) ? thread->layout.cframe_previous : 0;
	w->max = PERFX_STACK_FRAMES_MAX;
	if (!thread->state && perfx_python_states_count)
		thread->state = python_known_state(task->tgid, w->thread_id);
	python_run(w, memory, thread, read, ctx);
}

/* As python_begin_of, for the current thread. */
__weak __noinline int python_begin(struct python_walk *w, struct python_memory *memory)
{
	if (w && memory)
		python_begin_of(w, memory, bpf_get_current_task_btf(), python_read_current, NULL);
	return 0;
}

/* As python_caller by a whole walk: the thread state is not cached, or the innermost frame is an
 * entry. */
__weak __noinline __u64 python_find_caller(struct python_thread *thread, __u32 *code)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct python_walk *w;
	__u32 at = 1;

	if (!thread || !code)
		return 0;
	w = &thread->walk;
	w->thread_id = thread_id_of(task);
	w->sp = user_sp(task);
	/* the group's entry and the frame, or two entries and the frame */
	w->max = 3;
	python_run(w, &thread->memory, thread, python_read_current, NULL);
	if (w->count > 1 && !(w->slots[1] & PERFX_FRAME_PYTHON))
		at = 2;
	if (w->count <= at || !(w->slots[at] & PERFX_FRAME_PYTHON))
		return 0;
	*code = w->codes[at];
	return w->slots[at];
}

static __always_inline bool has_subinterpreters(struct python_thread *thread)
{
	__u64 *first_and_main = thread->memory.words;

	return knows_runners(&thread->layout) &&
	       (read_current(first_and_main, 2 * sizeof(*first_and_main),
			     thread->layout.interpreters, NULL) ||
		first_and_main[0] != first_and_main[1]);
}

/* Reads the cached thread state. Returns its innermost frame; 0: the state is another thread's now,
 * it has no frame, or the thread may have another state. Not inlined: its callers would exceed the
 * limit of stack. */
__weak __noinline __u64 python_read_state(struct python_thread *thread, __u64 thread_id)
{
	const struct perfx_python_layout *python;
	struct python_memory *memory;
	__u64 frame = 0;
	__u32 from, bytes;

	if (!thread)
		return 0;
	python = &thread->layout;
	memory = &thread->memory;
	from = state_from(python);
	bytes = state_bytes(python);
	barrier_var(bytes); /* the verifier does not know its range */
	memory->at = 0;
	if (!thread->state || bytes > sizeof(memory->words) || has_subinterpreters(thread) ||
	    read_current(memory->words, bytes, thread->state + from, NULL) ||
	    word_of(memory, python->thread_id - from) != thread_id)
		return 0;
	if (python->thread_frame)
		return memory->words[0];
	read_current(&frame, sizeof(frame), memory->words[0] + python->cframe_frame, NULL);
	return frame;
}

/* As python_caller by the cached thread state; 0: a whole walk is needed. Not inlined, as above. */
__weak __noinline __u64 python_known_caller(struct python_thread *thread, __u32 *code)
{
	const struct perfx_python_layout *python;
	struct python_memory *memory;
	__u64 frame;
	__u32 bytes;

	if (!thread || !code)
		return 0;
	python = &thread->layout;
	memory = &thread->memory;
	bytes = python->frame_bytes;
	frame = python_read_state(thread, thread_id_of(bpf_get_current_task_btf()));
	if (!frame || bytes > sizeof(memory->words) ||
	    read_current(memory->words, bytes, frame, NULL) || !runs_code(memory, python))
		return 0;
	*code = python_code(memory, python, read_current, NULL);
	return encoded_frame(memory, python);
}

/* The innermost Python frame of the current thread, and its python_code(); 0: none. Called for each
 * call that no traced function makes, so the common case has a fast path. */
__weak __noinline __u64 python_caller(__u32 *code)
{
	struct python_thread *thread = python_thread_of(bpf_get_current_task_btf());
	__u64 frame;

	if (!thread || !code)
		return 0;
	frame = python_known_caller(thread, code);
	return frame ? frame : python_find_caller(thread, code);
}

/* PyObject, PyTupleObject and PyTypeObject, the same in all releases. */
#define PYTHON_TYPE_FLAGS 168
#define PYTHON_IS_TUPLE	  (1ull << 26) /* Py_TPFLAGS_TUPLE_SUBCLASS */

/* The first argument of a function whose only positional parameter is *args; 0: another function.
 */
static __always_inline __u64 first_of_args(const struct perfx_python_layout *python, __u64 frame)
{
	struct {
		__u64 references, type, count, first;
	} tuple = {};
	__u64 args = 0, flags = 0;
	__u8 owner = 0;

	if (python->entry == PERFX_PYTHON_ENTRY_SHIM &&
	    (read_current(&owner, sizeof(owner), frame + python->frame_entry, NULL) ||
	     owner >= PERFX_PYTHON_OWNER_SHIM))
		return 0;
	if (read_current(&args, sizeof(args), frame + python->frame_locals, NULL) ||
	    read_current(&tuple, sizeof(tuple), args & ~7ull, NULL) ||
	    read_current(&flags, sizeof(flags), tuple.type + PYTHON_TYPE_FLAGS, NULL))
		return 0;
	return flags & PYTHON_IS_TUPLE && tuple.count ? tuple.first : 0;
}

/* Frames between a wrapper of a method and the call that begins a range. */
#define PYTHON_WRAPPER_FRAMES 8

/* The object whose method the innermost function (*args, **kwargs) wraps. 0: not found, or the
 * thread's state is not cached yet, as in a process with subinterpreters. */
__weak __noinline __u64 python_wrapped_object(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct python_thread *thread = python_thread_of(task);
	__u64 frame, object;

	if (!thread)
		return 0;
	frame = python_read_state(thread, thread_id_of(task));
	for (int i = 0; i < PYTHON_WRAPPER_FRAMES && frame; i++) {
		object = first_of_args(&thread->layout, frame);
		if (object)
			return object;
		if (read_current(&frame, sizeof(frame), frame + thread->layout.frame_back, NULL))
			return 0;
	}
	return 0;
}

#endif
