// SPDX-License-Identifier: BSD-2-Clause
#include "plan/defaults.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* Names that differ by release and ABI: matched by prefix (of the mangled name). */
static const struct {
	const char *prefix;
	enum perfx_source source;
	bool often;
} prefixes[] = {
	/* a backward pass; one call a step */
	{"_ZN5torch8autograd6Engine7executeE", PERFX_SOURCE_TORCH, false},
	/* one call of a jitted function */
	{"_ZNK3xla23PjRtCpuLoadedExecutable7ExecuteE", PERFX_SOURCE_JAX, false},
	/* one operation of a compiled module; asynchronous ones return when submitted */
	{"_ZN3xla3cpu13ThunkExecutor13TracedExecuteE", PERFX_SOURCE_XLA, true},
};

/* PyTorch's operators that do the work of a training step; `call` of at::_ops::NAME, and of its
 * _out form, which compiled code uses. Sorted. */
static const char *const torch_ops[] = {
	"_addmm_activation",
	"_embedding_bag",
	"_flash_attention_forward",
	"_fused_adam_",
	"_fused_adamw_",
	"_fused_sgd_",
	"_log_softmax",
	"_log_softmax_backward_data",
	"_scaled_dot_product_cudnn_attention",
	"_scaled_dot_product_cudnn_attention_backward",
	"_scaled_dot_product_efficient_attention",
	"_scaled_dot_product_efficient_attention_backward",
	"_scaled_dot_product_flash_attention",
	"_scaled_dot_product_flash_attention_backward",
	"_scaled_dot_product_flash_attention_for_cpu",
	"_scaled_dot_product_flash_attention_for_cpu_backward",
	"_scaled_mm",
	"_softmax",
	"_softmax_backward_data",
	"addmm",
	"addmv",
	"avg_pool2d",
	"avg_pool2d_backward",
	"baddbmm",
	"bmm",
	"convolution",
	"convolution_backward",
	"embedding",
	"embedding_dense_backward",
	"gelu",
	"gelu_backward",
	"max_pool2d_with_indices",
	"max_pool2d_with_indices_backward",
	"mkldnn_rnn_layer",
	"mm",
	"mv",
	"native_batch_norm",
	"native_batch_norm_backward",
	"native_layer_norm",
	"native_layer_norm_backward",
	"nll_loss_backward",
	"nll_loss_forward",
};

static int compare_name(const void *key, const void *element)
{
	return strcmp(key, *(const char *const *)element);
}

/* "_ZN2at4_ops" <length> <name> "4callE" …: the mangling of at::_ops::NAME::call. */
static bool torch_op_name(const char *symbol, char *name, size_t size)
{
	static const char prefix[] = "_ZN2at4_ops";
	char *end;
	size_t length;

	if (strncmp(symbol, prefix, sizeof(prefix) - 1))
		return false;
	length = strtoul(symbol + sizeof(prefix) - 1, &end, 10);
	if (!length || length >= size || strlen(end) < length ||
	    strncmp(end + length, "4callE", 6) != 0)
		return false;
	memcpy(name, end, length);
	name[length] = '\0';
	return true;
}

static bool is_torch_leaf(const char *symbol)
{
	char name[128];
	size_t length;

	if (!torch_op_name(symbol, name, sizeof(name)))
		return false;
	length = strlen(name);
	if (length > 4 && !strcmp(name + length - 4, "_out"))
		name[length - 4] = '\0';
	return bsearch(name, torch_ops, sizeof(torch_ops) / sizeof(torch_ops[0]),
		       sizeof(torch_ops[0]), compare_name);
}

/* What follows the prefixes of NumPy's and SciPy's copies and of the C interface. */
static const char *skip_blas_prefixes(const char *symbol)
{
	if (!strncmp(symbol, "scipy_", 6))
		symbol += 6;
	if (!strncmp(symbol, "cblas_", 6))
		symbol += 6;
	return symbol;
}

/*
 * BLAS level 3 (and gemv): [scipy_] [cblas_] {s,d,c,z,h,sb} NAME [64] [_] [64_], the spellings of
 * OpenBLAS, MKL, reference BLAS and the renamed copies that NumPy and SciPy ship.
 */
