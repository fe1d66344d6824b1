// SPDX-License-Identifier: BSD-2-Clause
/* Each rule at both sides of its threshold, on the smallest profile that can show it. */
#include "analyze/rules_ctx.h"
#include "analyze_scene.h"
#include "base/escape.h"

static void expect_evidence(const struct scene *s, const char *part, bool there)
{
	struct analysis *analysis = analyze(&s->profile, NULL);
	const char *evidence = analysis->processes[0].findings[0].evidence;

	cr_expect_eq(strstr(evidence, part) != NULL, there, "%s", evidence);
	analysis__free(analysis);
}

Test(analyze, nothing_remarkable)
{
	struct scene s;

	scene_set(&s);
	expect_kinds(s, "");
}

/* Where time goes is no problem; that it goes into sleeping, copying or compiling is one. */
Test(analyze, slow_operation)
{
	struct scene s;

	scene_set(&s);
	s.row.self_ns = 9 * S;
	expect_kinds(s, "");
	s.function.name = "usleep";
	s.row.self_ns = 1999 * MS;
	expect_kinds(s, "");
	s.row.self_ns = 2 * S;
	expect_kinds(s, "SlowOperation/medium");
	s.row.self_ns = 4 * S;
	expect_kinds(s, "SlowOperation/high");
	/* others compute meanwhile */
	s.function.name = "pthread_barrier_wait";
	expect_kinds(s, "");
}

Test(analyze, tiny_calls)
{
	struct scene s;

	scene_set(&s);
	s.row.calls_count = s.row.timed_count = 100000;
	s.row.avg_ns = 4999;
	expect_kinds(s, "TinyCalls/medium");
	s.row.avg_ns = 5000;
	expect_kinds(s, "");
	s.row.avg_ns = 4999;
	s.row.calls_count = 99999;
	expect_kinds(s, "");
	/* not timed at all */
	s.row.calls_count = 100000;
	s.row.avg_ns = PROFILE_ABSENT;
	expect_kinds(s, "");
}

/* The budget ended the timing of both after a fourth of the ten seconds: what it saw says how often
 * and for how long. */
Test(analyze, calls_that_are_no_longer_watched)
{
	struct perfx_reduced reduced = {.function = 1, .to = PERFX_REDUCED_COUNTED};
	struct scene s;

	scene_set(&s);
	reduced.time_ns = s.process.from_ns + 5 * S / 2;
	s.profile.reduced = &reduced;
	s.profile.reduced_count = 1;
	s.function.name = "usleep";
	s.row.self_ns = 499 * MS;
	expect_kinds(s, "");
	s.row.self_ns = 500 * MS;
	expect_kinds(s, "SlowOperation/medium");
	expect_evidence(&s, "self time 500 ms, 20.0 % of the 2.50 s in which it was timed", true);
	/* all calls are still counted */
	s.function.name = "tiny";
	s.row.self_ns = 0;
	s.row.avg_ns = 4999;
	s.row.calls_count = s.row.timed_count = 99999;
	expect_kinds(s, "");
	reduced.to = PERFX_REDUCED_REMOVED;
	s.row.calls_count = s.row.timed_count = 24999;
	expect_kinds(s, "");
	s.row.calls_count = s.row.timed_count = 25000;
	/* and so is the share of its time */
	expect_kinds(s, "TinyCalls/high");
	expect_evidence(&s, "10,000 calls/s", true);
}

Test(analyze, unwound)
{
	struct scene s;

	scene_set(&s);
	s.row.unwound_count = 9;
	expect_kinds(s, "");
	s.row.unwound_count = 10;
	expect_kinds(s, "Unwound/low");
	s.row.unwound_count = 100;
	expect_kinds(s, "Unwound/low");
	/* and so often that it takes 1 % of the time */
	s.row.calls_count = s.row.timed_count = 100000;
	s.row.avg_ns = 10000;
	s.row.unwound_count = 9999;
	expect_kinds(s, "Unwound/low");
	s.row.unwound_count = 10000;
	expect_kinds(s, "Unwound/medium");
}

