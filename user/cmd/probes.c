// SPDX-License-Identifier: BSD-2-Clause
/*
 * perfx-trace probes -p PID: what would be probed, without touching the process. A sample:
 *
 *   PROBE            COST  EXIT                         FUNCTION
 *   push +4        560 ns  1 branch       560 ns        libtorch_cpu.so  at::_ops::mm::call
 *
 * and of the functions traced by default, without -v,
 *
 *   COUNT        COST OF A HIT  KIND             FILE AND FUNCTIONS (-v: each)
 *      53               560 ns  functions        libtorch_cpu.so  at::_ops::mm::call, …
 *
 * then the memory allocators:
 *
 *   ALLOCATOR    DOMAIN  PROBE            COST  EXIT                         FUNCTION
 *   libc         host    push +0        690 ns  return probe, included       libc.so.6  malloc
 *   libc         host    branch +3      520 ns  not needed                   libc.so.6  free
 *
 *   malloc of process 4711 (trainer): libc (libc.so.6)
 *   --memory tensor: the default here; 4 probes: torch, numpy
 *     costs 1 % at 9,900 allocations per second: 1.01 µs each, with the free
 */
#include "attach/hit_cost.h"
#include "base/escape.h"
#include "base/grow.h"
#include "base/message.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "decode/names.h"
#include "plan/plan.h"
#include "proc/process.h"
#include "session/progress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 96

/* Links for hits and for returns; 0: unknown. */
struct link_kinds {
	enum perfx_link hit, by_return;
};

/* The cost of a hit is measured on functions of our own: it needs privilege. */
static struct link_kinds measure(const struct options *options, struct features *features,
				 struct calibration *calibration)
{
	struct tracer_options tracer_options = {
		.link = options->link, .ring_bytes = options->ring_bytes, .probes_max = 64};
	struct link_kinds links = {0};
	struct tracer *tracer;

	features_try(features);
	features_end(features);
	tracer = features->privileged ? tracer__new(&tracer_options, features) : NULL;
	if (!tracer)
		return links;
	if (!options->no_calibrate)
		calibrate(tracer, calibration);
	links = (struct link_kinds){tracer__hit_link(tracer), tracer__return_link(tracer)};
	tracer__free(tracer);
	return links;
}

static const char *cost_text(char buffer[UNITS_MAX], double ns)
{
	return ns > 0 ? format_ns(buffer, (uint64_t)ns) : strcpy(buffer, "?");
}

static void print_name(const char *name)
{
	struct text shown = {0};

	escape_display(&shown, name);
	fputs(shown.failed ? "?" : text_peek(&shown), stdout);
	text_clear(&shown);
}

/* "libtorch_cpu.so  at::_ops::mm::call" */
static void print_file_and_name(const struct plan *plan, const struct plan_function *function)
{
	print_name(plan->modules[function->module].base);
	fputs("  ", stdout);
	print_name(function->name);
	putchar('\n');
}

static void site_text(char text[TEXT_MAX], const struct plan_function *function)
{
	snprintf(text, TEXT_MAX, "%s +%lu",
		 name_of_site((enum perfx_site)function->site.entry_kind),
		 (unsigned long)(function->site.entry_vaddr - function->vaddr));
}

static double entry_ns(const struct plan *plan, const struct plan_function *function,
		       const struct calibration *calibration)
{
	return calibration_entry_ns(calibration, function->site.entry_kind,
				    plan_return(plan, function));
}

static void exit_text(char text[TEXT_MAX], const struct plan *plan,
		      const struct plan_function *function, const struct calibration *calibration)
{
	size_t cheap = 0, count = function->site.exits_count;
	char cost[UNITS_MAX];

	switch (plan_return(plan, function)) {
	case PERFX_RETURN_PROBE:
		snprintf(text, TEXT_MAX, "return probe, included");
		return;
	case PERFX_RETURN_NONE:
		snprintf(text, TEXT_MAX,
			 function->role == PLAN_ALLOC_PROBE || function->role == PLAN_HINT ||
					 plan_is_annotation(function)
				 ? "not needed"
				 : "none: counted, not timed");
		return;
	case PERFX_RETURN_EXIT:
		break;
	}
	for (size_t i = 0; i < count; i++)
		cheap += function->site.exits[i].kind != SITE_STEPPED;
	if (!count) {
		snprintf(text, TEXT_MAX, "never returns");
		return;
	}
	cost_text(cost, calibration_exit_ns(calibration, function->site.exits[0].kind));
	if (cheap == count)
		snprintf(text, TEXT_MAX, "%zu branch %s", count, cost);
	else if (cheap)
		snprintf(text, TEXT_MAX, "%zu branch, %zu ret", cheap, count - cheap);
	else
		snprintf(text, TEXT_MAX, "%zu ret %s", count, cost);
}

