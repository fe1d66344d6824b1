// SPDX-License-Identifier: BSD-2-Clause
/* Two captures → what changed, in every format, compared with files in tests/golden. */
#include "golden_cases.h"
#include "golden_file.h"

#include "base/text.h"
#include "diff/diff.h"

#include <jansson.h>

/* Ten steps a second with a product in each: 40 ms in A, 50 ms in B. What is prepared is faster in
 * B, and a call of the C library's is only there; B keeps more memory. */
static void trainer(struct stream *s, bool later)
{
	const struct stream_place place = {1, 4242, 1, 1, 1, PERFX_DOMAIN_HOST};
	const struct stream_cost product = {PERFX_COST_COUNTED, PERFX_DTYPE_F32, 4000000000,
					    40000000};
	uint64_t steps = later ? 60 : 40, gemm = later ? 50 * MS : 40 * MS;
	uint64_t prepare = later ? 4 * MS : 5 * MS;

	stream_host(s);
	stream_process(s, 1, later ? 5151 : 4242, "trainer",
		       "./trainer\x1f--epochs\x1f"
		       "3");
	stream_function(s, 1, "train_step", "/opt/train/trainer", PERFX_SOURCE_PERFX);
	stream_function(s, 2, "cblas_sgemm", later ? "/b/libblas.so.4" : "/a/libblas.so.3",
			PERFX_SOURCE_BLAS);
	stream_function(s, 3, "prepare", "/opt/train/trainer", PERFX_SOURCE_PERFX);
	stream_function(s, 4, later ? "memmove" : "memcpy", "/lib/libc.so.6", PERFX_SOURCE_SYMBOL);
	stream_function(s, 5, "evaluate", "/opt/train/trainer", PERFX_SOURCE_PERFX);
	stream_allocator(s, 1, PERFX_DOMAIN_HOST, "libc", LIBC);
	stream_stack(s, 1, 1, 0, 0x1000);
	stream_frame(s, 1, 0x1000, 0, "forward", MODEL, 0x100, "/src/net.cc", later ? 44 : 42);
	stream_memory_mode(s, 0, PERFX_DOMAIN_HOST, PERFX_MEMORY_EXACT, 0);
	for (uint32_t f = 1; f <= 5; f++)
		stream_context(s, f, f > 1, f, 1);
	stream_usage(s, 1, 0, 0, 0, 200 << 20);
	for (uint64_t i = 0; i < steps; i++) {
		uint64_t at = i * 100 * MS, jitter = i % 5 * 100 * US;

		stream_allocation(s, &place, at, 0x10000, later ? 96 << 20 : 64 << 20, 0);
		stream_free(s, &place, at + 60 * MS, 0x10000, 0, 0);
		stream_call(s, 3, 4242, at, prepare + jitter, prepare + jitter, 0);
		stream_call(s, 4, 4242, at + 7 * MS, 1 * MS, 1 * MS, 0);
		stream_compute(s, 2, 4242, at + 10 * MS, gemm + jitter, gemm + jitter, product);
		stream_call(s, 1, 4242, at, 80 * MS + jitter, 80 * MS - gemm - prepare - MS, 0);
	}
	stream_call(s, 5, 4242, steps * 100 * MS - 10 * MS, 5 * MS, 5 * MS, 0);
	stream_usage(s, 1, steps * 100 * MS, steps * 80 * MS, 0, later ? 232 << 20 : 200 << 20);
	stream_end(s, steps * 100 * MS, 0);
}

static void before(struct stream *s)
{
	trainer(s, false);
}

static void after(struct stream *s)
{
	trainer(s, true);
}

/* A training whose steps wait longer for their data in B. */
static void training(struct stream *s, uint64_t steps, uint64_t data)
{
	uint64_t at = 10 * MS;

	stream_host(s);
	ranges_trainer(s);
	stream_peak(s, 2, PERFX_DTYPE_F32, 190000000000, 15000000000);
	stream_usage(s, 1, 0, 0, 0, 300 << 20);
	for (uint64_t step = 0; step < steps; step++) {
		uint64_t wait = data + step % 5 * 500 * US;

		ranges_step(s, at, wait);
		at += 90 * MS + wait;
	}
	stream_usage(s, 1, at, at, 0, 300 << 20);
	stream_end(s, at, 0);
}

