/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names with several meanings: overloads (separate functions, told apart by their offset), several
 * names of one function (counted once), an IFUNC (a resolver, not the function).
 */
#include "known.h"

namespace shapes
{
TRACED int area(int x)
{
	KEEP(x);
	return x + 1;
}

TRACED int area(long x, long y)
{
	KEEP(x);
	return (int)(x * y);
}

TRACED int area(const char *name)
{
	KEEP(name);
	return name != nullptr;
}
} // namespace shapes

extern "C" {
TRACED int one_function(int x)
{
	KEEP(x);
	return x + 1;
}
int another_name(int x) noexcept __attribute__((alias("one_function")));
int __internal_name(int x) noexcept __attribute__((alias("one_function")));

TRACED int picked(int x)
{
	KEEP(x);
	return x + 2;
}
int (*pick(void))(int)
{
	return picked;
}
int chosen(int x) __attribute__((ifunc("pick")));
}

static void scenario()
{
	for (int i = 0; i < 100; i++)
		shapes::area(i);
	for (int i = 0; i < 200; i++)
		shapes::area(i, 2);
	for (int i = 0; i < 300; i++)
		shapes::area("round");
	for (int i = 0; i < 50; i++) {
		one_function(i);
		another_name(i);
		__internal_name(i);
		chosen(i);
	}
	for (int i = 0; i < 25; i++) {
		void *block = malloc(100);

		KEEP(block);
		free(block);
	}
}

int main()
{
	uint64_t runs = known_main(scenario);

	known_expect("area", "calls", runs * 600);
	known_expect("another_name", "calls", runs * 150);
	known_expect("picked", "calls", runs * 50);
	return 0;
}
