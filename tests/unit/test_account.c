// SPDX-License-Identifier: BSD-2-Clause
/* The account of a process's time: it adds up, and says which thread works. */
#include "training_fixture.h"

#include <sys/syscall.h>

#include "analyze/hottest.h"
#include "report/report.h"

#define PACKAGES "/home/me/venv/lib/python3.11/site-packages/"
#define IN_CALL	 python_frame(0x7f000000a000, 3)
#define FITS	 python_frame(0x7f000000b000, 467)

static uint64_t sum_of(const struct account *account)
{
	uint64_t sum = 0;

	for (size_t k = 0; k < ACCOUNT_CLASSES; k++)
		sum += account->ns[k];
	return sum;
}

/* The classes of each thread and of the process are all of its time. */
static void expect_whole(const struct process_account *account)
{
	uint64_t wall_ns = 0;

	for (size_t i = 0; i < account->threads_count; i++) {
		const struct account *thread = &account->threads[i];

		cr_expect_eq(sum_of(thread), thread->wall_ns, "thread %u", thread->tid);
		wall_ns += thread->wall_ns;
	}
	cr_expect_eq(account->all.wall_ns, wall_ns);
	cr_expect_eq(sum_of(&account->all), wall_ns);
}

static const struct process_account *account_of(const struct report *report)
{
	const struct process_account *account = &report->analysis->processes[0].account;

	expect_whole(account);
	return account;
}

static void blocked(struct stream *s, uint32_t tid, enum perfx_wait_reason reason, uint64_t ms,
		    uint64_t count)
{
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = tid,
		     .reason = (uint8_t)reason, .object = 7, .blocked_ns = ms * MS, .count = count,
		     .max_ns = ms * MS);
}

static void expect_ms(const struct account *account, enum account_class class, uint64_t ms)
{
	cr_assert_not_null(account);
	cr_expect_eq(account->ns[class], ms * MS, "%s of thread %u: %llu ns",
		     account_class_name(class), account->tid,
		     (unsigned long long)account->ns[class]);
}

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

static struct report end_of_threads(struct stream *s, uint64_t main_ms, uint64_t runnable_ms,
				    uint64_t pool_ms)
{
	struct report report;

	stream_thread(s, 1, MAIN, "python3", 'S', 10 * S, main_ms * MS, runnable_ms * MS);
	stream_thread(s, 1, POOL, "loader", 'R', 10 * S, pool_ms * MS, 0);
	stream_usage(s, 1, 0, 0, 0, 200 << 20);
	stream_usage(s, 1, 10 * S, (main_ms + pool_ms) * MS, 0, 200 << 20);
	stream_end(s, 10 * S, 0);
	report.aggregate = replay(s);
	report.profile = aggregate__finish(report.aggregate);
	report.analysis = analyze(report.profile, NULL);
	cr_assert_not_null(report.analysis);
	return report;
}

/* A process whose main thread runs for 100 ms of ten seconds. */
static struct report end_of_pool_after(struct stream *s, uint64_t pool_ms, uint64_t runnable_ms)
{
	return end_of_threads(s, 100, runnable_ms, pool_ms);
}

static struct report end_of_pool(struct stream *s, uint64_t pool_ms)
{
	return end_of_pool_after(s, pool_ms, 1900);
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
		report = end_of_threads(&s, 5000, 0, works ? 3000 : 0);
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
	report = end_of_threads(&s, 5000, 0, 3000);
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
		report = end_of_threads(&s, 10, 0, 0);
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
	report = end_of_threads(&s, 10, 0, 0);
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
		report = end_of_threads(&s, i ? 9000 : 6000, 0, 9500);
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

#define IN_TORCH 42
#define NO_NAME	 43

Test(account, the_hottest_place_has_the_programs_own_line_first)
{
	struct stream s = {0};
	struct report report;
	struct hottest hottest;
	struct text text = {0};

	begin(&s);
	stream_stack(&s, 1, IN_TORCH, PERFX_STACK_PC, 0x3000, 0x1000, MODULE, LOOP, 0x1000);
	samples(&s, (struct perfx_sample){.stack = IN_TORCH}, 300);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 100);
	report = end(&s);
	hottest = hottest_of(account_of(&report), MAIN);
	add_hottest(&text, &hottest);
	cr_expect(contains(text_peek(&text),
			   "main (train.py:12), in torch Module._call_impl (module.py:1194), in "
			   "Tensor.add (libtorch_python.so)"));
	cr_expect_eq(hottest.place.ns, 3 * S);
	cr_expect_eq(hottest.all_ns, 4 * S);
	text_clear(&text);
	forget(&report);
}

