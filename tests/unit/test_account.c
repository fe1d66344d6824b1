// SPDX-License-Identifier: BSD-2-Clause
/* The account of a process's time: it adds up, and says which thread works. */
#include "account_fixture.h"

#include "analyze/hottest.h"
#include "report/report.h"

/* The main thread is there for ten seconds, five of them on a CPU (training_fixture.h). */
Test(account, exact_sums_are_divided_by_samples)
{
	struct stream s = {0};
	const struct process_account *account;
	struct report report;

	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 300);
	samples(&s, (struct perfx_sample){.stack = MALLOC}, 100);
	blocked(&s, MAIN, PERFX_WAIT_DISK, 2000, 4);
	blocked(&s, MAIN, PERFX_WAIT_GIL, 500, 100);
	report = end_after(&s, 1 * S);
	account = account_of(&report);
	expect_ms(account_of_thread(account, MAIN), ACCOUNT_COMPUTING, 5000);
	expect_ms(account_of_thread(account, MAIN), ACCOUNT_RUNNABLE, 1000);
	expect_ms(account_of_thread(account, MAIN), ACCOUNT_DISK, 2000);
	expect_ms(account_of_thread(account, MAIN), ACCOUNT_GIL, 500);
	expect_ms(account_of_thread(account, MAIN), ACCOUNT_UNKNOWN, 1500);
	expect_ms(account_of_thread(account, POOL), ACCOUNT_COMPUTING, 1000);
	expect_ms(account_of_thread(account, POOL), ACCOUNT_UNKNOWN, 9000);
	cr_expect_eq(account->all.wall_ns, 20 * S);
	forget(&report);
}

/* A wait that has not ended has no sum: its samples say what the rest of the time was. */
Test(account, waits_that_go_on_are_sampled)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	samples(&s,
		(struct perfx_sample){
			.stack = LOCK, .state = PERFX_SAMPLE_WAITING, .reason = PERFX_WAIT_READ},
		450);
	report = end(&s);
	expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_INPUT, 5000);
	forget(&report);
}

/* Two clocks may count more than there was. */
Test(account, waits_are_no_longer_than_the_time_without_a_cpu)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	blocked(&s, MAIN, PERFX_WAIT_DISK, 4000, 4);
	blocked(&s, MAIN, PERFX_WAIT_GIL, 4000, 4);
	report = end_after(&s, 3 * S);
	expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_DISK, 1000);
	expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_GIL, 1000);
	forget(&report);
}

/* Of a thread that ended before it was seen twice all is sampled. */
Test(account, a_thread_that_is_not_known_to_proc)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .tid = 77}, 30);
	blocked(&s, 77, PERFX_WAIT_SLEEP, 200, 1);
	report = end(&s);
	expect_ms(account_of_thread(account_of(&report), 77), ACCOUNT_COMPUTING, 300);
	expect_ms(account_of_thread(account_of(&report), 77), ACCOUNT_SLEEP, 200);
	forget(&report);
}

#define YIELD 40
#define GOMP  41

/* CUDA's waits poll; a launch in the same library computes. */
Test(account, waiting_for_a_gpu_is_no_computing)
{
	static const struct {
		const char *function;
		unsigned spinning_ms;
	} calls[] = {{"cuStreamSynchronize", 5000}, {"cuLaunchKernel", 0}};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		stream_stack(&s, 1, YIELD, PERFX_STACK_PC, 0x9000, 0x9100, 0x1000, LOOP, 0x1000);
		stream_frame(&s, 1, 0x9000, 0, "", "/usr/lib/libcuda.so.580", 0x90, "", 0);
		stream_frame(&s, 1, 0x9100, 0, calls[i].function, "/usr/lib/libcuda.so.580", 0x91,
			     "", 0);
		samples(&s, (struct perfx_sample){.stack = YIELD}, 100);
		report = end(&s);
		expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_SPINNING,
			  calls[i].spinning_ms);
		/* by the function through which the library without symbols was entered */
		cr_expect_not_null(strstr(report.analysis->verdict, calls[i].function), "%s",
				   report.analysis->verdict);
		forget(&report);
	}
}

Test(account, polling_is_no_computing)
{
	/* of the caller: in libc, and where OpenBLAS and numba wait for their threads */
	static const struct {
		const char *function, *module;
	} polls[] = {{"__sched_yield", LIBC},
		     {"exec_blas_async_wait", "/usr/lib/libopenblas.so"},
		     {"queue_condition_wait", "/opt/numba/workqueue.cpython-311.so"}};

	for (size_t i = 0; i < sizeof(polls) / sizeof(polls[0]); i++) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		stream_stack(&s, 1, YIELD, PERFX_STACK_PC, 0x9000, 0x1000, LOOP, 0x1000);
		stream_stack(&s, 1, GOMP, PERFX_STACK_PC, 0x9100);
		stream_frame(&s, 1, 0x9000, 0, polls[i].function, polls[i].module, 0x90, "", 0);
		stream_frame(&s, 1, 0x9100, 0, "", "/usr/lib/libgomp.so.1", 0x91, "", 0);
		samples(&s, (struct perfx_sample){.stack = YIELD}, 100);
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 300);
		samples(&s, (struct perfx_sample){.stack = GOMP, .tid = POOL}, 100);
		report = end(&s);
		expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_SPINNING, 1250);
		expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_COMPUTING, 3750);
		expect_ms(account_of_thread(account_of(&report), POOL), ACCOUNT_SPINNING, 1000);
		forget(&report);
	}
}

