// SPDX-License-Identifier: BSD-2-Clause
#include "attach/unwind_tables.h"

#include "attach/unwind_rows.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/message.h"
#include "elf/file_cache.h"
#include "proc/maps.h"
#include "proc/process.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_TEXT_BYTES (1ull << PERFX_UNWIND_PAGE_BITS)
#define SEGMENTS_MAX	8

/* The rules (perfx_unwind.h) are those of one machine's registers. */
#ifdef __x86_64__
#define HAS_RULES true
#else
#define HAS_RULES false
#endif

/* A file with code. */
struct table_file {
	struct image *image; /* NULL: it has no code, or could not be opened */
	struct text_segment {
		uint64_t vaddr, size, offset; /* bytes */
	} segments[SEGMENTS_MAX];
	size_t segments_count;
	uint64_t first_vaddr_page; /* vaddr / 64 KiB */
	uint32_t first_page;	   /* its index in the table of pages */
	uint32_t pages_count;	   /* 0: no room */
	bool opened;
};

/* What a process maps; shared by relatives. In a slot of the BPF map while it has users. */
struct mapping_set {
	size_t users;
	uint32_t generation;
	struct perfx_unwind_mapping *mappings;
	size_t count, room;
};

#define NO_SLOT UINT32_MAX

struct table_process {
	pid_t pid;
	uint32_t slot;
};

struct unwind_tables {
	struct tracer *tracer;
	struct tracer_unwind_maps maps;
	struct unwind_rows *rows;
	struct file_cache *cache;
	struct table_file *files; /* by index in the cache */
	size_t files_count, files_room;
	uint32_t *by_page; /* files with pages, in order of first_page */
	size_t by_page_count, by_page_room;
	struct table_file vdso;
	struct mapping_set sets[PERFX_UNWIND_SETS_MAX];
	uint32_t next_generation;
	struct table_process *processes;
	size_t processes_count, processes_room;
	struct ring_buffer *requests;
	uint64_t cpu_ns;
	bool said_full;
};

/* Marks the vdso among indices of files. */
#define VDSO_FILE (FILE_CACHE_NONE - 1)

/* --- files --- */

static struct table_file *file_at(struct unwind_tables *tables, uint32_t index)
{
	return index == VDSO_FILE ? &tables->vdso : &tables->files[index];
}

/* Stacks end in code whose table has no place. */
static void say_full(struct unwind_tables *tables, const char *what)
{
	if (!tables->said_full)
		msg_say("call stacks: the unwind tables are full (%s): stacks that lead through "
			"other code end there, or are guessed",
			what);
	tables->said_full = true;
}

/* Reserves pages for all its code. */
static int reserve_pages(struct unwind_tables *tables, struct table_file *file, uint32_t index)
{
	uint64_t low = UINT64_MAX, high = 0, vaddr, size, count;
	int64_t first;

	for (size_t i = 0; file->segments_count < SEGMENTS_MAX &&
			   image__code_segment(file->image, i, &vaddr, &size);
	     i++) {
		file->segments[file->segments_count++] = (struct text_segment){
			.vaddr = vaddr,
			.size = size,
			.offset = (uint64_t)image__offset(file->image, vaddr)};
		low = vaddr < low ? vaddr : low;
		high = vaddr + size > high ? vaddr + size : high;
	}
	if (low >= high)
		return 0;
	file->first_vaddr_page = low / PAGE_TEXT_BYTES;
	count = (high - 1) / PAGE_TEXT_BYTES + 1 - file->first_vaddr_page;
	first = unwind_rows__add_pages(tables->rows, count);
	if (first < 0 || grow_array(&tables->by_page, &tables->by_page_room,
				    tables->by_page_count + 1, sizeof(*tables->by_page)))
		return -ENOSPC;
	file->first_page = (uint32_t)first;
	file->pages_count = (uint32_t)count;
	tables->by_page[tables->by_page_count++] = index;
	return 0;
}

