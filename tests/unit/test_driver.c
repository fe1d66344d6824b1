// SPDX-License-Identifier: BSD-2-Clause
/* Findings about the thread that drives a process: each rule fires, and does not on a near miss. */
#include "training_fixture.h"

#include <sys/syscall.h>

Test(driver, python_between_the_operators)
{
	struct stream s = {0};

	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 500);
	expect(&s, "PythonBound", FINDING_HIGH, "normalize (features.py:88)",
	       "50.0 % of the wall time runs Python, outside of traced calls, most of it normalize "
	       "(features.py:88): 50.0 % (500 samples, standard error 2.2 points)");
	/* in a range as well, but not without a CPU */
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .context = RANGE}, 400);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .state = PERFX_SAMPLE_RUNNABLE},
		200);
	expect(&s, "PythonBound", FINDING_HIGH, "normalize", "40.0 % of the wall time");
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = MALLOC}, 400);
	expect(&s, "PythonBound", FINDING_HIGH, "normalize", "40.0 % of the wall time");
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = FRAMEWORK}, 400);
	expect(&s, "PythonBound", FINDING_HIGH, "Module._call_impl (module.py:1194)", "40.0 %");
}

static void expect_gain_known(uint32_t stack, unsigned count, bool known)
{
	struct stream s = {0};
	struct report report;
	const struct finding *finding;

	begin(&s);
	samples(&s, (struct perfx_sample){.stack = stack}, count);
	report = end(&s);
	finding = find(&report, "PythonBound");
	cr_assert_not_null(finding);
	cr_expect_eq(!finding->gain_unknown, known);
	cr_expect_gt(finding->gain_ns, 0);
	forget(&report);
}

/* A function of the program's can be done without; nobody knows what is left of the whole program,
 * or of a framework's, in another language. */
Test(driver, what_less_python_saves)
{
	expect_gain_known(PYTHON_CODE, 300, true);
	expect_gain_known(PYTHON_CODE, 700, false);
	expect_gain_known(FRAMEWORK, 400, false);
}

/* One line that calls nothing may poll; a line beside it, or what the line calls, is work. */
Test(driver, a_line_that_runs_over_and_over_may_poll)
{
	static const struct {
		uint32_t beside;
		bool polls;
	} cases[] = {{PYTHON_CODE, true}, {EXTENSION, false}, {FRAMEWORK, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 360);
		samples(&s, (struct perfx_sample){.stack = cases[i].beside}, 40);
		report = end(&s);
		cr_assert_not_null(find(&report, "PythonBound"));
		cr_expect_eq(strstr(find(&report, "PythonBound")->suggestion,
				    "If that polls for a change, wait for an event") != NULL,
			     cases[i].polls, "case %zu", i);
		forget(&report);
	}
}

/* Eight seconds of samples of a thread that was on a CPU for five, and waited for one as long. */
Test(driver, samples_divide_the_time_that_is_known)
{
	struct stream s = {0};

	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 640);
	samples(&s, (struct perfx_sample){.stack = CALLER}, 160);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .state = PERFX_SAMPLE_RUNNABLE},
		500);
	expect(&s, "PythonBound", FINDING_HIGH, "normalize",
	       "40.0 % of the wall time runs Python, outside of traced calls, most of it normalize "
	       "(features.py:88): 40.0 %; main (train.py:12) and what it calls take 50.0 %");
}

Test(driver, python_at_several_lines)
{
	const uint64_t other_line = python_frame(0x7f0000001000, 9);
	enum { OTHER_LINE = 60 };
	struct stream s = {0};

	begin(&s);
	stream_stack(&s, 1, OTHER_LINE, PERFX_STACK_PC, 0x1000, other_line, LOOP, 0x1000);
	stream_python_frame(&s, 1, other_line, "normalize", "/opt/features.py", 91);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 300);
	samples(&s, (struct perfx_sample){.stack = OTHER_LINE}, 200);
	expect(&s, "PythonBound", FINDING_HIGH, "normalize (features.py:88)",
	       "most of it normalize (features.py:88): 50.0 %, 60.0 % of it at that line");
}