Test(account, who_polls_its_own_threads_joins_them)
{
	struct stream s = {0};
	const struct process_account *account;
	struct report report;

	begin(&s);
	blocked(&s, MAIN, PERFX_WAIT_SLEEP, 8000, 800);
	samples(&s, (struct perfx_sample){.stack = EXTENSION, .tid = POOL}, 900);
	report = end_of_pool(&s, 9000);
	account = account_of(&report);
	expect_ms(account_of_thread(account, MAIN), ACCOUNT_JOIN, 8000);
	expect_ms(account_of_thread(account, MAIN), ACCOUNT_SLEEP, 0);
	cr_expect_eq(account->tid, POOL);
	cr_expect(account->joins);
	cr_expect_null(find(&report, "SleepWait"));
	cr_expect(contains(report.analysis->verdict,
			   "its threads spent 100 % of their CPU time in normalize "
			   "(features.py:88), in Tensor.add (libtorch_python.so)"));
	forget(&report);
}

/* Threads that hold each other up hardly compute: the verdict is about them, not about the thread
 * that sleeps meanwhile. Its line is said once. */
Test(account, who_sleeps_while_its_threads_wait_for_a_lock)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	blocked(&s, MAIN, PERFX_WAIT_SLEEP, 8000, 1);
	for (uint32_t tid = POOL; tid <= POOL + 1; tid++) {
		stream_wait_object(&s, 1, PERFX_WAIT_FUTEX, 0x66, "lock at 0x66 (heap)");
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = tid,
			     .reason = PERFX_WAIT_FUTEX, .object = 0x66,
			     .holder_tid = POOL + (tid == POOL), .blocked_ns = 7 * S, .count = 100,
			     .max_ns = 90 * MS);
		samples(&s,
			(struct perfx_sample){.stack = LOCK,
					      .tid = tid,
					      .state = PERFX_SAMPLE_WAITING,
					      .reason = PERFX_WAIT_FUTEX,
					      .object = 0x66},
			700);
		samples(&s, (struct perfx_sample){.stack = CALLER, .tid = tid}, 100);
	}
	report = end_of_pool(&s, 1000);
	cr_expect_eq(account_of(&report)->tid, POOL);
	cr_expect(contains(report.analysis->verdict, "LOCK-BOUND: "), "%s",
		  report.analysis->verdict);
	cr_expect(contains(report.analysis->verdict,
			   "which runs main (train.py:12); it waits there, too."));
	cr_expect_null(find(&report, "SleepWait"));
	forget(&report);
}

/* A CPU that a thread of the pool waited for. */
static void had_the_cpu(struct stream *s, uint32_t pid, const char *comm, uint64_t ms)
{
	stream_wait_object(s, 1, PERFX_WAIT_RUNNABLE, pid, comm);
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = POOL,
		     .reason = PERFX_WAIT_RUNNABLE, .object = pid, .blocked_ns = ms * MS,
		     .count = 100, .max_ns = 10 * MS);
}

/* Every second or so: while not all(done): sleep(1). */
Test(account, who_polls_its_own_threads_rarely_joins_them_too)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	blocked(&s, MAIN, PERFX_WAIT_SLEEP, 8008, 8);
	samples(&s, (struct perfx_sample){.stack = EXTENSION, .tid = POOL}, 900);
	report = end_of_pool(&s, 9000);
	expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_JOIN, 8000);
	forget(&report);
}

/* They come and go: none of them waits for a CPU for long, all of them do for half of their time.
 * Own threads had a quarter of it. */
Test(account, joined_threads_that_lack_a_cpu)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	had_the_cpu(&s, MAIN, "python3", 1000);
	had_the_cpu(&s, 900, "make", 3000);
	blocked(&s, MAIN, PERFX_WAIT_SLEEP, 8000, 800);
	for (uint32_t tid = 0; tid < 8; tid++) {
		stream_thread(&s, 1, POOL + 10 + tid, "task", 'R', tid * S, 0, 0);
		stream_thread(&s, 1, POOL + 10 + tid, "task", 'R', (tid + 1) * S, 500 * MS,
			      500 * MS);
	}
	report = end_of_pool(&s, 10);
	cr_expect(contains(report.analysis->verdict,
			   "CPU CONTENTION: 300 ms of each second is lost"),
		  "%s", report.analysis->verdict);
	forget(&report);
}