/* Code behind python -c is the program's own, code of exec() and of multiprocessing's is not. */
Test(account, the_code_of_a_command_is_the_programs_own)
{
	static const struct {
		const char *cmdline;
		bool is_own;
	} commands[] = {
		{"/usr/bin/python3\x1f-c\x1fimport train", true},
		{"python3.11\x1f-u\x1f-X\x1f"
		 "dev\x1f-Ic\x1fimport train\x1f--all",
		 true},
		{"python3\x1f-W\x1f"
		 "c\x1ftrain.py",
		 false},
		{"python3\x1ftrain.py\x1f-c\x1f"
		 "config",
		 false},
		{"python3\x1f-m\x1f"
		 "train\x1f-c\x1f"
		 "config",
		 false},
		{"python3\x1f--check-hash-based-pycs\x1f"
		 "always\x1ftrain.py",
		 false},
		{"gdb\x1f-c\x1f"
		 "core",
		 false},
		{"python3\x1f-c\x1f"
		 "from multiprocessing.spawn import spawn_main",
		 false},
		{"python3", false},
	};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		struct stream s = {0};
		struct report report;

		stream_host(&s);
		stream_process(&s, 1, MAIN, "python3", commands[i].cmdline);
		stream_stack(&s, 1, PYTHON_CODE, PERFX_STACK_PC, LOOP);
		stream_python_frame(&s, 1, LOOP, "work", "<string>", 4);
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 100);
		report = end_of_pool(&s, 0);
		cr_assert_eq(account_of(&report)->places_count, 1);
		cr_expect_eq(account_of(&report)->places[0].own != NULL, commands[i].is_own, "%s",
			     commands[i].cmdline);
		forget(&report);
	}
}

/* Only a perf map names what a just-in-time compiler wrote, and these programs can write one. */
Test(account, how_generated_code_gets_names)
{
	static const struct {
		const char *cmdline, *advice;
	} commands[] = {
		{"/usr/bin/java\x1fTrain",
		 "run `jcmd 4242 Compiler.perfmap`, then trace it again."},
		{"node\x1ftrain.js", "start it with `node --perf-basic-prof`."},
		{"/opt/engine", NULL},
	};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		struct stream s = {0};
		struct report report;
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);

		stream_host(&s);
		stream_process(&s, 1, MAIN, "engine", commands[i].cmdline);
		stream_frame(&s, 1, 0x7000, 0, "", "", 0, "", 0);
		stream_frame(&s, 1, 0x7100, 0, "JavaCalls::call", "/lib/libjvm.so", 0x71, "", 0);
		stream_stack(&s, 1, PYTHON_CODE, PERFX_STACK_PC, 0x7000, 0x7100);
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 100);
		report = end_of_pool(&s, 0);
		cr_assert_eq(report_writer_named("text")->write(
				     out, report.profile, report.analysis,
				     &(struct report_options){.full = true, .width = 200}),
			     0);
		fclose(out);
		cr_expect_eq(strstr(text, "names") != NULL, commands[i].advice != NULL, "%s", text);
		cr_expect(strstr(text, commands[i].advice ?: "code that was generated"), "%s",
			  text);
		free(text);
		forget(&report);
	}
}

/* Started by -m or by its entry point, a package is the program: its own lines are no library's. */
Test(account, a_package_that_is_the_program)
{
	static const struct {
		const char *outermost;
		uint32_t line;
		const char *place;
	} starts[] = {
		{"/home/me/venv/bin/serve", 8, "handle (serve.py:30)"},
		{PACKAGES "server/__main__.py", 3, "handle (serve.py:30)"},
		/* a program of many lines, and one that is a file */
		{"/home/me/bin/serve", 80, "<module> (serve:80)"},
		{"/home/me/serve.py", 8, "<module> (serve.py:8)"},
	};

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		struct stream s = {0};
		struct report report;
		struct hottest hottest;
		struct text text = {0};

		stream_host(&s);
		stream_process(&s, 1, MAIN, "serve", starts[i].outermost);
		stream_stack(&s, 1, PYTHON_CODE, PERFX_STACK_PC, MODULE, GET, LOOP, WAITS);
		stream_python_frame(&s, 1, MODULE, "Tokenizer.encode", PACKAGES "other/encode.py",
				    7);
		stream_python_frame(&s, 1, GET, "handle", PACKAGES "server/serve.py", 30);
		stream_python_frame(&s, 1, LOOP, "<module>", starts[i].outermost, starts[i].line);
		stream_python_frame(&s, 1, WAITS, "_run_module_as_main", "<frozen runpy>", 198);
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 100);
		report = end_of_pool(&s, 0);
		hottest = hottest_of_process(account_of(&report));
		add_hottest(&text, &hottest);
		cr_expect(contains(text_peek(&text), starts[i].place), "%s", starts[i].outermost);
		text_clear(&text);
		forget(&report);
	}
}

