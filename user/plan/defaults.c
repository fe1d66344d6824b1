// SPDX-License-Identifier: BSD-2-Clause
#include "plan/defaults.h"

#include "base/text.h"
#include "cost/builtin.h"
#include "cost/collectives.h"
#include "cost/gpu_calls.h"
#include "plan/allocators.h"
#include "plan/annotations.h"
#include "plan/operators.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* A backward pass of TensorFlow's eager mode; also called while a tf.function is traced. */
#define TAPE_GRADIENT "_Z19TFE_Py_TapeGradientP"

#define THUNK_RUNNER "_ZN3xla3cpu13ThunkExecutor13TracedExecuteE"

/* Names that differ by release and ABI: matched by prefix (of the mangled name). */
static const struct {
	const char *prefix;
	enum perfx_source source;
	bool may_be_step;
} prefixes[] = {
	/* a backward pass; one call a step */
	{"_ZN5torch8autograd6Engine7executeE", PERFX_SOURCE_TORCH, true},
	/* one collective of gloo's, from this rank's arrival to its end */
	{COLLECTIVE_GLOO_SYMBOL, PERFX_SOURCE_TORCH, false},
	{TAPE_GRADIENT, PERFX_SOURCE_TF, true},
	/* one call of an operation, or of a function that is a step */
	{"TFE_Execute", PERFX_SOURCE_TF, true},
	/* one run of a graph */
	{"TF_SessionRun", PERFX_SOURCE_TF, false},
	/* one call of a jitted function */
	{"_ZNK3xla23PjRtCpuLoadedExecutable7ExecuteE", PERFX_SOURCE_JAX, true},
	{"_ZNK3xla17PjRtCpuExecutable7ExecuteE", PERFX_SOURCE_JAX, true}, /* jaxlib 0.7 */
	{"_ZN3xla17TfrtCpuExecutable7ExecuteE", PERFX_SOURCE_JAX, true},  /* before */
	/* one module compiled: of a function, for the shapes that it is called with */
	{"_ZN3xla13PjRtCpuClient14CompileAndLoadE", PERFX_SOURCE_JAX, false},
	/* an array from the host's memory, to it, to another device; on the CPU, where the host may
	 * look at the array itself, AcquireExternalReference gives it */
	{"_ZN3xla16CommonPjRtClient20BufferFromHostBufferE", PERFX_SOURCE_JAX, false},
	{"_ZN3xla20CommonPjRtBufferImpl24AcquireExternalReferenceE", PERFX_SOURCE_JAX, false},
	{"_ZN3xla20CommonPjRtBufferImpl9ToLiteralE", PERFX_SOURCE_JAX, false},
	{"_ZN3xla20CommonPjRtBufferImpl13CopyRawToHostE", PERFX_SOURCE_JAX, false},
	{"_ZN3xla20CommonPjRtBufferImpl17CopyToMemorySpaceE", PERFX_SOURCE_JAX, false},
	/* one operation of a compiled module; asynchronous ones return when submitted */
	{THUNK_RUNNER, PERFX_SOURCE_XLA, false},
};

/* PyTorch's operators that take a part of a training step without multiplying matrices; `call` of
 * at::_ops::NAME, and of its _out form, which compiled code uses. Sorted. */
static const char *const torch_ops[] = {"_embedding_bag",
					"_fused_adam_",
					"_fused_adamw_",
					"_fused_sgd_",
					"_log_softmax",
					"_log_softmax_backward_data",
					"_softmax",
					"_softmax_backward_data",
					"avg_pool2d",
					"avg_pool2d_backward",
					"embedding",
					"embedding_dense_backward",
					"gelu",
					"gelu_backward",
					"max_pool2d_with_indices",
					"max_pool2d_with_indices_backward",
					"native_batch_norm",
					"native_batch_norm_backward",
					"native_layer_norm",
					"native_layer_norm_backward",
					"nll_loss_backward",
					"nll_loss_forward"};

static int compare_name(const void *key, const void *element)
{
	return strcmp(key, *(const char *const *)element);
}

static bool is_timed_operator(const char *symbol)
{
	char name[128];
	size_t length;

	if (!builtin_torch_name(symbol, name, sizeof(name)))
		return false;
	length = strlen(name);
	if (length > 4 && !strcmp(name + length - 4, "_out"))
		name[length - 4] = '\0';
	return bsearch(name, torch_ops, sizeof(torch_ops) / sizeof(torch_ops[0]),
		       sizeof(torch_ops[0]), compare_name);
}

/* Only in their own libraries: anybody's function may be called cuSomething. */
static bool is_entry_point(const char *base, const char *library, const char *symbol,
			   const char *prefix)
{
	size_t length = strlen(prefix);

	return !strncmp(symbol, prefix, length) && isupper((unsigned char)symbol[length]) &&
	       !fnmatch(library, base, 0);
}

static enum perfx_source source_of_c_library(const char *base, const char *symbol)
{
	struct builtin builtin;

	if (builtin_blas(base, symbol, &builtin) && builtin.source == PERFX_SOURCE_BLAS)
		return PERFX_SOURCE_BLAS;
	if (is_entry_point(base, "libnccl*", symbol, "nccl") ||
	    is_entry_point(base, "librccl*", symbol, "nccl"))
		return PERFX_SOURCE_NCCL;
	if (collective_of_mpi(base, symbol))
		return PERFX_SOURCE_MPI;
	if (is_entry_point(base, "libcudart*", symbol, "cuda") ||
	    is_entry_point(base, "libcudart*", symbol, "__cuda") ||
	    is_entry_point(base, "libcuda.so*", symbol, "cu") ||
	    is_entry_point(base, "libcublas*", symbol, "cublas"))
		return PERFX_SOURCE_CUDA;
	return PERFX_SOURCE_INVALID;
}