/* The threads run a package; the line that waits for them is the program's own. */
Test(account, the_line_that_joins_is_named)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	blocked(&s, MAIN, PERFX_WAIT_SLEEP, 8000, 800);
	samples(&s,
		(struct perfx_sample){.stack = LOCK,
				      .state = PERFX_SAMPLE_WAITING,
				      .reason = PERFX_WAIT_SLEEP,
				      .object = 7},
		50);
	samples(&s, (struct perfx_sample){.stack = FRAMEWORK, .tid = POOL}, 900);
	report = end_of_pool(&s, 9000);
	cr_expect(contains(report.analysis->verdict,
			   "Module._call_impl (module.py:1194), for main (train.py:12)"));
	forget(&report);
}

/* A pool's threads run a library without symbols; the main thread calls it from one line, and is
 * longer in another. */
Test(account, the_line_that_calls_what_a_pool_runs)
{
	enum { PREDICTS = 50, SHARES };
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_stack(&s, 1, PREDICTS, PERFX_STACK_PC, 0x9100, FITS, IN_CALL, 0x1000);
	stream_stack(&s, 1, SHARES, PERFX_STACK_PC, 0x9100);
	stream_frame(&s, 1, 0x9100, 0, "", PACKAGES "onnxruntime/ort.so", 0x91, "", 0);
	stream_python_frame(&s, 1, FITS, "Session.run", PACKAGES "onnxruntime/session.py", 467);
	stream_python_frame(&s, 1, IN_CALL, "predict", "/home/me/serve.py", 20);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 350);
	samples(&s, (struct perfx_sample){.stack = PREDICTS}, 100);
	samples(&s, (struct perfx_sample){.stack = SHARES, .tid = POOL}, 900);
	report = end_of_pool(&s, 9000);
	cr_expect(contains(report.analysis->verdict, "ort.so (no symbols), for predict "
						     "(serve.py:20)"));
	forget(&report);
}

/* A traced call that waits for most of the time is not where the process computes. */
Test(account, the_hottest_place_is_named_before_a_call_that_waits)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_call(&s, CONV, MAIN, 9 * S + 500 * MS, 9 * S, 9 * S, 0);
	samples(&s,
		(struct perfx_sample){.stack = LOCK,
				      .state = PERFX_SAMPLE_WAITING,
				      .reason = PERFX_WAIT_FUTEX,
				      .context = CONV},
		990);
	samples(&s, (struct perfx_sample){.stack = NATIVE, .tid = POOL}, 900);
	report = end_of_pool_after(&s, 9000, 0);
	expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_OTHER, 9900);
	cr_expect(contains(report.analysis->verdict,
			   "No problem found: python3 (pid 4242) used 91.0 % of one CPU in 10.0 s; "
			   "its threads spent 100 % of their CPU time in Tensor.add "
			   "(libtorch_python.so), for main (train.py:12); 99.0 % of the time its "
			   "main thread was waiting for work, events, mostly in main "
			   "(train.py:12)."));
	forget(&report);
}

Test(account, calls_of_the_hottest_place_are_named_with_it)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .context = CONV}, 300);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 100);
	report = end_after(&s, 0);
	cr_expect_eq(hottest_function(account_of(&report)), CONV);
	cr_expect(contains(report.analysis->verdict,
			   "normalize (features.py:88) (1 call of aten::convolution, 10.0 ms)"));
	forget(&report);
}

/* The account says how much CPU time it used, and what its threads did. */
Test(account, the_reason_for_no_calls_does_not_repeat_it)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	blocked(&s, MAIN, PERFX_WAIT_SLEEP, 8000, 800);
	samples(&s, (struct perfx_sample){.stack = EXTENSION, .tid = POOL}, 900);
	report = end_of_pool(&s, 9000);
	cr_assert(account_is_known(account_of(&report)));
	cr_expect_str_eq(report.analysis->processes[0].silence,
			 "It called none of the functions that are traced: operators and libraries "
			 "that perfx-trace knows, ranges that the program marks, or those of -F. "
			 "No probe was attached: see the reasons for each function that is not "
			 "attached.");
	forget(&report);
}

#define OF_SIMPLE_QUEUE 44

/* One long wait, in which samples find its stack. */
static void wait_once(struct stream *s, uint32_t tid, enum perfx_wait_reason reason,
		      uint64_t object, uint32_t stack, uint64_t ms)
{
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = tid,
		     .reason = (uint8_t)reason, .object = object, .blocked_ns = ms * MS, .count = 1,
		     .max_ns = ms * MS);
	samples(s,
		(struct perfx_sample){.stack = stack,
				      .tid = tid,
				      .state = PERFX_SAMPLE_WAITING,
				      .reason = (uint8_t)reason,
				      .object = object},
		5);
}

