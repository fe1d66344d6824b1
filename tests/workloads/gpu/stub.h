/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A CUDA driver and a CUPTI for machines without a GPU, for the agent's tests: what they "record"
 * is what the program puts into them. How they behave is in the environment, read at each call:
 *
 *	STUB_DRIVER=13000         cuDriverGetVersion
 *	STUB_NO_DEVICE=1          cuDeviceGetCount gives 100 after cuInit
 *	STUB_DEVICES=10           the GPUs that are visible, a digit each; 0 alone without it
 *	STUB_CUPTI_VERSION=130001 cuptiGetVersion
 *	STUB_CUPTI_CRASH=1        each function dies of SIGSEGV before cuInit, as 13.2.86 does
 *	STUB_CUPTI_FAIL=NAME:39   this function gives this error
 *	STUB_CUPTI_OTHER=NAME     somebody subscribed before
 */
#ifndef TESTS_WORKLOADS_GPU_STUB_H
#define TESTS_WORKLOADS_GPU_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);
int cuDriverGetVersion(int *version);
int cuDeviceGet(int *device, int ordinal);
/* Of GPU 1: 01010101-… */
int cuDeviceGetUuid_v2(unsigned char uuid[16], int device);

/* Is this kind of records enabled? Of calls, this call. */
bool stub_enabled(uint32_t kind);
bool stub_call_enabled(int domain, uint32_t call);
/* Has anything been enabled before the clock was set, or called before cuInit? */
bool stub_was_misused(void);
bool stub_was_finalised(void);
int stub_subscribers(void);
int stub_flushes(void);
/* The next record of the buffer that CUPTI fills; without a buffer it is lost and counted. The
 * caller knows its size, and whether it is enabled. */
void stub_put(const void *record, size_t bytes);
/* Completes the filled buffers, as after a flush. */
void stub_complete(void);
/* An unknown buffer, and one that was completed before. */
void stub_complete_unknown(void);
/* CUPTI requests a buffer and keeps it. False: it got none. */
bool stub_hold_buffer(void);
/* The program's own profiler: cuptiSubscribe, and its own callbacks. */
int stub_profiler_begins(void);

struct stub_record {
	_Alignas(8) unsigned char bytes[256];
};

#define STUB_SET(record, offset, type, value)                                        \
	do {                                                                         \
		type stub_value = (type)(value);                                     \
		memcpy((record)->bytes + (offset), &stub_value, sizeof(stub_value)); \
	} while (0)

struct stub_kernel {
	const char *name;
	uint64_t start_ns, end_ns;
	uint32_t device, stream, call, graph;
	uint32_t grid[3], block[3], static_shared, dynamic_shared;
	uint16_t registers;
};

/* Bytes of CUpti_ActivityKernel4 (of CUDA 9 to 10.2) to 10, and an invented 14. */
static const struct stub_kernel_form {
	uint32_t version; /* of CUPTI */
	size_t bytes;
} stub_kernel_forms[] = {{12, 144}, {13, 160}, {15, 168},     {17, 176},    {18, 200},
			 {19, 208}, {27, 216}, {130001, 216}, {130500, 248}};
#define STUB_KERNEL_FORMS (sizeof(stub_kernel_forms) / sizeof(stub_kernel_forms[0]))

static inline size_t stub_kernel_bytes(uint32_t version)
{
	size_t bytes = 0;

	for (size_t i = 0; i < STUB_KERNEL_FORMS; i++)
		if (stub_kernel_forms[i].version <= version)
			bytes = stub_kernel_forms[i].bytes;
	return bytes;
}

static inline void stub_put_kernel(const struct stub_kernel *kernel, uint32_t version)
{
	struct stub_record record;
	size_t bytes = stub_kernel_bytes(version);

	/* fields of later versions are not 0 in a record that has them, so that misreading shows */
	memset(&record, 0xee, sizeof(record));
	STUB_SET(&record, 0, uint32_t, 10);
	STUB_SET(&record, 6, uint16_t, kernel->registers);
	STUB_SET(&record, 16, uint64_t, kernel->start_ns);
	STUB_SET(&record, 24, uint64_t, kernel->end_ns);
	STUB_SET(&record, 40, uint32_t, kernel->device);
	STUB_SET(&record, 44, uint32_t, 1);
	STUB_SET(&record, 48, uint32_t, kernel->stream);
	for (size_t i = 0; i < 3; i++) {
		STUB_SET(&record, 52 + 4 * i, uint32_t, kernel->grid[i]);
		STUB_SET(&record, 64 + 4 * i, uint32_t, kernel->block[i]);
	}
	STUB_SET(&record, 76, uint32_t, kernel->static_shared);
	STUB_SET(&record, 80, uint32_t, kernel->dynamic_shared);
	STUB_SET(&record, 92, uint32_t, kernel->call);
	STUB_SET(&record, 104, const char *, kernel->name);
	if (version >= 13)
		STUB_SET(&record, 144, uint64_t, 0);
	if (version >= 17)
		STUB_SET(&record, 156, uint32_t, kernel->graph);
	stub_put(&record, bytes);
}

