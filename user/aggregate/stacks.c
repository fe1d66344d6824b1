// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/process.h"
#include "base/text.h"

#include <stdlib.h>

struct frame {
	struct profile_frame frame;
	uint32_t next; /* around it, at the same address; 0: none */
	uint16_t depth;
	bool described; /* otherwise it has an address only */
};

struct stacks {
	struct map64 ids; /* process << 32 | stack → list[] */
	struct stack *list;
	size_t capacity, count;
	uint64_t *addresses;
	size_t addresses_capacity, addresses_count;
	struct chunks frames; /* index 0: none */
	bool some_left_out;   /* PERFX_STACK_END_LEFT_OUT */
};

const struct stack *stack_find(const struct stacks *stacks, uint32_t process, uint32_t stack)
{
	return stack ? MAP64_FIND_OF(stacks, MAP64_PAIR(process, stack)) : NULL;
}

const uint64_t *stack_addresses(const struct stacks *stacks, const struct stack *stack)
{
	return &stacks->addresses[stack->first];
}

bool stacks_some_left_out(const struct stacks *stacks)
{
	return stacks->some_left_out;
}

static int handle_stack(struct aggregate *a, const struct event *event)
{
	const struct perfx_stack *record = &event->stack;
	struct stacks *stacks = a->stacks;
	const struct stack *known;
	struct stack *stack;
	size_t bytes = record->frames_count * sizeof(uint64_t);

	if (record->stack == 0 || record->process == 0 || record->process > AGGREGATE_PROCESSES_MAX)
		return undecoded(a);
	known = stack_find(stacks, record->process, record->stack);
	if (known)
		return known->frames_count == record->frames_count &&
				       known->flags == record->flags &&
				       (!bytes || !memcmp(stack_addresses(stacks, known),
							  event->addresses, bytes))
			       ? 0
			       : undecoded(a);
	if (stacks->count >= AGGREGATE_STACKS_MAX)
		return undecoded(a);
	stacks->some_left_out |= PERFX_STACK_END(record->flags) == PERFX_STACK_END_LEFT_OUT;
	if (grow_array(&stacks->addresses, &stacks->addresses_capacity,
		       stacks->addresses_count + record->frames_count, sizeof(*stacks->addresses)))
		return -ENOMEM;
	stack = MAP64_ITEM_OF(stacks, MAP64_PAIR(record->process, record->stack));
	if (!stack)
		return -ENOMEM;
	*stack = (struct stack){
		.process = record->process,
		.id = record->stack,
		.frames_count = record->frames_count,
		.flags = record->flags,
		.first = stacks->addresses_count,
	};
	if (bytes)
		memcpy(&stacks->addresses[stack->first], event->addresses, bytes);
	stacks->addresses_count += record->frames_count;
	return 0;
}

static struct frame *frame_at(const struct stacks *stacks, uint32_t index)
{
	return chunks_at(&stacks->frames, index, sizeof(struct frame));
}

/* 0: no room. -ENOMEM */
static int64_t frame_new(struct stacks *stacks)
{
	if (stacks->frames.count > AGGREGATE_FRAMES_MAX)
		return 0;
	/* index 0 is none */
	if (!stacks->frames.count && !chunks_add(&stacks->frames, sizeof(struct frame)))
		return -ENOMEM;
	if (!chunks_add(&stacks->frames, sizeof(struct frame)))
		return -ENOMEM;
	return (int64_t)stacks->frames.count - 1;
}

/* The innermost frame at an address, made when it is not known: its index; 0: no room; -ENOMEM. */
static int64_t innermost_frame(struct aggregate *a, uint32_t process, uint64_t address)
{
	struct process *owner = process_get(a, process);
	uint32_t at;
	int64_t made;

	if (!owner)
		return errno == ENOMEM ? -ENOMEM : 0;
	at = map64_get(&owner->frame_ids, address);
	if (at != MAP64_NONE)
		return at;
	made = frame_new(a->stacks);
	if (made <= 0)
		return made;
	if (map64_put(&owner->frame_ids, address, (uint32_t)made))
		return -ENOMEM;
	frame_at(a->stacks, (uint32_t)made)->frame = (struct profile_frame){
		.function = "",
		.label = "",
		.module = "",
		.module_base = "",
		.file = "",
		.address = PERFX_FRAME_ADDRESS(address),
		.language = address & PERFX_FRAME_PYTHON ? PERFX_LANGUAGE_PYTHON
							 : PERFX_LANGUAGE_NATIVE,
	};
	return made;
}

