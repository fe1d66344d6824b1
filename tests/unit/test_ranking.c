// SPDX-License-Identifier: BSD-2-Clause
/* Which findings remain, and in which order. */
#include "analyze/rules_ctx.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1e6

static const struct profile_frame save = {
	.function = "save", .module = "", .module_base = "", .file = "/opt/train.py", .line = 88};
static const struct profile_frame load = {
	.function = "load", .module = "", .module_base = "", .file = "/opt/train.py", .line = 12};

struct scene {
	struct profile profile;
	struct profile_process process;
	struct process_account account;
	struct driver driver;
	struct rules_ctx ctx;
};

static struct scene *begin(struct scene *scene)
{
	*scene = (struct scene){.ctx.rules = &rule_set_builtin};
	scene->ctx.profile = &scene->profile;
	scene->ctx.process = &scene->process;
	scene->ctx.thresholds = &rule_set_builtin.thresholds;
	scene->ctx.account = &scene->account;
	scene->ctx.driver = &scene->driver;
	return scene;
}

static void add(struct scene *scene, const char *kind, enum finding_severity severity,
		enum bottleneck bottleneck, double gain_ns, const struct profile_frame *place)
{
	struct note note = {.bottleneck = bottleneck,
			    .gain_ns = gain_ns,
			    .place = place,
			    .of_function = place,
			    .share = 1};

	text_add(&note.subject, place ? place->function : "python3");
	rules_ctx_add(&scene->ctx, kind, severity, 0, &note);
}

static void expect_ranked(struct scene *scene, const char *wanted)
{
	char kinds[256] = "";
	size_t used = 0;

	scene->ctx.evidence_lost = rules_evidence_lost(&scene->profile);
	rules_rank(&scene->ctx);
	cr_assert(!scene->ctx.failed);
	for (size_t i = 0; i < scene->ctx.findings_count; i++) {
		const struct finding *finding = &scene->ctx.findings[i];

		used += (size_t)snprintf(kinds + used, sizeof(kinds) - used, "%s%s/%s",
					 i ? " " : "", finding->kind,
					 finding_severity_name(finding->severity));
		finding_clear(&scene->ctx.findings[i]);
	}
	cr_expect_str_eq(kinds, wanted, "%s", kinds);
	free(scene->ctx.findings);
	begin(scene);
}

/* Steps that are uneven because it was stopped, or compiles, are that cause's finding; those with
 * no other finding, and those that stall for another cause, are one of their own. */
Test(ranking, slow_steps_with_a_cause)
{
	struct scene scene, *s = begin(&scene);

	add(s, "UnevenSteps", FINDING_MEDIUM, BOTTLENECK_STOPPED, 9 * MS, NULL);
	add(s, "PeriodicStall", FINDING_HIGH, BOTTLENECK_STOPPED, 9 * MS, NULL);
	add(s, "Stopped", FINDING_MEDIUM, BOTTLENECK_STOPPED, 2 * MS, NULL);
	expect_ranked(s, "Stopped/medium");
	add(s, "UnevenSteps", FINDING_MEDIUM, BOTTLENECK_DISK, 9 * MS, NULL);
	add(s, "DiskWait", FINDING_MEDIUM, BOTTLENECK_DISK, 2 * MS, NULL);
	expect_ranked(s, "DiskWait/medium");
	add(s, "UnevenSteps", FINDING_MEDIUM, BOTTLENECK_STOPPED, 9 * MS, NULL);
	expect_ranked(s, "UnevenSteps/medium");
	add(s, "UnevenSteps", FINDING_MEDIUM, BOTTLENECK_STALL, 9 * MS, NULL);
	add(s, "Stopped", FINDING_MEDIUM, BOTTLENECK_STOPPED, 2 * MS, NULL);
	expect_ranked(s, "UnevenSteps/medium Stopped/medium");
}

