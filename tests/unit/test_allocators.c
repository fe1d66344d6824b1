// SPDX-License-Identifier: BSD-2-Clause
#include "plan/allocators.h"

#include "interest_fixture.h"

struct row {
	const char *base, *symbol;
	const char *owner; /* NULL: no hook; "" the file's own */
	struct perfx_alloc_probe alloc_probe;
	bool throws, is_usual;
};

#define A(what, d) .action = PERFX_ACTION_##what, .domain = PERFX_DOMAIN_##d

/* "program", libc and libjemalloc define malloc. */
static const struct row rows[] = {
	{"libc.so.6", "malloc", "", .alloc_probe = {A(ALLOCATE, HOST), .size_arg = 1},
	 .is_usual = true},
	{"libc.so.6", "free", "", .alloc_probe = {A(FREE, HOST), .pointer_arg = 1},
	 .is_usual = true},
	{"libc.so.6", "calloc", "",
	 .alloc_probe = {A(ALLOCATE, HOST), .count_arg = 1, .size_arg = 2}},
	{"libc.so.6", "realloc", "",
	 .alloc_probe = {A(REALLOCATE, HOST), .pointer_arg = 1, .size_arg = 2}},
	{"libc.so.6", "reallocarray", "",
	 .alloc_probe = {A(REALLOCATE, HOST), .pointer_arg = 1, .count_arg = 2, .size_arg = 3}},
	{"libc.so.6", "posix_memalign", "",
	 .alloc_probe = {A(ALLOCATE, HOST), .result = PERFX_RESULT_OUT, .pointer_arg = 1,
			 .size_arg = 3}},
	{"libc.so.6", "aligned_alloc", "", .alloc_probe = {A(ALLOCATE, HOST), .size_arg = 2}},
	{"libc.so.6", "memalign", "", .alloc_probe = {A(ALLOCATE, HOST), .size_arg = 2}},
	{"libc.so.6", "valloc", "", .alloc_probe = {A(ALLOCATE, HOST), .size_arg = 1}},
	{"libc.so.6", "pvalloc", "", .alloc_probe = {A(ALLOCATE, HOST), .size_arg = 1}},
	{"libc.so.6", "cfree", "", .alloc_probe = {A(FREE, HOST), .pointer_arg = 1}},
	{"libc.so.6", "malloc_usable_size", NULL, .alloc_probe = {0}},
	{"libc.so.6", "mallopt", NULL, .alloc_probe = {0}},
	{"libjemalloc.so.2", "mallocx", "", .alloc_probe = {A(ALLOCATE, HOST), .size_arg = 1}},
	{"libjemalloc.so.2", "rallocx", "",
	 .alloc_probe = {A(REALLOCATE, HOST), .pointer_arg = 1, .size_arg = 2}},
	{"libjemalloc.so.2", "sdallocx", "", .alloc_probe = {A(FREE, HOST), .pointer_arg = 1}},
	{"libjemalloc.so.2", "xallocx", NULL, .alloc_probe = {0}},
	{"program", "je_malloc", "jemalloc", .alloc_probe = {A(ALLOCATE, HOST), .size_arg = 1},
	 .is_usual = true},
	{"program", "_rjem_sdallocx", "jemalloc", .alloc_probe = {A(FREE, HOST), .pointer_arg = 1}},
	{"program", "je_new", NULL, .alloc_probe = {0}},
	{"program", "tc_free", "tcmalloc", .alloc_probe = {A(FREE, HOST), .pointer_arg = 1},
	 .is_usual = true},
	{"program", "tc_new", "tcmalloc",
	 .alloc_probe = {A(ALLOCATE, HOST), .flags = PERFX_ALLOC_F_CALLS_BACK, .size_arg = 1},
	 .throws = true},
	{"program", "tc_new_nothrow", "tcmalloc",
	 .alloc_probe = {A(ALLOCATE, HOST), .size_arg = 1}},
	{"program", "mi_malloc", "mimalloc", .alloc_probe = {A(ALLOCATE, HOST), .size_arg = 1},
	 .is_usual = true},
	{"program", "mi_malloc_aligned", "mimalloc",
	 .alloc_probe = {A(ALLOCATE, HOST), .size_arg = 1}},
	{"program", "mi_memalign", "mimalloc", .alloc_probe = {A(ALLOCATE, HOST), .size_arg = 2}},
	{"program", "mi_heap_recalloc", "mimalloc",
	 .alloc_probe = {A(REALLOCATE, HOST), .pointer_arg = 2, .count_arg = 3, .size_arg = 4}},
	{"program", "_Znwm", "",
	 .alloc_probe = {A(ALLOCATE, HOST), .flags = PERFX_ALLOC_F_CALLS_BACK, .size_arg = 1},
	 .throws = true},
	{"program", "_ZnamSt11align_val_t", "",
	 .alloc_probe = {A(ALLOCATE, HOST), .flags = PERFX_ALLOC_F_CALLS_BACK, .size_arg = 1},
	 .throws = true},
	{"program", "_ZnwmSt11align_val_tRKSt9nothrow_t", "",
	 .alloc_probe = {A(ALLOCATE, HOST), .flags = PERFX_ALLOC_F_CALLS_BACK, .size_arg = 1}},
	{"program", "_ZdlPvmSt11align_val_t", "", .alloc_probe = {A(FREE, HOST), .pointer_arg = 1}},
	{"program", "_ZdaPv", "", .alloc_probe = {A(FREE, HOST), .pointer_arg = 1}},
	{"libc10.so", "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm", "torch",
	 .alloc_probe = {A(ALLOCATED, TENSOR), .pointer_arg = 2, .size_arg = 3}, .is_usual = true},
	{"libc10.so", "_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv", "torch",
	 .alloc_probe = {A(FREE, TENSOR), .pointer_arg = 2}, .is_usual = true},
	{"libc10.so", "_ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryEm", NULL,
	 .alloc_probe = {0}},
	{"python3.11", "PyTraceMalloc_Track", "numpy",
	 .alloc_probe = {A(ALLOCATED, TENSOR), .flags = PERFX_ALLOC_F_REPLACES, .pointer_arg = 2,
			 .size_arg = 3, .tag_arg = 1, .tag_bytes = 4, .tag = 389047},
	 .is_usual = true},
	{"libpython3.12.so.1.0", "PyTraceMalloc_Untrack", "numpy",
	 .alloc_probe = {A(FREE, TENSOR), .pointer_arg = 2, .tag_arg = 1, .tag_bytes = 4,
			 .tag = 389047},
	 .is_usual = true},
	{"libtensorflow_framework.so.2",
	 "_ZN3tsl12BFCAllocator11AllocateRawEmmRKNS_20AllocationAttributesE", "tensorflow",
	 .alloc_probe = {A(ALLOCATE, TENSOR), .size_arg = 3}, .throws = true, .is_usual = true},
	{"xla_cuda_plugin.so", "_ZN3tsl12BFCAllocator13DeallocateRawEPv", "xla",
	 .alloc_probe = {A(FREE, TENSOR), .pointer_arg = 2}, .is_usual = true},
	/* calls the one with three arguments */
	{"libtensorflow_framework.so.2", "_ZN3tsl12BFCAllocator11AllocateRawEmm", NULL,
	 .alloc_probe = {0}},
	{"libggml-base.so", "ggml_aligned_malloc", "ggml",
	 .alloc_probe = {A(ALLOCATE, TENSOR), .size_arg = 1}, .is_usual = true},
	{"libggml-base.so", "ggml_aligned_free", "ggml",
	 .alloc_probe = {A(FREE, TENSOR), .pointer_arg = 1}, .is_usual = true},
	{"libcudart.so.13", "cudaMalloc", "cuda",
	 .alloc_probe = {A(ALLOCATE, GPU), .result = PERFX_RESULT_OUT, .pointer_arg = 1,
			 .size_arg = 2},
	 .is_usual = true},
	{"libcudart.so.13", "cudaMallocAsync_ptsz", "cuda",
	 .alloc_probe = {A(ALLOCATE, GPU), .result = PERFX_RESULT_OUT, .pointer_arg = 1,
			 .size_arg = 2}},
	{"libcudart.so.13", "cudaMallocPitch", "cuda",
	 .alloc_probe = {A(ALLOCATE, GPU), .result = PERFX_RESULT_OUT, .pointer_arg = 1,
			 .size_arg = 3, .count_arg = 4}},
	{"libcudart.so.13", "cudaMallocHost", "cuda-host",
	 .alloc_probe = {A(ALLOCATE, HOST), .result = PERFX_RESULT_OUT, .pointer_arg = 1,
			 .size_arg = 2}},
	{"libcudart.so.13", "cudaMalloc3D", NULL, .alloc_probe = {0}},
	{"libcudart.so.13", "cudaMallocArray", NULL, .alloc_probe = {0}},
	{"libcuda.so.1", "cuMemAlloc_v2", "cuda",
	 .alloc_probe = {A(ALLOCATE, GPU), .result = PERFX_RESULT_OUT, .pointer_arg = 1,
			 .size_arg = 2},
	 .is_usual = true},
	{"libcuda.so.1", "cuMemFreeAsync", "cuda", .alloc_probe = {A(FREE, GPU), .pointer_arg = 1}},
	{"libcuda.so.1", "cuMemCreate", "cuda",
	 .alloc_probe = {A(ALLOCATE, GPU), .result = PERFX_RESULT_OUT, .pointer_arg = 1,
			 .size_arg = 2}},
	{"libcuda.so.1", "cuMemRelease", "cuda", .alloc_probe = {A(FREE, GPU), .pointer_arg = 1}},
	{"libcuda.so.1", "cuMemAlloc", NULL, .alloc_probe = {0}},
	{"program", "main", NULL, .alloc_probe = {0}},
	{"program", "", NULL, .alloc_probe = {0}},
};

