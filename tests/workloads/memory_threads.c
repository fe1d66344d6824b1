/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory_threads [N [M]]: each run, N threads (8) allocate M blocks each (5000) and put them where
 * another thread takes them to be freed, all at once; what is left when they are done the main
 * thread frees, but for the last block of each. The threads live as long as the program: one that
 * ends gives its cache back through free.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "memory.h"

#define MAX_THREADS 64
#define SLOTS	    256

struct block {
	size_t size;
};

static int thread_count = 8, block_count = 5000;
static _Atomic(struct block *) slots[SLOTS];
static struct memory books[MAX_THREADS];
static sem_t start, done;

TRACED struct block *make(size_t size)
{
	struct block *block = memory_took(malloc(size), size);

	known_require(block, "malloc");
	block->size = size;
	return block;
}

TRACED void destroy(struct block *block)
{
	if (!block)
		return;
	memory_gave(block, block->size);
	free(block);
}

static void exchange_blocks(unsigned seed)
{
	for (int i = 0; i < block_count; i++) {
		seed = seed * 1103515245 + 12345;
		destroy(atomic_exchange(&slots[seed / 65536 % SLOTS], make(16 + seed % 2000)));
	}
	make(100000); /* stays */
}

static void *worker(void *arg)
{
	for (;;) {
		sem_wait(&start);
		exchange_blocks((unsigned)(uintptr_t)arg);
		books[(uintptr_t)arg] = memory;
		sem_post(&done);
	}
	return NULL;
}

static void scenario(void)
{
	for (int i = 0; i < thread_count; i++)
		sem_post(&start);
	for (int i = 0; i < thread_count; i++)
		sem_wait(&done);
	for (int i = 0; i < SLOTS; i++)
		destroy(atomic_exchange(&slots[i], NULL));
}

static void expect(void)
{
	struct memory sum = memory;

	for (int i = 0; i < thread_count; i++)
		memory_add(&sum, &books[i]);
	known_expect("memory", "allocs", sum.allocs);
	known_expect("memory", "frees", sum.frees);
	known_expect("memory", "unknown_frees", 0);
	known_expect("memory", "allocated_bytes", sum.allocated_bytes);
	known_expect("memory", "current_bytes", sum.current_bytes);
	known_expect("make", "allocs", sum.allocs);
	known_expect("make", "frees", sum.frees);
	known_expect("make", "live_bytes", sum.current_bytes);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc > 1)
		thread_count = atoi(argv[1]);
	if (argc > 2)
		block_count = atoi(argv[2]);
	known_require(thread_count <= MAX_THREADS, "too many threads");
	sem_init(&start, 0, 0);
	sem_init(&done, 0, 0);
	for (int i = 0; i < thread_count; i++)
		known_require(!pthread_create(&thread, NULL, worker, (void *)(uintptr_t)i),
			      "pthread_create");
	known_main(scenario);
	expect();
	return 0;
}
