// SPDX-License-Identifier: BSD-2-Clause
#include "plan/plan.h"

#include "plan/defaults.h"
#include "target/demangle.h"
#include "target/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- small growing arrays --- */

static void *grow(void *array, size_t count, size_t size)
{
	/* at powers of two */
	if (count & (count - 1))
		return array;
	return realloc(array, (count ? count * 2 : 1) * size);
}

struct plan *plan__new(const struct plan_options *options)
{
	struct plan *plan = calloc(1, sizeof(*plan));
	size_t n = options->patterns_count + 1;

	if (!plan)
		return NULL;
	plan->options = *options;
	plan->c_alone = true;
	plan->pattern_saw_module = calloc(n, sizeof(bool));
	plan->pattern_matched = calloc(n, sizeof(bool));
	if (!plan->pattern_saw_module || !plan->pattern_matched) {
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
	for (size_t i = 0; i < plan->functions_count; i++) {
		free(plan->functions[i].name);
		free(plan->functions[i].symbol);
		site_plan__clear(&plan->functions[i].site);
	}
	for (size_t i = 0; i < plan->modules_count; i++) {
		struct plan_module *module = &plan->modules[i];

		free(module->path);
		free(module->base);
		free(module->build_id);
		if (module->fd >= 0)
			close(module->fd);
	}
	for (size_t i = 0; i < plan->refusals_count; i++) {
		free(plan->refusals[i].name);
		free(plan->refusals[i].reason);
	}
	free(plan->functions);
	free(plan->modules);
	free(plan->refusals);
	free(plan->pattern_saw_module);
	free(plan->pattern_matched);
	free(plan);
}

void plan__refuse(struct plan *plan, const char *name, const char *reason)
{
	struct plan_refusal *refusals;

	for (size_t i = 0; i < plan->refusals_count; i++) {
		if (!strcmp(plan->refusals[i].reason, reason)) {
			plan->refusals[i].count++;
			return;
		}
	}
	refusals = grow(plan->refusals, plan->refusals_count, sizeof(*refusals));
	if (!refusals)
		return;
	plan->refusals = refusals;
	refusals[plan->refusals_count++] = (struct plan_refusal){
		.name = strdup(name), .reason = strdup(reason), .count = 1};
}

/* --- which functions of a file --- */

struct candidate {
	char *symbol;
	uint64_t vaddr, offset, size;
	enum perfx_source source;
	bool marked; /* by PERFX_TRACK: symbol is the name to show */
	bool global;
};

struct selection {
	struct plan *plan;
	const char *base;
	struct candidate *candidates;
	size_t count;
	int err;
};

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
	struct candidate *candidates;

	if (selection->plan->functions_count + selection->count >
	    selection->plan->options.functions_max * 2) /* aliases are not taken off yet */
		return selection->err = -E2BIG;
	candidates = grow(selection->candidates, selection->count, sizeof(*candidates));
	if (!candidates)
		return selection->err = -ENOMEM;
	selection->candidates = candidates;
	candidates[selection->count] = (struct candidate){
		.symbol = strdup(symbol->name),
		.vaddr = symbol->vaddr,
		.offset = symbol->offset,
		.size = symbol->size,
		.source = source,
		.marked = symbol->origin == SYMBOL_NOTE,
		.global = symbol->global,
	};
	if (!candidates[selection->count].symbol)
		return selection->err = -ENOMEM;
	selection->count++;
	return 0;
}

static void refuse_symbol(struct plan *plan, const char *symbol, const char *reason)
{
	char *name = demangle(symbol);

	plan__refuse(plan, name ? name : symbol, reason);
	free(name);
}

static int offer_symbol(const struct symbol *symbol, void *ctx)
{
	struct selection *selection = ctx;
	struct plan *plan = selection->plan;
	bool chosen = has_includes(&plan->options);
	enum perfx_source source;

	/* a function's cold half is part of it, not a function */
	if (symbol->cold)
		return 0;
	source = chosen ? (included(plan, selection->base, symbol->name)
				   ? source_of_function(selection->base, symbol->name)
				   : PERFX_SOURCE_INVALID)
			: default_function(symbol->name);
	if (!source || excluded(&plan->options, selection->base, symbol->name))
		return 0;
	if (symbol->ifunc) {
		refuse_symbol(plan, symbol->name,
			      "IFUNC: the symbol is a resolver; trace the implementation it picks");
		return 0;
	}
	return add_candidate(selection, symbol, source);
}

