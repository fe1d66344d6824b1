// SPDX-License-Identifier: BSD-2-Clause
/* What is written from the tables of verbs and options: --help, the man page, and completions for
 * bash, zsh and fish. */
#include "cmd/options_table.h"

#include "base/message.h"
#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool takes(const struct option_row *row, enum verb verb)
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

/* --- --help -------------------------------------------------------------------------------------
 *
 *   -d, --duration TIME      length of the recording: 10, 500ms, 2m (default 10s;
 *                            run: until the program exits)
 */

#define HELP_WIDTH  80
#define VERB_COLUMN 12
#define TEXT_COLUMN 27

/* Wraps the text from column `left` on; the line has `column` characters already. */
static void print_wrapped(size_t column, size_t left, const char *text)
{
	if (left && column + 2 > left) {
		putchar('\n');
		column = 0;
	}
	printf("%*s", (int)(left - column), "");
	column = left;
	while (*text) {
		size_t length = strcspn(text, " ");

		if (column > left && column + 1 + length >= HELP_WIDTH) {
			printf("\n%*s", (int)left, "");
			column = left;
		} else if (column > left) {
			putchar(' ');
			column++;
		}
		printf("%.*s", (int)length, text);
		column += length;
		text += length + strspn(text + length, " ");
	}
	putchar('\n');
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
			if ((int)option_rows[i].section != section || !takes(&option_rows[i], verb))
				continue;
			if (!headed)
				printf("\n%s\n", section_title((enum section)section));
			headed = true;
			print_option(&option_rows[i], verb);
		}
	}
}

static void print_verbs(void)
{
	puts("Usage: perfx-trace -p PID|NAME [OPTIONS]\n"
	     "       perfx-trace VERB ...\n\n"
	     "Verbs; perfx-trace VERB --help lists the options of one");
	for (size_t i = 0; i < verb_rows_count; i++) {
		char *text = verb_text(&verb_rows[i], verb_rows[i].help);

		print_wrapped((size_t)printf("  %s", verb_rows[i].name), VERB_COLUMN,
			      text ? text : "");
		free(text);
	}
}

void options_help(enum verb verb)
{
	const struct verb_row *row = verb_row_of(verb);

	if (!row || row == verb_rows || verb == VERB_HELP) {
		print_verbs();
		print_options(verb_rows->verb);
	} else {
		char *text = verb_text(row, row->help);

		printf("Usage: perfx-trace %s %s\n\n", row->name, row->synopsis);
		print_wrapped(0, 0, text ? text : "");
		print_options(verb);
		free(text);
	}
	puts("\nFirst Ctrl-C: stop and report; second: abort.\n"
	     "Exit status: 0 done, 1 failed, 2 usage, 3 target killed or gone, 4 regressions\n"
	     "(--fail-on), 77 no privilege, 130 second Ctrl-C; run: that of the program.");
}

