/* SPDX-License-Identifier: BSD-2-Clause */
/* Captures with memory for golden reports. */
#ifndef GOLDEN_MEMORY_H
#define GOLDEN_MEMORY_H

#include "stream_builder.h"

#define LIBC   "/usr/lib/x86_64-linux-gnu/libc.so.6"
#define LIBC10 "/usr/lib/x86_64-linux-gnu/libc10.so.1.13"
#define MODEL  "/opt/train/libmodel.so"
#define CUDA   "/usr/lib/x86_64-linux-gnu/libcudart.so.12"

/* Stacks of process 1: 1 a step's activations, 2 the losses that are kept, 3 the heap, 4 the GPU.
 */
static void memory_places(struct stream *s)
{
	stream_allocator(s, 1, PERFX_DOMAIN_HOST, "libc", LIBC);
	stream_allocator(s, 2, PERFX_DOMAIN_TENSOR, "torch", LIBC10);
	stream_allocator(s, 3, PERFX_DOMAIN_GPU, "cuda", CUDA);
	stream_stack(s, 1, 1, 0, 0x7000, 0x7100, 0x1000, 0x1100);
	stream_stack(s, 1, 2, 0, 0x7000, 0x7200, 0x1200, 0x1100);
	stream_stack(s, 1, 3, PERFX_STACK_CUT, 0x8000, 0x1300);
	stream_stack(s, 1, 4, 0, 0x1400, 0x9999);
	stream_frame(s, 1, 0x7000, 0, "c10::alloc_cpu", LIBC10, 0x5000, "", 0);
	stream_frame(s, 1, 0x7100, 0, "at::native::conv2d", TORCH, 0x6100, "", 0);
	stream_frame(s, 1, 0x7200, 0, "at::native::mse_loss", TORCH, 0x6200, "", 0);
	stream_frame(s, 1, 0x1000, 0, "forward", MODEL, 0x100, "/src/model/net.cc", 42);
	stream_frame(s, 1, 0x1000, 1, "train_step", MODEL, 0x100, "/src/model/train.cc", 7);
	stream_frame(s, 1, 0x1100, 0, "main", TRAINER, 0x200, "/src/main.cc", 99);
	stream_frame(s, 1, 0x1200, 0, "keep_loss", MODEL, 0x300, "/src/model/train.cc", 31);
	stream_frame(s, 1, 0x8000, 0, "operator new", "/usr/lib/libstdc++.so.6", 0x10, "", 0);
	stream_frame(s, 1, 0x1300, 0, "", TRAINER, 0x4321, "", 0);
	stream_frame(s, 1, 0x1400, 0, "std::vector<float>::push_back", MODEL, 0x400, "", 0);
}

static void memory_trainer(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 4242, "trainer", "./trainer");
	stream_function(s, 1, "train_step", TRAINER, PERFX_SOURCE_PERFX);
	stream_function(s, 2, "at::_ops::conv2d::call", TORCH, PERFX_SOURCE_TORCH);
	stream_probe(s, 1, 1, PERFX_SITE_PUSH, false, 100);
	stream_probe(s, 2, 2, PERFX_SITE_PUSH, false, 100);
	stream_context(s, 1, 0, 1, 1);
	stream_context(s, 2, 1, 2, 1);
	memory_places(s);
}

static void memory_usage(struct stream *s, uint64_t at, uint64_t rss_bytes)
{
	struct perfx_usage usage = usage_absent(1, at);

	usage.cpu_user_ns = at * 9 / 10;
	usage.cpu_system_ns = at / 20;
	usage.rss_bytes = rss_bytes;
	usage.rss_anon_bytes = rss_bytes / 4 * 3;
	usage.rss_file_bytes = rss_bytes / 4;
	usage.rss_shmem_bytes = 0;
	usage.threads_count = 1;
	stream_put(s, PACK(&s->buffer, PERFX_KIND_USAGE, usage));
}

/* A step of 100 ms: two activations in the operator, freed at its end; a loss that is kept; heap
 * blocks that are freed at once. */
