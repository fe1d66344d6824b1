// SPDX-License-Identifier: BSD-2-Clause
#include "peaks/internal.h"

/*
 * Each kernel keeps more multiply-adds in flight than any CPU so far needs to fill its pipes:
 * latency 4 to 5 cycles on 2 (x86) or 4 (Neoverse V, Apple) pipes makes 8 to 16. A register holds
 * the multiplier 1, another the small addend; the accumulators start at 0 and stay ordinary numbers
 * however long the loop runs (a narrow type stops growing where the addend is rounded away):
 * denormal and infinite operands are slow on some CPUs, zeros save power on others.
 */
union constants {
	_Alignas(64) double f64[2][8];
	float f32[2][16];
	uint16_t half[2][32]; /* f16 and bf16, as bits */
};

#define TIMES8(x)  x, x, x, x, x, x, x, x
#define TIMES16(x) TIMES8(x), TIMES8(x)
#define TIMES32(x) TIMES16(x), TIMES16(x)

static const union constants constants_f64 = {.f64 = {{TIMES8(1)}, {TIMES8(0x1p-10)}}};
static const union constants constants_f32 = {.f32 = {{TIMES16(1)}, {TIMES16(0x1p-10f)}}};

/* clang-format off */
#define EACH12(x) x("4") x("5") x("6") x("7") x("8") x("9") x("10") x("11") x("12") x("13") \
		  x("14") x("15")
#define EACH24(x) x("8") x("9") x("10") x("11") x("12") x("13") x("14") x("15") x("16") x("17") \
		  x("18") x("19") x("20") x("21") x("22") x("23") x("24") x("25") x("26") x("27") \
		  x("28") x("29") x("30") x("31")
/* clang-format on */

#if defined(__x86_64__)

#include <cpuid.h>

static const union constants constants_f16 = {.half = {{TIMES32(0x3c00)}, {TIMES32(0x1400)}}};
static const union constants constants_bf16 = {.half = {{TIMES32(0x3f80)}, {TIMES32(0x3a80)}}};

#define CLOBBERS_16                                                                             \
	"cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", \
		"xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#define CLOBBERS_32                                                                          \
	CLOBBERS_16, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", \
		"xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31"

#define ZERO_ZMM(n) "vpxorq %%zmm" n ", %%zmm" n ", %%zmm" n "\n"
#define ZERO_YMM(n) "vxorps %%ymm" n ", %%ymm" n ", %%ymm" n "\n"
#define ZERO_XMM(n) "xorps %%xmm" n ", %%xmm" n "\n"

/* Registers 0 and 1 are the constants. */
#define KERNEL(name, features, load, zeros, steps, leave, clobbers)                           \
	__attribute__((target(features))) static void name(uint64_t iterations,               \
							   const void *constants)             \
	{                                                                                     \
		__asm__ volatile(load zeros ".p2align 5\n1:\n" steps "dec %0\njnz 1b\n" leave \
				 : "+r"(iterations)                                           \
				 : "r"(constants)                                             \
				 : clobbers);                                                 \
	}
/* clang-format off */
#define KERNEL_512(name, features, step)                                                           \
	KERNEL(name, features, "vmovups (%1), %%zmm0\nvmovups 64(%1), %%zmm1\n", EACH24(ZERO_ZMM), \
	       EACH24(step), "vzeroupper\n", CLOBBERS_32)
#define KERNEL_256(name, features, step)                                                           \
	KERNEL(name, features, "vmovups (%1), %%ymm0\nvmovups 64(%1), %%ymm1\n", EACH12(ZERO_YMM), \
	       EACH12(step), "vzeroupper\n", CLOBBERS_16)
#define KERNEL_128(name, steps)                                                                \
	KERNEL(name, "sse2", "movups (%1), %%xmm0\nmovups 64(%1), %%xmm1\n", EACH12(ZERO_XMM), \
	       steps, "", CLOBBERS_16)
/* clang-format on */

