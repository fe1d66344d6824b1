/* SPDX-License-Identifier: BSD-2-Clause */
/* A capture with ranges and steps for golden reports and exports. */
#ifndef GOLDEN_RANGES_H
#define GOLDEN_RANGES_H

#include "stream_builder.h"

#define LOADER "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"

/* Functions and their contexts. */
enum {
	RANGES_EPOCH = 1,
	RANGES_DATA,
	RANGES_ZERO,
	RANGES_FORWARD,
	RANGES_ADDMM,
	RANGES_BACKWARD,
	RANGES_MM,
	RANGES_STEP,
	RANGES_COPY,
	RANGES_PREPARE,
	RANGES_OUTLIVES,
	RANGES_MM_ELSEWHERE, /* a context only */
};

static void ranges_range(struct stream *s, uint32_t function, const char *name,
			 enum perfx_source source, unsigned flags)
{
	stream_add(s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS(name, "", ""),
		   .function = function, .source = source,
		   .flags = (uint16_t)(PERFX_FUNCTION_RANGE | flags));
}

static void ranges_span(struct stream *s, uint32_t context, uint32_t tid, uint16_t depth,
			uint64_t at, uint64_t duration, uint64_t self, uint16_t flags)
{
	struct perfx_span span = {.start_ns = STREAM_START + at,
				  .duration_ns = duration,
				  .self_ns = self,
				  .context = context,
				  .tid = tid,
				  .depth = depth,
				  .flags = flags};

	stream_span(s, &span);
}

/* A product of f32 on a thread. */
static void ranges_product(struct stream *s, uint32_t context, uint32_t tid, uint16_t depth,
			   uint64_t at, uint64_t duration, uint64_t flops)
{
	struct perfx_span span = {.start_ns = STREAM_START + at,
				  .duration_ns = duration,
				  .self_ns = duration,
				  .context = context,
				  .tid = tid,
				  .depth = depth,
				  .cost_state = flops ? PERFX_COST_COUNTED : PERFX_COST_UNREAD,
				  .dtype = PERFX_DTYPE_F32,
				  .flops = flops,
				  .bytes = flops / 100};

	stream_span(s, &span);
}

static void ranges_trainer(struct stream *s)
{
	stream_process(s, 1, 4242, "python3", "python3\x1ftrain.py");
	stream_thread(s, 1, 4242, "python3", 'R', 0, 0, 0);
	stream_thread(s, 1, 4250, "pt_autograd_0", 'R', 0, 0, 0);
	ranges_range(s, RANGES_EPOCH, "epoch", PERFX_SOURCE_NVTX, 0);
	ranges_range(s, RANGES_DATA, LOADER, PERFX_SOURCE_TORCH, 0);
	ranges_range(s, RANGES_ZERO, "Optimizer.zero_grad#SGD.zero_grad", PERFX_SOURCE_TORCH, 0);
	ranges_range(s, RANGES_FORWARD, "forward", PERFX_SOURCE_NVTX, 0);
	stream_function(s, RANGES_ADDMM, "at::_ops::addmm::call", TORCH, PERFX_SOURCE_TORCH);
	stream_function(s, RANGES_BACKWARD, "torch::autograd::Engine::execute", TORCH,
			PERFX_SOURCE_TORCH);
	stream_function(s, RANGES_MM, "at::_ops::mm::call", TORCH, PERFX_SOURCE_TORCH);
	ranges_range(s, RANGES_STEP, "Optimizer.step#SGD.step", PERFX_SOURCE_TORCH, 0);
	ranges_range(s, RANGES_COPY, "copy to device", PERFX_SOURCE_ROCTX, 0);
	stream_function(s, RANGES_PREPARE, "prepare", TRAINER, PERFX_SOURCE_PERFX);
	ranges_range(s, RANGES_OUTLIVES, "outlives", PERFX_SOURCE_TORCH, 0);
	stream_context(s, RANGES_EPOCH, 0, RANGES_EPOCH, 1);
	stream_context(s, RANGES_DATA, RANGES_EPOCH, RANGES_DATA, 1);
	stream_context(s, RANGES_ZERO, RANGES_EPOCH, RANGES_ZERO, 1);
	stream_context(s, RANGES_FORWARD, RANGES_EPOCH, RANGES_FORWARD, 1);
	stream_context(s, RANGES_ADDMM, RANGES_FORWARD, RANGES_ADDMM, 1);
	stream_context(s, RANGES_BACKWARD, RANGES_EPOCH, RANGES_BACKWARD, 1);
	stream_context(s, RANGES_MM, RANGES_BACKWARD, RANGES_MM, 1);
	stream_context(s, RANGES_STEP, RANGES_EPOCH, RANGES_STEP, 1);
	stream_context(s, RANGES_COPY, 0, RANGES_COPY, 1);
	stream_context(s, RANGES_PREPARE, 0, RANGES_PREPARE, 1);
	stream_context(s, RANGES_OUTLIVES, RANGES_PREPARE, RANGES_OUTLIVES, 1);
	stream_context(s, RANGES_MM_ELSEWHERE, 0, RANGES_MM, 1);
}

