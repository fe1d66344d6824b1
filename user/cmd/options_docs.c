// SPDX-License-Identifier: BSD-2-Clause
/* Output made of the tables of verbs and options: --help, the man page, and the shells'
 * completions. */
#include "cmd/options_table.h"

#include "analyze/catalogue.h"
#include "base/grow.h"
#include "base/message.h"
#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool documents_option(const struct option_row *row, enum verb verb)
{
	return row->help && (row->verbs & FOR_VERB(verb));
}

/* Calls with the next of a list's words ("a, b c"), until there is none. */
static bool next_word(const char **list, char *word, size_t size)
{
	size_t length;

	*list += strspn(*list, ", ");
	length = strcspn(*list, ", ");
	snprintf(word, size, "%.*s", (int)length, *list);
	*list += length;
	return length > 0;
}

/* The text with the names of the values in place of '@'; malloc'd. */
static char *expand(const char *text, const char *names)
{
	struct text expanded = {0};
	char word[64];

	for (; *text; text++) {
		const char *rest = names, *separator = "";

		if (*text != '@' || !names) {
			text_add_bytes(&expanded, text, 1);
			continue;
		}
		for (; next_word(&rest, word, sizeof(word)); separator = ", ")
			text_printf(&expanded, "%s%s", separator, word);
	}
	return text_take(&expanded);
}

static char *option_text(const struct option_row *row, const char *text, enum verb verb)
{
	return expand(text, row->names ? row->names(verb) : NULL);
}

static char *verb_text(const struct verb_row *row, const char *text)
{
	return expand(text, option_row_named("format")->names(row->verb));
}

/*
 * --help:
 *
 *   -d, --duration TIME      length of the recording: 10, 500ms, 2m (default 10s;
 *                            run: until the program exits)
 */

#define HELP_WIDTH  79
#define VERB_COLUMN 12
#define TEXT_COLUMN 27

static void print_wrapped(size_t column, size_t left, const char *words)
{
	struct text lines = {0};

	text_add_wrapped(&lines, column, left, HELP_WIDTH, words);
	fputs(text_peek(&lines), stdout);
	text_clear(&lines);
}

static void print_option(const struct option_row *row, enum verb verb)
{
	char *text = option_text(row, row->help, verb);
	const char letter[] = {'-', row->letter, ',', '\0'};
	int column = printf("  %3s --%s%s%s", row->letter ? letter : "", row->name,
			    row->arg ? " " : "", row->arg ? row->arg : "");

	print_wrapped((size_t)column, TEXT_COLUMN, text ? text : "");
	free(text);
}

static void print_options(enum verb verb)
{
	for (int section = SECTION_WHAT; section <= SECTION_OTHER; section++) {
		bool headed = false;

		for (size_t i = 0; i < option_rows_count; i++) {
			if ((int)option_rows[i].section != section ||
			    !documents_option(&option_rows[i], verb))
				continue;
			if (!headed)
				printf("\n%s\n", section_title((enum section)section));
			headed = true;
			print_option(&option_rows[i], verb);
		}
	}
}

void options_help(enum verb verb)
{
	const struct verb_row *row = verb_row_of(verb);

	if (!row || row == verb_rows || verb == VERB_HELP) {
		puts("Usage: perfx-trace -p PID|NAME [OPTIONS]\n"
		     "       perfx-trace VERB ...\n\n"
		     "Verbs; perfx-trace VERB --help lists the options of one");
		for (size_t i = 0; i < verb_rows_count; i++) {
			char *text = verb_text(&verb_rows[i], verb_rows[i].help);

			print_wrapped((size_t)printf("  %s", verb_rows[i].name), VERB_COLUMN,
				      text ? text : "");
			free(text);
		}
		print_options(verb_rows->verb);
	} else {
		char *text = verb_text(row, row->help);

		printf("Usage: perfx-trace %s %s\n\n", row->name, row->synopsis);
		if (text)
			*text = (char)toupper((unsigned char)*text);
		print_wrapped(0, 0, text ? text : "");
		print_options(verb);
		free(text);
	}
	puts("\nFirst Ctrl-C: stop and report; second: abort.\n"
	     "Exit status: 0 done, 1 failed, 2 usage, 3 target killed or gone, 4 findings\n"
	     "(--fail-on), 77 no privilege, 130 second Ctrl-C; run: that of the program.");
}

#define UPPER	"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define LOWER	"abcdefghijklmnopqrstuvwxyz"
#define LETTERS UPPER LOWER

/* "sampled[=BYTES]" as arguments of a macro: Cm sampled Ns [= Ns Ar BYTES Ns ] */
static void print_syntax(const char *text)
{
	bool joined = false;

	while (*text) {
		size_t length = 1;

		if (*text == ' ') {
			joined = false;
			text++;
			continue;
		}
		if (joined)
			printf(" Ns");
		if (text[0] == '-' && isalpha((unsigned char)text[1])) {
			length = 1 + strspn(text + 1, "-" LOWER);
			printf(" Fl %.*s", (int)length - 1, text + 1);
		} else if (isupper((unsigned char)*text)) {
			length = strspn(text, UPPER);
			printf(" Ar %.*s", (int)length, text);
		} else if (isalnum((unsigned char)*text)) {
			length = strspn(text, LOWER "0123456789");
			printf(" Cm %.*s", (int)length, text);
		} else {
			length = strcspn(text, " " LETTERS);
			printf("%s \\&%.*s", joined ? "" : " No", (int)length, text);
		}
		joined = true;
		text += length;
	}
	putchar('\n');
}

