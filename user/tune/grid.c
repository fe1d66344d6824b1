// SPDX-License-Identifier: BSD-2-Clause
/* Lists of values, their combinations, and the commands that these make. */
#include "tune/tune.h"

#include "base/grow.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The words between commas; an empty one is a value, too. */
static int split(struct tune_list *list, const char *values)
{
	for (const char *at = values;; at++) {
		size_t length = strcspn(at, ",");
		char *value = strndup(at, length);
		bool is_twice = false;

		for (size_t i = 0; value && i < list->values_count; i++)
			is_twice |= !strcmp(list->values[i], value);
		if (!value || is_twice || LIST_ADD(list->values, value)) {
			free(value);
			return is_twice ? -EEXIST : -ENOMEM;
		}
		at += length;
		if (!*at)
			return 0;
	}
}

static const struct tune_list *list_named(const struct tune *tune, const char *name, size_t length)
{
	for (size_t i = 0; i < tune->lists_count; i++)
		if (strlen(tune->lists[i].name) == length &&
		    !strncmp(tune->lists[i].name, name, length))
			return &tune->lists[i];
	return NULL;
}

int tune_add_list(struct tune *tune, const char *name, const char *values, bool environment,
		  char why[TUNE_WHY])
{
	struct tune_list *list = &tune->lists[tune->lists_count];
	int err;

	if (tune->lists_count == TUNE_LISTS_MAX) {
		snprintf(why, TUNE_WHY, "more than %d lists of values", TUNE_LISTS_MAX);
		return -EINVAL;
	}
	if (list_named(tune, name, strlen(name))) {
		snprintf(why, TUNE_WHY, "%s has two lists of values", name);
		return -EINVAL;
	}
	tune->lists_count++;
	*list = (struct tune_list){.name = name, .environment = environment};
	err = split(list, values);
	if (err == -EEXIST)
		snprintf(why, TUNE_WHY, "%s: a value is there twice", name);
	else if (err)
		snprintf(why, TUNE_WHY, "out of memory");
	return err ? -EINVAL : 0;
}

static const struct tune_list *only_list(const struct tune *tune)
{
	const struct tune_list *only = NULL;

	for (size_t i = 0; i < tune->lists_count; i++) {
		if (tune->lists[i].environment)
			continue;
		if (only)
			return NULL;
		only = &tune->lists[i];
	}
	return only;
}

/* The list that a placeholder which begins here stands for, and its length; NULL: it is none. */
static const struct tune_list *placeholder(const struct tune *tune, const char *at, size_t *length)
{
	const char *end = *at == '{' ? strchr(at, '}') : NULL;

	if (!end)
		return NULL;
	*length = (size_t)(end - at) + 1;
	return *length == 2 ? only_list(tune) : list_named(tune, at + 1, *length - 2);
}

static bool is_used(const struct tune *tune, const struct tune_list *list)
{
	bool used = list->environment;
	size_t length;

	for (char *const *word = tune->command; *word; word++)
		for (const char *at = *word; *at && !used; at++)
			used = placeholder(tune, at, &length) == list;
	return used;
}

static void add_filled(struct text *into, const struct tune *tune, const struct tune_point *point,
		       const char *word)
{
	for (; *word; word++) {
		size_t length = 0;
		const struct tune_list *list = placeholder(tune, word, &length);

		if (list) {
			text_add(into, point->values[list - tune->lists]);
			word += length - 1;
		} else {
			text_add_bytes(into, word, 1);
		}
	}
}

static bool add_word(char **words, size_t at, struct text *word)
{
	words[at] = text_take(word);
	return words[at];
}

char **tune_command(const struct tune *tune, const struct tune_point *point)
{
	size_t count = 0;
	char **words;
	bool ok;

	while (tune->command[count])
		count++;
	words = calloc(count + 1, sizeof(*words));
	ok = words;
	for (size_t i = 0; i < count && ok; i++) {
		struct text word = {0};

		add_filled(&word, tune, point, tune->command[i]);
		ok = add_word(words, i, &word);
	}
	if (ok)
		return words;
	tune_free_words(words);
	return NULL;
}

char **tune_environment(const struct tune *tune, const struct tune_point *point)
{
	char **words = calloc(tune->lists_count + 1, sizeof(*words));
	bool ok = words;
	size_t count = 0;

	for (size_t i = 0; i < tune->lists_count && ok; i++) {
		struct text word = {0};

		if (!tune->lists[i].environment)
			continue;
		text_printf(&word, "%s=%s", tune->lists[i].name, point->values[i]);
		ok = add_word(words, count++, &word);
	}
	if (ok)
		return words;
	tune_free_words(words);
	return NULL;
}

