// SPDX-License-Identifier: BSD-2-Clause
/* Damaged captures through everything from decode to the writers. */
#include "golden_cases.h"

#include "analyze/analyze.h"
#include "report/report.h"

#include <criterion/criterion.h>
#include <stdio.h>

static const char *const formats[] = {"text", "md", "json"};

static void report_everything(struct aggregate *aggregate, FILE *out)
{
	static const struct report_options options = {.width = 80};
	const struct profile *profile = aggregate__finish(aggregate);
	struct analysis *analysis;

	cr_assert_not_null(profile);
	analysis = analyze(profile);
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
	for (int round = 0; round < 2000; round++) {
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
		snprintf(name + 900, sizeof(name) - 900, "function<%u>", f);
		stream_function(&s, f, name, "/usr/lib/libsome_library_with_a_name.so.1.2.3",
				PERFX_SOURCE_SYMBOL);
		stream_plain(&s, PERFX_KIND_PROBE, struct perfx_probe_record, .probe = f,
			     .function = f, .link = PERFX_LINK_MULTI, .site = PERFX_SITE_PUSH);
		stream_add(&s, PERFX_KIND_NOT_ATTACHED, struct perfx_not_attached,
			   STRINGS(name, "no place for a probe"), .count = 1);
	}
	for (uint32_t p = 1; p <= 40; p++) {
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
	analysis = analyze(profile);
	cr_assert_eq(report_writer_named("md")->write(out, profile, analysis, &options), 0);
	fclose(out);
	/* GitHub's limit of a comment */
	cr_expect_lt(size, 65536, "%zu", size);
	cr_expect_not_null(strstr(report, "function<400>"));
	free(report);
	analysis__free(analysis);
	aggregate__free(aggregate);
}
