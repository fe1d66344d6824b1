// SPDX-License-Identifier: BSD-2-Clause
/*
 * Memory near a limit: that of a cgroup (the kernel ends a program that passes it), of its address
 * space, of /dev/shm, of the machine, of a GPU; and how long it lasts if memory grows as it did.
 * Likewise open files and mappings.
 */
#include "analyze/rules_ctx.h"
#include "remedy_texts.h"

#include <math.h>

struct memory_limit {
	const char *words; /* "the memory limit of its cgroup (memory.max)" */
	const char *remedy;
	uint64_t limit_bytes, used_bytes; /* PROFILE_ABSENT, 0: none */
	bool is_device;			  /* a GPU's memory */
	double bytes_per_s;		  /* by which `used_bytes` grows; 0: not, or not steadily */
};

#define LESS_MEMORY                                                                      \
	"smaller batches with gradient accumulation, activation checkpointing, a lower " \
	"precision, "                                                                    \
	"or less data kept in memory"

/* Fewer samples of a GPU show no trend. */
#define DEVICE_POINTS 8

static double rate_between(const struct profile_gpu_point *from, const struct profile_gpu_point *to)
{
	if (from->memory_used_bytes == PROFILE_ABSENT || to->memory_used_bytes == PROFILE_ABSENT ||
	    to->time_ns <= from->time_ns)
		return 0;
	return ((double)to->memory_used_bytes - (double)from->memory_used_bytes) * 1e9 /
	       (double)(to->time_ns - from->time_ns);
}

/* A framework's pool grows while it warms up, and another program takes memory as it starts: growth
 * is steady only if each quarter of the recording has its share. */
static double device_growth_per_s(const struct rules_ctx *ctx,
				  const struct profile_gpu_device *device)
{
	const struct profile_gpu_point *points = device->points;
	size_t last = device->points_count - 1;
	double rate;

	if (device->points_count < DEVICE_POINTS)
		return 0;
	rate = rate_between(points, &points[last]);
	for (size_t i = 0; i < 4; i++)
		if (rate_between(&points[i * last / 4], &points[(i + 1) * last / 4]) <
		    ctx->thresholds->memory_limit_steady * rate)
			return 0;
	return rate;
}

/* Fewer samples show no trend either: they are 2 s apart. */
#define LIMITS_POINTS 5

/* A value at a time. */
struct point {
	uint64_t time_ns, value; /* PROFILE_ABSENT: not known */
};

static struct point shm_at(const struct profile_process *process, size_t i)
{
	return (struct point){process->limits.points[i].time_ns,
			      process->limits.points[i].shm_used_bytes};
}

static struct point descriptors_at(const struct profile_process *process, size_t i)
{
	return (struct point){process->limits.points[i].time_ns,
			      process->limits.points[i].descriptors_count};
}

static struct point mappings_at(const struct profile_process *process, size_t i)
{
	const struct perfx_memory_sum *sum = &process->memory_sums->points[i];

	return (struct point){sum->time_ns, sum->mappings_count ?: PROFILE_ABSENT};
}

/* By how much a value grows in a second, if it does in each quarter of the time; 0. */
static double growth_per_s(const struct rules_ctx *ctx, size_t count,
			   struct point (*at)(const struct profile_process *, size_t))
{
	const struct profile_process *process = ctx->process;
	struct point first, last;
	double growth, ns;

	if (count < LIMITS_POINTS)
		return 0;
	for (size_t i = 0; i < count; i++)
		if (at(process, i).value == PROFILE_ABSENT)
			return 0;
	first = at(process, 0);
	last = at(process, count - 1);
	ns = (double)(last.time_ns - first.time_ns);
	growth = (double)last.value - (double)first.value;
	for (size_t i = 0; i < 4; i++) {
		struct point from = at(process, i * (count - 1) / 4);
		struct point to = at(process, (i + 1) * (count - 1) / 4);

		if ((double)to.value - (double)from.value <
		    ctx->thresholds->memory_limit_steady * growth *
			    (double)(to.time_ns - from.time_ns) / ns)
			return 0;
	}
	return ns > 0 ? growth * 1e9 / ns : 0;
}

static bool is_limit(const struct memory_limit *limit)
{
	return limit->limit_bytes && limit->limit_bytes != PROFILE_ABSENT &&
	       limit->used_bytes != PROFILE_ABSENT;
}

