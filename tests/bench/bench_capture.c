// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writing and replaying captures, for capture.py: numbers on one line, CPU time in ns.
 *
 *     bench_capture make FILE SPANS    → bytes, time of writing
 *     bench_capture replay FILE        → bytes, spans, other records, time to a finished profile
 *
 * What is made: a trainer's steps, nested calls of 200 functions, durations that vary by a tenth.
 */
#include "stream_builder.h"

#include "replay/replay.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CONTEXTS 200
#define INNER	 4 /* calls of an inner function in each outer one */

/* CPU time: independent of other programs. */
static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * S + (uint64_t)ts.tv_nsec;
}

static void add(struct capture_writer *writer, const struct perfx_record *record)
{
	if (capture_writer__add(writer, record, record->size))
		abort();
}

static void add_stream(struct capture_writer *writer, struct stream *s)
{
	struct perfx_record hdr;

	for (size_t at = 0; at < s->bytes.length; at += hdr.size) {
		memcpy(&hdr, s->bytes.data + at, sizeof(hdr));
		add(writer, (const struct perfx_record *)(s->bytes.data + at));
	}
	stream_clear(s);
}

static void describe(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 1000, "bench", "bench");
	for (uint32_t c = 1; c <= CONTEXTS; c++) {
		stream_function(s, c, "function", "/bin/bench", PERFX_SOURCE_SYMBOL);
		stream_plain(s, PERFX_KIND_CONTEXT, struct perfx_context, .context = c,
			     .parent = c % 2 ? 0 : c - 1, .function = c, .process = 1);
	}
}

static uint64_t varied(uint64_t ns)
{
	return ns - ns / 20 + (uint64_t)rand() % (ns / 10 + 1);
}

static void add_span(struct capture_writer *writer, uint32_t context, uint64_t start,
		     uint64_t duration, uint64_t called)
{
	struct perfx_span span = {
		.hdr = {PERFX_SPAN_PLAIN_BYTES, PERFX_KIND_SPAN, PERFX_SPAN_PLAIN_BYTES},
		.start_ns = start,
		.duration_ns = duration,
		.self_ns = duration - called,
		.process = 1,
		.context = context,
		.function = context,
		.tid = 1000,
		.depth = context % 2 ? 0 : 1,
	};

	add(writer, &span.hdr);
}

static void add_spans(struct capture_writer *writer, uint64_t count)
{
	uint64_t at = STREAM_START, made = 0;

	for (uint32_t outer = 1; made < count; outer = (outer + 2) % CONTEXTS) {
		uint64_t begin = at, called = 0;

		for (int i = 0; i < INNER && ++made < count; i++) {
			uint64_t took = varied(1000u << outer % 11);

			add_span(writer, outer + 1, at += varied(800), took, 0);
			at += took;
			called += took;
		}
		at += varied(500);
		add_span(writer, outer, begin, at - begin, called);
		made++;
		at += varied(2000);
	}
}

static uint64_t file_bytes(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

static int make(const char *path, uint64_t spans)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	struct capture_writer *writer = fd < 0 ? NULL : capture_writer__new(fd);
	struct stream s = {0};
	uint64_t began;

	if (!writer)
		return 1;
	describe(&s);
	began = now_ns();
	add_stream(writer, &s);
	add_spans(writer, spans);
	stream_end(&s, 1 * S, 0);
	add_stream(writer, &s);
	if (capture_writer__free(writer))
		return 1;
	printf("%" PRIu64 " %" PRIu64 "\n", file_bytes(path), now_ns() - began);
	return 0;
}

static void count_records(const char *path, uint64_t *spans, uint64_t *others)
{
	struct capture_reader *reader = capture_reader__open(path);
	const void *records;
	size_t size;

	while (reader && capture_reader__next(reader, &records, &size) > 0) {
		struct perfx_record hdr;

		for (size_t at = 0; at < size; at += hdr.size) {
			memcpy(&hdr, (const char *)records + at, sizeof(hdr));
			++*(hdr.kind == PERFX_KIND_SPAN ? spans : others);
		}
	}
	capture_reader__free(reader);
}

static int replay(const char *path)
{
	uint64_t spans = 0, others = 0, began = now_ns(), took;
	struct pipeline pipeline = {.aggregate = aggregate__new()};
	struct capture_reader *reader = capture_reader__open(path);

	if (!reader || !pipeline.aggregate || pipeline_replay(&pipeline, reader) ||
	    !aggregate__finish(pipeline.aggregate))
		return 1;
	took = now_ns() - began;
	capture_reader__free(reader);
	aggregate__free(pipeline.aggregate);
	count_records(path, &spans, &others);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", file_bytes(path), spans, others,
	       took);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "make"))
		return make(argv[2], strtoull(argv[3], NULL, 10));
	if (argc == 3 && !strcmp(argv[1], "replay"))
		return replay(argv[2]);
	return 2;
}
