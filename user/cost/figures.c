// SPDX-License-Identifier: BSD-2-Clause
#include "cost/figures.h"

#include "base/file.h"
#include "base/grow.h"
#include "cost/builtin.h"
#include "elf/pattern.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A rule with all its lines is not longer. */
#define RULE_MAX 4096

struct rule {
	struct pattern *pattern;
	char *origin; /* FILE:LINE */
	struct perfx_figure figure;
};

struct figures {
	struct rule *rules;
	size_t rules_count, rules_capacity;
};

struct reading {
	struct figures *figures;
	const char *path;
	size_t line;  /* of the file */
	size_t first; /* of the rule that is being read */
	char rule[RULE_MAX];
	char *why;
	size_t why_size;
};

static int complain(struct reading *reading, size_t line, const char *what)
{
	snprintf(reading->why, reading->why_size, "%s:%zu: %s", reading->path, line, what);
	return -EINVAL;
}

static int add_rule(struct reading *reading, const char *pattern_text, const char *text)
{
	struct figures *figures = reading->figures;
	char why[256], origin[512];
	struct rule *rule;

	if (grow_array(&figures->rules, &figures->rules_capacity, figures->rules_count + 1,
		       sizeof(*figures->rules)))
		return -ENOMEM;
	rule = &figures->rules[figures->rules_count];
	*rule = (struct rule){.pattern = pattern__parse(pattern_text, why, sizeof(why))};
	if (!rule->pattern)
		return complain(reading, reading->first, why);
	figures->rules_count++;
	if (pattern__excludes(rule->pattern))
		return complain(reading, reading->first, "'!' has no meaning in a rule");
	if (figure_compile(text, &rule->figure, why, sizeof(why)))
		return complain(reading, reading->first, why);
	snprintf(origin, sizeof(origin), "%s:%zu", reading->path, reading->first);
	rule->origin = strdup(origin);
	return rule->origin ? 0 : -ENOMEM;
}

/* What has been gathered is whole. */
static int end_rule(struct reading *reading)
{
	char *text = reading->rule, *pattern = text;
	int err;

	if (!*text)
		return 0;
	text += strcspn(text, " \t");
	if (*text)
		*text++ = '\0';
	err = text[strspn(text, " \t")]
		      ? add_rule(reading, pattern, text)
		      : complain(reading, reading->first,
				 "after MODULE:GLOB comes what it does: flops = …");
	reading->rule[0] = '\0';
	return err;
}

static int take_line(struct reading *reading, char *line)
{
	bool continues = *line == ' ' || *line == '\t';
	size_t length = strlen(reading->rule);
	int err;

	line[strcspn(line, "#\r\n")] = '\0';
	if (!line[strspn(line, " \t")])
		return 0;
	if (!continues) {
		err = end_rule(reading);
		if (err)
			return err;
		reading->first = reading->line;
		length = 0;
	} else if (!length) {
		return complain(reading, reading->line, "a rule begins at the start of its line");
	}
	if (length + strlen(line) >= sizeof(reading->rule))
		return complain(reading, reading->line, "a rule of more than 4096 bytes");
	strcpy(reading->rule + length, line);
	return 0;
}

static int read_rules(struct reading *reading, char *text)
{
	int err = 0;

	while (!err && text && *text) {
		char *line = strsep(&text, "\n");

		reading->line++;
		err = take_line(reading, line);
	}
	return err ? err : end_rule(reading);
}

static int load(struct figures *figures, const char *path, char *why, size_t why_size)
{
	struct reading reading = {
		.figures = figures, .path = path, .why = why, .why_size = why_size};
	char *text = file_read_text(path);
	int err;

	if (!text) {
		err = -errno;
		snprintf(why, why_size, "%s: %s", path, file_error(-err));
		return err;
	}
	err = read_rules(&reading, text);
	free(text);
	if (err && err != -EINVAL)
		snprintf(why, why_size, "%s: %s", path, strerror(-err));
	if (!err && !figures->rules_count)
		err = complain(&reading, reading.line, "no rule in this file");
	return err;
}

struct figures *figures__load(const char *path, char *why, size_t why_size)
{
	struct figures *figures = calloc(1, sizeof(*figures));
	int err;

	if (!figures) {
		snprintf(why, why_size, "out of memory");
		return NULL;
	}
	err = path ? load(figures, path, why, why_size) : 0;
	if (!err)
		return figures;
	figures__free(figures);
	errno = -err;
	return NULL;
}

void figures__free(struct figures *figures)
{
	if (!figures)
		return;
	for (size_t i = 0; i < figures->rules_count; i++) {
		pattern__free(figures->rules[i].pattern);
		free(figures->rules[i].origin);
	}
	free(figures->rules);
	free(figures);
}

bool figures__names_module(const struct figures *figures, const char *base_name)
{
	for (size_t i = 0; figures && i < figures->rules_count; i++)
		if (pattern__matches_module(figures->rules[i].pattern, base_name))
			return true;
	return false;
}

static const struct rule *find_rule(const struct figures *figures, const char *base_name,
				    const char *symbol)
{
	for (size_t i = 0; figures && i < figures->rules_count; i++)
		if (pattern__matches_module(figures->rules[i].pattern, base_name) &&
		    pattern__matches_name(figures->rules[i].pattern, symbol))
			return &figures->rules[i];
	return NULL;
}

bool figures__names(const struct figures *figures, const char *base_name, const char *symbol)
{
	return find_rule(figures, base_name, symbol) != NULL;
}

int figures__find(const struct figures *figures, const char *base_name, const char *symbol,
		  struct perfx_figure *figure, const char **origin)
{
	const struct rule *rule = find_rule(figures, base_name, symbol);
	struct builtin builtin;
	char why[256];

	if (!figures)
		return -ENOENT;
	if (rule) {
		*figure = rule->figure;
		*origin = rule->origin;
		return 0;
	}
	if (!builtin_find(base_name, symbol, &builtin) ||
	    figure_compile(builtin.text, figure, why, sizeof(why)))
		return -ENOENT;
	*origin = "built in";
	return 0;
}
