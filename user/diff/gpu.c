// SPDX-License-Identifier: BSD-2-Clause
/* A process's use of GPUs, in two recordings. */
#include "analyze/roofline.h"
#include "base/order.h"
#include "diff/internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum diff_gpu_table diff_gpu_table(enum perfx_gpu_op op)
{
	switch (op) {
	case PERFX_GPU_OP_KERNEL:
	case PERFX_GPU_OP_GRAPH:
		return DIFF_GPU_KERNELS;
	case PERFX_GPU_OP_COPY:
	case PERFX_GPU_OP_MEMSET:
		return DIFF_GPU_COPIES;
	case PERFX_GPU_OP_SYNC:
	case PERFX_GPU_OP_INVALID:
		break;
	}
	return DIFF_GPU_WAITS;
}

/* Work of one kind: its key, and sums over its rows. */
struct side_work {
	struct diff_gpu_work key;
	uint64_t count, bytes, total_ns; /* total_ns: PROFILE_ABSENT: not timed */
	uint64_t recorded_count;
	double squares; /* of the recorded durations, about 0 */
};

struct side_works {
	struct side_work *works;
	size_t count;
	uint64_t wall_ns;
};

static int compare_keys(const struct diff_gpu_work *a, const struct diff_gpu_work *b)
{
	return ASCENDING(diff_gpu_table(a->op), diff_gpu_table(b->op))
		       ?: ASCENDING(a->op, b->op)
		       ?: strcmp(a->name, b->name)
		       ?: strcmp(a->caller, b->caller)
		       ?: ASCENDING(a->direction, b->direction)
		       ?: ASCENDING(a->host_memory, b->host_memory);
}

ORDER(by_key, struct side_work, compare_keys(&a->key, &b->key))

static struct side_work kernel_work(const struct profile_gpu_kernel *kernel)
{
	struct side_work work = {.key = {.op = kernel->op,
					 .name = kernel->other ? "(other)" : kernel->name,
					 .caller = ""},
				 .count = kernel->count,
				 .total_ns = kernel->total_ns};

	if (kernel->stddev_ns < 0 || kernel->avg_ns == PROFILE_ABSENT)
		return work;
	work.recorded_count = kernel->recorded_count;
	work.squares =
		(double)kernel->recorded_count * (kernel->stddev_ns * kernel->stddev_ns +
						  (double)kernel->avg_ns * (double)kernel->avg_ns);
	return work;
}

/* Sorts the works and adds up those of one kind. */
static void merge_works(struct side_works *side)
{
	size_t kept = 0;

	qsort(side->works, side->count, sizeof(*side->works), by_key);
	for (size_t i = 0; i < side->count; i++) {
		const struct side_work *work = &side->works[i];
		struct side_work *into = kept ? &side->works[kept - 1] : NULL;

		if (!into || by_key(into, work)) {
			side->works[kept++] = *work;
			continue;
		}
		into->count += work->count;
		into->bytes += work->bytes;
		into->recorded_count += work->recorded_count;
		into->squares += work->squares;
		if (into->total_ns != PROFILE_ABSENT && work->total_ns != PROFILE_ABSENT)
			into->total_ns += work->total_ns;
	}
	side->count = kept;
}

static int collect_works(struct side_works *side, const struct profile *profile,
			 const struct profile_process *process)
{
	const struct profile_gpu *gpu = process ? &process->gpu : NULL;

	*side = (struct side_works){.wall_ns = process ? profile_wall_ns(process) : 0};
	if (!gpu || !gpu->used)
		return 0;
	side->works = calloc(gpu->kernels_count + gpu->copies_count + gpu->syncs_count + 1,
			     sizeof(*side->works));
	if (!side->works)
		return -ENOMEM;
	for (size_t i = 0; i < gpu->kernels_count; i++)
		side->works[side->count++] = kernel_work(&gpu->kernels[i]);
	for (size_t i = 0; i < gpu->copies_count; i++)
		side->works[side->count++] =
			(struct side_work){.key = {.op = gpu->copies[i].op,
						   .name = "",
						   .caller = "",
						   .direction = gpu->copies[i].direction,
						   .host_memory = gpu->copies[i].host_memory},
					   .count = gpu->copies[i].count,
					   .bytes = gpu->copies[i].bytes,
					   .total_ns = gpu->copies[i].total_ns};
	for (size_t i = 0; i < gpu->syncs_count; i++) {
		const struct profile_function *caller =
			profile_function(profile, gpu->syncs[i].function);

		side->works[side->count++] =
			(struct side_work){.key = {.op = PERFX_GPU_OP_SYNC,
						   .name = gpu->syncs[i].name,
						   .caller = caller ? caller->name : ""},
					   .count = gpu->syncs[i].count,
					   .total_ns = gpu->syncs[i].wait_ns};
	}
	merge_works(side);
	return 0;
}