Test(analyze, idle_and_blocked)
{
	struct scene s;

	scene_set(&s);
	s.process.cpu_ns = 999 * MS;
	expect_kinds(s, "IdleTarget/medium");
	s.process.cpu_ns = 1 * S;
	expect_kinds(s, "");
	s.process.cpu_ns = PROFILE_ABSENT;
	expect_kinds(s, "");
	s.thread.blocked_ns = 5 * S;
	expect_kinds(s, "BlockedThread/low");
	s.thread.state = 'Z';
	expect_kinds(s, "");
	/* not the main thread */
	s.thread.tid = 43;
	expect_kinds(s, "");
}

/* A hundred steps of 50 ms, of which a phase takes so much of each. */
static void set_steps(struct scene *s, enum profile_phase phase, uint64_t phase_ns)
{
	s->process.steps = (struct profile_steps){.ends_count = 100,
						  .count = 100,
						  .function = 1,
						  .total_ns = 5 * S,
						  .avg_ns = 50 * MS,
						  .p50_ns = 50 * MS,
						  .p95_ns = 50 * MS,
						  .max_ns = 50 * MS};
	s->process.steps.phases[PROFILE_PHASE_OTHER] = 5 * S - 100 * phase_ns;
	s->process.steps.phases[phase] += 100 * phase_ns;
}

Test(analyze, steps_that_wait_for_data)
{
	struct scene s;

	scene_set(&s);
	set_steps(&s, PROFILE_PHASE_DATA, 5 * MS - 1);
	expect_kinds(s, "");
	set_steps(&s, PROFILE_PHASE_DATA, 5 * MS);
	expect_kinds(s, "DataBound/medium");
	set_steps(&s, PROFILE_PHASE_DATA, 15 * MS);
	expect_kinds(s, "DataBound/high");
	s.process.steps.ends_count = 9;
	expect_kinds(s, "");
}

static void expect_workers(const struct scene *s, double gain_ms, const char *part)
{
	struct analysis *analysis = analyze(&s->profile, NULL);
	const struct finding *f = analysis->processes[0].findings;

	cr_assert_str_eq(f->kind, "DataBound");
	cr_expect_float_eq(f->gain_ns / 1e6, gain_ms, 0.1, "%g ms", f->gain_ns / 1e6);
	cr_expect(strstr(f->evidence, part), "%s lacks %s", f->evidence, part);
	cr_expect_eq(f->gain_unknown, strstr(part, "no CPU is free") || strstr(part, "cost as"));
	cr_expect_eq(strstr(f->suggestion, "at less cost") != NULL, f->gain_unknown);
	analysis__free(analysis);
}

/* Steps of 50 ms, 15 ms of them the loader's, 0.7 ms the handover: workers need CPUs. Without them
 * the finding weighs what the batches take. */
Test(analyze, workers_have_the_cpus_that_are_free)
{
	struct scene s;

	scene_set(&s);
	set_steps(&s, PROFILE_PHASE_DATA, 15 * MS);
	expect_workers(&s, 14.3, "(0 workers; 1 would hide it)");
	s.profile.cpus_count = 1;
	expect_workers(&s, 15, "(0 workers; no CPU is free for more)");
	/* both are the training's own threads', more or less: 45, 70 and 85 ms of each step */
	s.profile.cpus_count = 2;
	expect_workers(&s, 14.3, "1 would hide it)");
	s.process.cpu_ns = 14 * S;
	expect_workers(&s, 50 - (70 + 16.4) / 2, "1 would hide at most 50.0");
	s.process.cpu_ns = 17 * S;
	expect_workers(&s, 15, "no CPU is free");
	/* another program uses a half of one, or all of it: only what is idle can be had */
	s.process.cpu_ns = 9 * S;
	s.profile.host_busy_ns = 14 * S;
	expect_workers(&s, 50 - (45 + 16.4) / 1.5,
		       "1 would hide at most 65.1 % of it, on the 1.5 CPUs that are free)");
	s.profile.host_busy_ns = 19 * S;
	expect_workers(&s, 15, "no CPU is free");
	/* another guest of the host likewise */
	s.profile.host_busy_ns = 9 * S;
	s.profile.host_steal_ns = 10 * S;
	expect_workers(&s, 15, "no CPU is free");
	s.profile.host_steal_ns = 0;
	/* the quota of its cgroup */
	s.process.limits.cpu_limit_milli = 1500;
	expect_workers(&s, 50 - (45 + 16.4) / 1.5, "on the 1.5 CPUs");
	s.process.limits.cpu_limit_milli = PROFILE_ABSENT;
	s.profile.host_busy_ns = 19 * S;
	/* of many that are idle one is as good as free */
	s.profile.cpus_count = 16;
	expect_workers(&s, 14.3, "1 would hide it)");
	/* but it may use one alone */
	s.process.limits.cpus_count = 1;
	expect_workers(&s, 15, "no CPU is free");
}

