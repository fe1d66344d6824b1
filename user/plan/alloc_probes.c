// SPDX-License-Identifier: BSD-2-Clause
/*
 * The allocation probes of a file: found by name, one for each thing that is done at an address,
 * none where a function is only another way to one that is probed.
 */
#include "base/grow.h"
#include "base/order.h"
#include "elf/demangle.h"
#include "plan/allocators.h"
#include "plan/internal.h"
#include "site/site.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct candidate {
	char *symbol;
	uint64_t vaddr, offset, size;
	struct allocator_rule rule;
	bool ifunc;
};

struct finding {
	struct allocator_file file;
	struct candidate *candidates;
	size_t candidates_count, candidates_capacity;
	/* for is_other(): the candidate whose calls are examined, and the wanted action; 0: any */
	uint64_t vaddr;
	enum perfx_action action;
};

static bool wanted(const struct plan *plan, const struct perfx_alloc_probe *alloc_probe)
{
	if (alloc_probe->action >= PERFX_ACTION_MAP)
		return plan->options.memory == MEMORY_ALL;
	return plan->options.memory != MEMORY_TENSOR || alloc_probe->domain != PERFX_DOMAIN_HOST;
}

static int note_symbol(const struct symbol *symbol, void *ctx)
{
	allocator_note_symbol(&((struct finding *)ctx)->file, symbol->name, symbol->global);
	return 0;
}

static int offer(const struct symbol *symbol, void *ctx)
{
	struct allocator_rule rules[ALLOCATOR_RULES_MAX];
	struct finding *finding = ctx;
	size_t n = symbol->cold
			   ? 0
			   : allocator_rules(&finding->file, symbol->name, symbol->global, rules);

	for (size_t i = 0; i < n; i++) {
		struct candidate *candidate;

		if (GROW_BY_ONE(finding->candidates))
			return -ENOMEM;
		candidate = &finding->candidates[finding->candidates_count];
		*candidate = (struct candidate){.symbol = strdup(symbol->name),
						.vaddr = symbol->vaddr,
						.offset = symbol->offset,
						.size = symbol->size,
						.rule = rules[i],
						.ifunc = symbol->ifunc};
		if (!candidate->symbol)
			return -ENOMEM;
		finding->candidates_count++;
	}
	return 0;
}

/* By address, then by tag; of several names the first in the table. */
ORDER(compare_candidates, struct candidate, ASCENDING(a->offset, b->offset),
      ASCENDING(a->rule.alloc_probe.tag, b->rule.alloc_probe.tag),
      ASCENDING(a->rule.order, b->rule.order), strcmp(a->symbol, b->symbol))

static bool is_other(uint64_t vaddr, const char *name, void *ctx)
{
	const struct finding *finding = ctx;

	if (name && allocator_does(name, finding->action))
		return true;
	if (!vaddr || vaddr == finding->vaddr)
		return false;
	FOR_EACH (candidate, finding->candidates)
		if (candidate->vaddr == vaddr &&
		    (!finding->action || candidate->rule.alloc_probe.action == finding->action))
			return true;
	return false;
}

/*
 * Does the candidate only lead to another allocation function, which sees its blocks? If it jumps
 * there, that one is probed alone. If it calls it, both are probed, because the inner one sees the
 * wrong caller; the inner probe then does not count. Exceptions: the end of a free is not seen, and
 * that of operator new (libstdc++'s, in a static program) is expensive to see.
 */
static int is_detour(struct finding *finding, struct image *image,
		     const struct candidate *candidate)
{
	int way;

	finding->action = (enum perfx_action)candidate->rule.alloc_probe.action;
	finding->vaddr = candidate->vaddr;
	if (candidate->rule.alloc_probe.domain != PERFX_DOMAIN_HOST || candidate->ifunc)
		return 0;
	way = forward_decide(image, candidate->vaddr, candidate->size, is_other, finding);
	if (way == FORWARD_CALLS && finding->action != PERFX_ACTION_FREE && !candidate->rule.throws)
		return 0;
	return way;
}

