// SPDX-License-Identifier: BSD-2-Clause
#include "attach/unwind_tables.h"

#include "attach/unwind_rows.h"
#include "attach/unwind_sets.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/message.h"
#include "base/order.h"
#include "base/thread.h"
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
#include <sys/mman.h>
#include <unistd.h>

#define PAGES_BYTES (PERFX_UNWIND_PAGES_MAX * sizeof(uint64_t))
#define RULES_BYTES (PERFX_UNWIND_RULES_MAX * sizeof(struct perfx_unwind_rule))
#define SLAB_BYTES  (PERFX_UNWIND_SLAB_ROWS * sizeof(uint32_t))

/* The rules (perfx_unwind.h) are those of one machine's registers. */
#ifdef __x86_64__
#define HAS_RULES true
#else
#define HAS_RULES false
#endif

/* A file with code. */
struct table_file {
	struct image *image; /* NULL: it has no code, or could not be opened */
	struct code_pages code;
	bool opened;
};

/* A process's mappings in a BPF map that is not in its slot yet, so programs do not find it. */
struct unpublished {
	pid_t pid;
	uint32_t slot, unused; /* unused: the slot of its old map */
	int fd;
};

/* Maximum number of maps in one publication. */
#define UNPUBLISHED_MAX 64

struct unwind_tables {
	struct tracer *tracer;
	struct tracer_unwind_maps maps;
	struct unwind_memory memory; /* mapped */
	void *slabs[PERFX_UNWIND_SLABS_MAX];
	/* The last ones, which programs do not find yet: each publication takes a grace period. A
	 * stack that leads through their rows ends there meanwhile. */
	int new_slab_fds[PERFX_UNWIND_SLABS_MAX];
	uint32_t slabs_count, new_slabs_count;
	struct unwind_rows *rows;
	struct unwind_sets *sets;
	struct file_cache *cache;
	struct table_file *files; /* by index in the cache */
	size_t files_count, files_capacity;
	uint32_t *by_page; /* files with pages, in order of first_page */
	size_t by_page_count, by_page_capacity;
	struct ring_buffer *requests;
	uint64_t cpu_ns;
	uint64_t serve_until_ns; /* by the call that is in progress */
	struct image *read;	 /* whose pages that call has read; NULL: none's */
	bool said_full;
	bool unmapped; /* since room was made, a list of mappings has gone */
	struct unpublished unpublished[UNPUBLISHED_MAX];
	size_t unpublished_count;
	struct { /* of these; they do not change while its thread runs */
		pthread_t thread;
		bool has_thread, ended;
		int err;
	} publication;
};

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
	uint64_t vaddr, size;
	int64_t first;

	for (size_t i = 0; image__code_segment(file->image, i, &vaddr, &size); i++)
		code_pages__add_segment(&file->code, vaddr, size,
					(uint64_t)image__offset(file->image, vaddr));
	if (!code_pages__needed(&file->code))
		return 0;
	first = unwind_rows__add_pages(tables->rows, code_pages__needed(&file->code));
	if (first < 0 || GROW_BY_ONE(tables->by_page))
		return -ENOSPC;
	code_pages__place(&file->code, (uint32_t)first);
	tables->by_page[tables->by_page_count++] = index;
	return 0;
}

/* The file of a mapping; NULL: none with code, or out of memory. */
static struct table_file *file_of(struct unwind_tables *tables, pid_t pid,
				  const struct mapping *mapping)
{
	uint32_t index;
	struct table_file *file;

	if (!mapping_has_file(mapping))
		return NULL;
	index = file_cache__add(tables->cache, pid, FILE_CACHE_NONE, mapping);
	file = index == FILE_CACHE_NONE ? NULL : GROW_TO(tables->files, index);
	if (!file)
		return NULL;
	if (!file->opened) {
		file->image = file_cache__image(tables->cache, index);
		file->opened = file->image != NULL;
		if (file->image && reserve_pages(tables, file, index))
			say_full(tables, "4 GiB of code");
	}
	return file->code.pages_count ? file : NULL;
}

/* The index in by_page of the file that has a page; by_page_count: no file has it. */
static size_t find_page(struct unwind_tables *tables, uint32_t page)
{
	size_t count = tables->by_page_count;
	size_t behind = PARTITION_POINT(i, count,
					tables->files[tables->by_page[i]].code.first_page <= page);
	const struct code_pages *code =
		behind ? &tables->files[tables->by_page[behind - 1]].code : NULL;

	return code && page < code->first_page + code->pages_count ? behind - 1 : count;
}

