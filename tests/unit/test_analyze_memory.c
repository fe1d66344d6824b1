// SPDX-License-Identifier: BSD-2-Clause
/* Findings about memory, at both sides of their thresholds. */
#include "analyze/leaks.h"
#include "analyze/location.h"
#include "base/escape.h"
#include "memory_scene.h"
#include "profile_parts.h"

#include <math.h>

static const char *plain(const char *sentence)
{
	static char buffers[4][2048];
	static unsigned next;
	char *buffer = buffers[next++ % 4];
	struct text text = {0};

	escape_unmarked(&text, sentence);
	snprintf(buffer, sizeof(buffers[0]), "%s", text_peek(&text));
	text_clear(&text);
	return buffer;
}

static void expect_evidence(const struct memory_scene *s, const char *subject, const char *evidence)
{
	struct analysis *analysis = analyze(&s->profile, NULL);
	const struct finding *f = analysis->processes[0].findings;

	cr_assert_geq(analysis->processes[0].findings_count, 1);
	cr_expect_str_eq(plain(f->subject), subject, "%s", plain(f->subject));
	cr_expect_str_eq(plain(f->evidence), evidence, "%s", plain(f->evidence));
	analysis__free(analysis);
}

static void expect_verdict(const struct memory_scene *s, const char *wanted)
{
	struct analysis *analysis = analyze(&s->profile, NULL);

	cr_expect_str_eq(plain(analysis->verdict), wanted, "%s", plain(analysis->verdict));
	analysis__free(analysis);
}

Test(memory, a_leak)
{
	struct analysis *analysis;
	struct memory_scene s;

	/* 10 a second: 18.2 KiB/s are 64 MiB an hour, 291 KiB/s are 1 GiB */
	scene_set(&s, 10 * S, 320 * MS);
	scene_steps(&s, 100 * MS, 10, 1, 1000);
	expect_kinds(s, "MemoryLeak/low");
	scene_set(&s, 10 * S, 320 * MS);
	scene_steps(&s, 100 * MS, 10, 1, 10000);
	expect_kinds(s, "MemoryLeak/medium");
	scene_set(&s, 10 * S, 320 * MS);
	scene_steps(&s, 100 * MS, 1, 1, 100 << 10);
	expect_kinds(s, "MemoryLeak/high");
	expect_evidence(
		&s, "append (train.c:12)",
		"retains 1000 KiB/s of host heap, 3.43 GiB per hour; 100 live blocks of 100 KiB on "
		"average, allocated throughout the recording, the oldest live for 10.0 s");
	expect_verdict(&s, "MEMORY: append (train.c:12) keeps 3.43 GiB per hour.");
	analysis = analyze(&s.profile, NULL);
	cr_expect(analysis->processes[0].memory[0].trends[0].leak);
	analysis__free(analysis);
	s.memory.sampled = true;
	s.memory.sample_bytes = 128 << 10;
	expect_evidence(&s, "append (train.c:12)",
			"retains 1000 KiB/s of host heap, 3.43 GiB per hour; 100 live blocks of "
			"100 KiB on average, allocated throughout the recording, the oldest live "
			"for 10.0 s; estimated from about 78 sampled blocks (± 22 %)");
	/* nothing stays of a step */
	scene_set(&s, 10 * S, 320 * MS);
	scene_steps(&s, 100 * MS, 10, 0, 100 << 10);
	expect_kinds(s, "");
}

/* A tensor's block is a block of the heap as well: one finding. */
Test(memory, a_leak_is_reported_once)
{
	struct profile_memory both[2];
	struct memory_scene s;

	scene_set(&s, 10 * S, 320 * MS);
	scene_steps(&s, 100 * MS, 10, 1, 100 << 10);
	both[0] = both[1] = s.memory;
	both[1].domain = PERFX_DOMAIN_TENSOR;
	s.process.memory = both;
	s.process.memory_count = 2;
	expect_kinds(s, "MemoryLeak/high");
	/* both of the same place in one domain */
	s.hotspots[1] = s.hotspots[0];
	s.memory.hotspots_count = 2;
	s.process.memory = &s.memory;
	s.process.memory_count = 1;
	expect_kinds(s, "MemoryLeak/high");
	expect_evidence(
		&s, "append (train.c:12) and 1 more place",
		"retains 1.95 MiB/s of host heap, 6.87 GiB per hour; 200 live blocks of 100 KiB on "
		"average, allocated throughout the recording, the oldest live for 10.0 s; in 2 "
		"places: 1000 KiB/s in append (train.c:12), 1000 KiB/s in append (train.c:12)");
}

