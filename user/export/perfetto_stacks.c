// SPDX-License-Identifier: BSD-2-Clause
#include "export/formats.h"

#include "analyze/location.h"
#include "base/escape.h"
#include "export/wire.h"

#include <errno.h>
#include <stdlib.h>

enum { INTERNED_FUNCTIONS = 5, INTERNED_FRAMES = 6, INTERNED_CALLSTACKS = 7 };
enum { INTERNED_PATHS = 17, INTERNED_MAPPINGS = 19 };
enum { STRING_IID = 1, STRING_STR = 2 };
enum { MAPPING_IID = 1, MAPPING_PATHS = 7 };
enum { FRAME_IID = 1, FRAME_FUNCTION = 2, FRAME_MAPPING = 3, FRAME_REL_PC = 4 };
enum { CALLSTACK_IID = 1, CALLSTACK_FRAMES = 2 };
enum { SAMPLE_PID = 2, SAMPLE_TID = 3, SAMPLE_CALLSTACK = 4 };

int perfetto_stacks_make(struct perfetto_stacks *stacks, const struct profile *profile)
{
	int err = 0;

	*stacks = (struct perfetto_stacks){.profile = profile};
	stacks->sent = calloc(profile->stacks_count + 1, sizeof(*stacks->sent));
	if (!stacks->sent)
		return -ENOMEM;
	for (size_t i = 0; i < profile->stacks_count && !err; i++)
		err = map64_put(&stacks->places,
				MAP64_PAIR(profile->stacks[i].process, profile->stacks[i].id),
				(uint32_t)i);
	return err;
}

void perfetto_stacks_clear(struct perfetto_stacks *stacks)
{
	free(stacks->sent);
	map64_clear(&stacks->places);
	map64_clear(&stacks->frames);
	map64_clear(&stacks->mappings);
	text_clear(&stacks->interned);
	text_clear(&stacks->sample);
	text_clear(&stacks->inner);
}

/* Numbers count from 1. */
static void add_string(struct perfetto_stacks *stacks, unsigned field, uint64_t iid,
		       const char *plain)
{
	struct text shown = {0};

	escape_display(&shown, plain);
	wire_integer(&stacks->inner, STRING_IID, iid);
	wire_string(&stacks->inner, STRING_STR, text_peek(&shown));
	wire_message(&stacks->interned, field, &stacks->inner);
	text_finish(&shown, &stacks->interned.failed);
}

/* Its number; 0: memory is out. Perfetto puts a slash before each part of a path: it is one. */
static uint32_t mapping_of(struct perfetto_stacks *stacks, const char *path)
{
	uint32_t iid = map64_get(&stacks->mappings, (uintptr_t)path);

	if (iid != MAP64_NONE)
		return iid;
	iid = ++stacks->mappings_count;
	if (map64_put(&stacks->mappings, (uintptr_t)path, iid))
		return 0;
	if (path[0])
		add_string(stacks, INTERNED_PATHS, iid, path[0] == '/' ? path + 1 : path);
	wire_integer(&stacks->inner, MAPPING_IID, iid);
	if (path[0])
		wire_integer(&stacks->inner, MAPPING_PATHS, iid);
	wire_message(&stacks->interned, INTERNED_MAPPINGS, &stacks->inner);
	return iid;
}

/* Likewise. Python's code is in its file, and has no address there. */
static uint32_t frame_of(struct perfetto_stacks *stacks, const struct profile_frame *frame)
{
	uint32_t iid = map64_get(&stacks->frames, (uintptr_t)frame), mapping;
	bool is_python = frame->language == PERFX_LANGUAGE_PYTHON;
	struct text name = {0};

	if (iid != MAP64_NONE)
		return iid;
	mapping = mapping_of(stacks, is_python ? frame->file : frame->module);
	iid = ++stacks->frames_count;
	if (!mapping || map64_put(&stacks->frames, (uintptr_t)frame, iid))
		return 0;
	location_frame(&name, frame, LOCATION_BRIEF);
	add_string(stacks, INTERNED_FUNCTIONS, iid, text_peek(&name));
	wire_integer(&stacks->inner, FRAME_IID, iid);
	wire_integer(&stacks->inner, FRAME_FUNCTION, iid);
	wire_integer(&stacks->inner, FRAME_MAPPING, mapping);
	wire_integer(&stacks->inner, FRAME_REL_PC,
		     is_python		? iid
		     : frame->module[0] ? frame->offset
					: frame->address);
	wire_message(&stacks->interned, INTERNED_FRAMES, &stacks->inner);
	text_finish(&name, &stacks->interned.failed);
	return iid;
}

/* The outermost frame first. */
static int add_stack(struct perfetto_stacks *stacks, uint32_t place)
{
	const struct profile_stack *stack = &stacks->profile->stacks[place];
	struct text numbers = {0};
	bool failed = false;

	for (size_t i = stack->frames_count; i-- > 0 && !failed;) {
		uint32_t frame = frame_of(stacks, stack->frames[i]);

		wire_integer(&numbers, CALLSTACK_FRAMES, frame);
		failed = !frame || numbers.failed;
	}
	wire_integer(&stacks->inner, CALLSTACK_IID, place + 1);
	text_add_bytes(&stacks->inner, text_peek(&numbers), numbers.length);
	wire_message(&stacks->interned, INTERNED_CALLSTACKS, &stacks->inner);
	text_clear(&numbers);
	stacks->sent[place] = true;
	return failed ? -ENOMEM : 0;
}

int perfetto_sample(struct perfetto_stacks *stacks, const struct perfx_sample *sample, uint32_t pid)
{
	uint32_t place = map64_get(&stacks->places, MAP64_PAIR(sample->process, sample->stack));
	bool known = place != MAP64_NONE && stacks->profile->stacks[place].frames_count;
	int err = known && !stacks->sent[place] ? add_stack(stacks, place) : 0;

	wire_integer(&stacks->sample, SAMPLE_PID, pid);
	wire_integer(&stacks->sample, SAMPLE_TID, sample->tid);
	if (known)
		wire_integer(&stacks->sample, SAMPLE_CALLSTACK, place + 1);
	return err;
}
