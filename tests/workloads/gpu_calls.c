/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work for a GPU by the CUDA runtime and by the driver, by their real names and calling convention,
 * into libraries that do nothing (lib/): on two threads, then in a child. Kernels are known by the
 * stub that launches them, by the name that the program gave for their handle, or not at all. Lines
 * of "expect", worked out by hand beside each call, blanks in them written as '_':
 *	launches KERNEL,GRID,BLOCK,SHARED N
 *	copies DIRECTION N	bytes DIRECTION N
 *	calls FUNCTION N	own_ns FUNCTION N
 * "gpu_calls many" launches one kernel with so many shapes that there is no room for all of them.
 * gpu_driver.c is the half that needs the driver alone.
 */
#include "known.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

struct dim3 {
	unsigned x, y, z;
};

struct config {
	struct dim3 grid, block;
	size_t shared_bytes;
	void *stream, *attributes;
	unsigned attributes_count;
};

struct driver_config {
	struct dim3 grid, block;
	unsigned shared_bytes;
	void *stream, *attributes;
	unsigned attributes_count;
};

struct pitched {
	void *at;
	size_t pitch, width, height;
};

struct extent {
	size_t width, height, depth;
};

typedef unsigned long long device;

int cudaLaunchKernel(const void *f, struct dim3 grid, struct dim3 block, void **args, size_t shared,
		     void *stream);
int __cudaLaunchKernel(void *f, struct dim3 grid, struct dim3 block, void **args, size_t shared,
		       void *stream);
int __cudaGetKernel(void **kernel, const void *stub);
int cudaLaunchCooperativeKernel(const void *f, struct dim3 grid, struct dim3 block, void **args,
				size_t shared, void *stream);
int cudaLaunchKernelExC(const struct config *config, const void *f, void **args);
int cudaGraphLaunch(void *graph, void *stream);
int cudaMemcpy(void *to, const void *from, size_t bytes, int kind);
int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream);
int cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
		 size_t height, int kind);
int cudaMemcpy3D(const void *parameters);
int cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes);
int cudaMemset(void *to, int value, size_t bytes);
int cudaMemset3D(struct pitched to, int value, struct extent size);
int cudaDeviceSynchronize(void);
int cudaStreamSynchronize(void *stream);
int cudaEventSynchronize(void *event);

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, void *stream, void **args, void **extra);
int cuLaunchKernel_ptsz(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
			unsigned bz, unsigned shared, void *stream, void **args, void **extra);
int cuLaunchKernelEx(const struct driver_config *config, void *f, void **args, void **extra);
int cuGraphLaunch(void *graph, void *stream);
int cuModuleGetFunction(void **f, void *module, const char *name);
int cuLibraryGetKernel(void **kernel, void *library, const char *name);
int cuKernelGetFunction(void **f, void *kernel);
int cuFuncGetName(const char **name, void *f);
int cuMemcpyDtoH_v2(void *to, device from, size_t bytes);
int cuMemcpyDtoHAsync_v2_ptsz(void *to, device from, size_t bytes, void *stream);
int cuMemcpyPeer(device to, void *to_context, device from, void *from_context, size_t bytes);
int cuMemcpyAsync(device to, device from, size_t bytes, void *stream);
int cuMemcpy2D_v2(const void *copy);
int cuMemcpy3DAsync_v2(const void *copy, void *stream);
int cuMemsetD32Async(device to, unsigned value, size_t n, void *stream);
int cuMemsetD2D16_v2(device to, size_t pitch, unsigned short value, size_t width, size_t height);
int cuStreamSynchronize(void *stream);

/* Addresses of a GPU, which are never dereferenced. */
static void *const gpu = (void *)0x7f0000000000;
static void *const graph = (void *)0x55500000abc0;

#ifndef DRIVER_ONLY

static const struct dim3 grid = {4, 2, 3}, block = {32, 4, 2};

/* As before CUDA 13: scale(float*, int) is launched by its stub's address. */
TRACED void scale(void) __asm__("_Z5scalePfi");
TRACED void scale(void)
{
	void *args[1];

	cudaLaunchKernel((void *)scale, grid, block, args, 1024, NULL);
}

/* As in CUDA 13: by a handle, which the first launch creates. */
static void *add_handle, *multiply_handle;

TRACED void add(void) __asm__("_ZN5tools3addEPfS0_");
TRACED void add(void)
{
}

TRACED void add_stub(void) __asm__("_ZL38__device_stub__ZN5tools3addEPfS0_PfS_");
TRACED void add_stub(void)
{
	void *args[1];

	__cudaLaunchKernel(add_handle, grid, block, args, 0, NULL);
}

TRACED void multiply(void) __asm__("_Z8multiplyPf");
TRACED void multiply(void)
{
	void *args[1];

	__cudaLaunchKernel(multiply_handle, grid, block, args, 0, NULL);
}
#endif