Test(memory, the_peak)
{
	struct memory_scene s;

	scene_set(&s, 10 * S, 320 * MS);
	s.memory.peak_bytes = 256 << 20;
	s.memory.peak_ns = SCENE_START + 3 * S;
	s.hotspots[0].live_at_peak_bytes = 192 << 20;
	s.hotspots[1].live_at_peak_bytes = 32 << 20;
	s.hotspots[1].frames_count = 0;
	s.memory.hotspots_count = 2;
	expect_kinds(s, "PeakMemory/low");
	expect_evidence(&s, "host heap of python3 (pid 42)",
			"peak of 256 MiB, 3.00 s after the start (peak RSS 1.00 GiB): 75.0 % from "
			"append (train.c:12), 12.5 % from (no stack)");
	s.profile.memory_mib = 1280;
	expect_kinds(s, "PeakMemory/medium");
	s.memory.peak_bytes--;
	expect_kinds(s, "");
	/* address space that was reserved is no memory: 1 GiB was resident */
	s.memory.peak_bytes = 8ULL << 30;
	expect_kinds(s, "");
	s.memory.peak_bytes = PROFILE_ABSENT;
	expect_kinds(s, "");
	s.memory.domain = PERFX_DOMAIN_GPU;
	s.memory.peak_bytes = 1 << 30;
	expect_kinds(s, "PeakMemory/low");
}

Test(memory, churn)
{
	struct memory_scene s;

	scene_set(&s, 10 * S, 320 * MS);
	scene_add(&s.memory.allocs, 1999999);
	expect_kinds(s, "");
	scene_add(&s.memory.allocs, 1);
	scene_add(&s.hotspots[0].allocs, 1500000);
	s.memory.temporary_count = 1000000;
	expect_kinds(s, "MemoryChurn/low");
	expect_evidence(&s, "python3 (pid 42)",
			"200,000 heap allocations/s, 50.0 % of them freed by the same thread's "
			"next allocator call; 75.0 % of them in append (train.c:12); at 50 ns per "
			"malloc and free, they take 1.0 % of one CPU");
	/* recorded a fifth of the time: it goes on in the rest */
	s.memory.recorded_ns = 2 * S;
	expect_kinds(s, "MemoryChurn/medium");
	s.memory.domain = PERFX_DOMAIN_TENSOR;
	expect_kinds(s, "");
	s.memory.domain = PERFX_DOMAIN_GPU;
	expect_kinds(s, "MemoryChurn/medium");
	s.memory.recorded_ns = 0;
	expect_kinds(s, "");
}

/* One sampled block stands for 1 to 292,000 allocations: that says nothing. */
Test(memory, churn_by_samples)
{
	struct memory_scene s;

	scene_set(&s, 10 * S, 320 * MS);
	s.memory.sampled = true;
	s.memory.recorded_ns = 20 * MS;
	s.memory.allocs = (struct profile_estimate){.value = 52429, .low = 1, .high = 292000};
	expect_kinds(s, "");
	s.memory.allocs.low = 40000;
	expect_kinds(s, "MemoryChurn/medium");
	scene_add(&s.hotspots[0].allocs, 52429);
	expect_evidence(
		&s, "python3 (pid 42)",
		"at least 2,000,000 heap allocations/s; 100 % of them in append (train.c:12); at "
		"50 ns per malloc and free, they take 10.0 % of one CPU");
}

Test(memory, tensors_that_come_and_go_as_pages)
{
	struct memory_scene s;

	scene_set(&s, 10 * S, 320 * MS);
	s.memory.domain = PERFX_DOMAIN_TENSOR;
	scene_add(&s.memory.allocs, 10240);
	scene_add(&s.memory.allocated_bytes, 5ULL << 30);
	s.process.cpu_system_ns = 3 * S;
	expect_kinds(s, "TensorChurn/medium");
	s.process.cpu_system_ns = 2 * S;
	expect_kinds(s, "TensorChurn/low");
	s.process.cpu_system_ns = 1999 * MS;
	expect_kinds(s, "");
	s.process.cpu_system_ns = 2 * S;
	/* what tracing costs is no fault of the program's */
	s.process.seen_hits_count = 1;
	s.profile.overhead_ns = 10e6;
	expect_kinds(s, "");
	s.process.seen_hits_count = 0;
	/* of 512 KiB each; of less than 64 KiB, as an LSTM's, they stay in the heap */
	s.memory.allocs.value = 5 << 14;
	expect_kinds(s, "TensorChurn/low");
	s.memory.allocs.value++;
	expect_kinds(s, "");
	s.memory.allocs.value = 10240;
	s.memory.allocated_bytes.value--;
	expect_kinds(s, "");
	s.memory.allocated_bytes.value++;
	s.process.cpu_ns = PROFILE_ABSENT;
	expect_kinds(s, "");
}

