// SPDX-License-Identifier: BSD-2-Clause
/*
 * Names the groups of files and peers that the BPF programs have found (bpf/files.bpf.c): emits
 * their FILE_GROUP records. Their sums are sent like those of all maps (totals.c).
 */
#include "session/recording.h"

#include "attach/cpu_events.h"
#include "attach/tracer.h"
#include "base/message.h"
#include "base/text.h"
#include "proc/descriptor.h"
#include "proc/mounts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Between two searches for new groups. */
#define SEARCH_NS 1000000000u

/* Processes whose descriptors are searched for io_uring. */
#define UNSEEN_ASKED_MAX 64

/* A suffix has at most so many bytes, the dot included: SUFFIX_BYTES in bpf/files.bpf.c. */
#define SUFFIX_MAX 16

struct files {
	struct recording *recording;
	/* by group: its record has been emitted, as one file or as several */
	enum emitted_as { NOT_EMITTED = 0, ONE_FILE, SEVERAL_FILES } emitted[PERFX_MAX_FILE_GROUPS];
	uint64_t next_ns;
	struct mounts_text mounts;
	struct cpu_events faults;
	struct pack_buffer buffer;
};

/* The path from the root of the file system. names: from the file up, each with a '/' after it. */
static void add_path(struct text *path, const struct perfx_files_seen *seen)
{
	char names[PERFX_FILE_PATH_BYTES + 1] = "", *name;
	const char *suffix = NULL;
	bool is_file = true;

	memcpy(names, seen->path, PERFX_FILE_PATH_BYTES);
	for (size_t end = strlen(names); end; end = (size_t)(name - names)) {
		names[end - 1] = '\0';
		name = strrchr(names, '/');
		name = name ? name + 1 : names;
		is_file = name == names;
		text_add(path, "/");
		if (!is_file || !seen->several) {
			text_add(path, name);
			continue;
		}
		suffix = strrchr(name, '.');
		text_add(path, "*");
		if (suffix && strlen(suffix) <= SUFFIX_MAX)
			text_add(path, suffix);
	}
}

static void add_peer(struct text *text, const struct perfx_peer *peer)
{
	char address[INET6_ADDRSTRLEN] = "?";
	bool is_4 = peer->family == AF_INET;

	inet_ntop(peer->family, peer->address, address, sizeof(address));
	text_printf(text, is_4 ? "%s %s:%u" : "%s [%s]:%u", peer->is_stream ? "tcp" : "udp",
		    address, peer->port);
}

static void emit_group(struct files *files, uint32_t group, const struct perfx_files_seen *seen)
{
	struct perfx_file_group record = {.group = group};
	struct text name = {0}, inside = {0};
	struct mount mount = {.type = ""};
	const char *below;

	if (seen && seen->peer.family) {
		record.flags = PERFX_FILE_GROUP_SOCKET;
		add_peer(&name, &seen->peer);
	} else if (seen) {
		add_path(&inside, seen);
		if (mount_find(mounts_of(&files->mounts, (pid_t)seen->tgid), seen->device,
			       text_peek(&inside), &mount, &below)) {
			if (strcmp(mount.point, "/") != 0)
				text_add(&name, mount.point);
			text_add(&name, below);
		} else {
			/* not mounted: of a memfd, or of a file system of the kernel's own */
			text_add(&name, text_peek(&inside));
		}
	} else {
		text_add(&name, "(all others)");
	}
	SINK_PACK(files->recording->sink, &files->buffer, PERFX_KIND_FILE_GROUP, record,
		  text_peek(&name), mount.type);
	text_clear(&name);
	text_clear(&inside);
}

static void emit_new(struct files *files)
{
	uint32_t next;
	const struct perfx_files_seen *all = tracer__files_seen(files->recording->tracer, &next);

	if (next > PERFX_MAX_FILE_GROUPS) {
		if (!files->emitted[PERFX_FILES_OTHER])
			emit_group(files, PERFX_FILES_OTHER, NULL);
		files->emitted[PERFX_FILES_OTHER] = SEVERAL_FILES;
		next = PERFX_MAX_FILE_GROUPS;
	}
	for (uint32_t i = PERFX_FILES_OTHER + 1; i < next; i++) {
		const struct perfx_files_seen *seen = &all[i];
		enum emitted_as now = seen->several ? SEVERAL_FILES : ONE_FILE;

		if (!__atomic_load_n(&seen->ready, __ATOMIC_ACQUIRE) || files->emitted[i] == now)
			continue;
		files->emitted[i] = now;
		emit_group(files, i, seen);
	}
	mounts_forget(&files->mounts); /* what is mounted may change */
}

/* Without them, or for lack of a program, which has been said, calls alone are counted. */
static void open_faults(struct files *files)
{
	const struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
					     .size = sizeof(attr),
					     .config = PERF_COUNT_SW_PAGE_FAULTS_MAJ,
					     .sample_period = 1};
	int program_fd = tracer__major_fault_fd(files->recording->tracer);
	int err = program_fd < 0 ? 0 : cpu_events_open(&files->faults, &attr, program_fd, 0);

	if (err)
		msg_say("faults of mapped files are not counted: %s", strerror(-err));
}

static int open_files(struct recording *recording)
{
	uint32_t next;

	if (!tracer__files_seen(recording->tracer, &next))
		return 0;
	recording->files = calloc(1, sizeof(*recording->files));
	if (!recording->files)
		return -ENOMEM;
	recording->files->recording = recording;
	open_faults(recording->files);
	return 0;
}

static void tick(struct recording *recording)
{
	struct files *files = recording->files;

	if (!files || recording->now_ns < files->next_ns)
		return;
	files->next_ns = recording->now_ns + SEARCH_NS;
	emit_new(files);
}

static void stop(struct recording *recording)
{
	if (recording->files)
		cpu_events_close(&recording->files->faults);
}

/* Names the processes whose reads and writes are not seen, of those that are still there. */
static void say_unseen(struct recording *recording)
{
	pid_t pids[UNSEEN_ASKED_MAX];
	size_t count = tracer__pids(recording->tracer, pids, UNSEEN_ASKED_MAX);
	char reason[96];

	for (size_t i = 0; i < count; i++) {
		if (!process_has_io_uring(pids[i]))
			continue;
		snprintf(reason, sizeof(reason),
			 "process %d uses io_uring: what it reads and writes by that is not seen",
			 (int)pids[i]);
		skipped_hint(&recording->skipped, "files", reason);
	}
}

static void end(struct recording *recording)
{
	if (!recording->files)
		return;
	emit_new(recording->files);
	say_unseen(recording);
}

static void close_files(struct recording *recording)
{
	if (!recording->files)
		return;
	stop(recording);
	mounts_forget(&recording->files->mounts);
	free(recording->files);
}

const struct recording_part files_part = {.name = "files",
					  .open = open_files,
					  .tick = tick,
					  .stop = stop,
					  .end = end,
					  .close = close_files};
