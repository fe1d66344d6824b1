// SPDX-License-Identifier: BSD-2-Clause
/*
 * Rules about GPUs: what keeps them from working. From outside (level 0) there are launches and
 * waits at their calls and the driver's samples; with times of devices also how long they were
 * busy.
 */
#include "analyze/location.h"
#include "analyze/rules_ctx.h"
#include "base/escape.h"
#include "base/text.h"
#include "remedy_texts.h"

#include <math.h>

/* Beyond --gpu-max-events, activities are sums without times; the remaining ones do not show when
 * devices were busy. */
static bool is_whole(const struct profile_gpu *gpu)
{
	return gpu->timed && gpu->overflow_count <= gpu->activities_count / 100;
}

/* Busy share of each device's time; of the steps' time where there are steps. < 0: unknown. */
double gpu_busy_share(const struct profile_process *p)
{
	const struct profile_gpu *gpu = &p->gpu;
	double devices = (double)gpu->places_count, most = -1;

	if (is_whole(gpu) && p->steps.gpu_used && p->steps.gpu.busy_ns != PROFILE_ABSENT &&
	    p->steps.total_ns)
		return (double)p->steps.gpu.busy_ns / (double)p->steps.total_ns / devices;
	if (is_whole(gpu) && gpu->busy_ns != PROFILE_ABSENT && gpu->places_count)
		return wall_share(p, gpu->busy_ns) / devices;
	for (size_t i = 0; i < gpu->places_count; i++) {
		uint64_t percent = gpu->places[i].device->metrics[PROFILE_GPU_UTILISATION].avg;

		if (percent != PROFILE_ABSENT)
			most = fmax(most, (double)percent / 100);
	}
	return most;
}

void add_gpu_busy(struct text *text, const struct profile_process *p)
{
	double busy = gpu_busy_share(p);
	bool timed = is_whole(&p->gpu);

	if (busy < 0)
		return;
	text_printf(text, "%s%s%s", timed ? "the GPU was busy for " : "the GPU's utilization was ",
		    as_percent(busy), timed ? " of the time" : " on average");
	if (p->gpu.places_count > 1)
		text_add(text, timed ? " on average over its devices" : " on the busiest device");
}

/* Share of the time of the steps' thread during steps; without steps, of all threads and the wall
 * time. < 0: unknown. */
static double waiting_share(const struct profile_process *p)
{
	if (p->steps.gpu_used && p->steps.gpu.wait_ns != PROFILE_ABSENT && p->steps.total_ns)
		return (double)p->steps.gpu.wait_ns / (double)p->steps.total_ns;
	return p->gpu.syncs_count ? wall_share(p, p->gpu.wait_ns) : -1;
}

bool gpu_is_limit(const struct profile_process *process, const struct thresholds *thresholds)
{
	return process->gpu.used && gpu_busy_share(process) >= thresholds->launch_bound_busy;
}

static double kernel_ns(const struct profile_gpu *gpu, uint64_t *count)
{
	*count = 0;
	for (size_t i = 0; i < gpu->kernels_count; i++)
		*count += gpu->kernels[i].count;
	return *count ? (double)gpu->kernel_ns / (double)*count : 0;
}

/* Its many kernels end before the next ones arrive: the host limits, with most of its time in code
 * that leads to the launching calls. */
static bool outruns_launches(const struct rules_ctx *ctx, double busy)
{
	const struct profile_process *p = ctx->process;
	uint64_t count;

	kernel_ns(&p->gpu, &count);
	return busy < ctx->thresholds->gpu_starved_medium && !rules_data_bound(ctx) &&
	       waiting_share(p) < ctx->thresholds->sync_wait_medium &&
	       rate_of(p, count) >= ctx->thresholds->launch_bound_kernels_per_s;
}

