// SPDX-License-Identifier: BSD-2-Clause
/*
 * perfx-trace probes -p PID: what would be attached, without touching the process. A sample:
 *
 *   SITE             COST  WAY OUT                      FUNCTION
 *   push +4        560 ns  exit: 1 branch       560 ns  libtorch_cpu.so  at::_ops::mm::call
 *
 * and of those that nobody named, without -v,
 *
 *   COUNT           COST A HIT  KIND             FILE AND FUNCTIONS (-v: each)
 *      53                560 ns  functions        libtorch_cpu.so  at::_ops::mm::call, …
 */
#include "attach/calibrate.h"
#include "base/escape.h"
#include "base/message.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "cmd/probes_print.h"
#include "cmd/targets.h"
#include "decode/names.h"
#include "plan/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct links {
	enum perfx_link hit, by_return;
};

/* Cost needs programs of our own on functions of our own; without privilege there is none. */
static struct links measure(const struct options *options, struct features *features,
			    struct calibration *calibration)
{
	struct tracer_options tracer_options = {
		.link = options->link, .ring_bytes = options->ring_bytes, .probes_max = 64};
	struct links links = {0};
	struct tracer *tracer;

	features_try(features);
	features_end(features);
	if (!features->privileged)
		return links;
	tracer = tracer__new(&tracer_options, features);
	if (!tracer)
		return links;
	if (!options->no_calibrate)
		calibrate(tracer, calibration);
	links.hit = tracer__hit_link(tracer);
	links.by_return = tracer__return_link(tracer);
	tracer__free(tracer);
	return links;
}

const char *probes_cost(char buffer[UNITS_MAX], double ns)
{
	return ns > 0 ? format_ns(buffer, (uint64_t)ns) : strcpy(buffer, "?");
}

char *probes_shown(const char *name)
{
	struct text text = {0};

	escape_display(&text, name);
	return text_take(&text);
}

void probes_site(char text[PROBES_TEXT_MAX], const struct plan_function *function)
{
	snprintf(text, PROBES_TEXT_MAX, "%s +%lu",
		 name_of_site((enum perfx_site)function->site.entry_kind),
		 (unsigned long)(function->site.entry_vaddr - function->vaddr));
}

void probes_way_out(char text[PROBES_TEXT_MAX], const struct plan_function *function,
		    const struct calibration *calibration)
{
	size_t cheap = 0, count = function->site.exits_count;
	char cost[UNITS_MAX];

	switch (function->ret) {
	case PERFX_RETURN_PROBE:
		snprintf(text, PROBES_TEXT_MAX, "return probe, in it");
		return;
	case PERFX_RETURN_NONE:
		snprintf(text, PROBES_TEXT_MAX,
			 function->is_hook || function->is_hint || function->is_mark
				 ? "not needed"
				 : "none: counted only");
		return;
	case PERFX_RETURN_EXIT:
		break;
	}
	for (size_t i = 0; i < count; i++)
		cheap += function->site.exits[i].kind != SITE_STEPPED;
	if (!count) {
		snprintf(text, PROBES_TEXT_MAX, "never returns");
		return;
	}
	probes_cost(cost,
		    calibration_hit_ns(calibration, (enum perfx_site)function->site.exits[0].kind,
				       PERFX_RETURN_EXIT));
	if (cheap == count)
		snprintf(text, PROBES_TEXT_MAX, "exit: %zu branch %s", count, cost);
	else if (cheap)
		snprintf(text, PROBES_TEXT_MAX, "exit: %zu branch, %zu ret", cheap, count - cheap);
	else
		snprintf(text, PROBES_TEXT_MAX, "exit: %zu ret %s", count, cost);
}

