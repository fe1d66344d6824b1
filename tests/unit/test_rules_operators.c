// SPDX-License-Identifier: BSD-2-Clause
/* Findings about what operators do: each rule fires, and does not on a near miss. */
#include "analyze/operators.h"

#include "training_fixture.h"

#define TORCH_CPU "/opt/torch/lib/libtorch_cpu.so"

/* Functions and contexts beside those of the training. */
enum { MM = 10, ADD, COMPILE };
/* Stacks: operators that line 12 of train.py calls. */
#define SPREAD 100 /* and so many that follow */
#define COUNT  40
#define KERNEL 200
#define BLAS   201
#define TO     202
#define DIV    203
#define TRACED 204

#define CODE(i)	 (0x100000 + 0x1000ULL * (i))
#define MUL	 0x5000
#define LOOPS	 0x5100
#define COPY	 0x5200
#define DGEMM	 0x5300
#define DIVIDE	 0x5400
#define LOWERING python_frame(0x7f0000006000, 13)
#define STEP	 python_frame(0x7f0000007000, 14)

/* Beneath main (train.py:12): COUNT places of the dispatcher, loops, and what calls them. */
static void begin_operators(struct stream *s)
{
	begin(s);
	for (uint32_t i = 0; i < COUNT; i++) {
		stream_stack(s, 1, SPREAD + i, PERFX_STACK_PC, CODE(i), MUL, 0x3000, 0x1000, LOOP,
			     0x1000);
		stream_frame(s, 1, CODE(i), 0, "", TORCH_CPU, CODE(i), "", 0);
	}
	stream_stack(s, 1, KERNEL, PERFX_STACK_PC, LOOPS, MUL, 0x3000, 0x1000, LOOP, 0x1000);
	stream_stack(s, 1, BLAS, PERFX_STACK_PC, DGEMM, MUL, 0x3000, 0x1000, LOOP, 0x1000);
	stream_stack(s, 1, TO, PERFX_STACK_PC, LOOPS, COPY, 0x3000, 0x1000, LOOP, 0x1000);
	stream_stack(s, 1, DIV, PERFX_STACK_PC, DIVIDE, MUL, 0x3000, 0x1000, LOOP, 0x1000);
	stream_frame(s, 1, MUL, 0, "at::_ops::mul__Tensor::call", TORCH_CPU, 0x50, "", 0);
	stream_frame(s, 1, LOOPS, 0, "", TORCH_CPU, 0x51000, "", 0);
	stream_frame(s, 1, DIVIDE, 0, "", TORCH_CPU, 0x54000, "", 0);
	stream_frame(s, 1, COPY, 0, "at::_ops::to_dtype::call", TORCH_CPU, 0x52, "", 0);
	stream_frame(s, 1, DGEMM, 0, "dgemm_kernel", "/usr/lib/libopenblas.so.0", 0x53, "", 0);
}

/* Samples at all places of the dispatcher alike. */
static void spread(struct stream *s, unsigned each)
{
	for (uint32_t i = 0; i < COUNT; i++)
		samples(s, (struct perfx_sample){.stack = SPREAD + i}, each);
}

Test(operators, tiny)
{
	struct stream s = {0};

	begin_operators(&s);
	spread(&s, 6);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 30);
	expect(&s, "TinyOperators", FINDING_MEDIUM, "main (train.py:12)",
	       "24.0 % of the wall time, by 240 samples (standard error 1.5 points), in operators "
	       "that hardly compute: 0 % of it in kernels, the rest in calling them; most of it in "
	       "main (train.py:12): Tensor.add 100 %");
}

/* model.learn(): below the program's only line a package calls operators, and runs Python. */
Test(operators, tiny_beside_python_of_a_package)
{
	struct stream s = {0};

	begin_operators(&s);
	stream_python_frame(&s, 1, STEP, "collect",
			    "/opt/venv/lib/python3.11/site-packages/rl/ppo.py", 202);
	stream_stack(&s, 1, TRACED, PERFX_STACK_PC, 0x1000, STEP, LOOP, 0x1000);
	spread(&s, 6);
	samples(&s, (struct perfx_sample){.stack = TRACED}, 100);
	expect(&s, "TinyOperators", FINDING_MEDIUM, "main (train.py:12)",
	       "24.0 % of the wall time, by 240 samples");
}

