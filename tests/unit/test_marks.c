// SPDX-License-Identifier: BSD-2-Clause
#include "plan/marks.h"

#include "interest_fixture.h"

static struct perfx_mark find(const char *symbol)
{
	struct perfx_mark mark = {0};
	enum host_level level;
	const char *shown;

	cr_assert(mark_find(symbol, &mark, &shown, &level), "%s", symbol);
	cr_expect(interests("libx.so", symbol), "%s", symbol);
	return mark;
}

Test(marks, by_whole_name_and_by_prefix)
{
	struct perfx_mark mark;
	enum host_level level;
	const char *shown;

	mark = find("nvtxRangePushA");
	cr_assert_eq(mark.action, PERFX_MARK_PUSH);
	cr_assert_eq(mark.source, PERFX_SOURCE_NVTX);
	cr_assert_eq(mark.text, PERFX_TEXT_C);
	cr_assert_eq(mark.text_arg, 1);
	cr_assert_not(mark_find("nvtxRangePushA_impl_init_v3", &mark, &shown, &level));
	cr_assert_not(mark_find("nvtxRangePushW", &mark, &shown, &level));
	cr_assert_eq(find("nvtxDomainRangeEnd").key_arg, 2);
}

Test(marks, torch_strings_of_both_abis)
{
	struct perfx_mark mark =
		find("_ZN5torch8autograd8profiler25record_function_enter_newERKNSt7__cxx1112basic_"
		     "stringIcSt11char_traitsIcESaIcEEERKSt8optionalIS7_E");

	cr_assert_eq(mark.action, PERFX_MARK_BEGIN);
	cr_assert_eq(mark.text, PERFX_TEXT_STRING);
	cr_assert_eq(mark.text_arg, 2);
	cr_assert_eq(mark.key_offset, 16);
	mark = find(
		"_ZN5torch8autograd8profiler25record_function_enter_newERKSsRKN3c108optionalISsEE");
	cr_assert_eq(mark.text, PERFX_TEXT_OLD_STRING);
	cr_assert(mark_tells_old_torch("_ZN5torch8autograd8profiler25record_function_enter_newERKSs"
				       "RKN3c108optionalISsEE"));
	cr_assert_not(mark_tells_old_torch("_ZN3c108optionalISsEE"));
}

Test(marks, which_begin)
{
	struct perfx_mark push = find("roctxRangePushA"), pop = find("roctxRangePop"),
			  end = find("_ZN2at14RecordFunction3endEv"), here = find("roctxMarkA");

	cr_assert(plan_mark_begins(&push));
	cr_assert(plan_mark_begins(&here));
	cr_assert_not(plan_mark_begins(&pop));
	cr_assert_not(plan_mark_begins(&end));
}

Test(marks, files)
{
	cr_assert(mark_module("libtorch_cpu.so.1.13.0"));
	cr_assert(mark_module("libnvToolsExt.so.1"));
	cr_assert(mark_module("librocprofiler-sdk-roctx.so"));
	cr_assert_not(mark_module("libc.so.6"));
}

Test(marks, what_runs_by_name)
{
	struct perfx_mark jitted =
		find("_ZNK3xla23PjRtCpuLoadedExecutable7ExecuteEN4absl12lts_202601074SpanE");
	struct perfx_mark eager = find("TFE_Execute"),
			  node = find("_ZN10tensorflow16ThreadPoolDevice7ComputeEPNS_8OpKernelE");
	struct perfx_mark mark;
	enum host_level level;
	const char *shown;

	cr_assert_eq(jitted.action, PERFX_MARK_CALL);
	cr_assert_eq(jitted.source, PERFX_SOURCE_JAX);
	cr_assert_eq(jitted.text_arg, 2);
	cr_assert_eq(eager.flags, PERFX_MARK_F_UNDERSCORES);
	cr_assert_eq(node.flags, PERFX_MARK_F_KIND);
	cr_assert(mark_find("TFE_Execute", &mark, &shown, &level));
	cr_assert_eq(level, HOST_MARKS);
	cr_assert_not(mark_find("TFE_ExecuteSomethingElse", &mark, &shown, &level));
	cr_assert(mark_module("libjax_common.so"));
	cr_assert(mark_module("libtensorflow_cc.so.2"));
}

Test(marks, of_a_library_that_nvtx_calls)
{
	struct perfx_mark push, pop = find("perfx_nvtx_pop");
	enum host_level level;
	const char *shown;

	cr_assert(mark_find("perfx_nvtx_push", &push, &shown, &level));
	cr_assert_eq(push.action, PERFX_MARK_OPEN);
	cr_assert_eq(push.key_arg, 2);
	cr_assert_null(shown, "it has a name");
	cr_assert_eq(pop.action, PERFX_MARK_END);
	cr_assert_eq(pop.key_arg, 1);
	cr_assert_eq(find("perfx_nvtx_end").action, PERFX_MARK_STOP);
}
