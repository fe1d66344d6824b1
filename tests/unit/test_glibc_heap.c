// SPDX-License-Identifier: BSD-2-Clause
/* The heap of this very process, from outside and by mallinfo2(). */
#include "proc/glibc_heap.h"
#include "proc/pages.h"
#include "proc/process.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 4000

static void *blocks[4][BLOCKS];

/* Blocks of all sizes; two of three are freed. */
static void use_heap(void **own, unsigned seed)
{
	for (int i = 0; i < BLOCKS; i++)
		own[i] = malloc((size_t)(rand_r(&seed) % (i % 50 ? 3000 : 90000)) + 1);
	for (int i = 0; i < BLOCKS; i++)
		if (i % 3)
			free(own[i]);
}

static void *run_thread(void *number)
{
	use_heap(blocks[(uintptr_t)number], (unsigned)(uintptr_t)number);
	return NULL;
}

struct known {
	pid_t pid;
	struct mallinfo2 info;
};

/* Says what it has and waits to be killed. */
static void be_known(int fd)
{
	struct known known = {.pid = getpid()};
	pthread_t threads[3];

	mallopt(M_MMAP_THRESHOLD, 100000);
	use_heap(blocks[0], 7);
	for (uintptr_t i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, run_thread, (void *)(i + 1));
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 5; i++)
		blocks[0][i] = malloc(1 << 20);
	known.info = mallinfo2();
	if (write(fd, &known, sizeof(known)) == sizeof(known))
		pause();
	_exit(0);
}

static struct known start(void)
{
	struct known known = {0};
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	if (fork() == 0)
		be_known(fds[1]);
	cr_assert_eq(read(fds[0], &known, sizeof(known)), (ssize_t)sizeof(known));
	close(fds[0]);
	close(fds[1]);
	return known;
}

static void stop(struct known known)
{
	kill(known.pid, SIGKILL);
	waitpid(known.pid, NULL, 0);
}

/* ASan's allocator replaces glibc's. */
#ifdef __has_feature
#define HAS_ASAN __has_feature(address_sanitizer)
#else
#define HAS_ASAN 0
#endif

Test(glibc_heap, is_what_mallinfo2_says)
{
	struct known known;
	struct pages *pages;
	struct heap heap;
	struct maps *maps;
	uint64_t large = 0;

	if (HAS_ASAN)
		cr_skip_test("AddressSanitizer replaces the heap");
	known = start();
	pages = pages__open(known.pid);
	maps = maps__read(known.pid);
	cr_assert_eq(glibc_heap_read(pages, maps, &heap), 0);
	cr_expect(heap.exact);
	cr_expect_geq(heap.arenas_count, 2);
	cr_expect_eq(heap.held_bytes, known.info.arena);
	cr_expect_eq(heap.free_bytes, known.info.fordblks);
	cr_expect_eq(heap.mapped_bytes, known.info.hblkhd);
	cr_expect_eq(heap.mapped_count, known.info.hblks);
	for (size_t i = 0; i < heap.free.count; i++) {
		cr_expect_geq(heap.free.list[i].end - heap.free.list[i].start,
			      HEAP_CHUNK_BYTES - 4096);
		large += heap.free.list[i].end - heap.free.list[i].start;
	}
	cr_expect_eq(large + heap.scattered_bytes, heap.free_bytes);
	heap_clear(&heap);
	maps__free(maps);
	pages__close(pages);
	stop(known);
}

Test(glibc_heap, mapped_blocks_are_found_by_their_headers)
{
	char *block = malloc(3 << 20);
	uint64_t start = (uint64_t)(uintptr_t)block - 16;
	struct pages *pages;

	if (HAS_ASAN)
		cr_skip_test("AddressSanitizer replaces the heap");
	pages = pages__open(getpid());
	block[0] = 1;
	cr_expect_eq(glibc_mapped_block(pages, start, start + (4 << 20)), (3 << 20) + 4096);
	cr_expect_eq(glibc_mapped_block(pages, start, start + (3 << 20)), 0, "it ends before");
	cr_expect_eq(glibc_mapped_block(pages, start + 4096, start + (4 << 20)), 0);
	pages__close(pages);
	free(block);
}

Test(glibc_heap, a_process_without_one_has_none)
{
	static const char text[] = "400000-401000 r-xp 00000000 08:01 18 /bin/none\n";
	struct pages *pages = pages__open(getpid());
	struct maps *maps = maps__parse(text, sizeof(text) - 1);
	struct heap heap;

	cr_expect_eq(glibc_heap_read(pages, maps, &heap), -ENOENT);
	pages__close(pages);
	maps__free(maps);
}