static void print_function(const struct plan *plan, const struct plan_function *function,
			   const struct calibration *calibration)
{
	char site[PROBES_TEXT_MAX], cost[UNITS_MAX], out[PROBES_TEXT_MAX];
	char *name = probes_shown(function->name);
	char *base = probes_shown(plan->modules[function->module].base);

	probes_site(site, function);
	probes_cost(cost,
		    calibration_hit_ns(calibration, (enum perfx_site)function->site.entry_kind,
				       function->ret));
	probes_way_out(out, function, calibration);
	printf("%-12s %8s  %-28s %s  %s\n", site, cost, out, base ? base : "?", name ? name : "?");
	if (function->site.entry_note && function->site.entry_kind == SITE_STEPPED)
		printf("%24s%s\n", "entry: ", function->site.entry_note);
	if (function->ret == PERFX_RETURN_NONE && !function->is_hint && !function->is_mark)
		printf("%24s%s\n", "times: ", function->ret_why);
	if (function->is_worker && function->by_default)
		printf("%24s%s\n",
		       "attached: ", "only where what XLA's thunks compute cannot be read");
	if (function->figure_origin)
		printf("%24s%s\n", "operations: ", function->figure_origin);
	else if (function->figure_why)
		printf("%24snot known: %s\n", "operations: ", function->figure_why);
	free(name);
	free(base);
}

/* --- many of a kind --- */

static const char *kind_of(const struct plan_function *function)
{
	if (function->is_usdt)
		return "USDT probes";
	if (function->is_mark)
		return "marks of ranges";
	if (function->is_hint)
		return "perfx_flops()";
	if (function->source == PERFX_SOURCE_PERFX)
		return "annotated";
	return function->ret == PERFX_RETURN_NONE ? "counted only" : "functions";
}

/* What nobody named is shown by file and kind. */
static bool is_grouped(const struct plan_function *function, const struct options *options)
{
	return function->by_default && !function->is_hook && !options->full;
}

static bool is_alike(const struct plan_function *a, const struct plan_function *b)
{
	return a->module == b->module && !strcmp(kind_of(a), kind_of(b));
}

#define NAMES_SHOWN 3

static void print_names(const struct plan_function *const *group, size_t count)
{
	for (size_t i = 0; i < count && i < NAMES_SHOWN; i++) {
		char *name = probes_shown(group[i]->name);

		printf("%s%s", i ? ", " : "", name ? name : "?");
		free(name);
	}
	puts(count > NAMES_SHOWN ? ", …" : "");
}

static void print_group(const struct plan *plan, const struct plan_function *const *group,
			size_t count, const struct calibration *calibration)
{
	char *base = probes_shown(plan->modules[group[0]->module].base);
	char least[UNITS_MAX], most[UNITS_MAX], cost[2 * UNITS_MAX + 4];
	double low = 0, high = 0;

	for (size_t i = 0; i < count; i++) {
		double ns = calibration_hit_ns(
			calibration, (enum perfx_site)group[i]->site.entry_kind, group[i]->ret);

		low = i && low < ns ? low : ns;
		high = high > ns ? high : ns;
	}
	probes_cost(least, low);
	probes_cost(most, high);
	snprintf(cost, sizeof(cost), low < high ? "%s – %s" : "%s", least, most);
	printf("%5zu  %19s%s  %-15s  %s  ", count, cost, low < high ? "" : "  ", kind_of(group[0]),
	       base ? base : "?");
	print_names(group, count);
	free(base);
}

/* Those like functions[first], unless they are in an earlier one's group: their number. */
static size_t gather(const struct plan *plan, size_t first, const struct options *options,
		     const struct plan_function **group)
{
	const struct plan_function *functions = plan->functions;
	size_t count = 0;

	for (size_t i = 0; i < first; i++)
		if (is_grouped(&functions[i], options) &&
		    is_alike(&functions[i], &functions[first]))
			return 0;
	for (size_t i = first; i < plan->functions_count; i++)
		if (is_grouped(&functions[i], options) &&
		    is_alike(&functions[i], &functions[first]))
			group[count++] = &functions[i];
	return count;
}

