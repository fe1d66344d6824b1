// SPDX-License-Identifier: BSD-2-Clause
#include "attach/perf_links.h"

#include "base/text.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/mount.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Opens a perf event, which the link then keeps open. Returns the link's descriptor or -errno. */
static int link_perf(struct perf_event_attr *attr, const struct link_request *request,
		     uint64_t cookie)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = cookie);
	pid_t pid = request->pid ? request->pid : -1;
	int cpu = request->pid ? -1 : 0; /* one CPU suffices: a uprobe calls its programs on all */
	int perf_fd, link_fd;

	attr->size = sizeof(*attr);
	perf_fd = (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (perf_fd < 0)
		return -errno;
	link_fd = bpf_link_create(request->prog_fd, perf_fd, BPF_PERF_EVENT, &opts);
	close(perf_fd);
	return link_fd;
}

/* Reads the kernel's number of a kind of perf event, or of an event; < 0: there is none. */
static int64_t read_number(int dir_fd, const char *path)
{
	int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	char text[32] = "";
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	return n > 0 ? strtoll(text, NULL, 10) : -ENOENT;
}

/* Layout of attr.config: include/linux/trace_events.h and kernel/events/core.c of Linux. */
#define UPROBE_AT_RETURN       1u
#define UPROBE_SEMAPHORE_SHIFT 32

int link_single(const struct link_request *request)
{
	int64_t type = read_number(AT_FDCWD, "/sys/bus/event_source/devices/uprobe/type");
	const struct link_points *points = request->points;
	uint64_t semaphore = points->semaphores ? points->semaphores[0] : 0;
	char path[32];
	struct perf_event_attr attr = {
		.type = (uint32_t)type,
		.config = semaphore << UPROBE_SEMAPHORE_SHIFT |
			  (request->at_return ? UPROBE_AT_RETURN : 0),
		.uprobe_path = (uintptr_t)path,
		.probe_offset = points->offsets[0],
	};

	/* by descriptor: the file may be deleted, or in another mount namespace */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", request->file_fd);
	return type < 0 ? (int)type : link_perf(&attr, request, points->cookies[0]);
}

/* Groups of events are named by GROUP_PREFIX, the tracer's pid, and a random number. */
#define GROUP_PREFIX "perfx_"
#define GROUP_MAX    32
#define PROBES_FILE  "uprobe_events"

struct perf_events {
	int dir_fd;    /* of tracefs */
	int probes_fd; /* uprobe_events, opened for writing */
	char group[GROUP_MAX];
	uint32_t last; /* number of the event made last */
};

/* Mounts tracefs without a path, which needs CAP_SYS_ADMIN. Returns a descriptor or -1. Uses
 * syscall(), because glibc has these functions since 2.36, and Ubuntu 22.04 has 2.35. */
static int mount_tracefs(void)
{
	int fs_fd = (int)syscall(SYS_fsopen, "tracefs", FSOPEN_CLOEXEC), mount_fd = -1;

	if (fs_fd < 0)
		return -1;
	if (!syscall(SYS_fsconfig, fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		mount_fd = (int)syscall(SYS_fsmount, fs_fd, FSMOUNT_CLOEXEC, 0);
	close(fs_fd);
	return mount_fd;
}

/* Opens tracefs and its file uprobe_events. 0 or -errno. */
static int open_tracefs(struct perf_events *events)
{
	static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing",
					     NULL};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		events->dir_fd = places[i] ? open(places[i], O_PATH | O_DIRECTORY | O_CLOEXEC)
					   : mount_tracefs();
		if (events->dir_fd < 0)
			continue;
		/* O_TRUNC would remove the events of all programs */
		events->probes_fd =
			openat(events->dir_fd, PROBES_FILE, O_WRONLY | O_APPEND | O_CLOEXEC);
		if (events->probes_fd >= 0)
			return 0;
		close(events->dir_fd);
	}
	return -errno;
}

/*
 * Removes the events of tracers that have ended. uprobe_events has a line for each of an event's
 * probes:
 *
 *	p:perfx_4711_5eed1234/e3 /proc/self/fd/9:0x0000000000001234 cookie=\0x100000007
 *
 * A tracer in another PID namespace does not see this tracer's pid, so its events look left over.
 * link_event() therefore holds a shared lock on the file from an event's first probe until the
 * event is open; the kernel removes no event in use.
 */
