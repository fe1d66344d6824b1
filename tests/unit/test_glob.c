// SPDX-License-Identifier: BSD-2-Clause
#include "elf/glob.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool matches(const char *glob, const char *text)
{
	struct glob_list list;
	bool found = false;

	cr_assert_eq(glob_list__expand(&list, glob), 0, "%s", glob);
	for (size_t i = 0; i < list.count; i++)
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
		{"x[", "x[", true},
		{"operator[]", "operator[]", true},
		{"\\*", "*", true},
		{"\\*", "a", false},
		{"a\\", "a\\", true},
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

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		cr_expect_eq(matches(rows[i].glob, rows[i].text), rows[i].wanted, "%s on %s",
			     rows[i].glob, rows[i].text);
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
	cr_expect_eq(list.count, 1024);
	glob_list__clear(&list);
	cr_expect_eq(glob_list__expand(
			     &list, "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"),
		     -E2BIG);
	cr_expect_eq(list.count, 0);
}
