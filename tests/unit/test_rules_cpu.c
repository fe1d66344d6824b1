// SPDX-License-Identifier: BSD-2-Clause
/* Findings about CPUs that a training lacks: each rule fires, and does not on a near miss. */
#include "training_fixture.h"

/* Stacks of threads that compute together: in work, in the runtime's barrier, in that of oneDNN's
 * compiled code, in a compiled loop of the program's own, in compiled code at many addresses. */
enum { WORKS = 20, POLLS, BARRIER, OWN_LOOP, COMPILED };
#define COMPILED_COUNT 16
#define OF_LIBRARY     (COMPILED + COMPILED_COUNT)
#define OTHERS	       6000 /* the first tid of the pool's other threads */
#define LIBGOMP	       "/usr/lib/libgomp.so.1.0.0"

static void begin_pool(struct stream *s)
{
	begin(s);
	stream_stack(s, 1, WORKS, PERFX_STACK_PC, 0x3000, 0x4000, LOOP);
	stream_stack(s, 1, POLLS, PERFX_STACK_PC, 0x4100, 0x4000, LOOP);
	stream_stack(s, 1, BARRIER, PERFX_STACK_PC, 0x9002, 0x3100, 0x4000, LOOP);
	stream_stack(s, 1, OWN_LOOP, PERFX_STACK_PC, 0x9002, 0x3000, 0x4000, LOOP);
	for (uint64_t i = 0; i < COMPILED_COUNT; i++)
		stream_stack(s, 1, (uint32_t)(COMPILED + i), PERFX_STACK_PC, 0x8000 + 64 * i,
			     0x3100, 0x4000, LOOP);
	stream_frame(s, 1, 0x3100, 0, "dnnl::impl::cpu::x64::jit_conv_bwd_weights_t::execute",
		     TORCH, 0x31, "", 0);
	stream_frame(s, 1, 0x4000, 0, "GOMP_parallel", LIBGOMP, 0x40, "", 0);
	stream_frame(s, 1, 0x4100, 0, "", LIBGOMP, 0x41, "", 0);
	stream_frame(s, 1, 0x9002, 0, "", "", 0, "", 0);
}

static void lacks_cpus(struct stream *s, uint64_t pid, const char *name, uint64_t ms)
{
	stream_wait_object(s, 1, PERFX_WAIT_RUNNABLE, pid, name);
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = MAIN,
		     .reason = PERFX_WAIT_RUNNABLE, .object = pid, .blocked_ns = ms * MS,
		     .count = 100, .max_ns = 9 * MS);
}

/* Other threads of the pool: each works for a second, and lacks a CPU for so long. */
static void pool_threads_in(struct stream *s, uint32_t stack, unsigned count, uint64_t runnable_ms)
{
	for (uint32_t i = 0; i < count; i++) {
		samples(s, (struct perfx_sample){.stack = stack, .tid = OTHERS + i}, 100);
		stream_thread(s, 1, OTHERS + i, "python3", 'R', 0, 0, 0);
		stream_thread(s, 1, OTHERS + i, "python3", 'R', 10 * S, 1 * S, runnable_ms * MS);
	}
}

static void pool_threads(struct stream *s, unsigned count, uint64_t runnable_ms)
{
	pool_threads_in(s, WORKS, count, runnable_ms);
}

static const struct finding *expect_gain(const struct report *report, const char *kind,
					 uint64_t gain_ms)
{
	const struct finding *finding = find(report, kind);

	cr_assert_not_null(finding, "no %s: %s", kind, report->analysis->verdict);
	cr_expect_float_eq(finding->gain_ns, (double)(gain_ms * MS), 1e6, "%f", finding->gain_ns);
	cr_expect_gt(finding->confidence, 0.5);
	return finding;
}

