// SPDX-License-Identifier: BSD-2-Clause
/* The functions of a file that are traced, the site and cost of each, and how each is timed. */
#include "base/grow.h"
#include "base/order.h"
#include "base/text.h"
#include "cost/builtin.h"
#include "cost/cost_model.h"
#include "cost/gpu_calls.h"
#include "cost/operator_label.h"
#include "elf/demangle.h"
#include "plan/annotations.h"
#include "plan/defaults.h"
#include "plan/internal.h"
#include "plan/jitted.h"
#include "plan/operators.h"
#include "site/site.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * A site that suits the cost: the arguments that its program reads are still in registers there,
 * and the result is there at the exits when it asks for that.
 */

/* Its index in plan->costs, one for each distinct program; -ENOMEM, -ENOSPC. */
static int64_t add_cost(struct plan *plan, const struct perfx_cost_program *cost)
{
	for (size_t i = 1; i < plan->cost_programs_count; i++)
		if (!memcmp(&plan->cost_programs[i], cost, sizeof(*cost)))
			return (int64_t)i;
	if (plan->cost_programs_count == PERFX_MAX_COST_PROGRAMS)
		return -ENOSPC;
	if (grow_array(&plan->cost_programs, &plan->cost_programs_capacity,
		       plan->cost_programs_count + 2, sizeof(*plan->cost_programs)))
		return -ENOMEM;
	if (!plan->cost_programs_count)
		plan->cost_programs_count = 1; /* index 0 is none */
	plan->cost_programs[plan->cost_programs_count] = *cost;
	return (int64_t)plan->cost_programs_count++;
}

/* The Itanium ABI: an object that is returned has its place in the first register. */
#define EVENT_ARG 1
#define THUNK_ARG 2

/* The program to run at a function's entry and exit: its cost, or what counts the work that it
 * hands to a GPU. -ENOENT: there is none. */
static int find_program(const struct plan *plan, const struct plan_function *function,
			struct perfx_cost_program *cost, const char **origin)
{
	struct module_names module = plan_module_names(&plan->modules[function->module]);
	int err =
		cost_model__find(plan->options.cost_model, &module, function->symbol, cost, origin);

	if (err != -ENOENT || plan->options.gpu == GPU_OFF)
		return err;
	*origin = NULL;
	return gpu_call_program(module.base, function->symbol, cost);
}

/* Will the result be seen, however it is timed? */
static bool sees_result(const struct plan *plan, const struct plan_function *function)
{
	return function->site.exits_state == EXITS_KNOWN ||
	       plan->options.return_mode == RETURN_PROBE ||
	       return_probe_is_safe(plan->modules[function->module].base, function->symbol);
}

static int set_cost(struct plan *plan, struct perfx_cost_program *cost, const char *origin,
		    struct plan_function *function)
{
	int64_t index;

	/* the program's argument n is read from the register that has it at the site */
	for (size_t i = 0; i < cost->entry_count; i++) {
		struct perfx_instruction *instruction = &cost->code[i];

		if (instruction->op == PERFX_OP_ARG)
			instruction->n = (__u8)(function->site.arguments[instruction->n - 1] + 1);
	}
	index = add_cost(plan, cost);
	if (index == -ENOMEM)
		return -ENOMEM;
	if (index < 0) {
		function->cost_why = "too many kinds of cost programs";
		return 0;
	}
	function->cost_program = (uint32_t)index;
	function->calls.is_worker = cost->flags & PERFX_COST_F_WORKER;
	function->cost_origin = origin;
	return 0;
}

/* The site of a function (module, symbol, vaddr, size are set) and its cost, if known. As
 * site_plan. */
