// SPDX-License-Identifier: BSD-2-Clause
/* What the ids and addresses of memory records mean: stacks, frames, allocators. */
#include "aggregate/state.h"

#include <stdlib.h>

/* FNV-1a, 64 bits (Fowler, Noll, Vo). */
static uint64_t hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3ULL;
	return hash;
}

/* One copy of a text that comes often. NULL: memory is out. */
static const char *intern(struct aggregate *a, const char *text)
{
	struct memory *memory = &a->memory;
	uint64_t hash = hash_of(text);
	uint32_t at = map64_get(&memory->string_ids, hash);
	const char *copy;

	if (at != MAP64_NONE && !strcmp(memory->interned[at], text))
		return memory->interned[at];
	copy = pool_add(&a->strings, text);
	/* of two texts with one hash the second is copied each time */
	if (!copy || at != MAP64_NONE)
		return copy;
	at = (uint32_t)memory->interned_count;
	if (grow_array(&memory->interned, &memory->interned_capacity, (size_t)at + 1,
		       sizeof(*memory->interned)) ||
	    map64_put(&memory->string_ids, hash, at))
		return NULL;
	memory->interned[memory->interned_count++] = copy;
	return copy;
}

/* --- allocators --- */

int handle_allocator(struct aggregate *a, const struct event *event)
{
	const struct perfx_allocator *record = &event->allocator;
	struct memory *memory = &a->memory;
	struct memory_allocator *allocator;

	if (record->allocator == 0 || record->allocator > AGGREGATE_ALLOCATORS_MAX)
		return undecoded(a);
	if (grow_array(&memory->allocators, &memory->allocators_capacity,
		       (size_t)record->allocator + 1, sizeof(*memory->allocators)))
		return -ENOMEM;
	allocator = &memory->allocators[record->allocator];
	if (allocator->name) {
		bool same = !strcmp(allocator->name, event->strings[0]) &&
			    !strcmp(allocator->module, event->strings[1]) &&
			    allocator->domain == record->domain;

		return same ? 0 : undecoded(a);
	}
	allocator->domain = record->domain;
	allocator->module = intern(a, event->strings[1]);
	allocator->name = intern(a, event->strings[0]);
	memory->domains[record->domain].has_allocator = true;
	return allocator->name && allocator->module ? 0 : -ENOMEM;
}

const struct memory_allocator *memory_allocator_of(const struct memory *memory, uint16_t id)
{
	static const struct memory_allocator unknown = {.name = "", .module = ""};

	if (id >= memory->allocators_capacity || !memory->allocators[id].name)
		return &unknown;
	return &memory->allocators[id];
}

/* --- stacks --- */

static uint64_t stack_key(uint32_t process, uint32_t stack)
{
	return (uint64_t)process << 32 | stack;
}

const struct memory_stack *memory_stack_of(const struct memory *memory, uint32_t process,
					   uint32_t stack)
{
	uint32_t at = map64_get(&memory->stack_ids, stack_key(process, stack));

	return at == MAP64_NONE ? NULL : &memory->stacks[at];
}

static bool same_stack(const struct memory *memory, const struct memory_stack *stack,
		       const struct event *event)
{
	return stack->frames_count == event->stack.frames_count &&
	       stack->flags == event->stack.flags &&
	       (!stack->frames_count || !memcmp(&memory->addresses[stack->first], event->addresses,
						stack->frames_count * sizeof(uint64_t)));
}

static int add_stack(struct memory *memory, const struct event *event)
{
	uint32_t count = event->stack.frames_count, at = (uint32_t)memory->stacks_count;

	if (grow_array(&memory->stacks, &memory->stacks_capacity, (size_t)at + 1,
		       sizeof(*memory->stacks)) ||
	    grow_array(&memory->addresses, &memory->addresses_capacity,
		       memory->addresses_count + count, sizeof(*memory->addresses)) ||
	    map64_put(&memory->stack_ids, stack_key(event->stack.process, event->stack.stack), at))
		return -ENOMEM;
	memory->stacks[at] = (struct memory_stack){
		.frames_count = count,
		.flags = event->stack.flags,
		.first = memory->addresses_count,
	};
	if (count)
		memcpy(&memory->addresses[memory->addresses_count], event->addresses,
		       count * sizeof(uint64_t));
	memory->addresses_count += count;
	memory->stacks_count++;
	return 0;
}

