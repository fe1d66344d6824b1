/* SPDX-License-Identifier: BSD-2-Clause */
/* As track.c, for C++: every kind of function that a mark can be in. */
#include "perfx.h"
#include <string>

struct mark_base {
	virtual ~mark_base()
	{
	}
};

/* The virtual base makes two constructors of one. */
struct mark_class : virtual mark_base {
	std::string text;

	mark_class() : text("x")
	{
		PERFX_TRACK();
		text += "y";
	}
	~mark_class()
	{
		PERFX_TRACK();
		text.clear();
	}
	int mark_method(int x) const
	{
		PERFX_TRACK();
		return x + (int)text.size();
	}
};

template <class T> T mark_template(T x)
{
	PERFX_TRACK();
	return x * 2;
}

template <class T> struct holder {
	T value;
	T mark_member()
	{
		PERFX_TRACK();
		return value + value;
	}
};

inline int mark_inline(int x)
{
	PERFX_TRACK();
	return x ^ 3;
}

namespace
{
int mark_hidden(int x) noexcept
{
	PERFX_TRACK();
	return x * 7;
}
} // namespace

static int mark_lambda(int x)
{
	auto twice = [x](int y) {
		PERFX_TRACK();
		return x + y;
	};
	return twice(1) + twice(x);
}

static int mark_throw(int x)
{
	PERFX_TRACK();
	std::string text(x, 'a');

	if (x > 3)
		throw text;
	return (int)text.size();
}

int main(int argc, char **)
{
	mark_class object;
	holder<long> held = {argc};
	int sum = object.mark_method(argc) + mark_template(argc) + (int)mark_template(0.5 * argc) +
		  (int)held.mark_member() + mark_inline(argc) + mark_hidden(argc) +
		  mark_lambda(argc);

	try {
		sum += mark_throw(argc + 4);
	} catch (std::string &text) {
		sum += (int)text.size();
	}
	return sum;
}