Test(rules_cpu, another_program_has_the_cpus)
{
	struct stream s = {0};
	struct report report;
	const struct finding *finding;

	begin(&s);
	lacks_cpus(&s, MAIN, "python3", 1000);
	lacks_cpus(&s, 900, "make", 2000);
	lacks_cpus(&s, 901, "make", 1000);
	report = end_after(&s, 4 * S);
	finding = expect_gain(&report, "CpuContention", 400);
	cr_expect(contains(finding->evidence,
			   "; meanwhile make (pids 900, 901) had the CPU for 75.0 %, its own "
			   "threads for 25.0 %"));
	cr_expect(contains(finding->suggestion, "Other programs use the CPUs"));
	cr_expect_eq(finding->severity, FINDING_HIGH);
	cr_expect_eq(finding->bottleneck, BOTTLENECK_CONTENTION);
	cr_expect(contains(finding->headline, "CPU CONTENTION: 400 ms of each second is lost "
					      "waiting for CPUs that make (pids 900, 901) had for "
					      "75.0 % of that time, its own threads for 25.0 %"));
	forget(&report);
}

/* The evidence gives the figure of the headline first, and says whose the other one is. */
Test(rules_cpu, one_figure_for_what_is_lost)
{
	for (unsigned others = 0; others < 2; others++) {
		struct stream s = {0};
		struct report report;
		const struct finding *finding;

		begin(&s);
		lacks_cpus(&s, 900, "make", 4000);
		if (others)
			pool_threads(&s, 1, 2000);
		report = end_after(&s, 4 * S);
		finding = expect_gain(&report, "CpuContention", 400);
		cr_expect(contains(finding->headline, "CPU CONTENTION: 400 ms of each second is "));
		cr_expect_eq(strstr(finding->evidence, "400 ms of each second is lost to the "
						       "thread that drives it; "),
			     finding->evidence, "%s", finding->evidence);
		cr_expect(contains(finding->evidence,
				   others ? "; all its threads together waited 6.00 s for a CPU"
					  : "; it waited 4.00 s for a CPU"),
			  "%s", finding->evidence);
		forget(&report);
	}
}

/* Threads that take turns of a mutex lack a CPU where they hand it over: that is the mutex's. */
Test(rules_cpu, a_mutex_is_the_cause)
{
	for (unsigned elsewhere = 0; elsewhere < 2; elsewhere++) {
		struct stream s = {0};
		struct report report;
		const struct finding *contention, *lock;

		begin(&s);
		waits(&s, PERFX_WAIT_FUTEX, 0x66, MUTEX, 2000);
		lacks_cpus(&s, 900, "make", 4000);
		samples(&s,
			(struct perfx_sample){.stack = elsewhere ? PYTHON_CODE : MUTEX,
					      .state = PERFX_SAMPLE_RUNNABLE},
			90);
		samples(&s,
			(struct perfx_sample){.stack = PYTHON_CODE, .state = PERFX_SAMPLE_RUNNABLE},
			10);
		report = end_after(&s, 4 * S);
		/* half of the second is its own CPU time */
		lock = expect_gain(&report, "LockWait", elsewhere ? 200 : 500);
		contention = expect_gain(&report, "CpuContention", elsewhere ? 400 : 40);
		cr_expect_eq(lock < contention, !elsewhere);
		cr_expect(contains(report.analysis->verdict,
				   elsewhere ? "CPU CONTENTION: " : "LOCK-BOUND: "));
		if (!elsewhere)
			cr_expect(contains(lock->evidence,
					   "; 90.0 % of its waiting for a CPU was at a mutex"));
		forget(&report);
	}
}

/* A child of another name is no other program: what it used is not the others'. */
Test(rules_cpu, a_child_has_the_cpus)
{
	struct stream s = {0};
	struct report report;
	const struct finding *finding;

	begin(&s);
	for (uint64_t i = 0; i < 2; i++) {
		struct perfx_usage usage = usage_absent(2, i * 10 * S);

		usage.cpu_user_ns = i * 2 * S;
		usage.cpu_system_ns = 0;
		usage.host_busy_ns = (1 + 9 * i) * S;
		usage.host_steal_ns = 0;
		stream_put(&s, PACK(&s.buffer, PERFX_KIND_USAGE, usage));
	}
	lacks_cpus(&s, MAIN, "python3", 1000);
	lacks_cpus(&s, WORKER, "worker", 2000);
	report = end_after(&s, 3 * S);
	finding = expect_gain(&report, "CpuContention", 300);
	cr_expect(contains(finding->headline, "that worker of the same job (pid 5000) had"));
	/* of 9 s of the host, without 6 s of its own, the child's 2 s and the tracer */
	cr_expect(contains(finding->evidence, "; other programs used 880 ms of CPU time"), "%s",
		  finding->evidence);
	forget(&report);
}

