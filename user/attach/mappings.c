// SPDX-License-Identifier: BSD-2-Clause
#include "attach/mappings.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DATA_PAGES 16 /* a power of two; a record is about 150 bytes */

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

/* man perf_event_open: PERF_RECORD_MMAP2, as far as is wanted. */
struct mmap_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t address, length, page_offset;
	uint32_t dev_major, dev_minor;
	uint64_t inode;
};

/* One record; its time comes last. */
static void deliver(const char *data, uint64_t size, uint64_t at, uint16_t bytes,
		    void (*fn)(const struct new_mapping *mapping, void *ctx), void *ctx)
{
	struct mmap_record record;
	struct new_mapping mapping = {0};

	copy_out(data, size, at, &record, sizeof(record));
	copy_out(data, size, at + bytes - sizeof(mapping.time_ns), &mapping.time_ns,
		 sizeof(mapping.time_ns));
	if (record.header.type == PERF_RECORD_MMAP2) {
		mapping.pid = (pid_t)record.pid;
		mapping.inode = record.inode;
		mapping.dev_major = record.dev_major;
		mapping.dev_minor = record.dev_minor;
	}
	if (mapping.inode || record.header.type == PERF_RECORD_LOST)
		fn(&mapping, ctx);
}

static int take_ring(const struct mappings *mappings, struct cpu_ring *ring,
		     void (*fn)(const struct new_mapping *mapping, void *ctx), void *ctx)
{
	uint64_t size = DATA_PAGES * mappings->page_bytes;
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail;
	const char *data = (const char *)ring->page + mappings->page_bytes;
	int taken = 0;

	while (tail < head) {
		struct perf_event_header header;

		copy_out(data, size, tail, &header, sizeof(header));
		if (header.size < sizeof(header) + sizeof(uint64_t))
			break;
		deliver(data, size, tail, header.size, fn, ctx);
		tail += header.size;
		taken++;
	}
	__atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
	return taken;
}

int mappings__take(struct mappings *mappings,
		   void (*fn)(const struct new_mapping *mapping, void *ctx), void *ctx)
{
	int taken = 0;

	for (size_t i = 0; i < mappings->cpus_count; i++)
		if (mappings->cpus[i].page)
			taken += take_ring(mappings, &mappings->cpus[i], fn, ctx);
	return taken;
}
