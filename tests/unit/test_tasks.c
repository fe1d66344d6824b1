// SPDX-License-Identifier: BSD-2-Clause
/* asyncio's tasks, from an image of the interpreter's structures in this process's own memory. */
#include "cpython/tasks.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct object {
	uint64_t words[40];
};

/* Words of objects, as the offsets below say. */
enum { CODE_FIRST = 200 };
enum { GENERATOR_STATE = 24, GENERATOR_FRAME = 32 };
enum { FRAME_CODE = 0, FRAME_INSTRUCTION = 8, FRAME_TOP = 16 };
enum { TASK_AWAITED_BY = 96, TASK_IS_SET = 109, TASK_COROUTINE = 128, TASK_NAME = 136 };
enum { TASK_NODE = 152 };

static struct object interpreter, threads[2], code_type, coroutine_type, int_type, number;
static struct object outer_code, inner_code, outer, inner, tasks[3], set;
static struct object names[8];
static size_t names_count;
static uint64_t interpreters, places[8][2], top[2];
static const struct asyncio_offsets at = {.name = TASK_NAME,
					  .awaited_by = TASK_AWAITED_BY,
					  .awaited_by_is_set = TASK_IS_SET,
					  .coroutine = TASK_COROUTINE,
					  .node = TASK_NODE,
					  .interpreter_tasks = 64,
					  .thread_tasks = 64};
static struct cpython python;

static void put(struct object *object, size_t offset, const void *to)
{
	object->words[offset / 8] = (uint64_t)(uintptr_t)to;
}

static void *string(const char *text)
{
	struct object *object = &names[names_count++];

	object->words[2] = strlen(text);
	object->words[4] = 1u << 2 | 1u << 5 | 1u << 6; /* one byte a character, compact, ASCII */
	strcpy((char *)&object->words[5], text);
	return object;
}

/* The line is the first one and 2 more for its instructions. */
static void code(struct object *object, const char *name, uint32_t first_line)
{
	static const uint8_t lines[] = {0xef, 4};
	static struct object bytes;

	bytes.words[2] = sizeof(lines);
	memcpy(&bytes.words[4], lines, sizeof(lines));
	put(object, 8, &code_type);
	memcpy((uint8_t *)object->words + 68, &first_line, sizeof(first_line));
	put(object, 112, string("/opt/train.py"));
	put(object, 128, string(name));
	put(object, 136, &bytes);
}

static void coroutine(struct object *object, int8_t state, const struct object *of,
		      const uint64_t *above)
{
	put(object, 8, &coroutine_type);
	memcpy((uint8_t *)object->words + GENERATOR_STATE, &state, 1);
	put(object, GENERATOR_FRAME + FRAME_CODE, (const uint8_t *)of + 1); /* a tagged reference */
	put(object, GENERATOR_FRAME + FRAME_INSTRUCTION, (const uint8_t *)of + CODE_FIRST + 4);
	put(object, GENERATOR_FRAME + FRAME_TOP, above);
}

/* A ring of one task through the head. */
static void link_task(struct object *owner, struct object *task)
{
	put(owner, 64, (uint8_t *)task + TASK_NODE);
	put(task, TASK_NODE, (uint8_t *)owner + 64);
}

