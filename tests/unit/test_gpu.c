// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/gpu.h"
#include "cost/gpu_calls.h"
#include "peaks/gpu.h"
#include "replay_fixture.h"

/* What devices did for one process: threads 10 and 11. */

enum { MM = 1, LAUNCH, DRIVER_LAUNCH, SYNC, DRIVER_SYNC, OUTER };

static void begin(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 4242, "python3", "python3\x1ftrain.py");
	stream_gpu_device(s, 0);
	stream_function(s, MM, "at::_ops::mm::call", "/lib/libtorch_cpu.so", PERFX_SOURCE_TORCH);
	stream_function(s, LAUNCH, "cudaLaunchKernel", "/lib/libcudart.so", PERFX_SOURCE_CUDA);
	stream_function(s, DRIVER_LAUNCH, "cuLaunchKernel", "/lib/libcuda.so.1", PERFX_SOURCE_CUDA);
	stream_function(s, SYNC, "cudaStreamSynchronize", "/lib/libcudart.so", PERFX_SOURCE_CUDA);
	stream_function(s, DRIVER_SYNC, "cuStreamSynchronize", "/lib/libcuda.so.1",
			PERFX_SOURCE_CUDA);
	stream_function(s, OUTER, "outer", "/app", PERFX_SOURCE_SYMBOL);
	/* outer → mm → cudaLaunchKernel → cuLaunchKernel; outer → both waits */
	stream_context(s, 1, 0, OUTER, 1);
	stream_context(s, 2, 1, MM, 1);
	stream_context(s, 3, 2, LAUNCH, 1);
	stream_context(s, 4, 3, DRIVER_LAUNCH, 1);
	stream_context(s, 5, 1, SYNC, 1);
	stream_context(s, 6, 5, DRIVER_SYNC, 1);
	stream_gpu_name(s, 1, "gemm");
	stream_gpu_name(s, 2, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL");
	stream_gpu_name(s, 3, "cudaLaunchKernel");
	stream_gpu_name(s, 4, "cudaMemcpy");
}

static const struct perfx_gpu_activity gemm = {
	.name = 1,
	.grid = {100, 1, 1},
	.block = {256, 1, 1},
	.static_shared_bytes = 1024,
	.dynamic_shared_bytes = 31744,
	.registers = 128,
	.op = PERFX_GPU_OP_KERNEL,
};

static struct perfx_gpu_activity with_call(struct perfx_gpu_activity activity, uint64_t call)
{
	activity.call = call;
	return activity;
}

static uint64_t gpu_ns_of(const struct profile_process *process, uint32_t function)
{
	for (size_t i = 0; i < process->rows_count; i++)
		if (process->rows[i].function == function)
			return process->rows[i].gpu_ns;
	return UINT64_MAX - 1; /* no such row */
}

/* A call of mm from 10 to 14 ms that launches twice; outer around it ends at 90 ms. */
static void spans(struct stream *s)
{
	stream_call(s, 4, 10, 11 * MS + 200 * US, 400 * US, 400 * US, 0);
	stream_call(s, 3, 10, 11 * MS, 800 * US, 400 * US, 0);
	stream_call(s, 3, 10, 13 * MS, 800 * US, 800 * US, 0);
	stream_call(s, 2, 10, 10 * MS, 4 * MS, 2400 * US, 0);
	stream_call(s, 1, 10, 5 * MS, 85 * MS, 81 * MS, 0);
}

static void calls(struct stream *s)
{
	stream_gpu_call(s, 101, 10, 11 * MS + 100 * US, 600 * US, PERFX_GPU_OP_KERNEL, 3);
	stream_gpu_call(s, 102, 10, 13 * MS + 100 * US, 600 * US, PERFX_GPU_OP_KERNEL, 3);
}

static void activities(struct stream *s)
{
	stream_gpu_activity(s, 12 * MS, 20 * MS, with_call(gemm, 101));
	stream_gpu_activity(s, 32 * MS, 10 * MS, with_call(gemm, 102));
}