static int plan_site(struct plan *plan, struct image *image, struct plan_function *function)
{
	struct site_options wanted = plan->options.site;
	struct perfx_cost_program cost;
	const char *origin;
	int err;

	function->is_entry_point = function->vaddr && function->vaddr == image__entry_point(image);
	wanted.arguments_may_move = true;
	if (runs_thunks(function->symbol)) {
		/* the thunk that is run must still be in a register, and where its event goes */
		wanted.argument_regs = 1u << (THUNK_ARG - 1) | 1u << (EVENT_ARG - 1);
		err = site_plan(image, function->vaddr, function->size, &wanted, &function->site);
		if (!err) {
			const uint8_t *arguments = function->site.arguments;

			function->calls.object_arg = (uint8_t)(arguments[THUNK_ARG - 1] + 1);
			function->calls.event_arg = (uint8_t)(arguments[EVENT_ARG - 1] + 1);
			return 0;
		}
		function->cost_why = "no probeable instruction at which its arguments are intact";
	} else if (!find_program(plan, function, &cost, &origin)) {
		wanted.argument_regs = cost_argument_regs(&cost);
		wanted.needs_result = cost_has_exit(&cost);
		wanted.result_in_memory = !cost_reads_result(&cost);
		err = site_plan(image, function->vaddr, function->size, &wanted, &function->site);
		if (!err && (!wanted.needs_result || sees_result(plan, function)))
			return set_cost(plan, &cost, origin, function);
		function->cost_why =
			err ? "no probeable instruction at which its arguments are intact"
			    : "it needs the result, but not all exits are known";
	}
	site_plan__clear(&function->site);
	return site_plan(image, function->vaddr, function->size, &plan->options.site,
			 &function->site);
}

struct hints {
	struct plan *plan;
	struct image *image;
	uint32_t module, cost_program;
	size_t first; /* function of this module */
};

static int add_hint(uint64_t vaddr, void *ctx)
{
	struct hints *hints = ctx;
	struct plan_function function = {
		.module = hints->module,
		.name = strdup("perfx_flops"),
		.symbol = strdup("perfx_flops"),
		.vaddr = vaddr,
		.offset = (uint64_t)image__offset(hints->image, vaddr),
		.source = PERFX_SOURCE_PERFX,
		.site = {.entry_vaddr = vaddr, .entry_kind = SITE_NOP, .exits_state = EXITS_KNOWN},
		.ret = PERFX_RETURN_NONE,
		.ret_why = "a point in the code, not a function",
		.cost_program = hints->cost_program,
		.role = PLAN_HINT,
	};

	if (plan_has(hints->plan, hints->first, PLAN_HINT, vaddr)) {
		plan_function_clear(&function);
		return 0;
	}
	hints->plan->modules[hints->module].is_ml = true; /* annotated */
	return plan_add_function(hints->plan, &function);
}

int plan_hints(struct plan *plan, struct image *image, size_t module)
{
	struct hints hints = {.plan = plan,
			      .image = image,
			      .module = (uint32_t)module,
			      .first = plan->functions_count};
	struct perfx_cost_program program;
	int64_t cost;
	char why[128];

	/* the register has the number itself */
	if (!plan->options.cost_model || cost_compile("flops = arg1", &program, why, sizeof(why)))
		return 0;
	cost = add_cost(plan, &program);
	if (cost < 0)
		return cost == -ENOMEM ? -ENOMEM : 0;
	hints.cost_program = (uint32_t)cost;
	return image__each_hint(image, add_hint, &hints);
}

static void choose_return(const struct plan *plan, const char *base, struct plan_function *function)
{
	enum return_mode mode = plan->options.return_mode;
	bool exits_known = function->site.exits_state == EXITS_KNOWN;

	if (function->is_entry_point) {
		function->ret = PERFX_RETURN_NONE;
		function->ret_why = "the program begins there: it does not return";
		return;
	}
	if (mode == RETURN_PROBE) {
		function->ret = PERFX_RETURN_PROBE;
		function->ret_why = "requested by --return probe";
	} else if (mode == RETURN_AUTO && return_probe_is_safe(base, function->symbol)) {
		function->ret = PERFX_RETURN_PROBE;
		function->ret_why = "a C entry point that no exception crosses";
	} else if (exits_known) {
		function->ret = PERFX_RETURN_EXIT;
		function->ret_why = mode == RETURN_EXIT
					    ? "requested by --return exit"
					    : "an exception may cross it: timed at its exits";
	} else {
		function->ret = PERFX_RETURN_NONE;
		function->ret_why = function->site.exits_note ? function->site.exits_note
							      : "not all of its exits are known";
	}
	/* without session links recursion may nest too deeply: known exits are better then */
	function->return_if_c = mode == RETURN_AUTO && function->ret != PERFX_RETURN_PROBE &&
				(plan->options.return_guard || !exits_known);
}