/* So is the package whose function a process of multiprocessing runs; not one that only serves the
 * program's own code there. */
Test(account, a_package_that_is_a_process)
{
	static const struct {
		const char *function, *file, *place;
	} targets[] = {
		{"Worker.main", PACKAGES "server/worker.py", "server handle (serve.py:30)"},
		{"_worker_loop", PACKAGES "torch/utils/data/_utils/worker.py",
		 "other Tokenizer.encode (encode.py:7)"},
	};

	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		struct stream s = {0};
		struct report report;
		struct hottest hottest;
		struct text text = {0};

		stream_host(&s);
		stream_process(&s, 1, MAIN, "worker", "python3 -c 'from multiprocessing.spawn'");
		stream_stack(&s, 1, PYTHON_CODE, PERFX_STACK_PC, MODULE, GET, LOOP, WAITS);
		stream_python_frame(&s, 1, MODULE, "Tokenizer.encode", PACKAGES "other/encode.py",
				    7);
		stream_python_frame(&s, 1, GET, "handle", PACKAGES "server/serve.py", 30);
		stream_python_frame(&s, 1, LOOP, targets[i].function, targets[i].file, 40);
		stream_python_frame(&s, 1, WAITS, "BaseProcess._bootstrap",
				    "/usr/lib/python3.11/multiprocessing/process.py", 314);
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 100);
		report = end_of_pool(&s, 0);
		hottest = hottest_of_process(account_of(&report));
		add_hottest(&text, &hottest);
		cr_expect(contains(text_peek(&text), targets[i].place), "%s: %s",
			  targets[i].function, text_peek(&text));
		text_clear(&text);
		forget(&report);
	}
}

/* Of a package's many small functions none is where a worker runs: the function is that calls them
 * all, which is neither the loop that takes the tasks nor a decorator's wrapper. */
Test(account, a_worker_whose_time_is_spread)
{
	for (unsigned common = 0; common < 2; common++) {
		struct stream s = {0};
		struct report report;
		struct hottest hottest;
		struct text text = {0};
		const char *expected;

		stream_host(&s);
		stream_process(&s, 1, MAIN, "python3", "python3 -m joblib.externals.loky");
		stream_python_frame(&s, 1, WAITS, "_process_worker",
				    PACKAGES "joblib/externals/loky/process_executor.py", 490);
		stream_python_frame(&s, 1, GET, "_fit_and_score",
				    PACKAGES "sklearn/model_selection/_validation.py", 859);
		stream_python_frame(&s, 1, MODULE, "_fit_context.<locals>.wrapper",
				    PACKAGES "sklearn/base.py", 1403);
		for (unsigned i = 0; i < 4; i++) {
			char function[] = "loss_0";

			function[sizeof(function) - 2] += (char)i;
			stream_python_frame(&s, 1, python_frame(0x7f0000007000, i), function,
					    PACKAGES "sklearn/loss.py", 10 * (i + 1));
			stream_stack(&s, 1, PYTHON_CODE + i, PERFX_STACK_PC,
				     python_frame(0x7f0000007000, i), common ? MODULE : WAITS,
				     common ? GET : WAITS, WAITS);
			samples(&s, (struct perfx_sample){.stack = PYTHON_CODE + i}, 100 + i);
		}
		report = end_of_pool(&s, 0);
		hottest = hottest_of_process(account_of(&report));
		add_hottest(&text, &hottest);
		expected = common ? "sklearn _fit_and_score (_validation.py:859)"
				  : "sklearn loss_3 (loss.py:40)";
		cr_expect(contains(text_peek(&text), expected), "%s", text_peek(&text));
		cr_expect_eq(hottest.place.ns, common ? 4060 * MS : 1030 * MS);
		text_clear(&text);
		forget(&report);
	}
}

