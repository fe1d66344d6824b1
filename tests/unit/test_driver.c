// SPDX-License-Identifier: BSD-2-Clause
/* Findings about the thread that drives a process: each rule fires, and does not on a near miss. */
#include "analyze/analyze.h"
#include "base/escape.h"

#include "replay_fixture.h"

#include <stdlib.h>

/* A training of ten seconds in train.py, with a pool's thread and a data loader's worker beside. */
#define MAIN	  4242
#define POOL	  4243
#define WORKER	  5000
#define PYTHON	  "/usr/bin/python3.11"
#define LIBC	  "/usr/lib/libc.so.6"
#define TORCH	  "/opt/torch/lib/libtorch_python.so"
#define NORMALIZE python_frame(0x7f0000001000, 8)
#define LOOP	  python_frame(0x7f0000002000, 9)
#define GET	  python_frame(0x7f0000003000, 10)
#define WAITS	  python_frame(0x7f0000004000, 11)
#define MODULE	  python_frame(0x7f0000005000, 12)

/* Stacks. In PYTHON_CODE the interpreter itself runs normalize(), in EXTENSION a library that it
 * calls; OF_QUEUE and OF_CONDITION wait for a lock inside of Python's own modules; FRAMEWORK is
 * Python of an installed package. */
enum {
	PYTHON_CODE = 1,
	EXTENSION,
	LOCK,
	OF_QUEUE,
	OF_CONDITION,
	MUTEX,
	NATIVE,
	FRAMEWORK,
	MALLOC,
	FSYNC
};
enum { CONV = 1, RANGE, BATCHES, OPTIMIZER };

static void begin(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, MAIN, "python3", "python3\x1ftrain.py");
	stream_add(s, PERFX_KIND_PROCESS, struct perfx_process, STRINGS("worker", "python3"),
		   .time_ns = STREAM_START, .start_boot_ns = 40 * S, .process = 2, .pid = WORKER,
		   .ppid = MAIN);
	stream_function(s, CONV, "at::_ops::convolution::call", "/libtorch_cpu.so",
			PERFX_SOURCE_TORCH);
	stream_add(s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS("epoch", "", ""),
		   .function = RANGE, .source = PERFX_SOURCE_TORCH, .flags = PERFX_FUNCTION_RANGE);
	stream_context(s, CONV, 0, CONV, 1);
	stream_context(s, RANGE, 0, RANGE, 1);
	stream_add(s, PERFX_KIND_FUNCTION, struct perfx_function,
		   STRINGS("enumerate(DataLoader)#_Iter.__next__", "", ""), .function = BATCHES,
		   .source = PERFX_SOURCE_TORCH, .flags = PERFX_FUNCTION_RANGE);
	stream_add(s, PERFX_KIND_FUNCTION, struct perfx_function,
		   STRINGS("Optimizer.step#SGD.step", "", ""), .function = OPTIMIZER,
		   .source = PERFX_SOURCE_TORCH, .flags = PERFX_FUNCTION_RANGE);
	stream_context(s, BATCHES, 0, BATCHES, 1);
	stream_context(s, OPTIMIZER, 0, OPTIMIZER, 1);
	stream_stack(s, 1, PYTHON_CODE, PERFX_STACK_PC, 0x1000, NORMALIZE, LOOP, 0x1000);
	stream_stack(s, 1, EXTENSION, PERFX_STACK_PC, 0x3000, 0x1000, NORMALIZE, LOOP, 0x1000);
	stream_stack(s, 1, LOCK, PERFX_STACK_PC, 0x2000, 0x1000, LOOP, 0x1000);
	stream_stack(s, 1, OF_QUEUE, PERFX_STACK_PC, 0x2000, 0x1000, WAITS, GET, LOOP, 0x1000);
	stream_stack(s, 1, OF_CONDITION, PERFX_STACK_PC, 0x2000, 0x1000, WAITS, LOOP, 0x1000);
	stream_stack(s, 1, MUTEX, PERFX_STACK_PC, 0x2100, 0x3000, LOOP, 0x1000);
	stream_stack(s, 1, NATIVE, PERFX_STACK_PC, 0x3000);
	stream_stack(s, 1, FRAMEWORK, PERFX_STACK_PC, 0x1000, MODULE, 0x1000);
	stream_stack(s, 1, MALLOC, PERFX_STACK_PC, 0x2200, 0x1000, NORMALIZE, 0x1000);
	stream_stack(s, 1, FSYNC, PERFX_STACK_PC, 0x2300, 0x1000, NORMALIZE, 0x1000);
	stream_stack(s, 2, PYTHON_CODE, PERFX_STACK_PC, 0x1000, NORMALIZE, 0x1000);
	for (uint32_t process = 1; process <= 2; process++) {
		stream_frame(s, process, 0x1000, 0, "_PyEval_EvalFrameDefault", PYTHON, 0x10, "",
			     0);
		stream_python_frame(s, process, NORMALIZE, "normalize", "/opt/features.py", 88);
	}
	stream_frame(s, 1, 0x2000, 0, "futex_wait", LIBC, 0x20, "", 0);
	stream_frame(s, 1, 0x2100, 0, "pthread_mutex_lock", LIBC, 0x21, "", 0);
	stream_frame(s, 1, 0x2200, 0, "_int_malloc", LIBC, 0x22, "", 0);
	stream_frame(s, 1, 0x2300, 0, "__GI___libc_fsync", LIBC, 0x23, "", 0);
	stream_frame(s, 1, 0x3000, 0, "THPVariable_add", TORCH, 0x30, "", 0);
	stream_python_frame(s, 1, LOOP, "main", "/opt/train.py", 12);
	stream_python_frame(s, 1, GET, "Queue.get", "/usr/lib/python3.11/queue.py", 171);
	stream_python_frame(s, 1, WAITS, "Condition.wait", "/usr/lib/python3.11/threading.py", 320);
	stream_python_frame(s, 1, MODULE, "Module._call_impl",
			    "/usr/lib/python3/dist-packages/torch/nn/modules/module.py", 1194);
	stream_thread(s, 1, MAIN, "python3", 'R', 0, 0, 0);
	stream_thread(s, 1, POOL, "loader", 'S', 0, 0, 0);
}

