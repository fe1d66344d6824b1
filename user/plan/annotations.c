// SPDX-License-Identifier: BSD-2-Clause
#include "plan/annotations.h"

#include "base/grow.h"
#include "base/text.h"
#include "elf/demangle.h"
#include "plan/internal.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs an operation, or a function that has been traced ("__inference_train_step_67"); its name
 * is a std::string at 24, in 2.21. */
#define EAGER_CALL "TFE_Execute"

#define ENTER_NEW "_ZN5torch8autograd8profiler25record_function_enter_newE"
/* (name, arguments, RecordFunction &), which it ends by calling: local, so only where a file has
 * its symbols still, as PyTorch's wheels do. */
#define ENTER_NAMED                                                                 \
	"_ZN5torch8autograd8profilerL21record_function_enterERKNSt7__cxx1112basic_" \
	"stringIcSt11char_"                                                         \
	"traitsIcESaIcEEERKSt8optionalIS7_ERN2at14RecordFunctionE"

#define RANGE_END     "_ZN2at14RecordFunction3endEv"
#define RANGE_DESTROY "_ZN2at14RecordFunctionD1Ev"
/* What ends the ranges that ENTER_NAMED begins, local like it; one that was handed to a future ends
 * with its object. */
#define EXIT_NEW    "_ZN5torch8autograd8profilerL24record_function_exit_newE"
#define EXIT_LEGACY "_ZN5torch8autograd8profilerL27record_function_exit_legacyERKN2at6TensorE"
#define NAMED_D0    "_ZN5torch8autograd8profiler20PythonRecordFunctionD0Ev"
#define NAMED_D1    "_ZN5torch8autograd8profiler20PythonRecordFunctionD1Ev"

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
#define ANNOTATION(symbol, act, src, ...)                                               \
	{                                                                               \
		symbol, false, HOST_ANNOTATIONS,                                        \
		{                                                                       \
			.action = PERFX_ANNOTATION_##act, .source = PERFX_SOURCE_##src, \
			__VA_ARGS__                                                     \
		}                                                                       \
	}
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
	{EXIT_NEW,
	 true,
	 HOST_ANNOTATIONS,
	 {.action = PERFX_ANNOTATION_END, .source = PERFX_SOURCE_TORCH, .key_arg = 1}},
	{ENTER_NEW,
	 true,
	 HOST_ANNOTATIONS,
	 {.action = PERFX_ANNOTATION_BEGIN,
	  .source = PERFX_SOURCE_TORCH,
	  .text = PERFX_TEXT_STRING,
	  .text_arg = 2,
	  .key_offset = 16}},
	{EAGER_CALL,
	 false,
	 HOST_ANNOTATIONS,
	 {.action = PERFX_ANNOTATION_CALL,
	  .source = PERFX_SOURCE_TF,
	  .text = PERFX_TEXT_STRING,
	  .text_arg = 1,
	  .text_offset = 24,
	  .flags = PERFX_ANNOTATION_F_UNDERSCORES}},
	{"_ZN10tensorflow16ThreadPoolDevice7ComputeE",
	 true,
	 HOST_OPERATORS,
	 {.action = PERFX_ANNOTATION_CALL,
	  .source = PERFX_SOURCE_TF,
	  .text = PERFX_TEXT_VIEW,
	  .text_arg = 2,
	  .text_offset = 200,
	  .flags = PERFX_ANNOTATION_F_KIND}},
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
					    "xla_extension*"};

	for (size_t i = 0; i < sizeof(globs) / sizeof(globs[0]); i++)
		if (!fnmatch(globs[i], base, 0))
			return true;
	return false;
}

bool annotation_is_old_torch(const char *symbol)
{
	return begins_with(symbol, ENTER_NEW) && strstr(symbol, "N3c108optional");
}

