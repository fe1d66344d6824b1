// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/collector.h"

#include "base/text.h"

#include <string.h>

/* Releases 3.8 to 3.14 and those without the GIL: "gc_collect_main", "gc_collect_impl",
 * "gc_collect_young", … Debuggers and compilers may add ".constprop.0", ".part.0". */
static bool is_collector(const struct profile_frame *frame)
{
	static const char *const prefixes[] = {"gc_collect",   "collect_with_callback",
					       "PyGC_Collect", "collect_generations",
					       "_Py_RunGC",    "_PyGC_Collect"};

	if (!begins_with(frame->module_base, "python3") &&
	    !begins_with(frame->module_base, "libpython3"))
		return false;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (begins_with(frame->function, prefixes[i]))
			return true;
	return false;
}

bool stack_collects_garbage(const struct profile_stack *stack)
{
	for (size_t i = 0; stack && i < stack->frames_count; i++) {
		if (stack->frames[i]->language == PERFX_LANGUAGE_PYTHON)
			return false;
		if (is_collector(stack->frames[i]))
			return true;
	}
	return false;
}