/* What a caller adds to it itself goes with it; what it does in other functions does not. */
Test(driver, python_and_its_callers)
{
	struct stream s = {0};

	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 350);
	samples(&s, (struct perfx_sample){.stack = CALLER}, 150);
	expect(&s, "PythonBound", FINDING_HIGH, "normalize (features.py:88)",
	       "; main (train.py:12) and what it calls take 50.0 %");
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 350);
	samples(&s, (struct perfx_sample){.stack = SIBLING}, 150);
	expect(&s, "PythonBound", FINDING_HIGH, "normalize (features.py:88)",
	       "most of it normalize (features.py:88): 35.0 % (350 samples");
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 220);
	samples(&s, (struct perfx_sample){.stack = CALLER}, 280);
	expect(&s, "PythonBound", FINDING_MEDIUM, "normalize (features.py:88)",
	       "most of it normalize (features.py:88): 22.0 % (220 samples");
}

/* A few samples more or less of what is no Python, or not the program's, are chance: the words
 * stay.
 */
Test(driver, the_same_words_for_the_same_program)
{
	for (unsigned framework = 10; framework <= 30; framework += 10) {
		struct stream s = {0};

		begin(&s);
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 400);
		samples(&s, (struct perfx_sample){.stack = CALLER}, 24);
		samples(&s, (struct perfx_sample){.stack = FRAMEWORK}, framework);
		expect_verdict(&s, "% of the wall time is main (train.py:12) and what it calls, "
				   "most of it Python in normalize (features.py:88).");
	}
}

/* Enough of it may be chance; what a traced call or an extension does is not the interpreter's. */
Test(driver, python_that_is_none_of_the_interpreters)
{
	struct stream s = {0};

	begin(&s);
	samples(&s, (struct perfx_sample){.stack = FRAMEWORK}, 260);
	expect_none(&s, "PythonBound");
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 110);
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
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 500);
	expect_verdict(&s, "PYTHON-BOUND: 50.0 % of the wall time runs Python, outside of traced "
			   "calls, most of it normalize (features.py:88): 50.0 %.");
	/* where the rest goes is no problem */
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 400);
	stream_call(&s, CONV, MAIN, 0, 5 * S, 5 * S, 0);
	expect_verdict(&s, "PYTHON-BOUND: 40.0 % of the wall time");
	/* of two the larger one */
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 400);
	waits(&s, PERFX_WAIT_DISK, 7, LOCK, 4500);
	expect_verdict(&s, "DISK-BOUND: python3 (pid 4242) waits for the disk, 45.0 % of the wall "
			   "time; it waits in main (train.py:12).");
}

/* A loop over NumPy's scalars: the interpreter is the smaller part of it. */
Test(driver, runs_mostly_what_its_python_calls)
{
	struct stream s = {0};

	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 400);
	samples(&s, (struct perfx_sample){.stack = EXTENSION}, 500);
	expect_verdict(&s, "PYTHON-BOUND: 22.2 % of the wall time runs Python, outside of traced "
			   "calls, most of it normalize (features.py:88): 22.2 %. It runs mostly "
			   "normalize (features.py:88), 55.6 % of it in Tensor.add "
			   "(libtorch_python.so).");
}

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

/* Only a known holder is said to be another thread. */
Test(driver, whose_lock_it_is)
{
	static const struct {
		uint32_t holder;
		const char *words;
	} cases[] = {{POOL, "for a lock that another thread held, "},
		     {MAIN, "for a lock that it held itself, "},
		     {0, "for a lock, "}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stream s = {0};

		begin(&s);
		samples(&s,
			(struct perfx_sample){.stack = LOCK,
					      .state = PERFX_SAMPLE_WAITING,
					      .reason = PERFX_WAIT_FUTEX,
					      .object = 0x66},
			5);
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
			     .tid = MAIN, .reason = PERFX_WAIT_FUTEX, .object = 0x66,
			     .holder_tid = cases[i].holder, .blocked_ns = 3 * S, .count = 9,
			     .max_ns = 1 * S);
		expect(&s, "LockWait", FINDING_HIGH, "main (train.py:12)", cases[i].words);
	}
}

