// SPDX-License-Identifier: BSD-2-Clause
/* Rules about what resident memory consists of: copies of a parent's pages, zeros in huge pages. */
#include "analyze/memory_sum.h"
#include "analyze/rules_ctx.h"
#include "base/order.h"
#include "remedy_texts.h"

#include <math.h>

static uint64_t copied_by(const struct profile_process *process)
{
	return process->memory_sums ? process->memory_sums->last.resident[PERFX_MEMORY_COPIED] : 0;
}

/* Workers of one parent do the same. */
struct workers {
	size_t count;
	uint64_t copied_bytes;
	bool has_earlier; /* another one of them has the finding */
};

static struct workers workers_like(const struct rules_ctx *ctx)
{
	struct workers workers = {0};

	FOR_EACH (process, ctx->profile->processes) {
		if (process->ppid != ctx->process->ppid || !copied_by(process))
			continue;
		workers.count++;
		workers.copied_bytes += copied_by(process);
		workers.has_earlier |=
			process < ctx->process &&
			(double)copied_by(process) >= ctx->thresholds->copy_on_write_bytes;
	}
	return workers;
}

/* The value of a part at the reading in the middle of the time. */
static double middle_of(const struct profile_memory_sums *sums, int part)
{
	uint64_t middle_ns = sums->first.time_ns + (sums->last.time_ns - sums->first.time_ns) / 2;
	size_t i = PARTITION_POINT(at, sums->points_count, sums->points[at].time_ns <= middle_ns);

	return (double)(i ? sums->points[i - 1] : sums->first).resident[part];
}

/* By how much copies grow, bytes a second: 0 if they level off. What a worker copies at first, it
 * copies once. */
static double copies_per_s(const struct rules_ctx *ctx)
{
	const struct profile_memory_sums *sums = ctx->process->memory_sums;
	double first = (double)sums->first.resident[PERFX_MEMORY_COPIED];
	double last = (double)sums->last.resident[PERFX_MEMORY_COPIED];
	double middle = middle_of(sums, PERFX_MEMORY_COPIED);
	double seconds = (double)(sums->last.time_ns - sums->first.time_ns) / 1e9;

	if (seconds <= 0 || last - first < ctx->thresholds->copy_on_write_growth ||
	    (sums->points_count > 2 &&
	     last - middle < ctx->thresholds->copy_on_write_halves * (middle - first)))
		return 0;
	return (last - first) / seconds;
}

static void copy_on_write(struct rules_ctx *ctx)
{
	const struct thresholds *thresholds = ctx->thresholds;
	struct note note = {.bottleneck = BOTTLENECK_MEMORY, .look = "Memory sum"};
	struct workers workers;
	double copied = (double)copied_by(ctx->process), rate;

	if (copied < thresholds->copy_on_write_bytes)
		return;
	workers = workers_like(ctx);
	rate = copies_per_s(ctx);
	if (workers.has_earlier ||
	    (rate <= 0 && (double)workers.copied_bytes < thresholds->copy_on_write_all))
		return;
	text_printf(&note.evidence,
		    "has its own copies of %s of its parent's memory; %s is shared still",
		    as_bytes(u64_of(copied)),
		    as_bytes(ctx->process->memory_sums->last.resident[PERFX_MEMORY_INHERITED]));
	if (rate > 0)
		text_printf(&note.evidence, "; copies grow by %s/s%s", as_bytes(u64_of(rate)),
			    ctx->process->memory_sums->points_count > 2
				    ? ""
				    : " (two readings do not show whether that levels off)");
	if (workers.count > 1)
		text_printf(&note.evidence, "; %zu processes of this parent have copied %s in all",
			    workers.count, as_bytes(workers.copied_bytes));
	text_add(&note.suggestion, TRY_ARRAYS_FOR_WORKERS);
	rules_ctx_add(ctx, "CopyOnWrite",
		      rate <= 0 ? FINDING_LOW
				: high_if(ctx->process->memory_sums->points_count > 2 &&
					  rate * 3600 * (double)workers.count >=
						  thresholds->copy_on_write_high),
		      rate, &note);
}

static void huge_page_padding(struct rules_ctx *ctx)
{
	const struct perfx_memory_sum *sum = &ctx->process->memory_sums->last;
	const struct thresholds *thresholds = ctx->thresholds;
	struct note note = {.bottleneck = BOTTLENECK_MEMORY, .look = "Memory sum"};
	uint64_t padding = sum->resident[PERFX_MEMORY_HUGE_PADDING];
	double share = (double)padding / fmax((double)memory_sum_resident(sum), 1);

	if ((double)padding < thresholds->huge_page_padding_bytes ||
	    share < thresholds->huge_page_padding_low)
		return;
	text_printf(
		&note.evidence,
		"about %s of %s in huge pages holds only zeros (a sample of 4,096 pages): %s of "
		"its resident memory. It was never touched, or set to zero",
		as_bytes(padding), as_bytes(sum->huge_bytes), as_percent(share));
	text_add(&note.suggestion, TRY_SMALL_PAGES);
	rules_ctx_add(ctx, "HugePagePadding",
		      medium_if(share >= thresholds->huge_page_padding_medium), share, &note);
}

void rules_memory_sum(struct rules_ctx *ctx)
{
	if (!ctx->process->memory_sums)
		return;
	copy_on_write(ctx);
	huge_page_padding(ctx);
}
