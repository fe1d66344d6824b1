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

Test(driver, waits_for_requests)
{
	static const struct {
		enum perfx_object_kind object;
		const char *kind;
	} sockets[] = {
		{PERFX_OBJECT_SERVER, "IDLE: "},
		{PERFX_OBJECT_OTHER, "INPUT-BOUND: "},
	};

	for (size_t i = 0; i < sizeof(sockets) / sizeof(sockets[0]); i++) {
		struct stream s = {0};
		struct report report;
		bool serves = sockets[i].kind[1] == 'D';
		const struct finding *f;

		begin(&s);
		/* whatever its name is */
		stream_object_of(&s, 1, PERFX_WAIT_READ, 77, "tcp 127.0.0.1:80", sockets[i].object);
		waits(&s, PERFX_WAIT_READ, 77, LOCK, 4000);
		samples(&s, (struct perfx_sample){.stack = NATIVE}, 500);
		report = end(&s);
		f = find(&report, "InputWait");
		cr_assert_not_null(f, "%s", sockets[i].kind);
		cr_expect_eq(f->severity, FINDING_MEDIUM);
		cr_expect(contains(report.analysis->verdict, sockets[i].kind), "%s",
			  report.analysis->verdict);
		cr_expect_eq(strstr(f->suggestion, "num_workers") != NULL, !serves, "%s",
			     f->suggestion);
		forget(&report);
	}
}

/* Four of ten seconds, until the other thread puts something into it. */
static void waits_at_a_queue(struct stream *s)
{
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = MAIN,
		     .reason = PERFX_WAIT_FUTEX, .object = 1, .holder_tid = POOL,
		     .blocked_ns = 4 * S, .count = 100, .max_ns = 50 * MS);
	samples(s,
		(struct perfx_sample){.stack = OF_QUEUE,
				      .state = PERFX_SAMPLE_WAITING,
				      .reason = PERFX_WAIT_FUTEX,
				      .object = 1},
		400);
}

/* An event loop hands requests over to its threads; without a server's sockets it may read data. */
Test(driver, waits_for_requests_that_another_thread_hands_over)
{
	for (unsigned serves = 0; serves < 2; serves++) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		waits_at_a_queue(&s);
		samples(&s, (struct perfx_sample){.stack = NATIVE}, 500);
		stream_object_of(&s, 1, PERFX_WAIT_POLL, 77, "epoll (descriptor 5)",
				 serves ? PERFX_OBJECT_SERVER : PERFX_OBJECT_OTHER);
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
			     .tid = POOL, .reason = PERFX_WAIT_POLL, .object = 77,
			     .blocked_ns = 5 * S, .count = 100, .max_ns = 50 * MS);
		report = end(&s);
		cr_expect(contains(report.analysis->verdict, serves ? "IDLE: " : "INPUT-BOUND: "),
			  "%s", report.analysis->verdict);
		forget(&report);
	}
}

/* A thread of the server's own sends the requests. One that only fills a queue, and seldom waits
 * for the steps, reads ahead; where parameters are updated, it is training. */
Test(driver, waits_for_requests_of_its_own_threads)
{
	enum { ANSWERED, AHEAD, TRAINS, CASES };

	for (unsigned c = 0; c < CASES; c++) {
		struct stream s = {0};
		struct report report;
		const struct finding *f;

		begin(&s);
		for (uint64_t i = 0; i < 100; i++) {
			stream_call(&s, CONV, MAIN, i * 100 * MS + 45 * MS, 50 * MS, 50 * MS, 0);
			if (c == TRAINS)
				stream_call(&s, OPTIMIZER, MAIN, i * 100 * MS + 95 * MS, 5 * MS,
					    5 * MS, 0);
		}
		waits_at_a_queue(&s);
		samples(&s, (struct perfx_sample){.stack = NATIVE, .context = CONV}, 500);
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
			     .tid = POOL, .reason = PERFX_WAIT_FUTEX, .object = 2,
			     .holder_tid = MAIN, .blocked_ns = (c == AHEAD ? 1 : 5) * S,
			     .count = 100, .max_ns = 50 * MS);
		samples(&s,
			(struct perfx_sample){.stack = OF_CONDITION,
					      .tid = POOL,
					      .state = PERFX_SAMPLE_WAITING,
					      .reason = PERFX_WAIT_FUTEX,
					      .object = 2},
			500);
		report = end(&s);
		if (c != ANSWERED) {
			cr_expect(contains(report.analysis->verdict, "INPUT-BOUND: "), "%u: %s", c,
				  report.analysis->verdict);
			forget(&report);
			continue;
		}
		f = find(&report, "InputWait");
		cr_assert_not_null(f);
		cr_expect_null(find(&report, "DataBound"));
		cr_expect(contains(report.analysis->verdict,
				   "waits for requests, 40.0 % of the wall time"),
			  "%s", report.analysis->verdict);
		cr_expect(contains(f->evidence, "another thread sends them, and waits for each "
						"answer in main (train.py:12)"),
			  "%s", f->evidence);
		cr_expect(f->gain_unknown);
		forget(&report);
	}
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