/* How many tensors come and go is said where that was measured or sampled well. */
Test(operators, tiny_that_allocate)
{
	static const struct {
		uint64_t low, high;
		bool sampled;
		const char *words;
	} cases[] = {
		{1000, 1000, false, "; 10 tensors allocated in each step"},
		{1000, 1900, true, "; 10 to 19 tensors allocated in each step"},
		{1000, 9000, true, NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct profile_memory memory = {.domain = PERFX_DOMAIN_TENSOR,
						.allocs = {.low = cases[i].low,
							   .high = cases[i].high,
							   .value = cases[i].low},
						.sampled = cases[i].sampled,
						.recorded_ns = 10 * S};
		struct stream s = {0};
		struct profile_process *process;
		struct profile_process before;
		struct report report;
		const struct finding *tiny;

		begin_operators(&s);
		for (uint64_t k = 0; k < 100; k++)
			stream_call(&s, OPTIMIZER, MAIN, k * 100 * MS, MS, MS, 0);
		spread(&s, 6);
		report = end(&s);
		analysis__free(report.analysis);
		process = (struct profile_process *)&report.profile->processes[0];
		before = *process;
		process->memory = &memory;
		process->memory_count = 1;
		report.analysis = analyze(report.profile, NULL);
		tiny = find(&report, "TinyOperators");
		cr_assert_not_null(tiny);
		if (cases[i].words)
			cr_expect(contains(tiny->evidence, cases[i].words));
		else
			cr_expect_null(strstr(tiny->evidence, "allocated"), "%s", tiny->evidence);
		*process = before;
		forget(&report);
	}
}

/* A compiled function computes in a thread of XLA, while the line that calls it goes on. */
Test(operators, that_xla_computes_elsewhere_are_not_tiny)
{
	enum { CALLS = 210, COMPUTES };

	for (unsigned computes = 0; computes < 2; computes++) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		stream_stack(&s, 1, CALLS, PERFX_STACK_PC, MUL, 0x1000, LOOP, 0x1000);
		stream_stack(&s, 1, COMPUTES, PERFX_STACK_PC, DGEMM, LOOPS);
		stream_frame(&s, 1, MUL, 0, "", "/x/libjax_common.so", 0x50, "", 0);
		stream_frame(&s, 1, DGEMM, 0, "dot", "/x/libjax_common.so", 0x53, "", 0);
		stream_frame(&s, 1, LOOPS, 0, "Run", "/x/libjax_common.so", 0x51, "", 0);
		for (uint32_t i = 0; i < COUNT; i++) {
			stream_stack(&s, 1, SPREAD + i, PERFX_STACK_PC, CODE(i), MUL, 0x1000, LOOP,
				     0x1000);
			stream_frame(&s, 1, CODE(i), 0, "", "/x/libjax_common.so", CODE(i), "", 0);
		}
		spread(&s, 6);
		samples(&s, (struct perfx_sample){.stack = COMPUTES, .tid = POOL}, computes * 300);
		report = end(&s);
		cr_expect_eq(find(&report, "TinyOperators") != NULL, computes == 0);
		forget(&report);
	}
}

Test(operators, tiny_are_high_from_a_third_of_the_step)
{
	struct stream s = {0};

	begin_operators(&s);
	spread(&s, 8);
	expect(&s, "TinyOperators", FINDING_HIGH, "main (train.py:12)", "32.0 % of the wall time");
}

/* Samples of a thread that never waits may have more time than there was. What of it is of
 * operators is a part of that time. */