static void expect_linked(struct stream *s)
{
	struct aggregate *aggregate;
	const struct profile_process *process;
	const struct profile_gpu *gpu;

	stream_end(s, 100 * MS, PERFX_END_TARGET_EXITED);
	aggregate = replay(s);
	process = only_process(aggregate);
	gpu = &process->gpu;
	cr_expect(gpu->used && gpu->timed);
	cr_expect_eq(gpu->level, 1);
	cr_assert_eq(gpu->kernels_count, 1);
	cr_expect_str_eq(gpu->kernels[0].name, "gemm");
	cr_expect_eq(gpu->kernels[0].count, 2);
	cr_expect_eq(gpu->kernels[0].total_ns, 30 * MS);
	cr_expect_eq(gpu->kernels[0].avg_ns, 15 * MS);
	cr_expect_eq(gpu->kernels[0].max_ns, 20 * MS);
	cr_expect_eq(gpu->kernels[0].p99_ns, 20 * MS);
	cr_expect_eq(gpu->kernels[0].shared_bytes, 32768);
	cr_expect_eq(gpu->kernels[0].function, MM);
	cr_expect_eq(gpu->unlinked_count, 0);
	cr_expect_eq(gpu->busy_ns, 30 * MS);
	cr_expect_eq(gpu->launches_count, 2, "the driver's launch in the runtime's is no other");
	cr_expect_eq(gpu_ns_of(process, OUTER), 30 * MS);
	cr_expect_eq(gpu_ns_of(process, MM), 30 * MS);
	cr_expect_eq(gpu_ns_of(process, LAUNCH), 30 * MS);
	cr_expect_eq(gpu_ns_of(process, DRIVER_LAUNCH), 20 * MS);
	/* 0.9 ms and 18.9 ms */
	cr_expect_float_eq((double)gpu->latency_p50_ns, 0.9e6, 0.9e6 * SKETCH_ERROR);
	cr_expect_float_eq((double)gpu->latency_p99_ns, 18.9e6, 18.9e6 * SKETCH_ERROR);
	cr_expect_eq(aggregate__finish(aggregate)->losses[PERFX_LOSS_UNDECODED], 0);
	aggregate__free(aggregate);
}

Test(gpu, a_kernel_finds_the_function_that_launched_it)
{
	struct stream s = {0};

	begin(&s);
	stream_gpu_state(&s, 1, PERFX_GPU_AGENT_ON, 1, "CUPTI 13.0");
	spans(&s);
	calls(&s);
	activities(&s);
	expect_linked(&s);
}

Test(gpu, in_whichever_order_the_records_come)
{
	struct stream s = {0};

	begin(&s);
	stream_gpu_state(&s, 1, PERFX_GPU_AGENT_ON, 1, "CUPTI 13.0");
	activities(&s);
	calls(&s);
	spans(&s);
	expect_linked(&s);
}

/* Its own function is not traced: the innermost span around it counts, when that ends. */
Test(gpu, a_launch_without_a_span_of_its_own)
{
	struct stream s = {0};
	const struct profile_process *process;
	struct aggregate *aggregate;

	begin(&s);
	stream_gpu_call(&s, 7, 10, 11 * MS, 10 * US, PERFX_GPU_OP_KERNEL, 3);
	stream_gpu_call(&s, 8, 10, 50 * MS, 10 * US, PERFX_GPU_OP_KERNEL, 3);
	stream_gpu_call(&s, 9, 11, 11 * MS, 10 * US, PERFX_GPU_OP_KERNEL, 3); /* other thread */
	stream_gpu_activity(&s, 12 * MS, 5 * MS, with_call(gemm, 7));
	stream_gpu_activity(&s, 52 * MS, 3 * MS, with_call(gemm, 8));
	stream_gpu_activity(&s, 60 * MS, 2 * MS, with_call(gemm, 9));
	stream_gpu_activity(&s, 62 * MS, 1 * MS, with_call(gemm, 404)); /* lost */
	stream_gpu_activity(&s, 63 * MS, 1 * MS, gemm);			/* of no call */
	stream_call(&s, 2, 10, 10 * MS, 4 * MS, 4 * MS, 0);
	stream_call(&s, 1, 10, 5 * MS, 85 * MS, 81 * MS, 0);
	stream_end(&s, 100 * MS, PERFX_END_TARGET_EXITED);
	aggregate = replay(&s);
	process = only_process(aggregate);
	cr_expect_eq(gpu_ns_of(process, MM), 5 * MS);
	cr_expect_eq(gpu_ns_of(process, OUTER), 8 * MS);
	cr_expect_eq(process->gpu.kernels[0].function, MM);
	cr_expect_eq(process->gpu.unlinked_count, 3);
	cr_expect_eq(process->gpu.launches_count, 3, "as the agent saw them");
	aggregate__free(aggregate);
}

