// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/leaks.h"

#include "analyze/trend.h"

#include <errno.h>
#include <stdlib.h>

/* The windows that are judged: [from, to). */
struct span {
	size_t from, to;
};

static size_t first_window(const struct profile_process *process,
			   const struct profile_memory *memory)
{
	if (process->from_ns <= memory->windows_from_ns)
		return 0;
	return (size_t)((process->from_ns - memory->windows_from_ns) / memory->window_ns);
}

static struct span span_of(const struct profile_process *process,
			   const struct profile_memory *memory)
{
	size_t first = first_window(process, memory), count = memory->windows_count;

	if (count > PROFILE_WINDOWS || first >= count)
		return (struct span){0};
	return (struct span){first + (count - first + 3) / 4, count - 1};
}

static const char *why_unjudged(const struct profile_process *process,
				const struct profile_memory *memory)
{
	double recorded = (double)memory->recorded_ns, wall = (double)profile_wall_ns(process);
	struct span span;

	if (memory->current_bytes == PROFILE_ABSENT)
		return "frees were not recorded";
	if (recorded < LEAK_RECORDED * wall)
		return "it was not recorded all the time";
	if (wall < (double)LEAK_TRACE_NS || !memory->window_ns)
		return "the trace is too short";
	span = span_of(process, memory);
	if (span.from + LEAK_WINDOWS > span.to)
		return "the trace is too short";
	return NULL;
}

static double slope_of(const struct profile_memory *memory, const struct profile_hotspot *hotspot,
		       const struct span *span)
{
	double kept[TREND_POINTS] = {0};
	size_t count = 1;

	for (size_t i = span->from; i < span->to; i++, count++)
		kept[count] = kept[count - 1] + (double)hotspot->kept_windows[i];
	return trend_theil_sen(kept, count) * 1e9 / (double)memory->window_ns;
}

/* Growth in each part of the trace? One block, a batch that grows once, a cache that is full soon
 * and the blocks of the last step have it in some. */
static bool is_steady(const struct profile_memory *memory, const struct profile_hotspot *hotspot,
		      const struct span *span, double slope)
{
	size_t windows = span->to - span->from, kept = 0;

	for (size_t part = 0; part < LEAK_PARTS; part++) {
		size_t from = span->from + windows * part / LEAK_PARTS;
		size_t to = span->from + windows * (part + 1) / LEAK_PARTS;
		double share = slope * (double)((to - from) * memory->window_ns) / 1e9, sum = 0;

		for (size_t i = from; i < to; i++) {
			sum += (double)hotspot->kept_windows[i];
			kept += hotspot->kept_windows[i] > 0;
		}
		if (sum < LEAK_PART_SHARE * share)
			return false;
	}
	return kept >= LEAK_WINDOWS_KEPT;
}

/* Blocks that stay, of those that live: the same share as of their bytes. */
static double blocks_kept(const struct profile_hotspot *hotspot, const struct span *span)
{
	double bytes = 0;

	for (size_t i = span->from; i < span->to; i++)
		bytes += (double)hotspot->kept_windows[i];
	return hotspot->live_bytes
		       ? bytes / (double)hotspot->live_bytes * (double)hotspot->live_count
		       : 0;
}

/* What resident memory grew by in a second; < 0: not known. Of a GPU's blocks it knows nothing. */
static double rss_slope(const struct profile_process *process, const struct profile_memory *memory)
{
	struct line line = trend_rss(process, false);
	uint64_t ns;

	if (!line.points_count || memory->domain == PERFX_DOMAIN_GPU)
		return -1;
	ns = process->points[line.points_count - 1].time_ns - process->points[0].time_ns;
	return line.growth > 0 ? line.growth * 1e9 / (double)ns : 0;
}

enum rss_view { RSS_CANNOT_TELL, RSS_CONFIRMS, RSS_DENIES };

/* Growth too small to be seen in resident memory says nothing. */
static enum rss_view view_of_rss(const struct profile_process *process,
				 const struct profile_memory *memory, double slope)
{
	double rss = rss_slope(process, memory);
	double growth = slope * (double)profile_wall_ns(process) / 1e9;

	if (rss < 0 || growth < LEAK_RSS_SHARE * (double)process->points[0].rss_bytes)
		return RSS_CANNOT_TELL;
	return rss < LEAK_RSS_VISIBLE * slope ? RSS_DENIES : RSS_CONFIRMS;
}

/* Lost frees, and old blocks that went while these came, could be all of it. */
static bool is_explained(const struct profile_memory *memory, double blocks,
			 const struct span *span, enum rss_view rss)
{
	double replaced = 0;

	if (blocks < LEAK_BLOCKS_PER_LOST_FREE * (double)memory->lost_frees_count)
		return true;
	for (size_t i = span->from; i < span->to; i++)
		replaced += (double)memory->unknown_frees_windows[i];
	return rss != RSS_CONFIRMS && blocks < LEAK_BLOCKS_PER_REPLACED * replaced;
}

static struct hotspot_trend judge_hotspot(const struct profile_process *process,
					  const struct profile_memory *memory,
					  const struct profile_hotspot *hotspot,
					  const struct span *span)
{
	struct hotspot_trend trend = {.slope_bytes_per_s = slope_of(memory, hotspot, span)};
	double slope = trend.slope_bytes_per_s;
	enum rss_view rss = view_of_rss(process, memory, slope);

	trend.leak = slope * 3600 >= (double)LEAK_HOUR_BYTES &&
		     is_steady(memory, hotspot, span, slope) &&
		     !is_explained(memory, blocks_kept(hotspot, span), span, rss);
	trend.unseen = trend.leak && rss == RSS_DENIES;
	return trend;
}

int leaks_judge(struct memory_analysis *analysis, const struct profile_process *process,
		const struct profile_memory *memory)
{
	struct span span = {0};

	analysis->trends = calloc(memory->hotspots_count + 1, sizeof(*analysis->trends));
	if (!analysis->trends)
		return -ENOMEM;
	analysis->unjudged = why_unjudged(process, memory);
	if (!analysis->unjudged)
		span = span_of(process, memory);
	for (size_t i = 0; i < memory->hotspots_count; i++) {
		struct hotspot_trend *trend = &analysis->trends[i];

		if (analysis->unjudged) {
			trend->slope_bytes_per_s = -1;
			continue;
		}
		*trend = judge_hotspot(process, memory, &memory->hotspots[i], &span);
		analysis->leaks_count += trend->leak;
		analysis->leaks_bytes_per_s += trend->leak ? trend->slope_bytes_per_s : 0;
	}
	return 0;
}

void memory_analysis_clear(struct memory_analysis *analysis)
{
	free(analysis->trends);
	*analysis = (struct memory_analysis){0};
}
