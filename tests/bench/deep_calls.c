/* SPDX-License-Identifier: BSD-2-Clause */
/* malloc at the end of a chain of N calls without frame pointers: deep_calls N. Linked statically,
 * so that a probe of malloc is one of this program alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP(value) __asm__ __volatile__("" : : "r"(value) : "memory")

static void __attribute__((noipa)) leaf(void)
{
	void *block = malloc(100);

	KEEP(block);
	free(block);
}

static void __attribute__((noipa)) deeper(int depth)
{
	char frame[64];

	memset(frame, depth, sizeof(frame));
	KEEP(frame);
	if (depth > 1)
		deeper(depth - 1);
	else
		leaf();
	KEEP(frame);
}

int main(int argc, char **argv)
{
	int depth = argc > 1 ? atoi(argv[1]) : 1;

	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (;;) {
		for (int i = 0; i < 200; i++)
			deeper(depth);
		usleep(1000);
	}
}