static void print_groups(const struct plan *plan, const struct options *options,
			 const struct calibration *calibration)
{
	const struct plan_function **group =
		calloc(plan->functions_count + 1, sizeof(const struct plan_function *));
	bool headed = false;

	for (size_t i = 0; group && i < plan->functions_count; i++) {
		size_t count = is_grouped(&plan->functions[i], options)
				       ? gather(plan, i, options, group)
				       : 0;

		if (count && !headed)
			printf("COUNT           COST A HIT  %-15s  FILE AND FUNCTIONS (-v: each)\n",
			       "KIND");
		headed = headed || count;
		if (count)
			print_group(plan, group, count, calibration);
	}
	free(group);
}

/* --- all --- */

/* Were there any? */
static bool print_named(const struct plan *plan, const struct options *options,
			const struct calibration *calibration)
{
	bool headed = false;

	for (size_t i = 0; i < plan->functions_count; i++) {
		const struct plan_function *function = &plan->functions[i];

		if (function->is_hook || is_grouped(function, options))
			continue;
		if (!headed)
			printf("%-12s %8s  %-28s %s\n", "SITE", "COST", "WAY OUT", "FUNCTION");
		headed = true;
		print_function(plan, function, calibration);
	}
	return headed;
}

static void print_plan(const struct plan *plan, const struct options *options,
		       const struct calibration *calibration, const struct links *links)
{
	if (print_named(plan, options, calibration))
		putchar('\n');
	print_groups(plan, options, calibration);
	printf("\n%zu functions; links: sites by %s, return probes by %s\n",
	       plan->functions_count - plan->hooks_count, name_of_link(links->hit),
	       name_of_link(links->by_return));
	if (!links->hit)
		printf("costs are not known: measuring them needs the privilege to trace\n");
}

static void print_refusals(const struct plan *plan)
{
	for (size_t i = 0; i < plan->refusals_count; i++) {
		const struct plan_refusal *refusal = &plan->refusals[i];
		char *name = probes_shown(refusal->name);

		printf("not attached: %s", name ? name : "?");
		if (refusal->count > 1)
			printf(" and %u more", refusal->count - 1);
		printf(": %s\n", refusal->reason);
		free(name);
	}
}

static int scan(struct plan *plan, const pid_t *pids, size_t count, size_t functions_max)
{
	for (size_t i = 0; i < count; i++) {
		size_t *modules = NULL;
		ssize_t n = plan__scan(plan, pids[i], &modules);

		free(modules);
		if (n >= 0)
			continue;
		if (n == -E2BIG)
			msg_say("the patterns match more than %zu functions: narrow them, or raise "
				"--max-functions",
				functions_max);
		else
			msg_say("process %d: %s", (int)pids[i], strerror((int)-n));
		return n == -E2BIG ? EXIT_USAGE : EXIT_FAILED;
	}
	return EXIT_OK;
}

static int say_unmatched(struct plan *plan, const struct options *options, pid_t pid)
{
	char *nearest = NULL;
	int pattern = plan__unmatched(plan, pid, &nearest);

	for (size_t i = 0; i < options->patterns_count; i++)
		if (plan__waits(plan, i))
			printf("would wait for a file of this name: %s\n",
			       pattern__text(options->patterns[i]));
	if (pattern >= 0)
		msg_say("-F '%s': no function of that name is mapped%s%s",
			pattern__text(options->patterns[pattern]),
			nearest && *nearest ? "; near: " : "", nearest ? nearest : "");
	free(nearest);
	return pattern < 0 ? EXIT_OK : EXIT_USAGE;
}

int cmd_probes(const struct options *options)
{
	struct calibration calibration = {0};
	struct plan_options plan_options;
	struct features features;
	struct links links;
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
	/* what each level would attach is shown, unless one asks for less */
	if (plan_options.memory == MEMORY_DEFAULT)
		plan_options.memory = MEMORY_ALL;
	plan = plan__new(&plan_options);
	code = plan ? scan(plan, pids, count, options->functions_max) : EXIT_FAILED;
	if (!code) {
		print_plan(plan, options, &calibration, &links);
		if (options->memory != MEMORY_OFF)
			probes_print_memory(plan, &calibration, pids, count);
		print_refusals(plan);
	}
	if (!code && count)
		code = say_unmatched(plan, options, pids[0]);
	plan__free(plan);
	free(pids);
	return code;
}