/* Records of a minute and more calls than are kept: what is linked is right, the rest counted. */
Test(gpu, a_long_recording_is_settled_as_it_goes)
{
	struct stream s = {0};
	struct aggregate *aggregate = aggregate__new();
	const struct profile_process *process;
	const uint64_t launches = 60000;

	begin(&s);
	for (uint64_t i = 0; i < launches; i++) {
		uint64_t at = 1 * MS + i * MS;

		stream_gpu_call(&s, i + 1, 10, at + 100 * US, 10 * US, PERFX_GPU_OP_KERNEL, 3);
		stream_gpu_activity(&s, at + 200 * US, 300 * US, with_call(gemm, i + 1));
		stream_call(&s, i % 2 ? 2 : 1, 10, at, 900 * US, 900 * US, 0);
		for (uint64_t inner = 0; inner < 4; inner++)
			stream_call(&s, 2, 10, at + 910 * US + inner * US, US, US, 0);
		if (i % 5000 == 0) {
			cr_assert_eq(stream_replay(&s, aggregate), 0);
			cr_assert_not_null(aggregate__finish(aggregate));
			stream_clear(&s);
		}
	}
	stream_end(&s, launches * MS, PERFX_END_TARGET_EXITED);
	cr_assert_eq(stream_replay(&s, aggregate), 0);
	process = only_process(aggregate);
	cr_expect_eq(process->gpu.unlinked_count, 0);
	cr_expect_eq(process->gpu.kernels[0].count, launches);
	cr_expect_eq(process->gpu.busy_ns, launches * 300 * US);
	cr_expect_eq(gpu_ns_of(process, MM), launches / 2 * 300 * US);
	cr_expect_eq(gpu_ns_of(process, OUTER), launches * 300 * US);
	aggregate__free(aggregate);
	stream_clear(&s);
}

Test(gpu, busy_is_a_union_and_communication_is_hidden_or_exposed)
{
	struct stream s = {0};
	struct perfx_gpu_activity all_reduce = gemm;
	const struct profile_gpu *gpu;
	struct aggregate *aggregate;

	begin(&s);
	all_reduce.name = 2;
	all_reduce.stream = 20;
	/* out of order, as buffers of two contexts come */
	stream_gpu_activity(&s, 30 * MS, 20 * MS, all_reduce); /* 10 ms of it beside the next */
	stream_gpu_activity(&s, 10 * MS, 30 * MS, gemm);
	stream_gpu_activity(&s, 20 * MS, 5 * MS, gemm);
	stream_gpu_activity(&s, 60 * MS, 1 * MS, gemm);
	stream_end(&s, 100 * MS, PERFX_END_TARGET_EXITED);
	aggregate = replay(&s);
	gpu = &only_process(aggregate)->gpu;
	cr_assert_eq(gpu->places_count, 1);
	cr_expect_eq(gpu->places[0].busy_ns, 41 * MS);
	cr_expect_eq(gpu->places[0].computing_ns, 31 * MS);
	cr_expect_eq(gpu->places[0].communicating_ns, 20 * MS);
	cr_expect_eq(gpu->places[0].exposed_ns, 10 * MS);
	cr_assert_eq(gpu->kernels_count, 2);
	cr_expect_not(gpu->kernels[0].communicates);
	cr_expect(gpu->kernels[1].communicates);
	cr_expect_eq(gpu->kernels[1].stream, 20);
	cr_assert_eq(gpu->gaps_count, 1);
	cr_expect_eq(gpu->gaps[0].from_ns, STREAM_START + 50 * MS);
	cr_expect_eq(gpu->gaps[0].to_ns, STREAM_START + 60 * MS);
	aggregate__free(aggregate);
}

