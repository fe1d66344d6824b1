// SPDX-License-Identifier: BSD-2-Clause
#include "interest_fixture.h"
#include "plan/annotations.h"
#include "plan/plan.h"
#include "program_fixture.h"

static struct perfx_annotation find(const char *symbol)
{
	struct perfx_annotation annotation = {0};
	enum host_level level;
	const char *shown;

	cr_assert(annotation_find(symbol, &annotation, &shown, &level), "%s", symbol);
	cr_expect(interests("libx.so", symbol), "%s", symbol);
	return annotation;
}

Test(annotations, by_whole_name_and_by_prefix)
{
	struct perfx_annotation annotation;
	enum host_level level;
	const char *shown;

	annotation = find("nvtxRangePushA");
	cr_assert_eq(annotation.action, PERFX_ANNOTATION_PUSH);
	cr_assert_eq(annotation.source, PERFX_SOURCE_NVTX);
	cr_assert_eq(annotation.text, PERFX_TEXT_C);
	cr_assert_eq(annotation.text_arg, 1);
	cr_assert_not(annotation_find("nvtxRangePushA_impl_init_v3", &annotation, &shown, &level));
	cr_assert_not(annotation_find("nvtxRangePushW", &annotation, &shown, &level));
	cr_assert_eq(find("nvtxDomainRangeEnd").key_arg, 2);
}

Test(annotations, torch_strings_of_both_abis)
{
	struct perfx_annotation annotation =
		find("_ZN5torch8autograd8profiler25record_function_enter_newERKNSt7__cxx1112basic_"
		     "stringIcSt11char_traitsIcESaIcEEERKSt8optionalIS7_E");

	cr_assert_eq(annotation.action, PERFX_ANNOTATION_BEGIN);
	cr_assert_eq(annotation.text, PERFX_TEXT_STRING);
	cr_assert_eq(annotation.text_arg, 2);
	cr_assert_eq(annotation.key_offset, 16);
	annotation = find(
		"_ZN5torch8autograd8profiler25record_function_enter_newERKSsRKN3c108optionalISsEE");
	cr_assert_eq(annotation.text, PERFX_TEXT_OLD_STRING);
	cr_assert(annotation_is_old_torch(
		"_ZN5torch8autograd8profiler25record_function_enter_newERKSs"
		"RKN3c108optionalISsEE"));
	cr_assert_not(annotation_is_old_torch("_ZN3c108optionalISsEE"));
}

Test(annotations, torch_ranges_by_their_object)
{
	struct perfx_annotation annotation =
		find("_ZN5torch8autograd8profilerL21record_function_enterERKNSt7__cxx1112basic_"
		     "stringIcSt11char_traitsIcESaIcEEERKSt8optionalIS7_ERN2at14RecordFunctionE");

	cr_assert_eq(annotation.action, PERFX_ANNOTATION_OPEN);
	cr_assert_eq(annotation.text_arg, 1);
	cr_assert_eq(annotation.key_arg, 3);
	/* its cold part is none */
	cr_assert_not(annotation_find(
		"_ZN5torch8autograd8profilerL21record_function_enterERKNSt7__cxx1112basic_"
		"stringIcSt11char_traitsIcESaIcEEERKSt8optionalIS7_ERN2at14RecordFunctionE.cold",
		&annotation, &(const char *){NULL}, &(enum host_level){0}));
}

Test(annotations, torch_ranges_end_by_their_object)
{
	static const char *const names[] = {
		"_ZN2at14RecordFunction3endEv",
		"_ZN5torch8autograd8profilerL24record_function_exit_newERKN3c1013intrusive_ptrINS1_"
		"20PythonRecordFunctionENS2_6detail34intrusive_target_default_null_typeIS4_EEEE",
		"_ZN5torch8autograd8profilerL27record_function_exit_legacyERKN2at6TensorE",
		"_ZN5torch8autograd8profiler20PythonRecordFunctionD0Ev",
		"_ZN5torch8autograd8profiler20PythonRecordFunctionD1Ev",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct perfx_annotation annotation = find(names[i]);

		cr_expect_eq(annotation.action, PERFX_ANNOTATION_END, "%s", names[i]);
		cr_expect_eq(annotation.key_arg, 1, "%s", names[i]);
		cr_expect_eq(annotation.key_offset, 0, "%s", names[i]);
	}
}

Test(annotations, which_begin)
{
	struct perfx_annotation push = find("roctxRangePushA"), pop = find("roctxRangePop"),
				end = find("_ZN2at14RecordFunction3endEv"),
				here = find("roctxMarkA");

	cr_assert(plan_annotation_begins(&push));
	cr_assert(plan_annotation_begins(&here));
	cr_assert_not(plan_annotation_begins(&pop));
	cr_assert_not(plan_annotation_begins(&end));
}

