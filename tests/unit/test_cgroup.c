// SPDX-License-Identifier: BSD-2-Clause
#include "proc/cgroup.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char v1_mounts[] = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
				"33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
				"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 master:1 - "
				"cgroup cgroup rw,cpu,cpuacct\n"
				"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
static const char v2_mounts[] = "22 1 8:1 / / rw - ext4 /dev/root rw\n"
				"41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";

static void expect_place(const char *cgroup, const char *mounts, const char *folder,
			 const char *mount)
{
	struct cgroup_place place;

	cr_assert_eq(cgroup_find_place(cgroup, mounts, "cpu", &place), 0, "%s", cgroup);
	cr_expect_str_eq(place.folder, folder);
	cr_expect_eq(place.mount_size, strlen(mount));
}

Test(cgroup, places)
{
	expect_place("5:cpuset:/set\n4:cpu,cpuacct:/jobs/7\n0::/user\n", v1_mounts,
		     "/sys/fs/cgroup/cpu,cpuacct/jobs/7", "/sys/fs/cgroup/cpu,cpuacct");
	expect_place("1:cpu:/\n0::/\n", v1_mounts, "/sys/fs/cgroup/cpu,cpuacct",
		     "/sys/fs/cgroup/cpu,cpuacct");
	expect_place("0::/user.slice/a:b.scope\n", v2_mounts, "/sys/fs/cgroup/user.slice/a:b.scope",
		     "/sys/fs/cgroup");
	/* version 1 without the CPU controller, which version 2 then has */
	expect_place("5:cpuset:/set\n0::/user\n", v1_mounts, "/sys/fs/cgroup/unified/user",
		     "/sys/fs/cgroup/unified");
}

/* A container sees a part of the tree, its root being the container's group. */
Test(cgroup, places_in_a_container)
{
	static const char mounts[] =
		"36 25 0:30 /docker/abc /sys/fs/my\\040cg/cpu ro - cgroup cgroup rw,cpu\n";

	expect_place("4:cpu:/docker/abc/job\n", mounts, "/sys/fs/my cg/cpu/job",
		     "/sys/fs/my cg/cpu");
	expect_place("4:cpu:/docker/abc\n", mounts, "/sys/fs/my cg/cpu", "/sys/fs/my cg/cpu");
	expect_place("4:cpu:/docker/abcd\n", mounts, "/sys/fs/my cg/cpu", "/sys/fs/my cg/cpu");
}

Test(cgroup, no_place)
{
	struct cgroup_place place;

	cr_expect_eq(cgroup_find_place("5:cpuset:/\n", v1_mounts, "cpu", &place), -ENOENT);
	cr_expect_eq(cgroup_find_place("4:cpu:/\n", v2_mounts, "cpu", &place), -ENOENT);
	cr_expect_eq(cgroup_find_place("", "", "cpu", &place), -ENOENT);
}

Test(cgroup, books)
{
	struct cgroup_throttle throttle = {0};

	cr_expect_eq(cgroup_add_cpu_stat("nr_periods 10\nnr_throttled 3\nthrottled_time 5000\n",
					 &throttle),
		     0);
	cr_expect_eq(throttle.periods_count, 10);
	cr_expect_eq(throttle.throttled_count, 3);
	cr_expect_eq(throttle.throttled_ns, 5000);
	cr_expect_eq(cgroup_add_cpu_stat("usage_usec 9\nnr_periods 1\nnr_throttled 2\n"
					 "throttled_usec 3\nnr_bursts 0\n",
					 &throttle),
		     0);
	cr_expect_eq(throttle.periods_count, 11);
	cr_expect_eq(throttle.throttled_count, 5);
	cr_expect_eq(throttle.throttled_ns, 8000);
	/* the root group of version 2 */
	cr_expect_eq(cgroup_add_cpu_stat("usage_usec 9\nuser_usec 5\n", &throttle), -ENOENT);
	cr_expect_eq(throttle.periods_count, 11);
}

Test(cgroup, of_this_process)
{
	struct cgroup_throttle throttle;
	int err = process_throttle(getpid(), &throttle);

	cr_expect(err == 0 || err == -ENOENT, "%d", err);
	if (err == 0)
		cr_expect_leq(throttle.throttled_count, throttle.periods_count);
	cr_expect_eq(process_throttle(0x7ffffff, &throttle), -ESRCH);
}