static struct allocator_file file_of(const char *base)
{
	struct allocator_file file = {.base = base};

	file.defines_malloc = !strncmp(base, "libc.", 5) || !strncmp(base, "libjemalloc", 11) ||
			      !strcmp(base, "program");
	return file;
}

static void check_alloc_probe(const char *symbol, const struct perfx_alloc_probe *got,
			      const struct perfx_alloc_probe *wanted)
{
	cr_expect_eq(got->action, wanted->action, "%s: action %u", symbol, got->action);
	cr_expect_eq(got->domain, wanted->domain, "%s: domain %u", symbol, got->domain);
	cr_expect_eq(got->result, wanted->result, "%s: result %u", symbol, got->result);
	cr_expect_eq(got->flags, wanted->flags, "%s: flags %u", symbol, got->flags);
	cr_expect_eq(got->pointer_arg, wanted->pointer_arg, "%s: %u", symbol, got->pointer_arg);
	cr_expect_eq(got->size_arg, wanted->size_arg, "%s: size %u", symbol, got->size_arg);
	cr_expect_eq(got->count_arg, wanted->count_arg, "%s: count %u", symbol, got->count_arg);
	cr_expect_eq(got->tag_arg, wanted->tag_arg, "%s: tag %u", symbol, got->tag_arg);
	cr_expect_eq(got->tag_bytes, wanted->tag_bytes, "%s: %u bytes", symbol, got->tag_bytes);
	cr_expect_eq(got->tag, wanted->tag, "%s: tag %u", symbol, got->tag);
}

