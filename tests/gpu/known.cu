/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A CUDA program of which everything is known: launches of three kernels, copies of each direction,
 * memsets, a graph of five nodes that is launched again and again, another one that is older than
 * the READY it says, waits. It does its work after a line on stdin, prints as JSON after TRUTH what
 * it did, and ends at the end of stdin.
 */
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <unistd.h>

#define FILLS	     200
#define SCALES	     300
#define SPINS	     20 /* each is waited for */
#define SPIN_NS	     20000000
#define GRAPH_NODES  5
#define GRAPHS	     40
#define OLD_GRAPH_NODES 3 /* of a graph that is there before the work begins */
#define OLD_GRAPHS	20
#define SIDE_SCALES  30 /* on a stream of their own */
#define ELEMENTS     (1 << 20)

static void check(cudaError_t error, int line)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "known.cu:%d: %s\n", line, cudaGetErrorString(error));
	exit(1);
}
#define CHECK(call) check(call, __LINE__)

__global__ void fill_kernel(float *to, float value)
{
	unsigned at = blockIdx.x * blockDim.x + threadIdx.x;

	if (at < ELEMENTS)
		to[at] = value;
}

__global__ void scale_kernel(float *at, float factor)
{
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < ELEMENTS; i += gridDim.x * blockDim.x)
		at[i] *= factor;
}

__device__ unsigned long long global_ns(void)
{
	unsigned long long ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

__global__ void spin_kernel(unsigned long long ns)
{
	unsigned long long start = global_ns();

	while (global_ns() - start < ns)
		;
}

static struct copy {
	const char *direction;
	bool pinned;
	int calls;
	size_t bytes;
	cudaMemcpyKind kind;
} copies[] = {
	{"host_to_device", false, 7, 1 << 20, cudaMemcpyHostToDevice},
	{"host_to_device", true, 11, 2 << 20, cudaMemcpyHostToDevice},
	{"device_to_host", false, 5, 3 << 20, cudaMemcpyDeviceToHost},
	{"device_to_host", true, 13, 1 << 20, cudaMemcpyDeviceToHost},
	{"device_to_device", false, 17, 4 << 20, cudaMemcpyDeviceToDevice},
};
#define MEMSETS	     19
#define MEMSET_BYTES (1 << 20)

static float *device, *other;
static char *pageable, *pinned;
static cudaStream_t side;
static cudaGraphExec_t old_graph;

/* Without a launch. */
template <typename Kernel> static void load(Kernel kernel)
{
	cudaFuncAttributes attributes;

	CHECK(cudaFuncGetAttributes(&attributes, kernel));
}

static void begin_capture(void)
{
	CHECK(cudaStreamBeginCapture(side, cudaStreamCaptureModeThreadLocal));
}

static cudaGraphExec_t end_capture(void)
{
	cudaGraph_t graph;
	cudaGraphExec_t ready;

	CHECK(cudaStreamEndCapture(side, &graph));
	CHECK(cudaGraphInstantiate(&ready, graph, 0));
	return ready;
}

static void prepare(void)
{
	CHECK(cudaMalloc(&device, 4 << 20));
	CHECK(cudaMalloc(&other, 4 << 20));
	CHECK(cudaMallocHost(&pinned, 4 << 20));
	pageable = (char *)calloc(1, 4 << 20);
	CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
	load(fill_kernel);
	load(scale_kernel);
	load(spin_kernel);
	begin_capture();
	for (int i = 0; i < OLD_GRAPH_NODES; i++)
		scale_kernel<<<33, 64, 0, side>>>(other, 1.0f);
	old_graph = end_capture();
	CHECK(cudaDeviceSynchronize());
}

static void copy_all(void)
{
	nvtxRangePushA("copies");
	for (const copy &c : copies) {
		void *host = c.pinned ? pinned : pageable;
		void *to = c.kind == cudaMemcpyDeviceToHost ? host : device;
		void *from = c.kind == cudaMemcpyHostToDevice ? host
			     : c.kind == cudaMemcpyDeviceToDevice ? other : (void *)device;

		for (int i = 0; i < c.calls; i++)
			if (c.pinned)
				CHECK(cudaMemcpyAsync(to, from, c.bytes, c.kind, side));
			else
				CHECK(cudaMemcpy(to, from, c.bytes, c.kind));
	}
	for (int i = 0; i < MEMSETS; i++)
		CHECK(cudaMemset(device, 0, MEMSET_BYTES));
	CHECK(cudaDeviceSynchronize());
	nvtxRangePop();
}

static void launch_all(void)
{
	nvtxRangePushA("launches");
	for (int i = 0; i < FILLS; i++)
		fill_kernel<<<ELEMENTS / 256, 256>>>(device, 1.0f);
	for (int i = 0; i < SCALES; i++)
		scale_kernel<<<132, 512, 1024>>>(device, 1.0f);
	for (int i = 0; i < SIDE_SCALES; i++)
		scale_kernel<<<66, 128, 0, side>>>(other, 1.0f);
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize());
	nvtxRangePop();
}

static void launch_graphs(void)
{
	cudaGraphExec_t ready;

	begin_capture();
	for (int i = 0; i < GRAPH_NODES; i++)
		fill_kernel<<<ELEMENTS / 1024, 1024, 0, side>>>(other, 2.0f);
	ready = end_capture();
	for (int i = 0; i < GRAPHS; i++)
		CHECK(cudaGraphLaunch(ready, side));
	for (int i = 0; i < OLD_GRAPHS; i++)
		CHECK(cudaGraphLaunch(old_graph, side));
	CHECK(cudaStreamSynchronize(side));
}

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static struct bracket {
	long long before, after;
	float event_ms;
} spins[SPINS];

static void spin_all(void)
{
	cudaEvent_t begin, end;

	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	for (bracket &spin : spins) {
		spin.before = now_ns();
		CHECK(cudaEventRecord(begin));
		spin_kernel<<<1, 32>>>(SPIN_NS);
		CHECK(cudaEventRecord(end));
		CHECK(cudaStreamSynchronize(0));
		spin.after = now_ns();
		CHECK(cudaEventElapsedTime(&spin.event_ms, begin, end));
	}
}

static void print_truth(void)
{
	printf("TRUTH {\"kernels\": {\"fill_kernel\": %d, \"scale_kernel\": %d, \"spin_kernel\": %d}, "
	       "\"graphs\": {\"fill_kernel\": [%d, %d], \"scale_kernel\": [%d, %d]}, \"memsets\": [%d, %d], \"copies\": [",
	       FILLS, SCALES + SIDE_SCALES, SPINS, GRAPHS, GRAPH_NODES,
	       OLD_GRAPHS, OLD_GRAPH_NODES, MEMSETS, MEMSETS * MEMSET_BYTES);
	for (const copy &c : copies)
		printf("%s[\"%s\", %s, %d, %zu]", &c == copies ? "" : ", ", c.direction,
		       c.pinned ? "true" : "false", c.calls, c.calls * c.bytes);
	printf("], \"spins\": [");
	for (const bracket &spin : spins)
		printf("%s[%lld, %lld, %.0f]", &spin == spins ? "" : ", ", spin.before, spin.after,
		       spin.event_ms * 1e6);
	printf("]}\n");
	fflush(stdout);
}

int main(void)
{
	char line[16];

	prepare();
	printf("READY %d\n", getpid());
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	copy_all();
	launch_all();
	launch_graphs();
	spin_all();
	print_truth();
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
