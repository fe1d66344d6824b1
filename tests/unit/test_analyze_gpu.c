// SPDX-License-Identifier: BSD-2-Clause
/* Each rule about GPUs at both sides of its threshold. */
#include "analyze/analyze.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define US 1000ULL
#define MS 1000000ULL
#define S  1000000000ULL

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
	s->function = (struct profile_function){.id = 1,
						.source = PERFX_SOURCE_SYMBOL,
						.name = "f",
						.module = "/m",
						.module_base = "m"};
	s->row = (struct profile_row){.function = 1,
				      .calls_count = 1000,
				      .timed_count = 1000,
				      .total_ns = 1 * S,
				      .self_ns = 1 * S,
				      .avg_ns = 1 * MS,
				      .gpu_ns = PROFILE_ABSENT};
	s->thread = (struct profile_thread){.tid = 42,
					    .comm = "main",
					    .state = 'R',
					    .wall_ns = 10 * S,
					    .on_cpu_ns = 9 * S,
					    .blocked_ns = 1 * S};
	s->process = (struct profile_process){.index = 1,
					      .pid = 42,
					      .comm = "python3",
					      .cmdline = "",
					      .to_ns = 10 * S,
					      .cpu_user_ns = 9 * S,
					      .cpu_ns = 9 * S,
					      .throttled_ns = PROFILE_ABSENT,
					      .rows = &s->row,
					      .rows_count = 1,
					      .threads = &s->thread,
					      .threads_count = 1,
					      .self_ns = 1 * S,
					      .calls_count = 1000};
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
	s->profile = (struct profile){.host_name = "",
				      .kernel = "",
				      .boot_id = "",
				      .command = "",
				      .tool_version = "",
				      .duration_ns = 10 * S,
				      .cpus_count = 4,
				      .ended = true,
				      .functions = &s->function,
				      .functions_count = 1,
				      .processes = &s->process,
				      .processes_count = 1,
				      .calls_count = 1};
}

static void expect(const struct scene *s, const char *kinds)
{
	static const char *const severities[] = {"", "high", "medium", "low"};
	struct analysis *analysis = analyze(&s->profile, NULL);
	char found[512] = "";
	size_t used = 0;

	cr_assert_not_null(analysis);
	for (size_t i = 0; i < analysis->processes[0].findings_count; i++) {
		const struct finding *f = &analysis->processes[0].findings[i];

		cr_expect(f->subject[0] && f->evidence[0] && f->threshold[0] && f->suggestion[0]);
		used += (size_t)snprintf(found + used, sizeof(found) - used, "%s%s/%s",
					 i ? " " : "", f->kind, severities[f->severity]);
	}
	cr_expect_str_eq(found, kinds, "got %s, not %s", found, kinds);
	analysis__free(analysis);
}

static void busy(struct scene *s, uint64_t ns)
{
	s->process.gpu.busy_ns = s->place.busy_ns = ns;
}

Test(analyze_gpu, nothing_of_a_gpu_that_is_used_well)
{
	struct scene s;

	scene_set(&s);
	expect(&s, "");
}

Test(analyze_gpu, starved)
{
	struct scene s;

	scene_set(&s);
	busy(&s, 6 * S);
	expect(&s, "");
	busy(&s, 6 * S - 10 * MS);
	expect(&s, "GpuStarved/medium");
	busy(&s, 2 * S);
	expect(&s, "GpuStarved/high");
	s.process.gpu.launches_count = 99; /* now and then */
	expect(&s, "");
	s.process.gpu.launches_count = 1000;
	s.process.gpu.activities_count = 1000;
	s.process.gpu.overflow_count = 11; /* it was busy with these, too */
	expect(&s, "");
	s.process.gpu.overflow_count = 10;
	expect(&s, "GpuStarved/high");
}

Test(analyze_gpu, starved_by_the_drivers_samples)
{
	struct scene s;

	scene_set(&s);
	s.process.gpu.timed = false;
	s.process.gpu.busy_ns = PROFILE_ABSENT;
	expect(&s, ""); /* nothing is known */
	s.device.metrics[PROFILE_GPU_UTILISATION].avg = 60;
	expect(&s, "");
	s.device.metrics[PROFILE_GPU_UTILISATION].avg = 59;
	expect(&s, "GpuStarved/medium");
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
	expect(&s, "LaunchBound/medium");
	s.process.gpu.launch_ns = 6 * S;
	expect(&s, "LaunchBound/high");
	s.process.gpu.launch_ns = 3 * S - 10 * MS;
	expect(&s, "GpuStarved/medium");
	s.process.gpu.launch_ns = 6 * S;
	busy(&s, 9 * S); /* the device needs that long */
	expect(&s, "");
	busy(&s, 5 * S);
	s.kernel.count = 100; /* of 50 ms */
	expect(&s, "GpuStarved/medium");
}

Test(analyze_gpu, sync_wait)
{
	struct scene s;

	scene_set(&s);
	busy(&s, 7 * S);
	s.process.gpu.wait_ns = s.sync.wait_ns = 2 * S;
	expect(&s, "SyncWait/medium");
	s.process.gpu.wait_ns = s.sync.wait_ns = 5 * S;
	expect(&s, "SyncWait/high");
	s.process.gpu.wait_ns = s.sync.wait_ns = 2 * S - 10 * MS;
	expect(&s, "");
	s.process.gpu.wait_ns = s.sync.wait_ns = 5 * S;
	busy(&s, 8 * S); /* the GPU is the limit */
	expect(&s, "");
}

Test(analyze_gpu, pageable_copies)
{
	struct scene s;

	scene_set(&s);
	s.copy.host_memory = PERFX_GPU_HOST_MEMORY_PAGEABLE;
	expect(&s, "PageableCopy/high");
	s.copy.total_ns = 200 * MS;
	expect(&s, "PageableCopy/medium");
	s.copy.total_ns = 190 * MS;
	expect(&s, "");
	s.process.gpu.timed = false; /* 1 GB/s */
	expect(&s, "PageableCopy/medium");
	s.copy.bytes = S - 1;
	expect(&s, "");
}

Test(analyze_gpu, exposed_communication)
{
	struct scene s;

	scene_set(&s);
	s.place.communicating_ns = 4 * S;
	s.place.exposed_ns = 490 * MS;
	expect(&s, "");
	s.place.exposed_ns = 500 * MS;
	expect(&s, "ExposedCommunication/medium");
	s.place.exposed_ns = 2 * S;
	expect(&s, "ExposedCommunication/high");
}

Test(analyze_gpu, low_occupancy)
{
	struct scene s;

	scene_set(&s);
	s.kernel.occupancy = 0.25;
	expect(&s, "");
	s.kernel.occupancy = 0.24;
	expect(&s, "LowOccupancy/low");
	s.kernel.name = "cutlass::Kernel2"; /* made for few warps */
	expect(&s, "");
	s.kernel.name = "relu";
	s.process.gpu.kernel_ns = 100 * S; /* a small part */
	expect(&s, "");
}

Test(analyze_gpu, throttled_clocks)
{
	struct scene s;

	scene_set(&s);
	s.device.throttle_samples_count = 100;
	s.device.throttled_counts[0] = 100; /* it was idle */
	s.device.throttled_counts[2] = 9;
	expect(&s, "");
	s.device.throttled_counts[2] = 10;
	expect(&s, "ClocksThrottled/low");
	s.device.throttled_counts[6] = 50;
	expect(&s, "ClocksThrottled/medium");
	s.process.gpu.places_known = false; /* it may be another's */
	expect(&s, "");
}