/* 100 ms: data 10, zero_grad 5, forward 30 with a product of 3 GFLOP, backward 40 with one of 2 on
 * its own thread and one of 1 on another, the optimizer 10. A copy that another thread ends goes on
 * into the backward pass. */
static void ranges_step(struct stream *s, uint64_t at, uint64_t data)
{
	ranges_span(s, RANGES_DATA, 4242, 1, at, data, data, 0);
	at += data;
	ranges_span(s, RANGES_ZERO, 4242, 1, at, 5 * MS, 5 * MS, 0);
	ranges_product(s, RANGES_ADDMM, 4242, 2, at + 10 * MS, 20 * MS, 3000000000);
	ranges_span(s, RANGES_FORWARD, 4242, 1, at + 5 * MS, 30 * MS, 10 * MS, 0);
	ranges_span(s, RANGES_COPY, 4242, 0, at + 15 * MS, 30 * MS, 30 * MS, PERFX_SPAN_ASYNC);
	ranges_product(s, RANGES_MM, 4242, 2, at + 40 * MS, 20 * MS, 2000000000);
	ranges_product(s, RANGES_MM_ELSEWHERE, 4250, 0, at + 40 * MS, 30 * MS, 1000000000);
	ranges_span(s, RANGES_BACKWARD, 4242, 1, at + 35 * MS, 40 * MS, 20 * MS, 0);
	ranges_span(s, RANGES_STEP, 4242, 1, at + 76 * MS, 10 * MS, 10 * MS, 0);
}

/* Ten steps, of which the seventh waits for its data; after them a range that outlives the call
 * that opened it, two copies at a time, and a product that could not be read. */
static void golden_ranges(struct stream *s)
{
	uint64_t at = 10 * MS;

	stream_host(s);
	ranges_trainer(s);
	stream_peak(s, 1, PERFX_DTYPE_F32, 100000000000, 10000000000);
	stream_peak(s, 2, PERFX_DTYPE_F32, 190000000000, 15000000000);
	stream_usage(s, 1, 0, 0, 0, 300 << 20);
	for (int step = 0; step < 10; step++) {
		uint64_t data = step == 6 ? 100 * MS : 10 * MS;

		if (step == 4)
			ranges_product(s, RANGES_ADDMM, 4242, 2, at + 1 * MS, 1 * MS, 0);
		ranges_step(s, at, data);
		at += 90 * MS + data;
	}
	ranges_span(s, RANGES_EPOCH, 4242, 0, 5 * MS, at - 5 * MS, 150 * MS, 0);
	ranges_span(s, RANGES_PREPARE, 4242, 0, at + 10 * MS, 20 * MS, 20 * MS, 0);
	ranges_span(s, RANGES_OUTLIVES, 4242, 0, at + 20 * MS, 20 * MS, 20 * MS, 0);
	ranges_span(s, RANGES_COPY, 4242, 0, at + 15 * MS, 40 * MS, 40 * MS, PERFX_SPAN_ASYNC);
	ranges_span(s, RANGES_COPY, 4250, 0, at + 25 * MS, 40 * MS, 40 * MS, PERFX_SPAN_ASYNC);
	stream_usage(s, 1, 2 * S, 1900 * MS, 100 * MS, 310 << 20);
	stream_thread(s, 1, 4242, "python3", 'R', 2 * S, 1700 * MS, 0);
	stream_thread(s, 1, 4250, "pt_autograd_0", 'R', 2 * S, 300 * MS, 0);
	stream_end(s, 2 * S, 0);
}

/* Steps of which little is known: nobody measured the host, most products cannot be read, some ends
 * of steps and some products found no room in the ring. */
static void golden_ranges_blind(struct stream *s)
{
	stream_host(s);
	ranges_trainer(s);
	stream_usage(s, 1, 0, 0, 0, 300 << 20);
	for (uint64_t at = 0; at < 1000 * MS; at += 100 * MS) {
		ranges_product(s, RANGES_MM_ELSEWHERE, 4250, 0, at + 20 * MS, 10 * MS,
			       at == 300 * MS ? 500000000 : 0);
		ranges_span(s, RANGES_STEP, 4242, 0, at + 50 * MS, 10 * MS, 10 * MS, 0);
	}
	stream_plain(s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls,
		     .context = RANGES_STEP, .calls_count = 3, .total_ns = 30 * MS,
		     .self_ns = 30 * MS);
	stream_plain(s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls,
		     .context = RANGES_MM_ELSEWHERE, .calls_count = 3, .total_ns = 30 * MS,
		     .self_ns = 30 * MS, .flops = 1500000000, .bytes = 15000000,
		     .counted_count = 3);
	stream_usage(s, 1, 1 * S, 900 * MS, 0, 300 << 20);
	stream_loss(s, PERFX_LOSS_RING_DROPS, 6);
	stream_end(s, 1 * S, 0);
}

#endif