Test(gpu, a_gap_says_what_the_launching_thread_did)
{
	struct stream s = {0};
	const struct perfx_sample sample = {
		.process = 1, .tid = 10, .stack = 5, .state = PERFX_SAMPLE_ON_CPU};
	const struct profile_gpu_gap *gap;
	struct aggregate *aggregate;

	begin(&s);
	stream_gpu_state(&s, 1, PERFX_GPU_AGENT_ON, 1, "CUPTI 13.0");
	stream_stack(&s, 1, 5, PERFX_STACK_COMPLETE, 0x5555);
	stream_gpu_call(&s, 1, 10, 1 * MS, 10 * US, PERFX_GPU_OP_KERNEL, 3);
	stream_gpu_activity(&s, 2 * MS, 8 * MS, with_call(gemm, 1));
	stream_sample(&s, 20 * MS, sample);
	stream_call(&s, 2, 10, 11 * MS, 70 * MS, 70 * MS, 0);
	stream_gpu_call(&s, 2, 10, 88 * MS, 10 * US, PERFX_GPU_OP_KERNEL, 3);
	stream_gpu_activity(&s, 90 * MS, 1 * MS, with_call(gemm, 2));
	stream_end(&s, 100 * MS, PERFX_END_TARGET_EXITED);
	aggregate = replay(&s);
	cr_assert_eq(only_process(aggregate)->gpu.gaps_count, 1);
	gap = &only_process(aggregate)->gpu.gaps[0];
	cr_expect_eq(gap->to_ns - gap->from_ns, 80 * MS);
	cr_expect_eq(gap->tid, 10);
	cr_expect_eq(gap->function, MM);
	cr_assert_not_null(gap->stack);
	cr_expect_eq(gap->stack->frames[0]->address, 0x5555);
	aggregate__free(aggregate);
}

Test(gpu, waits_from_the_spans_of_the_library)
{
	struct stream s = {0};
	const struct profile_gpu *gpu;
	struct aggregate *aggregate;

	begin(&s);
	stream_call(&s, 6, 10, 20 * MS, 9 * MS, 9 * MS, 0);
	stream_call(&s, 5, 10, 20 * MS, 10 * MS, 1 * MS, 0);
	stream_plain(&s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls, .context = 5,
		     .calls_count = 3, .total_ns = 6 * MS, .self_ns = 6 * MS);
	stream_end(&s, 100 * MS, PERFX_END_TARGET_EXITED);
	aggregate = replay(&s);
	gpu = &only_process(aggregate)->gpu;
	cr_expect(gpu->used);
	cr_expect_not(gpu->timed);
	cr_expect_eq(gpu->busy_ns, PROFILE_ABSENT);
	cr_assert_eq(gpu->syncs_count, 1);
	cr_expect_str_eq(gpu->syncs[0].name, "cudaStreamSynchronize");
	cr_expect_eq(gpu->syncs[0].function, OUTER);
	cr_expect_eq(gpu->syncs[0].count, 4);
	cr_expect_eq(gpu->syncs[0].wait_ns, 16 * MS);
	cr_expect_eq(gpu->wait_ns, 16 * MS);
	cr_expect_eq(gpu_ns_of(only_process(aggregate), SYNC), PROFILE_ABSENT);
	aggregate__free(aggregate);
}