/* Steps of 1.4 ms, of which a batch takes 0.65 ms: CPUs are free, but the handover takes 0.7 ms. */
Test(analyze, workers_for_batches_that_take_no_longer_than_a_handover)
{
	struct scene s;

	scene_set(&s);
	set_steps(&s, PROFILE_PHASE_DATA, 0);
	s.process.steps.count = s.process.steps.ends_count = 3500;
	s.process.steps.avg_ns = 1400 * (MS / 1000);
	s.process.steps.phases[PROFILE_PHASE_DATA] = 3500 * 650 * (MS / 1000);
	expect_workers(&s, 0.65, "(0 workers; taking batches from some would cost as much)");
}

Test(analyze, steps_of_an_optimizer)
{
	struct analysis *analysis;
	struct scene s;

	scene_set(&s);
	set_steps(&s, PROFILE_PHASE_OPTIMIZER, 10 * MS - 1);
	expect_kinds(s, "");
	set_steps(&s, PROFILE_PHASE_OPTIMIZER, 10 * MS);
	expect_kinds(s, "OptimizerBound/low");
	set_steps(&s, PROFILE_PHASE_OPTIMIZER, 20 * MS);
	expect_kinds(s, "OptimizerBound/medium");
	/* a fused one still takes a third */
	analysis = analyze(&s.profile, NULL);
	cr_expect_float_eq(analysis->processes[0].findings[0].gain_ns, 20e6 * 2 / 3, 1);
	analysis__free(analysis);
}

Test(analyze, uneven_steps)
{
	struct scene s;

	scene_set(&s);
	set_steps(&s, PROFILE_PHASE_OTHER, 0);
	expect_kinds(s, "");
	s.process.steps.p50_ns = 40 * MS + 1;
	expect_kinds(s, "");
	s.process.steps.p50_ns = 40 * MS - 1;
	expect_kinds(s, "UnevenSteps/low");
	s.process.steps.p50_ns = 30 * MS;
	expect_kinds(s, "UnevenSteps/medium");
	s.process.steps.p50_ns = 60 * MS; /* a few short ones: the mean is below */
	expect_kinds(s, "");
}

Test(analyze, cpu_contention)
{
	struct scene s;

	scene_set(&s);
	s.thread.runnable_ns = 999 * MS;
	expect_kinds(s, "");
	s.thread.runnable_ns = 1 * S;
	expect_kinds(s, "CpuContention/medium");
	s.thread.runnable_ns = 4 * S;
	expect_kinds(s, "CpuContention/high");
	s.profile.duration_ns *= 5; /* of which the process was there for a fifth */
	expect_kinds(s, "");
	s.thread.runnable_ns = PROFILE_ABSENT;
	expect_kinds(s, "");
}

static void expect_contention(const struct scene *s, const char *evidence, const char *suggestion)
{
	struct analysis *analysis = analyze(&s->profile, NULL);
	const struct finding *f = analysis->processes[0].findings;

	cr_assert_str_eq(f->kind, "CpuContention");
	cr_expect(strstr(f->evidence, evidence), "%s", f->evidence);
	cr_expect(strstr(f->suggestion, suggestion), "%s", f->suggestion);
	cr_expect_null(strstr(f->suggestion, "OMP_NUM_THREADS"), "%s", f->suggestion);
	analysis__free(analysis);
}

