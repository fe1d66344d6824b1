// SPDX-License-Identifier: BSD-2-Clause
#include "proc/limits.h"

#include <criterion/criterion.h>
#include <sys/resource.h>
#include <unistd.h>

Test(limits, quota_of_cpus)
{
	cr_expect_eq(cgroup_cpu_max_milli("150000 100000\n"), 1500);
	cr_expect_eq(cgroup_cpu_max_milli("max 100000\n"), UINT64_MAX);
	cr_expect_eq(cgroup_cpu_max_milli("150000 0\n"), UINT64_MAX);
	cr_expect_eq(cgroup_cpu_max_milli(""), UINT64_MAX);
}

Test(limits, address_space)
{
	cr_expect_eq(limit_of("Max cpu time   unlimited  unlimited  seconds\n"
			      "Max address space         8589934592  unlimited  bytes\n",
			      "Max address space"),
		     8589934592);
	cr_expect_eq(limit_of("Max address space         unlimited  unlimited  bytes\n",
			      "Max address space"),
		     UINT64_MAX);
	cr_expect_eq(limit_of("", "Max address space"), UINT64_MAX);
}

/* Of which a sanitizer takes 20 TiB. */
#define ADDRESSES (1ULL << 46)

Test(limits, of_this_process)
{
	struct rlimit limit = {.rlim_cur = ADDRESSES, .rlim_max = ADDRESSES};
	struct process_limits limits;

	cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
	limits = process_limits(getpid(), true);
	cr_expect_geq(limits.cpus_count, 1);
	cr_expect_eq(limits.address_limit_bytes, ADDRESSES);
	cr_expect_lt(limits.address_used_bytes, ADDRESSES);
	cr_expect_neq(limits.host_available_bytes, UINT64_MAX);
}
