// SPDX-License-Identifier: BSD-2-Clause
/*
 * USDT probes: those that were asked for are counted, those of perfx.h mark ranges. A probe is a
 * place in a function, a nop, at which its arguments are where its note says; perfx.h's markers are
 * functions, so theirs are in the registers of a call.
 */
#include "plan/annotations.h"
#include "plan/internal.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* perfx.h: provider "perfx". */
static const struct {
	const char *name;
	const char *shown; /* NULL: the probe's own name */
	struct perfx_annotation annotation;
} markers[] = {
#define MARKER(probe, say, act, ...)                                                    \
	{                                                                               \
		probe, say,                                                             \
		{                                                                       \
			.action = PERFX_ANNOTATION_##act, .source = PERFX_SOURCE_PERFX, \
			__VA_ARGS__                                                     \
		}                                                                       \
	}
#define NAMED .text = PERFX_TEXT_C, .text_arg = 1
#define OTHER(probe, act, of, ...)                                                     \
	{                                                                              \
		probe, NULL,                                                           \
		{                                                                      \
			.action = PERFX_ANNOTATION_##act,                              \
			.source = PERFX_SOURCE_PERFX | PERFX_NAME_OF_##of, __VA_ARGS__ \
		}                                                                      \
	}
#define VALUE(probe, act)      OTHER(probe, act, VALUE, NAMED, .key_arg = 2)
#define BLOCK(probe, act, ...) OTHER(probe, act, ALLOCATOR, NAMED, .key_arg = 2, __VA_ARGS__)
	MARKER("range_push", NULL, PUSH, NAMED, .within_arg = 2),
	MARKER("range_pop", NULL, POP, .text = 0),
	MARKER("range_start", NULL, START_ID, NAMED, .key_arg = 2, .within_arg = 3),
	MARKER("range_end", NULL, STOP, .key_arg = 1),
	MARKER("mark", NULL, INSTANT, NAMED),
	/* of a key that no object has, so a pop cannot end it */
	MARKER("trace_start", NULL, RECORD, .text = 0),
	MARKER("trace_stop", NULL, PAUSE, .text = 0),
	MARKER("step_begin", "step", OPEN, .text = 0),
	MARKER("step_end", NULL, END, .text = 0),
	VALUE("counter", SET),
	VALUE("counter_add", ADD),
	BLOCK("memory_alloc", ALLOCATED, .size_arg = 3),
	BLOCK("memory_free", FREED, .size_arg = 0),
#undef MARKER
#undef NAMED
#undef OTHER
#undef VALUE
#undef BLOCK
};

struct finding {
	struct plan *plan;
	struct image *image;
	size_t module;
};

/* What the place is: perfx.h's markers begin with a 5-byte nop, which some kernels turn into a call
 * and others single-step, and have a nop of one byte behind it. In the midst of a function the call
 * would overwrite what lies below the stack pointer, which functions that call none may use. False:
 * there must be no probe. */
static bool choose_site(const struct finding *finding, struct plan_function *function,
			bool at_entry)
{
	static const uint8_t nop5_nop[] = {0x0f, 0x1f, 0x44, 0, 0, 0x90};
	const struct plan_options *options = &finding->plan->options;
	size_t available = 0;
	const uint8_t *code = image__code(finding->image, function->vaddr, &available);
	struct site_plan *site = &function->site;

	*site = (struct site_plan){.entry_vaddr = function->vaddr,
				   .entry_kind = SITE_STEPPED,
				   .exits_state = EXITS_KNOWN};
	if (code && available && code[0] == 0x90)
		site->entry_kind = SITE_NOP;
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

static bool is_memory(const struct perfx_annotation *annotation)
{
	return annotation->action == PERFX_ANNOTATION_ALLOCATED ||
	       annotation->action == PERFX_ANNOTATION_FREED;
}

/* Is the marker read? Those that say what is recorded are where the tracer waits for it, whatever
 * else is. */
static bool is_read(const struct plan *plan, const struct perfx_annotation *annotation)
{
	if (annotation->action == PERFX_ANNOTATION_RECORD ||
	    annotation->action == PERFX_ANNOTATION_PAUSE)
		return plan->options.wait;
	return plan_host_level(plan) >= HOST_ANNOTATIONS &&
	       !(is_memory(annotation) && plan->options.memory == MEMORY_OFF);
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

static bool is_wanted(const struct plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->options.usdt_count; i++)
		if (!fnmatch(plan->options.usdt[i], name, 0))
			return true;
	return false;
}

static char *name_of(const struct usdt_probe *probe)
{
	char *name;

	return asprintf(&name, "%s:%s", probe->provider, probe->name) < 0 ? NULL : name;
}

static int add_usdt(const struct finding *finding, const struct usdt_probe *probe, char *name,
		    struct plan_function *function)
{
	struct plan *plan = finding->plan;

	function->module = (uint32_t)finding->module;
	function->vaddr = probe->vaddr;
	function->offset = probe->offset;
	function->name = name;
	function->symbol = strdup(name);
	function->source = (enum perfx_source)(function->annotation.source &
					       ~(PERFX_NAME_OF_VALUE | PERFX_NAME_OF_ALLOCATOR));
	if (!choose_site(finding, function, !strcmp(probe->provider, "perfx"))) {
		plan__skip(plan, name,
			   "this kernel makes a call of the nop there, which would do harm");
		free(function->symbol);
		free(name);
		return 0;
	}
	function->ret = PERFX_RETURN_NONE;
	function->ret_why = "a place, not a function";
	function->is_annotation = function->is_usdt = true;
	function->semaphore_offset = probe->semaphore_offset;
	if (function->symbol && !plan_add_function(plan, function)) {
		plan->annotations_count++;
		return 0;
	}
	free(function->symbol);
	free(name);
	return -ENOMEM;
}

static int offer(const struct usdt_probe *probe, void *ctx)
{
	struct finding *finding = ctx;
	struct plan_function function = {0};
	const char *shown = NULL;
	char *name = name_of(probe);

	if (!name)
		return -ENOMEM;
	if (is_wanted(finding->plan, name)) {
		function.annotation = (struct perfx_annotation){.action = PERFX_ANNOTATION_INSTANT,
								.source = PERFX_SOURCE_USDT};
	} else if (!find_marker(finding->plan, probe, &function, &shown)) {
		free(name);
		return 0;
	}
	if (shown) {
		free(name);
		name = strdup(shown);
		if (!name)
			return -ENOMEM;
	}
	finding->plan->modules[finding->module].is_ml = true; /* annotated, or asked for */
	return add_usdt(finding, probe, name, &function);
}

int plan_usdt(struct plan *plan, struct image *image, size_t module)
{
	struct finding finding = {plan, image, module};

	return image__each_usdt(image, offer, &finding);
}
