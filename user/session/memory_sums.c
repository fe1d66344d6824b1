// SPDX-License-Identifier: BSD-2-Clause
/*
 * What the memory of each process consists of (MEMORY_SUM): at both ends of the recording, and in
 * between as often as a fiftieth of the time allows.
 *
 * Each page is in one part. A mapping of a file or of shared memory is one part, but for private
 * copies. Of anonymous mappings, heaps, CPython's pools and threads' stacks are known by address;
 * the rest is OTHER. In a forked child all that was mapped at the fork is INHERITED, or COPIED
 * since.
 */
#include "base/clock.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/text.h"
#include "cpython/pools.h"
#include "proc/glibc_heap.h"
#include "proc/maps.h"
#include "proc/mimalloc_heap.h"
#include "proc/page_map_heap.h"
#include "proc/pages.h"
#include "proc/process.h"
#include "session/process_table.h"
#include "session/recording.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* Of all the time, this part is spent on reading. */
#define TIME_PART 50
/* Nothing is read for longer than this, of all processes at an end of the recording. */
#define ENDS_NS 500000000ull
/* The address space of a process with more is not read: 1 TiB of page tables takes seconds. */
#define RESIDENT_MAX (256ull << 30)
#define RESERVED_MAX (1ull << 40)

struct claim {
	uint64_t start, end;
	enum perfx_memory_part part;
};

struct claims {
	struct claim *list;
	size_t count, capacity;
};

struct reading {
	struct maps *maps;
	struct pages *pages;
	uint64_t scattered_bytes; /* free in heaps, beside whole pages of it */
	struct python_pools python;
	struct claims claims;		     /* in order of address */
	const struct heap_ranges *inherited; /* at the fork */
	struct page_sums sums[PERFX_MEMORY_PARTS];
	struct perfx_memory_sum *record;
};

struct sized_process {
	uint32_t process;
	bool asked; /* whether it is a forked child */
	struct heap_ranges inherited;
};

struct memory_sums {
	struct sized_process *list; /* those that live */
	size_t count, capacity;
	size_t next;	  /* index of the process that is measured next */
	uint64_t next_ns; /* not before */
	struct pack_buffer buffer;
};

static bool is_anonymous(const struct mapping *mapping)
{
	return !mapping->inode && !mapping->shared &&
	       (!mapping->path[0] || mapping->path[0] != '[' ||
		begins_with(mapping->path, "[anon:") || !strcmp(mapping->path, "[heap]") ||
		begins_with(mapping->path, "[stack"));
}

static bool is_shared_memory(const struct mapping *mapping)
{
	return begins_with(mapping->path, "/dev/shm/") || begins_with(mapping->path, "/memfd:") ||
	       begins_with(mapping->path, "/SYSV") || begins_with(mapping->path, "/dev/zero") ||
	       (mapping->shared && mapping->path[0] == '[');
}

static int claim(struct reading *reading, uint64_t start, uint64_t end, enum perfx_memory_part part)
{
	return start < end ? LIST_ADD_TO(&reading->claims, (struct claim){start, end, part}) : 0;
}

static int claim_heap(struct reading *reading, const struct heap *heap)
{
	int err = 0;

	reading->scattered_bytes += heap->scattered_bytes;
	for (size_t i = 0; i < heap->free.count && !err; i++)
		err = claim(reading, heap->free.list[i].start, heap->free.list[i].end,
			    PERFX_MEMORY_HEAP_FREE);
	for (size_t i = 0; i < heap->ranges.count && !err; i++)
		err = claim(reading, heap->ranges.list[i].start, heap->ranges.list[i].end,
			    PERFX_MEMORY_HEAP_USED);
	return err;
}

/* The stack of a thread: a mapping above a guard, at whose end is the thread's control block, of
 * which the third word is its own address (glibc, tcbhead_t; musl: the first). */
static bool is_stack(struct reading *reading, size_t index)
{
	const struct mapping *mapping = maps__at(reading->maps, index);
	const struct mapping *guard = index ? maps__at(reading->maps, index - 1) : NULL;
	uint64_t words[512], at = mapping->end - sizeof(words);
	bool resident;

	if (!strcmp(mapping->path, "[stack]"))
		return true;
	if (!guard || guard->end != mapping->start || guard->readable || guard->writable ||
	    mapping->end - mapping->start < 2 * sizeof(words) ||
	    pages__are_resident(reading->pages, at, 1, &resident) || !resident ||
	    pages__read(reading->pages, at, words, sizeof(words)))
		return false;
	for (size_t i = 0; i + 2 < 512; i += 8)
		if (words[i] == at + i * 8 && words[i + 2] == at + i * 8)
			return true;
	return false;
}