static struct table_file *file_with(struct unwind_tables *tables, uint32_t page)
{
	size_t at = find_page(tables, page);

	return at < tables->by_page_count ? &tables->files[tables->by_page[at]] : NULL;
}

/* Drops the rows of files that no process maps any more. A program that has found a page before
 * may be searching its rows while they become another page's: what it has found does not count
 * (find_rule() in bpf/unwind.bpf.h). False: there can be none. */
static bool make_room(struct unwind_tables *tables)
{
	bool *mapped = tables->unmapped ? calloc(tables->by_page_count + 1, sizeof(*mapped)) : NULL;

	if (!mapped)
		return false;
	tables->unmapped = false;
	for (uint32_t slot = 0; slot < PERFX_UNWIND_SETS_MAX; slot++)
		FOR_EACH_OF (mapping, *unwind_sets__list(tables->sets, slot))
			if (mapping->has_pages)
				mapped[find_page(tables, mapping_page(mapping, mapping->start))] =
					true;
	for (size_t i = 0; i < tables->by_page_count; i++) {
		const struct code_pages *code = &tables->files[tables->by_page[i]].code;

		if (!mapped[i])
			unwind_rows__drop(tables->rows, code->first_page, code->pages_count);
	}
	free(mapped);
	tracer__unwind_rows_dropped(tables->tracer);
	return !unwind_rows__reuse(tables->rows);
}

static void load_page(struct unwind_tables *tables, struct table_file *file, uint32_t page)
{
	uint64_t vaddr = code_pages__vaddr(&file->code, page);
	int err;

	if (unwind_rows__loaded(tables->rows, page))
		return;
	err = unwind_rows__load(tables->rows, page, file->image, vaddr);
	if (err == -ENOSPC && make_room(tables))
		err = unwind_rows__load(tables->rows, page, file->image, vaddr);
	if (err)
		say_full(tables, "32 MiB of rows");
}

/* Rows compiled ahead take no more: much of a framework's code that is in memory is in no stack. */
#define AHEAD_BYTES_MAX (4u << 20)

#define PAGEMAP_PRESENT (1ull << 63) /* Documentation/admin-guide/mm/pagemap.rst */

/* Loads the pages of a mapping that the process has in memory: what it has run so far. */
static void load_resident(struct unwind_tables *tables, struct table_file *file, int pagemap_fd,
			  const struct perfx_unwind_mapping *mapping)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), entries[512];
	uint64_t at = mapping->start;

	while (at < mapping->end) {
		size_t loaded_count = unwind_rows__pages_loaded(tables->rows);
		uint64_t count = (mapping->end - at) / page_bytes;
		ssize_t got =
			pread(pagemap_fd, entries, sizeof(entries[0]) * (count < 512 ? count : 512),
			      (off_t)(at / page_bytes * sizeof(entries[0])));

		if (got <= 0)
			return;
		for (size_t i = 0; i < (size_t)got / sizeof(entries[0]); i++, at += page_bytes)
			if (entries[i] & PAGEMAP_PRESENT &&
			    unwind_rows__bytes(tables->rows) <= AHEAD_BYTES_MAX)
				load_page(tables, file, mapping_page(mapping, at));
		/* of libtorch_cpu's table 20 MiB would be in memory at its end */
		if (unwind_rows__pages_loaded(tables->rows) != loaded_count)
			image__release_pages(file->image);
	}
}

/* Makes a BPF map of these mappings. Returns its descriptor or -errno. */
static int new_set(const struct mapping_list *list)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_INNER_MAP);
	uint32_t count = (uint32_t)list->count, *keys = calloc(count, sizeof(*keys));
	int err = 0, fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "perfx_set", sizeof(*keys),
					 sizeof(list->list[0]), count, &options);

	for (uint32_t i = 0; keys && i < count; i++)
		keys[i] = i;
	if (fd < 0 || !keys || bpf_map_update_batch(fd, keys, list->list, &count, NULL))
		err = -errno;
	free(keys);
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

/* A process uses a slot from now on; the programs do not find its earlier slot any more. A free
 * slot keeps its map until its next process replaces it, because the kernel waits for a grace
 * period, some 20 ms, whenever an inner map is put into a slot or removed. */
