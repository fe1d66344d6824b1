// SPDX-License-Identifier: BSD-2-Clause
#include "base/escape.h"

#include "base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_harmless(uint32_t code)
{
	if (code == UTF8_INVALID || code < 0x20 || (code >= 0x7f && code < 0xa0))
		return false;
	/* soft hyphen, Arabic letter mark, Mongolian vowel separator */
	if (code == 0xad || code == 0x61c || code == 0x180e)
		return false;
	/* zero width and direction marks; line and paragraph separators; embeddings, overrides and
	 * isolates */
	if ((code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
	    (code >= 0x2060 && code <= 0x206f))
		return false;
	/* byte order mark, annotations, tags, private use and what is no character */
	if (code == 0xfeff || (code >= 0xfff0 && code <= 0xfffb) || (code & 0xfffe) == 0xfffe)
		return false;
	return code < 0xe0000;
}

void escape_display(struct text *into, const char *name)
{
	uint32_t code;
	size_t count;

	for (; (count = utf8_next(name, &code)); name += count) {
		if (is_harmless(code)) {
			text_add_bytes(into, name, count);
			continue;
		}
		for (size_t i = 0; i < count; i++)
			text_printf(into, "\\x%02x", (unsigned char)name[i]);
	}
}

void escape_name(struct text *into, const char *name)
{
	text_add_bytes(into, (const char[]){NAME_OPEN}, 1);
	escape_display(into, name);
	text_add_bytes(into, (const char[]){NAME_CLOSE}, 1);
}

void escape_unmarked(struct text *into, const char *sentence)
{
	static const char marks[] = {NAME_OPEN, NAME_CLOSE, '\0'};

	while (*sentence) {
		size_t plain = strcspn(sentence, marks);

		text_add_bytes(into, sentence, plain);
		sentence += plain + (sentence[plain] != '\0');
	}
}

/* Everything that begins something in GFM; '@' would notify a user, ':' make a link. */
static bool is_markup(char c)
{
	return strchr("\\`*_{}[]<>()#+!|~&@:$^\"'=-.", c) != NULL;
}

void escape_markdown(struct text *into, const char *text)
{
	for (const char *p = text; *p; p++) {
		bool first = p == text;

		switch (*p) {
		case '\n':
		case '\r':
			text_add(into, " ");
			break;
		case '<':
			text_add(into, "&lt;");
			break;
		case '>':
			text_add(into, "&gt;");
			break;
		case '&':
			text_add(into, "&amp;");
			break;
		case '|':
			text_add(into, "&#124;");
			break;
		case '@':
			text_add(into, "@<!-- -->");
			break;
		case ':':
			text_add(into, p[1] == '/' ? "&#58;" : ":");
			break;
		case '_':
			/* between letters it is just a letter */
			text_add(into, !first && isalnum((unsigned char)p[-1]) &&
						       isalnum((unsigned char)p[1])
					       ? "_"
					       : "\\_");
			break;
		case '\\':
		case '`':
		case '*':
		case '[':
		case ']':
		case '~':
		case '$':
			text_printf(into, "\\%c", *p);
			break;
		case '#':
		case '+':
		case '-':
			/* a heading or a list, when it comes first */
			text_printf(into, first && p[1] == ' ' ? "\\%c" : "%c", *p);
			break;
		default:
			text_add_bytes(into, p, 1);
		}
	}
}

void escape_markdown_code(struct text *into, const char *text)
{
	size_t length = strlen(text);

	if (length == 0)
		return;
	/* A pipe ends a table's cell even in code, a backtick the code; a space at either end would
	 * be taken off. */
	if (strpbrk(text, "`|\n\r") || text[0] == ' ' || text[length - 1] == ' ') {
		/* As entities, which can be no markup. */
		text_add(into, "<code>");
		for (const char *p = text; *p; p++) {
			if (*p == '\n' || *p == '\r')
				text_add(into, " ");
			else if (is_markup(*p))
				text_printf(into, "&#%d;", *p);
			else
				text_add_bytes(into, p, 1);
		}
		text_add(into, "</code>");
	} else
		text_printf(into, "`%s`", text);
}

/* Gives each part of a sentence to a function, as it is marked. */
static void escape_parts(struct text *into, const char *sentence,
			 void (*plain)(struct text *, const char *),
			 void (*name)(struct text *, const char *))
{
	static const char marks[] = {NAME_OPEN, NAME_CLOSE, '\0'};
	bool in_name = false;

	while (*sentence) {
		size_t length = strcspn(sentence, marks);
		char *part = strndup(sentence, length);

		if (!part) {
			into->failed = true;
			return;
		}
		if (in_name)
			name(into, part);
		else
			plain(into, part);
		free(part);
		sentence += length;
		if (*sentence)
			in_name = *sentence++ == NAME_OPEN;
	}
}

void escape_markdown_sentence(struct text *into, const char *sentence)
{
	escape_parts(into, sentence, escape_markdown, escape_markdown_code);
}

void escape_html(struct text *into, const char *text)
{
	for (const char *p = text; *p; p++) {
		if (strchr("&<>\"'", *p))
			text_printf(into, "&#%d;", *p);
		else
			text_add_bytes(into, p, 1);
	}
}

/* A long name breaks between its parts rather than within them. */
static void escape_html_code(struct text *into, const char *text)
{
	const char *part;

	text_add(into, "<code>");
	while ((part = strstr(text, "::"))) {
		char *scope = strndup(text, (size_t)(part + 2 - text));

		escape_html(into, scope ? scope : "");
		into->failed |= !scope;
		free(scope);
		text_add(into, "<wbr>");
		text = part + 2;
	}
	escape_html(into, text);
	text_add(into, "</code>");
}

void escape_html_sentence(struct text *into, const char *sentence)
{
	escape_parts(into, sentence, escape_html, escape_html_code);
}
