// SPDX-License-Identifier: BSD-2-Clause
/* Which of a job's processes one is, and for which of them the others wait. */
#include "analyze/analyze.h"
#include "analyze/ranks.h"
#include "analyze/rule_set.h"
#include "analyze/rules_ctx.h"
#include "fixture.h"
#include "session/process_table.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static bool rank_in(const char *environment, size_t bytes, struct rank *rank)
{
	return rank_of_environment(environment, bytes, rank);
}
#define RANK_IN(environment, rank) rank_in(environment, sizeof(environment), rank)

Test(rank, as_torchrun_says)
{
	struct rank rank;

	cr_assert(RANK_IN(
		"A=1\0RANK=3\0WORLD_SIZE=8\0LOCAL_RANK=1\0MASTER_ADDR=n1\0MASTER_PORT=29500",
		&rank));
	cr_expect_eq(rank.rank, 3);
	cr_expect_eq(rank.world_size, 8);
	cr_expect_eq(rank.local_rank, 1);
	cr_expect_str_eq(rank.job, "n1:29500");
	cr_expect_str_eq(rank.source, "RANK");
}

Test(rank, as_other_launchers_say)
{
	struct rank rank;

	cr_assert(RANK_IN("OMPI_COMM_WORLD_RANK=0\0OMPI_COMM_WORLD_SIZE=2", &rank));
	cr_expect_eq(rank.local_rank, UINT32_MAX);
	cr_expect_str_eq(rank.job, "");
	cr_assert(RANK_IN("PMI_SIZE=4\0PMI_RANK=2\0MPI_LOCALRANKID=2", &rank));
	cr_expect_eq(rank.rank, 2);
	cr_assert(
		RANK_IN("SLURM_JOB_ID=77\0SLURM_STEP_ID=0\0SLURM_PROCID=5\0SLURM_NTASKS=6", &rank));
	cr_expect_str_eq(rank.job, "77:0");
	cr_assert(RANK_IN("JAX_PROCESS_ID=3\0JAX_NUM_PROCESSES=4\0JAX_COORDINATOR_ADDRESS=n1:1234\0"
			  "SLURM_PROCID=0\0SLURM_NTASKS=1",
			  &rank));
	cr_expect_eq(rank.rank, 3);
	cr_expect_eq(rank.local_rank, UINT32_MAX);
	cr_expect_str_eq(rank.job, "n1:1234");
	/* what torchrun says under Slurm is nearer */
	cr_assert(RANK_IN("SLURM_PROCID=0\0SLURM_NTASKS=1\0RANK=1\0WORLD_SIZE=2", &rank));
	cr_expect_eq(rank.rank, 1);
}

/* As setproctitle leaves it: a title lies over the variables of its start, and environ, which the
 * program has a copy of, points to new ones. */
static const char titled_source[] = "#include <string.h>\n#include <unistd.h>\n"
				    "static char *mine[] = {\"RANK=3\", \"WORLD_SIZE=8\", NULL};\n"
				    "int main(void) {\n"
				    "	for (char **v = environ; *v; v++)\n"
				    "		memset(*v, 'x', strlen(*v));\n"
				    "	environ = mine;\n"
				    "	return write(1, \"r\", 1) == 1 ? pause() : 1;\n"
				    "}\n";

