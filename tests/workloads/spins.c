// SPDX-License-Identifier: BSD-2-Clause
/*
 * Ways to wait on a CPU, and ways to work: with each "go" a thread after the other does each of
 *them until it has used the CPU for 60 ms. Keys: spins, works    CPU time of the thread that does
 *so, by its own clock
 */
#include "known.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <time.h>

static _Atomic int arrived, ends, held = 1;
static volatile int plain_ends;
static pthread_spinlock_t lock;
static double numbers[4096];
static volatile double sum;
static volatile uint64_t divisor = 3;

TRACED void wait_with_pause(void)
{
	while (!atomic_load(&ends))
		__builtin_ia32_pause();
}

TRACED void wait_without_pause(void)
{
	while (!plain_ends)
		;
}

/* A barrier: the last of its threads comes at the end. */
TRACED void wait_at_barrier(void)
{
	int phase = atomic_fetch_add(&arrived, 1);

	while (atomic_load_explicit(&arrived, memory_order_acquire) == phase + 1)
		__asm__ __volatile__("");
}

TRACED void wait_for_exchange(void)
{
	while (atomic_exchange(&held, 1))
		;
}

TRACED void wait_for_spin_lock(void)
{
	pthread_spin_lock(&lock);
	pthread_spin_unlock(&lock);
}

TRACED void wait_and_yield(void)
{
	while (!atomic_load(&ends))
		sched_yield();
}

TRACED void poll_nothing(void)
{
	while (!atomic_load(&ends))
		poll(NULL, 0, 0);
}

/* As MPI libraries do. */
TRACED void poll_epoll(void)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event;

	while (!atomic_load(&ends))
		epoll_wait(fd, &event, 1, 0);
	close(fd);
}

TRACED void add_numbers(void)
{
	while (!atomic_load(&ends)) {
		double all = 0;

		for (int i = 0; i < 4096; i++)
			all += numbers[i];
		sum = all;
	}
}

TRACED void divide(void)
{
	while (!atomic_load(&ends)) {
		uint64_t rest = UINT64_MAX;

		while (rest > 3)
			rest /= divisor;
		KEEP(rest);
	}
}

TRACED void search_text(void)
{
	static char zeros[8192];
	const char *text = zeros;

	KEEP(text);
	while (!atomic_load(&ends)) {
		size_t at = 0;

		while (at < sizeof(zeros) && !text[at])
			at++;
		KEEP(at);
	}
}

static struct way {
	const char *name, *key;
	void (*run)(void);
	uint64_t cpu_ns;
	pthread_t thread;
} ways[] = {
	{.name = "wait_with_pause", .key = "spins", .run = wait_with_pause},
	{.name = "wait_without_pause", .key = "spins", .run = wait_without_pause},
	{.name = "wait_at_barrier", .key = "spins", .run = wait_at_barrier},
	{.name = "wait_for_exchange", .key = "spins", .run = wait_for_exchange},
	{.name = "wait_for_spin_lock", .key = "spins", .run = wait_for_spin_lock},
	{.name = "wait_and_yield", .key = "spins", .run = wait_and_yield},
	{.name = "poll_nothing", .key = "spins", .run = poll_nothing},
	{.name = "poll_epoll", .key = "spins", .run = poll_epoll},
	{.name = "add_numbers", .key = "works", .run = add_numbers},
	{.name = "divide", .key = "works", .run = divide},
	{.name = "search_text", .key = "works", .run = search_text},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

#define WAY_NS 60000000

static void *start(void *arg)
{
	struct way *way = arg;

	way->run();
	way->cpu_ns += known_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

static void begin(struct way *way)
{
	ends = plain_ends = 0;
	held = 1;
	pthread_spin_lock(&lock);
	known_require(!pthread_create(&way->thread, NULL, start, way), "a thread");
}

static void end(const struct way *way)
{
	ends = plain_ends = 1;
	held = 0;
	arrived++;
	pthread_spin_unlock(&lock);
	pthread_join(way->thread, NULL);
}

static void run(struct way *way)
{
	const struct timespec a_while = {.tv_nsec = 2000000};
	clockid_t clock;

	begin(way);
	known_require(!pthread_getcpuclockid(way->thread, &clock), "a clock");
	while (known_clock_ns(clock) < WAY_NS)
		nanosleep(&a_while, NULL);
	end(way);
}

int main(void)
{
	pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
	known_ready();
	while (known_go()) {
		for (size_t i = 0; i < WAYS; i++)
			run(&ways[i]);
		known_say("done");
	}
	for (size_t i = 0; i < WAYS; i++)
		known_expect(ways[i].name, ways[i].key, ways[i].cpu_ns);
	return 0;
}
