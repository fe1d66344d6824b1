// SPDX-License-Identifier: BSD-2-Clause
/*
 * Signatures: malloc(3), posix_memalign(3); jemalloc(3); gperftools' tcmalloc.h; mimalloc.h; the
 * Itanium C++ ABI's names of operator new and delete; c10/core/{CPU,}Allocator.h of PyTorch;
 * CPython's tracemalloc.h; tsl/framework/bfc_allocator.h; ggml.c; CUDA's runtime and driver API.
 *
 * Left out, because they do not act on one block: xallocx and mi_expand (resize in place),
 * mi_heap_destroy, cudaMalloc3D, CUDA arrays.
 */
#include "plan/allocators.h"

#include "base/grow.h"
#include "base/text.h"

#include <fnmatch.h>
#include <string.h>
#include <sys/types.h>

/* Spellings of one function: the C library's own, and those with a prefix. */
enum {
	PLAIN = 1, /* where the file defines malloc */
	JE = 2,
	TC = 4,
	MI = 8,
	ALL_C = PLAIN | JE | TC | MI,
};

#define ALLOC_PROBE(what, ...) .alloc_probe = {.action = PERFX_ACTION_##what, __VA_ARGS__}
#define GIVES(bytes)	       ALLOC_PROBE(ALLOCATE, .size_arg = (bytes))
#define GIVES_N(count, bytes)  ALLOC_PROBE(ALLOCATE, .count_arg = (count), .size_arg = (bytes))
#define GIVES_OUT(pointer, bytes)                                                   \
	ALLOC_PROBE(ALLOCATE, .result = PERFX_RESULT_OUT, .pointer_arg = (pointer), \
		    .size_arg = (bytes))
#define MOVES(pointer, bytes) ALLOC_PROBE(REALLOCATE, .pointer_arg = (pointer), .size_arg = (bytes))
#define MOVES_N(pointer, n, bytes) \
	ALLOC_PROBE(REALLOCATE, .pointer_arg = (pointer), .count_arg = (n), .size_arg = (bytes))
#define TAKES(pointer) ALLOC_PROBE(FREE, .pointer_arg = (pointer))
#define MAPS	       ALLOC_PROBE(MAP, .size_arg = 2, .count_arg = 3, .tag_arg = 4)
#define UNMAPS	       ALLOC_PROBE(UNMAP, .pointer_arg = 1, .size_arg = 2, .flags = PERFX_ALLOC_F_FORWARDS)
#define REMAPS	       ALLOC_PROBE(REMAP, .pointer_arg = 1, .size_arg = 2, .count_arg = 3)
#define BREAKS	       ALLOC_PROBE(BREAK)

