// SPDX-License-Identifier: BSD-2-Clause
/* What is known of a process after the overhead budget has reduced a function that it calls. */
#include "aggregate/state.h"
#include "replay_fixture.h"

#define MAIN 4242

enum { ADDMM = 1, MM, GEMM };
enum { ADDMM_CONTEXT = 1, MM_CONTEXT, GEMM_CONTEXT };

static void begin(struct stream *s)
{
	*s = (struct stream){0};
	stream_host(s);
	stream_process(s, 1, MAIN, "python3", "python3\x1ftrain.py");
	stream_function(s, ADDMM, "at::_ops::addmm::call", "/libtorch_cpu.so", PERFX_SOURCE_TORCH);
	stream_function(s, MM, "at::_ops::mm::call", "/libtorch_cpu.so", PERFX_SOURCE_TORCH);
	stream_function(s, GEMM, "cblas_sgemm", "/libblas.so", PERFX_SOURCE_BLAS);
	stream_context(s, ADDMM_CONTEXT, 0, ADDMM, 1);
	stream_context(s, MM_CONTEXT, 0, MM, 1);
	stream_context(s, GEMM_CONTEXT, ADDMM_CONTEXT, GEMM, 1);
}

static void measured(struct stream *s, uint32_t context, unsigned ms, enum perfx_cost_state state,
		     uint64_t flops)
{
	stream_compute(s, context, MAIN, ms * MS, MS / 2, MS / 2,
		       (struct stream_cost){state, PERFX_DTYPE_F32, flops, flops});
}

static void counted(struct stream *s, uint32_t context, unsigned ms)
{
	stream_call(s, context, MAIN, ms * MS, 0, 0, PERFX_SPAN_UNTIMED);
}

static struct profile_compute finish(struct stream *s, struct aggregate **aggregate)
{
	const struct profile *profile;

	*aggregate = replay(s);
	profile = aggregate__finish(*aggregate);
	cr_assert_not_null(profile);
	return profile->processes[0].compute;
}

static void expect(struct stream *s, uint64_t flops, uint64_t assumed, uint64_t until_ms)
{
	struct aggregate *aggregate;
	struct profile_compute compute = finish(s, &aggregate);

	cr_expect_eq(compute.cost.flops, flops, "%lu FLOPs", (unsigned long)compute.cost.flops);
	cr_expect_eq(compute.cost.assumed_count, assumed, "%lu assumed",
		     (unsigned long)compute.cost.assumed_count);
	cr_expect_eq(compute.until_ns, until_ms ? STREAM_START + until_ms * MS : 0);
	aggregate__free(aggregate);
}

/* All measured calls had one shape: those that are only counted have it, too. */
Test(reductions, one_shape)
{
	struct stream s;

	begin(&s);
	for (unsigned i = 0; i < 300; i++)
		measured(&s, MM_CONTEXT, i, PERFX_COST_COUNTED, 10);
	stream_reduced(&s, MM, 300 * MS, PERFX_REDUCED_COUNTED, true);
	for (unsigned i = 300; i < 400; i++)
		counted(&s, MM_CONTEXT, i);
	expect(&s, 4000, 100, 0);
}

/* The rate of calls is that of the timed ones. */
Test(reductions, rate_of_timed_calls)
{
	struct stream s;
	struct aggregate *aggregate;
	struct profile_compute compute;

	begin(&s);
	for (unsigned i = 0; i < 256; i++)
		measured(&s, MM_CONTEXT, i, PERFX_COST_COUNTED, 10);
	stream_reduced(&s, MM, 256 * MS, PERFX_REDUCED_COUNTED, true);
	for (unsigned i = 256; i < 512; i++)
		counted(&s, MM_CONTEXT, i);
	compute = finish(&s, &aggregate);
	cr_expect_eq(compute.cost.flops, 5120);
	cr_expect_eq(compute.timed_flops, 2560);
	cr_expect_eq(compute.counted_ns, 256 * MS / 2);
	aggregate__free(aggregate);
}

Test(reductions, several_shapes)
{
	struct stream s;

	begin(&s);
	for (unsigned i = 0; i < 300; i++)
		measured(&s, MM_CONTEXT, i, PERFX_COST_COUNTED, i == 150 ? 20 : 10);
	stream_reduced(&s, MM, 300 * MS, PERFX_REDUCED_COUNTED, true);
	for (unsigned i = 300; i < 400; i++)
		counted(&s, MM_CONTEXT, i);
	expect(&s, 3010, 0, 300);
}

