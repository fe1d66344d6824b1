// SPDX-License-Identifier: BSD-2-Clause
/*
 * BLAS level 3 and gemv, as OpenBLAS, MKL, reference BLAS and the renamed copies of NumPy and SciPy
 * spell them, and oneDNN's and YNNPACK's products of matrices. Not dot, axpy and the like: memory
 * bounds them, LAPACK calls them in its innermost loops, and a probe would cost more than they do.
 *
 * Arguments: netlib's cblas.h and the Fortran interface (all by reference; the lengths of character
 * arguments come after the last). Operations: BLAS Technical Forum Standard, appendix; LAPACK
 * Working Note 41: gemm 2mnk, symm 2mns, syrk nnk, syr2k 2nnk, trmm and trsm mns, with s = m when
 * the square operand is on the left, else n. A complex multiply-add is four real ones, also where
 * gemm3m does with three.
 *
 * The text of a row may use x: 4 for complex numbers, else 1; e and r: bytes of an element of the
 * operands and of the result.
 */
#include "cost/builtin.h"

#include "base/text.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MNK(m, n, k) "let m=" m "; let n=" n "; let k=" k "; "
#define MN(m, n)     "let m=" m "; let n=" n "; "
#define NK(n, k)     "let n=" n "; let k=" k "; "

#define GEMM	   "flops=2*x*m*n*k; bytes=e*k*(m+n)+r*m*n"
#define GEMM_BATCH "let b=" /* how many */
#define BATCHED	   "; flops=2*x*m*n*k*b; bytes=b*(e*k*(m+n)+r*m*n)"
/* Products of many shapes: with one shape, which is what PyTorch asks for, the bytes are known. */
#define GROUPED(m, n, k, sizes, count)                                                     \
	"let c=" count "; flops=2*x*groups(" m "," n "," k "," sizes ",c); "               \
	"bytes=eq(c,1)**int(" sizes ")*(e**int(" k ")*(*int(" m ")+*int(" n "))+r**int(" m \
	")**int(" n "))"
#define GEMV "flops=2*x*m*n; bytes=e*(m*n+m+n)"
/* the square operand's side; half of it is read */
#define SIDE   "let s=select(left,m,n); "
#define HALF   "s*(s+1)/2"
#define SYMM   SIDE "flops=2*x*m*n*s; bytes=e*(" HALF "+2*m*n)"
#define TRMM   SIDE "flops=x*m*n*s; bytes=e*(" HALF "+m*n)"
#define SYRK   "flops=x*n*n*k; bytes=e*(n*k+n*(n+1)/2)"
#define SYR2K  "flops=2*x*n*n*k; bytes=e*(2*n*k+n*(n+1)/2)"
#define C_LEFT "let left=eq(u32(arg2),141); "				   /* CblasLeft */
#define F_LEFT "let side=load8(arg1); let left=eq(side,76)+eq(side,108); " /* 'L', 'l' */

static const struct blas_function {
	const char *name;
	const char *c, *fortran; /* NULL: there is none */
} blas_functions[] = {
	{"gemm", MNK("int(arg4)", "int(arg5)", "int(arg6)") GEMM,
	 MNK("*int(arg3)", "*int(arg4)", "*int(arg5)") GEMM},
	{"gemm3m", MNK("int(arg4)", "int(arg5)", "int(arg6)") GEMM,
	 MNK("*int(arg3)", "*int(arg4)", "*int(arg5)") GEMM},
	/* MKL: an operand that has been packed before */
	{"gemm_compute", MNK("int(arg4)", "int(arg5)", "int(arg6)") GEMM,
	 MNK("*int(arg3)", "*int(arg4)", "*int(arg5)") GEMM},
	/* one triangle of the result: as syrk */
	{"gemmt", NK("int(arg5)", "int(arg6)") "flops=x*n*n*k; bytes=e*(2*n*k+n*(n+1)/2)",
	 NK("*int(arg4)", "*int(arg5)") "flops=x*n*n*k; bytes=e*(2*n*k+n*(n+1)/2)"},
	{"gemmtr", NK("int(arg5)", "int(arg6)") "flops=x*n*n*k; bytes=e*(2*n*k+n*(n+1)/2)",
	 NK("*int(arg4)", "*int(arg5)") "flops=x*n*n*k; bytes=e*(2*n*k+n*(n+1)/2)"},
	{"gemm_batch", GROUPED("arg4", "arg5", "arg6", "stack10", "int(stack9)"),
	 GROUPED("arg3", "arg4", "arg5", "stack9", "*int(stack8)")},
	/* real alpha and beta are in vector registers, complex ones are pointers on the stack */
	{"gemm_batch_strided",
	 MNK("int(arg4)", "int(arg5)", "int(arg6)") GEMM_BATCH
	 "int(select(eq(x,4),stack12,stack10))" BATCHED,
	 MNK("*int(arg3)", "*int(arg4)", "*int(arg5)") GEMM_BATCH "*int(stack11)" BATCHED},
	{"gemv", MN("int(arg3)", "int(arg4)") GEMV, MN("*int(arg2)", "*int(arg3)") GEMV},
	{"symm", C_LEFT MN("int(arg4)", "int(arg5)") SYMM,
	 F_LEFT MN("*int(arg3)", "*int(arg4)") SYMM},
	{"hemm", C_LEFT MN("int(arg4)", "int(arg5)") SYMM,
	 F_LEFT MN("*int(arg3)", "*int(arg4)") SYMM},
	{"syrk", NK("int(arg4)", "int(arg5)") SYRK, NK("*int(arg3)", "*int(arg4)") SYRK},
	{"herk", NK("int(arg4)", "int(arg5)") SYRK, NK("*int(arg3)", "*int(arg4)") SYRK},
	{"syr2k", NK("int(arg4)", "int(arg5)") SYR2K, NK("*int(arg3)", "*int(arg4)") SYR2K},
	{"her2k", NK("int(arg4)", "int(arg5)") SYR2K, NK("*int(arg3)", "*int(arg4)") SYR2K},
	{"trmm", C_LEFT MN("int(arg6)", "int(stack1)") TRMM,
	 F_LEFT MN("*int(arg5)", "*int(arg6)") TRMM},
	{"trsm", C_LEFT MN("int(arg6)", "int(stack1)") TRMM,
	 F_LEFT MN("*int(arg5)", "*int(arg6)") TRMM},
};

