// SPDX-License-Identifier: BSD-2-Clause
/*
 * Captures → files of other tools, compared with those in tests/golden; the binary ones as protoc
 * reads them. `make golden-update` writes them anew; read the difference before committing it.
 */
#include "export/export.h"

#include "fixture.h"
#include "golden_cases.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>

static void story_span(struct stream *s, uint32_t context, uint32_t tid, uint16_t depth,
		       uint64_t at, uint64_t duration, uint16_t flags)
{
	stream_plain(s, PERFX_KIND_SPAN, struct perfx_span, .start_ns = STREAM_START + at,
		     .duration_ns = duration, .self_ns = duration / 2,
		     .process = s->contexts[context].process, .context = context,
		     .function = s->contexts[context].function, .tid = tid, .depth = depth,
		     .flags = flags);
}

/* All that a format can be asked to show, in few records: nesting that only depth tells, calls that
 * overlap, without times, of an unknown process, and after an exec; memory. */
static void story(struct stream *s)
{
	static const struct stream_place place = {1, 10, 2, 1, 1, PERFX_DOMAIN_TENSOR};

	stream_host(s);
	stream_process(s, 1, 10, "trainer", "./trainer\x1f-v");
	stream_thread(s, 1, 10, "main thread", 'R', 0, 0, 0);
	stream_function(s, 1, "train_step", TRAINER, PERFX_SOURCE_PERFX);
	stream_function(s, 2, "at::_ops::mm::call", TORCH, PERFX_SOURCE_TORCH);
	stream_function(s, 3, "a;b", TRAINER, PERFX_SOURCE_SYMBOL);
	stream_context(s, 1, 0, 1, 1);
	stream_context(s, 2, 1, 2, 1);
	stream_context(s, 3, 0, 3, 1);
	stream_context(s, 4, 0, 3, 2);
	stream_usage(s, 1, 0, 0, 0, 1 << 20);
	stream_allocator(s, 1, PERFX_DOMAIN_TENSOR, "torch", LIBC10);
	stream_stack(s, 1, 1, 0, 0x7000, 0x1100);
	stream_frame(s, 1, 0x7000, 0, "c10::alloc_cpu", LIBC10, 0x5000, "", 0);
	stream_frame(s, 1, 0x1100, 0, "main", TRAINER, 0x200, "/src/main.cc", 99);
	/* both begin at 0: the outer one comes first */
	story_span(s, 2, 10, 1, 0, 4 * MS, 0);
	stream_allocation(s, &place, 5 * MS, 0x1000, 4096, 0);
	story_span(s, 2, 10, 1, 4 * MS, 6 * MS + 1, 0);
	story_span(s, 1, 10, 0, 0, 10 * MS + 1, 0);
	story_span(s, 3, 10, 0, 11 * MS, 0, PERFX_SPAN_UNWOUND);
	story_span(s, 3, 10, 0, 12 * MS, 0, PERFX_SPAN_UNTIMED);
	/* two stacks on one thread */
	story_span(s, 3, 11, 1, 1 * MS, 5 * MS, 0);
	story_span(s, 3, 11, 1, 3 * MS, 6 * MS, 0);
	stream_plain(s, PERFX_KIND_EXEC, struct perfx_exec, .time_ns = STREAM_START + 15 * MS,
		     .process = 2, .old_process = 1, .pid = 10);
	story_span(s, 4, 10, 0, 16 * MS, 1 * MS, 0);
	stream_usage(s, 1, 14 * MS, 7 * MS, 0, 2 << 20);
	stream_end(s, 20 * MS, 0);
}

static int read_stream(void *capture, int (*on_event)(void *ctx, const struct event *event),
		       void *ctx)
{
	const struct stream *s = capture;
	const char *data = text_peek(&s->bytes);
	size_t skip;
	int err = 0;

	for (size_t at = 0; at < s->bytes.length && !err;) {
		struct event event;
		ssize_t used = decode_event(data + at, s->bytes.length - at, &event, &skip);

		cr_assert_geq(used, 0);
		at += (size_t)used;
		err = on_event(ctx, &event);
	}
	return err;
}

static int write_to(FILE *out, const char *format, void (*build)(struct stream *),
		    enum export_of of)
{
	struct aggregate *aggregate = aggregate__new();
	struct stream stream = {0};
	struct export export = {.out = out, .read = read_stream, .capture = &stream, .of = of};
	int err;

