// SPDX-License-Identifier: BSD-2-Clause
#include "elf/glob.h"

#include "base/grow.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
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
	while (*p && *p != ']')
		p += *p == '\\' && p[1] ? 2 : 1;
	return *p ? p : NULL;
}

static locale_t single_bytes;

static void make_locale(void)
{
	single_bytes = newlocale(LC_CTYPE_MASK, "C", NULL);
}

static bool is_ascii(const char *text)
{
	while (*text > 0)
		text++;
	return !*text;
}

/* A glob of characters that stand for themselves and of stars, as most are. */
static bool stars_match(const char *glob, const char *text)
{
	const char *behind_star = NULL, *from = NULL;

	while (*text) {
		if (*glob == '*') {
			behind_star = ++glob;
			from = text;
		} else if (*glob == *text) {
			glob++;
			text++;
		} else if (behind_star) {
			glob = behind_star;
			text = from = strchr(from + 1, *glob);
			if (!text)
				return false;
		} else {
			return false;
		}
	}
	while (*glob == '*')
		glob++;
	return !*glob;
}

/* In a UTF-8 locale, fnmatch(3) takes twelve times as long: it makes wide characters of both, and
 * the analysis asks about each frame of each stack. */
bool glob_matches(const char *glob, const char *text)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	locale_t old;
	bool matches;

	if (!strpbrk(glob, "?[\\"))
		return stars_match(glob, text);
	pthread_once(&once, make_locale);
	if (!single_bytes || !is_ascii(glob) || !is_ascii(text))
		return !fnmatch(glob, text, 0);
	old = uselocale(single_bytes);
	matches = !fnmatch(glob, text, 0);
	uselocale(old);
	return matches;
}

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

static int expand(struct glob_list *list, const char *glob)
{
	const char *open = glob, *close = NULL, *from, *to;
	int err = 0;

	for (; *open && !close; open = close ? open : step(open))
		close = *open == '{' ? alternatives_end(open) : NULL;
	if (!close) {
		char *copy = list->globs_count < GLOB_ALTERNATIVES_MAX ? strdup(glob) : NULL;

		if (copy && !LIST_ADD(list->globs, copy))
			return 0;
		free(copy);
		return list->globs_count < GLOB_ALTERNATIVES_MAX ? -ENOMEM : -E2BIG;
	}
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
	for (size_t i = 0; i < list->globs_count; i++)
		free(list->globs[i]);
	free(list->globs);
	*list = (struct glob_list){0};
}

/* Words that libiberty's cp-demangle.c and rust-demangle.c print though no name contains them. */
static const char made_up[] =
	" std allocator basic_string string basic_istream istream basic_ostream ostream "
	"basic_iostream iostream char_traits "
	"void wchar_t bool char signed unsigned short int long __int128 float double __float128 "
	"decimal32 decimal64 decimal128 half char8_t char16_t char32_t decltype nullptr nullptr_t "
	"auto bfloat16_t _Float16 _Float32 _Float64 _Float128 _Float32x _Float64x _Float128x "
	"_Complex _Imaginary complex imaginary __vector _Accum _Fract _Sat fixed float16_t "
	"float32_t float64_t float128_t _BitInt boolean byte "
	"const volatile restrict __restrict noexcept throw transaction_safe requires typename "
	"template class enum union struct "
	"operator new delete co_await sizeof alignof typeid gs this true false if for catch try "
	"static_cast dynamic_cast const_cast reinterpret_cast "
	"anonymous namespace lambda unnamed type parm default arg abi clone literal "
	"vtable VTT construction typeinfo name fn non virtual thunk to covariant return guard "
	"variable reference temporary hidden alias transaction TLS init function wrapper "
	"parameter object initializer module in global constructors destructors keyed java Class "
	"i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 str mut dyn impl as unsafe "
	"extern closure shim where u l ul ll ull U L ";

static bool is_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (c & 0x80);
}

/* '$' and bytes above 127 are escaped in Rust; an integer may be written in another way. */
static bool is_verbatim(const char *word, size_t size, bool whole)
{
	char text[64];

	for (size_t i = 0; i < size; i++)
		if (word[i] == '$' || (word[i] & 0x80))
			return false;
	if (isdigit((unsigned char)word[0]))
		return false;
	if (size + 3 > sizeof(text)) /* longer than all that are made up */
		return true;
	snprintf(text, sizeof(text), whole ? " %.*s " : "%.*s", (int)size, word);
	return !strstr(made_up, text);
}

static void drop(struct literal *literal)
{
	free(literal->word);
	free(literal->counted);
}

/* Keeps the longest: they are the rarest. */
static int add(struct literals *literals, const char *word, size_t size, bool whole)
{
	struct literal literal = {.word = strndup(word, size)};
	size_t at = literals->count;

	if (whole && literal.word && asprintf(&literal.counted, "%zu%s", size, literal.word) < 0)
		literal.counted = NULL;
	if (!literal.word || (whole && !literal.counted)) {
		drop(&literal);
		return -ENOMEM;
	}
	while (at > 0 && strlen(literals->items[at - 1].word) < size)
		at--;
	if (at == LITERALS_MAX) {
		drop(&literal);
		return 0;
	}
	if (literals->count == LITERALS_MAX)
		drop(&literals->items[--literals->count]);
	memmove(&literals->items[at + 1], &literals->items[at],
		(literals->count - at) * sizeof(literal));
	literals->items[at] = literal;
	literals->count++;
	return 0;
}

