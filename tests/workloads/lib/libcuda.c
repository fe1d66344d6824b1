/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CUDA driver without a GPU: addresses that are never dereferenced, below 1 GiB in all; work
 * that is done at once; waits that last as many milliseconds as the stream or event says; handles
 * of kernels that are the addresses of their names.
 */
#include <stddef.h>
#include <string.h>
#include <time.h>

#define BASE  0x700000000000ull
#define LIMIT (1ull << 30)

#define OUT_OF_MEMORY 2

static unsigned long long next = BASE;

__attribute__((noipa)) int cuMemAlloc_v2(unsigned long long *device, size_t bytes)
{
	if (bytes > LIMIT)
		return OUT_OF_MEMORY;
	*device = next;
	next += (bytes + 255) & -256ull;
	return 0;
}

__attribute__((noipa)) int cuMemFree_v2(unsigned long long device)
{
	(void)device;
	return 0;
}

#define CALL   __attribute__((noipa)) int
#define DEVICE unsigned long long
#define SHAPE  unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz
#define UNUSED __attribute__((unused))

static int wait_ms(const void *length)
{
	long ms = (long)length;
	struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	while (ms && nanosleep(&time, &time))
		;
	return 0;
}

#pragma GCC diagnostic ignored "-Wunused-parameter"

CALL cuLaunchKernel(void *f, SHAPE, unsigned shared, void *stream, void **args, void **extra)
{
	return !f;
}

CALL cuLaunchKernel_ptsz(void *f, SHAPE, unsigned shared, void *stream, void **args, void **extra)
{
	return !f;
}

CALL cuLaunchCooperativeKernel(void *f, SHAPE, unsigned shared, void *stream, void **args)
{
	return !f;
}

CALL cuLaunchKernelEx(const void *config, void *f, void **args, void **extra)
{
	return !f;
}

CALL cuGraphLaunch(void *graph, void *stream)
{
	return !graph;
}

CALL cuMemcpyHtoD_v2(DEVICE to, const void *from, size_t bytes)
{
	return wait_ms((void *)(from ? 0l : 5l));
}

CALL cuMemcpyDtoH_v2(void *to, DEVICE from, size_t bytes)
{
	return 0;
}

CALL cuMemcpyDtoD_v2(DEVICE to, DEVICE from, size_t bytes)
{
	return 0;
}

CALL cuMemcpyHtoDAsync_v2(DEVICE to, const void *from, size_t bytes, void *stream)
{
	return 0;
}

CALL cuMemcpyDtoHAsync_v2_ptsz(void *to, DEVICE from, size_t bytes, void *stream)
{
	return 0;
}

CALL cuMemcpyPeer(DEVICE to, void *to_context, DEVICE from, void *from_context, size_t bytes)
{
	return 0;
}

CALL cuMemcpyAsync(DEVICE to, DEVICE from, size_t bytes, void *stream)
{
	return 0;
}

CALL cuMemcpy2D_v2(const void *copy)
{
	return 0;
}

CALL cuMemcpy3DAsync_v2(const void *copy, void *stream)
{
	return 0;
}

CALL cuMemsetD8_v2(DEVICE to, unsigned char value, size_t n)
{
	return 0;
}

CALL cuMemsetD32Async(DEVICE to, unsigned value, size_t n, void *stream)
{
	return 0;
}

CALL cuMemsetD2D16_v2(DEVICE to, size_t pitch, unsigned short value, size_t width, size_t height)
{
	return 0;
}

CALL cuCtxSynchronize(void)
{
	return wait_ms((void *)10l);
}

CALL cuStreamSynchronize(void *stream)
{
	return wait_ms(stream);
}

CALL cuEventSynchronize(void *event)
{
	return wait_ms(event);
}

CALL cuModuleGetFunction(void **f, void *module, const char *name)
{
	if (!*name)
		return 500; /* not found */
	*f = strdup(name);
	return 0;
}

CALL cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
	*kernel = strdup(name);
	return 0;
}

CALL cuKernelGetFunction(void **f, void *kernel)
{
	*f = strdup(kernel);
	return 0;
}

CALL cuFuncGetName(const char **name, void *f)
{
	*name = f;
	return 0;
}