/* However little it waits, what it computes takes its time: here 1.2 s of two CPUs in a second. */
Test(ranking, gains_leave_the_work)
{
	struct scene scene, *s = begin(&scene);

	scene.profile.cpus_count = 2;
	scene.driver.wall_ns = 10000 * (uint64_t)MS;
	scene.account.all.ns[ACCOUNT_COMPUTING] = 12000 * (uint64_t)MS;
	add(s, "DiskWait", FINDING_HIGH, BOTTLENECK_DISK, 900 * MS, NULL);
	add(s, "GarbageCollection", FINDING_HIGH, BOTTLENECK_STALL, 900 * MS, NULL);
	cr_expect_float_eq(s->ctx.findings[0].gain_ns, 400 * MS, 1);
	cr_expect_float_eq(s->ctx.findings[1].gain_ns, 900 * MS, 1);
	expect_ranked(s, "GarbageCollection/high DiskWait/high");
}

/* The driving thread computes for a tenth of the time. Another one computes: it has a CPU of its
 * own. Of five that would, each has two fifths of one. */
Test(ranking, gains_of_locks_leave_the_threads_own_work)
{
	for (unsigned others = 1; others <= 5; others += 4) {
		struct scene scene, *s = begin(&scene);
		struct account threads[2] = {
			{.tid = 1, .ns[ACCOUNT_COMPUTING] = 1000 * (uint64_t)MS},
			{.tid = 2,
			 .ns[ACCOUNT_COMPUTING] = 9000 * (uint64_t)MS,
			 .ns[ACCOUNT_LOCK] = (10 * others - 9) * 1000 * (uint64_t)MS}};

		scene.profile.cpus_count = 2;
		scene.driver.tid = 1;
		scene.driver.wall_ns = 10000 * (uint64_t)MS;
		scene.account.threads = threads;
		scene.account.threads_count = 2;
		add(s, "GilWait", FINDING_HIGH, BOTTLENECK_GIL, 950 * MS, NULL);
		cr_expect_float_eq(s->ctx.findings[0].gain_ns, others == 1 ? 900 * MS : 700 * MS,
				   1);
		expect_ranked(s, "GilWait/high");
	}
}

/* By severity, then by what fixing it saves; what is said of the capture comes last. */
Test(ranking, order)
{
	struct scene scene, *s = begin(&scene);

	add(s, "Overhead", FINDING_MEDIUM, BOTTLENECK_NONE, 0, NULL);
	add(s, "MemoryLeak", FINDING_MEDIUM, BOTTLENECK_MEMORY, 0, NULL);
	add(s, "LockWait", FINDING_MEDIUM, BOTTLENECK_LOCK, 2 * MS, NULL);
	add(s, "GilWait", FINDING_MEDIUM, BOTTLENECK_GIL, 3 * MS, NULL);
	add(s, "DiskWait", FINDING_LOW, BOTTLENECK_DISK, 9 * MS, NULL);
	add(s, "ChildWait", FINDING_HIGH, BOTTLENECK_CHILD, 1 * MS, NULL);
	expect_ranked(s, "ChildWait/high GilWait/medium LockWait/medium MemoryLeak/medium "
			 "Overhead/medium DiskWait/low");
}

/* A poller sleeps because that is its pace; a training whose steps sleep loses time. */
Test(ranking, a_leak_of_a_program_that_sleeps)
{
	struct scene scene, *s = begin(&scene);

	add(s, "SleepWait", FINDING_HIGH, BOTTLENECK_SLEEP, 900 * MS, NULL);
	add(s, "MemoryLeak", FINDING_MEDIUM, BOTTLENECK_MEMORY, 0, NULL);
	expect_ranked(s, "MemoryLeak/medium SleepWait/low");
	add(s, "SleepWait", FINDING_HIGH, BOTTLENECK_SLEEP, 900 * MS, NULL);
	add(s, "MemoryGrowth", FINDING_MEDIUM, BOTTLENECK_MEMORY, 0, NULL);
	expect_ranked(s, "MemoryGrowth/medium SleepWait/low");
	add(s, "SleepWait", FINDING_HIGH, BOTTLENECK_SLEEP, 900 * MS, NULL);
	add(s, "MemoryLeak", FINDING_LOW, BOTTLENECK_MEMORY, 0, NULL);
	expect_ranked(s, "SleepWait/high MemoryLeak/low");
	scene.process.steps.count = 10;
	add(s, "SleepWait", FINDING_HIGH, BOTTLENECK_SLEEP, 900 * MS, NULL);
	add(s, "MemoryLeak", FINDING_MEDIUM, BOTTLENECK_MEMORY, 0, NULL);
	expect_ranked(s, "SleepWait/high MemoryLeak/medium");
}