/* Blocks of malloc that have their own mappings, which the kernel joins. */
static int claim_blocks(struct reading *reading, const struct mapping *mapping)
{
	uint64_t at = mapping->start, size;
	bool resident;
	int err = 0;

	while (!err && at < mapping->end &&
	       !pages__are_resident(reading->pages, at, 1, &resident) && resident &&
	       (size = glibc_mapped_block(reading->pages, at, mapping->end))) {
		err = claim(reading, at, at + size, PERFX_MEMORY_HEAP_MAPPED);
		at += size;
	}
	return err;
}

static bool has_python(const struct maps *maps)
{
	for (size_t i = 0; i < maps__count(maps); i++)
		if (maps__at(maps, i)->executable &&
		    strstr(base_name(maps__at(maps, i)->path), "python"))
			return true;
	return false;
}

static bool is_in(const struct heap_ranges *ranges, const struct mapping *mapping)
{
	for (size_t i = 0; i < ranges->count; i++)
		if (mapping->start < ranges->list[i].end && ranges->list[i].start < mapping->end)
			return true;
	return false;
}

ORDER(by_address, struct claim, ASCENDING(a->start, b->start), DESCENDING(a->end, b->end))

/* Claims must not overlap: free chunks are cut out of their heaps. */
static int order_claims(struct claims *claims)
{
	struct claims cut = {0};
	int err = 0;

	SORT_ITEMS(claims->list, claims->count, by_address);
	for (size_t i = 0; i < claims->count && !err; i++) {
		struct claim *next = &claims->list[i], *last = cut.list + cut.count - 1, behind;

		if (!cut.count || next->start >= last->end) {
			err = LIST_ADD_TO(&cut, *next);
			continue;
		}
		if (next->end > last->end)
			continue; /* it changed meanwhile */
		behind = (struct claim){next->end, last->end, last->part};
		last->end = next->start;
		err = LIST_ADD_TO(&cut, *next) ?: LIST_ADD_TO(&cut, behind);
	}
	free(claims->list);
	*claims = cut;
	return err;
}

static void note_glibc(struct perfx_memory_sum *record, const struct heap *heap)
{
	record->flags |= PERFX_MEMORY_SUM_GLIBC;
	record->heap_held_bytes = heap->held_bytes;
	record->heap_free_bytes = heap->free_bytes;
	record->heap_mapped_bytes = heap->mapped_bytes;
	record->heap_arenas_count = heap->arenas_count;
}

/* Other allocators: by the names of their libraries, and by what their heaps look like. */
static const struct {
	const char *library;
	int (*read)(struct pages *pages, const struct maps *maps, struct heap *heap);
	uint32_t is_read, is_mapped; /* PERFX_MEMORY_SUM_ */
} allocators[] = {
	{"libjemalloc*", jemalloc_heap_read, PERFX_MEMORY_SUM_JEMALLOC,
	 PERFX_MEMORY_SUM_JEMALLOC_UNREAD},
	{"libtcmalloc*", tcmalloc_heap_read, PERFX_MEMORY_SUM_TCMALLOC,
	 PERFX_MEMORY_SUM_TCMALLOC_UNREAD},
	{"libmimalloc*", mimalloc_heap_read, PERFX_MEMORY_SUM_MIMALLOC,
	 PERFX_MEMORY_SUM_MIMALLOC_UNREAD},
};

static bool has_library(const struct maps *maps, const char *pattern)
{
	for (size_t i = 0; i < maps__count(maps); i++)
		if (maps__at(maps, i)->executable &&
		    !fnmatch(pattern, base_name(maps__at(maps, i)->path), 0))
			return true;
	return false;
}

static bool maps_have_heap(const struct maps *maps)
{
	for (size_t i = 0; i < maps__count(maps); i++)
		if (!strcmp(maps__at(maps, i)->path, "[heap]"))
			return true;
	return false;
}