int stack_has_frame(struct aggregate *a, uint32_t process, uint32_t id,
		    bool (*is_it)(const struct profile_frame *frame))
{
	const struct stack *stack = stack_find(a->stacks, process, id);
	int64_t at = 0;

	for (uint32_t i = 0; stack && i < stack->frames_count && at >= 0; i++) {
		at = innermost_frame(a, process, a->stacks->addresses[stack->first + i]);
		if (at > 0 && is_it(&frame_at(a->stacks, (uint32_t)at)->frame))
			return 1;
	}
	return at < 0 ? (int)at : 0;
}

/* The place of a depth among the frames of an address, made where it is new. 0: no room. */
static int64_t frame_of_depth(struct stacks *stacks, uint32_t innermost, uint16_t depth)
{
	struct frame *frame = frame_at(stacks, innermost);
	int64_t made;

	while (frame->depth != depth && frame->next &&
	       frame_at(stacks, frame->next)->depth <= depth) {
		innermost = frame->next;
		frame = frame_at(stacks, innermost);
	}
	if (frame->depth == depth)
		return innermost;
	made = frame_new(stacks);
	if (made > 0) {
		*frame_at(stacks, (uint32_t)made) =
			(struct frame){.next = frame->next, .depth = depth};
		frame->next = (uint32_t)made;
	}
	return made;
}

static bool same_frame(const struct frame *frame, const struct event *event)
{
	return !strcmp(frame->frame.function, event->strings[0]) &&
	       !strcmp(frame->frame.module, event->strings[1]) &&
	       !strcmp(frame->frame.file, event->strings[2]) &&
	       frame->frame.line == event->frame.line && frame->frame.offset == event->frame.offset;
}

/* "python3\x1f-c\x1fimport train": is the main program the command? Those of multiprocessing only
 * start the job's own code. */
static bool runs_command(const char *cmdline)
{
	const char *option = strchr(cmdline, PROFILE_ARGUMENT_END);
	const char *name = option ? memrchr(cmdline, '/', (size_t)(option - cmdline)) : NULL;

	if (!begins_with(name ? name + 1 : cmdline, "python"))
		return false;
	for (; option && option[1] == '-'; option = strchr(option + 1, PROFILE_ARGUMENT_END)) {
		/* -c alone or behind others, as -Ic; -W and -X have a value */
		size_t letter = 2 + strcspn(option + 2, "cmWX-\x1f");

		if (option[letter] == 'c')
			return !strstr(option, "from multiprocessing");
		if ((option[letter] == 'W' || option[letter] == 'X') &&
		    option[letter + 1] == PROFILE_ARGUMENT_END)
			option += letter + 1;
	}
	return false;
}

static int handle_frame(struct aggregate *a, const struct event *event)
{
	const struct perfx_frame *record = &event->frame;
	struct frame *frame;
	int64_t at;

	if (record->depth >= AGGREGATE_INLINED_MAX)
		return undecoded(a);
	at = innermost_frame(a, record->process, record->address);
	if (at > 0)
		at = frame_of_depth(a->stacks, (uint32_t)at, record->depth);
	if (at <= 0)
		return at ? (int)at : undecoded(a);
	frame = frame_at(a->stacks, (uint32_t)at);
	if (frame->described)
		return same_frame(frame, event) ? 0 : undecoded(a);
	frame->frame = (struct profile_frame){
		.function = intern(a, event->strings[0]),
		.module = intern(a, event->strings[1]),
		.file = intern(a, event->strings[2]),
		.line = record->line,
		.address = PERFX_FRAME_ADDRESS(record->address),
		.offset = record->offset,
		.language = record->language,
		.gone = record->flags & PERFX_FRAME_GONE,
		.of_package = record->flags & PERFX_FRAME_PACKAGE,
		.is_generator = record->flags & PERFX_FRAME_GENERATOR,
		.spins = record->flags & PERFX_FRAME_SPINS,
		.of_command = !strcmp(event->strings[2], "<string>") &&
			      runs_command(a->processes->list[record->process]->cmdline ?: ""),
	};
	if (!frame->frame.function || !frame->frame.module || !frame->frame.file)
		return -ENOMEM;
	frame->frame.label = intern_label(a, frame->frame.function, record->operator_bytes);
	if (!frame->frame.label)
		return -ENOMEM;
	frame->frame.module_base = base_name(frame->frame.module);
	frame->described = true;
	a->processes->list[record->process]->gone_count += frame->frame.gone;
	return 0;
}