/* Prefixes of a name. */
static const struct blas_type {
	const char *letters, *dtype;
	int x, e, r;
} blas_types[] = {
	{"s", "f32", 1, 4, 4},	  {"d", "f64", 1, 8, 8}, {"c", "c64", 4, 8, 8},
	{"z", "c128", 4, 16, 16}, {"h", "f16", 1, 2, 2}, {"sb", "bf16", 1, 2, 4},
	{"sh", "f16", 1, 2, 4},
};

/* MKL's: a name of their own instead of a letter. */
static const struct {
	const char *name;
	struct blas_type type;
} mixed_gemms[] = {
	{"gemm_bf16bf16f32", {"", "bf16", 1, 2, 4}},
	{"gemm_f16f16f32", {"", "f16", 1, 2, 4}},
};

/* Suffixes; their order does not matter, for all of the name must match. */
static const struct {
	const char *text;
	bool wide;
} tails[] = {
	{"", false}, {"_", false}, {"64_", true}, {"_64_", true}, {"64", true}, {"_64", true},
};

/* Libraries with 64-bit integers under any name. */
static bool is_wide_library(const char *base)
{
	return !fnmatch("*blas64*", base, 0) || !fnmatch("*blas*-ilp64*", base, 0) ||
	       !fnmatch("libmkl_*_ilp64*", base, 0);
}

struct blas_symbol {
	const struct blas_function *function;
	const struct blas_type *type;
	bool c, wide;
};

/* Is the text a function's name and one of its tails? Says whether its integers are wide. */
static bool has_name(const char *text, const char *name, bool prefixed, bool *wide)
{
	size_t length = strlen(name);

	for (size_t i = 0; begins_with(text, name) && i < sizeof(tails) / sizeof(tails[0]); i++) {
		/* "sgemm" alone is a common name; BLAS's has a tail or a prefix */
		if (strcmp(text + length, tails[i].text) || !(*tails[i].text || prefixed))
			continue;
		*wide = tails[i].wide;
		return true;
	}
	return false;
}

/* type and name at once: "gemv64_" */
static bool read_function(const char *text, const struct blas_type *type, bool prefixed,
			  struct blas_symbol *symbol)
{
	for (size_t i = 0; i < sizeof(blas_functions) / sizeof(blas_functions[0]); i++) {
		if (!has_name(text, blas_functions[i].name, prefixed, &symbol->wide))
			continue;
		symbol->function = &blas_functions[i];
		symbol->type = type;
		return true;
	}
	return false;
}

/* [scipy_] [cblas_] LETTERS NAME TAIL */
static bool read_symbol(const char *text, struct blas_symbol *symbol)
{
	const char *stem = text;

	*symbol = (struct blas_symbol){0};
	if (begins_with(stem, "scipy_"))
		stem += 6;
	if (begins_with(stem, "cblas_")) {
		stem += 6;
		symbol->c = true;
	}
	/* nearly all of half a million names end here */
	if (!*stem || !strchr("sdczhg", *stem))
		return false;
	for (size_t i = 0; i < sizeof(blas_types) / sizeof(blas_types[0]); i++) {
		size_t length = strlen(blas_types[i].letters);

		if (!strncmp(stem, blas_types[i].letters, length) &&
		    read_function(stem + length, &blas_types[i], stem != text, symbol))
			return true;
	}
	for (size_t i = 0; i < sizeof(mixed_gemms) / sizeof(mixed_gemms[0]); i++) {
		if (!has_name(stem, mixed_gemms[i].name, stem != text, &symbol->wide))
			continue;
		symbol->function = &blas_functions[0];
		symbol->type = &mixed_gemms[i].type;
		return true;
	}
	return false;
}

