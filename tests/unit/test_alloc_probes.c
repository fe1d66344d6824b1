// SPDX-License-Identifier: BSD-2-Clause
/* Allocators of running programs as hooks, and whose malloc their calls go to. */
#include "plan/plan.h"

#include "program_fixture.h"

TestSuite(alloc_probes, .init = fixture_set_up, .fini = fixture_tear_down);

/* An allocator of which every instruction is known. malloc and its twin, and operator new[], are
 * one function; _ZdlPv jumps to free; operator new may throw, and tells where it returns; what is
 * given by a pointer, it calls to get. */
static const char allocator[] =
	".text\n"
	".macro function name\n .p2align 4\n .globl \\name\n .type \\name, @function\n \\name:\n"
	" .cfi_startproc\n.endm\n"
	".macro end name\n .cfi_endproc\n .size \\name, .-\\name\n.endm\n"
	"function malloc\n .globl twin_of_malloc\n .type twin_of_malloc, @function\n "
	"twin_of_malloc:\n"
	" mov %rdi,%rsi\n xor %edi,%edi\n nop\n mov %rsi,%rax\n ret\nend malloc\n"
	"function free\n test %rdi,%rdi\n je 1f\n nop\n1: ret\nend free\n"
	"function calloc\n push %rbx\n pop %rbx\n ret\nend calloc\n"
	"function realloc\n push %rbx\n pop %rbx\n ret\nend realloc\n"
	"function posix_memalign\n push %rbx\n .cfi_def_cfa_offset 16\n call malloc@plt\n"
	" pop %rbx\n .cfi_def_cfa_offset 8\n ret\nend posix_memalign\n"
	"function _Znwm\n test %rdi,%rdi\n je 1f\n ret\n1: jmp slow\nend _Znwm\n"
	".type slow, @function\nslow: .cfi_startproc\n mov %rdi,%rax\n ret\n .cfi_endproc\n"
	" .size slow, .-slow\n"
	"function _Znam\n mov (%rdi),%rax\n jmp *(%rax)\nend _Znam\n"
	"function _ZdlPv\n jmp free@plt\nend _ZdlPv\n"
	"function _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE\n push %rbx\n pop %rbx\n "
	"ret\n"
	"end _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE\n"
	".section .note.GNU-stack, \"\", %progbits\n";

static struct plan *plan_of(pid_t pid, enum memory_choice memory, enum return_mode mode)
{
	struct plan_options options = {.functions_max = 20000,
				       .memory = memory,
				       .return_mode = mode,
				       .return_guard = true};
	struct plan *plan = plan__new(&options);
	size_t *modules;

	cr_assert_not_null(plan);
	cr_assert_geq(plan__scan(plan, pid, &modules), 0);
	free(modules);
	return plan;
}

static bool is_in(const struct plan *plan, const struct plan_function *function, const char *base)
{
	return !strcmp(plan->modules[function->module].base, base);
}

/* The hook of a file's symbol, NULL: none. tag: which, where there are several. */
static const struct plan_function *alloc_probe_of(const struct plan *plan, const char *base,
						  const char *symbol, uint32_t tag)
{
	const struct plan_function *found = NULL;

	for (size_t i = 0; i < plan->functions_count; i++) {
		const struct plan_function *function = &plan->functions[i];

		if (function->role != PLAN_ALLOC_PROBE || !is_in(plan, function, base) ||
		    strcmp(function->symbol, symbol) != 0 || function->alloc_probe.tag != tag)
			continue;
		cr_assert_null(found, "%s twice", symbol);
		found = function;
	}
	return found;
}

static size_t alloc_probes_in(const struct plan *plan, const char *base)
{
	size_t count = 0;

	for (size_t i = 0; i < plan->functions_count; i++)
		count += plan->functions[i].role == PLAN_ALLOC_PROBE &&
			 is_in(plan, &plan->functions[i], base);
	return count;
}

static const char *owner_of(const struct plan *plan, const struct plan_function *alloc_probe)
{
	cr_assert(alloc_probe->alloc_probe.allocator > 0 &&
		  alloc_probe->alloc_probe.allocator <= plan->allocators_count);
	return plan->allocators[alloc_probe->alloc_probe.allocator - 1].name;
}

