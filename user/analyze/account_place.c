// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/account.h"

#include "analyze/location.h"
#include "analyze/stack_kind.h"
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void lines_add(struct lines *lines, const struct profile_frame *frame, uint64_t ns)
{
	if (!frame)
		return;
	for (size_t i = 0; i < lines->count; i++) {
		if (frame_is_same_line(lines->lines[i].frame, frame)) {
			lines->lines[i].ns += ns;
			return;
		}
	}
	if (lines->count < LINES_MAX)
		lines->lines[lines->count++] = (struct place){frame, ns, ns};
}

void lines_add_files(struct lines *lines, const struct profile_files *files)
{
	FOR_EACH (sample, files->samples)
		lines_add(lines, stack_place(sample->stack), sample->ns);
}

struct place lines_lead(const struct lines *lines)
{
	struct place lead = {0};

	for (size_t i = 0; i < lines->count; i++) {
		const struct place *line = &lines->lines[i];
		uint64_t function_ns = 0;

		for (size_t j = 0; j < lines->count; j++)
			if (frame_is_same_function(lines->lines[j].frame, line->frame))
				function_ns += lines->lines[j].ns;
		if (function_ns < lead.ns || (function_ns == lead.ns && line->ns <= lead.line_ns))
			continue;
		lead = (struct place){line->frame, function_ns, line->ns};
	}
	return lead;
}

/* In a library without symbols: the exported function by which it was entered, if one is known. */
static const struct profile_frame *named_caller(const struct profile_stack *stack, size_t at,
						size_t end)
{
	const struct profile_frame *inner = stack->frames[at];

	for (size_t i = at; i < end && !strcmp(stack->frames[i]->module, inner->module); i++)
		if (stack->frames[i]->function[0])
			return stack->frames[i];
	return inner;
}

const struct profile_frame *place_native(const struct profile_stack *stack)
{
	size_t end = stack_innermost_python(stack);

	for (size_t i = 0; i < end; i++)
		if (!frame_is_system_library(stack->frames[i]) &&
		    !frame_is_interpreter(stack->frames[i]))
			return named_caller(stack, i, end);
	return end && end == stack->frames_count ? stack->frames[0] : NULL;
}

/*
 * Small functions are inlined into those that call them: an accessor into a loop, and a loop into
 * main(). The place is the inlined one only if the function around it does hardly anything itself.
 */

/* A function that spends less of its time in its own code only calls others. */
#define OWN_SELF 0.20

/* The sum of samples of `inlined` within the code of `outer`. Twice the same frame: the sum of a
 * package's Python function and all that it calls. NULL: out of memory. */
static struct place_sum *sum_of(struct place_finder *finder, const struct profile_frame *outer,
				const struct profile_frame *inlined)
{
	const uintptr_t words[] = {(uintptr_t)outer->function, (uintptr_t)outer->file,
				   (uintptr_t)inlined->function, (uintptr_t)inlined->file};
	struct place_sum *sum =
		MAP64_ITEM(finder->by_frames, fnv1a(words, sizeof(words)), finder->sums);

	if (!sum)
		finder->err = -ENOMEM;
	return sum;
}

/* From an own frame outwards to the first own one that is not inlined. */
static size_t own_outermost(const struct profile_stack *stack, size_t own)
{
	for (size_t i = own; i + 1 < stack->frames_count; i++) {
		if (!location_is_own_native(stack->frames[i]))
			continue;
		own = i;
		if (stack->frames[i]->address != stack->frames[i + 1]->address ||
		    frame_is_same_function(stack->frames[i], stack->frames[i + 1]))
			break;
	}
	return own;
}

/* The program's own frames of a native stack, from the innermost one to that which the code of all
 * of them is part of. False: it has no source line of the program's own; then *inner is its place.
 */
static bool find_own(const struct profile_stack *stack, size_t *inner, size_t *outer)
{
	*inner = location_native(stack->frames, stack->frames_count);
	if (*inner == stack->frames_count || !location_is_own_native(stack->frames[*inner]))
		return false;
	*outer = own_outermost(stack, *inner);
	return true;
}

static void add_inlined(struct place_finder *finder, const struct profile_activity *sample)
{
	const struct profile_stack *stack = sample->stack;
	size_t inner, outer;

	if (sample->state != PERFX_SAMPLE_ON_CPU || !stack || stack_has_python(stack) ||
	    !find_own(stack, &inner, &outer))
		return;
	for (size_t i = inner; i <= outer; i++) {
		struct place_sum *sum;

		if (!location_is_own_native(stack->frames[i]))
			continue;
		sum = sum_of(finder, stack->frames[outer], stack->frames[i]);
		if (!sum)
			return;
		sum->all_ns += sample->ns;
		sum->self_ns += i == inner ? sample->ns : 0;
	}
}

/*
 * A worker, a package's command or a native program without line information has no line of the
 * program's own. Where its time is spread over many small functions, none of them is where it runs:
 * their common caller is.
 */

