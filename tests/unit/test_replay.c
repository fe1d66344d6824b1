// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/analyze.h"
#include "replay/replay.h"
#include "report/report.h"

#include "golden_cases.h"
#include "golden_file.h"
#include "rounds.h"
#include "stream_builder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Damaged captures through everything from decode to the writers. */

static const char *const formats[] = {"text", "md", "json"};

static void report_everything(struct aggregate *aggregate, FILE *out)
{
	static const struct report_options options = {.width = 80};
	const struct profile *profile = aggregate__finish(aggregate);
	struct analysis *analysis;

	cr_assert_not_null(profile);
	analysis = analyze(profile, NULL);
	cr_assert_not_null(analysis);
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		cr_assert_eq(
			report_writer_named(formats[i])->write(out, profile, analysis, &options),
			0);
	analysis__free(analysis);
}

static void damage(struct stream *s)
{
	char *bytes = s->bytes.data;

	for (int hits = 1 + rand() % 8; hits; hits--) {
		size_t at = (size_t)rand() % s->bytes.length;

		switch (rand() % 4) {
		case 0:
			bytes[at] = (char)rand();
			break;
		case 1:
			bytes[at] ^= (char)(1 << rand() % 8);
			break;
		case 2:
			bytes[at] = (char)0xff;
			break;
		case 3:
			/* a word, as an id or a count would be */
			at -= at % 4;
			memset(bytes + at, rand() % 2 ? 0xff : 0, 4);
			break;
		}
	}
	if (rand() % 4 == 0)
		s->bytes.length = (size_t)rand() % s->bytes.length + 1;
}

Test(replay, damaged_captures_give_reports)
{
	FILE *out = fopen("/dev/null", "we");

	srand(6);
	for (int round = 0; round < rounds(2000); round++) {
		struct aggregate *aggregate = aggregate__new();
		struct stream s = {0};

		golden_cases[(size_t)round % GOLDEN_CASES].build(&s);
		damage(&s);
		cr_assert_eq(stream_replay(&s, aggregate), 0);
		report_everything(aggregate, out);
		aggregate__free(aggregate);
		stream_clear(&s);
	}
	fclose(out);
}

/* Records in any order, as a merge of several rings might give them. */
Test(replay, shuffled_captures_give_reports)
{
	FILE *out = fopen("/dev/null", "we");

	srand(7);
	for (int round = 0; round < 300; round++) {
		struct aggregate *aggregate = aggregate__new();
		struct stream s = {0};
		size_t offsets[2048], count = 0, skip;
		struct event event;

		golden_cases[(size_t)round % GOLDEN_CASES].build(&s);
		for (size_t at = 0; at < s.bytes.length && count < 2048; count++) {
			ssize_t used =
				decode_event(s.bytes.data + at, s.bytes.length - at, &event, &skip);

			if (used < 0)
				break;
			offsets[count] = at;
			at += (size_t)used;
		}
		for (size_t i = count; i; i--) {
			size_t j = (size_t)rand() % i, offset = offsets[j];

			offsets[j] = offsets[i - 1];
			decode_event(s.bytes.data + offset, s.bytes.length - offset, &event, &skip);
			cr_assert_eq(aggregate__add(aggregate, &event), 0);
		}
		report_everything(aggregate, out);
		aggregate__free(aggregate);
		stream_clear(&s);
	}
	fclose(out);
}

