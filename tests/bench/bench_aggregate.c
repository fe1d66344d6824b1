// SPDX-License-Identifier: BSD-2-Clause
/*
 * Records a second through decode and aggregate, on one core. Prints, asserts nothing:
 *
 *     spans  contexts  threads   median      best   ns/span
 *       4 M         8        1   31 M/s    32 M/s        32
 *
 *     events      live  sites  threads     median       best  ns/event  RSS MiB
 *       8 M   1000000   2000        8    5.2 M/s    6.7 M/s       193       40
 *
 * Blocks are freed in random order, the worst there is for caches. RSS: what the aggregate has
 * added to it when all of that is live.
 */
#include "stream_builder.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define SPANS  4000000
#define ROUNDS 7

/* CPU time: independent of other programs. */
static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * S + (uint64_t)ts.tv_nsec;
}

/* Contexts as in wide trees, durations over some octaves. */
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

#define MEMORY_EVENTS 8000000

static double rss_mib(void)
{
	long pages = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2)
		abort();
	fclose(file);
	return (double)resident * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

union memory_record {
	struct perfx_record hdr;
	struct perfx_allocation allocation;
	struct perfx_free free;
};

struct memory_load {
	uint32_t live, sites, threads;
	uint64_t *addresses; /* of the live blocks */
	uint64_t made;
};

static void make_allocation(union memory_record *record, struct memory_load *load, uint32_t slot,
			    uint64_t at)
{
	/* as in a heap: the latest freed addresses come first */
	if (!load->addresses[slot])
		load->addresses[slot] = 0x7f0000000000 + 48 * load->made++;
	record->allocation = (struct perfx_allocation){
		.hdr = {sizeof(record->allocation), PERFX_KIND_ALLOCATION,
			sizeof(record->allocation)},
		.time_ns = STREAM_START + at,
		.address = load->addresses[slot],
		.size_bytes = 16 + (uint64_t)rand() % 1000,
		.process = 1,
		.tid = 1000 + (uint32_t)rand() % load->threads,
		.stack = 1 + (uint32_t)rand() % load->sites,
		.domain = PERFX_DOMAIN_HOST,
	};
}

static void make_free(union memory_record *record, const struct memory_load *load, uint32_t slot,
		      uint64_t at)
{
	record->free = (struct perfx_free){
		.hdr = {sizeof(record->free), PERFX_KIND_FREE, sizeof(record->free)},
		.time_ns = STREAM_START + at,
		.address = load->addresses[slot],
		.process = 1,
		.tid = 1000 + (uint32_t)rand() % load->threads,
		.domain = PERFX_DOMAIN_HOST,
	};
}

/* First the live blocks, then random blocks are freed and allocated again. */
static union memory_record *make_memory(struct memory_load *load, size_t count)
{
	union memory_record *records = calloc(count, sizeof(*records));
	uint32_t slot = 0;

	load->addresses = calloc(load->live, sizeof(*load->addresses));
	if (!records || !load->addresses)
		abort();
	srand(1);
	for (size_t i = 0; i < count; i++) {
		if (i < load->live) {
			make_allocation(&records[i], load, (uint32_t)i, i * US);
		} else if ((i - load->live) % 2 == 0) {
			slot = (uint32_t)rand() % load->live;
			make_free(&records[i], load, slot, i * US);
		} else {
			make_allocation(&records[i], load, slot, i * US);
		}
	}
	free(load->addresses);
	return records;
}

static void add_memory(struct aggregate *aggregate, const union memory_record *records, size_t from,
		       size_t to)
{
	struct event event;
	size_t skip;

	for (size_t i = from; i < to; i++) {
		if (decode_event(&records[i], sizeof(records[i]), &event, &skip) < 0 ||
		    aggregate__add(aggregate, &event))
			abort();
	}
}

static uint64_t memory_once(const union memory_record *records, uint32_t live, double *rss)
{
	struct aggregate *aggregate = aggregate__new();
	struct stream s = {0};
	uint64_t began, took;

	malloc_trim(0);
	*rss = rss_mib();
	stream_host(&s);
	stream_process(&s, 1, 1000, "bench", "bench");
	stream_replay(&s, aggregate);
	stream_clear(&s);
	add_memory(aggregate, records, 0, live);
	*rss = rss_mib() - *rss;
	began = now_ns();
	add_memory(aggregate, records, live, MEMORY_EVENTS + live);
	took = now_ns() - began;
	if (aggregate__finish(aggregate)->processes[0].memory[0].current_count != live)
		abort();
	aggregate__free(aggregate);
	return took;
}

static void bench_memory(uint32_t live, uint32_t sites, uint32_t threads)
{
	struct memory_load load = {.live = live, .sites = sites, .threads = threads};
	union memory_record *records = make_memory(&load, MEMORY_EVENTS + live);
	uint64_t took[ROUNDS];
	double rss = 0;

	for (int i = 0; i < ROUNDS; i++)
		took[i] = memory_once(records, live, &rss);
	qsort(took, ROUNDS, sizeof(took[0]), compare);
	printf("%4d M  %8u  %5u  %7u  %5.1f M/s  %5.1f M/s  %8.0f  %7.0f\n",
	       MEMORY_EVENTS / 1000000, live, sites, threads,
	       MEMORY_EVENTS * 1e3 / (double)took[ROUNDS / 2],
	       MEMORY_EVENTS * 1e3 / (double)took[0], (double)took[ROUNDS / 2] / MEMORY_EVENTS,
	       rss);
	free(records);
}

int main(void)
{
	printf("spans  contexts  threads    median      best   ns/span\n");
	bench(8, 1);
	bench(200, 1);
	bench(200, 64);
	bench(5000, 16);
	printf("\nevents      live  sites  threads     median       best  ns/event  RSS MiB\n");
	bench_memory(1000, 100, 1);
	bench_memory(50000, 2000, 8);
	bench_memory(1000000, 2000, 8);
	return 0;
}
