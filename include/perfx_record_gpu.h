/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records of GPUs and of energy; included by perfx_record.h.
 *
 * The records do not depend on a vendor. Devices have the numbers of the driver's monitoring
 * library (NVML), also in a process that sees only some of them; GPU_DEVICE describes them.
 */
#ifndef PERFX_RECORD_GPU_H
#define PERFX_RECORD_GPU_H

enum perfx_gpu_op {
	PERFX_GPU_OP_INVALID = 0,
	PERFX_GPU_OP_KERNEL = 1,
	PERFX_GPU_OP_COPY = 2,
	PERFX_GPU_OP_MEMSET = 3,
	PERFX_GPU_OP_GRAPH = 4, /* a graph as a whole */
	PERFX_GPU_OP_SYNC = 5,
};
#define PERFX_GPU_OPS 6 /* entries of a table indexed by op */

enum perfx_gpu_direction {
	PERFX_GPU_DIRECTION_UNKNOWN = 0,
	PERFX_GPU_HOST_TO_DEVICE = 1,
	PERFX_GPU_DEVICE_TO_HOST = 2,
	PERFX_GPU_DEVICE_TO_DEVICE = 3,
	PERFX_GPU_HOST_TO_HOST = 4,
	PERFX_GPU_PEER = 5, /* from one device to another */
};
#define PERFX_GPU_DIRECTIONS 6 /* entries of a table indexed by direction */

/* The host memory of a copy. */
enum perfx_gpu_host_memory {
	PERFX_GPU_HOST_MEMORY_UNKNOWN = 0,
	PERFX_GPU_HOST_MEMORY_PAGEABLE = 1,
	PERFX_GPU_HOST_MEMORY_PINNED = 2,
	PERFX_GPU_HOST_MEMORY_NONE = 3, /* the copy has no host memory */
	PERFX_GPU_HOST_MEMORY_MANAGED = 4,
};
#define PERFX_GPU_HOST_MEMORIES 5 /* entries of a table indexed by host memory */

/* One activity of a device. */
struct perfx_gpu_activity {
	struct perfx_record hdr;
	__u64 time_ns, end_ns;
	__u64 bytes; /* COPY, MEMSET */
	__u64 call;  /* GPU_CALL of the same process that launched it; 0: none */
	__u32 process;
	__u32 device;
	__u32 stream;
	__u32 name;  /* GPU_NAME; 0: none */
	__u32 graph; /* GRAPH, or an activity inside one; 0: none */
	__u32 grid[3], block[3];
	__u32 static_shared_bytes, dynamic_shared_bytes; /* of a block */
	__u16 registers;				 /* of a thread */
	__u8 op;					 /* enum perfx_gpu_op */
	__u8 direction;					 /* enum perfx_gpu_direction */
	__u8 host_memory;				 /* enum perfx_gpu_host_memory */
	__u8 pad[7];
};
#define PERFX_FIELDS_gpu_activity                              \
	IS_TIME(time_ns)                                       \
	IS_TIME(end_ns)                                        \
	IS_ID(process, PROCESS)                                \
	IS_ID(device, GPU_DEVICE)                              \
	IS_ID(name, GPU_NAME)                                  \
	IS_WITHIN(op, PERFX_GPU_OP_KERNEL, PERFX_GPU_OPS - 1)  \
	IS_WITHIN(direction, 0, PERFX_GPU_DIRECTIONS - 1)      \
	IS_WITHIN(host_memory, 0, PERFX_GPU_HOST_MEMORIES - 1) \
	IS_WITHIN(device, 0, PERFX_GPU_DEVICES_MAX - 1)        \
	IS_TRUE(record->end_ns >= record->time_ns)