/* The usual function of a kind stands first. */
static const struct c_function {
	const char *symbol;
	unsigned spellings;
	struct perfx_alloc_probe alloc_probe;
	bool is_usual, throws;
} c_functions[] = {
	{"malloc", ALL_C, GIVES(1), .is_usual = true},
	{"free", ALL_C, TAKES(1), .is_usual = true},
	{"calloc", ALL_C, GIVES_N(1, 2)},
	{"realloc", ALL_C, MOVES(1, 2)},
	{"reallocarray", ALL_C, MOVES_N(1, 2, 3)},
	{"posix_memalign", ALL_C, GIVES_OUT(1, 3)},
	{"aligned_alloc", ALL_C, GIVES(2)},
	{"memalign", ALL_C, GIVES(2)},
	{"valloc", ALL_C, GIVES(1)},
	{"pvalloc", ALL_C, GIVES(1)},
	{"cfree", PLAIN, TAKES(1)},
	{"free_sized", PLAIN | TC, TAKES(1)},
	{"free_aligned_sized", PLAIN | TC, TAKES(1)},
	{"mmap", PLAIN, MAPS},
	{"mmap64", PLAIN, MAPS},
	{"__mmap", PLAIN, MAPS},
	{"munmap", PLAIN, UNMAPS},
	{"__munmap", PLAIN, UNMAPS},
	{"mremap", PLAIN, REMAPS},
	{"__mremap", PLAIN, REMAPS},
	{"brk", PLAIN, BREAKS},
	{"__brk", PLAIN, BREAKS},
	{"sbrk", PLAIN, BREAKS},
	{"__sbrk", PLAIN, BREAKS},
	{"mallocx", PLAIN | JE, GIVES(1)},
	{"rallocx", PLAIN | JE, MOVES(1, 2)},
	{"dallocx", PLAIN | JE, TAKES(1)},
	{"sdallocx", PLAIN | JE, TAKES(1)},
	{"malloc_skip_new_handler", TC, GIVES(1)},
	{"new", TC | MI, GIVES(1), .throws = true},
	{"newarray", TC, GIVES(1), .throws = true},
	{"new_aligned", TC | MI, GIVES(1), .throws = true},
	{"newarray_aligned", TC, GIVES(1), .throws = true},
	{"new_nothrow", TC | MI, GIVES(1)},
	{"newarray_nothrow", TC, GIVES(1)},
	{"new_aligned_nothrow", TC | MI, GIVES(1)},
	{"newarray_aligned_nothrow", TC, GIVES(1)},
	{"delete", TC, TAKES(1)},
	{"delete_sized", TC, TAKES(1)},
	{"delete_nothrow", TC, TAKES(1)},
	{"delete_aligned", TC, TAKES(1)},
	{"delete_sized_aligned", TC, TAKES(1)},
	{"delete_aligned_nothrow", TC, TAKES(1)},
	{"deletearray", TC, TAKES(1)},
	{"deletearray_sized", TC, TAKES(1)},
	{"deletearray_nothrow", TC, TAKES(1)},
	{"deletearray_aligned", TC, TAKES(1)},
	{"deletearray_sized_aligned", TC, TAKES(1)},
	{"deletearray_aligned_nothrow", TC, TAKES(1)},
	{"malloc_small", MI, GIVES(1)},
	{"zalloc", MI, GIVES(1)},
	{"zalloc_small", MI, GIVES(1)},
	{"mallocn", MI, GIVES_N(1, 2)},
	{"reallocn", MI, MOVES_N(1, 2, 3)},
	{"reallocf", PLAIN | MI, MOVES(1, 2)},
	{"rezalloc", MI, MOVES(1, 2)},
	{"recalloc", MI, MOVES_N(1, 2, 3)},
	{"free_size", MI, TAKES(1)},
	{"free_size_aligned", MI, TAKES(1)},
	{"free_aligned", MI, TAKES(1)},
	{"malloc_aligned", MI, GIVES(1)},
	{"malloc_aligned_at", MI, GIVES(1)},
	{"zalloc_aligned", MI, GIVES(1)},
	{"zalloc_aligned_at", MI, GIVES(1)},
	{"calloc_aligned", MI, GIVES_N(1, 2)},
	{"calloc_aligned_at", MI, GIVES_N(1, 2)},
	{"realloc_aligned", MI, MOVES(1, 2)},
	{"realloc_aligned_at", MI, MOVES(1, 2)},
	{"rezalloc_aligned", MI, MOVES(1, 2)},
	{"rezalloc_aligned_at", MI, MOVES(1, 2)},
	{"recalloc_aligned", MI, MOVES_N(1, 2, 3)},
	{"recalloc_aligned_at", MI, MOVES_N(1, 2, 3)},
	{"new_n", MI, GIVES_N(1, 2), .throws = true},
	{"new_realloc", MI, MOVES(1, 2), .throws = true},
	{"new_reallocn", MI, MOVES_N(1, 2, 3), .throws = true},
	{"heap_malloc", MI, GIVES(2)},
	{"heap_malloc_small", MI, GIVES(2)},
	{"heap_zalloc", MI, GIVES(2)},
	{"heap_calloc", MI, GIVES_N(2, 3)},
	{"heap_mallocn", MI, GIVES_N(2, 3)},
	{"heap_realloc", MI, MOVES(2, 3)},
	{"heap_reallocn", MI, MOVES_N(2, 3, 4)},
	{"heap_reallocf", MI, MOVES(2, 3)},
	{"heap_rezalloc", MI, MOVES(2, 3)},
	{"heap_recalloc", MI, MOVES_N(2, 3, 4)},
	{"heap_malloc_aligned", MI, GIVES(2)},
	{"heap_malloc_aligned_at", MI, GIVES(2)},
	{"heap_zalloc_aligned", MI, GIVES(2)},
	{"heap_zalloc_aligned_at", MI, GIVES(2)},
	{"heap_calloc_aligned", MI, GIVES_N(2, 3)},
	{"heap_calloc_aligned_at", MI, GIVES_N(2, 3)},
	{"heap_realloc_aligned", MI, MOVES(2, 3)},
	{"heap_realloc_aligned_at", MI, MOVES(2, 3)},
	{"heap_rezalloc_aligned", MI, MOVES(2, 3)},
	{"heap_rezalloc_aligned_at", MI, MOVES(2, 3)},
	{"heap_recalloc_aligned", MI, MOVES_N(2, 3, 4)},
	{"heap_recalloc_aligned_at", MI, MOVES_N(2, 3, 4)},
	{"heap_alloc_new", MI, GIVES(2), .throws = true},
	{"heap_alloc_new_n", MI, GIVES_N(2, 3), .throws = true},
};

