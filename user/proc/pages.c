// SPDX-License-Identifier: BSD-2-Clause
#include "proc/pages.h"

#include "base/order.h"
#include "proc/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Documentation/admin-guide/mm/pagemap.rst */
#define PAGE_PRESENT   (1ULL << 63)
#define PAGE_SWAPPED   (1ULL << 62)
#define PAGE_OF_FILE   (1ULL << 61) /* or of shared memory */
#define PAGE_EXCLUSIVE (1ULL << 56)
#define PAGE_NUMBER    ((1ULL << 55) - 1)
#define FLAG_HUGE      (1ULL << 22) /* KPF_THP */

#define CHUNK	     8192 /* pages read at a time */
#define HUGE_BYTES   (2ULL << 20)
#define HUGE_PAGES   (HUGE_BYTES / 4096)
#define LOOKUPS_MAX  256 /* of a chunk */
#define LOOKUP_PAGES 512

struct pages {
	int memory_fd, map_fd, counts_fd, flags_fd;
	uint64_t page_bytes;
	uint64_t zero_page; /* stands for all that was read and never written; uses no memory */
	uint64_t entries[CHUNK], counts[LOOKUP_PAGES];
	/* reservoir of pages in huge pages */
	uint64_t samples[HUGE_SAMPLES], huge_seen;
	size_t samples_count;
	unsigned random; /* state: the same pages give the same sample */
};

static int read_numbers(int fd, uint64_t first, size_t count, uint64_t *numbers)
{
	ssize_t n = pread(fd, numbers, count * sizeof(*numbers), (off_t)(first * sizeof(*numbers)));

	if (n < 0)
		return -errno;
	return (size_t)n == count * sizeof(*numbers) ? 0 : -ENODATA;
}

static void close_if(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* The number of the machine's page of zeros, by a page of our own; 0: not known. */
static uint64_t find_zero_page(uint64_t page_bytes)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	void *page = mmap(NULL, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t entry = 0;

	if (page != MAP_FAILED) {
		(void)*(volatile char *)page;
		if (fd < 0 || read_numbers(fd, (uintptr_t)page / page_bytes, 1, &entry))
			entry = 0;
		munmap(page, page_bytes);
	}
	close_if(fd);
	return entry & PAGE_NUMBER;
}

void pages__close(struct pages *pages)
{
	if (!pages)
		return;
	close_if(pages->memory_fd);
	close_if(pages->map_fd);
	close_if(pages->counts_fd);
	close_if(pages->flags_fd);
	free(pages);
}

struct pages *pages__open(pid_t pid)
{
	struct pages *pages = calloc(1, sizeof(*pages));
	char path[64];

	if (!pages)
		return NULL;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)process_task(pid));
	pages->memory_fd = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)process_task(pid));
	pages->map_fd = open(path, O_RDONLY | O_CLOEXEC);
	pages->counts_fd = open("/proc/kpagecount", O_RDONLY | O_CLOEXEC);
	pages->flags_fd = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
	pages->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	pages->zero_page = find_zero_page(pages->page_bytes);
	if (pages->map_fd >= 0 && pages->memory_fd >= 0)
		return pages;
	pages__close(pages);
	return NULL;
}

bool pages__counts_mappings(const struct pages *pages)
{
	return pages->counts_fd >= 0;
}

static bool is_shared(const struct pages *pages, uint64_t entry)
{
	return entry & PAGE_PRESENT && !(entry & PAGE_EXCLUSIVE) &&
	       !(pages->zero_page && (entry & PAGE_NUMBER) == pages->zero_page);
}

/* The length of a run of shared pages that lie behind each other in the machine's memory. */
static size_t run_of(const struct pages *pages, const uint64_t *entries, size_t count)
{
	size_t n = 1;

	while (n < count && n < LOOKUP_PAGES && is_shared(pages, entries[n]) &&
	       (entries[n] & PAGE_NUMBER) == (entries[0] & PAGE_NUMBER) + n)
		n++;
	return n;
}

/* Shared pages of a chunk: all, and those of which is known how often they are mapped. */
struct shared_pages {
	struct page_group *group;
	double count, known_count, used_count, parts; /* parts: sum of 1 / how often */
};