/* 140 MiB in ten seconds. */
static void grow_rss(struct memory_scene *s)
{
	for (uint64_t i = 0; i < 8; i++) {
		s->usage[i].rss_bytes += i * (20 << 20);
		s->usage[i].rss_anon_bytes += i * (20 << 20);
	}
}

/* 6 MiB in ten seconds, 0.6 % of it. */
Test(memory, growth_has_the_place_of_the_blocks_that_stay)
{
	struct memory_scene s;

	scene_set(&s, 10 * S, 320 * MS);
	for (uint64_t i = 0; i < 8; i++) {
		s.usage[i].rss_bytes += i * (6 << 20) / 7;
		s.usage[i].rss_anon_bytes += i * (6 << 20) / 7;
	}
	s.memory.current_bytes = 4 << 20;
	s.memory.sampled = true;
	s.memory.sample_bytes = 256 << 10;
	s.hotspots[0].live_bytes = 4 << 20;
	s.hotspots[0].old_bytes = 2 << 20;
	expect_kinds(s, "MemoryGrowth/medium");
	expect_evidence(&s, "append (train.c:12)",
			"resident memory grew steadily from 1.00 GiB to 1.01 GiB: 614 KiB/s (first "
			"half 614 KiB/s, second half 614 KiB/s; R² 1.00 over 8 samples); of the "
			"blocks that stay 100 % are of append (train.c:12), by a sample");
	expect_verdict(&s, "MEMORY: python3 (pid 42) grows by 614 KiB/s, 2.11 GiB per hour, mostly "
			   "in append (train.c:12).");
	/* of four sampled blocks: no place */
	s.memory.sample_bytes = 512 << 10;
	expect_evidence(&s, "python3 (pid 42)",
			"resident memory grew steadily from 1.00 GiB to 1.01 GiB: 614 KiB/s (first "
			"half 614 KiB/s, second half 614 KiB/s; R² 1.00 over 8 samples)");
	expect_verdict(&s, "MEMORY: python3 (pid 42) grows by 614 KiB/s, 2.11 GiB per hour: "
			   "--memory all shows where.");
	/* all blocks, but Python's small objects come in pieces of a MiB: four, then five */
	s.memory.sampled = false;
	s.frames[1].language = PERFX_LANGUAGE_PYTHON;
	s.hotspots[0].live_count = 4;
	expect_verdict(&s, "MEMORY: python3 (pid 42) grows by 614 KiB/s, 2.11 GiB per hour.");
	s.hotspots[0].live_count = 5;
	expect_verdict(&s, "MEMORY: python3 (pid 42) grows by 614 KiB/s, 2.11 GiB per hour, mostly "
			   "in append (train.c:12).");
}

#define POINTS 41

/* Shapes of resident memory, x from 0 to 1. */
static double evenly(double x)
{
	return x;
}

static double slower_later(double x)
{
	return x < 0.5 ? 1.2 * x : 0.6 + 0.8 * (x - 0.5);
}

static double full_at_85_percent(double x)
{
	return fmin(x / 0.85, 1);
}

static double ever_more_slowly(double x)
{
	return 1 - exp(-2 * x);
}

static double cleared_three_times(double x)
{
	return fmod(x * 3, 1);
}

static double begins_in_the_middle(double x)
{
	return fmax(x - 0.5, 0);
}

static double at_once(double x)
{
	return x > 0.4 ? 1 : 0;
}

/* Resident memory of 700 MiB that goes up and down by noise, and grows by this. */
static void expect_growth(double (*shape)(double), double growth, double noise, const char *wanted)
{
	struct profile_usage_point points[POINTS] = {0};
	struct memory_scene s;

	scene_set(&s, 10 * S, 320 * MS);
	for (size_t i = 0; i < POINTS; i++) {
		double bytes = 0x1p20 * 700 + growth * shape((double)i / (POINTS - 1)) +
			       (i % 2 ? noise : 0);

		points[i].time_ns = SCENE_START + i * 250 * MS;
		points[i].rss_bytes = points[i].rss_anon_bytes = (uint64_t)bytes;
	}
	s.memory.current_bytes = PROFILE_ABSENT;
	s.process.points = points;
	s.process.points_count = POINTS;
	expect_kinds(s, wanted);
}

