/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process with a known heap of the allocator that is preloaded, in four threads: blocks of all
 * sizes, of which two of three are freed. What is expected is by the allocator's own statistics:
 *
 *	expect heap held_bytes N	expect heap free_bytes N
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "known.h"

#define THREADS 4
#define BLOCKS	20000
#define PAGE	4096

static void *blocks[THREADS][BLOCKS];
static atomic_int ready_count;

/* Sizes of small classes mostly; one in 400 is large. */
static void use_heap(void **own, unsigned seed)
{
	for (int i = 0; i < BLOCKS; i++) {
		size_t size = 1 + (size_t)rand_r(&seed) % (i % 400 ? 3000 : 4000000);

		own[i] = malloc(size);
		memset(own[i], 1, size);
	}
	for (int i = 0; i < BLOCKS; i++)
		if (i / 7 % 3) {
			free(own[i]);
			own[i] = NULL;
		}
}

static void *run_thread(void *number)
{
	use_heap(blocks[(uintptr_t)number], (unsigned)(uintptr_t)number);
	ready_count++;
	for (;;)
		pause();
	return NULL;
}

static void *function(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

static size_t je_value(const char *format, int index)
{
	int (*get)(const char *, void *, size_t *, void *, size_t) = function("mallctl");
	size_t value = 0, size = sizeof(value);
	char name[64];

	snprintf(name, sizeof(name), format, index);
	if (get(name, &value, &size, NULL, 0) == 22) { /* EINVAL: it is a uint32_t */
		size = 4;
		get(name, &value, &size, NULL, 0);
	}
	return value;
}

static void expect_jemalloc(void)
{
	int (*set)(const char *, void *, size_t *, void *, size_t) = function("mallctl");
	uint64_t epoch = 1;
	size_t unused, free_bytes, bins = je_value("arenas.nbins", 0);

	set("epoch", NULL, NULL, &epoch, sizeof(epoch));
	unused = PAGE * (je_value("stats.arenas.4096.pdirty", 0) +
			 je_value("stats.arenas.4096.pmuzzy", 0));
	free_bytes = unused;
	for (int i = 0; i < (int)bins; i++)
		free_bytes += (je_value("stats.arenas.4096.bins.%d.curslabs", i) *
				       je_value("arenas.bin.%d.nregs", i) -
			       je_value("stats.arenas.4096.bins.%d.curregs", i)) *
			      je_value("arenas.bin.%d.size", i);
	known_expect("heap", "held_bytes", je_value("stats.active", 0) + unused);
	known_expect("heap", "free_bytes", free_bytes);
}

static size_t tc_value(const char *name)
{
	int (*get)(const char *, size_t *) = function("MallocExtension_GetNumericProperty");
	size_t value = 0;

	get(name, &value);
	return value;
}

static void expect_tcmalloc(void)
{
	known_expect("heap", "held_bytes", tc_value("generic.heap_size"));
	known_expect("heap", "free_bytes",
		     tc_value("tcmalloc.pageheap_free_bytes") +
			     tc_value("tcmalloc.central_cache_free_bytes"));
}

/* In a release mimalloc has no statistics of blocks. */
static void expect_mimalloc(void)
{
	size_t used = 0;

	for (int i = 0; i < THREADS; i++)
		for (int k = 0; k < BLOCKS; k++)
			used += malloc_usable_size(blocks[i][k]);
	known_expect("heap", "used_bytes", used);
}

int main(void)
{
	pthread_t thread;

	prctl(PR_SET_THP_DISABLE, 1, 0, 0,
	      0); /* else parts that were given back are split lazily */
	for (uintptr_t i = 1; i < THREADS; i++)
		pthread_create(&thread, NULL, run_thread, (void *)i);
	use_heap(blocks[0], 7);
	while (ready_count < THREADS - 1)
		sched_yield();
	known_ready();
	known_go();
	known_say("done");
	if (function("mallctl"))
		expect_jemalloc();
	else if (function("MallocExtension_GetNumericProperty"))
		expect_tcmalloc();
	else if (function("mi_version"))
		expect_mimalloc();
	known_go();
	return 0;
}