bool runs_thunks(const char *symbol_name)
{
	return begins_with(symbol_name, THUNK_RUNNER);
}

bool default_module(const char *base_name)
{
	static const char *const globs[] = {"libtorch_cpu*",
					    "*blas*",
					    "libmkl_*",
					    "libjax_common*",
					    "xla_extension*",
					    "libxla*",
					    "libtensorflow*",
					    "_pywrap_tensorflow*",
					    "libtensorflow_cc*",
					    "libdnnl*",
					    "libcublas*",
					    "libnccl*",
					    "librccl*",
					    "libcudart*",
					    "libcuda.so*",
					    "libmpi*",
					    "lib_pywrap_tensorflow*",
					    NULL};

	return text_matches_one_of(base_name, globs);
}

bool cuda_module(const char *base_name)
{
	return begins_with(base_name, "libcudart") || begins_with(base_name, "libcublas") ||
	       begins_with(base_name, "libnccl");
}

bool profiler_module(const char *base_name)
{
	return begins_with(base_name, "libcupti.so");
}

bool profiler_function(const char *base_name, const char *symbol_name)
{
	return profiler_module(base_name) &&
	       (!strcmp(symbol_name, "cuptiSubscribe") ||
		!strcmp(symbol_name, "cuptiSubscribe_v2") ||
		!strcmp(symbol_name, "cuptiActivityRegisterCallbacks"));
}

static enum perfx_source source_by_prefix(const char *symbol)
{
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (begins_with(symbol, prefixes[i].prefix))
			return prefixes[i].source;
	return PERFX_SOURCE_INVALID;
}

/* Adds the prefixes of their mangled names. 0 or -ENOMEM. */
static int default_prefixes(struct prefixes *set)
{
	int err = builtin_prefixes(set);

	for (size_t i = 0; !err && i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		err = prefixes_add(set, prefixes[i].prefix);
	return err;
}

bool default_range(const char *symbol_name)
{
	return begins_with(symbol_name, TAPE_GRADIENT);
}

bool default_step(const char *symbol_name)
{
	static const char backward[] = "_ZN5torch8autograd6Engine7executeE";

	return begins_with(symbol_name, backward) || default_range(symbol_name) ||
	       !strcmp(symbol_name, "TF_SessionRun");
}

bool default_may_be_step(const char *symbol_name)
{
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (begins_with(symbol_name, prefixes[i].prefix))
			return prefixes[i].may_be_step;
	return false;
}

enum perfx_source default_function(const char *base_name, const char *symbol_name)
{
	enum perfx_source source = source_by_prefix(symbol_name);
	struct builtin builtin;

	if (source)
		return source;
	if (builtin_find(base_name, symbol_name, &builtin))
		return builtin.by_default ? builtin.source : PERFX_SOURCE_INVALID;
	if (gpu_call_is(base_name, symbol_name))
		return PERFX_SOURCE_CUDA;
	if (collective_of_mpi(base_name, symbol_name))
		return PERFX_SOURCE_MPI;
	return is_timed_operator(symbol_name) ? PERFX_SOURCE_TORCH : PERFX_SOURCE_INVALID;
}

enum perfx_source source_of_function(const char *base_name, const char *symbol_name)
{
	enum perfx_source source = source_by_prefix(symbol_name);
	struct builtin builtin;
	char name[128];

	if (!source && builtin_find(base_name, symbol_name, &builtin))
		source = builtin.source;
	if (!source && builtin_torch_name(symbol_name, name, sizeof(name)))
		source = PERFX_SOURCE_TORCH;
	if (!source)
		source = source_of_c_library(base_name, symbol_name);
	return source ? source : PERFX_SOURCE_SYMBOL;
}

bool return_probe_is_safe(const char *base_name, const char *symbol_name)
{
	static const char *const allocators[] = {"malloc",
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
						 NULL};

	return source_of_c_library(base_name, symbol_name) ||
	       text_is_one_of(symbol_name, allocators);
}

int interest_collect(struct prefixes *mangled, const struct operators *operators)
{
	int err = default_prefixes(mangled);

	err = err ?: operators__prefixes(operators, mangled);

	if (!err)
		err = annotation_prefixes(mangled);
	if (!err)
		err = allocator_prefixes(mangled);
	prefixes_sort(mangled);
	return err;
}

/* Nearly all names of a big library are mangled. C's are few: there the rules themselves are asked.
 */
bool interest_has(const char *name, void *ctx)
{
	const struct interest *interest = ctx;
	const struct module_names module = {.base = interest->base};
	enum host_level level;
	struct perfx_annotation annotation;
	const char *shown;

	if (begins_with(name, "_Z"))
		return prefixes_match(interest->mangled, name);
	return default_function(interest->base, name) ||
	       operators__find(interest->operators, &module, name) ||
	       profiler_function(interest->base, name) ||
	       annotation_find(name, &annotation, &shown, &level) || allocator_concerns(name) ||
	       (is_c_library(interest->base) && file_call_find(name));
}
