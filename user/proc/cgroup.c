// SPDX-License-Identifier: BSD-2-Clause
/*
 * A line of /proc/PID/cgroup is "ID:controllers:path", version 2 being "0::path". The controller's
 * tree may be mounted anywhere, in a container only a part of it, as /proc/self/mountinfo says:
 *
 *	36 25 0:30 /docker/abc /sys/fs/cgroup/cpu ro,nosuid shared:9 - cgroup cgroup rw,cpu
 *
 * that is: id, parent, device, root, mount point, options, optional fields, "-", type, source,
 * options of the file system.
 */
#include "proc/cgroup.h"

#include "base/grow.h"
#include "base/text.h"
#include "proc/mounts.h"
#include "proc/process.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Is item one of the comma-separated ones in [list, list + size)? */
static bool lists(const char *list, size_t size, const char *item)
{
	const char *end = list + size;
	size_t item_size = strlen(item);

	while (list < end) {
		const char *comma = memchr(list, ',', (size_t)(end - list));
		size_t length = (size_t)((comma ? comma : end) - list);

		if (length == item_size && memcmp(list, item, length) == 0)
			return true;
		list += length + 1;
	}
	return false;
}

/* The group of the process: version 1 when it has the controller, else version 2. */
static const char *find_group(const char *cgroup, const char *controller, bool *version_2)
{
	const char *unified = NULL;

	for (const char *line = cgroup; *line; line = next_line(line)) {
		const char *controllers = strchr(line, ':');
		const char *path = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!path || path > next_line(line))
			continue;
		if (lists(controllers + 1, (size_t)(path - controllers - 1), controller)) {
			*version_2 = false;
			return path + 1;
		}
		if (begins_with(line, "0::"))
			unified = path + 1;
	}
	*version_2 = true;
	return unified;
}

static bool has_controller(const struct mount *mount, const char *controller, bool version_2)
{
	if (version_2)
		return strcmp(mount->type, "cgroup2") == 0;
	return strcmp(mount->type, "cgroup") == 0 &&
	       lists(mount->options, strlen(mount->options), controller);
}

/* The part of the group's path below the mounted part of the tree. A group that is not in that part
 * leaves the mount point itself: the container's own group. */
static const char *below_root(const char *group, size_t *size, const char *root)
{
	size_t root_size = strlen(root);

	if (strcmp(root, "/") == 0)
		return group;
	if (*size >= root_size && memcmp(group, root, root_size) == 0 &&
	    (*size == root_size || group[root_size] == '/')) {
		*size -= root_size;
		return group + root_size;
	}
	*size = 0;
	return group;
}

int cgroup_find_place(const char *cgroup, const char *mountinfo, const char *controller,
		      struct cgroup_place *place)
{
	bool version_2, found;
	const char *group = find_group(cgroup, controller, &version_2);
	struct mount mount;
	size_t size;
	int written;

	do
		found = mount_read(&mountinfo, &mount);
	while (found && !has_controller(&mount, controller, version_2));
	if (!group || !found)
		return -ENOENT;
	size = strcspn(group, "\n");
	group = below_root(group, &size, mount.root);
	while (size && group[size - 1] == '/')
		size--;
	place->mount_size = strlen(mount.point);
	written = snprintf(place->folder, sizeof(place->folder), "%s%.*s", mount.point, (int)size,
			   group);
	return written < 0 || (size_t)written >= sizeof(place->folder) ? -ENAMETOOLONG : 0;
}

int cgroup_add_cpu_stat(const char *text, struct cgroup_throttle *throttle)
{
	uint64_t periods = keyed_number(text, "nr_periods");
	uint64_t throttled = keyed_number(text, "nr_throttled");
	uint64_t ns = keyed_number(text, "throttled_time"); /* version 1 */

	if (ns == UINT64_MAX) {
		ns = keyed_number(text, "throttled_usec");
		ns = ns == UINT64_MAX ? ns : 1000 * ns;
	}
	if (periods == UINT64_MAX || throttled == UINT64_MAX || ns == UINT64_MAX)
		return -ENOENT;
	throttle->periods_count += periods;
	throttle->throttled_count += throttled;
	throttle->throttled_ns += ns;
	return 0;
}

