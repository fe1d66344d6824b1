/* SPDX-License-Identifier: BSD-2-Clause */
/* The CUDA runtime without a GPU: calls the driver for everything, like the real one. */
#include <stddef.h>

int cuMemAlloc_v2(unsigned long long *device, size_t bytes);
int cuMemFree_v2(unsigned long long device);

__attribute__((noipa)) int cudaMalloc(void **pointer, size_t bytes)
{
	return cuMemAlloc_v2((unsigned long long *)pointer, bytes);
}

__attribute__((noipa)) int cudaMallocAsync(void **pointer, size_t bytes, void *stream)
{
	(void)stream;
	return cuMemAlloc_v2((unsigned long long *)pointer, bytes);
}

__attribute__((noipa)) int cudaMallocPitch(void **pointer, size_t *pitch, size_t width,
					   size_t height)
{
	*pitch = (width + 511) & -512ull;
	return cuMemAlloc_v2((unsigned long long *)pointer, *pitch * height);
}

__attribute__((noipa)) int cudaFree(void *pointer)
{
	return pointer ? cuMemFree_v2((unsigned long long)pointer) : 0;
}

__attribute__((noipa)) int cudaFreeAsync(void *pointer, void *stream)
{
	(void)stream;
	return cuMemFree_v2((unsigned long long)pointer);
}

/* It calls the driver and continues, like the real one. */
#pragma GCC optimize("no-optimize-sibling-calls")

/* Three sizes, passed in two registers. */
struct dim3 {
	unsigned x, y, z;
};

struct config {
	struct dim3 grid, block;
	size_t shared_bytes;
	void *stream, *attributes;
	unsigned attributes_count;
};

#define CALL	     __attribute__((noipa)) int
#define DEVICE	     unsigned long long
#define DRIVER_SHAPE unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz

#pragma GCC diagnostic ignored "-Wunused-parameter"

int cuLaunchKernel(const void *f, DRIVER_SHAPE, unsigned shared, void *stream, void **args,
		   void **extra);
int cuLaunchKernelEx(const void *config, const void *f, void **args, void **extra);
int cuGraphLaunch(void *graph, void *stream);
int cuMemcpyHtoD_v2(DEVICE to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, DEVICE from, size_t bytes);
int cuMemcpyDtoD_v2(DEVICE to, DEVICE from, size_t bytes);
int cuMemcpyHtoDAsync_v2(DEVICE to, const void *from, size_t bytes, void *stream);
int cuMemcpy2D_v2(const void *copy);
int cuMemsetD8_v2(DEVICE to, unsigned char value, size_t n);
int cuCtxSynchronize(void);
int cuStreamSynchronize(void *stream);
int cuEventSynchronize(void *event);

CALL cudaLaunchKernel(const void *f, struct dim3 grid, struct dim3 block, void **args,
		      size_t shared, void *stream)
{
	return cuLaunchKernel(f, grid.x, grid.y, grid.z, block.x, block.y, block.z,
			      (unsigned)shared, stream, args, NULL);
}

/* As in CUDA 13.0: one jump. */
__asm__(".globl __cudaLaunchKernel\n"
	".type __cudaLaunchKernel, @function\n"
	"__cudaLaunchKernel:\n"
	"push %rbp\n"
	"mov %rsp, %rbp\n"
	"pop %rbp\n"
	"jmp cudaLaunchKernel@PLT\n"
	".size __cudaLaunchKernel, . - __cudaLaunchKernel\n");

CALL __cudaGetKernel(void **kernel, const void *stub)
{
	*kernel = (char *)stub - 1; /* a handle outside all code */
	return 0;
}

CALL cudaLaunchCooperativeKernel(const void *f, struct dim3 grid, struct dim3 block, void **args,
				 size_t shared, void *stream)
{
	return cuLaunchKernel(f, grid.x, grid.y, grid.z, block.x, block.y, block.z,
			      (unsigned)shared, stream, args, NULL);
}

CALL cudaLaunchKernelExC(const struct config *config, const void *f, void **args)
{
	return cuLaunchKernelEx(config, f, args, NULL);
}

CALL cudaGraphLaunch(void *graph, void *stream)
{
	return cuGraphLaunch(graph, stream);
}

CALL cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
	if (kind == 1)
		return cuMemcpyHtoD_v2((DEVICE)to, from, bytes);
	if (kind == 2)
		return cuMemcpyDtoH_v2(to, (DEVICE)from, bytes);
	return cuMemcpyDtoD_v2((DEVICE)to, (DEVICE)from, bytes);
}

CALL cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream)
{
	return cuMemcpyHtoDAsync_v2((DEVICE)to, from, bytes, stream);
}

CALL cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
		  size_t height, int kind)
{
	return cuMemcpy2D_v2(from);
}

CALL cudaMemcpy3D(const void *parameters)
{
	return 0;
}

CALL cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
	return 0;
}

CALL cudaMemset(void *to, int value, size_t bytes)
{
	return cuMemsetD8_v2((DEVICE)to, (unsigned char)value, bytes);
}

struct pitched {
	void *at;
	size_t pitch, width, height;
};

struct extent {
	size_t width, height, depth;
};

CALL cudaMemset3D(struct pitched to, int value, struct extent size)
{
	return 0;
}

CALL cudaDeviceSynchronize(void)
{
	return cuCtxSynchronize();
}

CALL cudaStreamSynchronize(void *stream)
{
	return cuStreamSynchronize(stream);
}

CALL cudaEventSynchronize(void *event)
{
	return cuEventSynchronize(event);
}
