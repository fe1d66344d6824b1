// SPDX-License-Identifier: BSD-2-Clause
/*
 * Allocates beneath as many different functions as asked for, without frame pointers:
 *
 *	program → "ready PID"
 *	bench   → "run DEPTH MS"
 *	program → "done NS"   of the thread's CPU time for a malloc and free: median of windows
 *	bench closes the program's stdin
 */
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <unistd.h>
#include <utility>
#include <vector>

static constexpr int depth_max = 200, batch = 16;
static constexpr std::uint64_t window_ns = 2000000;

static std::uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static double allocate(std::uint64_t duration_ns)
{
	std::vector<double> windows;
	std::uint64_t end = clock_ns(CLOCK_MONOTONIC) + duration_ns;

	while (clock_ns(CLOCK_MONOTONIC) < end) {
		std::uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID), now = start, count = 0;

		for (; now - start < window_ns; now = clock_ns(CLOCK_THREAD_CPUTIME_ID)) {
			for (int i = 0; i < batch; i++) {
				void *volatile block = malloc(2000);

				free(block);
			}
			count += batch;
		}
		windows.push_back((now - start) / static_cast<double>(count));
	}
	std::nth_element(windows.begin(), windows.begin() + windows.size() / 2, windows.end());
	return windows[windows.size() / 2];
}

// Frames of several sizes, as in ordinary programs.
template <int depth> __attribute__((noinline)) double frame(std::uint64_t duration_ns)
{
	char room[16 + depth % 7 * 24];
	double ns;

	__asm__ volatile("" : : "r"(room) : "memory");
	if constexpr (depth == 0)
		ns = allocate(duration_ns);
	else
		ns = frame<depth - 1>(duration_ns);
	__asm__ volatile("" : : "r"(room) : "memory"); // not a tail call
	return ns;
}

template <std::size_t... depth> static constexpr auto frames_of(std::index_sequence<depth...>)
{
	return std::array<double (*)(std::uint64_t), sizeof...(depth)>{frame<depth>...};
}

int main()
{
	static constexpr auto frames = frames_of(std::make_index_sequence<depth_max + 1>());
	int depth;
	unsigned ms;

	printf("ready %d\n", getpid());
	fflush(stdout);
	while (scanf(" run %d %u", &depth, &ms) == 2 && depth >= 0 && depth <= depth_max && ms) {
		printf("done %.1f\n", frames[depth](ms * 1000000ull));
		fflush(stdout);
	}
	return 0;
}