void tune_free_words(char **words)
{
	for (char **word = words; word && *word; word++)
		free(*word);
	free(words);
}

static int check_lists(const struct tune *tune, char why[TUNE_WHY])
{
	if (!tune->lists_count) {
		snprintf(why, TUNE_WHY,
			 "no values to try: give them as an option, --workers 0,1,2,4 -- CMD "
			 "--workers {}");
		return -EINVAL;
	}
	FOR_EACH (list, tune->lists) {
		if (list->values_count < 2) {
			snprintf(why, TUNE_WHY,
				 "--%s %s: neither an option of tune nor a list of values to try",
				 list->name, list->values[0]);
			return -EINVAL;
		}
		if (is_used(tune, list))
			continue;
		snprintf(why, TUNE_WHY, "--%s: the command has no {%s}%s to put its values into",
			 list->name, list->name, only_list(tune) ? " or {}" : "");
		return -EINVAL;
	}
	return 0;
}

int tune_prepare(struct tune *tune, size_t rounds_count, char why[TUNE_WHY])
{
	size_t count = 1;
	int err = check_lists(tune, why);

	for (size_t i = 0; i < tune->lists_count; i++)
		count = count > TUNE_POINTS_MAX ? count : count * tune->lists[i].values_count;
	if (!err && count > TUNE_POINTS_MAX) {
		snprintf(why, TUNE_WHY, "the lists have %s%zu combinations: %d at most are tried",
			 tune->lists_count > 2 ? "at least " : "", count, TUNE_POINTS_MAX);
		err = -EINVAL;
	}
	if (err)
		return err;
	tune->rounds_count = rounds_count;
	tune->points = calloc(count, sizeof(*tune->points));
	for (size_t i = 0; tune->points && i < count; i++) {
		for (size_t k = tune->lists_count, number = i; k--;) {
			const struct tune_list *list = &tune->lists[k];

			tune->points[i].values[k] = list->values[number % list->values_count];
			number /= list->values_count;
		}
		tune->points_count++;
		err = err ? err : tune_runs_init(&tune->points[i].runs, rounds_count);
	}
	if (!err && tune->points)
		return 0;
	snprintf(why, TUNE_WHY, "out of memory");
	return -EINVAL;
}

void tune_clear(struct tune *tune)
{
	for (size_t i = 0; i < tune->points_count; i++)
		tune_runs_clear(&tune->points[i].runs);
	for (size_t i = 0; i < tune->lists_count; i++) {
		for (size_t k = 0; k < tune->lists[i].values_count; k++)
			free(tune->lists[i].values[k]);
		free(tune->lists[i].values);
	}
	free(tune->points);
	*tune = (struct tune){0};
}

size_t tune_order(const struct tune *tune, size_t run)
{
	size_t round = run / tune->points_count, at = run % tune->points_count;

	return round % 2 ? tune->points_count - 1 - at : at;
}

/* As a rate: the time of one that is twice as fast is half. */
static double share_of(const struct tune *tune, const struct tune_point *point,
		       const struct tune_point *best)
{
	double share = point->runs.median / best->runs.median;

	return tune_less_is_better(&tune->metric) ? 1 / share : share;
}

static bool is_better(const struct tune *tune, size_t at, size_t than)
{
	if (isnan(tune->points[at].runs.median))
		return false;
	return than == TUNE_NONE || share_of(tune, &tune->points[at], &tune->points[than]) > 1;
}

void tune_judge(struct tune *tune)
{
	tune->compared_count = 0;
	tune->best = tune->next = tune->enough = TUNE_NONE;
	for (size_t i = 0; i < tune->points_count; i++) {
		tune_runs_summarize(&tune->points[i].runs);
		if (is_better(tune, i, tune->best))
			tune->best = i;
		tune->compared_count += tune->points[i].runs.measured_count > 0;
	}
	if (tune->best == TUNE_NONE)
		return;
	tune->compared_count--;
	for (size_t i = 0; i < tune->points_count; i++) {
		struct tune_point *point = &tune->points[i];
		const struct tune_point *best = &tune->points[tune->best];
		const double *runs = point->runs.values, *bests = best->runs.values;
		bool less = tune_less_is_better(&tune->metric);

		point->share = share_of(tune, point, best);
		point->behind = tune_paired(less ? bests : runs, less ? runs : bests,
					    tune->rounds_count, tune->compared_count);
		point->level = !tune_is_significant(&point->behind, tune->compared_count);
		if (i != tune->best && is_better(tune, i, tune->next))
			tune->next = i;
		if (tune->enough == TUNE_NONE && point->share >= 1 - TUNE_NEAR)
			tune->enough = i;
	}
}