static void print_function(const struct plan *plan, const struct plan_function *function,
			   const struct calibration *calibration)
{
	char site[TEXT_MAX], cost[UNITS_MAX], out[TEXT_MAX];

	site_text(site, function);
	cost_text(cost, entry_ns(plan, function, calibration));
	exit_text(out, plan, function, calibration);
	printf("%-12s %8s  %-28s ", site, cost, out);
	print_file_and_name(plan, function);
	if (function->site.entry_note && function->site.entry_kind == SITE_STEPPED)
		printf("%24s%s\n", "entry: ", function->site.entry_note);
	if (plan_return(plan, function) == PERFX_RETURN_NONE && function->role != PLAN_HINT &&
	    !plan_is_annotation(function))
		printf("%24s%s\n", "not timed: ", function->ret_why);
	if (plan_is_worker(function) && function->by_default)
		printf("%24s%s\n",
		       "attached: ", "only if the names of XLA's operations cannot be read");
	if (function->cost_origin)
		printf("%24s%s\n", "FLOPs: ", function->cost_origin);
	else if (function->cost_why)
		printf("%24sunknown: %s\n", "FLOPs: ", function->cost_why);
}

static const char *kind_of(const struct plan *plan, const struct plan_function *function)
{
	if (function->role == PLAN_USDT)
		return "USDT probes";
	if (plan_is_annotation(function))
		return "ranges";
	if (function->role == PLAN_HINT)
		return "perfx_flops()";
	if (function->source == PERFX_SOURCE_PERFX)
		return "annotated";
	return plan_return(plan, function) == PERFX_RETURN_NONE ? "not timed" : "functions";
}

/* Functions traced by default are shown by file and kind. */
static bool is_grouped(const struct plan_function *function, const struct options *options)
{
	return function->by_default && function->role != PLAN_ALLOC_PROBE && !options->full;
}

/* Is it shown in a group, with functions like this one? */
static bool is_alike(const struct plan *plan, const struct plan_function *a,
		     const struct plan_function *b, const struct options *options)
{
	return is_grouped(a, options) && a->module == b->module &&
	       !strcmp(kind_of(plan, a), kind_of(plan, b));
}

#define NAMES_SHOWN 3

static void print_group(const struct plan *plan, const struct plan_function *const *group,
			size_t count, const struct calibration *calibration)
{
	char least[UNITS_MAX], most[UNITS_MAX], cost[2 * UNITS_MAX + 4];
	double low = 0, high = 0;

	for (size_t i = 0; i < count; i++) {
		double ns = entry_ns(plan, group[i], calibration);

		low = i && low < ns ? low : ns;
		high = high > ns ? high : ns;
	}
	cost_text(least, low);
	cost_text(most, high);
	snprintf(cost, sizeof(cost), low < high ? "%s – %s" : "%s", least, most);
	printf("%5zu  %19s%s  %-15s  ", count, cost, low < high ? "" : "  ",
	       kind_of(plan, group[0]));
	print_name(plan->modules[group[0]->module].base);
	for (size_t i = 0; i < count && i < NAMES_SHOWN; i++) {
		fputs(i ? ", " : "  ", stdout);
		print_name(group[i]->name);
	}
	puts(count > NAMES_SHOWN ? ", …" : "");
}