static void memory_step(struct stream *s, uint64_t step)
{
	static const struct stream_place activation = {1, 4242, 2, 1, 2, PERFX_DOMAIN_TENSOR},
					 loss = {1, 4242, 1, 2, 2, PERFX_DOMAIN_TENSOR},
					 heap = {1, 4242, 0, 3, 1, PERFX_DOMAIN_HOST};
	uint64_t at = step * 100 * MS;

	for (uint64_t i = 0; i < 20; i++) {
		stream_allocation(s, &heap, at + i * 10 * US, 0x10000 + 64 * i, 24 + 100 * i, 0);
		stream_free(s, &heap, at + i * 10 * US + 1, 0x10000 + 64 * i, 0, 0);
	}
	stream_allocation(s, &activation, at + 30 * MS, 0x200000, 24 << 20, 0);
	stream_allocation(s, &activation, at + 40 * MS, 0x2000000, 8 << 20, 0);
	stream_allocation(s, &loss, at + 60 * MS, 0x4000000 + (step << 16), 64 << 10, 0);
	stream_free(s, &activation, at + 80 * MS, 0x2000000, 0, 0);
	stream_free(s, &activation, at + 81 * MS, 0x200000, 0, 0);
	stream_call(s, 2, 4242, at + 20 * MS, 30 * MS, 30 * MS, 0);
	stream_call(s, 1, 4242, at, 90 * MS, 60 * MS, 0);
}

/* Every allocation: a tensor stays in each step; a pool of the GPU; two allocators of the heap. */
static void golden_memory(struct stream *s)
{
	static const struct stream_place pool = {1, 4242, 1, 4, 3, PERFX_DOMAIN_GPU},
					 other = {1, 4243, 0, 0, 4, PERFX_DOMAIN_HOST};

	memory_trainer(s);
	stream_allocator(s, 4, PERFX_DOMAIN_HOST, "jemalloc", "/usr/lib/libjemalloc.so.2");
	for (int domain = PERFX_DOMAIN_HOST; domain <= PERFX_DOMAIN_GPU; domain++)
		stream_memory_mode(s, 0, domain, PERFX_MEMORY_EXACT, 0);
	memory_usage(s, 0, 200 << 20);
	stream_allocation(s, &pool, 10 * MS, 0x7f0000000000, 256 << 20, 0);
	stream_allocation(s, &other, 20 * MS, 0x900000, 3 << 20, 0);
	stream_free(s, &other, 30 * MS, 0xdead0, 0, 0);
	for (uint64_t step = 0; step < 25; step++) {
		memory_step(s, step);
		if (step % 5 == 4)
			memory_usage(s, (step + 1) * 100 * MS, (232 << 20) + (step << 16));
	}
	stream_end(s, 2500 * MS, 0);
}

/* The heap by a sample of its bytes, with frees; tensors without frees, a tenth of the time. */
static void golden_memory_sampled(struct stream *s)
{
	static const struct stream_place large = {1, 4242, 2, 1, 1, PERFX_DOMAIN_HOST},
					 small = {1, 4242, 1, 3, 1, PERFX_DOMAIN_HOST},
					 tensor = {1, 4242, 2, 2, 2, PERFX_DOMAIN_TENSOR};

	memory_trainer(s);
	stream_memory_mode(s, 0, PERFX_DOMAIN_HOST, PERFX_MEMORY_SAMPLED, 512 << 10);
	stream_plain(s, PERFX_KIND_MEMORY_MODE, struct perfx_memory_mode, .time_ns = STREAM_START,
		     .sample_bytes = 1 << 20, .on_ns = 100 * MS, .period_ns = 1 * S,
		     .domain = PERFX_DOMAIN_TENSOR, .level = PERFX_MEMORY_SAMPLED_IN);
	memory_usage(s, 0, 100 << 20);
	for (uint64_t i = 0; i < 40; i++) {
		uint64_t at = i * 250 * MS;

		stream_allocation(s, &large, at, 0x100000 + (i << 24), 2 << 20,
				  PERFX_ALLOCATION_SAMPLED);
		stream_allocation(s, &small, at + 1, 0x10 + (i << 8), 100,
				  PERFX_ALLOCATION_SAMPLED);
		if (i % 4)
			stream_free(s, &large, at + 100 * MS, 0x100000 + (i << 24), 0, 0);
		if (i % 8)
			stream_free(s, &small, at + 100 * MS, 0x10 + (i << 8), 0, 0);
		if (i % 4 == 0)
			stream_allocation(s, &tensor, at, 0x9000000 + i, 300 << 10,
					  PERFX_ALLOCATION_SAMPLED);
		stream_call(s, 1, 4242, at, 200 * MS, 200 * MS, 0);
	}
	memory_usage(s, 10 * S, 140 << 20);
	stream_end(s, 10 * S, 0);
}