/* The kernel's code that each process maps; it is the same for all. */
static struct image *open_vdso(void)
{
	const void *base = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct maps *maps = base ? maps__read(getpid()) : NULL;
	const struct mapping *mapping = maps ? maps__find(maps, (uint64_t)base) : NULL;
	int fd = mapping ? memfd_create("vdso", MFD_CLOEXEC) : -1;
	struct image *image = NULL;

	if (fd >= 0 && write(fd, base, mapping->end - mapping->start) > 0)
		image = image__open(fd, "[vdso]", "");
	if (fd >= 0)
		close(fd);
	maps__free(maps);
	return image;
}

/* The file of a mapping; NULL: none with code, or out of memory. */
static struct table_file *file_of(struct unwind_tables *tables, pid_t pid,
				  const struct mapping *mapping)
{
	uint32_t index;
	struct table_file *file;

	if (!strcmp(mapping->path, "[vdso]"))
		return tables->vdso.image ? &tables->vdso : NULL;
	if (!mapping->inode)
		return NULL;
	index = file_cache__add(tables->cache, pid, FILE_CACHE_NONE, mapping);
	if (index == FILE_CACHE_NONE || grow_array(&tables->files, &tables->files_room,
						   (size_t)index + 1, sizeof(*tables->files)))
		return NULL;
	if (index >= tables->files_count)
		tables->files_count = (size_t)index + 1;
	file = &tables->files[index];
	if (!file->opened) {
		file->image = file_cache__image(tables->cache, index);
		file->opened = file->image != NULL;
		if (file->image && reserve_pages(tables, file, index))
			say_full(tables, "4 GiB of code");
	}
	return file->pages_count ? file : NULL;
}

/* The file that has a page. */
static struct table_file *file_with(struct unwind_tables *tables, uint32_t page)
{
	size_t low = 0, high = tables->by_page_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		struct table_file *file = file_at(tables, tables->by_page[middle]);

		if (page < file->first_page)
			high = middle;
		else if (page >= file->first_page + file->pages_count)
			low = middle + 1;
		else
			return file;
	}
	return NULL;
}

static void load_page(struct unwind_tables *tables, struct table_file *file, uint32_t page)
{
	uint64_t vaddr = (file->first_vaddr_page + page - file->first_page) * PAGE_TEXT_BYTES;

	if (!unwind_rows__loaded(tables->rows, page) &&
	    unwind_rows__load(tables->rows, page, file->image, vaddr))
		say_full(tables, "32 MiB of rows");
}

/* --- what is resident --- */

/* Rows compiled ahead take no more: much of a framework's code that is in memory is in no stack. */
#define AHEAD_BYTES_MAX (8u << 20)

#define PAGEMAP_PRESENT (1ull << 63) /* Documentation/admin-guide/mm/pagemap.rst */

/* The page of an address in a mapping. */
static uint32_t page_of(const struct perfx_unwind_mapping *mapping, uint64_t address)
{
	return mapping->pages_base + (uint32_t)((address - mapping->bias) / PAGE_TEXT_BYTES);
}

/* Loads the pages of a mapping that the process has in memory: what it has run so far. */
static void load_resident(struct unwind_tables *tables, struct table_file *file, int pagemap_fd,
			  const struct perfx_unwind_mapping *mapping)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), entries[512];
	uint64_t at = mapping->start;

	while (at < mapping->end) {
		uint64_t count = (mapping->end - at) / page_bytes;
		ssize_t got =
			pread(pagemap_fd, entries, sizeof(entries[0]) * (count < 512 ? count : 512),
			      (off_t)(at / page_bytes * sizeof(entries[0])));

		if (got <= 0)
			return;
		for (size_t i = 0; i < (size_t)got / sizeof(entries[0]); i++, at += page_bytes)
			if (entries[i] & PAGEMAP_PRESENT &&
			    unwind_rows__bytes(tables->rows) <= AHEAD_BYTES_MAX)
				load_page(tables, file, page_of(mapping, at));
	}
}

