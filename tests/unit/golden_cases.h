/* SPDX-License-Identifier: BSD-2-Clause */
/* The captures that the golden reports are made of. */
#ifndef GOLDEN_CASES_H
#define GOLDEN_CASES_H

#include "stream_builder.h"

#define TRAINER "/opt/train/trainer"
#define BLAS	"/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblasp-r0.3.21.so"
#define TORCH	"/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13"

#include "golden_annotations.h"
#include "golden_code.h"
#include "golden_compute.h"
#include "golden_energy.h"
#include "golden_gpu.h"
#include "golden_memory.h"
#include "golden_ranges.h"

/* A C trainer: train_step calls gemm and softmax; a child loads data. */
static void golden_ordinary(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 4242, "trainer",
		       "./trainer\x1f--epochs\x1f"
		       "3\x1f--data\x1fmy data");
	stream_function(s, 1, "train_step", TRAINER, PERFX_SOURCE_PERFX);
	stream_function(s, 2, "cblas_sgemm", BLAS, PERFX_SOURCE_BLAS);
	stream_function(s, 3, "nn::softmax<float>", TRAINER, PERFX_SOURCE_SYMBOL);
	stream_function(s, 4, "load_batch", TRAINER, PERFX_SOURCE_PERFX);
	for (uint32_t f = 1; f <= 4; f++) {
		stream_probe(s, 2 * f - 1, f, PERFX_SITE_PUSH, false, 100 * f);
		stream_probe(s, 2 * f, f, PERFX_SITE_BRANCH, true, 100 * f);
	}
	stream_add(s, PERFX_KIND_NOT_ATTACHED, struct perfx_not_attached,
		   STRINGS("cblas_xerbla", "no safe place for a probe"), .count = 3);
	stream_usage(s, 1, 0, 5 * S, 1 * S, 300 << 20);
	stream_thread(s, 1, 4242, "trainer", 'R', 0, 4 * S, 0);
	stream_thread(s, 1, 4250, "trainer", 'S', 0, 1 * S, 0);
	stream_context(s, 1, 0, 1, 1);
	stream_context(s, 2, 1, 2, 1);
	stream_context(s, 3, 1, 3, 1);
	stream_plain(s, PERFX_KIND_FORK, struct perfx_fork, .time_ns = STREAM_START + 1 * S,
		     .process = 2, .parent_process = 1, .pid = 4300, .ppid = 4242);
	stream_context(s, 4, 0, 4, 2);
	for (uint64_t i = 0; i < 90; i++) {
		uint64_t at = i * 100 * MS;

		stream_call(s, 2, 4242, at, 60 * MS + i * 100 * US, 60 * MS + i * 100 * US, 0);
		stream_call(s, 3, 4242, at + 70 * MS, 15 * MS, 15 * MS, 0);
		stream_call(s, 1, 4242, at, 90 * MS + i * 100 * US, 15 * MS, 0);
	}
	for (uint64_t i = 0; i < 40; i++)
		stream_call(s, 4, 4300, 2 * S + i * 100 * MS, 20 * MS, 20 * MS, 0);
	stream_plain(s, PERFX_KIND_EXIT, struct perfx_exit, .time_ns = STREAM_START + 8 * S,
		     .process = 2, .pid = 4300, .status = 0, .runtime_ns = 900 * MS,
		     .user_tick_ns = 80 * MS, .system_tick_ns = 10 * MS);
	stream_usage(s, 1, 5 * S, 9 * S, 1500 * MS, 310 << 20);
	stream_usage(s, 1, 10 * S, 13 * S, 2 * S, 305 << 20);
	stream_thread(s, 1, 4242, "trainer", 'R', 10 * S, 13 * S, 200 * MS);
	stream_thread(s, 1, 4250, "trainer", 'S', 10 * S, 1 * S + 50 * MS, 0);
	stream_loss(s, PERFX_LOSS_UNMATCHED_ENTRIES, 1);
	stream_end(s, 10 * S, 0);
}

/* Attached to a process that called none of it. */
static void golden_silent(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 77, "python3", "python3\x1fserve.py");
	stream_function(s, 1, "at::_ops::mm::call", TORCH, PERFX_SOURCE_TORCH);
	stream_probe(s, 1, 1, PERFX_SITE_PUSH, false, 0);
	stream_usage(s, 1, 0, 3 * S, 0, 100 << 20);
	stream_thread(s, 1, 77, "python3", 'S', 0, 3 * S, 0);
	stream_usage(s, 1, 5 * S, 3 * S + 20 * MS, 0, 100 << 20);
	stream_thread(s, 1, 77, "python3", 'S', 5 * S, 3 * S + 20 * MS, 0);
	stream_end(s, 5 * S, PERFX_END_INTERRUPTED);
}

