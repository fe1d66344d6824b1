// SPDX-License-Identifier: BSD-2-Clause
#include "base/escape.h"
#include "base/text.h"
#include "base/units.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct formatted {
	uint64_t value;
	const char *text;
};

#define check_format(format, table)                                                 \
	for (size_t i = 0; i < sizeof(table) / sizeof((table)[0]); i++) {           \
		char buffer[UNITS_MAX];                                             \
                                                                                    \
		cr_expect_str_eq(format(buffer, (table)[i].value), (table)[i].text, \
				 "%s, wanted %s", buffer, (table)[i].text);         \
	}

Test(units, ns)
{
	static const struct formatted table[] = {
		{0, "0 ns"},
		{999, "999 ns"},
		{1000, "1.00 µs"},
		{1234, "1.23 µs"},
		{9994, "9.99 µs"},
		{9996, "10.0 µs"},
		{99960, "100 µs"},
		{999499, "999 µs"},
		{999500, "1.00 ms"},
		{45600000, "45.6 ms"},
		{12300000000, "12.3 s"},
		{99949999999, "99.9 s"},
		{99950000000, "1.67 min"},
		{1000000000000, "16.7 min"},
		{10000000000000, "2.78 h"},
		{UINT64_MAX, "5124096 h"},
	};

	check_format(format_ns, table);
}

Test(units, bytes)
{
	static const struct formatted table[] = {
		{0, "0 B"},
		{1023, "1023 B"},
		{1024, "1.00 KiB"},
		{1536, "1.50 KiB"},
		{340ULL << 20, "340 MiB"},
		{1023ULL << 20, "1023 MiB"},
		{(1ULL << 30) - 1, "1.00 GiB"},
		{UINT64_MAX, "16384 PiB"},
	};

	check_format(format_bytes, table);
}

Test(units, counts)
{
	static const struct formatted table[] = {
		{0, "0"},
		{999, "999"},
		{1000, "1,000"},
		{123456, "123,456"},
		{1000001, "1,000,001"},
		{9999999, "9,999,999"},
		{10000000, "10.0 M"},
		{999499999, "999 M"},
		{999500000, "1.00 G"},
		{UINT64_MAX, "18447 P"},
	};

	check_format(format_count, table);
}

Test(units, percent)
{
	static const struct {
		double share;
		const char *text;
	} table[] = {{0, "0 %"},	  {-1, "0 %"},	    {0.0000001, "<0.1 %"},
		     {0.00099, "<0.1 %"}, {0.001, "0.1 %"}, {0.6209, "62.1 %"},
		     {0.9996, "100 %"},	  {3.12, "312 %"}};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char buffer[UNITS_MAX];

		cr_expect_str_eq(format_percent(buffer, table[i].share), table[i].text, "%s",
				 buffer);
	}
}

/* Of a sum over threads. */
Test(units, share)
{
	static const struct {
		double share;
		const char *text;
	} table[] = {
		{0, "0 %"}, {0.6209, "62.1 %"}, {1.004, "100 %"}, {12.35, "×12.3"}, {312, "×312"}};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char buffer[UNITS_MAX];

		cr_expect_str_eq(format_share(buffer, table[i].share), table[i].text, "%s", buffer);
	}
}

Test(units, slowdown)
{
	static const struct {
		double share;
		const char *text;
	} table[] = {{0, "0 %"},
		     {0.0004, "<0.1 %"},
		     {0.0424, "4.2 %"},
		     {0.1, "1.1× (+10 %)"},
		     {0.9, "1.9× (+90 %)"},
		     {11, "12× (+1100 %)"}};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char buffer[UNITS_MAX];

		cr_expect_str_eq(format_slowdown(buffer, table[i].share), table[i].text, "%s",
				 buffer);
	}
}

Test(units, si)
{
	static const struct {
		double value;
		const char *unit, *text;
	} table[] = {
		{0, "FLOP", "0 FLOP"},
		{512, "FLOP", "512 FLOP"},
		{999, "FLOP", "999 FLOP"},
		{999.6, "", "1.00 k"},
		{0.25, "B/s", "0.25 B/s"},
		{1234, "FLOP", "1.23 kFLOP"},
		{45600000000.0, "FLOP/s", "45.6 GFLOP/s"},
		{999499999999.0, "FLOP/s", "999 GFLOP/s"},
		{999500000000.0, "FLOP/s", "1.00 TFLOP/s"},
		{1.8e19, "", "18.0 E"},
		{1e30, "", "1000000000000 E"},
		{7, "", "7"},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char buffer[UNITS_MAX];

		cr_expect_str_eq(format_si(buffer, table[i].value, table[i].unit), table[i].text,
				 "%s", buffer);
	}
}

struct parsed {
	const char *text;
	int err;
	uint64_t value;
};

