// SPDX-License-Identifier: BSD-2-Clause
/* Where the time of a step goes: the classes exclude each other and add up to it. */
#include "training_fixture.h"

#include <math.h>

static const struct step_time *time_of(const struct report *report)
{
	const struct step_time *time = &report->analysis->processes[0].time;
	double sum = 0;

	cr_assert(time->known);
	for (int c = 0; c < TIME_CLASSES; c++) {
		cr_expect_geq(time->ns[c], 0);
		sum += time->ns[c];
	}
	cr_expect(fabs(sum - time->unit_ns) < 1e-6 * time->unit_ns, "%g of %g", sum, time->unit_ns);
	return time;
}

#define expect_part(time, class, part)                                                     \
	cr_expect(fabs((time)->ns[class] / (time)->unit_ns - (part)) < 1e-6, #class " %g", \
		  (time)->ns[class] / (time)->unit_ns)

/* A second of a process without steps. Calls and waits are exact; samples divide what is left. */
Test(step_time, of_a_second)
{
	struct stream s = {0};
	struct report report;
	const struct step_time *time;

	begin(&s);
	stream_call(&s, CONV, MAIN, 0, 6 * S, 6 * S, 0);
	samples(&s, (struct perfx_sample){.stack = NATIVE, .context = CONV}, 601);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 150);
	samples(&s, (struct perfx_sample){.stack = EXTENSION}, 50);
	waits(&s, PERFX_WAIT_DISK, 7, LOCK, 1000);
	waits(&s, PERFX_WAIT_GIL, 1, LOCK, 990);
	report = end(&s);
	time = time_of(&report);
	cr_expect_eq(time->unit_ns, 1e9);
	expect_part(time, TIME_COMPUTE, 0.601);
	expect_part(time, TIME_DISK, 0.1);
	expect_part(time, TIME_GIL, 0.099);
	/* three parts in four of the 2 s outside of calls */
	expect_part(time, TIME_PYTHON, 0.15);
	expect_part(time, TIME_NATIVE, 0.05);
	cr_expect(fabs(time->error_ns[TIME_PYTHON] - 0.2e9 * sqrt(0.75 * 0.25 / 200)) < 1e3);
	cr_expect_eq(time->error_ns[TIME_COMPUTE], 0);
	forget(&report);
}

/* Nothing says that the thread waited: what samples do not show is not known. */
Test(step_time, without_waits)
{
	struct stream s = {0};
	struct report report;
	const struct step_time *time;

	begin(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 400);
	report = end(&s);
	time = time_of(&report);
	cr_expect_lt(time->ns[TIME_PYTHON], 0.5e9);
	cr_expect_gt(time->ns[TIME_OTHER], 0.5e9);
	forget(&report);
}

/* What the interpreter's lock takes of a call is the lock's; other waits in it are its work. */
Test(step_time, waits_in_calls)
{
	struct stream s = {0};
	struct report report;
	const struct step_time *time;

	begin(&s);
	stream_call(&s, CONV, MAIN, 0, 6 * S, 6 * S, 0);
	samples(&s, (struct perfx_sample){.stack = NATIVE, .context = CONV}, 301);
	for (unsigned i = 0; i < 2; i++) {
		enum perfx_wait_reason reason = i ? PERFX_WAIT_GIL : PERFX_WAIT_FUTEX;

		waits(&s, reason, 1 + i, 0, 1500);
		samples(&s,
			(struct perfx_sample){.stack = NATIVE,
					      .context = CONV,
					      .state = PERFX_SAMPLE_WAITING,
					      .reason = (uint8_t)reason,
					      .object = 1 + i},
			5);
	}
	report = end(&s);
	time = time_of(&report);
	expect_part(time, TIME_COMPUTE, 0.451);
	expect_part(time, TIME_GIL, 0.15);
	forget(&report);
}

/* Each collective waits for a lock of its own: those that no sample saw are like those that were
 * seen, a wait for something else is not. */
Test(step_time, a_lock_that_no_sample_saw)
{
	struct stream s = {0};
	struct report report;
	const struct step_time *time;

	begin(&s);
	waits(&s, PERFX_WAIT_FUTEX, 1, OF_QUEUE, 3000);
	waits(&s, PERFX_WAIT_FUTEX, 2, 0, 1000);
	waits(&s, PERFX_WAIT_SYSCALL, 3, 0, 2000);
	report = end(&s);
	time = time_of(&report);
	expect_part(time, TIME_INPUT, 0.4);
	expect_part(time, TIME_OTHER, 0.599);
	forget(&report);
}

/* A step that TensorFlow runs waits for a thread of its pool, which waits for the next batch. */
Test(step_time, waits_for_a_pipeline)
{
	enum { PIPELINE = 77 };

	/* in a call that lasts, too: its samples may have lost it */
	for (unsigned calls = 0; calls < 2; calls++) {
		struct stream s = {0};
		struct report report;
		const struct step_time *time;

		begin(&s);
		stream_stack(&s, 1, PIPELINE, PERFX_STACK_PC, 0x2400);
		stream_frame(&s, 1, 0x2400, 0, "tensorflow::data::IteratorResource::GetNext", TORCH,
			     0x24, "", 0);
		stream_call(&s, RANGE, MAIN, 0, calls * 9 * S, calls * 9 * S, 0);
		waits(&s, PERFX_WAIT_FUTEX, 1, NATIVE, 4000);
		samples(&s,
			(struct perfx_sample){.tid = MAIN + 1,
					      .stack = PIPELINE,
					      .state = PERFX_SAMPLE_WAITING,
					      .reason = PERFX_WAIT_FUTEX,
					      .object = 2},
			300);
		report = end(&s);
		time = time_of(&report);
		expect_part(time, TIME_INPUT, 0.3);
		cr_expect_float_eq(time->batch_ns, 0.3e9, 1);
		cr_expect_eq(time->batch_own_waits_ns, 0);
		forget(&report);
	}
}