Test(annotations, files)
{
	cr_assert(annotation_module("libtorch_cpu.so.1.13.0"));
	cr_assert(annotation_module("libnvToolsExt.so.1"));
	cr_assert(annotation_module("librocprofiler-sdk-roctx.so"));
	cr_assert_not(annotation_module("libc.so.6"));
}

Test(annotations, what_runs_by_name)
{
	struct perfx_annotation jitted =
		find("_ZNK3xla23PjRtCpuLoadedExecutable7ExecuteEN4absl12lts_202601074SpanE");
	struct perfx_annotation eager = find("TFE_Execute"),
				node = find(
					"_ZN10tensorflow16ThreadPoolDevice7ComputeEPNS_8OpKernelE");
	struct perfx_annotation annotation;
	enum host_level level;
	const char *shown;

	annotation = find("_ZN5torch3jit37_get_operation_for_overload_or_packetEN3c108ArrayRefISt10"
			  "shared_ptrINS0_8OperatorEEEENS1_6SymbolE");
	cr_assert_eq(annotation.action, PERFX_ANNOTATION_CALL);
	cr_assert_eq(annotation.path_count, 2);
	cr_assert_eq(jitted.action, PERFX_ANNOTATION_CALL);
	cr_assert_eq(jitted.source, PERFX_SOURCE_JAX);
	cr_assert_eq(jitted.text_arg, 2);
	cr_assert_eq(eager.flags, PERFX_ANNOTATION_F_UNDERSCORES);
	cr_assert_eq(node.flags, PERFX_ANNOTATION_F_KIND);
	cr_assert(annotation_find("TFE_Execute", &annotation, &shown, &level));
	cr_assert_eq(level, HOST_ANNOTATIONS);
	cr_assert_not(annotation_find("TFE_ExecuteSomethingElse", &annotation, &shown, &level));
	cr_assert(annotation_module("libjax_common.so"));
	cr_assert(annotation_module("libtensorflow_cc.so.2"));
}

Test(annotations, of_a_library_that_nvtx_calls)
{
	struct perfx_annotation push, pop = find("perfx_nvtx_pop");
	enum host_level level;
	const char *shown;

	cr_assert(annotation_find("perfx_nvtx_push", &push, &shown, &level));
	cr_assert_eq(push.action, PERFX_ANNOTATION_OPEN);
	cr_assert_eq(push.key_arg, 2);
	cr_assert_null(shown, "it has a name");
	cr_assert_eq(pop.action, PERFX_ANNOTATION_END);
	cr_assert_eq(pop.key_arg, 1);
	cr_assert_eq(find("perfx_nvtx_end").action, PERFX_ANNOTATION_STOP);
}

/* USDT probes of running programs as functions of a plan: perfx.h's markers, and those that were
 * asked for; on which instruction, on which kernel. */

#if defined(__x86_64__)

/* Uses five markers; has a probe at a nop, one at a 5-byte nop without another behind it, and one
 * at something else. */
static const char program[] =
	"#include <perfx.h>\n"
	"#include <unistd.h>\n"
	"#define USDT(name, code) __asm__ volatile(\"990: \" code \"\\n"
	".pushsection .note.stapsdt,\\\"\\\",%note\\n .balign 4\\n"
	".4byte 992f-991f, 994f-993f, 3\\n 991: .asciz \\\"stapsdt\\\"\\n 992: .balign 4\\n"
	"993: .8byte 990b, 0, 0\\n .asciz \\\"test\\\", \\\"\" name \"\\\", \\\"\\\"\\n 994: "
	".balign 4\\n"
	".popsection\\n\")\n"
	"int main(void)\n"
	"{\n"
	"	USDT(\"nop\", \"nop\");\n"
	"	USDT(\"nop5\", \".byte 0x0f,0x1f,0x44,0,0; xor %eax,%eax\");\n"
	"	USDT(\"nops\", \".byte 0x0f,0x1f,0x44,0,0; nop\");\n"
	"	USDT(\"other\", \"xor %eax,%eax\");\n"
	"	perfx_range_push(\"r\");\n"
	"	perfx_step_begin();\n"
	"	perfx_counter(\"c\", 1);\n"
	"	perfx_memory_alloc(\"m\", 0, 0);\n"
	"	perfx_trace_start();\n"
	"	return write(1, \"!\", 1) != 1 || pause();\n"
	"}\n";

static pid_t pid;

static void set_up(void)
{
	fixture_set_up();
	fixture_text("a.c", program);
	fixture_run("cc -O2 -I\"$OLDPWD\"/include -o a a.c && strip a");
	pid = program_start(fixture_path("a"), NULL);
}

static void tear_down(void)
{
	program_stop(pid);
	fixture_tear_down();
}

TestSuite(usdt, .init = set_up, .fini = tear_down);

static struct plan *plan_of(const struct plan_options *wanted)
{
	static const char *const globs[] = {"test:*"};
	struct plan_options options = *wanted;
	struct plan *plan;
	size_t *modules;

