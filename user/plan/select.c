// SPDX-License-Identifier: BSD-2-Clause
/* Which functions of a file are traced: chosen by -F, annotated, or worth it by default. */
#include "base/grow.h"
#include "cost/builtin.h"
#include "cost/cost_model.h"
#include "elf/demangle.h"
#include "plan/annotations.h"
#include "plan/defaults.h"
#include "plan/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct candidate {
	char *symbol;
	uint64_t vaddr, offset, size;
	enum perfx_source source;
	bool annotated; /* by PERFX_TRACK: symbol is the name to show */
	bool global;
};

struct selection {
	struct plan *plan;
	const char *base;
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

static bool excluded(const struct plan_options *options, const char *base, const char *symbol)
{
	for (size_t i = 0; i < options->patterns_count; i++)
		if (pattern__excludes(options->patterns[i]) &&
		    pattern__matches_module(options->patterns[i], base) &&
		    pattern__matches_name(options->patterns[i], symbol))
			return true;
	return false;
}

static bool included(struct plan *plan, const char *base, const char *symbol)
{
	const struct plan_options *options = &plan->options;
	bool found = false;

	for (size_t i = 0; i < options->patterns_count; i++) {
		if (pattern__excludes(options->patterns[i]) ||
		    !pattern__matches_module(options->patterns[i], base) ||
		    !pattern__matches_name(options->patterns[i], symbol))
			continue;
		plan->pattern_matched[i] = true;
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

static void skip_symbol(struct plan *plan, const char *symbol, const char *reason)
{
	char *name = demangle(symbol);

	plan__skip(plan, name ? name : symbol, reason);
	free(name);
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

/* By default, as far as --host-level goes. */
static enum perfx_source source_by_level(const struct plan *plan, const char *base,
					 const char *symbol)
{
	enum host_level level = plan_host_level(plan);
	enum perfx_source source;
	char name[128];

	if (level < HOST_OPERATORS)
		return PERFX_SOURCE_INVALID;
	source = default_function(base, symbol);
	if (!source && level == HOST_EVERYTHING && builtin_torch_name(symbol, name, sizeof(name)))
		source = PERFX_SOURCE_TORCH;
	return source;
}

/* PERFX_SOURCE_INVALID: it is not traced. */
static enum perfx_source choose(struct plan *plan, const char *base, const char *symbol)
{
	enum perfx_source source;
	bool named = cost_model__names(plan->options.cost_model, base, symbol);

	if (!has_includes(&plan->options))
		source = source_by_level(plan, base, symbol);
	else if (included(plan, base, symbol))
		source = source_of_function(base, symbol);
	else if (!plan->options.flops_too || !default_with_cost(base, symbol, &source))
		source = PERFX_SOURCE_INVALID;
	if (!source && plan_host_level(plan) >= HOST_ANNOTATIONS && default_step(symbol))
		source = source_of_function(base, symbol);
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
	source = choose(plan, selection->base, symbol->name);
	if (!source || excluded(&plan->options, selection->base, symbol->name))
		return 0;
	if (symbol->ifunc) {
		skip_symbol(plan, symbol->name,
			    "IFUNC: the symbol is a resolver; trace the implementation it picks");
		return 0;
	}
	return add_candidate(selection, symbol, source);
}

static int offer_annotation(const struct symbol *symbol, void *ctx)
{
	struct selection *selection = ctx;
	struct plan *plan = selection->plan;

	/* traced whatever -F says, unless excluded; a pattern may name it all the same */
	if (!included(plan, selection->base, symbol->name) &&
	    plan_host_level(plan) < HOST_ANNOTATIONS)
		return 0;
	if (excluded(&plan->options, selection->base, symbol->name))
		return 0;
	if (!symbol->vaddr) {
		plan__skip(plan, symbol->name,
			   "annotated, but its function was not found: "
			   "stripped and without .eh_frame");
		return 0;
	}
	return add_candidate(selection, symbol, PERFX_SOURCE_PERFX);
}

/* Of several names at one address: the annotation, then what is exported, then the name that looks
 * least internal, then the alphabet. */
static int compare_candidate(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	if (x->annotated != y->annotated)
		return x->annotated ? -1 : 1;
	if (x->global != y->global)
		return x->global ? -1 : 1;
	if ((x->symbol[0] == '_') != (y->symbol[0] == '_'))
		return x->symbol[0] == '_' ? 1 : -1;
	return strcmp(x->symbol, y->symbol);
}

static int plan_function(struct plan *plan, struct image *image, size_t module,
			 struct candidate *candidate)
{
	const char *base = plan->modules[module].base;
	struct plan_function function = {
		.module = (uint32_t)module,
		.symbol = candidate->symbol,
		.vaddr = candidate->vaddr,
		.offset = candidate->offset,
		.size = candidate->size,
		.source = candidate->source,
		.by_default = !candidate->annotated && !has_includes(&plan->options) &&
			      !cost_model__names(plan->options.cost_model, base, candidate->symbol),
		.often = default_often(base, candidate->symbol),
	};
	struct perfx_annotation annotation;
	int err;

	/* as a range, under the name of the function that it runs: marks.c */
	if (function.by_default && (annotation_runs_eager(candidate->symbol) ||
				    (annotation_runs_jitted(candidate->symbol) &&
				     plan_jitted_name(image, candidate->symbol, &annotation))))
		return 0;
	err = plan_site(plan, image, &function);
	if (err == -ENOTSUP) {
		skip_symbol(plan, candidate->symbol,
			    "no instruction at its start that the kernel can probe");
		return 0;
	}
	if (err == -ENOMEM)
		return err;
	if (err) {
		skip_symbol(plan, candidate->symbol, "its code is not in the file");
		return 0;
	}
	function.name =
		candidate->annotated ? strdup(candidate->symbol) : demangle(candidate->symbol);
	if (!function.name || plan_add_function(plan, &function)) {
		site_plan__clear(&function.site);
		free(function.name);
		return -ENOMEM;
	}
	candidate->symbol = NULL;
	return 0;
}

static int plan_candidates(struct plan *plan, struct image *image, size_t module,
			   struct selection *selection)
{
	uint64_t last = UINT64_MAX;
	int err = 0;

	if (selection->count)
		qsort(selection->candidates, selection->count, sizeof(*selection->candidates),
		      compare_candidate);
	for (size_t i = 0; !err && i < selection->count; i++) {
		struct candidate *candidate = &selection->candidates[i];

		if (candidate->offset == last)
			continue;
		last = candidate->offset;
		if (traced_count(plan) == plan->options.functions_max)
			err = -E2BIG;
		else
			err = plan_function(plan, image, module, candidate);
	}
	for (size_t i = 0; i < selection->count; i++)
		free(selection->candidates[i].symbol);
	free(selection->candidates);
	return err;
}

bool plan_worth_searching(struct plan *plan, const char *base)
{
	const struct plan_options *options = &plan->options;
	bool worth = cost_model__names_module(options->cost_model, base);

	if (!has_includes(options))
		return worth || default_module(base);
	worth |= options->flops_too && default_module(base);
	worth |= plan_host_level(plan) >= HOST_ANNOTATIONS && annotation_module(base);
	for (size_t i = 0; i < options->patterns_count; i++) {
		if (pattern__excludes(options->patterns[i]) ||
		    !pattern__matches_module(options->patterns[i], base))
			continue;
		plan->pattern_saw_module[i] = true;
		worth = true;
	}
	return worth;
}

int plan_image(struct plan *plan, struct image *image, size_t index)
{
	struct selection selection = {.plan = plan, .base = plan->modules[index].base};

	image__each_annotation(image, offer_annotation, &selection);
	plan->modules[index].is_ml = selection.count || default_module(selection.base);
	if (!selection.err && plan_worth_searching(plan, selection.base))
		image__each_function(image, offer_symbol, &selection);
	if (selection.err) {
		selection.plan = NULL;
		for (size_t i = 0; i < selection.count; i++)
			free(selection.candidates[i].symbol);
		free(selection.candidates);
		return selection.err;
	}
	return plan_candidates(plan, image, index, &selection);
}
