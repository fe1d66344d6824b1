// SPDX-License-Identifier: BSD-2-Clause
#include "peaks/estimate.h"

#include "peaks/host.h"
#include "peaks/kernels.h"

#include <errno.h>
#include <stdlib.h>

/* Of one core: a tile's product is 16 × 16 × 32 multiply-adds of 16-bit numbers in 16 cycles (Intel
 * 64 and IA-32 Architectures Optimization Reference Manual, chapter 20). */
#define AMX_FLOPS_PER_CYCLE 1024

#if defined(__x86_64__)

#include <cpuid.h>

/* AMD's Zen 4 (family 0x19) takes two cycles for 512 bits. */
static bool halves_512(void)
{
	unsigned a = 0, b, c, d;

	if (!__builtin_cpu_is("amd") || !__get_cpuid(1, &a, &b, &c, &d))
		return false;
	return (a >> 8 & 0xf) + (a >> 20 & 0xff) == 0x19;
}

static void read_vectors(struct cpu_units *units)
{
	units->fma = __builtin_cpu_supports("fma");
	units->vectors_per_cycle = 2;
	if (__builtin_cpu_supports("avx512f"))
		units->vector_bits = halves_512() ? 256 : 512;
	else
		units->vector_bits = __builtin_cpu_supports("avx") ? 256 : 128;
}

#elif defined(__aarch64__)

static void read_vectors(struct cpu_units *units)
{
	units->fma = true;
	units->vectors_per_cycle = 2;
	units->vector_bits = 128;
}

#else

static void read_vectors(struct cpu_units *units)
{
	(void)units;
}

#endif

void cpu_units_read(struct cpu_units *units)
{
	int *cpus = NULL;
	ssize_t count = host_cpus(&cpus);

	*units = (struct cpu_units){.hz = host_hz()};
	if (count > 0) {
		units->threads = (uint32_t)count;
		units->cores = host_cores(cpus, (size_t)count);
	}
	free(cpus);
	read_vectors(units);
	units->has_f16 = fma_kernel_for(PERFX_DTYPE_F16);
	units->has_bf16 = fma_kernel_for(PERFX_DTYPE_BF16);
	units->amx_f16 = fma_has_amx(PERFX_DTYPE_F16);
	units->amx_bf16 = fma_has_amx(PERFX_DTYPE_BF16);
}

/* Of one core in a cycle. */
static double per_cycle(const struct cpu_units *units, enum perfx_dtype dtype)
{
	double operations = units->vectors_per_cycle * (units->fma ? 2.0 : 1.0);
	double f32 = operations * units->vector_bits / 32;

	switch (dtype) {
	case PERFX_DTYPE_F64:
		return f32 / 2;
	case PERFX_DTYPE_F32:
		return f32;
	case PERFX_DTYPE_F16:
		return units->amx_f16 ? AMX_FLOPS_PER_CYCLE : units->has_f16 ? 2 * f32 : f32;
	case PERFX_DTYPE_BF16:
		return units->amx_bf16 ? AMX_FLOPS_PER_CYCLE : units->has_bf16 ? 2 * f32 : f32;
	default:
		return 0;
	}
}

void peaks_of_units(const struct cpu_units *units, struct peaks *peaks)
{
	*peaks = (struct peaks){.threads = units->threads};
	for (size_t i = 0; peaks_dtypes[i]; i++) {
		double core = units->hz * per_cycle(units, peaks_dtypes[i]);

		peaks->flops[PEAKS_ONE][peaks_dtypes[i]] = core;
		peaks->flops[PEAKS_ALL][peaks_dtypes[i]] = core * units->cores;
	}
}

int peaks_estimate(struct peaks *peaks)
{
	struct cpu_units units;

	cpu_units_read(&units);
	peaks_of_units(&units, peaks);
	return peaks->flops[PEAKS_ALL][PERFX_DTYPE_F32] > 0 ? 0 : -ENOENT;
}
