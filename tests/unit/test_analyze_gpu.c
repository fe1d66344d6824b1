// SPDX-License-Identifier: BSD-2-Clause
/* Each rule about GPUs at both sides of its threshold. */
#include "profile_parts.h"

#include <string.h>

#define US  1000ULL
#define GIB (1ULL << 30)

/* A process of ten seconds that uses one GPU well. */
struct scene {
	struct profile profile;
	struct profile_process process;
	struct profile_row row;
	struct profile_function function;
	struct profile_thread thread;
	struct profile_gpu_device device;
	struct profile_gpu_place place;
	struct profile_gpu_kernel kernel;
	struct profile_gpu_copy copy;
	struct profile_gpu_sync sync;
};

static void scene_set(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	s->device = (struct profile_gpu_device){.name = "", .uuid = "", .driver = ""};
	for (int i = 0; i < PROFILE_GPU_METRICS; i++)
		s->device.metrics[i] =
			(struct profile_gpu_series){PROFILE_ABSENT, PROFILE_ABSENT, PROFILE_ABSENT};
	s->place = (struct profile_gpu_place){.device = &s->device, .busy_ns = 9 * S};
	s->kernel = (struct profile_gpu_kernel){.name = "relu",
						.module = "",
						.count = 1000,
						.total_ns = 9 * S,
						.avg_ns = 9 * MS,
						.block = {256, 1, 1},
						.registers = 32,
						.occupancy = 1,
						.limit = "warps"};
	s->copy = (struct profile_gpu_copy){.op = PERFX_GPU_OP_COPY,
					    .host_memory = PERFX_GPU_HOST_MEMORY_PINNED,
					    .count = 10,
					    .bytes = 10 * S,
					    .total_ns = 3 * S};
	s->sync = (struct profile_gpu_sync){
		.name = "cudaStreamSynchronize", .count = 10, .wait_ns = 1 * S};
	s->function = part_function();
	s->row = part_row();
	s->row.gpu_ns = PROFILE_ABSENT;
	s->thread = part_thread();
	s->process = part_process(&s->row, &s->thread);
	s->process.gpu = (struct profile_gpu){.used = true,
					      .level = 1,
					      .timed = true,
					      .why = "",
					      .places = &s->place,
					      .places_count = 1,
					      .places_known = true,
					      .launches_count = 1000,
					      .launch_ns = 10 * MS,
					      .kernels = &s->kernel,
					      .kernels_count = 1,
					      .copies = &s->copy,
					      .copies_count = 1,
					      .syncs = &s->sync,
					      .syncs_count = 1,
					      .wait_ns = 1 * S,
					      .busy_ns = 9 * S,
					      .kernel_ns = 9 * S,
					      .latency_p50_ns = 1 * MS,
					      .latency_p99_ns = 1 * MS};
	s->profile = part_profile(&s->process, &s->function, 1);
}

static void busy(struct scene *s, uint64_t ns)
{
	s->process.gpu.busy_ns = s->place.busy_ns = ns;
}

Test(analyze_gpu, nothing_of_a_gpu_that_is_used_well)
{
	struct scene s;

	scene_set(&s);
	expect_kinds(s, "");
}

Test(analyze_gpu, starved)
{
	struct scene s;

	scene_set(&s);
	busy(&s, 6 * S);
	expect_kinds(s, "");
	busy(&s, 6 * S - 10 * MS);
	expect_kinds(s, "GpuStarved/medium");
	busy(&s, 2 * S);
	expect_kinds(s, "GpuStarved/high");
	s.process.gpu.launches_count = 99; /* now and then */
	expect_kinds(s, "");
	s.process.gpu.launches_count = 1000;
	s.process.gpu.activities_count = 1000;
	s.process.gpu.overflow_count = 11; /* it was busy with these, too */
	expect_kinds(s, "");
	s.process.gpu.overflow_count = 10;
	expect_kinds(s, "GpuStarved/high");
}

Test(analyze_gpu, starved_by_the_drivers_samples)
{
	struct scene s;

	scene_set(&s);
	s.process.gpu.timed = false;
	s.process.gpu.busy_ns = PROFILE_ABSENT;
	expect_kinds(s, ""); /* nothing is known */
	s.device.metrics[PROFILE_GPU_UTILISATION].avg = 60;
	expect_kinds(s, "");
	s.device.metrics[PROFILE_GPU_UTILISATION].avg = 59;
	expect_kinds(s, "GpuStarved/medium");
}

