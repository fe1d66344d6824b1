// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/dump.h"
#include "replay_fixture.h"
#include "report/dump.h"

#include <signal.h>
#include <stdlib.h>

enum { TRAIN = 1, WORKER_A, WORKER_B };

static void state(struct stream *s, const char *comm, struct perfx_thread_state record)
{
	if (!record.time_ns)
		record.time_ns = STREAM_START + 10 * MS;
	if (!record.fd)
		record.fd = -1;
	stream_put(s, PACK(&s->buffer, PERFX_KIND_THREAD_STATE, record, comm));
}

static void target(struct stream *s, const char *text, struct perfx_wait_target record)
{
	if (!record.time_ns)
		record.time_ns = STREAM_START + 10 * MS;
	stream_put(s, PACK(&s->buffer, PERFX_KIND_WAIT_TARGET, record, text));
}

static void sampling(struct stream *s)
{
	stream_add(s, PERFX_KIND_SAMPLING, struct perfx_sampling, STRINGS(""),
		   .on_cpu_interval_ns = 4 * MS, .stacks = PERFX_STACKS_UNWIND);
}

static void end(struct stream *s)
{
	stream_plain(s, PERFX_KIND_END, struct perfx_end, .time_ns = STREAM_START + 50 * MS,
		     .flags = PERFX_END_DUMP);
}

/* Each process has its own addresses for the same code. */
static void stack(struct stream *s, uint32_t process, uint32_t id, const char *function,
		  uint32_t line)
{
	uint64_t at = 0x1000 * process + 16 * id;
	uint64_t addresses[] = {at, python_frame(at, 4)};

	stream_put_stack(s, process, id, PERFX_STACK_COMPLETE, addresses, 2);
	stream_frame(s, process, at, 0, "read", "/lib/libc.so.6", 0x77, "", 0);
	stream_python_frame(s, process, python_frame(at, 4), function, "/src/train.py", line);
}

/* A trainer with a pool of two threads, and two workers of one command line. */
static void scene(struct stream *s)
{
	stream_host(s);
	sampling(s);
	stream_process(s, TRAIN, 100, "train", "train");
	for (uint32_t process = WORKER_A; process <= WORKER_B; process++)
		stream_add(s, PERFX_KIND_PROCESS, struct perfx_process, STRINGS("worker", "train"),
			   .time_ns = STREAM_START, .start_boot_ns = 40 * S, .process = process,
			   .pid = 100 * process, .ppid = 100);
	stack(s, TRAIN, 1, "main", 41);
	stack(s, TRAIN, 2, "rest", 7);
	stack(s, WORKER_A, 1, "load", 12);
	stack(s, WORKER_B, 1, "load", 12);
	state(s, "train",
	      (struct perfx_thread_state){.process = TRAIN,
					  .tid = 100,
					  .since_ns = STREAM_START - 2 * S + 10 * MS,
					  .stack = 1,
					  .state = 'S',
					  .reason = PERFX_WAIT_READ,
					  .fd = 3,
					  .flags = PERFX_THREAD_STATE_EXACT});
	target(s, "pipe:[7] from worker (pid 200)",
	       (struct perfx_wait_target){
		       .process = TRAIN, .tid = 100, .pid = 200, .kind = PERFX_TARGET_PIPE});
	for (uint32_t tid = 101; tid <= 102; tid++)
		state(s, "pool",
		      (struct perfx_thread_state){.process = TRAIN,
						  .tid = tid,
						  .since_ns =
							  STREAM_START - (tid - 80) * S + 10 * MS,
						  .stack = 2,
						  .state = 'S',
						  .reason = PERFX_WAIT_FUTEX,
						  .object = 0x1000 + tid,
						  .flags = PERFX_THREAD_STATE_EXACT});
	for (uint32_t process = WORKER_A; process <= WORKER_B; process++)
		state(s, "worker",
		      (struct perfx_thread_state){.process = process,
						  .tid = 100 * process,
						  .since_ns = STREAM_START - 3 * S + 10 * MS,
						  .stack = 1,
						  .state = 'D',
						  .reason = PERFX_WAIT_DISK});
}

