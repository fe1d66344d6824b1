/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Maps code continuously, as just-in-time compilers do: in a "go" 3,000 pages of anonymous memory,
 * or with --files of this program's file, and calls `work` after each. With --forks it instead
 * starts 200 children in a "go", which call it once, live for half a second and end.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "known.h"

#define MAPPINGS 3000
#define CHILDREN 200

static int file = -1;
static bool forks;
static uint64_t calls;

TRACED int work(int x)
{
	KEEP(x);
	return x + 1;
}

static void map_code(void)
{
	void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC,
			  file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE, file, 0);

	known_require(code != MAP_FAILED, "mmap");
	munmap(code, 4096);
}

/* All of them live at the same time, long enough to be scanned. */
static void fork_children(void)
{
	for (int i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();

		known_require(pid >= 0, "fork");
		if (!pid) {
			work(1);
			usleep(500000);
			_exit(0);
		}
	}
	for (int i = 0; i < CHILDREN; i++)
		known_require(wait(NULL) > 0, "wait");
	calls += CHILDREN;
}

static void map_all(void)
{
	for (int i = 0; i < MAPPINGS; i++) {
		map_code();
		work(i);
	}
	calls += MAPPINGS;
}

int main(int argc, char **argv)
{
	forks = argc > 1 && !strcmp(argv[1], "--forks");
	if (argc > 1 && !strcmp(argv[1], "--files"))
		file = open("/proc/self/exe", O_RDONLY);
	known_main(forks ? fork_children : map_all);
	known_expect("work", "calls", calls);
	return 0;
}
