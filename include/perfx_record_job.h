/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records about jobs, included by perfx_record.h: ranks of processes, where processes run, merged
 * captures.
 */
#ifndef PERFX_RECORD_JOB_H
#define PERFX_RECORD_JOB_H

/* A process is a rank of a job. strings: source ("WORLD_SIZE"), name that the job's processes share
 * ("127.0.0.1:29500"; "": unknown) */
struct perfx_rank {
	struct perfx_record hdr;
	__u32 process;
	__u32 rank, world_size; /* rank < world_size */
	__u32 local_rank;	/* on its machine; UINT32_MAX: unknown */
};
#define PERFX_FIELDS_rank IS_ID(process, PROCESS)

/* Where a process runs. */
enum perfx_place_part {
	PERFX_PLACE_INVALID = 0,
	PERFX_PLACE_CGROUP = 1,	 /* path of its cgroup; of several trees the most specific path */
	PERFX_PLACE_UNIT = 2,	 /* of systemd: "trainer.service" */
	PERFX_PLACE_RUNTIME = 3, /* of its container: "docker", "containerd", "cri-o", "podman",
				    "lxc", "systemd-nspawn" */
	PERFX_PLACE_CONTAINER_ID = 4, /* 64 hexadecimal digits, or the container's name */
	PERFX_PLACE_CONTAINER = 5,    /* its name */
	PERFX_PLACE_POD = 6,	      /* of Kubernetes */
	PERFX_PLACE_NAMESPACE = 7,    /* the pod's */
	PERFX_PLACE_POD_UID = 8,
	PERFX_PLACE_JOB = 9,	    /* its number in a batch system, such as Slurm */
	PERFX_PLACE_JOB_STEP = 10,  /* "0", "batch" */
	PERFX_PLACE_HOST_NAME = 11, /* its own, if it is not the machine's */
};
#define PERFX_PLACES 12 /* entries of a table indexed by part */

/* One item about where a process runs. The cgroup comes first and invalidates earlier items.
 * strings: name */
struct perfx_place {
	struct perfx_record hdr;
	__u32 process;
	__u8 part; /* enum perfx_place_part */
	__u8 pad[3];
};
#define PERFX_FIELDS_place      \
	IS_ID(process, PROCESS) \
	IS_WITHIN(part, PERFX_PLACE_CGROUP, PERFX_PLACES - 1)

/*
 * A capture that was merged into this one. offset_ns + drift_ppb · 10⁻⁹ · (time - start_ns) was
 * added to its times to move them to this capture's clock. strings: as of HOST
 */
#define PERFX_MERGED_MAX 4096

enum perfx_alignment {
	PERFX_ALIGNMENT_INVALID = 0,
	PERFX_ALIGNMENT_REFERENCE = 1,	 /* its clock is this one's */
	PERFX_ALIGNMENT_SAME_BOOT = 2,	 /* same boot of the same machine, so the same clock */
	PERFX_ALIGNMENT_COLLECTIVES = 3, /* by ends of collectives, simultaneous on all ranks */
	PERFX_ALIGNMENT_BACKWARD = 4,	 /* by ends of backward passes, likewise */
	PERFX_ALIGNMENT_WALL_CLOCK = 5,	 /* by the machines' time of day */
};

struct perfx_merged {
	struct perfx_record hdr;
	__u64 start_ns, end_ns; /* of the capture, on this one's clock */
	__u64 start_unix_ns;
	__s64 offset_ns;
	__u64 error_ns; /* of the offset; UINT64_MAX: unknown */
	__s64 drift_ppb;
	__u64 pairs_count; /* compared pairs of ends */
	__u32 merged;	   /* 1, 2, … */
	__u32 alignment;   /* enum perfx_alignment */
	__u32 cpus_count, memory_mib, ring_bytes;
	__u32 flags; /* of HOST */
};
#define PERFX_FIELDS_merged                    \
	IS_TIME(start_ns)                      \
	IS_TIME(end_ns)                        \
	IS_WITHIN(merged, 1, PERFX_MERGED_MAX) \
	IS_WITHIN(alignment, PERFX_ALIGNMENT_REFERENCE, PERFX_ALIGNMENT_WALL_CLOCK)

#endif