/* Many functions with long names in many processes: what a comment on a pull request may hold. */
Test(replay, markdown_fits_a_comment)
{
	struct aggregate *aggregate = aggregate__new();
	const struct report_options options = {0};
	const struct profile *profile;
	struct analysis *analysis;
	struct stream s = {0};
	char *report, name[1024];
	size_t size;
	FILE *out = open_memstream(&report, &size);

	stream_host(&s);
	for (uint32_t f = 1; f <= 400; f++) {
		memset(name, '*', sizeof(name));
		snprintf(name + 900, sizeof(name) - 900, "function_%u", f);
		stream_function(&s, f, name, "/usr/lib/libsome_library_with_a_name.so.1.2.3",
				PERFX_SOURCE_SYMBOL);
		stream_plain(&s, PERFX_KIND_PROBE, struct perfx_probe_record, .probe = f,
			     .function = f, .link = PERFX_LINK_MULTI, .site = PERFX_SITE_PUSH);
		stream_add(&s, PERFX_KIND_NOT_ATTACHED, struct perfx_not_attached,
			   STRINGS(name, "no place for a probe"), .count = 1);
	}
	for (uint32_t p = 1; p <= 8; p++) {
		stream_process(&s, p, 1000 + p, "trainer", "./trainer");
		for (uint32_t f = 1; f <= 400; f++) {
			stream_plain(&s, PERFX_KIND_SPAN, struct perfx_span, .process = p,
				     .function = f, .context = p * 400 + f, .tid = 1000 + p,
				     .start_ns = STREAM_START, .duration_ns = f * MS,
				     .self_ns = f * MS);
			stream_plain(&s, PERFX_KIND_CONTEXT, struct perfx_context,
				     .context = p * 400 + f, .function = f, .process = p,
				     .parent = f > 1 ? p * 400 + f - 1 : 0);
		}
		for (uint32_t t = 0; t < 50; t++)
			stream_thread(&s, p, 1000 + p + t, "a thread", 'S', 0, 0, 0);
	}
	stream_end(&s, 1 * S, 0);
	cr_assert_eq(stream_replay(&s, aggregate), 0);
	stream_clear(&s);
	profile = aggregate__finish(aggregate);
	analysis = analyze(profile, NULL);
	cr_assert_eq(report_writer_named("md")->write(out, profile, analysis, &options), 0);
	fclose(out);
	/* GitHub's limit of a comment */
	cr_expect_lt(size, 65536, "%zu", size);
	cr_expect_not_null(strstr(report, "function_400"));
	free(report);
	analysis__free(analysis);
	aggregate__free(aggregate);
}

/* A time slice of a capture: --since and --until. */

/* A second of calls every second, from 0 to 10 s; what is allocated; sums in segments of 2 s. */
static void tell_story(struct stream *s)
{
	const struct stream_place place = {
		.process = 1, .tid = 7, .context = 1, .allocator = 1, .domain = PERFX_DOMAIN_HOST};

	stream_function(s, 1, "f", "/f", PERFX_SOURCE_SYMBOL);
	stream_process(s, 1, 100, "a", "a");
	stream_allocator(s, 1, PERFX_DOMAIN_HOST, "libc", "/lib/libc.so.6");
	stream_host(s);
	stream_context(s, 1, 0, 1, 1);
	for (uint64_t at = 0; at < 10; at++) {
		stream_usage(s, 1, at * S + S / 2, at * 100 * MS, 0, 1000 + at);
		stream_allocation(s, &place, at * S, 0x1000 * (at + 1), 1 << at, 0);
		if (at % 2)
			stream_free(s, &place, at * S + 1, 0x1000 * at, 0, 0);
		/* ends half a second later */
		stream_call(s, 1, 7, at * S, S / 2, S / 2, 0);
		if (at % 2 == 0)
			continue;
		stream_plain(s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls,
			     .context = 1, .calls_count = 10 + at, .total_ns = 10 + at,
			     .self_ns = 10 + at);
		stream_plain(s, PERFX_KIND_LOSS, struct perfx_loss, .loss = PERFX_LOSS_RING_DROPS,
			     .count = 10 + at);
		/* a wait since the start that goes on, of half of the time */
		stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = 7,
			     .reason = PERFX_WAIT_SLEEP, .blocked_ns = S, .max_ns = (at + 1) * S);
		stream_plain(s, PERFX_KIND_SEGMENT, struct perfx_segment,
			     .time_ns = STREAM_START + (at + 1) * S);
	}
	stream_add(s, PERFX_KIND_NOT_ATTACHED, struct perfx_not_attached, STRINGS("g", "why"),
		   .count = 1);
	stream_plain(s, PERFX_KIND_LOSS, struct perfx_loss, .loss = PERFX_LOSS_UNMATCHED_ENTRIES,
		     .count = 3);
}

static void tell_end(struct stream *s)
{
	stream_plain(s, PERFX_KIND_END, struct perfx_end, .time_ns = STREAM_START + 10 * S,
		     .tracer_cpu_ns = 5, .tracer_rss_anon_bytes = 6);
}

