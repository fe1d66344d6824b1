// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/stack_kind.h"

#include "base/syscalls.h"
#include "base/text.h"

#include <string.h>

bool frame_is_same_function(const struct profile_frame *a, const struct profile_frame *b)
{
	return !strcmp(a->function, b->function) && !strcmp(a->file, b->file) &&
	       a->language == b->language &&
	       (a->function[0] || !strcmp(a->module_base, b->module_base));
}

bool frame_is_same_line(const struct profile_frame *a, const struct profile_frame *b)
{
	return a->line == b->line && frame_is_same_function(a, b);
}

const char *frame_last_name(const struct profile_frame *frame)
{
	const char *dot = strrchr(frame->function, '.');

	return dot ? dot + 1 : frame->function;
}

bool frame_is_interpreter(const struct profile_frame *frame)
{
	return begins_with(frame->module_base, "python3") ||
	       begins_with(frame->module_base, "libpython3") ||
	       strstr(frame->module, "/lib-dynload/");
}

bool stack_has_function(const struct profile_stack *stack, const struct profile_frame *function)
{
	for (size_t i = 0; stack && i < stack->frames_count; i++)
		if (frame_is_same_function(stack->frames[i], function))
			return true;
	return false;
}

size_t stack_innermost_python(const struct profile_stack *stack)
{
	size_t i = 0;

	while (i < stack->frames_count && stack->frames[i]->language != PERFX_LANGUAGE_PYTHON)
		i++;
	return i;
}

bool stack_has_python(const struct profile_stack *stack)
{
	return stack && stack_innermost_python(stack) < stack->frames_count;
}

/* Numbers of system calls are below. */
#define SYSTEM_CALLS 512

bool frame_is_system_call(const struct profile_frame *frame)
{
	const char *name = frame->function, *call;

	if (!frame_is_system_library(frame))
		return false;
	if (begins_with(name, "__GI_"))
		name += strlen("__GI_");
	name += strspn(name, "_");
	if (begins_with(name, "libc_"))
		name += strlen("libc_");
	for (unsigned number = 0; number < SYSTEM_CALLS; number++) {
		call = syscall_name(number);
		if (call && !strcmp(call, name))
			return true;
	}
	return false;
}

bool stack_is_in_interpreter(const struct profile_stack *stack)
{
	size_t python = stack ? stack_innermost_python(stack) : 0;

	if (!stack || python == stack->frames_count)
		return false;
	for (size_t i = 0; i < python; i++)
		if (!frame_is_interpreter(stack->frames[i]) &&
		    !frame_is_system_library(stack->frames[i]))
			return false;
	return true;
}

bool stack_runs_python(const struct profile_stack *stack)
{
	return stack_is_in_interpreter(stack) && !frame_is_system_call(stack->frames[0]);
}

/* Collections while the interpreter ends are not counted: no step waits for them, and no setting
 * avoids them. */
bool stack_collects_garbage(const struct profile_stack *stack)
{
	bool collects = false;

	for (size_t i = 0; stack && i < stack->frames_count; i++) {
		const struct profile_frame *frame = stack->frames[i];

		if (!collects && frame->language == PERFX_LANGUAGE_PYTHON)
			return false;
		if (!frame_is_interpreter(frame))
			continue;
		if (frame_is(frame, CODE_INTERPRETER_END))
			return false;
		collects |= frame_is(frame, CODE_COLLECTOR);
	}
	return collects;
}

size_t stack_compiler(const struct profile_stack *stack)
{
	size_t i = stack ? stack->frames_count : 0;

	while (i-- > 0)
		if (frame_is(stack->frames[i], CODE_COMPILER))
			return i;
	return NO_COMPILER;
}