static char *text_of(struct stream *s)
{
	struct aggregate *aggregate = replay(s);
	const struct profile *profile = aggregate__finish(aggregate);
	struct dump *dump = dump__new(profile);
	struct report_options options = {0};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	cr_assert(dump);
	cr_assert(aggregate__is_dump(aggregate));
	cr_assert_eq(dump_write_text(out, profile, dump, &options), 0);
	fclose(out);
	dump__free(dump);
	aggregate__free(aggregate);
	return text;
}

static void expect(struct stream *s, const char *wanted)
{
	char *text = text_of(s);

	cr_assert_str_eq(text, wanted, "%s", text);
	free(text);
}

static void expect_first(struct stream *s, const char *wanted)
{
	char *text = text_of(s), *line = strchr(text, '\n');

	/* the first paragraph, in one line */
	for (; line && line[1] != '\n' && line[1]; line = strchr(line, '\n'))
		*line = ' ';
	*line = '\0';
	cr_assert_str_eq(text, wanted, "%s", text);
	free(text);
}

/* Threads that do the same are one group, in processes that do the same work, too. The chain of
 * waits goes on to the worker. */
Test(dump, alike_threads_are_one_group)
{
	struct stream s = {0};

	scene(&s);
	end(&s);
	expect(&s,
	       "WAITS FOR pipe:[7] from worker (pid 200), for 2.00 s: thread train (100) in main "
	       "(train.py:41); it\n"
	       "depends on thread worker (200) in load (train.py:12), which waits for disk, for at "
	       "most 3.00 s\n"
	       "\n"
	       "train (pid 100), 3 threads\n"
	       "\n"
	       "train (100) waits for pipe:[7] from worker (pid 200), for 2.00 s\n"
	       "    read (libc.so.6)\n"
	       "    main (train.py:41)\n"
	       "\n"
	       "Each of 2 threads waits for a lock or a condition, for 22.0 s: pool (101), "
	       "pool (102)\n"
	       "    read (libc.so.6)\n"
	       "    rest (train.py:7)\n"
	       "\n"
	       "2 processes: train (pids 200, 300), 2 threads\n"
	       "\n"
	       "Each of 2 threads waits for disk, for at most 3.00 s: worker (200), worker (300)\n"
	       "    read (libc.so.6)\n"
	       "    load (train.py:12)\n");
}

/* A thread on a CPU that only waits there does not compute. */
/* The train's main thread ran at the moment of a later dump, with so many samples of a stack; ends
 * the stream. */
static void main_thread_on_cpu(struct stream *s, uint32_t stack, unsigned samples_count)
{
	for (unsigned i = 0; i < samples_count; i++)
		stream_sample(s, 20 * MS,
			      (struct perfx_sample){.interval_ns = 4 * MS,
						    .process = TRAIN,
						    .tid = 100,
						    .stack = stack,
						    .state = PERFX_SAMPLE_ON_CPU});
	state(s, "train",
	      (struct perfx_thread_state){.time_ns = STREAM_START + 20 * MS,
					  .process = TRAIN,
					  .tid = 100,
					  .state = 'R',
					  .flags = PERFX_THREAD_STATE_ON_CPU});
	end(s);
}

Test(dump, a_main_thread_that_spins)
{
	struct stream s = {0};

	scene(&s);
	stream_stack(&s, TRAIN, 9, PERFX_STACK_COMPLETE | PERFX_STACK_PC, 0x9000);
	stream_frame(&s, TRAIN, 0x9000, 0, "sched_yield", "/lib/libc.so.6", 0x77, "", 0);
	main_thread_on_cpu(&s, 9, 1);
	expect_first(&s, "SPINS: 1 of 5 threads only waits, on a CPU: thread train (100) in "
			 "sched_yield (libc.so.6)");
}

/* A later record of a thread replaces the one before, and the target that belongs to that. */
Test(dump, the_last_state_counts)
{
	struct stream s = {0};

	scene(&s);
	main_thread_on_cpu(&s, 2, 3);
	expect_first(&s, "COMPUTES: 1 of 5 threads: thread train (100) in rest (train.py:7)");
}

