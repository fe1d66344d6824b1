// SPDX-License-Identifier: BSD-2-Clause
#include "cpython/tasks.h"

#include "base/grow.h"
#include "base/order.h"
#include "base/text.h"
#include "cpython/code.h"
#include "elf/image.h"
#include "proc/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* More tasks of a list, coroutines of a task and places of a set are not read. */
#define TASKS_MAX  10000
#define DEPTH_MAX  64
#define PLACES_MAX 1024

/* Of any object, and of its type: the same in all releases. */
#define OBJECT_TYPE 8
#define TYPE_NAME   24
/* Of references that the interpreter keeps in frames. */
#define REFERENCE_TAGS 3u
/* enum _framestate: greater ones have ended. */
#define FRAME_SUSPENDED_YIELD_FROM -1
#define FRAME_EXECUTING		   0

bool asyncio_offsets_of(const uint64_t words[ASYNCIO_DEBUG_WORDS], struct asyncio_offsets *at)
{
	enum { TASK, NAME, AWAITED_BY, IS_TASK, IS_SET, COROUTINE, NODE };
	enum { INTERPRETER = 7, INTERPRETER_TASKS, THREAD, THREAD_TASKS = 12 };

	*at = (struct asyncio_offsets){.name = (uint16_t)words[NAME],
				       .awaited_by = (uint16_t)words[AWAITED_BY],
				       .awaited_by_is_set = (uint16_t)words[IS_SET],
				       .coroutine = (uint16_t)words[COROUTINE],
				       .node = (uint16_t)words[NODE],
				       .interpreter_tasks = (uint16_t)words[INTERPRETER_TASKS],
				       .thread_tasks = (uint16_t)words[THREAD_TASKS]};
	for (size_t i = TASK; i <= NODE; i++)
		if (words[i] > words[TASK] || words[TASK] > UINT16_MAX)
			return false;
	return words[INTERPRETER_TASKS] < min_u64(words[INTERPRETER], UINT16_MAX) &&
	       words[THREAD_TASKS] < min_u64(words[THREAD], UINT16_MAX);
}

bool asyncio_find(pid_t pid, const struct maps *maps, const struct cpython *python,
		  struct asyncio_offsets *at)
{
	uint64_t words[ASYNCIO_DEBUG_WORDS], bias, address = 0, bytes = 0;
	const struct mapping *mapping = NULL;
	struct image *image;

	if (!python->release.tasks.generator_frame)
		return false;
	for (size_t i = 0; i < maps__count(maps) && !mapping; i++)
		if (begins_with(base_name(maps__at(maps, i)->path), "_asyncio.") &&
		    maps__at(maps, i)->executable)
			mapping = maps__at(maps, i);
	image = mapping ? mapped_image_open(pid, mapping, &bias) : NULL;
	if (image)
		address = mapped_section(image, bias, ".AsyncioDebug", &bytes);
	image__free(image);
	return address && bytes >= sizeof(words) &&
	       !process_read(pid, address, words, sizeof(words)) && asyncio_offsets_of(words, at);
}

struct known_code {
	uint64_t address;
	struct code code; /* empty: it is none */
};

/* A walk over all tasks. */
struct walk {
	pid_t pid;
	const struct cpython *python;
	const struct asyncio_offsets *at;
	void (*visit)(void *ctx, const struct python_task *task);
	void *ctx;
	struct map64 ids; /* address → list[] */
	struct known_code *list;
	size_t count, capacity;
	int err;
};

static bool read_word(const struct walk *walk, uint64_t address, uint64_t *word)
{
	return !process_read(walk->pid, address, word, sizeof(*word));
}

static const struct code *code_at(struct walk *walk, uint64_t address)
{
	struct known_code *known = MAP64_ITEM_OF(walk, address);

	if (!known) {
		walk->err = -ENOMEM;
		return NULL;
	}
	if (!known->address) {
		known->address = address;
		code_read(walk->pid, walk->python, address, &known->code);
	}
	return known->code.function ? &known->code : NULL;
}

/* Adds the frame of a coroutine. False: it has none. */
static bool add_frame(struct walk *walk, struct text *stack, uint64_t frame)
{
	const struct perfx_python_layout *layout = &walk->python->release.frames;
	uint64_t code_address, instruction;
	const struct code *code;

	if (!read_word(walk, frame + layout->frame_code, &code_address) ||
	    !read_word(walk, frame + layout->frame_instruction, &instruction))
		return false;
	code_address &= ~(uint64_t)REFERENCE_TAGS;
	code = code_at(walk, code_address);
	if (!code)
		return false;
	instruction -= code_address + layout->code_first;
	text_printf(stack, "%s\t%s\t%u\n", code->function, code->file,
		    line_of_instruction(&code->lines, (uint32_t)(instruction / 2)));
	return true;
}

/* The object that a suspended coroutine awaits is on top of its frame's stack. 0: unknown. */
static uint64_t awaited_by(const struct walk *walk, uint64_t frame)
{
	uint64_t top, object;

	if (!read_word(walk, frame + walk->python->release.tasks.frame_top, &top) ||
	    !read_word(walk, top - sizeof(object), &object))
		return 0;
	return object & ~(uint64_t)REFERENCE_TAGS;
}

/* Innermost first, where coroutines are found from the outermost on. */
static void reverse_lines(struct text *to, const char *lines)
{
	size_t end = strlen(lines);

	while (end) {
		size_t begin = end - 1;

		while (begin && lines[begin - 1] != '\n')
			begin--;
		text_add_bytes(to, lines + begin, end - begin);
		end = begin;
	}
}