	options.functions_max = 1000;
	options.usdt = globs;
	options.usdt_count = 1;
	plan = plan__new(&options);
	cr_assert_not_null(plan);
	cr_assert_geq(plan__scan(plan, pid, &modules), 0);
	free(modules);
	return plan;
}

static const struct plan_function *find_function(const struct plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->functions_count; i++)
		if (plan->functions[i].role == PLAN_USDT && !strcmp(plan->functions[i].name, name))
			return &plan->functions[i];
	return NULL;
}

static void expect_site(const struct plan *plan, const char *name, enum site_kind kind,
			uint64_t behind)
{
	const struct plan_function *function = find_function(plan, name);

	cr_assert_not_null(function, "%s", name);
	cr_expect_eq(function->site.entry_kind, kind, "%s: %d", name, function->site.entry_kind);
	cr_expect_eq(function->site.entry_vaddr, function->vaddr + behind, "%s", name);
}

Test(usdt, before_nops_were_optimized)
{
	struct plan *plan = plan_of(&(struct plan_options){0});

	expect_site(plan, "perfx:range_push", SITE_NOP, 5);
	expect_site(plan, "step", SITE_NOP, 5);
	expect_site(plan, "test:nop", SITE_NOP, 0);
	expect_site(plan, "test:nop5", SITE_STEPPED, 0);
	expect_site(plan, "test:nops", SITE_NOP, 5);
	expect_site(plan, "test:other", SITE_STEPPED, 0);
	cr_expect(plan->modules[find_function(plan, "step")->module].is_ml);
	plan__free(plan);
}

Test(usdt, where_they_are)
{
	struct plan *plan = plan_of(&(struct plan_options){.site.optimized_nop5 = true});

	expect_site(plan, "perfx:range_push", SITE_NOP5, 0);
	expect_site(plan, "test:nop", SITE_NOP, 0);
	expect_site(plan, "test:nops", SITE_NOP, 5);
	/* the call would write below the stack pointer */
	cr_expect_null(find_function(plan, "test:nop5"));
	cr_expect_eq(plan->skipped.count, 1);
	plan__free(plan);
}

/* And forked children die of it. */
Test(usdt, where_that_does_harm)
{
	struct plan *plan = plan_of(
		&(struct plan_options){.site.optimized_nop5 = true, .site.nop5_kills = true});

	expect_site(plan, "perfx:range_push", SITE_NOP, 5);
	expect_site(plan, "perfx:counter", SITE_NOP, 5);
	cr_expect_null(find_function(plan, "test:nop5"));
	cr_assert_eq(plan->skipped.count, 1);
	cr_expect_str_eq(plan->skipped.items[0].name, "test:nop5");
	plan__free(plan);
}

Test(usdt, which_are_read)
{
	static const struct {
		struct plan_options options;
		bool ranges, memory, windows;
	} rows[] = {
		{{0}, true, true, false},
		{{.host_level = HOST_ANNOTATIONS}, true, true, false},
		{{.host_level = HOST_OFF}, false, false, false},
		{{.host_level = HOST_OFF, .wait = true}, false, false, true},
		{{.memory = MEMORY_OFF, .wait = true}, true, false, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct plan *plan = plan_of(&rows[i].options);

		cr_expect_eq(find_function(plan, "perfx:range_push") != NULL, rows[i].ranges, "%zu",
			     i);
		cr_expect_eq(find_function(plan, "perfx:counter") != NULL, rows[i].ranges, "%zu",
			     i);
		cr_expect_eq(find_function(plan, "perfx:memory_alloc") != NULL, rows[i].memory,
			     "%zu", i);
		cr_expect_eq(find_function(plan, "perfx:trace_start") != NULL, rows[i].windows,
			     "%zu", i);
		cr_expect_not_null(find_function(plan, "test:nop"));
		plan__free(plan);
	}
}

Test(usdt, what_markers_do)
{
	struct plan *plan = plan_of(&(struct plan_options){.wait = true});
	const struct plan_function *step = find_function(plan, "step");
	const struct plan_function *memory = find_function(plan, "perfx:memory_alloc");

	cr_expect_eq(step->stream_flags, PERFX_FUNCTION_RANGE | PERFX_FUNCTION_STEP);
	cr_expect_eq(step->source, PERFX_SOURCE_PERFX);
	cr_expect_eq(memory->source, PERFX_SOURCE_PERFX);
	cr_expect_eq(memory->annotation.action, PERFX_ANNOTATION_ALLOCATED);
	cr_expect_eq(memory->annotation.source, PERFX_SOURCE_PERFX | PERFX_NAME_OF_ALLOCATOR);
	cr_expect(plan_annotation_begins(&step->annotation));
	cr_expect_not(plan_annotation_begins(&memory->annotation));
	cr_expect_not(
		plan_annotation_begins(&find_function(plan, "perfx:trace_start")->annotation));
	plan__free(plan);
}

#endif