/* The timer is a task's, which is in no stack meanwhile: the line that runs the loop is named, and
 * none of the loop's own. */
Test(driver, waits_in_an_event_loop)
{
	static const struct {
		uint32_t stack;
		const char *place;
	} cases[] = {{LOCK, "main"}, {FRAMEWORK, NULL}, {NATIVE, "THPVariable_add"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stream s = {0};
		struct report report;
		const struct finding *finding;

		begin(&s);
		stream_object_of(&s, 1, PERFX_WAIT_EPOLL, 7,
				 "epoll of its own events (descriptor 3)", PERFX_OBJECT_OWN_EVENTS);
		waits(&s, PERFX_WAIT_EPOLL, 7, cases[i].stack, 4000);
		report = end(&s);
		finding = find(&report, "SleepWait");
		cr_assert_not_null(finding);
		cr_expect(contains(finding->headline,
				   "SLEEPING: python3 (pid 4242) waits for the next timer or event "
				   "of its event loop, 40.0 % of the wall time, before which it "
				   "has nothing to run"));
		cr_expect_null(strstr(finding->headline, "epoll"));
		cr_expect_null(strstr(finding->headline, "fixed time"));
		cr_expect_eq(strstr(finding->suggestion, "asyncio.sleep") != NULL,
			     cases[i].stack != NATIVE);
		cr_expect_eq(strstr(finding->headline, "; it runs the loop in ") != NULL,
			     cases[i].place != NULL);
		if (cases[i].place)
			cr_expect_str_eq(finding->place.function, cases[i].place);
		else
			cr_expect_null(finding->place.function);
		forget(&report);
	}
}

/* while queue.empty(): time.sleep(0); not with work between sleeps that are as short */
Test(driver, sleeps_that_poll)
{
	/* in_call: three quarters of its CPU time is in a system call */
	static const struct {
		uint64_t count, on_cpu_ms;
		bool in_call, polls;
	} cases[] = {{50000, 700, false, true},
		     {50000, 2000, false, false},
		     {50000, 2000, true, true},
		     {2000, 0, false, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stream s = {0};
		struct report report;
		const struct finding *finding;

		begin(&s);
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
			     .tid = MAIN, .reason = PERFX_WAIT_SLEEP, .blocked_ns = 3 * S,
			     .count = cases[i].count, .max_ns = 2 * MS);
		samples(&s, (struct perfx_sample){.stack = cases[i].in_call ? FSYNC : NATIVE}, 75);
		samples(&s, (struct perfx_sample){.stack = NATIVE}, 25);
		report = end_running(&s, cases[i].on_cpu_ms * MS, 0, 6 * S);
		finding = find(&report, "SleepWait");
		cr_assert_not_null(finding);
		cr_expect_eq(strstr(finding->headline, ", in 50,000 sleeps of 60.0 µs: it polls") !=
				     NULL,
			     cases[i].polls, "case %zu: %s", i, finding->headline);
		cr_expect_eq(strstr(finding->headline, "it polls") != NULL, cases[i].polls);
		forget(&report);
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

/* The overhead budget removes the probes of a range that is open, half a second after the begin. */
static void begin_endless(struct stream *s, uint32_t range)
{
	begin(s);
	for (uint64_t i = 0; i < 20; i++)
		stream_call(s, OPTIMIZER, MAIN, i * 100 * MS + 90 * MS, 10 * MS, 10 * MS, 0);
	for (uint64_t i = 0; i < 4; i++)
		stream_call(s, range, MAIN, i * 100 * MS + 50 * MS, 1 * MS, 1 * MS, 0);
	stream_reduced(s, range, 500 * MS, PERFX_REDUCED_REMOVED, false);
}

/* All later calls look as if they were in it. */
Test(driver, a_range_of_data_without_an_end)
{
	struct stream s = {0};
	struct report report;

	begin_endless(&s, BATCHES);
	stream_context(&s, 20, BATCHES, RANGE, 1);
	stream_call(&s, 20, MAIN, 600 * MS, 1 * S, 1 * S, 0);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .context = 20}, 200);
	report = end(&s);
	cr_expect_not_null(find(&report, "PythonBound"));
	forget(&report);
}

/* It has no end, so its own time does not limit that of the batches. */
Test(driver, batches_in_a_range_without_an_end)
{
	const uint64_t next = python_frame(0x7f0000008000, 20);
	struct stream s = {0};
	struct report report;

	begin_endless(&s, RANGE);
	stream_stack(&s, 1, 60, PERFX_STACK_PC, 0x1000, NORMALIZE, next, LOOP, 0x1000);
	stream_python_frame(&s, 1, next, "_BaseDataLoaderIter.__next__",
			    "/opt/site-packages/torch/utils/data/dataloader.py", 630);
	samples(&s, (struct perfx_sample){.stack = 60, .context = RANGE}, 200);
	report = end(&s);
	cr_expect_not_null(find(&report, "DataBound"));
	forget(&report);
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
	samples(&s, (struct perfx_sample){.stack = FRAMEWORK, .context = BATCHES}, 25);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .process = 2, .tid = WORKER}, 500);
	report = end(&s);
	cr_assert_not_null(find(&report, "DataBound"));
	cr_expect(contains(find(&report, "DataBound")->evidence,
			   "; meanwhile worker (pid 5000) runs mostly normalize (features.py:88)"));
	cr_expect_null(find(&report, "InputWait"));
	forget(&report);
}

