// SPDX-License-Identifier: BSD-2-Clause
/*
 * Energy: of the host by powercap's domains, of GPUs by their counters, of a process by its share
 * of the GPUs that it uses. What a GPU has used between two samples is its only process's; of
 * several each has it in proportion to the time that its kernels ran, which is an estimate.
 *
 * Between two samples a GPU uses as much at any time: so what a pause of the recording (--wait)
 * takes is left out.
 */
#include "aggregate/state.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

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

/* Energy that a process has used by a time. */
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

/* A GPU has some tens of processes at most; a damaged capture may say otherwise. */
#define SHARES_MAX 4096

/* The share of the time between two samples that was recorded: with --wait only the program's
 * windows are. */
static double recorded_share(const struct aggregate *a, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t ns = 0;
	size_t count;
	const struct profile_interval *windows = capture_windows(a, &count);

	if (!count)
		return 1;
	for (size_t i = 0; i < count; i++)
		ns += profile_overlap_ns(&windows[i], from_ns, to_ns);
	return ns < to_ns - from_ns ? (double)ns / (double)(to_ns - from_ns) : 1;
}

/* A difference between two samples without the share of pauses. */
static uint64_t without_pauses(uint64_t used, double share)
{
	return share < 1 ? (uint64_t)((double)used * share + 0.5) : used;
}

static int handle_host_energy(struct aggregate *a, const struct event *event)
{
	const struct perfx_host_energy *record = &event->host_energy;
	struct energy_domain *domain = &a->energy->domains[record->domain];

	saw_time(a, record->time_ns);
	if (domain->name && record->energy_uj >= domain->last_uj &&
	    record->time_ns > domain->last_ns) {
		double share = recorded_share(a, domain->last_ns, record->time_ns);

		add_up(&domain->used_uj,
		       without_pauses(record->energy_uj - domain->last_uj, share));
		domain->used_ns += without_pauses(record->time_ns - domain->last_ns, share);
	}
	if (!domain->name)
		domain->name = pool_add(&a->strings, event->strings[0]);
	domain->last_uj = record->energy_uj;
	domain->last_ns = record->time_ns;
	return domain->name ? 0 : -ENOMEM;
}

static struct profile_host_energy energy_of_host(const struct energy *energy)
{
	struct profile_host_energy host = {.host_uj = PROFILE_ABSENT, .gpu_mj = PROFILE_ABSENT};

	for (size_t i = 0; i < PERFX_ENERGY_DOMAINS_MAX; i++) {
		const struct energy_domain *domain = &energy->domains[i];

		/* Packages, and memory beside them; their cores and graphics are parts of a
		 * package. */
		if (!domain->used_ns ||
		    !(begins_with(domain->name, "package") || !strcmp(domain->name, "dram")))
			continue;
		if (host.host_uj == PROFILE_ABSENT)
			host.host_uj = 0;
		add_up(&host.host_uj, domain->used_uj);
		host.host_ns = max_u64(host.host_ns, domain->used_ns);
	}
	if (!energy->has_gpu)
		return host;
	host.gpu_mj = 0;
	for (size_t i = 0; i < PERFX_GPU_DEVICES_MAX; i++)
		add_up(&host.gpu_mj, energy->devices[i].used_mj);
	return host;
}

int energy_share(struct aggregate *a, const struct perfx_gpu_memory *record)
{
	struct energy_shares *shares = &a->energy->devices[record->device].now;

	if (shares->count == SHARES_MAX)
		return 0;
	return LIST_ADD_TO(shares, (struct energy_share){record->process, record->sm_percent});
}

static int add_point(struct energy_process *process, uint64_t time_ns)
{
	struct energy_point *point = THINNED_POINT(process, PROFILE_POINTS_MAX);

	if (!point)
		return -errno;
	*point = (struct energy_point){time_ns, process->mj};
	return 0;
}

/* The part of a sample's energy that is this one's; below 0: not known. Nothing ran: equal parts,
 * of what a GPU uses when idle. */
static double part_of(const struct energy_shares *shares, const struct energy_share *share)
{
	uint64_t sum = 0;

	if (shares->count == 1)
		return 1;
	FOR_EACH_OF (each, *shares) {
		if (each->sm_percent == UINT32_MAX)
			return -1;
		sum += each->sm_percent;
	}
	return sum ? share->sm_percent / (double)sum : 1 / (double)shares->count;
}

static int divide(struct energy *energy, const struct energy_shares *shares, uint64_t mj,
		  uint64_t from_ns, uint64_t to_ns)
{
	int err = 0;

	for (size_t i = 0; !err && i < shares->count; i++) {
		const struct energy_share *share = &shares->list[i];
		double part = part_of(shares, share);
		struct energy_process *process;

		if (!share->process)
			continue;
		process = MAP64_ITEM(energy->process_ids, share->process, energy->processes);
		if (!process)
			return -ENOMEM;
		process->process = share->process;
		if (!process->points_count)
			err = add_point(process, from_ns);
		process->unknown = process->unknown || part < 0;
		process->estimated = process->estimated || shares->count > 1;
		process->mj += part > 0 ? part * (double)mj : 0;
		err = err ?: add_point(process, to_ns);
	}
	return err;
}

