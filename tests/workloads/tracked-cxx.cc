/* SPDX-License-Identifier: BSD-2-Clause */
/* Annotated C++: names come from __PRETTY_FUNCTION__, and a thrown exception crosses annotated
 * functions. */
#include <perfx.h>

#include "known.h"

#include <stdexcept>

namespace net
{
struct layer {
	int width;

	explicit layer(int w) : width(w)
	{
		PERFX_TRACK();
	}
	int forward(int x) const
	{
		PERFX_TRACK();
		KEEP(x);
		return x * width;
	}
	int forward(double x) const
	{
		PERFX_TRACK();
		KEEP(x);
		return (int)x * width;
	}
};

template <class T> T scale(T x)
{
	PERFX_TRACK();
	KEEP(x);
	return x * 2;
}
} // namespace net

static int checked(int x)
{
	PERFX_TRACK();
	if (x % 10 == 9)
		throw std::out_of_range("x");
	return x;
}

static void scenario()
{
	for (int i = 0; i < 1000; i++) {
		net::layer layer(i);
		auto lambda = [](int x) {
			PERFX_TRACK();
			KEEP(x);
			return x;
		};

		layer.forward(i);
		layer.forward(0.5);
		net::scale(i);
		net::scale(0.5 * i);
		lambda(i);
		try {
			checked(i);
		} catch (const std::out_of_range &) {
		}
	}
}

int main()
{
	uint64_t runs = known_main(scenario);

	known_expect("net::layer::layer", "calls", runs * 1000);
	/* Two overloads, two rows, and two instances of the template. */
	known_expect("net::layer::forward", "calls", runs * 2000);
	known_expect("net::scale", "calls", runs * 2000);
	known_expect("checked", "calls", runs * 1000);
	known_expect("checked", "unwound", runs * 100);
	return 0;
}