static struct aggregate *sliced;
static struct stream story;

static void set_up(void)
{
	sliced = aggregate__new();
	tell_story(&story);
}

static void tear_down(void)
{
	aggregate__free(sliced);
	stream_clear(&story);
}

TestSuite(time_slice, .init = set_up, .fini = tear_down);

static int add_event(void *ctx, const struct event *event)
{
	return aggregate__add(ctx, event);
}

/* Whole seconds; until 0: to the end. */
static struct time_slice *time_slice_of(unsigned since, unsigned until)
{
	return time_slice__new(since * S, until ? until * S : UINT64_MAX);
}

static int feed(struct time_slice *time_slice)
{
	const char *data = text_peek(&story.bytes);
	struct event event;
	int err = 0;
	size_t skip;

	time_slice__to(time_slice, add_event, sliced);
	for (size_t at = 0; at < story.bytes.length && !err; at += event.hdr.size) {
		cr_assert_gt(decode_event(data + at, story.bytes.length - at, &event, &skip), 0);
		err = time_slice__event(time_slice, &event);
	}
	return err ? err : time_slice__finish(time_slice);
}

static const struct profile *cut(unsigned since, unsigned until)
{
	struct time_slice *time_slice = time_slice_of(since, until);
	const struct profile *profile;

	cr_assert_not_null(time_slice);
	cr_assert_eq(feed(time_slice), 0);
	time_slice__free(time_slice);
	profile = aggregate__finish(sliced);
	cr_assert_eq(profile->losses[PERFX_LOSS_UNDECODED], 0);
	cr_assert_eq(profile->processes_count, 1);
	return profile;
}

static const struct profile_row *row_of(const struct profile *profile)
{
	cr_assert_eq(profile->processes[0].rows_count, 1);
	return &profile->processes[0].rows[0];
}

Test(time_slice, calls_belong_to_where_they_end)
{
	const struct profile *profile;

	tell_end(&story);
	profile = cut(3, 5);
	/* those that end at 3.5 s and 4.5 s; no segment lies whole within */
	cr_assert_eq(row_of(profile)->calls_count, 2);
	cr_assert_eq(row_of(profile)->total_ns, 1 * S);
	cr_assert_eq(profile->start_ns, STREAM_START + 3 * S);
	cr_assert_eq(profile->duration_ns, 2 * S);
	cr_assert_eq(profile->start_unix_ns, 1764000000ULL * S + 3 * S);
	cr_assert(profile->ended);
	cr_assert_eq(profile->partial & PROFILE_PARTIAL_TRUNCATED, 0);
}

/* Their stacks and what they waited for are facts: known from before. */
Test(time_slice, samples_belong_to_their_moment)
{
	struct perfx_sample sample = {.interval_ns = 10 * MS,
				      .process = 1,
				      .tid = 1,
				      .stack = 9,
				      .state = PERFX_SAMPLE_WAITING,
				      .reason = PERFX_WAIT_READ,
				      .object = 5};
	const struct profile_activities *samples;

	stream_stack(&story, 1, 9, 0, 0x900);
	stream_wait_object(&story, 1, PERFX_WAIT_READ, 5, "/data/train.bin");
	for (uint64_t at = 0; at < 10; at++)
		stream_sample(&story, at * S, sample);
	tell_end(&story);
	samples = &cut(3, 5)->processes[0].samples;
	cr_assert_eq(samples->count, 1);
	cr_expect_eq(samples->list[0].count, 2, "%lu", (unsigned long)samples->list[0].count);
	cr_expect_str_eq(samples->list[0].object_name, "/data/train.bin");
	cr_expect_not_null(samples->list[0].stack);
}