/* Most records found no room; the overflow sums have them. */
static void golden_overflow(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 4242, "trainer", "./trainer");
	stream_function(s, 1, "outer", TRAINER, PERFX_SOURCE_SYMBOL);
	stream_function(s, 2, "inner", TRAINER, PERFX_SOURCE_SYMBOL);
	stream_probe(s, 1, 1, PERFX_SITE_PUSH, false, 1100);
	stream_probe(s, 2, 2, PERFX_SITE_PUSH, false, 20000000);
	stream_usage(s, 1, 0, 0, 0, 10 << 20);
	stream_context(s, 1, 0, 1, 1);
	stream_context(s, 2, 1, 2, 1);
	for (uint64_t i = 0; i < 10; i++) {
		stream_call(s, 2, 4242, i * MS, 300, 300, 0);
		stream_call(s, 1, 4242, i * MS, 900 * US, 600 * US, 0);
	}
	stream_usage(s, 1, 2 * S, 2 * S, 0, 10 << 20);
	stream_plain(s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls, .context = 1,
		     .calls_count = 990, .total_ns = 990 * MS, .self_ns = 300 * MS);
	stream_plain(s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls, .context = 2,
		     .calls_count = 1999990, .total_ns = 1999990 * 345ULL,
		     .self_ns = 1999990 * 345ULL);
	stream_loss(s, PERFX_LOSS_RING_DROPS, 2000980);
	stream_end(s, 2 * S, 0);
}

/* Exceptions, and a function whose exits are not known. */
static void golden_unwound(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 99, "python3", "python3\x1ftrain.py");
	stream_function(s, 1, "at::_ops::mm::call", TORCH, PERFX_SOURCE_TORCH);
	stream_function(s, 2, "at::native::jump", TORCH, PERFX_SOURCE_SYMBOL);
	/* an overload: the same name elsewhere */
	stream_function(s, 3, "at::_ops::mm::call", TORCH, PERFX_SOURCE_TORCH);
	stream_context(s, 1, 0, 1, 1);
	stream_context(s, 2, 1, 2, 1);
	stream_context(s, 3, 0, 3, 1);
	for (uint64_t i = 0; i < 50; i++) {
		stream_call(s, 2, 99, i * 10 * MS, 0, 0, PERFX_SPAN_UNTIMED);
		if (i % 2)
			stream_call(s, 1, 99, i * 10 * MS, 0, 0, PERFX_SPAN_UNWOUND);
		else
			stream_call(s, 1, 99, i * 10 * MS, 1 * MS + i, 1 * MS + i, 0);
	}
	stream_call(s, 3, 99, 600 * MS, 5 * MS, 5 * MS, 0);
	stream_loss(s, PERFX_LOSS_UNTIMED_CALLS, 50);
	stream_end(s, 1 * S, 0);
}

/* kill -9 after three seconds. */
static void golden_killed(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 4242, "trainer", "./trainer");
	stream_function(s, 1, "train_step", TRAINER, PERFX_SOURCE_PERFX);
	stream_probe(s, 1, 1, PERFX_SITE_NOP5, false, 31);
	stream_usage(s, 1, 0, 1 * S, 0, 64 << 20);
	stream_context(s, 1, 0, 1, 1);
	for (uint64_t i = 0; i < 30; i++)
		stream_call(s, 1, 4242, i * 100 * MS, 90 * MS, 90 * MS, 0);
	stream_plain(s, PERFX_KIND_EXIT, struct perfx_exit, .time_ns = STREAM_START + 3 * S,
		     .process = 1, .pid = 4242, .status = 9, .runtime_ns = 3900 * MS,
		     .user_tick_ns = 380, .system_tick_ns = 10);
	stream_loss(s, PERFX_LOSS_UNMATCHED_ENTRIES, 1);
	stream_end(s, 3 * S, PERFX_END_TARGET_KILLED);
}

/* The disk was full: no end, and half a record. */
static void golden_truncated(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 4242, "trainer", "./trainer");
	stream_function(s, 1, "train_step", TRAINER, PERFX_SOURCE_PERFX);
	stream_context(s, 1, 0, 1, 1);
	for (uint64_t i = 0; i < 11; i++)
		stream_call(s, 1, 4242, i * 100 * MS, 90 * MS, 90 * MS, 0);
	s->bytes.length -= 20;
}