#define SEMAPHORE 61
/* Another process has locked the file; other calls on files wait for devices. */
Test(driver, locks_of_files)
{
	static const struct {
		unsigned number;
		bool is_lock;
	} cases[] = {{__NR_flock, true}, {__NR_fcntl, true}, {__NR_ioctl, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
			     .tid = MAIN, .reason = PERFX_WAIT_SYSCALL, .object = 7,
			     .syscall = (uint16_t)cases[i].number, .blocked_ns = 3 * S, .count = 9,
			     .max_ns = 1 * S);
		report = end(&s);
		cr_expect_eq(find(&report, "LockWait") != NULL, cases[i].is_lock, "%u",
			     cases[i].number);
		if (cases[i].is_lock)
			cr_expect(contains(find(&report, "LockWait")->evidence,
					   "for a file lock that another process held, 30.0 %"));
		forget(&report);
	}
}

#define MULTIPROCESSING python_frame(0x7f0000009000, 13)

/* Semaphores and robust mutexes in memory that processes share; conditions and barriers there are
 * no locks, and a semaphore within a process may be a queue's. Locks that libraries build on
 * futexes are known by their names. */
Test(driver, locks_of_other_kinds)
{
	static const struct {
		const char *function, *caller, *object, *python;
		bool is_lock;
	} cases[] = {
		{"__new_sem_wait_slow64", "take", "lock at 0x66 (shared memory)", "", true},
		{"__pthread_mutex_lock_full", "take", "lock at 0x66 (shared memory)", "", true},
		{"__lll_robust_lock_wait", "take", "lock at 0x66 (heap)", "", true},
		{"do_futex_wait", "take", "lock at 0x66 (shared memory)", "Lock.__enter__", true},
		{"do_futex_wait", "take", "lock at 0x66 (shared memory)", "Condition.wait", false},
		{"__new_sem_wait_slow64", "take", "lock at 0x66 (heap)", "", false},
		{"pthread_cond_wait", "take", "lock at 0x66 (shared memory)", "", false},
		{"pthread_barrier_wait", "take", "lock at 0x66 (shared memory)", "", false},
		{"std::sys::sync::mutex::futex::Mutex::lock_contended", "take",
		 "lock at 0x66 (heap)", "", true},
		{"parking_lot::raw_mutex::RawMutex::lock_slow", "take", "lock at 0x66 (heap)", "",
		 true},
		{"std::sys::sync::rwlock::futex::RwLock::write_contended", "take",
		 "lock at 0x66 (heap)", "", true},
		{"absl::lts_20240116::Mutex::LockSlowLoop", "take", "lock at 0x66 (heap)", "",
		 true},
		{"absl::lts_20240116::Mutex::LockSlowWithDeadline",
		 "absl::lts_20240116::Notification::WaitForNotification", "lock at 0x66 (heap)", "",
		 false},
		{"absl::lts_20240116::Mutex::LockSlowLoop",
		 "absl::lts_20240116::Mutex::AwaitCommon", "lock at 0x66 (heap)", "", false},
		{"std::sys::sync::condvar::futex::Condvar::wait", "take", "lock at 0x66 (heap)", "",
		 false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		stream_frame(&s, 1, 0x9000, 0, cases[i].function, LIBC, 0x90, "", 0);
		stream_frame(&s, 1, 0x9100, 0, cases[i].caller, "/opt/program", 0x91, "", 0);
		stream_python_frame(&s, 1, MULTIPROCESSING, cases[i].python,
				    "/usr/lib/python3.11/multiprocessing/synchronize.py", 95);
		if (cases[i].python[0])
			stream_stack(&s, 1, SEMAPHORE, PERFX_STACK_PC, 0x9000, MULTIPROCESSING,
				     LOOP, 0x1000);
		else
			stream_stack(&s, 1, SEMAPHORE, PERFX_STACK_PC, 0x9000, 0x9100);
		stream_wait_object(&s, 1, PERFX_WAIT_FUTEX, 0x66, cases[i].object);
		waits(&s, PERFX_WAIT_FUTEX, 0x66, SEMAPHORE, 3000);
		report = end(&s);
		cr_expect_eq(find(&report, "LockWait") != NULL, cases[i].is_lock, "%s, %s%s",
			     cases[i].function, cases[i].object, cases[i].python);
		forget(&report);
	}
}

/* A thread that waits for the same lock, where it waits, and what it runs. */
static void uses_lock(struct stream *s, uint32_t tid, uint32_t waits_in, uint32_t runs)
{
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = tid,
		     .reason = PERFX_WAIT_FUTEX, .object = 0x66, .blocked_ns = 4 * S, .count = 100,
		     .max_ns = 40 * MS);
	samples(s,
		(struct perfx_sample){.stack = waits_in,
				      .tid = tid,
				      .state = PERFX_SAMPLE_WAITING,
				      .reason = PERFX_WAIT_FUTEX,
				      .object = 0x66},
		5);
	samples(s, (struct perfx_sample){.stack = runs, .tid = tid}, 100);
}

