/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that use GPUs: one with an agent in it, one that is seen from outside alone. */
#ifndef GOLDEN_GPU_H
#define GOLDEN_GPU_H

#include "stream_builder.h"

enum {
	GPU_DATA = 1,
	GPU_MM,
	GPU_LAUNCH,
	GPU_MEMCPY,
	GPU_ALL_REDUCE,
	GPU_SYNC,
	GPU_DRIVER_SYNC,
	GPU_OPTIMIZER,
};

#define GPU_GEMM "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1"
#define GPU_REDUCE \
	"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
#define GPU_ADAM      "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<…>"
#define GPU_LOADER    python_frame(0x7f0000002000, 4)
#define GPU_LOSS      python_frame(0x7f0000001000, 40)
#define GPU_TO_DEVICE python_frame(0x7f0000001000, 12)

static void golden_gpu_functions(struct stream *s)
{
	stream_add(s, PERFX_KIND_FUNCTION, struct perfx_function,
		   STRINGS("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "", ""),
		   .function = GPU_DATA, .source = PERFX_SOURCE_TORCH,
		   .flags = PERFX_FUNCTION_RANGE);
	stream_function(s, GPU_MM, "at::_ops::mm::call", TORCH, PERFX_SOURCE_TORCH);
	stream_function(s, GPU_LAUNCH, "cudaLaunchKernel", "/lib/libcudart.so.12",
			PERFX_SOURCE_CUDA);
	stream_function(s, GPU_MEMCPY, "cudaMemcpy", "/lib/libcudart.so.12", PERFX_SOURCE_CUDA);
	stream_function(s, GPU_ALL_REDUCE, "ncclAllReduce", "/lib/libnccl.so.2", PERFX_SOURCE_NCCL);
	stream_function(s, GPU_SYNC, "cudaStreamSynchronize", "/lib/libcudart.so.12",
			PERFX_SOURCE_CUDA);
	stream_function(s, GPU_DRIVER_SYNC, "cuStreamSynchronize", "/lib/libcuda.so.1",
			PERFX_SOURCE_CUDA);
	stream_add(s, PERFX_KIND_FUNCTION, struct perfx_function,
		   STRINGS("Optimizer.step#AdamW.step", "", ""), .function = GPU_OPTIMIZER,
		   .source = PERFX_SOURCE_TORCH, .flags = PERFX_FUNCTION_RANGE);
	for (uint32_t function = GPU_DATA; function <= GPU_OPTIMIZER; function++)
		if (function != GPU_SYNC && function != GPU_MEMCPY)
			stream_context(s, function, 0, function, 1);
	stream_python_frame(s, 1, GPU_LOSS, "train", "/opt/train.py", 41);
	stream_python_frame(s, 1, GPU_TO_DEVICE, "train", "/opt/train.py", 33);
	/* loss.item() and images.to(device) */
	stream_called_context(s, GPU_SYNC, 0, GPU_SYNC, 1, GPU_LOSS, 0);
	stream_called_context(s, GPU_MEMCPY, 0, GPU_MEMCPY, 1, GPU_TO_DEVICE, 0);
	stream_context(s, 9, GPU_MM, GPU_LAUNCH, 1);
	stream_context(s, 10, GPU_SYNC, GPU_DRIVER_SYNC, 1);
	stream_context(s, 11, GPU_ALL_REDUCE, GPU_LAUNCH, 1);
	stream_context(s, 12, GPU_OPTIMIZER, GPU_LAUNCH, 1);
}

/* A launch by a thread: its span, its call, and what the device did. */
static void golden_gpu_launch(struct stream *s, uint32_t context, uint64_t at, uint64_t start,
			      uint64_t duration, struct perfx_gpu_activity activity)
{
	uint64_t call = at; /* unique: no two launches begin at one time */

	activity.call = call;
	activity.op = PERFX_GPU_OP_KERNEL;
	stream_call(s, context, 4242, at, 8 * US, 8 * US, 0);
	stream_gpu_call(s, call, 4242, at + 1 * US, 6 * US, PERFX_GPU_OP_KERNEL, 4);
	stream_gpu_activity(s, start, duration, activity);
}

/* What a training is like: golden_gpu's, or a later one's. */
struct golden_gpu_training {
	uint64_t product_ns, copy_ns, jitter_ns;
	uint64_t optimizer_kernels;
	enum perfx_gpu_host_memory host_memory;
};

static const struct golden_gpu_training golden_gpu_first = {
	.product_ns = 15 * MS,
	.copy_ns = 1600 * US,
	.optimizer_kernels = 20,
	.host_memory = PERFX_GPU_HOST_MEMORY_PAGEABLE,
};

/* Forward and backward in one: two matrix products, and a reduction beside the second. */
static void golden_gpu_products(struct stream *s, const struct golden_gpu_training *t, uint64_t at,
				uint64_t jitter)
{
	const struct stream_cost cost = {PERFX_COST_COUNTED, PERFX_DTYPE_BF16, 8000000000000, 0};
	const struct perfx_gpu_activity gemm = {.name = 1,
						.stream = 7,
						.grid = {16, 8, 1},
						.block = {384, 1, 1},
						.dynamic_shared_bytes = 168 << 10,
						.registers = 168};
	const struct perfx_gpu_activity reduce = {.name = 2,
						  .stream = 20,
						  .grid = {24, 1, 1},
						  .block = {544, 1, 1},
						  .static_shared_bytes = 82240,
						  .registers = 96};

	for (uint64_t i = 0; i < 2; i++) {
		golden_gpu_launch(s, 9, at + 43 * MS + 20 * US + i * 300 * US,
				  at + 43 * MS + 100 * US + i * (t->product_ns + jitter),
				  t->product_ns + jitter, gemm);
		stream_compute(s, GPU_MM, 4242, at + 43 * MS + i * 300 * US, 200 * US, 192 * US,
			       cost);
	}
	golden_gpu_launch(s, 11, at + 44 * MS, at + 68 * MS, 12 * MS, reduce);
	stream_call(s, GPU_ALL_REDUCE, 4242, at + 44 * MS, 100 * US, 92 * US, 0);
}

static void golden_gpu_step(struct stream *s, const struct golden_gpu_training *t, uint64_t at,
			    uint64_t number)
{
	const struct perfx_gpu_activity adam = {
		.name = 3, .stream = 7, .grid = {320, 1, 1}, .block = {512, 1, 1}, .registers = 40};
	const struct perfx_sample loading = {.interval_ns = 10 * MS,
					     .process = 1,
					     .tid = 4242,
					     .context = GPU_DATA,
					     .stack = 1,
					     .state = PERFX_SAMPLE_ON_CPU};

	stream_sample(s, at + 10 * MS, loading);
	stream_sample(s, at + 20 * MS, loading);
	stream_call(s, GPU_DATA, 4242, at, 40 * MS, 40 * MS, 0);
	stream_gpu_call(s, 100000 + number, 4242, at + 40 * MS + 10 * US, 1900 * US,
			PERFX_GPU_OP_COPY, 5);
	stream_gpu_activity(s, at + 40 * MS + 200 * US, t->copy_ns,
			    (struct perfx_gpu_activity){.op = PERFX_GPU_OP_COPY,
							.call = 100000 + number,
							.stream = 7,
							.bytes = 8 << 20,
							.direction = PERFX_GPU_HOST_TO_DEVICE,
							.host_memory = t->host_memory});
	stream_call(s, GPU_MEMCPY, 4242, at + 40 * MS, 2 * MS, 2 * MS, 0);
	golden_gpu_products(s, t, at, number % 5 * t->jitter_ns);
	stream_call(s, 10, 4242, at + 50 * MS + 100 * US, 30 * MS + 300 * US, 30 * MS + 300 * US,
		    0);
	stream_call(s, GPU_SYNC, 4242, at + 50 * MS, 30 * MS + 500 * US, 200 * US, 0);
	for (uint64_t i = 0; i < t->optimizer_kernels; i++)
		golden_gpu_launch(s, 12, at + 81 * MS + i * 800 * US,
				  at + 81 * MS + i * 800 * US + 10 * US, 3 * US, adam);
	stream_call(s, GPU_OPTIMIZER, 4242, at + 81 * MS, 18 * MS, 18 * MS - 160 * US, 0);
}

static void golden_gpu_usage(struct stream *s, uint32_t device, uint64_t at, uint32_t percent,
			     uint64_t throttle)
{
	struct perfx_gpu_usage usage = gpu_usage_absent(device, at);

	usage.memory_used_bytes = (20ull << 30) + at;
	usage.energy_mj = 123456789 + at / MS * 400;
	usage.throttle = throttle;
	usage.utilisation_percent = percent;
	usage.memory_utilisation_percent = percent / 2;
	usage.power_mw = 400000;
	usage.sm_clock_mhz = throttle & 0x4 ? 1500 : 1980;
	usage.memory_clock_mhz = 2619;
	usage.temperature_c = 61;
	stream_put(s, PACK(&s->buffer, PERFX_KIND_GPU_USAGE, usage));
	stream_plain(s, PERFX_KIND_GPU_MEMORY, struct perfx_gpu_memory,
		     .time_ns = STREAM_START + at, .used_bytes = 19ull << 30, .process = 1,
		     .device = device, .sm_percent = percent);
}

static void golden_gpu_training(struct stream *s, const struct golden_gpu_training *t,
				uint64_t steps)
{
	stream_host(s);
	stream_process(s, 1, 4242, "python3", "python3\x1ftrain.py");
	stream_gpu_device(s, 0);
	golden_gpu_functions(s);
	stream_stack(s, 1, 1, PERFX_STACK_COMPLETE | PERFX_STACK_PC, GPU_LOADER, 0x5555);
	stream_python_frame(s, 1, GPU_LOADER, "Images.__getitem__", "/opt/data.py", 18);
	stream_gpu_state(s, 1, PERFX_GPU_AGENT_ON, 1, "CUPTI 13.0 (130001), libcupti.so.13");
	stream_gpu_name(s, 1, GPU_GEMM);
	stream_gpu_name(s, 2, GPU_REDUCE);
	stream_gpu_name(s, 3, GPU_ADAM);
	stream_gpu_name(s, 4, "cudaLaunchKernel");
	stream_gpu_name(s, 5, "cudaMemcpy");
	stream_usage(s, 1, 0, 1 * S, 0, 300 << 20);
	stream_thread(s, 1, 4242, "python3", 'R', 0, 1 * S, 0);
	for (uint64_t i = 0; i < steps; i++) {
		golden_gpu_usage(s, 0, i * 100 * MS, 40 + 5 * (i % 3), i >= 6 ? 0x4 : 0);
		golden_gpu_step(s, t, i * 100 * MS, i);
	}
	stream_plain(s, PERFX_KIND_GPU_OVERFLOW, struct perfx_gpu_overflow, .process = 1, .name = 3,
		     .grid = {1, 1, 1}, .block = {512, 1, 1}, .op = PERFX_GPU_OP_KERNEL, .count = 2,
		     .total_ns = 6 * US);
	stream_usage(s, 1, 1 * S, 1900 * MS, 50 * MS, 310 << 20);
	stream_thread(s, 1, 4242, "python3", 'R', 1 * S, 1950 * MS, 0);
	stream_end(s, 1 * S, PERFX_END_INTERRUPTED);
}

static void golden_gpu(struct stream *s)
{
	golden_gpu_training(s, &golden_gpu_first, 10);
}

/* Seen from outside: launches and copies at their calls; which device is not known. */
static void golden_gpu_calls(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 4242, "python3", "python3\x1ftrain.py");
	stream_gpu_device(s, 0);
	stream_gpu_device(s, 1);
	golden_gpu_functions(s);
	stream_gpu_state(s, 1, PERFX_GPU_AGENT_REFUSED, 1,
			 "pid 4242 is already traced by pid 77; stop that first");
	stream_gpu_name(s, 1, "void gemm<float>(float*, float const*, float const*, int)");
	stream_gpu_name(s, 2, "relu(float*, int)");
	for (uint64_t i = 0; i < 5000; i++)
		stream_call(s, i % 2 ? 9 : 12, 4242, i * 190 * US, 90 * US, 90 * US, 0);
	for (uint64_t i = 0; i < 50; i++) {
		stream_call(s, GPU_SYNC, 4242, i * 19 * MS + 100 * US, 80 * US, 80 * US, 0);
		stream_call(s, GPU_MEMCPY, 4242, i * 19 * MS + 290 * US, 80 * US, 80 * US, 0);
	}
	for (uint32_t i = 0; i < 2; i++) {
		struct perfx_gpu_usage usage = gpu_usage_absent(i, 500 * MS);

		usage.utilisation_percent = 9;
		stream_put(s, PACK(&s->buffer, PERFX_KIND_GPU_USAGE, usage));
	}
	stream_plain(s, PERFX_KIND_GPU_LAUNCHES, struct perfx_gpu_launches, .process = 1,
		     .context = 9, .name = 1, .grid = {64, 2, 1}, .block = {16, 16, 1},
		     .op = PERFX_GPU_OP_KERNEL, .count = 2500);
	stream_plain(s, PERFX_KIND_GPU_LAUNCHES, struct perfx_gpu_launches, .process = 1,
		     .context = 12, .name = 2, .grid = {64, 1, 1}, .block = {256, 1, 1},
		     .op = PERFX_GPU_OP_KERNEL, .count = 2500);
	stream_plain(s, PERFX_KIND_GPU_COPIES, struct perfx_gpu_copies, .process = 1,
		     .context = GPU_MEMCPY, .op = PERFX_GPU_OP_COPY,
		     .direction = PERFX_GPU_DEVICE_TO_HOST, .count = 50, .bytes = 200);
	stream_usage(s, 1, 0, 1 * S, 0, 300 << 20);
	stream_usage(s, 1, 1 * S, 1900 * MS, 50 * MS, 310 << 20);
	stream_thread(s, 1, 4242, "python3", 'R', 0, 1 * S, 0);
	stream_thread(s, 1, 4242, "python3", 'R', 1 * S, 1950 * MS, 0);
	stream_end(s, 1 * S, PERFX_END_TARGET_EXITED);
}

#endif
