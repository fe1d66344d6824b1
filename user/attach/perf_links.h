/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Uprobe links by perf event, for kernels without uprobe_multi (before Linux 6.6).
 *
 * tracefs makes one event of many probes, which takes one perf event and one link, and is closed
 * like one: in about 50 ms on Linux 6.1, where 64 events of one probe take 1.5 s. Where tracefs
 * cannot be used (lockdown, some containers), each probe is a perf event of its own.
 *
 * An event is made whole before it is opened and never added to afterwards: the kernel takes a
 * probe for an event in use without registering it, and Linux 6.12 and later then follow a null
 * pointer when the event is closed.
 */
#ifndef PERFX_ATTACH_PERF_LINKS_H
#define PERFX_ATTACH_PERF_LINKS_H

#include "attach/links.h"

/* Probes of one file that share a link. */
struct link_request {
	int prog_fd, file_fd;
	pid_t pid; /* 0: every process */
	bool at_return;
	const struct link_points *points;
};

/* A recording's events in tracefs. */
struct perf_events;

/* Removes events that killed tracers have left. NULL with errno: tracefs cannot be used. */
struct perf_events *perf_events__new(void);
void perf_events__free(struct perf_events *events);
/* Can such events be made here, and can BPF programs read the probes' cookies from them? */
struct btf;
bool perf_events_work(const struct btf *kernel);

/* One link for all points. Returns its descriptor or -errno; *event: to be removed when the link is
 * closed. The programs find a probe's cookie in the event's argument (cookie_of() in
 * bpf/perfx.bpf.h). */
int link_event(struct perf_events *events, const struct link_request *request, uint32_t *event);
/* Safe in a forked child of a process with threads. */
void perf_events__remove(const struct perf_events *events, uint32_t event);
/* The descriptor that perf_events__remove needs. */
int perf_events__fd(const struct perf_events *events);

/* A link of the first point alone. Returns its descriptor or -errno. */
int link_single(const struct link_request *request);

#endif