static void training_before(struct stream *s)
{
	training(s, 40, 10 * MS);
}

static void training_after(struct stream *s)
{
	training(s, 60, 25 * MS);
}

/* Products take longer, copies are pinned, and a single kernel updates all weights. */
static void gpu_after(struct stream *s)
{
	static const struct golden_gpu_training later = {
		.product_ns = 18 * MS,
		.copy_ns = 400 * US,
		.jitter_ns = 40 * US,
		.optimizer_kernels = 1,
		.host_memory = PERFX_GPU_HOST_MEMORY_PINNED,
	};

	golden_gpu_training(s, &later, 10);
}

struct pair {
	const char *name;
	void (*build[2])(struct stream *);
	struct diff_options options;
};

static const struct pair pairs[] = {
	{"diff", {before, after}, {.name_a = "before.perfx", .name_b = "after.perfx"}},
	{"diff-fails",
	 {before, after},
	 {.name_a = "before.perfx", .name_b = "after.perfx", .fails = true}},
	{"diff-steps",
	 {training_before, training_after},
	 {.name_a = "before.perfx", .name_b = "after.perfx", .fails = true}},
	{"diff-gpu",
	 {golden_gpu, gpu_after},
	 {.name_a = "before.perfx", .name_b = "after.perfx", .fails = true}},
	/* from outside, then with an agent; and from outside both times */
	{"diff-gpu-levels",
	 {golden_gpu_calls, golden_gpu},
	 {.name_a = "before.perfx", .name_b = "after.perfx"}},
	{"diff-gpu-calls",
	 {golden_gpu_calls, golden_gpu_calls},
	 {.name_a = "before.perfx", .name_b = "after.perfx"}},
	{"diff-hostile",
	 {golden_hostile, golden_hostile},
	 {.name_a = "|`<b>\x1b[1m\n", .name_b = "*\xff.perfx"}},
	/* other programs, one of them cut off */
	{"diff-nothing",
	 {golden_silent, golden_truncated},
	 {.name_a = "before.perfx", .name_b = "after.perfx"}},
};

static const struct profile *replayed(const struct pair *pair, int side, struct aggregate *into)
{
	struct stream stream = {0};
	const struct profile *profile;

	pair->build[side](&stream);
	cr_assert_eq(stream_replay(&stream, into), 0);
	stream_clear(&stream);
	profile = aggregate__finish(into);
	cr_assert_not_null(profile);
	return profile;
}

static char *difference_of(const struct pair *pair, const char *format, unsigned width,
			   size_t *size)
{
	struct aggregate *a = aggregate__new(), *b = aggregate__new();
	const struct profile *profile_a = replayed(pair, 0, a), *profile_b = replayed(pair, 1, b);
	struct analysis *of_a = analyze(profile_a, NULL), *of_b = analyze(profile_b, NULL);
	struct diff *diff = diff__new(profile_a, profile_b, 0.05);
	struct diff_options options = pair->options;
	char *text = NULL;
	FILE *out = open_memstream(&text, size);

	cr_assert(diff && of_a && of_b);
	cr_assert_eq(diff_findings(diff, of_a, of_b), 0);
	options.width = width;
	cr_assert_eq(diff_writer_named(format)->write(out, diff, &options), 0);
	fclose(out);
	diff__free(diff);
	analysis__free(of_a);
	analysis__free(of_b);
	aggregate__free(a);
	aggregate__free(b);
	return text;
}

#define PAIRS (sizeof(pairs) / sizeof(pairs[0]))

Test(difference, whole_reports)
{
	static const struct {
		const char *format, *suffix;
		unsigned width;
		const char *pairs; /* " name name "; NULL: all */
	} views[] = {{"text", "80.txt", 80, NULL},
		     {"text", "160.txt", 160, " diff diff-gpu-levels "},
		     {"md", "md", 0, " diff diff-gpu diff-hostile "},
		     {"json", "json", 0, NULL}};

	for (size_t i = 0; i < PAIRS; i++) {
		for (size_t j = 0; j < sizeof(views) / sizeof(views[0]); j++) {
			char path[256], word[64], *text;
			size_t size;

			snprintf(word, sizeof(word), " %s ", pairs[i].name);
			if (views[j].pairs && !strstr(views[j].pairs, word))
				continue;
			text = difference_of(&pairs[i], views[j].format, views[j].width, &size);
			snprintf(path, sizeof(path), "tests/golden/%s.%s", pairs[i].name,
				 views[j].suffix);
			golden_expect(path, text, size);
			free(text);
		}
	}
}

