/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signals, with handlers on a stack of their own.
 *
 *	memory_signal handler	a timer's handler allocates and frees, when it finds the program
 *				outside the allocator
 *	memory_signal storm	a timer interrupts the allocator a thousand times a second, and
 *				its handler maps and unmaps pages
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "memory.h"

#define STACK_BYTES 65536
#define WANTED	    200

static volatile bool inside;
static volatile uint64_t taken, interrupts, mapped;
static bool maps;

TRACED void take_in_handler(void)
{
	void *block = malloc(256);

	KEEP(block);
	block = malloc(64);
	KEEP(block);
	free(block);
	taken++;
}

TRACED void map_in_handler(void)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	pages[0] = 1;
	munmap(pages, 8192);
	mapped++;
}

static void handler(int number)
{
	(void)number;
	interrupts++;
	if (maps)
		map_in_handler();
	else if (!inside && taken < WANTED)
		take_in_handler();
}

TRACED void churn(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		size_t size = 16 + (size_t)i * 37 % 5000;
		void *block, *other;

		inside = true;
		block = memory_took(malloc(size), size);
		inside = false;
		inside = true;
		other = memory_took(malloc(64), 64);
		memory_gave(block, size);
		free(block);
		memory_gave(other, 64);
		free(other);
		inside = false;
	}
}

static void tick(long us)
{
	struct itimerval timer = {{0, us}, {0, us}};

	setitimer(ITIMER_REAL, &timer, NULL);
}

/* Work of the handlers. Their blocks are not in the interrupted thread's record, which may be in
 * the middle of an update. */
static void handled(void)
{
	memory.allocs += WANTED * 2;
	memory.frees += WANTED;
	memory.allocated_bytes += WANTED * (256 + 64);
	memory.current_bytes += WANTED * 256;
}

/* The first tick after a churn certainly finds the program outside the allocator. */
static void await_tick(void)
{
	uint64_t before = interrupts;

	while (!maps && interrupts == before)
		;
}

/* Until the handler has done its part; the number of iterations is recorded. */
static void scenario(void)
{
	uint64_t until = interrupts + WANTED;

	taken = 0;
	tick(500);
	while (maps ? interrupts < until : taken < WANTED) {
		churn(100);
		await_tick();
	}
	tick(0);
	if (!maps)
		handled();
}

static void expect(uint64_t runs)
{
	/* pages mapped while the allocator is interrupted may be taken for its own */
	known_expect("memory", "allocs_min", memory.allocs);
	known_expect("memory", "allocs_max", memory.allocs + mapped);
	known_expect("memory", "frees_min", memory.frees);
	known_expect("memory", "frees_max", memory.frees + mapped);
	known_expect("memory", "unknown_frees", 0);
	known_expect("memory", "current_bytes", memory.current_bytes);
	if (!maps) {
		known_expect("take_in_handler", "allocs", runs * WANTED * 2);
		known_expect("take_in_handler", "live_bytes", runs * WANTED * 256);
	}
}

int main(int argc, char **argv)
{
	static char place[STACK_BYTES];
	stack_t stack = {.ss_sp = place, .ss_size = sizeof(place)};
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART};

	maps = argc > 1 && !strcmp(argv[1], "storm");
	sigaltstack(&stack, NULL);
	sigaction(SIGALRM, &action, NULL);
	expect(known_main(scenario));
	return 0;
}
