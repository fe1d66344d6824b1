/* SPDX-License-Identifier: BSD-2-Clause */
/* A training as a stream of records, what its report finds, and what a test expects of that. */
#ifndef TRAINING_FIXTURE_H
#define TRAINING_FIXTURE_H

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
 * calls; CALLER is in main(), which calls it, SIBLING in another function of that; OF_QUEUE and
 * OF_CONDITION wait for a lock inside of Python's own modules; FRAMEWORK is Python of an installed
 * package. */
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
	FSYNC,
	CALLER,
	SIBLING
};
enum { CONV = 1, RANGE, BATCHES, OPTIMIZER };

static inline void begin_without_loader(struct stream *s)
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
		   STRINGS("Optimizer.step#SGD.step", "", ""), .function = OPTIMIZER,
		   .source = PERFX_SOURCE_TORCH, .flags = PERFX_FUNCTION_RANGE);
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
	stream_stack(s, 1, CALLER, PERFX_STACK_PC, 0x3000, 0x1000, LOOP, 0x1000);
	stream_stack(s, 1, SIBLING, PERFX_STACK_PC, 0x3000, 0x1000, MODULE, LOOP, 0x1000);
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

static inline void begin(struct stream *s)
{
	begin_without_loader(s);
	stream_add(s, PERFX_KIND_FUNCTION, struct perfx_function,
		   STRINGS("enumerate(DataLoader)#_Iter.__next__", "", ""), .function = BATCHES,
		   .source = PERFX_SOURCE_TORCH, .flags = PERFX_FUNCTION_RANGE);
	stream_context(s, BATCHES, 0, BATCHES, 1);
}

/* So many samples of 10 ms. */
static inline void samples(struct stream *s, struct perfx_sample sample, unsigned count)
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
static inline void waits(struct stream *s, enum perfx_wait_reason reason, uint64_t object,
			 uint32_t stack, uint64_t ms)
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
	const struct profile *profile;
	struct analysis *analysis;
};

/* on_cpu_ns: of the main thread. */
/* How the threads spent ten seconds. process_ns: CPU time of all threads. */
struct threads_time {
	uint64_t main_ns, runnable_ns, pool_ns, process_ns;
};

static inline struct report end_of_threads(struct stream *s, struct threads_time time)
{
	struct report report;

	stream_thread(s, 1, MAIN, "python3", 'S', 10 * S, time.main_ns, time.runnable_ns);
	stream_thread(s, 1, POOL, "loader", 'R', 10 * S, time.pool_ns, 0);
	stream_usage(s, 1, 0, 0, 0, 200 << 20);
	stream_usage(s, 1, 10 * S, time.process_ns, 0, 200 << 20);
	stream_end(s, 10 * S, 0);
	report.aggregate = replay(s);
	report.profile = aggregate__finish(report.aggregate);
	report.analysis = analyze(report.profile, NULL);
	cr_assert_not_null(report.analysis);
	return report;
}

static inline struct report end_running(struct stream *s, uint64_t on_cpu_ns, uint64_t runnable_ns,
					uint64_t cpu_ns)
{
	return end_of_threads(s, (struct threads_time){on_cpu_ns, runnable_ns, 1 * S, cpu_ns});
}

static inline struct report end_without_call(struct stream *s, uint64_t runnable_ns,
					     uint64_t cpu_ns)
{
	return end_running(s, 5 * S, runnable_ns, cpu_ns);
}

static inline struct report end_using(struct stream *s, uint64_t runnable_ns, uint64_t cpu_ns)
{
	stream_call(s, CONV, MAIN, 9 * S, 10 * MS, 10 * MS, 0);
	return end_without_call(s, runnable_ns, cpu_ns);
}

static inline struct report end_after(struct stream *s, uint64_t runnable_ns)
{
	return end_using(s, runnable_ns, 6 * S);
}

static inline struct report end(struct stream *s)
{
	return end_after(s, 0);
}

static inline const struct finding *find(const struct report *report, const char *kind)
{
	for (size_t p = 0; p < report->analysis->processes_count; p++) {
		const struct process_analysis *process = &report->analysis->processes[p];

		for (size_t i = 0; i < process->findings_count; i++)
			if (!strcmp(process->findings[i].kind, kind))
				return &process->findings[i];
	}
	return NULL;
}

static inline void forget(struct report *report)
{
	analysis__free(report->analysis);
	aggregate__free(report->aggregate);
}

static inline bool contains(const char *marked, const char *part)
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

/* A report has a finding of the kind, of this severity and with these words; evidence NULL: it has
 * none. Frees the report. */
static inline void expect_finding(struct report *report, const char *kind,
				  enum finding_severity severity, const char *evidence)
{
	const struct finding *finding = find(report, kind);

	if (evidence) {
		cr_assert_not_null(finding, "%s", evidence);
		cr_expect_eq(finding->severity, severity, "%s", finding->evidence);
		cr_expect(contains(finding->evidence, evidence), "%s", finding->evidence);
	} else {
		cr_expect_null(finding, "%s", finding ? finding->evidence : "");
	}
	forget(report);
}

/* The stream's findings have one of the kind, of this severity and with these words. */
static inline void expect(struct stream *s, const char *kind, enum finding_severity severity,
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

static inline void expect_none(struct stream *s, const char *kind)
{
	struct report report = end(s);

	expect_finding(&report, kind, 0, NULL);
}

static inline void expect_verdict(struct stream *s, const char *part)
{
	struct report report = end(s);

	cr_expect(contains(report.analysis->verdict, part));
	forget(&report);
}

#endif