/* Launching takes the time and does not delay the device, which is idle or hardly used. */
bool rules_launch_bound(const struct rules_ctx *ctx)
{
	const struct profile_gpu *gpu = &ctx->process->gpu;
	uint64_t count;
	double busy = gpu_busy_share(ctx->process), average_ns = kernel_ns(gpu, &count);
	bool launches = gpu->used && wall_share(ctx->process, gpu->launch_ns) >=
					     ctx->thresholds->launch_bound_medium;

	if (gpu->used && is_whole(gpu))
		return busy >= 0 && busy < ctx->thresholds->launch_bound_busy && count &&
		       average_ns < ctx->thresholds->launch_bound_kernel_ns &&
		       (double)gpu->latency_p50_ns < ctx->thresholds->launch_bound_latency_ns &&
		       (launches || outruns_launches(ctx, busy));
	/* without data of the device, the time for launching is the only evidence */
	return launches && busy < ctx->thresholds->launch_bound_utilization;
}

/* "86,667 kernels of 3.13 µs on average, one each 46.2 µs" */
static void add_kernels(struct text *text, const struct profile_process *p)
{
	uint64_t count;
	double ns = kernel_ns(&p->gpu, &count);

	text_printf(text, "%s kernels of %s on average, one each %s", as_count(count),
		    as_ns(u64_of(ns)), as_ns(count ? profile_wall_ns(p) / count : 0));
}

static void launch_bound(struct rules_ctx *ctx)
{
	const struct profile_gpu *gpu = &ctx->process->gpu;
	double share = wall_share(ctx->process, gpu->launch_ns);
	bool launches = share >= ctx->thresholds->launch_bound_medium;
	double saved = launches ? share : 1 - gpu_busy_share(ctx->process);
	struct note note = rules_note(ctx, BOTTLENECK_LAUNCH, saved);

	if (!rules_launch_bound(ctx))
		return;
	if (!launches) {
		add_kernels(&note.evidence, ctx->process);
		text_add(&note.evidence, "; ");
	}
	text_printf(&note.evidence, "%s launches took %s, %s of the wall time%s",
		    as_count(gpu->launches_count), as_ns(gpu->launch_ns), as_percent(share),
		    gpu_busy_share(ctx->process) < 0 ? "" : "; ");
	add_gpu_busy(&note.evidence, ctx->process);
	if (gpu->latency_p50_ns != PROFILE_ABSENT)
		text_printf(&note.evidence, ", %s between a launch and its start at the median",
			    as_ns(gpu->latency_p50_ns));
	if (launches) {
		text_printf(&note.headline, "%s of the time launches kernels (%s of them)%s",
			    as_percent(share), as_count(gpu->launches_count),
			    gpu_busy_share(ctx->process) < 0 ? "" : "; ");
		add_gpu_busy(&note.headline, ctx->process);
	} else {
		add_gpu_busy(&note.headline, ctx->process);
		text_add(&note.headline, ": ");
		add_kernels(&note.headline, ctx->process);
	}
	rules_ctx_add(ctx, "LaunchBound", high_if(saved >= ctx->thresholds->launch_bound_high),
		      saved, &note);
}

/* The function in which the launching thread was during most of the longest idle times. */
static uint32_t idle_function(const struct profile_gpu *gpu, const struct profile_gpu_gap **example)
{
	uint64_t most_ns = 0;

	*example = NULL;
	for (size_t i = 0; i < gpu->gaps_count; i++) {
		uint64_t ns = 0;

		for (size_t j = 0; j < gpu->gaps_count; j++)
			if (gpu->gaps[j].function == gpu->gaps[i].function)
				ns += gpu->gaps[j].to_ns - gpu->gaps[j].from_ns;
		if (ns > most_ns) {
			most_ns = ns;
			*example = &gpu->gaps[i];
		}
	}
	return *example ? (*example)->function : 0;
}