/* The main thread waits for what its threads raise, however it does so: for a condition, an event,
 * a signal, or for a time that is long enough. */
Test(account, waits_that_its_own_threads_end_are_joins)
{
	static const struct {
		enum perfx_wait_reason reason;
		const char *object; /* NULL: none */
	} cases[] = {
		{PERFX_WAIT_FUTEX, ""},
		{PERFX_WAIT_EPOLL, ""},
		{PERFX_WAIT_POLL, ""},
		{PERFX_WAIT_SLEEP, ""},
		{PERFX_WAIT_READ, "eventfd (descriptor 3)"},
		{PERFX_WAIT_READ, "signalfd (descriptor 3)"},
		{PERFX_WAIT_READ, "timerfd (descriptor 3)"},
		{PERFX_WAIT_READ, "pipe:[1234]"},
		{PERFX_WAIT_SYSCALL, NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		if (cases[i].object)
			stream_wait_object(&s, 1, cases[i].reason, 7, cases[i].object);
		wait_once(&s, MAIN, cases[i].reason, cases[i].object ? 7 : 0, NATIVE, 8000);
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .tid = POOL}, 600);
		report = end_of_pool(&s, 6000);
		expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_JOIN, 8000);
		cr_expect_eq(account_of(&report)->tid, POOL, "case %zu", i);
		cr_expect(contains(report.analysis->verdict,
				   "PYTHON-BOUND: 60.0 % of the wall time runs Python"));
		forget(&report);
	}
}

/* Its threads compute, as those of XLA and TensorFlow: it joins them, and drives the steps all the
 * same. What they wait for a CPU, the steps lose. */
Test(account, the_thread_of_the_steps_joins_its_pool)
{
	struct stream s = {0};
	const struct process_account *account;
	struct report report;

	begin(&s);
	for (uint64_t i = 0; i < 100; i++)
		stream_call(&s, OPTIMIZER, MAIN, i * 100 * MS + 90 * MS, 10 * MS, 10 * MS, 0);
	wait_once(&s, MAIN, PERFX_WAIT_FUTEX, 7, NATIVE, 8000);
	samples(&s, (struct perfx_sample){.stack = NATIVE, .tid = POOL}, 500);
	stream_thread(&s, 1, POOL, "loader", 'R', 10 * S, 5 * S, 5 * S);
	stream_thread(&s, 1, MAIN, "python3", 'S', 10 * S, 1 * S, 0);
	stream_end(&s, 10 * S, 0);
	report.aggregate = replay(&s);
	report.analysis = analyze(aggregate__finish(report.aggregate), NULL);
	account = account_of(&report);
	expect_ms(account_of_thread(account, MAIN), ACCOUNT_JOIN, 8000);
	cr_expect(account->joins);
	cr_expect_eq(account->tid, MAIN);
	cr_expect(contains(report.analysis->verdict, "CPU CONTENTION: "), "%s",
		  report.analysis->verdict);
	forget(&report);
}

/* It may work on what it reads: only where its threads work all the time it does not. */
Test(account, a_thread_that_reads_may_wait_for_data)
{
	static const struct {
		enum perfx_wait_reason reason;
		uint32_t stack;
		const char *object;
	} cases[] = {
		{PERFX_WAIT_READ, NATIVE, "pipe:[1234] from zcat (pid 7)"},
		{PERFX_WAIT_READ, NATIVE, "socket:[1234]"},
		{PERFX_WAIT_FUTEX, OF_QUEUE, "lock at 0x7"},
		{PERFX_WAIT_FUTEX, OF_SIMPLE_QUEUE, "lock at 0x7"},
	};

	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		struct stream s = {0};
		bool works = i % 2;
		struct report report;

		begin(&s);
		stream_stack(&s, 1, OF_SIMPLE_QUEUE, PERFX_STACK_PC, 0x2000, 0x9000, 0x1000, LOOP);
		stream_frame(&s, 1, 0x9000, 0, "",
			     "/usr/lib/python3.11/lib-dynload/_queue.cpython.so", 0x90, "", 0);
		stream_wait_object(&s, 1, cases[i / 2].reason, 7, cases[i / 2].object);
		wait_once(&s, MAIN, cases[i / 2].reason, 7, cases[i / 2].stack, 8000);
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .tid = POOL}, 600);
		report = end_of_pool(&s, works ? 9200 : 6000);
		expect_ms(account_of_thread(account_of(&report), MAIN),
			  works ? ACCOUNT_JOIN : ACCOUNT_INPUT, 8000);
		cr_expect_eq(find(&report, "InputWait") != NULL, !works, "case %zu", i);
		forget(&report);
	}
}

