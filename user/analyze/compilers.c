// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/compilers.h"

#include "base/text.h"

#include <fnmatch.h>
#include <string.h>

/* The framework's Python that does it. */
static const struct compiler {
	const char *folder, *file, *function;
} compilers[] = {
	{"/torch/", "convert_frame.py", "*"},
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
		    !fnmatch(compilers[i].function, frame->function, 0))
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