/* --- the man page -------------------------------------------------------------------------------
 */

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
	bool bold = false, italic = false, line_start = true;

	for (; *text; text++) {
		if (*text == '`') {
			bold = !bold;
			printf(bold ? "\\fB" : "\\fP");
		} else if (*text == '*') {
			italic = !italic;
			printf(italic ? "\\fI" : "\\fP");
		} else if (!strncmp(text, "\n\n", 2)) {
			printf("\n.Pp");
			continue;
		} else if (!strncmp(text, "\n\t", 2)) {
			size_t length = strcspn(text + 2, "\n");

			printf("\n.Dl %.*s", (int)length, text + 2);
			text += 1 + length;
		} else if (!strncmp(text, ". ", 2)) {
			printf(".\n");
			text++;
		} else {
			if (line_start && (*text == '.' || *text == '\''))
				printf("\\&");
			printf(*text == '-' ? "\\-" : *text == '\\' ? "\\e" : "%c", *text);
		}
		line_start = *text == '\n' || !strncmp(text - 1, ". ", 2);
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

static void print_man_options(void)
{
	for (int section = SECTION_WHAT; section <= SECTION_OTHER; section++) {
		printf(".Ss %s\n.Bl -tag -width Ds\n", section_title((enum section)section));
		for (size_t i = 0; i < option_rows_count; i++) {
			const struct option_row *row = &option_rows[i];
			char *text;

			if ((int)row->section != section || !row->man)
				continue;
			printf(".It");
			if (row->letter)
				printf(" Fl %c ,", row->letter);
			printf(" Fl -%s", row->name);
			print_syntax(row->arg ? row->arg : "");
			text = option_text(row, row->man, VERB_TRACE);
			print_man_text(text ? text : "");
			free(text);
		}
		puts(".El");
	}
}

/* The template with what it asks for in lines of their own. */
static void print_man(FILE *template)
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

/* --- completions --------------------------------------------------------------------------------
 */

/* What can be completed of an option's value: "a b c", malloc'd; "" when nothing is known. */
static char *words_of(const struct option_row *row, enum verb verb)
{
	const char *names = row->names ? row->names(verb) : "";
	struct text words = {0};
	char word[64];

	for (size_t i = 0; option_has_choices(row) && option_choice(row, i, word, sizeof(word));
	     i++)
		if (!isupper((unsigned char)*word))
			text_printf(&words, "%s%s", words.length ? " " : "", word);
	while (next_word(&names, word, sizeof(word)))
		text_printf(&words, "%s%s", words.length ? " " : "", word);
	return text_take(&words);
}

/* A help's first clause, which a menu has room for, with a backslash before those of `special`. */
static void print_summary(const char *help, const char *special)
{
	size_t length = 0;

	while (help[length] &&
	       (!strchr(";:.", help[length]) || isalpha((unsigned char)help[length + 1])) &&
	       strncmp(help + length, " (", 2) != 0)
		length++;
	for (size_t i = 0; i < length; i++)
		printf(strchr(special, help[i]) ? "\\%c" : "%c", help[i]);
}

static void print_verb_names(const char *separator)
{
	for (size_t i = 0; i < verb_rows_count; i++)
		printf("%s%s", i ? separator : "", verb_rows[i].name);
}

static void print_bash_value(const struct option_row *row, enum verb verb)
{
	char *words = words_of(row, verb);

	printf("\t%s:--%s", verb_row_of(verb)->name, row->name);
	if (row->letter)
		printf(" | %s:-%c", verb_row_of(verb)->name, row->letter);
	printf(")");
	if (row->complete == COMPLETE_PROCESS)
		printf(" list=$(ps -eo pid=,comm= | awk '{print $1; print $2}')");
	else if (row->complete == COMPLETE_FILE)
		printf(" _filedir; return");
	else
		printf(" list='%s'", words ? words : "");
	puts(" ;;");
	free(words);
}

static void print_bash_verb(const struct verb_row *verb)
{
	printf("\t%s)\n\t\tlist='", verb->name);
	for (size_t i = 0; i < option_rows_count; i++) {
		if (!takes(&option_rows[i], verb->verb))
			continue;
		if (option_rows[i].letter)
			printf("-%c ", option_rows[i].letter);
		printf("--%s ", option_rows[i].name);
	}
	puts("'");
	if (verb->operands == COMPLETE_CAPTURE)
		puts("\t\toperands=1");
	puts("\t\t;;");
}

static void print_bash(void)
{
	printf("# bash completion of perfx-trace\n"
	       "_perfx_trace() {\n"
	       "\tlocal cur prev words cword split verb=%s list='' operands='' i\n"
	       "\t_init_completion -s -n : || return\n"
	       "\tcase ${words[1]} in ",
	       verb_rows->name);
	print_verb_names(" | ");
	puts(") [[ $cword -gt 1 ]] && verb=${words[1]} ;; esac\n"
	     "\tif [[ $verb == run ]]; then\n"
	     "\t\tfor ((i = 2; i < cword; i++)); do\n"
	     "\t\t\t[[ ${words[i]} == -- ]] && _command_offset $((i + 1)) && return\n"
	     "\t\tdone\n"
	     "\tfi\n"
	     "\tcase $verb:$prev in");
	for (size_t i = 0; i < verb_rows_count; i++)
		for (size_t k = 0; k < option_rows_count; k++)
			if (option_rows[k].arg && takes(&option_rows[k], verb_rows[i].verb))
				print_bash_value(&option_rows[k], verb_rows[i].verb);
	puts("\t*) prev='' ;;\n\tesac\n"
	     "\tif [[ -n $prev ]]; then\n"
	     "\t\tmapfile -t COMPREPLY < <(compgen -W \"$list\" -- \"$cur\")\n"
	     "\t\treturn\n"
	     "\tfi\n"
	     "\t$split && return\n"
	     "\tcase $verb in");
	for (size_t i = 0; i < verb_rows_count; i++)
		print_bash_verb(&verb_rows[i]);
	printf("\tesac\n"
	       "\tif [[ $cur != -* ]]; then\n"
	       "\t\tlist=''\n"
	       "\t\t[[ $cword == 1 ]] && list='");
	print_verb_names(" ");
	puts("'\n"
	     "\t\t[[ -n $operands ]] && _filedir '@(perfx|json)' && return\n"
	     "\tfi\n"
	     "\tmapfile -t COMPREPLY < <(compgen -W \"$list\" -- \"$cur\")\n"
	     "} && complete -F _perfx_trace perfx-trace");
}

/* --duration[length of the recording]:TIME: */
static void print_zsh_option(const struct option_row *row, enum verb verb)
{
	char *words = words_of(row, verb);

	for (int spelling = 0; spelling < 2; spelling++) {
		if (!spelling && !row->letter)
			continue;
		printf(" \\\n    \"*%s", spelling ? "--" : "-");
		if (spelling)
			printf("%s[", row->name);
		else
			printf("%c[", row->letter);
		print_summary(row->help, "[]:\"$`\\");
		printf("]");
		if (row->arg)
			printf(":%.*s:", (int)strcspn(row->arg, ":|[,"), row->arg);
		if (row->complete == COMPLETE_FILE)
			printf("_files");
		else if (row->complete == COMPLETE_PROCESS)
			printf("_perfx_trace_processes");
		else if (words && *words)
			printf("(%s)", words);
		printf("\"");
	}
	free(words);
}

static void print_zsh(void)
{
	puts("#compdef perfx-trace\n"
	     "# zsh completion of perfx-trace\n"
	     "_perfx_trace_processes() {\n"
	     "  _alternative 'pids:process:_pids' 'names:name:(${(u)${(f)\"$(ps -eo comm=)\"}})'\n"
	     "}\n"
	     "local -a verbs=(");
	for (size_t i = 0; i < verb_rows_count; i++) {
		printf("  \"%s:", verb_rows[i].name);
		print_summary(verb_rows[i].help, ":\"$`\\");
		puts("\"");
	}
	printf(")\n"
	       "if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n"
	       "  _describe verb verbs\n"
	       "  return\n"
	       "fi\n"
	       "local verb=$words[2]\n"
	       "(( $+verbs[(r)$verb:*] )) || verb=%s\n"
	       "case $verb in\n",
	       verb_rows->name);
	for (size_t i = 0; i < verb_rows_count; i++) {
		printf("%s) _arguments", verb_rows[i].name);
		for (size_t k = 0; k < option_rows_count; k++)
			if (takes(&option_rows[k], verb_rows[i].verb))
				print_zsh_option(&option_rows[k], verb_rows[i].verb);
		if (verb_rows[i].operands == COMPLETE_CAPTURE)
			printf(" \\\n    '*:capture:_files -g \"*.(perfx|json)\"'");
		else if (verb_rows[i].operands == COMPLETE_PROGRAM)
			printf(" \\\n    '*:::program:_normal'");
		else if (verb_rows[i].verb != VERB_HELP)
			printf(" \\\n    '1:verb:'");
		puts(" ;;");
	}
	puts("esac");
}

/* complete -c perfx-trace -n 'condition' -s d -l duration -x -d 'length of the recording' */
static void print_fish_option(const struct option_row *row, const struct verb_row *verb)
{
	char *words = words_of(row, verb->verb);

	printf("complete -c perfx-trace -n '__perfx_trace_verb %s' -l %s", verb->name, row->name);
	if (row->letter)
		printf(" -s %c", row->letter);
	if (row->complete == COMPLETE_FILE)
		printf(" -r -F");
	else if (row->complete == COMPLETE_PROCESS)
		printf(" -x -a '(__fish_complete_pids)'");
	else if (words && *words)
		printf(" -x -a '%s'", words);
	else if (row->arg)
		printf(" -x");
	printf(" -d '");
	print_summary(row->help, "'\\");
	puts("'");
	free(words);
}

static void print_fish(void)
{
	printf("# fish completion of perfx-trace\n"
	       "function __perfx_trace_verb\n"
	       "    set -l words (commandline -opc)\n"
	       "    contains -- \"$words[2]\" ");
	print_verb_names(" ");
	printf("; or set words[2] %s\n"
	       "    test \"$words[2]\" = $argv[1]\n"
	       "end\n"
	       "complete -c perfx-trace -f\n",
	       verb_rows->name);
	for (size_t i = 0; i < verb_rows_count; i++) {
		const struct verb_row *verb = &verb_rows[i];

		printf("complete -c perfx-trace -n __fish_use_subcommand -a %s -d '", verb->name);
		print_summary(verb->help, "'\\");
		puts("'");
		if (verb->operands)
			printf("complete -c perfx-trace -n '__perfx_trace_verb %s' -a '(%s)'\n",
			       verb->name,
			       verb->operands == COMPLETE_PROGRAM
				       ? "__fish_complete_subcommand"
				       : "__fish_complete_suffix .perfx");
		for (size_t k = 0; k < option_rows_count; k++)
			if (takes(&option_rows[k], verb->verb))
				print_fish_option(&option_rows[k], verb);
	}
}

int options_docs(const char *what)
{
	if (!strcmp(what, "man"))
		print_man(stdin);
	else if (!strcmp(what, "bash"))
		print_bash();
	else if (!strcmp(what, "zsh"))
		print_zsh();
	else if (!strcmp(what, "fish"))
		print_fish();
	else
		return EXIT_USAGE;
	return fflush(stdout) ? EXIT_FAILED : EXIT_OK;
}