Test(reductions, unreadable_arguments)
{
	struct stream s;

	begin(&s);
	for (unsigned i = 0; i < 300; i++)
		measured(&s, MM_CONTEXT, i, PERFX_COST_UNREAD, 0);
	stream_reduced(&s, MM, 300 * MS, PERFX_REDUCED_COUNTED, true);
	counted(&s, MM_CONTEXT, 301);
	expect(&s, 0, 0, 300);
}

/* A function whose calls have names of their own: without its probes nobody knows that such calls
 * are made. */
Test(reductions, names_of_calls_with_unreadable_arguments)
{
	enum { COMPUTE = GEMM + 1, CONV, CONV_CONTEXT = GEMM_CONTEXT + 1 };
	static const enum perfx_cost_state states[] = {PERFX_COST_UNREAD, PERFX_COST_INSIDE};

	for (size_t i = 0; i < 2; i++) {
		struct stream s;

		begin(&s);
		stream_function(&s, COMPUTE, "tensorflow::ThreadPoolDevice::Compute",
				"/libtensorflow_cc.so", PERFX_SOURCE_TF);
		stream_add(&s, PERFX_KIND_FUNCTION, struct perfx_function,
			   STRINGS("model/Conv2D", "", ""), .function = CONV,
			   .source = PERFX_SOURCE_TF, .flags = PERFX_FUNCTION_RANGE);
		stream_context(&s, CONV_CONTEXT, 0, CONV, 1);
		measured(&s, MM_CONTEXT, 1, PERFX_COST_COUNTED, 10);
		measured(&s, CONV_CONTEXT, 2, states[i], 0);
		stream_reduced(&s, COMPUTE, 300 * MS, PERFX_REDUCED_REMOVED, false);
		measured(&s, MM_CONTEXT, 400, PERFX_COST_COUNTED, 10);
		expect(&s, 20, 0, states[i] == PERFX_COST_UNREAD ? 300 : 0);
	}
}

/* XLA's operations are called at the function that runs them, by names of their own: when its
 * probe is gone, their calls end, too. */
Test(reductions, operations_are_seen_until_their_probe_is_removed)
{
	enum { EXECUTE = GEMM + 1, DOT, OTHER, DOT_CONTEXT = GEMM_CONTEXT + 1, OTHER_CONTEXT };
	struct aggregate *aggregate;
	struct stream s;
	const struct profile_process *process;

	begin(&s);
	for (uint32_t i = EXECUTE; i <= OTHER; i++)
		stream_add(&s, PERFX_KIND_FUNCTION, struct perfx_function,
			   STRINGS(i == EXECUTE ? "xla::cpu::ThunkExecutor::TracedExecute"
						: "jit_step/dot",
				   "/libjax_common.so", ""),
			   .function = i, .source = PERFX_SOURCE_XLA,
			   .offset = i == OTHER ? 200 : 100);
	stream_context(&s, DOT_CONTEXT, 0, DOT, 1);
	stream_context(&s, OTHER_CONTEXT, 0, OTHER, 1);
	measured(&s, DOT_CONTEXT, 1, PERFX_COST_COUNTED, 10);
	measured(&s, OTHER_CONTEXT, 2, PERFX_COST_COUNTED, 10);
	stream_reduced(&s, EXECUTE, 300 * MS, PERFX_REDUCED_REMOVED, true);
	aggregate = replay(&s);
	process = &aggregate__finish(aggregate)->processes[0];
	cr_assert_eq(process->rows_count, 2);
	for (size_t i = 0; i < 2; i++)
		cr_expect_eq(process->rows[i].seen_until_ns,
			     process->rows[i].function == DOT ? STREAM_START + 300 * MS : 0);
	aggregate__free(aggregate);
}

/* A few calls say nothing about the others. */
Test(reductions, few_calls)
{
	struct stream s;

	begin(&s);
	for (unsigned i = 0; i < USUAL_CALLS_MIN - 1; i++)
		measured(&s, MM_CONTEXT, i, PERFX_COST_COUNTED, 10);
	stream_reduced(&s, MM, 300 * MS, PERFX_REDUCED_COUNTED, true);
	counted(&s, MM_CONTEXT, 301);
	expect(&s, 10 * (USUAL_CALLS_MIN - 1), 0, 300);
}