/* So many samples of 10 ms. */
static void samples(struct stream *s, struct perfx_sample sample, unsigned count)
{
	sample.interval_ns = 10 * MS;
	if (!sample.process)
		sample.process = 1;
	if (!sample.tid)
		sample.tid = MAIN;
	if (!sample.state)
		sample.state = PERFX_SAMPLE_ON_CPU;
	for (unsigned i = 0; i < count; i++)
		stream_sample(s, i * 10 * MS, sample);
}

/* A wait of the main thread, of which a sample says where it was. */
static void waits(struct stream *s, enum perfx_wait_reason reason, uint64_t object, uint32_t stack,
		  uint64_t ms)
{
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = MAIN,
		     .reason = (uint8_t)reason, .object = object, .blocked_ns = ms * MS,
		     .count = 100, .max_ns = 40 * MS);
	if (stack)
		samples(s,
			(struct perfx_sample){.stack = stack,
					      .state = PERFX_SAMPLE_WAITING,
					      .reason = (uint8_t)reason,
					      .object = object},
			5);
}

struct report {
	struct aggregate *aggregate;
	struct analysis *analysis;
};

static struct report end_after(struct stream *s, uint64_t runnable_ns)
{
	struct report report;

	stream_call(s, CONV, MAIN, 9 * S, 10 * MS, 10 * MS, 0);
	stream_thread(s, 1, MAIN, "python3", 'R', 10 * S, 5 * S, runnable_ns);
	stream_thread(s, 1, POOL, "loader", 'S', 10 * S, 1 * S, 0);
	stream_usage(s, 1, 0, 0, 0, 200 << 20);
	stream_usage(s, 1, 10 * S, 6 * S, 0, 200 << 20);
	stream_end(s, 10 * S, 0);
	report.aggregate = replay(s);
	report.analysis = analyze(aggregate__finish(report.aggregate), NULL);
	cr_assert_not_null(report.analysis);
	return report;
}

static struct report end(struct stream *s)
{
	return end_after(s, 0);
}

static const struct finding *find(const struct report *report, const char *kind)
{
	for (size_t p = 0; p < report->analysis->processes_count; p++) {
		const struct process_analysis *process = &report->analysis->processes[p];

		for (size_t i = 0; i < process->findings_count; i++)
			if (!strcmp(process->findings[i].kind, kind))
				return &process->findings[i];
	}
	return NULL;
}

static void forget(struct report *report)
{
	analysis__free(report->analysis);
	aggregate__free(report->aggregate);
}

static bool contains(const char *marked, const char *part)
{
	struct text plain = {0};
	bool found;

	escape_unmarked(&plain, marked);
	found = strstr(text_peek(&plain), part);
	if (!found)
		cr_log_error("\"%s\" lacks \"%s\"", text_peek(&plain), part);
	text_clear(&plain);
	return found;
}

