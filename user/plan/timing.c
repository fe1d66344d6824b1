// SPDX-License-Identifier: BSD-2-Clause
/* How each function is timed: at its exits, by return probe, or only counted. */
#include "plan/defaults.h"
#include "plan/internal.h"
#include "site/site.h"

#include <string.h>

/* The C runtime itself: has unwind data of its own, and starts no unwinding through others. */
static bool is_c_runtime(const char *base)
{
	static const char *const names[] = {"libc.so", "libc-2.",   "ld-linux",	  "ld-2.",
					    "libm.so", "libm-2.",   "libpthread", "libdl",
					    "librt",   "libresolv", "libnss_",	  "libgcc_s",
					    "ld-musl", "libutil"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(base, names[i], strlen(names[i])))
			return true;
	return false;
}

/* More code than this is not searched for stack switches; no C program that switches stacks has so
 * much. */
#define SEARCH_BYTES_MAX (64u << 20)

static bool may_unwind(struct image *image, const char *base)
{
	const struct image_traits *traits;

	if (!strncmp(base, "libstdc++", 9) || !strncmp(base, "libc++", 6))
		return true;
	traits = image__traits(image);
	return traits->has_except_table || traits->needs_cxx || traits->is_rust || traits->is_go;
}

/* OpenSSL has coroutines for asynchronous engines, TBB for tasks that are suspended, and hardly
 * anybody uses these: every Python maps the one, Debian's PyTorch the other. */
static bool switches_for_real(const char *base)
{
	return strncmp(base, "libcrypto", 9) != 0 && strncmp(base, "libtbb.", 7) != 0;
}

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
	if (is_c_runtime(base))
		return;
	/* once one file of the family unwinds, the others need not be asked */
	if (plan->c_alone && may_unwind(image, base))
		plan->c_alone = false;
	if (plan->many_stacks || !switches_stacks(plan, image))
		return;
	plan->c_alone = false;
	plan->many_stacks = switches_for_real(base);
}

static void choose_return(const struct plan *plan, const char *base, struct plan_function *function)
{
	bool exits_known = function->site.exits_state == EXITS_KNOWN;

	function->c_alone = false;
	if (function->is_entry_point) {
		function->ret = PERFX_RETURN_NONE;
		function->ret_why = "the program begins there: it does not return";
	} else if (plan->options.return_mode == RETURN_PROBE) {
		function->ret = PERFX_RETURN_PROBE;
		function->ret_why = "asked for by --return probe";
	} else if (plan->options.return_mode == RETURN_AUTO &&
		   return_probe_is_safe(base, function->symbol)) {
		function->ret = PERFX_RETURN_PROBE;
		function->ret_why = "a C entry point that nothing unwinds through";
	} else if (plan->options.return_mode == RETURN_AUTO && plan->c_alone &&
		   (plan->options.return_guard || !exits_known)) {
		function->ret = PERFX_RETURN_PROBE;
		function->ret_why = "the process is C alone: nothing unwinds";
		function->c_alone = true;
	} else if (exits_known) {
		function->ret = PERFX_RETURN_EXIT;
		function->ret_why = plan->c_alone
					    ? "without session links recursion may nest too deep"
					    : "an exception may cross it: timed where it leaves";
	} else {
		function->ret = PERFX_RETURN_NONE;
		function->ret_why = function->site.exits_note ? function->site.exits_note
							      : "its exits are not all known";
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

bool plan__prefer_exits(struct plan *plan, size_t index)
{
	struct plan_function *function = &plan->functions[index];

	if (function->ret != PERFX_RETURN_PROBE || plan->options.return_mode != RETURN_AUTO ||
	    function->site.exits_state != EXITS_KNOWN)
		return false;
	function->ret = PERFX_RETURN_EXIT;
	function->ret_why = "its calls nest too deep for return probes";
	return true;
}

void plan__doubt_exits(struct plan *plan, size_t index, const char *why)
{
	struct plan_function *function = &plan->functions[index];

	function->site.exits_state = EXITS_UNKNOWN;
	function->site.exits_note = why;
	function->ret = PERFX_RETURN_PROBE;
	function->ret_why = why;
}

void plan_time_functions(struct plan *plan, size_t first)
{
	for (size_t i = first; i < plan->functions_count; i++)
		if (!plan->functions[i].is_alloc_probe && !plan->functions[i].is_hint &&
		    !plan->functions[i].is_annotation) /* their own way */
			choose_return(plan, plan->modules[plan->functions[i].module].base,
				      &plan->functions[i]);
}