/* --- mappings of processes --- */

/* Adds a mapping's code: with a table the part that a segment of its file covers. */
static int add_mapping(struct mapping_set *set, const struct table_file *file,
		       const struct mapping *mapping)
{
	struct perfx_unwind_mapping added = {.start = mapping->start, .end = mapping->end};

	if (set->count == PERFX_UNWIND_MAPPINGS_MAX || mapping->end >> PERFX_UNWIND_ADDRESS_BITS)
		return 0;
	for (size_t i = 0; file && i < file->segments_count; i++) {
		const struct text_segment *segment = &file->segments[i];

		if (segment->offset >= mapping->file_offset + (mapping->end - mapping->start) ||
		    segment->offset + segment->size <= mapping->file_offset)
			continue;
		added.bias =
			mapping->start - mapping->file_offset + segment->offset - segment->vaddr;
		added.pages_base = file->first_page - (uint32_t)file->first_vaddr_page;
		added.has_pages = 1;
	}
	/* the part that lies before or behind the segment's pages has no place in the table */
	if (added.has_pages &&
	    ((added.start - added.bias) / PAGE_TEXT_BYTES < file->first_vaddr_page ||
	     (added.end - 1 - added.bias) / PAGE_TEXT_BYTES >=
		     file->first_vaddr_page + file->pages_count))
		added.has_pages = 0;
	if (grow_array(&set->mappings, &set->room, set->count + 1, sizeof(*set->mappings)))
		return -ENOMEM;
	set->mappings[set->count++] = added;
	return 0;
}

static int read_mappings(struct unwind_tables *tables, pid_t pid, struct mapping_set *set)
{
	struct maps *maps = maps__read(pid);
	int err = 0;

	if (!maps)
		return -errno;
	for (size_t i = 0; !err && i < maps__count(maps); i++) {
		const struct mapping *mapping = maps__at(maps, i);

		if (mapping->executable)
			err = add_mapping(set, file_of(tables, pid, mapping), mapping);
	}
	maps__free(maps);
	return err;
}

static bool same_mapping(const struct perfx_unwind_mapping *a, const struct perfx_unwind_mapping *b)
{
	return a->start == b->start && a->end == b->end && a->bias == b->bias &&
	       a->pages_base == b->pages_base && a->has_pages == b->has_pages;
}

/* How many of the first ones, which are sorted by address, the other set has too. */
static size_t kept_count(const struct mapping_set *set, const struct mapping_set *other)
{
	size_t kept = 0, at = 0;

	for (size_t i = 0; i < set->count; i++) {
		while (at < other->count && other->mappings[at].start < set->mappings[i].start)
			at++;
		kept += at < other->count && same_mapping(&set->mappings[i], &other->mappings[at]);
	}
	return kept;
}

static struct table_process *process_of(struct unwind_tables *tables, pid_t pid)
{
	for (size_t i = 0; i < tables->processes_count; i++)
		if (tables->processes[i].pid == pid)
			return &tables->processes[i];
	return NULL;
}

static void put_set(struct unwind_tables *tables, uint32_t slot)
{
	struct mapping_set *set = &tables->sets[slot];

	if (--set->users)
		return;
	bpf_map_delete_elem(tables->maps.sets_fd, &slot);
	free(set->mappings);
	*set = (struct mapping_set){0};
}