/* Ranges, one of them a step, whose names are the program's text. */
static void hostile_ranges(struct stream *s, uint32_t functions)
{
	static const char *const names[] = {"=HYPERLINK(\"http://example.org\")|`<b>\x1b[5m",
					    "</title><script>alert(2)</script>\n| s | t |"};

	for (uint32_t i = 0; i < 2; i++) {
		ranges_range(s, functions + 1 + i, names[i], PERFX_SOURCE_NVTX,
			     i ? PERFX_FUNCTION_STEP : 0);
		stream_context(s, functions + 1 + i, i ? functions + i : 0, functions + 1 + i, 1);
	}
	for (uint64_t at = 100 * MS; at < 600 * MS; at += 100 * MS)
		ranges_span(s, functions + 2, 667, 1, at, 50 * MS, 50 * MS, 0);
	ranges_span(s, functions + 1, 667, 0, 90 * MS, 500 * MS, 250 * MS, 0);
	ranges_span(s, functions + 1, 667, 0, 300 * MS, 400 * MS, 400 * MS, PERFX_SPAN_ASYNC);
}

/* Everything that a name can do to a report. */
static void golden_hostile(struct stream *s)
{
	static const char *const names[] = {
		"<script>alert(1)</script>",
		"operator|(Flags, Flags)",
		"a`b``c",
		"\x1b[31mred\x1b[0m\x07",
		"bad\xff\xc3utf8\xed\xa0\x80",
		"line\nbreak\r\n| x | y |",
		"\xe2\x80\xaeright-to-left\xe2\x80\x8b",
		"# heading\\",
		" [link](http://example.org) @someone ",
		"**bold** _under_ ~~gone~~ &amp; $x$ <!-- -->",
		"日本語の関数_\xf0\x9f\x98\x80",
		"",
		"a_function_with_a_name_that_is_much_longer_than_any_terminal_is_wide::and_that_"
		"goes_"
		"on<std::vector<std::map<std::string, unsigned long>>>::until_the_very_end",
	};
	uint32_t count = sizeof(names) / sizeof(names[0]);

	stream_host(s);
	stream_process(s, 1, 666, "a|b`<i>\n\x1b]0;x\x07",
		       "sh\x1f-c\x1f<b>`id`</b> | tee\n\x1b[2J\x1f|\x1f\xff");
	stream_place_of(s, 1,
			(const char *const[PERFX_PLACES]){
				[PERFX_PLACE_CGROUP] = "/evil\x1b[2J/|<b>`\xff",
				[PERFX_PLACE_UNIT] = "<i>\n.service",
				[PERFX_PLACE_RUNTIME] = "doc\"ker\\",
				[PERFX_PLACE_CONTAINER_ID] = "\x1b]0;x\x07\xe6\x97\xa5\xe6\x9c\xac",
				[PERFX_PLACE_CONTAINER] = "a|b`<i>\"\\\n",
				[PERFX_PLACE_POD] = "</script>\xff",
				[PERFX_PLACE_NAMESPACE] = "",
				[PERFX_PLACE_JOB] = "**4711**",
				[PERFX_PLACE_JOB_STEP] = "\xe2\x80\xae"
							 "0",
			});
	for (uint32_t f = 1; f <= count; f++) {
		stream_function(s, f, names[f - 1], f % 2 ? "/tmp/evil|`<x>.so" : "/tmp/\n.so",
				PERFX_SOURCE_SYMBOL);
		stream_context(s, f, f - 1, f, 1);
		stream_call(s, f, 666, f * MS, (40 - f) * 10 * MS, (40 - f) * 10 * MS, 0);
	}
	stream_probe(s, 1, 4, PERFX_SITE_STEPPED, false, 5);
	stream_add(s, PERFX_KIND_NOT_ATTACHED, struct perfx_not_attached,
		   STRINGS("x|y\x1b[1m", "cannot read `/tmp/\n<evil>`"), .count = 1);
	hostile_ranges(s, count);
	hostile_memory(s);
	hostile_code(s);
	stream_thread(s, 1, 666, "t\x1b[5m|`", '\x1b', 0, 0, 0);
	stream_thread(s, 1, 666, "t\x1b[5m|`", '\x1b', 1 * S, 500 * MS, 0);
	stream_end(s, 1 * S, 0);
}