/* Text as in options_table.h; a sentence a line. */
static void print_man_text(const char *text)
{
	bool bold = false, italic = false, starts = true, line_start;

	for (; *text; text++) {
		line_start = starts;
		starts = begins_with(text, ". ");
		if (*text == '`') {
			bold = !bold;
			printf(bold ? "\\fB" : "\\fP");
		} else if (*text == '*') {
			italic = !italic;
			printf(italic ? "\\fI" : "\\fP");
		} else if (begins_with(text, "\n\n")) {
			printf("\n.Pp");
			continue;
		} else if (begins_with(text, "\n\t")) {
			size_t length = strcspn(text + 2, "\n");

			printf("\n.Dl %.*s", (int)length, text + 2);
			text += 1 + length;
		} else if (starts) {
			printf(".\n");
			text++;
		} else {
			if (line_start && (*text == '.' || *text == '\''))
				printf("\\&");
			printf(*text == '-' ? "\\-" : *text == '\\' ? "\\e" : "%c", *text);
		}
	}
	putchar('\n');
}

static void print_man_synopsis(void)
{
	for (size_t i = 0; i < verb_rows_count; i++) {
		puts(".Nm");
		printf(i ? ".Cm %s" : ".", verb_rows[i].name);
		print_syntax(verb_rows[i].synopsis);
	}
}

static void print_man_verbs(void)
{
	for (size_t i = 0; i < verb_rows_count; i++) {
		char *text = verb_text(&verb_rows[i], verb_rows[i].man);

		printf(".It Cm %s\n", verb_rows[i].name);
		print_man_text(text ? text : "");
		free(text);
	}
}

/* The text for the man page; without one, the help as a sentence; malloc'd. */
static char *man_of(const struct option_row *row)
{
	struct text text = {0};

	if (row->man)
		return option_text(row, row->man, VERB_TRACE);
	text_printf(&text, "%c%s.", toupper((unsigned char)*row->help), row->help + 1);
	return text_take(&text);
}

static void print_man_options(void)
{
	for (int section = SECTION_WHAT; section <= SECTION_OTHER; section++) {
		printf(".Ss %s\n.Bl -tag -width Ds\n", section_title((enum section)section));
		FOR_EACH (row, option_rows) {
			char *text;

			if ((int)row->section != section || !row->help)
				continue;
			printf(".It");
			if (row->letter)
				printf(" Fl %c ,", row->letter);
			printf(" Fl -%s", row->name);
			print_syntax(row->arg ? row->arg : "");
			text = man_of(row);
			print_man_text(text ? text : "");
			free(text);
		}
		puts(".El");
	}
}

void options_man(FILE *template)
{
	static const struct {
		const char *line;
		void (*print)(void);
	} parts[] = {{"@SYNOPSIS@\n", print_man_synopsis},
		     {"@VERBS@\n", print_man_verbs},
		     {"@OPTIONS@\n", print_man_options}};
	char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, template) > 0) {
		size_t i = 0;

		while (i < 3 && strcmp(line, parts[i].line) != 0)
			i++;
		if (i < 3)
			parts[i].print();
		else
			fputs(line, stdout);
	}
	free(line);
}

/* A help's first clause, which a menu has room for. */
static void print_candidate(const char *dashes, const char *word, const char *help)
{
	size_t length = 0;

	while (help[length] && !begins_with(help + length, " (") &&
	       (!strchr(";:.", help[length]) || isalpha((unsigned char)help[length + 1])))
		length++;
	printf("%s%s\t%.*s\n", dashes, word, (int)length, help);
}

/* The values of the option before the cursor. */
static void complete_value(const struct option_row *row, enum verb verb)
{
	const char *names = row->names ? row->names(verb) : "";
	char word[64];

	if (row->complete)
		puts(row->complete == COMPLETE_PROCESS ? ":process" : ":file");
	for (size_t i = 0; option_has_choices(row) && option_choice(row, i, word, sizeof(word));
	     i++)
		if (!isupper((unsigned char)*word))
			puts(word);
	while (next_word(&names, word, sizeof(word)))
		puts(word);
}

static void complete_option(enum verb verb)
{
	FOR_EACH (row, option_rows) {
		const char letter[] = {row->letter, '\0'};

		if (!documents_option(row, verb))
			continue;
		print_candidate("--", row->name, row->help);
		if (row->letter)
			print_candidate("-", letter, row->help);
	}
}

/* The option that takes its value from the next word; NULL: none does. */
static const struct option_row *option_before(const char *word)
{
	const struct option_row *row = NULL;

	if (begins_with(word, "--"))
		row = option_row_named(word + 2);
	for (size_t i = 0; i < option_rows_count && word[0] == '-' && word[1] && !word[2]; i++)
		if (option_rows[i].letter == word[1])
			row = &option_rows[i];
	return row && row->arg ? row : NULL;
}

void options_complete(int count, char *const *words)
{
	const struct verb_row *verb = count > 1 ? verb_row_named(words[0]) : NULL;
	const struct option_row *row = count > 1 ? option_before(words[count - 2]) : NULL;

	verb = verb ? verb : verb_rows;
	for (int i = 1; verb->operands == COMPLETE_PROGRAM && i < count - 1; i++) {
		if (strcmp(words[i], "--") != 0)
			continue;
		printf(":program %d\n", i + 1);
		return;
	}
	if (row)
		complete_value(row, verb->verb);
	else if (count == 2 && verb->operands == COMPLETE_KIND)
		for (size_t i = 0; i < finding_kinds_count; i++)
			print_candidate("", finding_kinds[i].kind, finding_kinds[i].says);
	else if (count && words[count - 1][0] == '-')
		complete_option(verb->verb);
	else if (count > 1 && verb->operands == COMPLETE_CAPTURE)
		puts(":file");
	for (size_t i = 0; count == 1 && words[0][0] != '-' && i < verb_rows_count; i++)
		print_candidate("", verb_rows[i].name, verb_rows[i].help);
}