static struct shared_pages *shared_of(struct shared_pages *groups, uint64_t entry)
{
	return &groups[!(entry & PAGE_OF_FILE)];
}

static void add_run(struct pages *pages, const uint64_t *entries, size_t count,
		    struct shared_pages *groups)
{
	bool known =
		pages->counts_fd >= 0 &&
		!read_numbers(pages->counts_fd, entries[0] & PAGE_NUMBER, count, pages->counts);

	for (size_t i = 0; i < count; i++) {
		struct shared_pages *shared = shared_of(groups, entries[i]);

		/* a page that is mapped never is a huge one of zeros */
		shared->known_count++;
		shared->used_count += !known || pages->counts[i];
		shared->parts += !known ? 1 : pages->counts[i] ? 1 / (double)pages->counts[i] : 0;
	}
}

static void add_shared(struct pages *pages, const uint64_t *entries, size_t count,
		       struct page_sums *sums)
{
	struct shared_pages groups[2] = {{.group = &sums->of_files}, {.group = &sums->anonymous}};
	size_t runs = 0, at = 0;

	for (size_t i = 0; i < count; i++) {
		if (!is_shared(pages, entries[i]))
			continue;
		shared_of(groups, entries[i])->count++;
		runs += !i || !is_shared(pages, entries[i - 1]) ||
			(entries[i] & PAGE_NUMBER) != (entries[i - 1] & PAGE_NUMBER) + 1;
	}
	for (size_t i = 0, n; runs && i < count; i += n) {
		bool shared = is_shared(pages, entries[i]);

		n = shared ? run_of(pages, &entries[i], count - i) : 1;
		if (shared && at++ % (runs / LOOKUPS_MAX + 1) == 0)
			add_run(pages, &entries[i], n, groups);
	}
	for (int i = 0; i < 2; i++) {
		double bytes = groups[i].count * (double)pages->page_bytes;

		if (!groups[i].known_count) /* none was in the sample */
			groups[i].known_count = groups[i].used_count = groups[i].parts = 1;
		groups[i].group->resident +=
			(uint64_t)(bytes * groups[i].used_count / groups[i].known_count);
		groups[i].group->proportional +=
			(uint64_t)(bytes * groups[i].parts / groups[i].known_count);
	}
}

static void sample_huge(struct pages *pages, uint64_t address, size_t count)
{
	for (size_t i = 0; i < count; i++, pages->huge_seen++) {
		uint64_t at = pages->samples_count;

		if (at < HUGE_SAMPLES)
			pages->samples_count++;
		else
			at = ((uint64_t)rand_r(&pages->random) << 31 |
			      (uint64_t)rand_r(&pages->random)) %
			     (pages->huge_seen + 1);
		if (at < HUGE_SAMPLES)
			pages->samples[at] = address + i * pages->page_bytes;
	}
}

/* Are these pages, which lie within 2 MiB, of a huge one? It may have other owners' pages, too. */
static bool is_huge(struct pages *pages, const uint64_t *entries, uint64_t address, size_t count)
{
	uint64_t first = entries[0] & PAGE_NUMBER, flags;

	if (pages->flags_fd < 0 || !first || !(entries[0] & PAGE_PRESENT) ||
	    entries[0] & PAGE_OF_FILE ||
	    first % HUGE_PAGES != address / pages->page_bytes % HUGE_PAGES)
		return false;
	for (size_t i = 1; i < count; i++)
		if ((entries[i] & ~PAGE_NUMBER) != (entries[0] & ~PAGE_NUMBER) ||
		    (entries[i] & PAGE_NUMBER) != first + i)
			return false;
	return !read_numbers(pages->flags_fd, first, 1, &flags) && flags & FLAG_HUGE;
}

static void add_huge(struct pages *pages, uint64_t start, size_t count, struct page_sums *sums)
{
	for (size_t i = 0, n; i < count; i += n) {
		uint64_t address = start + i * pages->page_bytes;

		n = min_u64(count - i, HUGE_PAGES - address / pages->page_bytes % HUGE_PAGES);
		if (!is_huge(pages, &pages->entries[i], address, n))
			continue;
		sums->huge_bytes += n * pages->page_bytes;
		sample_huge(pages, address, n);
	}
}