static int add_usage(struct aggregate *a, struct energy_device *device,
		     const struct perfx_gpu_usage *record)
{
	const struct energy_shares *shares = device->now.count ? &device->now : &device->before;
	double share = recorded_share(a, device->last_ns, record->time_ns);
	uint64_t mj = without_pauses(record->energy_mj - device->last_mj, share);

	a->energy->has_gpu = true;
	add_up(&device->used_mj, mj);
	device->used_ns += without_pauses(record->time_ns - device->last_ns, share);
	return divide(a->energy, shares, mj, device->last_ns, record->time_ns);
}

int energy_usage(struct aggregate *a, const struct perfx_gpu_usage *record)
{
	struct energy_device *device = &a->energy->devices[record->device];
	struct energy_shares before;
	int err = 0;

	/* a driver that was loaded anew counts from 0 */
	if (record->energy_mj != UINT64_MAX && device->sampled &&
	    record->energy_mj >= device->last_mj && record->time_ns > device->last_ns)
		err = add_usage(a, device, record);
	if (record->energy_mj != UINT64_MAX) {
		device->sampled = true;
		device->last_mj = record->energy_mj;
		device->last_ns = record->time_ns;
	}
	/* the next sample has these processes, should they have ended by then */
	before = device->before;
	device->before = device->now;
	device->now = before;
	device->now.count = 0;
	return err;
}

/* Energy used by a time within the samples. */
static double used_by(const struct energy_process *process, uint64_t time_ns)
{
	const struct energy_point *point = process->points;
	const struct energy_point *last = point + process->points_count - 1;

	if (time_ns <= point->time_ns)
		return point->mj;
	while (point < last && point[1].time_ns < time_ns)
		point++;
	if (point == last || point[1].time_ns <= point->time_ns)
		return point->mj;
	return point->mj + (point[1].mj - point->mj) * (double)(time_ns - point->time_ns) /
				   (double)(point[1].time_ns - point->time_ns);
}

/* The share of the steps' time that was sampled, at the least. */
#define COVERED_SHARE 0.9

static uint64_t steps_energy(const struct energy_process *process,
			     const struct profile_steps *steps)
{
	uint64_t first_ns = process->points[0].time_ns,
		 last_ns = process->points[process->points_count - 1].time_ns, from_ns, to_ns;

	if (!steps->count || !steps->series_count)
		return PROFILE_ABSENT;
	from_ns = steps->series[0].from_ns;
	to_ns = steps->series[steps->series_count - 1].to_ns;
	first_ns = max_u64(from_ns, first_ns);
	last_ns = min_u64(to_ns, last_ns);
	if (last_ns <= first_ns ||
	    (double)(last_ns - first_ns) < COVERED_SHARE * (double)(to_ns - from_ns))
		return PROFILE_ABSENT;
	return (uint64_t)(used_by(process, to_ns) - used_by(process, from_ns) + 0.5);
}

static struct profile_energy energy_of_process(const struct energy *energy, uint32_t process,
					       const struct profile_steps *steps)
{
	struct profile_energy result = {.gpu_mj = PROFILE_ABSENT, .steps_mj = PROFILE_ABSENT};
	const struct energy_process *of =
		MAP64_FIND(energy->process_ids, process, energy->processes);

	if (!of || of->unknown)
		return result;
	result.gpu_mj = (uint64_t)(of->mj + 0.5);
	result.estimated = of->estimated;
	result.steps_mj = steps_energy(of, steps);
	return result;
}

void energy_fill_device(const struct aggregate *a, struct profile_gpu_device *device)
{
	const struct energy_device *of = &a->energy->devices[device->index];

	device->energy_mj = of->used_ns ? of->used_mj : PROFILE_ABSENT;
	device->energy_ns = of->used_ns ? of->used_ns : PROFILE_ABSENT;
}

/* When steps are filled. */
static int energy_fill(struct finish_ctx *ctx)
{
	struct profile *p = ctx->profile;

	p->energy = energy_of_host(ctx->a->energy);
	for (size_t i = 0; i < p->processes_count; i++)
		p->processes[i].energy = energy_of_process(ctx->a->energy, p->processes[i].index,
							   &p->processes[i].steps);
	return 0;
}

static void energy_clear(void *state)
{
	struct energy *energy = state;

	for (size_t i = 0; i < PERFX_GPU_DEVICES_MAX; i++) {
		free(energy->devices[i].now.list);
		free(energy->devices[i].before.list);
	}
	for (size_t i = 0; i < energy->processes_count; i++)
		free(energy->processes[i].points);
	free(energy->processes);
	map64_clear(&energy->process_ids);
}

const struct part part_energy = {
	PART_STATE(energy),
	.add = {TAKES(HOST_ENERGY, host_energy)},
	.finish = energy_fill,
	.clear = energy_clear,
};
