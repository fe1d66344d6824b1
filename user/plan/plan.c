// SPDX-License-Identifier: BSD-2-Clause
#include "plan/plan.h"

#include "base/grow.h"
#include "elf/demangle.h"
#include "plan/defaults.h"
#include "plan/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

bool plan_flops_rest_on(const struct plan *plan, uint32_t cost_program)
{
	const struct perfx_cost_program *program = &plan->cost_programs[cost_program];

	for (size_t i = 0; cost_program && i < program->count; i++)
		if (program->code[i].op == PERFX_OP_NOTE)
			return true;
	return plan_knows_work(plan, cost_program);
}

struct plan *plan__new(const struct plan_options *options)
{
	struct plan *plan = calloc(1, sizeof(*plan));
	size_t n = options->patterns_count + 1;

	if (!plan)
		return NULL;
	plan->options = *options;
	plan->c_alone = true;
	/* another build of this program may want other functions */
	plan->tool_id = plan->options.facts_folder ? image_own_id() : 0;
	plan->pattern_saw_module = calloc(n, sizeof(bool));
	plan->pattern_matched = calloc(n, sizeof(bool));
	if (!plan->pattern_saw_module || !plan->pattern_matched ||
	    interest_collect(&plan->interest, options->operators)) {
		plan__free(plan);
		errno = ENOMEM;
		return NULL;
	}
	return plan;
}

void plan__free(struct plan *plan)
{
	if (!plan)
		return;
	FOR_EACH (function, plan->functions)
		plan_function_clear(function);
	FOR_EACH (module, plan->modules) {
		free(module->path);
		free(module->base);
		free(module->soname);
		free(module->build_id);
		if (module->fd >= 0)
			close(module->fd);
	}
	for (size_t i = 0; i < plan->allocators_count; i++)
		free(plan->allocators[i].name);
	free(plan->allocators);
	free(plan->cost_programs);
	free(plan->functions);
	free(plan->modules);
	free(plan->aliases);
	skipped_clear(&plan->skipped);
	free(plan->pattern_saw_module);
	free(plan->pattern_matched);
	prefixes_clear(&plan->interest);
	free(plan);
}

/* has_all: all files of a process have been read. Before that only what is certain counts: a later
 * file may unwind, or be a framework, and then a program would be loaded for nothing. */
uint32_t plan_kinds_of(const struct plan *plan, const struct plan_function *function, bool has_all)
{
	bool returns = function->ret == PERFX_RETURN_PROBE ||
		       (has_all && plan->c_alone && function->return_if_c);

	if (function->role == PLAN_FILE_CALL)
		return PLAN_KIND_FILE_CALLS;
	if (plan_is_annotation(function))
		return PLAN_KIND_ANNOTATIONS;
	if (function->role != PLAN_ALLOC_PROBE)
		return PLAN_KIND_CALLS | (returns ? PLAN_KIND_CALL_RETURNS : 0);
	/* By default the heap is recorded where no file has tensors that can be probed. */
	if (plan->options.memory == MEMORY_DEFAULT &&
	    function->alloc_probe.domain == PERFX_DOMAIN_HOST && (!has_all || plan->has_framework))
		return 0;
	return PLAN_KIND_ALLOCS | (returns ? PLAN_KIND_ALLOC_RETURNS : 0);
}

int plan_add_function(struct plan *plan, struct plan_function *function)
{
	if (!function->name || !function->symbol || LIST_ADD(plan->functions, *function)) {
		plan_function_clear(function);
		return -ENOMEM;
	}
	plan->kinds |= plan_kinds_of(plan, function, false);
	return 0;
}

void plan_function_clear(struct plan_function *function)
{
	free(function->name);
	free(function->symbol);
	site_plan__clear(&function->site);
}

bool plan_has(const struct plan *plan, size_t first, enum plan_role role, uint64_t vaddr)
{
	for (size_t i = first; i < plan->functions_count; i++)
		if (plan->functions[i].role == role && plan->functions[i].vaddr == vaddr)
			return true;
	return false;
}

void plan_skip_symbol(struct plan *plan, const char *symbol, const char *reason)
{
	char *name = demangle(symbol);

	skipped_add(&plan->skipped, name ? name : symbol, reason);
	free(name);
}

const char *plan_site_error(int err)
{
	if (err == -ENOTSUP)
		return "no instruction at its start that the kernel can probe";
	return err == -ENOMEM ? "out of memory" : "its code is not in the file";
}

const char *plan_find_site(struct image *image, struct plan_function *function,
			   struct site_options *options, __u8 *const arguments[], size_t count)
{
	int err;

	for (size_t i = 0; i < count; i++)
		if (*arguments[i])
			options->argument_regs |= (uint8_t)(1u << (*arguments[i] - 1));
	err = site_plan(image, function->vaddr, function->size, options, &function->site);
	if (err)
		return plan_site_error(err);
	for (size_t i = 0; i < count; i++)
		if (*arguments[i])
			*arguments[i] = (__u8)(function->site.arguments[*arguments[i] - 1] + 1);
	return NULL;
}

enum host_level plan_host_level(const struct plan *plan)
{
	return plan->options.host_level ? plan->options.host_level : HOST_OPERATORS;
}

bool plan_annotation_begins(const struct perfx_annotation *annotation)
{
	const unsigned begins = 1u << PERFX_ANNOTATION_PUSH | 1u << PERFX_ANNOTATION_BEGIN |
				1u << PERFX_ANNOTATION_OPEN | 1u << PERFX_ANNOTATION_START |
				1u << PERFX_ANNOTATION_START_ID | 1u << PERFX_ANNOTATION_INSTANT |
				1u << PERFX_ANNOTATION_CALL;

	return begins >> annotation->action & 1;
}

enum perfx_return plan_return(const struct plan *plan, const struct plan_function *function)
{
	return plan->c_alone && function->return_if_c ? PERFX_RETURN_PROBE : function->ret;
}