int cgroup_walk(pid_t pid, const char *controller, cgroup_visit_fn *visit, void *ctx)
{
	struct cgroup_place place;
	char *cgroup = NULL, *mounts = NULL, *slash;
	ssize_t size;
	int err;

	size = proc_read_pid(pid, "cgroup", &cgroup, 0);
	if (size >= 0)
		size = proc_read("/proc/self/mountinfo", &mounts, 0);
	err = size < 0 ? (int)size : cgroup_find_place(cgroup, mounts, controller, &place);
	free(cgroup);
	free(mounts);
	if (err)
		return err;
	do {
		visit(place.folder, ctx);
		slash = strrchr(place.folder + place.mount_size, '/');
		if (slash)
			*slash = '\0';
	} while (slash);
	return 0;
}

struct throttle_sum {
	struct cgroup_throttle *throttle;
	bool any;
};

static void add_group(const char *folder, void *ctx)
{
	struct throttle_sum *sum = ctx;
	char path[4200], *text;

	snprintf(path, sizeof(path), "%s/cpu.stat", folder);
	if (proc_read(path, &text, 0) < 0)
		return;
	if (!cgroup_add_cpu_stat(text, sum->throttle))
		sum->any = true;
	free(text);
}

int process_throttle(pid_t pid, struct cgroup_throttle *throttle)
{
	struct throttle_sum sum = {.throttle = throttle};
	int err;

	*throttle = (struct cgroup_throttle){0};
	err = cgroup_walk(pid, "cpu", add_group, &sum);
	return err || sum.any ? err : -ENOENT;
}

/* include/linux/exportfs.h: a handle of kernfs is the inode number */
#define FILEID_KERNFS 0xfe

int cgroup_find_memory(uint64_t inode, struct cgroup_place *place)
{
	struct {
		struct file_handle handle;
		uint64_t inode;
	} id = {.handle = {.handle_bytes = sizeof(inode), .handle_type = FILEID_KERNFS}};
	char link[64], *cgroup = NULL, *mounts = NULL;
	int err, mount, fd = -1;
	ssize_t size;

	memcpy(id.handle.f_handle, &inode, sizeof(inode));
	size = proc_read("/proc/self/cgroup", &cgroup, 0);
	if (size >= 0)
		size = proc_read("/proc/self/mountinfo", &mounts, 0);
	err = size < 0 ? (int)size : cgroup_find_place(cgroup, mounts, "memory", place);
	free(cgroup);
	free(mounts);
	if (err)
		return err;
	place->folder[place->mount_size] = '\0';
	mount = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mount >= 0)
		fd = open_by_handle_at(mount, &id.handle, O_PATH | O_CLOEXEC);
	err = fd < 0 ? -errno : 0;
	if (mount >= 0)
		close(mount);
	if (err)
		return err == -ESTALE ? -ENOENT : err;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	size = readlink(link, place->folder, sizeof(place->folder) - 1);
	err = size < (ssize_t)place->mount_size ? -ENOENT : 0;
	place->folder[size < 0 ? 0 : size] = '\0';
	close(fd);
	return err;
}

uint64_t cgroup_oom_kills(const char *folder)
{
	static const char *const files[] = {"memory.events", "memory.oom_control"};
	uint64_t count = UINT64_MAX;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && count == UINT64_MAX; i++) {
		char path[4200], *text;

		snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
		if (proc_read(path, &text, 0) < 0)
			continue;
		count = keyed_number(text, "oom_kill");
		free(text);
	}
	return count;
}

#define MEMBERS_MAX 4096
#define GROUPS_MAX  256

ssize_t cgroup_members(const char *folder, pid_t **pids)
{
	char path[4200], *text, *const folders[] = {(char *)folder, NULL};
	FTS *groups = fts_open(folders, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	size_t count = 0, capacity = 0, groups_count = 0;
	int err = groups ? 0 : -errno;
	FTSENT *group;

	*pids = NULL;
	while (groups && !err && groups_count < GROUPS_MAX && (group = fts_read(groups))) {
		if (group->fts_info != FTS_D)
			continue;
		groups_count++;
		snprintf(path, sizeof(path), "%s/cgroup.procs", group->fts_path);
		if (proc_read(path, &text, 0) < 0)
			continue;
		for (char *line = text; *line && count < MEMBERS_MAX && !err;) {
			char *end;
			long pid = strtol(line, &end, 10);

			if (end == line)
				break;
			err = grow_array(pids, &capacity, count + 1, sizeof(**pids));
			if (!err)
				(*pids)[count++] = (pid_t)pid;
			line = end + strspn(end, "\n");
		}
		free(text);
	}
	if (groups)
		fts_close(groups);
	return err ?: (ssize_t)count;
}
