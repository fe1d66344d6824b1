/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads each of which stands still in a function of its own, named after what it waits for, as
 * long as the program runs. "go": a moment goes by. Further key of "expect":
 *	tid             of the thread in that function
 */
#include "known.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define MOMENT_NS 500000000

static int empty_pipe[2];
static pthread_mutex_t taken = PTHREAD_MUTEX_INITIALIZER;
static pid_t child;

/* Work after the wait prevents a tail call. */
TRACED int stands_in_read(void)
{
	char byte;

	return (int)read(empty_pipe[0], &byte, 1) + 1;
}

TRACED int stands_in_poll(void)
{
	struct pollfd polled = {.fd = empty_pipe[0], .events = POLLIN};

	return poll(&polled, 1, -1) + 1;
}

TRACED int stands_in_epoll(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, empty_pipe[0], &event);
	return epoll_wait(epoll_fd, &event, 1, -1) + 1;
}

TRACED int stands_in_futex(void)
{
	return pthread_mutex_lock(&taken) + 1;
}

TRACED int stands_in_sleep(void)
{
	const struct timespec day = {.tv_sec = 86400};

	return clock_nanosleep(CLOCK_MONOTONIC, 0, &day, NULL) + 1;
}

TRACED int stands_in_wait(void)
{
	int status;

	return (int)waitpid(child, &status, 0) + 1;
}

static struct stand {
	const char *name;
	int (*stand)(void);
	pthread_t thread;
	pid_t tid;
} stands[] = {
	{.name = "stands_in_read", .stand = stands_in_read},
	{.name = "stands_in_poll", .stand = stands_in_poll},
	{.name = "stands_in_epoll", .stand = stands_in_epoll},
	{.name = "stands_in_futex", .stand = stands_in_futex},
	{.name = "stands_in_sleep", .stand = stands_in_sleep},
	{.name = "stands_in_wait", .stand = stands_in_wait},
};
#define STANDS_COUNT (sizeof(stands) / sizeof(stands[0]))

static void *run(void *arg)
{
	struct stand *stand = arg;

	__atomic_store_n(&stand->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	stand->stand();
	known_require(false, "it went on");
	return NULL;
}

static void moment(void)
{
	const struct timespec time = {.tv_nsec = MOMENT_NS};

	nanosleep(&time, NULL);
}

int main(void)
{
	pthread_mutex_lock(&taken);
	known_require(!pipe(empty_pipe), "pipe");
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	for (size_t i = 0; i < STANDS_COUNT; i++)
		pthread_create(&stands[i].thread, NULL, run, &stands[i]);
	for (size_t i = 0; i < STANDS_COUNT; i++)
		while (!__atomic_load_n(&stands[i].tid, __ATOMIC_ACQUIRE))
			sched_yield();
	moment();
	known_main(moment);
	for (size_t i = 0; i < STANDS_COUNT; i++)
		known_expect(stands[i].name, "tid", (uint64_t)stands[i].tid);
	/* without a message to the waiting threads; the child follows */
	_exit(0);
}
