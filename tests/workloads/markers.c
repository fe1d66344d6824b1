/* SPDX-License-Identifier: BSD-2-Clause */
/* Every marker of perfx.h, in known numbers: nested ranges, ranges that another thread ends, names
 * made at run time, steps, counters, memory. */
#include <perfx.h>
#include <pthread.h>

#include "known.h"

enum { STEPS = 10, LAYERS = 5, HANDED_OVER = 8 };

static uint64_t handed_over[HANDED_OVER];

static void *end_them(void *arg)
{
	PERFX_SCOPE("other thread");
	for (int i = 0; i < HANDED_OVER; i++)
		perfx_range_end(handed_over[i]);
	return arg;
}

static void across_threads(void)
{
	pthread_t thread;

	for (int i = 0; i < HANDED_OVER; i++)
		handed_over[i] = perfx_range_start("handed over");
	if (pthread_create(&thread, NULL, end_them, NULL) || pthread_join(thread, NULL))
		exit(1);
}

static void layers(void)
{
	char name[32];

	PERFX_SCOPE("forward");
	for (int i = 0; i < LAYERS; i++) {
		snprintf(name, sizeof(name), "layer %d", i);
		perfx_range_push(name);
		memset(name, 'x', sizeof(name) - 1); /* it is not kept */
		KEEP(i);
		perfx_range_pop();
	}
}

static void step(int number)
{
	void *block = &handed_over[number % HANDED_OVER];

	PERFX_TRACK_AS("markers step");
	perfx_step_begin();
	perfx_memory_alloc("arena", block, 4096);
	layers();
	perfx_counter("loss", 1.0 / (number + 1));
	perfx_counter_add("samples", 32);
	perfx_memory_free("arena", block);
	perfx_step_end();
}

static void scenario(void)
{
	perfx_mark("scenario");
	perfx_trace_start();
	for (int i = 0; i < STEPS; i++)
		step(i);
	perfx_trace_stop();
	across_threads();
}

int main(void)
{
	uint64_t runs = known_main(scenario);

	known_expect("markers step", "calls", runs * STEPS);
	known_expect("forward", "ranges", runs * STEPS);
	for (int i = 0; i < LAYERS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "layer %d", i);
		known_expect(name, "ranges", runs * STEPS);
	}
	known_expect("other thread", "ranges", runs);
	known_expect("handed over", "started", runs * HANDED_OVER);
	known_expect("handed over", "ended", runs * HANDED_OVER);
	known_expect("pop", "pops", runs * (STEPS * (1 + LAYERS) + 1));
	known_expect("scenario", "marks", runs);
	known_expect("loss", "counts", runs * STEPS);
	known_expect("samples", "additions", runs * STEPS);
	known_expect("arena", "allocs", runs * STEPS);
	known_expect("arena", "frees", runs * STEPS);
	known_expect("step", "begins", runs * STEPS);
	known_expect("step", "ends", runs * STEPS);
	known_expect("trace", "starts", runs);
	known_expect("trace", "stops", runs);
	return 0;
}