/* A process that is short of everything. */
static void golden_findings(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 4242, "python3", "python3\x1ftrain.py\x1f--token\x1f***");
	stream_function(s, 1, "at::_ops::add_::call", TORCH, PERFX_SOURCE_TORCH);
	stream_probe(s, 1, 1, PERFX_SITE_STEPPED, false, 200000);
	stream_plain(s, PERFX_KIND_CALIBRATION, struct perfx_calibration, .cost_ps = 520500,
		     .link = PERFX_LINK_MULTI, .ret = PERFX_RETURN_EXIT,
		     .site = PERFX_SITE_STEPPED);
	stream_context(s, 1, 0, 1, 1);
	for (uint64_t i = 0; i < 6; i++) {
		struct perfx_usage usage = usage_absent(1, i * 400 * MS);

		usage.cpu_user_ns = i * 90 * MS;
		usage.cpu_system_ns = i * 10 * MS;
		usage.rss_bytes = (100 + 10 * i) << 20;
		usage.read_bytes = i * (60 << 20);
		usage.write_bytes = 0;
		usage.throttled_ns = i * 50 * MS;
		usage.throttled_count = 2 * i;
		usage.throttle_periods_count = 4 * i;
		usage.major_faults_count = 100 * i;
		stream_put(s, PACK(&s->buffer, PERFX_KIND_USAGE, usage));
	}
	stream_thread(s, 1, 4242, "python3", 'D', 0, 0, 0);
	stream_thread(s, 1, 4242, "python3", 'D', 2 * S, 500 * MS, 250 * MS);
	stream_plain(s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls, .context = 1,
		     .calls_count = 100000, .total_ns = 300 * MS, .self_ns = 300 * MS);
	stream_end(s, 2 * S, 0);
}

/* Three workers of a loader that do the same, and what attaching cannot see. */
static void golden_workers(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 4242, "python3", "python3\x1ftrain.py");
	stream_function(s, 1, "at::_ops::mm::call", TORCH, PERFX_SOURCE_TORCH);
	stream_function(s, 2, "at::_ops::stack::call", TORCH, PERFX_SOURCE_TORCH);
	stream_function(s, 3, "at::_ops::copy_::call", TORCH, PERFX_SOURCE_TORCH);
	stream_add(s, PERFX_KIND_NOT_ATTACHED, struct perfx_not_attached,
		   STRINGS("Python functions", "cannot be traced by attaching"), .count = 1,
		   .flags = PERFX_NOT_ATTACHED_BY_DESIGN);
	stream_context(s, 1, 0, 1, 1);
	for (uint64_t i = 0; i < 10; i++)
		stream_call(s, 1, 4242, i * 100 * MS, 20 * MS, 20 * MS, 0);
	for (uint32_t p = 2; p <= 4; p++) {
		stream_plain(s, PERFX_KIND_FORK, struct perfx_fork, .time_ns = STREAM_START,
			     .process = p, .parent_process = 1, .pid = 4300 + p, .ppid = 4242);
		stream_context(s, 2 * p, 0, 2, p);
		stream_context(s, 2 * p + 1, 2 * p, 3, p);
		for (uint64_t i = 0; i < 10; i++) {
			stream_call(s, 2 * p + 1, 4300 + p, i * 100 * MS, 30 * MS, 30 * MS, 0);
			stream_call(s, 2 * p, 4300 + p, i * 100 * MS, 40 * MS + p * MS,
				    10 * MS + p * MS, 0);
		}
		stream_usage(s, p, 0, 0, 0, 200 << 20);
		stream_usage(s, p, 1 * S, p * 100 * MS, 0, 200 << 20);
	}
	stream_end(s, 1 * S, 0);
}

struct golden_case {
	const char *name;
	void (*build)(struct stream *stream);
};

static const struct golden_case golden_cases[] = {
	{"ordinary", golden_ordinary},
	{"silent", golden_silent},
	{"overflow", golden_overflow},
	{"unwound", golden_unwound},
	{"killed", golden_killed},
	{"truncated", golden_truncated},
	{"hostile", golden_hostile},
	{"findings", golden_findings},
	{"memory", golden_memory},
	{"memory-sampled", golden_memory_sampled},
	{"memory-lost", golden_memory_lost},
	{"compute", golden_compute},
	{"compute-blind", golden_compute_blind},
	{"workers", golden_workers},
	{"annotations", golden_annotations},
	{"gpu", golden_gpu},
	{"gpu-calls", golden_gpu_calls},
	{"ranges", golden_ranges},
	{"ranges-blind", golden_ranges_blind},
	{"code", golden_code},
	{"energy", golden_energy},
	{"energy-ranks", golden_energy_ranks},
};

#define GOLDEN_CASES (sizeof(golden_cases) / sizeof(golden_cases[0]))

#endif