/* Four seconds of waiting, and who had the CPUs meanwhile: 9 s are the process's own. */
Test(analyze, who_has_the_cpus)
{
	struct scene s;

	scene_set(&s);
	s.thread.runnable_ns = 4 * S;
	s.profile.host_busy_ns = 10 * S;
	expect_kinds(s, "CpuContention/high");
	expect_contention(&s, "other programs used 1.00 s of CPU", "run fewer of them");
	s.profile.host_busy_ns = 11 * S - 1;
	expect_contention(&s, "other programs used 2.00 s of CPU", "run fewer of them");
	s.profile.host_busy_ns = 11 * S;
	expect_kinds(s, "CpuContention/high");
	expect_contention(&s, "other programs used 2.00 s of CPU", "Other programs use the CPUs");
	s.profile.host_busy_ns = 9 * S;
	s.profile.host_steal_ns = 3 * S;
	expect_contention(&s, "other virtual machines 3.00 s (steal)", "The hypervisor gives");
	/* the tracer's own time is not that of others */
	s.profile.host_steal_ns = 0;
	s.profile.host_busy_ns = 14 * S;
	s.profile.tracer_cpu_ns = 4 * S;
	expect_contention(&s, "other programs used 1.00 s of CPU", "run fewer of them");
	s.profile.host_busy_ns = s.profile.host_steal_ns = PROFILE_ABSENT;
	expect_kinds(s, "CpuContention/high");
	expect_contention(&s, "this machine has 4 CPUs", "run fewer threads.");
}

/* Turns of the CPU tell exactly; the CPU time of others may have been on other CPUs. */
Test(analyze, rivals_that_had_the_cpus)
{
	struct profile_rival rivals[] = {
		{900, "make", PROFILE_RIVAL_OTHER, 3 * S},
		{901, "make", PROFILE_RIVAL_OTHER, 2 * S},
		{43, "loader", PROFILE_RIVAL_JOB, 500 * MS},
	};
	struct scene s;

	scene_set(&s);
	s.thread.runnable_ns = 4 * S;
	s.process.rivals = rivals;
	s.process.rivals_count = 3;
	s.profile.host_busy_ns = 9 * S;
	expect_contention(&s, " (pids 900, 901) had the CPU for 90.9 %, ",
			  "Other programs use the CPUs");
	rivals[0].kind = rivals[1].kind = PROFILE_RIVAL_JOB;
	s.profile.host_busy_ns = 14 * S;
	expect_contention(&s, " of the same job (pids 900, 901) had the CPU for 90.9 %",
			  "start fewer of them.");
	rivals[0] = rivals[1] = (struct profile_rival){42, "trainer", PROFILE_RIVAL_OWN, 2 * S};
	expect_contention(&s, "own threads had the CPU for 88.9 %", "run fewer of them");
	rivals[0] = rivals[1] =
		(struct profile_rival){7, "perfx-trace itself", PROFILE_RIVAL_TRACER, 2 * S};
	expect_contention(&s, " (pids 7, 7) had the CPU for 88.9 %", "Recording takes the CPUs");
	/* compilers of a build end before their names are read */
	rivals[0] = (struct profile_rival){900, "", PROFILE_RIVAL_OTHER, 3 * S};
	rivals[1] = (struct profile_rival){901, "", PROFILE_RIVAL_OTHER, 2 * S};
	expect_contention(&s, "short-lived processes (2 without a name) had the CPU for 90.9 %, ",
			  "Other programs use the CPUs");
}

