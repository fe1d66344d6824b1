/* SPDX-License-Identifier: BSD-2-Clause */
/* A perf event on each CPU, which runs a BPF program whenever it fires. */
#ifndef PERFX_ATTACH_CPU_EVENTS_H
#define PERFX_ATTACH_CPU_EVENTS_H

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

/* All-zero: none. */
struct cpu_events {
	struct cpu_event {
		int event_fd, link_fd; /* < 0: the CPU is offline */
	} * list;
	size_t count;
};

/* CPUs that come online later have none. 0 or -errno: then there are none. */
int cpu_events_open(struct cpu_events *events, const struct perf_event_attr *attr, int program_fd,
		    uint64_t cookie);
void cpu_events_close(struct cpu_events *events);

#endif