Test(gpu, level_0_counts_launches_and_copies_at_their_calls)
{
	struct stream s = {0};
	const struct profile_gpu *gpu;
	struct aggregate *aggregate;

	begin(&s);
	for (int segment = 0; segment < 2; segment++) {
		stream_plain(&s, PERFX_KIND_GPU_LAUNCHES, struct perfx_gpu_launches, .process = 1,
			     .context = 4, .name = 1, .grid = {8, 1, 1}, .block = {32, 1, 1},
			     .dynamic_shared_bytes = 48, .op = PERFX_GPU_OP_KERNEL, .count = 5);
		stream_plain(&s, PERFX_KIND_GPU_COPIES, struct perfx_gpu_copies, .process = 1,
			     .context = 1, .op = PERFX_GPU_OP_COPY,
			     .direction = PERFX_GPU_HOST_TO_DEVICE,
			     .host_memory = PERFX_GPU_HOST_MEMORY_PAGEABLE, .count = 2,
			     .bytes = 4096);
	}
	stream_end(&s, 100 * MS, PERFX_END_TARGET_EXITED);
	aggregate = replay(&s);
	gpu = &only_process(aggregate)->gpu;
	cr_expect(gpu->used);
	cr_expect_eq(gpu->level, 0);
	cr_expect_eq(gpu->launches_count, 10);
	cr_assert_eq(gpu->kernels_count, 1);
	cr_expect_eq(gpu->kernels[0].count, 10);
	cr_expect_eq(gpu->kernels[0].total_ns, PROFILE_ABSENT);
	cr_expect_eq(gpu->kernels[0].function, MM);
	cr_expect_eq(gpu->kernels[0].shared_bytes, 48);
	cr_expect_lt(gpu->kernels[0].occupancy, 0);
	cr_assert_eq(gpu->copies_count, 1);
	cr_expect_eq(gpu->copies[0].count, 4);
	cr_expect_eq(gpu->copies[0].bytes, 8192);
	cr_expect_eq(gpu->copies[0].total_ns, PROFILE_ABSENT);
	cr_expect_eq(aggregate__finish(aggregate)->gpu_calls_count, 14);
	aggregate__free(aggregate);
}

static void reduce(struct stream *s, uint32_t function, uint64_t time_ns)
{
	stream_plain(s, PERFX_KIND_REDUCED, struct perfx_reduced, .time_ns = time_ns,
		     .function = function, .to = PERFX_REDUCED_REMOVED);
}

Test(gpu, beyond_the_overhead_budget_calls_are_counted_in_part)
{
	struct stream s = {0};
	const struct profile_gpu *gpu;
	struct aggregate *aggregate;

	begin(&s);
	stream_call(&s, 5, 10, 20 * MS, 10 * MS, 10 * MS, 0);
	reduce(&s, MM, 30 * MS);
	reduce(&s, SYNC, 31 * MS);
	reduce(&s, LAUNCH, 40 * MS);
	stream_end(&s, 100 * MS, PERFX_END_TARGET_EXITED);
	aggregate = replay(&s);
	gpu = &only_process(aggregate)->gpu;
	cr_expect_eq(gpu->called_until_ns, 31 * MS);
	cr_expect_eq(gpu->wait_ns, 10 * MS);
	aggregate__free(aggregate);
}

/* What the agent has recorded is whole, and takes the place of what was counted in part. */
Test(gpu, beyond_the_overhead_budget_the_agent_counts)
{
	struct stream s = {0};
	const struct profile_gpu *gpu;
	struct aggregate *aggregate;

	begin(&s);
	stream_gpu_name(&s, 5, "cudaStreamSynchronize");
	stream_call(&s, 5, 10, 20 * MS, 10 * MS, 10 * MS, 0);
	reduce(&s, SYNC, 31 * MS);
	reduce(&s, LAUNCH, 31 * MS);
	calls(&s);
	activities(&s);
	for (uint32_t i = 0; i < 3; i++)
		stream_gpu_call(&s, 103 + i, 10, 20 * MS + i * 20 * MS, 10 * MS, PERFX_GPU_OP_SYNC,
				5);
	stream_end(&s, 100 * MS, PERFX_END_TARGET_EXITED);
	aggregate = replay(&s);
	gpu = &only_process(aggregate)->gpu;
	cr_expect_eq(gpu->called_until_ns, 0);
	cr_expect_eq(gpu->launches_count, 2);
	cr_assert_eq(gpu->syncs_count, 1);
	cr_expect_eq(gpu->syncs[0].count, 3);
	cr_expect_eq(gpu->wait_ns, 30 * MS);
	aggregate__free(aggregate);
}

