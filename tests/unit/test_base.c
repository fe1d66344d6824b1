// SPDX-License-Identifier: BSD-2-Clause
#include "base/cache.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/message.h"
#include "base/text.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Test(prefixes, of_which_one_begins_the_name)
{
	struct prefixes set = {0};

	cr_expect_not(prefixes_match(&set, "anything"));
	cr_assert_eq(prefixes_add(&set, "_ZN3xla3cpu"), 0);
	cr_assert_eq(prefixes_add(&set, "_ZN2at"), 0);
	cr_assert_eq(prefixes_add(&set, "_ZN2at4_ops"), 0);
	cr_assert_eq(prefixes_add(&set, "_ZN3xla6Thunk"), 0);
	prefixes_sort(&set);
	cr_expect(prefixes_match(&set, "_ZN2at"));
	cr_expect(prefixes_match(&set, "_ZN2at4_ops2mm"));
	cr_expect(prefixes_match(&set, "_ZN3xla3cpu5Thunk"));
	cr_expect(prefixes_match(&set, "_ZN3xla6Thunk3runEv"));
	cr_expect_not(prefixes_match(&set, "_ZN3xla5Thunk"));
	cr_expect_not(prefixes_match(&set, "_ZN3xla"));
	cr_expect_not(prefixes_match(&set, "_ZN2a"));
	cr_expect_not(prefixes_match(&set, ""));
	prefixes_clear(&set);
}

Test(grow, new_items_are_zero)
{
	size_t capacity = 0;
	int *items = NULL;

	for (size_t count = 1; count < 100; count++) {
		cr_assert_eq(grow_array(&items, &capacity, count, sizeof(*items)), 0);
		cr_assert_eq(items[count - 1], 0);
		items[count - 1] = 7;
		cr_assert_geq(capacity, count);
	}
	cr_expect_lt(capacity, 200);
	/* more than there is: the array stays */
	cr_expect_eq(grow_array(&items, &capacity, SIZE_MAX / 8, sizeof(*items)), -ENOMEM);
	cr_expect_eq(items[98], 7);
	free(items);
}

Test(pool, strings_stay_where_they_are)
{
	const char *strings[1000];
	struct pool pool = {0};
	char text[64];
	char *large = calloc(1, 100000);

	memset(large, 'x', 99999);
	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "string number %d", i);
		strings[i] = pool_add(&pool, text);
		if (i == 500)
			cr_expect_str_eq(pool_add(&pool, large), large);
	}
	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "string number %d", i);
		cr_assert_str_eq(strings[i], text);
	}
	free(large);
	pool_clear(&pool);
	pool_clear(&pool);
}

/* Keys that share a place, and those that wrap around the end, are found still. */
Test(map64, finds_what_was_not_removed)
{
	enum { COUNT = 5000 };
	struct map64 map = {0};

	map64_remove(&map, 1);
	for (uint32_t i = 0; i < COUNT; i++)
		cr_assert_eq(map64_put(&map, i, i), 0);
	for (uint32_t i = 0; i < COUNT; i += 3)
		map64_remove(&map, i);
	map64_remove(&map, COUNT);
	for (uint32_t i = 0; i < COUNT; i++)
		cr_assert_eq(map64_get(&map, i), i % 3 ? i : MAP64_NONE);
	cr_expect_eq(map.count, COUNT - (COUNT + 2) / 3);
	for (uint32_t i = 0; i < COUNT; i += 3)
		cr_assert_eq(map64_put(&map, i, i + 1), 0);
	for (uint32_t i = 0; i < COUNT; i++)
		cr_assert_eq(map64_get(&map, i), i % 3 ? i : i + 1);
	map64_clear(&map);
}

/* One that comes and goes needs no more room. */
Test(map64, removed_keys_leave_room)
{
	struct map64 map = {0};

	for (uint32_t i = 0; i < 100000; i++) {
		cr_assert_eq(map64_put(&map, i, i), 0);
		map64_remove(&map, i);
	}
	cr_expect_eq(map.count, 0);
	cr_expect_leq(map.capacity, 16);
	map64_clear(&map);
}