/* What devices did belongs to where it began, late as its record may come; names are facts. */
Test(time_slice, gpu_activities_belong_to_where_they_begin)
{
	const struct profile_gpu *gpu;

	stream_gpu_device(&story, 0);
	stream_gpu_name(&story, 1, "gemm");
	stream_gpu_state(&story, 1, PERFX_GPU_AGENT_ON, 1, "CUPTI 13.0");
	for (uint64_t at = 0; at < 10; at++) {
		struct perfx_gpu_usage usage = gpu_usage_absent(0, at * S);

		usage.utilisation_percent = (uint32_t)(10 * at);
		stream_put(&story, PACK(&story.buffer, PERFX_KIND_GPU_USAGE, usage));
		stream_gpu_activity(&story, at * S, 500 * MS,
				    (struct perfx_gpu_activity){.name = 1,
								.op = PERFX_GPU_OP_KERNEL});
	}
	/* late: of before, and of the slice */
	stream_gpu_activity(&story, 2 * S, 1 * MS,
			    (struct perfx_gpu_activity){.name = 1, .op = PERFX_GPU_OP_KERNEL});
	stream_gpu_activity(&story, 3600 * MS, 1 * MS,
			    (struct perfx_gpu_activity){.name = 1, .op = PERFX_GPU_OP_KERNEL});
	tell_end(&story);
	gpu = &cut(3, 5)->processes[0].gpu;
	cr_expect_eq(gpu->level, 1);
	cr_assert_eq(gpu->kernels_count, 1);
	cr_expect_str_eq(gpu->kernels[0].name, "gemm");
	cr_expect_eq(gpu->kernels[0].count, 3);
	cr_expect_eq(gpu->busy_ns, 1001 * MS);
	cr_assert_eq(gpu->places_count, 1);
	cr_expect_str_eq(gpu->places[0].device->name, "NVIDIA H100 80GB HBM3");
	cr_expect_eq(gpu->places[0].device->points_count, 2);
	cr_expect_eq(gpu->places[0].device->metrics[PROFILE_GPU_UTILISATION].max, 40);
}

Test(time_slice, sums_are_in_it_by_whole_segments)
{
	const struct profile *profile;

	tell_end(&story);
	profile = cut(2, 7);
	/* 2 to 4 and 4 to 6 are; 6 to 8 is cut */
	cr_assert_eq(row_of(profile)->overflow_count, 13 + 15);
	cr_assert_eq(row_of(profile)->calls_count, 5 + 13 + 15);
	cr_assert_eq(profile->losses[PERFX_LOSS_RING_DROPS], 13 + 15);
	cr_assert_eq(profile->time_slice.left_out_count, 17);
	cr_assert_eq(profile->time_slice.left_out, PERFX_LEFT_OUT(PERFX_KIND_OVERFLOW_CALLS) |
							   PERFX_LEFT_OUT(PERFX_KIND_LOSS) |
							   PERFX_LEFT_OUT(PERFX_KIND_BLOCKED));
	/* of a part of the time they would be compared with all of it */
	cr_assert_eq(profile->processes[0].blocked.count, 0);
	cr_assert_eq(profile->time_slice.flags, PERFX_TIME_SLICE_VIEW);
	cr_assert_eq(profile->time_slice.recording_ns, STREAM_START);
}

Test(time_slice, what_is_cut_is_said)
{
	const struct report_options options = {.width = 1000};
	const struct profile *profile;
	struct analysis *analysis;
	char *report = NULL;
	size_t size;
	FILE *out = open_memstream(&report, &size);

	tell_end(&story);
	profile = cut(3, 5);
	analysis = analyze(profile, NULL);
	cr_assert_eq(report_writer_named("json")->write(out, profile, analysis, &options), 0);
	cr_assert_eq(report_writer_named("text")->write(out, profile, analysis, &options), 0);
	fclose(out);
	cr_expect_not_null(strstr(report, "\"left_out_calls\": 28"), "%s", report);
	cr_expect_not_null(strstr(report, "\"overflow_calls\""));
	cr_expect_not_null(strstr(report, "of which these are missing: losses, 28 calls whose "));
	cr_expect_null(strstr(report, "No record was lost"));
	cr_expect_not_null(strstr(report, "Waits are left out"), "%s", report);
	cr_expect_not_null(strstr(report, "Losses in the segments that its ends cut"), "%s",
			   report);
	analysis__free(analysis);
	free(report);
}

Test(time_slice, whole_segments_leave_nothing_out)
{
	tell_end(&story);
	cr_assert_eq(cut(2, 8)->time_slice.left_out, 0);
}