static const struct {
	const char *prefix, *name;
	unsigned spelling;
} spellings[] = {
	{"", NULL, PLAIN},	 {"je_", "jemalloc", JE}, {"_rjem_", "jemalloc", JE},
	{"tc_", "tcmalloc", TC}, {"mi_", "mimalloc", MI},
};

/* operator new and delete by the start of their names, of which there are twenty. Where an
 * allocator does not bring them, libstdc++ does, and these call malloc and free. */
static const struct {
	const char *prefix;
	struct perfx_alloc_probe alloc_probe;
} operators[] = {
	{"_Znwm", GIVES(1)},
	{"_Znam", GIVES(1)},
	{"_ZdlPv", TAKES(1)},
	{"_ZdaPv", TAKES(1)},
};

/* numpy/core/include/numpy/ndarrayobject.h: NPY_TRACE_DOMAIN */
#define NUMPY_DOMAIN 389047
/* c10/core/DeviceType.h */
#define TORCH_CPU  0
#define TORCH_CUDA 1

#define IN(d, what, ...)	  ALLOC_PROBE(what, .domain = PERFX_DOMAIN_##d, __VA_ARGS__)
#define TAGGED(arg, bytes, value) .tag_arg = (arg), .tag_bytes = (bytes), .tag = (value)
#define OUT(d, bytes) \
	IN(d, ALLOCATE, .result = PERFX_RESULT_OUT, .pointer_arg = 1, .size_arg = (bytes))
#define OUT_N(d, bytes, n)                                                                 \
	IN(d, ALLOCATE, .result = PERFX_RESULT_OUT, .pointer_arg = 1, .size_arg = (bytes), \
	   .count_arg = (n))
#define GONE(d)		  IN(d, FREE, .pointer_arg = 1)
#define GONE_BY_DRIVER(d) IN(d, FREE, .pointer_arg = 1, .flags = PERFX_ALLOC_F_FORWARDS)
/* reportMemoryUsageToProfiler(void *, ssize_t, …, Device): the device is two bytes, its type
 * first. One rule for each type that is reported by it. */
#define REPORTED(type) IN(TENSOR, CHANGE, .pointer_arg = 1, .size_arg = 2, TAGGED(5, 1, type))
#define USUAL	       .is_usual = true

#define TORCH_CPU_MEMORY "_ZN3c1025ProfiledCPUMemoryReporter"
#define TORCH_REPORT	 "_ZN3c1027reportMemoryUsageToProfilerEPv"
#define BFC_ALLOCATE	 "12BFCAllocator11AllocateRawEmmRKNS_20AllocationAttributesE"
#define BFC_DEALLOCATE	 "12BFCAllocator13DeallocateRawEPv"

/* By the start of the name; what follows differs by release (long or size_t, ABI). Of TensorFlow's
 * two AllocateRaw the one with two arguments calls the other. */
