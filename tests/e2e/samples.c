/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The samples of a capture as JSON lines, for test_samples.py:
 *
 *	{"state": 2, "reason": 1, "syscall": 0, "object": 0, "interval_ns": 50505050, "process": 1,
 *	 "tid": 42, "context": 0, "complete": true, "stack": ["read", "stands_in_read", "run"],
 *	 "time_ns": 123456789, "guessed": false, "addresses": [140012345, …],
 *	 "python": [["run", "/tmp/a.py", 12], …]}
 *
 * and last {"sampling": [ON_CPU_NS, OFF_CPU_NS], "lost": n}. A stack is innermost first, inlined
 * functions included. Addresses are those of its native frames.
 */
#include "base/grow.h"
#include "capture/capture.h"
#include "decode/decode.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stack {
	uint32_t process, flags, count;
	uint64_t addresses[];
};

struct name {
	uint64_t address;
	uint32_t process;
	uint16_t depth;
	char *function, *file;
	uint32_t line;
};

static struct stack **stacks;
static size_t stacks_count, stacks_capacity;
static struct map64 stack_indices; /* by id: some ids are large */
static struct name *names;
static size_t names_count, names_capacity;
static struct perfx_sample *samples;
static size_t samples_count, samples_capacity;
static uint64_t on_cpu_ns, off_cpu_ns, lost_count;

static void need(int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s\n", strerror(-err));
	exit(1);
}

static void add_stack(const struct event *event)
{
	uint32_t count = event->stack.frames_count;
	struct stack *stack = calloc(1, sizeof(*stack) + count * sizeof(stack->addresses[0]));

	need(stack ? 0 : -ENOMEM);
	need(GROW_BY_ONE(stacks));
	need(map64_put(&stack_indices, event->stack.stack, (uint32_t)stacks_count));
	stack->process = event->stack.process;
	stack->flags = event->stack.flags;
	stack->count = count;
	for (uint32_t i = 0; i < count; i++)
		stack->addresses[i] = stack_address(event, i);
	stacks[stacks_count++] = stack;
}

static void add_name(const struct event *event)
{
	need(grow_array(&names, &names_capacity, names_count + 1, sizeof(*names)));
	names[names_count++] = (struct name){.address = event->frame.address,
					     .process = event->frame.process,
					     .depth = event->frame.depth,
					     .function = strdup(event->strings[0]),
					     .file = strdup(event->strings[2]),
					     .line = event->frame.line};
}

static void add_sample(const struct event *event)
{
	need(grow_array(&samples, &samples_capacity, samples_count + 1, sizeof(*samples)));
	samples[samples_count++] = event->sample;
}

static void take(const struct event *event)
{
	if (event->kind == PERFX_KIND_STACK)
		add_stack(event);
	else if (event->kind == PERFX_KIND_FRAME)
		add_name(event);
	else if (event->kind == PERFX_KIND_SAMPLE)
		add_sample(event);
	else if (event->kind == PERFX_KIND_LOSS && event->loss.loss == PERFX_LOSS_SAMPLE_DROPS)
		lost_count += event->loss.count;
	if (event->kind != PERFX_KIND_SAMPLING)
		return;
	on_cpu_ns = event->sampling.on_cpu_interval_ns;
	off_cpu_ns = event->sampling.off_cpu_interval_ns;
}

static void read_records(const char *records, size_t size)
{
	struct event event;
	size_t skip;

	while (size) {
		ssize_t taken = decode_event(records, size, &event, &skip);

		need(taken < 0 ? (int)taken : 0);
		take(&event);
		records += taken;
		size -= (size_t)taken;
	}
}

static int compare_names(const void *left, const void *right)
{
	const struct name *a = left, *b = right;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return a->depth - b->depth;
}

static const struct name *find_name(uint32_t process, uint64_t address)
{
	struct name key = {.address = address, .process = process};

	return names_count ? bsearch(&key, names, names_count, sizeof(key), compare_names) : NULL;
}

/* Adds the functions of an address; "?": no name. */
static void add_functions(json_t *functions, uint32_t process, uint64_t address)
{
	const struct name *name = find_name(process, address);

	if (!name) {
		json_array_append_new(functions, json_string("?"));
		return;
	}
	for (; name < names + names_count && name->process == process && name->address == address;
	     name++)
		json_array_append_new(functions, json_string(name->function));
}

static void print(json_t *line)
{
	char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;

	need(text ? 0 : -ENOMEM);
	puts(text);
	free(text);
	json_decref(line);
}

/* The stack's native addresses and Python frames. */
static void add_frames(json_t *addresses, json_t *python, const struct stack *stack)
{
	for (uint32_t i = 0; i < stack->count; i++) {
		const struct name *name;

		if (!(stack->addresses[i] & PERFX_FRAME_PYTHON)) {
			json_array_append_new(addresses,
					      json_integer((json_int_t)stack->addresses[i]));
			continue;
		}
		name = find_name(stack->process, stack->addresses[i]);
		json_array_append_new(python, name ? json_pack("[ssi]", name->function, name->file,
							       (int)name->line)
						   : json_null());
	}
}

static void print_sample(const struct perfx_sample *sample)
{
	uint32_t index = map64_get(&stack_indices, sample->stack);
	const struct stack *stack = index == MAP64_NONE ? NULL : stacks[index];
	json_t *functions = json_array(), *addresses = json_array(), *python = json_array();

	for (uint32_t i = 0; stack && i < stack->count; i++)
		add_functions(functions, stack->process, stack->addresses[i]);
	if (stack)
		add_frames(addresses, python, stack);
	print(json_pack("{si si si sI sI si si si sb so sI sb so so}", "state", sample->state,
			"reason", sample->reason, "syscall", sample->syscall, "object",
			(json_int_t)sample->object, "interval_ns", (json_int_t)sample->interval_ns,
			"process", sample->process, "tid", sample->tid, "context", sample->context,
			"complete", stack && stack->flags & PERFX_STACK_COMPLETE, "stack",
			functions, "time_ns", (json_int_t)sample->time_ns, "guessed",
			stack && stack->flags & PERFX_STACK_GUESSED, "addresses", addresses,
			"python", python));
}

int main(int argc, char **argv)
{
	struct capture_reader *reader = argc == 2 ? capture_reader__open(argv[1]) : NULL;
	const void *records;
	size_t size;
	int more;

	if (!reader) {
		fprintf(stderr, "usage: samples CAPTURE\n");
		return 2;
	}
	while ((more = capture_reader__next(reader, &records, &size)) > 0)
		read_records(records, size);
	need(more);
	capture_reader__free(reader);
	if (names_count)
		qsort(names, names_count, sizeof(*names), compare_names);
	for (size_t i = 0; i < samples_count; i++)
		print_sample(&samples[i]);
	print(json_pack("{s[II] sI}", "sampling", (json_int_t)on_cpu_ns, (json_int_t)off_cpu_ns,
			"lost", (json_int_t)lost_count));
	return 0;
}
