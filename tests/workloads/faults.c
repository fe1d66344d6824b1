/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work that the kernel counts: pages touched for the first time, a thread that gives way. Further
 * keys of "expect":
 *	page-faults       of the function's own thread, what it calls included
 *	context-switches  at least
 * faults thread: by a thread that lives as long as the program; faults new-thread: each run by a
 * thread of its own.
 */
#include "known.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096
#define MAX  512

static uint64_t touched, touched_inside, naps, calls;
static char *area;
static sem_t asked, answered;
static bool in_thread, in_new_thread;

TRACED void touch_inside(size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		area[i * PAGE] = 1;
	touched_inside += to - from;
}

TRACED void touch_pages(size_t count)
{
	touch_inside(0, count / 2);
	for (size_t i = count / 2; i < count; i++)
		area[i * PAGE] = 1;
	touched += count;
	calls++;
}

TRACED void nap(void)
{
	const struct timespec pause = {.tv_nsec = 2000000};

	nanosleep(&pause, NULL);
	naps++;
}

static void make_area(void)
{
	area = mmap(NULL, MAX * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	known_require(area != MAP_FAILED, "mmap");
	known_require(!madvise(area, MAX * PAGE, MADV_NOHUGEPAGE), "madvise");
}

static void work(void)
{
	for (size_t i = 1; i <= 10; i++) {
		make_area();
		touch_pages(i * 20);
		munmap(area, MAX * PAGE);
	}
	nap();
}

static void *live(void *arg)
{
	(void)arg;
	while (!sem_wait(&asked)) {
		work();
		sem_post(&answered);
	}
	return NULL;
}

static void *work_once(void *arg)
{
	(void)arg;
	work();
	return NULL;
}

static void scenario(void)
{
	pthread_t thread;

	if (in_thread) {
		sem_post(&asked);
		sem_wait(&answered);
	} else if (in_new_thread) {
		pthread_create(&thread, NULL, work_once, NULL);
		pthread_join(thread, NULL);
	} else {
		work();
	}
}

int main(int argc, char **argv)
{
	pthread_t thread;

	in_thread = argc > 1 && !strcmp(argv[1], "thread");
	in_new_thread = argc > 1 && !strcmp(argv[1], "new-thread");
	sem_init(&asked, 0, 0);
	sem_init(&answered, 0, 0);
	if (in_thread)
		pthread_create(&thread, NULL, live, NULL);
	/* once before tracing: the first call maps everything it needs */
	scenario();
	touched = touched_inside = naps = calls = 0;
	known_main(scenario);
	known_expect("touch_pages", "calls", calls);
	known_expect("touch_pages", "page-faults", touched);
	known_expect("touch_inside", "calls", calls);
	known_expect("touch_inside", "page-faults", touched_inside);
	known_expect("nap", "calls", naps);
	known_expect("nap", "context-switches", naps);
	return 0;
}