static double used_share(const struct memory_limit *limit)
{
	return (double)limit->used_bytes / (double)limit->limit_bytes;
}

/* INFINITY: it does not grow. */
static double time_left_ns(const struct memory_limit *limit)
{
	double left = (double)limit->limit_bytes - (double)limit->used_bytes;

	return limit->bytes_per_s > 0 ? fmax(left, 0) / limit->bytes_per_s * 1e9 : INFINITY;
}

static void add_time_left(struct text *text, const struct memory_limit *limit)
{
	if (limit->bytes_per_s <= 0)
		return;
	text_printf(text, "; it grows by %s/s: full in %s", as_bytes(u64_of(limit->bytes_per_s)),
		    as_ns(u64_of(time_left_ns(limit))));
}

static void judge_limit(struct rules_ctx *ctx, const struct memory_limit *limit)
{
	const struct thresholds *thresholds = ctx->thresholds;
	double share, left;
	struct note note = {.bottleneck = BOTTLENECK_MEMORY, .confidence = 1, .share = 0};
	bool high;

	share = used_share(limit);
	/* a short recording cannot predict the next hour */
	left = ((double)profile_wall_ns(ctx->process) >= ctx->thresholds->memory_limit_observed)
		       ? time_left_ns(limit)
		       : INFINITY;
	if (share < thresholds->memory_limit_medium && left > thresholds->memory_limit_left_medium)
		return;
	high = share >= thresholds->memory_limit_high || left <= thresholds->memory_limit_left_high;
	text_printf(&note.evidence, "%s of %s (%s) of %s", as_bytes(limit->used_bytes),
		    as_bytes(limit->limit_bytes), as_percent(share), limit->words);
	add_time_left(&note.evidence, limit);
	text_printf(&note.threshold,
		    "at least %g %% used (high: %g %%), or full within %s (high: %s)",
		    thresholds->memory_limit_medium * 100, thresholds->memory_limit_high * 100,
		    as_ns(u64_of(thresholds->memory_limit_left_medium)),
		    as_ns(u64_of(thresholds->memory_limit_left_high)));
	text_printf(&note.suggestion, "%s: " LESS_MEMORY ". If it grows, find what keeps it first.",
		    limit->remedy);
	note.urgent = limit->is_device && left <= thresholds->memory_limit_left_high;
	rules_ctx_add(ctx, "MemoryLimit", high ? FINDING_HIGH : FINDING_MEDIUM, share, &note);
}

static void judge_devices(struct rules_ctx *ctx)
{
	const struct profile_gpu *gpu = &ctx->process->gpu;

	for (size_t i = 0; i < gpu->places_count && gpu->places_known; i++) {
		const struct profile_gpu_device *device = gpu->places[i].device;
		struct memory_limit limit = {
			.words = "the memory of a GPU that it uses",
			.remedy = "An allocation that fails ends the training",
			.is_device = true,
			.limit_bytes = device->facts.memory_bytes,
			.used_bytes = device->metrics[PROFILE_GPU_MEMORY_USED].last,
			.bytes_per_s = device_growth_per_s(ctx, device),
		};

		if (is_limit(&limit))
			judge_limit(ctx, &limit);
	}
}

/* The machine's, where the process has a part in it that counts. */
static struct memory_limit limit_of_host(const struct rules_ctx *ctx, double bytes_per_s)
{
	const struct profile_process *p = ctx->process;
	uint64_t all_bytes = (uint64_t)ctx->profile->memory_mib << 20;
	uint64_t available_bytes = p->limits.host_available_bytes;
	struct memory_limit limit = {
		.words = "the machine's memory, by all programs",
		.remedy = "Without memory the machine swaps, or the kernel ends a program",
		.limit_bytes = all_bytes,
		.used_bytes = all_bytes - available_bytes,
		.bytes_per_s = bytes_per_s,
	};

	if (available_bytes > all_bytes || p->rss_bytes == PROFILE_ABSENT ||
	    (double)p->rss_bytes < ctx->thresholds->memory_limit_part * (double)limit.used_bytes)
		limit.limit_bytes = 0;
	return limit;
}

/* Is it reached before the other one? */
static bool is_nearer(const struct memory_limit *limit, const struct memory_limit *other)
{
	double left = time_left_ns(limit), other_left = time_left_ns(other);

	return left != other_left ? left < other_left : used_share(limit) > used_share(other);
}