Test(operators, tiny_are_no_more_than_all_of_the_time)
{
	static const char *const shares[] = {"100 %", "80.0 %"};

	for (unsigned i = 0; i < 2; i++) {
		struct stream s = {0};
		struct report report;

		begin_operators(&s);
		spread(&s, 26);
		samples(&s, (struct perfx_sample){.stack = NATIVE}, i * 260);
		report = end(&s);
		cr_assert_not_null(find(&report, "TinyOperators"));
		cr_expect(contains(find(&report, "TinyOperators")->evidence, shares[i]));
		cr_expect(contains(report.analysis->verdict, "OPERATOR-BOUND: "));
		cr_expect(contains(report.analysis->verdict, shares[i]));
		forget(&report);
	}
}

/* A probe on an allocator is where most samples are, for they are of the probe. */
Test(operators, tiny_where_a_probe_is)
{
	struct stream s = {0};

	begin_operators(&s);
	stream_stack(&s, 1, TRACED, PERFX_STACK_PC, 0x6000, MUL, 0x3000, 0x1000, LOOP, 0x1000);
	stream_frame(&s, 1, 0x6000, 0, "at::_ops::empty::call", TORCH_CPU, 0x60, "", 0);
	spread(&s, 3);
	samples(&s, (struct perfx_sample){.stack = TRACED}, 100);
	expect(&s, "TinyOperators", FINDING_MEDIUM, "main (train.py:12)", "0 % of it in kernels");
}

Test(operators, with_work_to_do_are_not_tiny)
{
	struct stream s = {0};

	begin_operators(&s);
	spread(&s, 6);
	samples(&s, (struct perfx_sample){.stack = KERNEL}, 140);
	expect_none(&s, "TinyOperators");
}

/* A kernel in another library is none of the dispatcher, though each sample is elsewhere in it. */
Test(operators, of_a_blas_are_not_tiny)
{
	struct stream s = {0};

	begin_operators(&s);
	spread(&s, 6);
	samples(&s, (struct perfx_sample){.stack = BLAS}, 140);
	expect_none(&s, "TinyOperators");
}

Test(operators, that_are_few_are_no_finding)
{
	struct stream s = {0};

	begin_operators(&s);
	spread(&s, 2);
	expect_none(&s, "TinyOperators");
}

/* PythonBound is about such a line. */
Test(operators, between_much_python_are_not_tiny)
{
	struct stream s = {0};

	begin_operators(&s);
	stream_stack(&s, 1, TRACED, PERFX_STACK_PC, 0x1000, LOOP, 0x1000);
	spread(&s, 5);
	samples(&s, (struct perfx_sample){.stack = TRACED}, 400);
	expect_none(&s, "TinyOperators");
}

Test(operators, copies)
{
	struct stream s = {0};

	begin_operators(&s);
	samples(&s, (struct perfx_sample){.stack = TO}, 250);
	samples(&s, (struct perfx_sample){.stack = DIV}, 100);
	expect(&s, "Copies", FINDING_HIGH, "main (train.py:12)",
	       "35.0 % of the wall time, by 350 samples (standard error 1.9 points), in lines that "
	       "copy or convert tensors, 71.4 % of it in the copies themselves; most of it in main "
	       "(train.py:12): at::_ops::to_dtype::call 100 %");
}

/* Of samples in copies, one in a place of no loop is not counted among the copies' time. */
Test(operators, copies_are_parts_of_all_copies)
{
	struct stream s = {0};

	begin_operators(&s);
	stream_stack(&s, 1, TRACED, PERFX_STACK_PC, COPY, 0x3000, 0x1000, LOOP, 0x1000);
	samples(&s, (struct perfx_sample){.stack = TO}, 300);
	samples(&s, (struct perfx_sample){.stack = TRACED}, 6);
	expect(&s, "Copies", FINDING_HIGH, "main (train.py:12)",
	       "98.0 % of it in the copies themselves; most of it in main (train.py:12): "
	       "at::_ops::to_dtype::call 100 %");
}