Test(account, a_library_without_symbols_is_a_place)
{
	struct stream s = {0};
	struct report report;
	struct hottest hottest;
	struct text text = {0};

	begin(&s);
	for (uint64_t i = 0; i < 2; i++) {
		stream_stack(&s, 1, NO_NAME + (uint32_t)i, PERFX_STACK_PC, 0x9200 + i);
		stream_frame(&s, 1, 0x9200 + i, 0, "", "/opt/libonnxruntime.so", 0x92 + i, "", 0);
		samples(&s, (struct perfx_sample){.stack = NO_NAME + (uint32_t)i, .tid = POOL}, 20);
	}
	samples(&s, (struct perfx_sample){.stack = NATIVE, .tid = POOL}, 30);
	report = end(&s);
	hottest = hottest_of(account_of(&report), POOL);
	add_hottest(&text, &hottest);
	cr_expect(contains(text_peek(&text), "libonnxruntime.so (no symbols)"));
	cr_expect_eq(hottest.place.ns, 400 * MS);
	text_clear(&text);
	forget(&report);
}

static void in(struct stream *s, uint32_t stack, unsigned count)
{
	samples(s, (struct perfx_sample){.stack = stack}, count);
}

#define XGBOOST "/opt/xgboost/libxgboost.so"
#define OPENMP	"/usr/lib/libgomp.so.1"
#define OTHER	python_frame(0x7f0000008000, 15)

enum { SPLITS_POLL = 60, SPLITS_RUN, SPLITS_RUN_TOO, HISTOGRAMS, SPLITS_OF_OTHER };

static const struct native_function *find_native(const struct native_functions *functions,
						 const char *name)
{
	for (size_t i = 0; i < functions->count; i++)
		if (!strcmp(functions->list[i].frame->function, name))
			return &functions->list[i];
	return NULL;
}

/* LOOP calls Update(), which passes all on to Grow(): of that, BuildHist() computes, and
 * EvaluateSplits() has OpenMP share its work, and mostly waits. */
static struct report trees(void)
{
	struct stream s = {0};

	begin(&s);
	stream_python_frame(&s, 1, OTHER, "check", "/home/me/train.py", 30);
	stream_frame(&s, 1, 0xa100, 0, "gomp_barrier_wait", OPENMP, 0xa1, "", 0);
	stream_frame(&s, 1, 0xa200, 0, "GOMP_parallel", OPENMP, 0xa2, "", 0);
	stream_frame(&s, 1, 0xb100, 0, "EvaluateSplits", XGBOOST, 0xb1, "", 0);
	stream_frame(&s, 1, 0xb200, 0, "Split", XGBOOST, 0xb2, "", 0);
	stream_frame(&s, 1, 0xb300, 0, "BuildHist", XGBOOST, 0xb3, "", 0);
	stream_frame(&s, 1, 0xb400, 0, "Grow", XGBOOST, 0xb4, "", 0);
	stream_frame(&s, 1, 0xb500, 0, "Update", XGBOOST, 0xb5, "", 0);
	stream_stack(&s, 1, SPLITS_POLL, PERFX_STACK_PC, 0xa100, 0xa200, 0xb100, 0xb400, 0xb500,
		     LOOP);
	stream_stack(&s, 1, SPLITS_RUN, PERFX_STACK_PC, 0xb200, 0xa200, 0xb100, 0xb400, 0xb500,
		     LOOP);
	stream_stack(&s, 1, SPLITS_RUN_TOO, PERFX_STACK_PC, 0xb200, 0xb100, 0xb400, 0xb500, LOOP);
	stream_stack(&s, 1, HISTOGRAMS, PERFX_STACK_PC, 0xb300, 0xb400, 0xb500, LOOP);
	stream_stack(&s, 1, SPLITS_OF_OTHER, PERFX_STACK_PC, 0xb200, 0xa200, 0xb100, 0xb400, 0xb500,
		     OTHER);
	/* the other line has the most frequent stack of Split(), and not most of its time */
	in(&s, SPLITS_OF_OTHER, 16);
	in(&s, SPLITS_RUN, 14);
	in(&s, SPLITS_RUN_TOO, 10);
	in(&s, SPLITS_POLL, 160);
	in(&s, HISTOGRAMS, 200);
	return end_of_pool(&s, 0);
}

Test(account, callers_of_native_functions)
{
	struct report report = trees();
	const struct native_function *splits, *split;
	struct native_functions functions;

	cr_assert_eq(native_functions_find(&functions, &report.profile->processes[0], false), 0);
	cr_expect_eq(functions.all_ns, 4 * S);
	cr_expect_eq(functions.leaves_count, 3);
	cr_expect_str_eq(functions.list[0].frame->function, "BuildHist");
	cr_expect_str_eq(functions.list[1].frame->function, "gomp_barrier_wait");
	cr_expect_str_eq(functions.list[2].frame->function, "Split");
	/* where Python enters the library and OpenMP's own functions say nothing more */
	cr_expect_eq(functions.count, 4);
	splits = find_native(&functions, "EvaluateSplits");
	cr_assert_not_null(splits);
	cr_expect_eq(splits->self_ns, 0);
	cr_expect_eq(splits->total_ns, 2 * S);
	cr_expect_eq(splits->spinning_ns, 1600 * MS);
	split = find_native(&functions, "Split");
	cr_expect_eq(split->self_ns, 400 * MS);
	cr_expect_eq(split->spinning_ns, 0);
	free(functions.list);
	forget(&report);
}