static void expect_site(const struct plan_function *alloc_probe, uint64_t offset,
			enum perfx_return ret)
{
	cr_expect_eq(alloc_probe->site.entry_vaddr - alloc_probe->vaddr, offset, "%s: +%ld",
		     alloc_probe->symbol,
		     (long)(alloc_probe->site.entry_vaddr - alloc_probe->vaddr));
	cr_expect_eq(alloc_probe->ret, ret, "%s: %d", alloc_probe->symbol, alloc_probe->ret);
	cr_expect(ret == PERFX_RETURN_EXIT || !alloc_probe->site.exits_count, "%s",
		  alloc_probe->symbol);
	cr_expect_not_null(alloc_probe->ret_why);
}

static pid_t start_with_allocator(void)
{
	char preload[256];

	fixture_text("a.s", allocator);
	fixture_text("p.c", PROGRAM_STAYS);
	fixture_run("cc -shared -nostdlib -o libown.so a.s && cc -o p p.c");
	snprintf(preload, sizeof(preload), "%s", fixture_path("libown.so"));
	return program_start(fixture_path("p"), preload);
}

Test(alloc_probes, sites_returns_and_arguments)
{
	pid_t pid = start_with_allocator();
	struct plan *plan = plan_of(pid, MEMORY_ALL, RETURN_AUTO);
	const struct plan_function *alloc_probe;

	alloc_probe = alloc_probe_of(plan, "libown.so", "malloc", 0);
	cr_assert_not_null(alloc_probe);
	expect_site(alloc_probe, 5, PERFX_RETURN_PROBE);
	cr_expect_eq(alloc_probe->alloc_probe.size_arg, 2, "it has been moved to rsi: %u",
		     alloc_probe->alloc_probe.size_arg);
	cr_expect(alloc_probe->alloc_probe.flags & PERFX_ALLOC_F_LEAF);
	cr_expect(alloc_probe->is_usual);
	cr_expect_str_eq(owner_of(plan, alloc_probe), "malloc of libown.so");
	alloc_probe = alloc_probe_of(plan, "libown.so", "free", 0);
	cr_assert_not_null(alloc_probe);
	expect_site(alloc_probe, 3, PERFX_RETURN_NONE);
	cr_expect_eq(alloc_probe->alloc_probe.pointer_arg, 1);
	alloc_probe = alloc_probe_of(plan, "libown.so", "posix_memalign", 0);
	cr_assert_not_null(alloc_probe, "its caller matters: it is no detour");
	expect_site(alloc_probe, 0, PERFX_RETURN_PROBE);
	cr_expect_not(alloc_probe->alloc_probe.flags & PERFX_ALLOC_F_LEAF);
	alloc_probe = alloc_probe_of(plan, "libown.so", "_Znwm", 0);
	cr_assert_not_null(alloc_probe);
	expect_site(alloc_probe, 3, PERFX_RETURN_EXIT);
	cr_expect_eq(alloc_probe->site.exits_count, 2, "its own, and where slow returns");
	plan__free(plan);
	program_stop(pid);
}

/* Seven: malloc, free, calloc, realloc, posix_memalign, operator new, and what reports for two. */
Test(alloc_probes, one_for_each_thing_that_is_done)
{
	pid_t pid = start_with_allocator();
	struct plan *plan = plan_of(pid, MEMORY_ALL, RETURN_AUTO);
	bool refused = false;

	cr_expect_eq(alloc_probes_in(plan, "libown.so"), 8, "%zu",
		     alloc_probes_in(plan, "libown.so"));
	cr_expect_null(alloc_probe_of(plan, "libown.so", "_ZdlPv", 0), "free sees it");
	cr_expect_null(alloc_probe_of(plan, "libown.so", "_Znam", 0),
		       "where it returns is not known");
	for (size_t i = 0; i < plan->skipped.count; i++)
		refused |= !strcmp(plan->skipped.items[i].name, "operator new[]");
	cr_expect(refused);
	for (uint32_t tag = 0; tag < 2; tag++) {
		const struct plan_function *alloc_probe =
			alloc_probe_of(plan, "libown.so",
				       "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
				       tag);

		cr_assert_not_null(alloc_probe);
		cr_expect_str_eq(owner_of(plan, alloc_probe), tag ? "torch-cuda" : "torch-shm");
		expect_site(alloc_probe, 0, PERFX_RETURN_NONE);
	}
	cr_expect_gt(alloc_probes_in(plan, "libc.so.6"), 5, "somebody may call it all the same");
	cr_expect_eq(alloc_probes_in(plan, "ld-linux-x86-64.so.2"), 0);
	cr_expect_eq(plan->alloc_probes_count, plan->functions_count,
		     "nothing else is traced here");
	cr_expect(plan->has_framework);
	plan__free(plan);
	program_stop(pid);
}

