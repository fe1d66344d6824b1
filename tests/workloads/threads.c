/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * threads [N [M]]: each run starts N threads (8) that call work() M times (1000), all of them alive
 * until the last is done. Threads that exist at "ready" take part too: N more, M calls each.
 */
#include <pthread.h>
#include <semaphore.h>

#include "known.h"

static int thread_count = 8, call_count = 1000;
static pthread_barrier_t finished;
static sem_t start, stopped;
static bool stop;

TRACED int work(int x)
{
	KEEP(x);
	return x + 1;
}

TRACED int work_nested(int x)
{
	return work(x) + work(x + 1);
}

static void call_work(void)
{
	for (int i = 0; i < call_count; i++)
		work_nested(i);
	pthread_barrier_wait(&finished);
}

static void *short_lived(void *arg)
{
	call_work();
	return arg;
}

static void *long_lived(void *arg)
{
	for (;;) {
		sem_wait(&start);
		if (stop)
			return arg;
		call_work();
		sem_post(&stopped);
	}
}

static pthread_t start_thread(void *(*fn)(void *))
{
	pthread_attr_t attr;
	pthread_t thread;

	/* A thousand default stacks are 8 GB of address space. */
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	if (pthread_create(&thread, &attr, fn, NULL)) {
		perror("pthread_create");
		exit(1);
	}
	pthread_attr_destroy(&attr);
	return thread;
}

static void scenario(void)
{
	pthread_t *threads = calloc((size_t)thread_count, sizeof(*threads));

	for (int i = 0; i < thread_count; i++)
		sem_post(&start);
	for (int i = 0; i < thread_count; i++)
		threads[i] = start_thread(short_lived);
	for (int i = 0; i < thread_count; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < thread_count; i++)
		sem_wait(&stopped);
	free(threads);
}

int main(int argc, char **argv)
{
	pthread_t *threads;
	uint64_t runs;

	if (argc > 1)
		thread_count = atoi(argv[1]);
	if (argc > 2)
		call_count = atoi(argv[2]);
	sem_init(&start, 0, 0);
	sem_init(&stopped, 0, 0);
	pthread_barrier_init(&finished, NULL, 2 * (unsigned)thread_count);
	threads = calloc((size_t)thread_count, sizeof(*threads));
	for (int i = 0; i < thread_count; i++)
		threads[i] = start_thread(long_lived);

	runs = known_main(scenario);

	stop = true;
	for (int i = 0; i < thread_count; i++)
		sem_post(&start);
	for (int i = 0; i < thread_count; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	known_expect("work_nested", "calls",
		     runs * 2 * (uint64_t)thread_count * (uint64_t)call_count);
	known_expect("work", "calls", runs * 4 * (uint64_t)thread_count * (uint64_t)call_count);
	return 0;
}