/* Steps that wait for batches lose nothing to the workers that prepare these. */
Test(analyze, workers_that_have_the_cpus)
{
	struct profile_rival rivals[] = {
		{43, "loader", PROFILE_RIVAL_JOB, 5 * S},
		{900, "make", PROFILE_RIVAL_OTHER, 3 * S},
	};
	struct profile_process processes[2];
	struct analysis *analysis;
	struct scene s;

	scene_set(&s);
	set_steps(&s, PROFILE_PHASE_DATA, 30 * MS);
	s.thread.runnable_ns = 8 * S;
	s.thread.on_cpu_ns = 2 * S;
	s.process.rivals = rivals;
	s.process.rivals_count = 2;
	processes[0] = processes[1] = s.process;
	processes[1].pid = 43;
	processes[1].ppid = s.process.pid;
	processes[1].ancestor = &processes[0];
	processes[1].rivals_count = 0;
	processes[1].steps = (struct profile_steps){0};
	s.profile.processes = processes;
	s.profile.processes_count = 2;
	analysis = analyze(&s.profile, NULL);
	cr_expect_str_eq(analysis->processes[0].findings[0].kind, "DataBound");
	cr_assert_str_eq(analysis->processes[0].findings[1].kind, "CpuContention");
	cr_expect(strstr(analysis->processes[0].findings[1].headline, " (pid 900) had"), "%s",
		  analysis->processes[0].findings[1].headline);
	analysis__free(analysis);
	/* batches that are there */
	processes[0].steps.phases[PROFILE_PHASE_DATA] = 0;
	analysis = analyze(&s.profile, NULL);
	cr_assert_str_eq(analysis->processes[0].findings[0].kind, "CpuContention");
	cr_expect(strstr(analysis->processes[0].findings[0].headline, " of the same job (pid 43)"),
		  "%s", analysis->processes[0].findings[0].headline);
	analysis__free(analysis);
}

/* A tick of CPU time in a life of 62 µs is no 16,000 % of a CPU. */
Test(analyze, no_more_cpu_time_than_cpus)
{
	struct profile_process process = {.to_ns = 62500, .cpu_ns = 10 * MS};

	process.limits.cpus_count = 2;
	process.threads_count = 3;
	cr_expect_float_eq(cpu_share(&process), 2, 1e-9);
	process.threads_count = 1;
	cr_expect_float_eq(cpu_share(&process), 1, 1e-9);
	process.to_ns = 20 * MS;
	cr_expect_float_eq(cpu_share(&process), 0.5, 1e-9);
	/* it ended before its CPUs were known */
	process.limits.cpus_count = 0;
	process.to_ns = 100000;
	cr_expect_float_eq(cpu_share(&process), 1, 1e-9);
	process.cpu_ns = PROFILE_ABSENT;
	cr_expect_lt(cpu_share(&process), 0);
}

Test(analyze, throttled_and_disk)
{
	struct scene s;

	scene_set(&s);
	s.process.throttled_ns = 99 * MS;
	expect_kinds(s, "");
	s.process.throttled_ns = 100 * MS;
	expect_kinds(s, "CpuThrottled/medium");
	s.process.throttled_ns = 1 * S;
	expect_kinds(s, "CpuThrottled/high");
	s.process.throttled_ns = 0;
	s.process.read_bytes = 1ULL << 30;
	expect_kinds(s, "");
	s.process.cpu_ns = 4 * S;
	expect_kinds(s, "DiskBound/medium");
	s.process.read_bytes = 0;
	s.process.major_faults_count = 1000;
	expect_kinds(s, "DiskBound/medium");
}