static void describe(const struct blas_type *type, bool wide, const char *what, const char *text,
		     struct builtin *builtin)
{
	builtin->source = PERFX_SOURCE_BLAS;
	builtin->by_default = true;
	snprintf(builtin->text, sizeof(builtin->text),
		 "%s; int=%d; dtype=%s; let x=%d; let e=%d; let r=%d; %s", what, wide ? 64 : 32,
		 type->dtype, type->x, type->e, type->r, text);
}

/* The costs of XLA's operations contain the kernels that they call, where these costs can be read.
 */
static const char *dnnl_kind(const char *base_name, const char *symbol)
{
	if (!fnmatch("libjax_common*", base_name, 0) || !fnmatch("xla_extension*", base_name, 0) ||
	    !fnmatch("libxla*", base_name, 0))
		return "worker; leaf";
	/* what blocks of Eigen's products call, for XLA's operations and for other operators */
	if (!strcmp(symbol, "dnnl_sgemm") && !fnmatch("libtensorflow*", base_name, 0))
		return "shared; leaf";
	return "kernel; leaf";
}

/* oneDNN's include/oneapi/dnnl/dnnl.h and dnnl_threadpool.h: (char transa, char transb, dnnl_dim_t
 * M, N, K, …), 64 bits. */
static bool find_dnnl(const char *base_name, const char *symbol, struct builtin *builtin)
{
	static const struct {
		const char *name;
		struct blas_type type;
	} names[] = {
		{"dnnl_sgemm", {"", "f32", 1, 4, 4}},
		{"dnnl_threadpool_interop_sgemm", {"", "f32", 1, 4, 4}},
		{"dnnl_gemm_bf16bf16f32", {"", "bf16", 1, 2, 4}},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(symbol, names[i].name) != 0)
			continue;
		describe(&names[i].type, true, dnnl_kind(base_name, symbol),
			 MNK("int(arg3)", "int(arg4)", "int(arg5)") GEMM, builtin);
		return true;
	}
	return false;
}

const char builtin_ynn_prefix[] = "_ZN3ynn";

/*
 * The dot kernels that XLA calls, of YNNPACK: void ynn::dot_TYPES_SHAPE(size_t m, n, k3, k2, k1, …)
 * by its ynnpack/kernels/dot/dot.h: the reduction has three dimensions. The plain ones lie in an
 * unnamed namespace and say their types as template arguments.
 */
static bool find_ynn(const char *symbol, struct builtin *builtin)
{
	static const struct {
		const char *types;
		struct blas_type type;
	} types[] = {
		{"dot_fp32_", {"", "f32", 1, 4, 4}},
		{"dot_fp64_", {"", "f64", 1, 8, 8}},
		{"dot_bf16_bf16_fp32_", {"", "bf16", 1, 2, 4}},
		{"dot_fp16_fp16_fp32_", {"", "f16", 1, 2, 4}},
		{"dot_int8_int8_int32_", {"", "integer", 1, 1, 4}},
		{"dot_uint8_int8_int32_", {"", "integer", 1, 1, 4}},
		{"IfffEE", {"", "f32", 1, 4, 4}},
		{"IdddEE", {"", "f64", 1, 8, 8}},
		{"INS_8bfloat16ES2_fEE", {"", "bf16", 1, 2, 4}},
		{"INS_4halfES2_fEE", {"", "f16", 1, 2, 4}},
	};
	const char *rest = symbol;
	char *name;

	if (!begins_with(symbol, builtin_ynn_prefix))
		return false;
	rest += strlen(builtin_ynn_prefix);
	if (begins_with(rest, "12_GLOBAL__N_1"))
		rest += 14;
	strtoul(rest, &name, 10);
	if (name == rest || !begins_with(name, "dot_") || strstr(name, ".cold"))
		return false;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		const char *at = strstr(name, types[i].types);

		if (!at || (*types[i].types == 'd' && at != name))
			continue;
		describe(&types[i].type, true, "worker; leaf",
			 MNK("int(arg1)", "int(arg2)", "int(arg3)*int(arg4)*int(arg5)") GEMM,
			 builtin);
		builtin->source = PERFX_SOURCE_XLA;
		return true;
	}
	return false;
}

bool builtin_blas(const char *base_name, const char *symbol, struct builtin *builtin)
{
	struct blas_symbol found;
	const char *text;

	if (*symbol == '_')
		return find_ynn(symbol, builtin);
	if (find_dnnl(base_name, symbol, builtin))
		return true;
	if (!read_symbol(symbol, &found))
		return false;
	text = found.c ? found.function->c : found.function->fortran;
	if (!text)
		return false;
	describe(found.type, found.wide || is_wide_library(base_name), "kernel", text, builtin);
	return true;
}
