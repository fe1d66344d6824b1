/* SPDX-License-Identifier: BSD-2-Clause */
/* Strings: under construction, their parts, the UTF-8 in them, and command lines as one. */
#ifndef PERFX_BASE_TEXT_H
#define PERFX_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* A failure sticks: check once, when the string is taken. All-zero is empty. */
struct text {
	char *data;
	size_t length, capacity;
	bool failed;
};

void text_add(struct text *text, const char *part);
void text_add_bytes(struct text *text, const char *bytes, size_t count);
void text_printf(struct text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_vprintf(struct text *text, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
/* Adds words and a newline, in lines of at most `width` columns that begin at column `left`; the
 * first one has `column` columns already. */
void text_add_wrapped(struct text *text, size_t column, size_t left, size_t width,
		      const char *words);
/* The text so far, borrowed; "" when empty. */
const char *text_peek(const struct text *text);
/* The string, the caller's to free, and the text is empty again. NULL: memory was out. */
char *text_take(struct text *text);
/* 0; -ENOMEM: it failed; -errno. */
int text_write(const struct text *text, FILE *out);
void text_clear(struct text *text);
/* Clears an intermediate text; its failure becomes that of the text made of it. */
void text_finish(struct text *part, bool *failed);

static inline bool begins_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static inline bool ends_with(const char *text, const char *ending)
{
	size_t length = strlen(text), n = strlen(ending);

	return length >= n && !strcmp(text + length - n, ending);
}

/* Only decimal digits, at least one. */
static inline bool text_is_number(const char *text)
{
	return *text && !text[strspn(text, "0123456789")];
}

/* The interpreter of a script, by the suffix of its name: "python3"; NULL: it is no script. */
const char *script_interpreter(const char *path);

/* Takes an ending off, if it has it. */
static inline bool remove_suffix(char *text, const char *ending)
{
	size_t length = strlen(text), n = strlen(ending);

	if (length < n || strcmp(text + length - n, ending) != 0)
		return false;
	text[length - n] = '\0';
	return true;
}

/* Where the next line of a text begins, or its end. */
static inline const char *next_line(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? end + 1 : line + strlen(line);
}

/* The part of a path behind its last slash; all of a path that ends with one. */
static inline const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* Is it in a NULL-terminated list? */
bool text_is_one_of(const char *text, const char *const *list);
/* Does it begin with one of a NULL-terminated list? */
bool text_begins_with_one_of(const char *text, const char *const *prefixes);

/* Does it match one of a NULL-terminated list of patterns, as fnmatch() reads them? */
bool text_matches_one_of(const char *text, const char *const *globs);

#define UTF8_INVALID UINT32_MAX

/* Takes one character and returns its bytes. One byte with *code = UTF8_INVALID where none begins
 * (also for overlong forms, surrogates and codes beyond U+10FFFF); 0 at the end. */
size_t utf8_next(const char *text, uint32_t *code);

/* Adds text with U+FFFD for each byte that is no character: valid for JSON. */
void utf8_repair(struct text *into, const char *text);

/* Columns on a terminal: 2 for wide characters, 0 for combining ones. */
unsigned utf8_width(const char *text);
/* As much of the beginning as fits into `columns`: bytes. *width: its columns. */
size_t utf8_fit(const char *text, unsigned columns, unsigned *width);
/* Adds text, shortened to at most `columns` (≥ 1). A name of code loses its arguments, its
 * library and its outer namespaces before the function's own name is cut in its middle:
 *     …HistEvaluator::EnumerateSplit<…>    …z.(*T).F    convolution_ba…_weight_update */
void utf8_shorten(struct text *into, const char *text, unsigned columns);
/* Shortens any text at its end: "append (train.c:12) ← tr…". It never cuts within a number and its
 * unit: "took 59.3 % of it" becomes "took …". */
void utf8_cut(struct text *into, const char *text, unsigned columns);
/* Adds a name without its arguments and those of templates: "sort<Item*>(int)::{lambda(int)#1}" →
 * "sort<…>(…)::{lambda(int)#1}". */
void name_fold(struct text *into, const char *name);

/* Adds an argument so that a POSIX shell reads it back: plain, or in single quotes. */
void shell_quote(struct text *into, const char *argument);
/* Takes the next word of a quoted command line, as a shell would read it, and returns where the
 * rest begins; NULL when there is none. */
const char *shell_word(struct text *word, const char *line);

#endif