static int use_slot(struct unwind_tables *tables, pid_t pid, uint32_t slot, uint32_t unused)
{
	struct perfx_unwind_process value = unwind_sets__process(tables->sets, slot);
	uint32_t key = (uint32_t)pid;
	int err = 0;

	if (bpf_map_update_elem(tables->maps.processes_fd, &key, &value, BPF_ANY)) {
		err = -errno;
		say_full(tables, "no place for a process");
	}
	tables->unmapped |= unused != UNWIND_SLOT_NONE;
	return err;
}

static void publish_slabs(struct unwind_tables *tables)
{
	uint32_t count = tables->new_slabs_count, keys[PERFX_UNWIND_SLABS_MAX];

	if (!count)
		return;
	for (uint32_t i = 0; i < count; i++)
		keys[i] = tables->slabs_count - count + i;
	if (tracer_put_maps(tables->maps.slabs_fd, keys, tables->new_slab_fds, count))
		say_full(tables, "no memory for their rows");
	for (uint32_t i = 0; i < count; i++)
		close(tables->new_slab_fds[i]);
	tables->new_slabs_count = 0;
}

/* Puts the new maps into their slots. */
static void *publish(void *arg)
{
	struct unwind_tables *tables = arg;
	uint32_t slots[UNPUBLISHED_MAX], count = (uint32_t)tables->unpublished_count;
	int fds[UNPUBLISHED_MAX];

	for (size_t i = 0; i < count; i++) {
		slots[i] = tables->unpublished[i].slot;
		fds[i] = tables->unpublished[i].fd;
	}
	tables->publication.err = tracer_put_maps(tables->maps.sets_fd, slots, fds, count);
	__atomic_store_n(&tables->publication.ended, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Processes use the slots that have been filled. */
static void use_slots(struct unwind_tables *tables)
{
	for (size_t i = 0; i < tables->unpublished_count; i++) {
		const struct unpublished *unpublished = &tables->unpublished[i];

		close(unpublished->fd);
		/* it may have been mapped once more since, or have ended: then the slot is empty */
		if (unwind_sets__slot(tables->sets, unpublished->pid) != unpublished->slot)
			tables->unmapped |= unpublished->unused != UNWIND_SLOT_NONE;
		else if (!tables->publication.err)
			use_slot(tables, unpublished->pid, unpublished->slot, unpublished->unused);
	}
	tables->unpublished_count = 0;
}

static void end_publication(struct unwind_tables *tables)
{
	if (!tables->publication.has_thread)
		return;
	pthread_join(tables->publication.thread, NULL);
	tables->publication.has_thread = false;
	use_slots(tables);
}

bool unwind_tables__is_publishing(struct unwind_tables *tables)
{
	if (!tables)
		return false;
	if (__atomic_load_n(&tables->publication.ended, __ATOMIC_ACQUIRE))
		end_publication(tables);
	return tables->publication.has_thread;
}

void unwind_tables__publish(struct unwind_tables *tables, bool wait)
{
	if (!tables || (unwind_tables__is_publishing(tables) && !wait))
		return;
	end_publication(tables);
	if (!tables->unpublished_count)
		return;
	tables->publication.ended = false;
	tables->publication.has_thread =
		!wait && !thread_start(&tables->publication.thread, publish, tables);
	if (tables->publication.has_thread)
		return;
	publish(tables);
	use_slots(tables);
}

static int put_list(struct unwind_tables *tables, pid_t pid, struct mapping_list *list)
{
	uint32_t slot = unwind_sets__free_slot(tables->sets), unused;
	int fd = slot == UNWIND_SLOT_NONE ? -ENOSPC : new_set(list), err;
	uint64_t none = 0;

	if (fd < 0)
		return fd;
	err = unwind_sets__put(tables->sets, pid, slot, list, &unused);
	/* empties the programs' cache of rules */
	if (unwind_sets__generations_again(tables->sets))
		for (uint32_t key = 0; key < 1 << PERFX_UNWIND_CACHE_BITS; key++)
			bpf_map_update_elem(tables->maps.cache_fd, &key, &none, BPF_ANY);
	if (err) {
		close(fd);
		return err;
	}
	tables->unpublished[tables->unpublished_count++] =
		(struct unpublished){.pid = pid, .slot = slot, .unused = unused, .fd = fd};
	if (tables->unpublished_count == UNPUBLISHED_MAX)
		unwind_tables__publish(tables, true);
	return 0;
}

/* Small files first: their code is in most stacks, little of a framework's is. */
ORDER(compare_sizes, typeof(struct perfx_unwind_mapping *),
      ASCENDING((*a)->end - (*a)->start, (*b)->end - (*b)->start))

/* Loads the mappings that are not in `before`: a program may open one library after the other. */
static void load_all_resident(struct unwind_tables *tables, pid_t pid,
			      const struct mapping_list *list, const struct mapping_list *before)
{
	struct perfx_unwind_mapping **sorted = calloc(list->count, sizeof(*sorted));
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)process_task(pid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; sorted && i < list->count; i++)
		sorted[i] = &list->list[i];
	if (sorted)
		qsort(sorted, list->count, sizeof(*sorted), compare_sizes);
	for (size_t i = 0; fd >= 0 && sorted && i < list->count; i++) {
		struct table_file *file;

		if (!sorted[i]->has_pages || mapping_list__has(before, sorted[i]))
			continue;
		file = file_with(tables, mapping_page(sorted[i], sorted[i]->start));
		load_resident(tables, file, fd, sorted[i]);
	}
	publish_slabs(tables);
	if (fd >= 0)
		close(fd);
	free(sorted);
}

int unwind_tables__map(struct unwind_tables *tables, pid_t pid)
{
	static const struct mapping_list nothing;
	const struct mapping_list *before = &nothing;
	uint64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	struct mapping_list list = {0};
	struct maps *maps;
	uint32_t slot;
	int err;

	if (!tables)
		return 0;
	end_publication(tables);
	slot = unwind_sets__slot(tables->sets, pid);
	if (slot != UNWIND_SLOT_NONE)
		before = unwind_sets__list(tables->sets, slot);
	maps = maps__read(pid);
	err = maps ? 0 : -errno;
	for (size_t i = 0; !err && i < maps__count(maps); i++) {
		const struct mapping *mapping = maps__at(maps, i);
		const struct table_file *file;

		if (!mapping->executable)
			continue;
		file = file_of(tables, pid, mapping);
		err = mapping_list__add(&list, file ? &file->code : NULL, mapping);
	}
	maps__free(maps);
	/* a process that is exiting: its memory is gone, its pid is not */
	if (!err && list.count && !mapping_list__equal(&list, before)) {
		load_all_resident(tables, pid, &list, before);
		err = put_list(tables, pid, &list);
	}
	mapping_list__clear(&list);
	if (err == -ENOSPC || err == -ENOMEM)
		say_full(tables, "no place for a process");
	tables->cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	return err;
}

void unwind_tables__fork(struct unwind_tables *tables, const struct perfx_fork *fork)
{
	struct perfx_traced_process traced;
	uint32_t slot, unused;

	slot = tables ? unwind_sets__slot(tables->sets, (pid_t)fork->ppid) : UNWIND_SLOT_NONE;
	if (slot == UNWIND_SLOT_NONE)
		return;
	end_publication(tables);
	/* the programs do not if it was forked before its parent's mappings were there; one that
	 * has ended, or is another program by now, must leave nothing behind */
	if (!tracer__traced_process(tables->tracer, (pid_t)fork->pid, &traced) &&
	    traced.process == fork->process &&
	    !unwind_sets__share(tables->sets, (pid_t)fork->pid, slot, &unused))
		use_slot(tables, (pid_t)fork->pid, slot, unused);
}

void unwind_tables__forget(struct unwind_tables *tables, pid_t pid)
{
	if (!tables)
		return;
	end_publication(tables);
	tables->unmapped |= unwind_sets__forget(tables->sets, pid) != UNWIND_SLOT_NONE;
}

/* Requests are served for so long at a time: in the first tenth of a second there are many, and the
 * budget's first check must not wait for all of them. */
#define SERVE_NS 5000000u

/* Gives back the memory of the pages that were read, unless more of that file is read next. */
static void release_read(struct unwind_tables *tables, struct image *next)
{
	if (tables->read && tables->read != next)
		image__release_pages(tables->read);
	tables->read = next;
}

/* < 0: the rest is served with the next wake. */
static int on_request(void *ctx, void *data, size_t size)
{
	struct unwind_tables *tables = ctx;
	struct table_file *file;
	uint32_t page;

	if (size < sizeof(page))
		return 0;
	memcpy(&page, data, sizeof(page));
	file = file_with(tables, page);
	if (file) {
		release_read(tables, file->image);
		load_page(tables, file, page);
	}
	return clock_monotonic_ns() < tables->serve_until_ns ? 0 : -EAGAIN;
}

int unwind_tables__fd(const struct unwind_tables *tables)
{
	return ring_buffer__epoll_fd(tables->requests);
}

void unwind_tables__serve(struct unwind_tables *tables)
{
	uint64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	tables->serve_until_ns = clock_monotonic_ns() + SERVE_NS;
	ring_buffer__consume(tables->requests);
	release_read(tables, NULL);
	publish_slabs(tables);
	tables->cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
}

struct unwind_usage unwind_tables__usage(const struct unwind_tables *tables)
{
	return (struct unwind_usage){.files = tables->by_page_count,
				     .pages = unwind_rows__pages_loaded(tables->rows),
				     .bytes = unwind_rows__bytes(tables->rows),
				     .left_out = file_cache__left_out(tables->cache),
				     .cpu_ns = tables->cpu_ns};
}

static void *map_shared(int fd, size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* A slab that the programs find once it is published. */
static uint32_t *add_slab(void *ctx, uint32_t slab)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	struct unwind_tables *tables = ctx;
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "perfx_slab", sizeof(uint32_t),
				sizeof(uint64_t), PERFX_UNWIND_SLAB_ROWS / 2, &options);
	void *rows = fd < 0 ? NULL : map_shared(fd, SLAB_BYTES);

	if (rows) {
		tables->new_slab_fds[tables->new_slabs_count++] = fd;
		tables->slabs_count = slab + 1;
	} else if (fd >= 0) {
		close(fd);
	}
	return tables->slabs[slab] = rows;
}