#define FMA_PD_ZMM(n)	"vfmadd231pd %%zmm0, %%zmm1, %%zmm" n "\n"
#define FMA_PS_ZMM(n)	"vfmadd231ps %%zmm0, %%zmm1, %%zmm" n "\n"
#define FMA_PH_ZMM(n)	"vfmadd231ph %%zmm0, %%zmm1, %%zmm" n "\n"
#define DOT_BF16_ZMM(n) "vdpbf16ps %%zmm0, %%zmm1, %%zmm" n "\n"
#define FMA_PD_YMM(n)	"vfmadd231pd %%ymm0, %%ymm1, %%ymm" n "\n"
#define FMA_PS_YMM(n)	"vfmadd231ps %%ymm0, %%ymm1, %%ymm" n "\n"
/* Without FMA: as many multiplications as additions, on pipes of their own or on shared ones. */
#define MUL(kind, reg, n) "vmul" kind " %%" reg "0, %%" reg n ", %%" reg n "\n"
#define ADD(kind, reg, n) "vadd" kind " %%" reg "1, %%" reg n ", %%" reg n "\n"
/* clang-format off */
#define PAIRS_YMM(kind)                                                        \
	MUL(kind, "ymm", "4") ADD(kind, "ymm", "10") MUL(kind, "ymm", "5")     \
	ADD(kind, "ymm", "11") MUL(kind, "ymm", "6") ADD(kind, "ymm", "12")    \
	MUL(kind, "ymm", "7") ADD(kind, "ymm", "13") MUL(kind, "ymm", "8")     \
	ADD(kind, "ymm", "14") MUL(kind, "ymm", "9") ADD(kind, "ymm", "15")
#define PAIR_XMM(kind, m, a) "mul" kind " %%xmm0, %%xmm" m "\nadd" kind " %%xmm1, %%xmm" a "\n"
#define PAIRS_XMM(kind)                                                        \
	PAIR_XMM(kind, "4", "10") PAIR_XMM(kind, "5", "11")                    \
	PAIR_XMM(kind, "6", "12") PAIR_XMM(kind, "7", "13")                    \
	PAIR_XMM(kind, "8", "14") PAIR_XMM(kind, "9", "15")
/* clang-format on */

/* clang checks the instructions against the function's features, gcc leaves that to the assembler
 * and older ones do not know the name */
#ifdef __clang__
#define FEATURES_FP16 "avx512f,avx512fp16"
#else
#define FEATURES_FP16 "avx512f"
#endif

KERNEL_512(avx512_f64, "avx512f", FMA_PD_ZMM)
KERNEL_512(avx512_f32, "avx512f", FMA_PS_ZMM)
KERNEL_512(avx512_f16, FEATURES_FP16, FMA_PH_ZMM)
KERNEL_512(avx512_bf16, "avx512f,avx512bf16", DOT_BF16_ZMM)
KERNEL_256(fma_f64, "avx2,fma", FMA_PD_YMM)
KERNEL_256(fma_f32, "avx2,fma", FMA_PS_YMM)
KERNEL(avx_f64, "avx", "vmovups (%1), %%ymm0\nvmovups 64(%1), %%ymm1\n", EACH12(ZERO_YMM),
       PAIRS_YMM("pd"), "vzeroupper\n", CLOBBERS_16)
KERNEL(avx_f32, "avx", "vmovups (%1), %%ymm0\nvmovups 64(%1), %%ymm1\n", EACH12(ZERO_YMM),
       PAIRS_YMM("ps"), "vzeroupper\n", CLOBBERS_16)
KERNEL_128(sse2_f64, PAIRS_XMM("pd"))
KERNEL_128(sse2_f32, PAIRS_XMM("ps"))

/* accumulators × elements × operations */
static const struct fma_kernel avx512_kernels[] = {
	[PERFX_DTYPE_F64] = {"AVX-512", 24 * 8 * 2, avx512_f64, &constants_f64},
	[PERFX_DTYPE_F32] = {"AVX-512", 24 * 16 * 2, avx512_f32, &constants_f32},
	[PERFX_DTYPE_F16] = {"AVX512-FP16", 24 * 32 * 2, avx512_f16, &constants_f16},
	[PERFX_DTYPE_BF16] = {"AVX512-BF16", 24 * 32 * 2, avx512_bf16, &constants_bf16},
};
static const struct fma_kernel fma_kernels[] = {
	[PERFX_DTYPE_F64] = {"AVX2", 12 * 4 * 2, fma_f64, &constants_f64},
	[PERFX_DTYPE_F32] = {"AVX2", 12 * 8 * 2, fma_f32, &constants_f32},
};
static const struct fma_kernel avx_kernels[] = {
	[PERFX_DTYPE_F64] = {"AVX", 12 * 4, avx_f64, &constants_f64},
	[PERFX_DTYPE_F32] = {"AVX", 12 * 8, avx_f32, &constants_f32},
};
static const struct fma_kernel sse2_kernels[] = {
	[PERFX_DTYPE_F64] = {"SSE2", 12 * 2, sse2_f64, &constants_f64},
	[PERFX_DTYPE_F32] = {"SSE2", 12 * 4, sse2_f32, &constants_f32},
};

/* CPUID leaf 7, for what not every compiler's __builtin_cpu_supports knows (Intel SDM, volume 2,
 * CPUID). */