	build(&stream);
	cr_assert_eq(stream_replay(&stream, aggregate), 0);
	export.profile = aggregate__finish(aggregate);
	cr_assert_not_null(export.profile);
	export.has_gpu = export.profile->gpu_activities_count;
	export.has_values = export.profile->value_samples_count;
	for (size_t i = 0; i < export.profile->processes_count; i++)
		if (export.profile->processes[i].samples.count)
			export.has_samples = true;
	err = export_format_named(format)->write(&export);
	aggregate__free(aggregate);
	stream_clear(&stream);
	return err;
}

static char *export_part(const char *format, void (*build)(struct stream *), enum export_of of,
			 size_t *size)
{
	char *written = NULL;
	FILE *out = open_memstream(&written, size);

	cr_assert_eq(write_to(out, format, build, of), 0);
	fclose(out);
	return written;
}

static char *export_of(const char *format, void (*build)(struct stream *), size_t *size)
{
	return export_part(format, build, EXPORT_OF_ALL, size);
}

static char *read_all(FILE *file)
{
	struct text text = {0};
	char buffer[4096];
	size_t count;

	while ((count = fread(buffer, 1, sizeof(buffer), file)))
		text_add_bytes(&text, buffer, count);
	return text_take(&text);
}

/* What a program makes of it. */
static char *filtered(const char *bytes, size_t size, const char *command)
{
	char line[512], *text;
	FILE *pipe;

	fixture_write("in", bytes, size);
	snprintf(line, sizeof(line), "cat %s/in | %s", fixture_dir, command);
	pipe = popen(line, "r");
	cr_assert_not_null(pipe);
	text = read_all(pipe);
	cr_assert_eq(pclose(pipe), 0, "%s", command);
	return text;
}

static void check_golden(const char *name, const char *text)
{
	char path[256], *expected;
	FILE *file;

	snprintf(path, sizeof(path), "tests/golden/%s", name);
	if (getenv("PERFX_GOLDEN_UPDATE")) {
		file = fopen(path, "we");
		cr_assert_not_null(file, "%s", path);
		fputs(text, file);
		cr_assert_eq(fclose(file), 0);
	}
	file = fopen(path, "re");
	cr_assert_not_null(file, "%s is missing: run the tests from the repository's root", path);
	expected = read_all(file);
	fclose(file);
	cr_expect_str_eq(text, expected, "%s differs; got:\n%s", path, text);
	free(expected);
}

struct view {
	const char *format, *suffix, *command;
	enum export_of of;
};

/* One line for each message of protoc's text. */
#define ONE_LINE                                                              \
	" | awk '{sub(/^ +/, \" \")} /^ / {line = line $0; next} "            \
	"/^}/ {print line \" }\"; line = \"\"; next} /{$/ {line = $0; next} " \
	"{print}'"
#define PERFETTO_TEXT "protoc --decode=Trace -Iuser/export perfetto.proto" ONE_LINE
#define PPROF_TEXT    "zcat | protoc --decode=Profile -Iuser/export pprof.proto" ONE_LINE

static const struct view views[] = {
	{"perfetto", "pftrace.txt", PERFETTO_TEXT, 0},
	{"pprof", "pprof.txt", PPROF_TEXT, 0},
	{"chrome", "trace.json", NULL, 0},
	{"folded", "folded", NULL, 0},
	{"speedscope", "speedscope.json", NULL, 0},
	{"openmetrics", "prom", NULL, 0},
};

/* Of stacks, one thing each. */
static const struct view parts[] = {
	{"folded", "cpu.folded", NULL, EXPORT_OF_CPU},
	{"folded", "off-cpu.folded", NULL, EXPORT_OF_OFF_CPU},
	{"folded", "alloc.folded", NULL, EXPORT_OF_ALLOC},
	{"speedscope", "cpu.speedscope.json", NULL, EXPORT_OF_CPU},
	{"pprof", "cpu.pprof.txt", PPROF_TEXT, EXPORT_OF_CPU},
};

static void gpu_step(struct stream *s)
{
	golden_gpu_training(s, &golden_gpu_first, 1);
}

