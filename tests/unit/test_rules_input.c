// SPDX-License-Identifier: BSD-2-Clause
/* Findings about steps that wait for data, requests or the code that prepares them. */
#include "training_fixture.h"

#include <sys/syscall.h>

Test(rules_input, waits_for_input)
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

Test(rules_input, waits_for_requests)
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
Test(rules_input, waits_for_requests_that_another_thread_hands_over)
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
Test(rules_input, waits_for_requests_of_its_own_threads)
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

Test(rules_input, waits_for_a_disk_a_child_a_reader_and_the_clock)
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
Test(rules_input, waits_in_an_event_loop)
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
Test(rules_input, sleeps_that_poll)
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
Test(rules_input, one_cause_is_one_finding)
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
Test(rules_input, a_range_of_data_without_an_end)
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
Test(rules_input, batches_in_a_range_without_an_end)
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
Test(rules_input, waits_for_the_next_batch)
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

static void reads_files(struct stream *s, uint32_t process, uint32_t tid, bool slow)
{
	stream_plain(s, PERFX_KIND_FILE_CALLS, struct perfx_file_calls, .process = process,
		     .group = 2, .tid = tid, .opens_count = 2, .open_ns = slow ? S : 1,
		     .reads_count = 400, .read_bytes = 100 << 20, .read_ns = slow ? 2 * S : 1,
		     .stored_bytes = 75 << 20);
	stream_plain(s, PERFX_KIND_FILE_SAMPLE, struct perfx_file_sample, .time_ns = S,
		     .ns = 10 * MS, .process = process, .tid = tid, .group = 2,
		     .stack = PYTHON_CODE);
}

/* 600 ms of each second are the loader's; its files take a half of that, or a little. */
Test(rules_input, names_the_files_that_the_data_comes_from)
{
	static const char *const files = "; reads /data/train/0.bin (nfs4) at 10.0 MiB/s, "
					 "75.0 % not cached, 1.50 s a file, mostly in normalize "
					 "(features.py:88)";

	for (unsigned slow = 0; slow < 2; slow++) {
		struct stream s = {0};
		struct report report;
		const char *evidence;

		begin(&s);
		steps(&s);
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .context = BATCHES}, 600);
		stream_add(&s, PERFX_KIND_FILE_GROUP, struct perfx_file_group,
			   STRINGS("/data/train/0.bin", "nfs4"), .group = 2);
		reads_files(&s, 1, MAIN, slow);
		report = end(&s);
		cr_assert_not_null(find(&report, "DataBound"));
		evidence = find(&report, "DataBound")->evidence;
		cr_expect_eq(strstr(evidence, "; reads ") != NULL, slow, "%s", evidence);
		cr_expect(!slow || contains(evidence, files));
		forget(&report);
	}
}

/* Two threads of a worker read, and one computes 500 ms of four files. */
Test(rules_input, names_the_workers_that_read)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	steps(&s);
	samples(&s, (struct perfx_sample){.stack = FRAMEWORK, .context = BATCHES}, 600);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .process = 2, .tid = WORKER}, 50);
	stream_add(&s, PERFX_KIND_FILE_GROUP, struct perfx_file_group,
		   STRINGS("/data/train/*.bin", "nfs4"), .group = 2);
	reads_files(&s, 2, WORKER, true);
	reads_files(&s, 2, WORKER + 1, true);
	report = end(&s);
	cr_assert_not_null(find(&report, "DataBound"));
	cr_expect(contains(find(&report, "DataBound")->evidence,
			   "; a worker reads /data/train/*.bin (nfs4) at 20.0 MiB/s, 75.0 % not "
			   "cached, 1.50 s a file, mostly in normalize (features.py:88); it "
			   "computes 125 ms a file, mostly in normalize (features.py:88)"),
		  "%s", find(&report, "DataBound")->evidence);
	forget(&report);
}

#define CALLED 9

/* The verdict names the hottest line, also where that of its finding, which it does not say, is the
 * same. */
Test(rules_input, the_hottest_line_of_an_optimizer)
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

Test(rules_input, sleeps_and_reads_of_a_loader_are_the_datas)
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
Test(rules_input, workers_that_sleep_are_more_than_cpus)
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
Test(rules_input, few_batches_of_a_pipeline)
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
Test(rules_input, pipeline_that_the_loop_asks)
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
Test(rules_input, threads_that_sleep_are_more_than_cpus)
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
Test(rules_input, threads_that_may_send_requests)
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
Test(rules_input, waits_for_a_cpu_are_no_work_of_a_loader)
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
Test(rules_input, workers_of_any_kind)
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
Test(rules_input, other_children_are_no_workers)
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
Test(rules_input, batches_that_are_costly_to_take_over)
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
Test(rules_input, python_of_packages)
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
Test(rules_input, helpers_of_multiprocessing_may_be_idle)
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
