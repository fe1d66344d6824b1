// SPDX-License-Identifier: BSD-2-Clause
#include "attach/mapped_files.h"

#include "proc/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DATA_PAGES 64 /* a power of two; a record is about 150 bytes */

struct cpu_ring {
	int fd;
	struct perf_event_mmap_page *page; /* data pages follow */
};

struct mappings {
	int epoll_fd;
	size_t page_bytes, cpus_count;
	struct cpu_ring *cpus;
};

static size_t ring_bytes(const struct mappings *mappings)
{
	return (1 + DATA_PAGES) * mappings->page_bytes;
}

static int cpu_ring_open(struct mappings *mappings, struct cpu_ring *ring, int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TIME,
		.mmap = 1,
		.mmap2 = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = 1,
	};
	struct epoll_event event = {.events = EPOLLIN};
	void *page;

	ring->fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (ring->fd < 0)
		return errno == ENODEV ? 0 : -errno; /* the CPU is offline */
	page = mmap(NULL, ring_bytes(mappings), PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	ring->page = page;
	return epoll_ctl(mappings->epoll_fd, EPOLL_CTL_ADD, ring->fd, &event) ? -errno : 0;
}

struct mappings *mappings__new(void)
{
	struct mappings *mappings = calloc(1, sizeof(*mappings));
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	int err = 0;

	if (!mappings)
		return NULL;
	mappings->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	mappings->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	mappings->cpus = calloc((size_t)cpus, sizeof(*mappings->cpus));
	if (mappings->epoll_fd < 0 || !mappings->cpus)
		err = -errno;
	for (int cpu = 0; !err && cpu < cpus; cpu++) {
		mappings->cpus_count++;
		err = cpu_ring_open(mappings, &mappings->cpus[cpu], cpu);
	}
	if (err) {
		mappings__free(mappings);
		errno = -err;
		return NULL;
	}
	return mappings;
}

void mappings__free(struct mappings *mappings)
{
	if (!mappings)
		return;
	for (size_t i = 0; i < mappings->cpus_count; i++) {
		if (mappings->cpus[i].page)
			munmap(mappings->cpus[i].page, ring_bytes(mappings));
		if (mappings->cpus[i].fd >= 0)
			close(mappings->cpus[i].fd);
	}
	if (mappings->epoll_fd >= 0)
		close(mappings->epoll_fd);
	free(mappings->cpus);
	free(mappings);
}

int mappings__fd(const struct mappings *mappings)
{
	return mappings->epoll_fd;
}

/* Copies out of a ring whose end wraps. */
static void copy_out(const char *data, uint64_t size, uint64_t at, void *to, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((char *)to)[i] = data[(at + i) & (size - 1)];
}

/* A record that has not been taken. */
struct oldest {
	struct perf_event_mmap_page *page;
	const char *data; /* of its ring, */
	uint64_t size;	  /* in bytes, */
	uint64_t at;	  /* where it begins */
	uint64_t time_ns;
	struct perf_event_header header;
};

/* man perf_event_open: PERF_RECORD_MMAP2, as far as is wanted. */
struct mmap_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t address, length, page_offset;
	uint32_t dev_major, dev_minor;
	uint64_t inode, inode_generation;
	uint32_t protection, flags;
	char path[]; /* NUL-terminated */
};

/* One record; its time comes last. */
static void deliver(const struct oldest *oldest,
		    void (*fn)(const struct new_mapping *mapping, void *ctx), void *ctx)
{
	char path[PATH_MAX + 1] = "";
	struct mmap_record record;
	struct new_mapping mapping = {.time_ns = oldest->time_ns};
	size_t bytes = oldest->header.size,
	       path_bytes = bytes > sizeof(record) ? bytes - sizeof(record) : 0;

	copy_out(oldest->data, oldest->size, oldest->at, &record, sizeof(record));
	if (record.header.type == PERF_RECORD_MMAP2) {
		copy_out(oldest->data, oldest->size, oldest->at + sizeof(record), path,
			 path_bytes < PATH_MAX ? path_bytes : PATH_MAX);
		mapping.pid = (pid_t)record.pid;
		mapping.mapping = (struct mapping){.start = record.address,
						   .end = record.address + record.length,
						   .file_offset = record.page_offset,
						   .inode = record.inode,
						   .dev_major = record.dev_major,
						   .dev_minor = record.dev_minor,
						   .executable = true,
						   .deleted = maps_cut_deleted(path),
						   .path = path};
	}
	if (mapping.pid || record.header.type == PERF_RECORD_LOST)
		fn(&mapping, ctx);
}

/* Finds the oldest record of all rings. False: all are empty. */
static bool find_oldest(const struct mappings *mappings, struct oldest *oldest)
{
	oldest->time_ns = UINT64_MAX;
	for (size_t i = 0; i < mappings->cpus_count; i++) {
		struct perf_event_mmap_page *page = mappings->cpus[i].page;
		struct oldest next = {.page = page, .size = DATA_PAGES * mappings->page_bytes};

		if (!page)
			continue;
		next.at = page->data_tail;
		if (next.at == __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE))
			continue;
		next.data = (const char *)page + mappings->page_bytes;
		copy_out(next.data, next.size, next.at, &next.header, sizeof(next.header));
		if (next.header.size < sizeof(next.header) + sizeof(next.time_ns))
			continue;
		copy_out(next.data, next.size, next.at + next.header.size - sizeof(next.time_ns),
			 &next.time_ns, sizeof(next.time_ns));
		if (next.time_ns < oldest->time_ns)
			*oldest = next;
	}
	return oldest->time_ns != UINT64_MAX;
}