/* What is shared is no tensor with its graph, and no option shows where it is allocated. */
Test(analyze, growth_of_shared_memory)
{
	struct scene s;

	scene_set(&s);
	for (uint64_t i = 0; i < 8; i++) {
		s.points[i].rss_bytes += i * (10 << 20);
		s.points[i].rss_shmem_bytes = i * (10 << 20);
	}
	for (unsigned shared = 0; shared < 2; shared++) {
		struct analysis *analysis;
		const struct finding *finding;

		for (uint64_t i = 0; i < 8 && !shared; i++) {
			s.points[i].rss_anon_bytes = s.points[i].rss_shmem_bytes;
			s.points[i].rss_shmem_bytes = 0;
		}
		for (uint64_t i = 0; i < 8 && shared; i++) {
			s.points[i].rss_shmem_bytes = s.points[i].rss_anon_bytes;
			s.points[i].rss_anon_bytes = 1 << 20;
		}
		analysis = analyze(&s.profile, NULL);
		finding = analysis->processes[0].findings;
		cr_assert_str_eq(finding->kind, "MemoryGrowth");
		cr_expect_eq(strstr(finding->evidence, "shared resident memory grew") != NULL,
			     shared);
		cr_expect_eq(strstr(finding->suggestion, "/dev/shm") != NULL, shared);
		cr_expect_eq(strstr(finding->suggestion, "graph") == NULL, shared);
		cr_expect_eq(strstr(finding->headline, "shared memory (files of /dev/shm") != NULL,
			     shared);
		cr_expect_eq(strstr(finding->headline, "shows where") == NULL, shared);
		analysis__free(analysis);
	}
}

/* What the limit takes is not taken by other threads. */
Test(analyze, throttled_without_contention)
{
	struct scene s;

	scene_set(&s);
	s.thread.runnable_ns = 4 * S;
	s.process.throttled_ns = 4 * S;
	expect_kinds(s, "CpuThrottled/high");
	s.process.throttled_ns = 1 * S;
	expect_kinds(s, "CpuContention/high CpuThrottled/high");
}

Test(analyze, memory_growth)
{
	struct scene s;

	scene_set(&s);
	for (uint64_t i = 0; i < 8; i++)
		s.points[i].rss_bytes += i * (10 << 20);
	/* pages of files, shared memory, memory of its own */
	expect_kinds(s, "");
	for (uint64_t i = 0; i < 8; i++)
		s.points[i].rss_shmem_bytes = i * (10 << 20);
	expect_kinds(s, "MemoryGrowth/medium");
	/* however much of it there was before */
	for (uint64_t i = 0; i < 8; i++)
		s.points[i].rss_shmem_bytes = 70 << 20;
	expect_kinds(s, "");
	for (uint64_t i = 0; i < 8; i++)
		s.points[i].rss_anon_bytes = i * (10 << 20);
	expect_kinds(s, "MemoryGrowth/medium");
	/* it grew until its exit freed all */
	s.process.exited = true;
	for (uint64_t i = 0; i < 6; i++) {
		s.points[i].rss_bytes += i * (20 << 20);
		s.points[i].rss_anon_bytes += i * (20 << 20);
	}
	s.points[6].rss_anon_bytes = 1;
	s.points[7].rss_anon_bytes = 0;
	s.points[6].rss_bytes = s.points[0].rss_bytes + 1;
	s.points[7].rss_bytes = s.points[0].rss_bytes;
	expect_kinds(s, "MemoryGrowth/medium");
	s.process.exited = false;
	expect_kinds(s, "");
	/* too few to tell */
	s.process.points_count = 4;
	expect_kinds(s, "");
	s.process.points_count = 8;
	/* up and down */
	for (uint64_t i = 0; i < 8; i++)
		s.points[i].rss_bytes = (1ULL << 30) + (i % 2) * (200 << 20);
	expect_kinds(s, "");
	/* one step, then level */
	for (uint64_t i = 0; i < 8; i++)
		s.points[i].rss_bytes = (1ULL << 30) + (i > 0) * (200 << 20);
	expect_kinds(s, "");
	/* what fills at first is level afterwards, however straight the line is (R² 0.85) */
	for (uint64_t i = 0; i < 8; i++)
		s.points[i].rss_bytes = (1ULL << 30) + (i < 4 ? i : 4) * (50 << 20);
	expect_kinds(s, "");
	/* however little it is of the whole, if it is more than 1 MiB */
	for (uint64_t i = 0; i < 8; i++)
		s.points[i].rss_bytes = (1ULL << 30) + i * (1 << 20);
	expect_kinds(s, "MemoryGrowth/medium");
	for (uint64_t i = 0; i < 8; i++)
		s.points[i].rss_bytes = (1ULL << 30) + i * (1 << 17);
	expect_kinds(s, "");
	s.points[3].rss_bytes = PROFILE_ABSENT;
	expect_kinds(s, "");
}

