// SPDX-License-Identifier: BSD-2-Clause
#include "replay_fixture.h"

/* What belongs to which line; whole reports of it: tests/golden/code.*. */

#define OUTER python_frame(0x7f0000001000, 3)
#define INNER python_frame(0x7f0000002000, 5)

static void begin(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 42, "python3", "python3\x1ftrain.py");
	stream_python_frame(s, 1, OUTER, "main", "/opt/train.py", 10);
	stream_python_frame(s, 1, INNER, "Model.forward", "/opt/train.py", 41);
	stream_frame(s, 1, 0x100, 0, "memset", "/lib/libc.so.6", 1, "memset.S", 7);
	stream_frame(s, 1, 0x200, 0, "fill", "/opt/a.so", 2, "/src/a.c", 70);
	stream_frame(s, 1, 0x300, 0, "start_thread", "/lib/libc.so.6", 3, "pthread_create.c", 9);
}

/* NULL: the process has no such line. */
static const struct profile_line *line_of(const struct profile_process *process,
					  const char *function)
{
	for (size_t i = 0; i < process->lines_count; i++)
		if (!strcmp(process->lines[i].function, function))
			return &process->lines[i];
	return NULL;
}

static void sample(struct stream *s, uint32_t stack, enum perfx_sample_state state)
{
	stream_sample(s, 1 * MS,
		      (struct perfx_sample){.interval_ns = 10 * MS,
					    .process = 1,
					    .tid = 42,
					    .stack = stack,
					    .state = (uint8_t)state});
}

/* The innermost line of each language; native ones of the C library only where there is no other,
 * and what starts a thread never. */
Test(lines, innermost_of_each_language)
{
	struct stream s = {0};
	const struct profile_process *process;
	struct aggregate *aggregate;

	begin(&s);
	stream_stack(&s, 1, 1, 0, 0x100, 0x200, INNER, OUTER, 0x300);
	stream_stack(&s, 1, 2, 0, 0x100, 0x300);
	stream_stack(&s, 1, 3, 0, 0x999, 0x300);
	sample(&s, 1, PERFX_SAMPLE_ON_CPU);
	sample(&s, 2, PERFX_SAMPLE_ON_CPU);
	sample(&s, 3, PERFX_SAMPLE_ON_CPU);
	sample(&s, 1, PERFX_SAMPLE_RUNNABLE);
	aggregate = replay(&s);
	process = only_process(aggregate);
	cr_assert_eq(process->lines_count, 3);
	cr_expect_eq(line_of(process, "Model.forward")->on_cpu_ns, 10 * MS);
	cr_expect_eq(line_of(process, "Model.forward")->off_cpu_ns, 10 * MS);
	cr_expect_eq(line_of(process, "Model.forward")->samples_count, 2);
	cr_expect_eq(line_of(process, "Model.forward")->calls_ns, 0);
	cr_expect_eq(line_of(process, "fill")->on_cpu_ns, 10 * MS);
	cr_expect_eq(line_of(process, "fill")->calls_ns, PROFILE_ABSENT);
	cr_expect_eq(line_of(process, "memset")->on_cpu_ns, 10 * MS);
	aggregate__free(aggregate);
}

/* A line of the standard library's headers is its caller's. */
Test(lines, of_the_program_before_those_of_headers)
{
	struct stream s = {0};
	const struct profile_process *process;
	struct aggregate *aggregate;

	begin(&s);
	stream_stack(&s, 1, 1, 0, 0x400, 0x300);
	stream_frame(&s, 1, 0x400, 0, "std::__push_heap", "/opt/a.so", 4,
		     "/usr/include/c++/12/bits/stl_heap.h", 139);
	stream_frame(&s, 1, 0x400, 1, "schedule", "/opt/a.so", 4, "/src/a.cc", 33);
	sample(&s, 1, PERFX_SAMPLE_ON_CPU);
	aggregate = replay(&s);
	process = only_process(aggregate);
	cr_assert_eq(process->lines_count, 1);
	cr_expect_eq(line_of(process, "schedule")->line, 33);
	aggregate__free(aggregate);
}

/* A tensor's bytes are in the heap, too: they count once. */
Test(lines, bytes_of_one_domain)
{
	static const struct stream_place tensor = {1, 42, 0, 1, 1, PERFX_DOMAIN_TENSOR},
					 heap = {1, 42, 0, 1, 2, PERFX_DOMAIN_HOST},
					 other = {1, 42, 0, 2, 2, PERFX_DOMAIN_HOST};
	struct stream s = {0};
	const struct profile_process *process;
	struct aggregate *aggregate;

	begin(&s);
	stream_allocator(&s, 1, PERFX_DOMAIN_TENSOR, "torch", "/opt/libc10.so");
	stream_allocator(&s, 2, PERFX_DOMAIN_HOST, "libc", "/lib/libc.so.6");
	stream_stack(&s, 1, 1, 0, 0x999, INNER, OUTER);
	stream_stack(&s, 1, 2, 0, 0x999, OUTER);
	stream_allocation(&s, &heap, 1 * MS, 0x1000, 4096 + 64, 0);
	stream_allocation(&s, &tensor, 1 * MS, 0x1000, 4096, 0);
	stream_allocation(&s, &other, 2 * MS, 0x9000, 100, 0);
	stream_allocation(&s, &other, 3 * MS, 0xa000, 200, 0);
	aggregate = replay(&s);
	process = only_process(aggregate);
	cr_expect_eq(line_of(process, "Model.forward")->domain, PERFX_DOMAIN_TENSOR);
	cr_expect_eq(line_of(process, "Model.forward")->alloc_bytes, 4096);
	cr_expect_eq(line_of(process, "main")->domain, PERFX_DOMAIN_HOST);
	cr_expect_eq(line_of(process, "main")->allocs_count, 2);
	cr_expect_eq(line_of(process, "main")->alloc_bytes, 300);
	aggregate__free(aggregate);
}