Test(pages, resident_shared_and_huge)
{
	const size_t size = 32 << 20;
	char *memory = mmap(NULL, size + (2 << 20), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t start = ((uint64_t)(uintptr_t)memory + (2 << 20) - 1) & ~((2ull << 20) - 1);
	struct pages *pages = pages__open(getpid());
	struct page_sums sums = {0};
	pid_t child;

	cr_assert_not_null(pages);
	memory = (char *)(uintptr_t)start;
	madvise(memory, size, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < size / 2; i += 4096)
		memory[i] = 1;
	/* reading maps the zero page, which is no memory */
	for (size_t i = size / 2; i < size; i += 4096)
		cr_assert_eq(((volatile char *)memory)[i], 0);
	cr_assert_eq(pages__add(pages, start, start + size, &sums), 0);
	cr_expect_eq(sums.anonymous.private, size / 2);
	if (pages__counts_mappings(pages))
		cr_expect_eq(sums.anonymous.resident, size / 2);
	cr_expect_eq(sums.of_files.resident, 0);
	child = fork();
	if (!child) {
		pause();
		_exit(0);
	}
	for (size_t i = 0; i < size / 4; i += 4096)
		memory[i] = 2; /* copies */
	sums = (struct page_sums){0};
	cr_assert_eq(pages__add(pages, start, start + size, &sums), 0);
	cr_expect_eq(sums.anonymous.private, size / 4);
	if (pages__counts_mappings(pages)) {
		cr_expect_eq(sums.anonymous.resident, size / 2);
		cr_expect_eq(sums.anonymous.proportional, size / 4 + size / 8);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	pages__close(pages);
}

/* Ranges may end within a huge page. */
Test(pages, huge_pages_in_pieces)
{
	const size_t size = 8 << 20;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t start = (uint64_t)(uintptr_t)memory;
	struct page_sums whole = {0}, pieces = {0};
	struct pages *pages = pages__open(getpid());

	madvise(memory, size, MADV_HUGEPAGE);
	memset(memory, 1, size);
	cr_assert_eq(pages__add(pages, start, start + size, &whole), 0);
	if (!whole.huge_bytes)
		cr_skip_test("no huge pages here, or not told of them");
	cr_assert_eq(pages__add(pages, start, start + (3 << 20) + 4096, &pieces), 0);
	cr_assert_eq(pages__add(pages, start + (3 << 20) + 4096, start + size, &pieces), 0);
	cr_expect_eq(pieces.huge_bytes, whole.huge_bytes);
	pages__close(pages);
}

/* A page that is pinned while it is shared would be copied. */
Test(pages, reading_makes_no_copies)
{
	const size_t size = 1 << 20;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t start = (uint64_t)(uintptr_t)memory;
	struct page_sums sums = {0};
	struct pages *pages;
	char page[4096];
	pid_t child;

	madvise(memory, size, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < size; i += 4096)
		memory[i] = (char)(i / 4096);
	child = fork();
	if (!child) {
		pause();
		_exit(0);
	}
	for (size_t i = 0; i < size; i += 4096) {
		cr_assert_eq(process_read(child, start + i, page, sizeof(page)), 0);
		cr_assert_eq(page[0], (char)(i / 4096));
	}
	cr_expect_eq(process_read(child, 4096, page, sizeof(page)), -EFAULT);
	pages = pages__open(child);
	cr_assert_eq(pages__add(pages, start, start + size, &sums), 0);
	cr_expect_eq(sums.anonymous.private, 0);
	pages__close(pages);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	cr_expect_eq(process_read(child, start, page, sizeof(page)), -ESRCH);
}

Test(pages, a_reservation_is_not_resident)
{
	const size_t size = 72ull << 30;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t start = (uint64_t)(uintptr_t)memory;
	struct pages *pages = pages__open(getpid());
	struct page_sums sums = {0};

	cr_assert_not_null(pages);
	cr_assert_neq(memory, MAP_FAILED);
	madvise(memory, size, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < 100; i++)
		memory[i * (size / 100)] = 1;
	cr_assert_eq(pages__add(pages, start, start + size, &sums), 0);
	cr_expect_eq(sums.anonymous.private, 100 * 4096);
	pages__close(pages);
}