Test(rules_cpu, its_own_threads_have_the_cpus)
{
	struct stream s = {0};
	struct report report;
	const struct finding *finding;

	begin(&s);
	lacks_cpus(&s, MAIN, "python3", 3000);
	lacks_cpus(&s, 900, "make", 1000);
	/* threads that come and go: together they run more than the one that stays */
	for (uint32_t i = 1; i <= 50; i++)
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .tid = POOL + i}, 1);
	samples(&s, (struct perfx_sample){.stack = NATIVE, .tid = POOL}, 40);
	report = end_after(&s, 4 * S);
	finding = expect_gain(&report, "CpuContention", 400);
	cr_expect(contains(finding->evidence,
			   "its other threads run mostly normalize (features.py:88)"));
	cr_expect(contains(finding->suggestion, "The program has more runnable threads than CPUs"));
	cr_expect(contains(finding->headline, "waiting for CPUs that its own threads had"));
	forget(&report);
}

/* Strangers of the same name are not its own. */
Test(rules_cpu, rivals_of_the_same_name)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	lacks_cpus(&s, MAIN, "python3", 1000);
	lacks_cpus(&s, 900, "python3", 2000);
	lacks_cpus(&s, 901, "python3", 1000);
	report = end_after(&s, 4 * S);
	cr_expect(contains(
		expect_gain(&report, "CpuContention", 400)->evidence,
		"; meanwhile python3 (pids 900, 901) had the CPU for 75.0 %, its own threads "
		"for 25.0 %"));
	forget(&report);
}

Test(rules_cpu, little_waiting_for_cpus)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	lacks_cpus(&s, 900, "make", 550);
	report = end_after(&s, 550 * MS);
	cr_expect_null(find(&report, "CpuContention"));
	forget(&report);
}

/* Polling is found by samples: with what was waited exactly, it may come to more than the time. No
 * more is lost than what is computed leaves of it, by two CPUs. */
Test(rules_cpu, no_more_is_lost_than_there_is)
{
	struct stream s = {0};
	struct report report;

	begin_pool(&s);
	samples(&s, (struct perfx_sample){.stack = WORKS}, 100);
	samples(&s, (struct perfx_sample){.stack = POLLS}, 400);
	lacks_cpus(&s, 900, "make", 7000);
	pool_threads(&s, 1, 9000);
	report = end_after(&s, 7 * S);
	cr_expect(contains(find(&report, "CpuContention")->headline,
			   "CPU CONTENTION: 850 ms of each second is lost"),
		  "%s", find(&report, "CpuContention")->headline);
	forget(&report);
}

/* The driver does the part of a thread that has no CPU, and never waits: it works for nine seconds
 * rather than five, or one less where both work as long as that thread waits for a CPU. */
Test(rules_cpu, a_pool_that_shares_work_as_it_comes)
{
	for (unsigned fair = 0; fair < 2; fair++) {
		struct stream s = {0};
		struct report report;

		begin_pool(&s);
		samples(&s, (struct perfx_sample){.stack = WORKS}, 900);
		samples(&s,
			(struct perfx_sample){
				.stack = WORKS, .tid = OTHERS, .state = PERFX_SAMPLE_RUNNABLE},
			fair ? 200 : 900);
		lacks_cpus(&s, 900, "make", 9000);
		pool_threads(&s, 1, fair ? 2000 : 9000);
		report = end_after(&s, 1 * S);
		expect_gain(&report, "CpuContention", fair ? 100 + 100 : 100 + 400);
		forget(&report);
	}
}

/* Of ten seconds the main thread works for one, polls for four, and lacks a CPU for four. */
static struct report crowded(unsigned others, uint32_t polls, uint64_t runnable_ms)
{
	struct stream s = {0};