Test(analyze, overhead_and_losses)
{
	struct scene s;

	scene_set(&s);
	s.profile.overhead_percent = 4.9;
	expect_kinds(s, "");
	s.profile.overhead_percent = 5;
	expect_kinds(s, "Overhead/low");
	s.profile.overhead_percent = 10;
	expect_kinds(s, "Overhead/medium");
	s.profile.overhead_percent = 20;
	expect_kinds(s, "Overhead/high");
	s.profile.observed = (struct profile_observed){.steps_without = 20,
						       .steps_with = 20,
						       .without_ns = 1 * MS,
						       .with_ns = 13 * MS,
						       .noise_percent = 1100};
	expect_evidence(&s, "estimated slowdown 1.2× (+20 %), observed 13× (+1200 %);", true);
	/* within the noise it is not said */
	s.profile.observed.noise_percent = 1300;
	expect_evidence(&s, "observed", false);
	s.profile.observed = (struct profile_observed){0};
	s.profile.overhead_percent = -1;
	s.profile.losses[PERFX_LOSS_RING_DROPS] = 10;
	expect_kinds(s, "");
	s.profile.losses[PERFX_LOSS_RING_DROPS] = 11;
	expect_kinds(s, "Losses/low");
	s.profile.losses[PERFX_LOSS_NMISSED] = 11;
	expect_kinds(s, "Losses/medium Losses/low");
}

/* The slowdown is a pool's parent's, which has the most hits; the most expensive probe is on a
 * function that only a worker calls. */
Test(analyze, overhead_names_a_function_of_the_process_that_it_slows)
{
	struct profile_row worker_row;
	struct profile_function functions[2];
	struct profile_probe probes[2];
	struct profile_process processes[2];
	struct scene s;

	scene_set(&s);
	functions[0] = functions[1] = s.function;
	functions[0].name = "of_the_parent";
	functions[1].name = "of_a_worker";
	functions[1].id = functions[0].id + 1;
	worker_row = s.row;
	worker_row.function = functions[1].id;
	probes[0] = probes[1] = s.probe;
	probes[1].function = functions[1].id;
	probes[1].hits_count = 2 * probes[0].hits_count;
	processes[0] = processes[1] = s.process;
	processes[0].seen_hits_count = 200;
	processes[1].seen_hits_count = 100;
	processes[1].index++;
	processes[1].pid++;
	processes[1].rows = &worker_row;
	s.profile.functions = functions;
	s.profile.functions_count = 2;
	s.profile.probes = probes;
	s.profile.probes_count = 2;
	s.profile.processes = processes;
	s.profile.processes_count = 2;
	s.profile.overhead_percent = 20;
	expect_evidence(&s, "of_the_parent", true);
	expect_evidence(&s, "of_a_worker", false);
}

Test(analyze, ranked_by_severity_and_marked_partial)
{
	struct analysis *analysis;
	struct scene s;

	scene_set(&s);
	s.function.name = "usleep";
	s.row.self_ns = 4 * S;
	s.row.unwound_count = 20;
	s.profile.overhead_percent = 12;
	expect_kinds(s, "SlowOperation/high Overhead/medium Unwound/low");
	s.profile.partial = PROFILE_PARTIAL_LOSSY;
	analysis = analyze(&s.profile, NULL);
	cr_expect(analysis->processes[0].findings[0].partial);
	analysis__free(analysis);
}

static void expect_verdict(const struct scene *s, const char *wanted)
{
	struct analysis *analysis = analyze(&s->profile, NULL);
	struct text plain = {0};

	escape_unmarked(&plain, analysis->verdict);
	cr_expect_str_eq(text_peek(&plain), wanted, "%s", text_peek(&plain));
	text_clear(&plain);
	analysis__free(analysis);
}