/* However little it is of the whole. */
Test(memory, growth_stands_out_by_its_evenness)
{
	static double (*const healthy[])(double) = {full_at_85_percent, ever_more_slowly,
						    cleared_three_times, begins_in_the_middle,
						    at_once};

	expect_growth(evenly, 0x1p20 * 1.01, 0, "MemoryGrowth/medium");
	expect_growth(evenly, 0x1p20 * 0.99, 0, "");
	expect_growth(evenly, 0x1p20 * 4, 0x1p20 / 2, "MemoryGrowth/medium");
	expect_growth(evenly, 0x1p20 * 4, 0x1p20 * 2, "");
	expect_growth(slower_later, 0x1p20 * 4, 0, "MemoryGrowth/medium");
	for (size_t i = 0; i < sizeof(healthy) / sizeof(healthy[0]); i++)
		for (double growth = 0x1p20 * 2; growth < 0x1p30; growth *= 8)
			expect_growth(healthy[i], growth, 0, "");
}

Test(memory, growth_that_is_not_traced)
{
	struct memory_scene s;

	scene_set(&s, 10 * S, 320 * MS);
	grow_rss(&s);
	s.memory.current_bytes = 69 << 20;
	expect_kinds(s, "UntracedMemory/medium");
	expect_evidence(&s, "python3 (pid 42)",
			"anonymous resident memory grew steadily from 512 MiB to 652 MiB: 14.0 "
			"MiB/s (first half 14.0 MiB/s, second half 14.0 MiB/s; R² 1.00 over 8 "
			"samples); traced host heap grew by 6.90 MiB/s; the "
			"other 7.10 MiB/s are untraced");
	s.memory.current_bytes = 71 << 20;
	expect_kinds(s, "MemoryGrowth/medium");
	/* what is recorded needs no option; frees of tensors that are not recorded do */
	cr_expect_null(growth_option(&s.process));
	s.memory.sampled = true;
	cr_expect_str_eq(growth_option(&s.process), "--memory all");
	s.memory.domain = PERFX_DOMAIN_TENSOR;
	s.memory.allocs.value = 1;
	cr_expect_str_eq(growth_option(&s.process), "--memory all");
	s.memory.current_bytes = PROFILE_ABSENT;
	cr_expect_str_eq(growth_option(&s.process), "--memory tensor");
	cr_expect_str_eq(growth_option_words(&s.process),
			 "--memory tensor shows where, or --memory all if no tensors grow");
	s.memory.domain = PERFX_DOMAIN_HOST;
	s.memory.allocs.value = 0;
	s.memory.sampled = false;
	/* more may be live than is known */
	s.memory.current_bytes = 0;
	s.memory.bound = PROFILE_MEMORY_LOST_ALLOCS;
	expect_kinds(s, "MemoryGrowth/medium");
	s.memory.bound = 0;
	s.memory.recorded_ns = 9 * S;
	expect_kinds(s, "MemoryGrowth/medium");
	/* a leak that is a quarter of it: both, and what is left */
	scene_set(&s, 10 * S, 320 * MS);
	grow_rss(&s);
	scene_steps(&s, 100 * MS, 1, 1, 350 << 10);
	expect_kinds(s, "MemoryLeak/high UntracedMemory/low");
	expect_evidence(
		&s, "append (train.c:12)",
		"retains 3.42 MiB/s of host heap, 12.0 GiB per hour; 100 live blocks of 350 KiB on "
		"average, allocated throughout the recording, the oldest live for 10.0 s; resident "
		"memory grew by 14.0 MiB/s, of which this leak accounts for 24.4 %");
	/* a leak says it better */
	scene_set(&s, 10 * S, 320 * MS);
	grow_rss(&s);
	scene_steps(&s, 100 * MS, 1, 1, 1400 << 10);
	expect_kinds(s, "MemoryLeak/high");
}

static void expect_frame(const struct profile_frame *frame, enum location_style style,
			 const char *wanted)
{
	struct text text = {0};

	location_frame(&text, frame, style);
	cr_expect_str_eq(text_peek(&text), wanted, "%s", text_peek(&text));
	text_clear(&text);
}

static void expect_own(bool wanted, const char *file)
{
	const struct profile_frame frame = {
		.function = "f", .file = file, .language = PERFX_LANGUAGE_PYTHON};

	cr_expect_eq(location_is_own_python(&frame), wanted, "%s", file);
}

