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

#include "base/text.h"
#include "proc/process.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static const char *next_line(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? end + 1 : line + strlen(line);
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

/* Spaces and the like stand in mountinfo as \040. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (text[0] == '\\' && text[1] && text[2] && text[3]) {
			*to++ = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 + text[3] - '0');
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

struct mount {
	char root[4096], point[4096];
};

static bool parse_mount(const char *line, const char *controller, bool version_2,
			struct mount *mount)
{
	const char *dash = strstr(line, " - "), *options;
	char type[64];
	int used = 0;

	if (!dash || dash > next_line(line) ||
	    sscanf(line, "%*d %*d %*s %4095s %4095s", mount->root, mount->point) != 2 ||
	    sscanf(dash, " - %63s %*s %n", type, &used) != 1)
		return false;
	unescape(mount->root);
	unescape(mount->point);
	if (version_2)
		return strcmp(type, "cgroup2") == 0;
	options = dash + used;
	return strcmp(type, "cgroup") == 0 && lists(options, strcspn(options, "\n"), controller);
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
	bool version_2;
	const char *group = find_group(cgroup, controller, &version_2);
	struct mount mount;
	size_t size;
	int written;

	while (*mountinfo && !parse_mount(mountinfo, controller, version_2, &mount))
		mountinfo = next_line(mountinfo);
	if (!group || !*mountinfo)
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
