/* SPDX-License-Identifier: BSD-2-Clause */
/* NVTX by its real names, without a tool: ranges that any thread may end have ids. */
#include <stdatomic.h>
#include <stdint.h>

#define EMPTY __attribute__((noipa))

static _Atomic uint64_t ids;

EMPTY int nvtxRangePushA(const char *text)
{
	(void)text;
	return -1;
}

EMPTY int nvtxRangePushEx(const void *attributes)
{
	(void)attributes;
	return -1;
}

EMPTY int nvtxRangePop(void)
{
	return -1;
}

EMPTY uint64_t nvtxRangeStartA(const char *text)
{
	(void)text;
	return atomic_fetch_add(&ids, 1) + 1;
}

EMPTY void nvtxRangeEnd(uint64_t id)
{
	__asm__ __volatile__("" : : "r"(id));
}

EMPTY void nvtxMarkA(const char *text)
{
	__asm__ __volatile__("" : : "r"(text));
}