	begin_pool(&s);
	samples(&s, (struct perfx_sample){.stack = WORKS}, 100);
	samples(&s, (struct perfx_sample){.stack = polls}, 400);
	lacks_cpus(&s, MAIN, "python3", 4000);
	pool_threads(&s, others, runnable_ms);
	return end_after(&s, 4 * S);
}

Test(rules_cpu, more_threads_than_cpus)
{
	/* what its pool works is eight seconds for one thread, four for each of two */
	struct report report = crowded(7, POLLS, 4000);
	const struct finding *finding = expect_gain(&report, "Oversubscribed", 800 - 300);

	cr_expect_eq(finding->severity, FINDING_HIGH);
	cr_expect_eq(finding->bottleneck, BOTTLENECK_OVERSUBSCRIBED);
	cr_expect(contains(finding->evidence, "the 8 threads of its pool (libgomp.so.1.0.0) polled "
					      "for each other in 33.3 % of their CPU time"));
	cr_expect(contains(finding->suggestion, "torch.set_num_threads(2), or OMP_NUM_THREADS=2"));
	cr_expect(contains(finding->headline, "OVERSUBSCRIBED: 500 ms of each second is lost: 8 "
					      "threads compute on 2 CPUs"));
	cr_expect_null(find(&report, "CpuContention"));
	forget(&report);
}

/* Another program makes it worse, and has its part. */
Test(rules_cpu, more_threads_than_cpus_beside_another_program)
{
	struct stream s = {0};
	struct report report;

	begin_pool(&s);
	samples(&s, (struct perfx_sample){.stack = POLLS}, 400);
	lacks_cpus(&s, MAIN, "python3", 3000);
	lacks_cpus(&s, 900, "make", 1000);
	pool_threads(&s, 7, 4000);
	report = end_after(&s, 4 * S);
	cr_expect(contains(find(&report, "Oversubscribed")->headline,
			   "8 threads compute on 2 CPUs, which make (pid 900) had for 25.0 % of "
			   "that time"));
	forget(&report);
}

/* The remedy is that of the library whose pool it is. */
Test(rules_cpu, settings_of_libraries)
{
	static const struct {
		const char *module, *function, *setting;
	} cases[] = {
		{"/opt/torch/lib/libtorch_cpu.so", "gemm", ": torch.set_num_threads(2), or OMP_"},
		{"/opt/jaxlib/libjax_common.so", "gemm", ": taskset -c to 2 CPUs (XLA has a"},
		{"/opt/tensorflow/libtensorflow_cc.so.2", "gemm",
		 ": tf.config.threading.set_intra_op_parallelism_threads(2), or"},
		{"/opt/xgboost/lib/libxgboost.so", "gemm", ": nthread=2 (n_jobs), or OMP_"},
		{"/opt/onnxruntime_pybind11_state.cpython-311.so", "",
		 ": SessionOptions.intra_op_num_threads = 2, or"},
		{"/opt/polars/polars.abi3.so", "", ": POLARS_MAX_THREADS=2 before"},
		{"/opt/numba/np/ufunc/omppool.cpython-311.so", "",
		 ": numba.set_num_threads(2), or NUMBA_NUM_THREADS=2 before"},
		{"/opt/cv2/cv2.abi3.so", "cv::parallel_for_", ": cv2.setNumThreads(2)."},
		{"/opt/lib/libmkl_core.so.2", "gemm", ": MKL_NUM_THREADS=2 before"},
		{"/opt/numpy.libs/libscipy_openblas64_-ff651d7f.so", "gemm",
		 ": OPENBLAS_NUM_THREADS=2 before"},
		{"/home/u/target/release/job", "rayon_core::job::StackJob<…>::execute",
		 ": RAYON_NUM_THREADS=2 before"},
		{"/home/u/job", "runtime.goexit.abi0", ": GOMAXPROCS=2 before"},
		/* the pool itself is libgomp's */
		{"/opt/lib/libother.so", "gemm", ": OMP_NUM_THREADS=2 before the program starts."},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stream s = {0};
		struct report report;

		begin_pool(&s);
		stream_stack(&s, 1, OF_LIBRARY, PERFX_STACK_PC, 0xa000, 0x4000);
		stream_frame(&s, 1, 0xa000, 0, cases[i].function, cases[i].module, 0x30, "", 0);
		samples(&s, (struct perfx_sample){.stack = OF_LIBRARY}, 100);
		samples(&s, (struct perfx_sample){.stack = POLLS}, 400);
		lacks_cpus(&s, MAIN, "python3", 4000);
		pool_threads_in(&s, OF_LIBRARY, 7, 4000);
		report = end_after(&s, 4 * S);
		cr_expect(contains(expect_gain(&report, "Oversubscribed", 500)->suggestion,
				   cases[i].setting),
			  "%s", find(&report, "Oversubscribed")->suggestion);
		forget(&report);
	}
}