/* A BPF map with these mappings, in a free slot. The slot or -errno. */
static int64_t place_set(struct unwind_tables *tables, const struct mapping_set *set)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_INNER_MAP);
	uint32_t slot = 0, count = (uint32_t)set->count, *keys;
	int fd, err = 0;

	while (slot < PERFX_UNWIND_SETS_MAX && tables->sets[slot].users)
		slot++;
	if (slot == PERFX_UNWIND_SETS_MAX)
		return -ENOSPC;
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "perfx_set", sizeof(uint32_t),
			    sizeof(set->mappings[0]), count, &options);
	keys = calloc(count, sizeof(*keys));
	for (uint32_t i = 0; keys && i < count; i++)
		keys[i] = i;
	if (fd < 0 || !keys || bpf_map_update_batch(fd, keys, set->mappings, &count, NULL) ||
	    bpf_map_update_elem(tables->maps.sets_fd, &slot, &fd, BPF_ANY))
		err = -errno;
	free(keys);
	if (fd >= 0)
		close(fd);
	if (err)
		return err;
	tables->sets[slot] = *set;
	tables->sets[slot].users = 0;
	return slot;
}

static int use_set(struct unwind_tables *tables, pid_t pid, uint32_t slot)
{
	struct mapping_set *set = &tables->sets[slot];
	struct perfx_unwind_process value = {.set = slot,
					     .mappings_count = (uint32_t)set->count,
					     .generation = set->generation,
					     .lowest = set->mappings[0].start,
					     .highest = set->mappings[set->count - 1].end};
	struct table_process *process = process_of(tables, pid);
	uint32_t key = (uint32_t)pid, old = process ? process->slot : NO_SLOT;
	int err = 0;

	if (!process) {
		if (grow_array(&tables->processes, &tables->processes_room,
			       tables->processes_count + 1, sizeof(*tables->processes)))
			return -ENOMEM;
		process = &tables->processes[tables->processes_count++];
	}
	*process = (struct table_process){.pid = pid, .slot = slot};
	set->users++;
	if (bpf_map_update_elem(tables->maps.processes_fd, &key, &value, BPF_ANY))
		err = -errno;
	if (old != NO_SLOT)
		put_set(tables, old);
	return err;
}

/* Code that keeps its place keeps its meaning in the cache of rules. */
static void choose_generation(struct unwind_tables *tables, const struct table_process *process,
			      struct mapping_set *set)
{
	const struct mapping_set *old = process ? &tables->sets[process->slot] : NULL;

	if (old && kept_count(old, set) == old->count)
		set->generation = old->generation;
	else
		set->generation = ++tables->next_generation % PERFX_UNWIND_GENERATIONS;
}

