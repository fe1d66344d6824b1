/* SPDX-License-Identifier: BSD-2-Clause */
/* The same for names of C++. */
#define PLACE(name) __asm__ volatile(".globl " #name "\n" #name ": nop" : "+r"(x))
#define INLINE	    inline __attribute__((always_inline))

#line 10 "places.h"
namespace ns
{
template <class T> struct Box {
	INLINE int get(int x)
	{
		PLACE(in_member);
		return x + value;
	}
	INLINE Box(int x) : value(x)
	{
		PLACE(in_constructor);
	}
	T value;
};
} // namespace ns

#line 50 "places.h"
namespace
{
struct Hidden {
	INLINE int member(int x)
	{
		PLACE(in_hidden_member);
		return x;
	}
};
INLINE int anonymous(int x)
{
	PLACE(in_anonymous);
	return x;
}
} // namespace

#line 100 "places.cc"
namespace ns
{
struct Holder {
	int run(int x);
};
__attribute__((noinline)) int Holder::run(int x)
{
	Box<char> box(x);
	auto local = [&](int y) __attribute__((always_inline))
	{
		PLACE(in_lambda);
		return y + x;
	};
	Hidden h;

	x = box.get(x);
	x = local(x);
	return anonymous(x) + h.member(x);
}
} // namespace ns
