/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that come and go: crowd COUNT [--fork]. A run starts COUNT children, a few at a time,
 * each of which executes this program again (not with --fork), calls a function on two threads,
 * allocates, opens a library and ends. The launcher also allocates in each run.
 */
#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <pthread.h>
#include <sys/wait.h>

#include "known.h"

#define MAIN_CALLS   100
#define THREAD_CALLS 50
#define AT_ONCE	     6
#define BLOCKS	     100
#define BLOCK_BYTES  1000

static uint64_t count;
static bool forks_only;
static char *path, library[4096];

TRACED int crowd_inner(int x)
{
	KEEP(x);
	return x + 1;
}

TRACED int crowd_work(int x)
{
	KEEP(x);
	return crowd_inner(x) + 1;
}

static void *work_on_thread(void *arg)
{
	for (int i = 0; i < THREAD_CALLS; i++)
		crowd_work(i);
	return arg;
}

/* Half of it is never freed. */
static void allocate(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		void *block = malloc(BLOCK_BYTES);

		KEEP(block);
		if (i % 2)
			free(block);
	}
}

static int member(void)
{
	pthread_t thread;
	void *handle;

	if (pthread_create(&thread, NULL, work_on_thread, NULL))
		return 1;
	for (int i = 0; i < MAIN_CALLS; i++)
		crowd_work(i);
	allocate();
	handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle || dlclose(handle))
		return 1;
	return pthread_join(thread, NULL) != 0;
}

static void start_child(void)
{
	pid_t pid = fork();

	known_require(pid >= 0, "fork");
	if (pid)
		return;
	if (forks_only)
		_exit(member());
	execl(path, path, "--member", NULL);
	_exit(1);
}

static void wait_child(void)
{
	int status;

	while (wait(&status) < 0)
		known_require(errno == EINTR, "wait");
	known_require(status == 0, "a child's status");
}

static void run(void)
{
	allocate();
	for (uint64_t i = 0; i < count; i++) {
		if (i >= AT_ONCE)
			wait_child();
		start_child();
	}
	for (uint64_t i = 0; i < AT_ONCE && i < count; i++)
		wait_child();
}

int main(int argc, char **argv)
{
	uint64_t runs;

	path = realpath(argv[0], NULL);
	if (argc < 2 || !path)
		return 2;
	snprintf(library, sizeof(library), "%s/late.so", dirname(strdup(path)));
	if (!strcmp(argv[1], "--member"))
		return member();
	count = strtoull(argv[1], NULL, 10);
	forks_only = argc > 2 && !strcmp(argv[2], "--fork");
	runs = known_main(run);
	known_expect("crowd_work", "calls", runs * count * (MAIN_CALLS + THREAD_CALLS));
	known_expect("crowd_inner", "calls", runs * count * (MAIN_CALLS + THREAD_CALLS));
	return 0;
}