static unsigned leaf7(unsigned subleaf, bool edx)
{
	unsigned a = 0, b, c, d = 0;

	if (!__get_cpuid_count(7, subleaf, &a, &b, &c, &d))
		return 0;
	return edx ? d : a;
}

#define EDX_AMX_BF16	(1u << 22)
#define EDX_AVX512_FP16 (1u << 23)
#define EAX_AVX512_BF16 (1u << 5)
#define EAX_AMX_FP16	(1u << 21)

bool fma_has_amx(enum perfx_dtype dtype)
{
	if (dtype == PERFX_DTYPE_F16)
		return leaf7(1, false) & EAX_AMX_FP16;
	return dtype == PERFX_DTYPE_BF16 && (leaf7(0, true) & EDX_AMX_BF16);
}

/* AMX multiplies many times as fast as the rest of the CPU. */
bool fma_half_is_known(enum perfx_dtype dtype)
{
	return (dtype == PERFX_DTYPE_F16 || dtype == PERFX_DTYPE_BF16) && !fma_has_amx(dtype);
}

static bool has_half(enum perfx_dtype dtype)
{
	if (dtype == PERFX_DTYPE_F16)
		return leaf7(0, true) & EDX_AVX512_FP16;
	return leaf7(1, false) & EAX_AVX512_BF16;
}

const struct fma_kernel *fma_kernel_for(enum perfx_dtype dtype)
{
	bool avx512 = __builtin_cpu_supports("avx512f");

	if (dtype == PERFX_DTYPE_F16 || dtype == PERFX_DTYPE_BF16)
		return avx512 && has_half(dtype) ? &avx512_kernels[dtype] : NULL;
	if (dtype != PERFX_DTYPE_F64 && dtype != PERFX_DTYPE_F32)
		return NULL;
	if (avx512)
		return &avx512_kernels[dtype];
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return &fma_kernels[dtype];
	if (__builtin_cpu_supports("avx"))
		return &avx_kernels[dtype];
	return &sse2_kernels[dtype];
}

#else

bool fma_has_amx(enum perfx_dtype dtype)
{
	(void)dtype;
	return false;
}

/* Many arm64 processors have units for f16 (FEAT_FP16) and bf16 (FEAT_BF16), twice and four times
 * as fast. */
bool fma_half_is_known(enum perfx_dtype dtype)
{
	(void)dtype;
	return false;
}

#if defined(__aarch64__)

#define ZERO_V(n)   "movi v" n ".2d, #0\n"
#define FMA_V_2D(n) "fmla v" n ".2d, v0.2d, v1.2d\n"
#define FMA_V_4S(n) "fmla v" n ".4s, v0.4s, v1.4s\n"

#define KERNEL(name, step)                                                                        \
	static void name(uint64_t iterations, const void *constants)                              \
	{                                                                                         \
		const char *addends = (const char *)constants + 64;                               \
                                                                                                  \
		__asm__ volatile("ldr q0, [%1]\nldr q1, [%2]\n" EACH24(ZERO_V) "1:\n" EACH24(     \
					 step) "subs %0, %0, #1\nb.ne 1b\n"                       \
				 : "+r"(iterations)                                               \
				 : "r"(constants), "r"(addends)                                   \
				 : "cc", "memory", "v0", "v1", "v8", "v9", "v10", "v11", "v12",   \
				   "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", \
				   "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", \
				   "v31");                                                        \
	}

KERNEL(neon_f64, FMA_V_2D)
KERNEL(neon_f32, FMA_V_4S)

static const struct fma_kernel neon_kernels[] = {
	[PERFX_DTYPE_F64] = {"NEON", 24 * 2 * 2, neon_f64, &constants_f64},
	[PERFX_DTYPE_F32] = {"NEON", 24 * 4 * 2, neon_f32, &constants_f32},
};

const struct fma_kernel *fma_kernel_for(enum perfx_dtype dtype)
{
	if (dtype != PERFX_DTYPE_F64 && dtype != PERFX_DTYPE_F32)
		return NULL;
	return &neon_kernels[dtype];
}

#else

const struct fma_kernel *fma_kernel_for(enum perfx_dtype dtype)
{
	(void)dtype;
	(void)constants_f64;
	(void)constants_f32;
	return NULL;
}

#endif
#endif

/* Memory is the limit, so two at a time are enough everywhere. */
typedef double pair __attribute__((vector_size(16), may_alias));

void triad(double *a, const double *b, const double *c, size_t count)
{
	const pair factor = {3, 3};

	for (size_t i = 0; i < count; i += 2)
		*(pair *)(a + i) = *(const pair *)(b + i) + factor * *(const pair *)(c + i);
}