/* Beyond --gpu-max-events: a sum of a shape that has records is in its row, and one of a shape that
 * has none has all but a distribution. */
Test(gpu, sums_have_the_shape_of_their_kernels)
{
	struct stream s = {0};
	const struct perfx_gpu_overflow sum = {.process = 1,
					       .stream = 7,
					       .name = 1,
					       .grid = {100, 1, 1},
					       .block = {256, 1, 1},
					       .op = PERFX_GPU_OP_KERNEL,
					       .dynamic_shared_bytes = 31744,
					       .count = 9,
					       .total_ns = 270 * US,
					       .static_shared_bytes = 1024,
					       .registers = 128};
	struct perfx_gpu_activity activity = gemm;
	struct perfx_gpu_overflow other = sum;
	const struct profile_gpu *gpu;
	struct aggregate *aggregate;

	begin(&s);
	activity.stream = 7;
	stream_gpu_activity(&s, 10 * US, 30 * US, activity);
	stream_put(&s, PACK(&s.buffer, PERFX_KIND_GPU_OVERFLOW, sum));
	other.grid[0] = 200;
	other.stream = 9;
	other.dynamic_shared_bytes = 0;
	stream_put(&s, PACK(&s.buffer, PERFX_KIND_GPU_OVERFLOW, other));
	stream_end(&s, 1 * S, PERFX_END_TARGET_EXITED);
	aggregate = replay(&s);
	gpu = &only_process(aggregate)->gpu;
	cr_assert_eq(gpu->kernels_count, 2);
	cr_expect_eq(gpu->kernels[0].count, 10);
	cr_expect_eq(gpu->kernels[0].total_ns, 300 * US);
	cr_expect_eq(gpu->kernels[0].p99_ns, 30 * US);
	cr_expect_eq(gpu->kernels[0].shared_bytes, 32768);
	cr_expect_eq(gpu->kernels[0].stream, 7);
	cr_expect_eq(gpu->kernels[1].count, 9);
	cr_expect_eq(gpu->kernels[1].p99_ns, PROFILE_ABSENT);
	cr_expect_eq(gpu->kernels[1].shared_bytes, 1024);
	cr_expect_eq(gpu->kernels[1].registers, 128);
	cr_expect_eq(gpu->kernels[1].stream, 9);
	/* 9.0: 65,536 registers are two blocks of 256 threads, which are 16 of 64 warps */
	cr_expect_float_eq(gpu->kernels[0].occupancy, 0.25, 1e-9);
	cr_expect_float_eq(gpu->kernels[1].occupancy, 0.25, 1e-9);
	aggregate__free(aggregate);
}

Test(gpu, too_many_kinds_of_kernels_are_one_row_with_exact_sums)
{
	struct stream s = {0};
	const uint32_t kinds = AGGREGATE_GPU_WORKS_MAX + 100;
	const struct profile_gpu *gpu;
	struct aggregate *aggregate;
	uint64_t count = 0, total_ns = 0;

	begin(&s);
	for (uint32_t i = 0; i < kinds; i++) {
		struct perfx_gpu_activity activity = gemm;

		activity.grid[0] = i + 1;
		stream_gpu_activity(&s, i * 10 * US, 10 * US, activity);
	}
	stream_plain(&s, PERFX_KIND_GPU_OVERFLOW, struct perfx_gpu_overflow, .process = 1,
		     .name = 2, .op = PERFX_GPU_OP_KERNEL, .count = 7, .total_ns = 70 * US);
	stream_end(&s, 1 * S, PERFX_END_TARGET_EXITED);
	aggregate = replay(&s);
	gpu = &only_process(aggregate)->gpu;
	cr_assert_eq(gpu->kernels_count, AGGREGATE_GPU_WORKS_MAX + 1);
	cr_expect(gpu->kernels[0].other);
	cr_expect_eq(gpu->kernels[0].count, 107);
	cr_expect_eq(gpu->overflow_count, 7);
	for (size_t i = 0; i < gpu->kernels_count; i++) {
		count += gpu->kernels[i].count;
		total_ns += gpu->kernels[i].total_ns;
	}
	cr_expect_eq(count, kinds + 7);
	cr_expect_eq(total_ns, (kinds + 7) * 10 * US);
	aggregate__free(aggregate);
}