static void print_plan(const struct plan *plan, const struct options *options,
		       const struct calibration *calibration, const struct link_kinds *links)
{
	const struct plan_function **group = calloc(plan->functions_count + 1, sizeof(*group));
	bool headed = false;

	FOR_EACH (function, plan->functions) {
		if (function->role == PLAN_ALLOC_PROBE || is_grouped(function, options))
			continue;
		if (!headed)
			printf("%-12s %8s  %-28s %s\n", "PROBE", "COST", "EXIT", "FUNCTION");
		headed = true;
		print_function(plan, function, calibration);
	}
	if (headed)
		putchar('\n');
	headed = false;
	for (size_t i = 0; group && i < plan->functions_count; i++) {
		const struct plan_function *first = &plan->functions[i];
		size_t count = 0, like = 0;

		while (like < i && !is_alike(plan, &plan->functions[like], first, options))
			like++;
		if (like < i || !is_grouped(first, options))
			continue; /* in an earlier function's group, or in none */
		for (; like < plan->functions_count; like++)
			if (is_alike(plan, &plan->functions[like], first, options))
				group[count++] = &plan->functions[like];
		if (!headed)
			printf("COUNT        COST OF A HIT  %-15s  FILE AND FUNCTIONS (-v: each)\n",
			       "KIND");
		headed = true;
		print_group(plan, group, count, calibration);
	}
	free(group);
	printf("\n%zu functions; links: %s; for return probes: %s\n",
	       plan->functions_count - plan->alloc_probes_count, name_of_link(links->hit),
	       name_of_link(links->by_return));
	if (!links->hit)
		printf("costs unknown: measuring them needs the privileges for tracing\n");
}

#define ONE_PERCENT_NS 1e7 /* of a second */

static void print_alloc_probe(const struct plan *plan, const struct plan_function *function,
			      const struct calibration *calibration)
{
	const struct plan_allocator *allocator =
		&plan->allocators[function->alloc_probe.allocator - 1];
	char site[TEXT_MAX], out[TEXT_MAX], cost[UNITS_MAX];
	struct text owner = {0};

	site_text(site, function);
	exit_text(out, plan, function, calibration);
	cost_text(cost, entry_ns(plan, function, calibration));
	escape_display(&owner, allocator->name);
	printf("%-11s  %-6s  %-12s %8s  %-27s  ", text_peek(&owner),
	       name_of_domain(allocator->domain), site, cost, out);
	print_file_and_name(plan, function);
	text_clear(&owner);
	if (function->site.entry_note && function->site.entry_kind == SITE_STEPPED)
		printf("%28s%s\n", "entry: ", function->site.entry_note);
}

static void print_provider(const struct plan *plan, pid_t pid)
{
	struct process_info info = {0};
	ssize_t own, module;
	bool guessed;

	module = plan__provider(plan, pid, &own, &guessed);
	process_info(pid, &info);
	printf("malloc of process %d (", (int)pid);
	print_name(info.comm);
	fputs("): ", stdout);
	if (module < 0) {
		puts("unknown: no allocator is mapped");
		return;
	}
	print_name(plan->modules[module].base);
	if (own >= 0 && own != module) {
		fputs("; the program's own calls: ", stdout);
		print_name(plan->modules[own].base);
	}
	puts(guessed ? " (a guess: the order of its libraries cannot be read)" : "");
}

struct level {
	const char *name;
	bool has_host;
	const char *more;
};

static bool is_in(const struct level *level, const struct plan_allocator *allocator)
{
	return level->has_host || allocator->domain != PERFX_DOMAIN_HOST;
}

/* The most expensive usual allocation and free. */
static double cost_of_pair(const struct plan *plan, size_t allocator,
			   const struct calibration *calibration)
{
	double allocate = 0, release = 0;

	FOR_EACH (function, plan->functions) {
		double ns;

		if (function->role != PLAN_ALLOC_PROBE || !function->is_usual ||
		    function->alloc_probe.allocator != allocator + 1)
			continue;
		ns = calibration_call_ns(calibration, function, function->site.entry_kind,
					 plan_return(plan, function));
		if (function->alloc_probe.action != PERFX_ACTION_FREE && ns > allocate)
			allocate = ns;
		if ((function->alloc_probe.action == PERFX_ACTION_FREE ||
		     function->alloc_probe.action == PERFX_ACTION_CHANGE) &&
		    ns > release)
			release = ns;
	}
	return allocate + release;
}