Test(analyze_gpu, launch_bound)
{
	struct scene s;

	scene_set(&s);
	s.process.gpu.launch_ns = 3 * S;
	s.process.gpu.latency_p50_ns = 20 * US;
	s.kernel.count = 1000000; /* of 5 µs */
	s.process.gpu.kernel_ns = s.kernel.total_ns = 5 * S;
	busy(&s, 5 * S);
	expect_kinds(s, "LaunchBound/medium");
	s.process.gpu.launch_ns = 6 * S;
	expect_kinds(s, "LaunchBound/high");
	s.process.gpu.launch_ns = 3 * S - 10 * MS; /* what leads to the launches takes the time */
	expect_kinds(s, "LaunchBound/medium");
	busy(&s, 1 * S);
	expect_kinds(s, "LaunchBound/high");
	s.kernel.count = 19999; /* 2,000 in a second are many */
	s.process.gpu.kernel_ns = s.kernel.total_ns = 19999 * 5 * US;
	expect_kinds(s, "GpuStarved/high");
	s.kernel.count = 20000;
	expect_kinds(s, "LaunchBound/high");
	s.process.gpu.wait_ns = s.sync.wait_ns = 2 * S; /* each wait empties the queue */
	expect_kinds(s, "GpuStarved/high SyncWait/medium");
	s.process.gpu.wait_ns = s.sync.wait_ns = 1 * S;
	s.kernel.count = 1000000;
	s.process.gpu.kernel_ns = s.kernel.total_ns = 5 * S;
	s.process.gpu.launch_ns = 6 * S;
	busy(&s, 9 * S); /* the device needs that long */
	expect_kinds(s, "");
	busy(&s, 5 * S);
	s.kernel.count = 100; /* of 50 ms */
	expect_kinds(s, "GpuStarved/medium");
}

Test(analyze_gpu, sync_wait)
{
	struct scene s;

	scene_set(&s);
	busy(&s, 7 * S);
	s.process.gpu.wait_ns = s.sync.wait_ns = 2 * S;
	expect_kinds(s, "SyncWait/medium");
	s.process.gpu.wait_ns = s.sync.wait_ns = 5 * S;
	expect_kinds(s, "SyncWait/high");
	s.process.gpu.wait_ns = s.sync.wait_ns = 2 * S - 10 * MS;
	expect_kinds(s, "");
	s.process.gpu.wait_ns = s.sync.wait_ns = 5 * S;
	busy(&s, 8 * S); /* the GPU is the limit */
	expect_kinds(s, "");
}

Test(analyze_gpu, pageable_copies)
{
	struct scene s;

	scene_set(&s);
	s.copy.host_memory = PERFX_GPU_HOST_MEMORY_PAGEABLE;
	expect_kinds(s, "PageableCopy/high");
	s.copy.total_ns = 200 * MS;
	expect_kinds(s, "PageableCopy/medium");
	s.copy.total_ns = 190 * MS;
	expect_kinds(s, "");
	s.process.gpu.timed = false; /* 1 GB/s */
	expect_kinds(s, "PageableCopy/medium");
	s.copy.bytes = S - 1;
	expect_kinds(s, "");
}

Test(analyze_gpu, exposed_communication)
{
	struct scene s;

	scene_set(&s);
	s.place.communicating_ns = 4 * S;
	s.place.exposed_ns = 490 * MS;
	expect_kinds(s, "");
	s.place.exposed_ns = 500 * MS;
	expect_kinds(s, "ExposedCommunication/medium");
	s.place.exposed_ns = 2 * S;
	expect_kinds(s, "ExposedCommunication/high");
}

Test(analyze_gpu, low_occupancy)
{
	struct scene s;

	scene_set(&s);
	s.kernel.occupancy = 0.25;
	expect_kinds(s, "");
	s.kernel.occupancy = 0.24;
	expect_kinds(s, "LowOccupancy/low");
	s.kernel.name = "cutlass::Kernel2"; /* made for few warps */
	expect_kinds(s, "");
	s.kernel.name = "relu";
	s.process.gpu.kernel_ns = 100 * S; /* a small part */
	expect_kinds(s, "");
}

