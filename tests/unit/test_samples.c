// SPDX-License-Identifier: BSD-2-Clause
#include "replay_fixture.h"

/* Samples and waits of one process with a Python program in it. */

#define TRAIN python_frame(0x7f0000001000, 12)

static void begin(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 4242, "python3", "python3\x1ftrain.py");
}

Test(samples, alike_ones_are_one_row)
{
	struct stream s = {0};
	const struct perfx_sample running = {.interval_ns = 10 * MS,
					     .process = 1,
					     .tid = 4242,
					     .stack = 3,
					     .state = PERFX_SAMPLE_ON_CPU};
	struct perfx_sample waiting = running;
	const struct profile_activity *rows;
	struct aggregate *aggregate;

	begin(&s);
	stream_stack(&s, 1, 3, PERFX_STACK_COMPLETE | PERFX_STACK_PC, TRAIN, 0x5555);
	stream_sample(&s, 1 * MS, running);
	stream_sample(&s, 11 * MS, running);
	waiting.state = PERFX_SAMPLE_WAITING;
	waiting.reason = PERFX_WAIT_GIL;
	waiting.holder_tid = 4243;
	stream_sample(&s, 21 * MS, waiting);
	stream_python_frame(&s, 1, TRAIN, "Model.forward", "/opt/train.py", 41);
	aggregate = replay(&s);
	cr_assert_eq(only_process(aggregate)->samples.count, 2);
	rows = only_process(aggregate)->samples.list;
	cr_expect_eq(rows[0].count, 2);
	cr_expect_eq(rows[0].ns, 20 * MS);
	cr_expect_eq(rows[0].state, PERFX_SAMPLE_ON_CPU);
	cr_expect_eq(rows[1].reason, PERFX_WAIT_GIL);
	cr_expect_eq(rows[1].holder_tid, 4243);
	cr_assert_eq(rows[0].stack->frames_count, 2);
	cr_expect_eq(rows[0].stack->frames[0]->language, PERFX_LANGUAGE_PYTHON);
	cr_expect_str_eq(rows[0].stack->frames[0]->function, "Model.forward");
	cr_expect_eq(rows[0].stack->frames[0]->line, 41);
	cr_expect_eq(rows[0].stack->frames[1]->language, PERFX_LANGUAGE_NATIVE);
	cr_expect_eq(aggregate__finish(aggregate)->losses[PERFX_LOSS_UNDECODED], 0);
	aggregate__free(aggregate);
}

Test(samples, waits_add_up_and_their_objects_have_names)
{
	struct stream s = {0};
	const struct profile_activity *rows;
	struct aggregate *aggregate;

	begin(&s);
	stream_wait_object(&s, 1, PERFX_WAIT_READ, 77, "pipe:[1234]");
	stream_wait_object(&s, 1, PERFX_WAIT_WRITE, 77, "/data/out.bin");
	for (int segment = 0; segment < 2; segment++) {
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
			     .tid = 4242, .reason = PERFX_WAIT_READ, .object = 77,
			     .blocked_ns = 200 * MS, .count = 3,
			     .max_ns = (90 + 10 * (uint64_t)segment) * MS);
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
			     .tid = 4243, .reason = PERFX_WAIT_SYSCALL, .syscall = 231,
			     .blocked_ns = 1 * MS, .count = 1, .max_ns = 1 * MS);
		stream_plain(&s, PERFX_KIND_SEGMENT, struct perfx_segment,
			     .time_ns = STREAM_START + 1 * S);
	}
	aggregate = replay(&s);
	cr_assert_eq(only_process(aggregate)->blocked.count, 2);
	rows = only_process(aggregate)->blocked.list;
	cr_expect_eq(rows[0].ns, 400 * MS);
	cr_expect_eq(rows[0].count, 6);
	cr_expect_eq(rows[0].max_ns, 100 * MS);
	cr_expect_str_eq(rows[0].object_name, "pipe:[1234]");
	cr_expect_eq(rows[1].syscall, 231);
	cr_expect_str_eq(rows[1].object_name, "");
	aggregate__free(aggregate);
}