Test(place, code_of_the_programs_own)
{
	struct profile_frame frame = {.function = "f",
				      .file = "/app/vendored/net.py",
				      .language = PERFX_LANGUAGE_PYTHON,
				      .of_package = true};

	cr_expect_not(location_is_own_python(&frame));
	frame.of_package = false;
	cr_expect(location_is_own_python(&frame));
	expect_own(true, "train.py");
	expect_own(true, "/srv/app.pyz/job/train.py");
	expect_own(true, "/home/u/lib/python3/train.py");
	expect_own(true, "/home/u/lib/python3-jobs/train.py");
	expect_own(true, "/tmp/ipykernel_77/1234.py");
	expect_own(true, "<ipython-input-3-0123456789ab>");
	expect_own(true, "<stdin>");
	expect_own(true, "<dynamic-code>"); /* of cloudpickle */
	expect_own(false, "/usr/lib/python3.11/json/decoder.py");
	expect_own(false, "/root/.pyenv/versions/3.12.1/lib/python3.12/asyncio/runners.py");
	expect_own(false, "/usr/lib64/python3.13t/threading.py");
	expect_own(false, "/opt/embedded/lib/python311.zip/json/decoder.py");
	expect_own(false, "/usr/lib/python3/dist-packages/torch/nn/modules/module.py");
	expect_own(false, "/srv/app.pyz/site-packages/torch/functional.py");
	expect_own(false, "/tmp/torchinductor_u/x.py");
	expect_own(false, "/cache/iu/ciuoqjbx2gpzk265g75kaxxczk52p2ovmaj5hvnmutzh3qz22mrq.py");
	expect_own(true, "/cache/ui/ciuoqjbx2gpzk265g75kaxxczk52p2ovmaj5hvnmutzh3qz22mrq.py");
	expect_own(false, "<string>");
	expect_own(false, "<frozen importlib._bootstrap>");
}

Test(place, pickled_code)
{
	const struct profile_frame frame = {.function = "fetch",
					    .module = "",
					    .module_base = "",
					    .file = "<dynamic-code>",
					    .line = 16,
					    .language = PERFX_LANGUAGE_PYTHON};

	expect_frame(&frame, LOCATION_BRIEF, "fetch (line 16 of its file, pickled)");
	expect_frame(&frame, LOCATION_FULL, "fetch (<dynamic-code>:16)");
}

Test(place, frames)
{
	struct profile_frame frame = {.function = "f",
				      .module = "/x/libm.so",
				      .module_base = "libm.so",
				      .file = "/src/a.c",
				      .line = 7,
				      .address = 0xabc,
				      .offset = 0x12};

	expect_frame(&frame, LOCATION_FULL, "f (/src/a.c:7)");
	expect_frame(&frame, LOCATION_BRIEF, "f (a.c:7)");
	frame.line = 0;
	expect_frame(&frame, LOCATION_BRIEF, "f (a.c)");
	expect_frame(&frame, LOCATION_LINE, "f (a.c)");
	frame.file = "";
	expect_frame(&frame, LOCATION_FULL, "f (libm.so)");
	expect_frame(&frame, LOCATION_LINE, "f");
	frame.function = "";
	expect_frame(&frame, LOCATION_FULL, "libm.so+0x12");
	expect_frame(&frame, LOCATION_LINE, "libm.so+0x12");
	frame.module = frame.module_base = "";
	expect_frame(&frame, LOCATION_FULL, "0xabc");
	frame.function = "jit";
	expect_frame(&frame, LOCATION_FULL, "jit");
}

/* Inside the allocator nobody needs to look; with nothing else, there is the stack. */
Test(place, where_a_stack_begins)
{
	struct memory_scene s;

	scene_set(&s, 10 * S, 320 * MS);
	cr_expect_eq(location_first(&s.memory, &s.hotspots[0]), 1);
	s.frames[1].function = "operator new(unsigned long)";
	cr_expect_eq(location_first(&s.memory, &s.hotspots[0]), 2);
	s.hotspots[0].frames_count = 2;
	cr_expect_eq(location_first(&s.memory, &s.hotspots[0]), 2);
	/* an allocator in the program itself */
	s.hotspots[0].frames_count = 3;
	s.frames[1].function = "append";
	s.allocator.module = s.frames[1].module;
	s.frames[0].module = s.frames[1].module;
	s.frames[0].module_base = s.frames[1].module_base;
	cr_expect_eq(location_first(&s.memory, &s.hotspots[0]), 0);
	s.hotspots[0].frames_count = 0;
	cr_expect_eq(location_first(&s.memory, &s.hotspots[0]), 0);
}