/* A range marks what lies in it; linear calls mm for its line. */
Test(lines, calls_by_the_line_that_made_them)
{
	struct stream s = {0};
	const struct profile_process *process;
	struct aggregate *aggregate;

	begin(&s);
	stream_add(&s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS("forward", "", ""),
		   .function = 1, .source = PERFX_SOURCE_NVTX, .flags = PERFX_FUNCTION_RANGE);
	stream_function(&s, 2, "linear", "/opt/a.so", PERFX_SOURCE_TORCH);
	stream_function(&s, 3, "mm", "/opt/a.so", PERFX_SOURCE_TORCH);
	stream_called_context(&s, 1, 0, 1, 1, OUTER, 0);
	stream_called_context(&s, 2, 1, 2, 1, INNER, 0);
	stream_context(&s, 3, 2, 3, 1);
	stream_called_context(&s, 4, 0, 3, 1, OUTER, 0);
	stream_call(&s, 3, 42, 2 * MS, 5 * MS, 5 * MS, 0);
	stream_call(&s, 2, 42, 1 * MS, 8 * MS, 3 * MS, 0);
	stream_call(&s, 1, 42, 0, 10 * MS, 2 * MS, 0);
	stream_call(&s, 4, 42, 20 * MS, 1 * MS, 1 * MS, 0);
	aggregate = replay(&s);
	process = only_process(aggregate);
	cr_expect_eq(line_of(process, "Model.forward")->calls_ns, 8 * MS);
	cr_expect_eq(line_of(process, "main")->calls_ns, 1 * MS);
	for (size_t i = 0; i < process->rows_count; i++) {
		const struct profile_row *row = &process->rows[i];

		if (row->function != 3)
			continue;
		cr_assert_eq(row->python_callers_count, 2);
		cr_expect_str_eq(row->python_callers[0].frame->function, "Model.forward");
		cr_expect_eq(row->python_callers[0].total_ns, 5 * MS);
		cr_expect_str_eq(row->python_callers[1].frame->function, "main");
		cr_expect_eq(row->python_callers[1].calls_count, 1);
	}
	aggregate__free(aggregate);
}

Test(lines, how_whole_stacks_are)
{
	struct stream s = {0};
	const struct profile_stack_quality *quality;
	struct aggregate *aggregate;

	begin(&s);
	stream_stack(&s, 1, 1,
		     PERFX_STACK_COMPLETE | PERFX_STACK_ENDED(PERFX_STACK_END_START) |
			     PERFX_STACK_GUESSED,
		     0x100, 0x300);
	stream_stack(&s, 1, 2, PERFX_STACK_CUT | PERFX_STACK_ENDED(PERFX_STACK_END_DEPTH), 0x200);
	stream_stack(&s, 1, 3, PERFX_STACK_ENDED(77), 0x100, INNER);
	for (uint32_t i = 0; i < 6; i++)
		sample(&s, 1 + i / 3, PERFX_SAMPLE_ON_CPU);
	sample(&s, 3, PERFX_SAMPLE_ON_CPU);
	aggregate = replay(&s);
	quality = &only_process(aggregate)->stacks;
	cr_expect(quality->known);
	cr_expect_eq(quality->taken_count, 7);
	cr_expect_eq(quality->complete_count, 3);
	cr_expect_eq(quality->guessed_count, 3);
	cr_expect_eq(quality->cut_count, 3);
	cr_assert_eq(quality->ends_count, 2);
	cr_expect_eq(quality->ends[0].end, PERFX_STACK_END_DEPTH);
	cr_expect_str_eq(quality->ends[0].module_base, "a.so");
	cr_expect_eq(quality->ends[1].end, PERFX_STACK_END_UNKNOWN, "of a later version");
	cr_expect_str_eq(quality->ends[1].module_base, PROFILE_INTERPRETER);
	aggregate__free(aggregate);
}

/* Of a capture of before, nothing is said of its stacks. */
Test(lines, stacks_of_earlier_captures)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	begin(&s);
	stream_stack(&s, 1, 1, 0, 0x100);
	sample(&s, 1, PERFX_SAMPLE_ON_CPU);
	aggregate = replay(&s);
	cr_expect_not(only_process(aggregate)->stacks.known);
	aggregate__free(aggregate);
}