#define CALLED 9

/* The verdict names the hottest line, also where that of its finding, which it does not say, is the
 * same. */
Test(driver, the_hottest_line_of_an_optimizer)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	s.contexts[CALLED] = (struct perfx_context){.function = OPTIMIZER, .process = 1};
	stream_plain(&s, PERFX_KIND_CONTEXT, struct perfx_context, .context = CALLED,
		     .function = OPTIMIZER, .process = 1, .stack = CALLER);
	for (uint64_t i = 0; i < 20; i++)
		stream_call(&s, CALLED, MAIN, i * 100 * MS + 60 * MS, 40 * MS, 40 * MS, 0);
	samples(&s, (struct perfx_sample){.stack = CALLER, .context = CALLED}, 400);
	report = end(&s);
	cr_assert_not_null(find(&report, "OptimizerBound"));
	cr_assert_not_null(find(&report, "OptimizerBound")->place.function);
	cr_expect(contains(report.analysis->verdict, " It runs mostly main (train.py:12)"), "%s",
		  report.analysis->verdict);
	forget(&report);
}

/* A loader that sleeps or reads in the thread of the steps: 60 ms of each step, for which workers
 * need no CPU. */
static void slow_storage(struct stream *s, enum perfx_wait_reason reason)
{
	begin(s);
	steps(s);
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = MAIN,
		     .reason = (uint8_t)reason, .blocked_ns = 1100 * MS, .count = 100,
		     .max_ns = 20 * MS);
	samples(s,
		(struct perfx_sample){.stack = CALLER,
				      .context = BATCHES,
				      .state = PERFX_SAMPLE_WAITING,
				      .reason = (uint8_t)reason},
		110);
	samples(s, (struct perfx_sample){.stack = PYTHON_CODE, .context = BATCHES}, 10);
}