static void add_coroutines(struct walk *walk, uint64_t coroutine, struct python_task *task,
			   struct text *stack)
{
	const struct task_offsets *offsets = &walk->python->release.tasks;
	uint64_t type, first_type = 0;

	for (size_t depth = 0; coroutine && depth < DEPTH_MAX; depth++) {
		uint64_t frame = coroutine + offsets->generator_frame;
		int8_t state;

		if (!read_word(walk, coroutine + OBJECT_TYPE, &type) ||
		    (first_type && type != first_type) ||
		    process_read(walk->pid, coroutine + offsets->generator_state, &state, 1) ||
		    state > FRAME_EXECUTING || !add_frame(walk, stack, frame))
			return;
		first_type = type;
		task->runs = state == FRAME_EXECUTING;
		if (state != FRAME_SUSPENDED_YIELD_FROM)
			return;
		coroutine = awaited_by(walk, frame);
	}
}

static bool is_number(const struct walk *walk, uint64_t object)
{
	uint64_t type, name;
	char text[4];

	return read_word(walk, object + OBJECT_TYPE, &type) &&
	       read_word(walk, type + TYPE_NAME, &name) &&
	       !process_read(walk->pid, name, text, sizeof(text)) &&
	       !memcmp(text, "int", sizeof(text));
}

/* asyncio stores its default name, "Task-12", as the number 12 until the program reads it. */
static char *name_of(const struct walk *walk, uint64_t object)
{
	const struct task_offsets *offsets = &walk->python->release.tasks;
	uint64_t tag;
	uint32_t digits[2] = {0};
	struct text text = {0};

	if (!is_number(walk, object))
		return code_string(walk->pid, walk->python, object);
	if (!read_word(walk, object + offsets->long_tag, &tag) || tag >> 3 > 2 ||
	    process_read(walk->pid, object + offsets->long_digits, digits,
			 (tag >> 3) * sizeof(*digits)))
		return NULL;
	text_printf(&text, "Task-%llu",
		    (unsigned long long)(digits[0] | (uint64_t)digits[1] << 30));
	return text_take(&text);
}

static void add_awaiter(struct python_task *task, uint64_t awaiter)
{
	if (awaiter && task->awaiters_count < TASK_AWAITERS_MAX)
		task->awaiters[task->awaiters_count++] = awaiter;
}

/* One task, or a set of several. */
static void add_awaiters(const struct walk *walk, struct python_task *task)
{
	const struct task_offsets *offsets = &walk->python->release.tasks;
	uint64_t object, table, mask;
	uint64_t places[PLACES_MAX][2]; /* an object and its hash, which is -1 for none */
	uint8_t is_set;

	if (!read_word(walk, task->id + walk->at->awaited_by, &object) || !object ||
	    process_read(walk->pid, task->id + walk->at->awaited_by_is_set, &is_set, 1))
		return;
	if (!is_set) {
		add_awaiter(task, object);
		return;
	}
	if (!read_word(walk, object + offsets->set_table, &table) ||
	    !read_word(walk, object + offsets->set_mask, &mask) || mask >= PLACES_MAX ||
	    process_read(walk->pid, table, places, (mask + 1) * sizeof(places[0])))
		return;
	for (uint64_t i = 0; i <= mask; i++)
		if (places[i][1] != UINT64_MAX)
			add_awaiter(task, places[i][0]);
}

static void visit_task(struct walk *walk, uint64_t address, uint32_t tid)
{
	struct python_task task = {.id = address, .tid = tid};
	struct text outermost_first = {0}, stack = {0};
	uint64_t name, coroutine;
	char *named;

	if (!read_word(walk, address + walk->at->name, &name) ||
	    !read_word(walk, address + walk->at->coroutine, &coroutine))
		return;
	add_awaiters(walk, &task);
	add_coroutines(walk, coroutine, &task, &outermost_first);
	reverse_lines(&stack, text_peek(&outermost_first));
	named = name_of(walk, name);
	task.name = named ?: "";
	task.stack = text_peek(&stack);
	if (stack.failed || outermost_first.failed)
		walk->err = -ENOMEM;
	else if (!walk->err)
		walk->visit(walk->ctx, &task);
	free(named);
	text_clear(&outermost_first);
	text_clear(&stack);
}

/* A ring of nodes in tasks, through its head. */
static void visit_list(struct walk *walk, uint64_t head, uint32_t tid)
{
	uint64_t node = 0;

	if (!read_word(walk, head, &node))
		return;
	for (size_t n = 0; node && node != head && n < TASKS_MAX && !walk->err; n++) {
		visit_task(walk, node - walk->at->node, tid);
		if (!read_word(walk, node, &node))
			return;
	}
}

static void visit_thread(void *ctx, uint64_t thread_id, uint64_t state)
{
	struct walk *walk = ctx;
	uint64_t tid = 0;

	(void)thread_id;
	if (read_word(walk, state + walk->python->release.tasks.thread_tid, &tid))
		visit_list(walk, state + walk->at->thread_tasks, (uint32_t)tid);
}

int asyncio_each_task(pid_t pid, const struct cpython *python, const struct asyncio_offsets *at,
		      void (*visit)(void *ctx, const struct python_task *task), void *ctx)
{
	struct walk walk = {.pid = pid, .python = python, .at = at, .visit = visit, .ctx = ctx};
	uint64_t interpreter;

	cpython_each_thread(pid, python, visit_thread, &walk);
	if (read_word(&walk, python->release.frames.interpreters, &interpreter) && interpreter)
		visit_list(&walk, interpreter + at->interpreter_tasks, 0);
	for (size_t i = 0; i < walk.count; i++)
		code_clear(&walk.list[i].code);
	map64_clear(&walk.ids);
	free(walk.list);
	return walk.err;
}