/* A thread that has no CPU, or polls for others in OpenMP's library, copies nothing meanwhile. */
Test(operators, that_do_not_run_copy_nothing)
{
	struct stream s = {0};

	begin_operators(&s);
	samples(&s, (struct perfx_sample){.stack = TO, .state = PERFX_SAMPLE_RUNNABLE}, 400);
	expect_none(&s, "Copies");
	begin_operators(&s);
	stream_stack(&s, 1, TRACED, PERFX_STACK_PC, 0x6000, COPY, 0x3000, 0x1000, LOOP, 0x1000);
	stream_frame(&s, 1, 0x6000, 0, "", "/usr/lib/libgomp.so.1", 0x60, "", 0);
	samples(&s, (struct perfx_sample){.stack = TRACED}, 400);
	expect_none(&s, "Copies");
}

/* 11 % by 110 samples may be 9 %. */
Test(operators, copies_by_chance)
{
	struct stream s = {0};

	begin_operators(&s);
	samples(&s, (struct perfx_sample){.stack = TO}, 110);
	samples(&s, (struct perfx_sample){.stack = KERNEL}, 400);
	expect_none(&s, "Copies");
}

/* Of a line that does more, only the copies count. */
Test(operators, copies_beside_work)
{
	struct stream s = {0};

	begin_operators(&s);
	samples(&s, (struct perfx_sample){.stack = TO}, 130);
	samples(&s, (struct perfx_sample){.stack = KERNEL}, 400);
	expect(&s, "Copies", FINDING_MEDIUM, "main (train.py:12)",
	       "13.0 % of the wall time, by 130 samples (standard error 1.1 points), in copies and "
	       "conversions of tensors; most of it in main (train.py:12): "
	       "at::_ops::to_dtype::call 100 %");
	s = (struct stream){0};
	begin_operators(&s);
	samples(&s, (struct perfx_sample){.stack = TO}, 90);
	samples(&s, (struct perfx_sample){.stack = KERNEL}, 400);
	expect_none(&s, "Copies");
}

static void begin_compute(struct stream *s, enum perfx_source source, enum perfx_dtype dtype,
			  uint64_t ms)
{
	begin(s);
	stream_peak(s, 1, PERFX_DTYPE_F32, 100000000000, 10000000000);
	stream_peak(s, 1, PERFX_DTYPE_F64, 40000000000, 10000000000);
	stream_function(s, MM, "at::_ops::mm::call", TORCH_CPU, source);
	stream_called_context(s, MM, 0, MM, 1, LOOP, EXTENSION);
	stream_compute(s, MM, MAIN, 1 * S, ms * MS, ms * MS,
		       (struct stream_cost){PERFX_COST_COUNTED, dtype, 10000000000, 1000000000});
}

Test(operators, float64)
{
	struct stream s = {0};
	struct report report;
	const struct finding *finding;

	begin_compute(&s, PERFX_SOURCE_TORCH, PERFX_DTYPE_F64, 4000);
	report = end(&s);
	finding = find(&report, "Float64");
	cr_assert_not_null(finding);
	cr_expect(contains(finding->evidence,
			   "100 % of the operations are in float64: 4.00 s, 40.0 % of the wall "
			   "time; float32 would take about 40.0 % of that"));
	cr_expect_float_eq(finding->gain_ns, 240e6, 1e6, "%f", finding->gain_ns);
	cr_expect_eq(finding->severity, FINDING_MEDIUM);
	cr_assert_not_null(finding->place.function);
	cr_expect_str_eq(finding->place.function, "normalize");
	cr_expect_null(find(&report, "OverheadBound"), "that it is slow is said twice");
	forget(&report);
}

Test(operators, that_are_slow_in_float32)
{
	struct stream s = {0};

	begin_compute(&s, PERFX_SOURCE_TORCH, PERFX_DTYPE_F32, 4000);
	expect(&s, "OverheadBound", FINDING_MEDIUM, "aten::mm",
	       "2.50 GFLOP/s, 2.5 % of the roof of 1 core");
}