static int offer_mark(const struct symbol *symbol, void *ctx)
{
	struct selection *selection = ctx;
	struct plan *plan = selection->plan;

	/* traced whatever -F says, unless excluded; a pattern may name it all the same */
	included(plan, selection->base, symbol->name);
	if (excluded(&plan->options, selection->base, symbol->name))
		return 0;
	if (!symbol->vaddr) {
		plan__refuse(plan, symbol->name, "annotated, but its function was not found: "
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
	if (x->marked != y->marked)
		return x->marked ? -1 : 1;
	if (x->global != y->global)
		return x->global ? -1 : 1;
	if ((x->symbol[0] == '_') != (y->symbol[0] == '_'))
		return x->symbol[0] == '_' ? 1 : -1;
	return strcmp(x->symbol, y->symbol);
}

/* --- how each is timed --- */

static void choose_return(const struct plan *plan, const char *base,
			  struct plan_function *function)
{
	bool exits_known = function->site.exits_state == EXITS_KNOWN;

	function->c_alone = false;
	if (plan->options.return_mode == RETURN_PROBE) {
		function->ret = PERFX_RETURN_PROBE;
		function->ret_why = "asked for by --return probe";
	} else if (plan->options.return_mode == RETURN_AUTO &&
		   return_probe_is_safe(base, function->symbol)) {
		function->ret = PERFX_RETURN_PROBE;
		function->ret_why = "a C entry point that nothing unwinds through";
	} else if (plan->options.return_mode == RETURN_AUTO && plan->c_alone &&
		   (plan->options.return_guard || !exits_known ||
		    (!function->site.calls_itself && !function->site.entry_repeats))) {
		function->ret = PERFX_RETURN_PROBE;
		function->ret_why = "the process is C alone: nothing unwinds";
		function->c_alone = true;
	} else if (exits_known) {
		function->ret = PERFX_RETURN_EXIT;
		function->ret_why = function->site.calls_itself && plan->c_alone
					    ? "it calls itself: return probes nest 64 deep at most"
					    : "an exception may cross it: timed where it leaves";
	} else {
		function->ret = PERFX_RETURN_NONE;
		function->ret_why = function->site.exits_note ? function->site.exits_note
							      : "its ways out are not all known";
	}
}

size_t plan__distrust_returns(struct plan *plan)
{
	size_t changed = 0;

	for (size_t i = 0; i < plan->functions_count; i++) {
		struct plan_function *function = &plan->functions[i];

		if (!function->c_alone)
			continue;
		choose_return(plan, plan->modules[function->module].base, function);
		function->c_alone = true;
		changed++;
	}
	return changed;
}

static int plan_function(struct plan *plan, struct image *image, size_t module,
			 struct candidate *candidate)
{
	struct site_options options = {.entry_only = plan->options.site_entry_only,
				       .optimized_nop5 = plan->options.optimized_nop5};
	struct plan_function *functions;
	struct plan_function function = {
		.module = (uint32_t)module,
		.vaddr = candidate->vaddr,
		.offset = candidate->offset,
		.size = candidate->size,
		.source = candidate->source,
		.by_default = !candidate->marked && !has_includes(&plan->options),
	};
	int err = site_plan(image, candidate->vaddr, candidate->size, &options, &function.site);

	if (err == -ENOTSUP) {
		refuse_symbol(plan, candidate->symbol,
			      "no instruction at its start that the kernel can probe");
		return 0;
	}
	if (err == -ENOMEM)
		return err;
	if (err) {
		refuse_symbol(plan, candidate->symbol, "its code is not in the file");
		return 0;
	}
	functions = grow(plan->functions, plan->functions_count, sizeof(*functions));
	if (!functions) {
		site_plan__clear(&function.site);
		return -ENOMEM;
	}
	plan->functions = functions;
	function.symbol = candidate->symbol;
	candidate->symbol = NULL;
	function.name = candidate->marked ? strdup(function.symbol) : demangle(function.symbol);
	if (function.site.switches_stack)
		plan->c_alone = false;
	functions[plan->functions_count++] = function;
	return function.name ? 0 : -ENOMEM;
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
		if (plan->functions_count == plan->options.functions_max)
			err = -E2BIG;
		else
			err = plan_function(plan, image, module, candidate);
	}
	for (size_t i = 0; i < selection->count; i++)
		free(selection->candidates[i].symbol);
	free(selection->candidates);
	return err;
}

/* --- files --- */

/* The C runtime itself: has unwind data of its own, and starts no unwinding through others. */
static bool is_c_runtime(const char *base)
{
	static const char *const names[] = {"libc.so", "libc-2.",  "ld-linux", "ld-2.",  "libm.so",
					    "libm-2.", "libpthread", "libdl",  "librt",	 "libresolv",
					    "libnss_", "libgcc_s", "ld-musl",  "libutil"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(base, names[i], strlen(names[i])))
			return true;
	return false;
}

static bool may_unwind(struct image *image, const char *base)
{
	const struct image_traits *traits;

	if (!strncmp(base, "libstdc++", 9) || !strncmp(base, "libc++", 6))
		return true;
	if (is_c_runtime(base))
		return false;
	traits = image__traits(image);
	return traits->has_except_table || traits->needs_cxx || traits->is_rust || traits->is_go ||
	       traits->switches_stacks;
}

/* Must its symbols be looked at at all? */
static bool worth_searching(struct plan *plan, const char *base)
{
	const struct plan_options *options = &plan->options;
	bool worth = false;

	if (!has_includes(options))
		return default_module(base);
	for (size_t i = 0; i < options->patterns_count; i++) {
		if (pattern__excludes(options->patterns[i]) ||
		    !pattern__matches_module(options->patterns[i], base))
			continue;
		plan->pattern_saw_module[i] = true;
		worth = true;
	}
	return worth;
}

static int search_image(struct plan *plan, struct image *image, size_t index)
{
	struct selection selection = {.plan = plan, .base = plan->modules[index].base};

	image__each_mark(image, offer_mark, &selection);
	plan->modules[index].is_ml = selection.count || default_module(selection.base);
	if (!selection.err && worth_searching(plan, selection.base))
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

static const char *open_error(int err)
{
	switch (err) {
	case ENOTSUP:
		return "32-bit, or of another machine";
	case ENOEXEC:
		return "not an ELF file, or damaged";
	case EACCES:
	case EPERM:
		return "not readable: more privilege is needed";
	case ESTALE:
		return "replaced on disk, and the mapped file cannot be reached";
	default:
		return "cannot be opened";
	}
}

static struct plan_module *add_module(struct plan *plan, const struct module_ref *ref)
{
	struct plan_module *modules = grow(plan->modules, plan->modules_count, sizeof(*modules));

	if (!modules)
		return NULL;
	plan->modules = modules;
	modules += plan->modules_count++;
	*modules = (struct plan_module){
		.inode = ref->inode,
		.dev_major = ref->dev_major,
		.dev_minor = ref->dev_minor,
		.path = strdup(ref->path),
		.base = strdup(ref->base),
		.fd = -1,
		.functions_first = plan->functions_count,
	};
	return modules->path && modules->base ? modules : NULL;
}

static int plan_module(struct plan *plan, pid_t pid, const struct module_ref *ref)
{
	struct plan_module *module = add_module(plan, ref);
	size_t index = plan->modules_count - 1;
	struct image *image;
	char root[64];
	int fd, err;

	if (!module)
		return -ENOMEM;
	fd = module_open(pid, ref);
	snprintf(root, sizeof(root), "/proc/%d/root", (int)pid);
	image = fd >= 0 ? image__open(fd, ref->path, root) : NULL;
	if (!image) {
		err = fd < 0 ? -fd : errno;
		if (worth_searching(plan, ref->base))
			plan__refuse(plan, ref->base, open_error(err));
		module->unwinds = true; /* not known: the careful answer */
		plan->c_alone = false;
		if (fd >= 0)
			close(fd);
		return 0;
	}
	/* once one file of the family unwinds, the others need not be asked */
	module->unwinds = plan->c_alone && may_unwind(image, ref->base);
	plan->c_alone = plan->c_alone && !module->unwinds;
	err = search_image(plan, image, index);
	module = &plan->modules[index];
	module->build_id = strdup(image__build_id(image));
	module->functions_count = plan->functions_count - module->functions_first;
	image__free(image);
	if (module->functions_count)
		module->fd = fd;
	else
		close(fd);
	return err;
}

static ssize_t find_module(const struct plan *plan, const struct module_ref *ref)
{
	for (size_t i = 0; i < plan->modules_count; i++)
		if (plan->modules[i].inode == ref->inode &&
		    plan->modules[i].dev_major == ref->dev_major &&
		    plan->modules[i].dev_minor == ref->dev_minor)
			return (ssize_t)i;
	return -ENOENT;
}

/* Timed only when all files of a scan are known: a C++ library may come last. */
static void time_new_functions(struct plan *plan, size_t first)
{
	for (size_t i = first; i < plan->functions_count; i++)
		choose_return(plan, plan->modules[plan->functions[i].module].base,
			      &plan->functions[i]);
}

ssize_t plan__scan(struct plan *plan, pid_t pid, size_t **modules)
{
	struct maps *maps = maps__read(pid);
	struct module_ref *refs = NULL;
	size_t first = plan->functions_count, n = 0;
	ssize_t count;
	int err = 0;

	*modules = NULL;
	if (!maps)
		return -errno;
	count = maps__modules(maps, &refs);
	if (count > 0)
		*modules = calloc((size_t)count, sizeof(**modules));
	if (count < 0 || (count && !*modules))
		err = count < 0 ? (int)count : -ENOMEM;
	for (ssize_t i = 0; !err && i < count; i++) {
		ssize_t index = find_module(plan, &refs[i]);

		if (index < 0) {
			err = plan_module(plan, pid, &refs[i]);
			index = (ssize_t)plan->modules_count - 1;
		}
		if (!err && plan->modules[index].functions_count)
			(*modules)[n++] = (size_t)index;
	}
	time_new_functions(plan, first);
	free(refs);
	maps__free(maps);
	if (err) {
		free(*modules);
		*modules = NULL;
		return err;
	}
	return (ssize_t)n;
}

/* --- patterns without a match --- */

static int offer_nearest(const struct symbol *symbol, void *ctx)
{
	nearest__offer(ctx, symbol->name);
	return 0;
}

static void feed_nearest(struct nearest *nearest, const struct pattern *pattern, pid_t pid)
{
	struct maps *maps = maps__read(pid);
	struct module_ref *refs = NULL;
	ssize_t count = maps ? maps__modules(maps, &refs) : 0;

	for (ssize_t i = 0; i < count; i++) {
		struct image *image;
		int fd;

		if (!pattern__matches_module(pattern, refs[i].base))
			continue;
		fd = module_open(pid, &refs[i]);
		if (fd < 0)
			continue;
		image = image__open(fd, refs[i].path, "");
		if (image)
			image__each_function(image, offer_nearest, nearest);
		image__free(image);
		close(fd);
	}
	free(refs);
	maps__free(maps);
}

bool plan__waits(const struct plan *plan, size_t pattern)
{
	const struct pattern *p = plan->options.patterns[pattern];

	return !pattern__excludes(p) && pattern__names_module(p) &&
	       !plan->pattern_saw_module[pattern];
}

int plan__unmatched(struct plan *plan, pid_t pid, char **nearest)
{
	*nearest = NULL;
	for (size_t i = 0; i < plan->options.patterns_count; i++) {
		const struct pattern *pattern = plan->options.patterns[i];
		struct nearest *names;

		if (pattern__excludes(pattern) || plan->pattern_matched[i] || plan__waits(plan, i))
			continue;
		names = nearest__new(pattern, 3);
		if (names) {
			feed_nearest(names, pattern, pid);
			*nearest = strdup(nearest__list(names));
			nearest__free(names);
		}
		return (int)i;
	}
	return -1;
}
