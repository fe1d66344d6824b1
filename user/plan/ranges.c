// SPDX-License-Identifier: BSD-2-Clause
/* Plans the functions by which programs mark ranges, and USDT probes. */
#include "base/grow.h"
#include "base/text.h"
#include "elf/demangle.h"
#include "plan/annotations.h"
#include "plan/internal.h"
#include "plan/jitted.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Several names of one function (C1, C2). */
static bool is_planned(const struct finding *finding, uint64_t vaddr)
{
	return plan_has(finding->plan, finding->first, PLAN_ANNOTATION, vaddr);
}

/* May the budget give it up? Calls of TensorFlow's operations may be too small to be traced.
 * PyTorch's destructors end only ranges that were handed to a future: the other ends stay. */
static bool is_optional(const struct plan *plan, const struct perfx_annotation *annotation,
			size_t module, const char *symbol)
{
	bool can_go = annotation->action == PERFX_ANNOTATION_CALL || !strcmp(symbol, NAMED_D0) ||
		      !strcmp(symbol, NAMED_D1);

	return can_go && !plan->options.step_range && !plan->options.host_level &&
	       !is_named(plan, false, module, symbol);
}

/* Chooses the function's site, and its exits where its result is wanted. NULL, or why not. */
static const char *find_site(const struct finding *finding, struct plan_function *function)
{
	struct perfx_annotation *annotation = &function->annotation;
	const bool begins = annotation->action == PERFX_ANNOTATION_BEGIN;
	const bool starts = annotation->action == PERFX_ANNOTATION_START;
	struct site_options options = finding->plan->options.site;
	__u8 *const arguments[] = {&annotation->text_arg, &annotation->key_arg,
				   &annotation->tag_arg};
	const char *why;

	options.needs_result = starts;
	/* the object is read by way of the first argument's own register */
	options.arguments_may_move = !begins;
	options.argument_regs = begins;
	why = plan_find_site(finding->image, function, &options, arguments, 3);
	if (why || (!begins && !starts && annotation->action != PERFX_ANNOTATION_CALL))
		return why;
	if (function->site.exits_state == EXITS_KNOWN && !function->site.entry_is_exit) {
		function->ret = PERFX_RETURN_EXIT;
		return NULL;
	}
	if (!starts)
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
		.by_default = is_optional(plan, annotation, finding->module, symbol->name),
	};
	const char *why = site ? NULL : find_site(finding, &function);

	function.symbol = strdup(symbol->name);
	function.name = shown ? strdup(shown) : demangle(symbol->name);
	if (why) {
		if (function.name)
			skipped_add(&plan->skipped, function.name, why);
		plan_function_clear(&function);
		return 0;
	}
	if (plan_add_function(plan, &function))
		return -ENOMEM;
	plan->annotations_count++;
	return 0;
}

/* Keeps the first symbol of a name until all have been seen. */
static int defer(struct symbol *deferred, const struct symbol *symbol)
{
	if (deferred->name)
		return 0;
	*deferred = *symbol;
	deferred->name = strdup(symbol->name);
	return deferred->name ? 0 : -ENOMEM;
}

