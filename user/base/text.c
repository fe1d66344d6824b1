// SPDX-License-Identifier: BSD-2-Clause
#include "base/text.h"

#include "base/grow.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_add_bytes(struct text *text, const char *bytes, size_t count)
{
	if (text->failed)
		return;
	if (grow_array(&text->data, &text->capacity, text->length + count + 1, 1)) {
		text->failed = true;
		return;
	}
	memcpy(text->data + text->length, bytes, count);
	text->length += count;
	text->data[text->length] = '\0';
}

void text_add(struct text *text, const char *part)
{
	text_add_bytes(text, part, strlen(part));
}

void text_vprintf(struct text *text, const char *fmt, va_list ap)
{
	char small[256], *large = NULL;
	va_list again;
	int length;

	va_copy(again, ap);
	length = vsnprintf(small, sizeof(small), fmt, ap);
	if (length >= (int)sizeof(small))
		length = vasprintf(&large, fmt, again);
	va_end(again);
	if (length < 0)
		text->failed = true;
	else
		text_add_bytes(text, large ? large : small, (size_t)length);
	free(large);
}

void text_printf(struct text *text, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	text_vprintf(text, fmt, ap);
	va_end(ap);
}

/* Columns of a word of plain text: its bytes but for those that continue a character. */
static size_t word_columns(const char *word, size_t length)
{
	size_t columns = 0;

	for (size_t i = 0; i < length; i++)
		columns += (word[i] & 0xc0) != 0x80;
	return columns;
}

void text_add_wrapped(struct text *text, size_t column, size_t left, size_t width,
		      const char *words)
{
	if (left && column + 2 > left) {
		text_add(text, "\n");
		column = 0;
	}
	text_printf(text, "%*s", (int)(left - column), "");
	column = left;
	while (*words) {
		size_t length = strcspn(words, " "), columns = word_columns(words, length);

		if (column > left && column + 1 + columns > width) {
			text_printf(text, "\n%*s", (int)left, "");
			column = left;
		} else if (column > left) {
			text_add(text, " ");
			column++;
		}
		text_add_bytes(text, words, length);
		column += columns;
		words += length + strspn(words + length, " ");
	}
	text_add(text, "\n");
}

const char *text_peek(const struct text *text)
{
	return text->length ? text->data : "";
}

char *text_take(struct text *text)
{
	char *data = NULL;

	if (!text->failed && !text->data)
		text_add(text, "");
	if (!text->failed) {
		data = text->data;
		text->data = NULL;
	}
	text_clear(text);
	return data;
}

int text_write(const struct text *text, FILE *out)
{
	if (text->failed)
		return -ENOMEM;
	if (fwrite(text_peek(text), 1, text->length, out) != text->length)
		return errno ? -errno : -EIO;
	return 0;
}

void text_clear(struct text *text)
{
	free(text->data);
	*text = (struct text){0};
}

void text_finish(struct text *part, bool *failed)
{
	*failed |= part->failed;
	text_clear(part);
}

const char *script_interpreter(const char *path)
{
	const char *ending = strrchr(path, '.');

	if (!ending || (strcmp(ending, ".py") != 0 && strcmp(ending, ".sh") != 0))
		return NULL;
	return ending[1] == 'p' ? "python3" : "bash";
}

bool text_is_one_of(const char *text, const char *const *list)
{
	for (; *list; list++)
		if (strcmp(text, *list) == 0)
			return true;
	return false;
}

bool text_begins_with_one_of(const char *text, const char *const *prefixes)
{
	for (; *prefixes; prefixes++)
		if (begins_with(text, *prefixes))
			return true;
	return false;
}

bool text_matches_one_of(const char *text, const char *const *globs)
{
	for (; *globs; globs++)
		if (!fnmatch(*globs, text, 0))
			return true;
	return false;
}

/* Bytes of the sequence that the first byte promises; 0: it is none. */
static size_t sequence_bytes(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first <= 0xdf)
		return 2;
	if (first >= 0xe0 && first <= 0xef)
		return 3;
	if (first >= 0xf0 && first <= 0xf4)
		return 4;
	return 0;
}

size_t utf8_next(const char *text, uint32_t *code)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *s = (const unsigned char *)text;
	size_t count = sequence_bytes(s[0]);
	uint32_t value;

	*code = UTF8_INVALID;
	if (!s[0])
		return 0;
	if (!count)
		return 1;
	value = count == 1 ? s[0] : s[0] & (0x7fu >> count);
	for (size_t i = 1; i < count; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 1;
		value = value << 6 | (s[i] & 0x3f);
	}
	if (value < smallest[count] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
		return 1;
	*code = value;
	return count;
}

void utf8_repair(struct text *into, const char *text)
{
	uint32_t code;
	size_t count;

	for (; (count = utf8_next(text, &code)); text += count) {
		if (code == UTF8_INVALID)
			text_add(into, "\xef\xbf\xbd");
		else
			text_add_bytes(into, text, count);
	}
}