/* Threads of the program's own: nothing is said of OpenMP or of data loaders. */
Test(rules_cpu, no_settings_of_an_unknown_pool)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	lacks_cpus(&s, MAIN, "python3", 3000);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .tid = POOL}, 50);
	report = end_after(&s, 4 * S);
	cr_expect_str_eq(find(&report, "CpuContention")->suggestion,
			 "The program has more runnable threads than CPUs: run fewer of them, or "
			 "have them wait while the main thread needs the CPU.");
	forget(&report);
}

/* XLA has helpers beside a thread for each CPU, which hardly run. */
Test(rules_cpu, threads_of_a_pool_that_hardly_run)
{
	struct report report = crowded(7, POLLS, 200);

	cr_expect_null(find(&report, "Oversubscribed"));
	cr_expect_not_null(find(&report, "CpuContention"));
	forget(&report);
}

/* Threads that nothing shows to be a pool are a crowd, too, those that hardly run are no part of
 * it.
 */
Test(rules_cpu, more_threads_of_any_kind_than_cpus)
{
	for (unsigned busy = 0; busy < 2; busy++) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		lacks_cpus(&s, MAIN, "python3", 3000);
		for (uint32_t tid = POOL + 1; tid <= POOL + 2; tid++) {
			stream_thread(&s, 1, tid, "python3", 'R', 0, 0, 0);
			stream_thread(&s, 1, tid, "python3", 'R', 10 * S, (busy ? 5 : 1) * S,
				      busy * 4 * S);
		}
		report = end_after(&s, 4 * S);
		cr_expect_eq(find(&report, "Oversubscribed") != NULL, busy);
		if (busy)
			cr_expect(contains(find(&report, "Oversubscribed")->headline,
					   "3 threads compute on 2 CPUs"));
		else
			cr_assert_not_null(find(&report, "CpuContention"));
		forget(&report);
	}
}

/* Two ranks of a job, each with as many threads as there are CPUs. */
Test(rules_cpu, more_threads_than_cpus_in_all_processes)
{
	struct stream s = {0};
	struct report report;
	const struct finding *finding;

	begin_pool(&s);
	stream_add(&s, PERFX_KIND_PROCESS, struct perfx_process, STRINGS("python3", "python3"),
		   .time_ns = STREAM_START, .start_boot_ns = 40 * S, .process = 3, .pid = 7000,
		   .ppid = MAIN);
	stream_usage(&s, 3, 0, 0, 0, 200 << 20);
	stream_usage(&s, 3, 10 * S, 5 * S, 0, 200 << 20);
	samples(&s, (struct perfx_sample){.stack = WORKS}, 100);
	lacks_cpus(&s, 7000, "python3", 4000);
	pool_threads(&s, 1, 4000);
	report = end_after(&s, 4 * S);
	finding = find(&report, "Oversubscribed");
	cr_assert_not_null(finding);
	cr_expect(
		contains(finding->headline, "2 threads in each of 2 processes compute on 2 CPUs"));
	cr_expect(contains(finding->suggestion, "Compute with 1 thread in each process"));
	forget(&report);
}

static void expect_no_polling(struct report *report)
{
	cr_expect_null(strstr(find(report, "Oversubscribed")->evidence, "polled for each other"));
	forget(report);
}

/* In oneDNN's kernels a loop of a few bytes polls; samples all over them compute. So does a loop of
 * the program's own, such as one of numba's prange. */