static void add_idle(struct text *text, const struct rules_ctx *ctx)
{
	const struct profile_gpu_gap *example;
	uint32_t function = idle_function(&ctx->process->gpu, &example);
	size_t python;

	if (!example)
		return;
	if (function) {
		text_add(text, "; in the longest idle times the launching thread was in ");
		add_function_name(text, ctx->profile, function);
	}
	if (!example->stack)
		return;
	python = location_python(example->stack->frames, example->stack->frames_count);
	if (python == example->stack->frames_count)
		return;
	location_after(text,
		       function ? ", at "
				: "; in the longest idle times the launching thread was at ",
		       example->stack->frames[python]);
}

static void starved(struct rules_ctx *ctx)
{
	const struct profile_gpu *gpu = &ctx->process->gpu;
	double busy = gpu_busy_share(ctx->process);
	struct note note = {.bottleneck = BOTTLENECK_GPU_STARVED,
			    .gain_ns = (1 - busy) * rules_unit_ns(ctx),
			    .confidence = 1};
	enum finding_severity severity;

	if (busy < 0 || busy >= ctx->thresholds->gpu_starved_medium || rules_launch_bound(ctx) ||
	    rate_of(ctx->process, gpu->launches_count) <
		    ctx->thresholds->gpu_starved_launches_per_s)
		return;
	add_gpu_busy(&note.evidence, ctx->process);
	add_idle(&note.evidence, ctx);
	text_add(&note.suggestion,
		 rules_data_bound(ctx) ? "The GPU waits for data: see DataBound." : TRY_FEED_GPU);
	if (!rules_data_bound(ctx)) {
		note.share = 1 - busy;
		add_gpu_busy(&note.headline, ctx->process);
		add_idle(&note.headline, ctx);
	}
	severity = high_if(busy < ctx->thresholds->gpu_starved_high);
	/* DataBound has the remedy */
	rules_ctx_add(ctx, "GpuStarved", rules_data_bound(ctx) ? FINDING_LOW : severity, 1 - busy,
		      &note);
}

static void add_sync(struct text *text, const struct rules_ctx *ctx,
		     const struct profile_gpu_sync *sync)
{
	escape_name(text, sync->name);
	if (sync->function) {
		text_add(text, " in ");
		add_function_name(text, ctx->profile, sync->function);
	}
	location_after(text, " at ", sync->line);
}

static void sync_wait(struct rules_ctx *ctx)
{
	const struct profile_gpu *gpu = &ctx->process->gpu;
	const struct profile_gpu_sync *sync = gpu->syncs;
	double share = waiting_share(ctx->process), busy = gpu_busy_share(ctx->process);
	struct note note = {.bottleneck = BOTTLENECK_GPU_SYNC,
			    .gain_ns = share * rules_unit_ns(ctx),
			    .confidence = 1,
			    .place = gpu->syncs_count ? sync->line : NULL,
			    .share = share};

	if (share < ctx->thresholds->sync_wait_medium || busy >= ctx->thresholds->sync_wait_busy)
		return;
	text_printf(&note.evidence, "it waited for the GPU for %s%s, most of it in ",
		    as_percent(share),
		    ctx->process->steps.count ? " of the step time" : " of the wall time");
	add_sync(&note.evidence, ctx, sync);
	text_printf(&note.evidence, " (%s calls, %s)", as_count(sync->count), as_ns(sync->wait_ns));
	if (busy >= 0) {
		text_add(&note.evidence, "; ");
		add_gpu_busy(&note.evidence, ctx->process);
	}
	text_printf(&note.headline, "waits for the GPU for %s of the time, in ", as_percent(share));
	add_sync(&note.headline, ctx, sync);
	rules_ctx_add(ctx, "SyncWait", high_if(share >= ctx->thresholds->sync_wait_high), share,
		      &note);
}

struct pageable {
	uint64_t count, bytes, ns;
	const struct profile_gpu_copy *largest;
};

static struct pageable find_pageable(const struct profile_gpu *gpu)
{
	struct pageable found = {0};

