/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Forced unwinding in a C-only process: pthread_exit and pthread_cancel inside traced frames, with
 * cleanup handlers that must run.
 */
#include <pthread.h>
#include <semaphore.h>

#include "known.h"

static uint64_t cleaned;
static sem_t waiting;

static void on_cleanup(void *arg)
{
	(void)arg;
	cleaned++;
}

TRACED int exit_inner(int x)
{
	if (x)
		pthread_exit(NULL);
	return x;
}

TRACED int exit_outer(int x)
{
	int got;

	pthread_cleanup_push(on_cleanup, NULL);
	got = exit_inner(x);
	pthread_cleanup_pop(1);
	return got;
}

TRACED int cancel_inner(int x)
{
	sem_post(&waiting);
	for (;;)
		pause();
	return x;
}

TRACED int cancel_outer(int x)
{
	int got;

	pthread_cleanup_push(on_cleanup, NULL);
	got = cancel_inner(x);
	pthread_cleanup_pop(1);
	return got;
}

static void *exiting_thread(void *arg)
{
	for (int i = 0; i < 10; i++)
		exit_outer(0);
	exit_outer(1);
	return arg;
}

static void *cancelled_thread(void *arg)
{
	cancel_outer(1);
	return arg;
}

static void scenario(void)
{
	uint64_t before = cleaned;
	pthread_t thread;
	void *result;

	for (int i = 0; i < 50; i++) {
		pthread_create(&thread, NULL, exiting_thread, NULL);
		pthread_join(thread, &result);
		known_require(!result, "pthread_exit's value");
		pthread_create(&thread, NULL, cancelled_thread, NULL);
		sem_wait(&waiting);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		known_require(result == PTHREAD_CANCELED, "the thread was cancelled");
	}
	known_require(cleaned - before == 50 * 12, "every cleanup handler ran");
}

int main(void)
{
	uint64_t runs;

	sem_init(&waiting, 0, 0);
	runs = known_main(scenario);
	known_expect("exit_outer", "calls", runs * 550);
	known_expect("exit_outer", "unwound", runs * 50);
	known_expect("exit_inner", "calls", runs * 550);
	known_expect("exit_inner", "unwound", runs * 50);
	known_expect("cancel_outer", "calls", runs * 50);
	known_expect("cancel_outer", "unwound", runs * 50);
	known_expect("cancel_inner", "calls", runs * 50);
	known_expect("cancel_inner", "unwound", runs * 50);
	return 0;
}
