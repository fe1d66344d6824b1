// SPDX-License-Identifier: BSD-2-Clause
/*
 * Span records a second through decode and aggregate, on one core. Prints, asserts nothing:
 *
 *     spans  contexts  threads   median      best   ns/span
 *       4 M         8        1   31 M/s    32 M/s        32
 */
#include "stream_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SPANS  4000000
#define ROUNDS 7

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * S + (uint64_t)ts.tv_nsec;
}

/* Contexts as wide trees give them, durations over some octaves. */
static struct perfx_span *make_spans(uint32_t contexts, uint32_t threads)
{
	struct perfx_span *spans = calloc(SPANS, sizeof(*spans));

	srand(1);
	for (uint32_t i = 0; spans && i < SPANS; i++) {
		uint32_t context = 1 + (uint32_t)rand() % contexts;
		uint64_t duration = 500 + (uint64_t)rand() % (1000u << rand() % 8);

		spans[i] = (struct perfx_span){
			.hdr = {.size = sizeof(*spans),
				.kind = PERFX_KIND_SPAN,
				.fixed = sizeof(*spans)},
			.start_ns = STREAM_START + i * US,
			.duration_ns = duration,
			.self_ns = duration / 2,
			.process = 1,
			.context = context,
			.function = context,
			.tid = 1000 + (uint32_t)rand() % threads,
		};
	}
	return spans;
}

static uint64_t run_once(const struct perfx_span *spans, uint32_t contexts)
{
	struct aggregate *aggregate = aggregate__new();
	struct stream s = {0};
	uint64_t began, took;
	struct event event;
	size_t skip;

	stream_host(&s);
	stream_process(&s, 1, 1000, "bench", "bench");
	for (uint32_t c = 1; c <= contexts; c++) {
		stream_function(&s, c, "function", "/bin/bench", PERFX_SOURCE_SYMBOL);
		stream_plain(&s, PERFX_KIND_CONTEXT, struct perfx_context, .context = c,
			     .function = c, .process = 1);
	}
	stream_replay(&s, aggregate);
	began = now_ns();
	for (size_t i = 0; i < SPANS; i++) {
		if (decode_event(&spans[i], sizeof(spans[i]), &event, &skip) < 0 ||
		    aggregate__add(aggregate, &event))
			abort();
	}
	took = now_ns() - began;
	if (aggregate__finish(aggregate)->calls_count != SPANS)
		abort();
	aggregate__free(aggregate);
	stream_clear(&s);
	return took;
}

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

static void bench(uint32_t contexts, uint32_t threads)
{
	struct perfx_span *spans = make_spans(contexts, threads);
	uint64_t took[ROUNDS];

	if (!spans)
		abort();
	for (int i = 0; i < ROUNDS; i++)
		took[i] = run_once(spans, contexts);
	qsort(took, ROUNDS, sizeof(took[0]), compare);
	printf("%3d M  %8u  %7u  %4.0f M/s  %4.0f M/s  %8.0f\n", SPANS / 1000000, contexts, threads,
	       SPANS * 1e3 / (double)took[ROUNDS / 2], SPANS * 1e3 / (double)took[0],
	       (double)took[ROUNDS / 2] / SPANS);
	free(spans);
}

int main(void)
{
	printf("spans  contexts  threads    median      best   ns/span\n");
	bench(8, 1);
	bench(200, 1);
	bench(200, 64);
	bench(5000, 16);
	return 0;
}