struct unwind_tables *unwind_tables__new(struct tracer *tracer)
{
	struct unwind_tables *tables = HAS_RULES ? calloc(1, sizeof(*tables)) : NULL;
	int err = 0;

	if (!HAS_RULES)
		errno = ENOTSUP;
	if (!tables)
		return NULL;
	tables->tracer = tracer;
	tables->maps = tracer__unwind_maps(tracer);
	tables->memory =
		(struct unwind_memory){.pages = map_shared(tables->maps.pages_fd, PAGES_BYTES),
				       .rules = map_shared(tables->maps.rules_fd, RULES_BYTES),
				       .add_slab = add_slab,
				       .ctx = tables};
	if (!tables->memory.pages || !tables->memory.rules)
		err = -errno;
	tables->cache = file_cache__new();
	tables->sets = unwind_sets__new();
	if (!err)
		tables->rows = unwind_rows__new(&tables->memory);
	if (!err && (!tables->cache || !tables->sets || !tables->rows))
		err = -ENOMEM;
	if (!err) {
		tables->requests =
			ring_buffer__new(tables->maps.requests_fd, on_request, tables, NULL);
		err = tables->requests ? 0 : -errno;
	}
	if (err) {
		unwind_tables__free(tables);
		errno = -err;
		return NULL;
	}
	tracer__set_stacks(tracer, PERFX_STACKS_UNWIND);
	return tables;
}

static void unmap(void *memory, size_t bytes)
{
	if (memory)
		munmap(memory, bytes);
}

void unwind_tables__free(struct unwind_tables *tables)
{
	if (!tables)
		return;
	end_publication(tables);
	for (size_t i = 0; i < tables->files_count; i++)
		image__free(tables->files[i].image);
	ring_buffer__free(tables->requests);
	unwind_rows__free(tables->rows);
	unwind_sets__free(tables->sets);
	file_cache__free(tables->cache);
	unmap(tables->memory.pages, PAGES_BYTES);
	unmap(tables->memory.rules, RULES_BYTES);
	for (size_t i = 0; i < PERFX_UNWIND_SLABS_MAX; i++)
		unmap(tables->slabs[i], SLAB_BYTES);
	for (size_t i = 0; i < tables->unpublished_count; i++)
		close(tables->unpublished[i].fd);
	for (size_t i = 0; i < tables->new_slabs_count; i++)
		close(tables->new_slab_fds[i]);
	free(tables->files);
	free(tables->by_page);
	free(tables);
}