struct candidate {
	char *symbol;
	uint64_t vaddr, offset, size;
	enum perfx_source source;
	bool annotated; /* by PERFX_TRACK: symbol is the name to show */
	bool global;
	const struct operator_rule *rule; /* that found it by its text: likewise; or NULL */
};

struct selection {
	struct plan *plan;
	struct image *image;
	struct module_names module;
	struct candidate *candidates;
	size_t count, capacity;
	int err;
};

static size_t traced_count(const struct plan *plan)
{
	return plan->functions_count - plan->alloc_probes_count - plan->annotations_count;
}

static bool has_includes(const struct plan_options *options)
{
	for (size_t i = 0; i < options->patterns_count; i++)
		if (!pattern__excludes(options->patterns[i]))
			return true;
	return false;
}

char *plan_operator_name(const struct image *image, const struct symbol *symbol)
{
	char name[128], function[160];
	struct text label = {0};

	if (!builtin_torch_name(symbol->name, name, sizeof(name)))
		return NULL;
	snprintf(function, sizeof(function), "at::_ops::%s::call", name);
	operator_label(&label, function,
		       operator_name_bytes(image, symbol->name, symbol->vaddr, symbol->size));
	return text_take(&label);
}

static bool matches_operator(const struct pattern *pattern, const struct image *image,
			     const struct symbol *symbol)
{
	char name[128], *label;
	bool matches;

	if (!pattern__names_operators(pattern) ||
	    !builtin_torch_name(symbol->name, name, sizeof(name)) ||
	    !pattern__may_match_operator(pattern, name))
		return false;
	label = plan_operator_name(image, symbol);
	matches = label && pattern__matches_operator(pattern, label);
	free(label);
	return matches;
}

static bool matches(const struct selection *selection, const struct pattern *pattern,
		    const struct symbol *symbol)
{
	return pattern__matches_module(pattern, &selection->module) &&
	       (pattern__matches_name(pattern, symbol->name) ||
		matches_operator(pattern, selection->image, symbol));
}

static bool excluded(const struct selection *selection, const struct symbol *symbol)
{
	const struct plan_options *options = &selection->plan->options;

	for (size_t i = 0; i < options->patterns_count; i++)
		if (pattern__excludes(options->patterns[i]) &&
		    matches(selection, options->patterns[i], symbol))
			return true;
	return false;
}

static bool included(const struct selection *selection, const struct symbol *symbol)
{
	const struct plan_options *options = &selection->plan->options;
	bool found = false;

	for (size_t i = 0; i < options->patterns_count; i++) {
		if (pattern__excludes(options->patterns[i]) ||
		    !matches(selection, options->patterns[i], symbol))
			continue;
		selection->plan->pattern_matched[i] = true;
		found = true;
	}
	return found;
}

static int add_candidate(struct selection *selection, const struct symbol *symbol,
			 enum perfx_source source)
{
	struct candidate *candidate;

	if (traced_count(selection->plan) + selection->count >
	    selection->plan->options.functions_max * 2) /* aliases are not taken off yet */
		return selection->err = -E2BIG;
	if (grow_array(&selection->candidates, &selection->capacity, selection->count + 1,
		       sizeof(*selection->candidates)))
		return selection->err = -ENOMEM;
	candidate = &selection->candidates[selection->count];
	*candidate = (struct candidate){
		.symbol = strdup(symbol->name),
		.vaddr = symbol->vaddr,
		.offset = symbol->offset,
		.size = symbol->size,
		.source = source,
		.annotated = symbol->origin == SYMBOL_NOTE,
		.global = symbol->global,
	};
	if (!candidate->symbol)
		return selection->err = -ENOMEM;
	selection->count++;
	return 0;
}