Test(gpu, a_device_over_time)
{
	struct stream s = {0};
	const struct profile_gpu_device *device;
	struct aggregate *aggregate;

	begin(&s);
	for (uint32_t i = 0; i < 4; i++) {
		struct perfx_gpu_usage usage = gpu_usage_absent(0, i * 100 * MS);

		usage.utilisation_percent = 20 * i;
		usage.memory_used_bytes = (5 - i) * 1000;
		usage.energy_mj = 7000 + 50 * i;
		usage.throttle = i ? 0x4 | 0x20 : 0x1;
		stream_put(&s, PACK(&s.buffer, PERFX_KIND_GPU_USAGE, usage));
	}
	stream_plain(&s, PERFX_KIND_GPU_MEMORY, struct perfx_gpu_memory,
		     .time_ns = STREAM_START + 50 * MS, .used_bytes = 900, .process = 1,
		     .sm_percent = UINT32_MAX);
	stream_end(&s, 1 * S, PERFX_END_TARGET_EXITED);
	aggregate = replay(&s);
	cr_assert_eq(aggregate__finish(aggregate)->gpu_devices_count, 1);
	device = &aggregate__finish(aggregate)->gpu_devices[0];
	cr_expect_eq(device->metrics[PROFILE_GPU_UTILISATION].last, 60);
	cr_expect_eq(device->metrics[PROFILE_GPU_UTILISATION].avg, 30);
	cr_expect_eq(device->metrics[PROFILE_GPU_MEMORY_USED].max, 5000);
	cr_expect_eq(device->metrics[PROFILE_GPU_POWER].avg, PROFILE_ABSENT);
	cr_expect_eq(device->energy_mj, 150);
	cr_expect_eq(device->energy_ns, 300 * MS);
	cr_expect_eq(profile_gpu_throttled_count(device), 3);
	cr_expect_eq(device->points_count, 4);
	cr_expect(only_process(aggregate)->gpu.used, "it has memory there");
	cr_expect_eq(only_process(aggregate)->gpu.places[0].memory_bytes.max, 900);
	aggregate__free(aggregate);
}

Test(gpu, a_process_that_uses_none_says_nothing)
{
	struct stream s = {0};
	struct aggregate *aggregate;

	begin(&s);
	stream_call(&s, 1, 10, 1 * MS, 1 * MS, 1 * MS, 0);
	stream_end(&s, 1 * S, PERFX_END_TARGET_EXITED);
	aggregate = replay(&s);
	cr_expect_not(only_process(aggregate)->gpu.used);
	cr_expect_eq(gpu_ns_of(only_process(aggregate), OUTER), PROFILE_ABSENT);
	aggregate__free(aggregate);
}

/* It has mapped the driver, or the agent would not have been wanted there. */
Test(gpu, a_refusal_is_known)
{
	struct stream s = {0};
	const struct profile_gpu *gpu;
	struct aggregate *aggregate;

	begin(&s);
	stream_gpu_state(&s, 1, PERFX_GPU_AGENT_REFUSED, 1, "another profiler has CUPTI");
	stream_end(&s, 1 * S, PERFX_END_TARGET_EXITED);
	aggregate = replay(&s);
	gpu = &only_process(aggregate)->gpu;
	cr_expect(gpu->used);
	cr_expect_not(gpu->timed);
	cr_expect_eq(gpu->level, 0);
	cr_expect_eq(gpu->state, PERFX_GPU_AGENT_REFUSED);
	cr_expect_str_eq(gpu->why, "another profiler has CUPTI");
	aggregate__free(aggregate);
}