/* What has been dropped makes live bytes a bound, whether before the slice or at its ends. */
static void expect_bound(unsigned since, unsigned until, bool left_out)
{
	const struct profile *profile = cut(since, until);

	cr_expect_eq(profile->processes[0].memory[0].bound, PROFILE_MEMORY_LOST_ALLOCS);
	cr_expect_eq(profile->processes[0].memory[0].lost_allocs_count, 0);
	cr_expect_eq(profile->time_slice.left_out,
		     left_out ? PERFX_LEFT_OUT(PERFX_KIND_OVERFLOW_MEMORY) : 0);
}

/* Allocations that were dropped between 10 s and 12 s. */
static void tell_dropped_memory(void)
{
	stream_plain(&story, PERFX_KIND_OVERFLOW_MEMORY, struct perfx_overflow_memory, .process = 1,
		     .domain = PERFX_DOMAIN_HOST, .allocs_count = 3, .allocated_bytes = 300);
	stream_plain(&story, PERFX_KIND_SEGMENT, struct perfx_segment,
		     .time_ns = STREAM_START + 12 * S);
	stream_plain(&story, PERFX_KIND_END, struct perfx_end, .time_ns = STREAM_START + 14 * S,
		     .tracer_cpu_ns = 5, .tracer_rss_anon_bytes = 6);
}

Test(time_slice, memory_dropped_before_it)
{
	tell_dropped_memory();
	expect_bound(12, 14, false);
}

Test(time_slice, memory_dropped_at_its_beginning)
{
	tell_dropped_memory();
	expect_bound(11, 14, true);
}

Test(time_slice, memory_lives_at_its_end_and_is_allocated_within)
{
	const struct profile_memory *memory;
	const struct profile *profile;

	tell_end(&story);
	profile = cut(4, 7);
	memory = &profile->processes[0].memory[0];
	/* 1 << 4, 1 << 5 and 1 << 6 are allocated, 1 << 4 is freed; 2 and 8 were there */
	cr_assert_eq(memory->allocs.value, 3);
	cr_assert_eq(memory->allocated_bytes.value, 16 + 32 + 64);
	cr_assert_eq(memory->frees_count, 1);
	cr_assert_eq(memory->unknown_frees_count, 0);
	cr_assert_eq(memory->current_bytes, 2 + 8 + 32 + 64);
	cr_assert_eq(memory->peak_bytes, 2 + 8 + 32 + 64);
	cr_assert_eq(memory->peak_ns, STREAM_START + 6 * S);
	cr_assert_eq(memory->hotspots[0].oldest_ns, STREAM_START + 1 * S);
	/* the series begins with what was there */
	cr_assert_eq(memory->points[0].time_ns, STREAM_START + 4 * S);
	cr_assert_eq(memory->points[0].live_bytes, 2 + 8);
}

Test(time_slice, without_records_memory_is_what_it_was)
{
	const struct profile_memory *memory;
	struct time_slice *time_slice;

	tell_end(&story);
	time_slice = time_slice__new(4 * S + 100 * MS, 4 * S + 400 * MS);
	cr_assert_eq(feed(time_slice), 0);
	time_slice__free(time_slice);
	memory = &aggregate__finish(sliced)->processes[0].memory[0];
	cr_assert_eq(memory->current_bytes, 2 + 8 + 16);
	cr_assert_eq(memory->peak_bytes, 2 + 8 + 16);
	cr_assert_eq(memory->peak_ns, STREAM_START + 4 * S + 100 * MS);
	cr_assert_eq(memory->allocs.value, 0);
}

Test(time_slice, usage_is_interpolated_at_both_ends)
{
	const struct profile_process *process;

	tell_end(&story);
	process = &cut(3, 7)->processes[0];
	/* 0.1 s of CPU a second */
	cr_assert_eq(process->cpu_user_ns, 400 * MS);
	cr_assert_eq(process->points[0].time_ns, STREAM_START + 3 * S);
	cr_assert_eq(process->points[process->points_count - 1].time_ns, STREAM_START + 7 * S);
	cr_assert_eq(profile_wall_ns(process), 4 * S);
}

