// SPDX-License-Identifier: BSD-2-Clause
#include "plan/annotations.h"

#include "base/grow.h"
#include "base/text.h"
#include "plan/jitted.h"

#include <string.h>

/* Runs an operation, or a function that has been traced ("__inference_train_step_67"); its name
 * is a std::string at 24, in 2.21. */
#define EAGER_CALL "TFE_Execute"

/*
 * An operator that Python calls as torch.ops.NAMESPACE.NAME: those of libraries, which no
 * at::_ops::…::call has. Its second argument (after the result's place) points to the shared_ptr of
 * a torch::jit::Operator, which begins with its c10::OperatorHandle; that points to the
 * c10::impl::OperatorEntry, which begins with the name, a std::string. In 2.15.
 */
#define PYTHON_OPERATOR "_ZN5torch3jit37_get_operation_for_overload_or_packetEN3c108ArrayRefI"

#define ENTER_NEW "_ZN5torch8autograd8profiler25record_function_enter_newE"
/*
 * PyTorch's object is an intrusive_ptr<PythonRecordFunction>, whose RecordFunction begins behind
 * the reference counts' 16 bytes; RecordFunction::end runs twice for each, and for each node of a
 * backward pass: see `ends`. RecordScope 7 is USER_SCOPE. TensorFlow's OpKernel has its name as an
 * absl::string_view {length, pointer} at 200, in 2.21; a name that is none is refused as it is
 * read.
 */
static const struct {
	const char *name;
	bool prefix;
	enum host_level level;
	struct perfx_annotation annotation;
} rules[] = {
#define RULE(symbol, prefix, level, act, src, ...)                                      \
	{                                                                               \
		symbol, prefix, level,                                                  \
		{                                                                       \
			.action = PERFX_ANNOTATION_##act, .source = PERFX_SOURCE_##src, \
			__VA_ARGS__                                                     \
		}                                                                       \
	}
#define ANNOTATION(symbol, act, src, ...) \
	RULE(symbol, false, HOST_ANNOTATIONS, act, src, __VA_ARGS__)
#define C_TEXT	       .text = PERFX_TEXT_C, .text_arg = 1
#define NVTX_TEXT(arg) .text = PERFX_TEXT_NVTX, .text_arg = (arg)
	ANNOTATION("nvtxRangePushA", PUSH, NVTX, C_TEXT),
	ANNOTATION("nvtxRangePushEx", PUSH, NVTX, NVTX_TEXT(1)),
	ANNOTATION("nvtxDomainRangePushEx", PUSH, NVTX, NVTX_TEXT(2)),
	ANNOTATION("nvtxRangePop", POP, NVTX, .text = 0),
	ANNOTATION("nvtxDomainRangePop", POP, NVTX, .text = 0),
	ANNOTATION("nvtxRangeStartA", START, NVTX, C_TEXT),
	ANNOTATION("nvtxRangeStartEx", START, NVTX, NVTX_TEXT(1)),
	ANNOTATION("nvtxDomainRangeStartEx", START, NVTX, NVTX_TEXT(2)),
	ANNOTATION("nvtxRangeEnd", STOP, NVTX, .key_arg = 1),
	ANNOTATION("nvtxDomainRangeEnd", STOP, NVTX, .key_arg = 2),
	ANNOTATION("nvtxMarkA", INSTANT, NVTX, C_TEXT),
	/* libperfx-nvtx, which NVTX 3 calls */
	ANNOTATION("perfx_nvtx_push", OPEN, NVTX, C_TEXT, .key_arg = 2),
	ANNOTATION("perfx_nvtx_pop", END, NVTX, .key_arg = 1),
	ANNOTATION("perfx_nvtx_start", START_ID, NVTX, C_TEXT, .key_arg = 2),
	ANNOTATION("perfx_nvtx_end", STOP, NVTX, .key_arg = 1),
	ANNOTATION("perfx_nvtx_mark", INSTANT, NVTX, C_TEXT),
	ANNOTATION("nvtxMarkEx", INSTANT, NVTX, NVTX_TEXT(1)),
	ANNOTATION("nvtxDomainMarkEx", INSTANT, NVTX, NVTX_TEXT(2)),
	ANNOTATION("roctxRangePushA", PUSH, ROCTX, C_TEXT),
	ANNOTATION("roctxRangePop", POP, ROCTX, .text = 0),
	ANNOTATION("roctxRangeStartA", START, ROCTX, C_TEXT),
	ANNOTATION("roctxRangeStop", STOP, ROCTX, .key_arg = 1),
	ANNOTATION("roctxMarkA", INSTANT, ROCTX, C_TEXT),
	ANNOTATION("_ZN5torch8profiler14itt_range_pushEPKc", PUSH, ITT, C_TEXT),
	ANNOTATION("_ZN5torch8profiler13itt_range_popEv", POP, ITT, .text = 0),
	ANNOTATION("_ZN5torch8profiler8itt_markEPKc", INSTANT, ITT, C_TEXT),
	ANNOTATION(RANGE_END, END, TORCH, .key_arg = 1),
	ANNOTATION(EXIT_LEGACY, END, TORCH, .key_arg = 1),
	ANNOTATION(NAMED_D0, END, TORCH, .key_arg = 1),
	ANNOTATION(NAMED_D1, END, TORCH, .key_arg = 1),
	ANNOTATION("_ZN2at14RecordFunctionC1ENS_11RecordScopeE", OPEN, TORCH, .key_arg = 1,
		   .tag_arg = 2, .tag = 7),
	ANNOTATION(ENTER_NAMED, OPEN, TORCH, .text = PERFX_TEXT_STRING, .text_arg = 1,
		   .key_arg = 3),
	RULE(EXIT_NEW, true, HOST_ANNOTATIONS, END, TORCH, .key_arg = 1),
	RULE(ENTER_NEW, true, HOST_ANNOTATIONS, BEGIN, TORCH, .text = PERFX_TEXT_STRING,
	     .text_arg = 2, .key_offset = 16),
	RULE(PYTHON_OPERATOR, true, HOST_OPERATORS, CALL, TORCH, .text = PERFX_TEXT_STRING,
	     .text_arg = 2, .path_count = 2),
	ANNOTATION(EAGER_CALL, CALL, TF, .text = PERFX_TEXT_STRING, .text_arg = 1,
		   .text_offset = 24, .flags = PERFX_ANNOTATION_F_UNDERSCORES),
	RULE("_ZN10tensorflow16ThreadPoolDevice7ComputeE", true, HOST_OPERATORS, CALL, TF,
	     .text = PERFX_TEXT_VIEW, .text_arg = 2, .text_offset = 200,
	     .flags = PERFX_ANNOTATION_F_KIND),
#undef RULE
#undef ANNOTATION
#undef C_TEXT
#undef NVTX_TEXT
};