Test(rules_cpu, barriers_of_compiled_code)
{
	struct report report = crowded(7, BARRIER, 4000);
	struct stream s = {0};

	expect_gain(&report, "Oversubscribed", 800 - 300);
	forget(&report);
	report = crowded(7, OWN_LOOP, 4000);
	expect_no_polling(&report);
	begin_pool(&s);
	for (uint32_t i = 0; i < COMPILED_COUNT; i++)
		samples(&s, (struct perfx_sample){.stack = COMPILED + i}, 25);
	pool_threads(&s, 7, 4000);
	lacks_cpus(&s, MAIN, "python3", 4000);
	report = end_after(&s, 4 * S);
	expect_no_polling(&report);
}

/* Nine threads one after the other, each there for 0.9 s, of which it waits for 0.6. */
static struct report serves(enum perfx_wait_reason reason)
{
	uint64_t runnable_ns = reason == PERFX_WAIT_RUNNABLE ? 600 * MS : 0;
	struct stream s = {0};

	begin(&s);
	stream_wait_object(&s, 1, PERFX_WAIT_RUNNABLE, 900, "make");
	for (uint32_t i = 0; i < 9; i++) {
		stream_thread(&s, 1, OTHERS + i, "python3", 'R', i * S, 0, 0);
		stream_call(&s, CONV, OTHERS + i, i * S + 900 * MS, 900 * MS, 900 * MS, 0);
		samples(&s, (struct perfx_sample){.stack = NATIVE, .tid = OTHERS + i}, 30);
		stream_thread(&s, 1, OTHERS + i, "python3", 'R', i * S + 900 * MS, 300 * MS,
			      runnable_ns);
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
			     .tid = OTHERS + i, .reason = (uint8_t)reason, .object = 900,
			     .blocked_ns = 600 * MS, .count = 100, .max_ns = 9 * MS);
	}
	return end_without_call(&s, 0, 6 * S);
}

/* What one of them waits for is not said of the process, what all of them lack is. */
Test(rules_cpu, a_server_with_a_thread_for_each_request)
{
	struct report report = serves(PERFX_WAIT_RUNNABLE);

	expect_gain(&report, "CpuContention", 540);
	forget(&report);
	report = serves(PERFX_WAIT_POLL);
	cr_expect_null(find(&report, "CpuContention"));
	cr_expect(contains(report.analysis->verdict, "No problem found: "));
	cr_expect_null(strstr(report.analysis->verdict, " of the time its thread "));
	forget(&report);
}

/* As many threads as CPUs: who waits has a rival, or works beside the pool. */
Test(rules_cpu, as_many_threads_as_cpus)
{
	struct report report = crowded(1, POLLS, 4000);

	cr_expect_null(find(&report, "Oversubscribed"));
	expect_gain(&report, "CpuContention", 800);
	forget(&report);
	/* it cannot wait longer for others than these lack a CPU */
	report = crowded(1, POLLS, 1000);
	expect_gain(&report, "CpuContention", 500);
	forget(&report);
}

/* Five seconds in a convolution: what its thread and each other one of its pool do, 10 ms each. */
static struct report shared_work(unsigned works, unsigned polls, unsigned others,
				 unsigned other_works, unsigned other_polls, uint32_t other_stack)
{
	struct stream s = {0};

	begin_pool(&s);
	samples(&s, (struct perfx_sample){.stack = WORKS, .context = CONV}, works);
	samples(&s, (struct perfx_sample){.stack = POLLS, .context = CONV}, polls);
	for (uint32_t i = 0; i < others; i++) {
		samples(&s, (struct perfx_sample){.stack = other_stack, .tid = OTHERS + i},
			other_works);
		samples(&s, (struct perfx_sample){.stack = POLLS, .tid = OTHERS + i}, other_polls);
	}
	stream_call(&s, CONV, MAIN, 0, 5 * S, 5 * S, 0);
	return end_after(&s, 0);
}