/* Of each allocator the process may have a heap: libraries bring their own. */
static int claim_heaps(struct reading *reading)
{
	struct perfx_memory_sum *record = reading->record;
	struct heap heap;
	int err = glibc_heap_read(reading->pages, reading->maps, &heap);
	bool rough = !err && !heap.exact;

	if (err && err != -ENOENT)
		record->flags |= PERFX_MEMORY_SUM_GLIBC_UNREAD;
	if (!err) {
		note_glibc(record, &heap);
		err = claim_heap(reading, &heap);
		heap_clear(&heap);
	}
	for (size_t i = 0; i < sizeof(allocators) / sizeof(*allocators) && err != -ENOMEM; i++) {
		err = allocators[i].read(reading->pages, reading->maps, &heap);
		if (!err) {
			record->flags |= allocators[i].is_read;
			record->other_heaps_held_bytes += heap.held_bytes;
			record->other_heaps_free_bytes += heap.free_bytes;
			rough |= !heap.exact;
			err = claim_heap(reading, &heap);
			heap_clear(&heap);
		} else if (has_library(reading->maps, allocators[i].library)) {
			record->flags |= allocators[i].is_mapped;
		}
	}
	if (rough)
		record->flags |= PERFX_MEMORY_SUM_ROUGH;
	/* with another allocator, glibc's arena was never used; otherwise its layout is unknown */
	if (!(record->flags & (PERFX_MEMORY_SUM_HEAPS | PERFX_MEMORY_SUM_UNREAD)) &&
	    (has_library(reading->maps, "libc.so.6") || has_library(reading->maps, "libc-2.*")) &&
	    maps_have_heap(reading->maps))
		record->flags |= PERFX_MEMORY_SUM_GLIBC_UNREAD;
	/* a heap that cannot be read is none */
	return err == -ENOMEM ? err : order_claims(&reading->claims);
}

/* What is in an anonymous mapping beside heaps, whose claims come first. The kernel joins mappings
 * of several owners. */
static int claim_gaps(struct reading *reading, const struct mapping *mapping, size_t heaps_count,
		      bool python)
{
	struct mapping gap = *mapping;
	int err = 0;

	for (uint64_t at = mapping->start; at < mapping->end && !err; at = gap.end) {
		const struct claim *list = reading->claims.list;
		size_t next = PARTITION_POINT(i, heaps_count, list[i].end <= at);

		gap.start = at;
		gap.end = mapping->end;
		if (next < heaps_count && list[next].start <= at) {
			gap.end = min_u64(list[next].end, mapping->end);
			continue;
		}
		if (next < heaps_count)
			gap.end = min_u64(list[next].start, mapping->end);
		if (python)
			err = python_pools_add(&reading->python, reading->pages, at, gap.end);
		if (reading->record->flags & PERFX_MEMORY_SUM_GLIBC)
			err = err ?: claim_blocks(reading, &gap);
	}
	return err;
}

static int make_claims(struct reading *reading)
{
	bool python = has_python(reading->maps);
	int err = claim_heaps(reading);
	size_t heaps_count = reading->claims.count;

	for (size_t i = 0; i < maps__count(reading->maps) && !err; i++) {
		const struct mapping *mapping = maps__at(reading->maps, i);

		if (!is_anonymous(mapping) || !mapping->writable ||
		    is_in(reading->inherited, mapping))
			continue;
		if (!strcmp(mapping->path, "[heap]"))
			err = claim(reading, mapping->start, mapping->end, PERFX_MEMORY_HEAP_USED);
		else if (is_stack(reading, i))
			err = claim(reading, mapping->start, mapping->end, PERFX_MEMORY_STACKS);
		else
			err = claim_gaps(reading, mapping, heaps_count, python);
	}
	/* free-threaded builds, and those with another allocator, have no pools */
	if (reading->python.pools_count)
		reading->record->flags |= PERFX_MEMORY_SUM_PYTHON;
	for (size_t i = 0; i < reading->python.ranges.count && !err; i++)
		err = claim(reading, reading->python.ranges.list[i].start,
			    reading->python.ranges.list[i].end, PERFX_MEMORY_PYTHON_USED);
	return err ?: order_claims(&reading->claims);
}

static void add_group(struct page_group *to, const struct page_group *from)
{
	to->resident += from->resident;
	to->private += from->private;
	to->proportional += from->proportional;
}