static const struct library_function {
	const char *symbol, *name;
	struct perfx_alloc_probe alloc_probe;
	bool is_usual, throws;
} library_functions[] = {
	{TORCH_CPU_MEMORY "3NewEPvm", "torch",
	 IN(TENSOR, ALLOCATED, .pointer_arg = 2, .size_arg = 3), USUAL},
	{TORCH_CPU_MEMORY "6DeleteEPv", "torch", IN(TENSOR, FREE, .pointer_arg = 2), USUAL},
	{TORCH_REPORT, "torch-cuda", REPORTED(TORCH_CUDA), USUAL},
	/* shared with other processes; under a memory profiler New and Delete report here too */
	{TORCH_REPORT, "torch-shm", REPORTED(TORCH_CPU), USUAL},
	{"_ZN3tsl" BFC_ALLOCATE, NULL, IN(TENSOR, ALLOCATE, .size_arg = 3), USUAL, .throws = true},
	{"_ZN3tsl" BFC_DEALLOCATE, NULL, IN(TENSOR, FREE, .pointer_arg = 2), USUAL},
	{"_ZN10tensorflow" BFC_ALLOCATE, NULL, IN(TENSOR, ALLOCATE, .size_arg = 3), USUAL,
	 .throws = true},
	{"_ZN10tensorflow" BFC_DEALLOCATE, NULL, IN(TENSOR, FREE, .pointer_arg = 2), USUAL},
};

/* By their whole names, and the same with _ptsz (a stream for each thread). Rows of a pitched
 * allocation are padded: what is counted is what was asked for. */