/* Traced by default, and its work is known. */
static bool default_with_cost(const char *base, const char *symbol, enum perfx_source *source)
{
	struct builtin builtin;

	if (!builtin_find(base, symbol, &builtin) || !builtin.by_default)
		return false;
	*source = builtin.source;
	return true;
}

/* Is it a call that --gpu wants? */
static bool is_wanted_of_gpu(const struct plan *plan, const char *base, const char *symbol)
{
	return plan->options.gpu >= GPU_CALLS && gpu_call_is(base, symbol);
}

/* By default, as far as --host-level and --gpu go. */
static enum perfx_source source_by_level(const struct plan *plan, const char *base,
					 const char *symbol)
{
	enum host_level level = plan_host_level(plan);
	enum perfx_source source;
	char name[128];

	/* An agent knows the names of kernels, and with it the runtime asks the driver for one at
	 * each launch. */
	if (gpu_call_is(base, symbol) &&
	    (plan->options.gpu == GPU_OFF ||
	     (plan->options.gpu > GPU_CALLS && !gpu_call_find(symbol))))
		return PERFX_SOURCE_INVALID;
	if (is_wanted_of_gpu(plan, base, symbol))
		return PERFX_SOURCE_CUDA;
	if (level < HOST_OPERATORS)
		return PERFX_SOURCE_INVALID;
	source = default_function(base, symbol);
	if (!source && level == HOST_EVERYTHING && builtin_torch_name(symbol, name, sizeof(name)))
		source = PERFX_SOURCE_TORCH;
	return source;
}

/* The user's rules are asked for; the built-in ones are steps, traced whenever annotations are. */
static bool wants_rule(const struct plan *plan, const struct operator_rule *rule)
{
	return rule && (!rule->built_in || plan_host_level(plan) >= HOST_ANNOTATIONS);
}

/* PERFX_SOURCE_INVALID: it is not traced. */
static enum perfx_source choose(const struct selection *selection, const struct symbol *offered)
{
	struct plan *plan = selection->plan;
	const char *base = selection->module.base, *symbol = offered->name;
	enum perfx_source source;
	bool named = cost_model__names(plan->options.cost_model, &selection->module, symbol);

	if (!has_includes(&plan->options))
		source = source_by_level(plan, base, symbol);
	else if (included(selection, offered))
		source = source_of_function(base, symbol);
	else if (is_wanted_of_gpu(plan, base, symbol))
		source = PERFX_SOURCE_CUDA;
	else if (!plan->options.flops_too || !default_with_cost(base, symbol, &source))
		source = PERFX_SOURCE_INVALID;
	if (!source && plan_host_level(plan) >= HOST_ANNOTATIONS && default_step(symbol))
		source = source_of_function(base, symbol);
	if (!source &&
	    wants_rule(plan, operators__find(plan->options.operators, &selection->module, symbol)))
		source = source_of_function(base, symbol);
	if (!source && plan->options.gpu >= GPU_AGENT && profiler_function(base, symbol))
		source = PERFX_SOURCE_CUDA;
	return source || !named ? source : source_of_function(base, symbol);
}

static int offer_symbol(const struct symbol *symbol, void *ctx)
{
	struct selection *selection = ctx;
	struct plan *plan = selection->plan;
	enum perfx_source source;

	/* a function's cold half is part of it, not a function */
	if (symbol->cold)
		return 0;
	source = choose(selection, symbol);
	if (!source || excluded(selection, symbol))
		return 0;
	if (symbol->ifunc) {
		plan_skip_symbol(
			plan, symbol->name,
			"IFUNC: the symbol is a resolver; trace the selected implementation");
		return 0;
	}
	return add_candidate(selection, symbol, source);
}

static int offer_annotation(const struct symbol *symbol, void *ctx)
{
	struct selection *selection = ctx;
	struct plan *plan = selection->plan;

	/* traced whatever -F says, unless excluded; a pattern may name it all the same */
	if (!included(selection, symbol) && plan_host_level(plan) < HOST_ANNOTATIONS)
		return 0;
	if (excluded(selection, symbol))
		return 0;
	if (!symbol->vaddr) {
		skipped_add(&plan->skipped, symbol->name,
			    "annotated, but its function was not found: "
			    "stripped and without .eh_frame");
		return 0;
	}
	return add_candidate(selection, symbol, PERFX_SOURCE_PERFX);
}