Test(driver, sleeps_and_reads_of_a_loader_are_the_datas)
{
	static const struct {
		enum perfx_wait_reason reason;
		const char *kind, *words;
	} cases[] = {
		{PERFX_WAIT_SLEEP, "SleepWait", "which sleeps 11.0 ms at a time, 100 times"},
		{PERFX_WAIT_DISK, "DiskWait",
		 "which waits for the disk 11.0 ms at a time, 100 times"},
		{PERFX_WAIT_READ, "InputWait", "which reads 11.0 ms at a time, 100 times"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stream s = {0};
		struct report report;
		const struct profile_frame *lead;
		const struct finding *f;

		slow_storage(&s, cases[i].reason);
		report = end(&s);
		f = find(&report, "DataBound");
		cr_assert_not_null(f);
		cr_expect_null(find(&report, cases[i].kind));
		cr_expect(contains(report.analysis->verdict, "INPUT-BOUND: "));
		cr_expect(contains(f->evidence, "(0 workers; "));
		cr_expect(contains(f->evidence, "mostly in main (train.py:12)"));
		cr_expect(contains(f->evidence, cases[i].words));
		cr_expect(contains(f->suggestion, "need no CPU meanwhile"));
		/* the place of the account's row, too */
		lead = report.analysis->processes[0].account.leads[ACCOUNT_INPUT];
		cr_assert_not_null(lead, "%s", cases[i].kind);
		cr_expect_str_eq(lead->function, "main");
		forget(&report);
	}
}

/* 500 ms for a batch and 73 ms for the rest, of a loader that uses a twentieth of a CPU: seven
 * workers would hide it, were there not 344 ms of CPU time in each step for two CPUs, for which
 * three are enough. Of workers that compute there are no more than CPUs: two take 250 ms for a
 * batch. */
Test(driver, workers_that_sleep_are_more_than_cpus)
{
	for (unsigned computes = 0; computes < 2; computes++) {
		unsigned runs = computes ? 1000 : 50;
		struct stream s = {0};
		struct report report;
		const struct finding *f;

		begin(&s);
		for (uint64_t i = 0; i < 17; i++) {
			stream_call(&s, BATCHES, MAIN, i * 573 * MS, 500 * MS, 500 * MS, 0);
			stream_call(&s, OPTIMIZER, MAIN, i * 573 * MS + 563 * MS, 10 * MS, 10 * MS,
				    0);
		}
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
			     .tid = MAIN, .reason = PERFX_WAIT_SLEEP,
			     .blocked_ns = (8500 - 10 * runs * 85 / 100) * MS, .count = 1000,
			     .max_ns = 9 * MS);
		samples(&s,
			(struct perfx_sample){.stack = CALLER,
					      .context = BATCHES,
					      .state = PERFX_SAMPLE_WAITING,
					      .reason = PERFX_WAIT_SLEEP},
			1000 - (computes ? 990 : runs));
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .context = BATCHES}, runs);
		report = end(&s);
		f = find(&report, "DataBound");
		cr_assert_not_null(f);
		cr_expect(contains(f->evidence,
				   computes ? "(0 workers; 2 would hide at most 64.6 %"
					    : "(0 workers; 3 would hide at most 80.2 %"));
		forget(&report);
	}
}

#define OF_PIPELINE 60
#define ANSWERS	    61

