// SPDX-License-Identifier: BSD-2-Clause
#include "elf/pattern.h"

#include "base/grow.h"
#include "base/order.h"
#include "base/text.h"
#include "elf/demangle.h"
#include "elf/glob.h"

#include <ctype.h>
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
	struct glob_list names;
	struct literals *literals; /* one for each name */
	/* Without wildcards; of a regular expression its longest word. The end: NULL. */
	char **plain_names;
	regex_t regex;
};

#define ERE_NODES_MAX	   20000 /* some 5 MiB in regcomp() */
#define OPERATOR_NAMESPACE "aten::"

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

/* A glob without its wildcards and sets; NULL: out of memory. */
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
	size_t count = pattern->names.globs_count;

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

static int parse_regex(struct pattern *pattern, const char *ere, struct reason *why)
{
	int err;

	if (ere_nodes(ere) > ERE_NODES_MAX)
		return refuse(why, "too many repeats ('+', '{n,m}') of repeats");
	err = regcomp(&pattern->regex, ere, REG_EXTENDED | REG_NOSUB);
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

static bool is_regex(const char *text)
{
	size_t size = strlen(text);

	return size > 2 && text[0] == '/' && text[size - 1] == '/';
}

static int parse(struct pattern *pattern, struct reason *why)
{
	const char *text = pattern->text, *divider;
	size_t size;
	char *part;
	int err;

	pattern->excludes = text[0] == '!';
	text += pattern->excludes;
	divider = is_regex(text) ? NULL : find_divider(text);
	if (divider) {
		if (divider == text)
			return refuse(why, "no file name before ':'");
		part = strndup(text, (size_t)(divider - text));
		if (!part)
			return -ENOMEM;
		if (strchr(part, '/'))
			err = refuse(why, "a file is named by its last component, without '/'");
		else
			err = out_of(why, glob_list__expand(&pattern->modules, part));
		free(part);
		if (err)
			return err;
		pattern->has_module = true;
		text = divider + 1;
	}
	if (!*text)
		return refuse(why, divider ? "no function name after ':'" : "empty pattern");
	if (divider ? text[0] != '/' : !is_regex(text))
		return parse_glob(pattern, text + (begins_with(text, "::") ? 2 : 0), why);
	size = strlen(text);
	if (size < 3 || text[size - 1] != '/')
		return refuse(why, "a regular expression must be between two '/'");
	part = strndup(text + 1, size - 2);
	err = part ? parse_regex(pattern, part, why) : -ENOMEM;
	free(part);
	return err;
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

/* Of literals and plain_names. */
static size_t names_count(const struct pattern *pattern)
{
	return pattern->is_regex ? 1 : pattern->names.globs_count;
}

void pattern__free(struct pattern *pattern)
{
	if (!pattern)
		return;
	for (size_t i = 0; i < names_count(pattern); i++) {
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

const char *pattern__plain_name(const struct pattern *pattern)
{
	return pattern->plain_names[0] ?: "";
}

bool pattern__excludes(const struct pattern *pattern)
{
	return pattern->excludes;
}

bool pattern__names_module(const struct pattern *pattern)
{
	return pattern->has_module;
}

bool pattern__matches_module(const struct pattern *pattern, const struct module_names *module)
{
	for (size_t i = 0; i < pattern->modules.globs_count; i++)
		if (glob_matches(pattern->modules.globs[i], module->base) ||
		    (module->soname && *module->soname &&
		     glob_matches(pattern->modules.globs[i], module->soname)))
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
	bool mangled = demangle_applies(symbol_name), found = false;
	char *demangled = NULL;

	for (size_t i = 0; !found && i < names_count(pattern); i++) {
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

static bool is_operator(const char *glob)
{
	return begins_with(glob, OPERATOR_NAMESPACE);
}

bool pattern__names_operators(const struct pattern *pattern)
{
	for (size_t i = 0; i < pattern->names.globs_count; i++)
		if (is_operator(pattern->names.globs[i]))
			return true;
	return false;
}

bool pattern__may_match_operator(const struct pattern *pattern, const char *joined)
{
	for (size_t i = 0; i < pattern->names.globs_count; i++) {
		const char *glob = pattern->names.globs[i];
		const char *name = glob + sizeof(OPERATOR_NAMESPACE) - 1;

		if (is_operator(glob) && !strncmp(name, joined, strcspn(name, "*?[\\.")))
			return true;
	}
	return false;
}

bool pattern__matches_operator(const struct pattern *pattern, const char *label)
{
	size_t length = strcspn(label, ".");
	char *name = strndup(label, length);
	bool found = false;

	for (size_t i = 0; name && !found && i < pattern->names.globs_count; i++)
		found = is_operator(pattern->names.globs[i]) &&
			(matches_text(pattern, i, label) || matches_text(pattern, i, name));
	free(name);
	return found;
}

/*
 * "Did you mean": the names nearest to a pattern that matched nothing. Every symbol of every file
 * is offered, so only a name with a near identifier is demangled.
 */

enum { TARGETS_MAX = 8, WORD_MAX = 128, FAR = 1 << 20 };

struct candidate {
	char *text;
	unsigned word_distance, name_distance;
};

struct nearest {
	struct target {
		const char *name; /* borrowed from the pattern */
		const char *word; /* its last component */
		size_t word_size;
	} targets[TARGETS_MAX];
	size_t targets_count;
	struct candidate *best; /* best first */
	size_t best_count, keep;
	struct text list;
};

/* Where the last component of a name starts, and in *size how long it is without its template
 * arguments: "a::b<c::d>" → "b". */
static const char *last_component(const char *name, size_t *size)
{
	const char *start = name, *end = NULL, *p;
	size_t depth = 0;

	for (p = name; *p; p++) {
		if (strchr("<({", *p)) {
			if (!depth++ && *p == '<')
				end = p;
		} else if (strchr(">)}", *p)) {
			depth -= depth > 0;
		} else if (!depth && p[0] == ':' && p[1] == ':') {
			start = p + 2;
			end = NULL;
			p++;
		}
	}
	*size = (size_t)((end && end > start ? end : p) - start);
	return start;
}

struct nearest *nearest__new(const struct pattern *pattern, size_t keep)
{
	struct nearest *nearest = calloc(1, sizeof(*nearest));

	if (!nearest)
		return NULL;
	nearest->keep = keep;
	nearest->best = calloc(keep + 1, sizeof(*nearest->best));
	if (!nearest->best) {
		free(nearest);
		return NULL;
	}
	for (size_t i = 0; i < TARGETS_MAX && pattern->plain_names[i]; i++) {
		struct target *target = &nearest->targets[nearest->targets_count];

		target->name = pattern->plain_names[i];
		target->word = last_component(target->name, &target->word_size);
		if (target->word_size && target->word_size < WORD_MAX)
			nearest->targets_count++;
	}
	return nearest;
}

/* Levenshtein, case ignored; limit + 1 as soon as it is more than limit. */
static unsigned edit_distance(const char *a, size_t a_size, const char *b, size_t b_size,
			      unsigned limit)
{
	unsigned row[WORD_MAX + 1], least, previous, kept;

	if (a_size > WORD_MAX || (a_size > b_size ? a_size - b_size : b_size - a_size) > limit)
		return limit + 1;
	for (size_t i = 0; i <= a_size; i++)
		row[i] = (unsigned)i;
	for (size_t j = 0; j < b_size; j++) {
		previous = row[0];
		row[0] = least = (unsigned)j + 1;
		for (size_t i = 0; i < a_size; i++) {
			unsigned change =
				tolower((unsigned char)a[i]) != tolower((unsigned char)b[j]);

			kept = row[i + 1];
			row[i + 1] =
				(unsigned)min_u64(previous + change, min_u64(row[i], kept) + 1);
			previous = kept;
			least = (unsigned)min_u64(least, row[i + 1]);
		}
		if (least > limit)
			return limit + 1;
	}
	return row[a_size];
}

static bool contains(const char *word, size_t size, const struct target *target)
{
	for (size_t i = 0; i + target->word_size <= size; i++)
		if (strncasecmp(word + i, target->word, target->word_size) == 0)
			return true;
	return false;
}

/* One typing error in three letters; or a part of a longer name (sgemm in cblas_sgemm). */
static unsigned word_distance(const struct target *target, const char *word, size_t size)
{
	unsigned limit = (unsigned)(target->word_size + 2) / 3, distance;

	distance = edit_distance(target->word, target->word_size, word, size, limit);
	if (distance <= limit)
		return distance;
	if (target->word_size >= 4 && contains(word, size, target))
		return limit + 1 + (unsigned)(size - target->word_size) / 4;
	return FAR;
}

static bool near_any(const struct nearest *nearest, const char *word, size_t size)
{
	FOR_EACH (target, nearest->targets)
		if (word_distance(target, word, size) < FAR)
			return true;
	return false;
}

/* Identifiers of a mangled name are those with their length before them. */
static bool has_near_identifier(const struct nearest *nearest, const char *mangled)
{
	const char *end = mangled + strlen(mangled);
	char *word;

	for (const char *p = mangled + 2; *p; p = word) {
		unsigned long size;

		if (!isdigit((unsigned char)*p)) {
			word = (char *)p + 1;
			continue;
		}
		size = strtoul(p, &word, 10);
		if (size == 0 || size > (unsigned long)(end - word))
			continue;
		if (near_any(nearest, word, size))
			return true;
		word += size;
	}
	return false;
}

static struct candidate measure(const struct nearest *nearest, const char *name)
{
	struct candidate candidate = {.word_distance = FAR, .name_distance = FAR};
	size_t size, name_size = strlen(name);
	const char *word = last_component(name, &size);

	FOR_EACH (target, nearest->targets) {
		unsigned distance = word_distance(target, word, size);

		if (distance > candidate.word_distance)
			continue;
		candidate.word_distance = distance;
		distance = edit_distance(target->name, strlen(target->name), name, name_size,
					 WORD_MAX);
		if (distance < candidate.name_distance)
			candidate.name_distance = distance;
	}
	return candidate;
}

ORDER(order_candidates, struct candidate, ASCENDING(a->word_distance, b->word_distance),
      ASCENDING(a->name_distance, b->name_distance))

void nearest__offer(struct nearest *nearest, const char *symbol_name)
{
	struct candidate candidate, *at;
	size_t size;
	const char *word = last_component(symbol_name, &size);
	char *name;

	if (demangle_applies(symbol_name) ? !has_near_identifier(nearest, symbol_name)
					  : !near_any(nearest, word, size))
		return;
	name = demangle(symbol_name);
	if (!name)
		return;
	candidate = measure(nearest, name);
	candidate.text = name;
	FOR_EACH (known, nearest->best)
		if (!strcmp(known->text, name))
			candidate.word_distance = FAR;
	if (candidate.word_distance == FAR) {
		free(name);
		return;
	}
	at = nearest->best + nearest->best_count;
	while (at > nearest->best && order_candidates(&candidate, at - 1) < 0)
		at--;
	memmove(at + 1, at, (size_t)(nearest->best + nearest->best_count - at) * sizeof(*at));
	*at = candidate;
	if (nearest->best_count < nearest->keep)
		nearest->best_count++;
	else
		free(nearest->best[nearest->best_count].text);
}

const char *nearest__list(struct nearest *nearest)
{
	text_clear(&nearest->list);
	FOR_EACH (name, nearest->best) {
		text_add(&nearest->list, name > nearest->best ? ", " : "");
		text_add(&nearest->list, name->text);
	}
	return text_peek(&nearest->list);
}

void nearest__free(struct nearest *nearest)
{
	if (!nearest)
		return;
	FOR_EACH (name, nearest->best)
		free(name->text);
	free(nearest->best);
	text_clear(&nearest->list);
	free(nearest);
}

#define NAMES_SHOWN 3

void nearest_names(struct text *into, const char *word, const char *(*at)(size_t index))
{
	char why[256];
	struct pattern *pattern = pattern__parse(word, why, sizeof(why));
	struct nearest *nearest = pattern ? nearest__new(pattern, NAMES_SHOWN) : NULL;

	for (size_t i = 0; nearest && at(i); i++)
		nearest__offer(nearest, at(i));
	if (nearest)
		text_add(into, nearest__list(nearest));
	nearest__free(nearest);
	pattern__free(pattern);
}