Test(driver, who_holds_the_lock)
{
	struct stream s = {0};

	for (unsigned threads = 1; threads <= 2; threads++) {
		begin(&s);
		stream_wait_object(&s, 1, PERFX_WAIT_FUTEX, 0x66, "lock at 0x66 (heap)");
		waits(&s, PERFX_WAIT_FUTEX, 0x66, LOCK, 3000);
		uses_lock(&s, POOL, MALLOC, PYTHON_CODE);
		if (threads == 2)
			uses_lock(&s, POOL + 1, MALLOC, EXTENSION);
		expect(&s, "LockWait", FINDING_HIGH, "main (train.py:12)",
		       threads == 1 ? "for which 2 threads wait, 0.7 at a time, probably held by "
				      "thread loader (tid 4243), which runs normalize "
				      "(features.py:88)"
				    : "for which 3 threads wait, 1.1 at a time, probably held by "
				      "thread loader (tid 4243) and 1 more, which run normalize");
	}
	/* it runs something else than where it waits */
	begin(&s);
	waits(&s, PERFX_WAIT_FUTEX, 0x66, LOCK, 3000);
	uses_lock(&s, POOL, LOCK, PYTHON_CODE);
	expect(&s, "LockWait", FINDING_HIGH, "main (train.py:12)",
	       "for which 2 threads wait, 0.7 at a time; who holds it is not known");
}

/* The place of a wait for a lock is the line that takes it; of one for the GIL what has that. */
Test(driver, places_of_waits)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	waits(&s, PERFX_WAIT_FUTEX, 0x66, LOCK, 3000);
	uses_lock(&s, POOL, MALLOC, PYTHON_CODE);
	report = end(&s);
	cr_assert_not_null(find(&report, "LockWait"));
	cr_expect_str_eq(find(&report, "LockWait")->place.function, "main");
	forget(&report);
	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .tid = POOL}, 300);
	stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = MAIN,
		     .reason = PERFX_WAIT_GIL, .object = 1, .holder_tid = POOL, .blocked_ns = 3 * S,
		     .count = 600, .max_ns = 6 * MS);
	report = end(&s);
	cr_assert_not_null(find(&report, "GilWait"));
	cr_expect_str_eq(find(&report, "GilWait")->place.function, "normalize");
	forget(&report);
}

/* In libc, called by the program: its function is the place. */
Test(driver, native_waits_are_where_the_program_calls_libc)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_stack(&s, 1, 60, PERFX_STACK_PC, 0x9000, 0x9010, 0x9020);
	stream_frame(&s, 1, 0x9000, 0, "clock_nanosleep", LIBC, 0x90, "clock_nanosleep.c", 71);
	stream_frame(&s, 1, 0x9010, 0, "nanosleep", LIBC, 0x91, "nanosleep.c", 25);
	stream_frame(&s, 1, 0x9020, 0, "limit_rate", "/opt/trainer", 0x92, "trainer.c", 7);
	waits(&s, PERFX_WAIT_SLEEP, 0, 60, 3000);
	report = end(&s);
	cr_assert_not_null(find(&report, "SleepWait"));
	cr_expect_str_eq(find(&report, "SleepWait")->place.function, "limit_rate");
	forget(&report);
}