/* A function that has no symbol, but refers to a constant. */
static void offer_referrer(struct selection *selection, const struct operator_rule *rule)
{
	struct plan *plan = selection->plan;
	struct symbol symbol = {.name = pattern__plain_name(rule->pattern)};
	int err;

	if (!rule->text || !wants_rule(plan, rule) ||
	    !pattern__matches_module(rule->pattern, &selection->module) ||
	    excluded(selection, &symbol))
		return;
	err = image__referrer(selection->image, rule->text, &symbol.vaddr, &symbol.size);
	if (err) {
		skipped_add(&plan->skipped, symbol.name,
			    err == -EEXIST ? "several functions refer to the text of its rule"
					   : "no function refers to the text of its rule");
		return;
	}
	symbol.offset = (uint64_t)image__offset(selection->image, symbol.vaddr);
	if (!add_candidate(selection, &symbol, PERFX_SOURCE_SYMBOL))
		selection->candidates[selection->count - 1].rule = rule;
}

/* Among several names of one address: the annotation, then an exported name, then one without a
 * leading underscore, then the first by alphabet. */
ORDER(compare_candidates, struct candidate, ASCENDING(a->offset, b->offset),
      DESCENDING(a->annotated, b->annotated), DESCENDING(a->global, b->global),
      ASCENDING(a->symbol[0] == '_', b->symbol[0] == '_'), strcmp(a->symbol, b->symbol))

static unsigned flags_of(const struct operator_rule *rule)
{
	return !rule				  ? 0
	       : rule->kind == OPERATOR_STEP	  ? PERFX_FUNCTION_ROUND
	       : rule->kind == OPERATOR_INFERENCE ? PERFX_FUNCTION_INFERENCE
						  : 0;
}

static int plan_function(struct plan *plan, struct image *image, size_t module,
			 struct candidate *candidate)
{
	const struct module_names names = plan_module_names(&plan->modules[module]);
	const char *base = names.base;
	const struct operator_rule *rule =
		candidate->rule
			?: operators__find(plan->options.operators, &names, candidate->symbol);
	struct plan_function function = {
		.role = PLAN_CALLS,
		.module = (uint32_t)module,
		.symbol = candidate->symbol,
		.vaddr = candidate->vaddr,
		.offset = candidate->offset,
		.size = candidate->size,
		.source = candidate->source,
		.by_default =
			!candidate->annotated && !has_includes(&plan->options) &&
			!(rule && !rule->built_in) &&
			!cost_model__names(plan->options.cost_model, &names, candidate->symbol),
		.stream_flags = (image__traits(image)->is_go ? PERFX_FUNCTION_GO : 0) |
				(default_range(candidate->symbol) ? PERFX_FUNCTION_RANGE : 0) |
				flags_of(rule),
	};
	struct perfx_annotation annotation;
	int err;

	/* as a range, under the name of the function that it runs: annotations.c */
	if (function.by_default && (annotation_runs_eager(candidate->symbol) ||
				    (runs_jitted(candidate->symbol) &&
				     jitted_name(image, candidate->symbol, &annotation))))
		return 0;
	err = plan_site(plan, image, &function);
	if (err == -ENOTSUP) {
		plan_skip_symbol(plan, candidate->symbol,
				 "no instruction at its start that the kernel can probe");
		return 0;
	}
	if (err == -ENOMEM)
		return err;
	if (err) {
		plan_skip_symbol(plan, candidate->symbol, "its code is not in the file");
		return 0;
	}
	choose_return(plan, base, &function);
	function.operator_bytes =
		operator_name_bytes(image, function.symbol, function.vaddr, function.size);
	function.name = candidate->annotated || candidate->rule ? strdup(candidate->symbol)
								: demangle(candidate->symbol);
	if (!function.name || plan_add_function(plan, &function)) {
		site_plan__clear(&function.site);
		free(function.name);
		return -ENOMEM;
	}
	candidate->symbol = NULL;
	return 0;
}

