/* SPDX-License-Identifier: BSD-2-Clause */
/* Children by fork: they call from their first instruction on, as separate processes. */
#include <pthread.h>
#include <sys/wait.h>

#include "known.h"

#define MAX_CHILDREN 1000

static struct child {
	pid_t pid;
	uint64_t calls;
} children[MAX_CHILDREN];
static int child_count;
static uint64_t calls;

TRACED int work(int x)
{
	KEEP(x);
	return x + 1;
}

static void call_work(int count)
{
	for (int i = 0; i < count; i++)
		work(i);
}

/* Grandchildren are not waited for: a pipe carries their pid. */
static void child_main(int count, int pipe_fd)
{
	pid_t pid;

	call_work(count);
	pid = fork();
	if (!pid) {
		call_work(300);
		_exit(0);
	}
	known_require(write(pipe_fd, &pid, sizeof(pid)) == sizeof(pid), "pipe");
	waitpid(pid, NULL, 0);
	call_work(count);
	_exit(0);
}

static void add_child(pid_t pid, uint64_t count)
{
	if (child_count < MAX_CHILDREN)
		children[child_count++] = (struct child){pid, count};
	calls += count;
}

static void fork_child(int count)
{
	pid_t pid, grandchild;
	int fds[2];

	known_require(!pipe(fds), "pipe");
	pid = fork();
	if (!pid)
		child_main(count, fds[1]);
	known_require(read(fds[0], &grandchild, sizeof(grandchild)) == sizeof(grandchild), "pipe");
	waitpid(pid, NULL, 0);
	close(fds[0]);
	close(fds[1]);
	add_child(pid, 2 * (uint64_t)count);
	add_child(grandchild, 300);
}

static void *forking_thread(void *arg)
{
	call_work(50);
	fork_child(400);
	return arg;
}

static void scenario(void)
{
	pthread_t thread;

	call_work(100);
	fork_child(200);
	pthread_create(&thread, NULL, forking_thread, NULL);
	pthread_join(thread, NULL);
}

int main(void)
{
	uint64_t runs = known_main(scenario);

	known_expect("work", "calls", calls + runs * 150);
	known_expect_of("work", getpid(), runs * 150);
	for (int i = 0; i < child_count; i++)
		known_expect_of("work", children[i].pid, children[i].calls);
	return 0;
}