/* Pages of an anonymous mapping. */
static int add_range(struct reading *reading, uint64_t start, uint64_t end, int part)
{
	struct page_sums sums = {0};
	int err;

	if (part != PERFX_MEMORY_INHERITED)
		return pages__add(reading->pages, start, end, &reading->sums[part]);
	err = pages__add(reading->pages, start, end, &sums);
	add_group(&reading->sums[PERFX_MEMORY_COPIED].anonymous,
		  &(struct page_group){sums.anonymous.private, sums.anonymous.private,
				       sums.anonymous.private});
	sums.anonymous.resident -= sums.anonymous.private;
	sums.anonymous.proportional -= sums.anonymous.private;
	sums.anonymous.private = 0;
	add_group(&reading->sums[PERFX_MEMORY_INHERITED].anonymous, &sums.anonymous);
	reading->sums[PERFX_MEMORY_INHERITED].swapped_bytes += sums.swapped_bytes;
	reading->sums[PERFX_MEMORY_INHERITED].huge_bytes += sums.huge_bytes;
	return err;
}

/* The range of a list that contains or follows an address. */
#define NEXT_RANGE(of, address) \
	((of)->list + PARTITION_POINT(nr, (of)->count, (of)->list[nr].end <= (address)))

static int add_anonymous(struct reading *reading, const struct mapping *mapping)
{
	int err = 0;

	for (uint64_t at = mapping->start, end; at < mapping->end && !err; at = end) {
		const struct heap_range *old = NEXT_RANGE(reading->inherited, at);
		const struct claim *claimed = NEXT_RANGE(&reading->claims, at);
		int part = PERFX_MEMORY_OTHER;

		end = mapping->end;
		if (old < reading->inherited->list + reading->inherited->count) {
			if (old->start <= at)
				part = PERFX_MEMORY_INHERITED;
			end = min_u64(end, old->start <= at ? old->end : old->start);
		}
		if (part == PERFX_MEMORY_OTHER &&
		    claimed < reading->claims.list + reading->claims.count) {
			if (claimed->start <= at)
				part = claimed->part;
			end = min_u64(end, claimed->start <= at ? claimed->end : claimed->start);
		}
		err = add_range(reading, at, end, part);
	}
	return err;
}

static int add_mapping(struct reading *reading, const struct mapping *mapping)
{
	struct page_sums sums = {0};
	int err;

	if (mapping->writable && !mapping->shared)
		reading->record->reserved_bytes += mapping->end - mapping->start;
	if (begins_with(mapping->path, "[vsyscall]") || begins_with(mapping->path, "[vvar"))
		return 0;
	if (is_anonymous(mapping))
		return add_anonymous(reading, mapping);
	err = pages__add(reading->pages, mapping->start, mapping->end, &sums);
	add_group(&reading->sums[PERFX_MEMORY_FILES_DATA].anonymous, &sums.anonymous);
	add_group(
		&reading->sums[is_shared_memory(mapping) ? PERFX_MEMORY_SHARED : PERFX_MEMORY_FILES]
			 .of_files,
		&sums.of_files);
	reading->sums[PERFX_MEMORY_FILES].swapped_bytes += sums.swapped_bytes;
	return err;
}

static int part_of(const struct reading *reading, uint64_t address)
{
	const struct claim *claimed = NEXT_RANGE(&reading->claims, address);
	const struct heap_range *old = NEXT_RANGE(reading->inherited, address);

	if (old < reading->inherited->list + reading->inherited->count && old->start <= address)
		return PERFX_MEMORY_INHERITED;
	return claimed < reading->claims.list + reading->claims.count && claimed->start <= address
		       ? (int)claimed->part
		       : PERFX_MEMORY_OTHER;
}

static bool is_zero(const uint64_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (words[i])
			return false;
	return true;
}

/* Of huge pages, the share that holds only zeros: what the program has not touched, and what it has
 * set to zero. */
