/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files that implement tracer.h. */
#ifndef PERFX_ATTACH_TRACER_INTERNAL_H
#define PERFX_ATTACH_TRACER_INTERNAL_H

#include "attach/tracer.h"
#include "perfx.skel.h"

#define TRACER_TABLES 8 /* that are mapped */

struct tracer {
	struct perfx_bpf *skel;
	int handler_id;		    /* of libbpf, for programs of uprobes */
	struct program_load *loads; /* by enum tracer_program (tracer_load.c) */
	const _Atomic uint32_t *kinds;
	enum perfx_link hit_link, return_link;
	bool multi_pid;
	bool lacks[TRACER_PARTS];
	uint32_t probes_count; /* next free index; 0 is no probe */
	uint32_t probes_max, contexts_max;
	struct tracer_rings spans, memory;
	int cpus_count;
	uint64_t *percpu;	    /* scratch: one value a CPU */
	struct perfx_probe *probes; /* mapped tables */
	uint64_t *hits;
	struct perfx_context_node *contexts;
	struct perfx_name *names;
	struct perfx_gpu_sum *gpu_sums;
	struct perfx_files_seen *files_seen; /* NULL: calls on files are not recorded */
	struct perfx_free_ids *free_ids;
	uint64_t *gates;
	struct mapped_table {
		void *memory;
		size_t bytes;
	} mapped[TRACER_TABLES];
	size_t mapped_count;
	uint32_t alloc_probes_count; /* next free index; 0 is no allocation probe */
	uint32_t annotations_count;  /* next free index of an annotation; 0 is none */
	struct perfx_annotation annotations[PERFX_MAX_ANNOTATIONS];
	struct links *links;
	struct waiting *waiting; /* NULL: not recorded */
	int account_fd;		 /* of BPF_ENABLE_STATS; 0: off */
	uint64_t room_lacked;	 /* losses for lack of memory, when read last */
	unsigned room_tries;
};

/* The elements of an array map; NULL: it cannot be mapped. The caller unmaps them. */
void *tracer_map_table(struct bpf_map *map, size_t bytes, int protection);
/* Waits until all programs that run now have returned. */
void tracer_wait_for_programs(const struct tracer *tracer);
/* The map of a kind's sums; NULL: it has none. Its keys begin with the process. */
struct bpf_map *tracer_sum_map(const struct tracer *tracer, enum perfx_kind kind);
/* It may not be loaded. */
struct bpf_program *tracer_program_of(const struct tracer *tracer, enum tracer_program which);

#endif