/* A call by which a thread handed work to a device, or waited for it. */
struct perfx_gpu_call {
	struct perfx_record hdr;
	__u64 time_ns, end_ns;
	__u64 call; /* unique in its process */
	__u32 process;
	__u32 tid; /* in the kernel's root pid namespace */
	__u32 name;
	__u8 op; /* enum perfx_gpu_op */
	__u8 pad[3];
};
#define PERFX_FIELDS_gpu_call                                 \
	IS_TIME(time_ns)                                      \
	IS_TIME(end_ns)                                       \
	IS_ID(process, PROCESS)                               \
	IS_ID(name, GPU_NAME)                                 \
	IS_WITHIN(op, PERFX_GPU_OP_KERNEL, PERFX_GPU_OPS - 1) \
	IS_TRUE(record->end_ns >= record->time_ns)

/* strings: name (demangled), module ("": unknown) */
#define PERFX_GPU_NAME_UNKNOWN 0x1 /* the name is made from the kernel's address */

struct perfx_gpu_name {
	struct perfx_record hdr;
	__u32 name;
	__u32 flags; /* PERFX_GPU_NAME_ */
};
#define PERFX_FIELDS_gpu_name IS_ID(name, GPU_NAME)

/* Launches, counted at their calls: exact, without times on the device. */
struct perfx_gpu_launches {
	struct perfx_record hdr;
	__u32 process;
	__u32 context; /* of the launch's own span, or of the innermost traced call; 0: none */
	__u32 name;
	__u32 grid[3], block[3];
	__u32 dynamic_shared_bytes;
	__u8 op; /* KERNEL or GRAPH */
	__u8 pad[7];
	__u64 count;
};
#define PERFX_FIELDS_gpu_launches \
	IS_ID(process, PROCESS)   \
	IS_ID(context, CONTEXT)   \
	IS_ID(name, GPU_NAME)     \
	IS_TRUE(record->op == PERFX_GPU_OP_KERNEL || record->op == PERFX_GPU_OP_GRAPH)

/* Copies and memsets, counted at their calls. */
struct perfx_gpu_copies {
	struct perfx_record hdr;
	__u32 process;
	__u32 context;	  /* as above */
	__u8 op;	  /* COPY or MEMSET */
	__u8 direction;	  /* enum perfx_gpu_direction */
	__u8 host_memory; /* enum perfx_gpu_host_memory */
	__u8 pad[5];
	__u64 count, bytes;
};
#define PERFX_FIELDS_gpu_copies                                                       \
	IS_ID(process, PROCESS)                                                       \
	IS_ID(context, CONTEXT)                                                       \
	IS_TRUE(record->op == PERFX_GPU_OP_COPY || record->op == PERFX_GPU_OP_MEMSET) \
	IS_WITHIN(direction, 0, PERFX_GPU_DIRECTIONS - 1)                             \
	IS_WITHIN(host_memory, 0, PERFX_GPU_HOST_MEMORIES - 1)

/* strings: name, uuid, version of the driver. 0: unknown, for each number */
#define PERFX_GPU_DEVICES_MAX 64

struct perfx_gpu_device {
	struct perfx_record hdr;
	__u64 memory_bytes;
	__u32 device;
	__u32 multiprocessors;
	__u32 max_sm_clock_mhz;
	__u32 compute_major, compute_minor;
	__u32 power_limit_mw;
	__u32 flags; /* 0 */
	__u32 pad;
};
#define PERFX_FIELDS_gpu_device   \
	IS_ID(device, GPU_DEVICE) \
	IS_WITHIN(device, 0, PERFX_GPU_DEVICES_MAX - 1)

/* A device at a moment. UINT64_MAX, UINT32_MAX: not measured. */
struct perfx_gpu_usage {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 memory_used_bytes;
	__u64 energy_mj; /* since the driver was loaded */
	__u64 throttle;	 /* reasons for low clocks: NVML's bits (nvmlClocksEventReason) */
	__u32 device;
	__u32 utilisation_percent, memory_utilisation_percent;
	__u32 power_mw;
	__u32 sm_clock_mhz, memory_clock_mhz;
	__u32 temperature_c;
	__u32 sm_active, sm_occupancy, tensor_active, dram_active; /* permille of the time */
	__u32 pad;
};
#define PERFX_FIELDS_gpu_usage    \
	IS_TIME(time_ns)          \
	IS_ID(device, GPU_DEVICE) \
	IS_WITHIN(device, 0, PERFX_GPU_DEVICES_MAX - 1)