static bool uses_shm(const struct profile_process *process)
{
	return process->rss_shmem_bytes && process->rss_shmem_bytes != PROFILE_ABSENT;
}

/* A number of things near a limit. */
static void judge_count(struct rules_ctx *ctx, uint64_t used, uint64_t limit, double per_s,
			const char *words, const char *remedy)
{
	const struct thresholds *thresholds = ctx->thresholds;
	struct note note = {.bottleneck = BOTTLENECK_MEMORY, .confidence = 1};
	double share, left_ns;

	if (!limit || limit == PROFILE_ABSENT || used == PROFILE_ABSENT)
		return;
	share = (double)used / (double)limit;
	left_ns = per_s > 0 ? fmax((double)limit - (double)used, 0) / per_s * 1e9 : INFINITY;
	if (share < thresholds->resource_limit_medium &&
	    left_ns > thresholds->memory_limit_left_medium)
		return;
	text_printf(&note.evidence, "%s of %s (%s) %s", as_count(used), as_count(limit),
		    as_percent(share), words);
	if (per_s > 0)
		text_printf(&note.evidence, "; they grow by %.3g/s: none is left in %s", per_s,
			    as_ns(u64_of(left_ns)));
	text_printf(&note.threshold, "at least %g %% used (high: %g %%), or none left within %s",
		    thresholds->resource_limit_medium * 100, thresholds->resource_limit_high * 100,
		    as_ns(u64_of(thresholds->memory_limit_left_medium)));
	text_add(&note.suggestion, remedy);
	rules_ctx_add(ctx, "ResourceLimit",
		      high_if(share >= thresholds->resource_limit_high ||
			      left_ns <= thresholds->memory_limit_left_high),
		      share, &note);
}

static void judge_counts(struct rules_ctx *ctx)
{
	const struct profile_memory_sums *sums = ctx->process->memory_sums;
	const struct profile_limits *limits = &ctx->process->limits;

	judge_count(ctx, limits->descriptors_count, limits->descriptors_limit,
		    growth_per_s(ctx, limits->points_count, descriptors_at),
		    "open files (RLIMIT_NOFILE)", TRY_MORE_DESCRIPTORS);
	judge_count(ctx, limits->mappings_count, limits->mappings_limit,
		    growth_per_s(ctx, sums ? sums->points_count : 0, mappings_at),
		    "mappings (vm.max_map_count)", TRY_MORE_MAPPINGS);
}

void rules_limits(struct rules_ctx *ctx)
{
	const struct profile_limits *limits = &ctx->process->limits;
	const struct line *growth = &ctx->growth->parts[RSS_ANON];
	double bytes_per_s = growth->is_steady ? rate_of(ctx->process, u64_of(growth->growth)) : 0;
	const struct memory_limit all[] = {
		{.words = "the memory limit of its cgroup (memory.max)",
		 .remedy = "The kernel ends a program that passes it: raise the limit, or use less",
		 .limit_bytes = limits->memory_limit_bytes,
		 .used_bytes = limits->memory_used_bytes,
		 .bytes_per_s = bytes_per_s},
		{.words = "its address space (RLIMIT_AS, ulimit -v)",
		 .remedy =
			 "An allocation that fails ends the program: raise the limit, or use less",
		 .limit_bytes = limits->address_limit_bytes,
		 .used_bytes = limits->address_used_bytes,
		 .bytes_per_s = bytes_per_s},
		limit_of_host(ctx, bytes_per_s),
		{.words = "/dev/shm, by all processes",
		 .remedy = "Who touches shared memory that /dev/shm has no room for is ended by "
			   "SIGBUS: raise its size (docker run --shm-size, mount -o "
			   "remount,size=), or use less",
		 .limit_bytes = uses_shm(ctx->process) ? limits->shm_limit_bytes : 0,
		 .used_bytes = limits->shm_used_bytes,
		 .bytes_per_s = growth_per_s(ctx, limits->points_count, shm_at)},
	};
	const struct memory_limit *nearest = NULL;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (is_limit(&all[i]) && (!nearest || is_nearer(&all[i], nearest)))
			nearest = &all[i];
	if (nearest)
		judge_limit(ctx, nearest);
	judge_devices(ctx);
	judge_counts(ctx);
}