Test(analyze, verdicts)
{
	struct scene s;

	scene_set(&s);
	s.row.self_ns = s.process.self_ns = 6200 * MS;
	expect_verdict(&s, "No problem found: python3 (pid 42) spent 62.0 % of 10.0 s in f (1,000 "
			   "calls of 1.00 ms).");
	s.process.cpu_ns = 1 * S;
	expect_verdict(&s, "IDLE: f: self time 6.20 s, 62.0 % of the wall time, in 1,000 calls "
			   "of 1.00 ms on average.");
	s.process.cpu_ns = 31 * S;
	s.row.self_ns = 31 * S;
	expect_verdict(&s,
		       "No problem found: python3 (pid 42) spent 31.0 s of its threads' time in f "
		       "(1,000 calls of 1.00 ms).");
	/* of goroutines more wait for a thread than there are CPUs: that is not idle */
	s.process.cpu_ns = 19 * S;
	s.row.self_ns = 124 * S;
	expect_verdict(&s, "No problem found: python3 (pid 42) spent 2.07 min of its threads' time "
			   "in f (1,000 calls of 1.00 ms).");
	s.row.self_ns = s.process.self_ns = 100 * MS;
	s.process.cpu_ns = 9 * S;
	expect_verdict(&s, "No problem found: python3 (pid 42) used 90.0 % of one CPU in 10.0 s; "
			   "of the traced functions f took most, 1.0 % of the wall time.");
	s.row.avg_ns = PROFILE_ABSENT;
	expect_verdict(&s,
		       "python3 (pid 42) called f 1,000 times in 10.0 s; no call could be timed.");
	s.process.rows_count = 0;
	s.process.calls_count = s.profile.calls_count = 0;
	expect_verdict(&s, "No problem found: python3 (pid 42) used 90.0 % of one CPU in 10.0 s.");
	s.process.to_ns = s.process.from_ns + 14 * MS;
	s.process.cpu_ns = 7 * MS;
	expect_verdict(&s,
		       "Too short to judge: python3 (pid 42) used 50.0 % of one CPU in 14.0 ms.");
	s.process.to_ns = s.process.from_ns + 10 * S;
	s.process.cpu_ns = 0;
	expect_verdict(&s, "IDLE: python3 (pid 42): used 0 ns of CPU time in 10.0 s (0 %).");
	s.profile.target_killed = s.process.exited = true;
	s.process.status = 9;
	expect_verdict(&s, "KILLED: python3 (pid 42) was killed by SIGKILL.");
	s.profile.processes_count = 0;
	expect_verdict(&s, "Nothing was traced: the capture contains no process.");
	s.profile.target_exited = true;
	expect_verdict(&s, "Nothing was traced: the program ended before tracing began. "
			   "perfx-trace run -- COMMAND traces it from its start.");
}

static void expect_silence(const struct scene *s, const char *part)
{
	struct analysis *analysis = analyze(&s->profile, NULL);
	const char *silence = analysis->processes[0].silence;

	if (part)
		cr_expect(silence && strstr(silence, part), "%s", silence);
	else
		cr_expect_null(silence);
	analysis__free(analysis);
}

Test(analyze, silence)
{
	struct profile_process both[2];
	struct scene s;

	scene_set(&s);
	expect_silence(&s, NULL);
	s.process.rows_count = 0;
	s.process.calls_count = s.profile.calls_count = 0;
	expect_silence(&s, "busy in other functions");
	expect_silence(&s, "9.00 s of CPU time in 10.0 s; last states of its threads: 1 running.");
	s.process.cpu_ns = 1 * MS;
	expect_silence(&s, "idle or blocked");
	s.process.unmatched_entries = 2;
	expect_silence(&s, "2 calls of traced functions had not returned");
	s.profile.probes_count = 0;
	expect_silence(&s, "No probe was attached");
	/* another one is busy */
	both[0] = both[1] = s.process;
	both[1].pid = 43;
	both[1].cpu_ns = 8 * S;
	s.profile.processes = both;
	s.profile.processes_count = 2;
	expect_silence(&s, "(pid 43), which used 80.0 % of one CPU");
}