Test(rules_cpu, threads_that_share_work_badly)
{
	struct report report = shared_work(480, 20, 3, 20, 300, WORKS);
	const struct finding *finding = find(&report, "LowParallelEfficiency");

	cr_assert_not_null(finding);
	cr_expect(contains(finding->subject, "aten::convolution"));
	cr_expect(contains(finding->evidence, "speed-up 1.1 with 4 threads, efficiency 26.9 % "
					      "(1460 samples), in 50.1 % of the wall time"),
		  "%s", finding->evidence);
	cr_expect_eq(finding->severity, FINDING_MEDIUM);
	cr_expect_gt(finding->confidence, 0.95);
	/* one of two CPUs would have had to work for 4.62 s more, of ten */
	cr_expect_float_eq(finding->gain_ns, 231e6, 1e6, "%f", finding->gain_ns);
	forget(&report);
}

/* A function in which nobody works for half of the time waits: more work in each call, or fewer
 * threads, make it no faster. */
Test(rules_cpu, calls_that_wait)
{
	struct report report = shared_work(100, 20, 3, 20, 300, WORKS);

	cr_expect_null(find(&report, "LowParallelEfficiency"));
	forget(&report);
}

/* Its pool works, while the caller only waits for what that does. */
Test(rules_cpu, calls_that_wait_for_a_pool)
{
	struct report report = shared_work(200, 0, 3, 200, 200, WORKS);

	cr_expect_null(find(&report, "LowParallelEfficiency"));
	forget(&report);
}

/* Threads that are not known as its pool may do a part of the work. */
Test(rules_cpu, threads_of_an_unknown_pool)
{
	struct report report = shared_work(480, 20, 3, 200, 300, PYTHON_CODE);

	cr_expect_null(find(&report, "LowParallelEfficiency"));
	forget(&report);
}

Test(rules_cpu, threads_that_share_work_well)
{
	struct report report = shared_work(450, 50, 1, 300, 150, WORKS);

	cr_expect_null(find(&report, "LowParallelEfficiency"));
	forget(&report);
	/* another thread that is none of the pool is not one of two */
	report = shared_work(300, 150, 1, 30, 0, PYTHON_CODE);
	cr_expect_null(find(&report, "LowParallelEfficiency"));
	forget(&report);
	/* too few samples */
	report = shared_work(10, 9, 3, 1, 5, WORKS);
	cr_expect_null(find(&report, "LowParallelEfficiency"));
	forget(&report);
}

/* Python's threads call a library, each for itself: the number of its threads is no remedy. */
Test(rules_cpu, settings_of_python_pools)
{
	static const struct {
		const char *file, *setting;
	} cases[] = {
		{"/usr/lib/python3.11/concurrent/futures/thread.py",
		 "the main thread needs the CPU (ThreadPoolExecutor(max_workers=2))."},
		{"/opt/site-packages/joblib/parallel.py", "needs the CPU (n_jobs=2)."},
		{"/opt/serve.py", "needs the CPU."},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const uint64_t frame = python_frame(0x7f0000009000, 3);
		struct stream s = {0};
		struct report report;

		begin(&s);
		stream_stack(&s, 1, OF_LIBRARY, PERFX_STACK_PC, 0xa000, LOOP, frame);
		stream_frame(&s, 1, 0xa000, 0, "run", "/opt/onnxruntime_pybind11_state.so", 0x30,
			     "", 0);
		stream_python_frame(&s, 1, frame, "run", cases[i].file, 58);
		lacks_cpus(&s, MAIN, "python3", 3000);
		for (uint32_t tid = POOL + 1; tid <= POOL + 2; tid++) {
			samples(&s, (struct perfx_sample){.stack = OF_LIBRARY, .tid = tid}, 100);
			stream_thread(&s, 1, tid, "python3", 'R', 0, 0, 0);
			stream_thread(&s, 1, tid, "python3", 'R', 10 * S, 5 * S, 4 * S);
		}
		report = end_after(&s, 4 * S);
		cr_expect(contains(find(&report, "Oversubscribed")->suggestion, cases[i].setting),
			  "%s", find(&report, "Oversubscribed")->suggestion);
		forget(&report);
	}
}

