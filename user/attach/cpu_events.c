// SPDX-License-Identifier: BSD-2-Clause
#include "attach/cpu_events.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_event(struct cpu_event *event, struct perf_event_attr attr, int cpu, int program_fd,
		      const struct bpf_link_create_opts *opts)
{
	event->link_fd = -1;
	event->event_fd =
		(int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (event->event_fd < 0)
		return errno == ENODEV ? 0 : -errno;
	event->link_fd = bpf_link_create(program_fd, event->event_fd, BPF_PERF_EVENT, opts);
	return event->link_fd < 0 ? -errno : 0;
}

int cpu_events_open(struct cpu_events *events, const struct perf_event_attr *attr, int program_fd,
		    uint64_t cookie)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = cookie);
	size_t count = (size_t)sysconf(_SC_NPROCESSORS_CONF);
	int err = program_fd < 0 ? -ENOTSUP : 0;

	events->list = calloc(count, sizeof(*events->list));
	if (!events->list)
		return -ENOMEM;
	for (; !err && events->count < count; events->count++)
		err = open_event(&events->list[events->count], *attr, (int)events->count,
				 program_fd, &opts);
	if (err)
		cpu_events_close(events);
	return err;
}

void cpu_events_close(struct cpu_events *events)
{
	for (size_t i = 0; i < events->count; i++) {
		if (events->list[i].link_fd >= 0)
			close(events->list[i].link_fd);
		if (events->list[i].event_fd >= 0)
			close(events->list[i].event_fd);
	}
	free(events->list);
	*events = (struct cpu_events){0};
}
