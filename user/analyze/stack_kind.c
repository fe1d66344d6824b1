// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/stack_kind.h"

#include "base/syscalls.h"
#include "base/text.h"
#include "elf/glob.h"

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

bool frame_function_matches(const struct profile_frame *frame, const char *const *globs)
{
	for (size_t i = 0; globs[i]; i++)
		if (glob_matches(globs[i], frame->function))
			return true;
	return false;
}

bool frame_is_workers_loop(const struct profile_frame *frame)
{
	static const struct {
		const char *function, *files;
	} loops[] = {
		{"worker", "*/multiprocessing/pool.py"},
		{"_process_worker", "*/process*.py"},
		{"_worker", "*/concurrent/futures/thread.py"},
		{"main_loop", "*/ray/_private/worker.py"},
	};

	for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++)
		if (!strcmp(frame_last_name(frame), loops[i].function))
			return glob_matches(loops[i].files, frame->file);
	return false;
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

bool stack_imports(const struct profile_stack *stack)
{
	for (size_t i = 0; stack && i < stack->frames_count; i++)
		if (begins_with(stack->frames[i]->file, "<frozen importlib."))
			return true;
	return false;
}

bool frame_asks_pipeline(const struct profile_frame *frame)
{
	return frame->language == PERFX_LANGUAGE_PYTHON &&
	       begins_with(frame_last_name(frame), "iterator_get_next");
}

/* Python's own queues, what reads from them, and tf.data's iterators: a lock or a poll there waits
 * for input. */
static bool is_input_function(const struct profile_frame *frame)
{
	static const char *const files[] = {"queue.py", "queues.py", "connection.py",
					    "dataloader.py", NULL};
	static const char *const functions[] = {"get",		 "recv",       "recv_bytes",
						"__next__",	 "_next_data", "_get_data",
						"_try_get_data", NULL};

	if (frame_asks_pipeline(frame))
		return true;
	return frame->language == PERFX_LANGUAGE_PYTHON &&
	       text_is_one_of(base_name(frame->file), files) &&
	       text_is_one_of(frame_last_name(frame), functions);
}

bool stack_reads_input(const struct profile_stack *stack)
{
	for (size_t i = 0; stack && i < stack->frames_count; i++)
		if (is_input_function(stack->frames[i]))
			return true;
	return false;
}

bool stack_puts_into_queue(const struct profile_stack *stack)
{
	static const char *const files[] = {"queue.py", "queues.py", NULL};

	for (size_t i = 0; stack && i < stack->frames_count; i++)
		if (stack->frames[i]->language == PERFX_LANGUAGE_PYTHON &&
		    text_is_one_of(base_name(stack->frames[i]->file), files) &&
		    !strcmp(frame_last_name(stack->frames[i]), "put"))
			return true;
	return false;
}

bool stack_takes_from_queue(const struct profile_stack *stack)
{
	/* a loader that has no workers is in the others */
	static const char *const of_workers[] = {"_get_data", "_try_get_data", NULL};

	for (size_t i = 0; stack && i < stack->frames_count; i++) {
		const struct profile_frame *frame = stack->frames[i];

		if (is_input_function(frame) &&
		    (strcmp(base_name(frame->file), "dataloader.py") != 0 ||
		     text_is_one_of(frame_last_name(frame), of_workers)))
			return true;
	}
	return false;
}

bool stack_takes_from_pipeline(const struct profile_stack *stack)
{
	for (size_t i = 0; stack && i < stack->frames_count; i++)
		if (begins_with(stack->frames[i]->function,
				"tensorflow::data::IteratorResource::GetNext"))
			return true;
	return false;
}

/* Libraries of collectives, and PyTorch's part around them. */
static bool is_collective(const struct profile_frame *frame)
{
	static const char *const libraries[] = {"libnccl", "librccl", "libgloo",
						"libmpi",  "libccl.", NULL};

	if (begins_with(frame->function, "c10d::"))
		return true;
	return text_begins_with_one_of(frame->module_base, libraries);
}

bool stack_communicates(const struct profile_stack *stack)
{
	for (size_t i = 0; stack && i < stack->frames_count; i++)
		if (is_collective(stack->frames[i]))
			return true;
	return false;
}

/* Releases 3.8 to 3.14 and those without the GIL: "gc_collect_main", "gc_collect_impl",
 * "gc_collect_young", … Debuggers and compilers may add ".constprop.0", ".part.0". */
static bool is_collector(const struct profile_frame *frame)
{
	static const char *const prefixes[] = {"gc_collect",
					       "collect_with_callback",
					       "PyGC_Collect",
					       "collect_generations",
					       "_Py_RunGC",
					       "_PyGC_Collect",
					       NULL};

	return text_begins_with_one_of(frame->function, prefixes);
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
		if (begins_with(frame->function, "Py_Finalize"))
			return false;
		collects |= is_collector(frame);
	}
	return collects;
}

/* The framework's Python that does it. */
static const struct compiler {
	const char *folder, *file, *function;
} compilers[] = {
	{"/torch/", "convert_frame.py", "*"},
	{"/torch/", "cpp_extension.py", "*"},
	{"/torch/", "cpp_builder.py", "*"},
	{"/triton/", "jit.py", "*compile*"},
	{"/triton/", "compiler.py", "*"},
	{"/numba/", "dispatcher.py", "*compile*"},
	{"/jax/", "partial_eval.py", "trace_to_jaxpr*"},
	{"/jax/", "pjit.py", "_pjit_lower*"},
	{"/jax/", "pxla.py", "lower_*"},
	{"/jax/", "pxla.py", "*.compile"},
	{"/jax/", "mlir.py", "lower_jaxpr*"},
	{"/jax/", "compiler.py", "*compile*"},
	{"/tensorflow/", "tracing_compilation.py", "_create_concrete_function"},
};

static bool is_compiler(const struct profile_frame *frame)
{
	const char *base;

	if (frame->language != PERFX_LANGUAGE_PYTHON)
		return false;
	base = base_name(frame->file);
	for (size_t i = 0; i < sizeof(compilers) / sizeof(compilers[0]); i++)
		if (!strcmp(base, compilers[i].file) && strstr(frame->file, compilers[i].folder) &&
		    glob_matches(compilers[i].function, frame->function))
			return true;
	return false;
}

size_t stack_compiler(const struct profile_stack *stack)
{
	size_t i = stack ? stack->frames_count : 0;

	while (i-- > 0)
		if (is_compiler(stack->frames[i]))
			return i;
	return NO_COMPILER;
}
