/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Call stacks and what their frames mean: of allocations, samples and calling contexts alike.
 */
#ifndef PERFX_AGGREGATE_STACKS_H
#define PERFX_AGGREGATE_STACKS_H

#include "aggregate/profile.h"
#include "base/grow.h"

/* Texts that come often, once each. */
struct interned {
	struct map64 ids; /* hash → list[] */
	const char **list;
	size_t capacity, count;
};

struct stack {
	uint32_t process, id, frames_count, flags;
	size_t first; /* in addresses[] */
};

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

struct aggregate;
struct finish_ctx;

/* The one copy of a text. NULL: memory is out. */
const char *intern(struct aggregate *aggregate, const char *text);
/* The name shown to users: an operator's name, or `function` itself. NULL: out of memory. */
const char *intern_label(struct aggregate *aggregate, const char *function,
			 uint16_t operator_bytes);
/* In stacks->list; MAP64_NONE: it is not known. */
uint32_t stack_index(const struct stacks *stacks, uint32_t process, uint32_t stack);
/* Is there a frame of that kind in it? Of addresses with several frames the innermost counts. 1, 0
 * or -ENOMEM. */
int stack_has_frame(struct aggregate *aggregate, uint32_t process, uint32_t stack,
		    bool (*is_it)(const struct profile_frame *frame));
void stacks_clear(struct stacks *stacks);

/* At the end: all stacks, before what refers to them. 0 or -ENOMEM. */
int stacks_fill(struct finish_ctx *ctx);
/* NULL: it is not known. */
const struct profile_stack *stack_of(const struct finish_ctx *ctx, uint32_t process,
				     uint32_t stack);
/* The innermost frame of an address; NULL: it is 0, or not described. */
const struct profile_frame *frame_of(const struct finish_ctx *ctx, uint32_t process,
				     uint64_t address);
/* lines.c: lines, Python callers and how whole the stacks are, when all else is filled. 0 or
 * -ENOMEM. */
int lines_fill(struct finish_ctx *ctx);
void profile_stacks_clear(struct profile *profile);

#endif