Test(ranking, one_cause_is_one_finding)
{
	struct profile_frame lines[] = {save, save};
	struct scene scene, *s = begin(&scene);

	lines[0].function = lines[1].function = "<module>";
	lines[1].line = save.line + 1;
	add(s, "A", FINDING_MEDIUM, BOTTLENECK_COPIES, 2 * MS, &save);
	add(s, "B", FINDING_MEDIUM, BOTTLENECK_COPIES, 3 * MS, &save);
	add(s, "C", FINDING_MEDIUM, BOTTLENECK_COPIES, 1 * MS, &load);
	expect_ranked(s, "B/medium C/medium");
	/* of two kinds of time at one place each is a problem */
	/* lines of a script are places of their own */
	add(s, "PythonBound", FINDING_MEDIUM, BOTTLENECK_PYTHON, 3 * MS, &lines[0]);
	add(s, "TinyOperators", FINDING_MEDIUM, BOTTLENECK_OPERATORS, 2 * MS, &lines[1]);
	expect_ranked(s, "PythonBound/medium TinyOperators/medium");
	add(s, "PythonBound", FINDING_MEDIUM, BOTTLENECK_PYTHON, 3 * MS, &lines[0]);
	add(s, "TinyOperators", FINDING_MEDIUM, BOTTLENECK_OPERATORS, 2 * MS, &lines[0]);
	expect_ranked(s, "TinyOperators/medium");
	add(s, "GilWait", FINDING_MEDIUM, BOTTLENECK_GIL, 3 * MS, &save);
	add(s, "PythonBound", FINDING_MEDIUM, BOTTLENECK_PYTHON, 2 * MS, &save);
	expect_ranked(s, "GilWait/medium PythonBound/medium");
	/* but a checkpoint's Python is the checkpoint, if it is most of it */
	add(s, "PeriodicStall", FINDING_MEDIUM, BOTTLENECK_STALL, 2 * MS, &save);
	add(s, "PythonBound", FINDING_MEDIUM, BOTTLENECK_PYTHON, 3 * MS, &save);
	expect_ranked(s, "PeriodicStall/medium");
	add(s, "PeriodicStall", FINDING_MEDIUM, BOTTLENECK_STALL, 1 * MS, &save);
	add(s, "PythonBound", FINDING_MEDIUM, BOTTLENECK_PYTHON, 3 * MS, &save);
	expect_ranked(s, "PythonBound/medium PeriodicStall/medium");
	/* of a process, whatever the place */
	add(s, "CpuContention", FINDING_HIGH, BOTTLENECK_CONTENTION, 3 * MS, NULL);
	add(s, "UnevenSteps", FINDING_MEDIUM, BOTTLENECK_CONTENTION, 2 * MS, &save);
	expect_ranked(s, "CpuContention/high");
}

Test(ranking, symptoms)
{
	struct scene scene, *s = begin(&scene);

	add(s, "BlockedThread", FINDING_LOW, BOTTLENECK_IDLE, 0, NULL);
	add(s, "DiskWait", FINDING_HIGH, BOTTLENECK_DISK, 3 * MS, NULL);
	expect_ranked(s, "DiskWait/high");
	add(s, "BlockedThread", FINDING_LOW, BOTTLENECK_IDLE, 0, NULL);
	expect_ranked(s, "BlockedThread/low");
}