/* Whose CPU it was goes by name: a build's many processes are one. */
Test(samples, those_who_had_the_cpu_are_one_by_name)
{
	struct stream s = {0};
	const struct profile_activity *rows;
	struct aggregate *aggregate;

	begin(&s);
	for (uint64_t pid = 900; pid < 903; pid++) {
		stream_wait_object(&s, 1, PERFX_WAIT_RUNNABLE, pid, pid < 902 ? "cc1" : "make");
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
			     .tid = 4242, .reason = PERFX_WAIT_RUNNABLE, .object = pid,
			     .blocked_ns = pid * MS, .count = 2, .max_ns = pid);
	}
	aggregate = replay(&s);
	cr_assert_eq(only_process(aggregate)->blocked.count, 2);
	rows = only_process(aggregate)->blocked.list;
	cr_expect_str_eq(rows[0].object_name, "cc1");
	cr_expect_eq(rows[0].ns, (900 + 901) * MS);
	cr_expect_eq(rows[0].count, 4);
	cr_expect_eq(rows[0].max_ns, 901);
	cr_expect_str_eq(rows[1].object_name, "make");
	aggregate__free(aggregate);
}

static void add_process(struct stream *s, uint32_t process, uint32_t pid, uint32_t ppid,
			const char *comm)
{
	stream_add(s, PERFX_KIND_PROCESS, struct perfx_process, STRINGS(comm, comm),
		   .time_ns = STREAM_START, .start_boot_ns = 40 * S, .process = process, .pid = pid,
		   .ppid = ppid);
}

static void had_the_cpu(struct stream *s, uint32_t tid, uint32_t pid, const char *comm,
			uint64_t blocked_ms)
{
	stream_wait_object(s, 1, PERFX_WAIT_RUNNABLE, pid, comm);
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = tid,
		     .reason = PERFX_WAIT_RUNNABLE, .object = pid, .blocked_ns = blocked_ms * MS,
		     .count = 1, .max_ns = 1 * MS);
}

/* A name does not tell whose a process is: a stranger may have that of the traced one. */
Test(samples, rivals_are_told_apart_by_pid)
{
	static const struct {
		uint32_t pid;
		const char *name;
		enum profile_rival_kind kind;
		uint64_t ms;
	} expected[] = {
		{4242, "python3", PROFILE_RIVAL_OWN, 90},
		{900, "python3", PROFILE_RIVAL_OTHER, 80},
		{4300, "cc1", PROFILE_RIVAL_JOB, 70},	    /* grandchild */
		{5000, "python3", PROFILE_RIVAL_OTHER, 60}, /* traced, and adopted by init */
		{901, "python3", PROFILE_RIVAL_OTHER, 50},
		{902, "perfx-trace itself", PROFILE_RIVAL_TRACER, 40},
		{903, "perfx-trace", PROFILE_RIVAL_OTHER, 30}, /* another one */
	};
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile_process *process;

	begin(&s);
	add_process(&s, 2, 4299, 4242, "make");
	add_process(&s, 3, 4300, 4299, "cc1");
	add_process(&s, 4, 5000, 1, "python3");
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		had_the_cpu(&s, 4242, expected[i].pid, expected[i].name, expected[i].ms / 2);
		had_the_cpu(&s, 4243, expected[i].pid, expected[i].name, expected[i].ms / 2);
	}
	aggregate = replay(&s);
	process = &aggregate__finish(aggregate)->processes[0];
	cr_assert_eq(process->rivals_count, sizeof(expected) / sizeof(expected[0]));
	for (size_t i = 0; i < process->rivals_count; i++) {
		cr_expect_eq(process->rivals[i].pid, expected[i].pid);
		cr_expect_str_eq(process->rivals[i].name, expected[i].name);
		cr_expect_eq(process->rivals[i].kind, expected[i].kind, "%u", expected[i].pid);
		cr_expect_eq(process->rivals[i].ns, expected[i].ms * MS);
	}
	/* three strangers of one name are one row of a thread, of that with the most time */
	cr_assert_eq(process->blocked.count, 2 * 5);
	cr_expect_eq(process->blocked.list[0].object, 900);
	cr_expect_eq(process->blocked.list[0].rivals_count, 3);
	cr_expect_eq(process->blocked.list[0].ns, (80 + 60 + 50) / 2 * MS);
	aggregate__free(aggregate);
}

/* Two jobs of 2,500 processes, each a binary tree. */
Test(samples, jobs_of_thousands_of_processes)
{
	enum { COUNT = 5000, ROOTS = 10001 };
	struct stream s = {0};
	struct aggregate *aggregate;
	const struct profile *profile;
	size_t wrong_count = 0;

	stream_host(&s);
	for (uint32_t i = 0; i < COUNT; i++)
		add_process(&s, i + 1, ROOTS + i, i < 2 ? 100 + i : ROOTS + (i - 2) / 4 * 2 + i % 2,
			    i < 2 ? "root" : "worker");
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	cr_assert_eq(profile->processes_count, COUNT);
	FOR_EACH (a, profile->processes)
		for (size_t i = 0; i < COUNT; i += 97) {
			const struct profile_process *b = &profile->processes[i];

			wrong_count +=
				profile_is_same_job(profile, a, b) != (a->pid % 2 == b->pid % 2);
		}
	cr_expect_eq(wrong_count, 0);
	aggregate__free(aggregate);
}

