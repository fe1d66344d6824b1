/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files behind tracer.h share. */
#ifndef PERFX_ATTACH_TRACER_INTERNAL_H
#define PERFX_ATTACH_TRACER_INTERNAL_H

#include "attach/link.h"
#include "attach/tracer.h"

struct perfx_bpf;

struct link_tag {
	bool is_alloc_probe;
	bool is_annotation;
	bool by_return;
	uint32_t group;
	uint32_t born; /* whose it is; 0: of all processes */
	uint32_t gate;
	int file_fd;
};

struct kept_link {
	struct link link;
	struct link_tag tag;
};

struct accounted_runs {
	uint64_t count, ns;
};

struct tracer {
	struct perfx_bpf *skel;
	enum perfx_link hit_link, return_link;
	bool multi_pid;
	bool lacks[TRACER_PARTS];
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
	uint32_t alloc_probes_count; /* next free index; 0 is no allocation probe */
	uint32_t annotations_count;  /* likewise */
	struct perfx_annotation annotations[PERFX_MAX_ANNOTATIONS];
	struct kept_link *links;
	size_t links_count, links_capacity;
	size_t perf_links_count;	      /* of them */
	struct link_closer *closer;	      /* NULL: they are closed at once */
	uint64_t *gates;		      /* mapped too */
	uint32_t gate_links[PERFX_MAX_GATES]; /* by place: how many lead through it */
	int account_fd;			      /* of BPF_ENABLE_STATS; 0: off */
	struct accounted_runs forgotten[TRACER_PROGRAMS];
	uint32_t last_gate; /* handed out last */
};

/* attach.c: as tracer__detach, while the caller goes on. */
void tracer__detach_later(struct tracer *tracer);

#endif