/* Calls none of the other candidates itself. Callees are not followed: a probed allocator that one
 * of them reaches costs a little more, without harm. */
static bool is_leaf(struct finding *finding, struct image *image, const struct candidate *candidate)
{
	finding->action = PERFX_ACTION_INVALID;
	finding->vaddr = candidate->vaddr;
	return candidate->rule.alloc_probe.action == PERFX_ACTION_ALLOCATE &&
	       forward_passes(image, candidate->vaddr, candidate->size, is_other, finding) == 0;
}

static int64_t find_allocator(struct plan *plan, const struct allocator_rule *rule,
			      const struct finding *finding, uint32_t module)
{
	enum perfx_domain domain = (enum perfx_domain)rule->alloc_probe.domain;
	const char *known = rule->name ? rule->name : allocator_of_file(&finding->file);
	char own[300];

	if (!known) {
		snprintf(own, sizeof(own), "malloc of %s", finding->file.base);
		known = own;
	}
	for (size_t i = 0; i < plan->allocators_count; i++)
		if (plan->allocators[i].module == module && plan->allocators[i].domain == domain &&
		    !strcmp(plan->allocators[i].name, known))
			return (int64_t)i;
	if (GROW_BY_ONE(plan->allocators))
		return -ENOMEM;
	plan->allocators[plan->allocators_count] =
		(struct plan_allocator){.name = strdup(known), .module = module, .domain = domain};
	return plan->allocators[plan->allocators_count].name ? (int64_t)plan->allocators_count++
							     : -ENOMEM;
}

/* Its site, and whether there is one for all that is wanted. NULL, or why not. */
static const char *find_site(const struct plan *plan, struct image *image,
			     const struct candidate *candidate, struct plan_function *function)
{
	struct perfx_alloc_probe *probe = &function->alloc_probe;
	/* only what the program reads at entry keeps a site from being found further on */
	__u8 *const arguments[] = {&probe->pointer_arg, &probe->size_arg, &probe->count_arg,
				   &probe->tag_arg};
	struct site_options options = plan->options.site;
	const char *why;

	if (candidate->ifunc)
		return "IFUNC: the symbol is a resolver";
	if (plan->alloc_probes_count == PERFX_MAX_ALLOC_PROBES)
		return "too many allocator functions";
	options.arguments_may_move = true;
	options.needs_result = function->ret == PERFX_RETURN_EXIT;
	why = plan_find_site(image, function, &options, arguments, 4);
	if (!why && function->ret == PERFX_RETURN_EXIT && function->site.exits_state != EXITS_KNOWN)
		return "allocates and may throw, but not all of its exits are known";
	return why;
}

/* An exception may leave operator new, and must find its way. */
static void choose_return(const struct plan *plan, const struct allocator_rule *rule,
			  struct plan_function *function)
{
	const unsigned gives = 1u << PERFX_ACTION_ALLOCATE | 1u << PERFX_ACTION_REALLOCATE |
			       1u << PERFX_ACTION_MAP | 1u << PERFX_ACTION_REMAP |
			       1u << PERFX_ACTION_BREAK;
	enum return_mode mode = plan->options.return_mode;

	if (!(gives >> rule->alloc_probe.action & 1)) {
		function->ret = PERFX_RETURN_NONE;
		function->ret_why = "nothing to read at its exit";
	} else if (mode == RETURN_EXIT || (rule->throws && mode != RETURN_PROBE)) {
		function->ret = PERFX_RETURN_EXIT;
		function->ret_why =
			rule->throws ? "an exception may cross it" : "requested by --return exit";
	} else {
		function->ret = PERFX_RETURN_PROBE;
		function->ret_why = mode == RETURN_PROBE ? "requested by --return probe"
							 : "a C function that no exception crosses";
	}
}