static void remove_left_overs(const struct perf_events *events)
{
	int fd = openat(events->dir_fd, PROBES_FILE, O_RDONLY | O_CLOEXEC), pid;
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	char name[2 * GROUP_MAX], last[2 * GROUP_MAX] = "", *line = NULL;
	struct text removals = {0};
	size_t capacity = 0;

	if (file && !flock(fd, LOCK_EX | LOCK_NB)) {
		while (getline(&line, &capacity, file) > 0) {
			if (sscanf(line, "%*[pr]:%63[^ \n]", name) != 1 ||
			    sscanf(name, GROUP_PREFIX "%d_", &pid) != 1 || pid <= 0 ||
			    !kill(pid, 0) || errno != ESRCH || !strcmp(name, last))
				continue;
			text_printf(&removals, "-:%s\n", name);
			strcpy(last, name);
		}
		/* one write each, because a failed removal ends its write */
		for (char *at = removals.data; at && *at; at = strchr(at, '\n') + 1)
			(void)!write(events->probes_fd, at, strcspn(at, "\n") + 1);
	}
	free(line);
	text_clear(&removals);
	if (file)
		fclose(file);
	else if (fd >= 0)
		close(fd);
}

struct perf_events *perf_events__new(void)
{
	struct perf_events *events = calloc(1, sizeof(*events));
	uint32_t number = 0;
	int err;

	if (!events)
		return NULL;
	err = open_tracefs(events);
	if (err) {
		free(events);
		errno = -err;
		return NULL;
	}
	(void)!getrandom(&number, sizeof(number), GRND_NONBLOCK);
	snprintf(events->group, sizeof(events->group), GROUP_PREFIX "%d_%08" PRIx32, (int)getpid(),
		 number);
	remove_left_overs(events);
	return events;
}

void perf_events__free(struct perf_events *events)
{
	if (!events)
		return;
	close(events->probes_fd);
	close(events->dir_fd);
	free(events);
}

int perf_events__fd(const struct perf_events *events)
{
	return events->probes_fd;
}

void perf_events__remove(const struct perf_events *events, uint32_t event)
{
	char line[GROUP_MAX + 16];
	int length = snprintf(line, sizeof(line), "-:%s/e%" PRIu32 "\n", events->group, event);

	(void)!write(events->probes_fd, line, (size_t)length);
}

/* Adds a line for each probe. The kernel resolves the file's path when the line is written. It is
 * by descriptor: the file may be deleted, in another mount namespace, or have a name that tracefs
 * cannot parse. 0 or -errno; on an error the caller removes the event, which may have some of its
 * probes. */
static int make_event(const struct perf_events *events, uint32_t event,
		      const struct link_request *request)
{
	const struct link_points *points = request->points;
	struct text lines = {0};
	int err = 0;

	for (size_t i = 0; i < points->count; i++) {
		text_printf(&lines, "%c:%s/e%" PRIu32 " /proc/self/fd/%d:0x%" PRIx64,
			    request->at_return ? 'r' : 'p', events->group, event, request->file_fd,
			    points->offsets[i]);
		if (points->semaphores && points->semaphores[i])
			text_printf(&lines, "(0x%" PRIx64 ")", points->semaphores[i]);
		text_printf(&lines, " cookie=\\0x%" PRIx64 "\n", points->cookies[i]);
	}
	if (lines.failed)
		err = -ENOMEM;
	else if (write(events->probes_fd, lines.data, lines.length) < 0)
		err = -errno;
	text_clear(&lines);
	return err;
}

static int64_t event_id(const struct perf_events *events, uint32_t event)
{
	char path[64];

	snprintf(path, sizeof(path), "events/%s/e%" PRIu32 "/id", events->group, event);
	return read_number(events->dir_fd, path);
}

int link_event(struct perf_events *events, const struct link_request *request, uint32_t *event)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_TRACEPOINT};
	int64_t id;
	int fd;

	*event = ++events->last;
	flock(events->probes_fd, LOCK_SH);
	fd = make_event(events, *event, request);
	id = fd ? fd : event_id(events, *event);
	attr.config = (uint64_t)id;
	fd = id < 0 ? (int)id : link_perf(&attr, request, 0);
	flock(events->probes_fd, LOCK_UN);
	if (fd < 0)
		perf_events__remove(events, *event);
	return fd;
}

bool perf_events_work(const struct btf *kernel)
{
	/* the structures that cookie_of() in bpf/perfx.bpf.h reads */
	static const char *const types[] = {"uprobe_dispatch_data", "trace_uprobe", "trace_probe",
					    "probe_arg", "fetch_insn"};
	struct perf_events *events = perf_events__new();
	int exe_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const uint64_t offset = 0, cookie = 0;
	const struct link_points points = {.offsets = &offset, .cookies = &cookie, .count = 1};
	bool work = events && exe_fd >= 0;

	for (size_t i = 0; work && i < sizeof(types) / sizeof(types[0]); i++)
		work = btf__find_by_name_kind(kernel, types[i], BTF_KIND_STRUCT) > 0;
	if (work) {
		/* the event is never opened, so the kernel does not check the instruction */
		work = !make_event(events, 1,
				   &(struct link_request){.file_fd = exe_fd, .points = &points}) &&
		       event_id(events, 1) > 0;
		perf_events__remove(events, 1);
	}
	if (exe_fd >= 0)
		close(exe_fd);
	perf_events__free(events);
	return work;
}