/* Of a function that is not traced at all it is not known how often it is called. */
Test(reductions, then_removed)
{
	struct stream s;

	begin(&s);
	for (unsigned i = 0; i < 300; i++)
		measured(&s, MM_CONTEXT, i, PERFX_COST_COUNTED, 10);
	stream_reduced(&s, MM, 300 * MS, PERFX_REDUCED_COUNTED, true);
	for (unsigned i = 300; i < 400; i++)
		counted(&s, MM_CONTEXT, i);
	stream_reduced(&s, MM, 400 * MS, PERFX_REDUCED_REMOVED, false);
	expect(&s, 4000, 100, 400);
}

static void nested(struct stream *s)
{
	begin(s);
	for (unsigned i = 0; i < 300; i++) {
		measured(s, GEMM_CONTEXT, i, PERFX_COST_INSIDE, 0);
		measured(s, ADDMM_CONTEXT, i, PERFX_COST_COUNTED, 10);
	}
}

/* What was always a part of other calls' work is not missed. */
Test(reductions, nested_calls)
{
	struct stream s;

	nested(&s);
	stream_reduced(&s, GEMM, 300 * MS, PERFX_REDUCED_REMOVED, true);
	for (unsigned i = 300; i < 400; i++)
		measured(&s, ADDMM_CONTEXT, i, PERFX_COST_COUNTED, 10);
	expect(&s, 4000, 0, 0);

	nested(&s);
	stream_reduced(&s, GEMM, 300 * MS, PERFX_REDUCED_REMOVED, true);
	stream_reduced(&s, ADDMM, 300 * MS, PERFX_REDUCED_COUNTED, true);
	for (unsigned i = 300; i < 400; i++)
		counted(&s, ADDMM_CONTEXT, i);
	expect(&s, 4000, 100, 0);
}

/* cuBLASLt's matrix layouts are noted for its products: where those are parts of PyTorch's
 * operators the notes are not missed. */
Test(reductions, notes_of_matrix_layouts)
{
	enum { LAYOUT = GEMM + 1, PRODUCT, LAYOUT_CONTEXT = GEMM_CONTEXT + 1, PRODUCT_CONTEXT };

	for (unsigned alone = 0; alone < 2; alone++) {
		struct stream s;

		begin(&s);
		stream_function(&s, LAYOUT, "cublasLtMatrixLayoutCreate", "/libcublasLt.so.13",
				PERFX_SOURCE_CUDA);
		stream_function(&s, PRODUCT, "cublasLtMatmul", "/libcublasLt.so.13",
				PERFX_SOURCE_CUDA);
		stream_context(&s, LAYOUT_CONTEXT, ADDMM_CONTEXT, LAYOUT, 1);
		stream_context(&s, PRODUCT_CONTEXT, alone ? 0 : ADDMM_CONTEXT, PRODUCT, 1);
		for (unsigned i = 0; i < USUAL_INSIDE_MIN; i++) {
			stream_call(&s, LAYOUT_CONTEXT, MAIN, i * MS, MS / 4, MS / 4, 0);
			measured(&s, PRODUCT_CONTEXT, i,
				 alone ? PERFX_COST_COUNTED : PERFX_COST_INSIDE, alone ? 5 : 0);
			measured(&s, ADDMM_CONTEXT, i, PERFX_COST_COUNTED, 10);
		}
		stream_reduced(&s, LAYOUT, 300 * MS, PERFX_REDUCED_COUNTED, true);
		measured(&s, ADDMM_CONTEXT, 301, PERFX_COST_COUNTED, 10);
		expect(&s, 10 * (USUAL_INSIDE_MIN + 1) + (alone ? 5 * USUAL_INSIDE_MIN : 0), 0,
		       alone ? 300 : 0);
	}
}

/* Inner calls look as if they were alone when the outer ones are only counted. They stay a part of
 * these, if they always were. */