#define OF_PUT	   45
#define OF_REPORTS 46
#define OF_VOCAB   47
#define OF_RAY	   48
#define PUT	   python_frame(0x7f0000008000, 15)
#define REPORTS	   python_frame(0x7f0000009000, 16)
#define VOCAB	   python_frame(0x7f000000a000, 17)
#define RAY	   python_frame(0x7f000000b000, 18)

/* The main thread feeds its workers through a queue that is full, or it waits in a package for the
 * reports of threads that this has started. However much it computes at other times, its workers
 * are what takes so long, if they work. */
Test(account, a_thread_that_waits_for_its_workers_at_times)
{
	static const struct {
		uint32_t waits, computes;
		enum account_class otherwise;
	} cases[] = {{OF_PUT, PYTHON_CODE, ACCOUNT_OUTPUT}, {OF_REPORTS, OF_VOCAB, ACCOUNT_INPUT}};

	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		bool works = i % 2;
		struct stream s = {0};
		struct report report;

		begin(&s);
		stream_stack(&s, 1, OF_PUT, PERFX_STACK_PC, 0x2000, 0x1000, WAITS, PUT, LOOP);
		stream_stack(&s, 1, OF_REPORTS, PERFX_STACK_PC, 0x2000, 0x1000, WAITS, GET, REPORTS,
			     LOOP);
		stream_stack(&s, 1, OF_VOCAB, PERFX_STACK_PC, 0x1000, VOCAB, LOOP);
		stream_python_frame(&s, 1, PUT, "Queue.put", "/usr/lib/python3.11/queue.py", 140);
		stream_python_frame(&s, 1, REPORTS, "Model._log_progress",
				    "/usr/lib/python3/dist-packages/vectors/model.py", 40);
		stream_python_frame(&s, 1, VOCAB, "Model.count_words",
				    "/usr/lib/python3/dist-packages/vectors/model.py", 90);
		samples(&s, (struct perfx_sample){.stack = cases[i / 2].computes}, 500);
		waits(&s, PERFX_WAIT_FUTEX, 7, cases[i / 2].waits, 4000);
		report = end_of_ms(&s, 5000, 0, works ? 3000 : 0);
		expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_COMPUTING, 5000);
		expect_ms(account_of_thread(account_of(&report), MAIN),
			  works ? ACCOUNT_JOIN : cases[i / 2].otherwise, 4000);
		cr_expect_eq(find(&report, "OutputWait") || find(&report, "InputWait"), !works,
			     "case %zu", i);
		cr_expect_eq(account_of(&report)->tid, MAIN);
		forget(&report);
	}
}

/* What a package's function does with what it takes from a queue is its own work. */
Test(account, a_package_that_works_on_its_data)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_stack(&s, 1, OF_REPORTS, PERFX_STACK_PC, 0x2000, 0x1000, WAITS, GET, REPORTS, LOOP);
	stream_stack(&s, 1, OF_VOCAB, PERFX_STACK_PC, 0x1000, VOCAB, REPORTS, LOOP);
	stream_python_frame(&s, 1, REPORTS, "Trainer.fit",
			    "/usr/lib/python3/dist-packages/vectors/model.py", 40);
	stream_python_frame(&s, 1, VOCAB, "Model.forward",
			    "/usr/lib/python3/dist-packages/vectors/model.py", 90);
	samples(&s, (struct perfx_sample){.stack = OF_VOCAB}, 500);
	waits(&s, PERFX_WAIT_FUTEX, 7, OF_REPORTS, 4000);
	report = end_of_ms(&s, 5000, 0, 3000);
	expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_INPUT, 4000);
	cr_expect_not_null(find(&report, "InputWait"));
	forget(&report);
}

/* asyncio sleeps in an epoll of nothing but the loop's own events. Without a timer, or where
 * another thread receives requests, the loop waits for something to do. */
Test(account, timers_of_an_event_loop)
{
	static const struct {
		uint64_t count;
		bool receives, sleeps;
	} cases[] = {{100, false, true}, {1, false, false}, {100, true, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		stream_object_of(&s, 1, PERFX_WAIT_EPOLL, 7,
				 "epoll of its own events (descriptor 3)", PERFX_OBJECT_OWN_EVENTS);
		stream_wait_object(&s, 1, PERFX_WAIT_EPOLL, 8, "epoll (descriptor 9)");
		blocked(&s, MAIN, PERFX_WAIT_EPOLL, 9900, cases[i].count);
		if (cases[i].receives)
			stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
				     .tid = POOL, .reason = PERFX_WAIT_EPOLL, .object = 8,
				     .blocked_ns = 10 * S, .count = 1, .max_ns = 10 * S);
		report = end_of_ms(&s, 10, 0, 0);
		expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_SLEEP, 9900);
		cr_expect_eq(find(&report, "SleepWait") != NULL, cases[i].sleeps, "case %zu", i);
		cr_expect_eq(find(&report, "IdleTarget") != NULL, !cases[i].sleeps, "case %zu", i);
		forget(&report);
	}
}