static void check_parse(int (*parse)(const char *, uint64_t *), const struct parsed *row)
{
	uint64_t value = 77;

	cr_expect_eq(parse(row->text, &value), row->err, "%s", row->text);
	cr_expect_eq(value, row->err ? 77 : row->value, "%s: %llu", row->text,
		     (unsigned long long)value);
}

Test(units, durations)
{
	static const struct parsed table[] = {
		{"10", 0, 10000000000},
		{"10s", 0, 10000000000},
		{"0", 0, 0},
		{"1.5s", 0, 1500000000},
		{"0.000000001", 0, 1},
		{"250ms", 0, 250000000},
		{"20us", 0, 20000},
		{"20µs", 0, 20000},
		{"5ns", 0, 5},
		{"2m", 0, 120000000000},
		{"2min", 0, 120000000000},
		{"1h", 0, 3600000000000},
		{"18446744073", 0, 18446744073000000000ULL},
		{"18446744074", -ERANGE, 0},
		{"99999999999999999999999999999999999999999999999999", -ERANGE, 0},
		{"5124096h", -ERANGE, 0},
		{"", -EINVAL, 0},
		{"s", -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{"+1", -EINVAL, 0},
		{" 1", -EINVAL, 0},
		{"1 s", -EINVAL, 0},
		{"1s ", -EINVAL, 0},
		{"1x", -EINVAL, 0},
		{"1.", -EINVAL, 0},
		{".5", -EINVAL, 0},
		{"1.5.5", -EINVAL, 0},
		{"1e3", -EINVAL, 0},
		{"0x10", -EINVAL, 0},
		{"nan", -EINVAL, 0},
		{"1s1s", -EINVAL, 0},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		check_parse(parse_duration, &table[i]);
}

Test(units, sizes)
{
	static const struct parsed table[] = {
		{"4096", 0, 4096},
		{"4096B", 0, 4096},
		{"64K", 0, 65536},
		{"512k", 0, 524288},
		{"64kb", 0, 65536},
		{"1MiB", 0, 1048576},
		{"1.5G", 0, 1610612736},
		{"2TB", 0, 2ULL << 40},
		{"18446744073709551615", 0, UINT64_MAX},
		{"18446744073709551616", -ERANGE, 0},
		{"16777216T", -ERANGE, 0},
		{"", -EINVAL, 0},
		{"K", -EINVAL, 0},
		{"-64K", -EINVAL, 0},
		{"64KK", -EINVAL, 0},
		{"64 K", -EINVAL, 0},
		{"64Q", -EINVAL, 0},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		check_parse(parse_size, &table[i]);
}

/* "_" stands for U+202F, [] for the marks of a name. */
Test(units, numbers_hold_on_to_their_units)
{
	static const char *const rows[][2] = {
		{"10.0 ms", "10.0_ms"},
		{"in 90 calls of 64.5 ms (58.0 %), then 1 s",
		 "in 90 calls of 64.5_ms (58.0_%), then 1_s"},
		{"1.23 GFLOP/s at 5.3 FLOP/byte, 12.3 M of 4 KiB/s",
		 "1.23_GFLOP/s at 5.3_FLOP/byte, 12.3_M of 4_KiB/s"},
		{"rank 3 sends, 2 minutes, 5 %s", "rank 3 sends, 2 minutes, 5 %s"},
		{"[10 ms] took 10 \xc2\xb5s", "[10 ms] took 10_\xc2\xb5s"},
		{"7 ", "7 "},
		{"", ""},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct text joined = {0}, shown = {0};
		char sentence[128];

		snprintf(sentence, sizeof(sentence), "%s", rows[i][0]);
		for (char *p = sentence; *p; p++)
			*p = *p == '[' ? NAME_OPEN : *p == ']' ? NAME_CLOSE : *p;
		add_joined(&joined, sentence);
		cr_expect_eq(utf8_width(text_peek(&joined)), utf8_width(sentence), "%s",
			     rows[i][0]);
		for (const char *p = text_peek(&joined); *p; p++) {
			bool space = !strncmp(p, NARROW_SPACE, strlen(NARROW_SPACE));

			text_printf(&shown, "%c",
				    space	       ? '_'
				    : *p == NAME_OPEN  ? '['
				    : *p == NAME_CLOSE ? ']'
						       : *p);
			p += space ? strlen(NARROW_SPACE) - 1 : 0;
		}
		cr_expect_str_eq(text_peek(&shown), rows[i][1]);
		text_clear(&joined);
		text_clear(&shown);
	}
}

Test(units, whole_numbers_of_any_double)
{
	cr_expect_eq(u64_of(1.9), 1);
	cr_expect_eq(u64_of(-0.1), 0);
	cr_expect_eq(u64_of(-1e300), 0);
	cr_expect_eq(u64_of(0.0 / 0.0), 0);
	cr_expect_eq(u64_of(0x1p63), 1ull << 63);
	cr_expect_eq(u64_of(0x1p64), UINT64_MAX);
	cr_expect_eq(u64_of(1.0 / 0.0), UINT64_MAX);
}
