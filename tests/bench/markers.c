/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a marker costs: prints "NAME NANOSECONDS" for each, of one round of a loop that has nothing
 * else in it. The first is the empty loop. Beside them a USDT probe as <sys/sdt.h> leaves it, and
 * NVTX's range where its header was there.
 */
#include <perfx.h>
#include <stdio.h>
#include <time.h>

#if defined(NVTX)
#include <nvtx3/nvToolsExt.h>
#endif

enum { CALLS = 2000000 };

static double now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

#define MEASURE(name, ...)                                             \
	do {                                                           \
		double start = now_ns();                               \
		for (int i = 0; i < CALLS; i++) {                      \
			__asm__ __volatile__("" : : "r"(i));           \
			__VA_ARGS__;                                   \
		}                                                      \
		printf("%s %.3f\n", name, (now_ns() - start) / CALLS); \
	} while (0)

static void measure(void)
{
	MEASURE("loop", (void)0);
	MEASURE("usdt", __asm__ __volatile__("nop"));
	MEASURE("flops", perfx_flops((uint64_t)i));
	MEASURE("mark", perfx_mark("m"));
	MEASURE("counter", perfx_counter("c", i));
	MEASURE("scope", PERFX_SCOPE("s"));
	MEASURE("start-end", perfx_range_end(perfx_range_start("r")));
#if defined(NVTX)
	MEASURE("nvtx", nvtxRangePushA("n"); nvtxRangePop());
#endif
}

int main(void)
{
	measure();
	return 0;
}