/* Given up after some time: the rest of what the thread waited, it waited in the same way. */
Test(step_time, waits_that_were_given_up)
{
	for (unsigned given_up = 0; given_up < 2; given_up++) {
		struct stream s = {0};
		struct report report;
		const struct step_time *time;

		begin(&s);
		if (given_up)
			stream_add(&s, PERFX_KIND_NOT_ATTACHED, struct perfx_not_attached,
				   STRINGS("time off the CPU", "why"), .count = 1,
				   .flags = PERFX_NOT_ATTACHED_WAITS);
		waits(&s, PERFX_WAIT_FUTEX, 1, OF_QUEUE, 1500);
		waits(&s, PERFX_WAIT_DISK, 7, 0, 500);
		report = end(&s);
		time = time_of(&report);
		/* the thread was blocked for 5 s of the 10, of which 2 s are in the sums */
		expect_part(time, TIME_INPUT, given_up ? 0.375 : 0.15);
		expect_part(time, TIME_DISK, given_up ? 0.125 : 0.05);
		forget(&report);
	}
}

/* A hundred steps of 100 ms, half of each in operators, a tenth in the optimizer; the loader's
 * range has no name, as in PyTorch 1.13: so much of the rest is seen in its Python. */
static void trains(struct stream *s, unsigned batch)
{
	begin(s);
	for (uint64_t i = 0; i < 100; i++) {
		stream_call(s, CONV, MAIN, i * 100 * MS + 20 * MS, 50 * MS, 50 * MS, 0);
		stream_call(s, OPTIMIZER, MAIN, i * 100 * MS + 90 * MS, 10 * MS, 10 * MS, 0);
	}
	samples(s, (struct perfx_sample){.stack = NATIVE, .context = CONV}, 501);
	samples(s, (struct perfx_sample){.stack = EXTENSION, .context = OPTIMIZER}, 100);
	samples(s, (struct perfx_sample){.stack = OF_QUEUE}, batch);
	samples(s, (struct perfx_sample){.stack = EXTENSION}, 399 - batch);
}

Test(step_time, of_a_batch_without_a_range)
{
	struct stream s = {0};
	struct report report;
	const struct step_time *time;
	const struct finding *finding;

	trains(&s, 110);
	report = end(&s);
	time = time_of(&report);
	cr_expect(fabs(time->unit_ns - 100e6) < 1e6, "%g", time->unit_ns);
	cr_expect(fabs(time->ns[TIME_INPUT] / time->unit_ns - 0.11) < 1e-3);
	cr_expect_eq(time->batch_ns, time->ns[TIME_INPUT]);
	finding = find(&report, "DataBound");
	cr_assert_not_null(finding);
	cr_expect_eq(finding->severity, FINDING_MEDIUM);
	cr_expect_eq(finding->bottleneck, BOTTLENECK_INPUT);
	/* less what taking a batch from a worker costs */
	cr_expect(fabs((finding->gain_ns + 700e3) / time->unit_ns - 0.11) < 1e-3, "%g",
		  finding->gain_ns);
	cr_expect(contains(finding->evidence, "0 workers; 1 would hide it"));
	cr_expect(contains(report.analysis->verdict, "INPUT-BOUND: 11.0 % of each "));
	forget(&report);
	trains(&s, 95);
	expect_none(&s, "DataBound");
}

/* A thousand steps of 10 ms with a worker: no more than twice a handover is what it costs to take
 * batches from workers. */
static void with_a_worker(uint64_t batch_ns, enum finding_severity severity, const char *evidence)
{
	struct stream s = {0};

	begin(&s);
	stream_add(&s, PERFX_KIND_PROCESS, struct perfx_process,
		   STRINGS("python3", "python3\x1ftrain.py"), .time_ns = STREAM_START,
		   .start_boot_ns = 40 * S, .process = 3, .pid = WORKER + 1, .ppid = MAIN);
	for (uint64_t i = 0; i < 1000; i++) {
		stream_call(&s, BATCHES, MAIN, i * 10 * MS, batch_ns, batch_ns, 0);
		stream_call(&s, OPTIMIZER, MAIN, i * 10 * MS + 9 * MS, MS, MS, 0);
	}
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .context = BATCHES},
		(unsigned)(batch_ns / (10 * US)));
	expect(&s, "DataBound", severity, "python3", evidence);
}

Test(step_time, of_workers_that_keep_up)
{
	with_a_worker(1400 * US, FINDING_LOW,
		      "(1 worker; this is what taking batches from workers costs)");
	with_a_worker(1410 * US, FINDING_MEDIUM,
		      "; its own thread prepares it, mostly in normalize");
}