Test(samples, of_whom_is_not_known_are_undecoded)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	begin(&s);
	stream_sample(&s, 0, (struct perfx_sample){.state = PERFX_SAMPLE_ON_CPU});
	stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .reason = PERFX_WAIT_READ);
	stream_add(&s, PERFX_KIND_PYTHON, struct perfx_python, STRINGS("3.11.2", ""));
	aggregate = replay(&s);
	cr_expect_eq(aggregate__finish(aggregate)->losses[PERFX_LOSS_UNDECODED], 3);
	cr_expect_eq(only_process(aggregate)->samples.count, 0);
	aggregate__free(aggregate);
}

Test(samples, how_they_were_taken)
{
	struct stream s = {0};
	const struct profile *profile;
	struct aggregate *aggregate;

	begin(&s);
	stream_add(&s, PERFX_KIND_SAMPLING, struct perfx_sampling, STRINGS(""),
		   .on_cpu_interval_ns = 10 * MS, .stacks = PERFX_STACKS_UNWIND);
	stream_add(&s, PERFX_KIND_PYTHON, struct perfx_python, STRINGS("3.13.1t", "free-threaded"),
		   .process = 1);
	stream_plain(&s, PERFX_KIND_LOSS, struct perfx_loss, .loss = PERFX_LOSS_SAMPLE_DROPS,
		     .process = 1, .count = 5);
	aggregate = replay(&s);
	profile = aggregate__finish(aggregate);
	cr_expect(profile->sampling_known);
	cr_expect_eq(profile->sampling.on_cpu_interval_ns, 10 * MS);
	cr_expect_eq(profile->sampling.stacks, PERFX_STACKS_UNWIND);
	cr_expect_str_eq(profile->sampling.why, "");
	cr_expect_str_eq(profile->processes[0].python_why, "free-threaded");
	cr_expect_eq(profile->processes[0].samples_lost, 5);
	cr_expect(profile->partial & PROFILE_PARTIAL_LOSSY);
	aggregate__free(aggregate);
}

Test(samples, who_in_python_called_and_how_long_it_waited)
{
	struct stream s = {0};
	const struct profile_process *process;
	struct perfx_span span = {.start_ns = STREAM_START,
				  .duration_ns = 10 * MS,
				  .self_ns = 10 * MS,
				  .context = 1,
				  .tid = 4242};
	struct aggregate *aggregate;

	begin(&s);
	stream_function(&s, 1, "at::mm", "/opt/libtorch.so", PERFX_SOURCE_TORCH);
	stream_stack(&s, 1, 9, PERFX_STACK_COMPLETE, 0x1111, TRAIN);
	stream_called_context(&s, 1, 0, 1, 1, TRAIN, 9);
	stream_span(&s, &span);
	span.off_cpu_ns = 4 * MS;
	stream_span(&s, &span);
	stream_python_frame(&s, 1, TRAIN, "Model.forward", "/opt/train.py", 41);
	aggregate = replay(&s);
	process = only_process(aggregate);
	cr_expect_eq(process->rows[0].off_cpu_ns, 4 * MS);
	cr_assert_not_null(process->contexts[0].caller);
	cr_expect_str_eq(process->contexts[0].caller->function, "Model.forward");
	cr_assert_not_null(process->contexts[0].stack);
	cr_expect_eq(process->contexts[0].stack->frames_count, 2);
	aggregate__free(aggregate);
}

/* A capture of before waits were measured says nothing of them. */
Test(samples, off_cpu_time_is_absent_where_none_was_measured)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	begin(&s);
	stream_function(&s, 1, "f", "/opt/a.so", PERFX_SOURCE_SYMBOL);
	stream_context(&s, 1, 0, 1, 1);
	stream_call(&s, 1, 4242, 0, 10 * MS, 10 * MS, 0);
	aggregate = replay(&s);
	cr_expect_eq(only_process(aggregate)->rows[0].off_cpu_ns, PROFILE_ABSENT);
	cr_expect_not(aggregate__finish(aggregate)->sampling_known);
	aggregate__free(aggregate);
}