/* 90 ms of each step of 100 ms wait for threads that sleep 20 ms at a time. */
static void fed_by_threads(struct stream *s, uint32_t threads, uint32_t waker, uint32_t ends_steps,
			   const char *file)
{
	const uint64_t script = python_frame(0x7f0000009000, 3);

	begin_without_loader(s);
	stream_add(s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS("answer", "", ""),
		   .function = ANSWERS, .source = PERFX_SOURCE_PERFX,
		   .flags = PERFX_FUNCTION_RANGE | PERFX_FUNCTION_STEP);
	stream_context(s, ANSWERS, 0, ANSWERS, 1);
	stream_stack(s, 1, OF_PIPELINE, PERFX_STACK_PC, 0x2000, LOOP, script);
	stream_python_frame(s, 1, script, "FuncRegistry.__call__", file, 269);
	for (uint64_t i = 0; i < 100; i++)
		stream_call(s, ends_steps, MAIN, i * 100 * MS + 90 * MS, 10 * MS, 10 * MS, 0);
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = MAIN,
		     .reason = PERFX_WAIT_FUTEX, .object = 1, .holder_tid = waker,
		     .blocked_ns = 9 * S, .count = 100, .max_ns = 90 * MS);
	samples(s,
		(struct perfx_sample){.stack = OF_QUEUE,
				      .state = PERFX_SAMPLE_WAITING,
				      .reason = PERFX_WAIT_FUTEX,
				      .object = 1},
		5);
	for (uint32_t tid = POOL; tid < POOL + threads; tid++) {
		stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = tid,
			     .reason = PERFX_WAIT_SLEEP, .blocked_ns = 9600 / threads * MS,
			     .count = 480 / threads, .max_ns = 20 * MS);
		samples(s,
			(struct perfx_sample){.tid = tid,
					      .stack = OF_PIPELINE,
					      .state = PERFX_SAMPLE_WAITING,
					      .reason = PERFX_WAIT_SLEEP},
			960 / threads);
	}
}

/* In ten seconds hardly a batch comes: the line that waits is named. A thread of TensorFlow takes
 * it, or the thread itself asks for it. */
Test(driver, few_batches_of_a_pipeline)
{
	enum { GET_NEXT = 62, ASKS };

	for (unsigned itself = 0; itself < 2; itself++) {
		const uint64_t script = python_frame(0x7f0000009000, 3);
		struct stream s = {0};
		struct report report;
		const struct finding *f;

		begin_without_loader(&s);
		stream_stack(&s, 1, GET_NEXT, PERFX_STACK_PC, 0x2000, 0x9000);
		stream_frame(&s, 1, 0x9000, 0, "tensorflow::data::IteratorResource::GetNext",
			     "/opt/libtensorflow.so", 0x90, "", 0);
		stream_stack(&s, 1, ASKS, PERFX_STACK_PC, 0x2000, 0x9100, script, LOOP);
		stream_frame(&s, 1, 0x9100, 0, "TFE_Execute", "/opt/libtensorflow.so", 0x91, "", 0);
		stream_python_frame(&s, 1, script, "iterator_get_next",
				    "/opt/site-packages/tensorflow/python/ops/gen_dataset_ops.py",
				    3081);
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
			     .tid = MAIN, .reason = PERFX_WAIT_FUTEX, .object = 1,
			     .blocked_ns = 9 * S, .count = 2, .max_ns = 5 * S);
		samples(&s,
			(struct perfx_sample){.stack = itself ? ASKS : OF_CONDITION,
					      .state = PERFX_SAMPLE_WAITING,
					      .reason = PERFX_WAIT_FUTEX,
					      .object = 1},
			900);
		samples(&s,
			(struct perfx_sample){.tid = POOL,
					      .stack = itself ? NATIVE : GET_NEXT,
					      .state = PERFX_SAMPLE_WAITING,
					      .reason = PERFX_WAIT_FUTEX,
					      .object = 2},
			900);
		report = end(&s);
		f = find(&report, "InputWait");
		cr_assert_not_null(f, "%s", report.analysis->verdict);
		cr_expect_eq(f->severity, FINDING_HIGH);
		cr_expect(contains(report.analysis->verdict,
				   "INPUT-BOUND: python3 (pid 4242) waits for the next batch of "
				   "tf.data, 90.0 % of the wall time"));
		cr_expect(contains(report.analysis->verdict, "; it waits in main (train.py:12)"));
		forget(&report);
	}
}

/* A loop that asks tf.data's iterator for each batch, of which a call of TensorFlow tells nothing:
 * 60 ms of each step of 100 ms. */