/* Products at half of the roof are 6 s of the 8 s that compute, or 2 s. */
Test(operators, roof_of_most_of_the_work)
{
	for (unsigned most = 0; most < 2; most++) {
		const uint64_t seconds = most ? 6 : 2;
		struct stream s = {0};
		struct report report;

		begin(&s);
		stream_peak(&s, 1, PERFX_DTYPE_F32, 100000000000, 10000000000);
		stream_function(&s, MM, "at::_ops::mm::call", TORCH_CPU, PERFX_SOURCE_TORCH);
		stream_function(&s, ADD, "at::_ops::index__Tensor::call", TORCH_CPU,
				PERFX_SOURCE_TORCH);
		stream_called_context(&s, MM, 0, MM, 1, LOOP, EXTENSION);
		stream_called_context(&s, ADD, 0, ADD, 1, LOOP, EXTENSION);
		stream_compute(&s, MM, MAIN, 0, seconds * S, seconds * S,
			       (struct stream_cost){PERFX_COST_COUNTED, PERFX_DTYPE_F32,
						    seconds * 50000000000, 1000000000});
		stream_call(&s, ADD, MAIN, seconds * S, (8 - seconds) * S, (8 - seconds) * S, 0);
		report = end_using(&s, 0, 9 * S);
		cr_expect(contains(report.analysis->verdict, "HEALTHY: no problem found"), "%s",
			  report.analysis->verdict);
		cr_expect_eq(strstr(report.analysis->verdict, "at 50.0 % of the roof") != NULL,
			     most, "%s", report.analysis->verdict);
		forget(&report);
	}
}

/* OpenBLAS has not recognised the CPU. */
Test(operators, by_kernels_of_an_old_cpu)
{
	struct stream s = {0};
	struct report report;
	const struct finding *finding;

	begin_compute(&s, PERFX_SOURCE_TORCH, PERFX_DTYPE_F32, 4000);
	stream_stack(&s, 1, BLAS, PERFX_STACK_PC, DGEMM, 0x3000, 0x1000, LOOP, 0x1000);
	stream_frame(&s, 1, DGEMM, 0, "sgemm_kernel_PRESCOTT", "/usr/lib/libopenblas.so.0", 0x53,
		     "", 0);
	samples(&s, (struct perfx_sample){.stack = BLAS}, 10);
	report = end(&s);
	finding = find(&report, "OverheadBound");
	cr_assert_not_null(finding);
	cr_expect(contains(finding->evidence, "; the BLAS runs sgemm_kernel_PRESCOTT"));
	cr_expect(contains(finding->suggestion, "OPENBLAS_CORETYPE"));
	forget(&report);
}

Test(operators, float64_by_design_or_seldom)
{
	struct stream s = {0};

	begin_compute(&s, PERFX_SOURCE_BLAS, PERFX_DTYPE_F64, 4000);
	expect_none(&s, "Float64");
	begin_compute(&s, PERFX_SOURCE_TORCH, PERFX_DTYPE_F32, 4000);
	expect_none(&s, "Float64");
	begin_compute(&s, PERFX_SOURCE_TORCH, PERFX_DTYPE_F64, 900);
	expect_none(&s, "Float64");
}

static void begin_compiler(struct stream *s, const char *function, const char *file)
{
	begin(s);
	stream_stack(s, 1, TRACED, PERFX_STACK_PC, 0x1000, STEP, 0x1000, LOWERING, 0x1000, LOOP,
		     0x1000);
	stream_python_frame(s, 1, LOWERING, function, file, 100);
	stream_python_frame(s, 1, STEP, "train_step", "/opt/model.py", 30);
}

/* Compilations of 300 ms, one a second from the start or all at once then. */
static void begin_xla(struct stream *s, bool steady)
{
	begin_compiler(s, "trace_to_jaxpr",
		       "/opt/site-packages/jax/_src/interpreters/partial_eval.py");
	stream_function(s, COMPILE, "xla::PjRtCpuClient::CompileAndLoad", "/libjax.so",
			PERFX_SOURCE_JAX);
	stream_context(s, COMPILE, 0, COMPILE, 1);
	for (uint64_t i = 0; i < 9; i++)
		stream_call(s, COMPILE, MAIN, (steady ? i : 0) * S, 300 * MS, 300 * MS, 0);
	samples(s, (struct perfx_sample){.stack = TRACED}, 330);
}

