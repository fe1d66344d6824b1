// SPDX-License-Identifier: BSD-2-Clause
#include "base/units.h"
#include "peaks/internal.h"
#include "peaks/peaks.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct peaks_key key = {.cpu = "A CPU", .host = "0123abcd", .threads = 4};

static const char whole[] = "perfx-trace peaks 1\n"
			    "kernels 1\n"
			    "cpu A CPU\n"
			    "threads 4\n"
			    "host 0123abcd\n"
			    "measured 1790000000 quiet\n"
			    "1 f64 100000000000\n"
			    "1 f32 200000000000\n"
			    "1 bytes 15000000000\n"
			    "4 f64 400000000000\n"
			    "4 f32 800000000000\n"
			    "4 bytes 29000000000\n";

Test(peaks_cache, says_what_it_was_given)
{
	struct peaks peaks;
	char *text;

	cr_assert_eq(peaks_parse(whole, &key, &peaks), 0);
	cr_assert_eq(peaks.threads, 4);
	cr_assert_not(peaks.busy);
	cr_assert_eq(peaks.measured_unix, 1790000000);
	cr_assert_eq(peaks.flops[PEAKS_ONE][PERFX_DTYPE_F64], 1e11);
	cr_assert_eq(peaks.flops[PEAKS_ALL][PERFX_DTYPE_F32], 8e11);
	cr_assert_eq(peaks.flops[PEAKS_ALL][PERFX_DTYPE_BF16], 0);
	cr_assert_eq(peaks.bytes[PEAKS_ONE], 15e9);
	cr_assert_eq(peaks.bytes[PEAKS_ALL], 29e9);
	text = peaks_format(&peaks, &key);
	cr_assert_str_eq(text, whole);
	free(text);
}

Test(peaks_cache, one_cpu_is_all_of_them)
{
	struct peaks_key single = {.cpu = "A CPU", .host = "0123abcd", .threads = 1};
	struct peaks peaks = {.threads = 1, .busy = true, .measured_unix = 7}, again;
	char *text;

	peaks.flops[PEAKS_ALL][PERFX_DTYPE_F32] = 5e10;
	text = peaks_format(&peaks, &single);
	cr_assert_eq(peaks_parse(text, &single, &again), 0);
	cr_assert(again.busy);
	cr_assert_eq(again.flops[PEAKS_ONE][PERFX_DTYPE_F32], 5e10);
	cr_assert_eq(again.flops[PEAKS_ALL][PERFX_DTYPE_F32], 5e10);
	free(text);
}

/* Another CPU, host, number of CPUs or version: each a line of its own. */
Test(peaks_cache, another_host_has_its_own)
{
	const struct peaks_key others[] = {
		{.cpu = "A CPU 2", .host = "0123abcd", .threads = 4},
		{.cpu = "A CPU", .host = "0123abce", .threads = 4},
		{.cpu = "A CPU", .host = "0123abcd", .threads = 8},
	};
	struct peaks peaks;
	char *text = strdup(whole);

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		cr_expect_eq(peaks_parse(whole, &others[i], &peaks), -ESTALE, "%zu", i);
	*(strstr(text, "kernels ") + strlen("kernels ")) = '0';
	cr_assert_eq(peaks_parse(text, &key, &peaks), -ESTALE);
	free(text);
}

Test(peaks_cache, cut_anywhere_it_is_none)
{
	struct peaks peaks;
	char text[sizeof(whole)];

	for (size_t length = 0; length < sizeof(whole) - 1; length++) {
		memcpy(text, whole, length);
		text[length] = '\0';
		/* after a rate's line it is a shorter file, and a whole one */
		if (length && text[length - 1] == '\n' && strstr(text, "4 f32"))
			continue;
		cr_expect_neq(peaks_parse(text, &key, &peaks), 0, "%zu", length);
	}
}