Test(time_slice, levels_are_of_the_end)
{
	const struct profile *profile;

	tell_end(&story);
	profile = cut(8, 0);
	cr_assert_eq(profile->losses[PERFX_LOSS_UNMATCHED_ENTRIES], 3);
	cr_assert_eq(profile->tracer_cpu_ns, 5);
	cr_assert_eq(row_of(profile)->overflow_count, 19);
	cr_assert_eq(profile->not_attached_count, 1);
}

Test(time_slice, levels_are_not_of_an_earlier_end)
{
	const struct profile *profile;

	tell_end(&story);
	profile = cut(2, 8);
	cr_assert_eq(profile->losses[PERFX_LOSS_UNMATCHED_ENTRIES], 0);
	cr_assert_eq(profile->tracer_cpu_ns, PROFILE_ABSENT);
	/* but what could not be attached could not be then either */
	cr_assert_eq(profile->not_attached_count, 1);
}

Test(time_slice, all_of_it_is_all_of_it)
{
	const struct profile *profile;

	tell_end(&story);
	profile = cut(0, 0);
	cr_assert_eq(row_of(profile)->calls_count, 10 + 11 + 13 + 15 + 17 + 19);
	cr_assert_eq(profile->time_slice.left_out_count, 0);
	cr_assert_eq(profile->processes[0].memory[0].allocs.value, 10);
}

Test(time_slice, a_cut_capture_is_whole_before_the_cut)
{
	const struct profile *profile = cut(2, 6);

	cr_assert(profile->ended);
	cr_assert_eq(profile->duration_ns, 4 * S);
}

Test(time_slice, and_is_not_behind_it)
{
	const struct profile *profile = cut(2, 20);

	cr_assert_not(profile->ended);
	cr_assert_eq(profile->partial,
		     PROFILE_PARTIAL_TRUNCATED | (profile->partial & PROFILE_PARTIAL_LOSSY));
}

Test(time_slice, behind_the_end_there_is_nothing)
{
	struct time_slice *time_slice = time_slice_of(11, 12);

	tell_end(&story);
	cr_assert_eq(feed(time_slice), -ERANGE);
	time_slice__free(time_slice);
}

Test(time_slice, since_comes_before_until)
{
	cr_assert_null(time_slice_of(5, 5));
	cr_assert_eq(errno, ERANGE);
	cr_assert_null(time_slice_of(4, 2));
}

/* Of a capture file. 0 or -errno. */
static int cut_file(struct time_slice_bound since, struct time_slice_bound until)
{
	char path[] = "/tmp/perfx-test-XXXXXX";
	const struct capture_source source = {.path = path, .time_slice = {since, until}};
	struct pipeline pipeline = {.aggregate = sliced};
	struct capture_writer *writer = capture_writer__new(mkstemp(path));
	struct perfx_record hdr;
	int err;

	for (size_t at = 0; at < story.bytes.length; at += hdr.size) {
		memcpy(&hdr, story.bytes.data + at, sizeof(hdr));
		capture_writer__add(writer, story.bytes.data + at, hdr.size);
	}
	cr_assert_eq(capture_writer__free(writer), 0);
	err = capture_source_replay(&source, &pipeline, NULL);
	unlink(path);
	return err;
}

static void expect_slice_of_file(struct time_slice_bound since, struct time_slice_bound until,
				 uint64_t from_s, uint64_t to_s)
{
	const struct profile_activities *waits;
	const struct profile *profile;

	cr_assert_eq(cut_file(since, until), 0);
	profile = aggregate__finish(sliced);
	cr_expect_eq(profile->start_ns, STREAM_START + from_s * S);
	cr_expect_eq(profile->duration_ns, (to_s - from_s) * S);
	cr_expect_eq(profile->time_slice.left_out, 0);
	waits = &profile->processes[0].blocked;
	cr_assert_eq(waits->count, 1);
	cr_expect_eq(waits->list->ns, (to_s - from_s) / 2 * S);
	cr_expect_eq(waits->list->max_ns, waits->list->ns);
}

Test(time_slice, a_file_is_cut_between_segments)
{
	tell_end(&story);
	expect_slice_of_file((struct time_slice_bound){true, false, 3 * S},
			     (struct time_slice_bound){true, false, 5 * S}, 2, 6);
}