const char *const annotation_entry_points[] = {"nvtxRangePushA", "nvtxRangePushEx",
					       "roctxRangePushA", "perfx_nvtx_push", NULL};

bool annotation_module(const char *base)
{
	static const char *const globs[] = {"libtorch_cpu*",	   "libtorch_python*",
					    "libnvToolsExt*",	   "libroctx64*",
					    "*rocprofiler*roctx*", "libtensorflow*",
					    "_pywrap_tensorflow*", "libjax_common*",
					    "xla_extension*",	   NULL};

	return text_matches_one_of(base, globs);
}

bool annotation_is_old_torch(const char *symbol)
{
	return begins_with(symbol, ENTER_NEW) && strstr(symbol, "N3c108optional");
}

int annotation_prefixes(struct prefixes *set)
{
	int err = jitted_prefixes(set);

	for (size_t i = 0; !err && i < sizeof(rules) / sizeof(rules[0]); i++)
		err = prefixes_add(set, rules[i].name);
	return err;
}

/* Runs a compiled module; the first argument is where its result goes. */
static const struct perfx_annotation jitted_call = {.action = PERFX_ANNOTATION_CALL,
						    .source = PERFX_SOURCE_JAX,
						    .text = PERFX_TEXT_STRING,
						    .text_arg = 2};

bool annotation_find(const char *symbol, struct perfx_annotation *annotation, const char **shown,
		     enum host_level *level)
{
	if (runs_jitted(symbol)) {
		*annotation = jitted_call;
		*level = HOST_ANNOTATIONS;
		*shown = NULL;
		return true;
	}
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (*symbol != *rules[i].name)
			continue;
		if (rules[i].prefix ? !begins_with(symbol, rules[i].name)
				    : strcmp(symbol, rules[i].name) != 0)
			continue;
		*annotation = rules[i].annotation;
		*level = rules[i].level;
		/* std::string of the old ABI is mangled Ss */
		if (annotation->text == PERFX_TEXT_STRING && strstr(symbol, "ERKSs"))
			annotation->text = PERFX_TEXT_OLD_STRING;
		*shown = annotation->action == PERFX_ANNOTATION_OPEN && !annotation->text
				 ? PERFX_NAMELESS_RANGE
				 : NULL;
		return true;
	}
	return false;
}

bool annotation_runs_eager(const char *symbol)
{
	return !strcmp(symbol, EAGER_CALL);
}
