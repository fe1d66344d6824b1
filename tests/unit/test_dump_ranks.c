// SPDX-License-Identifier: BSD-2-Clause
/* Ranks of a job in a dump: the call that each is in, and the one that is elsewhere. */
#include "analyze/dump.h"
#include "base/grow.h"
#include "profile_parts.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#define RANKS 4

static const struct profile_frame frames[] = {
	{.function = "pthread_cond_wait",
	 .module = "/lib/libc.so.6",
	 .module_base = "libc.so.6",
	 .file = ""},
	{.function = "all_reduce",
	 .module = "",
	 .module_base = "",
	 .file = "/lib/torch/distributed/distributed_c10d.py",
	 .line = 9,
	 .language = PERFX_LANGUAGE_PYTHON},
	{.function = "barrier",
	 .module = "",
	 .module_base = "",
	 .file = "/lib/torch/distributed/distributed_c10d.py",
	 .line = 7,
	 .language = PERFX_LANGUAGE_PYTHON},
	{.function = "_helper",
	 .module = "",
	 .module_base = "",
	 .file = "/lib/torch/distributed/distributed_c10d.py",
	 .line = 8,
	 .language = PERFX_LANGUAGE_PYTHON},
	{.function = "train",
	 .module = "",
	 .module_base = "",
	 .file = "/src/train.py",
	 .line = 12,
	 .language = PERFX_LANGUAGE_PYTHON},
	{.function = "gloo::transport::tcp::UnboundBuffer::waitRecv",
	 .module = "/lib/libgloo.so",
	 .module_base = "libgloo.so",
	 .file = ""},
	{.function = "MPI_Allreduce",
	 .module = "/lib/libmpi.so.40",
	 .module_base = "libmpi.so.40",
	 .file = ""},
	{.function = "main",
	 .module = "/app",
	 .module_base = "app",
	 .file = "/src/app.c",
	 .line = 3},
	{.function = "ncclAllReduce",
	 .module = "/lib/libnccl.so.2",
	 .module_base = "libnccl.so.2",
	 .file = ""},
	{.function = "cudaStreamSynchronize",
	 .module = "/lib/libcudart.so",
	 .module_base = "libcudart.so",
	 .file = ""},
};

