// SPDX-License-Identifier: BSD-2-Clause
#include "base/statements.h"

#include <string.h>

#define BLANKS " \t\r"

struct statements statements_of(char *text)
{
	return (struct statements){.at = text};
}

static bool is_blank(const char *line, size_t length)
{
	return strspn(line, BLANKS) >= length;
}

char *statements_next(struct statements *s)
{
	char *statement = NULL;
	bool quoted = false; /* goes on from line to line */

	while (*s->at) {
		char *line = s->at;
		size_t length = strcspn(line, "\n");
		bool last = !line[length], continues = *line == ' ' || *line == '\t';

		if (statement && !continues && !is_blank(line, length) && *line != '#') {
			line[-1] = '\0';
			break;
		}
		s->next++;
		for (size_t i = 0; i < length; i++) {
			quoted ^= line[i] == '"';
			if (line[i] == '#' && !quoted) /* a comment becomes blanks */
				memset(line + i, ' ', length - i);
		}
		s->at = line + length + !last;
		if (!last && statement)
			line[length] = ' ';
		if (statement || is_blank(line, length))
			continue;
		s->line = s->next;
		s->misplaced = continues;
		if (continues)
			return NULL;
		statement = line;
		if (!last)
			line[length] = ' ';
	}
	if (!statement)
		s->line = s->next;
	return statement;
}

char *statement_word(char **statement)
{
	char *word = *statement + strspn(*statement, BLANKS), *end;

	if (!*word)
		return NULL;
	if (*word == '"')
		end = strchr(++word, '"');
	else
		end = strpbrk(word, BLANKS);
	*statement = end ? end + 1 : word + strlen(word);
	if (end)
		*end = '\0';
	return word;
}
