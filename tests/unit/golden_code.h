/* SPDX-License-Identifier: BSD-2-Clause */
/* A trainer in Python for golden reports: whose lines compute, allocate and wait. */
#ifndef GOLDEN_CODE_H
#define GOLDEN_CODE_H

#include "golden_memory.h" /* LIBC */
#include "stream_builder.h"

#define CODE_TRAIN   "/opt/train/train.py"
#define CODE_LIBC10  "/opt/torch/lib/libc10.so"
#define CODE_TORCH   "/opt/torch/lib/libtorch_cpu.so"
#define CODE_PYTHON  "/usr/bin/python3.11"
#define CODE_DNNL    0x9000 /* compiled at run time */
#define CODE_FORWARD python_frame(0x7f0000001000, 12)
#define CODE_STEP    python_frame(0x7f0000002000, 40)
#define CODE_LOAD    python_frame(0x7f0000003000, 7)
#define CODE_GONE    python_frame(0x7f0000004000, 3)

/* Stacks: 1 a tensor of the forward pass, 2 where mm computes, in the JIT's code, 3 the script's
 * own arithmetic, 4 the loader waits for its file, 5 the trainer for the GIL, 6 guessed in part, 8
 * the loader spins for a buffer. */
static void code_stacks(struct stream *s)
{
	const uint32_t whole = PERFX_STACK_COMPLETE | PERFX_STACK_ENDED(PERFX_STACK_END_START);

	stream_stack(s, 1, 1, whole, 0x1000, 0x2000, CODE_FORWARD, CODE_STEP, 0x3000, 0x3100);
	stream_stack(s, 1, 2, PERFX_STACK_PC | PERFX_STACK_ENDED(PERFX_STACK_END_NO_MAPPING),
		     CODE_DNNL);
	stream_stack(s, 1, 3, whole | PERFX_STACK_PC, CODE_STEP, 0x3000, 0x3100);
	stream_stack(s, 1, 4, whole, 0x4000, CODE_LOAD, 0x3000, 0x3200);
	stream_stack(s, 1, 5, whole, 0x4100, CODE_STEP, 0x3000, 0x3100);
	stream_stack(s, 1, 6, whole | PERFX_STACK_PC | PERFX_STACK_GUESSED, 0x2100, CODE_FORWARD,
		     CODE_STEP, 0x3000, 0x3100);
	stream_stack(s, 1, 7, PERFX_STACK_ENDED(PERFX_STACK_END_NO_RULE), 0x4000, CODE_GONE,
		     0x2200);
	stream_stack(s, 1, 8, whole | PERFX_STACK_PC, 0x4200, CODE_LOAD, 0x3000, 0x3200);
}

static void code_frames(struct stream *s)
{
	stream_frame(s, 1, 0x1000, 0, "c10::alloc_cpu", CODE_LIBC10, 0x5000, "", 0);
	stream_frame(s, 1, 0x2000, 0, "at::native::empty_cpu", CODE_TORCH, 0x6100, "", 0);
	stream_frame(s, 1, 0x2100, 0, "at::native::cpublas::gemm", CODE_TORCH, 0x6200,
		     "/src/aten/CPUBlas.cpp", 190);
	stream_frame(s, 1, 0x2200, 0, "mkl_blas_avx2_sgemm", CODE_TORCH, 0x6300, "", 0);
	stream_frame(s, 1, 0x3000, 0, "_PyEval_EvalFrameDefault", CODE_PYTHON, 0x100, "", 0);
	stream_frame(s, 1, 0x3100, 0, "_start", CODE_PYTHON, 0x200, "", 0);
	stream_frame(s, 1, 0x3200, 0, "clone3", LIBC, 0x300, "", 0);
	stream_frame(s, 1, 0x4000, 0, "read", LIBC, 0x400, "", 0);
	stream_frame(s, 1, 0x4100, 0, "take_gil", CODE_PYTHON, 0x500, "", 0);
	stream_add(s, PERFX_KIND_FRAME, struct perfx_frame,
		   STRINGS("wait_for_buffer", "/opt/train/ring.so", "/opt/train/ring.c"),
		   .address = 0x4200, .process = 1, .line = 12, .flags = PERFX_FRAME_SPINS);
	stream_python_frame(s, 1, CODE_FORWARD, "Model.forward", CODE_TRAIN, 41);
	stream_python_frame(s, 1, CODE_STEP, "train_step", CODE_TRAIN, 57);
	stream_python_frame(s, 1, CODE_LOAD, "Loader.run", "/opt/train/data.py", 18);
	stream_add(s, PERFX_KIND_FRAME, struct perfx_frame, STRINGS("", "", ""),
		   .address = CODE_GONE, .process = 1, .language = PERFX_LANGUAGE_PYTHON,
		   .flags = PERFX_FRAME_GONE);
}

