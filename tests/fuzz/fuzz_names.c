// SPDX-License-Identifier: BSD-2-Clause
/* Names of symbols, and the patterns that choose among them: a line with a pattern, then names. */
#include "fuzz.h"

#include "base/escape.h"
#include "base/secrets.h"
#include "base/text.h"
#include "cost/operator_label.h"
#include "elf/demangle.h"
#include "elf/pattern.h"

static void read_name(const char *name)
{
	char *readable = demangle(name), *pretty = demangle_pretty(name);
	struct text label = {0};

	if (!readable || !pretty)
		abort();
	utf8_width(readable);
	operator_label(&label, readable, (uint16_t)name[0]);
	text_clear(&label);
	free(readable);
	free(pretty);
}

static void match(struct pattern *pattern, struct nearest *nearest, const char *name)
{
	pattern__matches_module(pattern, &(struct module_names){.base = name, .soname = name});
	pattern__matches_name(pattern, name);
	pattern__may_match_operator(pattern, name);
	pattern__matches_operator(pattern, name);
	nearest__offer(nearest, name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *rest = text, why[256];
	struct pattern *pattern = pattern__parse(strsep(&rest, "\n"), why, sizeof(why));
	struct nearest *nearest = pattern ? nearest__new(pattern, 3) : NULL;

	while (rest) {
		const char *name = strsep(&rest, "\n");

		read_name(name);
		if (nearest)
			match(pattern, nearest, name);
	}
	if (nearest && strlen(nearest__list(nearest)) > 1 << 24)
		abort();
	nearest__free(nearest);
	pattern__free(pattern);
	free(text);
	return 0;
}
