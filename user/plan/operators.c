// SPDX-License-Identifier: BSD-2-Clause
#include "plan/operators.h"

#include "base/file.h"
#include "base/grow.h"
#include "base/statements.h"
#include "base/text.h"
#include "operators_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct operators {
	struct operator_rule *rules;
	size_t rules_count, rules_capacity;
	char *texts[2]; /* the user's and the built-in, to which rules refer; cut into words */
};

struct reading {
	struct operators *operators;
	const char *path; /* NULL: built in */
	struct statements rules;
	char *why;
	size_t why_size;
};

static const char *const kind_names[] = {[OPERATOR_CALLS] = "operator",
					 [OPERATOR_STEP] = "step",
					 [OPERATOR_INFERENCE] = "inference"};

static int complain(const struct reading *reading, const char *what)
{
	snprintf(reading->why, reading->why_size, "%s:%zu: %s",
		 reading->path ?: "built-in operators", reading->rules.line, what);
	return -EINVAL;
}

/* After MODULE:GLOB: what a call is, then an optional `text "…"`. */
static int parse_meaning(const struct reading *reading, char *rest, struct operator_rule *rule)
{
	const char *kind = statement_word(&rest), *word;

	for (size_t i = OPERATOR_CALLS; kind && i < sizeof(kind_names) / sizeof(*kind_names); i++)
		if (!strcmp(kind, kind_names[i]))
			rule->kind = (enum operator_kind)i;
	if (!rule->kind)
		return complain(reading, "after MODULE:GLOB comes step, inference or operator");
	word = statement_word(&rest);
	if (!word)
		return 0;
	if (strcmp(word, "text") != 0)
		return complain(reading, "only text \"CONSTANT\" may follow");
	rule->text = statement_word(&rest);
	if (!rule->text || strlen(rule->text) < 4)
		return complain(reading, "text needs a constant of at least four letters");
	return statement_word(&rest) ? complain(reading, "nothing may follow the constant") : 0;
}

static int parse_rule(struct reading *reading, char *line)
{
	struct operators *operators = reading->operators;
	char *words = line, *pattern = statement_word(&words), why[256];
	struct operator_rule *rule;

	if (GROW_BY_ONE(operators->rules))
		return -ENOMEM;
	rule = &operators->rules[operators->rules_count];
	*rule = (struct operator_rule){.pattern = pattern__parse(pattern, why, sizeof(why)),
				       .built_in = !reading->path};
	if (!rule->pattern)
		return complain(reading, why);
	operators->rules_count++;
	if (pattern__excludes(rule->pattern))
		return complain(reading, "'!' is not supported in a rule");
	if (!pattern__names_module(rule->pattern))
		return complain(reading, "MODULE is missing: libmine.so:function");
	return parse_meaning(reading, words, rule);
}

/* Takes the text over. */
static int read_rules(struct operators *operators, const char *path, char *text, char *why,
		      size_t why_size)
{
	struct reading reading = {.operators = operators,
				  .path = path,
				  .rules = statements_of(text),
				  .why = why,
				  .why_size = why_size};
	char *line;
	int err = 0;

	operators->texts[path == NULL] = text;
	while (!err && (line = statements_next(&reading.rules)))
		err = parse_rule(&reading, line);
	if (!err && reading.rules.misplaced)
		err = complain(&reading, "a rule must begin at the start of its line");
	if (!err && !operators->rules_count)
		err = complain(&reading, "no rule in this file");
	return err;
}

static int load(struct operators *operators, const char *path, char *why, size_t why_size)
{
	char *text = path ? file_read_text(path) : NULL;
	int err;

	if (path && !text) {
		err = -errno;
		snprintf(why, why_size, "%s: %s", path, file_error(-err));
		return err;
	}
	err = path ? read_rules(operators, path, text, why, why_size) : 0;
	if (err)
		return err;
	text = strdup(operators_text);
	return text ? read_rules(operators, NULL, text, why, why_size) : -ENOMEM;
}

struct operators *operators__load(const char *path, char *why, size_t why_size)
{
	struct operators *operators = calloc(1, sizeof(*operators));
	int err = operators ? load(operators, path, why, why_size) : -ENOMEM;

	if (!err)
		return operators;
	if (err == -ENOMEM)
		snprintf(why, why_size, "out of memory");
	operators__free(operators);
	errno = -err;
	return NULL;
}

void operators__free(struct operators *operators)
{
	if (!operators)
		return;
	FOR_EACH (rule, operators->rules)
		pattern__free(rule->pattern);
	free(operators->rules);
	free(operators->texts[0]);
	free(operators->texts[1]);
	free(operators);
}

const struct operator_rule *operators__rule(const struct operators *operators, size_t index)
{
	return operators && index < operators->rules_count ? &operators->rules[index] : NULL;
}

bool operators__name_module(const struct operators *operators, const struct module_names *module,
			    bool by_user)
{
	const struct operator_rule *rule;

	for (size_t i = 0; (rule = operators__rule(operators, i)); i++)
		if (!(by_user && rule->built_in) && pattern__matches_module(rule->pattern, module))
			return true;
	return false;
}

const struct operator_rule *operators__find(const struct operators *operators,
					    const struct module_names *module, const char *symbol)
{
	const struct operator_rule *rule;

	for (size_t i = 0; (rule = operators__rule(operators, i)); i++)
		if (!rule->text && pattern__matches_module(rule->pattern, module) &&
		    pattern__matches_name(rule->pattern, symbol))
			return rule;
	return NULL;
}

int operators__prefixes(const struct operators *operators, struct prefixes *set)
{
	const struct operator_rule *rule;
	int err = 0;

	for (size_t i = 0; !err && (rule = operators__rule(operators, i)); i++)
		if (rule->built_in && begins_with(pattern__plain_name(rule->pattern), "_Z"))
			err = prefixes_add(set, pattern__plain_name(rule->pattern));
	return err;
}
