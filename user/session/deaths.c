// SPDX-License-Identifier: BSD-2-Clause
/*
 * What was around a process that was killed: the control group whose memory was full and who else
 * is in it, the mount of the file system that was full. Read when its SIGNAL record is, some
 * milliseconds after its end.
 */
#include "session/recording.h"

#include "base/order.h"
#include "proc/cgroup.h"
#include "proc/mounts.h"
#include "proc/process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of each, /proc is read. */
#define NEIGHBOURS_READ_MAX  256
#define NEIGHBOURS_SHOWN_MAX 8

struct neighbour {
	pid_t pid;
	uint64_t bytes;
};

ORDER(by_bytes, struct neighbour, DESCENDING(a->bytes, b->bytes), ASCENDING(a->pid, b->pid))

static void emit(struct sink *sink, const struct perfx_signal *signal, enum perfx_death_part part,
		 pid_t pid, uint64_t value, const char *text)
{
	struct perfx_death record = {.time_ns = signal->time_ns,
				     .process = signal->process,
				     .part = part,
				     .pid = (uint32_t)pid,
				     .value = value};
	struct pack_buffer *buffer = malloc(sizeof(*buffer));

	if (buffer)
		SINK_PACK(sink, buffer, PERFX_KIND_DEATH, record, text);
	free(buffer);
}

/* Who else is in the control group, those with the most memory first. */
static void emit_neighbours(struct sink *sink, const struct perfx_signal *signal,
			    const char *folder)
{
	struct neighbour found[NEIGHBOURS_READ_MAX];
	size_t count = 0;
	pid_t *pids;
	ssize_t members = cgroup_members(folder, &pids);

	for (ssize_t i = 0; i < members && count < NEIGHBOURS_READ_MAX; i++) {
		struct process_usage usage;

		if (pids[i] == (pid_t)signal->pid || process_usage(pids[i], &usage) ||
		    usage.rss_bytes == UINT64_MAX)
			continue;
		found[count++] = (struct neighbour){pids[i], usage.rss_bytes};
	}
	free(pids);
	SORT_ITEMS(found, count, by_bytes);
	for (size_t i = 0; i < count && i < NEIGHBOURS_SHOWN_MAX; i++) {
		struct process_info info;

		if (!process_info(found[i].pid, &info))
			emit(sink, signal, PERFX_DEATH_NEIGHBOUR, found[i].pid, found[i].bytes,
			     info.comm);
	}
}

static void emit_group(struct sink *sink, const struct perfx_signal *signal)
{
	struct cgroup_place place;

	if (!signal->cgroup || cgroup_find_memory(signal->cgroup, &place))
		return;
	emit(sink, signal, PERFX_DEATH_CGROUP, 0, cgroup_oom_kills(place.folder),
	     place.folder + place.mount_size);
	emit_neighbours(sink, signal, place.folder);
}

/* Finds where a device is mounted, in the mountinfo of a process. False: it is not mounted there.
 */
static bool find_mount(const char *mounts_path, uint32_t major, uint32_t minor, struct mount *mount)
{
	bool found = false;
	const char *at;
	char *mounts;

	if (proc_read(mounts_path, &mounts, 0) < 0)
		return false;
	at = mounts;
	while (!found && mount_read(&at, mount))
		found = mount->dev_major == major && mount->dev_minor == minor;
	free(mounts);
	return found;
}

static void emit_storage(struct sink *sink, const struct perfx_signal *signal)
{
	char path[64];
	struct process_info info;
	struct mount mount;

	if (signal->signal != SIGBUS || !(signal->flags & PERFX_SIGNAL_TMPFS))
		return;
	/* an ended process has no mounts any more; its parent is in the same container */
	snprintf(path, sizeof(path), "/proc/self/mountinfo");
	if (!process_info((pid_t)signal->pid, &info) && info.ppid)
		snprintf(path, sizeof(path), "/proc/%d/mountinfo", info.ppid);
	if (find_mount(path, signal->dev_major, signal->dev_minor, &mount) ||
	    find_mount("/proc/self/mountinfo", signal->dev_major, signal->dev_minor, &mount))
		emit(sink, signal, PERFX_DEATH_STORAGE, 0, 0, mount.point);
}

void deaths_on_signal(struct sink *sink, const struct perfx_signal *signal)
{
	emit_group(sink, signal);
	emit_storage(sink, signal);
}
