// SPDX-License-Identifier: BSD-2-Clause
#include "plan/annotations.h"

#include "interest_fixture.h"

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
	cr_assert(mark_is_old_torch("_ZN5torch8autograd8profiler25record_function_enter_newERKSs"
				    "RKN3c108optionalISsEE"));
	cr_assert_not(mark_is_old_torch("_ZN3c108optionalISsEE"));
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
