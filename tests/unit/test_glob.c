// SPDX-License-Identifier: BSD-2-Clause
#include "elf/glob.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fnmatch.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

static bool matches(const char *glob, const char *text)
{
	struct glob_list list;
	bool found = false;

	cr_assert_eq(glob_list__expand(&list, glob), 0, "%s", glob);
	for (size_t i = 0; i < list.globs_count; i++)
		found = found || glob_matches(list.globs[i], text);
	glob_list__clear(&list);
	return found;
}

Test(glob, table)
{
	static const struct {
		const char *glob, *text;
		bool wanted;
	} rows[] = {
		{"malloc", "malloc", true},
		{"malloc", "mallocx", false},
		{"malloc", "xmalloc", false},
		{"*", "", true},
		{"*", "a::b", true},
		{"?", "", false},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"a??b", "a::b", true},
		{"a*b*c", "a.b.b.c", true},
		{"a*b*c", "a.c.b", false},
		{"*::call", "at::_ops::mm::call", true},
		{"*::call", "at::_ops::mm::callx", false},
		{"**a", "ba", true},
		{"[ab]c", "bc", true},
		{"[ab]c", "cc", false},
		{"[a-c]x", "bx", true},
		{"[a-c]x", "dx", false},
		{"[!a-c]x", "dx", true},
		{"[^a-c]x", "bx", false},
		{"[]]", "]", true},
		{"[a-]", "-", true},
		{"[\\]]", "]", true},
		{"[\\]a-c]x", "bx", true},
		{"[!é-ö]", "ë", false},
		{"?b", "éb", true},
		{"x[", "x[", true},
		{"operator[]", "operator[]", true},
		{"\\*", "*", true},
		{"\\*", "a", false},
		{"a\\\\", "a\\", true},
		{"{mm,addmm}::x", "mm::x", true},
		{"{mm,addmm}::x", "addmm::x", true},
		{"{mm,addmm}::x", "bmm::x", false},
		{"a{,b}c", "ac", true},
		{"a{,b}c", "abc", true},
		{"{a,b{c,d}}e", "bde", true},
		{"{a,b{c,d}}e", "be", false},
		{"{a,b}{c,d}", "bc", true},
		{"{a*,b}c", "axxc", true},
		{"{a,[,}]}x", "}x", true},
		{"{lambda(int, int)#1}", "{lambda(int, int)#1}", true},
		{"{lambda(int, int)#1}", "lambda(int", false},
		{"{}", "{}", true},
		{"{a", "{a", true},
		{"a}", "a}", true},
		{"\\{a,b}", "{a,b}", true},
		{"{a{b,c}}", "{ac}", true},
	};

	setlocale(LC_CTYPE, "C.UTF-8"); /* as a user has */
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		cr_expect_eq(matches(rows[i].glob, rows[i].text), rows[i].wanted, "%s on %s",
			     rows[i].glob, rows[i].text);
}

/* The n-th word of these letters; false: it would be longer. */
static bool word(char *to, size_t longest, const char *letters, unsigned n)
{
	size_t count = strlen(letters), length = 0;

	for (; n && length < longest; n = (n - 1) / (unsigned)count)
		to[length++] = letters[(n - 1) % count];
	to[length] = '\0';
	return !n;
}

Test(glob, stars_match_as_fnmatch)
{
	char glob[6], text[7];

	for (unsigned i = 0; word(glob, 5, "ab*", i); i++)
		for (unsigned j = 0; word(text, 6, "ab", j); j++)
			cr_assert_eq(glob_matches(glob, text), !fnmatch(glob, text, 0), "%s on %s",
				     glob, text);
}

/* Backtracking over every star would take longer than the universe. */