Test(account, the_python_line_with_most_of_a_native_function)
{
	struct report report = trees();
	const struct native_function *split;
	struct native_functions functions;

	cr_assert_eq(native_functions_find(&functions, &report.profile->processes[0], false), 0);
	split = find_native(&functions, "Split");
	cr_assert_not_null(split);
	cr_assert_not_null(split->below);
	cr_expect_str_eq(split->below->function, "main");
	free(functions.list);
	forget(&report);
}

/* All of it, in whatever function of OpenMP. */
Test(account, the_share_that_only_polls)
{
	struct report report = trees();
	struct hottest hottest = hottest_of_process(account_of(&report));
	struct text text = {0};

	add_hottest(&text, &hottest);
	add_polling(&text, &hottest);
	cr_expect(contains(text_peek(&text), "main (train.py:12)"));
	cr_expect(contains(text_peek(&text), "; 41.7 % of it only polls for other threads, in "
					     "gomp_barrier_wait (libgomp.so.1)"));
	text_clear(&text);
	forget(&report);
}

/* The calls are those of the place, and not of what polls. */
Test(account, calls_are_named_before_what_polls)
{
	enum { POLLS = 60 };
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_frame(&s, 1, 0xa100, 0, "gomp_barrier_wait", OPENMP, 0xa1, "", 0);
	stream_stack(&s, 1, POLLS, PERFX_STACK_PC, 0xa100, NORMALIZE, LOOP, 0x1000);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .context = CONV}, 300);
	samples(&s, (struct perfx_sample){.stack = POLLS, .context = CONV}, 100);
	report = end_after(&s, 0);
	cr_expect(contains(report.analysis->verdict,
			   "normalize (features.py:88) (1 call of aten::convolution, 10.0 ms); "
			   "25.0 % of it only polls for other threads, in gomp_barrier_wait "
			   "(libgomp.so.1)"));
	forget(&report);
}

/* Python is a seventh of it: the rest is in a function of libc that it calls. */
Test(account, libc_below_python_is_named)
{
	enum { ASKS = 60 };
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_frame(&s, 1, 0xa100, 0, "clock_gettime", LIBC, 0xa1, "", 0);
	stream_stack(&s, 1, ASKS, PERFX_STACK_PC, 0xa100, NORMALIZE, LOOP, 0x1000);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 140);
	samples(&s, (struct perfx_sample){.stack = ASKS}, 860);
	report = end_after(&s, 0);
	cr_expect(
		contains(report.analysis->verdict,
			 "normalize (features.py:88), 86.0 % of it in clock_gettime (libc.so.6)."));
	forget(&report);
}

#define STL "/usr/include/c++/12/bits/stl_algo.h"
#define APP "/home/me/app/rank"

enum { IN_SORT = 50, IN_OWN_CODE, IN_LIBC, IN_MAIN, IN_LINE };

/* rank_items() calls std::sort, parts of which the compiler has inlined, and memmove(). */
static void begin_native(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, MAIN, "rank", APP);
	stream_stack(s, 1, IN_SORT, PERFX_STACK_PC, 0x5000, 0x6000, 0x7000);
	stream_stack(s, 1, IN_OWN_CODE, PERFX_STACK_PC, 0x5100, 0x7000);
	stream_stack(s, 1, IN_LIBC, PERFX_STACK_PC, 0x5200, 0x5100, 0x7000);
	stream_stack(s, 1, IN_MAIN, PERFX_STACK_PC, 0x7000);
	stream_frame(s, 1, 0x5200, 0, "__memmove_avx", LIBC, 0x52, "", 0);
	stream_frame(s, 1, 0x7000, 0, "main", APP, 0x70, "rank.cpp", 40);
}

static void expect_hottest(struct stream *s, const char *words, uint64_t place_ns)
{
	struct report report = end_of_pool(s, 0);
	struct hottest hottest = hottest_of(account_of(&report), MAIN);
	struct text text = {0};

	add_hottest(&text, &hottest);
	cr_expect(contains(text_peek(&text), words));
	cr_expect_eq(hottest.place.ns, place_ns);
	text_clear(&text);
	forget(&report);
}

