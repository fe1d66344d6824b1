/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Uprobe links by perf event, for kernels without uprobe_multi (before Linux 6.6).
 *
 * An event of tracefs can have many probes and needs one perf event and one link. Closing it takes
 * about 50 ms on Linux 6.1; closing 64 events of one probe takes 1.5 s. If tracefs cannot be used
 * (lockdown, some containers), each probe has a perf event of its own.
 *
 * All probes of an event are added before it is opened. The kernel accepts a probe for an event in
 * use but does not register it, and Linux 6.12 and later then dereference a null pointer when the
 * event is closed.
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

/* Opens tracefs and removes the events of killed tracers. NULL with errno: no tracefs. */
struct perf_events *perf_events__new(void);
void perf_events__free(struct perf_events *events);
/* Can events of tracefs be made, and can BPF programs read the cookies of their probes? */
struct btf;
bool perf_events_work(const struct btf *kernel);

/* Makes one link for all points. Returns its descriptor or -errno; the caller removes *event when
 * it closes the link. Programs read a probe's cookie from the probe's argument (cookie_of() in
 * bpf/perfx.bpf.h). */
int link_event(struct perf_events *events, const struct link_request *request, uint32_t *event);
/* Safe in a forked child of a process with threads. */
void perf_events__remove(const struct perf_events *events, uint32_t event);
/* The descriptor that perf_events__remove needs. */
int perf_events__fd(const struct perf_events *events);

/* Makes a link for the first point only. Returns its descriptor or -errno. */
int link_single(const struct link_request *request);

#endif
