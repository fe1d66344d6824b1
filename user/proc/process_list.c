// SPDX-License-Identifier: BSD-2-Clause
/* Which processes and threads there are. A snapshot each: they come and go while it is taken. */
#include "proc/process.h"

#include "proc/process_stat.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pids {
	pid_t *list;
	size_t count, room;
};

static int add_pid(struct pids *pids, pid_t pid)
{
	if (pids->count == pids->room) {
		size_t room = pids->room ? 2 * pids->room : 64;
		pid_t *grown = realloc(pids->list, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		pids->list = grown;
		pids->room = room;
	}
	pids->list[pids->count++] = pid;
	return 0;
}

static int compare_pids(const void *left, const void *right)
{
	const pid_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/* The numbered entries of a folder, ascending. */
static int read_numbers(const char *path, struct pids *pids)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int err = 0;

	*pids = (struct pids){0};
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while (!err && (errno = 0, entry = readdir(dir))) {
		pid_t pid = (pid_t)atoi(entry->d_name);

		if (pid > 0)
			err = add_pid(pids, pid);
	}
	if (!err && errno)
		err = errno == ENOENT ? -ESRCH : -errno;
	closedir(dir);
	if (!err && !pids->count)
		err = -ESRCH;
	if (err)
		free(pids->list);
	else
		qsort(pids->list, pids->count, sizeof(*pids->list), compare_pids);
	return err;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* A main thread that has left looks like a dead process, though its threads live on. */
static bool is_dead(pid_t pid, char state)
{
	return state == 'X' || (state == 'Z' && process_task(pid) == pid);
}

static bool is_called(pid_t pid, const char *name)
{
	struct process_info info;

	if (process_info(pid, &info) != 0 || info.kernel_thread || is_dead(pid, info.state))
		return false;
	return !name || strcmp(info.comm, name) == 0 ||
	       (info.exe[0] && strcmp(base_name(info.exe), name) == 0);
}

ssize_t process_find(const char *name, pid_t **out)
{
	struct pids pids;
	size_t kept = 0;
	int err = read_numbers("/proc", &pids);

	if (err)
		return err;
	for (size_t i = 0; i < pids.count; i++)
		if (is_called(pids.list[i], name))
			pids.list[kept++] = pids.list[i];
	*out = pids.list;
	return (ssize_t)kept;
}

ssize_t process_list(pid_t **out)
{
	struct pids pids;
	int err = read_numbers("/proc", &pids);

	if (err)
		return err;
	*out = pids.list;
	return (ssize_t)pids.count;
}

struct relative {
	pid_t pid, ppid;
	bool dead, below;
};

static struct relative *read_relatives(const struct pids *pids)
{
	struct relative *relatives = calloc(pids->count + 1, sizeof(*relatives));

	for (size_t i = 0; relatives && i < pids->count; i++) {
		struct process_stat stat;

		relatives[i].pid = pids->list[i];
		relatives[i].dead = true;
		if (process_stat_read(pids->list[i], &stat) != 0)
			continue;
		relatives[i].ppid = stat.ppid;
		relatives[i].dead = is_dead(pids->list[i], stat.state);
	}
	return relatives;
}

static int compare_relatives(const void *left, const void *right)
{
	const struct relative *a = left, *b = right;

	return (a->pid > b->pid) - (a->pid < b->pid);
}

static bool is_below(const struct relative *relatives, size_t count, pid_t ppid, pid_t ancestor)
{
	struct relative key = {.pid = ppid}, *parent;

	if (ppid == ancestor)
		return true;
	parent = bsearch(&key, relatives, count, sizeof(key), compare_relatives);
	return parent && parent->below;
}

/* A child may have a lower number than its parent (numbers wrap): until nothing changes. */
static void mark_descendants(struct relative *relatives, size_t count, pid_t ancestor)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (size_t i = 0; i < count; i++) {
			if (relatives[i].below || relatives[i].pid == ancestor ||
			    !is_below(relatives, count, relatives[i].ppid, ancestor))
				continue;
			relatives[i].below = changed = true;
		}
	}
}

ssize_t process_descendants(pid_t pid, pid_t **out)
{
	struct relative *relatives;
	struct process_stat stat;
	struct pids pids;
	size_t kept = 0;
	int err = process_stat_read(pid, &stat);

	if (!err)
		err = read_numbers("/proc", &pids);
	if (err)
		return err;
	relatives = read_relatives(&pids);
	if (!relatives) {
		free(pids.list);
		return -ENOMEM;
	}
	mark_descendants(relatives, pids.count, pid);
	for (size_t i = 0; i < pids.count; i++)
		if (relatives[i].below && !relatives[i].dead)
			pids.list[kept++] = relatives[i].pid;
	free(relatives);
	*out = pids.list;
	return (ssize_t)kept;
}

ssize_t process_threads(pid_t pid, pid_t **out)
{
	char path[64];
	struct pids pids;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	err = read_numbers(path, &pids);
	if (err)
		return err;
	*out = pids.list;
	return (ssize_t)pids.count;
}

/* Its memory is its threads', and the link to the executable is there as long as there is any. */
static bool has_memory(pid_t tid)
{
	char path[64], exe[1];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)tid);
	return readlink(path, exe, sizeof(exe)) > 0 || errno != ENOENT;
}

pid_t process_task(pid_t pid)
{
	pid_t *tids = NULL, found = pid;
	ssize_t count;

	if (has_memory(pid))
		return pid;
	count = process_threads(pid, &tids);
	for (ssize_t i = 0; i < count && found == pid; i++)
		if (tids[i] != pid && has_memory(tids[i]))
			found = tids[i];
	free(tids);
	return found;
}
