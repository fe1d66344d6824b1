// SPDX-License-Identifier: BSD-2-Clause
/*
 * "Did you mean": the names nearest to a pattern that matched nothing. It is offered every symbol
 * of every file, so only a name in which an identifier comes close is demangled.
 */
#include "elf/pattern.h"

#include "elf/demangle.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

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
	for (size_t i = 0; i < TARGETS_MAX && (name = pattern__plain_name(pattern, i)); i++) {
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

	for (size_t i = 0; i < nearest->targets_count; i++) {
		const struct target *target = &nearest->targets[i];
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
	char *name;

	if (demangle_applies(symbol_name) ? !has_near_identifier(nearest, symbol_name)
					  : !near_any(nearest, symbol_name, strlen(symbol_name)))
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
