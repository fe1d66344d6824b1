// SPDX-License-Identifier: BSD-2-Clause
#include "cost/cost_model.h"

#include "base/file.h"
#include "base/grow.h"
#include "base/statements.h"
#include "cost/builtin.h"
#include "elf/pattern.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool builtin_find(const char *base_name, const char *symbol, struct builtin *builtin)
{
#define FOUND(name, ...) builtin_##name(base_name, symbol, builtin) ||
	return BUILTIN_SETS(FOUND) false;
#undef FOUND
}

int builtin_prefixes(struct prefixes *set)
{
	int err = 0;

#define ADD(name, prefixes) err = err ?: (prefixes);
	BUILTIN_SETS(ADD)
#undef ADD
	return err;
}

struct rule {
	struct pattern *pattern;
	char *origin; /* FILE:LINE */
	struct perfx_cost_program cost;
};

struct cost_model {
	struct rule *rules;
	size_t rules_count, rules_capacity;
};

struct reading {
	struct cost_model *model;
	const char *path;
	struct statements rules;
	char *why;
	size_t why_size;
};

static int complain(struct reading *reading, const char *what)
{
	snprintf(reading->why, reading->why_size, "%s:%zu: %s", reading->path, reading->rules.line,
		 what);
	return -EINVAL;
}

static int add_rule(struct reading *reading, const char *pattern_text, const char *text)
{
	struct cost_model *model = reading->model;
	char why[256], origin[512];
	struct rule *rule;

	if (GROW_BY_ONE(model->rules))
		return -ENOMEM;
	rule = &model->rules[model->rules_count];
	*rule = (struct rule){.pattern = pattern__parse(pattern_text, why, sizeof(why))};
	if (!rule->pattern)
		return complain(reading, why);
	model->rules_count++;
	if (pattern__excludes(rule->pattern))
		return complain(reading, "'!' is not supported in a rule");
	if (cost_compile(text, &rule->cost, why, sizeof(why)))
		return complain(reading, why);
	snprintf(origin, sizeof(origin), "%s:%zu", reading->path, reading->rules.line);
	rule->origin = strdup(origin);
	return rule->origin ? 0 : -ENOMEM;
}

/* "MODULE:GLOB statements" */
static int parse_rule(struct reading *reading, char *rule)
{
	char *pattern = rule;

	rule += strcspn(rule, " \t");
	if (*rule)
		*rule++ = '\0';
	if (rule[strspn(rule, " \t\r")])
		return add_rule(reading, pattern, rule);
	return complain(reading, "MODULE:GLOB must be followed by statements: flops = …");
}

static int load(struct cost_model *model, const char *path, char *why, size_t why_size)
{
	struct reading reading = {.model = model, .path = path, .why = why, .why_size = why_size};
	char *text = file_read_text(path);
	int err;
	char *rule;

	if (!text) {
		err = -errno;
		snprintf(why, why_size, "%s: %s", path, file_error(-err));
		return err;
	}
	err = 0;
	reading.rules = statements_of(text);
	while (!err && (rule = statements_next(&reading.rules)))
		err = parse_rule(&reading, rule);
	if (!err && reading.rules.misplaced)
		err = complain(&reading, "a rule must begin at the start of its line");
	free(text);
	if (err && err != -EINVAL)
		snprintf(why, why_size, "%s: %s", path, strerror(-err));
	if (!err && !model->rules_count)
		err = complain(&reading, "no rule in this file");
	return err;
}

struct cost_model *cost_model__load(const char *path, char *why, size_t why_size)
{
	struct cost_model *model = calloc(1, sizeof(*model));
	int err;

	if (!model) {
		snprintf(why, why_size, "out of memory");
		return NULL;
	}
	err = path ? load(model, path, why, why_size) : 0;
	if (!err)
		return model;
	cost_model__free(model);
	errno = -err;
	return NULL;
}

void cost_model__free(struct cost_model *model)
{
	if (!model)
		return;
	for (size_t i = 0; i < model->rules_count; i++) {
		pattern__free(model->rules[i].pattern);
		free(model->rules[i].origin);
	}
	free(model->rules);
	free(model);
}

bool cost_model__names_module(const struct cost_model *model, const struct module_names *module)
{
	for (size_t i = 0; model && i < model->rules_count; i++)
		if (pattern__matches_module(model->rules[i].pattern, module))
			return true;
	return false;
}

static const struct rule *find_rule(const struct cost_model *model,
				    const struct module_names *module, const char *symbol)
{
	for (size_t i = 0; model && i < model->rules_count; i++)
		if (pattern__matches_module(model->rules[i].pattern, module) &&
		    pattern__matches_name(model->rules[i].pattern, symbol))
			return &model->rules[i];
	return NULL;
}

bool cost_model__names(const struct cost_model *model, const struct module_names *module,
		       const char *symbol)
{
	return find_rule(model, module, symbol) != NULL;
}

int cost_model__find(const struct cost_model *model, const struct module_names *module,
		     const char *symbol, struct perfx_cost_program *cost, const char **origin)
{
	const struct rule *rule = find_rule(model, module, symbol);
	struct builtin builtin;
	char why[256];

	if (!model)
		return -ENOENT;
	if (rule) {
		*cost = rule->cost;
		*origin = rule->origin;
		return 0;
	}
	if (!builtin_find(module->base, symbol, &builtin) ||
	    cost_compile(builtin.text, cost, why, sizeof(why)))
		return -ENOENT;
	*origin = "built in";
	return 0;
}