/* Sets the numbers of one side. */
static void set_work(struct diff_gpu_work *into, bool is_b, const struct side_works *side,
		     const struct side_work *work)
{
	struct sample *sample = is_b ? &into->b : &into->a;

	if (!work)
		return;
	sample->count = work->recorded_count;
	sample->mean = diff_of(work->total_ns, work->count);
	if (work->recorded_count)
		sample->stddev = sqrt(fmax(work->squares / (double)work->recorded_count -
						   sample->mean * sample->mean,
					   0));
	*diff_side(&into->calls, is_b) = (double)work->count;
	*diff_side(&into->calls_per_s, is_b) = diff_per_s(work->count, side->wall_ns);
	*diff_side(&into->avg_ns, is_b) = sample->mean;
	*diff_side(&into->share, is_b) = diff_of(work->total_ns, side->wall_ns);
	if (diff_gpu_table(work->key.op) != DIFF_GPU_COPIES)
		return;
	*diff_side(&into->bytes_per_s, is_b) = diff_per_s(work->bytes, side->wall_ns);
	if (work->total_ns != PROFILE_ABSENT)
		*diff_side(&into->rate, is_b) = diff_per_s(work->bytes, work->total_ns);
}

#define UNKNOWN ((struct diff_pair){NAN, NAN})

static void match_works(struct diff_gpu *gpu, const struct side_works *a,
			const struct side_works *b)
{
	for (size_t i = 0, j = 0; i < a->count || j < b->count;) {
		int order = i == a->count   ? 1
			    : j == b->count ? -1
					    : by_key(&a->works[i], &b->works[j]);
		const struct side_work *of_a = order <= 0 ? &a->works[i++] : NULL;
		const struct side_work *of_b = order >= 0 ? &b->works[j++] : NULL;
		struct diff_gpu_work *into = &gpu->works[gpu->works_count++];

		*into = of_b ? of_b->key : of_a->key;
		into->in = (of_a ? DIFF_IN_A : 0) | (of_b ? DIFF_IN_B : 0);
		into->calls = into->calls_per_s = into->avg_ns = into->share = UNKNOWN;
		into->bytes_per_s = into->rate = UNKNOWN;
		into->a = into->b = (struct sample){.mean = NAN, .stddev = -1};
		set_work(into, false, a, of_a);
		set_work(into, true, b, of_b);
		into->welch = welch_test(&into->a, &into->b);
		into->impact = (into->avg_ns.b - into->avg_ns.a) * into->calls_per_s.b / 1e9;
	}
}

static double exposed_share(const struct profile_process *p)
{
	uint64_t ns = 0;
	bool communicates = false;

	for (size_t i = 0; i < p->gpu.places_count; i++) {
		const struct profile_gpu_place *place = &p->gpu.places[i];

		if (place->exposed_ns == PROFILE_ABSENT)
			return NAN;
		communicates |= place->communicating_ns > 0;
		ns += place->exposed_ns;
	}
	return communicates ? diff_of(ns, profile_wall_ns(p)) : NAN;
}

