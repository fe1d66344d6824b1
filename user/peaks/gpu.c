// SPDX-License-Identifier: BSD-2-Clause
#include "peaks/gpu.h"

#include <stdbool.h>
#include <stddef.h>

#define WARP_THREADS	      32
#define BLOCK_THREADS_MAX     1024
#define REGISTERS	      65536 /* of a multiprocessor, and the most of a block */
#define WARP_REGISTERS_UNIT   256   /* a warp's are a multiple of it */
#define THREAD_REGISTERS_MAX  256
#define KIB		      1024u
#define BLOCK_SHARED_RESERVED KIB /* by the driver, from 8.0 on */

/*
 * Multiprocessors by compute capability.
 *
 * Limits: "Compute Capabilities" of the CUDA C++ Programming Guide 13.0, and cuda_occupancy.h.
 * FLOPs a clock of one multiprocessor, a multiply-add counted as 2, dense: f64, f32 from
 * "Arithmetic Instructions" there; of tensor cores from the architectures' papers (V100, Turing,
 * A100, GA102, Ada, H100, Blackwell), f16 and bf16 with f32 sums. GeForce boards of 8.6 and 8.9 sum
 * in f32 at half that rate: their MFU is too small by that factor. 0: has none, or it is not
 * published.
 */
static const struct capability {
	uint32_t major, minor;
	uint32_t threads, blocks, shared_bytes;
	uint32_t f64, f32, tf32, f16, bf16, f8;
} capabilities[] = {
	{6, 0, 2048, 32, 64 * KIB, 64, 128, 0, 256, 0, 0},
	{6, 1, 2048, 32, 96 * KIB, 8, 256, 0, 0, 0, 0},
	{7, 0, 2048, 32, 96 * KIB, 64, 128, 0, 1024, 0, 0},
	{7, 5, 1024, 16, 64 * KIB, 4, 128, 0, 1024, 0, 0},
	{8, 0, 2048, 32, 164 * KIB, 128, 128, 1024, 2048, 2048, 0},
	{8, 6, 1536, 16, 100 * KIB, 4, 256, 512, 1024, 1024, 0},
	{8, 7, 1536, 16, 164 * KIB, 4, 256, 512, 1024, 1024, 0},
	{8, 9, 1536, 24, 100 * KIB, 4, 256, 512, 1024, 1024, 2048},
	{9, 0, 2048, 32, 228 * KIB, 256, 256, 2048, 4096, 4096, 8192},
	{10, 0, 2048, 32, 228 * KIB, 128, 256, 4096, 8192, 8192, 16384},
	{10, 3, 2048, 32, 228 * KIB, 4, 256, 4096, 8192, 8192, 16384},
	{12, 0, 1536, 24, 100 * KIB, 4, 256, 512, 1024, 1024, 2048},
};

static const struct capability *capability_of(const struct perfx_gpu_device *device)
{
	for (size_t i = 0; i < sizeof(capabilities) / sizeof(capabilities[0]); i++)
		if (capabilities[i].major == device->compute_major &&
		    capabilities[i].minor == device->compute_minor)
			return &capabilities[i];
	return NULL;
}

static uint32_t flops_a_clock(const struct capability *c, enum perfx_dtype dtype)
{
	const uint32_t flops[PERFX_DTYPES] = {
		[PERFX_DTYPE_F64] = c->f64,   [PERFX_DTYPE_C128] = c->f64,
		[PERFX_DTYPE_F32] = c->f32,   [PERFX_DTYPE_C64] = c->f32,
		[PERFX_DTYPE_TF32] = c->tf32, [PERFX_DTYPE_F16] = c->f16,
		[PERFX_DTYPE_BF16] = c->bf16, [PERFX_DTYPE_F8] = c->f8};

	return flops[dtype];
}

double gpu_peak_flops(const struct perfx_gpu_device *device, enum perfx_dtype dtype)
{
	const struct capability *c = capability_of(device);

	return c ? (double)flops_a_clock(c, dtype) * device->multiprocessors *
			       device->max_sm_clock_mhz * 1e6
		 : 0;
}

static uint32_t round_up(uint32_t value, uint32_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* Blocks that their registers leave room for: a warp's lie in one of the parts of a multiprocessor.
 */
static uint32_t blocks_by_registers(const struct capability *c, const struct gpu_shape *shape,
				    uint32_t warps)
{
	uint32_t parts = c->major == 6 && c->minor == 0 ? 2 : 4;
	uint32_t of_warp = round_up(shape->registers * WARP_THREADS, WARP_REGISTERS_UNIT);

	if (!shape->registers)
		return UINT32_MAX;
	/* the check at the launch reserves them for four parts alike, on 6.0 too */
	if (shape->registers > THREAD_REGISTERS_MAX || of_warp * round_up(warps, 4) > REGISTERS)
		return 0;
	return REGISTERS / parts / of_warp * parts / warps;
}

static uint32_t blocks_by_shared_memory(const struct capability *c, const struct gpu_shape *shape)
{
	uint32_t unit = c->major >= 8 ? 128 : 256;
	uint32_t bytes = shape->shared_bytes + (c->major >= 8 ? BLOCK_SHARED_RESERVED : 0);

	if (shape->shared_bytes > c->shared_bytes)
		return 0;
	return bytes ? c->shared_bytes / round_up(bytes, unit) : UINT32_MAX;
}

struct gpu_occupancy gpu_occupancy(const struct perfx_gpu_device *device,
				   const struct gpu_shape *shape)
{
	const struct capability *c = capability_of(device);
	uint32_t warps = round_up(shape->block_threads, WARP_THREADS) / WARP_THREADS;
	struct gpu_occupancy found = {.share = -1};
	uint32_t blocks = UINT32_MAX;

	if (!c || !shape->block_threads || shape->block_threads > BLOCK_THREADS_MAX)
		return found;
#define AT_MOST(count, reason)                \
	do {                                  \
		if ((count) < blocks) {       \
			blocks = (count);     \
			found.limit = reason; \
		}                             \
	} while (0)
	AT_MOST(c->threads / WARP_THREADS / warps, GPU_LIMIT_WARPS);
	AT_MOST(c->blocks, GPU_LIMIT_BLOCKS);
	AT_MOST(blocks_by_registers(c, shape, warps), GPU_LIMIT_REGISTERS);
	AT_MOST(blocks_by_shared_memory(c, shape), GPU_LIMIT_SHARED_MEMORY);
#undef AT_MOST
	found.share = (double)(blocks * warps) / (double)(c->threads / WARP_THREADS);
	return found;
}

const char *gpu_limit_name(enum gpu_limit limit)
{
	static const char *const names[] = {[GPU_LIMIT_NONE] = "",
					    [GPU_LIMIT_WARPS] = "warps",
					    [GPU_LIMIT_BLOCKS] = "blocks",
					    [GPU_LIMIT_REGISTERS] = "registers",
					    [GPU_LIMIT_SHARED_MEMORY] = "shared memory"};

	return names[limit];
}