static void check_view(const char *name, void (*build)(struct stream *), const struct view *view)
{
	char golden[128], *written, *text = NULL;
	size_t size;

	written = export_part(view->format, build, view->of, &size);
	snprintf(golden, sizeof(golden), "%s.%s", name, view->suffix);
	if (view->command)
		text = filtered(written, size, view->command);
	check_golden(golden, text ? text : written);
	free(text);
	free(written);
}

static bool can_read(const struct view *view)
{
	bool can = !view->command || system("command -v protoc >/dev/null") == 0;

	if (!can)
		fprintf(stderr, "no protoc here: %s is left out\n", view->format);
	return can;
}

Test(export, parts, .init = fixture_set_up, .fini = fixture_tear_down)
{
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (can_read(&parts[i]))
			check_view("code", golden_code, &parts[i]);
}

Test(export, goldens, .init = fixture_set_up, .fini = fixture_tear_down)
{
	for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
		if (!can_read(&views[i]))
			continue;
		check_view("code", golden_code, &views[i]);
		check_view("story", story, &views[i]);
		check_view("hostile", golden_hostile, &views[i]);
		if (strstr(" openmetrics perfetto ", views[i].format))
			check_view("energy", golden_energy, &views[i]);
		/* values, steps and timelines: stacks have none of them */
		if (strstr(" openmetrics chrome perfetto ", views[i].format)) {
			check_view("annotations", golden_annotations, &views[i]);
			check_view("ranges", golden_ranges, &views[i]);
		}
		if (strstr(" chrome perfetto ", views[i].format))
			check_view("gpu-step", gpu_step, &views[i]);
	}
}

Test(export, by_name_and_suffix)
{
	static const struct {
		const char *path, *name;
	} rows[] = {
		{"a.pftrace", "perfetto"},
		{"b/run.pt.trace.json", "chrome"},
		{"run.trace.json", "chrome"},
		{"x.pb.gz", "pprof"},
		{"x.folded", "folded"},
		{"x.speedscope.json", "speedscope"},
		{"x.prom", "openmetrics"},
		{"x.json", NULL},
		{".pftrace", NULL},
		{"a.pftrace/x", NULL},
		{"", NULL},
	};
	const struct export_format *format;
	char names[128], *rest = names, *name;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		format = format_for_path(&export_formats, rows[i].path);
		if (!rows[i].name)
			cr_expect_null(format, "%s", rows[i].path);
		else
			cr_expect(format && !strcmp(format->format.name, rows[i].name), "%s",
				  rows[i].path);
	}
	/* of which a suffix may be meant */
	format = format_like(&export_formats, "a.b/run.json", NULL);
	cr_assert(format && !strcmp(format->format.name, "chrome"));
	format = format_like(&export_formats, "a.b/run.json", format);
	cr_assert(format && !strcmp(format->format.name, "speedscope"));
	cr_expect_null(format_like(&export_formats, "a.b/run.json", format));
	cr_expect_null(format_like(&export_formats, "a.json/run", NULL));
	cr_expect_null(format_like(&export_formats, "run.js", NULL));
	snprintf(names, sizeof(names), "%s", format_names(&export_formats));
	while ((name = strsep(&rest, ",")))
		cr_expect_not_null(export_format_named(name + strspn(name, " ")), "%s", name);
	cr_expect_null(export_format_named("xml"));
}

/* What is JSON parses, whatever the names. */
Test(export, json_is_json)
{
	static const char *const formats[] = {"chrome", "speedscope"};

	for (size_t i = 0; i < GOLDEN_CASES; i++) {
		for (size_t j = 0; j < 2; j++) {
			json_error_t error;
			size_t size;
			char *text;
			json_t *root;

			if (!strcmp(golden_cases[i].name, "truncated"))
				continue; /* its last record cannot be decoded */
			text = export_of(formats[j], golden_cases[i].build, &size);
			root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
			cr_expect_not_null(root, "%s of %s: %s, line %d", formats[j],
					   golden_cases[i].name, error.text, error.line);
			json_decref(root);
			free(text);
		}
	}
}

/* A full disk. */
Test(export, errors_of_the_stream_are_returned)
{
	for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
		FILE *full = fopen("/dev/full", "we");

		setvbuf(full, NULL, _IONBF, 0);
		cr_expect_eq(write_to(full, views[i].format, story, EXPORT_OF_ALL), -ENOSPC, "%s",
			     views[i].format);
		fclose(full);
	}
}
