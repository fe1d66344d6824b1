// SPDX-License-Identifier: BSD-2-Clause
#include "elf/pattern.h"

#include "elf/demangle.h"
#include "elf/glob.h"
#include "elf/literal.h"

#include <errno.h>
#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pattern {
	char *text;
	bool excludes, has_module, is_regex;
	struct glob_list modules;
	struct glob_list names;	   /* of a regular expression: its longest word, for nearest */
	struct literals *literals; /* one for each name */
	char **plain_names;
	regex_t regex;
};

struct reason {
	char *text;
	size_t size;
};

__attribute__((format(printf, 2, 3))) static int refuse(struct reason *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why->text, why->size, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static int out_of(struct reason *why, int err)
{
	if (err == -E2BIG)
		return refuse(why, "more than %d alternatives", GLOB_ALTERNATIVES_MAX);
	return err;
}

/* The ':' between MODULE and GLOB: the first outside brackets (plain ones too: "(auto:1)",
 * "\[abi:cxx11\]") that is no part of "::". Of three in a row the first one divides. Or NULL. */
static const char *find_divider(const char *p)
{
	size_t depth = 0;

	while (*p) {
		const char *set = *p == '[' ? glob_set_end(p) : NULL;
		size_t colons = strspn(p, ":");

		if (colons % 2 && !depth)
			return p;
		p += *p == '\\' && p[1];
		if (strchr("([{", *p) && !set)
			depth++;
		else if (strchr(")]}", *p) && depth)
			depth--;
		p = set ? set + 1 : p + (colons ? colons : 1);
	}
	return NULL;
}

static int parse_module(struct pattern *pattern, const char *from, size_t size, struct reason *why)
{
	char *module;
	int err;

	if (!size)
		return refuse(why, "no file name before ':'");
	if (memchr(from, '/', size))
		return refuse(why, "a file is named by its last component, without '/'");
	module = strndup(from, size);
	if (!module)
		return -ENOMEM;
	err = glob_list__expand(&pattern->modules, module);
	free(module);
	pattern->has_module = true;
	return out_of(why, err);
}

static char *plain_text(const char *glob)
{
	char *plain = malloc(strlen(glob) + 1), *to = plain;

	while (plain && *glob) {
		const char *set = *glob == '[' ? glob_set_end(glob) : NULL;

		if (set) {
			glob = set + 1;
		} else if (*glob == '*' || *glob == '?') {
			glob++;
		} else {
			glob += *glob == '\\' && glob[1];
			*to++ = *glob++;
		}
	}
	if (plain)
		*to = '\0';
	return plain;
}

static int parse_glob(struct pattern *pattern, const char *glob, struct reason *why)
{
	int err = glob_list__expand(&pattern->names, glob);
	size_t count = pattern->names.count;

	if (err)
		return out_of(why, err);
	pattern->literals = calloc(count, sizeof(*pattern->literals));
	pattern->plain_names = calloc(count + 1, sizeof(*pattern->plain_names));
	if (!pattern->literals || !pattern->plain_names)
		return -ENOMEM;
	for (size_t i = 0; !err && i < count; i++) {
		err = literals__of_glob(&pattern->literals[i], pattern->names.globs[i]);
		pattern->plain_names[i] = plain_text(pattern->names.globs[i]);
		if (!err && !pattern->plain_names[i])
			err = -ENOMEM;
	}
	return err;
}

static int compile(struct pattern *pattern, const char *ere, struct reason *why)
{
	int err = regcomp(&pattern->regex, ere, REG_EXTENDED | REG_NOSUB);

	if (err == REG_ESPACE)
		return -ENOMEM;
	if (err) {
		regerror(err, &pattern->regex, why->text, why->size);
		return -EINVAL;
	}
	pattern->is_regex = true;
	pattern->literals = calloc(1, sizeof(*pattern->literals));
	pattern->plain_names = calloc(2, sizeof(*pattern->plain_names));
	if (!pattern->literals || !pattern->plain_names)
		return -ENOMEM;
	err = literals__of_ere(pattern->literals, ere);
	if (err || !pattern->literals->count)
		return err;
	pattern->plain_names[0] = strdup(pattern->literals->items[0].word);
	return pattern->plain_names[0] ? 0 : -ENOMEM;
}

/* text: "/ERE/". */
static int parse_regex(struct pattern *pattern, const char *text, struct reason *why)
{
	size_t size = strlen(text);
	char *ere;
	int err;

	if (size < 3 || text[size - 1] != '/')
		return refuse(why, "a regular expression stands between two '/'");
	ere = strndup(text + 1, size - 2);
	if (!ere)
		return -ENOMEM;
	err = compile(pattern, ere, why);
	free(ere);
	return err;
}

static bool is_regex(const char *text)
{
	size_t size = strlen(text);

	return size > 2 && text[0] == '/' && text[size - 1] == '/';
}

static int parse(struct pattern *pattern, struct reason *why)
{
	const char *text = pattern->text, *divider;
	int err = 0;

	pattern->excludes = text[0] == '!';
	text += pattern->excludes;
	divider = is_regex(text) ? NULL : find_divider(text);
	if (divider) {
		err = parse_module(pattern, text, (size_t)(divider - text), why);
		text = divider + 1;
	}
	if (err)
		return err;
	if (!*text)
		return refuse(why, divider ? "no function name behind ':'" : "empty pattern");
	if (divider ? text[0] == '/' : is_regex(text))
		return parse_regex(pattern, text, why);
	return parse_glob(pattern, text + (strncmp(text, "::", 2) == 0 ? 2 : 0), why);
}

struct pattern *pattern__parse(const char *text, char *why, size_t why_size)
{
	struct pattern *pattern = calloc(1, sizeof(*pattern));
	struct reason reason = {why, why_size};
	int err = -ENOMEM;

	if (pattern) {
		pattern->text = strdup(text);
		err = pattern->text ? parse(pattern, &reason) : -ENOMEM;
	}
	if (!err)
		return pattern;
	if (err == -ENOMEM)
		snprintf(why, why_size, "out of memory");
	pattern__free(pattern);
	errno = -err;
	return NULL;
}

void pattern__free(struct pattern *pattern)
{
	size_t count;

	if (!pattern)
		return;
	count = pattern->is_regex ? 1 : pattern->names.count;
	for (size_t i = 0; i < count; i++) {
		if (pattern->literals)
			literals__clear(&pattern->literals[i]);
		if (pattern->plain_names)
			free(pattern->plain_names[i]);
	}
	free(pattern->literals);
	free(pattern->plain_names);
	if (pattern->is_regex)
		regfree(&pattern->regex);
	glob_list__clear(&pattern->names);
	glob_list__clear(&pattern->modules);
	free(pattern->text);
	free(pattern);
}

const char *pattern__text(const struct pattern *pattern)
{
	return pattern->text;
}

bool pattern__excludes(const struct pattern *pattern)
{
	return pattern->excludes;
}

bool pattern__names_module(const struct pattern *pattern)
{
	return pattern->has_module;
}

const char *pattern__plain_name(const struct pattern *pattern, size_t index)
{
	size_t count = pattern->is_regex ? 1 : pattern->names.count;

	return index < count ? pattern->plain_names[index] : NULL;
}

bool pattern__matches_module(const struct pattern *pattern, const char *base_name)
{
	for (size_t i = 0; i < pattern->modules.count; i++)
		if (glob_matches(pattern->modules.globs[i], base_name))
			return true;
	return !pattern->has_module;
}

static bool matches_text(const struct pattern *pattern, size_t index, const char *text)
{
	if (pattern->is_regex)
		return regexec(&pattern->regex, text, 0, NULL, 0) == 0;
	return glob_matches(pattern->names.globs[index], text);
}

/* Demangles at most once, and only where a word that the pattern needs is there. */
bool pattern__matches_name(const struct pattern *pattern, const char *symbol_name)
{
	size_t count = pattern->is_regex ? 1 : pattern->names.count;
	bool mangled = demangle_applies(symbol_name), found = false;
	char *demangled = NULL;

	for (size_t i = 0; !found && i < count; i++) {
		const struct literals *literals = &pattern->literals[i];

		if (!literals__may_match(literals, symbol_name))
			continue;
		found = matches_text(pattern, i, symbol_name);
		if (found || !mangled || !literals__may_match_demangled(literals, symbol_name))
			continue;
		if (!demangled)
			demangled = demangle(symbol_name);
		found = demangled && matches_text(pattern, i, demangled);
	}
	free(demangled);
	return found;
}