int handle_stack(struct aggregate *a, const struct event *event)
{
	const struct perfx_stack *record = &event->stack;
	struct memory *memory = &a->memory;
	const struct memory_stack *known;

	if (record->stack == 0 || record->process == 0 || record->process > AGGREGATE_PROCESSES_MAX)
		return undecoded(a);
	known = memory_stack_of(memory, record->process, record->stack);
	if (known)
		return same_stack(memory, known, event) ? 0 : undecoded(a);
	if (memory->stacks_count >= AGGREGATE_STACKS_MAX)
		return undecoded(a);
	return add_stack(memory, event);
}

/* --- frames --- */

static struct memory_frame *frame_at(const struct memory *memory, uint32_t index)
{
	return chunks_at(&memory->frames, index, sizeof(struct memory_frame));
}

/* 0: no room. -ENOMEM */
static int64_t frame_new(struct memory *memory)
{
	if (memory->frames.count > AGGREGATE_FRAMES_MAX)
		return 0;
	/* index 0 is none */
	if (!memory->frames.count && !chunks_add(&memory->frames, sizeof(struct memory_frame)))
		return -ENOMEM;
	if (!chunks_add(&memory->frames, sizeof(struct memory_frame)))
		return -ENOMEM;
	return (int64_t)memory->frames.count - 1;
}

int64_t memory_frame_at(struct aggregate *a, uint32_t process, uint64_t address)
{
	struct memory_process *owner = memory_process_get(a, process);
	uint32_t at;
	int64_t made;

	if (!owner)
		return errno == ENOMEM ? -ENOMEM : 0;
	at = map64_get(&owner->frame_ids, address);
	if (at != MAP64_NONE)
		return at;
	made = frame_new(&a->memory);
	if (made <= 0)
		return made;
	if (map64_put(&owner->frame_ids, address, (uint32_t)made))
		return -ENOMEM;
	frame_at(&a->memory, (uint32_t)made)->frame = (struct profile_frame){
		.function = "",
		.module = "",
		.module_base = "",
		.file = "",
		.address = address,
	};
	return made;
}

/* The place of a depth among the frames of an address, made where it is new. 0: no room. */
static int64_t frame_of_depth(struct memory *memory, uint32_t innermost, uint16_t depth)
{
	struct memory_frame *frame = frame_at(memory, innermost);
	int64_t made;

	while (frame->depth != depth && frame->next &&
	       frame_at(memory, frame->next)->depth <= depth) {
		innermost = frame->next;
		frame = frame_at(memory, innermost);
	}
	if (frame->depth == depth)
		return innermost;
	made = frame_new(memory);
	if (made > 0) {
		*frame_at(memory, (uint32_t)made) =
			(struct memory_frame){.next = frame->next, .depth = depth};
		frame->next = (uint32_t)made;
	}
	return made;
}

static bool same_frame(const struct memory_frame *frame, const struct event *event)
{
	return !strcmp(frame->frame.function, event->strings[0]) &&
	       !strcmp(frame->frame.module, event->strings[1]) &&
	       !strcmp(frame->frame.file, event->strings[2]) &&
	       frame->frame.line == event->frame.line && frame->frame.offset == event->frame.offset;
}

int handle_frame(struct aggregate *a, const struct event *event)
{
	const struct perfx_frame *record = &event->frame;
	struct memory_frame *frame;
	int64_t at;

	if (record->depth >= AGGREGATE_INLINED_MAX)
		return undecoded(a);
	at = memory_frame_at(a, record->process, record->address);
	if (at > 0)
		at = frame_of_depth(&a->memory, (uint32_t)at, record->depth);
	if (at <= 0)
		return at ? (int)at : undecoded(a);
	frame = frame_at(&a->memory, (uint32_t)at);
	if (frame->described)
		return same_frame(frame, event) ? 0 : undecoded(a);
	frame->frame = (struct profile_frame){
		.function = intern(a, event->strings[0]),
		.module = intern(a, event->strings[1]),
		.file = intern(a, event->strings[2]),
		.line = record->line,
		.address = record->address,
		.offset = record->offset,
	};
	if (!frame->frame.function || !frame->frame.module || !frame->frame.file)
		return -ENOMEM;
	frame->frame.module_base = base_name(frame->frame.module);
	frame->described = true;
	return 0;
}