	FOR_EACH (copy, gpu->copies) {
		if (copy->host_memory != PERFX_GPU_HOST_MEMORY_PAGEABLE)
			continue;
		found.count += copy->count;
		found.bytes += copy->bytes;
		found.ns += gpu->timed ? copy->total_ns : 0;
		if (!found.largest)
			found.largest = copy;
	}
	return found;
}

static void pageable_copy(struct rules_ctx *ctx)
{
	const struct profile_gpu *gpu = &ctx->process->gpu;
	struct pageable found = find_pageable(gpu);
	double rate = rate_of(ctx->process, found.bytes);
	double share = gpu->timed ? wall_share(ctx->process, found.ns) : 0;
	struct note note = {.bottleneck = BOTTLENECK_COPIES,
			    .gain_ns = share * rules_unit_ns(ctx),
			    .confidence = 1,
			    .place = found.largest ? found.largest->line : NULL};

	if (!found.count || (gpu->timed ? share < ctx->thresholds->pageable_copy_medium
					: rate < ctx->thresholds->pageable_copy_bytes_per_s))
		return;
	text_printf(&note.evidence, "%s copies of %s from or to pageable memory",
		    as_count(found.count), as_bytes(found.bytes));
	if (gpu->timed)
		text_printf(&note.evidence, " took %s of the time (%s)", as_percent(share),
			    as_si(found.ns ? (double)found.bytes * 1e9 / (double)found.ns : 0,
				  "B/s"));
	if (found.largest->line) {
		location_after(&note.evidence, ", most of them at ", found.largest->line);
	} else if (found.largest->function) {
		text_add(&note.evidence, ", most of them in ");
		add_function_name(&note.evidence, ctx->profile, found.largest->function);
	}
	text_printf(&note.threshold,
		    "at least %g %% of the time (high: %g %%), or %g MB/s where copies are "
		    "not timed",
		    ctx->thresholds->pageable_copy_medium * 100,
		    ctx->thresholds->pageable_copy_high * 100,
		    ctx->thresholds->pageable_copy_bytes_per_s / 1e6);
	rules_ctx_add(ctx, "PageableCopy", high_if(share >= ctx->thresholds->pageable_copy_high),
		      gpu->timed ? share : ctx->thresholds->pageable_copy_medium, &note);
}

static void exposed_communication(struct rules_ctx *ctx)
{
	const struct profile_gpu *gpu = &ctx->process->gpu;
	uint64_t all_ns = 0, exposed_ns = 0;
	struct note note = {.bottleneck = BOTTLENECK_COMMUNICATION, .confidence = 1};
	double share;

	for (size_t i = 0; i < gpu->places_count && gpu->timed; i++) {
		all_ns += gpu->places[i].communicating_ns;
		exposed_ns += gpu->places[i].exposed_ns;
	}
	share = gpu->places_count ? wall_share(ctx->process, exposed_ns) / (double)gpu->places_count
				  : 0;
	if (share < ctx->thresholds->exposed_communication_medium)
		return;
	note.share = share;
	note.gain_ns = share * rules_unit_ns(ctx);
	text_printf(&note.evidence,
		    "%s of %s in which GPUs communicated, they computed nothing: %s of the time",
		    as_ns(exposed_ns), as_ns(all_ns), as_percent(share));
	text_printf(&note.headline, "exposed for %s of the time", as_percent(share));
	rules_ctx_add(ctx, "ExposedCommunication",
		      high_if(share >= ctx->thresholds->exposed_communication_high), share, &note);
}

/* Libraries' matrix kernels are made for few warps, each with many registers and much shared
 * memory: their low occupancy is intended. */
static bool is_tuned(const struct profile_gpu_kernel *kernel)
{
	static const char *const parts[] = {"gemm",  "cutlass", "xmma",	    "cudnn", "nvjet",
					    "flash", "wgmma",	"winograd", "conv",  "fmha"};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strcasestr(kernel->name, parts[i]))
			return true;
	return kernel->communicates;
}