static void *early, *asked; /* handles of kernels that were loaded before tracing */

#ifndef DRIVER_ONLY
static void launch_by_runtime(void)
{
	struct config config = {
		.grid = {7, 1, 1}, .block = {256, 1, 1}, .shared_bytes = 3000000000};

	for (int i = 0; i < 3; i++)
		scale();
	add_stub();
	add_stub();
	__cudaGetKernel(&multiply_handle, (void *)multiply);
	multiply();
	cudaLaunchCooperativeKernel((void *)scale, block, grid, NULL, 0, NULL);
	cudaLaunchKernelExC(&config, (void *)scale, NULL);
	cudaGraphLaunch(graph, NULL);
	cudaGraphLaunch(graph, NULL);
}
#endif

/* As in programs with NVRTC and Triton. */
static void launch_by_driver(void)
{
	struct driver_config config = {
		.grid = {5, 6, 7}, .block = {128, 1, 1}, .shared_bytes = 48, .stream = (void *)-1};
	void *f, *kernel, *same, *none = NULL;
	const char *name;

	cuModuleGetFunction(&f, gpu, "triton_poi_fused_add_0");
	cuLaunchKernel(f, 1, 2, 3, 4, 5, 6, 7, NULL, NULL, NULL);
	cuLaunchKernel_ptsz(f, 1, 2, 3, 4, 5, 6, 7, NULL, NULL, NULL);
	cuLaunchKernelEx(&config, f, NULL, NULL);
	/* two names of equal hash in the tracer's table (mix() in bpf/perfx.bpf.h) */
	cuModuleGetFunction(&f, gpu, "gemmpf0mda436aer");
	cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	cuModuleGetFunction(&f, gpu, "softmsas96___1_9");
	cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	cuModuleGetFunction(&none, gpu, "");
	cuLibraryGetKernel(&kernel, gpu, "_Z4gemmILi128EEvPKfPf");
	cuLaunchKernel(kernel, 9, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL);
	cuKernelGetFunction(&same, kernel);
	cuLaunchKernel(same, 9, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL);
	cuLaunchKernel(early, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	cuFuncGetName(&name, asked);
	cuLaunchKernel(asked, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	cuGraphLaunch(graph, NULL);
}

#ifndef DRIVER_ONLY
static void copy_by_runtime(void)
{
	/* a copy of a box of 8 × 4 × 2 from the host, and one with an array */
	size_t box[20] = {[16] = 8, [17] = 4, [18] = 2, [19] = 1};
	size_t array[20] = {[0] = 1, [16] = 8, [17] = 4, [18] = 2, [19] = 3};

	cudaMemcpy(gpu, NULL, 1000, 1); /* 5 ms */
	cudaMemcpy(box, gpu, 200, 2);
	cudaMemcpy(gpu, gpu, 30, 3);
	cudaMemcpy(gpu, gpu, 4, 0);
	cudaMemcpyAsync(gpu, box, 6000000000, 1, NULL);
	cudaMemcpyAsync(gpu, box, 70, 4, NULL); /* decided by the addresses: unknown */
	cudaMemcpy2D(gpu, 512, box, 128, 100, 3, 1);
	cudaMemcpy3D(box);
	cudaMemcpy3D(array);
	cudaMemcpyPeer(gpu, 0, gpu, 1, 11);
	cudaMemset(gpu, 1, 500);
	cudaMemset3D((struct pitched){gpu, 512, 100, 3}, 1, (struct extent){10, 3, 2});
}
#endif

static void copy_by_driver(void)
{
	/* 30 lines of 20 bytes from the host (1) to the device (2); 2 × 3 × 4 within it */
	size_t lines[16] = {[2] = 1, [9] = 2, [14] = 20, [15] = 30};
	size_t box[25] = {[4] = 2, [15] = 3, [22] = 2, [23] = 3, [24] = 4};

	cuMemcpyDtoH_v2(box, (device)gpu, 40);
	cuMemcpyDtoHAsync_v2_ptsz(box, (device)gpu, 2, NULL);
	cuMemcpyPeer((device)gpu, NULL, (device)gpu, NULL, 9);
	cuMemcpyAsync((device)gpu, (device)gpu, 3, NULL);
	cuMemcpy2D_v2(lines);
	cuMemcpy3DAsync_v2(box, NULL);
	cuMemsetD32Async((device)gpu, 1, 25, NULL);
	cuMemsetD2D16_v2((device)gpu, 512, 1, 10, 5);
}

enum { STREAM, EVENT, DEVICE, DRIVER_STREAM, WAITS };

/* Duration of the waits by the program's own clock; shared with the child. */
static uint64_t *own_ns;

#define WAIT(which, call)                                                                      \
	do {                                                                                   \
		uint64_t begun_ns = known_clock_ns(CLOCK_MONOTONIC);                           \
		call;                                                                          \
		__atomic_fetch_add(&own_ns[which], known_clock_ns(CLOCK_MONOTONIC) - begun_ns, \
				   __ATOMIC_RELAXED);                                          \
	} while (0)

TRACED static void wait_for_work(void)
{
#ifndef DRIVER_ONLY
	WAIT(STREAM, cudaStreamSynchronize((void *)40));
	WAIT(EVENT, cudaEventSynchronize((void *)20));
	WAIT(DEVICE, cudaDeviceSynchronize());
#endif
	WAIT(DRIVER_STREAM, cuStreamSynchronize((void *)30));
}

static void *work(void *unused)
{
#ifndef DRIVER_ONLY
	launch_by_runtime();
	copy_by_runtime();
#endif
	launch_by_driver();
	copy_by_driver();
	wait_for_work();
	return unused;
}

static void scenario(void)
{
	pthread_t thread;
	pid_t child;
	int status;

	known_require(!pthread_create(&thread, NULL, work, NULL), "pthread_create");
	work(NULL);
	pthread_join(thread, NULL);
	child = fork();
	if (!child) {
		work(NULL);
		_exit(0);
	}
	known_require(waitpid(child, &status, 0) == child && !status, "the child's status");
}

static uint64_t times;

static void launches(const char *what, uint64_t count)
{
	known_expect("launches", what, count * times);
}

static void copies(const char *direction, uint64_t count, uint64_t bytes)
{
	known_expect("copies", direction, count * times);
	known_expect("bytes", direction, bytes * times);
}

static void waits(const char *function, int which)
{
	known_expect("calls", function, times);
	known_expect("own_ns", function, own_ns[which]);
}

/* Calls that only the runtime has. */
#ifndef DRIVER_ONLY
static void expect_runtime(void)
{
	char text[96];

	launches("scale,4x2x3,32x4x2,1024", 3);
	launches("scale,32x4x2,4x2x3,0", 1);
	launches("scale,7x1x1,256x1x1,3000000000", 1);
	launches("tools::add,4x2x3,32x4x2,0", 2);
	launches("multiply,4x2x3,32x4x2,0", 1);
	snprintf(text, sizeof(text), "graph_at_%p", graph);
	launches(text, 2);
	copies("host_to_device", 4, 1000 + 6000000000 + 300 + 64);
	copies("device_to_host", 1, 200);
	copies("device_to_device", 2, 30);
	copies("host_to_host", 1, 4);
	copies("peer", 1, 11);
	copies("unknown", 1, 70);
	copies("memset", 2, 500 + 60);
	waits("cudaStreamSynchronize", STREAM);
	waits("cudaEventSynchronize", EVENT);
	waits("cudaDeviceSynchronize", DEVICE);
}
#endif

static void expect_driver(void)
{
	char text[96];

	launches("triton_poi_fused_add_0,1x2x3,4x5x6,7", 2);
	launches("triton_poi_fused_add_0,5x6x7,128x1x1,48", 1);
	launches("gemm<128>,9x1x1,64x1x1,0", 2);
	launches("gemmpf0mda436aer,1x1x1,32x1x1,0", 1);
	launches("softmsas96___1_9,1x1x1,32x1x1,0", 2);
	launches("asked_for,1x1x1,1x1x1,0", 1);
	snprintf(text, sizeof(text), "kernel_at_%p,1x1x1,1x1x1,0", early);
	launches(text, 1);
	snprintf(text, sizeof(text), "graph_at_%p", graph);
	launches(text, 1);
	copies("host_to_device", 1, 600);
	copies("device_to_host", 2, 40 + 2);
	copies("device_to_device", 1, 24);
	copies("peer", 1, 9);
	copies("unknown", 1, 3);
	copies("memset", 2, 100 + 100);
	waits("cuStreamSynchronize", DRIVER_STREAM);
}

enum { SHAPES_MANY = 20000 };

static void launch_many(void)
{
	for (unsigned i = 1; i <= SHAPES_MANY; i++)
		cuLaunchKernel(early, i, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

int main(int argc, char **argv)
{
	bool many = argc > 1 && !strcmp(argv[1], "many");

	own_ns = mmap(NULL, WAITS * sizeof(*own_ns), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	known_require(own_ns != MAP_FAILED, "mmap");
	cuModuleGetFunction(&early, gpu, "loaded_before");
	cuModuleGetFunction(&asked, gpu, "asked_for");
	if (many) {
		known_expect("launches", "all", known_main(launch_many) * SHAPES_MANY);
		return 0;
	}
#ifndef DRIVER_ONLY
	__cudaGetKernel(&add_handle, (void *)add);
#endif
	/* two threads and the child */
	times = known_main(scenario) * 3;
#ifndef DRIVER_ONLY
	expect_runtime();
#endif
	expect_driver();
	return 0;
}