int annotation_prefixes(struct prefixes *set)
{
	int err = annotation_jitted_prefixes(set);

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
	if (annotation_runs_jitted(symbol)) {
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

bool plan_annotation_begins(const struct perfx_annotation *annotation)
{
	switch ((enum perfx_annotation_action)annotation->action) {
	case PERFX_ANNOTATION_PUSH:
	case PERFX_ANNOTATION_BEGIN:
	case PERFX_ANNOTATION_OPEN:
	case PERFX_ANNOTATION_START:
	case PERFX_ANNOTATION_START_ID:
	case PERFX_ANNOTATION_INSTANT:
	case PERFX_ANNOTATION_CALL:
		return true;
	case PERFX_ANNOTATION_POP:
	case PERFX_ANNOTATION_END:
	case PERFX_ANNOTATION_STOP:
	case PERFX_ANNOTATION_SET:
	case PERFX_ANNOTATION_ADD:
	case PERFX_ANNOTATION_ALLOCATED:
	case PERFX_ANNOTATION_FREED:
	case PERFX_ANNOTATION_RECORD:
	case PERFX_ANNOTATION_PAUSE:
	case PERFX_ANNOTATION_INVALID:
		break;
	}
	return false;
}

/* Where the ranges of ENTER_NAMED end: where `caller` hands its first argument, the range, over to
 * `callee`. */
static const struct {
	const char *caller, *callee;
} ends[] = {
	{EXIT_NEW, RANGE_END},
	{EXIT_LEGACY, RANGE_END},
	{NAMED_D0, RANGE_DESTROY},
	{NAMED_D1, RANGE_DESTROY},
};
#define ENDS_COUNT (sizeof(ends) / sizeof(ends[0]))

struct finding {
	struct plan *plan;
	struct image *image;
	size_t module, first;
	bool old_torch;
	/* PyTorch's, wanted where there is no better way, which is known when all have been seen:
	 * the constructor of ranges, and what returns one; names strdup'd, NULL: none */
	struct symbol nameless, returning;
	uint64_t named; /* vaddr of ENTER_NAMED; 0: none */
	/* likewise wanted or not: RANGE_END, and the callers of `ends` */
	struct symbol end, callers[ENDS_COUNT];
};

bool annotation_runs_eager(const char *symbol)
{
	return !strcmp(symbol, EAGER_CALL);
}

enum host_level plan_host_level(const struct plan *plan)
{
	return plan->options.host_level ? plan->options.host_level : HOST_OPERATORS;
}

static bool is_named(const struct plan *plan, bool excludes, size_t module, const char *symbol)
{
	const struct plan_options *options = &plan->options;
	const struct module_names names = plan_module_names(&plan->modules[module]);

	for (size_t i = 0; i < options->patterns_count; i++)
		if (pattern__excludes(options->patterns[i]) == excludes &&
		    pattern__matches_module(options->patterns[i], &names) &&
		    pattern__matches_name(options->patterns[i], symbol))
			return true;
	return false;
}

/* May the budget give it up? Calls of TensorFlow's may be too small to be traced. PyTorch's
 * destructors end only ranges that were handed to a future: the other ends stay. */
static bool may_be_left(const struct plan *plan, const struct perfx_annotation *annotation,
			size_t module, const char *symbol)
{
	bool can_go = annotation->action == PERFX_ANNOTATION_CALL || !strcmp(symbol, NAMED_D0) ||
		      !strcmp(symbol, NAMED_D1);

	return can_go && !plan->options.step_range && !plan->options.host_level &&
	       !is_named(plan, false, module, symbol);
}

/* Several names of one function (C1, C2). */
static bool is_planned(const struct finding *finding, uint64_t vaddr)
{
	for (size_t i = finding->first; i < finding->plan->functions_count; i++)
		if (plan_is_annotation(&finding->plan->functions[i]) &&
		    finding->plan->functions[i].vaddr == vaddr)
			return true;
	return false;
}

static void move_arguments(struct perfx_annotation *annotation, const struct site_plan *site)
{
	__u8 *arguments[] = {&annotation->text_arg, &annotation->key_arg, &annotation->tag_arg};

	for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++)
		if (*arguments[i])
			*arguments[i] = (__u8)(site->arguments[*arguments[i] - 1] + 1);
}

static uint8_t argument_regs(const struct perfx_annotation *annotation)
{
	const __u8 arguments[] = {annotation->text_arg, annotation->key_arg, annotation->tag_arg,
				  annotation->action == PERFX_ANNOTATION_BEGIN};
	uint8_t regs = 0;

	for (size_t i = 0; i < sizeof(arguments); i++)
		if (arguments[i])
			regs |= (uint8_t)(1u << (arguments[i] - 1));
	return regs;
}

/* Its site, unless that is given, and exits where its result is wanted. NULL, or why not. */
static const char *find_site(const struct finding *finding, struct plan_function *function)
{
	struct perfx_annotation *annotation = &function->annotation;
	bool wants_exits = annotation->action == PERFX_ANNOTATION_BEGIN ||
			   annotation->action == PERFX_ANNOTATION_START ||
			   annotation->action == PERFX_ANNOTATION_CALL;
	struct site_options options = {
		.entry_only = finding->plan->options.site_entry_only,
		.optimized_nop5 = finding->plan->options.optimized_nop5,
		.nop5_kills = finding->plan->options.nop5_kills,
		.argument_regs = argument_regs(annotation),
		/* where the object will be is looked for in the first argument's own register */
		.arguments_may_move = annotation->action != PERFX_ANNOTATION_BEGIN,
		.needs_result = annotation->action == PERFX_ANNOTATION_START,
	};
	int err;

	if (function->site.entry_vaddr)
		return NULL;
	err = site_plan(finding->image, function->vaddr, function->size, &options, &function->site);
	if (err)
		return err == -ENOTSUP ? "no instruction at its start that the kernel can probe"
				       : "its code is not in the file";
	move_arguments(annotation, &function->site);
	if (!wants_exits)
		return NULL;
	if (function->site.exits_state == EXITS_KNOWN && !function->site.entry_is_exit) {
		function->ret = PERFX_RETURN_EXIT;
		return NULL;
	}
	if (annotation->action != PERFX_ANNOTATION_START)
		return "marks ranges, but not all of its exits are known";
	/* without its result: as if all had the same id, which they have where no tool listens */
	annotation->action = PERFX_ANNOTATION_START_ID;
	return NULL;
}

/* site: address of a branch; 0: it is to be chosen. */
static int add_annotation(struct finding *finding, const struct symbol *symbol,
			  const struct perfx_annotation *annotation, const char *shown,
			  uint64_t site)
{
	struct plan *plan = finding->plan;
	struct plan_function function = {
		.site = {.entry_vaddr = site,
			 .entry_kind = SITE_BRANCH,
			 .exits_state = EXITS_KNOWN},
		.ret = PERFX_RETURN_NONE,
		.ret_why = "begins or ends a range",
		.module = (uint32_t)finding->module,
		.vaddr = symbol->vaddr,
		.offset = symbol->offset,
		.size = symbol->size,
		.source = (enum perfx_source)annotation->source,
		.role = PLAN_ANNOTATION,
		.annotation = *annotation,
		.by_default = may_be_left(plan, annotation, finding->module, symbol->name),
	};
	const char *why = find_site(finding, &function);

	function.symbol = strdup(symbol->name);
	function.name = shown ? strdup(shown) : demangle(symbol->name);
	if (why && function.name)
		skipped_add(&plan->skipped, function.name, why);
	if (!why && function.symbol && function.name && !plan_add_function(plan, &function)) {
		plan->annotations_count++;
		return 0;
	}
	free(function.symbol);
	free(function.name);
	site_plan__clear(&function.site);
	return why ? 0 : -ENOMEM;
}

/* NVTX 3, whose functions are the file's own, calls our library: there they are probed. */
static bool is_injected(const struct finding *finding, const struct symbol *symbol)
{
	return finding->plan->options.nvtx_injected && !symbol->global &&
	       begins_with(symbol->name, "nvtx");
}

/* The first of that name. */
static int defer(struct symbol *deferred, const struct symbol *symbol)
{
	if (deferred->name)
		return 0;
	*deferred = *symbol;
	deferred->name = strdup(symbol->name);
	return deferred->name ? 0 : -ENOMEM;
}

/* Where a symbol that ends PyTorch's ranges is kept until all have been seen. */
static struct symbol *place_of_end(struct finding *finding, const char *symbol)
{
	for (size_t i = 0; i < ENDS_COUNT; i++)
		if (begins_with(symbol, ends[i].caller))
			return &finding->callers[i];
	return &finding->end;
}

static int offer(const struct symbol *symbol, void *ctx)
{
	struct finding *finding = ctx;
	const char *shown;
	enum host_level level;
	struct perfx_annotation annotation;

	if (symbol->cold || symbol->ifunc ||
	    !annotation_find(symbol->name, &annotation, &shown, &level) ||
	    level > plan_host_level(finding->plan) || is_planned(finding, symbol->vaddr) ||
	    is_named(finding->plan, true, finding->module, symbol->name) ||
	    is_injected(finding, symbol))
		return 0;
	if (annotation_runs_jitted(symbol->name) &&
	    !plan_jitted_name(finding->image, symbol->name, &annotation)) {
		skipped_hint(&finding->plan->skipped, "names of jitted functions",
			     "not found in this release of JAX: their calls are counted together");
		return 0;
	}
	finding->old_torch |= annotation_is_old_torch(symbol->name);
	if (!strcmp(symbol->name, ENTER_NAMED))
		finding->named = symbol->vaddr;
	if (annotation.action == PERFX_ANNOTATION_BEGIN && !finding->returning.name)
		return defer(&finding->returning, symbol);
	if (annotation.action == PERFX_ANNOTATION_OPEN && !annotation.text)
		return defer(&finding->nameless, symbol);
	if (annotation.action == PERFX_ANNOTATION_END && annotation.source == PERFX_SOURCE_TORCH)
		return defer(place_of_end(finding, symbol->name), symbol);
	return add_annotation(finding, symbol, &annotation, shown, 0);
}

static int add_deferred_symbol(struct finding *finding, const struct symbol *symbol, uint64_t site)
{
	enum host_level level;
	struct perfx_annotation annotation;
	const char *shown;

	if (!symbol->name || !annotation_find(symbol->name, &annotation, &shown, &level))
		return 0;
	return add_annotation(finding, symbol, &annotation, shown, site);
}

/* What it calls knows the object, whose place a function that returns it shows at its exit only:
 * half of the hits, and of PyTorch's wheels that exit is single-stepped. */
static bool passes_named(const struct finding *finding)
{
	const struct symbol *returning = &finding->returning;

	return finding->named && is_planned(finding, finding->named) && returning->name &&
	       site_of_call(finding->image, returning->vaddr, returning->size, finding->named);
}

/* Where one of `ends` is; 0: not found. */
static uint64_t site_of_end(const struct finding *finding, size_t index)
{
	const struct symbol *caller = &finding->callers[index];
	uint64_t callee, size;

	if (!caller->name || !image__exported(finding->image, ends[index].callee, &callee, &size))
		return 0;
	return site_of_call(finding->image, caller->vaddr, caller->size, callee);
}

/* If all of these places are found, ranges end there; else where all others do too, which is hit as
 * often as operators run. */
static int add_ends(struct finding *finding, bool named)
{
	uint64_t sites[ENDS_COUNT];
	int err = 0;

	named &= !finding->plan->options.site_entry_only;

	for (size_t i = 0; i < ENDS_COUNT && named; i++) {
		sites[i] = site_of_end(finding, i);
		named = sites[i];
	}
	if (!named)
		return add_deferred_symbol(finding, &finding->end, 0);
	for (size_t i = 0; i < ENDS_COUNT && !err; i++)
		err = add_deferred_symbol(finding, &finding->callers[i], sites[i]);
	return err;
}

static int add_deferred(struct finding *finding)
{
	bool named = passes_named(finding);
	int err = finding->old_torch ? add_deferred_symbol(finding, &finding->nameless, 0) : 0;

	if (!err && !named)
		err = add_deferred_symbol(finding, &finding->returning, 0);
	return err ? err : add_ends(finding, named);
}

static bool annotates_nvtx(const struct finding *finding)
{
	for (size_t i = finding->first; i < finding->plan->functions_count; i++)
		if (plan_is_annotation(&finding->plan->functions[i]) &&
		    finding->plan->functions[i].source == PERFX_SOURCE_NVTX)
			return true;
	return false;
}

static bool is_python(const char *base)
{
	return !fnmatch("python[23]*", base, 0) || !fnmatch("libpython[23]*", base, 0);
}

/* Reports functions that cannot be probed, with the way that works. */
static void skip_unseen(const struct finding *finding)
{
	struct plan *plan = finding->plan;
	const char *base = plan->modules[finding->module].base;

	if (!plan->options.nvtx_injected && !annotates_nvtx(finding) &&
	    image__mentions(finding->image, "NVTX_INJECTION64_PATH"))
		skipped_hint(&plan->skipped, base,
			     "its NVTX 3 ranges are inlined: traced only if perfx-trace run starts "
			     "the program");
	if (!plan->options.python_functions && !plan->has_python && is_python(base))
		skipped_hint(&plan->skipped, "Python functions",
			     "attaching samples them by line, but does not count their calls; mark "
			     "them with @perfx.track, or start the program with perfx-trace run "
			     "--python-level 1");
	plan->has_python |= is_python(base);
}

int plan_annotations(struct plan *plan, struct image *image, size_t module)
{
	struct finding finding = {
		.plan = plan, .image = image, .module = module, .first = plan->functions_count};
	bool worth = annotation_module(plan->modules[module].base);
	int err;

	for (size_t i = 0; !worth && annotation_entry_points[i]; i++)
		worth = image__exports(image, annotation_entry_points[i]);
	if (plan_host_level(plan) < HOST_ANNOTATIONS)
		return 0;
	err = worth ? image__each_function(image, offer, &finding) : 0;
	if (!err)
		err = add_deferred(&finding);
	free((char *)finding.nameless.name);
	free((char *)finding.returning.name);
	free((char *)finding.end.name);
	for (size_t i = 0; i < ENDS_COUNT; i++)
		free((char *)finding.callers[i].name);
	skip_unseen(&finding);
	return err;
}

/*
 * USDT probes: those that were asked for are counted, those of perfx.h mark ranges. A probe is a
 * place in a function, a nop, at which its arguments are where its note says; perfx.h's markers are
 * functions, so theirs are in the registers of a call.
 */

/* perfx.h: provider "perfx". */
static const struct {
	const char *name;
	const char *shown; /* NULL: the probe's own name */
	struct perfx_annotation annotation;
} markers[] = {
#define MARKER(probe, say, act, ...)                                                    \
	{                                                                               \
		probe, say,                                                             \
		{                                                                       \
			.action = PERFX_ANNOTATION_##act, .source = PERFX_SOURCE_PERFX, \
			__VA_ARGS__                                                     \
		}                                                                       \
	}
#define NAMED .text = PERFX_TEXT_C, .text_arg = 1
#define OTHER(probe, act, of, ...)                                                     \
	{                                                                              \
		probe, NULL,                                                           \
		{                                                                      \
			.action = PERFX_ANNOTATION_##act,                              \
			.source = PERFX_SOURCE_PERFX | PERFX_NAME_OF_##of, __VA_ARGS__ \
		}                                                                      \
	}
#define VALUE(probe, act)      OTHER(probe, act, VALUE, NAMED, .key_arg = 2)
#define BLOCK(probe, act, ...) OTHER(probe, act, ALLOCATOR, NAMED, .key_arg = 2, __VA_ARGS__)
	MARKER("range_push", NULL, PUSH, NAMED, .within_arg = 2),
	MARKER("range_pop", NULL, POP, .text = 0),
	MARKER("range_start", NULL, START_ID, NAMED, .key_arg = 2, .within_arg = 3),
	MARKER("range_end", NULL, STOP, .key_arg = 1),
	MARKER("mark", NULL, INSTANT, NAMED),
	/* of a key that no object has, so a pop cannot end it */
	MARKER("trace_start", NULL, RECORD, .text = 0),
	MARKER("trace_stop", NULL, PAUSE, .text = 0),
	MARKER("step_begin", "step", OPEN, .text = 0),
	MARKER("step_end", NULL, END, .text = 0),
	VALUE("counter", SET),
	VALUE("counter_add", ADD),
	BLOCK("memory_alloc", ALLOCATED, .size_arg = 3),
	BLOCK("memory_free", FREED, .size_arg = 0),
#undef MARKER
#undef NAMED
#undef OTHER
#undef VALUE
#undef BLOCK
};

struct usdt_finding {
	struct plan *plan;
	struct image *image;
	size_t module;
};

/* What the place is: perfx.h's markers begin with a 5-byte nop, which some kernels turn into a call
 * and others single-step, and have a nop of one byte behind it. In the midst of a function the call
 * would overwrite what lies below the stack pointer, which functions that call none may use. False:
 * there must be no probe. */
static bool choose_site(const struct usdt_finding *finding, struct plan_function *function,
			bool at_entry)
{
	static const uint8_t nop5_nop[] = {0x0f, 0x1f, 0x44, 0, 0, 0x90};
	const struct plan_options *options = &finding->plan->options;
	size_t available = 0;
	const uint8_t *code = image__code(finding->image, function->vaddr, &available);
	struct site_plan *site = &function->site;

	*site = (struct site_plan){.entry_vaddr = function->vaddr,
				   .entry_kind = SITE_STEPPED,
				   .exits_state = EXITS_KNOWN};
	if (code && available && code[0] == 0x90)
		site->entry_kind = SITE_NOP;
	if (!code || available < 5 || memcmp(code, nop5_nop, 5) != 0)
		return true;
	if (options->optimized_nop5 && !options->nop5_kills && at_entry) {
		site->entry_kind = SITE_NOP5;
		return true;
	}
	if (available < sizeof(nop5_nop) || code[5] != nop5_nop[5])
		return !options->optimized_nop5;
	site->entry_kind = SITE_NOP;
	site->entry_vaddr += 5;
	return true;
}

static bool is_memory(const struct perfx_annotation *annotation)
{
	return annotation->action == PERFX_ANNOTATION_ALLOCATED ||
	       annotation->action == PERFX_ANNOTATION_FREED;
}

/* Is the marker read? Those that say what is recorded are where the tracer waits for it, whatever
 * else is. */
static bool is_read(const struct plan *plan, const struct perfx_annotation *annotation)
{
	if (annotation->action == PERFX_ANNOTATION_RECORD ||
	    annotation->action == PERFX_ANNOTATION_PAUSE)
		return plan->options.wait;
	return plan_host_level(plan) >= HOST_ANNOTATIONS &&
	       !(is_memory(annotation) && plan->options.memory == MEMORY_OFF);
}

static bool find_marker(const struct plan *plan, const struct usdt_probe *probe,
			struct plan_function *function, const char **shown)
{
	if (strcmp(probe->provider, "perfx"))
		return false;
	for (size_t i = 0; i < sizeof(markers) / sizeof(markers[0]); i++) {
		if (strcmp(probe->name, markers[i].name))
			continue;
		if (!is_read(plan, &markers[i].annotation))
			return false;
		function->annotation = markers[i].annotation;
		*shown = markers[i].shown;
		if (markers[i].annotation.action == PERFX_ANNOTATION_OPEN)
			function->stream_flags = PERFX_FUNCTION_RANGE | PERFX_FUNCTION_STEP;
		return true;
	}
	return false;
}

static bool is_wanted(const struct plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->options.usdt_count; i++)
		if (!fnmatch(plan->options.usdt[i], name, 0))
			return true;
	return false;
}