/* A function with this share of the CPU time stands for what it calls. */
#define AROUND_SHARE 0.50

/* Not a worker's loop or a decorator's wrapper, which may call anything. Beside Python, native
 * functions without a Python caller are those of pools, which run parts of all that Python calls.
 */
static bool may_stand_around(const struct place_finder *finder, const struct profile_frame *frame)
{
	const char *package;

	if (frame->language != PERFX_LANGUAGE_PYTHON)
		return !finder->has_python && frame->function[0] &&
		       !frame_is_system_library(frame) && !frame_is(frame, CODE_POOL_RUNTIME) &&
		       !frame_is(frame, CODE_THREAD_START);
	return !frame_is(frame, CODE_POOL_LOOP) && !strstr(frame->function, ".<locals>.") &&
	       location_package(frame->file, &package);
}

/* NULL: it does not stand for others, or out of memory. */
static struct place_sum *around_of(struct place_finder *finder, const struct profile_frame *frame)
{
	return may_stand_around(finder, frame) ? sum_of(finder, frame, frame) : NULL;
}

/* `number` counts samples from 1. */
static void add_around(struct place_finder *finder, const struct profile_activity *sample,
		       size_t number)
{
	const struct profile_stack *stack = sample->stack;

	if (sample->state != PERFX_SAMPLE_ON_CPU)
		return;
	finder->on_cpu_ns += sample->ns;
	if (!stack || location_own_python(stack->frames, stack->frames_count) < stack->frames_count)
		return;
	for (size_t i = 0; i < stack->frames_count && !finder->err; i++) {
		struct place_sum *sum = around_of(finder, stack->frames[i]);

		if (!sum || sum->seen == number)
			continue;
		sum->all_ns += sample->ns;
		sum->seen = number;
	}
}

/* The innermost of the functions that stand for what they call; `inner`, the innermost function,
 * where none does. */
static size_t around_place(struct place_finder *finder, const struct profile_stack *stack,
			   size_t inner)
{
	for (size_t i = inner; i < stack->frames_count; i++) {
		const struct place_sum *sum = around_of(finder, stack->frames[i]);

		if (sum && (double)sum->all_ns >= AROUND_SHARE * (double)finder->on_cpu_ns)
			return i;
	}
	return inner;
}

/* Helpers of other files, such as an accessor in a header, are never the place. */
static size_t own_native(struct place_finder *finder, const struct profile_stack *stack)
{
	size_t inner, outer, at;

	if (!find_own(stack, &inner, &outer))
		return around_place(finder, stack, inner);
	at = outer;
	for (size_t i = outer; i-- > inner;) {
		const struct place_sum *sum =
			sum_of(finder, stack->frames[outer], stack->frames[at]);

		if (!location_is_own_native(stack->frames[i]))
			continue;
		if (!sum || (double)sum->self_ns >= OWN_SELF * (double)sum->all_ns ||
		    strcmp(stack->frames[i]->file, stack->frames[at]->file) != 0)
			break;
		at = i;
	}
	return at;
}

struct account_place place_find(struct place_finder *finder, const struct profile_activity *sample,
				enum account_class class)
{
	const struct contexts *contexts = finder->contexts;
	const struct profile_stack *stack = sample->stack;
	struct account_place place = {.tid = sample->tid, .class = class};
	size_t python, own;

	if (context_is_call(contexts, sample->context) && context_of(contexts, sample->context))
		place.function = context_of(contexts, sample->context)->function;
	if (!stack || !stack->frames_count)
		return place;
	place.native = place_native(stack);
	python = stack_innermost_python(stack);
	/* a function of libc or the kernel, if Python calls nothing else: read() */
	if (!place.native && frame_is_system_library(stack->frames[0]))
		place.native = stack->frames[0];
	if (python == stack->frames_count) {
		own = own_native(finder, stack);
		if (own < stack->frames_count)
			place.own = stack->frames[own];
		if (own < stack->frames_count && own > 0)
			place.callee = stack->frames[own - 1];
		return place;
	}
	own = location_own_python(stack->frames, stack->frames_count);
	if (own < stack->frames_count)
		place.own = stack->frames[own];
	else
		python = around_place(finder, stack, python);
	place.python = stack->frames[python];
	return place;
}

int place_finder_begin(struct place_finder *finder, const struct contexts *contexts)
{
	const struct profile_activities *samples = &contexts->process->samples;

	*finder = (struct place_finder){.contexts = contexts};
	for (size_t i = 0; i < samples->count && !finder->has_python; i++)
		finder->has_python = stack_has_python(samples->list[i].stack);
	for (size_t i = 0; i < samples->count && !finder->err; i++) {
		add_inlined(finder, &samples->list[i]);
		add_around(finder, &samples->list[i], i + 1);
	}
	return finder->err;
}

void place_finder_clear(struct place_finder *finder)
{
	map64_clear(&finder->by_frames);
	free(finder->sums);
}
