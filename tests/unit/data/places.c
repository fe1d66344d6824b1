/* SPDX-License-Identifier: BSD-2-Clause */
/* Compiled by test_symbolize.c and test_frames.c. Each place that they ask for is an instruction
 * with a symbol; what stands there is said by #line. */
#define PLACE(name) __asm__ volatile(".globl " #name "\n" #name ": nop" : "+r"(x))
#define INLINE	    static inline __attribute__((always_inline))

#ifdef DROPPED /* by the linker: nobody needs it */
__attribute__((visibility("hidden"))) void dropped(void)
{
	__asm__ volatile(".fill 0x8000, 1, 0x90");
}
#endif

#line 10 "inner.h"
INLINE int inner(int x)
{
	PLACE(in_inner);
	return x * 3;
}

#line 100 "middle.h"
INLINE int middle(int x)
{
	x = inner(x);
	PLACE(in_middle);
	return x;
}

#line 200 "outer.c"
__attribute__((noinline)) int outer(int x)
{
	x = middle(x) + 1;
	PLACE(in_outer);
	return x;
}

static __attribute__((noinline)) int hidden(int x)
{
	PLACE(in_hidden);
	return x;
}

int uses_hidden(int x)
{
	return hidden(x) + 1;
}

__attribute__((noinline)) int Exported(int x)
{
	PLACE(in_exported);
	return x;
}
extern __typeof(Exported) __Exported __attribute__((alias("Exported")));

#ifdef NESTED
INLINE int in_nested_function(int x)
{
	PLACE(in_nested);
	return x;
}

__attribute__((noipa)) int around(int x)
{
	__attribute__((noipa)) int nested(int y)
	{
		return in_nested_function(x + y);
	}
	return nested(x) + 1;
}
#endif
