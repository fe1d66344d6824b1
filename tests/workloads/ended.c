// SPDX-License-Identifier: BSD-2-Clause
/*
 * Facts about things that end while they are traced: a thread that computes for 200 ms, a child of
 * a few milliseconds with 48 MiB, 96 MiB that are freed before the end. Prints the usage of each by
 * its own account, as JSON.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void touch(size_t mib, int keep)
{
	char *block =
		mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED)
		exit(1);
	memset(block, 1, mib << 20);
	if (!keep)
		munmap(block, mib << 20);
}

static long peak_kib(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[128];
	long kib = 0;

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "VmHWM: %ld", &kib);
	if (file)
		fclose(file);
	return kib;
}

static void *work(void *cpu)
{
	volatile unsigned long sum = 0;

	pthread_setname_np(pthread_self(), "brief-worker");
	while (cpu_s() < 0.2)
		for (int i = 0; i < 10000; i++)
			sum += (unsigned long)i;
	*(double *)cpu = cpu_s();
	return NULL;
}

static long child_peak_kib(void)
{
	int fds[2];
	long kib = 0;

	if (pipe(fds))
		exit(1);
	if (fork() == 0) {
		touch(48, 1);
		kib = peak_kib();
		_exit(write(fds[1], &kib, sizeof(kib)) != sizeof(kib));
	}
	if (read(fds[0], &kib, sizeof(kib)) != sizeof(kib))
		exit(1);
	wait(NULL);
	return kib;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 0, thread_s = 0;
	pthread_t thread;
	long child_kib = child_peak_kib();

	pthread_create(&thread, NULL, work, &thread_s);
	pthread_join(thread, NULL);
	touch(96, 0);
	touch(32, 1);
	printf("{\"thread_s\": %.6f, \"child_kib\": %ld, \"peak_kib\": %ld, \"cpu_s\": %.6f}\n",
	       thread_s, child_kib, peak_kib(), (double)clock() / CLOCKS_PER_SEC);
	fflush(stdout);
	for (double end = cpu_s() + seconds; cpu_s() < end;)
		;
	return 0;
}
