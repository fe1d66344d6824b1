/* SPDX-License-Identifier: BSD-2-Clause */
/* Captures with floating-point work for golden reports. */
#ifndef GOLDEN_COMPUTE_H
#define GOLDEN_COMPUTE_H

#include "stream_builder.h"

#define NCCL "/usr/lib/x86_64-linux-gnu/libnccl.so.2"

/* Functions and, where they are called by the step, their contexts. */
enum {
	COMPUTE_STEP = 1,
	COMPUTE_ADDMM,
	COMPUTE_BMM,
	COMPUTE_MV,
	COMPUTE_MM,
	COMPUTE_BADDBMM,
	COMPUTE_SGEMM,
	COMPUTE_REDUCE,
	COMPUTE_SGEMM_IN_ADDMM, /* contexts only */
	COMPUTE_SGEMM_IN_BADDBMM
};

static void compute_trainer(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 4242, "python3", "python3\x1ftrain.py");
	stream_function(s, COMPUTE_STEP, "train_step", TRAINER, PERFX_SOURCE_PERFX);
	stream_function(s, COMPUTE_ADDMM, "at::_ops::addmm::call", TORCH, PERFX_SOURCE_TORCH);
	stream_function(s, COMPUTE_BMM, "at::_ops::bmm::call", TORCH, PERFX_SOURCE_TORCH);
	stream_function(s, COMPUTE_MV, "at::_ops::mv::call", TORCH, PERFX_SOURCE_TORCH);
	stream_function(s, COMPUTE_MM, "at::_ops::mm::call", TORCH, PERFX_SOURCE_TORCH);
	stream_function(s, COMPUTE_BADDBMM, "at::_ops::baddbmm::call", TORCH, PERFX_SOURCE_TORCH);
	stream_function(s, COMPUTE_SGEMM, "cblas_sgemm", BLAS, PERFX_SOURCE_BLAS);
	stream_function(s, COMPUTE_REDUCE, "ncclAllReduce", NCCL, PERFX_SOURCE_NCCL);
	for (uint32_t f = COMPUTE_STEP; f <= COMPUTE_REDUCE; f++)
		stream_probe(s, f, f, PERFX_SITE_PUSH, false, 1000);
	stream_context(s, COMPUTE_STEP, 0, COMPUTE_STEP, 1);
	for (uint32_t f = COMPUTE_ADDMM; f <= COMPUTE_BADDBMM; f++)
		stream_context(s, f, COMPUTE_STEP, f, 1);
	/* a pool's thread calls it from nowhere */
	stream_context(s, COMPUTE_SGEMM, 0, COMPUTE_SGEMM, 1);
	stream_context(s, COMPUTE_REDUCE, COMPUTE_STEP, COMPUTE_REDUCE, 1);
	stream_context(s, COMPUTE_SGEMM_IN_ADDMM, COMPUTE_ADDMM, COMPUTE_SGEMM, 1);
	stream_context(s, COMPUTE_SGEMM_IN_BADDBMM, COMPUTE_BADDBMM, COMPUTE_SGEMM, 1);
}

/* 1024 × 1536 by 1536 × 1024 of f32, five times, in 20 ms each: 161 GFLOP/s. BLAS inside and on a
 * pool's thread is silent. */
static void compute_addmm(struct stream *s, uint64_t at)
{
	const struct stream_cost addmm = {PERFX_COST_COUNTED, PERFX_DTYPE_F32,
					  2ULL * 1024 * 1536 * 1024,
					  4ULL * (2 * 1024 * 1536 + 1024 * 1024)},
				 inside = {.state = PERFX_COST_INSIDE},
				 elsewhere = {.state = PERFX_COST_ELSEWHERE};

	for (uint64_t i = 0; i < 5; i++, at += 20 * MS) {
		stream_compute(s, COMPUTE_SGEMM_IN_ADDMM, 4242, at, 19 * MS, 19 * MS, inside);
		stream_compute(s, COMPUTE_SGEMM, 4250, at, 18 * MS, 18 * MS, elsewhere);
		stream_compute(s, COMPUTE_ADDMM, 4242, at, 20 * MS, 1 * MS, addmm);
	}
}

/* The rest of a step, with an all-reduce among eight: 64 times 256 × 512 by 512 × 256 of bf16 in 25
 * ms; a matrix of 8192 × 4096 by a vector; small products; one that cannot be read, with BLAS
 * inside that can. */
static void compute_others(struct stream *s, uint64_t at)
{
	const struct stream_cost bmm = {PERFX_COST_COUNTED, PERFX_DTYPE_BF16,
					2ULL * 64 * 256 * 512 * 256,
					2ULL * 64 * (2 * 256 * 512 + 256 * 256)},
				 mv = {PERFX_COST_COUNTED, PERFX_DTYPE_F32, 2ULL * 8192 * 4096,
				       4ULL * (8192 * 4096 + 8192 + 4096)},
				 mm = {PERFX_COST_COUNTED, PERFX_DTYPE_F32, 2ULL * 32 * 32 * 32,
				       4ULL * 3 * 32 * 32},
				 sgemm = {PERFX_COST_COUNTED, PERFX_DTYPE_F32, 2000000000,
					  20000000},
				 unread = {.state = PERFX_COST_UNREAD};

	for (uint64_t i = 0; i < 3; i++)
		stream_compute(s, COMPUTE_BMM, 4242, at + i * 25 * MS, 25 * MS, 25 * MS, bmm);
	for (uint64_t i = 0; i < 5; i++)
		stream_compute(s, COMPUTE_MV, 4242, at + (75 + i * 12) * MS, 12 * MS, 12 * MS, mv);
	for (uint64_t i = 0; i < 700; i++)
		stream_compute(s, COMPUTE_MM, 4242, at + 135 * MS + i * 80 * US, 80 * US, 80 * US,
			       mm);
	stream_compute(s, COMPUTE_SGEMM_IN_BADDBMM, 4242, at + 200 * MS, 20 * MS, 20 * MS, sgemm);
	stream_compute(s, COMPUTE_BADDBMM, 4242, at + 200 * MS, 100 * MS, 80 * MS, unread);
	stream_move(s, COMPUTE_REDUCE, 4242, at + 300 * MS, 1 * MS, 4 << 20, (4 << 20) / 8 * 14);
}