Test(alloc_probes, levels)
{
	pid_t pid = start_with_allocator();
	struct plan *off = plan_of(pid, MEMORY_OFF, RETURN_AUTO);
	struct plan *tensor = plan_of(pid, MEMORY_TENSOR, RETURN_AUTO);
	struct plan *sampled = plan_of(pid, MEMORY_SAMPLED, RETURN_AUTO);
	struct plan *all = plan_of(pid, MEMORY_ALL, RETURN_AUTO);
	struct plan *none_said = plan_of(pid, MEMORY_DEFAULT, RETURN_AUTO);

	cr_expect_eq(off->alloc_probes_count, 0);
	cr_expect_eq(tensor->alloc_probes_count, 2);
	cr_expect_eq(tensor->allocators_count, 2);
	cr_expect_gt(all->alloc_probes_count, 8);
	/* pages from the kernel: mmap, munmap, mremap, brk, sbrk of libc */
	cr_expect_eq(all->alloc_probes_count, sampled->alloc_probes_count + 5);
	cr_expect_not_null(alloc_probe_of(all, "libc.so.6", "mmap", 0));
	cr_expect_null(alloc_probe_of(sampled, "libc.so.6", "mmap", 0));
	cr_expect_eq(none_said->alloc_probes_count, sampled->alloc_probes_count);
	plan__free(off);
	plan__free(tensor);
	plan__free(sampled);
	plan__free(all);
	plan__free(none_said);
	program_stop(pid);
}

Test(alloc_probes, no_return_probe_when_exits_are_asked_for)
{
	pid_t pid = start_with_allocator();
	struct plan *exits = plan_of(pid, MEMORY_ALL, RETURN_EXIT);
	struct plan *probes = plan_of(pid, MEMORY_ALL, RETURN_PROBE);

	for (size_t i = 0; i < exits->functions_count; i++)
		cr_expect_neq(exits->functions[i].ret, PERFX_RETURN_PROBE);
	expect_site(alloc_probe_of(exits, "libown.so", "malloc", 0), 5, PERFX_RETURN_EXIT);
	expect_site(alloc_probe_of(exits, "libown.so", "free", 0), 3, PERFX_RETURN_NONE);
	expect_site(alloc_probe_of(probes, "libown.so", "_Znwm", 0), 3, PERFX_RETURN_PROBE);
	cr_expect_not_null(alloc_probe_of(probes, "libown.so", "_Znam", 0));
	plan__free(exits);
	plan__free(probes);
	program_stop(pid);
}

static void expect_provider(pid_t pid, const char *provider, const char *own)
{
	struct plan *plan = plan_of(pid, MEMORY_ALL, RETURN_AUTO);
	ssize_t own_module, module;
	bool guessed;

	module = plan__provider(plan, pid, &own_module, &guessed);
	cr_expect_str_eq(module < 0 ? "" : plan->modules[module].base, provider);
	cr_expect_str_eq(own_module < 0 ? "" : plan->modules[own_module].base, own);
	plan__free(plan);
}

Test(alloc_probes, whoever_is_preloaded_provides)
{
	pid_t pid = start_with_allocator();

	expect_provider(pid, "libown.so", "");
	program_stop(pid);
	pid = program_start(fixture_path("p"), NULL);
	expect_provider(pid, "libc.so.6", "");
	program_stop(pid);
}

/* Linked behind the C library it defines malloc in vain. */
Test(alloc_probes, behind_the_c_library_it_is_not_called)
{
	pid_t pid;

	fixture_text("a.s", allocator);
	fixture_text("p.c", PROGRAM_STAYS);
	fixture_run("cc -shared -nostdlib -o libown.so a.s");
	fixture_run("cc -o p p.c -nodefaultlibs -Wl,--no-as-needed -lc -L. -lown -lgcc "
		    "-Wl,-rpath,%s",
		    fixture_dir);
	pid = program_start(fixture_path("p"), NULL);
	expect_provider(pid, "libc.so.6", "");
	program_stop(pid);
}

