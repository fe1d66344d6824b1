/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * files FOLDER: calls on files and sockets, a known number of each in a run. FOLDER gets the files
 * a0.bin to a7.bin, two.dat, mapped.st and out.log. Keys, by the name without FOLDER:
 *	opens, reads, read_bytes, sequential, writes, write_bytes
 * of "io_uring": used, whether the kernel allows it
 * of mapped.st, by run and as the kernel knows it: faults@RUN, fault_bytes@RUN
 * and of "peer", the port as the name: reads, read_bytes, writes, write_bytes, answers.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "known.h"

#define FILES	     8
#define FILE_BYTES   100000
#define BLOCK	     32768
#define ANSWERS	     5
#define ASKED	     100
#define ANSWERED     5000
#define MAPPED_BYTES (4 << 20)
#define RUNS_MAX     16

static char block[FILE_BYTES];
static int client_fd;
static unsigned port;
/* By run. */
static struct fetched {
	uint64_t faults, bytes;
} fetched[RUNS_MAX];

static int open_in(const char *folder, const char *name, int flags)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, flags | O_CLOEXEC, 0644);
	known_require(fd >= 0, "open");
	return fd;
}

static void *serve(void *arg)
{
	int fd = accept(*(int *)arg, NULL, NULL);
	char asked[ASKED];

	while (recv(fd, asked, sizeof(asked), MSG_WAITALL) == ASKED)
		known_require(send(fd, block, ANSWERED, 0) == ANSWERED, "send");
	close(fd);
	return NULL;
}

static void connect_peer(pthread_t *server)
{
	static int listen_fd;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof(at);

	listen_fd = socket(AF_INET, SOCK_STREAM, 0);
	known_require(!bind(listen_fd, (struct sockaddr *)&at, sizeof(at)), "bind");
	known_require(!listen(listen_fd, 1), "listen");
	getsockname(listen_fd, (struct sockaddr *)&at, &length);
	port = ntohs(at.sin_port);
	pthread_create(server, NULL, serve, &listen_fd);
	client_fd = socket(AF_INET, SOCK_STREAM, 0);
	known_require(!connect(client_fd, (struct sockaddr *)&at, sizeof(at)), "connect");
}

/* Whole files by blocks, the last of which is the end; one file at two places; a log. */
static void use_files(const char *folder)
{
	struct iovec halves[] = {{block, 1000}, {block, 1000}};
	int fd;

	for (int i = 0; i < FILES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "a%d.bin", i);
		fd = open_in(folder, name, O_RDONLY);
		while (read(fd, block, BLOCK) > 0)
			;
		close(fd);
	}
	fd = open_in(folder, "two.dat", O_RDONLY);
	known_require(pread(fd, block, 1000, 50000) == 1000, "pread");
	known_require(pread(fd, block, 1000, 51000) == 1000, "pread");
	known_require(preadv(fd, halves, 2, 20000) == 2000, "preadv");
	known_require(pread(fd, block, 1, -1) < 0, "pread before the file");
	close(fd);
	fd = open_in(folder, "out.log", O_WRONLY | O_CREAT | O_APPEND);
	known_require(write(fd, block, 700) == 700, "write");
	known_require(writev(fd, halves, 2) == 2000, "writev");
	close(fd);
}

/* The thread's major faults, and the bytes that it fetched from storage. */
static struct fetched fetched_so_far(void)
{
	struct fetched so_far = {0};
	FILE *io = fopen("/proc/thread-self/io", "re");
	struct rusage usage;
	char line[128];

	while (io && fgets(line, sizeof(line), io))
		sscanf(line, "read_bytes: %" SCNu64, &so_far.bytes);
	if (io)
		fclose(io);
	getrusage(RUSAGE_THREAD, &usage);
	so_far.faults = (uint64_t)usage.ru_majflt;
	return so_far;
}

/* Touches each page of a mapped file that is not in the page cache, as far as the file system
 * allows that. */