static void build(void)
{
	python = (struct cpython){
		.code_type = (uint64_t)(uintptr_t)&code_type,
		.release = {.frames = {.interpreters = (uint64_t)(uintptr_t)&interpreters,
				       .interpreter_threads = 8,
				       .thread_id = 8,
				       .frame_code = FRAME_CODE,
				       .frame_instruction = FRAME_INSTRUCTION,
				       .code_first = CODE_FIRST},
			    .code = {.first_line = 68,
				     .file = 112,
				     .name = 120,
				     .flags = 48,
				     .qualname = 128,
				     .lines = 136,
				     .string_data = 40,
				     .string_wide_data = 56,
				     .format = LINE_TABLE_LOCATIONS},
			    .tasks = {.thread_tid = 16,
				      .frame_top = FRAME_TOP,
				      .set_table = 40,
				      .set_mask = 32,
				      .long_tag = 16,
				      .long_digits = 24,
				      .generator_frame = GENERATOR_FRAME,
				      .generator_state = GENERATOR_STATE}}};
	interpreters = (uint64_t)(uintptr_t)&interpreter;
	put(&interpreter, 8, &threads[0]);
	put(&threads[0], 0, &threads[1]);
	threads[0].words[2] = 41;
	threads[1].words[2] = 42;
	put(&threads[1], 64, (uint8_t *)&threads[1] + 64); /* an empty list */
	code(&outer_code, "main", 10);
	code(&inner_code, "fetch", 20);
	coroutine(&outer, -1, &outer_code, &top[1]);
	top[0] = (uint64_t)(uintptr_t)&inner;
	coroutine(&inner, -2, &inner_code, &top[1]);
	put(&int_type, 24, "int");
	put(&number, 8, &int_type);
	number.words[2] = 1 << 3;
	number.words[3] = 7;
	/* the first task awaits nobody's end; the second is awaited by two, the third by one */
	put(&tasks[0], TASK_NAME, &number);
	put(&tasks[0], TASK_COROUTINE, &outer);
	link_task(&threads[0], &tasks[0]);
	put(&tasks[1], TASK_NAME, string("epoch"));
	put(&tasks[1], TASK_COROUTINE, &inner);
	put(&tasks[1], TASK_AWAITED_BY, &set);
	((uint8_t *)tasks[1].words)[TASK_IS_SET] = 1;
	put(&tasks[0], TASK_NODE, (uint8_t *)&tasks[1] + TASK_NODE);
	put(&tasks[1], TASK_NODE, (uint8_t *)&threads[0] + 64);
	put(&tasks[2], TASK_NAME, string("orphan"));
	put(&tasks[2], TASK_AWAITED_BY, &tasks[0]);
	link_task(&interpreter, &tasks[2]);
	put(&set, 40, places);
	set.words[4] = 7;
	places[2][0] = (uint64_t)(uintptr_t)&tasks[0];
	places[4][0] = 0xdead; /* of one that was taken out */
	places[4][1] = UINT64_MAX;
	places[5][0] = (uint64_t)(uintptr_t)&tasks[2];
}

static char told[1024];

static void tell(void *ctx, const struct python_task *task)
{
	size_t length = strlen(told);

	(void)ctx;
	snprintf(told + length, sizeof(told) - length, "%s in %u%s, awaited by %zu:\n%s",
		 task->name, task->tid, task->runs ? ", runs" : "", task->awaiters_count,
		 task->stack);
	if (task->awaiters_count == 2)
		cr_expect(task->awaiters[0] == (uint64_t)(uintptr_t)&tasks[0] &&
			  task->awaiters[1] == (uint64_t)(uintptr_t)&tasks[2]);
}

Test(tasks, of_all_threads)
{
	build();
	cr_assert_eq(asyncio_each_task(getpid(), &python, &at, tell, NULL), 0);
	cr_expect_str_eq(told, "Task-7 in 41, awaited by 0:\n"
			       "fetch\t/opt/train.py\t22\nmain\t/opt/train.py\t12\n"
			       "epoch in 41, awaited by 2:\nfetch\t/opt/train.py\t22\n"
			       "orphan in 0, awaited by 1:\n");
}

/* Memory changes while it is read: lists without an end, coroutines that await themselves. */
Test(tasks, that_make_no_sense)
{
	build();
	put(&tasks[1], TASK_NODE, (uint8_t *)&tasks[1] + TASK_NODE);
	top[0] = (uint64_t)(uintptr_t)&outer;
	set.words[4] = UINT64_MAX;
	put(&tasks[1], TASK_COROUTINE, (void *)0x10);
	put(&tasks[2], TASK_NAME, (void *)0x10);
	cr_assert_eq(asyncio_each_task(getpid(), &python, &at, tell, NULL), 0);
	cr_expect_eq(strncmp(told, "Task-7 in 41, awaited by 0:\nmain\t", 33), 0, "%s", told);
	interpreters = 0x10;
	cr_expect_eq(asyncio_each_task(getpid(), &python, &at, tell, NULL), 0);
}

/* As 3.14.10 has them, and what cannot be. */
Test(tasks, offsets_of_the_module)
{
	uint64_t words[ASYNCIO_DEBUG_WORDS] = {168,    136,   96,  108, 109, 128, 152,
					       225864, 10880, 936, 864, 872, 880};
	struct asyncio_offsets found;

	cr_assert(asyncio_offsets_of(words, &found));
	cr_expect_eq(found.name, 136);
	cr_expect_eq(found.awaited_by, 96);
	cr_expect_eq(found.awaited_by_is_set, 109);
	cr_expect_eq(found.coroutine, 128);
	cr_expect_eq(found.node, 152);
	cr_expect_eq(found.interpreter_tasks, 10880);
	cr_expect_eq(found.thread_tasks, 880);
	words[1] = 169;
	cr_expect_not(asyncio_offsets_of(words, &found));
	words[1] = 136;
	words[12] = 937;
	cr_expect_not(asyncio_offsets_of(words, &found));
}
