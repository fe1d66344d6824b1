/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two threads that wake each other in turn. Further keys of "expect", for "ping", which wakes
 * first, and "pong":
 *	tid
 *	switches        of its context while it hands over, as the kernel counts them
 *	waits           those among them in which it waited for the other one
 *	cpu_ns          by the thread's own clock, in that time
 */
#include "known.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/resource.h>

#define HANDOFFS 2000

struct counts {
	uint64_t switches, waits, cpu_ns;
	pid_t tid;
};

static sem_t to_ping, to_pong;
static struct counts of_ping, of_pong;

static struct counts counts_now(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (struct counts){
		.switches = (uint64_t)(usage.ru_nvcsw + usage.ru_nivcsw),
		.waits = (uint64_t)usage.ru_nvcsw,
		.cpu_ns = known_clock_ns(CLOCK_THREAD_CPUTIME_ID),
		.tid = gettid(),
	};
}

static void count_since(struct counts *sum, struct counts before)
{
	struct counts now = counts_now();

	sum->switches += now.switches - before.switches;
	sum->waits += now.waits - before.waits;
	sum->cpu_ns += now.cpu_ns - before.cpu_ns;
	sum->tid = now.tid;
}

/* Wakes the other thread, and waits for it. */
TRACED void hand_over(sem_t *theirs, sem_t *own)
{
	sem_post(theirs);
	sem_wait(own);
	KEEP(own);
}

static void *pong(void *unused)
{
	(void)unused;
	for (;;) {
		struct counts before;

		sem_wait(&to_pong);
		before = counts_now();
		for (int i = 1; i < HANDOFFS; i++)
			hand_over(&to_ping, &to_pong);
		count_since(&of_pong, before);
		sem_post(&to_ping);
	}
	return NULL;
}

static void scenario(void)
{
	struct counts before = counts_now();

	for (int i = 0; i < HANDOFFS; i++)
		hand_over(&to_pong, &to_ping);
	count_since(&of_ping, before);
}

static void expect(const char *name, const struct counts *counts)
{
	known_expect(name, "tid", (uint64_t)counts->tid);
	known_expect(name, "switches", counts->switches);
	known_expect(name, "waits", counts->waits);
	known_expect(name, "cpu_ns", counts->cpu_ns);
}

int main(void)
{
	pthread_t thread;

	sem_init(&to_ping, 0, 0);
	sem_init(&to_pong, 0, 0);
	known_require(!pthread_create(&thread, NULL, pong, NULL), "pthread_create");
	known_main(scenario);
	expect("ping", &of_ping);
	expect("pong", &of_pong);
	return 0;
}
