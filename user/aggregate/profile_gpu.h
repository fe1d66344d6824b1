/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of the profile (aggregate/profile.h) that is about GPUs. */
#ifndef PERFX_AGGREGATE_PROFILE_GPU_H
#define PERFX_AGGREGATE_PROFILE_GPU_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The metrics of a device that are sampled. */
enum profile_gpu_metric {
	PROFILE_GPU_UTILISATION = 0,	/* percent of the time in which a kernel ran */
	PROFILE_GPU_MEMORY_UTILISATION, /* percent of the time in which memory was accessed */
	PROFILE_GPU_MEMORY_USED,	/* bytes, by all programs */
	PROFILE_GPU_POWER,		/* mW */
	PROFILE_GPU_SM_CLOCK,		/* MHz */
	PROFILE_GPU_MEMORY_CLOCK,	/* MHz */
	PROFILE_GPU_TEMPERATURE,	/* degrees Celsius */
	PROFILE_GPU_SM_ACTIVE,		/* this and the following: permille */
	PROFILE_GPU_SM_OCCUPANCY,
	PROFILE_GPU_TENSOR_ACTIVE,
	PROFILE_GPU_DRAM_ACTIVE,
	PROFILE_GPU_METRICS
};

#define PROFILE_GPU_THROTTLES 9 /* bits of struct perfx_gpu_usage.throttle that have a name */

struct profile_gpu_point {
	uint64_t time_ns, memory_used_bytes;	/* UINT64_MAX: not measured */
	uint32_t utilisation_percent, power_mw; /* UINT32_MAX likewise */
};

/* A kernel, graph or function of the GPU's library. */
struct profile_gpu_name {
	const char *name, *module; /* NULL: not described */
	uint32_t flags;		   /* PERFX_GPU_NAME_ */
};

/* A number over time; PROFILE_ABSENT: never measured. */
struct profile_gpu_series {
	uint64_t last, avg, max;
};

struct profile_gpu_device {
	uint32_t index;
	const char *name, *uuid, *driver; /* "": unknown */
	struct perfx_gpu_device facts;	  /* 0: unknown, for each */
	struct profile_gpu_series metrics[PROFILE_GPU_METRICS];
	uint64_t energy_mj, energy_ns; /* used, and in what time; PROFILE_ABSENT */
	/* Of the samples that have the reasons; 0: none has. */
	uint64_t throttle_samples_count, throttled_counts[PROFILE_GPU_THROTTLES];
	const struct profile_gpu_point *points;
	size_t points_count;
};

/* A process on a device. Times are unions of the intervals in which something ran;
 * PROFILE_ABSENT: not recorded. */
struct profile_gpu_place {
	const struct profile_gpu_device *device;
	struct profile_gpu_series memory_bytes, sm_percent;
	uint64_t busy_ns;
	uint64_t computing_ns, communicating_ns; /* kernels by what they do */
	uint64_t exposed_ns;			 /* of communicating_ns, while none computed */
};

/* A kernel, or a graph as a whole, of one shape. */
struct profile_gpu_kernel {
	enum perfx_gpu_op op;
	const char *name, *module; /* name "": unknown */
	bool other;		   /* all that found no row of their own: name is no kernel's */
	bool unnamed;		   /* the name is made of an address */
	bool communicates;
	uint64_t count;
	uint64_t total_ns, avg_ns, max_ns, p99_ns; /* PROFILE_ABSENT: counted at the calls alone */
	uint64_t recorded_count;		   /* with a duration of their own */
	double stddev_ns;			   /* of the population of these; < 0: absent */
	uint32_t grid[3], block[3];
	uint32_t registers;		  /* of a thread; 0: not known */
	uint64_t shared_bytes;		  /* of a block; PROFILE_ABSENT: not known */
	double occupancy;		  /* theoretical, 0 to 1; < 0: not known */
	const char *limit;		  /* what it is limited by; "": not known */
	uint32_t stream;		  /* UINT32_MAX: several, or not known */
	uint32_t function, context;	  /* that launches it most; 0: not known */
	const struct profile_frame *line; /* of Python, that led there; NULL: not known */
};

/* Copies of one direction, or memsets. */
struct profile_gpu_copy {
	enum perfx_gpu_op op;
	enum perfx_gpu_direction direction;
	enum perfx_gpu_host_memory host_memory;
	uint64_t count, bytes;
	uint64_t total_ns; /* on the device; PROFILE_ABSENT: not timed */
	uint32_t function; /* as above */
	const struct profile_frame *line;
};

/* Calls by which threads wait for a device: by function and who called it. */
struct profile_gpu_sync {
	const char *name;
	uint32_t function; /* of the caller; 0: not known */
	const struct profile_frame *line;
	uint64_t count, wait_ns;
};

struct profile_gpu_gap {
	uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC */
	uint32_t device;
	uint32_t tid;	   /* the thread that asked for what came next; 0: not known */
	uint32_t function; /* it was in meanwhile; 0: in none that is traced */
	const struct profile_stack *stack; /* that its samples show most often; NULL: none */
};

#define PROFILE_GPU_GAPS_MAX 16

struct profile_gpu {
	bool used; /* otherwise nothing below is known */
	uint32_t level;
	bool timed; /* what devices did was recorded, not calls alone */
	bool has_state;
	enum perfx_gpu_agent_state state; /* of the agent */
	const char *why;		  /* what records, or why nothing does; "" */
	uint64_t dropped_count, left_mapped_bytes;
	struct profile_gpu_place *places;
	size_t places_count;
	bool places_known;	 /* otherwise they are all of the machine */
	uint64_t launches_count; /* calls that launch kernels or graphs */
	uint64_t launch_ns;	 /* the time of these calls, threads added up */
	/* From then on the overhead budget had removed a probe on such calls, on copies or on
	 * waits: launches, kernels, copies and waits that were counted at their calls are those
	 * before it, and some after it; 0: all were counted. */
	uint64_t called_until_ns;
	uint64_t activities_count, overflow_count; /* overflow_count: as sums alone */
	uint64_t unlinked_count;		   /* activities whose caller is not known */
	struct profile_gpu_kernel *kernels;	   /* total, then count, descending */
	size_t kernels_count;
	struct profile_gpu_copy *copies; /* bytes descending */
	size_t copies_count;
	struct profile_gpu_sync *syncs; /* wait_ns descending */
	size_t syncs_count;
	uint64_t wait_ns;   /* of all of them */
	uint64_t busy_ns;   /* over all places; PROFILE_ABSENT: not recorded */
	uint64_t kernel_ns; /* durations added up, of kernels and graphs */
	struct profile_gpu_gap gaps[PROFILE_GPU_GAPS_MAX]; /* the longest first */
	size_t gaps_count;
	/* From the launching call to the start; PROFILE_ABSENT: not known. */
	uint64_t latency_p50_ns, latency_p99_ns;
	/* Operations of calls whose kernels are known, and the time of these; 0: none. */
	uint64_t flops, flops_ns;
	enum perfx_dtype dtype;	 /* of most of them */
	double peak_flops_per_s; /* of the devices, for dtype; 0: not known */
};

/* Bits of `throttle`: "sw_power_cap". */
const char *profile_gpu_throttle_name(unsigned bit);
/* Samples in which a device ran slower than it could, by a limit of power or temperature. */
uint64_t profile_gpu_throttled_count(const struct profile_gpu_device *device);

#endif