/* Ray's workers get their tasks from threads of C++, by a loop of its own. */
Test(account, a_worker_of_ray_waits_for_tasks)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_stack(&s, 1, OF_RAY, PERFX_STACK_PC, 0x2000, 0x1000, RAY, LOOP);
	stream_python_frame(&s, 1, RAY, "Worker.main_loop",
			    "/venv/lib/python3.11/site-packages/ray/_private/worker.py", 1069);
	stream_object_of(&s, 1, PERFX_WAIT_EPOLL, 7, "epoll of its own events (descriptor 3)",
			 PERFX_OBJECT_OWN_EVENTS);
	wait_once(&s, MAIN, PERFX_WAIT_EPOLL, 7, OF_RAY, 9900);
	report = end_of_ms(&s, 10, 0, 0);
	expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_OTHER, 9900);
	cr_expect_null(find(&report, "SleepWait"));
	forget(&report);
}

/* Threads that only poll for work do none. */
Test(account, threads_that_poll_are_not_joined)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_stack(&s, 1, YIELD, PERFX_STACK_PC, 0x9000, 0x1000, LOOP, 0x1000);
	stream_frame(&s, 1, 0x9000, 0, "__sched_yield", LIBC, 0x90, "", 0);
	wait_once(&s, MAIN, PERFX_WAIT_SLEEP, 7, NATIVE, 8000);
	samples(&s, (struct perfx_sample){.stack = YIELD, .tid = POOL}, 600);
	report = end_of_pool(&s, 6000);
	expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_SLEEP, 8000);
	expect_ms(account_of_thread(account_of(&report), POOL), ACCOUNT_SPINNING, 6000);
	cr_expect_not_null(find(&report, "SleepWait"));
	forget(&report);
}

/* Its threads wait for a lock: that is the cause. */
Test(account, joined_threads_may_only_wait)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	wait_once(&s, MAIN, PERFX_WAIT_FUTEX, 7, OF_CONDITION, 8000);
	wait_once(&s, POOL, PERFX_WAIT_FUTEX, 7, MUTEX, 8000);
	report = end_of_pool(&s, 10);
	cr_expect_eq(account_of(&report)->tid, POOL);
	cr_expect(contains(report.analysis->verdict, "LOCK-BOUND: python3 (pid 4242)"));
	forget(&report);
}

#define OF_POOL 43
#define TASKS	python_frame(0x7f0000007000, 14)

/* An executor's threads take turns: one of them has no task for half of the time. */
Test(account, a_pool_that_works_has_threads_without_a_task)
{
	const uint64_t pool_ms[] = {5000, 3000};

	for (size_t i = 0; i < 2; i++) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		stream_stack(&s, 1, OF_POOL, PERFX_STACK_PC, 0x2000, 0x1000, TASKS, 0x1000);
		stream_python_frame(&s, 1, TASKS, "_worker",
				    "/usr/lib/python3.11/concurrent/futures/thread.py", 81);
		wait_once(&s, MAIN, PERFX_WAIT_EPOLL, 7, NATIVE, 8000);
		wait_once(&s, POOL, PERFX_WAIT_FUTEX, 7, OF_POOL, 5000);
		stream_thread(&s, 1, 78, "python3", 'R', 0, 0, 0);
		stream_thread(&s, 1, 78, "python3", 'R', 10 * S, (pool_ms[i] - 100) * MS, 0);
		report = end_of_pool(&s, pool_ms[i]);
		cr_expect_eq(account_of(&report)->tid, POOL);
		/* where they work less than one CPU in all, they lack tasks */
		cr_expect_eq(find(&report, "InputWait") != NULL, i == 1);
		forget(&report);
	}
}

#define WORKERS_LOOP 44
#define IN_WORKER    python_frame(0x7f0000008000, 114)
#define IN_PIPE	     python_frame(0x7f0000009000, 200)

/* A pool's worker that waits for a task is idle; one that waits so in its task lacks input. */
Test(account, a_process_of_a_pool_without_a_task)
{
	static const struct {
		const char *file, *function;
	} loops[] = {
		{"/usr/lib/python3.11/multiprocessing/pool.py", "worker"},
		{"/usr/lib/python3.11/concurrent/futures/process.py", "_process_worker"},
		{PACKAGES "joblib/externals/loky/process_executor.py", "_process_worker"},
		{"/usr/lib/python3.11/concurrent/futures/thread.py", "_worker"},
	};

	for (size_t i = 0; i < 2 * sizeof(loops) / sizeof(loops[0]); i++) {
		bool in_task = i % 2;
		struct stream s = {0};
		struct report report;

		begin(&s);
		stream_stack(&s, 1, WORKERS_LOOP, PERFX_STACK_PC, 0x2000, IN_PIPE,
			     in_task ? IN_CALL : IN_WORKER, IN_WORKER);
		stream_python_frame(&s, 1, IN_PIPE, "Connection._recv",
				    "/usr/lib/python3.11/multiprocessing/connection.py", 379);
		stream_python_frame(&s, 1, IN_CALL, "featurize", "/home/me/train.py", 3);
		stream_python_frame(&s, 1, IN_WORKER, loops[i / 2].function, loops[i / 2].file,
				    114);
		wait_once(&s, MAIN, PERFX_WAIT_READ, 7, WORKERS_LOOP, 4000);
		report = end_of_pool(&s, 0);
		cr_expect_eq(find(&report, "InputWait") != NULL, in_task, "case %zu", i);
		expect_ms(account_of_thread(account_of(&report), MAIN),
			  in_task ? ACCOUNT_INPUT : ACCOUNT_OTHER, 4000);
		forget(&report);
	}
}