static int offer(const struct symbol *symbol, void *ctx)
{
	struct finding *finding = ctx;
	const char *shown;
	enum host_level level;
	struct perfx_annotation annotation;

	/* NVTX 3, whose functions are the file's own, calls our library: there they are probed. */
	if (symbol->cold || symbol->ifunc ||
	    !annotation_find(symbol->name, &annotation, &shown, &level) ||
	    level > plan_host_level(finding->plan) || is_planned(finding, symbol->vaddr) ||
	    is_named(finding->plan, true, finding->module, symbol->name) ||
	    (finding->plan->options.nvtx_injected && !symbol->global &&
	     begins_with(symbol->name, "nvtx")))
		return 0;
	if (runs_jitted(symbol->name) && !jitted_name(finding->image, symbol->name, &annotation)) {
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
	if (annotation.action != PERFX_ANNOTATION_END || annotation.source != PERFX_SOURCE_TORCH)
		return add_annotation(finding, symbol, &annotation, shown, 0);
	for (size_t i = 0; i < ENDS_COUNT; i++)
		if (begins_with(symbol->name, ends[i].caller))
			return defer(&finding->callers[i], symbol);
	return defer(&finding->end, symbol);
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

static int add_deferred(struct finding *finding)
{
	const struct symbol *returning = &finding->returning;
	/* The function that ENTER_NEW calls has the object as an argument, while ENTER_NEW shows it
	 * at its exit only: half of the hits, and in PyTorch's wheels that exit is single-stepped.
	 */
	bool named =
		finding->named && is_planned(finding, finding->named) && returning->name &&
		site_of_call(finding->image, returning->vaddr, returning->size, finding->named);
	uint64_t sites[ENDS_COUNT], callee, size;
	int err = finding->old_torch ? add_deferred_symbol(finding, &finding->nameless, 0) : 0;

	if (!err && !named)
		err = add_deferred_symbol(finding, returning, 0);
	/* If all places in `ends` are found, ranges end there; otherwise where all others do too,
	 * which is hit as often as operators run. */
	named &= !finding->plan->options.site.entry_only;
	for (size_t i = 0; i < ENDS_COUNT && named; i++) {
		const struct symbol *caller = &finding->callers[i];

		sites[i] = 0;
		if (caller->name && image__exported(finding->image, ends[i].callee, &callee, &size))
			sites[i] =
				site_of_call(finding->image, caller->vaddr, caller->size, callee);
		named = sites[i];
	}
	if (!err && !named)
		return add_deferred_symbol(finding, &finding->end, 0);
	for (size_t i = 0; i < ENDS_COUNT && !err; i++)
		err = add_deferred_symbol(finding, &finding->callers[i], sites[i]);
	return err;
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
	bool traces_nvtx = plan->options.nvtx_injected;

	for (size_t i = finding->first; i < plan->functions_count; i++)
		traces_nvtx |= plan_is_annotation(&plan->functions[i]) &&
			       plan->functions[i].source == PERFX_SOURCE_NVTX;
	if (!traces_nvtx && image__mentions(finding->image, "NVTX_INJECTION64_PATH"))
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
#define MARKER(probe, shown, act, of, ...)                                                     \
	{                                                                                      \
		probe, shown,                                                                  \
		{                                                                              \
			.action = PERFX_ANNOTATION_##act, .source = PERFX_SOURCE_PERFX | (of), \
			__VA_ARGS__                                                            \
		}                                                                              \
	}
#define NAMED .text = PERFX_TEXT_C, .text_arg = 1
	MARKER("range_push", NULL, PUSH, 0, NAMED, .within_arg = 2),
	MARKER("range_pop", NULL, POP, 0, .text = 0),
	MARKER("range_start", NULL, START_ID, 0, NAMED, .key_arg = 2, .within_arg = 3),
	MARKER("range_end", NULL, STOP, 0, .key_arg = 1),
	MARKER("mark", NULL, INSTANT, 0, NAMED),
	/* of a key that no object has, so a pop cannot end it */
	MARKER("trace_start", NULL, RECORD, 0, .text = 0),
	MARKER("trace_stop", NULL, PAUSE, 0, .text = 0),
	MARKER("step_begin", "step", OPEN, 0, .text = 0),
	MARKER("step_end", NULL, END, 0, .text = 0),
	MARKER("counter", NULL, SET, PERFX_NAME_OF_VALUE, NAMED, .key_arg = 2),
	MARKER("counter_add", NULL, ADD, PERFX_NAME_OF_VALUE, NAMED, .key_arg = 2),
	MARKER("memory_alloc", NULL, ALLOCATED, PERFX_NAME_OF_ALLOCATOR, NAMED, .key_arg = 2,
	       .size_arg = 3),
	MARKER("memory_free", NULL, FREED, PERFX_NAME_OF_ALLOCATOR, NAMED, .key_arg = 2),
#undef MARKER
#undef NAMED
};

/* Chooses the kind of the site: perfx.h's markers begin with a 5-byte nop, which some kernels turn
 * into a call and others single-step, and have a nop of one byte behind it. In the midst of a
 * function the call would overwrite what lies below the stack pointer, which functions that call
 * none may use. False: there must be no probe. */
static bool choose_site(const struct finding *finding, struct plan_function *function,
			bool at_entry)
{
	static const uint8_t nop5_nop[] = {0x0f, 0x1f, 0x44, 0, 0, 0x90};
	const struct site_options *options = &finding->plan->options.site;
	size_t available = 0;
	const uint8_t *code = image__code(finding->image, function->vaddr, &available);
	struct site_plan *site = &function->site;

	*site = (struct site_plan){.entry_vaddr = function->vaddr, .exits_state = EXITS_KNOWN};
	site->entry_kind = code && available && code[0] == 0x90 ? SITE_NOP : SITE_STEPPED;
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

/* Is the marker read? Those that start and stop the recording are read if --wait is given. */
static bool is_read(const struct plan *plan, const struct perfx_annotation *annotation)
{
	if (annotation->action == PERFX_ANNOTATION_RECORD ||
	    annotation->action == PERFX_ANNOTATION_PAUSE)
		return plan->options.wait;
	return plan_host_level(plan) >= HOST_ANNOTATIONS &&
	       !((annotation->action == PERFX_ANNOTATION_ALLOCATED ||
		  annotation->action == PERFX_ANNOTATION_FREED) &&
		 plan->options.memory == MEMORY_OFF);
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

static int add_usdt(const struct finding *finding, const struct usdt_probe *probe,
		    struct plan_function *function)
{
	struct plan *plan = finding->plan;

	function->module = (uint32_t)finding->module;
	function->vaddr = probe->vaddr;
	function->offset = probe->offset;
	function->symbol = strdup(function->name);
	function->source = (enum perfx_source)(function->annotation.source &
					       ~(PERFX_NAME_OF_VALUE | PERFX_NAME_OF_ALLOCATOR));
	if (!choose_site(finding, function, !strcmp(probe->provider, "perfx"))) {
		skipped_add(&plan->skipped, function->name,
			    "its nop cannot be probed safely on this kernel");
		plan_function_clear(function);
		return 0;
	}
	function->ret = PERFX_RETURN_NONE;
	function->ret_why = "a point in the code, not a function";
	function->role = PLAN_USDT;
	function->semaphore_offset = probe->semaphore_offset;
	if (plan_add_function(plan, function))
		return -ENOMEM;
	plan->annotations_count++;
	return 0;
}

static int offer_usdt(const struct usdt_probe *probe, void *ctx)
{
	const struct finding *finding = ctx;
	const struct plan_options *options = &finding->plan->options;
	struct plan_function function = {0};
	const char *shown = NULL;
	bool wanted = false;
	char *name;

	if (asprintf(&name, "%s:%s", probe->provider, probe->name) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < options->usdt_count; i++)
		wanted |= !fnmatch(options->usdt[i], name, 0);
	if (wanted) {
		function.annotation = (struct perfx_annotation){.action = PERFX_ANNOTATION_INSTANT,
								.source = PERFX_SOURCE_USDT};
	} else if (!find_marker(finding->plan, probe, &function, &shown)) {
		free(name);
		return 0;
	}
	function.name = shown ? strdup(shown) : name;
	if (shown)
		free(name);
	if (!function.name)
		return -ENOMEM;
	finding->plan->modules[finding->module].is_ml = true; /* annotated, or asked for */
	return add_usdt(finding, probe, &function);
}

int plan_usdt(struct plan *plan, struct image *image, size_t module)
{
	struct finding finding = {.plan = plan, .image = image, .module = module};

	return image__each_usdt(image, offer_usdt, &finding);
}
