/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * io_uring, by system calls only. Each "go" reads from a pipe by a kernel worker, for which the
 * main thread waits a second in io_uring_enter.
 */
#include "known.h"

#include <linux/io_uring.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

struct ring {
	int fd;
	struct io_uring_params params;
	char *submissions;
	struct io_uring_sqe *entries;
};

static struct ring open_ring(void)
{
	struct ring ring = {0};

	ring.fd = (int)syscall(__NR_io_uring_setup, 4, &ring.params);
	known_require(ring.fd >= 0, "io_uring_setup");
	ring.submissions =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
	ring.entries =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQES);
	known_require(ring.submissions != MAP_FAILED && ring.entries != MAP_FAILED, "mmap");
	return ring;
}

static unsigned *word(const struct ring *ring, unsigned offset)
{
	return (unsigned *)(ring->submissions + offset);
}

static void *write_later(void *fd)
{
	sleep(1);
	known_require(write(*(int *)fd, "x", 1) == 1, "write");
	return NULL;
}

static void read_by_worker(const struct ring *ring)
{
	unsigned tail = *word(ring, ring->params.sq_off.tail);
	unsigned index = tail & *word(ring, ring->params.sq_off.ring_mask);
	pthread_t writer;
	char byte;
	int ends[2];

	known_require(pipe(ends) == 0, "pipe");
	ring->entries[index] = (struct io_uring_sqe){.opcode = IORING_OP_READ,
						     .flags = IOSQE_ASYNC,
						     .fd = ends[0],
						     .off = (uint64_t)-1,
						     .addr = (uint64_t)&byte,
						     .len = 1};
	word(ring, ring->params.sq_off.array)[index] = index;
	__atomic_store_n(word(ring, ring->params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	known_require(pthread_create(&writer, NULL, write_later, &ends[1]) == 0, "thread");
	known_require(syscall(__NR_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL,
			      0) == 1,
		      "io_uring_enter");
	/* its completion is taken; rings of one mapping since Linux 5.4 */
	__atomic_fetch_add(word(ring, ring->params.cq_off.head), 1, __ATOMIC_RELEASE);
	pthread_join(writer, NULL);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	struct ring ring = open_ring();

	known_ready();
	while (known_go()) {
		read_by_worker(&ring);
		known_say("done");
	}
	return 0;
}
