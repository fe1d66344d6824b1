// SPDX-License-Identifier: BSD-2-Clause
#include "attach/link.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BPF_CMD_LINK_CREATE   28
#define UPROBE_MULTI_F_RETURN 1U

/* union bpf_attr, link_create.uprobe_multi: linux/bpf.h of Linux 6.6 (kernel commit 89ae89f53d20).
 */
struct link_create_attr {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t count, multi_flags, pid;
	uint32_t pad;
};

int link_multi(int prog_fd, int attach_type, int file_fd, pid_t pid, bool at_return,
	       const struct link_points *points)
{
	char path[64];
	struct link_create_attr attr = {
		.prog_fd = (uint32_t)prog_fd,
		.attach_type = (uint32_t)attach_type,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)points->offsets,
		.ref_ctr_offsets = (uintptr_t)points->semaphores,
		.cookies = (uintptr_t)points->cookies,
		.count = (uint32_t)points->count,
		.multi_flags = at_return ? UPROBE_MULTI_F_RETURN : 0,
		.pid = (uint32_t)pid,
	};
	long fd;

	/* by descriptor: the very file, be it deleted or in another mount namespace */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file_fd);
	fd = syscall(SYS_bpf, BPF_CMD_LINK_CREATE, &attr, sizeof(attr));
	return fd < 0 ? -errno : (int)fd;
}

#define CLOSERS_MAX 32

struct closing {
	const int *fds;
	size_t count, next;
};

static void *close_some(void *arg)
{
	struct closing *closing = arg;
	size_t i;

	while ((i = __atomic_fetch_add(&closing->next, 1, __ATOMIC_RELAXED)) < closing->count)
		close(closing->fds[i]);
	return NULL;
}

void link_close_all(const int *fds, size_t count)
{
	struct closing closing = {.fds = fds, .count = count};
	pthread_t threads[CLOSERS_MAX];
	size_t started = 0;

	while (started + 1 < count && started < CLOSERS_MAX &&
	       !pthread_create(&threads[started], NULL, close_some, &closing))
		started++;
	close_some(&closing);
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}

void link_warm_pages(int file_fd, const uint64_t *offsets, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char byte;

		/* a page that cannot be read shows when the link is made */
		if (pread(file_fd, &byte, 1, (off_t)offsets[i]) < 0)
			return;
	}
}