/* Words of a text that the pattern has between two wildcards (or its ends, then fixed). */
static int add_words(struct literals *literals, const char *text, bool fixed_start, bool fixed_end)
{
	const char *p = text, *word;
	int err = 0;

	while (!err && *p) {
		bool whole;

		if (!is_word_char(*p)) {
			p++;
			continue;
		}
		for (word = p; is_word_char(*p);)
			p++;
		whole = (word > text || fixed_start) && (*p || fixed_end);
		if (is_verbatim(word, (size_t)(p - word), whole))
			err = add(literals, word, (size_t)(p - word), whole);
	}
	return err;
}

int literals__of_glob(struct literals *literals, const char *glob)
{
	char *run = malloc(strlen(glob) + 1);
	bool fixed_start = true;
	size_t size = 0;
	int err = 0;

	*literals = (struct literals){0};
	if (!run)
		return -ENOMEM;
	for (;;) {
		const char *set = *glob == '[' ? glob_set_end(glob) : NULL;

		if (!*glob || *glob == '*' || *glob == '?' || set) {
			run[size] = '\0';
			err = add_words(literals, run, fixed_start, !*glob);
			if (err || !*glob)
				break;
			size = 0;
			fixed_start = false;
			glob = set ? set + 1 : glob + 1;
		} else {
			glob += *glob == '\\' && glob[1];
			run[size++] = *glob++;
		}
	}
	free(run);
	if (err)
		literals__clear(literals);
	return err;
}

/* p is at '[' of an expression: behind its ']', past [:alpha:] and the like. */
static const char *skip_set(const char *p)
{
	p++;
	p += *p == '^';
	p += *p == ']';
	while (*p && *p != ']') {
		const char close[] = {p[0] == '[' ? p[1] : '\0', ']', '\0'};
		const char *end = close[0] && strchr(":.=", close[0]) ? strstr(p + 2, close) : NULL;

		p = end ? end + 2 : p + 1;
	}
	return p + (*p == ']');
}

/* p is at '(' of an expression: behind the ')' that closes it. */
static const char *skip_group(const char *p)
{
	size_t depth = 0;

	while (*p) {
		if (*p == '[') {
			p = skip_set(p);
			continue;
		}
		if (*p == '(')
			depth++;
		else if (*p == ')' && --depth == 0)
			return p + 1;
		p += *p == '\\' && p[1] ? 2 : 1;
	}
	return p;
}

/* '$' is an anchor here. */
static bool is_ere_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Words outside of parentheses are in every match if the expression has no other alternatives. */
int literals__of_ere(struct literals *literals, const char *ere)
{
	int err = 0;

	*literals = (struct literals){0};
	while (!err && *ere) {
		size_t size = 0, kept;

		if (*ere == '|') {
			/* alternatives outside parentheses: no word is in every match */
			literals__clear(literals);
			return 0;
		}
		if (*ere == '(') {
			ere = skip_group(ere);
		} else if (*ere == '[') {
			ere = skip_set(ere);
		} else if (*ere == '{') {
			ere += strcspn(ere, "}");
		} else if (!is_ere_word(*ere)) {
			ere += *ere == '\\' && ere[1] ? 2 : 1;
		} else {
			while (is_ere_word(ere[size]))
				size++;
			/* "ab*" needs no b */
			kept = size - (strchr("*?{", ere[size]) && ere[size]);
			if (kept && is_verbatim(ere, kept, false))
				err = add(literals, ere, kept, false);
			ere += size;
		}
	}
	if (err)
		literals__clear(literals);
	return err;
}

#define GROUP_DEPTH_MAX 50

/* p is at '{' of "{3}", "{3,}" or "{3,5}". */
static double max_copies(const char *p)
{
	const char *comma = p + strcspn(p, ",}");
	double from = (double)strtoul(p + 1, NULL, 10);
	double to = *comma == ',' ? (double)strtoul(comma + 1, NULL, 10) : 0;

	return from > to ? from : to;
}

/* Moves p to the ')' that closes the group, or to the end. */
static double count_nodes(const char **p, unsigned depth)
{
	double sum = 0, item = 0; /* item: what a repeat behind it copies */

	if (depth > GROUP_DEPTH_MAX)
		return HUGE_VAL;
	while (**p && (!depth || **p != ')')) {
		char c = **p;

		*p = c == '[' ? skip_set(*p) : *p + (c == '\\' && (*p)[1] ? 2 : 1);
		if (c == '+') {
			item *= 2;
		} else if (c == '{') {
			item *= 1 + max_copies(*p - 1);
			*p += strcspn(*p, "}");
		} else if (!strchr("*?", c)) {
			sum += item;
			item = 1;
		}
		if (c == '(') {
			item += count_nodes(p, depth + 1);
			*p += **p == ')';
		}
	}
	return sum + item;
}

double ere_nodes(const char *ere)
{
	return count_nodes(&ere, 0);
}

void literals__clear(struct literals *literals)
{
	for (size_t i = 0; i < literals->count; i++)
		drop(&literals->items[i]);
	literals->count = 0;
}

bool literals__may_match(const struct literals *literals, const char *symbol_name)
{
	for (size_t i = 0; i < literals->count; i++)
		if (!strstr(symbol_name, literals->items[i].word))
			return false;
	return true;
}

bool literals__may_match_demangled(const struct literals *literals, const char *symbol_name)
{
	/* Rust's two forms count differently ('$' and ".." escapes, '_' behind the number), and
	 * compiler suffixes (.cold) do not */
	if (symbol_name[0] != '_' || symbol_name[1] != 'Z' || strpbrk(symbol_name, "$."))
		return true;
	for (size_t i = 0; i < literals->count; i++)
		if (literals->items[i].counted && !strstr(symbol_name, literals->items[i].counted))
			return false;
	return true;
}