Test(map64, finds_what_was_put)
{
	struct map64 map = {0};

	cr_expect_eq(map64_get(&map, 0), MAP64_NONE);
	for (uint64_t i = 0; i < 10000; i++)
		cr_assert_eq(map64_put(&map, i * 0x100000001ULL, (uint32_t)i), 0);
	for (uint64_t i = 0; i < 10000; i++)
		cr_assert_eq(map64_get(&map, i * 0x100000001ULL), i);
	cr_expect_eq(map64_get(&map, 1), MAP64_NONE);
	map64_clear(&map);
	cr_expect_eq(map64_get(&map, 0), MAP64_NONE);
}

Test(text, builds)
{
	struct text text = {0};
	char *taken;

	cr_expect_str_eq(text_peek(&text), "");
	for (int i = 0; i < 300; i++)
		text_printf(&text, "%d,", i % 10);
	cr_expect_eq(text.length, 600);
	text_printf(&text, "%0500d", 7);
	cr_expect_eq(text.length, 1100);
	taken = text_take(&text);
	cr_expect_eq(strlen(taken), 1100);
	free(taken);
	taken = text_take(&text);
	cr_expect_str_eq(taken, "");
	free(taken);
	text.failed = true;
	cr_expect_null(text_take(&text));
}

Test(text, a_script_has_an_interpreter)
{
	cr_expect_str_eq(script_interpreter("train.py"), "python3");
	cr_expect_str_eq(script_interpreter("./a b/start.sh"), "bash");
	cr_expect_null(script_interpreter("train"));
	cr_expect_null(script_interpreter("train.pyc"));
	cr_expect(text_is_number("0123") && !text_is_number("") && !text_is_number("12a") &&
		  !text_is_number("-1"));
}

/* stderr so far is this. */
static void expect_said(const char *expected)
{
	char text[1024] = "";

	fflush(stderr);
	text[fread(text, 1, sizeof(text) - 1, cr_get_redirected_stderr())] = '\0';
	cr_expect_str_eq(text, expected);
}

/* Ten steps of one allocator and of several functions are a line each: the last state, without its
 * parts, and each name once. */
Test(message, reductions_are_a_line_each, .init = cr_redirect_stderr)
{
	msg_reductions_begin(clock_monotonic_ns() - 2100000000u);
	msg_reductions_show(false, true); /* nothing is reduced */
	msg_reduced("call stacks of tensor allocations", "one in 16", "counts stay exact");
	msg_reduced("tensor allocations", "without frees", "frees are inferred");
	msg_reduced("sgemm_", "not traced", "-F 'blas:sgemm_' keeps it");
	msg_reductions_show(false, false); /* it may change again at once */
	msg_reduced("dgemm_", "not traced", "-F 'blas:dgemm_' keeps it");
	msg_reduced("cgemm_", "not traced", "-F 'blas:cgemm_' keeps it");
	msg_reduced("tensor allocations", "sampled", "leaks cannot be placed");
	msg_reductions_show(false, true);
	msg_reductions_show(false, true); /* it has been said */
	expect_said("perfx-trace: overhead budget: tensor allocations sampled since 2.1 s: leaks "
		    "cannot be placed\n"
		    "perfx-trace: overhead budget: sgemm_, dgemm_ and 1 more not traced since "
		    "2.1 s: -F keeps those that it names\n");
}

Test(message, a_recording_begins_without_reductions, .init = cr_redirect_stderr)
{
	msg_reductions_begin(clock_monotonic_ns());
	msg_reduced("samples", "taken at 50 Hz", "they cost too much");
	msg_reductions_begin(clock_monotonic_ns());
	msg_reductions_show(false, true);
	for (int i = 0; i < 100; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%d", i);
		msg_reduced(name, "not traced", "-F keeps it");
	}
	msg_reductions_show(false, true);
	expect_said("perfx-trace: overhead budget: f0, f1 and 98 more not traced since 0.0 s: -F "
		    "keeps it\n");
}

Test(text, a_path_has_a_base_name)
{
	cr_assert_str_eq(base_name("/usr/lib/libc.so.6"), "libc.so.6");
	cr_assert_str_eq(base_name("train.py"), "train.py");
	cr_assert_str_eq(base_name("/srv/"), "/srv/");
	cr_assert_str_eq(base_name(""), "");
}

