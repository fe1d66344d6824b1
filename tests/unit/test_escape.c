// SPDX-License-Identifier: BSD-2-Clause
#include "base/escape.h"
#include "base/text.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

struct escaped {
	const char *from, *to;
};

static void check_all(void (*escape)(struct text *, const char *), const struct escaped *rows,
		      size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct text text = {0};

		escape(&text, rows[i].from);
		cr_expect_str_eq(text_peek(&text), rows[i].to, "%s", text_peek(&text));
		text_clear(&text);
	}
}

#define CHECK(escape, ...)                                               \
	do {                                                             \
		static const struct escaped rows[] = {__VA_ARGS__};      \
                                                                         \
		check_all(escape, rows, sizeof(rows) / sizeof(rows[0])); \
	} while (0)

Test(escape, display)
{
	CHECK(escape_display, {"", ""}, {"plain ö 日本 😀", "plain ö 日本 😀"},
	      {"a\x1b[31m\x07\n\t\r", "a\\x1b[31m\\x07\\x0a\\x09\\x0d"}, {"\x7f", "\\x7f"},
	      {"\x0e\x0f", "\\x0e\\x0f"},
	      /* C1 controls, a lone continuation, cut, overlong, surrogate, beyond the last */
	      {"\xc2\x9b", "\\xc2\\x9b"}, {"\x80", "\\x80"}, {"\xe2\x82", "\\xe2\\x82"},
	      {"\xc0\xaf", "\\xc0\\xaf"}, {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
	      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
	      /* right-to-left override, zero width space, isolate, byte order mark, tag, line
	       * separator, soft hyphen */
	      {"\xe2\x80\xae", "\\xe2\\x80\\xae"}, {"\xe2\x80\x8b", "\\xe2\\x80\\x8b"},
	      {"\xe2\x81\xa6", "\\xe2\\x81\\xa6"}, {"\xef\xbb\xbf", "\\xef\\xbb\\xbf"},
	      {"\xf3\xa0\x81\x81", "\\xf3\\xa0\\x81\\x81"}, {"\xe2\x80\xa8", "\\xe2\\x80\\xa8"},
	      {"\xc2\xad", "\\xc2\\xad"});
}

Test(escape, markdown)
{
	CHECK(escape_markdown, {"62.1 % of 10.0 s (pid 42)", "62.1 % of 10.0 s (pid 42)"},
	      {"<b>&amp;", "&lt;b&gt;&amp;amp;"}, {"a|b", "a&#124;b"}, {"`x`", "\\`x\\`"},
	      {"*a* _b_ ~c~ $d$", "\\*a\\* \\_b\\_ \\~c\\~ \\$d\\$"}, {"a_b", "a_b"},
	      {"[x](y)", "\\[x\\](y)"}, {"# x", "\\# x"}, {"- x", "\\- x"}, {"-", "-"},
	      {"a - b", "a - b"}, {"@someone", "@<!-- -->someone"}, {"http://x", "http&#58;//x"},
	      {"a\nb", "a b"}, {"a\\b", "a\\\\b"});
}

Test(escape, markdown_code)
{
	CHECK(escape_markdown_code, {"", ""}, {"at::mm<T>*", "`at::mm<T>*`"}, {"a\\b", "`a\\b`"},
	      {"a|b", "<code>a&#124;b</code>"}, {"a`b", "<code>a&#96;b</code>"},
	      {" a ", "<code> a </code>"}, {"<i>|", "<code>&#60;i&#62;&#124;</code>"});
}

Test(escape, sentences)
{
	CHECK(escape_markdown_sentence,
	      {"spent 1 % in \x0egemm<*>\x0f (2 calls)", "spent 1 % in `gemm<*>` (2 calls)"},
	      {"\x0e"
	       "a|b\x0f",
	       "<code>a&#124;b</code>"},
	      {"plain *", "plain \\*"}, {"", ""}, {"\x0eopen", "`open`"});
	CHECK(escape_unmarked, {"in \x0egemm\x0f.", "in gemm."}, {"", ""}, {"x", "x"});
	CHECK(escape_name, {"a\x0f"
			    "b",
			    "\x0e"
			    "a\\x0f"
			    "b\x0f"});
}

Test(utf8, repair)
{
	CHECK(utf8_repair, {"ö\xff", "ö\xef\xbf\xbd"}, {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
	      {"\n\x1b", "\n\x1b"});
}

Test(utf8, width)
{
	static const struct {
		const char *text;
		unsigned width;
	} rows[] = {{"", 0},	      {"abc", 3}, {"äµ…", 3}, {"日本", 4},
		    {"e\xcc\x81", 1}, {"😀", 2},	  {"\xff", 1}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_eq(utf8_width(rows[i].text), rows[i].width, "%s", rows[i].text);
}

Test(utf8, shorten)
{
	static const struct {
		const char *text;
		unsigned columns;
		const char *to;
	} rows[] = {
		{"abcdefgh", 8, "abcdefgh"},
		{"abcdefgh", 7, "abc…fgh"},
		{"abcdefgh", 6, "ab…fgh"},
		{"abcdefgh", 2, "…h"},
		{"abcdefgh", 1, "…"},
		{"abcdefgh", 0, ""},
		{"日本語日本語", 7, "日…語"},
		/* names of code keep the function's own name longest */
		{"xgboost::tree::HistEvaluator::EnumerateSplit<1> (libxgboost.so)", 50,
		 "xgboost::tree::HistEvaluator::EnumerateSplit<…>"},
		{"xgboost::tree::HistEvaluator::EnumerateSplit<1> (libxgboost.so)", 40,
		 "…tree::HistEvaluator::EnumerateSplit<…>"},
		{"common::Kernel<false, Manager<true> > [.omp_fn.0] (libx.so)", 16, "…Kernel<…>"},
		{"f(int, long)::{lambda(long)#1}::operator()", 34,
		 "f(…)::{lambda(long)#1}::operator()"},
		{"at::native::f (Blas.cpp:190)", 24, "…f (Blas.cpp:190)"},
		{"core::ops::function::FnOnce::call_once", 24, "…FnOnce::call_once"},
		{"github.com/x/y/z.(*T).F", 12, "…y/z.(*T).F"},
		{"train.<locals>.step", 12, "…step"},
		{"std::ostream::operator<< <char>", 20, "…operator<< <…>"},
		{"enumerate(DataLoader)#next", 24, "enumerate(D…Loader)#next"},
		{"(anonymous namespace)::f", 10, "…f"},
		{"gomp_barrier_wait_end (libgomp.so.1)", 24, "gomp_barrier_wait_end"},
		{"Trainer.train (trainer.py:12)", 20, "Trainer.t…ner.py:12)"},
		/* brackets without an end */
		{"f<<<<((<(", 4, "f<…>"},
		{"f((((", 4, "f…(("},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct text text = {0};

		utf8_shorten(&text, rows[i].text, rows[i].columns);
		cr_expect_str_eq(text_peek(&text), rows[i].to, "%u: %s", rows[i].columns,
				 text_peek(&text));
		text_clear(&text);
	}
}

Test(utf8, a_number_is_never_cut)
{
	static const struct {
		unsigned columns;
		const char *to;
	} rows[] = {
		{80, "6.92 ms of each 16.4 ms step, 613 steps (a.py:112)"},
		{45, "6.92 ms of each 16.4 ms step, 613 steps (a.p…"},
		{48, "6.92 ms of each 16.4 ms step, 613 steps (a.py:…"},
		{38, "6.92 ms of each 16.4 ms step, …"},
		{32, "6.92 ms of each 16.4 ms step, …"},
		{24, "6.92 ms of each 16.4 ms…"},
		{23, "6.92 ms of each …"},
		{18, "6.92 ms of each …"},
		{8, "6.92 ms…"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct text text = {0};

		utf8_cut(&text, rows[0].to, rows[i].columns);
		cr_expect_str_eq(text_peek(&text), rows[i].to, "%u: %s", rows[i].columns,
				 text_peek(&text));
		text_clear(&text);
	}
}

/* Whatever the bytes: what is displayed has no control character and is UTF-8; what is shortened
 * fits. */
Test(utf8, garbage)
{
	srand(2);
	for (int i = 0; i < 20000; i++) {
		char bytes[40];
		size_t length = (size_t)rand() % sizeof(bytes);
		struct text shown = {0}, fitted = {0};
		unsigned columns = (unsigned)rand() % 20;
		uint32_t code;
		size_t count;

		for (size_t j = 0; j < length; j++)
			bytes[j] = (char)(1 + rand() % 255);
		bytes[length < sizeof(bytes) ? length : sizeof(bytes) - 1] = '\0';
		escape_display(&shown, bytes);
		for (const char *p = text_peek(&shown); (count = utf8_next(p, &code)); p += count) {
			cr_assert_neq(code, UTF8_INVALID);
			cr_assert_geq(code, 0x20);
		}
		utf8_shorten(&fitted, text_peek(&shown), columns);
		cr_assert_leq(utf8_width(text_peek(&fitted)), columns);
		text_clear(&fitted);
		utf8_cut(&fitted, text_peek(&shown), columns);
		cr_assert_leq(utf8_width(text_peek(&fitted)), columns);
		text_clear(&shown);
		text_clear(&fitted);
	}
}

Test(escape, html)
{
	static const struct {
		const char *sentence, *to;
	} rows[] = {
		{"a < b & c", "a &#60; b &#38; c"},
		{"\x0e<b>\"x\"'\x0f is", "<code>&#60;b&#62;&#34;x&#34;&#39;</code> is"},
		{"\x0e\x0f", "<code></code>"},
		{"", ""},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct text text = {0};

		escape_html_sentence(&text, rows[i].sentence);
		cr_expect_str_eq(text_peek(&text), rows[i].to);
		text_clear(&text);
	}
}
