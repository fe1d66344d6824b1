// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/rule_set.h"

#include "analyze/catalogue.h"
#include "base/escape.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/statements.h"
#include "base/text.h"
#include "elf/glob.h"
#include "elf/pattern.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct rule_set rule_set_builtin = {
	.thresholds =
		{
#define THRESHOLD(member, kind, name, value, unit, meaning) .member = value,
#include "analyze/thresholds.def"
#undef THRESHOLD
		},
};

struct reading {
	struct rule_set *rules;
	const char *path;
	struct statements statements;
	char *why;
};

/* Reports the mistake and valid alternatives. Returns -EINVAL. */
__attribute__((format(printf, 2, 3))) static int complain(struct reading *reading, const char *fmt,
							  ...)
{
	struct text what = {0};
	va_list ap;

	va_start(ap, fmt);
	text_vprintf(&what, fmt, ap);
	va_end(ap);
	snprintf(reading->why, RULE_SET_WHY, "%s:%zu: %s", reading->path, reading->statements.line,
		 text_peek(&what));
	text_clear(&what);
	return -EINVAL;
}

static const char *kind_at(size_t index)
{
	return index < finding_kinds_count ? finding_kinds[index].kind : NULL;
}

static int complain_of_kind(struct reading *reading, const char *kind)
{
	struct text near = {0};
	int err;

	nearest_names(&near, kind, kind_at);
	err = complain(reading,
		       "%.60s: no such kind of finding%s%s; perfx-trace explain lists them", kind,
		       near.length ? "; similar: " : "", text_peek(&near));
	text_clear(&near);
	return err;
}

static int complain_of_threshold(struct reading *reading, const char *kind, const char *name)
{
	struct text names = {0};
	int err;

	for (size_t i = 0; i < threshold_rows_count; i++)
		if (!strcmp(threshold_rows[i].kind, kind))
			text_printf(&names, "%s%s", names.length ? ", " : "",
				    threshold_rows[i].name);
	if (names.length)
		err = complain(reading, "%s.%.60s: no such threshold; %s has %s", kind, name, kind,
			       text_peek(&names));
	else
		err = finding_kind_named(kind)
			      ? complain(reading, "%s has no thresholds; it can be silenced", kind)
			      : complain_of_kind(reading, kind);
	text_clear(&names);
	return err;
}

/* Without the blanks around it, in place. */
static char *trimmed(char *text)
{
	size_t length;

	text += strspn(text, " \t\r");
	length = strlen(text);
	while (length && strchr(" \t\r", text[length - 1]))
		text[--length] = '\0';
	return text;
}

static int parse_threshold(struct reading *reading, char *statement)
{
	char *equals = strchr(statement, '='), *kind, *name, *text;
	const struct threshold_row *row;
	const char *want;
	double value;

	if (!equals)
		return complain(reading,
				"'%.40s' is neither KIND.NAME = VALUE, nor silence KIND, nor rule "
				"NAME: ...",
				trimmed(statement));
	*equals = '\0';
	text = trimmed(equals + 1);
	kind = trimmed(statement);
	name = strchr(kind, '.');
	if (!name)
		return complain(reading,
				"%.60s: a threshold is KIND.NAME, such as PythonBound.medium",
				kind);
	*name++ = '\0';
	row = threshold_named(kind, name);
	if (!row)
		return complain_of_threshold(reading, kind, name);
	want = threshold_parse(text, row->unit, &value);
	if (want)
		return complain(reading, "%s.%s: '%.40s' is not %s", kind, name, text, want);
	threshold_set(&reading->rules->thresholds, row, value);
	return 0;
}

static int parse_silence(struct reading *reading, char *rest)
{
	struct rule_set *rules = reading->rules;
	const char *kind = statement_word(&rest), *of = statement_word(&rest);
	struct silence *silence;
	bool is_known = false;

	if (!kind)
		return complain(reading, "silence which kind? silence UnevenSteps");
	for (size_t i = 0; i < finding_kinds_count; i++)
		is_known |= glob_matches(kind, finding_kinds[i].kind);
	if (!is_known)
		return complain_of_kind(reading, kind);
	if (statement_word(&rest))
		return complain(reading, "more than silence KIND GLOB: quote a glob with blanks");
	if (GROW_BY_ONE(rules->silences))
		return -ENOMEM;
	silence = &rules->silences[rules->silences_count++];
	*silence = (struct silence){.kind = strdup(kind), .of = of ? strdup(of) : NULL};
	return silence->kind && (!of || silence->of) ? 0 : -ENOMEM;
}

#define RULE_FORM "rule SlowLoss: function loss_* total_share > 5%% severity medium \"what to do\""

/* "NAME:" without its colon; NULL: none. */
static char *next_name(char **rest)
{
	char *name = statement_word(rest);
	size_t length = name ? strlen(name) : 0;

	if (length < 2 || name[length - 1] != ':' || !isalpha((unsigned char)*name))
		return NULL;
	name[length - 1] = '\0';
	for (const char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '_')
			return NULL;
	return name;
}

static int complain_of_metric(struct reading *reading, enum own_object object, const char *name)
{
	struct text names = {0};
	int err;

	for (size_t i = 0; i < own_metrics_count; i++)
		if (own_metrics[i].object == object)
			text_printf(&names, "%s%s", names.length ? ", " : "", own_metrics[i].name);
	err = complain(reading, "%s has no metric '%.40s': %s", own_object_name(object), name,
		       text_peek(&names));
	text_clear(&names);
	return err;
}