/* A wait at a barrier of the driver, and the thread that comes last and wakes it. */
static void meets(struct stream *s, const char *function, const char *file, uint64_t ms)
{
	stream_stack(s, 1, 80, PERFX_STACK_PC, 0x9a00, 0x9b00);
	stream_frame(s, 1, 0x9a00, 0, function, LIBC, 0x9a, "", 0);
	stream_frame(s, 1, 0x9b00, 0, "solve", "/opt/program", 0x9b, file, 7);
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = MAIN,
		     .reason = PERFX_WAIT_FUTEX, .object = 0x66, .holder_tid = OTHERS,
		     .blocked_ns = ms * MS, .count = 100, .max_ns = 40 * MS);
	samples(s,
		(struct perfx_sample){.stack = 80,
				      .state = PERFX_SAMPLE_WAITING,
				      .reason = PERFX_WAIT_FUTEX,
				      .object = 0x66},
		5);
}

/* The main thread works for 5 s of 10; the other for so long. */
static struct report meeting(const char *function, uint64_t waits_ms, uint64_t other_ms)
{
	struct stream s = {0};

	begin(&s);
	meets(&s, function, "solve.c", waits_ms);
	stream_stack(&s, 1, 81, PERFX_STACK_PC, 0x9b00);
	samples(&s, (struct perfx_sample){.stack = 81}, 500);
	samples(&s, (struct perfx_sample){.stack = 81, .tid = OTHERS}, (unsigned)(other_ms / 10));
	stream_thread(&s, 1, OTHERS, "solver", 'R', 0, 0, 0);
	stream_thread(&s, 1, OTHERS, "solver", 'R', 10 * S, other_ms * MS, 0);
	return end_using(&s, 0, 5 * S + other_ms * MS);
}

Test(rules_cpu, threads_that_wait_for_the_slowest)
{
	struct report report = meeting("pthread_barrier_wait", 7000, 9000);

	/* no more than its CPU time leaves, that of the pool included */
	expect_gain(&report, "Imbalance", 250);
	cr_expect(contains(report.analysis->verdict,
			   "IMBALANCED: 30.0 % of the wall time is lost as 2 threads wait for each "
			   "other at a barrier (solve (solve.c:7)): thread solver (tid 6000) works "
			   "for 90.0 % of the time, the other for 50.0 %; it runs mostly solve "
			   "(solve.c:7)."));
	forget(&report);
	report = meeting("std::barrier<std::__empty_completion>::wait", 7000, 9000);
	cr_expect_not_null(find(&report, "Imbalance"));
	forget(&report);
	/* each is the slowest at times */
	report = meeting("pthread_barrier_wait", 10000, 5000);
	cr_expect(contains(find(&report, "Imbalance")->evidence,
			   "of which now one is the slowest and now another; they run mostly"));
	forget(&report);
	/* they meet once; what else they wait for is no matter of the other */
	report = meeting("pthread_barrier_wait", 1000, 9000);
	cr_expect_null(find(&report, "Imbalance"));
	forget(&report);
	/* a condition may be that of idle workers */
	report = meeting("pthread_cond_wait", 7000, 9000);
	cr_expect_null(find(&report, "Imbalance"));
	forget(&report);
}

/* In a program without Python: with it, the operators' parallel efficiency is judged. */
Test(rules_cpu, parallel_regions_that_are_not_balanced)
{
	for (unsigned python = 0; python < 2; python++) {
		struct stream s = {0};
		struct report report;

		begin_pool(&s);
		stream_frame(&s, 1, 0x9b00, 0, "solve", "/opt/program", 0x9b, "solve.c", 7);
		stream_stack(&s, 1, 82, PERFX_STACK_PC, 0x9b00, 0x4000);
		stream_stack(&s, 1, 83, PERFX_STACK_PC, 0x4100, 0x4000);
		samples(&s, (struct perfx_sample){.stack = python ? WORKS : 82}, 900);
		samples(&s, (struct perfx_sample){.stack = python ? WORKS : 82, .tid = OTHERS},
			300);
		samples(&s, (struct perfx_sample){.stack = python ? POLLS : 83, .tid = OTHERS},
			600);
		report = end_using(&s, 0, 18 * S);
		cr_expect_eq(find(&report, "Imbalance") != NULL, !python);
		if (!python)
			cr_expect(contains(
				find(&report, "Imbalance")->evidence,
				"at the ends of parallel regions: thread python3 (tid "
				"4242) works for 100 % of the regions' time, the other for "
				"33.3 %"));
		forget(&report);
	}
}
