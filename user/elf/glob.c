// SPDX-License-Identifier: BSD-2-Clause
#include "elf/glob.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *glob_set_end(const char *p)
{
	p++;
	if (*p == '!' || *p == '^')
		p++;
	if (*p == ']') /* first: a member */
		p++;
	return strchr(p, ']');
}

static bool in_set(const char *p, const char *end, unsigned char c)
{
	bool negated = p[1] == '!' || p[1] == '^', found = false;
	const unsigned char *at = (const unsigned char *)p + (negated ? 2 : 1);
	const unsigned char *stop = (const unsigned char *)end;

	while (at < stop) {
		if (stop - at > 2 && at[1] == '-') {
			found = found || (at[0] <= c && c <= at[2]);
			at += 3;
		} else {
			found = found || *at == c;
			at++;
		}
	}
	return found != negated;
}

/* Does what the glob says at p, no star, accept c? Then *next is behind it. */
static bool accepts(const char *p, char c, const char **next)
{
	const char *end;

	if (*p == '\0' || c == '\0')
		return false;
	*next = p + 1;
	if (*p == '?')
		return true;
	end = *p == '[' ? glob_set_end(p) : NULL;
	if (end) {
		*next = end + 1;
		return in_set(p, end, (unsigned char)c);
	}
	if (*p == '\\' && p[1]) {
		*next = p + 2;
		return p[1] == c;
	}
	return *p == c;
}

/* Only the last star is ever tried again: what an earlier one could give, it can give too. */
bool glob_matches(const char *glob, const char *text)
{
	const char *after_star = NULL, *retry = NULL, *next;

	for (;;) {
		if (*glob == '*') {
			after_star = ++glob;
			retry = text;
			if (!*glob)
				return true;
		} else if (accepts(glob, *text, &next)) {
			glob = next;
			text++;
		} else if (!*glob && !*text) {
			return true;
		} else if (after_star && *retry) {
			glob = after_star;
			text = ++retry;
		} else {
			return false;
		}
	}
}

/* --- alternatives --------------------------------------------------------------------------- */

/* Past one character of a glob, a set or an escape being one. */
static const char *step(const char *p)
{
	const char *set = *p == '[' ? glob_set_end(p) : NULL;

	if (set)
		return set + 1;
	return p + (*p == '\\' && p[1] ? 2 : 1);
}

/* p is behind a '{' or ','. Returns the ',' or '}' that ends the alternative, or NULL. */
static const char *alternative_end(const char *p)
{
	size_t braces = 0, parens = 0;

	for (; *p; p = step(p)) {
		if (!braces && (*p == '}' || (*p == ',' && !parens)))
			return p;
		if (*p == '(')
			parens++;
		else if (*p == ')' && parens)
			parens--;
		else if (*p == '{')
			braces++;
		else if (*p == '}')
			braces--;
	}
	return NULL;
}

/* p is at '{': the '}' that closes it where there are several alternatives, else NULL. */
static const char *alternatives_end(const char *p)
{
	const char *end = alternative_end(p + 1);

	if (!end || *end != ',')
		return NULL;
	while (end && *end == ',')
		end = alternative_end(end + 1);
	return end;
}

static int add_glob(struct glob_list *list, const char *glob)
{
	char **grown;

	if (list->count == GLOB_ALTERNATIVES_MAX)
		return -E2BIG;
	grown = realloc(list->globs, (list->count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	list->globs = grown;
	grown[list->count] = strdup(glob);
	if (!grown[list->count])
		return -ENOMEM;
	list->count++;
	return 0;
}

static int expand(struct glob_list *list, const char *glob)
{
	const char *open = glob, *close = NULL, *from, *to;
	int err = 0;

	for (; *open && !close; open = close ? open : step(open))
		close = *open == '{' ? alternatives_end(open) : NULL;
	if (!close)
		return add_glob(list, glob);
	for (from = open + 1; !err && from <= close; from = to + 1) {
		char *text;

		to = alternative_end(from);
		if (asprintf(&text, "%.*s%.*s%s", (int)(open - glob), glob, (int)(to - from), from,
			     close + 1) < 0)
			return -ENOMEM;
		err = expand(list, text);
		free(text);
	}
	return err;
}

int glob_list__expand(struct glob_list *list, const char *glob)
{
	int err;

	*list = (struct glob_list){0};
	err = expand(list, glob);
	if (err)
		glob_list__clear(list);
	return err;
}

void glob_list__clear(struct glob_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->globs[i]);
	free(list->globs);
	*list = (struct glob_list){0};
}