Test(allocators, what_is_hooked_and_how_it_is_read)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		struct allocator_file file = file_of(row->base);
		struct allocator_rule rules[ALLOCATOR_RULES_MAX];
		size_t n = allocator_rules(&file, row->symbol, true, rules);

		cr_expect_eq(n, row->owner != NULL, "%s: %zu", row->symbol, n);
		if (n)
			cr_expect(interests(row->base, row->symbol), "%s", row->symbol);
		if (n != 1 || !row->owner)
			continue;
		cr_expect_str_eq(rules[0].name ? rules[0].name : "", row->owner, "%s", row->symbol);
		cr_expect_eq(rules[0].throws, row->throws, "%s: throws", row->symbol);
		cr_expect_eq(rules[0].is_usual, row->is_usual, "%s: usual", row->symbol);
		check_alloc_probe(row->symbol, &rules[0].alloc_probe, &row->alloc_probe);
	}
}

/* One function tells of blocks of two kinds; which, says the low byte of a struct in r8. */
Test(allocators, pytorch_reports_for_two)
{
	static const char *const names[] = {
		"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
		"_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE"};
	struct allocator_file file = {.base = "libc10.so"};
	struct perfx_alloc_probe wanted = {A(CHANGE, TENSOR), .pointer_arg = 1, .size_arg = 2,
					   .tag_arg = 5, .tag_bytes = 1};

	for (size_t i = 0; i < 2; i++) {
		struct allocator_rule rules[ALLOCATOR_RULES_MAX];

		cr_assert_eq(allocator_rules(&file, names[i], true, rules), 2);
		cr_expect_str_eq(rules[0].name, "torch-cuda");
		wanted.tag = 1;
		check_alloc_probe(names[i], &rules[0].alloc_probe, &wanted);
		cr_expect_str_eq(rules[1].name, "torch-shm");
		wanted.tag = 0;
		check_alloc_probe(names[i], &rules[1].alloc_probe, &wanted);
	}
}

/* Anybody may have a static function called free, and a library that defines no malloc gets its
 * operators' memory from one that does. */