Test(gpu, names_of_calls_in_all_their_versions)
{
	cr_expect_str_eq(gpu_call_find("cuMemcpyHtoD_v2_ptds")->name, "cuMemcpyHtoD");
	cr_expect(gpu_call_find("cuMemcpyHtoD_v2")->waits);
	cr_expect_not(gpu_call_find("cudaMemcpyAsync_ptsz")->waits);
	cr_expect_eq(gpu_call_find("cuGraphLaunch")->op, PERFX_GPU_OP_GRAPH);
	cr_expect_eq(gpu_call_find("__cudaLaunchKernel_ptsz")->op, PERFX_GPU_OP_KERNEL);
	cr_expect_null(gpu_call_find("cublasSgemm_v2"));
	cr_expect_null(gpu_call_find("cudaMalloc"));
	cr_expect_null(gpu_call_find("cu"));
	cr_expect_null(gpu_call_find("custom_function_v2"));
	cr_expect_null(gpu_call_find(""));
}

/* Values of cuda_occupancy.h. */
Test(gpu, occupancy)
{
	static const struct {
		uint32_t major, minor;
		struct gpu_shape shape;
		double share;
		enum gpu_limit limit;
	} rows[] = {
		{9, 0, {256, 32, 0}, 1.0, GPU_LIMIT_WARPS},
		{9, 0, {256, 128, 32768}, 0.25, GPU_LIMIT_REGISTERS},
		{9, 0, {32, 32, 0}, 0.5, GPU_LIMIT_BLOCKS},
		{8, 6, {128, 32, 49152}, 8.0 / 48, GPU_LIMIT_SHARED_MEMORY},
		{7, 0, {1024, 65, 0}, 0.0, GPU_LIMIT_REGISTERS},
		{8, 0, {128, 0, 0}, 1.0, GPU_LIMIT_WARPS},
		{4, 2, {256, 32, 0}, -1, GPU_LIMIT_NONE}, /* not in the table */
		{9, 0, {0, 32, 0}, -1, GPU_LIMIT_NONE},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct perfx_gpu_device device = {.compute_major = rows[i].major,
						  .compute_minor = rows[i].minor};
		struct gpu_occupancy found = gpu_occupancy(&device, &rows[i].shape);

		cr_expect_float_eq(found.share, rows[i].share, 1e-9, "row %zu: %g", i, found.share);
		cr_expect_eq(found.limit, rows[i].limit, "row %zu", i);
	}
}

/* As the boards' data sheets have it, within what their clocks differ. */
Test(gpu, peaks)
{
	static const struct {
		struct perfx_gpu_device device;
		enum perfx_dtype dtype;
		double flops;
	} rows[] = {
		{{.compute_major = 9, .multiprocessors = 132, .max_sm_clock_mhz = 1830},
		 PERFX_DTYPE_BF16,
		 989e12},
		{{.compute_major = 8, .multiprocessors = 108, .max_sm_clock_mhz = 1410},
		 PERFX_DTYPE_TF32,
		 156e12},
		{{.compute_major = 7, .multiprocessors = 80, .max_sm_clock_mhz = 1530},
		 PERFX_DTYPE_F32,
		 15.7e12},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_float_eq(gpu_peak_flops(&rows[i].device, rows[i].dtype), rows[i].flops,
				   0.01 * rows[i].flops, "row %zu", i);
	cr_expect_eq(gpu_peak_flops(&rows[0].device, PERFX_DTYPE_UNKNOWN), 0);
}

Test(gpu, buckets_keep_sums_when_they_widen)
{
	static struct buckets buckets = {.from_ns = 5 * S};

	buckets_add_time(&buckets, 5 * S + 500 * US, 5 * S + 3 * MS);
	buckets_add(&buckets, 5 * S, 7);
	buckets_add_time(&buckets, 4 * S, 5 * S); /* before */
	cr_expect_eq(buckets_between(&buckets, 5 * S + 1 * MS, 5 * S + 3 * MS), 2 * MS);
	cr_expect_eq(buckets_between(&buckets, 0, UINT64_MAX), 2500 * US + 7);
	buckets_add_time(&buckets, 5 * S + 100 * S, 5 * S + 101 * S);
	cr_expect_gt(buckets.width_ns, BUCKETS_WIDTH_NS);
	cr_expect_eq(buckets_between(&buckets, 0, UINT64_MAX), 1 * S + 2500 * US + 7);
}
