/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * waits FILE: threads that wait for a known time, each for something else; FILE is made, read from
 * the disk and kept. Each run starts and ends all threads. A thread's time off the CPU is its wall
 * time minus its CPU time. Keys beside known.h's:
 *	tid        the thread of the last run
 *	off_ns     time off the CPU, in all runs
 *	queued_ns  part of it in which the thread was runnable, by the kernel (schedstat)
 *	inode, address, fd   the object of the wait
 * wait_turn is two threads that spin on one CPU; the tid is one of them.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "known.h"

#define ROUNDS	    60
#define ROUND_NS    10000000
#define FILE_BYTES  (64u << 20)
#define BLOCK_BYTES (32u << 10) /* read at a time */
#define BLOCKS	    (FILE_BYTES / BLOCK_BYTES)
#define TURN_ROUNDS 20

static const char *path;
static int disk_fd, pipe_read_fd, pipe_write_fd, quiet_fd, epoll_fd;
static char *mapped;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, cond_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t taken, had;

static uint64_t clock_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void doze(uint64_t length_ns)
{
	struct timespec length = {.tv_nsec = (long)length_ns};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &length, NULL);
}

TRACED void wait_read(int round)
{
	char byte;

	KEEP(round);
	known_require(read(pipe_read_fd, &byte, 1) == 1, "read");
}

TRACED void wait_poll(int round)
{
	struct pollfd fd = {.fd = quiet_fd, .events = POLLIN};

	KEEP(round);
	known_require(poll(&fd, 1, ROUND_NS / 1000000) == 0, "poll");
}

TRACED void wait_epoll(int round)
{
	struct epoll_event event;

	KEEP(round);
	known_require(epoll_wait(epoll_fd, &event, 1, ROUND_NS / 1000000) == 0, "epoll_wait");
}

TRACED void wait_lock(int round)
{
	KEEP(round);
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
}

/* In turns: the lock is requested while it is held, and obtained before it is taken again. */
static void ask_lock(int round)
{
	pthread_barrier_wait(&taken);
	wait_lock(round);
	pthread_barrier_wait(&had);
}

TRACED void wait_cond(int round)
{
	struct timespec until;

	KEEP(round);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += ROUND_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&cond_mutex);
	pthread_cond_timedwait(&cond, &cond_mutex, &until);
	pthread_mutex_unlock(&cond_mutex);
}

TRACED void wait_sleep(int round)
{
	KEEP(round);
	doze(ROUND_NS);
}

TRACED void wait_child(int round)
{
	pid_t pid = fork();

	KEEP(round);
	if (!pid) {
		doze(ROUND_NS);
		_exit(0);
	}
	known_require(waitpid(pid, NULL, 0) == pid, "waitpid");
}

TRACED void wait_disk(int round)
{
	static char block[BLOCK_BYTES] __attribute__((aligned(4096)));

	known_require(pread(disk_fd, block, sizeof(block),
			    (off_t)((unsigned)round % BLOCKS * sizeof(block))) == sizeof(block),
		      "pread");
}

/* The first touch of a page that is not in memory. */
TRACED void wait_fault(int round)
{
	char byte = *(volatile char *)(mapped + (size_t)round % BLOCKS * BLOCK_BYTES);

	KEEP(byte);
}

TRACED void wait_turn(int round)
{
	uint64_t start_ns = clock_of(CLOCK_THREAD_CPUTIME_ID);

	KEEP(round);
	while (clock_of(CLOCK_THREAD_CPUTIME_ID) - start_ns < ROUND_NS)
		;
}

struct waiter {
	const char *name;
	void (*wait)(int round);
	int rounds;
	pthread_t thread;
	uint64_t off_ns, queued_ns;
	pid_t tid;
};

/* clang-format off */
#define WAITER_BY(function, by, times) {.name = #function, .wait = (by), .rounds = (times)}
#define WAITER(function, times) WAITER_BY(function, function, times)
/* clang-format on */

static struct waiter waiters[] = {
	WAITER(wait_read, ROUNDS),  WAITER(wait_poll, ROUNDS),
	WAITER(wait_epoll, ROUNDS), WAITER_BY(wait_lock, ask_lock, ROUNDS),
	WAITER(wait_cond, ROUNDS),  WAITER(wait_sleep, ROUNDS),
	WAITER(wait_child, ROUNDS), WAITER(wait_disk, BLOCKS),
	WAITER(wait_fault, BLOCKS), WAITER(wait_turn, TURN_ROUNDS),
};
#define WAITERS (sizeof(waiters) / sizeof(waiters[0]))

static int first_cpu(void)
{
	cpu_set_t cpus;
	int cpu = 0;

	sched_getaffinity(0, sizeof(cpus), &cpus);
	while (!CPU_ISSET(cpu, &cpus))
		cpu++;
	return cpu;
}

