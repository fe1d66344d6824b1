/* SPDX-License-Identifier: BSD-2-Clause */
/* Recursion far deeper than the kernel nests return probes (64), direct and mutual. */
#include "known.h"

TRACED int deep(int n)
{
	int rest = n ? deep(n - 1) : 0;

	KEEP(rest);
	return rest + 1;
}

TRACED int odd(int n);

TRACED int even(int n)
{
	int rest = n ? odd(n - 1) : 0;

	KEEP(rest);
	return rest + 1;
}

TRACED int odd(int n)
{
	int rest = n ? even(n - 1) : 0;

	KEEP(rest);
	return rest + 1;
}

/* A tree of calls: repeatedly deep from half-way, as in a parser or an autograd engine. */
TRACED int tree(int n)
{
	int sum = n ? tree(n - 1) + tree(n - 1) : 0;

	KEEP(sum);
	return sum + 1;
}

static void scenario(void)
{
	for (int i = 0; i < 10; i++) {
		known_require(deep(999) == 1000, "deep");
		known_require(even(199) == 200, "even, odd");
	}
	known_require(deep(59) == 60, "deep");
	known_require(tree(9) == 1023, "tree");
}

int main(void)
{
	uint64_t runs = known_main(scenario);

	known_expect("deep", "calls", runs * 10060);
	known_expect("deep", "depth", 1000);
	known_expect("even", "calls", runs * 1000);
	known_expect("odd", "calls", runs * 1000);
	known_expect("tree", "calls", runs * 1023);
	known_expect("tree", "depth", 10);
	return 0;
}