Test(driver, pipeline_that_the_loop_asks)
{
	enum { EXECUTE = 63, ASKS };

	const uint64_t script = python_frame(0x7f0000009000, 3);
	struct stream s = {0};
	struct report report;

	begin_without_loader(&s);
	stream_add(&s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS("TFE_Execute", "", ""),
		   .function = EXECUTE, .source = PERFX_SOURCE_SYMBOL);
	stream_context(&s, EXECUTE, 0, EXECUTE, 1);
	stream_stack(&s, 1, ASKS, PERFX_STACK_PC, 0x2000, 0x9100, script, LOOP);
	stream_frame(&s, 1, 0x9100, 0, "TFE_Execute", "/opt/libtensorflow.so", 0x91, "", 0);
	stream_python_frame(&s, 1, script, "iterator_get_next",
			    "/opt/site-packages/tensorflow/python/ops/gen_dataset_ops.py", 3081);
	for (uint64_t i = 0; i < 100; i++)
		stream_call(&s, OPTIMIZER, MAIN, i * 100 * MS + 90 * MS, 10 * MS, 10 * MS, 0);
	stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = MAIN,
		     .reason = PERFX_WAIT_FUTEX, .object = 1, .blocked_ns = 6 * S, .count = 100,
		     .max_ns = 60 * MS);
	samples(&s,
		(struct perfx_sample){.stack = ASKS,
				      .context = EXECUTE,
				      .state = PERFX_SAMPLE_WAITING,
				      .reason = PERFX_WAIT_FUTEX,
				      .object = 1},
		600);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 400);
	report = end(&s);
	cr_assert_not_null(find(&report, "DataBound"), "%s", report.analysis->verdict);
	cr_expect(contains(find(&report, "DataBound")->evidence, "took 55.6 % of the time"));
	forget(&report);
}

/* 90 ms of each step of 100 ms wait for another thread, or for two that take turns, which sleep:
 * they need no CPU. The 60 ms of CPU time of a step leave 30 ms of each with two CPUs. */
Test(driver, threads_that_sleep_are_more_than_cpus)
{
	for (uint32_t threads = 1; threads <= 2; threads++) {
		struct stream s = {0};
		struct report report;
		const struct finding *f;

		fed_by_threads(&s, threads, 0, OPTIMIZER,
			       "/opt/site-packages/tensorflow/python/ops/script_ops.py");
		report = end(&s);
		f = find(&report, "DataBound");
		cr_assert_not_null(f);
		cr_expect(contains(f->evidence,
				   "(1 thread prepares it; 4 would hide at most 77.8 %"));
		cr_expect(contains(f->evidence, "which sleeps 20.0 ms at a time, 480 times"));
		cr_expect(contains(f->suggestion, "need no CPU meanwhile"));
		cr_expect_float_eq(f->gain_ns, 70e6, 1e6);
		forget(&report);
	}
}

/* They may be a server's, where nothing is trained and no loader is known. */
Test(driver, threads_that_may_send_requests)
{
	for (unsigned serves = 0; serves < 2; serves++) {
		struct stream s = {0};
		struct report report;
		const struct finding *f;

		fed_by_threads(&s, 1, POOL, serves ? ANSWERS : OPTIMIZER, "/opt/client.py");
		report = end(&s);
		f = find(&report, "DataBound");
		cr_assert_not_null(f);
		cr_expect_eq(strstr(f->evidence, "would hide") != NULL, !serves, "%s", f->evidence);
		cr_expect_eq(strstr(f->suggestion, "If these are requests") != NULL, serves, "%s",
			     f->suggestion);
		cr_expect_eq(f->gain_unknown, serves);
		forget(&report);
	}
}

/* The same beside another program: that the thread waits for a CPU for 27 ms of each batch and 40
 * of each rest is no work that workers could do. With other threads that lack CPUs nobody knows. */