static int plan_alloc_probe(struct plan *plan, struct image *image, uint32_t module,
			    struct finding *finding, const struct candidate *candidate)
{
	struct plan_function function = {
		.module = module,
		.vaddr = candidate->vaddr,
		.offset = candidate->offset,
		.size = candidate->size,
		.source = PERFX_SOURCE_SYMBOL,
		.role = PLAN_ALLOC_PROBE,
		.is_usual = candidate->rule.is_usual,
		.alloc_probe = candidate->rule.alloc_probe,
	};
	int detour = is_detour(finding, image, candidate);
	int64_t allocator;
	const char *why;

	if (detour)
		return detour < 0 ? detour : 0;
	choose_return(plan, &candidate->rule, &function);
	why = find_site(plan, image, candidate, &function);
	if (why || function.ret != PERFX_RETURN_EXIT)
		site_plan__clear(&function.site);
	if (why) {
		plan_skip_symbol(plan, candidate->symbol, why);
		return 0;
	}
	allocator = find_allocator(plan, &candidate->rule, finding, module);
	function.alloc_probe.allocator = (__u16)(allocator + 1);
	if (is_leaf(finding, image, candidate))
		function.alloc_probe.flags |= PERFX_ALLOC_F_LEAF;
	function.symbol = strdup(candidate->symbol);
	function.name = demangle(candidate->symbol);
	if (allocator < 0) {
		plan_function_clear(&function);
		return -ENOMEM;
	}
	if (plan_add_function(plan, &function))
		return -ENOMEM;
	plan->alloc_probes_count++;
	plan->has_framework |= candidate->rule.alloc_probe.domain == PERFX_DOMAIN_TENSOR &&
			       strcmp(candidate->rule.name, "numpy") != 0;
	return 0;
}

static bool exports_any(const struct image *image)
{
	for (size_t i = 0; allocator_entry_points[i]; i++)
		if (image__exports(image, allocator_entry_points[i]))
			return true;
	return false;
}

int plan_alloc_probes(struct plan *plan, struct image *image, size_t index, bool executable)
{
	struct plan_module *module = &plan->modules[index];
	struct finding finding = {.file = {.base = module->base}};
	const struct candidate *last = NULL;
	int err = 0;

	if (plan->options.memory == MEMORY_OFF || allocator_is_loader(module->base))
		return 0;
	plan->has_framework |= allocator_is_numpy(module->base);
	module->exports_malloc = image__exports(image, "malloc");
	if (!executable && !exports_any(image) && !allocator_library(module->base))
		return 0;
	finding.file.is_static = executable && !image__traits(image)->needs_loader;
	if (executable || module->exports_malloc)
		err = image__each_function(image, note_symbol, &finding);
	/* in a library only exported functions take the place of malloc */
	finding.file.defines_malloc &= executable || module->exports_malloc;
	module->defines_malloc = finding.file.defines_malloc;
	if (!err)
		err = image__each_function(image, offer, &finding);
	SORT_ITEMS(finding.candidates, finding.candidates_count, compare_candidates);
	for (size_t i = 0; !err && i < finding.candidates_count; i++) {
		const struct candidate *candidate = &finding.candidates[i];

		if (last && last->offset == candidate->offset &&
		    last->rule.alloc_probe.tag == candidate->rule.alloc_probe.tag)
			continue;
		last = candidate;
		if (wanted(plan, &candidate->rule.alloc_probe))
			err = plan_alloc_probe(plan, image, (uint32_t)index, &finding, candidate);
	}
	if (executable && plan->options.memory == MEMORY_ALL && image__traits(image)->is_go)
		skipped_add(&plan->skipped, module->base,
			    "Go: allocates without the C library: its heap is not traced");
	if (!err && finding.file.is_static && !finding.file.defines_malloc &&
	    plan->options.memory != MEMORY_TENSOR)
		skipped_add(
			&plan->skipped, module->base,
			image__traits(image)->has_symtab
				? "static and without a malloc of its own: its heap is not traced"
				: "static and stripped: its malloc has no symbol");
	FOR_EACH (candidate, finding.candidates)
		free(candidate->symbol);
	free(finding.candidates);
	return err;
}