/* The stream's findings have one of the kind, of this severity and with these words. */
static void expect(struct stream *s, const char *kind, enum finding_severity severity,
		   const char *subject, const char *evidence)
{
	struct report report = end(s);
	const struct finding *finding = find(&report, kind);

	cr_assert_not_null(finding, "no %s: %s", kind, report.analysis->verdict);
	cr_expect_eq(finding->severity, severity, "%s", finding->evidence);
	cr_expect(contains(finding->subject, subject));
	cr_expect(contains(finding->evidence, evidence));
	cr_expect(finding->threshold[0] && finding->suggestion[0]);
	forget(&report);
}

static void expect_none(struct stream *s, const char *kind)
{
	struct report report = end(s);
	const struct finding *finding = find(&report, kind);

	cr_expect_null(finding, "%s: %s", kind, finding ? finding->evidence : "");
	forget(&report);
}

static void expect_verdict(struct stream *s, const char *part)
{
	struct report report = end(s);

	cr_expect(contains(report.analysis->verdict, part));
	forget(&report);
}

/* --- running Python --- */

Test(driver, python_between_the_operators)
{
	struct stream s = {0};

	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 600);
	expect(&s, "PythonBound", FINDING_HIGH, "normalize (features.py:88)",
	       "60.0 % of the wall time runs Python, outside of traced calls, most of it normalize "
	       "(features.py:88): 60.0 % (600 samples, standard error 2.4 points)");
	/* in a range as well, and without a CPU as in calls */
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .context = RANGE}, 200);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .state = PERFX_SAMPLE_RUNNABLE},
		200);
	expect(&s, "PythonBound", FINDING_MEDIUM, "normalize", "40.0 % of the wall time");
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = MALLOC}, 400);
	expect(&s, "PythonBound", FINDING_MEDIUM, "normalize", "40.0 % of the wall time");
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = FRAMEWORK}, 400);
	expect(&s, "PythonBound", FINDING_MEDIUM, "Module._call_impl (module.py:1194)", "40.0 %");
}

/* Enough of it may be chance; what a traced call or an extension does is not the interpreter's. */
Test(driver, python_that_is_none_of_the_interpreters)
{
	struct stream s = {0};

	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 260);
	expect_none(&s, "PythonBound");
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .context = CONV}, 600);
	expect_none(&s, "PythonBound");
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = EXTENSION}, 600);
	expect_none(&s, "PythonBound");
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = FSYNC}, 600);
	expect_none(&s, "PythonBound");
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .tid = POOL}, 600);
	expect_none(&s, "PythonBound");
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .process = 2, .tid = WORKER}, 600);
	expect_none(&s, "PythonBound");
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .state = PERFX_SAMPLE_WAITING},
		600);
	expect_none(&s, "PythonBound");
}

Test(driver, the_verdict_names_the_bottleneck)
{
	struct stream s = {0};

	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 600);
	expect_verdict(&s, "PYTHON-BOUND: 60.0 % of the wall time runs Python, outside of traced "
			   "calls, most of it normalize (features.py:88): 60.0 %.");
	/* what takes longer in an operator is the operator's */
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 400);
	stream_call(&s, CONV, MAIN, 0, 5 * S, 5 * S, 0);
	expect_verdict(&s, "python3 (pid 4242) spent 50.1 % of 10.0 s in at::_ops::convolution");
	/* of two the larger one */
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 400);
	waits(&s, PERFX_WAIT_DISK, 7, LOCK, 4500);
	expect_verdict(&s, "DISK-BOUND: python3 (pid 4242) waits for the disk, 45.0 % of the wall "
			   "time; it waits in main (train.py:12).");
}

/* --- waiting --- */

Test(driver, waits_for_the_gil)
{
	struct stream s = {0};

	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .tid = POOL}, 300);
	stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = MAIN,
		     .reason = PERFX_WAIT_GIL, .object = 1, .holder_tid = POOL, .blocked_ns = 3 * S,
		     .count = 600, .max_ns = 6 * MS);
	expect(&s, "GilWait", FINDING_HIGH, "python3 (pid 4242)",
	       "waited 3.00 s for Python's global interpreter lock (GIL), 30.0 % of the wall time, "
	       "held mostly by thread loader (tid 4243), which runs normalize (features.py:88); "
	       "the "
	       "longest of 600 waits 6.00 ms");
	begin(&s);
	waits(&s, PERFX_WAIT_GIL, 1, LOCK, 999);
	expect_none(&s, "GilWait");
	/* its address is not known: a lock in the interpreter's own data */
	begin(&s);
	stream_wait_object(&s, 1, PERFX_WAIT_FUTEX, 0x66, "lock at python3.11+0x65b8f0");
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .tid = POOL}, 300);
	waits(&s, PERFX_WAIT_FUTEX, 0x66, LOCK, 1500);
	expect(&s, "GilWait", FINDING_MEDIUM, "main (train.py:12)",
	       "meanwhile another thread runs mostly normalize (features.py:88)");
}