/* Stacks by their frames above, innermost first. */
#define STACK(name, ...)                                                                  \
	static const struct profile_frame *const name##_frames[] = {__VA_ARGS__};         \
	static const struct profile_stack name = {.frames = name##_frames,                \
						  .frames_count = sizeof(name##_frames) / \
								  sizeof(name##_frames[0])};
STACK(reduces, &frames[0], &frames[3], &frames[1], &frames[4])
STACK(at_barrier, &frames[0], &frames[2], &frames[4])
STACK(elsewhere, &frames[0], &frames[4])
STACK(gloo, &frames[0], &frames[5])
STACK(mpi, &frames[0], &frames[6], &frames[7])
STACK(nccl, &frames[8], &frames[4])
STACK(gpu, &frames[9], &frames[4])

/* Each rank has a main thread and one of its library. */
struct job {
	struct profile profile;
	struct profile_process processes[RANKS];
	struct profile_thread_state states[RANKS][2];
};

static void set_up(struct job *job, const struct profile_stack *main_stack)
{
	memset(job, 0, sizeof(*job));
	job->profile.processes = job->processes;
	job->profile.processes_count = RANKS;
	for (uint32_t i = 0; i < RANKS; i++) {
		job->processes[i] = (struct profile_process){
			.pid = 10 * i + 10,
			.index = i + 1,
			.comm = "python3",
			.cmdline = "",
			.states = job->states[i],
			.states_count = 2,
			.rank = {.rank = i, .world_size = RANKS, .source = "RANK", .job = "n:1"}};
		for (uint32_t k = 0; k < 2; k++)
			job->states[i][k] =
				(struct profile_thread_state){.tid = 10 * i + 10 + k,
							      .comm = "python3",
							      .state = 'S',
							      .reason = PERFX_WAIT_FUTEX,
							      .flags = PERFX_THREAD_STATE_EXACT,
							      .age_ns = 95 * S,
							      .syscall = PERFX_NO_SYSCALL,
							      .stack = k ? &gloo : main_stack,
							      .target = {.text = ""}};
	}
}

static void says(struct job *job, enum dump_answer answer, const char *beginning)
{
	struct dump *dump = dump__new(&job->profile);
	struct text verdict = {0};

	cr_assert(ne(ptr, dump, NULL));
	for (const char *at = dump->verdict; *at; at++)
		if (*at != '\x0e' && *at != '\x0f')
			text_add_bytes(&verdict, at, 1);
	cr_expect(eq(int, dump->answer, answer));
	cr_expect(eq(int, strncmp(text_peek(&verdict), beginning, strlen(beginning)), 0), "%s",
		  text_peek(&verdict));
	text_clear(&verdict);
	dump__free(dump);
}

Test(dump_ranks, one_is_elsewhere)
{
	struct job job;

	set_up(&job, &reduces);
	job.states[2][0].stack = &elsewhere;
	says(&job, DUMP_ANSWER_RANK_ELSEWHERE,
	     "RANK 2 OF 4 IS ELSEWHERE: thread python3 (30) in train (train.py:12) waits for a "
	     "lock or a condition, for 95.0 s; 3 ranks are in all_reduce (gloo), for 95.0 s "
	     "at least");
	/* in another collective */
	job.states[2][0].stack = &at_barrier;
	says(&job, DUMP_ANSWER_RANK_ELSEWHERE, "RANK 2 OF 4 IS ELSEWHERE: ");
}

/* They wait for each other for milliseconds, in each step. */
Test(dump_ranks, a_job_that_works)
{
	struct job job;

	set_up(&job, &reduces);
	job.states[2][0].stack = &elsewhere;
	for (int i = 0; i < RANKS; i++)
		job.states[i][0].age_ns = 40 * MS;
	says(&job, DUMP_ANSWER_WAITS, "WAITS FOR a lock or a condition");
}

Test(dump_ranks, one_is_missing)
{
	struct job job;

	set_up(&job, &reduces);
	says(&job, DUMP_ANSWER_WAITS,
	     "WAITS FOR all_reduce (gloo): all 4 ranks are in it, for 95.0 s at least");
	job.processes[1].states_count = 0;
	says(&job, DUMP_ANSWER_RANK_ELSEWHERE,
	     "RANK 1 OF 4 IS NOT HERE: ended, or on another machine; 3 ranks are in all_reduce "
	     "(gloo), for 95.0 s at least");
	job.processes[3].states_count = 0;
	says(&job, DUMP_ANSWER_RANK_ELSEWHERE, "RANKS 1, 3 OF 4 ARE NOT HERE: ");
}

Test(dump_ranks, other_libraries)
{
	static const struct {
		const struct profile_stack *stack;
		const char *call;
	} calls[] = {{&mpi, "MPI_Allreduce (mpi)"},
		     {&nccl, "ncclAllReduce (nccl)"},
		     {&gpu, "cudaStreamSynchronize"}};
	char verdict[128];
	struct job job;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		set_up(&job, calls[i].stack);
		for (int rank = 0; rank < RANKS; rank++)
			job.states[rank][1].stack = NULL;
		snprintf(verdict, sizeof(verdict), "WAITS FOR %s: all 4 ranks are in it",
			 calls[i].call);
		says(&job, DUMP_ANSWER_WAITS, verdict);
	}
}

/* A loader's worker has its rank from its parent, and is none. */
Test(dump_ranks, workers_are_none)
{
	struct job job;
	struct dump *dump;

	set_up(&job, &reduces);
	job.processes[3].rank.rank = 2;
	job.processes[3].ppid = job.processes[2].pid;
	dump = dump__new(&job.profile);
	cr_assert(ne(ptr, dump, NULL));
	cr_expect(eq(sz, dump->ranks_count, 1));
	cr_expect(eq(sz, dump->ranks[0].processes_count, 3));
	dump__free(dump);
}