Test(allocators, names_alone_are_not_enough)
{
	struct allocator_file own = {.base = "program", .defines_malloc = true};
	struct allocator_file other = {.base = "libstdc++.so.6"};
	struct allocator_rule rules[ALLOCATOR_RULES_MAX];

	cr_expect_eq(allocator_rules(&own, "free", false, rules), 0);
	cr_expect_eq(allocator_rules(&own, "cudaMalloc", false, rules), 0);
	cr_expect_eq(allocator_rules(&other, "_Znwm", true, rules), 0);
	cr_expect_eq(allocator_rules(&other, "realloc", true, rules), 0);
	/* local in jaxlib */
	cr_expect_eq(allocator_rules(&other, "_ZN3tsl12BFCAllocator13DeallocateRawEPv", false,
				     rules),
		     1);
}

Test(allocators, whose_malloc)
{
	static const struct {
		const char *base, *symbol, *owner;
	} files[] = {
		{"libc.so.6", NULL, "libc"},
		{"libc-2.31.so", NULL, "libc"},
		{"ld-musl-x86_64.so.1", NULL, "libc"},
		{"libjemalloc.so.2", NULL, "jemalloc"},
		{"libtcmalloc_minimal.so.4.5.10", NULL, "tcmalloc"},
		{"libmimalloc.so.2.0", NULL, "mimalloc"},
		{"program", "mallctl", "jemalloc"},
		{"program", "mi_version", "mimalloc"},
		{"program", "tc_version", "tcmalloc"},
		{"program", "_ZN15MallocExtension8instanceEv", "tcmalloc"},
		{"program", "__libc_malloc", "libc"},
		{"program", "malloc", NULL},
		{"libcrypto.so", NULL, NULL},
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct allocator_file file = {.base = files[i].base};
		const char *owner;

		if (files[i].symbol)
			allocator_note_symbol(&file, files[i].symbol, true);
		owner = allocator_of_file(&file);
		cr_expect_str_eq(owner ? owner : "", files[i].owner ? files[i].owner : "", "%s %s",
				 files[i].base, files[i].symbol);
		cr_expect_eq(file.defines_malloc,
			     files[i].symbol && !strcmp(files[i].symbol, "malloc"));
	}
}

/* mimalloc and tcmalloc define __libc_malloc as well. */
Test(allocators, the_more_specific_name_wins)
{
	struct allocator_file file = {.base = "program"};

	allocator_note_symbol(&file, "__libc_malloc", true);
	allocator_note_symbol(&file, "mi_version", true);
	cr_expect_str_eq(allocator_of_file(&file), "mimalloc");
	allocator_note_symbol(&file, "mallctl", false);
	cr_expect_str_eq(allocator_of_file(&file), "mimalloc");
}

Test(allocators, files_worth_searching)
{
	cr_expect(allocator_library("libc10.so"));
	cr_expect(allocator_library("libc10.so.1.13.0"));
	cr_expect(allocator_library("libpython3.11.so.1.0"));
	cr_expect(allocator_library("libcudart.so.13"));
	cr_expect(allocator_library("libcuda.so.535.54.03"));
	cr_expect_not(allocator_library("libtorch_cpu.so"));
	cr_expect_not(allocator_library("libcudnn.so.9"));
	cr_expect(allocator_is_numpy("_multiarray_umath.cpython-311-x86_64-linux-gnu.so"));
	cr_expect_not(allocator_is_numpy("python3.11"));
	cr_expect(allocator_is_loader("ld-linux-x86-64.so.2"));
	cr_expect(allocator_is_loader("ld-2.31.so"));
	cr_expect_not(allocator_is_loader("ld-musl-x86_64.so.1"));
}

Test(allocators, of_several_names_the_common_one_is_shown)
{
	struct allocator_file file = {.base = "libtcmalloc.so.4", .defines_malloc = true};
	struct allocator_rule plain[ALLOCATOR_RULES_MAX], own[ALLOCATOR_RULES_MAX];

	allocator_rules(&file, "_ZdlPv", true, own);
	allocator_rules(&file, "free", true, plain);
	cr_expect_lt(plain[0].order, own[0].order);
	allocator_rules(&file, "tc_delete", true, plain);
	cr_expect_lt(own[0].order, plain[0].order);
}

Test(allocators, of_the_same_kind)
{
	cr_expect(allocator_does("free", PERFX_ACTION_FREE));
	cr_expect(allocator_does("mi_free", PERFX_ACTION_FREE));
	cr_expect(allocator_does("_ZdlPv", PERFX_ACTION_FREE));
	cr_expect(allocator_does("memalign", PERFX_ACTION_ALLOCATE));
	cr_expect_not(allocator_does("realloc", PERFX_ACTION_ALLOCATE));
	cr_expect(allocator_does("realloc", PERFX_ACTION_INVALID));
	cr_expect_not(allocator_does("work", PERFX_ACTION_INVALID));
}