/* A traced process on a device, at the time of the GPU_USAGE record that follows. Process 0: all
 * untraced processes together. */
struct perfx_gpu_memory {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 used_bytes; /* UINT64_MAX: not measured */
	__u32 process;
	__u32 device;
	__u32 sm_percent; /* UINT32_MAX: not measured */
	__u32 pad;
};
#define PERFX_FIELDS_gpu_memory   \
	IS_TIME(time_ns)          \
	IS_ID(process, PROCESS)   \
	IS_ID(device, GPU_DEVICE) \
	IS_WITHIN(device, 0, PERFX_GPU_DEVICES_MAX - 1)

/* A domain of the host's powercap: a processor with its cores, memory. strings: name ("package-0",
 * "dram") */
#define PERFX_ENERGY_DOMAINS_MAX 64

struct perfx_host_energy {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 energy_uj; /* since an arbitrary start; never resets */
	__u32 domain;
	__u32 pad;
};
#define PERFX_FIELDS_host_energy     \
	IS_TIME(time_ns)             \
	IS_ID(domain, ENERGY_DOMAIN) \
	IS_WITHIN(domain, 0, PERFX_ENERGY_DOMAINS_MAX - 1)

enum perfx_gpu_agent_state {
	PERFX_GPU_AGENT_INVALID = 0,
	PERFX_GPU_AGENT_ON = 1,
	PERFX_GPU_AGENT_REFUSED = 2,	   /* it could not be loaded, or could not begin */
	PERFX_GPU_AGENT_STEPPED_ASIDE = 3, /* the program's own profiler began */
	PERFX_GPU_AGENT_STOPPED = 4,
	PERFX_GPU_AGENT_FAILED = 5,
};

/* The agent in a process. strings: its library ("CUPTI 13.0 (130001), libcupti.so.13"), or why it
 * does not record */
struct perfx_gpu_state {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 dropped_count;	 /* records, so far; also in the loss GPU_RECORDS */
	__u64 left_mapped_bytes; /* STOPPED: bytes of the agent that stay mapped */
	__u32 process;
	__u32 level; /* --gpu */
	__u32 state; /* enum perfx_gpu_agent_state */
	__u32 pad;
};
#define PERFX_FIELDS_gpu_state  \
	IS_TIME(time_ns)        \
	IS_ID(process, PROCESS) \
	IS_WITHIN(state, PERFX_GPU_AGENT_ON, PERFX_GPU_AGENT_FAILED)

/* Activities beyond --gpu-max-events: exact sums, by the fields before `count`. */
struct perfx_gpu_overflow {
	struct perfx_record hdr;
	__u32 process;
	__u32 device;
	__u32 stream;
	__u32 name;
	__u32 grid[3], block[3];
	__u8 op;	  /* enum perfx_gpu_op */
	__u8 direction;	  /* enum perfx_gpu_direction */
	__u8 host_memory; /* enum perfx_gpu_host_memory */
	__u8 pad;
	__u32 dynamic_shared_bytes;
	__u64 count, total_ns, bytes;
	/* of the last one; 0 if the sum covers several shapes */
	__u32 static_shared_bytes;
	__u16 registers; /* of a thread */
	__u16 pad2;
};
#define PERFX_FIELDS_gpu_overflow                              \
	IS_ID(process, PROCESS)                                \
	IS_ID(device, GPU_DEVICE)                              \
	IS_ID(name, GPU_NAME)                                  \
	IS_WITHIN(op, PERFX_GPU_OP_KERNEL, PERFX_GPU_OPS - 1)  \
	IS_WITHIN(direction, 0, PERFX_GPU_DIRECTIONS - 1)      \
	IS_WITHIN(host_memory, 0, PERFX_GPU_HOST_MEMORIES - 1) \
	IS_WITHIN(device, 0, PERFX_GPU_DEVICES_MAX - 1)

#endif
