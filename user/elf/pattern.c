// SPDX-License-Identifier: BSD-2-Clause
#include "elf/pattern.h"

#include "base/grow.h"
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
	struct glob_list names;	   /* of a regular expression: its longest word, for nearest */
	struct literals *literals; /* one for each name */
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

/* text: "/ERE/". */
static int parse_regex(struct pattern *pattern, const char *text, struct reason *why)
{
	size_t size = strlen(text);
	char *ere;
	int err;

	if (size < 3 || text[size - 1] != '/')
		return refuse(why, "a regular expression must be between two '/'");
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
		return refuse(why, divider ? "no function name after ':'" : "empty pattern");
	if (divider ? text[0] == '/' : is_regex(text))
		return parse_regex(pattern, text, why);
	return parse_glob(pattern, text + (begins_with(text, "::") ? 2 : 0), why);
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

/* The name part in plain text, alternatives written out, wildcards left out; of a regular
 * expression its longest word. NULL past the last. */
static const char *plain_name(const struct pattern *pattern, size_t index)
{
	size_t count = pattern->is_regex ? 1 : pattern->names.count;

	return index < count ? pattern->plain_names[index] : NULL;
}

bool pattern__matches_module(const struct pattern *pattern, const struct module_names *module)
{
	for (size_t i = 0; i < pattern->modules.count; i++)
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

static bool is_operator(const char *glob)
{
	return begins_with(glob, OPERATOR_NAMESPACE);
}

bool pattern__names_operators(const struct pattern *pattern)
{
	for (size_t i = 0; i < pattern->names.count; i++)
		if (is_operator(pattern->names.globs[i]))
			return true;
	return false;
}

bool pattern__may_match_operator(const struct pattern *pattern, const char *joined)
{
	for (size_t i = 0; i < pattern->names.count; i++) {
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

	for (size_t i = 0; name && !found && i < pattern->names.count; i++)
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
	size_t count, keep;
	char *list;
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
	const char *name;

	if (!nearest)
		return NULL;
	nearest->keep = keep;
	nearest->best = calloc(keep + 1, sizeof(*nearest->best));
	if (!nearest->best) {
		free(nearest);
		return NULL;
	}
	for (size_t i = 0; i < TARGETS_MAX && (name = plain_name(pattern, i)); i++) {
		struct target *target = &nearest->targets[nearest->targets_count];

		target->name = name;
		target->word = last_component(name, &target->word_size);
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
			row[i + 1] = previous + change;
			if (row[i] + 1 < row[i + 1])
				row[i + 1] = row[i] + 1;
			if (kept + 1 < row[i + 1])
				row[i + 1] = kept + 1;
			previous = kept;
			if (row[i + 1] < least)
				least = row[i + 1];
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
	for (size_t i = 0; i < nearest->targets_count; i++)
		if (word_distance(&nearest->targets[i], word, size) < FAR)
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

static bool better(const struct candidate *a, const struct candidate *b)
{
	if (a->word_distance != b->word_distance)
		return a->word_distance < b->word_distance;
	return a->name_distance < b->name_distance;
}

static bool is_known(const struct nearest *nearest, const char *text)
{
	for (size_t i = 0; i < nearest->count; i++)
		if (strcmp(nearest->best[i].text, text) == 0)
			return true;
	return false;
}

/* Takes candidate->text over. */
static void insert(struct nearest *nearest, struct candidate candidate)
{
	size_t at = nearest->count;

	while (at > 0 && better(&candidate, &nearest->best[at - 1]))
		at--;
	memmove(&nearest->best[at + 1], &nearest->best[at],
		(nearest->count - at) * sizeof(candidate));
	nearest->best[at] = candidate;
	if (nearest->count < nearest->keep)
		nearest->count++;
	else
		free(nearest->best[nearest->count].text);
}

void nearest__offer(struct nearest *nearest, const char *symbol_name)
{
	struct candidate candidate;
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
	if (candidate.word_distance < FAR && !is_known(nearest, name))
		insert(nearest, candidate);
	else
		free(name);
}

const char *nearest__list(struct nearest *nearest)
{
	size_t size = 1;
	char *to;

	for (size_t i = 0; i < nearest->count; i++)
		size += strlen(nearest->best[i].text) + 2;
	free(nearest->list);
	nearest->list = to = malloc(size);
	if (!to)
		return "";
	*to = '\0';
	for (size_t i = 0; i < nearest->count; i++) {
		if (i)
			to = stpcpy(to, ", ");
		to = stpcpy(to, nearest->best[i].text);
	}
	return nearest->list;
}

void nearest__free(struct nearest *nearest)
{
	if (!nearest)
		return;
	for (size_t i = 0; i < nearest->count; i++)
		free(nearest->best[i].text);
	free(nearest->best);
	free(nearest->list);
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