/* The ring was full: allocations lost, frees lost, both; and a free that nobody saw. */
static void golden_memory_lost(struct stream *s)
{
	static const struct stream_place host = {1, 4242, 1, 3, 1, PERFX_DOMAIN_HOST},
					 tensor = {1, 4242, 1, 2, 2, PERFX_DOMAIN_TENSOR},
					 gpu = {1, 4242, 1, 4, 3, PERFX_DOMAIN_GPU};

	memory_trainer(s);
	memory_usage(s, 0, 100 << 20);
	for (uint64_t i = 0; i < 30; i++) {
		stream_allocation(s, &host, i * 100 * MS, 0x1000 + 64 * i, 1000 << 10, 0);
		stream_allocation(s, &tensor, i * 100 * MS, 0x4000000 + (i % 29 << 20), 1 << 20, 0);
		stream_allocation(s, &gpu, i * 100 * MS, 0x1000 + (i << 24), 1 << 20, 0);
	}
	stream_overflow_memory(s, 1, PERFX_DOMAIN_HOST, 70, 70 << 20, 0);
	stream_overflow_memory(s, 1, PERFX_DOMAIN_TENSOR, 0, 0, 12);
	stream_overflow_memory(s, 1, PERFX_DOMAIN_GPU, 1, 1 << 20, 1);
	memory_usage(s, 3 * S, 110 << 20);
	stream_loss(s, PERFX_LOSS_MEMORY_DROPS, 84);
	stream_end(s, 3 * S, 0);
}

/* Names of frames, files, modules and allocators that would do harm. */
static void hostile_memory(struct stream *s)
{
	static const struct stream_place place = {1, 666, 1, 1, 1, PERFX_DOMAIN_HOST};

	stream_allocator(s, 1, PERFX_DOMAIN_HOST, "m`|<b>\x1b[7m", "/tmp/|`\xff.so");
	stream_allocator(s, 2, PERFX_DOMAIN_HOST, "", "");
	stream_stack(s, 1, 1, 0, 0x10, 0x20, 0x30, 0x40);
	stream_frame(s, 1, 0x10, 0, "f\x1b]0;x\x07|`", "/tmp/evil|`<x>.so", 0x10, "a\nb|.c", 3);
	stream_frame(s, 1, 0x10, 1, "bad\xff\xc3utf8", "/tmp/evil|`<x>.so", 0x10,
		     "/tmp/\xe2\x80\xae", 4294967295U);
	stream_frame(s, 1, 0x20, 0, "<details></details>", "/tmp/\n.so", 0x20, "", 0);
	stream_frame(s, 1, 0x30, 0, "", "/tmp/**x**_\x0e\x0f.so", ~0ULL, "", 0);
	for (uint64_t i = 0; i < 3; i++)
		stream_allocation(s, &place, i * 300 * MS, 0x1000 * i + 0x1000, 1 << 20, 0);
	stream_allocation(s, &(struct stream_place){1, 666, 99, 77, 2, PERFX_DOMAIN_HOST}, 900 * MS,
			  0x9000, 1, 0);
}

#endif
