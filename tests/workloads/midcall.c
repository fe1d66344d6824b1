/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that straddle the ends of a trace. before() is running at "ready" and returns at the first
 * "go"; during() begins at the first "go" and never ends; at the end of input main calls last(),
 * which ends the process from inside. quick() is called 100 times in each run.
 */
#include <pthread.h>
#include <semaphore.h>

#include "known.h"

static sem_t let_go, entered, returned, never;

TRACED int quick(int x)
{
	KEEP(x);
	return x;
}

TRACED int before(int x)
{
	sem_post(&entered);
	sem_wait(&let_go);
	return quick(x);
}

TRACED int during(int x)
{
	sem_post(&entered);
	sem_wait(&never);
	return x;
}

static void *before_thread(void *arg)
{
	before(1);
	sem_post(&returned);
	return arg;
}

static void *during_thread(void *arg)
{
	during(1);
	return arg;
}

/* exit() runs with this frame and the caller's open. */
TRACED int last(int x)
{
	quick(x);
	fflush(stdout);
	_exit(0);
}

TRACED int last_outer(int x)
{
	int got = last(x);

	KEEP(got);
	return got;
}

static void start(void *(*fn)(void *))
{
	pthread_t thread;

	pthread_create(&thread, NULL, fn, NULL);
	pthread_detach(thread);
	sem_wait(&entered);
}

int main(void)
{
	uint64_t runs = 0;

	sem_init(&let_go, 0, 0);
	sem_init(&entered, 0, 0);
	sem_init(&returned, 0, 0);
	sem_init(&never, 0, 0);
	start(before_thread);
	known_ready();
	for (; known_go(); runs++) {
		for (int i = 0; i < 100; i++)
			quick(i);
		if (!runs) {
			sem_post(&let_go);
			sem_wait(&returned);
			start(during_thread);
		}
		known_say("done");
	}
	known_expect("quick", "calls", runs * 100 + !!runs + 1);
	known_expect("before", "calls", 0);
	known_expect("before", "begun_before", !!runs);
	known_expect("during", "calls", 0);
	known_expect("during", "running", !!runs);
	known_expect("last", "calls", 0);
	known_expect("last", "running", 1);
	known_expect("last_outer", "calls", 0);
	known_expect("last_outer", "running", 1);
	return last_outer(1);
}
