/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions by which PyTorch reports that a tensor's memory has been allocated and freed
 * (c10/core/CPUAllocator.h), empty. They begin with a push, like the real ones. */
#include <stddef.h>

__attribute__((noipa)) void _ZN3c1025ProfiledCPUMemoryReporter3NewEPvm(void *reporter, void *block,
								       size_t size_bytes)
{
	__asm__ __volatile__("push %%rbp\n\tpop %%rbp"
			     :
			     : "r"(reporter), "r"(block), "r"(size_bytes));
}

__attribute__((noipa)) void _ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv(void *reporter,
									 void *block)
{
	__asm__ __volatile__("push %%rbp\n\tpop %%rbp" : : "r"(reporter), "r"(block));
}