static void estimate_padding(const struct reading *reading)
{
	unsigned samples[PERFX_MEMORY_PARTS] = {0}, zeros[PERFX_MEMORY_PARTS] = {0};
	struct perfx_memory_sum *record = reading->record;
	uint64_t words[512];
	size_t count;
	const uint64_t *addresses = pages__huge_samples(reading->pages, &count);

	for (size_t i = 0; i < count; i++) {
		int part = part_of(reading, addresses[i]);

		if (pages__read(reading->pages, addresses[i], words, sizeof(words)))
			continue;
		samples[part]++;
		zeros[part] += is_zero(words, 512);
	}
	for (int i = 0; i < PERFX_MEMORY_PARTS; i++) {
		double share = samples[i] ? (double)zeros[i] / samples[i] : 0;
		uint64_t padding = (uint64_t)(share * (double)reading->sums[i].huge_bytes);

		/* what is shared with the parent is no cost of this process */
		if (i == PERFX_MEMORY_HEAP_FREE || i == PERFX_MEMORY_INHERITED)
			continue;
		padding = min_u64(min_u64(padding, record->resident[i]), record->proportional[i]);
		record->resident[i] -= padding;
		record->proportional[i] -= padding;
		record->resident[PERFX_MEMORY_HUGE_PADDING] += padding;
		record->proportional[PERFX_MEMORY_HUGE_PADDING] += padding;
	}
}

/* Moves bytes from one part to another, as far as it has them. */
static void move(struct perfx_memory_sum *record, int from, int to, uint64_t bytes)
{
	uint64_t all = record->resident[from], moved = min_u64(bytes, all);
	uint64_t proportional =
		all ? (uint64_t)((double)record->proportional[from] * (double)moved / (double)all)
		    : 0;

	record->resident[from] -= moved;
	record->resident[to] += moved;
	record->proportional[from] -= proportional;
	record->proportional[to] += proportional;
}

static void fill_record(const struct reading *reading)
{
	struct perfx_memory_sum *record = reading->record;

	for (int i = 0; i < PERFX_MEMORY_PARTS; i++) {
		const struct page_sums *sums = &reading->sums[i];

		record->resident[i] = sums->anonymous.resident + sums->of_files.resident;
		record->proportional[i] =
			sums->anonymous.proportional + sums->of_files.proportional;
		record->private_bytes += sums->anonymous.private + sums->of_files.private;
		record->swapped_bytes += sums->swapped_bytes;
		record->huge_bytes += sums->huge_bytes;
	}
	estimate_padding(reading);
	if (!is_in(reading->inherited, &(struct mapping){.end = UINT64_MAX}))
		/* the rest shares pages with blocks in use */
		move(record, PERFX_MEMORY_HEAP_USED, PERFX_MEMORY_HEAP_FREE,
		     reading->scattered_bytes);
	if (record->resident[PERFX_MEMORY_PYTHON_USED] > reading->python.blocks_bytes)
		move(record, PERFX_MEMORY_PYTHON_USED, PERFX_MEMORY_PYTHON_FREE,
		     record->resident[PERFX_MEMORY_PYTHON_USED] - reading->python.blocks_bytes);
	record->python_blocks_count = reading->python.blocks_count;
	if (pages__counts_mappings(reading->pages))
		record->flags |= PERFX_MEMORY_SUM_PROPORTIONAL;
}

/* 0 or -errno; -E2BIG: it would take too long. */
static int read_sum(pid_t pid, const struct heap_ranges *inherited, struct perfx_memory_sum *record)
{
	struct reading reading = {.inherited = inherited, .record = record};
	uint64_t reserved = 0;
	struct process_usage usage;
	int err;

	reading.maps = maps__read(pid);
	reading.pages = pages__open(pid);
	err = !reading.maps || !reading.pages || process_usage(pid, &usage) ? -ESRCH : 0;
	for (size_t i = 0; !err && i < maps__count(reading.maps); i++)
		reserved += maps__at(reading.maps, i)->end - maps__at(reading.maps, i)->start;
	if (!err && (reserved > RESERVED_MAX ||
		     (usage.rss_bytes != UINT64_MAX && usage.rss_bytes > RESIDENT_MAX)))
		err = -E2BIG;
	if (!err)
		record->mappings_count = maps__count(reading.maps);
	err = err ?: make_claims(&reading);
	for (size_t i = 0; !err && i < maps__count(reading.maps); i++)
		err = add_mapping(&reading, maps__at(reading.maps, i));
	if (!err)
		fill_record(&reading);
	python_pools_clear(&reading.python);
	free(reading.claims.list);
	pages__close(reading.pages);
	maps__free(reading.maps);
	return err;
}

/* Field 28 of /proc/PID/stat, which a forked child has in common with its parent, and a program
 * that was executed has by chance; 0: not known. */
