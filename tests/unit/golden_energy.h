/* SPDX-License-Identifier: BSD-2-Clause */
/* A trainer that has GPU 0 for itself at 250 W and steps once a second, and a server that shares
 * GPU 1 with programs that are not traced: 3 to 1, of 100 W. */
#ifndef GOLDEN_ENERGY_H
#define GOLDEN_ENERGY_H

#include "stream_builder.h"

static void energy_device(struct stream *s, uint32_t device)
{
	stream_add(s, PERFX_KIND_GPU_DEVICE, struct perfx_gpu_device,
		   STRINGS("NVIDIA H100 80GB HBM3", device ? "GPU-2" : "GPU-1", "580.65.06"),
		   .memory_bytes = 85520809984, .device = device, .multiprocessors = 132,
		   .max_sm_clock_mhz = 1980, .compute_major = 9, .power_limit_mw = 700000);
}

/* A range of process 1 whose ends are those of its steps: context 1. */
static void energy_step(struct stream *s)
{
	stream_add(s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS("train_step", "", ""),
		   .function = 1, .source = PERFX_SOURCE_NVTX,
		   .flags = PERFX_FUNCTION_RANGE | PERFX_FUNCTION_STEP);
	stream_context(s, 1, 0, 1, 1);
}

static void energy_share_of(struct stream *s, uint64_t at, uint32_t device, uint32_t process,
			    uint32_t sm_percent)
{
	stream_plain(s, PERFX_KIND_GPU_MEMORY, struct perfx_gpu_memory,
		     .time_ns = STREAM_START + at, .used_bytes = 2ULL << 30, .process = process,
		     .device = device, .sm_percent = sm_percent);
}

static void energy_sample(struct stream *s, uint64_t at, uint32_t device, uint64_t energy_mj,
			  uint32_t power_mw)
{
	stream_plain(s, PERFX_KIND_GPU_USAGE, struct perfx_gpu_usage, .time_ns = STREAM_START + at,
		     .memory_used_bytes = 3ULL << 30, .energy_mj = energy_mj, .device = device,
		     .utilisation_percent = 80, .memory_utilisation_percent = 40,
		     .power_mw = power_mw, .sm_clock_mhz = 1755, .memory_clock_mhz = 2619,
		     .temperature_c = 61, .sm_active = UINT32_MAX, .sm_occupancy = UINT32_MAX,
		     .tensor_active = UINT32_MAX, .dram_active = UINT32_MAX);
}

static void energy_host(struct stream *s, uint64_t at, uint32_t domain, const char *name,
			uint64_t energy_uj)
{
	stream_add(s, PERFX_KIND_HOST_ENERGY, struct perfx_host_energy, STRINGS(name),
		   .time_ns = STREAM_START + at, .energy_uj = energy_uj, .domain = domain);
}

__attribute__((unused)) static void golden_energy(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 4242, "trainer", "./trainer");
	stream_process(s, 2, 4300, "server", "./server");
	energy_device(s, 0);
	energy_device(s, 1);
	energy_step(s);
	for (uint64_t i = 0; i <= 10; i++) {
		uint64_t at = i * S;

		stream_usage(s, 1, at, i * 900 * MS, i * 100 * MS, 300 << 20);
		stream_usage(s, 2, at, i * 90 * MS, i * 10 * MS, 100 << 20);
		energy_share_of(s, at, 0, 1, 80);
		energy_sample(s, at, 0, 5000000 + i * 250000, 250000);
		energy_share_of(s, at, 1, 2, 60);
		energy_share_of(s, at, 1, 0, 20);
		energy_sample(s, at, 1, 9000000 + i * 100000, 100000);
		energy_host(s, at, 0, "package-0", 1000000 + i * 50000000);
		energy_host(s, at, 1, "core", 400000 + i * 30000000);
		energy_host(s, at, 2, "dram", 700000 + i * 2300000);
		if (i < 10)
			stream_call(s, 1, 4242, at + 1, S - 2, S - 2, 0);
	}
	stream_end(s, 10 * S, 0);
}

static void energy_place(struct stream *s, uint32_t process)
{
	static const char *const of[PERFX_PLACES] = {
		[PERFX_PLACE_CGROUP] = "/kubepods/pod2f1e8d7c-0b1a-4c2d-8e3f-9a0b1c2d3e4f/"
				       "4be1f2a3c4d54be1f2a3c4d54be1f2a3c4d54be1f2a3c4d54be1f2a3c4"
				       "d5aaaa",
		[PERFX_PLACE_RUNTIME] = "containerd",
		[PERFX_PLACE_CONTAINER_ID] = "4be1f2a3c4d54be1f2a3c4d54be1f2a3c4d54be1f2a3c4d54be1"
					     "f2a3c4d5aaaa",
		[PERFX_PLACE_CONTAINER] = "trainer",
		[PERFX_PLACE_POD] = "llm-0",
		[PERFX_PLACE_NAMESPACE] = "ml",
		[PERFX_PLACE_POD_UID] = "2f1e8d7c-0b1a-4c2d-8e3f-9a0b1c2d3e4f",
		[PERFX_PLACE_HOST_NAME] = "llm-0",
	};

	stream_place_of(s, process, of);
}

/* Two ranks of a training: one GPU each, of which rank 1 has to share its own. */
__attribute__((unused)) static void golden_energy_ranks(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 4242, "torchrun", "torchrun\x1ftrain.py");
	stream_function(s, 1, "train_step", "/srv/libtrain.so", PERFX_SOURCE_PERFX);
	for (uint32_t p = 2; p <= 3; p++) {
		stream_plain(s, PERFX_KIND_FORK, struct perfx_fork, .time_ns = STREAM_START,
			     .process = p, .parent_process = 1, .pid = 4300 + p, .ppid = 4242);
		energy_place(s, p);
		energy_device(s, p - 2);
		stream_context(s, p, 0, 1, p);
		for (uint64_t i = 0; i < 10; i++)
			stream_call(s, p, 4300 + p, i * 100 * MS, 90 * MS, 90 * MS, 0);
		for (uint64_t i = 0; i <= 10; i++) {
			energy_share_of(s, i * 100 * MS, p - 2, p, 90);
			if (p == 3)
				energy_share_of(s, i * 100 * MS, p - 2, 0, 30);
			energy_sample(s, i * 100 * MS, p - 2, i * 40000, 400000);
		}
	}
	stream_end(s, 1 * S, 0);
}

#endif