Test(driver, waits_for_a_cpu_are_no_work_of_a_loader)
{
	for (unsigned others = 0; others < 2; others++) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		for (uint64_t i = 0; i < 15; i++) {
			stream_call(&s, BATCHES, MAIN, i * 640 * MS, 527 * MS, 527 * MS, 0);
			stream_call(&s, OPTIMIZER, MAIN, i * 640 * MS + 630 * MS, 10 * MS, 10 * MS,
				    0);
		}
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
			     .tid = MAIN, .reason = PERFX_WAIT_SLEEP, .blocked_ns = 7500 * MS,
			     .count = 1000, .max_ns = 9 * MS);
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
			     .tid = MAIN, .reason = PERFX_WAIT_RUNNABLE, .blocked_ns = 1005 * MS,
			     .count = 500, .max_ns = 9 * MS);
		samples(&s,
			(struct perfx_sample){.stack = CALLER,
					      .context = BATCHES,
					      .state = PERFX_SAMPLE_WAITING,
					      .reason = PERFX_WAIT_SLEEP},
			750);
		samples(&s,
			(struct perfx_sample){.stack = CALLER,
					      .context = BATCHES,
					      .state = PERFX_SAMPLE_RUNNABLE,
					      .reason = PERFX_WAIT_RUNNABLE},
			27);
		samples(&s,
			(struct perfx_sample){.stack = CALLER,
					      .state = PERFX_SAMPLE_RUNNABLE,
					      .reason = PERFX_WAIT_RUNNABLE},
			40);
		if (others) {
			stream_thread(&s, 1, POOL + 1, "python3", 'R', 0, 0, 0);
			stream_thread(&s, 1, POOL + 1, "python3", 'R', 10 * S, 1 * S, 3 * S);
		}
		report = end(&s);
		cr_assert_not_null(find(&report, "DataBound"));
		cr_expect(contains(find(&report, "DataBound")->evidence,
				   others ? "(0 workers);" : "(0 workers; 3 would hide"),
			  "%s", find(&report, "DataBound")->evidence);
		cr_expect_eq(find(&report, "DataBound")->gain_unknown, others);
		forget(&report);
	}
}

/* A worker that multiprocessing has started anew, and a thread: there is no "0 workers". */
Test(driver, workers_of_any_kind)
{
	static const char *const commands[] = {
		"python3\x1f-c\x1f"
		"from multiprocessing.spawn import spawn_main; spawn_main()",
		"python3\x1ftrain.py",
		"python3\x1f-m\x1fjoblib.externals.loky.backend.popen_loky_posix", "ffmpeg",
		"python3\x1f-c\x1f"
		"from joblib.externals.loky.backend.resource_tracker import main"};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		struct stream s = {0};
		struct report report;
		const struct finding *f;

		begin(&s);
		stream_add(&s, PERFX_KIND_PROCESS, struct perfx_process,
			   STRINGS("python3", commands[i]), .time_ns = STREAM_START,
			   .start_boot_ns = 41 * S, .process = 3, .pid = WORKER + 1, .ppid = MAIN);
		steps(&s);
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
			     .tid = MAIN, .reason = PERFX_WAIT_POLL, .blocked_ns = 1200 * MS,
			     .count = 20, .max_ns = 60 * MS);
		samples(&s,
			(struct perfx_sample){.stack = OF_QUEUE,
					      .context = BATCHES,
					      .state = PERFX_SAMPLE_WAITING,
					      .reason = PERFX_WAIT_POLL},
			100);
		report = end(&s);
		f = find(&report, "DataBound");
		cr_assert_not_null(f);
		if (i < 3)
			cr_expect(contains(f->evidence, "(1 worker; "));
		else
			cr_expect(!strstr(f->evidence, "worker"), "%s", f->evidence);
		forget(&report);
	}
}

/* A server that the program has forked is no worker of its DataLoader, whose workers have a name.
 */
Test(driver, other_children_are_no_workers)
{
	static const char *const names[] = {"python3", "pt_data_worker", "pt_data_worker"};
	struct stream s = {0};
	struct report report;

	begin(&s);
	for (unsigned i = 0; i < 3; i++) {
		uint32_t pid = WORKER + 1 + i;

		stream_add(&s, PERFX_KIND_PROCESS, struct perfx_process,
			   STRINGS("python3", "python3\x1ftrain.py"), .time_ns = STREAM_START,
			   .start_boot_ns = 41 * S, .process = 3 + i, .pid = pid, .ppid = MAIN);
		stream_thread(&s, 3 + i, pid, names[i], 'S', 0, 0, 0);
	}
	steps(&s);
	waits(&s, PERFX_WAIT_READ, 77, LOCK, 4000);
	report = end(&s);
	cr_assert_not_null(find(&report, "DataBound"));
	cr_expect(contains(find(&report, "DataBound")->evidence, "(2 workers; "), "%s",
		  find(&report, "DataBound")->evidence);
	forget(&report);
}