/* The standard library's time is its caller's, as that of PyTorch is a Python line's. */
Test(account, a_native_program_has_its_own_function_first)
{
	struct stream s = {0};

	begin_native(&s);
	stream_frame(&s, 1, 0x5000, 0, "std::__unguarded_partition<Item*, by_score>", APP, 0x50,
		     STL, 1890);
	stream_frame(&s, 1, 0x5000, 1, "std::__introsort_loop<Item*, long, by_score>", APP, 0x50,
		     STL, 1945);
	stream_frame(&s, 1, 0x6000, 0,
		     "std::sort<__gnu_cxx::__normal_iterator<Item*, std::vector<Item> >, by_score>",
		     APP, 0x60, STL, 4821);
	stream_frame(&s, 1, 0x6000, 1, "rank_items", APP, 0x60, "rank.cpp", 12);
	stream_frame(&s, 1, 0x5100, 0, "rank_items", APP, 0x51, "rank.cpp", 14);
	in(&s, IN_SORT, 200);
	in(&s, IN_OWN_CODE, 50);
	in(&s, IN_LIBC, 50);
	in(&s, IN_MAIN, 100);
	expect_hottest(
		&s,
		"rank_items (rank.cpp:12), 66.7 % of it in std::sort<…> (stl_algo.h:4821), in "
		"std::__unguarded_partition<Item*, by_score> (stl_algo.h:1890)",
		3 * S);
}

/* The share of a function is not that of the line it is named with. */
Test(account, the_share_of_the_line)
{
	for (unsigned spread = 0; spread < 2; spread++) {
		struct stream s = {0};

		begin_native(&s);
		stream_stack(&s, 1, IN_LINE, PERFX_STACK_PC, 0x5300, 0x7000);
		stream_frame(&s, 1, 0x5100, 0, "rank_items", APP, 0x51, "rank.cpp", 14);
		stream_frame(&s, 1, 0x5300, 0, "rank_items", APP, 0x51, "rank.cpp", 19);
		in(&s, IN_OWN_CODE, 290);
		in(&s, IN_LINE, spread ? 210 : 10);
		expect_hottest(&s,
			       spread ? "rank_items (rank.cpp:14), 58.0 % of it at that line"
				      : "rank_items (rank.cpp:14)",
			       spread ? 5 * S : 3 * S);
	}
}

/* No accessor of a header, and no main() into which everything was inlined. */
Test(account, inlined_functions_of_a_program)
{
	struct stream s = {0};

	begin_native(&s);
	stream_frame(&s, 1, 0x5000, 0, "Matrix<double>::at", APP, 0x50, "./matrix.h", 9);
	stream_frame(&s, 1, 0x5000, 1, "multiply", APP, 0x50, "rank.cpp", 20);
	stream_frame(&s, 1, 0x5000, 2, "solve", APP, 0x50, "rank.cpp", 30);
	stream_frame(&s, 1, 0x5000, 3, "main", APP, 0x50, "rank.cpp", 41);
	stream_frame(&s, 1, 0x5100, 0, "multiply", APP, 0x51, "rank.cpp", 19);
	stream_frame(&s, 1, 0x5100, 1, "solve", APP, 0x51, "rank.cpp", 30);
	stream_frame(&s, 1, 0x5100, 2, "main", APP, 0x51, "rank.cpp", 41);
	stream_frame(&s, 1, 0x6000, 0, "main", APP, 0x60, "rank.cpp", 41);
	in(&s, IN_SORT, 150);
	in(&s, IN_OWN_CODE, 100);
	in(&s, IN_MAIN, 10);
	expect_hottest(&s,
		       "multiply (rank.cpp:20), 60.0 % of it in Matrix<double>::at (matrix.h:9)",
		       2500 * MS);
}

/* Rust's library has source lines where the program itself has none. */
Test(account, a_rust_program_without_debug_information)
{
	struct stream s = {0};

	stream_host(&s);
	stream_process(&s, 1, MAIN, "rank", APP);
	stream_stack(&s, 1, IN_SORT, PERFX_STACK_PC, 0x5000, 0x6000, 0x7000);
	stream_frame(&s, 1, 0x5000, 0, "rank::count", APP, 0x50, "", 0);
	stream_frame(&s, 1, 0x6000, 0, "std::panic::catch_unwind", APP, 0x60,
		     "library/std/src/panic.rs", 359);
	stream_frame(&s, 1, 0x7000, 0, "std::rt::lang_start_internal", APP, 0x70,
		     "library/std/src/rt.rs", 171);
	in(&s, IN_SORT, 100);
	expect_hottest(&s, "rank::count (rank)", 1 * S);
}