/* What findings rest on was lost: fewer of them, and each a degree lower. */
Test(ranking, losses)
{
	struct scene scene, *s = begin(&scene);

	for (unsigned lost = 0; lost < 3; lost++) {
		s->profile.calls_count = 1000;
		s->profile.losses[PERFX_LOSS_MAP_FULL] = lost ? 9 : 0; /* of 1009 */
		s->profile.losses[PERFX_LOSS_RING_DROPS] = 500;
		if (lost == 2)
			s->profile.losses[PERFX_LOSS_MAP_FULL] = 11;
		add(s, "GilWait", FINDING_HIGH, BOTTLENECK_GIL, 3 * MS, NULL);
		add(s, "DiskWait", FINDING_LOW, BOTTLENECK_DISK, 1 * MS, NULL);
		add(s, "Losses", FINDING_MEDIUM, BOTTLENECK_NONE, 0, NULL);
		expect_ranked(s, lost == 2 ? "GilWait/medium Losses/medium"
					   : "GilWait/high Losses/medium DiskWait/low");
	}
}

#define S 1000000000ull

static struct profile_process process(uint32_t pid, uint32_t ppid, uint64_t cpu_ns)
{
	return (struct profile_process){.pid = pid,
					.ppid = ppid,
					.comm = "python3",
					.cmdline = "",
					.cpu_ns = cpu_ns,
					.to_ns = 10 * S};
}

/* first: the account of the first one. */
static void expect_roles_with(const struct process_account *first,
			      struct profile_process *processes, size_t count,
			      const enum process_role *roles)
{
	const struct profile profile = {.processes = processes, .processes_count = count};
	struct process_analysis accounts[4] = {{.account = *first}};
	struct analysis analysis = {.processes = accounts, .processes_count = count};

	cr_assert_eq(find_roles(&analysis, &profile, &rule_set_builtin.thresholds), 0);
	for (size_t i = 0; i < count; i++)
		cr_expect_eq(accounts[i].role, roles[i], "process %zu", i);
}

static void expect_roles(struct profile_process *processes, size_t count,
			 const enum process_role *roles)
{
	expect_roles_with(&(struct process_account){0}, processes, count, roles);
}

/* sh, torchrun, which was busy while it started, and two ranks. */
Test(roles, launchers_wait_for_the_job)
{
	struct profile_process processes[] = {process(10, 1, 0), process(11, 10, 2 * S),
					      process(12, 11, 9 * S), process(13, 11, 8 * S)};

	expect_roles(processes, 4,
		     (const enum process_role[]){PROCESS_LAUNCHER, PROCESS_LAUNCHER, PROCESS_JOB,
						 PROCESS_JOB});
}

/* It imports for 4 s, then waits for the program that it has started. */
Test(roles, launchers_may_work_before)
{
	struct profile_process processes[] = {process(10, 1, 4 * S), process(11, 10, 5 * S)};
	const struct process_account joins = {.joins_children = true};

	expect_roles(processes, 2, (const enum process_role[]){PROCESS_JOB, PROCESS_JOB});
	expect_roles_with(&joins, processes, 2,
			  (const enum process_role[]){PROCESS_LAUNCHER, PROCESS_JOB});
	processes[1].cpu_ns = 3 * S;
	expect_roles_with(&joins, processes, 2,
			  (const enum process_role[]){PROCESS_JOB, PROCESS_JOB});
}

/* while child.poll() is None: pass */
Test(roles, launchers_may_poll)
{
	struct profile_process processes[] = {process(10, 1, 9 * S), process(11, 10, 9 * S)};
	struct process_account polls = {.all = {.ns = {[ACCOUNT_SPINNING] = 8 * S}}};

	expect_roles_with(&polls, processes, 2,
			  (const enum process_role[]){PROCESS_LAUNCHER, PROCESS_JOB});
	polls.all.ns[ACCOUNT_SPINNING] = 1 * S;
	expect_roles_with(&polls, processes, 2,
			  (const enum process_role[]){PROCESS_JOB, PROCESS_WORKER});
}