/* Of torch.compile nothing is called: samples in steps say when it compiles. */
static void begin_dynamo(struct stream *s, uint64_t sample_ns)
{
	begin_compiler(s, "ConvertFrame.__call__",
		       "/opt/site-packages/torch/_dynamo/convert_frame.py");
	for (uint64_t i = 0; i < 300; i++)
		stream_sample(s, i * sample_ns,
			      (struct perfx_sample){.process = 1,
						    .tid = MAIN,
						    .state = PERFX_SAMPLE_ON_CPU,
						    .stack = TRACED,
						    .interval_ns = 10 * MS});
	for (uint64_t i = 0; i < 19; i++)
		stream_call(s, OPTIMIZER, MAIN, i * 500 * MS, 10 * MS, 10 * MS, 0);
}

Test(operators, recompilation_by_xla)
{
	struct stream s = {0};

	begin_xla(&s, true);
	expect(&s, "Recompilation", FINDING_HIGH, "main (train.py:12)",
	       "traces, lowers and compiles for 33.0 % of the wall time, by 330 samples (standard "
	       "error 1.8 points); 9 compilations of 300 ms on average, of train_step "
	       "(model.py:30)");
}

Test(operators, recompilation_by_torch)
{
	struct stream s = {0};

	begin_dynamo(&s, 30 * MS);
	expect(&s, "Recompilation", FINDING_HIGH, "main (train.py:12)",
	       "traces, lowers and compiles for 30.0 % of the wall time");
}

/* A program that warms up, and does little else: it waits for the compiler, as it runs or as a
 * child. The compiler itself is no program to be judged. */
Test(operators, compiling_while_it_warms_up)
{
	struct stream s = {0};
	struct report report;
	const struct finding *finding;

	begin_compiler(&s, "ConvertFrame.__call__",
		       "/opt/site-packages/torch/_dynamo/convert_frame.py");
	stream_add(&s, PERFX_KIND_PROCESS, struct perfx_process, STRINGS("cc1plus", "cc1plus"),
		   .time_ns = STREAM_START, .start_boot_ns = 41 * S, .process = 3,
		   .pid = WORKER + 1, .ppid = MAIN);
	samples(&s, (struct perfx_sample){.stack = TRACED}, 100);
	waits(&s, PERFX_WAIT_READ, 7, 0, 7900);
	samples(&s,
		(struct perfx_sample){.stack = TRACED,
				      .state = PERFX_SAMPLE_WAITING,
				      .reason = PERFX_WAIT_READ,
				      .object = 7},
		700);
	samples(&s, (struct perfx_sample){.process = 3, .tid = WORKER + 1}, 900);
	stream_usage(&s, 3, 0, 0, 0, 5 << 20);
	stream_usage(&s, 3, 10 * S, 9 * S, 0, 500 << 20);
	report = end(&s);
	finding = find(&report, "Recompilation");
	cr_assert_not_null(finding);
	cr_expect(contains(
		report.analysis->verdict,
		"COMPILING: 80.0 % of the wall time traces, lowers and compiles, called in "
		"main (train.py:12)"));
	cr_expect(contains(finding->suggestion, "trace it again when it has warmed up"));
	cr_expect_null(find(&report, "InputWait"));
	cr_expect_eq(report.analysis->processes[2].findings_count, 0);
	forget(&report);
}

/* That it compiles is said before that other programs have its CPUs; the call inside which it
 * compiles is no finding. */
