// SPDX-License-Identifier: BSD-2-Clause
/* growth MODE: as growth.py, in C++. */
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

struct point {
	double x[8];
};

static std::vector<point> points;
static std::map<int, std::string> names;
static std::deque<std::string> window;

/* Without end. */
static void vector_that_grows(int)
{
	for (int i = 0; i < 30; i++)
		points.push_back({{1, 2, 3, 4, 5, 6, 7, 8}});
}

static void map_that_grows(int n)
{
	for (int i = 0; i < 20; i++)
		names[n * 20 + i] = std::string(40, 'x');
}

static void forgets_to_delete(int)
{
	static char *volatile last;

	last = new char[1500];
	memset(last, 1, 1500);
}

/* Healthy. */
static void vector_that_is_cleared(int n)
{
	for (int i = 0; i < 300; i++)
		points.push_back({{1, 2, 3, 4, 5, 6, 7, 8}});
	if (n % 100 == 99)
		points.clear();
}

static void window_of_strings(int)
{
	window.push_back(std::string(10000, 'z'));
	if (window.size() > 300)
		window.pop_front();
}

static const struct {
	const char *name;
	void (*step)(int);
} modes[] = {{"vector_that_grows", vector_that_grows},
	     {"map_that_grows", map_that_grows},
	     {"forgets_to_delete", forgets_to_delete},
	     {"vector_that_is_cleared", vector_that_is_cleared},
	     {"window_of_strings", window_of_strings}};

int main(int, char **argv)
{
	for (const auto &mode : modes) {
		if (strcmp(mode.name, argv[1]))
			continue;
		printf("ready %d\n", getpid());
		fflush(stdout);
		getchar();
		for (int n = 0;; n++) {
			mode.step(n);
			std::this_thread::sleep_for(std::chrono::milliseconds(5));
		}
	}
	return 2;
}