static void print_level(const struct plan *plan, const struct level *level, bool is_default,
			const struct calibration *calibration)
{
	char cost[UNITS_MAX], rate[UNITS_MAX];
	const char *separator = ": ";
	size_t alloc_probes = 0;
	double highest_ns = 0;

	FOR_EACH (function, plan->functions)
		alloc_probes +=
			function->role == PLAN_ALLOC_PROBE &&
			is_in(level, &plan->allocators[function->alloc_probe.allocator - 1]);
	for (size_t i = 0; i < plan->allocators_count; i++) {
		double ns = cost_of_pair(plan, i, calibration);

		if (is_in(level, &plan->allocators[i]) && ns > highest_ns)
			highest_ns = ns;
	}
	printf("--memory %s: %s%zu probes", level->name, is_default ? "the default here; " : "",
	       alloc_probes);
	for (size_t i = 0; i < plan->allocators_count; i++) {
		const struct plan_allocator *allocator = &plan->allocators[i];
		size_t first = 0;

		while (strcmp(plan->allocators[first].name, allocator->name) != 0)
			first++;
		if (!is_in(level, allocator) || first != i)
			continue;
		fputs(separator, stdout);
		print_name(allocator->name);
		separator = ", ";
	}
	printf("\n");
	if (highest_ns > 0)
		printf("  costs 1 %% at %s allocations/s: %s per allocation and free%s\n",
		       format_count(rate, (uint64_t)(ONE_PERCENT_NS / highest_ns)),
		       cost_text(cost, highest_ns), level->more);
}

static void print_memory(const struct plan *plan, const struct calibration *calibration,
			 const pid_t *pids, size_t count)
{
	static const struct level levels[] = {
		{"tensor", false, "; probe hits only"},
		{"sampled", true, "; probe hits only, without the records of samples"},
		{"all", true, "; probe hits only, without records and call stacks"},
	};

	if (plan->alloc_probes_count)
		printf("\n%-11s  %-6s  %-12s %8s  %-27s  %s\n", "ALLOCATOR", "DOMAIN", "PROBE",
		       "COST", "EXIT", "FUNCTION");
	FOR_EACH (function, plan->functions)
		if (function->role == PLAN_ALLOC_PROBE)
			print_alloc_probe(plan, function, calibration);
	printf("\n");
	if (plan->options.memory != MEMORY_TENSOR)
		for (size_t i = 0; i < count; i++)
			print_provider(plan, pids[i]);
	print_level(plan, &levels[0], plan->has_framework, calibration);
	for (size_t i = 1; i < 3 && plan->options.memory != MEMORY_TENSOR; i++)
		print_level(plan, &levels[i], i == 1 && !plan->has_framework, calibration);
}

static int scan(struct plan *plan, const pid_t *pids, size_t count, size_t functions_max)
{
	for (size_t i = 0; i < count; i++) {
		size_t *modules = NULL;
		ssize_t n = plan__scan(plan, pids[i], &modules);

		free(modules);
		if (n >= 0)
			continue;
		say_scan_error(pids[i], n, functions_max);
		return n == -E2BIG ? EXIT_USAGE : EXIT_FAILED;
	}
	return EXIT_OK;
}

static int say_unmatched(struct plan *plan, const struct options *options, pid_t pid)
{
	char *why = NULL;
	int pattern = plan__unmatched(plan, pid, &why);

	for (size_t i = 0; i < options->patterns_count; i++)
		if (plan__waits(plan, i))
			printf("not mapped yet; traced once it is: %s\n",
			       pattern__text(options->patterns[i]));
	if (pattern >= 0)
		msg_say("-F '%s': %s", pattern__text(options->patterns[pattern]),
			why ? why : strerror(ENOMEM));
	free(why);
	return pattern < 0 ? EXIT_OK : EXIT_USAGE;
}

int cmd_probes(const struct options *options)
{
	struct calibration calibration = {0};
	struct plan_options plan_options;
	struct features features;
	struct link_kinds links;
	struct plan *plan;
	size_t count;
	pid_t *pids;
	int code;

	code = targets_find(options, &pids, &count);
	if (code) {
		free(pids);
		return code;
	}
	links = measure(options, &features, &calibration);
	plan_options = plan_options_of(options, &features);
	/* each level is shown, unless less is asked for */
	if (plan_options.memory == MEMORY_DEFAULT)
		plan_options.memory = MEMORY_ALL;
	plan = plan__new(&plan_options);
	code = plan ? scan(plan, pids, count, options->functions_max) : EXIT_FAILED;
	if (!code) {
		print_plan(plan, options, &calibration, &links);
		if (options->memory != MEMORY_OFF)
			print_memory(plan, &calibration, pids, count);
		for (size_t i = 0; i < plan->skipped.count; i++) {
			const struct skipped *skipped = &plan->skipped.items[i];

			fputs("not attached: ", stdout);
			print_name(skipped->name);
			if (skipped->count > 1)
				printf(" and %u more", skipped->count - 1);
			printf(": %s\n", skipped->reason);
		}
	}
	if (!code && count)
		code = say_unmatched(plan, options, pids[0]);
	plan__free(plan);
	free(pids);
	return code;
}