/* A process of ten seconds that calls nothing that is traced, and runs for half a second. */
static void end_idle(struct stream *s, const char *verdict, bool says_where)
{
	struct report report;

	stream_thread(s, 1, MAIN, "python3", 'S', 10 * S, 500 * MS, 0);
	stream_usage(s, 1, 0, 0, 0, 200 << 20);
	stream_usage(s, 1, 10 * S, 500 * MS, 0, 200 << 20);
	stream_end(s, 10 * S, 0);
	report.aggregate = replay(s);
	report.analysis = analyze(aggregate__finish(report.aggregate), NULL);
	cr_assert_not_null(report.analysis);
	cr_expect(contains(report.analysis->verdict, verdict));
	cr_expect_eq(strstr(report.analysis->verdict, "It runs mostly") != NULL, says_where);
	forget(&report);
}

static void wait_idly(struct stream *s, enum perfx_wait_reason reason, uint32_t stack,
		      unsigned count)
{
	begin(s);
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = MAIN,
		     .reason = (uint8_t)reason, .object = 8, .blocked_ns = 9 * S, .count = count,
		     .max_ns = 200 * MS);
	samples(s,
		(struct perfx_sample){.stack = stack,
				      .state = PERFX_SAMPLE_WAITING,
				      .reason = (uint8_t)reason,
				      .object = 8},
		5);
}