Test(time_slice, ends_of_segments_stay_bounds)
{
	tell_end(&story);
	expect_slice_of_file((struct time_slice_bound){true, false, 4 * S},
			     (struct time_slice_bound){true, false, 6 * S}, 4, 6);
}

Test(time_slice, bounds_count_from_the_end)
{
	tell_end(&story);
	expect_slice_of_file((struct time_slice_bound){true, true, 3 * S},
			     (struct time_slice_bound){true, true, 1 * S + 1}, 6, 10);
}

Test(time_slice, a_file_without_that_time)
{
	tell_end(&story);
	cr_expect_eq(cut_file((struct time_slice_bound){true, false, 11 * S},
			      (struct time_slice_bound){0}),
		     -ERANGE);
	cr_expect_eq(cut_file((struct time_slice_bound){true, false, 4 * S},
			      (struct time_slice_bound){true, false, 3 * S}),
		     -ERANGE);
}

/*
 * Captures of earlier versions stay readable: files that the program of November 2026 recorded,
 * before record kinds had their present names, and the reports that it made of them. Nothing but
 * the texts of these reports may change: the files are not for `make golden-update`.
 *
 * All are of tests/workloads: trainer (steps, FLOPs, sampled memory), flight (the same, written by
 * a flight recorder: keyframe and time slice), memory (every allocation), fork and execs
 * (processes), values and blocks (of perfx.h, by the workload `told`).
 */

#define FOLDER "tests/golden/captures/"

static void replay_capture(const char *name, struct aggregate *aggregate, struct time_slice *slice)
{
	struct pipeline pipeline = {.aggregate = aggregate, .time_slice = slice};
	struct capture_reader *reader;
	char path[128];

	snprintf(path, sizeof(path), FOLDER "%s.perfx", name);
	reader = capture_reader__open(path);
	cr_assert_not_null(reader, "%s", path);
	cr_assert_eq(pipeline_replay(&pipeline, reader), 0, "%s", path);
	cr_expect_eq(capture_reader__damage(reader)->places, 0, "%s", path);
	capture_reader__free(reader);
}

/* Texts may be reworded: strings with a space become " ". */
static size_t mask_texts(char *json)
{
	char *to = json;

	for (char *at = json, *end; *at; at = end) {
		end = at + 1;
		if (*at == '"') {
			while (*end != '"')
				end += *end == '\\' ? 2 : 1;
			end++;
		}
		if (*at == '"' && memchr(at, ' ', (size_t)(end - at))) {
			to = mempcpy(to, "\" \"", 3);
			continue;
		}
		memmove(to, at, (size_t)(end - at));
		to += end - at;
	}
	*to = '\0';
	return (size_t)(to - json);
}

static void expect_report(const char *name, const char *expected, struct time_slice *slice)
{
	struct aggregate *aggregate = aggregate__new();
	const struct profile *profile;
	struct analysis *analysis;
	struct report_options options = {0};
	char path[128], *report = NULL;
	size_t size;
	FILE *out = open_memstream(&report, &size);

	replay_capture(name, aggregate, slice);
	profile = aggregate__finish(aggregate);
	cr_assert_not_null(profile);
	analysis = analyze(profile, NULL);
	cr_assert_not_null(analysis);
	cr_assert_eq(report_writer_named("json")->write(out, profile, analysis, &options), 0);
	fclose(out);
	snprintf(path, sizeof(path), FOLDER "%s.json", expected);
	golden_expect(path, report, mask_texts(report));
	free(report);
	analysis__free(analysis);
	aggregate__free(aggregate);
}

Test(captures, of_earlier_versions)
{
	static const char *const names[] = {"trainer", "flight", "memory", "fork",
					    "execs",   "values", "blocks"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		expect_report(names[i], names[i], NULL);
}

/* From 300 ms to 500 ms. */
Test(captures, a_time_slice_of_one)
{
	struct time_slice *slice = time_slice__new(300 * MS, 500 * MS);

	cr_assert_not_null(slice);
	expect_report("trainer", "trainer-slice", slice);
	time_slice__free(slice);
}