static const struct library_function exact_functions[] = {
	{"PyTraceMalloc_Track", "numpy",
	 IN(TENSOR, ALLOCATED, .pointer_arg = 2, .size_arg = 3, .flags = PERFX_ALLOC_F_REPLACES,
	    TAGGED(1, 4, NUMPY_DOMAIN)),
	 USUAL},
	{"PyTraceMalloc_Untrack", "numpy",
	 IN(TENSOR, FREE, .pointer_arg = 2, TAGGED(1, 4, NUMPY_DOMAIN)), USUAL},
	{"ggml_aligned_malloc", "ggml", IN(TENSOR, ALLOCATE, .size_arg = 1), USUAL},
	{"ggml_aligned_free", "ggml", GONE(TENSOR), USUAL},
	{"cudaMalloc", "cuda", OUT(GPU, 2), USUAL},
	{"cudaFree", "cuda", GONE_BY_DRIVER(GPU), USUAL},
	{"cudaMallocManaged", "cuda", OUT(GPU, 2)},
	{"cudaMallocAsync", "cuda", OUT(GPU, 2)},
	{"cudaMallocFromPoolAsync", "cuda", OUT(GPU, 2)},
	{"cudaMallocPitch", "cuda", OUT_N(GPU, 3, 4)},
	{"cudaFreeAsync", "cuda", GONE_BY_DRIVER(GPU)},
	{"cuMemAlloc_v2", "cuda", OUT(GPU, 2), USUAL},
	{"cuMemFree_v2", "cuda", GONE(GPU), USUAL},
	{"cuMemAllocManaged", "cuda", OUT(GPU, 2)},
	{"cuMemAllocAsync", "cuda", OUT(GPU, 2)},
	{"cuMemAllocFromPoolAsync", "cuda", OUT(GPU, 2)},
	{"cuMemAllocPitch_v2", "cuda", OUT_N(GPU, 3, 4)},
	{"cuMemFreeAsync", "cuda", GONE(GPU)},
	/* known by its handle; addresses are only mapped to it */
	{"cuMemCreate", "cuda", OUT(GPU, 2)},
	{"cuMemRelease", "cuda", GONE(GPU)},
	{"cudaHostAlloc", "cuda-host", OUT(HOST, 2), USUAL},
	{"cudaMallocHost", "cuda-host", OUT(HOST, 2)},
	{"cudaFreeHost", "cuda-host", GONE_BY_DRIVER(HOST), USUAL},
	{"cuMemHostAlloc", "cuda-host", OUT(HOST, 2), USUAL},
	{"cuMemAllocHost_v2", "cuda-host", OUT(HOST, 2)},
	{"cuMemFreeHost", "cuda-host", GONE(HOST), USUAL},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *const allocator_entry_points[] = {"malloc",	   "je_malloc", "_rjem_malloc",
					      "tc_malloc", "mi_malloc", NULL};

bool allocator_is_numpy(const char *base)
{
	return !fnmatch("_multiarray_umath*", base, 0) || !fnmatch("multiarray.*", base, 0);
}

bool allocator_library(const char *base)
{
	static const char *const globs[] = {"libc10.so*",
					    "libpython3*",
					    "python3*",
					    "libtensorflow*",
					    "_pywrap_tensorflow*",
					    "libjax_common*",
					    "xla_extension*",
					    "xla_cuda_plugin*",
					    "libggml*",
					    "libllama*",
					    "libcudart*",
					    "libcuda.so*",
					    NULL};

	return text_matches_one_of(base, globs);
}

bool allocator_is_loader(const char *base)
{
	static const char *const globs[] = {"ld-linux*", "ld-2.*", "ld.so*", "ld64.so*", NULL};

	return text_matches_one_of(base, globs);
}

#define TCMALLOC_CLASS "_ZN15MallocExtension"

int allocator_prefixes(struct prefixes *set)
{
	int err = prefixes_add(set, TCMALLOC_CLASS);

	for (size_t i = 0; !err && i < COUNT(operators); i++)
		err = prefixes_add(set, operators[i].prefix);
	for (size_t i = 0; !err && i < COUNT(library_functions); i++)
		err = prefixes_add(set, library_functions[i].symbol);
	return err;
}

void allocator_note_symbol(struct allocator_file *file, const char *symbol, bool global)
{
	if (!global && !file->is_static)
		return;
	if (!strcmp(symbol, "malloc"))
		file->defines_malloc = true;
	else if (!strcmp(symbol, "__libc_malloc"))
		file->has_libc = true; /* others define it too, and are known by more */
	else if (!strcmp(symbol, "mallctl"))
		file->has_jemalloc = true;
	else if (!strcmp(symbol, "mi_version"))
		file->has_mimalloc = true;
	else if (!strcmp(symbol, "tc_version") || begins_with(symbol, TCMALLOC_CLASS) ||
		 begins_with(symbol, "MallocExtension_"))
		file->has_tcmalloc = true;
}

const char *allocator_of_file(const struct allocator_file *file)
{
	static const char *const libc[] = {"libc.so*", "libc-2.*", "ld-musl*", "libc.musl*", NULL};

	if (file->has_jemalloc || !fnmatch("libjemalloc*", file->base, 0))
		return "jemalloc";
	if (file->has_mimalloc || !fnmatch("libmimalloc*", file->base, 0))
		return "mimalloc";
	if (file->has_tcmalloc || !fnmatch("libtcmalloc*", file->base, 0))
		return "tcmalloc";
	return file->has_libc || text_matches_one_of(file->base, libc) ? "libc" : NULL;
}

/* Of several names at one address: the C library's, C++'s, the allocator's own. */
#define SPELLING_ORDER (COUNT(c_functions) + COUNT(operators))

/* The row of a C function however it is spelt; which spelling in *spelling. */
static const struct c_function *find_c_function(const char *symbol, size_t *spelling)
{
	if (begins_with(symbol, "_Z"))
		return NULL;
	for (size_t s = 0; s < COUNT(spellings); s++) {
		size_t length = strlen(spellings[s].prefix);

		if (strncmp(symbol, spellings[s].prefix, length))
			continue;
		for (size_t i = 0; i < COUNT(c_functions); i++) {
			*spelling = s;
			if (symbol[length] == *c_functions[i].symbol &&
			    (c_functions[i].spellings & spellings[s].spelling) &&
			    !strcmp(symbol + length, c_functions[i].symbol))
				return &c_functions[i];
		}
	}
	return NULL;
}

static bool rule_of_c(const struct allocator_file *file, const char *symbol,
		      struct allocator_rule *rule)
{
	size_t spelling;
	const struct c_function *function = find_c_function(symbol, &spelling);

	if (!function || (!file->defines_malloc && spellings[spelling].spelling == PLAIN))
		return false;
	*rule = (struct allocator_rule){
		.order = spelling * SPELLING_ORDER + (size_t)(function - c_functions),
		.name = spellings[spelling].name,
		.throws = function->throws,
		.is_usual = function->is_usual,
		.alloc_probe = function->alloc_probe,
	};
	rule->alloc_probe.domain = PERFX_DOMAIN_HOST;
	if (function->throws)
		rule->alloc_probe.flags |= PERFX_ALLOC_F_CALLS_BACK;
	return true;
}

static ssize_t find_operator(const char *symbol)
{
	for (size_t i = 0; i < COUNT(operators); i++)
		if (begins_with(symbol, operators[i].prefix))
			return (ssize_t)i;
	return -1;
}

static bool rule_of_operator(const struct allocator_file *file, const char *symbol,
			     struct allocator_rule *rule)
{
	ssize_t index = file->defines_malloc ? find_operator(symbol) : -1;

	if (index < 0)
		return false;
	*rule = (struct allocator_rule){
		.order = COUNT(c_functions) + (size_t)index,
		.throws = operators[index].alloc_probe.action == PERFX_ACTION_ALLOCATE &&
			  !strstr(symbol, "nothrow"),
		.alloc_probe = operators[index].alloc_probe,
	};
	rule->alloc_probe.domain = PERFX_DOMAIN_HOST;
	if (rule->alloc_probe.action == PERFX_ACTION_ALLOCATE)
		rule->alloc_probe.flags |= PERFX_ALLOC_F_CALLS_BACK;
	return true;
}

static bool is_named(const char *symbol, const char *name)
{
	size_t length = strlen(name);

	return !strncmp(symbol, name, length) &&
	       (!symbol[length] || !strcmp(symbol + length, "_ptsz"));
}

static size_t rules_of_library(const struct allocator_file *file, const char *symbol,
			       struct allocator_rule *rules)
{
	const char *framework = strstr(file->base, "tensorflow") ? "tensorflow" : "xla";
	const size_t first = COUNT(spellings) * SPELLING_ORDER;
	size_t n = 0;

	for (size_t i = 0; i < COUNT(library_functions) + COUNT(exact_functions); i++) {
		bool exact = i >= COUNT(library_functions);
		const struct library_function *function =
			exact ? &exact_functions[i - COUNT(library_functions)]
			      : &library_functions[i];

		if (*symbol != *function->symbol)
			continue;
		if (exact ? !is_named(symbol, function->symbol)
			  : !begins_with(symbol, function->symbol))
			continue;
		if (n < ALLOCATOR_RULES_MAX)
			rules[n++] = (struct allocator_rule){
				.order = first + i,
				.name = function->name ? function->name : framework,
				.throws = function->throws,
				.is_usual = function->is_usual,
				.alloc_probe = function->alloc_probe,
			};
	}
	return n;
}

size_t allocator_rules(const struct allocator_file *file, const char *symbol, bool global,
		       struct allocator_rule rules[ALLOCATOR_RULES_MAX])
{
	/* Anybody may have a static function of such a name; only C++ names are theirs alone. */
	if (!global && !begins_with(symbol, "_ZN") && !(file->is_static && file->has_libc))
		return 0;
	if (rule_of_c(file, symbol, &rules[0]) || rule_of_operator(file, symbol, &rules[0]))
		return 1;
	return rules_of_library(file, symbol, rules);
}

bool allocator_concerns(const char *symbol)
{
	const struct allocator_file any = {
		.base = "", .defines_malloc = true, .is_static = true, .has_libc = true};
	struct allocator_file noted = {.base = "", .is_static = true};
	struct allocator_rule rules[ALLOCATOR_RULES_MAX];

	allocator_note_symbol(&noted, symbol, true);
	return noted.defines_malloc || noted.has_libc || noted.has_jemalloc || noted.has_mimalloc ||
	       noted.has_tcmalloc || allocator_rules(&any, symbol, true, rules) > 0;
}

bool allocator_does(const char *symbol, enum perfx_action action)
{
	size_t spelling;
	const struct c_function *function = find_c_function(symbol, &spelling);
	ssize_t index;

	if (function)
		return !action || function->alloc_probe.action == action;
	index = find_operator(symbol);
	return index >= 0 && (!action || operators[index].alloc_probe.action == action);
}