static struct fetched touch_mapped(const char *folder)
{
	int fd = open_in(folder, "mapped.st", O_RDONLY);
	volatile const char *mapped;
	struct fetched before, after;

	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	mapped = mmap(NULL, MAPPED_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	known_require(mapped != MAP_FAILED, "mmap");
	close(fd);
	/* without reading ahead */
	madvise((void *)&mapped[MAPPED_BYTES / 2], MAPPED_BYTES / 2, MADV_RANDOM);
	before = fetched_so_far();
	for (size_t i = 0; i < MAPPED_BYTES; i += 4096)
		(void)mapped[i];
	after = fetched_so_far();
	munmap((void *)mapped, MAPPED_BYTES);
	return (struct fetched){after.faults - before.faults, after.bytes - before.bytes};
}

static void use_peer(void)
{
	for (int i = 0; i < ANSWERS; i++) {
		known_require(send(client_fd, block, ASKED, 0) == ASKED, "send");
		known_require(recv(client_fd, block, ANSWERED, MSG_WAITALL) == ANSWERED, "recv");
	}
}

static void make_mapped(const char *folder)
{
	int fd = open_in(folder, "mapped.st", O_WRONLY | O_CREAT | O_TRUNC);

	for (size_t i = 0; i < MAPPED_BYTES; i += FILE_BYTES / 2)
		known_require(write(fd, block, FILE_BYTES / 2) == FILE_BYTES / 2, "write");
	fsync(fd);
	close(fd);
}

int main(int argc, char **argv)
{
	uint64_t runs = 0;
	struct io_uring_params params = {0};
	long ring = syscall(SYS_io_uring_setup, 8, &params);
	pthread_t server;
	char peer[16], key[32];

	if (argc != 2)
		return 2;
	for (int i = 0; i < FILES + 1; i++) {
		char name[16];
		int fd;

		snprintf(name, sizeof(name), i < FILES ? "a%d.bin" : "two.dat", i);
		fd = open_in(argv[1], name, O_WRONLY | O_CREAT | O_TRUNC);
		known_require(write(fd, block, FILE_BYTES) == FILE_BYTES, "write");
		close(fd);
	}
	make_mapped(argv[1]);
	connect_peer(&server);
	known_ready();
	while (known_go()) {
		use_files(argv[1]);
		fetched[runs % RUNS_MAX] = touch_mapped(argv[1]);
		use_peer();
		runs++;
		known_say("done");
	}
	close(client_fd);
	pthread_join(server, NULL);
	snprintf(peer, sizeof(peer), "%u", port);
	known_expect("io_uring", "used", ring >= 0);
	known_expect("*.bin", "opens", runs * FILES);
	known_expect("*.bin", "reads", runs * FILES * 5); /* of 32,768; the last has none */
	known_expect("*.bin", "read_bytes", runs * FILES * FILE_BYTES);
	known_expect("*.bin", "sequential_reads", runs * FILES * 5);
	known_expect("two.dat", "opens", runs);
	known_expect("two.dat", "reads", runs * 3);
	known_expect("two.dat", "read_bytes", runs * 4000);
	known_expect("two.dat", "sequential_reads", runs);
	known_expect("two.dat", "errors", runs);
	for (uint64_t i = 0; i < runs && i < RUNS_MAX; i++) {
		snprintf(key, sizeof(key), "faults@%" PRIu64, i);
		known_expect("mapped.st", key, fetched[i].faults);
		snprintf(key, sizeof(key), "fault_bytes@%" PRIu64, i);
		known_expect("mapped.st", key, fetched[i].bytes);
	}
	known_expect("out.log", "opens", runs);
	known_expect("out.log", "writes", runs * 2);
	known_expect("out.log", "write_bytes", runs * 2700);
	known_expect(peer, "reads", runs * ANSWERS);
	known_expect(peer, "read_bytes", runs * ANSWERS * ANSWERED);
	known_expect(peer, "writes", runs * ANSWERS);
	known_expect(peer, "write_bytes", runs * ANSWERS * ASKED);
	known_expect(peer, "answers", runs * ANSWERS);
	return 0;
}