static void code_samples(struct stream *s, uint64_t at)
{
	struct perfx_sample sample = {
		.interval_ns = 10 * MS, .process = 1, .tid = 4242, .state = PERFX_SAMPLE_ON_CPU};

	for (uint64_t i = 0; i < 10; i++) {
		sample.context = i < 6 ? 2 : 0;
		sample.stack = i < 4 ? 6 : i < 6 ? 2 : 3;
		stream_sample(s, at + i * 10 * MS, sample);
	}
	sample.context = 0;
	sample.tid = 4243;
	sample.stack = 8;
	stream_sample(s, at + 90 * MS, sample);
	sample.interval_ns = 50 * MS;
	sample.state = PERFX_SAMPLE_WAITING;
	sample.stack = 4;
	sample.reason = PERFX_WAIT_READ;
	sample.object = 77;
	stream_sample(s, at, sample);
	stream_sample(s, at + 50 * MS, sample);
	sample.tid = 4242;
	sample.stack = at ? 5 : 7;
	sample.reason = PERFX_WAIT_GIL;
	sample.object = 0x7f5000000000;
	sample.holder_tid = 4243;
	stream_sample(s, at + 60 * MS, sample);
}

static void code_waits(struct stream *s)
{
	stream_wait_object(s, 1, PERFX_WAIT_READ, 77, "/data/train.bin");
	stream_wait_object(s, 1, PERFX_WAIT_RUNNABLE, 999, "make");
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = 4243,
		     .reason = PERFX_WAIT_READ, .object = 77, .blocked_ns = 900 * MS, .count = 450,
		     .max_ns = 12 * MS);
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = 4242,
		     .reason = PERFX_WAIT_GIL, .holder_tid = 4243, .object = 0x7f5000000000,
		     .blocked_ns = 210 * MS, .count = 42, .max_ns = 5 * MS);
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = 4242,
		     .reason = PERFX_WAIT_RUNNABLE, .object = 999, .blocked_ns = 60 * MS,
		     .count = 90, .max_ns = 3 * MS);
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = 4242,
		     .reason = PERFX_WAIT_SYSCALL, .syscall = 74, .blocked_ns = 20 * MS, .count = 1,
		     .max_ns = 20 * MS);
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = 4243,
		     .reason = PERFX_WAIT_FUTEX, .object = 0x7f6000000010, .blocked_ns = 4 * MS,
		     .count = 2, .max_ns = 3 * MS);
}

static void code_step(struct stream *s, uint64_t step)
{
	static const struct stream_place tensor = {1, 4242, 2, 1, 1, PERFX_DOMAIN_TENSOR};
	uint64_t at = step * 100 * MS;
	struct perfx_span mm = {.start_ns = STREAM_START + at + 10 * MS,
				.duration_ns = 60 * MS,
				.self_ns = 60 * MS,
				.context = 2,
				.tid = 4242,
				.depth = 1,
				.off_cpu_ns = 15 * MS};

	stream_allocation(s, &tensor, at + 10 * MS, 0x200000, 4 << 20, 0);
	stream_free(s, &tensor, at + 70 * MS, 0x200000, 0, 0);
	stream_span(s, &mm);
	stream_call(s, 1, 4242, at + 5 * MS, 70 * MS, 10 * MS, 0);
	code_samples(s, at);
}