/* That it is idle is no cause. A server waits for requests by right. */
Test(driver, why_a_process_is_idle)
{
	struct stream s = {0};

	wait_idly(&s, PERFX_WAIT_SLEEP, LOCK, 100);
	end_idle(&s,
		 "SLEEPING: python3 (pid 4242) waits for a fixed time to pass (sleep), 90.0 % "
		 "of the wall time; it waits in main (train.py:12)",
		 false);
	wait_idly(&s, PERFX_WAIT_FUTEX, MUTEX, 100);
	end_idle(&s, "LOCK-BOUND: python3 (pid 4242) waits for a lock", false);
	wait_idly(&s, PERFX_WAIT_READ, LOCK, 50);
	end_idle(&s, "INPUT-BOUND: python3 (pid 4242) waits for input", false);
	wait_idly(&s, PERFX_WAIT_READ, LOCK, 49);
	end_idle(&s, "IDLE: ", false);
	wait_idly(&s, PERFX_WAIT_EPOLL, LOCK, 1000);
	end_idle(&s, "IDLE: ", false);
	/* where it computes, a few samples do not say */
	wait_idly(&s, PERFX_WAIT_EPOLL, LOCK, 1000);
	samples(&s, (struct perfx_sample){.stack = LOCK}, 19);
	end_idle(&s, "IDLE: ", false);
	wait_idly(&s, PERFX_WAIT_EPOLL, LOCK, 1000);
	samples(&s, (struct perfx_sample){.stack = LOCK}, 20);
	end_idle(&s, "IDLE: ", true);
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

/* Five seconds of imports, three of them on a CPU, then four seconds of steps of 100 ms, each of
 * which runs Python for 40 ms. */
static const struct perfx_sample runs_python = {.process = 1,
						.tid = MAIN,
						.stack = PYTHON_CODE,
						.state = PERFX_SAMPLE_ON_CPU,
						.interval_ns = 10 * MS};

static void import_python(struct stream *s, bool launched)
{
	begin(s);
	stream_add(s, PERFX_KIND_PROCESS, struct perfx_process,
		   STRINGS("python3", "python3\x1ftrain.py"), .time_ns = STREAM_START,
		   .start_boot_ns = 40 * S, .process = 1, .pid = MAIN, .ppid = 1,
		   .flags = launched ? PERFX_PROCESS_LAUNCHED : 0);
	for (unsigned i = 0; i < 300; i++)
		stream_sample(s, i * 10 * MS, runs_python);
}

static void train(struct stream *s)
{
	for (unsigned i = 0; i < 41; i++) {
		stream_call(s, OPTIMIZER, MAIN, 5 * S + i * 100 * MS, MS, MS, 0);
		for (unsigned k = 1; i < 40 && k <= 4; k++)
			stream_sample(s, 5 * S + i * 100 * MS + k * 10 * MS, runs_python);
	}
}

static void import_and_train(struct stream *s, bool launched)
{
	import_python(s, launched);
	train(s);
}

static const struct profile_steps *steps_of_main(const struct report *report)
{
	return &aggregate__finish(report->aggregate)->processes[0].steps;
}

Test(driver, start_up_is_no_step)
{
	struct stream s = {0};
	struct report report;

	import_and_train(&s, true);
	report = end(&s);
	cr_expect_eq(steps_of_main(&report)->count, 40);
	cr_expect_eq(steps_of_main(&report)->startup_ns, 5 * S);
	cr_expect_eq(steps_of_main(&report)->outside_ns, 5 * S);
	forget(&report);
	import_and_train(&s, true);
	expect(&s, "PythonBound", FINDING_MEDIUM, "normalize (features.py:88)",
	       "32.0 % of the steps' time (32.0 ms of each 100 ms step) runs Python");
	/* it ran before: everything counts */
	import_and_train(&s, false);
	expect(&s, "PythonBound", FINDING_HIGH, "normalize (features.py:88)",
	       "46.0 % of the wall time");
	import_and_train(&s, false);
	report = end(&s);
	cr_expect_eq(steps_of_main(&report)->startup_ns, 0);
	cr_expect_eq(steps_of_main(&report)->outside_ns, 0);
	forget(&report);
}

/* Of a process that was traced before it loaded what its steps call, too; but one that has called
 * traced functions by then may be in its steps. */
Test(driver, a_process_that_loads_its_libraries_sets_up)
{
	for (int called = 0; called < 2; called++) {
		struct stream s = {0};
		struct report report;

		import_python(&s, false);
		if (called)
			stream_call(&s, OPTIMIZER, MAIN, 0, MS, MS, 0);
		stream_add(&s, PERFX_KIND_LATE, struct perfx_late, STRINGS("/libtorch_cpu.so"),
			   .time_ns = STREAM_START + 2 * S, .since_ns = STREAM_START + 1999 * MS,
			   .process = 1, .functions_count = 99, .files_count = 1,
			   .cause = PERFX_LATE_MAPPED);
		train(&s);
		report = end(&s);
		cr_expect_eq(steps_of_main(&report)->startup_ns, called ? 0 : 5 * S);
		forget(&report);
	}
}

/* Nor is what it waits for a CPU before that: as much as at any other time, for such waits are not
 * sampled. */
Test(driver, no_cpu_before_the_first_step)
{
	struct stream s = {0};
	struct report report;

	import_and_train(&s, false);
	waits(&s, PERFX_WAIT_RUNNABLE, 77, LOCK, 4000);
	report = end_after(&s, 4 * S);
	cr_assert_not_null(find(&report, "CpuContention"));
	cr_expect(
		contains(find(&report, "CpuContention")->evidence, "; it waited 4.00 s for a CPU"));
	forget(&report);
	import_and_train(&s, true);
	waits(&s, PERFX_WAIT_RUNNABLE, 77, LOCK, 4000);
	report = end_after(&s, 4 * S);
	cr_assert_not_null(find(&report, "CpuContention"));
	cr_expect(contains(find(&report, "CpuContention")->evidence,
			   "; it waited 2.00 s for a CPU and ran for "));
	forget(&report);
}

/* Likewise what is done after the last step. */
Test(driver, the_end_of_a_program_is_no_step)
{
	struct stream s = {0};
	struct report report;

	import_and_train(&s, true);
	stream_plain(&s, PERFX_KIND_EXIT, struct perfx_exit, .time_ns = STREAM_START + 10 * S,
		     .process = 1);
	report = end(&s);
	cr_expect_eq(steps_of_main(&report)->startup_ns, 5 * S);
	cr_expect_eq(steps_of_main(&report)->outside_ns, 5 * S + 999 * MS);
	forget(&report);
}

/* The waits of imports are none of a step either: samples say when they were. */
Test(driver, waits_before_the_first_step)
{
	struct stream s = {0};

	import_and_train(&s, false);
	waits(&s, PERFX_WAIT_GIL, 77, LOCK, 4000);
	expect(&s, "GilWait", FINDING_HIGH, "main (train.py:12)", "waited 4.00 s for");
	import_and_train(&s, true);
	waits(&s, PERFX_WAIT_GIL, 77, LOCK, 4000);
	expect_none(&s, "GilWait");
}

/* The only sample of a wait of 6 s is in the steps, which took 5 s: it took no more. */
Test(driver, waits_are_no_longer_than_the_steps)
{
	struct stream s = {0};

	import_and_train(&s, true);
	waits(&s, PERFX_WAIT_SLEEP, 0, 0, 6000);
	stream_sample(&s, 7 * S,
		      (struct perfx_sample){.process = 1,
					    .tid = MAIN,
					    .stack = LOCK,
					    .state = PERFX_SAMPLE_WAITING,
					    .reason = PERFX_WAIT_SLEEP,
					    .interval_ns = 10 * MS});
	expect(&s, "SleepWait", FINDING_HIGH, "main (train.py:12)",
	       "waited 5.00 s for a fixed time to pass (sleep), 100 % of the steps' time");
}

/* Threads that poll for a lock compute nothing, though none of them waits. */
Test(driver, threads_that_spin_for_a_lock)
{
	enum { SPINS = 60 };

	for (unsigned count = 50; count <= 500; count += 450) {
		struct stream s = {0};

		begin(&s);
		stream_frame(&s, 1, 0x9000, 0, "SpinLock::acquire", "/opt/train", 0x90, "", 0);
		stream_stack(&s, 1, SPINS, PERFX_STACK_PC, 0x9000);
		samples(&s, (struct perfx_sample){.stack = SPINS}, count);
		samples(&s, (struct perfx_sample){.stack = NATIVE, .tid = POOL}, 1000 - count);
		if (count == 500)
			expect(&s, "LockWait", FINDING_HIGH, "SpinLock::acquire (train)",
			       "50.0 % of all threads' CPU time only polls for a lock");
		else
			expect_none(&s, "LockWait");
	}
}

/* A few samples of a thread that sleeps do not say where it runs. */
Test(driver, who_waits_all_the_time_runs_nowhere)
{
	for (unsigned count = 10; count <= 50; count += 40) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		waits(&s, PERFX_WAIT_SLEEP, 0, LOCK, 9000);
		samples(&s, (struct perfx_sample){.stack = NATIVE}, count);
		report = end_running(&s, 200 * MS, 0, 200 * MS);
		cr_expect_not_null(find(&report, "SleepWait"));
		cr_expect_eq(strstr(report.analysis->verdict, " It runs mostly ") != NULL,
			     count == 50);
		forget(&report);
	}
}

/* The budget gave up recording waits: the account of time says how long the thread waited. */
Test(driver, waits_that_were_recorded_for_a_part_of_the_time)
{
	for (int given_up = 0; given_up <= 1; given_up++) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		waits(&s, PERFX_WAIT_DISK, 7, LOCK, 1500);
		samples(&s,
			(struct perfx_sample){.stack = LOCK,
					      .state = PERFX_SAMPLE_WAITING,
					      .reason = PERFX_WAIT_DISK,
					      .object = 7},
			500);
		if (given_up)
			stream_add(&s, PERFX_KIND_NOT_ATTACHED, struct perfx_not_attached,
				   STRINGS("time off the CPU", "removed"), .count = 1,
				   .flags = PERFX_NOT_ATTACHED_WAITS);
		report = end(&s);
		cr_assert_not_null(find(&report, "DiskWait"));
		cr_expect(contains(find(&report, "DiskWait")->headline,
				   given_up ? "the disk, 50.0 % of the wall time"
					    : "the disk, 15.0 % of the wall time"));
		forget(&report);
	}
}
