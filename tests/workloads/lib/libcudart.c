/* SPDX-License-Identifier: BSD-2-Clause */
/* The CUDA runtime where there is no GPU: asks the driver for everything, as the real one does. */
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
