/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Features of this kernel, found by trying them, never by its version: distributions backport
 * features, and one that exists may be forbidden.
 */
#ifndef PERFX_ATTACH_FEATURES_H
#define PERFX_ATTACH_FEATURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct features {
	bool privileged;	 /* BPF programs of the tracing kind load */
	bool btf;		 /* /sys/kernel/btf/vmlinux */
	bool ring_buffer;	 /* 5.8 */
	bool cookies;		 /* 5.15 */
	bool uprobe_perf;	 /* perf events with one uprobe each */
	bool uprobe_events;	 /* perf events with many uprobes: tracefs is writable */
	bool uprobe_multi;	 /* 6.6 */
	bool multi_pid;		 /* its pid filter sees all threads of the process: 6.10 */
	bool uprobe_session;	 /* 6.13 */
	bool optimized_nop5;	 /* a probe at a nop5 makes a call of it: 6.18 */
	bool nop5_survives_fork; /* and a forked child with that call survives */
	bool socket_lengths;	 /* sock:sock_send_length, sock_recv_length: 6.3 */
	bool switches;		 /* programs at sched:sched_switch: 5.5 */
	bool cpu_clock;		 /* perf events by the clock of a CPU */
	bool task_memory;	 /* programs read another task's memory: 5.18 */
	bool links_tried;	 /* the trial of links came to an end */
	int load_error;		 /* errno of the first program load, 0 when privileged */
	pid_t trial_pid;	 /* process that tried links; ends some time later */
};

void features_try(struct features *features);
/* The same, but what was found since the host was started is not tried again. */
void features_find(struct features *features);

/* Facts that this build of the program has found out since the host was started, in this mount
 * namespace, are kept in a file of that name in the cache. variant: the condition under which they
 * hold. */
bool boot_recall(const char *name, uint64_t variant, void *facts, size_t size);
void boot_keep(const char *name, uint64_t variant, const void *facts, size_t size);

/* Waits until nothing is left of the trial. */
void features_end(struct features *features);

#endif
