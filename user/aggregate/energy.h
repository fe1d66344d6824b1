/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Energy: of the host by powercap's domains, of GPUs by their counters, of a process by its share
 * of the GPUs that it uses. What a GPU has used between two samples is its only process's; of
 * several each has it in proportion to the time that its kernels ran, which is an estimate.
 *
 * Between two samples a GPU uses as much at any time: so what a pause of the recording (--wait)
 * takes is left out.
 */
#ifndef PERFX_AGGREGATE_ENERGY_H
#define PERFX_AGGREGATE_ENERGY_H

#include "aggregate/profile.h"
#include "aggregate/statistics.h"
#include "base/grow.h"

struct energy_domain {
	const char *name; /* NULL: none */
	uint64_t last_uj, last_ns;
	uint64_t used_uj, used_ns;
};

/* A process on a GPU at a sample. */
struct energy_share {
	uint32_t process; /* 0: all untraced ones together */
	uint32_t sm_percent;
};

struct energy_shares {
	struct energy_share *list;
	size_t count, capacity;
};

struct energy_device {
	bool sampled;
	uint64_t last_mj, last_ns;
	uint64_t used_mj, used_ns;
	struct energy_shares now, before; /* now: of the sample that is to come */
};

/* What a process has used by a time. */
struct energy_point {
	uint64_t time_ns;
	double mj;
};

struct energy_process {
	uint32_t process;
	double mj;
	bool estimated;
	bool unknown; /* its share of a shared GPU was not measured */
	struct energy_point *points;
	size_t points_count;
	struct thinning points_thinning;
};

struct energy {
	struct energy_domain domains[PERFX_ENERGY_DOMAINS_MAX];
	struct energy_device devices[PERFX_GPU_DEVICES_MAX];
	bool has_gpu;
	struct map64 process_ids; /* process → processes[] */
	struct energy_process *processes;
	size_t processes_count, processes_capacity;
};

struct aggregate;

/* A process is on a GPU; the GPU's next record of usage ends the sample. 0 or -ENOMEM. */
int energy_share(struct energy *energy, const struct perfx_gpu_memory *record);
int energy_usage(struct aggregate *a, const struct perfx_gpu_usage *record);

struct profile_energy energy_of_process(const struct energy *energy, uint32_t process,
					const struct profile_steps *steps);
struct profile_host_energy energy_of_host(const struct energy *energy);
void energy_clear(struct energy *energy);

#endif
