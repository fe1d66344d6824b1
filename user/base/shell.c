// SPDX-License-Identifier: BSD-2-Clause
#include "base/shell.h"

#include <string.h>

static const char plain_characters[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	"_@%+=:,./-";

void shell_quote(struct text *into, const char *argument)
{
	if (argument[0] && !argument[strspn(argument, plain_characters)]) {
		text_add(into, argument);
		return;
	}
	text_add(into, "'");
	for (const char *p = argument; *p; p++) {
		if (*p == '\'')
			text_add(into, "'\\''");
		else
			text_add_bytes(into, p, 1);
	}
	text_add(into, "'");
}

/* Takes what stands between quotes, which begins at p; returns what is behind the closing one. */
static const char *take_quoted(struct text *word, const char *p, char quote)
{
	for (; *p && *p != quote; p++) {
		if (quote == '"' && *p == '\\' && p[1])
			p++;
		text_add_bytes(word, p, 1);
	}
	return *p ? p + 1 : p;
}

const char *shell_word(struct text *word, const char *line)
{
	line += strspn(line, " \t\n");
	if (!*line)
		return NULL;
	while (*line && !strchr(" \t\n", *line)) {
		if (*line == '\'' || *line == '"') {
			line = take_quoted(word, line + 1, *line);
			continue;
		}
		if (*line == '\\' && line[1])
			line++;
		text_add_bytes(word, line++, 1);
	}
	return line;
}
