/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GPU memory by the CUDA runtime and by the driver (stubs, lib/). The runtime calls the driver:
 * that is one allocation. The requested size counts, so a pitched allocation counts without its
 * padding.
 */
#include "memory.h"

int cudaMalloc(void **pointer, size_t bytes);
int cudaMallocAsync(void **pointer, size_t bytes, void *stream);
int cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height);
int cudaFree(void *pointer);
int cudaFreeAsync(void *pointer, void *stream);
int cuMemAlloc_v2(unsigned long long *device, size_t bytes);
int cuMemFree_v2(unsigned long long device);

TRACED void weights_stay(void)
{
	void *weights;

	for (int i = 0; i < 3; i++)
		if (!cudaMalloc(&weights, 1 << 20))
			memory_took(weights, 1 << 20);
}

TRACED void workspace_goes(void)
{
	void *space;

	for (int i = 0; i < 100; i++) {
		known_require(!cudaMallocAsync(&space, 5000, NULL), "cudaMallocAsync");
		memory_took(space, 5000);
		memory_gave(space, 5000);
		cudaFreeAsync(space, NULL);
	}
}

TRACED void image_goes(void)
{
	void *image;
	size_t pitch;

	known_require(!cudaMallocPitch(&image, &pitch, 1000, 20), "cudaMallocPitch");
	memory_took(image, 20000);
	memory_gave(image, 20000);
	cudaFree(image);
}

TRACED void driver_alone(void)
{
	unsigned long long device;

	known_require(!cuMemAlloc_v2(&device, 4096), "cuMemAlloc");
	memory_took((void *)device, 4096);
	memory_gave((void *)device, 4096);
	cuMemFree_v2(device);
}

TRACED void too_much(void)
{
	void *none = NULL;

	known_require(cudaMalloc(&none, (size_t)1 << 40), "there is no terabyte");
	cudaFree(NULL);
}

static void scenario(void)
{
	weights_stay();
	workspace_goes();
	image_goes();
	driver_alone();
	too_much();
}

int main(void)
{
	uint64_t runs = known_main(scenario);

	known_expect("gpu", "allocs", memory.allocs);
	known_expect("gpu", "frees", memory.frees);
	known_expect("gpu", "unknown_frees", 0);
	known_expect("gpu", "allocated_bytes", memory.allocated_bytes);
	known_expect("gpu", "current_bytes", runs * 3 << 20);
	known_expect("gpu", "peak_bytes", memory.peak_bytes);
	known_expect("gpu", "temporary", memory.temporary);
	return 0;
}