static uint64_t stack_start(pid_t pid)
{
	char *text, *at;
	uint64_t start = 0;

	if (proc_read_pid(pid, "stat", &text, 0) < 0)
		return 0;
	at = strrchr(text, ')');
	for (int field = 2; at && field < 28; field++)
		at = strchr(at + 1, ' ');
	if (at)
		start = strtoull(at, NULL, 10);
	free(text);
	return start;
}

/* What a forked child has from its parent: anonymous mappings with pages that are shared still. */
static int find_inherited(pid_t pid, struct heap_ranges *inherited)
{
	struct process_info info;
	uint64_t start = stack_start(pid);
	struct pages *pages;
	struct maps *maps;
	int err = 0;

	if (process_info(pid, &info) || start <= 1 || stack_start(info.ppid) != start)
		return 0;
	maps = maps__read(pid);
	pages = pages__open(pid);
	for (size_t i = 0; maps && pages && i < maps__count(maps) && !err; i++) {
		const struct mapping *mapping = maps__at(maps, i);
		struct page_sums sums = {0};

		if (is_anonymous(mapping) &&
		    !pages__add(pages, mapping->start, mapping->end, &sums) &&
		    sums.anonymous.resident > sums.anonymous.private)
			err = LIST_ADD_TO(inherited,
					  (struct heap_range){mapping->start, mapping->end});
	}
	pages__close(pages);
	maps__free(maps);
	return err;
}

static struct sized_process *find_process(struct memory_sums *sums, uint32_t process)
{
	FOR_EACH_OF (sized, *sums)
		if (sized->process == process)
			return sized;
	return LIST_ADD_TO(sums, (struct sized_process){.process = process})
		       ? NULL
		       : &sums->list[sums->count - 1];
}

static void measure(struct recording *recording, pid_t pid)
{
	struct memory_sums *sums = recording->memory_sums;
	struct perfx_memory_sum record = {
		.process = process_table__process(recording->processes, pid),
		.heap_held_bytes = UINT64_MAX,
		.heap_free_bytes = UINT64_MAX,
		.heap_mapped_bytes = UINT64_MAX,
	};
	struct sized_process *sized = find_process(sums, record.process);
	uint64_t begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	if (!sized)
		return;
	if (!sized->asked)
		find_inherited(pid, &sized->inherited);
	sized->asked = true;
	if (read_sum(pid, &sized->inherited, &record))
		record.process = 0;
	record.time_ns = clock_monotonic_ns();
	record.read_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
	sums->next_ns = record.time_ns + record.read_ns * TIME_PART;
	if (record.process)
		SINK_PACK(recording->sink, &sums->buffer, PERFX_KIND_MEMORY_SUM, record);
}

static void drop_ended(struct recording *recording)
{
	struct memory_sums *sums = recording->memory_sums;

	for (size_t i = 0; i < sums->count;)
		if (process_table__pid(recording->processes, sums->list[i].process)) {
			i++;
		} else {
			free(sums->list[i].inherited.list);
			sums->list[i] = sums->list[--sums->count];
		}
}

static void sample(struct recording *recording, enum usage_sample what)
{
	struct memory_sums *sums = recording->memory_sums;
	uint64_t now_ns = clock_monotonic_ns();
	size_t count;
	const pid_t *pids = process_table__pids(recording->processes, &count);

	if (!sums || what == USAGE_OF_GPUS)
		return;
	drop_ended(recording);
	/* those that the time of the beginning did not suffice for come first at the end */
	for (size_t i = 0; what == USAGE_WHOLE && i < count; i++)
		if (clock_monotonic_ns() < now_ns + ENDS_NS)
			measure(recording, pids[sums->next++ % count]);
	if (what == USAGE_TICK && count && now_ns >= sums->next_ns)
		measure(recording, pids[sums->next++ % count]);
}

static int open_sums(struct recording *recording)
{
	if (recording->options->plan.memory == MEMORY_OFF)
		return 0;
	recording->memory_sums = calloc(1, sizeof(*recording->memory_sums));
	return recording->memory_sums ? 0 : -ENOMEM;
}

static void close_sums(struct recording *recording)
{
	struct memory_sums *sums = recording->memory_sums;

	if (!sums)
		return;
	FOR_EACH_OF (sized, *sums)
		free(sized->inherited.list);
	free(sums->list);
	free(sums);
}

const struct recording_part memory_sums_part = {
	.name = "memory sums", .open = open_sums, .sample = sample, .close = close_sums};