static char *name_of(const struct usdt_probe *probe)
{
	char *name;

	return asprintf(&name, "%s:%s", probe->provider, probe->name) < 0 ? NULL : name;
}

static int add_usdt(const struct usdt_finding *finding, const struct usdt_probe *probe, char *name,
		    struct plan_function *function)
{
	struct plan *plan = finding->plan;

	function->module = (uint32_t)finding->module;
	function->vaddr = probe->vaddr;
	function->offset = probe->offset;
	function->name = name;
	function->symbol = strdup(name);
	function->source = (enum perfx_source)(function->annotation.source &
					       ~(PERFX_NAME_OF_VALUE | PERFX_NAME_OF_ALLOCATOR));
	if (!choose_site(finding, function, !strcmp(probe->provider, "perfx"))) {
		skipped_add(&plan->skipped, name, "its nop cannot be probed safely on this kernel");
		free(function->symbol);
		free(name);
		return 0;
	}
	function->ret = PERFX_RETURN_NONE;
	function->ret_why = "a point in the code, not a function";
	function->role = PLAN_USDT;
	function->semaphore_offset = probe->semaphore_offset;
	if (function->symbol && !plan_add_function(plan, function)) {
		plan->annotations_count++;
		return 0;
	}
	free(function->symbol);
	free(name);
	return -ENOMEM;
}

static int offer_usdt(const struct usdt_probe *probe, void *ctx)
{
	struct usdt_finding *finding = ctx;
	struct plan_function function = {0};
	const char *shown = NULL;
	char *name = name_of(probe);

	if (!name)
		return -ENOMEM;
	if (is_wanted(finding->plan, name)) {
		function.annotation = (struct perfx_annotation){.action = PERFX_ANNOTATION_INSTANT,
								.source = PERFX_SOURCE_USDT};
	} else if (!find_marker(finding->plan, probe, &function, &shown)) {
		free(name);
		return 0;
	}
	if (shown) {
		free(name);
		name = strdup(shown);
		if (!name)
			return -ENOMEM;
	}
	finding->plan->modules[finding->module].is_ml = true; /* annotated, or asked for */
	return add_usdt(finding, probe, name, &function);
}

int plan_usdt(struct plan *plan, struct image *image, size_t module)
{
	struct usdt_finding finding = {plan, image, module};

	return image__each_usdt(image, offer_usdt, &finding);
}
