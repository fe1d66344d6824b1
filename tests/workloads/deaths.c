// SPDX-License-Identifier: BSD-2-Clause
/*
 * Children that end in known ways. Each line on stdin is a way with an argument; the child says
 * "dies PID TID ADDRESS" (0: no address matters) before it does that, and its parent "PID STATUS
 * PEAK_KIB" by wait4 afterwards.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1 << 20)

static void dies(volatile void *address)
{
	printf("dies %d %d %#lx\n", getpid(), gettid(), (unsigned long)address);
	fflush(stdout);
}

__attribute__((noinline)) static void write_to(volatile char *address)
{
	*address = 1;
}

static void exits(const char *argument)
{
	dies(NULL);
	_exit(atoi(argument));
}

static void writes(const char *argument)
{
	char *address = (char *)strtoul(argument, NULL, 0);

	dies(address);
	write_to(address);
}

static void writes_constant(const char *argument)
{
	char *address = mmap(NULL, 4 * 4096, PROT_READ, MAP_PRIVATE,
			     open(argument, O_RDONLY | O_CLOEXEC), 0);

	dies(address + 4096 + 16);
	write_to(address + 4096 + 16);
}

static void *writes_in_thread(void *address)
{
	dies(address);
	write_to(address);
	return NULL;
}

static void dies_in_thread(const char *argument)
{
	pthread_t thread;

	pthread_create(&thread, NULL, writes_in_thread, (void *)strtoul(argument, NULL, 0));
	pthread_join(thread, NULL);
}

/* Without an end, but the compiler does not know. */
__attribute__((noinline)) static int recurse(volatile char *above)
{
	volatile char frame[1024];

	frame[0] = *above;
	return *above ? recurse(frame) + frame[0] : 0;
}

static void overflows(const char *argument)
{
	dies(NULL);
	recurse(&(volatile char){1});
	(void)argument;
}

static void aborts(const char *argument)
{
	(void)argument;
	dies(NULL);
	abort();
}

static void divides(const char *argument)
{
	volatile int one = 1, zero = atoi(argument);

	dies(NULL);
	_exit(one / zero);
}

static void on_fault(int number)
{
	signal(number, SIG_DFL);
	raise(number);
}

static void raises_again(const char *argument)
{
	signal(SIGSEGV, on_fault);
	writes(argument);
}

/* In the argument's place for files: one that is truncated, one for which there is no room. */
static void reads_truncated(const char *argument)
{
	int fd = open(argument, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	volatile char *bytes;

	if (ftruncate(fd, 3 * 4096))
		_exit(1);
	bytes = mmap(NULL, 3 * 4096, PROT_READ, MAP_SHARED, fd, 0);
	if (ftruncate(fd, 4000))
		_exit(1);
	dies(bytes + 4096 + 8);
	_exit(bytes[4096 + 8]);
}

static void fills(const char *argument)
{
	int fd = open(argument, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	char *bytes;

	if (ftruncate(fd, 8 * MIB))
		_exit(1);
	bytes = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	dies(NULL);
	memset(bytes, 1, 8 * MIB);
}

static void touches(const char *argument)
{
	size_t size = strtoul(argument, NULL, 0) * MIB;
	char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(bytes, 1, size);
	munmap(bytes, size);
	dies(NULL);
	_exit(0);
}

static void takes_memory(const char *argument)
{
	(void)argument;
	dies(NULL);
	for (;;) {
		char *bytes =
			mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		memset(bytes, 1, MIB);
	}
}

static void waits(const char *argument)
{
	(void)argument;
	dies(NULL);
	for (;;)
		pause();
}

static void on_term(int number)
{
	_exit(128 + number);
}

static void waits_for_term(const char *argument)
{
	signal(SIGTERM, on_term);
	waits(argument);
}

static void times_out(const char *argument)
{
	alarm(1);
	waits(argument);
}

static void reaches_cpu_limit(const char *argument)
{
	setrlimit(RLIMIT_CPU, &(struct rlimit){1, 1});
	(void)argument;
	dies(NULL);
	for (;;)
		;
}

static const struct {
	const char *name;
	void (*go)(const char *argument);
} ways[] = {
	{"exit", exits},
	{"write", writes},
	{"constant", writes_constant},
	{"thread", dies_in_thread},
	{"overflow", overflows},
	{"abort", aborts},
	{"divide", divides},
	{"again", raises_again},
	{"truncated", reads_truncated},
	{"full", fills},
	{"touch", touches},
	{"oom", takes_memory},
	{"wait", waits},
	{"term", waits_for_term},
	{"alarm", times_out},
	{"cpu", reaches_cpu_limit},
};

int main(void)
{
	char line[4096];

	/* no core dumps: they take time */
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		char way[32] = "", argument[4000] = "";
		struct rusage usage;
		int status;
		pid_t pid;

		sscanf(line, "%31s %3999s", way, argument);
		pid = fork();
		for (size_t i = 0; !pid && i < sizeof(ways) / sizeof(ways[0]); i++)
			if (!strcmp(way, ways[i].name))
				ways[i].go(argument);
		if (!pid)
			_exit(99);
		wait4(pid, &status, 0, &usage);
		printf("%d %d %ld\n", pid, status, usage.ru_maxrss);
		fflush(stdout);
	}
	return 0;
}
