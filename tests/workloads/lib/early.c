/* SPDX-License-Identifier: BSD-2-Clause */
/* A library that works in its constructor (early.c). */
__attribute__((noipa)) int early_library_work(int x)
{
	__asm__ __volatile__("" : "+r"(x) : : "memory");
	return x + 1;
}

__attribute__((constructor)) static void at_load(void)
{
	for (int i = 0; i < 20; i++)
		early_library_work(i);
}
