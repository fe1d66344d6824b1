/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cost of a marker: prints "NAME NANOSECONDS" for each, of one round of a loop that contains only
 * the marker. The first is the empty loop. Beside them a USDT probe of <sys/sdt.h>, and NVTX's
 * range if its header was found. `markers wait` first prints its pid and waits for a line, so that
 * a tracer can attach.
 */
#include <perfx.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#if defined(NVTX)
#include <nvtx3/nvToolsExt.h>
#endif

static int calls = 2000000;

/* A probe of provider "bench" as by <sys/sdt.h> (SystemTap): it begins with a nop. */
#define USDT(probe)                                                          \
	"990: nop\n"                                                         \
	".pushsection .note.stapsdt,\"\",%note\n"                            \
	".balign 4\n .4byte 992f-991f, 994f-993f, 3\n"                       \
	"991: .asciz \"stapsdt\"\n 992: .balign 4\n"                         \
	"993: .8byte 990b, 0, 0\n .asciz \"bench\"\n .asciz \"" probe "\"\n" \
	" .asciz \"\"\n 994: .balign 4\n .popsection\n"

static double now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

#define MEASURE(name, ...)                                             \
	do {                                                           \
		double start = now_ns();                               \
		for (int i = 0; i < calls; i++) {                      \
			__asm__ __volatile__("" : : "r"(i));           \
			__VA_ARGS__;                                   \
		}                                                      \
		printf("%s %.3f\n", name, (now_ns() - start) / calls); \
	} while (0)

static void measure(void)
{
	MEASURE("loop", (void)0);
	MEASURE("usdt", __asm__ __volatile__(USDT("plain")));
	MEASURE("flops", perfx_flops((uint64_t)i));
	MEASURE("mark", perfx_mark("m"));
	MEASURE("counter", perfx_counter("c", i));
	MEASURE("scope", PERFX_SCOPE("s"));
	MEASURE("start-end", perfx_range_end(perfx_range_start("r")));
#if defined(NVTX)
	MEASURE("nvtx", nvtxRangePushA("n"); nvtxRangePop());
#endif
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1) {
		calls = 100000; /* each takes a trap */
		printf("ready %d\n", (int)getpid());
		fflush(stdout);
		if (getchar() == EOF)
			return 1;
	}
	measure();
	return 0;
}