Test(analyze_gpu, throttled_clocks)
{
	struct scene s;

	scene_set(&s);
	s.device.throttle_samples_count = 100;
	s.device.throttled_counts[0] = 100; /* it was idle */
	s.device.throttled_counts[2] = 9;
	expect_kinds(s, "");
	s.device.throttled_counts[2] = 10;
	expect_kinds(s, "ClocksThrottled/low");
	s.device.throttled_counts[2] = 50; /* by the power limit, which a GPU at work reaches */
	expect_kinds(s, "ClocksThrottled/low");
	s.device.throttled_counts[6] = 51;
	expect_kinds(s, "ClocksThrottled/medium");
	s.device.facts.max_sm_clock_mhz = 1000;
	s.device.metrics[PROFILE_GPU_SM_CLOCK].avg = 951; /* hardly slower */
	expect_kinds(s, "");
	s.device.metrics[PROFILE_GPU_SM_CLOCK].avg = 950;
	expect_kinds(s, "ClocksThrottled/medium");
	s.process.gpu.places_known = false; /* it may be another's */
	expect_kinds(s, "");
}

/* Calls of the host in which it waits for the GPU, or does what the GPU does not wait for. */
Test(analyze_gpu, time_of_the_host_beside_a_busy_gpu)
{
	struct scene s;

	scene_set(&s);
	s.function.source = PERFX_SOURCE_TORCH;
	s.function.name = "at::_ops::copy_::call";
	s.row.self_ns = s.row.total_ns = 5 * S;
	busy(&s, 7 * S);
	expect_kinds(s, "SlowOperation/high");
	busy(&s, 9 * S);
	expect_kinds(s, "");
	s.row.self_ns = s.row.total_ns = 3 * S; /* as much as the GPU is idle */
	busy(&s, 7 * S);
	expect_kinds(s, "SlowOperation/medium");
	busy(&s, 8 * S);
	expect_kinds(s, "");
}

/* A copy to pageable memory waits for the kernels before it. */
Test(analyze_gpu, a_copy_that_waits_is_no_slow_copy)
{
	struct scene s;

	scene_set(&s);
	busy(&s, 7 * S);
	s.function.source = PERFX_SOURCE_CUDA;
	s.function.name = "cuMemcpyDtoHAsync_v2";
	s.row.self_ns = s.row.total_ns = 8 * S;
	expect_kinds(s, "");
}

/* Parameter updates of a GPU that waits for their calls are no matter of its memory. */
Test(analyze_gpu, updates_of_a_gpu_that_waits)
{
	for (unsigned busy_s = 2; busy_s <= 7; busy_s += 5) {
		struct analysis *analysis;
		struct scene s;

		scene_set(&s);
		busy(&s, busy_s * S);
		s.process.steps.count = s.process.steps.ends_count = 100;
		s.process.steps.confidence = 1;
		s.process.steps.total_ns = 10 * S;
		s.process.steps.avg_ns = s.process.steps.p50_ns = 100 * MS;
		s.process.steps.p95_ns = s.process.steps.max_ns = 100 * MS;
		s.process.steps.phases[PROFILE_PHASE_OPTIMIZER] = 6 * S;
		expect_kinds(s, "OptimizerBound/medium");
		analysis = analyze(&s.profile, NULL);
		cr_assert_not_null(analysis);
		cr_expect_eq(analysis->first->bottleneck,
			     busy_s == 2 ? BOTTLENECK_OPERATORS : BOTTLENECK_BANDWIDTH);
		analysis__free(analysis);
	}
}

static struct profile_gpu_point points[17];

static void grow(struct scene *s, const uint64_t quarters[4])
{
	uint64_t bytes = GIB;

	for (size_t i = 0; i < 17; i++) {
		points[i] = (struct profile_gpu_point){.time_ns = (1 + i) * 500 * MS,
						       .memory_used_bytes = bytes};
		bytes += quarters[i / 4 % 4] / 4;
	}
	s->device.points = points;
	s->device.points_count = 17;
	s->device.facts.memory_bytes = 100 * GIB;
	s->device.metrics[PROFILE_GPU_MEMORY_USED].last = bytes;
}

/* Memory of a GPU that is full in minutes comes before what takes time. Another program that starts
 * on it takes some, too, and stops. */
Test(analyze_gpu, memory_that_is_full_soon)
{
	struct scene s;

	scene_set(&s);
	busy(&s, 1 * S);
	grow(&s, (const uint64_t[]){GIB, GIB, GIB, GIB});
	expect_kinds(s, "MemoryLimit/high GpuStarved/high");
	grow(&s, (const uint64_t[]){0, 2 * GIB, 2 * GIB, 0});
	expect_kinds(s, "GpuStarved/high");
}