Test(reductions, measured_calls_inside)
{
	for (unsigned alone = 0; alone < 2; alone++) {
		struct stream s;

		nested(&s);
		stream_context(&s, GEMM_CONTEXT + 1, 0, GEMM, 1);
		if (alone)
			measured(&s, GEMM_CONTEXT + 1, 299, PERFX_COST_COUNTED, 10);
		stream_reduced(&s, ADDMM, 300 * MS, PERFX_REDUCED_COUNTED, true);
		for (unsigned i = 300; i < 400; i++) {
			counted(&s, ADDMM_CONTEXT, i);
			measured(&s, GEMM_CONTEXT + 1, i, PERFX_COST_COUNTED, 10);
		}
		stream_plain(&s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls,
			     .context = GEMM_CONTEXT + 1, .calls_count = 50, .counted_count = 50,
			     .flops = 500);
		if (alone)
			expect(&s, 3010 + 1000 + 500, 0, 300);
		else
			expect(&s, 4000, 100, 0);
	}
}

/* Counted calls whose records were dropped. */
Test(reductions, dropped_records)
{
	struct stream s;

	begin(&s);
	for (unsigned i = 0; i < 300; i++)
		measured(&s, MM_CONTEXT, i, PERFX_COST_COUNTED, 10);
	stream_reduced(&s, MM, 300 * MS, PERFX_REDUCED_COUNTED, true);
	stream_plain(&s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls,
		     .context = MM_CONTEXT, .calls_count = 50, .untimed_count = 50);
	expect(&s, 3500, 50, 0);
}

/* FLOPs of calls that are only counted, in a live recording's next epoch. */
static void expect_next(bool exited, uint64_t flops)
{
	struct aggregate *before, *next = aggregate__new();
	struct stream s;

	begin(&s);
	for (unsigned i = 0; i < 300; i++)
		measured(&s, MM_CONTEXT, i, PERFX_COST_COUNTED, 10);
	stream_reduced(&s, MM, 300 * MS, PERFX_REDUCED_COUNTED, true);
	before = replay(&s);
	begin(&s);
	if (exited)
		stream_plain(&s, PERFX_KIND_EXIT, struct perfx_exit, .process = 1, .pid = MAIN,
			     .time_ns = STREAM_START + 300 * MS);
	cr_assert_eq(stream_replay(&s, next), 0);
	cr_assert_eq(aggregate__continue(next, before, STREAM_START + 300 * MS), 0);
	stream_clear(&s);
	for (unsigned i = 300; i < 350; i++)
		counted(&s, MM_CONTEXT, i);
	cr_assert_eq(stream_replay(&s, next), 0);
	stream_clear(&s);
	cr_expect_eq(aggregate__finish(next)->processes[0].compute.cost.flops, flops);
	aggregate__free(before);
	aggregate__free(next);
}

Test(reductions, go_on)
{
	expect_next(false, 500);
	expect_next(true, 0);
}

/* Backward passes have a limit of their own, for no other reduction ends what is known of them; and
 * the step without probes has none to be compared with. */
Test(reductions, backward_passes)
{
	const uint32_t backward = GEMM + 1, context = GEMM_CONTEXT + 1, reduced[] = {MM, backward};

	for (size_t i = 0; i < 2; i++) {
		struct stream s;
		struct aggregate *aggregate;
		const struct profile *profile;

		begin(&s);
		stream_function(&s, backward, "torch::autograd::Engine::execute",
				"/libtorch_cpu.so", PERFX_SOURCE_TORCH);
		stream_context(&s, context, 0, backward, 1);
		stream_plain(&s, PERFX_KIND_UNPROBED_STEPS, struct perfx_unprobed_steps,
			     .steps_count = 50, .step_ns = MS, .process = 1, .function = backward,
			     .tid = MAIN);
		for (unsigned ms = 0; ms < 300; ms++) {
			measured(&s, MM_CONTEXT, ms, PERFX_COST_COUNTED, 10);
			stream_call(&s, context, MAIN, ms * MS + MS / 2, MS / 4, MS / 4, 0);
		}
		stream_reduced(&s, reduced[i], 300 * MS, PERFX_REDUCED_REMOVED, true);
		aggregate = replay(&s);
		profile = aggregate__finish(aggregate);
		cr_assert_not_null(profile);
		cr_expect_eq(profile->processes[0].steps.count, 299);
		cr_expect_eq(profile->processes[0].steps.backward_until_ns,
			     i ? STREAM_START + 300 * MS : 0);
		cr_expect_eq(profile->observed.without_ns, i ? 0 : MS);
		aggregate__free(aggregate);
	}
}
