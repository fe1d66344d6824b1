/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files behind tracer.h share. */
#ifndef PERFX_ATTACH_TRACER_INTERNAL_H
#define PERFX_ATTACH_TRACER_INTERNAL_H

#include "attach/tracer.h"

struct perfx_bpf;
struct bpf_link;

struct link_tag {
	bool is_hook;
	bool is_mark;
	bool by_return;
	uint32_t group;
};

struct kept_link {
	int fd;
	struct link_tag tag;
};

struct kept_perf_link {
	struct bpf_link *link;
	struct link_tag tag;
};

struct tracer {
	struct perfx_bpf *skel;
	enum perfx_link hit_link, return_link;
	bool multi_pid;
	uint32_t probes_count; /* next free index; 0 is no probe */
	uint32_t probes_max;
	struct tracer_rings spans, memory;
	int cpus_count;
	uint64_t *percpu;	    /* scratch: one value a CPU */
	struct perfx_probe *probes; /* mapped tables */
	struct perfx_context_node *contexts;
	size_t probes_bytes, contexts_bytes;
	struct perfx_name *names; /* mapped too */
	size_t names_bytes;
	uint32_t hooks_count; /* next free index; 0 is no hook */
	uint32_t marks_count; /* likewise */
	struct perfx_mark marks[PERFX_MAX_MARKS];
	struct kept_link *links; /* multi and session */
	size_t links_count, links_capacity;
	struct kept_perf_link *perf_links;
	size_t perf_links_count;
};

/* metering.c: before the programs are loaded */
void metering_open(struct perfx_bpf *skel, const struct counters *counters);

#endif