Test(alloc_probes, static_programs)
{
	static const char *const kinds[] = {"-static", "-static-pie"};

	for (size_t i = 0; i < 2; i++) {
		struct plan *plan;
		pid_t pid;

		fixture_text("p.c", PROGRAM_STAYS);
		fixture_run("cc %s -o p p.c", kinds[i]);
		pid = program_start(fixture_path("p"), NULL);
		expect_provider(pid, "p", "p");
		plan = plan_of(pid, MEMORY_ALL, RETURN_AUTO);
		cr_assert_not_null(alloc_probe_of(plan, "p", "malloc", 0), "%s", kinds[i]);
		cr_assert_not_null(alloc_probe_of(plan, "p", "free", 0), "%s", kinds[i]);
		cr_expect_str_eq(owner_of(plan, alloc_probe_of(plan, "p", "malloc", 0)), "libc");
		cr_expect_eq(plan->skipped.count, 0);
		plan__free(plan);
		program_stop(pid);
	}
}

Test(alloc_probes, static_and_stripped_is_said)
{
	struct plan *plan;
	pid_t pid;

	fixture_text("p.c", PROGRAM_STAYS);
	fixture_run("cc -static -s -o p p.c");
	pid = program_start(fixture_path("p"), NULL);
	expect_provider(pid, "", "");
	plan = plan_of(pid, MEMORY_ALL, RETURN_AUTO);
	cr_expect_eq(plan->alloc_probes_count, 0);
	cr_assert_eq(plan->skipped.count, 1);
	cr_expect_str_eq(plan->skipped.items[0].name, "p");
	cr_expect_str_eq(plan->skipped.items[0].reason,
			 "static and stripped: its malloc has no symbol");
	plan__free(plan);
	program_stop(pid);
}

/* -F takes nothing from the hooks, nor do they count as its matches. */
Test(alloc_probes, beside_chosen_functions)
{
	pid_t pid = start_with_allocator();
	char why[64];
	struct pattern *pattern = pattern__parse("libown.so:malloc", why, sizeof(why));
	struct plan_options options = {.patterns = &pattern,
				       .patterns_count = 1,
				       .functions_max = 1,
				       .memory = MEMORY_ALL};
	struct plan *plan = plan__new(&options);
	size_t *modules, traced = 0;

	cr_assert_geq(plan__scan(plan, pid, &modules), 0, "hooks are not counted");
	free(modules);
	cr_expect_eq(alloc_probes_in(plan, "libown.so"), 8);
	for (size_t i = 0; i < plan->functions_count; i++)
		traced += plan->functions[i].role != PLAN_ALLOC_PROBE;
	cr_expect_eq(traced, 1);
	cr_expect_eq(plan->functions_count - plan->alloc_probes_count, 1);
	plan__free(plan);
	pattern__free(pattern);
	pattern = pattern__parse("libown.so:no_such_function", why, sizeof(why));
	plan = plan__new(&options);
	cr_assert_geq(plan__scan(plan, pid, &modules), 0);
	free(modules);
	cr_expect_not(plan->pattern_matched[0]);
	plan__free(plan);
	pattern__free(pattern);
	program_stop(pid);
}

static size_t planned_without_driver(const char *preload)
{
	struct plan_options options = {.functions_max = 100, .memory = MEMORY_ALL, .no_cuda = true};
	pid_t pid = program_start(fixture_path("p"), preload);
	struct plan *plan = plan__new(&options);
	size_t *modules, count;

	cr_assert_geq(plan__scan(plan, pid, &modules), 0);
	free(modules);
	count = alloc_probes_in(plan, "libcudart.so.13");
	plan__free(plan);
	program_stop(pid);
	return count;
}

/* PyTorch's packages load CUDA's libraries on every machine. */
Test(alloc_probes, cuda_without_a_driver)
{
	char runtime[256], both[600];

	fixture_text("p.c", PROGRAM_STAYS);
	fixture_text("runtime.c", "int cudaMalloc(void **p, long n) { return p && n; }\n");
	fixture_text("driver.c", "int cuInit;\n");
	fixture_run(
		"cc -shared -o libcudart.so.13 runtime.c && cc -shared -o libcuda.so.1 driver.c "
		"&& cc -o p p.c");
	snprintf(runtime, sizeof(runtime), "%s", fixture_path("libcudart.so.13"));
	cr_expect_eq(planned_without_driver(runtime), 0);
	snprintf(both, sizeof(both), "%s:%s", runtime, fixture_path("libcuda.so.1"));
	cr_expect_eq(planned_without_driver(both), 1, "a driver that is mapped may work");
}