/* Go's library lies wherever Go was installed. */
Test(account, a_go_program_has_its_own_function_first)
{
	/* its own file, and what the compiler makes for an interface's methods */
	static const struct {
		const char *function, *file, *shown;
	} libraries[] = {
		{"sort.insertionSort_func", "/home/me/sdk/go1.22/src/sort/zsortfunc.go",
		 "sort.insertionSort_func (zsortfunc.go:12)"},
		{"sort.(*Float64Slice).Less", "/home/me/rank/<autogenerated>",
		 "sort.(*Float64Slice).Less (<autogenerated>:12)"},
	};

	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		struct stream s = {0};
		char expected[128];

		begin_native(&s);
		stream_frame(&s, 1, 0x5000, 0, libraries[i].function, APP, 0x50, libraries[i].file,
			     12);
		stream_frame(&s, 1, 0x6000, 0, "main.sortRecords", APP, 0x60,
			     "/home/me/rank/main.go", 7);
		stream_frame(&s, 1, 0x5100, 0, "main.makeRecords", APP, 0x51,
			     "/home/me/rank/main.go", 5);
		in(&s, IN_SORT, 200);
		in(&s, IN_OWN_CODE, 100);
		snprintf(expected, sizeof(expected), "main.sortRecords (main.go:7), in %s",
			 libraries[i].shown);
		expect_hottest(&s, expected, 2 * S);
	}
}

/* Without source lines: by the names of the standard libraries. */
Test(account, a_native_program_without_debug_information)
{
	struct stream s = {0};

	stream_host(&s);
	stream_process(&s, 1, MAIN, "rank", APP);
	stream_stack(&s, 1, IN_SORT, PERFX_STACK_PC, 0x5000, 0x6000, 0x7000);
	stream_stack(&s, 1, IN_LIBC, PERFX_STACK_PC, 0x5200, 0x6000, 0x7000);
	stream_frame(&s, 1, 0x5000, 0, "std::__introsort_loop", APP, 0x50, "", 0);
	stream_frame(&s, 1, 0x5200, 0, "__memmove_avx", LIBC, 0x52, "", 0);
	stream_frame(&s, 1, 0x6000, 0, "rank_items", APP, 0x60, "", 0);
	stream_frame(&s, 1, 0x7000, 0, "main", APP, 0x70, "", 0);
	in(&s, IN_SORT, 200);
	in(&s, IN_LIBC, 100);
	expect_hottest(&s, "rank_items (rank), 66.7 % of it in std::__introsort_loop (rank)",
		       3 * S);
}

/* A stripped program's functions have no names: its file is the place. */
Test(account, a_stripped_program)
{
	struct stream s = {0};

	begin_native(&s);
	stream_stack(&s, 1, NO_NAME, PERFX_STACK_PC, 0x5200, 0x9000);
	stream_frame(&s, 1, 0x9000, 0, "", APP, 0x90, "", 0);
	in(&s, NO_NAME, 100);
	expect_hottest(&s, "rank (no symbols), in __memmove_avx (libc.so.6)", 1 * S);
}

/* Of a compiler at run time, as Julia's: names of a perf map, without a file. */
Test(account, code_that_was_compiled_at_run_time)
{
	struct stream s = {0};

	begin_native(&s);
	stream_stack(&s, 1, NO_NAME, PERFX_STACK_PC, 0x9000, 0x7000);
	stream_frame(&s, 1, 0x9000, 0, "julia_kernel_12", "", 0, "", 0);
	in(&s, NO_NAME, 100);
	expect_hottest(&s, "julia_kernel_12", 1 * S);
}

/* What main() takes from a queue comes from a thread that sleeps: that is the cause. Without its
 * name as the one that ends the waits, nothing is said of it. */