/* Of small files first: their code is in most stacks, and of a framework's little is. */
static int compare_sizes(const void *left, const void *right)
{
	const struct perfx_unwind_mapping *a = *(struct perfx_unwind_mapping *const *)left,
					  *b = *(struct perfx_unwind_mapping *const *)right;
	uint64_t a_bytes = a->end - a->start, b_bytes = b->end - b->start;

	return (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static void load_all_resident(struct unwind_tables *tables, pid_t pid,
			      const struct mapping_set *set)
{
	struct perfx_unwind_mapping **sorted = calloc(set->count, sizeof(*sorted));
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)process_task(pid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; sorted && i < set->count; i++)
		sorted[i] = &set->mappings[i];
	if (sorted)
		qsort(sorted, set->count, sizeof(*sorted), compare_sizes);
	for (size_t i = 0; fd >= 0 && sorted && i < set->count; i++)
		if (sorted[i]->has_pages)
			load_resident(tables,
				      file_with(tables, page_of(sorted[i], sorted[i]->start)), fd,
				      sorted[i]);
	if (fd >= 0)
		close(fd);
	free(sorted);
}

static int map_process(struct unwind_tables *tables, pid_t pid)
{
	struct table_process *process = process_of(tables, pid);
	struct mapping_set set = {0};
	int64_t slot = read_mappings(tables, pid, &set);

	/* a process that is exiting: its memory is gone, its pid is not */
	if (slot || !set.count ||
	    (process && set.count == tables->sets[process->slot].count &&
	     kept_count(&set, &tables->sets[process->slot]) == set.count)) {
		free(set.mappings);
		return (int)slot;
	}
	load_all_resident(tables, pid, &set);
	choose_generation(tables, process, &set);
	slot = place_set(tables, &set);
	if (slot < 0) {
		free(set.mappings);
		return (int)slot;
	}
	return use_set(tables, pid, (uint32_t)slot);
}

int unwind_tables__map(struct unwind_tables *tables, pid_t pid)
{
	uint64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int err;

	if (!tables)
		return 0;
	err = map_process(tables, pid);
	tables->cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	return err;
}

void unwind_tables__fork(struct unwind_tables *tables, const struct perfx_fork *fork)
{
	const struct table_process *parent = tables ? process_of(tables, (pid_t)fork->ppid) : NULL;
	struct perfx_traced_process traced;

	/* the programs do not if it was forked before its parent's mappings were there; one that
	 * has ended, or is another program by now, must leave nothing behind */
	if (parent && !tracer__traced_process(tables->tracer, (pid_t)fork->pid, &traced) &&
	    traced.process == fork->process)
		use_set(tables, (pid_t)fork->pid, parent->slot);
}

void unwind_tables__forget(struct unwind_tables *tables, pid_t pid)
{
	struct table_process *process = tables ? process_of(tables, pid) : NULL;
	uint32_t slot;

	if (!process)
		return;
	slot = process->slot;
	*process = tables->processes[--tables->processes_count];
	put_set(tables, slot);
}

/* --- requests --- */

static int on_request(void *ctx, void *data, size_t size)
{
	struct unwind_tables *tables = ctx;
	struct table_file *file;
	uint32_t page;

	if (size < sizeof(page))
		return 0;
	memcpy(&page, data, sizeof(page));
	file = file_with(tables, page);
	if (file)
		load_page(tables, file, page);
	return 0;
}

int unwind_tables__fd(const struct unwind_tables *tables)
{
	return ring_buffer__epoll_fd(tables->requests);
}

void unwind_tables__serve(struct unwind_tables *tables)
{
	uint64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	ring_buffer__consume(tables->requests);
	tables->cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
}

struct unwind_usage unwind_tables__usage(const struct unwind_tables *tables)
{
	return (struct unwind_usage){.files = tables->by_page_count,
				     .pages = unwind_rows__pages_loaded(tables->rows),
				     .bytes = unwind_rows__bytes(tables->rows),
				     .cpu_ns = tables->cpu_ns};
}

/* --- life --- */

struct unwind_tables *unwind_tables__new(struct tracer *tracer)
{
	struct unwind_tables *tables = HAS_RULES ? calloc(1, sizeof(*tables)) : NULL;

	if (!HAS_RULES)
		errno = ENOTSUP;
	if (!tables)
		return NULL;
	tables->tracer = tracer;
	tables->maps = tracer__unwind_maps(tracer);
	tables->cache = file_cache__new();
	tables->rows = unwind_rows__new(&tables->maps);
	tables->requests = ring_buffer__new(tables->maps.requests_fd, on_request, tables, NULL);
	if (!tables->cache || !tables->rows || !tables->requests) {
		int err = errno;

		unwind_tables__free(tables);
		errno = err;
		return NULL;
	}
	tables->vdso.image = open_vdso();
	if (tables->vdso.image)
		reserve_pages(tables, &tables->vdso, VDSO_FILE);
	tracer__set_stacks(tracer, PERFX_STACKS_UNWIND);
	return tables;
}

void unwind_tables__free(struct unwind_tables *tables)
{
	if (!tables)
		return;
	for (size_t i = 0; i < tables->files_count; i++)
		image__free(tables->files[i].image);
	image__free(tables->vdso.image);
	for (size_t i = 0; i < PERFX_UNWIND_SETS_MAX; i++)
		free(tables->sets[i].mappings);
	ring_buffer__free(tables->requests);
	unwind_rows__free(tables->rows);
	file_cache__free(tables->cache);
	free(tables->files);
	free(tables->by_page);
	free(tables->processes);
	free(tables);
}
