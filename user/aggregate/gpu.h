/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What GPUs did and what processes handed to them: by kernel and shape, by copy, by device. Memory
 * is bounded by the kinds of work, never by how often it was done.
 */
#ifndef PERFX_AGGREGATE_GPU_H
#define PERFX_AGGREGATE_GPU_H

#include "aggregate/profile.h"
#include "base/grow.h"

/* One kind of work of a process: a kernel or graph of one shape, copies of one direction. No
 * padding: compared and hashed as bytes. */
struct gpu_work_key {
	uint32_t process, name;
	uint32_t grid[3], block[3];
	uint32_t dynamic_shared_bytes;
	uint8_t op, direction, host_memory;
	uint8_t other; /* all that found no row of its own */
};
_Static_assert(sizeof(struct gpu_work_key) == 40, "hashed as bytes");

/* From where a kind of work was handed over. */
#define GPU_CALLERS_MAX 16 /* of a kind of work; more are not told apart */

struct gpu_caller {
	uint32_t context; /* 0: not known */
	uint64_t count, ns;
};

struct gpu_work {
	struct gpu_work_key key;
	uint32_t next; /* of the same hash: index + 1; 0: none */
	/* as devices did it: records and overflow sums */
	uint64_t count, total_ns, bytes;
	struct sketch *sketch; /* of the records' durations; NULL: none */
	uint64_t max_ns;
	/* as it was counted at the calls */
	uint64_t called_count, called_bytes;
	uint32_t stream, registers, static_shared_bytes;
	bool has_stream, several_streams;
	struct gpu_caller callers[GPU_CALLERS_MAX];
	size_t callers_count;
};

/* A number over time. */
struct gpu_metric {
	uint64_t last, highest, sum, count;
};

struct gpu_device {
	bool described, used; /* used: something refers to it */
	struct perfx_gpu_device record;
	const char *name, *uuid, *driver;
	struct gpu_metric metrics[PROFILE_GPU_METRICS];
	uint64_t first_energy_mj, last_energy_mj; /* UINT64_MAX: not known */
	uint64_t first_energy_ns, last_energy_ns;
	uint64_t samples_count, throttled_counts[PROFILE_GPU_THROTTLES];
	struct profile_gpu_point *points;
	size_t points_count, points_capacity;
	uint32_t points_stride, points_skipped;
};

/* A process on a device. */
struct gpu_place {
	uint32_t process, device;
	struct gpu_metric memory_bytes, sm_percent;
};

/* A process that uses GPUs. */
struct gpu_process {
	uint32_t process;
	bool has_state;
	struct perfx_gpu_state state; /* the last */
	uint32_t level;		      /* the highest at which it was recorded */
	const char *why;	      /* of the state */
	uint64_t activities_count, overflow_count;
};

struct gpu_name {
	const char *name, *module;
	uint32_t flags; /* PERFX_GPU_NAME_ */
};

struct gpu {
	struct gpu_name *names; /* by id; name NULL: not described */
	size_t names_count, names_capacity;
	struct map64 work_ids; /* hash → works[], the first of this hash */
	struct gpu_work *works;
	size_t works_count, works_capacity;
	struct gpu_device devices[PERFX_GPU_DEVICES_MAX];
	struct map64 place_ids; /* process << 32 | device → places[] */
	struct gpu_place *places;
	size_t places_count, places_capacity;
	struct map64 process_ids; /* process → processes[] */
	struct gpu_process *processes;
	size_t processes_count, processes_capacity;
	uint64_t activities_count; /* records */
	uint64_t called_count;	   /* launches and copies, counted at their calls */
};

struct aggregate;
struct finish_ctx;

void gpu_clear(struct gpu *gpu);

#endif