static void pin(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* Time of this thread on a run queue without a CPU. */
static uint64_t time_queued(void)
{
	unsigned long long run_ns, delay_ns = 0;
	FILE *file = fopen("/proc/thread-self/schedstat", "re");

	known_require(file && fscanf(file, "%llu %llu", &run_ns, &delay_ns) == 2, "schedstat");
	fclose(file);
	return delay_ns;
}

static void *run(void *arg)
{
	struct waiter *waiter = arg;
	uint64_t wall_ns, cpu_ns, queued_ns;

	waiter->tid = (pid_t)syscall(SYS_gettid);
	if (waiter->wait == wait_turn)
		pin(first_cpu());
	queued_ns = time_queued();
	wall_ns = clock_of(CLOCK_MONOTONIC);
	cpu_ns = clock_of(CLOCK_THREAD_CPUTIME_ID);
	for (int i = 0; i < waiter->rounds; i++)
		waiter->wait(i);
	cpu_ns = clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	wall_ns = clock_of(CLOCK_MONOTONIC) - wall_ns;
	waiter->off_ns += wall_ns - cpu_ns;
	waiter->queued_ns += time_queued() - queued_ns;
	return NULL;
}

/* The other thread of wait_turn: not measured, because it ends slightly earlier or later. */
static void *spin(void *arg)
{
	pin(first_cpu());
	for (int i = 0; i < TURN_ROUNDS; i++)
		wait_turn(i);
	return arg;
}

/* Writes and unlocks for wait_read and wait_lock. */
static void *feed(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&mutex);
		pthread_barrier_wait(&taken);
		doze(ROUND_NS);
		pthread_mutex_unlock(&mutex);
		pthread_barrier_wait(&had);
		known_require(write(pipe_write_fd, "", 1) == 1, "write");
	}
	return arg;
}

/* Drops it from memory, so that it is read from the disk again. */
static void forget_file(void)
{
	fsync(disk_fd);
	madvise(mapped, FILE_BYTES, MADV_DONTNEED);
	posix_fadvise(disk_fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void scenario(void)
{
	pthread_t feeder, spinner;

	forget_file();
	pthread_create(&feeder, NULL, feed, NULL);
	pthread_create(&spinner, NULL, spin, NULL);
	for (size_t i = 0; i < WAITERS; i++)
		pthread_create(&waiters[i].thread, NULL, run, &waiters[i]);
	for (size_t i = 0; i < WAITERS; i++)
		pthread_join(waiters[i].thread, NULL);
	pthread_join(feeder, NULL);
	pthread_join(spinner, NULL);
}

static void make_file(void)
{
	static char block[BLOCK_BYTES] __attribute__((aligned(4096)));
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	memset(block, 'x', sizeof(block));
	for (unsigned i = 0; i < BLOCKS; i++)
		known_require(write(fd, block, sizeof(block)) == sizeof(block), "write a file");
	fsync(fd);
	mapped = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	known_require(mapped != MAP_FAILED, "mmap");
	madvise(mapped, FILE_BYTES, MADV_RANDOM);
	/* file systems in memory have no other way to read */
	disk_fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (disk_fd < 0)
		disk_fd = open(path, O_RDONLY | O_CLOEXEC);
	known_require(disk_fd >= 0, "open");
	close(fd);
}

static uint64_t inode_of(int fd)
{
	struct stat st;

	fstat(fd, &st);
	return st.st_ino;
}

static void open_all(void)
{
	int ends[2], quiet[2];

	make_file();
	pthread_barrier_init(&taken, NULL, 2);
	pthread_barrier_init(&had, NULL, 2);
	known_require(!pipe(ends) && !pipe(quiet), "pipe");
	pipe_read_fd = ends[0];
	pipe_write_fd = ends[1];
	quiet_fd = quiet[0];
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, quiet_fd, &(struct epoll_event){.events = EPOLLIN});
}

int main(int argc, char **argv)
{
	path = argc > 1 ? argv[1] : "waits.bin";
	open_all();
	known_main(scenario);
	for (size_t i = 0; i < WAITERS; i++) {
		known_expect(waiters[i].name, "tid", (uint64_t)waiters[i].tid);
		known_expect(waiters[i].name, "off_ns", waiters[i].off_ns);
		known_expect(waiters[i].name, "queued_ns", waiters[i].queued_ns);
	}
	known_expect("wait_read", "inode", inode_of(pipe_read_fd));
	known_expect("wait_poll", "inode", inode_of(quiet_fd));
	known_expect("wait_lock", "address", (uint64_t)&mutex);
	known_expect("wait_epoll", "fd", (uint64_t)epoll_fd);
	return 0;
}