Test(operators, compiling_beside_other_programs)
{
	for (int lacks = 0; lacks <= 1; lacks++) {
		struct stream s = {0};
		struct report report;

		begin_compiler(&s, "ConvertFrame.__call__",
			       "/opt/site-packages/torch/_dynamo/convert_frame.py");
		samples(&s, (struct perfx_sample){.stack = TRACED}, 100);
		samples(&s,
			(struct perfx_sample){.stack = TRACED,
					      .state = lacks ? PERFX_SAMPLE_RUNNABLE
							     : PERFX_SAMPLE_ON_CPU},
			450);
		stream_span(&s, &(struct perfx_span){.start_ns = STREAM_START,
						     .duration_ns = 8 * S,
						     .self_ns = 8 * S,
						     .off_cpu_ns = 7 * S,
						     .context = CONV,
						     .tid = MAIN});
		report = end_using(&s, lacks * 8500 * MS, 4 * S);
		cr_expect(contains(report.analysis->verdict, "COMPILING: 55.0 % of the wall time"),
			  "%s", report.analysis->verdict);
		cr_expect_eq(!!find(&report, "CpuContention"), lacks);
		cr_expect_null(find(&report, "SlowOperation"));
		forget(&report);
	}
}

/* A program that has its own code compiled: it is that program's time, at its own line. */
static void expect_compiling(const char *driver)
{
	for (uint64_t cpu_ns = 3 * S; cpu_ns <= 5 * S; cpu_ns += 2 * S) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		stream_add(&s, PERFX_KIND_PROCESS, struct perfx_process, STRINGS(driver, driver),
			   .time_ns = STREAM_START, .start_boot_ns = 41 * S, .process = 3,
			   .pid = WORKER + 1, .ppid = MAIN);
		stream_add(&s, PERFX_KIND_PROCESS, struct perfx_process,
			   STRINGS("cc1plus", "cc1plus"), .time_ns = STREAM_START,
			   .start_boot_ns = 42 * S, .process = 4, .pid = WORKER + 2,
			   .ppid = WORKER + 1);
		waits(&s, PERFX_WAIT_WAIT, 7, 0, 8000);
		samples(&s,
			(struct perfx_sample){.stack = LOCK,
					      .state = PERFX_SAMPLE_WAITING,
					      .reason = PERFX_WAIT_WAIT,
					      .object = 7},
			800);
		stream_usage(&s, 4, 0, 0, 0, 5 << 20);
		stream_usage(&s, 4, 10 * S, cpu_ns, 0, 500 << 20);
		report = end(&s);
		if (cpu_ns > 4 * S)
			cr_expect(contains(report.analysis->verdict,
					   "COMPILING: 80.0 % of the wall time waits for "
					   "compilers (cc1plus), called in main (train.py:12)"));
		else
			cr_expect_null(find(&report, "Recompilation"));
		forget(&report);
	}
}

Test(operators, children_that_compile)
{
	expect_compiling("c++");
	expect_compiling("x86_64-linux-gn");
	expect_compiling("make");
}

/* Steps of 100 ms, but for every 5th, which compiles for 900 ms more: one finding. */
Test(operators, recompilation_in_every_5th_step)
{
	struct stream s = {0};
	struct report report;
	uint64_t at = 0;

	begin_compiler(&s, "ConvertFrame.__call__",
		       "/opt/site-packages/torch/_dynamo/convert_frame.py");
	for (unsigned i = 0; i < 32; i++) {
		for (uint64_t sample = 0; i % 5 == 4 && sample < 90; sample++)
			stream_sample(&s, at + 50 * MS + sample * 10 * MS,
				      (struct perfx_sample){.process = 1,
							    .tid = MAIN,
							    .state = PERFX_SAMPLE_ON_CPU,
							    .stack = TRACED,
							    .interval_ns = 10 * MS});
		at += i % 5 == 4 ? 1 * S : 100 * MS;
		stream_call(&s, OPTIMIZER, MAIN, at - 10 * MS, 10 * MS, 10 * MS, 0);
	}
	report = end(&s);
	cr_expect(contains(report.analysis->verdict, "RECOMPILING: 54.0 % of the wall time"));
	cr_expect(contains(report.analysis->verdict,
			   "compiles again and again, called in main (train.py:12): every 5th "
			   "step takes 900 ms more"));
	cr_expect_null(find(&report, "PeriodicStall"));
	forget(&report);
}