Test(driver, waits_for_a_lock)
{
	struct stream s = {0};

	begin(&s);
	stream_wait_object(&s, 1, PERFX_WAIT_FUTEX, 0x66, "lock at 0x66 (heap)");
	waits(&s, PERFX_WAIT_FUTEX, 0x66, LOCK, 3000);
	expect(&s, "LockWait", FINDING_HIGH, "main (train.py:12)",
	       "100 % of it for lock at 0x66 (heap)");
	begin(&s);
	waits(&s, PERFX_WAIT_FUTEX, 0x66, MUTEX, 1000);
	expect(&s, "LockWait", FINDING_MEDIUM, "main (train.py:12)", "10.0 % of the wall time");
}

/* The main thread waits for their results, which is no fault; that they take turns is one. */
Test(driver, threads_wait_for_the_gil)
{
	struct stream s = {0};

	for (uint64_t ms = 4900; ms <= 5100; ms += 200) {
		begin(&s);
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .tid = POOL}, 300);
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
			     .tid = POOL, .reason = PERFX_WAIT_GIL, .object = 1,
			     .blocked_ns = ms * MS, .count = 600, .max_ns = 6 * MS);
		if (ms < 5000)
			expect_none(&s, "GilWait");
		else
			expect(&s, "GilWait", FINDING_MEDIUM, "normalize (features.py:88)",
			       "threads waited 5.10 s for Python's global interpreter lock (GIL), "
			       "0.5 of them at a time on average; Python runs mostly in normalize");
	}
}

/* For a condition, a result, in a library: no lock that somebody holds too long. */
Test(driver, waits_for_something_else_than_a_lock)
{
	const uint32_t stacks[] = {OF_CONDITION, EXTENSION, NATIVE, 0};

	for (size_t i = 0; i < 4; i++) {
		struct stream s = {0};

		begin(&s);
		waits(&s, PERFX_WAIT_FUTEX, 0x66, stacks[i], 6000);
		expect_none(&s, "LockWait");
	}
}

/* Of a pool's thread, or in a traced call, which then is what takes the time. */
Test(driver, waits_that_are_not_its_own)
{
	struct stream s = {0};

	begin(&s);
	stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = POOL,
		     .reason = PERFX_WAIT_READ, .blocked_ns = 9 * S, .count = 1);
	expect_none(&s, "InputWait");
	begin(&s);
	stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = MAIN,
		     .reason = PERFX_WAIT_FUTEX, .object = 5, .blocked_ns = 5 * S, .count = 1);
	samples(&s,
		(struct perfx_sample){.stack = LOCK,
				      .context = CONV,
				      .state = PERFX_SAMPLE_WAITING,
				      .reason = PERFX_WAIT_FUTEX,
				      .object = 5},
		5);
	expect_none(&s, "LockWait");
}

Test(driver, waits_for_input)
{
	struct stream s = {0};

	begin(&s);
	stream_wait_object(&s, 1, PERFX_WAIT_READ, 77, "pipe:[1234]");
	waits(&s, PERFX_WAIT_READ, 77, LOCK, 4000);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .process = 2, .tid = WORKER}, 500);
	expect(&s, "InputWait", FINDING_MEDIUM, "main (train.py:12)",
	       "40.0 % of the wall time, 100 % of it for pipe:[1234]; meanwhile worker (pid 5000) "
	       "runs mostly normalize (features.py:88)");
	/* a queue between threads is a lock that is not held */
	begin(&s);
	waits(&s, PERFX_WAIT_FUTEX, 77, OF_QUEUE, 4000);
	expect(&s, "InputWait", FINDING_MEDIUM, "main (train.py:12)", "40.0 % of the wall time");
	begin(&s);
	waits(&s, PERFX_WAIT_FUTEX, 77, OF_QUEUE, 999);
	expect_none(&s, "InputWait");
}

