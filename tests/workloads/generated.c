/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Code that the program makes itself, as a JIT compiler does, with its names in /tmp/perf-PID.map.
 *
 *	cpu_ns          of generated_spin, half a second with each "go", by the thread's own clock
 */
#include "known.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

static volatile int ends;
static uint64_t cpu_ns;

static void end_it(int signal)
{
	(void)signal;
	ends = 1;
}

/* Returns when its argument is not 0 any more. */
static const unsigned char spin_code[] = {
#if defined(__x86_64__)
	0x8b, 0x07, /* 1: mov (%rdi), %eax */
	0x85, 0xc0, /* test %eax, %eax */
	0x74, 0xfa, /* je 1b */
	0xc3,	    /* ret */
#elif defined(__aarch64__)
	0x01, 0x00, 0x40, 0xb9, /* 1: ldr w1, [x0] */
	0xe1, 0xff, 0xff, 0x34, /* cbz w1, 1b */
	0xc0, 0x03, 0x5f, 0xd6, /* ret */
#endif
};

static void (*generate(void))(volatile int *)
{
	char path[64];
	FILE *map;
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	known_require(code != MAP_FAILED, "mmap");
	memcpy(code, spin_code, sizeof(spin_code));
	__builtin___clear_cache((char *)code, (char *)code + sizeof(spin_code));
	known_require(!mprotect(code, 4096, PROT_READ | PROT_EXEC), "mprotect");
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	map = fopen(path, "w");
	known_require(map, path);
	fprintf(map, "%lx %zx generated_spin\n", (unsigned long)code, sizeof(spin_code));
	fclose(map);
	return (void (*)(volatile int *))code;
}

int main(void)
{
	const struct itimerval half_a_second = {.it_value.tv_usec = 500000};
	void (*spin)(volatile int *) = generate();
	char path[64];

	signal(SIGPROF, end_it);
	known_ready();
	while (known_go()) {
		uint64_t begin_ns = known_clock_ns(CLOCK_THREAD_CPUTIME_ID);

		ends = 0;
		setitimer(ITIMER_PROF, &half_a_second, NULL);
		spin(&ends);
		cpu_ns += known_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
		known_say("done");
	}
	known_expect("generated_spin", "cpu_ns", cpu_ns);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	unlink(path);
	return 0;
}