/* The thread of the steps runs for most of the time in which it waits for PyTorch's two workers: it
 * takes batches over, and prepares none. More workers would not make that faster. */
Test(driver, batches_that_are_costly_to_take_over)
{
	struct stream s = {0};
	struct report report;
	const struct finding *f;

	begin(&s);
	for (unsigned i = 0; i < 2; i++) {
		stream_add(&s, PERFX_KIND_PROCESS, struct perfx_process,
			   STRINGS("python3", "python3\x1ftrain.py"), .time_ns = STREAM_START,
			   .start_boot_ns = 41 * S, .process = 3 + i, .pid = WORKER + 1 + i,
			   .ppid = MAIN);
		stream_thread(&s, 3 + i, WORKER + 1 + i, "pt_data_worker", 'S', 0, 0, 0);
	}
	steps(&s);
	samples(&s, (struct perfx_sample){.stack = CALLER, .context = BATCHES}, 120);
	report = end(&s);
	f = find(&report, "DataBound");
	cr_assert_not_null(f);
	cr_expect_eq(f->severity, FINDING_HIGH);
	cr_expect(contains(f->evidence,
			   "(2 workers; this is what taking batches from workers costs)"));
	cr_expect(contains(f->suggestion, "fewer tensors in each"));
	cr_expect(f->gain_unknown);
	forget(&report);
}

/* The Python that a line runs is a package's (spaCy, Keras): the program cannot write that in
 * another way, so it has to be more. */
Test(driver, python_of_packages)
{
	enum { IN_PACKAGE = 60 };

	for (unsigned much = 0; much < 2; much++) {
		struct stream s = {0};
		struct report report;
		const struct finding *f;

		begin(&s);
		stream_stack(&s, 1, IN_PACKAGE, PERFX_STACK_PC, 0x1000, MODULE, LOOP, 0x1000);
		samples(&s, (struct perfx_sample){.stack = IN_PACKAGE}, much ? 400 : 150);
		report = end(&s);
		f = find(&report, "PythonBound");
		cr_assert_eq(f != NULL, much == 1);
		if (f) {
			cr_expect(contains(f->evidence, "most of it below main (train.py:12)"));
			cr_expect(contains(f->suggestion, "This is Python of the framework"));
		}
		forget(&report);
	}
}

/* A tracker of shared memory beside its idle parent is nothing to look at. */
Test(driver, helpers_of_multiprocessing_may_be_idle)
{
	static const struct {
		const char *cmdline;
		size_t idle;
	} commands[] = {
		{"python3\x1fserver.py", 2},
		{"python3\x1f-s\x1f-c\x1f"
		 "from multiprocessing.resource_tracker import main;main(9)",
		 1},
		{"python3\x1f-c\x1f"
		 "from joblib.externals.loky.backend.resource_tracker import main; main(9)",
		 1},
	};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		struct stream s = {0};
		struct report report;
		size_t idle = 0;

		stream_host(&s);
		stream_process(&s, 1, MAIN, "python3", "python3\x1fserver.py");
		stream_process(&s, 2, WORKER, "python3", commands[i].cmdline);
		for (uint32_t process = 1; process <= 2; process++) {
			uint32_t pid = process == 1 ? MAIN : WORKER;

			stream_thread(&s, process, pid, "python3", 'S', 0, 0, 0);
			stream_thread(&s, process, pid, "python3", 'S', 10 * S, 10 * MS, 0);
			stream_usage(&s, process, 0, 0, 0, 1 << 20);
			stream_usage(&s, process, 10 * S, 10 * MS, 0, 1 << 20);
		}
		stream_end(&s, 10 * S, 0);
		report.aggregate = replay(&s);
		report.analysis = analyze(aggregate__finish(report.aggregate), NULL);
		for (size_t p = 0; p < report.analysis->processes_count; p++)
			idle += report.analysis->processes[p].findings_count;
		cr_expect_eq(idle, commands[i].idle, "%s: %zu", commands[i].cmdline, idle);
		forget(&report);
	}
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
