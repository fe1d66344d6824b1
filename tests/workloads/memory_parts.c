/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process, and a forked child of it, with a known amount of memory of each kind. What is expected
 * is by the program's own measure: mallinfo2(), and the pages that it has touched.
 *
 *	expect parent PART BYTES	expect child PART BYTES
 */
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "known.h"

#define MIB	       (1ul << 20)
#define PAGE	       4096ul
#define RESERVED_BYTES (72ul << 30)
#define OTHER_BYTES    (48 * MIB)
#define SHARED_BYTES   (24 * MIB)
#define STACK_BYTES    (16 * MIB)
#define HUGE_BYTES     (64 * MIB)
#define HUGE_PAGE      (2 * MIB)
#define HUGE_TOUCHED   (256ul << 10) /* of each */
#define COPIED_BYTES   (20 * MIB)
#define BLOCKS	       40000

static void *blocks[BLOCKS];
static char *other, *mapped_block;
static atomic_int threads_ready;

static void touch(volatile char *memory, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		memory[i] = 1;
}

static char *map(size_t bytes, int flags)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);

	if (memory == MAP_FAILED)
		exit(1);
	madvise(memory, bytes, MADV_NOHUGEPAGE);
	return memory;
}

/* A heap of 40,000 blocks in an arena, of which every other third is free: nothing of it is given
 * back, for the last block stays. */
static void use_heap(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		size_t size = 1200 + 7 * (size_t)(i % 400);

		blocks[i] = malloc(size);
		memset(blocks[i], 1, size);
	}
	for (int i = 0; i + 1 < BLOCKS; i++)
		if (i / 10 % 3)
			free(blocks[i]);
}

static void *run_thread(void *unused)
{
	char stack[STACK_BYTES];

	touch(stack, sizeof(stack));
	use_heap();
	threads_ready++;
	pause();
	return unused;
}

/* Each page of 2 MiB is touched in part: the rest is zeros, if the kernel gives huge pages. */
static size_t use_huge_pages(void)
{
	char *memory = map(HUGE_BYTES + HUGE_PAGE, MAP_PRIVATE);
	char *start = (char *)(((uintptr_t)memory + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
	char line[256];
	size_t huge_kib = 0;
	bool here = false;
	FILE *smaps;

	madvise(start, HUGE_BYTES, MADV_HUGEPAGE);
	for (size_t at = 0; at < HUGE_BYTES; at += HUGE_PAGE)
		memset(start + at, 1, HUGE_TOUCHED);
	smaps = fopen("/proc/self/smaps", "r");
	while (smaps && fgets(line, sizeof(line), smaps)) {
		unsigned long from, to, kib;

		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = from <= (uintptr_t)start && (uintptr_t)start < to;
		else if (here && sscanf(line, "AnonHugePages: %lu kB", &kib) == 1)
			huge_kib = kib;
	}
	if (smaps)
		fclose(smaps);
	return huge_kib << 10;
}

static pid_t fork_child(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	touch(other, COPIED_BYTES);
	for (;;)
		pause();
}

int main(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	struct mallinfo2 info;
	size_t huge, padding, small = HUGE_BYTES / HUGE_PAGE * HUGE_TOUCHED;
	pid_t child;

	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	touch(map(RESERVED_BYTES, MAP_PRIVATE | MAP_NORESERVE), 4 * MIB);
	other = map(OTHER_BYTES, MAP_PRIVATE);
	touch(other, OTHER_BYTES);
	touch(map(SHARED_BYTES, MAP_SHARED), SHARED_BYTES);
	mapped_block = malloc(32 * MIB);
	touch(mapped_block, 32 * MIB);
	use_heap();
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 2 * STACK_BYTES);
	pthread_create(&thread, &attributes, run_thread, NULL);
	while (!threads_ready)
		sched_yield();
	child = fork_child();
	huge = use_huge_pages();
	padding = huge / HUGE_PAGE * (HUGE_PAGE - HUGE_TOUCHED);
	known_ready();
	known_go();
	known_say("done");
	info = mallinfo2();
	known_expect("malloc", "held_bytes", info.arena);
	known_expect("malloc", "free_bytes", info.fordblks);
	known_expect("malloc", "mapped_bytes", info.hblkhd);
	known_expect("parent", "shared", SHARED_BYTES);
	known_expect("parent", "stacks", STACK_BYTES);
	known_expect("parent", "heap_mapped", 32 * MIB);
	known_expect("parent", "huge_padding", padding);
	known_expect("parent", "not_explained", OTHER_BYTES + 4 * MIB + small);
	known_expect("child", "copied", COPIED_BYTES);
	known_expect("child", "pid", (uint64_t)child);
	while (known_go())
		;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}
