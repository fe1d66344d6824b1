// SPDX-License-Identifier: BSD-2-Clause
#include "attach/link.h"

#include "base/grow.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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
	const struct link *links;
	size_t count, next;
};

static void close_one(const struct link *link)
{
	if (link->perf)
		bpf_link__destroy(link->perf);
	else
		close(link->fd);
}

static void *close_some(void *arg)
{
	struct closing *closing = arg;
	size_t i;

	while ((i = __atomic_fetch_add(&closing->next, 1, __ATOMIC_RELAXED)) < closing->count)
		close_one(&closing->links[i]);
	return NULL;
}

void link_close_all(const struct link *links, size_t count)
{
	struct closing closing = {.links = links, .count = count};
	pthread_t threads[CLOSERS_MAX];
	size_t started = 0;

	while (started + 1 < count && started < CLOSERS_MAX &&
	       !pthread_create(&threads[started], NULL, close_some, &closing))
		started++;
	close_some(&closing);
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}

struct link_closer {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct link *waiting;
	size_t count, capacity;
	size_t waiters; /* who waits until all are closed */
	bool busy, held, ends;
};

/* Can what waits be closed at leisure? A perf link is made and closed under a lock of the kernel's,
 * where those who come first are served first: closed all at once, they would keep a process that
 * begins from being attached until the last of them is gone. */
static bool has_time(const struct link_closer *closer)
{
	return closer->waiting[closer->count - 1].perf && !closer->waiters && !closer->ends;
}

/* Perf links that have time one by one; else all at a time, for then it waits for the kernel once.
 */
static void close_next(struct link_closer *closer)
{
	struct link one, *links = &one;
	size_t count = 1;

	if (has_time(closer)) {
		one = closer->waiting[--closer->count];
	} else {
		links = closer->waiting;
		count = closer->count;
		closer->waiting = NULL;
		closer->count = closer->capacity = 0;
	}
	pthread_mutex_unlock(&closer->lock);
	link_close_all(links, count);
	if (links != &one)
		free(links);
	pthread_mutex_lock(&closer->lock);
}

static void *close_waiting(void *arg)
{
	struct link_closer *closer = arg;

	pthread_mutex_lock(&closer->lock);
	while (closer->count || !closer->ends) {
		closer->busy = closer->count && !(closer->held && has_time(closer));
		if (closer->busy) {
			close_next(closer);
		} else {
			pthread_cond_broadcast(&closer->changed);
			pthread_cond_wait(&closer->changed, &closer->lock);
		}
	}
	pthread_mutex_unlock(&closer->lock);
	return NULL;
}

/* Signals are for the thread that waits for events. */
static int start_closer(struct link_closer *closer)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	err = pthread_create(&closer->thread, NULL, close_waiting, closer);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

struct link_closer *link_closer__new(void)
{
	struct link_closer *closer = calloc(1, sizeof(*closer));

	if (!closer)
		return NULL;
	pthread_mutex_init(&closer->lock, NULL);
	pthread_cond_init(&closer->changed, NULL);
	if (!start_closer(closer))
		return closer;
	free(closer);
	return NULL;
}

void link_closer__add(struct link_closer *closer, struct link link)
{
	int err = -ENOMEM;

	if (closer) {
		pthread_mutex_lock(&closer->lock);
		err = grow_array(&closer->waiting, &closer->capacity, closer->count + 1,
				 sizeof(*closer->waiting));
		if (!err)
			closer->waiting[closer->count++] = link;
		pthread_cond_broadcast(&closer->changed);
		pthread_mutex_unlock(&closer->lock);
	}
	if (err)
		close_one(&link);
}

void link_closer__wait(struct link_closer *closer)
{
	if (!closer)
		return;
	pthread_mutex_lock(&closer->lock);
	closer->waiters++;
	pthread_cond_broadcast(&closer->changed);
	while (closer->count || closer->busy)
		pthread_cond_wait(&closer->changed, &closer->lock);
	closer->waiters--;
	pthread_mutex_unlock(&closer->lock);
}

void link_closer__hold(struct link_closer *closer, bool held)
{
	if (!closer)
		return;
	pthread_mutex_lock(&closer->lock);
	closer->held = held;
	pthread_cond_broadcast(&closer->changed);
	pthread_mutex_unlock(&closer->lock);
}

void link_closer__free(struct link_closer *closer)
{
	if (!closer)
		return;
	pthread_mutex_lock(&closer->lock);
	closer->ends = true;
	pthread_cond_broadcast(&closer->changed);
	pthread_mutex_unlock(&closer->lock);
	pthread_join(closer->thread, NULL);
	pthread_cond_destroy(&closer->changed);
	pthread_mutex_destroy(&closer->lock);
	free(closer->waiting);
	free(closer);
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
