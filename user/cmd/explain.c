// SPDX-License-Identifier: BSD-2-Clause
/* perfx-trace explain KIND: how a kind of finding is judged, and what to try. */
#include "report/report.h"

#include "analyze/rule_set.h"
#include "base/message.h"
#include "cmd/cmd.h"
#include "elf/pattern.h"

#include <stdio.h>
#include <strings.h>

static const char *kind_at(size_t index)
{
	return index < finding_kinds_count ? finding_kinds[index].kind : NULL;
}

/* As it is typed: in upper or lower case. NULL: there is none. */
static const struct finding_kind *kind_typed(const char *name)
{
	for (size_t i = 0; i < finding_kinds_count; i++)
		if (!strcasecmp(finding_kinds[i].kind, name))
			return &finding_kinds[i];
	return NULL;
}

int cmd_explain(const struct options *options)
{
	const struct rule_set *rules = options->rules ? options->rules : &rule_set_builtin;
	const struct finding_kind *kind = options->kind ? kind_typed(options->kind) : NULL;
	struct text text = {0};

	if (options->kind && !kind) {
		struct text near = {0};

		nearest_names(&near, options->kind, kind_at);
		msg_say("explain %s: no such kind of finding%s%s; perfx-trace explain lists them",
			options->kind, near.length ? "; similar: " : "", text_peek(&near));
		text_clear(&near);
		return EXIT_USAGE;
	}
	if (kind)
		explain_kind(&text, kind, &rules->thresholds);
	else
		explain_all(&text, &rules->thresholds);
	fputs(text_peek(&text), stdout);
	text_clear(&text);
	return EXIT_OK;
}