static bool is_comparison(const char *word)
{
	return word && (!strcmp(word, ">") || !strcmp(word, "<"));
}

/* "[GLOB] METRIC > VALUE" */
static int parse_condition(struct reading *reading, struct own_rule *rule, enum own_object object,
			   char **rest)
{
	const char *first = statement_word(rest), *second = statement_word(rest);
	const char *metric = first, *comparison = second, *text, *want;

	if (!is_comparison(second)) {
		metric = second;
		comparison = statement_word(rest);
		rule->glob = first ? strdup(first) : NULL;
	}
	text = statement_word(rest);
	if (!metric || !is_comparison(comparison) || !text)
		return complain(reading, "METRIC > VALUE, or <, is missing: " RULE_FORM);
	rule->metric = own_metric_named(object, metric);
	if (!rule->metric)
		return complain_of_metric(reading, object, metric);
	rule->below = *comparison == '<';
	want = threshold_parse(text, rule->metric->unit, &rule->value);
	return want ? complain(reading, "%s: '%.40s' is not %s", metric, text, want) : 0;
}

/* "severity medium", which may be left out. */
static int parse_severity(struct reading *reading, struct own_rule *rule, const char **text,
			  char **rest)
{
	const char *word;

	rule->severity = FINDING_MEDIUM;
	*text = statement_word(rest);
	if (!*text || strcmp(*text, "severity") != 0)
		return 0;
	word = statement_word(rest);
	*text = statement_word(rest);
	for (int i = FINDING_HIGH; word && i <= FINDING_LOW; i++) {
		if (strcmp(finding_severity_name((enum finding_severity)i), word) != 0)
			continue;
		rule->severity = (enum finding_severity)i;
		return 0;
	}
	return complain(reading, "severity '%.40s': high, medium or low", word ? word : "");
}

static int parse_own_rule(struct reading *reading, struct own_rule *rule, char *rest)
{
	const char *name = next_name(&rest), *word, *text;
	struct text harmless = {0};
	int object = 0, err;
	bool taken;

	if (!name)
		return complain(reading, "the name of the rule is missing: " RULE_FORM);
	rule->name = strdup(name);
	taken = finding_kind_named(name) || !strcmp(name, "All");
	for (size_t i = 0; i + 1 < reading->rules->own_count; i++)
		taken |= !strcmp(reading->rules->own[i].name, name);
	if (taken)
		return complain(reading, "%s is there already: choose another name", name);
	word = statement_word(&rest);
	while (word && object < OWN_OBJECTS && strcmp(own_object_name(object), word) != 0)
		object++;
	if (!word || object == OWN_OBJECTS)
		return complain(reading, "'%.40s': function, steps, memory or process",
				word ? word : "");
	err = parse_condition(reading, rule, (enum own_object)object, &rest)
		      ?: parse_severity(reading, rule, &text, &rest);
	if (err)
		return err;
	if (!text || !*text || statement_word(&rest))
		return complain(reading, "it ends with what to do, in \"quotes\": " RULE_FORM);
	escape_display(&harmless, text);
	rule->text = text_take(&harmless);
	return rule->text && rule->name ? 0 : -ENOMEM;
}

static char *after_word(char *statement, const char *word)
{
	size_t length = strlen(word);

	if (strncmp(statement, word, length) != 0 || !strchr(" \t\r", statement[length]))
		return NULL;
	return statement + length;
}

static int read_statements(struct reading *reading, char *text)
{
	struct rule_set *rules = reading->rules;
	char *statement, *rest;
	int err = 0;

	reading->statements = statements_of(text);
	while (!err && (statement = statements_next(&reading->statements))) {
		if ((rest = after_word(statement, "silence")))
			err = parse_silence(reading, rest);
		else if ((rest = after_word(statement, "rule")))
			err = LIST_ADD(rules->own,
				       (struct own_rule){.line = reading->statements.line})
				      ?: parse_own_rule(reading, &rules->own[rules->own_count - 1],
							rest);
		else
			err = parse_threshold(reading, statement);
	}
	if (!err && reading->statements.misplaced)
		err = complain(reading, "a line that begins with a blank continues the one before, "
					"and there is none");
	return err;
}

struct rule_set *rule_set__load(const char *path, char why[RULE_SET_WHY])
{
	struct rule_set *rules = malloc(sizeof(*rules));
	struct reading reading = {.rules = rules, .path = path, .why = why};
	char *text = file_read_text(path);
	int err = text ? 0 : -errno;

	if (rules)
		*rules = rule_set_builtin;
	if (!text)
		snprintf(why, RULE_SET_WHY, "%s: %s", path, file_error(-err));
	if (!err)
		err = rules && (rules->file = strdup(path)) ? read_statements(&reading, text)
							    : -ENOMEM;
	if (err == -ENOMEM)
		snprintf(why, RULE_SET_WHY, "out of memory");
	free(text);
	if (!err)
		return rules;
	rule_set__free(rules);
	return NULL;
}

void rule_set__free(struct rule_set *rules)
{
	if (!rules)
		return;
	for (size_t i = 0; i < rules->silences_count; i++) {
		free(rules->silences[i].kind);
		free(rules->silences[i].of);
	}
	for (size_t i = 0; i < rules->own_count; i++) {
		free(rules->own[i].name);
		free(rules->own[i].glob);
		free(rules->own[i].text);
	}
	free(rules->silences);
	free(rules->own);
	free(rules->file);
	free(rules);
}