Test(peaks_cache, damage_is_found)
{
	static const char *const lines[] = {
		"4 f16 0\n",	"4 f16 -5\n",
		"4 f16 nan\n",	"4 f16 inf\n",
		"4 f16 1e19\n", "4 f16 5 6\n",
		"4 f16\n",	"3 f16 5\n",
		"4 f99 5\n",	"4 f64 5\n",
		"-1 f16 500\n", "garbage\n",
		"4 bytes 5\n",	"\n4 f16 5\n",
		"4 f16 5",	"4 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 5\n",
	};
	struct peaks peaks;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char text[512];

		snprintf(text, sizeof(text), "%s%s", whole, lines[i]);
		cr_expect_eq(peaks_parse(text, &key, &peaks), -EINVAL, "%s", lines[i]);
	}
}

static char folder[] = "/tmp/perfx-peaks-XXXXXX";

Test(peaks_cache, is_replaced_as_a_whole)
{
	struct peaks peaks, again;
	struct stat st;
	char path[256];

	cr_assert(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/a/b/peaks", folder);
	cr_assert_eq(peaks_load(path, &key, &again), -ENOENT);
	cr_assert_eq(peaks_parse(whole, &key, &peaks), 0);
	cr_assert_eq(peaks_store(path, &key, &peaks), 0);
	cr_assert_eq(peaks_load(path, &key, &again), 0);
	cr_assert_eq(again.flops[PEAKS_ALL][PERFX_DTYPE_F32], 8e11);
	peaks.flops[PEAKS_ALL][PERFX_DTYPE_F32] = 9e11;
	cr_assert_eq(peaks_store(path, &key, &peaks), 0);
	cr_assert_eq(peaks_load(path, &key, &again), 0);
	cr_assert_eq(again.flops[PEAKS_ALL][PERFX_DTYPE_F32], 9e11);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0644);
	unlink(path);
	for (int i = 0; i < 2; i++) {
		*strrchr(path, '/') = '\0';
		cr_assert_eq(rmdir(path), 0, "nothing else is left in %s", path);
	}
	rmdir(folder);
}

Test(peaks_cache, a_folder_that_cannot_be_is_an_error)
{
	struct peaks peaks;

	cr_assert_eq(peaks_parse(whole, &key, &peaks), 0);
	cr_assert_lt(peaks_store("/dev/null/peaks", &key, &peaks), 0);
}

Test(peaks_cache, doubtful_when_others_worked_an_hour_ago)
{
	struct peaks peaks = {.measured_unix = 10000};

	cr_assert_not(peaks_is_doubtful(&peaks, 1u << 30));
	peaks.busy = true;
	cr_assert_not(peaks_is_doubtful(&peaks, 10000));
	cr_assert_not(peaks_is_doubtful(&peaks, 13600));
	cr_assert(peaks_is_doubtful(&peaks, 13601));
	cr_assert(peaks_is_doubtful(&peaks, 9999)); /* a clock that was set back */
}

Test(peaks, the_better_of_two)
{
	struct peaks a = {.threads = 4, .busy = true, .measured_unix = 5};
	struct peaks b = {.threads = 4, .measured_unix = 9};

	a.flops[PEAKS_ONE][PERFX_DTYPE_F64] = 7;
	b.flops[PEAKS_ONE][PERFX_DTYPE_F64] = 5;
	b.bytes[PEAKS_ALL] = 3;
	peaks_merge(&a, &b);
	cr_assert_eq(a.flops[PEAKS_ONE][PERFX_DTYPE_F64], 7);
	cr_assert_eq(a.bytes[PEAKS_ALL], 3);
	cr_assert_not(a.busy);
	cr_assert_eq(a.measured_unix, 9);
}