/* Mean of its devices. */
static double utilisation(const struct profile_gpu *gpu)
{
	uint64_t percent = 0;

	for (size_t i = 0; i < gpu->places_count; i++) {
		const struct profile_gpu_device *device = gpu->places[i].device;

		if (device->metrics[PROFILE_GPU_UTILISATION].avg == PROFILE_ABSENT)
			return NAN;
		percent += device->metrics[PROFILE_GPU_UTILISATION].avg;
	}
	return diff_of(percent, gpu->places_count) / 100;
}

/* Sets the numbers of one side. */
static void set_side(struct diff_gpu *gpu, bool is_b, const struct profile_process *p)
{
	uint64_t wall_ns = p ? profile_wall_ns(p) : 0;
	struct gpu_rates rates;

	if (p && p->energy.gpu_mj)
		*diff_side(&gpu->power_w, is_b) = diff_per_s(p->energy.gpu_mj, wall_ns) / 1e3;
	if (!p || !p->gpu.used)
		return;
	rates = gpu_rates(p);
	*diff_side(&gpu->busy_share, is_b) = diff_of(p->gpu.busy_ns, wall_ns);
	*diff_side(&gpu->exposed_share, is_b) = exposed_share(p);
	*diff_side(&gpu->utilisation, is_b) = utilisation(&p->gpu);
	if (p->gpu.syncs_count)
		*diff_side(&gpu->wait_share, is_b) = diff_of(p->gpu.wait_ns, wall_ns);
	*diff_side(&gpu->launches_per_s, is_b) = diff_per_s(p->gpu.launches_count, wall_ns);
	*diff_side(&gpu->latency_p50_ns, is_b) = diff_of(p->gpu.latency_p50_ns, 1);
	*diff_side(&gpu->flops_per_s, is_b) = diff_known(rates.flops_per_s);
	*diff_side(&gpu->mfu, is_b) = diff_known(rates.mfu);
}

int diff_gpu(const struct diff *diff, struct diff_process *process)
{
	struct diff_gpu *gpu = &process->gpu;
	struct side_works a = {0}, b = {0};
	int err = collect_works(&a, diff->a, process->a);

	if (!err)
		err = collect_works(&b, diff->b, process->b);
	if (!err) {
		gpu->works = calloc(a.count + b.count + 1, sizeof(*gpu->works));
		err = gpu->works ? 0 : -ENOMEM;
	}
	if (!err) {
		match_works(gpu, &a, &b);
		gpu->busy_share = gpu->exposed_share = gpu->utilisation = UNKNOWN;
		gpu->wait_share = gpu->launches_per_s = gpu->latency_p50_ns = UNKNOWN;
		gpu->flops_per_s = gpu->mfu = gpu->power_w = UNKNOWN;
		set_side(gpu, false, process->a);
		set_side(gpu, true, process->b);
	}
	free(a.works);
	free(b.works);
	return err;
}

static int significance(const struct diff_gpu_work *work)
{
	return work->in != (DIFF_IN_A | DIFF_IN_B) ? 0 : 1 + (work->time >= DIFF_BETTER);
}

/* By time; where that is not known, by number. */
static double weight_of(const struct diff_gpu_work *work)
{
	double weight =
		significance(work) == 2 ? fabs(work->impact) : fmax(work->share.a, work->share.b);

	return isnan(weight) ? fmax(work->calls_per_s.a, work->calls_per_s.b) : weight;
}

ORDER(in_order, struct diff_gpu_work, ASCENDING(diff_gpu_table(a->op), diff_gpu_table(b->op)),
      DESCENDING(significance(a), significance(b)), DESCENDING(weight_of(a), weight_of(b)),
      compare_keys(a, b))

void diff_judge_gpu(const struct diff *diff, struct diff_gpu *gpu)
{
	for (size_t i = 0; i < gpu->works_count; i++) {
		struct diff_gpu_work *work = &gpu->works[i];
		double change = diff_change(work->avg_ns);

		work->time = diff_judge(diff, &work->welch, change);
		work->regressed =
			work->time == DIFF_WORSE && change > diff->threshold &&
			(work->share.a >= DIFF_WEIGHT_MIN || work->share.b >= DIFF_WEIGHT_MIN);
	}
	SORT_ITEMS(gpu->works, gpu->works_count, in_order);
}