/* make, whose compilers end at once: none of them stands for the job, whatever it waited for. */
Test(roles, brief_children_are_not_the_job)
{
	struct profile_process processes[] = {process(10, 1, 0), process(11, 10, S / 10),
					      process(12, 10, S / 5)};
	struct profile_activity waits[] = {
		{.tid = 10, .reason = PERFX_WAIT_WAIT, .object_name = "", .count = 2, .ns = 9 * S},
		{.tid = 12, .reason = PERFX_WAIT_SLEEP, .object_name = "", .count = 1, .ns = S / 2},
	};
	struct profile_thread thread = {.tid = 10,
					.wall_ns = 10 * S,
					.comm = "make",
					.on_cpu_ns = S / 100,
					.runnable_ns = 0,
					.blocked_ns = 9 * S};
	const struct profile profile = {
		.processes = processes, .processes_count = 3, .duration_ns = 10 * S};
	struct analysis *analysis;

	processes[0].blocked = (struct profile_activities){&waits[0], 1};
	processes[0].threads = &thread;
	processes[0].threads_count = 1;
	processes[2].blocked = (struct profile_activities){&waits[1], 1};
	for (size_t i = 1; i < 3; i++) {
		processes[i].to_ns = S / 2;
		processes[i].cpu_ns *= 25;
	}
	analysis = analyze(&profile, NULL);
	cr_assert_not_null(analysis);
	cr_expect_eq(analysis->first_process, 0);
	cr_expect(strstr(analysis->verdict, "; its child processes used 7.50 s of CPU time, "
					    "\016python3\017 (pid 12) most."),
		  "%s", analysis->verdict);
	analysis__free(analysis);
}

/* The parent waits for children one after the other, none of which runs long enough to be judged
 * itself. */
Test(roles, brief_children_that_sleep)
{
	struct profile_process processes[] = {process(10, 1, 0), process(11, 10, 0)};
	struct profile_activity waits[] = {
		{.tid = 10, .reason = PERFX_WAIT_WAIT, .object_name = "", .count = 2, .ns = 9 * S},
		{.tid = 11, .reason = PERFX_WAIT_SLEEP, .object_name = "", .count = 1, .ns = 9 * S},
	};
	struct profile_thread thread = {.tid = 10,
					.wall_ns = 10 * S,
					.comm = "launch",
					.on_cpu_ns = S / 100,
					.runnable_ns = 0,
					.blocked_ns = 9 * S};
	const struct profile profile = {
		.processes = processes, .processes_count = 2, .duration_ns = 10 * S};

	processes[0].blocked = (struct profile_activities){&waits[0], 1};
	processes[0].threads = &thread;
	processes[0].threads_count = 1;
	processes[1].blocked = (struct profile_activities){&waits[1], 1};
	for (uint64_t lives_ns = S; lives_ns <= 10 * S; lives_ns += 9 * S) {
		struct analysis *analysis;

		processes[1].to_ns = lives_ns;
		analysis = analyze(&profile, NULL);
		cr_assert_not_null(analysis);
		cr_expect_eq(strstr(analysis->verdict, "CHILD-BOUND: ") != NULL, lives_ns == S,
			     "%s", analysis->verdict);
		analysis__free(analysis);
	}
}

/* The second of three processes sleeps most of the time, and only of the third one it is known
 * where it sleeps. */
Test(verdict, is_the_gravest_finding_of_all_processes)
{
	static const struct profile_frame frame = {.function = "nap",
						   .module = "",
						   .module_base = "",
						   .file = "/opt/train.py",
						   .line = 3,
						   .language = PERFX_LANGUAGE_PYTHON};
	static const struct profile_frame *const frames[] = {&frame};
	static const struct profile_stack stack = {.frames = frames, .frames_count = 1};
	struct profile_process processes[] = {process(10, 1, 3 * S), process(11, 1, 2 * S),
					      process(12, 1, 2 * S)};
	struct profile_activity waits[] = {
		{.tid = 11,
		 .reason = PERFX_WAIT_SLEEP,
		 .object_name = "",
		 .count = 99,
		 .ns = 8 * S},
		{.tid = 12,
		 .reason = PERFX_WAIT_SLEEP,
		 .object_name = "",
		 .count = 99,
		 .ns = 2 * S},
	};
	struct profile_activity sample = {.tid = 12,
					  .stack = &stack,
					  .state = PERFX_SAMPLE_WAITING,
					  .reason = PERFX_WAIT_SLEEP,
					  .object_name = "",
					  .count = 200,
					  .ns = 2 * S};
	const struct profile profile = {
		.processes = processes, .processes_count = 3, .duration_ns = 10 * S};
	struct analysis *analysis;

	waits[1].stack = &stack;
	for (size_t i = 0; i < 2; i++)
		processes[i + 1].blocked = (struct profile_activities){&waits[i], 1};
	processes[2].samples = (struct profile_activities){&sample, 1};
	analysis = analyze(&profile, NULL);
	cr_assert_not_null(analysis);
	cr_assert_not_null(analysis->processes[2].findings[0].place.function);
	cr_assert_eq(analysis->processes[2].findings[0].severity, FINDING_MEDIUM);
	cr_expect_eq(analysis->first_process, 1);
	cr_expect_eq(analysis->first->severity, FINDING_HIGH);
	analysis__free(analysis);
}

