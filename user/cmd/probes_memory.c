// SPDX-License-Identifier: BSD-2-Clause
/*
 * The allocators' half of `perfx-trace probes`. A sample:
 *
 *   ALLOCATOR    DOMAIN  SITE             COST  RETURN                       FUNCTION
 *   libc         host    push +0        690 ns  return probe, in it          libc.so.6  malloc
 *   libc         host    branch +3      520 ns  not needed                   libc.so.6  free
 *
 *   malloc of process 4711 (trainer): libc (libc.so.6)
 *   --memory tensor: the default here; 4 hooks: torch, numpy
 *     adds 1 % at 9,900 allocations a second: 1.01 µs with the free
 */
#include "base/message.h"
#include "cmd/probes_print.h"
#include "decode/names.h"
#include "proc/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONE_PERCENT_NS 1e7 /* of a second */

static const struct plan_allocator *allocator_of(const struct plan *plan,
						 const struct plan_function *function)
{
	return &plan->allocators[function->hook.allocator - 1];
}

/* Of one call, its way out included; 0: not known. */
static double cost_of_call(const struct plan_function *function,
			   const struct calibration *calibration)
{
	double ns = calibration_hit_ns(calibration, (enum perfx_site)function->site.entry_kind,
				       function->ret);

	if (function->ret == PERFX_RETURN_EXIT && function->site.exits_count)
		ns += calibration_hit_ns(calibration, (enum perfx_site)function->site.exits[0].kind,
					 PERFX_RETURN_EXIT);
	return ns;
}

static void print_hook(const struct plan *plan, const struct plan_function *function,
		       const struct calibration *calibration)
{
	const struct plan_allocator *allocator = allocator_of(plan, function);
	char site[PROBES_TEXT_MAX], out[PROBES_TEXT_MAX], cost[UNITS_MAX];
	char *base = probes_shown(plan->modules[function->module].base);
	char *owner = probes_shown(allocator->name);
	char *name = probes_shown(function->name);

	probes_site(site, function);
	probes_way_out(out, function, calibration);
	probes_cost(cost,
		    calibration_hit_ns(calibration, (enum perfx_site)function->site.entry_kind,
				       function->ret));
	printf("%-11s  %-6s  %-12s %8s  %-27s  %s  %s\n", owner ? owner : "?",
	       name_of_domain(allocator->domain), site, cost, out, base ? base : "?",
	       name ? name : "?");
	if (function->site.entry_note && function->site.entry_kind == SITE_STEPPED)
		printf("%28s%s\n", "entry: ", function->site.entry_note);
	free(name);
	free(owner);
	free(base);
}

static void print_provider(const struct plan *plan, pid_t pid)
{
	struct process_info info = {0};
	ssize_t own, module;
	bool guessed;
	char *comm;

	module = plan__provider(plan, pid, &own, &guessed);
	process_info(pid, &info);
	comm = probes_shown(info.comm);
	printf("malloc of process %d (%s): ", (int)pid, comm ? comm : "?");
	free(comm);
	if (module < 0) {
		printf("not known: nothing that it maps names one\n");
		return;
	}
	comm = probes_shown(plan->modules[module].base);
	printf("%s", comm ? comm : "?");
	free(comm);
	if (own >= 0 && own != module) {
		comm = probes_shown(plan->modules[own].base);
		printf("; the program's own calls: %s", comm ? comm : "?");
		free(comm);
	}
	printf("%s\n", guessed ? " (a guess: the order of its libraries cannot be read)" : "");
}

/* --- levels --- */

struct level {
	const char *name;
	bool has_host;
	const char *more;
};

static bool is_in(const struct level *level, const struct plan_allocator *allocator)
{
	return level->has_host || allocator->domain != PERFX_DOMAIN_HOST;
}

/* The dearest of its usual ways to give a block and to take it back. */
static double cost_of_pair(const struct plan *plan, size_t allocator,
			   const struct calibration *calibration)
{
	double gives = 0, takes = 0;

	for (size_t i = 0; i < plan->functions_count; i++) {
		const struct plan_function *function = &plan->functions[i];
		double ns;

		if (!function->is_hook || !function->is_usual ||
		    function->hook.allocator != allocator + 1)
			continue;
		ns = cost_of_call(function, calibration);
		if (function->hook.action != PERFX_ACTION_FREE && ns > gives)
			gives = ns;
		if ((function->hook.action == PERFX_ACTION_FREE ||
		     function->hook.action == PERFX_ACTION_CHANGE) &&
		    ns > takes)
			takes = ns;
	}
	return gives + takes;
}

static size_t hooks_of(const struct plan *plan, const struct level *level)
{
	size_t count = 0;

	for (size_t i = 0; i < plan->functions_count; i++)
		count += plan->functions[i].is_hook &&
			 is_in(level, allocator_of(plan, &plan->functions[i]));
	return count;
}

static void print_names(const struct plan *plan, const struct level *level)
{
	const char *separator = ": ";

	for (size_t i = 0; i < plan->allocators_count; i++) {
		const struct plan_allocator *allocator = &plan->allocators[i];
		size_t first = 0;
		char *name;

		while (strcmp(plan->allocators[first].name, allocator->name) != 0)
			first++;
		if (!is_in(level, allocator) || first != i)
			continue;
		name = probes_shown(allocator->name);
		printf("%s%s", separator, name ? name : "?");
		free(name);
		separator = ", ";
	}
}

static void print_level(const struct plan *plan, const struct level *level, bool is_default,
			const struct calibration *calibration)
{
	size_t hooks = hooks_of(plan, level);
	double dearest_ns = 0;
	char cost[UNITS_MAX], rate[UNITS_MAX];

	for (size_t i = 0; i < plan->allocators_count; i++) {
		double ns = cost_of_pair(plan, i, calibration);

		if (is_in(level, &plan->allocators[i]) && ns > dearest_ns)
			dearest_ns = ns;
	}
	printf("--memory %s: %s%zu hooks", level->name, is_default ? "the default here; " : "",
	       hooks);
	print_names(plan, level);
	printf("\n");
	if (dearest_ns > 0)
		printf("  adds 1 %% at %s allocations a second: %s with the free%s\n",
		       format_count(rate, (uint64_t)(ONE_PERCENT_NS / dearest_ns)),
		       probes_cost(cost, dearest_ns), level->more);
}

static void print_levels(const struct plan *plan, const struct calibration *calibration)
{
	static const struct level tensor = {"tensor", false, ", hits alone"};
	static const struct level others[] = {
		{"sampled", true, ", hits alone; samples spare the work behind them"},
		{"all", true, ", hits alone; records and stacks come on top"},
	};

	print_level(plan, &tensor, plan->has_framework, calibration);
	if (plan->options.memory == MEMORY_TENSOR)
		return;
	for (size_t i = 0; i < 2; i++)
		print_level(plan, &others[i], !i && !plan->has_framework, calibration);
}

void probes_print_memory(const struct plan *plan, const struct calibration *calibration,
			 const pid_t *pids, size_t count)
{
	if (plan->hooks_count)
		printf("\n%-11s  %-6s  %-12s %8s  %-27s  %s\n", "ALLOCATOR", "DOMAIN", "SITE",
		       "COST", "RETURN", "FUNCTION");
	for (size_t i = 0; i < plan->functions_count; i++)
		if (plan->functions[i].is_hook)
			print_hook(plan, &plan->functions[i], calibration);
	printf("\n");
	if (plan->options.memory != MEMORY_TENSOR)
		for (size_t i = 0; i < count; i++)
			print_provider(plan, pids[i]);
	print_levels(plan, calibration);
}