int mappings__drain(struct mappings *mappings,
		    void (*fn)(const struct new_mapping *mapping, void *ctx), void *ctx)
{
	struct oldest oldest;
	int taken = 0;

	for (; find_oldest(mappings, &oldest); taken++) {
		deliver(&oldest, fn, ctx);
		__atomic_store_n(&oldest.page->data_tail, oldest.at + oldest.header.size,
				 __ATOMIC_RELEASE);
	}
	return taken;
}

/* The device of a file in an overlay is the overlay's, and several overlays may have the file. */
static bool is_of(const struct mapping *mapping, const struct plan_module *module)
{
	if (mapping->inode != module->inode)
		return false;
	return (mapping->dev_major == module->dev_major &&
		mapping->dev_minor == module->dev_minor) ||
	       (module->state.overlay && mapping->dev_major == 0);
}

void untraced_files_add(struct untraced_files *untraced, uint64_t inode)
{
	if (map64_get(&untraced->inodes, inode) == MAP64_NONE &&
	    map64_put(&untraced->inodes, inode, 0))
		untraced->complete = false;
}

void untraced_files_clear(struct untraced_files *untraced)
{
	map64_clear(&untraced->inodes);
	untraced->complete = false;
}

size_t sharing_find(struct untraced_files *untraced, const struct plan *plan,
		    bool (*is_traced)(pid_t pid, void *ctx), void *ctx, struct sharing *files,
		    size_t count)
{
	bool may_be_shared = !untraced->complete;
	pid_t *all = NULL;
	ssize_t processes;
	size_t read_count = 0;

	for (size_t i = 0; !may_be_shared && i < count; i++)
		may_be_shared = map64_get(&untraced->inodes,
					  plan->modules[files[i].module].inode) != MAP64_NONE;
	if (!may_be_shared)
		return 0;
	untraced_files_clear(untraced);
	processes = process_list(&all);
	untraced->complete = processes > 0;
	for (ssize_t i = 0; i < processes; i++) {
		struct maps *maps;

		if (is_traced(all[i], ctx))
			continue;
		maps = maps__read(all[i]);
		read_count++;
		/* a child is listed a moment before it is traced */
		for (size_t k = 0; maps && !is_traced(all[i], ctx) && k < maps__count(maps); k++) {
			const struct mapping *mapping = maps__at(maps, k);

			if (!mapping->executable || !mapping->inode)
				continue;
			untraced_files_add(untraced, mapping->inode);
			for (size_t n = 0; n < count; n++)
				files[n].shared |= is_of(mapping, &plan->modules[files[n].module]);
		}
		maps__free(maps);
	}
	free(all);
	return read_count;
}

/* Bytes compared from an instruction on. */
#define CODE_BYTES 16

struct file_watch {
	int fd;
	size_t watched_count; /* of the plan's modules */
};

struct file_watch *file_watch__new(void)
{
	struct file_watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return NULL;
	watch->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (watch->fd >= 0)
		return watch;
	free(watch);
	return NULL;
}

void file_watch__free(struct file_watch *watch)
{
	if (!watch)
		return;
	close(watch->fd);
	free(watch);
}

int file_watch__fd(const struct file_watch *watch)
{
	return watch ? watch->fd : -1;
}

void file_watch__follow(struct file_watch *watch, const struct plan *plan)
{
	char path[64];

	for (; watch && watch->watched_count < plan->modules_count; watch->watched_count++) {
		int fd = plan->modules[watch->watched_count].fd;

		if (fd < 0)
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		/* too many watches: changes are found when something is mapped */
		(void)inotify_add_watch(watch->fd, path, IN_MODIFY);
	}
}

void file_watch__drain(struct file_watch *watch)
{
	char events[4096];

	while (watch && read(watch->fd, events, sizeof(events)) > 0)
		;
}

bool process_maps(pid_t pid, const struct plan *plan, size_t module)
{
	struct maps *maps = maps__read(pid);
	bool found = false;

	for (size_t i = 0; maps && !found && i < maps__count(maps); i++)
		found = is_of(maps__at(maps, i), &plan->modules[module]);
	maps__free(maps);
	return found;
}

bool process_holds(pid_t pid, const struct plan *plan, size_t module)
{
	const struct plan_module *planned = &plan->modules[module];
	struct maps *maps = maps__read(pid);
	char path[32];
	bool same;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	same = maps && fd >= 0;
	for (size_t i = 0; same && i < planned->functions_count; i++) {
		uint64_t offset = plan->functions[planned->functions_first + i].offset;
		char there[CODE_BYTES] = {0}, here[CODE_BYTES] = {0};
		uint64_t address = 0; /* 0: not mapped */

		for (size_t k = 0; !address && k < maps__count(maps); k++) {
			const struct mapping *mapping = maps__at(maps, k);

			if (mapping->executable && is_of(mapping, planned) &&
			    offset >= mapping->file_offset &&
			    offset - mapping->file_offset < mapping->end - mapping->start)
				address = mapping->start + (offset - mapping->file_offset);
		}
		same = address &&
		       pread(fd, there, sizeof(there), (off_t)address) == sizeof(there) &&
		       pread(planned->fd, here, sizeof(here), (off_t)offset) == sizeof(here) &&
		       !memcmp(there, here, sizeof(here));
	}
	if (fd >= 0)
		close(fd);
	maps__free(maps);
	return same;
}