Test(peaks, name_of_a_cpu)
{
	static const char *const cases[][2] = {
		{"processor\t: 0\nmodel\t\t: 207\nmodel name\t: Intel(R) Xeon(R) "
		 "Processor\nflags\t: a\n"
		 "\nprocessor\t: 1\nmodel name\t: Other\n",
		 "Intel(R) Xeon(R) Processor"},
		{"processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: "
		 "0x1\n"
		 "CPU part\t: 0xd40\nCPU revision\t: 1\n\n",
		 "implementer 0x41 variant 0x1 part 0xd40 revision 1"},
		{"model name", ""},
		{"model name\t:", ""},
		{"", ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *name = host_cpu_name(cases[i][0]);

		cr_expect_str_eq(name, cases[i][1]);
		free(name);
	}
}

Test(peaks, given_by_the_user)
{
	struct peaks_given given = {0};

	cr_assert_not(peaks_given_any(&given));
	cr_assert_eq(peaks_given_flops(&given, "1.2T"), 0);
	cr_assert_eq(given.flops[PERFX_DTYPE_F64], 1200000000000);
	cr_assert_eq(given.flops[PERFX_DTYPE_BF16], 1200000000000);
	cr_assert_eq(given.flops[PERFX_DTYPE_UNKNOWN], 0);
	cr_assert(peaks_given_any(&given) && !peaks_given_all(&given));
	cr_assert_eq(peaks_given_bytes(&given, "25.6 GB/s"), 0);
	cr_assert_eq(given.bytes, 25600000000);
	cr_assert(peaks_given_all(&given));
}

Test(peaks, given_by_type)
{
	struct peaks_given given = {0};

	cr_assert_eq(peaks_given_flops(&given, "f32:1.2T,f64:600GFLOP/s"), 0);
	cr_assert_eq(given.flops[PERFX_DTYPE_F64], 600000000000);
	cr_assert_eq(given.flops[PERFX_DTYPE_F32], 1200000000000);
	cr_assert_eq(given.flops[PERFX_DTYPE_F16], 0);
}

Test(peaks, given_wrongly)
{
	static const char *const texts[] = {"",	    "T",      "1.2",	 "f32",
					    "f32:", "f31:1T", "f32:1T,", ",f32:1T",
					    "-1T",  "1T:f32", ":1T",	 "2000P",
					    "1TT",  "1e12",   "1.2 X",	 "0"};
	struct peaks_given given = {0};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		cr_expect_neq(peaks_given_flops(&given, texts[i]), 0, "'%s'", texts[i]);
	cr_assert_neq(peaks_given_bytes(&given, "24"), 0, "a unit was forgotten");
	cr_assert_neq(peaks_given_bytes(&given, "f32:24G"), 0);
}

Test(units, rates)
{
	static const struct {
		const char *text;
		uint64_t rate;
	} table[] = {
		{"350G", 350000000000},
		{"1.2T", 1200000000000},
		{"25GB/s", 25000000000},
		{"25 GiB/s", 26843545600},
		{"350gflops", 350000000000},
		{"350 GFLOP/s", 350000000000},
		{"7", 7},
		{"2P", 2000000000000000},
	};
	uint64_t rate;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		cr_expect_eq(parse_rate(table[i].text, &rate), 0, "%s", table[i].text);
		cr_expect_eq(rate, table[i].rate, "%s: %lu", table[i].text, rate);
	}
	cr_assert_eq(parse_rate("GB", &rate), -EINVAL);
	cr_assert_eq(parse_rate("1E", &rate), -EINVAL);
	cr_assert_eq(parse_rate("99999999P", &rate), -ERANGE);
}

Test(peaks, triad_computes)
{
	_Alignas(16) double a[6] = {0}, b[6] = {1, 2, 3, 4, 5, 6}, c[6] = {10, 20, 30, 40, 50, 60};

	triad(a, b, c, 4);
	for (int i = 0; i < 6; i++)
		cr_expect_eq(a[i], i < 4 ? b[i] + 3 * c[i] : 0);
}