static const struct profile_frame no_frame = {
	.function = "",
	.label = "",
	.module = "",
	.module_base = "",
	.file = "",
};

/* The frames at one address into `out`, unless it is NULL; how many. */
static size_t frames_at(const struct stacks *stacks, uint32_t index,
			const struct profile_frame **out)
{
	size_t count = 0;

	if (!index) {
		if (out)
			out[0] = &no_frame;
		return 1;
	}
	for (; index; count++) {
		const struct frame *frame = frame_at(stacks, index);

		if (out)
			out[count] = &frame->frame;
		index = frame->next;
	}
	return count;
}

static int fill_stack(struct aggregate *a, const struct stack *stack, struct profile_stack *out)
{
	const struct stacks *stacks = a->stacks;
	uint32_t indices[PERFX_STACK_FRAMES_MAX];
	const struct profile_frame **frames;
	size_t count = 0;

	out->flags = stack->flags;
	out->process = stack->process;
	out->id = stack->id;
	for (uint32_t i = 0; i < stack->frames_count; i++) {
		int64_t at =
			innermost_frame(a, stack->process, stacks->addresses[stack->first + i]);

		if (at < 0)
			return (int)at;
		indices[i] = (uint32_t)at;
		count += frames_at(stacks, indices[i], NULL);
	}
	frames = calloc(count + 1, sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	out->frames = frames;
	out->frames_count = count;
	for (uint32_t i = 0; i < stack->frames_count; i++)
		frames += frames_at(stacks, indices[i], frames);
	return 0;
}

/* All stacks, before other parts refer to them. 0 or -ENOMEM. */
static int stacks_fill(struct finish_ctx *ctx)
{
	struct aggregate *a = ctx->a;
	struct profile *profile = ctx->profile;
	int err = 0;

	profile->stacks = calloc(a->stacks->count + 1, sizeof(*profile->stacks));
	if (!profile->stacks)
		return -ENOMEM;
	for (; profile->stacks_count < a->stacks->count && !err; profile->stacks_count++)
		err = fill_stack(a, &a->stacks->list[profile->stacks_count],
				 &profile->stacks[profile->stacks_count]);
	return err;
}

const struct profile_stack *stack_of(const struct finish_ctx *ctx, uint32_t process, uint32_t stack)
{
	const struct stack *found = stack_find(ctx->a->stacks, process, stack);

	return found ? &ctx->profile->stacks[found - ctx->a->stacks->list] : NULL;
}

const struct profile_frame *frame_of(const struct finish_ctx *ctx, uint32_t process,
				     uint64_t address)
{
	const struct process *proc = process_find(ctx->a, process);
	uint32_t at = address && proc ? map64_get(&proc->frame_ids, address) : MAP64_NONE;

	return at == MAP64_NONE ? NULL : &frame_at(ctx->a->stacks, at)->frame;
}

void profile_stacks_clear(struct profile *profile)
{
	for (size_t i = 0; i < profile->stacks_count; i++)
		free((void *)profile->stacks[i].frames);
	free(profile->stacks);
}

static void stacks_clear(void *state)
{
	struct stacks *stacks = state;

	chunks_clear(&stacks->frames);
	map64_clear(&stacks->ids);
	free(stacks->list);
	free(stacks->addresses);
}

const struct part part_stacks = {
	PART_STATE(stacks),
	.add = {TAKES(STACK, stack), TAKES(FRAME, frame)},
	.finish = stacks_fill,
	.clear = stacks_clear,
};