#define TREE 45
#define LOKY python_frame(0x7f000000c000, 181)

/* joblib's worker is started by -m, and is no program for that: what it runs is a package's, for
 * the line where its parent waits. */
Test(account, a_worker_that_runs_no_line_of_its_own)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_stack(&s, 2, TREE, PERFX_STACK_PC, 0x9100, FITS, IN_CALL, IN_WORKER, LOKY);
	stream_frame(&s, 2, 0x9100, 0, "best_split", PACKAGES "sklearn/_tree.so", 0x91, "", 0);
	stream_python_frame(&s, 2, FITS, "BaseDecisionTree._fit", PACKAGES "sklearn/tree.py", 467);
	stream_python_frame(&s, 2, IN_CALL, "Parallel.__call__", PACKAGES "joblib/parallel.py", 3);
	stream_python_frame(&s, 2, IN_WORKER, "_process_worker",
			    PACKAGES "joblib/externals/loky/process_executor.py", 463);
	stream_python_frame(&s, 2, LOKY, "<module>",
			    PACKAGES "joblib/externals/loky/backend/popen_loky_posix.py", 181);
	samples(&s, (struct perfx_sample){.stack = TREE, .process = 2, .tid = WORKER}, 990);
	stream_usage(&s, 2, 0, 0, 0, 1 << 20);
	stream_usage(&s, 2, 10 * S, 9900 * MS, 0, 1 << 20);
	waits(&s, PERFX_WAIT_WAIT, 7, CALLER, 5000);
	report = end(&s);
	cr_expect(contains(report.analysis->verdict,
			   "CPU time in sklearn BaseDecisionTree._fit (tree.py:467), in best_split "
			   "(_tree.so), for main (train.py:12)"));
	forget(&report);
}

/* An event loop that sleeps for a tenth of the time runs something in the rest. */
Test(account, the_hottest_place_beside_a_finding_about_less)
{
	for (uint64_t part = 0; part < 2; part++) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		waits(&s, PERFX_WAIT_SLEEP, 7, CALLER, part ? 5000 : 1500);
		stream_stack(&s, 1, TREE, PERFX_STACK_PC, FITS);
		stream_python_frame(&s, 1, FITS, "encode", "/home/me/serve.py", 7);
		stream_stack(&s, 1, TREE + 1, PERFX_STACK_PC, 0x9000, FITS);
		stream_frame(&s, 1, 0x9000, 0, "gemm", "/usr/lib/libblas.so", 0x90, "", 0);
		samples(&s, (struct perfx_sample){.stack = TREE + 1}, 500);
		report = end(&s);
		cr_assert_not_null(find(&report, "SleepWait"));
		cr_expect_eq(strstr(report.analysis->verdict, " It runs mostly ") != NULL, !part);
		forget(&report);
	}
}

/* The native function is one in the package's line that is named, not the hottest of all. */
Test(account, what_is_said_to_be_in_the_hottest_place_is_there)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_python_frame(&s, 1, IN_CALL, "train", "/home/me/train.py", 3);
	stream_python_frame(&s, 1, FITS, "adam", PACKAGES "torch/optim/adam.py", 545);
	stream_python_frame(&s, 1, LOKY, "Linear.forward", PACKAGES "torch/nn/linear.py", 134);
	stream_python_frame(&s, 1, IN_WORKER, "backward", PACKAGES "torch/graph.py", 1113);
	stream_frame(&s, 1, 0x9000, 0, "lerp", PACKAGES "torch/libtorch.so", 0x90, "", 0);
	stream_frame(&s, 1, 0x9100, 0, "gemm", PACKAGES "torch/libtorch.so", 0x91, "", 0);
	stream_stack(&s, 1, TREE, PERFX_STACK_PC, 0x9000, FITS, IN_CALL);
	stream_stack(&s, 1, TREE + 1, PERFX_STACK_PC, 0x9100, LOKY, IN_CALL);
	stream_stack(&s, 1, TREE + 2, PERFX_STACK_PC, 0x9100, IN_WORKER, IN_CALL);
	samples(&s, (struct perfx_sample){.stack = TREE}, 400);
	samples(&s, (struct perfx_sample){.stack = TREE + 1}, 300);
	samples(&s, (struct perfx_sample){.stack = TREE + 2}, 300);
	stream_usage(&s, 1, 0, 0, 0, 1 << 20);
	stream_usage(&s, 1, 10 * S, 9900 * MS, 0, 1 << 20);
	report = end(&s);
	cr_expect(contains(report.analysis->verdict, "in train (train.py:3), 40.0 % of it in torch "
						     "adam (adam.py:545), in lerp (libtorch.so)"),
		  "%s", report.analysis->verdict);
	forget(&report);
}

