// SPDX-License-Identifier: BSD-2-Clause
#include "proc/process_stat.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define REST                                                                   \
	" 7 8 9 0 -1 4194560 11 12 13 14 150 160 17 18 20 0 3 0 4242 1000 25 " \
	"18446744073709551615 "                                                \
	"1 1 0 0 0\n"

Test(process_stat, fields)
{
	struct process_stat stat;

	cr_assert_eq(process_stat_parse("42 (train) S" REST, &stat), 0);
	cr_expect_str_eq(stat.comm, "train");
	cr_expect_eq(stat.state, 'S');
	cr_expect_eq(stat.ppid, 7);
	cr_expect_not(stat.kernel_thread);
	cr_expect_eq(stat.minor_faults, 11);
	cr_expect_eq(stat.major_faults, 13);
	cr_expect_eq(stat.user_ticks, 150);
	cr_expect_eq(stat.system_ticks, 160);
	cr_expect_eq(stat.start_ticks, 4242);
	cr_assert_eq(process_stat_parse("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 5 0 0 20 0 1 "
					"0 3 0 0\n",
					&stat),
		     0);
	cr_expect(stat.kernel_thread);
}

Test(process_stat, host_cpu)
{
	uint64_t tick_ns = ticks_to_ns(1);
	struct host_cpu cpu;

	cr_assert_eq(host_cpu_parse("cpu  10 2 30 4000 500 6 7 80 9 0\ncpu0 1 1 1 1\n", &cpu), 0);
	cr_expect_eq(cpu.busy_ns, 55 * tick_ns);
	cr_expect_eq(cpu.steal_ns, 80 * tick_ns);
	cr_expect_eq(host_cpu_parse("cpu  10 2 30 4000", &cpu), -EINVAL);
	cr_expect_eq(cpu.busy_ns, 0);
	cpu = host_cpu_read();
	cr_expect_gt(cpu.busy_ns, 0);
}

/* A process calls itself what it likes. */
Test(process_stat, names)
{
	static const char *const names[] = {"a b",     ")",
					    "(",       ") R 1 (x",
					    "",	       "a\nb)",
					    "(a) (b)", "kworker/u8:2-a-long-workqueue-name"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct process_stat stat;
		char text[512];

		snprintf(text, sizeof(text), "42 (%s) D" REST, names[i]);
		cr_assert_eq(process_stat_parse(text, &stat), 0, "%s", names[i]);
		cr_expect_str_eq(stat.comm, names[i]);
		cr_expect_eq(stat.state, 'D');
		cr_expect_eq(stat.start_ticks, 4242);
	}
}

Test(process_stat, refuses)
{
	static const char *const texts[] = {"", "42", "42 (a", ")(", "42 (a) S 1 2 3"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct process_stat stat;

		cr_expect_eq(process_stat_parse(texts[i], &stat), -EINVAL, "%s", texts[i]);
	}
}

Test(process_stat, keys)
{
	static const char text[] =
		"VmRSS:\t  123 kB\nXVmRSS: 5\nnr_periods 7\nnr_periods_x 8\nlast: 9";

	cr_expect_eq(keyed_number(text, "VmRSS:"), 123);
	cr_expect_eq(keyed_number(text, "nr_periods"), 7);
	cr_expect_eq(keyed_number(text, "last:"), 9);
	cr_expect_eq(keyed_number(text, "nr_period"), UINT64_MAX);
	cr_expect_eq(keyed_number("", "last:"), UINT64_MAX);
}

Test(process_stat, ticks)
{
	cr_expect_eq(ticks_to_ns((uint64_t)sysconf(_SC_CLK_TCK)), 1000000000);
	cr_expect_eq(ticks_to_ns(0), 0);
}