/* Counters of the hardware: one of two threads computes for addmm, mv does a little more than its
 * arguments say, of baddbmm every second call was missed. */
static void compute_perf_counters(struct stream *s)
{
	stream_perf_counter(s, 0, "cycles", "cycles", PERFX_PERF_COUNTER_PLAIN);
	stream_perf_counter(s, 1, "instructions", "instructions", PERFX_PERF_COUNTER_PLAIN);
	stream_perf_counter(s, 2, "flops", "operations", PERFX_PERF_COUNTER_FLOPS);
	stream_plain(s, PERFX_KIND_CALL_COUNTERS, struct perfx_call_counters,
		     .context = COMPUTE_ADDMM, .calls_count = 100,
		     .values = {6000000000, 9000000000, 161061273600}, .flops = 322122547200,
		     .counted_flops = 161061273600);
	stream_plain(s, PERFX_KIND_CALL_COUNTERS, struct perfx_call_counters, .context = COMPUTE_MV,
		     .calls_count = 100, .values = {3600000000, 900000000, 6778600000},
		     .flops = 6710886400, .counted_flops = 6778600000);
	stream_plain(s, PERFX_KIND_CALL_COUNTERS, struct perfx_call_counters,
		     .context = COMPUTE_BADDBMM, .calls_count = 10, .missed_count = 10,
		     .values = {2000000000, 4000000000, 20000000001});
	stream_plain(s, PERFX_KIND_CALL_COUNTERS, struct perfx_call_counters,
		     .context = COMPUTE_STEP, .calls_count = 20,
		     .values = {24000000000, 30000000000, 470000000000});
	stream_plain(s, PERFX_KIND_PROCESS_COUNTERS, struct perfx_process_counters, .process = 1,
		     .threads_count = 9, .values = {50000000000, 66000000000, 640000000000},
		     .enabled_ns = 100 * S, .running_ns = 95 * S);
}

/* A transformer of f32 and bf16, half a second a step. */
static void golden_compute(struct stream *s)
{
	compute_trainer(s);
	stream_peak(s, 1, PERFX_DTYPE_F32, 100000000000, 10000000000);
	stream_peak(s, 1, PERFX_DTYPE_BF16, 200000000000, 10000000000);
	stream_peak(s, 2, PERFX_DTYPE_F32, 190000000000, 15000000000);
	stream_peak(s, 2, PERFX_DTYPE_BF16, 380000000000, 15000000000);
	stream_usage(s, 1, 0, 5 * S, 1 * S, 300 << 20);
	for (uint64_t step = 0; step < 20; step++) {
		uint64_t at = step * 500 * MS;

		compute_addmm(s, at);
		compute_others(s, at + 100 * MS);
		stream_call(s, COMPUTE_STEP, 4242, at, 480 * MS, 88 * MS, 0);
	}
	stream_call(s, COMPUTE_ADDMM, 4242, 9990 * MS, 0, 0, PERFX_SPAN_UNWOUND);
	compute_perf_counters(s);
	stream_usage(s, 1, 10 * S, 21 * S, 1500 * MS, 310 << 20);
	stream_end(s, 10 * S, 0);
}

/* Of most calls nothing is known; the rest came by the overflow sums; the host was not measured.
 * Memory is traced as well: the widest table. */
static void golden_compute_blind(struct stream *s)
{
	static const struct stream_place result = {1, 4242, COMPUTE_BMM, 0, 1, PERFX_DOMAIN_TENSOR};

	compute_trainer(s);
	stream_no_perf_counter(s, "a virtual machine without performance counters");
	stream_usage(s, 1, 0, 0, 0, 300 << 20);
	stream_allocator(s, 1, PERFX_DOMAIN_TENSOR, "torch", "/usr/lib/libc10.so");
	stream_memory_mode(s, 0, PERFX_DOMAIN_TENSOR, PERFX_MEMORY_EXACT, 0);
	stream_allocation(s, &result, 10 * MS, 0x1000, 8 << 20, 0);
	for (uint64_t i = 0; i < 10; i++)
		stream_compute(s, COMPUTE_BADDBMM, 4242, i * 100 * MS, 90 * MS, 90 * MS,
			       (struct stream_cost){.state = PERFX_COST_UNREAD});
	/* of one communicator it is known how many ranks it has */
	for (uint64_t i = 0; i < 2; i++)
		stream_move(s, COMPUTE_REDUCE, 4242, 999 * MS, 10 * US, 1000000, i * 1000000);
	stream_plain(s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls,
		     .context = COMPUTE_BMM, .calls_count = 100, .total_ns = 80 * MS,
		     .self_ns = 80 * MS, .flops = 2000000000, .bytes = 40000000,
		     .counted_count = 80, .nested_count = 20);
	stream_usage(s, 1, 1 * S, 900 * MS, 0, 300 << 20);
	stream_loss(s, PERFX_LOSS_RING_DROPS, 100);
	stream_end(s, 1 * S, 0);
}

#endif