/* Threads take turns with the GIL, but what they compute without it has all CPUs. */
Test(account, a_lock_that_costs_no_cpu)
{
	for (uint64_t i = 0; i < 2; i++) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .tid = POOL}, 300);
		blocked(&s, POOL, PERFX_WAIT_GIL, 5100, 600);
		report = end_of_ms(&s, i ? 9000 : 6000, 0, 9500);
		cr_assert_not_null(find(&report, "GilWait"));
		cr_expect_eq(find(&report, "GilWait")->severity, i ? FINDING_LOW : FINDING_MEDIUM);
		forget(&report);
	}
}

#define IMPORTS 47
#define LOADS	python_frame(0x7f000000d000, 1)

/* `import torch` is no loop over single values. */
Test(account, a_program_that_imports)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_stack(&s, 1, IMPORTS, PERFX_STACK_PC, LOADS, LOOP);
	stream_python_frame(&s, 1, LOADS, "_find_and_load", "<frozen importlib._bootstrap>", 1176);
	samples(&s, (struct perfx_sample){.stack = IMPORTS}, 400);
	report = end(&s);
	cr_expect(contains(report.analysis->verdict,
			   "PYTHON-BOUND: 40.0 % of the wall time imports modules, most of it "
			   "main (train.py:12): 40.0 %"));
	cr_expect(contains(find(&report, "PythonBound")->suggestion, "It starts up: "));
	forget(&report);
}

/* They do nothing: it sleeps. */
Test(account, a_sleep_without_working_threads_is_none)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	blocked(&s, MAIN, PERFX_WAIT_SLEEP, 8000, 800);
	report = end_of_pool(&s, 10);
	expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_SLEEP, 8000);
	cr_expect_eq(account_of(&report)->tid, MAIN);
	forget(&report);
}

#define JOBLIB_NAP 42
#define RETRIEVE   python_frame(0x7f0000006000, 13)

/* joblib's loop sleeps while its threads work; the main thread computes, too. */
Test(account, a_pools_own_sleep_is_no_sleep)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_stack(&s, 1, JOBLIB_NAP, PERFX_STACK_PC, 0x2000, 0x1000, RETRIEVE, LOOP, 0x1000);
	stream_python_frame(&s, 1, RETRIEVE, "Parallel._retrieve",
			    "/opt/site-packages/joblib/parallel.py", 1650);
	wait_once(&s, MAIN, PERFX_WAIT_SLEEP, 7, JOBLIB_NAP, 2000);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 500);
	report = end_after(&s, 0);
	expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_SLEEP, 0);
	expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_JOIN, 2000);
	cr_expect_null(find(&report, "SleepWait"));
	forget(&report);
}

Test(account, a_stopped_process)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	blocked(&s, MAIN, PERFX_WAIT_STOPPED, 4000, 1);
	report = end(&s);
	expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_STOPPED, 4000);
	cr_expect(contains(report.analysis->verdict,
			   "STOPPED: python3 (pid 4242): stopped for 4.00 s of 10.0 s (40.0 %), "
			   "1 time."));
	forget(&report);
	begin(&s);
	blocked(&s, MAIN, PERFX_WAIT_STOPPED, 400, 1);
	expect_none(&s, "Stopped");
}

/* A loop of the program itself: by its instructions, not by a name. */
Test(account, a_loop_that_only_waits_is_no_computing)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_stack(&s, 1, YIELD, PERFX_STACK_PC, 0x9000);
	stream_stack(&s, 1, GOMP, PERFX_STACK_PC, 0x9100, 0x9000);
	stream_add(&s, PERFX_KIND_FRAME, struct perfx_frame,
		   STRINGS("wait_at_barrier", "/opt/train", ""), .address = 0x9000, .process = 1,
		   .flags = PERFX_FRAME_SPINS);
	stream_frame(&s, 1, 0x9100, 0, "kernel", "/opt/train", 0x91, "", 0);
	samples(&s, (struct perfx_sample){.stack = YIELD}, 100);
	samples(&s, (struct perfx_sample){.stack = GOMP}, 300);
	report = end(&s);
	expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_SPINNING, 1250);
	expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_COMPUTING, 3750);
	forget(&report);
}