Test(glob, many_stars, .timeout = 5)
{
	char text[4001];

	memset(text, 'a', 4000);
	text[4000] = '\0';
	cr_expect_not(glob_matches("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text));
}

Test(glob, too_many_alternatives, .timeout = 5)
{
	struct glob_list list;

	cr_expect_eq(glob_list__expand(&list, "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"),
		     0);
	cr_expect_eq(list.globs_count, 1024);
	glob_list__clear(&list);
	cr_expect_eq(glob_list__expand(
			     &list, "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"),
		     -E2BIG);
	cr_expect_eq(list.globs_count, 0);
}

/* The words as "word counted-form word …", longest first. */
static char words_text[512];

static const char *words(struct literals *literals)
{
	char *text = words_text;

	text[0] = '\0';
	for (size_t i = 0; i < literals->count; i++) {
		if (i)
			strcat(text, " ");
		strcat(text, literals->items[i].word);
		if (literals->items[i].counted) {
			strcat(text, "/");
			strcat(text, literals->items[i].counted);
		}
	}
	literals__clear(literals);
	return text;
}

Test(literal, globs)
{
	static const struct {
		const char *glob, *words;
	} rows[] = {
		{"malloc", "malloc/6malloc"},
		{"*", ""},
		{"at::_ops::addmm*::call", "addmm _ops/4_ops call/4call at/2at"},
		{"*addmm*", "addmm"},
		{"foo?bar", "foo bar"},
		{"foo[ab]barx", "barx foo"},
		{"a\\*b::cd", "cd/2cd a/1a b/1b"},
		/* made up by the demangler: as a part, or as the whole */
		{"std::*", ""},
		{"*string*", ""},
		{"string_view::*", "string_view/11string_view"},
		{"*ring*", ""},
		{"ring::*", "ring/4ring"},
		{"*::operator new", ""},
		{"(anonymous namespace)::go", "go/2go"},
		{"*lambda*", ""},
		/* numbers, escapes of Rust */
		{"f<12>::$_0::call", "call/4call f/1f"},
		{"a<1ul>", "a/1a"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct literals literals;

		cr_assert_eq(literals__of_glob(&literals, rows[i].glob), 0);
		cr_expect_str_eq(words(&literals), rows[i].words, "%s: %s", rows[i].glob,
				 words_text);
	}
}

Test(literal, expressions)
{
	static const struct {
		const char *ere, *words;
	} rows[] = {
		{"^at::_ops::(mm|addmm)::call$", "_ops call"},
		{"foo_x|bar_x", ""},
		{"(foo|bar)_gemm", "_gemm"},
		{"gemmx*", "gemm"},
		{"gemmx?", "gemm"},
		{"gemmx{0,2}yz1", "gemm yz1"},
		{"gemmx+", "gemmx"},
		{"ab[[:digit:]_xyz]+gemm", "gemm"},
		{"(a(gemm|b)c)*", ""},
		{"gemm\\.yz1", "gemm yz1"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct literals literals;

		cr_assert_eq(literals__of_ere(&literals, rows[i].ere), 0);
		cr_expect_str_eq(words(&literals), rows[i].words, "%s: %s", rows[i].ere,
				 words_text);
	}
}

Test(literal, keeps_the_longest)
{
	struct literals literals;

	cr_assert_eq(literals__of_glob(&literals, "xa*xbb*xccc*xdddd*xeeeee*xffffff*xggggggg"), 0);
	cr_expect_str_eq(words(&literals), "xggggggg xffffff xeeeee xdddd xccc xbb");
}

Test(literal, filters)
{
	struct literals literals;

	cr_assert_eq(literals__of_glob(&literals, "at::*::call"), 0);
	cr_expect(literals__may_match(&literals, "_ZN2at4_ops2mm4callERKNS_6TensorES4_"));
	cr_expect(literals__may_match_demangled(&literals, "_ZN2at4_ops2mm4callERKNS_6TensorES4_"));
	cr_expect_not(literals__may_match(&literals, "_ZN2at4_ops2mm10redispatchEv"));
	/* both words are there, neither as an identifier of its own */
	cr_expect(literals__may_match(&literals, "_ZN4data6callerEv"));
	cr_expect_not(literals__may_match_demangled(&literals, "_ZN4data6callerEv"));
	/* Rust hides its counts, suffixes have none */
	cr_expect(literals__may_match_demangled(&literals, "_ZN24_$LT$at..X$u20$as$u20$call$GT$E"));
	cr_expect(literals__may_match_demangled(&literals, "_RNvC4_call2at"));
	cr_expect(literals__may_match_demangled(&literals, "_ZN2at1fEv.call.0"));
	literals__clear(&literals);
}