struct range {
	uint32_t first, last;
};

static bool in_ranges(uint32_t code, const struct range *ranges, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (code >= ranges[i].first && code <= ranges[i].last)
			return true;
	}
	return false;
}

/* The larger blocks of Unicode 15's East Asian Width W and F, and of the categories Mn and Cf; good
 * enough to keep columns straight, without a locale. */
static unsigned code_width(uint32_t code)
{
	static const struct range none[] = {{0x300, 0x36f},   {0x483, 0x489},	{0x591, 0x5bd},
					    {0x610, 0x61a},   {0x64b, 0x65f},	{0x1ab0, 0x1aff},
					    {0x1dc0, 0x1dff}, {0x200b, 0x200f}, {0x20d0, 0x20ff},
					    {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};
	static const struct range wide[] = {
		{0x1100, 0x115f},   {0x2e80, 0x303e},	{0x3041, 0xa4cf},   {0xa960, 0xa97c},
		{0xac00, 0xd7a3},   {0xf900, 0xfaff},	{0xfe30, 0xfe6f},   {0xff00, 0xff60},
		{0xffe0, 0xffe6},   {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff},
		{0x20000, 0x3fffd},
	};

	if (code < 0x300)
		return 1;
	if (in_ranges(code, none, sizeof(none) / sizeof(none[0])))
		return 0;
	return in_ranges(code, wide, sizeof(wide) / sizeof(wide[0])) ? 2 : 1;
}

size_t utf8_fit(const char *text, unsigned columns, unsigned *width)
{
	size_t used = 0, count;
	uint32_t code;

	for (*width = 0; (count = utf8_next(text + used, &code)); used += count) {
		unsigned w = code == UTF8_INVALID ? 1 : code_width(code);

		if (*width + w > columns)
			break;
		*width += w;
	}
	return used;
}

unsigned utf8_width(const char *text)
{
	unsigned width;

	utf8_fit(text, UINT32_MAX - 2, &width);
	return width;
}

/* Where the text's last `columns` columns begin. */
static const char *tail_of(const char *text, unsigned columns)
{
	unsigned width = utf8_width(text), head;
	size_t used;
	uint32_t code;

	used = utf8_fit(text, width - columns, &head);
	/* a wide character across the cut, or combining ones of the part that is cut off */
	if (head < width - columns)
		used += utf8_next(text + used, &code);
	return text + used;
}

/* All of it where it fits; nothing where nothing does. Returns whether that is all. */
static bool added_whole(struct text *into, const char *text, unsigned columns)
{
	bool fits = utf8_width(text) <= columns;

	if (fits)
		text_add(into, text);
	return fits || columns == 0;
}

/* Behind "operator": "<<", "()", "->" */
static size_t operator_length(const char *name)
{
	return begins_with(name, "()") || begins_with(name, "[]") ? 2 : strspn(name, "<>=-");
}

/* Is the bracket the last one of a function's arguments? Not in "enumerate(DataLoader)#next". */
static bool ends_function(const char *bracket)
{
	unsigned depth = 0;

	for (const char *p = bracket; *p; p++) {
		depth += *p == '(';
		depth -= *p == ')';
		if (!depth)
			return !p[1] || p[1] == ' ' || p[1] == ':';
	}
	return false;
}

/* Not those of "<T as Trait>", "(anonymous namespace)", "(*T)" and "()", nor a place behind a name.
 */
static bool begins_arguments(const char *name, const char *bracket)
{
	char before = bracket > name ? bracket[-1] : '\0';
	bool is_name = isalnum((unsigned char)before) || before == '_';

	if (*bracket == '<')
		return is_name || before == ' ';
	return *bracket == '(' && bracket[1] != ')' && (is_name || before == '>') &&
	       ends_function(bracket);
}

void name_fold(struct text *into, const char *name)
{
	unsigned depth = 0;

	for (const char *p = name; *p; p++) {
		size_t length = 0;

		if (begins_with(p, "operator"))
			length = strlen("operator") + operator_length(p + strlen("operator"));
		if (!depth && length)
			text_add_bytes(into, p, length);
		if (length) {
			p += length - 1;
			continue;
		}
		if (depth ? strchr("<(", *p) != NULL : begins_arguments(name, p)) {
			if (!depth++)
				text_add(into, *p == '<' ? "<…>" : "(…)");
		} else if (depth && (*p == ')' || (*p == '>' && p[-1] != '-'))) {
			depth--;
		} else if (!depth) {
			text_add_bytes(into, p, 1);
		}
	}
}

/* Names that mean nothing without their scope: "mm::call", "work::{{closure}}". */
static bool is_generic(const char *name)
{
	static const char *const names[] = {"call",   "call_once",  "call_mut", "run",
					    "invoke", "operator()", NULL};
	size_t length = strcspn(name, " <:");

	for (size_t i = 0; names[i]; i++)
		if (strlen(names[i]) == length && !strncmp(name, names[i], length))
			return true;
	return *name == '{';
}

/* The length of a separator behind a namespace: in C++ and Rust, in Go's paths, in Python. */
static size_t separator_length(const char *text)
{
	static const char *const separators[] = {"::", "/", ".<locals>."};

	for (size_t i = 0; i < sizeof(separators) / sizeof(separators[0]); i++)
		if (begins_with(text, separators[i]))
			return strlen(separators[i]);
	return 0;
}

/* The function's own name begins behind all namespaces. NULL: it begins here. */
static const char *behind_namespace(const char *name)
{
	unsigned depth = 0;

	for (const char *p = name; *p && (depth || *p != ' '); p++) {
		size_t length = depth ? 0 : separator_length(p);

		if (length)
			return p[length] && !is_generic(p + length) ? p + length : NULL;
		if (begins_with(p, "operator"))
			return NULL;
		depth += strchr("<({[", *p) != NULL;
		depth -= depth && strchr(">)}]", *p);
	}
	return NULL;
}

/* A library and a compiler's remark behind a name say less than it: "f [.omp_fn.0] (libf.so)". A
 * source line stays. */
static void drop_library(struct text *text)
{
	const char *name = text_peek(text), *place = strrchr(name, '(');
	const char *remark = strstr(name, " [."), *end = NULL;

	if (place > name && place[-1] == ' ' && ends_with(name, ")"))
		end = place - 1;
	if (end && strchr(place, ':'))
		return;
	if (remark)
		end = remark;
	if (!end)
		return;
	text->length = (size_t)(end - name);
	text->data[text->length] = '\0';
}

/* As much of the name as fits, but at least the function's own. */
static const char *without_namespaces(const char *name, unsigned columns)
{
	const char *next;

	while (utf8_width(name) + 1 > columns && (next = behind_namespace(name)))
		name = next;
	return name;
}

static void shorten_in_middle(struct text *into, const char *text, unsigned columns)
{
	unsigned width;

	if (added_whole(into, text, columns))
		return;
	/* overloads and `::call` differ at the end: it gets the odd column */
	text_add_bytes(into, text, utf8_fit(text, (columns - 1) / 2, &width));
	text_add(into, "…");
	text_add(into, tail_of(text, columns - 1 - (columns - 1) / 2));
}

void utf8_shorten(struct text *into, const char *text, unsigned columns)
{
	struct text folded = {0}, shown = {0};
	const char *name, *own;

	if (added_whole(into, text, columns))
		return;
	name_fold(&folded, text);
	name = text_peek(&folded);
	if (utf8_width(name) > columns)
		drop_library(&folded);
	own = utf8_width(name) > columns ? without_namespaces(name, columns) : name;
	text_printf(&shown, "%s%s", own > name ? "…" : "", own);
	shorten_in_middle(into, text_peek(&shown), columns);
	text_finish(&folded, &into->failed);
	text_finish(&shown, &into->failed);
}

#define UNIT_MAX 12 /* bytes of a unit: "GFLOP/s", "ring_drops" */

/* The end of a number that begins here, with its unit: "16.4 ms", "0x7f12", "5 %". */
static const char *end_of_number(const char *number)
{
	static const char of_numbers[] = "0123456789.,abcdefghijklmnopqrstuvwxyz";
	const char *end = number + strspn(number, of_numbers);
	size_t unit = *end == ' ' ? strcspn(end + 1, " ,;:)") : 0;

	return unit && unit <= UNIT_MAX ? end + 1 + unit : end;
}

/* The length, or less so that it does not end within a number. */
static size_t without_part_of_number(const char *text, size_t length)
{
	for (size_t i = 0; i < length;) {
		const char *end = text + i + 1;
		bool is_number = isdigit((unsigned char)text[i]);

		if (is_number && (!i || !isalnum((unsigned char)text[i - 1])))
			end = end_of_number(text + i);
		if (end > text + length ||
		    (is_number && end == text + length && isdigit((unsigned char)end[-1])))
			return i;
		i = (size_t)(end - text);
	}
	return length;
}

void utf8_cut(struct text *into, const char *text, unsigned columns)
{
	unsigned width;
	size_t fitting;

	if (added_whole(into, text, columns))
		return;
	fitting = utf8_fit(text, columns - 1, &width);
	text_add_bytes(into, text, without_part_of_number(text, fitting));
	text_add(into, "…");
}

static const char plain_characters[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

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

/* Takes the text between quotes, which begins at p; returns the place behind the closing one. */
static const char *read_quoted(struct text *word, const char *p, char quote)
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
			line = read_quoted(word, line + 1, *line);
			continue;
		}
		if (*line == '\\' && line[1])
			line++;
		text_add_bytes(word, line++, 1);
	}
	return line;
}