bool plan_worth_searching(struct plan *plan, const struct module_names *module)
{
	const char *base = module->base;
	const struct plan_options *options = &plan->options;
	bool annotations = plan_host_level(plan) >= HOST_ANNOTATIONS;
	bool worth = cost_model__names_module(options->cost_model, module) ||
		     operators__name_module(options->operators, module, !annotations) ||
		     (options->gpu >= GPU_AGENT && profiler_module(base));

	if (!has_includes(options))
		return worth || default_module(base);
	worth |= (options->flops_too || options->gpu >= GPU_CALLS) && default_module(base);
	worth |= annotations && annotation_module(base);
	for (size_t i = 0; i < options->patterns_count; i++) {
		if (pattern__excludes(options->patterns[i]) ||
		    !pattern__matches_module(options->patterns[i], module))
			continue;
		plan->pattern_saw_module[i] = true;
		worth = true;
	}
	return worth;
}

int plan_image(struct plan *plan, struct image *image, size_t index)
{
	struct selection selection = {
		.plan = plan, .image = image, .module = plan_module_names(&plan->modules[index])};

	uint64_t last = UINT64_MAX;

	const struct operator_rule *rule;

	image__each_annotation(image, offer_annotation, &selection);
	for (size_t i = 0; (rule = operators__rule(plan->options.operators, i)); i++)
		offer_referrer(&selection, rule);
	plan->modules[index].is_ml =
		selection.count || default_module(selection.module.base) ||
		operators__name_module(plan->options.operators, &selection.module, false);
	if (!selection.err && plan_worth_searching(plan, &selection.module))
		image__each_function(image, offer_symbol, &selection);
	SORT_ITEMS(selection.candidates, selection.count, compare_candidates);
	for (size_t i = 0; !selection.err && i < selection.count; i++) {
		struct candidate *candidate = &selection.candidates[i];

		if (candidate->offset == last)
			continue;
		last = candidate->offset;
		selection.err = traced_count(plan) == plan->options.functions_max
					? -E2BIG
					: plan_function(plan, image, index, candidate);
	}
	for (size_t i = 0; i < selection.count; i++)
		free(selection.candidates[i].symbol);
	free(selection.candidates);
	return selection.err;
}

/* More code than this is not searched for stack switches; no C program that switches stacks has so
 * much. */
#define SEARCH_BYTES_MAX (64u << 20)

/*
 * A C program is searched for hand-written switches, for return probes would kill it. Elsewhere
 * functions are timed at their exits, no harm can be done, and names are evidence enough.
 */
static bool switches_stacks(const struct plan *plan, struct image *image)
{
	return image__traits(image)->switches_stacks ||
	       (plan->c_alone && image_switches_stacks(image, SEARCH_BYTES_MAX));
}

void plan_consider_file(struct plan *plan, struct image *image, const char *base)
{
	/* the C runtime has unwind data of its own, and starts no unwinding through others */
	static const char *const c_runtime[] = {"libc.so", "libc-2.",	"ld-linux",   "ld-2.",
						"libm.so", "libm-2.",	"libpthread", "libdl",
						"librt",   "libresolv", "libnss_",    "libgcc_s",
						"ld-musl", "libutil",	NULL};
	const struct image_traits *traits;

	if (text_begins_with_one_of(base, c_runtime))
		return;
	/* once one file unwinds, the others need not be asked */
	if (plan->c_alone) {
		traits = image__traits(image);
		plan->c_alone = !traits->has_except_table && !traits->needs_cxx &&
				!traits->is_rust && !traits->is_go &&
				!begins_with(base, "libstdc++") && !begins_with(base, "libc++");
	}
	if (plan->many_stacks || !switches_stacks(plan, image))
		return;
	plan->c_alone = false;
	/* OpenSSL has coroutines for asynchronous engines, TBB for tasks that are suspended, and
	 * hardly anybody uses these: every Python maps the one, Debian's PyTorch the other. */
	plan->many_stacks = !begins_with(base, "libcrypto") && !begins_with(base, "libtbb.");
}