Test(account, who_is_given_something_by_a_thread_that_sleeps)
{
	for (uint32_t holder = 0; holder <= POOL; holder += POOL) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		stream_wait_object(&s, 1, PERFX_WAIT_FUTEX, 0x66, "lock at 0x66 (heap)");
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
			     .tid = MAIN, .reason = PERFX_WAIT_FUTEX, .object = 0x66,
			     .holder_tid = holder, .blocked_ns = 7 * S, .count = 100,
			     .max_ns = 90 * MS);
		samples(&s,
			(struct perfx_sample){.stack = NATIVE,
					      .state = PERFX_SAMPLE_WAITING,
					      .reason = PERFX_WAIT_FUTEX,
					      .object = 0x66},
			70);
		samples(&s, (struct perfx_sample){.stack = NATIVE}, 300);
		blocked(&s, POOL, PERFX_WAIT_SLEEP, 9000, 900);
		report = end_of_threads(&s, 3000, 0, 100);
		cr_expect_eq(account_of(&report)->tid, holder ? POOL : MAIN);
		cr_expect_eq(find(&report, "SleepWait") != NULL, holder != 0);
		forget(&report);
	}
}

Test(account, until_a_vforked_child_executes)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = MAIN,
		     .reason = PERFX_WAIT_SYSCALL, .syscall = SYS_clone, .blocked_ns = 4 * S,
		     .count = 10, .max_ns = 400 * MS);
	report = end(&s);
	expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_CHILD, 4000);
	cr_expect_not_null(find(&report, "ChildWait"));
	forget(&report);
}

/* Of a native program without line information: ten small functions below decode(). */
static void small_functions(struct stream *s)
{
	begin(s);
	stream_frame(s, 1, 0xb000, 0, "decode", "/opt/server", 0xb0, "", 0);
	stream_frame(s, 1, 0xb100, 0, "serve", "/opt/server", 0xb1, "", 0);
	stream_frame(s, 1, 0xb200, 0, "_start", "/opt/server", 0xb2, "", 0);
	for (uint32_t i = 0; i < 10; i++) {
		char name[16];

		snprintf(name, sizeof(name), "small_%u", i);
		stream_frame(s, 1, 0xc000 + 0x100 * i, 0, name, "/opt/server", 0xc0 + i, "", 0);
		stream_stack(s, 1, 70 + i, PERFX_STACK_PC, 0xc000 + 0x100 * i, 0xb000, 0xb100,
			     0xb200);
		samples(s, (struct perfx_sample){.stack = 70 + i}, 60);
	}
	stream_stack(s, 1, 80, PERFX_STACK_PC, 0xb100, 0xb200);
	samples(s, (struct perfx_sample){.stack = 80}, 300);
}

Test(account, a_caller_stands_for_many_small_functions)
{
	struct stream s = {0};
	struct report report;

	small_functions(&s);
	report = end(&s);
	cr_expect(contains(report.analysis->verdict, " CPU time in decode (server)"), "%s",
		  report.analysis->verdict);
	forget(&report);
	/* beside Python it may be a pool, which runs parts of all that Python calls */
	small_functions(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .tid = POOL}, 1);
	report = end(&s);
	cr_expect_null(strstr(report.analysis->verdict, "decode"));
	forget(&report);
}

/* A loop that yields until something changes polls in the very function that computes. */
Test(account, the_place_itself_polls)
{
	enum { YIELDS = 60, WORKS };
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_frame(&s, 1, 0x9000, 0, "__sched_yield", LIBC, 0x90, "", 0);
	stream_frame(&s, 1, 0xb000, 0, "main", "/opt/server", 0xb0, "", 0);
	stream_stack(&s, 1, YIELDS, PERFX_STACK_PC, 0x9000, 0xb000);
	stream_stack(&s, 1, WORKS, PERFX_STACK_PC, 0xb000);
	samples(&s, (struct perfx_sample){.stack = YIELDS}, 100);
	samples(&s, (struct perfx_sample){.stack = WORKS}, 300);
	report = end(&s);
	cr_expect(contains(
		report.analysis->verdict,
		"in main (server); 20.8 % of all threads' CPU time only polls, in main (server)."));
	forget(&report);
}

Test(account, what_the_kernel_runs)
{
	for (uint64_t system_ms = 2000; system_ms <= 4000; system_ms += 2000) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		samples(&s, (struct perfx_sample){.stack = NATIVE}, 500);
		stream_thread(&s, 1, MAIN, "python3", 'R', 10 * S, 5 * S, 0);
		stream_usage(&s, 1, 0, 0, 0, 200 << 20);
		stream_usage(&s, 1, 10 * S, 5 * S - system_ms * MS, system_ms * MS, 200 << 20);
		stream_end(&s, 10 * S, 0);
		report.aggregate = replay(&s);
		report.profile = aggregate__finish(report.aggregate);
		report.analysis = analyze(report.profile, NULL);
		cr_expect_eq(strstr(report.analysis->verdict, "of it in the kernel") != NULL,
			     system_ms == 4000, "%s", report.analysis->verdict);
		forget(&report);
	}
}