Test(difference, text_is_tame)
{
	for (size_t i = 0; i < PAIRS; i++) {
		char *text, *line, *rest;
		size_t size;

		text = rest = difference_of(&pairs[i], "text", 60, &size);
		for (const char *p = text; *p; p++)
			cr_assert(*p == '\n' || (unsigned char)*p >= 0x20, "%s: \\x%02x",
				  pairs[i].name, (unsigned char)*p);
		while ((line = strsep(&rest, "\n")))
			cr_assert_leq(utf8_width(line), 60, "%s: %s", pairs[i].name, line);
		free(text);
	}
}

Test(difference, json_is_json)
{
	for (size_t i = 0; i < PAIRS; i++) {
		json_t *root, *summary, *process, *function;
		size_t size, at, of, slower = 0;
		char *text = difference_of(&pairs[i], "json", 0, &size);

		root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
		cr_assert_not_null(root, "%s", pairs[i].name);
		summary = json_object_get(root, "summary");
		json_array_foreach(json_object_get(root, "processes"), at, process)
		{
			json_array_foreach(json_object_get(process, "functions"), of, function)
				slower +=
				!strcmp("slower",
					json_string_value(json_object_get(function, "time")));
		}
		cr_assert_eq(slower,
			     (size_t)json_integer_value(json_object_get(summary, "slower")));
		json_decref(root);
		free(text);
	}
}

struct analyzed {
	struct profile profile;
	struct profile_process process;
	struct finding findings[4];
	struct process_analysis of_process;
	struct analysis analysis;
};

static struct finding finding(const char *kind, char *subject)
{
	return (struct finding){.kind = kind,
				.severity = FINDING_MEDIUM,
				.subject = subject,
				.evidence = (char *)"so much; and more",
				.threshold = (char *)"",
				.suggestion = (char *)""};
}

static void analyzed_set(struct analyzed *analyzed, size_t findings_count)
{
	analyzed->process = (struct profile_process){.comm = "trainer", .cmdline = ""};
	analyzed->profile = (struct profile){
		.host_name = "", .processes = &analyzed->process, .processes_count = 1};
	analyzed->of_process.findings = analyzed->findings;
	analyzed->of_process.findings_count = findings_count;
	analyzed->analysis.processes = &analyzed->of_process;
	analyzed->analysis.processes_count = 1;
}

/* Same kind and subject but for the pid: the same. Same kind of another subject: another one. */
Test(difference, findings_that_went_and_came)
{
	struct analyzed a = {
		.findings = {finding("MemoryLeak", (char *)"heap of \x0et\x0f (pid 42)"),
			     finding("IdleTarget", (char *)"\x0et\x0f (pid 42)"),
			     finding("SlowOperation", (char *)"\x0e"
							      "f\x0f")}};
	struct analyzed b = {.findings = {finding("IdleTarget", (char *)"\x0et\x0f (pid 5151)"),
					  finding("SlowOperation", (char *)"\x0eg\x0f")}};
	struct text verdict = {0};
	struct diff *diff;

	analyzed_set(&a, 3);
	analyzed_set(&b, 2);
	diff = diff__new(&a.profile, &b.profile, 0.05);
	cr_assert_not_null(diff);
	cr_assert_eq(diff_findings(diff, &a.analysis, &b.analysis), 0);
	cr_assert_eq(diff->processes[0].findings_count, 3);
	cr_expect_eq(diff->processes[0].findings[0].in, DIFF_IN_A);
	cr_expect_eq(diff->processes[0].findings[0].finding, &a.findings[0]);
	cr_expect_eq(diff->processes[0].findings[1].finding, &a.findings[2]);
	cr_expect_eq(diff->processes[0].findings[2].in, DIFF_IN_B);
	cr_expect_eq(diff->processes[0].findings[2].finding, &b.findings[1]);
	diff_say_verdict(&verdict, diff);
	cr_expect_str_eq(text_peek(&verdict),
			 "Gone: MemoryLeak, heap of t (pid 42): so much (and 1 more finding). "
			 "New: SlowOperation, g: so much. No function was called in both "
			 "recordings.");
	text_clear(&verdict);
	diff__free(diff);
}