static bool is_blas(const char *symbol)
{
	static const char *const names[] = {"gemm3m",	  "gemm_batch_strided",
					    "gemm_batch", "gemmt",
					    "gemm",	  "gemv",
					    "symm",	  "syrk",
					    "syr2k",	  "trmm",
					    "trsm",	  "hemm",
					    "herk"};
	static const char *const tails[] = {"", "_", "64_", "_64_", "64", "_64"};
	const char *stem = skip_blas_prefixes(symbol);
	bool prefixed = stem != symbol;

	symbol = stem;
	if (!strncmp(symbol, "sb", 2) || !strncmp(symbol, "sh", 2))
		symbol += 2;
	else if (strchr("sdczh", *symbol) && *symbol)
		symbol++;
	else
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);

		if (strncmp(symbol, names[i], length))
			continue;
		for (size_t j = 0; j < sizeof(tails) / sizeof(tails[0]); j++)
			/* "sgemm" alone is a common name; BLAS's has a tail or a prefix */
			if (!strcmp(symbol + length, tails[j]) && (*tails[j] || prefixed))
				return true;
	}
	return false;
}

/* Only in their own libraries: anybody's function may be called cuSomething. */
static bool is_entry_point(const char *base, const char *library, const char *symbol,
			   const char *prefix)
{
	size_t length = strlen(prefix);

	return !fnmatch(library, base, 0) && !strncmp(symbol, prefix, length) &&
	       isupper((unsigned char)symbol[length]);
}

static enum perfx_source source_of_c_library(const char *base, const char *symbol)
{
	if (is_blas(symbol) || !strncmp(symbol, "dnnl_sgemm", 10))
		return PERFX_SOURCE_BLAS;
	if (is_entry_point(base, "libnccl*", symbol, "nccl"))
		return PERFX_SOURCE_NCCL;
	if (is_entry_point(base, "libcudart*", symbol, "cuda") ||
	    is_entry_point(base, "libcuda.so*", symbol, "cu") ||
	    is_entry_point(base, "libcublas*", symbol, "cublas"))
		return PERFX_SOURCE_CUDA;
	return PERFX_SOURCE_INVALID;
}

bool default_module(const char *base_name)
{
	static const char *const globs[] = {
		"libtorch_cpu*",     "*blas*",	"libmkl_*",	  "libjax_common*",
		"xla_extension*",    "libxla*", "libtensorflow*", "_pywrap_tensorflow*",
		"libtensorflow_cc*",
	};

	for (size_t i = 0; i < sizeof(globs) / sizeof(globs[0]); i++)
		if (!fnmatch(globs[i], base_name, 0))
			return true;
	return false;
}

static enum perfx_source source_by_prefix(const char *symbol)
{
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(symbol, prefixes[i].prefix, strlen(prefixes[i].prefix)))
			return prefixes[i].source;
	return PERFX_SOURCE_INVALID;
}

bool default_often(const char *symbol_name)
{
	const char *stem = skip_blas_prefixes(symbol_name);

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(symbol_name, prefixes[i].prefix, strlen(prefixes[i].prefix)))
			return prefixes[i].often;
	return (*stem == 's' || *stem == 'd') &&
	       (!strncmp(stem + 1, "gemm", 4) || !strncmp(stem + 1, "gemv", 4)) &&
	       is_blas(symbol_name);
}

enum perfx_source default_function(const char *symbol_name)
{
	enum perfx_source source = source_by_prefix(symbol_name);

	if (source)
		return source;
	if (is_torch_leaf(symbol_name))
		return PERFX_SOURCE_TORCH;
	return is_blas(symbol_name) ? PERFX_SOURCE_BLAS : PERFX_SOURCE_INVALID;
}

enum perfx_source source_of_function(const char *base_name, const char *symbol_name)
{
	enum perfx_source source = source_by_prefix(symbol_name);
	char name[128];

	if (!source && torch_op_name(symbol_name, name, sizeof(name)))
		source = PERFX_SOURCE_TORCH;
	if (!source)
		source = source_of_c_library(base_name, symbol_name);
	return source ? source : PERFX_SOURCE_SYMBOL;
}

bool return_probe_is_safe(const char *base_name, const char *symbol_name)
{
	static const char *const allocators[] = {
		"malloc",
		"calloc",
		"realloc",
		"reallocarray",
		"free",
		"posix_memalign",
		"aligned_alloc",
		"memalign",
		"valloc",
		"pvalloc",
		"malloc_usable_size",
	};

	if (source_of_c_library(base_name, symbol_name))
		return true;
	for (size_t i = 0; i < sizeof(allocators) / sizeof(allocators[0]); i++)
		if (!strcmp(symbol_name, allocators[i]))
			return true;
	return false;
}