struct stub_copy {
	uint8_t kind, from, to; /* CUpti_ActivityMemcpyKind, CUpti_ActivityMemoryKind */
	uint64_t bytes, start_ns, end_ns;
	uint32_t device, stream, call, graph;
};

static inline void stub_put_copy(const struct stub_copy *copy, uint32_t version)
{
	struct stub_record record;

	memset(&record, 0xee, sizeof(record));
	STUB_SET(&record, 0, uint32_t, copy->kind == 10 ? 22 : 1);
	STUB_SET(&record, 4, uint8_t, copy->kind);
	STUB_SET(&record, 5, uint8_t, copy->from);
	STUB_SET(&record, 6, uint8_t, copy->to);
	STUB_SET(&record, 8, uint64_t, copy->bytes);
	STUB_SET(&record, 16, uint64_t, copy->start_ns);
	STUB_SET(&record, 24, uint64_t, copy->end_ns);
	STUB_SET(&record, 32, uint32_t, copy->device);
	STUB_SET(&record, 40, uint32_t, copy->stream);
	STUB_SET(&record, copy->kind == 10 ? 60 : 44, uint32_t, copy->call);
	STUB_SET(&record, copy->kind == 10 ? 80 : 72, uint32_t, copy->graph);
	stub_put(&record, version >= 17 ? 96 : 72);
}

static inline void stub_put_memset(uint64_t bytes, uint64_t start_ns, uint64_t end_ns,
				   uint32_t stream, uint32_t call)
{
	struct stub_record record = {0};

	STUB_SET(&record, 0, uint32_t, 2);
	STUB_SET(&record, 8, uint64_t, bytes);
	STUB_SET(&record, 16, uint64_t, start_ns);
	STUB_SET(&record, 24, uint64_t, end_ns);
	STUB_SET(&record, 40, uint32_t, stream);
	STUB_SET(&record, 44, uint32_t, call);
	stub_put(&record, 88);
}

static inline void stub_put_sync(uint64_t start_ns, uint64_t end_ns, uint32_t stream, uint32_t call)
{
	struct stub_record record = {0};

	STUB_SET(&record, 0, uint32_t, 38);
	STUB_SET(&record, 4, uint32_t, 3);
	STUB_SET(&record, 8, uint64_t, start_ns);
	STUB_SET(&record, 16, uint64_t, end_ns);
	STUB_SET(&record, 24, uint32_t, call);
	STUB_SET(&record, 32, uint32_t, stream);
	stub_put(&record, 56);
}

static inline void stub_put_graph(uint64_t start_ns, uint64_t end_ns, uint32_t graph,
				  uint32_t stream, uint32_t call)
{
	struct stub_record record = {0};

	STUB_SET(&record, 0, uint32_t, 51);
	STUB_SET(&record, 4, uint32_t, call);
	STUB_SET(&record, 8, uint64_t, start_ns);
	STUB_SET(&record, 16, uint64_t, end_ns);
	STUB_SET(&record, 28, uint32_t, graph);
	STUB_SET(&record, 36, uint32_t, stream);
	stub_put(&record, 56);
}

/* domain: 1 driver, 2 runtime */
static inline void stub_put_call(int domain, uint32_t number, uint64_t start_ns, uint64_t end_ns,
				 uint32_t tid, uint32_t call)
{
	struct stub_record record = {0};

	STUB_SET(&record, 0, uint32_t, domain == 1 ? 4 : 5);
	STUB_SET(&record, 4, uint32_t, number);
	STUB_SET(&record, 8, uint64_t, start_ns);
	STUB_SET(&record, 16, uint64_t, end_ns);
	STUB_SET(&record, 28, uint32_t, tid);
	STUB_SET(&record, 32, uint32_t, call);
	stub_put(&record, 40);
}

/* Numbers of calls that the stub names, which are CUPTI's. */
enum {
	STUB_cuLaunchKernel = 307,  /* driver */
	STUB_cuCtxGetCurrent = 304, /* driver; of no interest */
	STUB_cudaMemcpyAsync = 41,  /* runtime, as the others */
	STUB_cudaMemsetAsync = 51,
	STUB_cudaStreamSynchronize = 131,
	STUB_cudaLaunchKernel = 211,
	STUB_cudaGraphLaunch = 311,
};

#endif
