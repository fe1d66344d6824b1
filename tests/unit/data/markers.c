/* SPDX-License-Identifier: BSD-2-Clause */
/* Compiled by test_markers.c as C and as C++ with every compiler that it finds: each marker of
 * perfx.h, in two files of which the other is markers_other.c. */
#include "markers.h"
#include "perfx.h"

static int scoped(int count)
{
	PERFX_TRACK();
	PERFX_SCOPE("outer");
	for (int i = 0; i < count; i++) {
		/* clang-format off */
		PERFX_SCOPE("inner"); PERFX_SCOPE("in the same line");
		/* clang-format on */
		perfx_flops(7);
		if (i == 3)
			return i;
	}
	return count;
}

/* Taken by address, as a table of callbacks would. */
static void (*const step[])(void) = {perfx_step_begin, perfx_step_end};

#if defined(NEVER_CALLED)
void dead(void);
void dead(void)
{
	perfx_memory_alloc("nobody", 0, 1);
}
#endif

int main(int argc, char **argv)
{
	uint64_t first, second;

	perfx_range_push(argv[0]);
	perfx_range_push_in("task", 5);
	perfx_range_pop();
	perfx_range_pop();
	first = perfx_range_start("first");
	second = other_range(first);
	perfx_range_end(second);
	perfx_range_end(first);
	perfx_mark("mark");
	perfx_mark((const char *)0); /* nobody looks at it here */
	perfx_mark((const char *)16);
	perfx_counter("counter", -1.5 * argc);
	perfx_counter_add("added", argc);
#if !defined(NEVER_CALLED)
	perfx_memory_alloc("pool", argv, sizeof(*argv));
#endif
	perfx_memory_free("pool", argv);
	for (int i = 0; i < 2; i++)
		step[i]();
	perfx_trace_start();
	perfx_trace_stop();
	return !first || !second || first == second || scoped(2) != 2 || scoped(9) != 3;
}