Test(operators, warming_up_is_no_recompilation)
{
	struct stream s = {0};

	begin_xla(&s, false);
	expect_none(&s, "Recompilation");
	begin_dynamo(&s, 15 * MS);
	expect_none(&s, "Recompilation");
}

/* The innermost operator has a sample, whether it was called or redispatched; not in a traced call,
 * nor where the thread waits. The backward pass and ranges call operators that are not theirs. */
Test(operators, by_samples)
{
	enum { INNER = 300, ENGINE = COMPILE + 1 };
	struct stream s = {0};
	struct report report;
	struct sampled_operators found;
	const struct profile *profile;

	begin_operators(&s);
	stream_frame(&s, 1, 0x7000, 0, "at::_ops::sqrt::redispatch", TORCH_CPU, 0x70, "", 0);
	stream_frame(&s, 1, 0x7100, 0, "at::_ops::sqrt::call", TORCH_CPU, 0x71, "", 0);
	stream_stack(&s, 1, INNER, PERFX_STACK_PC, LOOPS, 0x7000, 0x7100, COPY, 0x1000, LOOP,
		     0x1000);
	stream_function(&s, ENGINE, "torch::autograd::Engine::execute", TORCH_CPU,
			PERFX_SOURCE_TORCH);
	stream_context(&s, ENGINE, 0, ENGINE, 1);
	samples(&s, (struct perfx_sample){.stack = INNER}, 20);
	samples(&s, (struct perfx_sample){.stack = INNER, .context = ENGINE}, 10);
	samples(&s, (struct perfx_sample){.stack = TO, .context = RANGE}, 7);
	samples(&s, (struct perfx_sample){.stack = TO, .context = CONV}, 100);
	samples(&s, (struct perfx_sample){.stack = TO, .state = PERFX_SAMPLE_RUNNABLE}, 100);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 100);
	report = end(&s);
	profile = aggregate__finish(report.aggregate);
	cr_assert_eq(sampled_operators_find(&found, profile, &profile->processes[0]), 0);
	cr_assert_eq(found.count, 2);
	cr_expect_str_eq(found.list[0].name, "aten::sqrt");
	cr_expect_eq(found.list[0].count, 30);
	cr_expect_eq(found.list[0].ns, 300 * MS);
	cr_expect_str_eq(found.list[1].name, "aten::to_dtype");
	cr_expect_eq(found.list[1].count, 7);
	forget(&report);
}

/* A BLAS that LAPACK calls, in the same library; that NumPy calls it so often is a finding. */
Test(operators, tiny_calls_inside_of_a_library)
{
	enum { GEMV = 20, INNER = 220 };

	for (unsigned inside = 0; inside < 2; inside++) {
		const char *caller = inside ? "/usr/lib/libopenblas.so.0" : "/usr/lib/umath.so";
		struct stream s = {0};
		struct report report;

		begin(&s);
		stream_function(&s, GEMV, "gemv", "/usr/lib/libopenblas.so.0", PERFX_SOURCE_SYMBOL);
		stream_context(&s, GEMV, 0, GEMV, 1);
		for (uint64_t i = 0; i < 110000; i++)
			stream_call(&s, GEMV, MAIN, i * 80 * US, 3 * US, 3 * US, 0);
		stream_stack(&s, 1, INNER, PERFX_STACK_PC, DGEMM, MUL, 0x1000, LOOP, 0x1000);
		stream_frame(&s, 1, DGEMM, 0, "gemv", "/usr/lib/libopenblas.so.0", 0x53, "", 0);
		stream_frame(&s, 1, MUL, 0, "caller", caller, 0x50, "", 0);
		samples(&s, (struct perfx_sample){.stack = INNER}, 100);
		report = end(&s);
		cr_expect_eq(find(&report, "TinyCalls") != NULL, inside == 0);
		forget(&report);
	}
}