static void low_occupancy(struct rules_ctx *ctx)
{
	const struct profile_gpu *gpu = &ctx->process->gpu;

	FOR_EACH (kernel, gpu->kernels) {
		struct note note = {.of_function = true, .bottleneck = BOTTLENECK_COMPUTE};
		double share;

		if (kernel->other || is_tuned(kernel) || kernel->occupancy < 0 ||
		    kernel->occupancy >= ctx->thresholds->low_occupancy_occupancy ||
		    kernel->total_ns == PROFILE_ABSENT || !gpu->kernel_ns)
			continue;
		share = (double)kernel->total_ns / (double)gpu->kernel_ns;
		if (share < ctx->thresholds->low_occupancy_share)
			continue;
		escape_name(&note.subject, kernel->name);
		text_printf(&note.evidence,
			    "theoretical occupancy %s, limited by %s (%u threads per block, %u "
			    "registers per thread, %s of shared memory per block); %s of the "
			    "kernels' time",
			    as_percent(kernel->occupancy), kernel->limit,
			    kernel->block[0] * kernel->block[1] * kernel->block[2],
			    kernel->registers, as_bytes(kernel->shared_bytes), as_percent(share));
		rules_ctx_add(ctx, "LowOccupancy", FINDING_LOW, share, &note);
	}
}

static void clocks_throttled(struct rules_ctx *ctx)
{
	const struct profile_gpu *gpu = &ctx->process->gpu;

	for (size_t i = 0; i < gpu->places_count && gpu->places_known; i++) {
		const struct profile_gpu_device *device = gpu->places[i].device;
		uint64_t clock_mhz = device->metrics[PROFILE_GPU_SM_CLOCK].avg;
		struct note note = {.bottleneck = BOTTLENECK_THROTTLED};
		uint64_t by_power = 0, all = profile_gpu_throttled_count(device);
		const char *separator = "";
		double share, slower = -1; /* average clock relative to its maximum; < 0: unknown */

		if (clock_mhz != PROFILE_ABSENT && device->facts.max_sm_clock_mhz)
			slower = 1 - (double)clock_mhz / (double)device->facts.max_sm_clock_mhz;

		if (!device->throttle_samples_count)
			continue;
		share = (double)all / (double)device->throttle_samples_count;
		if (share < ctx->thresholds->clocks_throttled_low ||
		    (slower >= 0 && slower < ctx->thresholds->clocks_throttled_slower))
			continue;
		text_printf(&note.subject, "GPU %u", device->index);
		text_printf(&note.evidence, "clocks were lowered in %s of samples (",
			    as_percent(share));
		for (unsigned k = 0; k < PROFILE_GPU_THROTTLES; k++) {
			if (!device->throttled_counts[k])
				continue;
			text_printf(&note.evidence, "%s%s", separator,
				    profile_gpu_throttle_name(k));
			separator = ", ";
			if (!strcmp(profile_gpu_throttle_name(k), "sw_power_cap"))
				by_power = device->throttled_counts[k];
		}
		text_add(&note.evidence, ")");
		if (clock_mhz != PROFILE_ABSENT && device->facts.max_sm_clock_mhz)
			text_printf(&note.evidence, ": %llu MHz on average of %u MHz",
				    (unsigned long long)clock_mhz, device->facts.max_sm_clock_mhz);
		rules_ctx_add(ctx, "ClocksThrottled",
			      /* a fully used GPU may reach its power limit */
			      medium_if(share >= ctx->thresholds->clocks_throttled_medium &&
					by_power < all),
			      share, &note);
	}
}

void rules_gpu(struct rules_ctx *ctx)
{
	if (!ctx->process->gpu.used)
		return;
	launch_bound(ctx);
	starved(ctx);
	sync_wait(ctx);
	pageable_copy(ctx);
	exposed_communication(ctx);
	low_occupancy(ctx);
	clocks_throttled(ctx);
}