/* Whatever kernels this CPU can run do run, and say how much they did. */
Test(peaks, kernels_run)
{
	for (size_t i = 0; peaks_dtypes[i]; i++) {
		const struct fma_kernel *kernel = fma_kernel_for(peaks_dtypes[i]);

		if (!kernel)
			continue;
		cr_assert(kernel->flops && kernel->flops % 24 == 0);
		kernel->run(3, kernel->constants);
	}
#if defined(__x86_64__) || defined(__aarch64__)
	cr_assert(fma_kernel_for(PERFX_DTYPE_F64) && fma_kernel_for(PERFX_DTYPE_F32));
	cr_assert_eq(fma_kernel_for(PERFX_DTYPE_F32)->flops,
		     2 * fma_kernel_for(PERFX_DTYPE_F64)->flops);
#endif
	cr_assert_not(fma_kernel_for(PERFX_DTYPE_UNKNOWN));
	cr_assert_not(fma_kernel_for(PERFX_DTYPE_INTEGER));
}

/* Two AVX-512 units at 2 GHz make 2 × 8 × 2 operations a cycle; threads of a core share them. */
Test(peaks, estimated_from_what_a_cpu_says)
{
	struct cpu_units units = {.hz = 2e9,
				  .cores = 4,
				  .threads = 8,
				  .vector_bits = 512,
				  .vectors_per_cycle = 2,
				  .fma = true};
	struct peaks peaks;

	peaks_of_units(&units, &peaks);
	cr_expect_eq(peaks.threads, 8);
	cr_expect_eq(peaks.flops[PEAKS_ONE][PERFX_DTYPE_F64], 64e9);
	cr_expect_eq(peaks.flops[PEAKS_ALL][PERFX_DTYPE_F64], 256e9);
	cr_expect_eq(peaks.flops[PEAKS_ALL][PERFX_DTYPE_F32], 512e9);
	cr_expect_eq(peaks.flops[PEAKS_ALL][PERFX_DTYPE_BF16], 512e9);
	cr_expect_eq(peaks.bytes[PEAKS_ALL], 0);
	units.has_f16 = units.amx_bf16 = true;
	peaks_of_units(&units, &peaks);
	cr_expect_eq(peaks.flops[PEAKS_ALL][PERFX_DTYPE_F16], 1024e9);
	cr_expect_eq(peaks.flops[PEAKS_ALL][PERFX_DTYPE_BF16], 4 * 2e9 * 1024);
	units.vector_bits = 128;
	units.fma = false;
	peaks_of_units(&units, &peaks);
	cr_expect_eq(peaks.flops[PEAKS_ONE][PERFX_DTYPE_F64], 8e9);
	units.hz = 0;
	peaks_of_units(&units, &peaks);
	cr_expect_eq(peaks.flops[PEAKS_ALL][PERFX_DTYPE_F32], 0);
}

Test(peaks, the_clock)
{
	static const int same[] = {0, 0, 0};

	cr_expect_eq(host_hz_in("processor\t: 0\nmodel name\t: X\ncpu MHz\t\t: 2100.5\n\n"),
		     2100.5e6);
	cr_expect_eq(host_hz_in("processor\t: 0\n\ncpu MHz\t\t: 2100.5\n"), 0);
	cr_expect_eq(host_cores(same, 3), 1);
}

/* Numbers are a benchmark's; here that they are there, and in order. */
Test(peaks, measured)
{
	struct peaks peaks;

	cr_assert_eq(peaks_measure(&peaks), 0);
	cr_assert_eq(peaks.threads, (uint32_t)sysconf(_SC_NPROCESSORS_ONLN));
#if defined(__x86_64__) || defined(__aarch64__)
	cr_assert_gt(peaks.flops[PEAKS_ONE][PERFX_DTYPE_F64], 1e6);
	cr_assert_geq(peaks.flops[PEAKS_ALL][PERFX_DTYPE_F64],
		      peaks.flops[PEAKS_ONE][PERFX_DTYPE_F64]);
#endif
	cr_assert_geq(peaks.bytes[PEAKS_ALL], peaks.bytes[PEAKS_ONE]);
}
