/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers as users read and write them. */
#ifndef PERFX_BASE_UNITS_H
#define PERFX_BASE_UNITS_H

#include "base/text.h"

#include <math.h>
#include <stdint.h>

/* Rounded down; too large values become UINT64_MAX, negative ones and NaN 0. */
static inline uint64_t u64_of(double value)
{
	if (!(value > 0))
		return 0;
	return value < 0x1p64 ? (uint64_t)value : UINT64_MAX;
}

#define UNITS_MAX 32 /* bytes that a formatted number needs at most */

/* Three significant digits. Each returns its buffer.
 *     999 ns   1.23 µs   45.6 ms   12.3 s   16.7 min   2.78 h */
const char *format_ns(char buffer[UNITS_MAX], uint64_t ns);
/*     512 B   1.50 KiB   340 MiB */
const char *format_bytes(char buffer[UNITS_MAX], uint64_t bytes);
/* Exact below ten million: counts are there to be compared.
 *     7   1,234   9,999,999   12.3 M */
const char *format_count(char buffer[UNITS_MAX], uint64_t count);
/* SI prefixes, three digits; 0 and above. unit: at most 15 bytes.
 *     0 FLOP   512 FLOP   1.23 kFLOP   45.6 GFLOP/s; of no unit 1.23 G */
const char *format_si(char buffer[UNITS_MAX], double value, const char *unit);
/* part of whole = 1.
 *     0 %   <0.1 %   62.1 %   100 %   312 % */
const char *format_percent(char buffer[UNITS_MAX], double share);
/* The same of a sum over threads, which may be more than the whole: how many at once on average.
 *     0 %   62.1 %   100 %   ×12.4 */
const char *format_share(char buffer[UNITS_MAX], double share);
/* By how much longer something takes; 0.9: 90 % longer.
 *     <0.1 %   4.2 %   1.9× (+90 %)   12× (+1100 %) */
const char *format_slowdown(char buffer[UNITS_MAX], double share);

/* The same in a buffer that lives as long as the block around it: for printf()'s arguments. */
#define as_ns(ns)	   format_ns((char[UNITS_MAX]){0}, ns)
#define as_bytes(bytes)	   format_bytes((char[UNITS_MAX]){0}, bytes)
#define as_count(count)	   format_count((char[UNITS_MAX]){0}, count)
#define as_percent(share)  format_percent((char[UNITS_MAX]){0}, share)
#define as_share(share)	   format_share((char[UNITS_MAX]){0}, share)
#define as_slowdown(share) format_slowdown((char[UNITS_MAX]){0}, share)
#define as_si(value, unit) format_si((char[UNITS_MAX]){0}, value, unit)

/* After a noun: "%s probe%s", as_count(count), plural(count). */
static inline const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* "10" "10s" "1.5s" "250ms" "20us" "5ns" "2m" "1h": a bare number is seconds. 0, -EINVAL: not a
 * duration, -ERANGE: it does not fit. */
int parse_duration(const char *text, uint64_t *ns);
/* "4096" "64K" "512k" "1MiB" "1.5G" "2TB": K is 1024 however it is spelt. Errors as above. */
int parse_size(const char *text, uint64_t *bytes);
/* "1.2T" "350G" "25GB/s" "350GFLOP/s" "350 GFLOPS": K is 1000, as everywhere for rates; KiB is
 * 1024. Errors as above. */
int parse_rate(const char *text, uint64_t *per_s);

/* "5%" and "5" are 0.05. Errors as above. */
int parse_percent(const char *text, double *share);

/* The same, added to a text. */
void add_ns(struct text *text, uint64_t ns);
void add_bytes(struct text *text, uint64_t bytes);
void add_count(struct text *text, uint64_t count);
void add_percent(struct text *text, double share); /* 0.5: "50.0 %" */
void add_share(struct text *text, double share);
void add_si(struct text *text, double value, const char *unit);

#define NARROW_SPACE "\xe2\x80\xaf" /* U+202F, no-break */

/* Adds a sentence (base/escape.h) in which no line ends between a number and its unit: "10.0 ms"
 * with U+202F in place of the space. Names of the traced program stay as they are. */
void add_joined(struct text *text, const char *sentence);

/* hypot(3) of glibc 2.35 has a version of its own, which programs for 2.34 cannot use. */
static inline double root_of_squares(double a, double b)
{
	return sqrt(a * a + b * b);
}

#endif