Test(driver, waits_for_a_disk_a_child_a_reader_and_the_clock)
{
	const struct {
		enum perfx_wait_reason reason;
		const char *kind;
	} cases[] = {{PERFX_WAIT_DISK, "DiskWait"},
		     {PERFX_WAIT_PAGE_FAULT, "DiskWait"},
		     {PERFX_WAIT_WRITE, "OutputWait"},
		     {PERFX_WAIT_SLEEP, "SleepWait"},
		     {PERFX_WAIT_WAIT, "ChildWait"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stream s = {0};

		begin(&s);
		waits(&s, cases[i].reason, 8, LOCK, 3000);
		expect(&s, cases[i].kind, FINDING_HIGH, "main (train.py:12)", "waited 3.00 s");
		begin(&s);
		waits(&s, cases[i].reason, 8, LOCK, 999);
		expect_none(&s, cases[i].kind);
	}
}

/* That it is blocked is said by what it waits for. */
Test(driver, one_cause_is_one_finding)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	waits(&s, PERFX_WAIT_SLEEP, 0, LOCK, 5000);
	report = end(&s);
	cr_expect_not_null(find(&report, "SleepWait"));
	cr_expect_null(find(&report, "BlockedThread"));
	forget(&report);
	begin(&s);
	waits(&s, PERFX_WAIT_SLEEP, 0, LOCK, 2000);
	report = end(&s);
	cr_expect_not_null(find(&report, "SleepWait"));
	cr_assert_not_null(find(&report, "BlockedThread"));
	cr_expect(contains(find(&report, "BlockedThread")->evidence,
			   "; 2.00 s in sleep, in main (train.py:12)"));
	forget(&report);
}

/* Steps of 100 ms, of which 60 ms are the loader's. */
static void steps(struct stream *s)
{
	for (uint64_t i = 0; i < 20; i++) {
		stream_call(s, BATCHES, MAIN, i * 100 * MS, 60 * MS, 60 * MS, 0);
		stream_call(s, OPTIMIZER, MAIN, i * 100 * MS + 90 * MS, 10 * MS, 10 * MS, 0);
	}
}

/* Python that prepares the next batch in the loader's range, or a worker that does. */
Test(driver, waits_for_the_next_batch)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	steps(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .context = BATCHES}, 600);
	report = end(&s);
	cr_assert_not_null(find(&report, "DataBound"));
	cr_expect(contains(find(&report, "DataBound")->evidence,
			   "; its own thread prepares it, mostly in normalize (features.py:88)"));
	cr_expect_null(find(&report, "PythonBound"));
	cr_expect_null(find(&report, "SlowOperation"));
	cr_expect(contains(report.analysis->verdict, "INPUT-BOUND: "));
	forget(&report);
	begin(&s);
	steps(&s);
	waits(&s, PERFX_WAIT_READ, 77, LOCK, 4000);
	samples(&s, (struct perfx_sample){.stack = FRAMEWORK, .context = BATCHES}, 50);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .process = 2, .tid = WORKER}, 500);
	report = end(&s);
	cr_assert_not_null(find(&report, "DataBound"));
	cr_expect(contains(find(&report, "DataBound")->evidence,
			   "; meanwhile worker (pid 5000) runs mostly normalize (features.py:88)"));
	cr_expect_null(find(&report, "InputWait"));
	forget(&report);
}

/* --- no CPU --- */

static void lacks_cpus(struct stream *s, uint64_t pid, const char *name, uint64_t ms)
{
	stream_wait_object(s, 1, PERFX_WAIT_RUNNABLE, pid, name);
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = MAIN,
		     .reason = PERFX_WAIT_RUNNABLE, .object = pid, .blocked_ns = ms * MS,
		     .count = 100, .max_ns = 9 * MS);
}

Test(driver, who_had_the_cpus)
{
	struct stream s = {0};
	struct report report;
	const struct finding *finding;

	begin(&s);
	lacks_cpus(&s, MAIN, "python3", 1000);
	lacks_cpus(&s, 900, "make", 2000);
	lacks_cpus(&s, 901, "make", 1000);
	report = end_after(&s, 4 * S);
	finding = find(&report, "CpuContention");
	cr_assert_not_null(finding);
	cr_expect(contains(finding->evidence, "; before them make had the CPU (75.0 %), the traced "
					      "program's own threads (25.0 %)"));
	cr_expect(contains(finding->suggestion, "Other programs use the CPUs"));
	cr_expect_eq(finding->severity, FINDING_MEDIUM);
	cr_expect(contains(report.analysis->verdict,
			   "CPU CONTENTION: python3 (pid 4242) waits for a "
			   "CPU for 40.0 % of the wall time"));
	forget(&report);
	begin(&s);
	lacks_cpus(&s, MAIN, "python3", 3000);
	lacks_cpus(&s, 900, "make", 1000);
	report = end_after(&s, 4 * S);
	finding = find(&report, "CpuContention");
	cr_assert_not_null(finding);
	cr_expect(contains(finding->suggestion, "lower OMP_NUM_THREADS"));
	forget(&report);
}