static void add_chunk(struct pages *pages, uint64_t start, size_t count, struct page_sums *sums)
{
	const uint64_t private = PAGE_PRESENT | PAGE_EXCLUSIVE, *entries = pages->entries;

	for (size_t i = 0; i < count; i++) {
		struct page_group *group =
			entries[i] & PAGE_OF_FILE ? &sums->of_files : &sums->anonymous;

		if ((entries[i] & private) == private) {
			group->resident += pages->page_bytes;
			group->private += pages->page_bytes;
			group->proportional += pages->page_bytes;
		}
		if (entries[i] & PAGE_SWAPPED)
			sums->swapped_bytes += pages->page_bytes;
	}
	add_huge(pages, start, count, sums);
	add_shared(pages, entries, count, sums);
}

static int add_all(struct pages *pages, uint64_t start, uint64_t end, struct page_sums *sums)
{
	while (start + pages->page_bytes <= end) {
		/* chunks end where huge pages do */
		uint64_t next = min_u64(end, (start / (CHUNK * pages->page_bytes) + 1) * CHUNK *
						     pages->page_bytes);
		size_t count = (next - start) / pages->page_bytes;
		int err = read_numbers(pages->map_fd, start / pages->page_bytes, count,
				       pages->entries);

		if (err)
			return err;
		add_chunk(pages, start, count, sums);
		start = next;
	}
	return 0;
}

/* struct pm_scan_arg of linux/fs.h, Linux 6.7 (kernel commit 52526ca7fdb9). */
struct page_query {
	uint64_t size, flags, start, end, walk_end;
	uint64_t regions; /* address of ours */
	uint64_t regions_count, pages_max;
	uint64_t inverted, all_of, any_of, returned;
};
struct page_region {
	uint64_t start, end, categories;
};
#define QUERY_PAGES _IOWR('f', 16, struct page_query)
#define IS_PRESENT  (1ull << 3)
#define IS_SWAPPED  (1ull << 4)
#define REGIONS	    64

/* A larger range may be a reservation: its holes are skipped, where the kernel can do that. Few
 * pages at a time, for the kernel holds the lock meanwhile. */
#define SPARSE_BYTES (256ull << 20)

int pages__add(struct pages *pages, uint64_t start, uint64_t end, struct page_sums *sums)
{
	struct page_region regions[REGIONS];

	while (end - start > SPARSE_BYTES) {
		struct page_query query = {.size = sizeof(query),
					   .start = start,
					   .end = end,
					   .regions = (uintptr_t)regions,
					   .regions_count = REGIONS,
					   .pages_max = CHUNK,
					   .any_of = IS_PRESENT | IS_SWAPPED};
		int n = ioctl(pages->map_fd, QUERY_PAGES, &query), err = 0;

		if (n < 0 || query.walk_end <= start)
			break;
		for (int i = 0; i < n && !err; i++)
			err = add_all(pages, regions[i].start, regions[i].end, sums);
		if (err)
			return err;
		start = query.walk_end;
	}
	return add_all(pages, start, end, sums);
}

const uint64_t *pages__huge_samples(const struct pages *pages, size_t *count)
{
	*count = pages->samples_count;
	return pages->samples;
}

int pages__read(const struct pages *pages, uint64_t address, void *to, size_t bytes)
{
	ssize_t n = pread(pages->memory_fd, to, bytes, (off_t)address);

	if (n < 0)
		return -errno;
	return (size_t)n == bytes ? 0 : -EFAULT;
}

int pages__are_resident(struct pages *pages, uint64_t start, size_t count, bool *resident)
{
	int err = count > PAGES_ASKED_MAX ? -EINVAL
					  : read_numbers(pages->map_fd, start / pages->page_bytes,
							 count, pages->entries);

	for (size_t i = 0; !err && i < count; i++)
		resident[i] = pages->entries[i] & PAGE_PRESENT;
	return err;
}