/* One second of a training: `mm` is called in linear from the forward pass; the loader reads a
 * file and holds the GIL. */
static void golden_code(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 4242, "python3", "python3\x1ftrain.py");
	stream_function(s, 1, "at::_ops::linear::call", CODE_TORCH, PERFX_SOURCE_TORCH);
	stream_function(s, 2, "at::_ops::mm::call", CODE_TORCH, PERFX_SOURCE_TORCH);
	stream_probe(s, 1, 1, PERFX_SITE_PUSH, false, 20);
	stream_add(s, PERFX_KIND_PYTHON, struct perfx_python, STRINGS("3.11.2", ""), .process = 1,
		   .flags = PERFX_PYTHON_FRAMES);
	stream_add(s, PERFX_KIND_SAMPLING, struct perfx_sampling, STRINGS(""),
		   .on_cpu_interval_ns = 10 * MS, .off_cpu_interval_ns = 50 * MS,
		   .stacks = PERFX_STACKS_UNWIND);
	stream_allocator(s, 1, PERFX_DOMAIN_TENSOR, "torch", CODE_LIBC10);
	code_stacks(s);
	stream_called_context(s, 1, 0, 1, 1, CODE_FORWARD, 6);
	stream_context(s, 2, 1, 2, 1);
	stream_thread(s, 1, 4242, "python3", 'R', 0, 0, 0);
	stream_thread(s, 1, 4243, "loader", 'S', 0, 0, 0);
	for (uint64_t step = 0; step < 10; step++)
		code_step(s, step);
	stream_thread(s, 1, 4242, "python3", 'R', 1 * S, 700 * MS, 60 * MS);
	stream_thread(s, 1, 4243, "loader", 'S', 1 * S, 90 * MS, 1 * MS);
	stream_usage(s, 1, 0, 0, 0, 200 << 20);
	stream_usage(s, 1, 1 * S, 750 * MS, 40 * MS, 220 << 20);
	code_waits(s);
	stream_plain(s, PERFX_KIND_LOSS, struct perfx_loss, .loss = PERFX_LOSS_SAMPLE_DROPS,
		     .process = 1, .count = 1);
	code_frames(s);
	stream_end(s, 1 * S, 0);
}

/* Names of Python's code, files and objects, and the reasons why something is missing. */
static void hostile_code(struct stream *s)
{
	const uint64_t evil = python_frame(0x7f0000001000, 1);
	const struct perfx_sample sample = {.interval_ns = 10 * MS,
					    .process = 1,
					    .tid = 666,
					    .stack = 90,
					    .state = PERFX_SAMPLE_WAITING,
					    .reason = PERFX_WAIT_READ,
					    .object = 1};

	stream_stack(s, 1, 90, PERFX_STACK_ENDED(PERFX_STACK_END_NO_MAPPING), evil, 0x66);
	stream_sample(s, 10 * MS, sample);
	stream_python_frame(s, 1, evil, "<b>f</b>|`\x1b[31m\n", "/etc/shadow|`<i>\n", 1);
	stream_wait_object(s, 1, PERFX_WAIT_READ, 1, "/tmp/|`<script>\x1b[2J\n");
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = 666,
		     .reason = PERFX_WAIT_READ, .object = 1, .blocked_ns = 5 * MS, .count = 1);
	stream_add(s, PERFX_KIND_PYTHON, struct perfx_python, STRINGS("3|`<x>\n", "<why>|`\x1b"),
		   .process = 1);
	stream_add(s, PERFX_KIND_SAMPLING, struct perfx_sampling, STRINGS("<no>|`\x1b"),
		   .on_cpu_interval_ns = 10 * MS);
}

#endif