Test(text, begins_with_a_prefix)
{
	cr_assert(begins_with("libc.so.6", "libc."));
	cr_assert(begins_with("libc", "libc") && begins_with("libc", ""));
	cr_assert(!begins_with("lib", "libc") && !begins_with("xlibc", "libc"));
}

/* Values of the authors' test suite. */
Test(hash, fnv1a_has_known_values)
{
	cr_assert_eq(fnv1a("", 0), 0xcbf29ce484222325ULL);
	cr_assert_eq(fnv1a("a", 1), 0xaf63dc4c8601ec8cULL);
	cr_assert_eq(fnv1a("foobar", 6), 0x85944171f73967e8ULL);
}

Test(shell, quoted_words_come_back)
{
	static const char *const words[] = {"plain", "",	  "two words",	 "it's",
					    "a\"b",  "$HOME `x`", "back\\slash", "new\nline",
					    "-F",    "lib*:a|b"};
	struct text line = {0}, word = {0};
	const char *rest;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		text_add(&line, " ");
		shell_quote(&line, words[i]);
	}
	rest = text_peek(&line);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		rest = shell_word(&word, rest);
		cr_assert_not_null(rest);
		cr_expect_str_eq(text_peek(&word), words[i]);
		text_clear(&word);
	}
	cr_expect_null(shell_word(&word, rest));
	text_clear(&line);
}

Test(shell, unclosed_quotes_end_with_the_line)
{
	struct text word = {0};

	cr_expect_str_eq(shell_word(&word, "a\"b\\\"c d"), "");
	cr_expect_str_eq(text_peek(&word), "ab\"c d");
	text_clear(&word);
	cr_expect_str_eq(shell_word(&word, "  a\\ b\\"), "");
	cr_expect_str_eq(text_peek(&word), "a b\\");
	text_clear(&word);
	cr_expect_null(shell_word(&word, " \t"));
}

/* More than a chunk, and none of them moves. */
Test(base, chunks_stay_where_they_are)
{
	struct chunks chunks = {0};
	int *first = chunks_add(&chunks, sizeof(int));

	cr_assert_not_null(first);
	*first = 1;
	for (int i = 2; i <= 5000; i++) {
		int *item = chunks_add(&chunks, sizeof(int));

		cr_assert_eq(*item, 0);
		*item = i;
	}
	cr_expect_eq(chunks.count, 5000);
	cr_expect_eq(chunks_at(&chunks, 0, sizeof(int)), first);
	for (int i = 0; i < 5000; i++)
		cr_expect_eq(*(int *)chunks_at(&chunks, (size_t)i, sizeof(int)), i + 1);
	chunks_clear(&chunks);
}

Test(phases, each_ends_where_the_next_begins)
{
	struct phases phases = {
		.list = {{"features", 1000000}, {"plan", 96400000}, {"load", 406400000}},
		.count = 3,
	};
	char text[128] = "";

	phases_format(&phases, 646400000, text, sizeof(text));
	cr_assert_str_eq(text, "ready in 645 ms: features 95, plan 310, load 240");
}

Test(phases, of_too_many_the_last_goes_on)
{
	struct phases phases = {0};

	for (int i = 0; i < PHASES_MAX; i++)
		phases_begin(&phases, "one");
	phases_begin(&phases, "one too many");
	cr_assert_eq(phases.count, PHASES_MAX);
	cr_assert_str_eq(phases.list[PHASES_MAX - 1].name, "one");
}

Test(cache, what_was_kept_comes_back_for_its_key_alone)
{
	char folder[] = "/tmp/perfx-cache-XXXXXX", path[64];
	size_t size = 0;
	void *kept;

	cr_assert(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/answers", folder);
	cr_assert_eq(cache_keep(path, 7, "forty-two", 9), 0);
	kept = cache_recall(path, 7, 9, &size);
	cr_assert(kept);
	cr_expect_eq(size, 9);
	cr_expect_arr_eq(kept, "forty-two", 9);
	free(kept);
	cr_expect_null(cache_recall(path, 8, 9, &size), "another key");
	cr_expect_null(cache_recall(path, 7, 8, &size), "too large");
	cr_assert_eq(truncate(path, 20), 0);
	cr_expect_null(cache_recall(path, 7, 9, &size), "cut");
	unlink(path);
	cr_expect_null(cache_recall(path, 7, 9, &size), "gone");
	rmdir(folder);
}