Test(dump, a_stopped_process_comes_first)
{
	static const struct {
		uint32_t tracer_pid, flags;
		uint64_t signal;
		const char *wanted;
	} cases[] = {
		{4711, 0, SIGSTOP,
		 "STOPPED: 1 of 5 threads: worker (pid 200) is stopped by pid 4711, which traces "
		 "it "
		 "(ptrace)"},
		{0, PERFX_THREAD_STATE_FROZEN, 0,
		 "STOPPED: 1 of 5 threads: worker (pid 200) is frozen: its cgroup's freezer is on"},
		{0, 0, SIGTTIN,
		 "STOPPED: 1 of 5 threads: worker (pid 200) is stopped: it reads from the terminal "
		 "from the background (SIGTTIN): fg lets it go on"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stream s = {0};

		scene(&s);
		state(&s, "worker",
		      (struct perfx_thread_state){.time_ns = STREAM_START + 20 * MS,
						  .process = WORKER_A,
						  .tid = 200,
						  .state = 'T',
						  .reason = PERFX_WAIT_STOPPED,
						  .object = cases[i].signal,
						  .flags = cases[i].flags,
						  .tracer_pid = cases[i].tracer_pid});
		end(&s);
		expect_first(&s, cases[i].wanted);
	}
}

/* A thread that could run is no hang, whichever it is. */
Test(dump, a_thread_without_a_cpu)
{
	struct stream s = {0};

	scene(&s);
	state(&s, "pool",
	      (struct perfx_thread_state){.time_ns = STREAM_START + 20 * MS,
					  .since_ns = STREAM_START - 10 * MS,
					  .process = TRAIN,
					  .tid = 101,
					  .stack = 2,
					  .state = 'R',
					  .reason = PERFX_WAIT_RUNNABLE,
					  .flags = PERFX_THREAD_STATE_THROTTLED |
						   PERFX_THREAD_STATE_EXACT});
	end(&s);
	expect_first(&s, "THROTTLED (cpu.max): thread pool (101) of train (pid 100) in rest "
			 "(train.py:7), for 30.0 ms");
}

/* Both locks and lines are in the answer. */
Test(dump, a_deadlock_is_the_answer)
{
	struct stream s = {0};

	scene(&s);
	for (uint32_t tid = 101; tid <= 102; tid++)
		target(&s, tid == 101 ? "mutex at train+0x40" : "mutex at train+0x80",
		       (struct perfx_wait_target){.process = TRAIN,
						  .tid = tid,
						  .owner_tid = tid == 101 ? 102 : 101,
						  .kind = PERFX_TARGET_MUTEX});
	end(&s);
	expect_first(&s,
		     "DEADLOCK of 2 threads: thread pool (101) of train (pid 100) in rest "
		     "(train.py:7) waits for mutex at train+0x40, held by thread pool (102), for "
		     "21.0 s; thread pool (102) of train (pid 100) in rest (train.py:7) waits for "
		     "mutex at train+0x80, held by thread pool (101), for 22.0 s");
}

/* Names of the traced program do not reach the terminal as they are. */
Test(dump, hostile_names_are_harmless)
{
	struct stream s = {0};
	char *text;

	stream_host(&s);
	sampling(&s);
	stream_process(&s, 1, 100, "\x1b[2Jx", "\x1b[2Jx");
	state(&s, "\x1b[31m\n",
	      (struct perfx_thread_state){
		      .process = 1, .tid = 100, .state = 'S', .reason = PERFX_WAIT_READ});
	target(&s, "/tmp/\x1b]0;evil\x07",
	       (struct perfx_wait_target){.process = 1, .tid = 100, .kind = PERFX_TARGET_FILE});
	end(&s);
	text = text_of(&s);
	cr_assert(!strchr(text, '\x1b') && !strchr(text, '\x07'), "%s", text);
	cr_assert(strstr(text, "/tmp/\\x1b]0;evil\\x07"), "%s", text);
	free(text);
}