/* A trainer that polls for its GPU is the job, beside the workers that prepare its batches. */
Test(roles, who_polls_for_a_gpu_is_no_launcher)
{
	struct profile_process processes[] = {process(10, 1, 9 * S), process(11, 10, 9 * S)};
	const struct process_account polls = {.all = {.ns = {[ACCOUNT_SPINNING] = 8 * S}}};

	processes[0].gpu = (struct profile_gpu){.used = true, .launches_count = 1000};
	expect_roles_with(&polls, processes, 2,
			  (const enum process_role[]){PROCESS_JOB, PROCESS_JOB});
}

/* A process that waits for its compilers is not their launcher, whatever else it starts. */
Test(roles, compilers_are_not_the_job)
{
	struct profile_process processes[] = {process(10, 1, 0), process(11, 10, 9 * S),
					      process(12, 10, 8 * S)};

	expect_roles(processes, 2, (const enum process_role[]){PROCESS_LAUNCHER, PROCESS_JOB});
	processes[1].comm = "cc1plus";
	expect_roles(processes, 3,
		     (const enum process_role[]){PROCESS_JOB, PROCESS_JOB, PROCESS_JOB});
	processes[1].comm = "python3"; /* torch.compile's */
	processes[1].cmdline = "/opt/venv/bin/python3\n"
			       "/opt/venv/lib/python3.11/site-packages/torch/_inductor/"
			       "compile_worker/__main__.py\n--workers=2";
	expect_roles(processes, 3,
		     (const enum process_role[]){PROCESS_JOB, PROCESS_JOB, PROCESS_JOB});
	processes[1].cmdline =
		"python3\n-c\nfrom ctypes import cdll\ncdll.LoadLibrary(\"/tmp/vec.so\")";
	expect_roles(processes, 3,
		     (const enum process_role[]){PROCESS_JOB, PROCESS_JOB, PROCESS_JOB});
	processes[1].cmdline = "python3\ntrain.py";
	expect_roles(processes, 3,
		     (const enum process_role[]){PROCESS_LAUNCHER, PROCESS_JOB, PROCESS_JOB});
}

Test(roles, workers_feed_their_parent)
{
	struct profile_process processes[] = {process(10, 1, 1 * S), process(11, 10, 9 * S)};
	struct profile_activity reads = {
		.tid = 10, .reason = PERFX_WAIT_READ, .object_name = "", .count = 50, .ns = 8 * S};
	const enum process_role fed[] = {PROCESS_JOB, PROCESS_WORKER};
	const enum process_role launched[] = {PROCESS_LAUNCHER, PROCESS_JOB};

	processes[0].blocked = (struct profile_activities){&reads, 1};
	expect_roles(processes, 2, fed);
	reads.count = 49; /* it reads its child's output */
	expect_roles(processes, 2, launched);
	processes[0].cpu_ns = 5 * S; /* it computes itself */
	expect_roles(processes, 2, fed);
	processes[0].cpu_ns = 0;
	processes[0].steps.count = 3; /* a trainer whose data come late */
	expect_roles(processes, 2, fed);
	processes[1].steps.count = 3; /* a rank that the first one has started */
	expect_roles(processes, 2, (const enum process_role[]){PROCESS_JOB, PROCESS_JOB});
}
