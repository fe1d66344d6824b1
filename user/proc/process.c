// SPDX-License-Identifier: BSD-2-Clause
#include "proc/process.h"

#include "proc/proc.h"
#include "proc/process_stat.h"
#include "proc/rootfs.h"

#include <elf.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void read_exe(pid_t pid, struct process_info *info)
{
	static const char deleted[] = " (deleted)";
	const size_t suffix = sizeof(deleted) - 1;
	char link[64];
	ssize_t size;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)process_task(pid));
	size = readlink(link, info->exe, sizeof(info->exe) - 1);
	info->exe[size > 0 ? size : 0] = '\0';
	if (size <= (ssize_t)suffix || strcmp(info->exe + size - suffix, deleted) != 0)
		return;
	info->exe[size - (ssize_t)suffix] = '\0';
	info->exe_deleted = true;
}

/* False, too, where we may not look. */
static bool runs_32bit(pid_t pid)
{
	unsigned char ident[EI_NIDENT] = {0};
	char path[64];
	bool found;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)process_task(pid));
	fd = rootfs_open("", path);
	if (fd < 0)
		return false;
	found = pread(fd, ident, sizeof(ident), 0) == sizeof(ident) &&
		memcmp(ident, ELFMAG, SELFMAG) == 0 && ident[EI_CLASS] == ELFCLASS32;
	close(fd);
	return found;
}

int process_info(pid_t pid, struct process_info *info)
{
	struct process_stat stat;
	int err = process_stat_read(pid, &stat);

	if (err)
		return err;
	memset(info, 0, sizeof(*info));
	info->pid = pid;
	info->ppid = stat.ppid;
	memcpy(info->comm, stat.comm, sizeof(info->comm));
	info->state = stat.state;
	info->kernel_thread = stat.kernel_thread;
	info->start_ticks = stat.start_ticks;
	info->start_ns = ticks_to_ns(stat.start_ticks);
	if (stat.kernel_thread)
		return 0;
	read_exe(pid, info);
	info->is_32bit = runs_32bit(pid);
	return 0;
}

bool process_ends_within(pid_t pid, int timeout_ms)
{
	/* pidfd_open() came with glibc 2.36: Ubuntu 22.04 has 2.35, RHEL 9 has 2.34 */
	struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
	bool ended;

	if (end.fd < 0)
		return errno == ESRCH;
	ended = poll(&end, 1, timeout_ms) > 0;
	close(end.fd);
	return ended;
}

bool process_has_ended(pid_t pid)
{
	return process_ends_within(pid, 0);
}

pid_t process_of_thread(pid_t tid)
{
	char *text;
	ssize_t size = proc_read_pid(tid, "status", &text, 0);
	uint64_t tgid;

	if (size < 0)
		return (pid_t)size;
	tgid = keyed_number(text, "Tgid:");
	free(text);
	return tgid && tgid <= INT32_MAX ? (pid_t)tgid : -ESRCH;
}

ssize_t process_cmdline(pid_t pid, char **out, size_t limit)
{
	return limit ? proc_read_pid(process_task(pid), "cmdline", out, limit) : -EINVAL;
}