Test(rank, of_a_program_with_a_title, .init = fixture_set_up, .fini = fixture_tear_down)
{
	uint64_t environ_at = 0;
	struct rank rank;
	int output[2];
	char byte;
	pid_t pid;

	fixture_text("titled.c", titled_source);
	fixture_run("cc -D_GNU_SOURCE -no-pie -fno-pie -o titled titled.c");
	fixture_run("readelf -rW titled | grep -q R_.*_COPY.*environ");
	cr_assert_eq(pipe2(output, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(output[1], STDOUT_FILENO);
		execl(fixture_path("titled"), "titled", (char *)NULL);
		_exit(127);
	}
	cr_assert_eq(read(output[0], &byte, 1), 1);
	cr_expect(rank_of_process(pid, &environ_at, &rank));
	cr_expect_eq(rank.rank, 3);
	cr_expect_eq(rank.world_size, 8);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

Test(rank, that_is_none)
{
	struct rank rank;

	cr_expect_not(RANK_IN("PATH=/bin", &rank));
	cr_expect_not(RANK_IN("RANK=1", &rank));
	cr_expect_not(RANK_IN("RANK=2\0WORLD_SIZE=2", &rank));
	cr_expect_not(RANK_IN("RANK=-1\0WORLD_SIZE=2", &rank));
	cr_expect_not(RANK_IN("RANK=1x\0WORLD_SIZE=2", &rank));
	cr_expect_not(RANK_IN("RANK=\0WORLD_SIZE=2", &rank));
	cr_expect_not(RANK_IN("MY_RANK=1\0WORLD_SIZE=2", &rank));
	cr_expect_not(RANK_IN("RANK=99999999999999999999\0WORLD_SIZE=99999999999999999999", &rank));
}

#define MS 1000000.0

static struct profile_process rank_process(uint32_t pid, uint32_t rank, uint32_t world_size)
{
	return (struct profile_process){
		.pid = pid,
		.ppid = 1,
		.comm = "python3",
		.steps = {.count = 100, .avg_ns = 20000000},
		.rank = {.rank = rank, .world_size = world_size, .job = "n1:1", .source = "RANK"}};
}

static struct step_time waiting(double communication_ms, double python_ms)
{
	return (struct step_time){.known = true,
				  .unit_ns = 20 * MS,
				  .ns = {[TIME_COMMUNICATION] = communication_ms * MS,
					 [TIME_PYTHON] = python_ms * MS,
					 [TIME_COMPUTE] = (20 - communication_ms - python_ms) * MS},
				  .error_ns = {[TIME_COMMUNICATION] = 0.1 * MS}};
}

Test(ranks, the_others_wait_for_one)
{
	struct profile_process processes[] = {rank_process(12, 2, 3), rank_process(10, 0, 3),
					      rank_process(11, 1, 3)};
	struct step_time times[] = {waiting(8, 1), waiting(9, 1), waiting(1, 8)};
	struct profile profile = {.processes = processes, .processes_count = 3};
	struct ranks ranks;
	const struct rank_row *row;

	cr_assert_eq(ranks_find(&ranks, &profile, times), 0);
	cr_assert_eq(ranks.count, 3);
	for (size_t i = 0; i < 3; i++)
		cr_expect_eq(processes[ranks.rows[i].process].rank.rank, i);
	row = ranks_of_process(&ranks, 2);
	cr_assert_not_null(row);
	cr_expect(row->leads);
	cr_expect_float_eq(row->own_ns, 19 * MS, 1);
	cr_expect_float_eq(row->lead_ns, 7 * MS, 1, "rank 2 has 12 ms of its own");
	cr_expect_float_eq(row->others_wait_ns, 8.5 * MS, 1);
	cr_expect_eq(row->excess, TIME_PYTHON);
	cr_expect_float_eq(row->excess_ns, 7 * MS, 1);
	cr_expect_not(ranks_of_process(&ranks, 0)->leads);
	cr_expect_eq(ranks_of_process(&ranks, 0)->leader, 2);
	ranks_clear(&ranks);
}

/* What the rule says of the process at that place. */
static void expect_straggler(const struct profile *profile, const struct ranks *ranks,
			     const struct step_time *times, size_t at, const char *kind)
{
	const struct process_account account = {0};
	const struct driver driver = {.wall_ns = 2000000000};
	struct rules_ctx ctx = {.profile = profile,
				.rules = &rule_set_builtin,
				.thresholds = &rule_set_builtin.thresholds,
				.process = &profile->processes[at],
				.account = &account,
				.driver = &driver,
				.time = &times[at]};

	ctx.ranks = ranks;
	rules_straggler(&ctx);
	cr_assert_eq(ctx.findings_count, kind != NULL);
	for (size_t i = 0; i < ctx.findings_count; i++) {
		cr_expect_str_eq(ctx.findings[i].kind, kind);
		finding_clear(&ctx.findings[i]);
	}
	free(ctx.findings);
}

/* From a twentieth of a step on it is worth a word. */
Test(ranks, a_straggler)
{
	struct profile_process processes[] = {rank_process(10, 0, 2), rank_process(11, 1, 2)};
	struct step_time times[] = {waiting(8, 1), waiting(1, 8)};
	struct profile profile = {.processes = processes, .processes_count = 2};
	struct ranks ranks;

	cr_assert_eq(ranks_find(&ranks, &profile, times), 0);
	expect_straggler(&profile, &ranks, times, 1, "Straggler");
	expect_straggler(&profile, &ranks, times, 0, NULL);
	ranks_clear(&ranks);
	times[0] = waiting(1.8, 1);
	cr_assert_eq(ranks_find(&ranks, &profile, times), 0);
	cr_expect_float_eq(ranks_of_process(&ranks, 1)->lead_ns, 0.8 * MS, 1);
	expect_straggler(&profile, &ranks, times, 1, NULL);
	ranks_clear(&ranks);
}

/* Rank 1 comes 3 ms after rank 0, but once; the fourth collective of rank 0 is not among rank 1's.
 */
Test(skew, who_comes_last)
{
	static const struct profile_function functions[] = {{.id = 1, .name = "MPI_Allreduce"},
							    {.id = 2, .name = "MPI_Allreduce"},
							    {.id = 3, .name = "MPI_Barrier"}};
	const struct profile_collective first[] = {{10 * 1000000, 15 * 1000000, 1},
						   {20 * 1000000, 25 * 1000000, 1},
						   {34 * 1000000, 35 * 1000000, 1},
						   {40 * 1000000, 45 * 1000000, 3}};
	const struct profile_collective second[] = {{13 * 1000000, 15 * 1000000, 2},
						    {23 * 1000000, 25 * 1000000, 2},
						    {31 * 1000000, 35 * 1000000, 2},
						    {43 * 1000000, 45 * 1000000, 2}};
	struct profile_process processes[] = {rank_process(10, 0, 2), rank_process(11, 1, 2)};
	struct step_time times[] = {waiting(8, 1), waiting(1, 8)};
	struct profile profile = {.processes = processes,
				  .processes_count = 2,
				  .functions = functions,
				  .functions_count = 3};
	const struct skew_rank *rank;
	const struct skew *skew;
	struct ranks ranks;

	processes[0].collectives = first;
	processes[1].collectives = second;
	processes[0].collectives_count = processes[1].collectives_count = 4;
	cr_assert_eq(ranks_find(&ranks, &profile, times), 0);
	rank = skew_of_row(&ranks, &ranks.rows[1], &skew);
	cr_assert_not_null(rank);
	cr_expect_eq(skew->count, 3, "the fourth is another function");
	cr_expect_eq(rank->last_count, 2);
	cr_expect_float_eq(rank->late_ns, 2 * MS, 1);
	cr_expect_float_eq(rank->wait_ns, 3 * MS, 1);
	cr_expect_eq(skew->ranks[0].last_count, 1);
	cr_expect_float_eq(skew->ranks[0].wait_ns, 6 * MS, 1);
	cr_expect_eq(skew->ranks[0].most, 1);
	cr_expect_float_eq(skew->median_ns, 3 * MS, 1);
	ranks_clear(&ranks);
}

/* A worker inherits its trainer's environment; other jobs, and worlds of one, are apart. */
Test(ranks, that_are_none)
{
	struct profile_process processes[] = {rank_process(10, 0, 2), rank_process(11, 0, 2),
					      rank_process(12, 0, 1), rank_process(13, 1, 2),
					      rank_process(14, 1, 2)};
	struct step_time times[] = {waiting(1, 1), waiting(1, 1), waiting(1, 1), waiting(8, 1),
				    waiting(1, 9)};
	struct profile profile = {.processes = processes, .processes_count = 5};
	struct ranks ranks;

	processes[1].ppid = 10;
	processes[4].rank.job = "n2:1";
	cr_assert_eq(ranks_find(&ranks, &profile, times), 0);
	cr_expect_eq(ranks.count, 3);
	cr_expect_null(ranks_of_process(&ranks, 1));
	cr_expect_null(ranks_of_process(&ranks, 2));
	cr_expect_eq(ranks_of_process(&ranks, 3)->leader, 0);
	cr_expect_not(ranks_of_process(&ranks, 4)->leads, "it is alone");
	ranks_clear(&ranks);
}

/* The finding of rank 1 of 2, which has so much of its time in one class. */
struct straggling {
	struct profile_process processes[2];
	struct profile_rival rivals[2];
	struct step_time times[2];
	struct finding *findings;
	size_t findings_count;
};

static void straggle(struct straggling *s, double runnable_ms, double python_ms)
{
	*s = (struct straggling){.processes = {rank_process(10, 0, 2), rank_process(11, 1, 2)},
				 .rivals = {{77, "make", PROFILE_RIVAL_OTHER, 600000000},
					    {11, "python3", PROFILE_RIVAL_OWN, 200000000}},
				 .times = {waiting(9, 1), waiting(1, python_ms)}};
	s->times[1].ns[TIME_RUNNABLE] = runnable_ms * MS;
	s->times[1].ns[TIME_COMPUTE] -= runnable_ms * MS;
	s->processes[1].rivals = s->rivals;
	s->processes[1].rivals_count = 2;
	s->processes[0].limits.cpus_count = s->processes[1].limits.cpus_count = 8;
}

/* NULL: there is none. */
static const struct finding *judge(struct straggling *s)
{
	const struct profile profile = {.processes = s->processes, .processes_count = 2};
	const struct process_account account = {0};
	const struct driver driver = {0};
	struct rules_ctx ctx = {.profile = &profile,
				.rules = &rule_set_builtin,
				.thresholds = &rule_set_builtin.thresholds,
				.process = &s->processes[1],
				.account = &account,
				.driver = &driver,
				.time = &s->times[1]};
	struct ranks ranks;

	cr_assert_eq(ranks_find(&ranks, &profile, s->times), 0);
	ctx.ranks = &ranks;
	rules_straggler(&ctx);
	cr_assert_not(ctx.failed);
	ranks_clear(&ranks);
	s->findings = ctx.findings;
	s->findings_count = ctx.findings_count;
	return ctx.findings_count ? &ctx.findings[0] : NULL;
}

static void clear(struct straggling *s)
{
	for (size_t i = 0; i < s->findings_count; i++)
		finding_clear(&s->findings[i]);
	free(s->findings);
}

Test(straggler, says_who_had_its_cpu)
{
	struct straggling s;
	const struct finding *finding;

	straggle(&s, 8, 1);
	s.processes[1].limits.cpus_count = 1;
	finding = judge(&s);
	cr_assert_not_null(finding);
	cr_expect_str_eq(finding->kind, "Straggler");
	cr_expect(strstr(finding->evidence, "it waits for a CPU for 8.00 ms more"), "%s",
		  finding->evidence);
	cr_expect(strstr(finding->evidence,
			 " (pid 77) had the CPU for 75.0 %, its own threads for 25.0 %"),
		  "%s", finding->evidence);
	cr_expect(strstr(finding->evidence, "; it may use 1 CPU, another rank 8"), "%s",
		  finding->evidence);
	cr_expect(strstr(finding->headline, " had the CPU for 75.0 %"), "%s", finding->headline);
	clear(&s);
}

/* It waits for CPUs, too, but that is not what it does longer than the others. */
Test(straggler, says_nothing_of_cpus_where_these_are_not_why)
{
	struct straggling s;
	const struct finding *finding;

	straggle(&s, 0.5, 8);
	finding = judge(&s);
	cr_assert_not_null(finding);
	cr_expect(strstr(finding->evidence, "it runs Python for"), "%s", finding->evidence);
	cr_expect_not(strstr(finding->evidence, "had the CPU"), "%s", finding->evidence);
	cr_expect_not(strstr(finding->evidence, "it may use"), "%s", finding->evidence);
	cr_expect_not(strstr(finding->headline, "had the CPU"), "%s", finding->headline);
	clear(&s);
}
