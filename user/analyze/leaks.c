// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/leaks.h"

#include "base/grow.h"
#include "base/order.h"
#include "base/units.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* The windows that are judged: [from, to). */
struct span {
	size_t from, to;
};

static struct span span_of(const struct profile_process *process,
			   const struct profile_memory *memory)
{
	size_t first = 0, count = memory->alloc_windows_count;

	if (process->from_ns > memory->alloc_windows_from_ns)
		first = (size_t)((process->from_ns - memory->alloc_windows_from_ns) /
				 memory->alloc_window_ns);
	if (count > PROFILE_ALLOC_WINDOWS || first >= count)
		return (struct span){0};
	return (struct span){first + (count - first + 3) / 4, count - 1};
}

/* How far the program has come: allocations so far, or bytes where they are estimates, which are
 * better known then. */
static double progress_of(const struct profile_memory *memory,
			  const struct profile_memory_point *point)
{
	return memory->sampled ? (double)point->allocated_bytes : (double)point->allocs_count;
}

/* At a time, on the line through the points; *at: where to look from, times ascending. */
static double progress_at(const struct profile_memory *memory, uint64_t time_ns, size_t *at)
{
	const struct profile_memory_point *points = memory->points, *before, *after;
	double share;

	while (*at < memory->points_count && points[*at].time_ns <= time_ns)
		++*at;
	if (*at == 0)
		return progress_of(memory, &points[0]);
	before = &points[*at - 1];
	if (*at == memory->points_count)
		return progress_of(memory, before);
	after = &points[*at];
	share = (double)(time_ns - before->time_ns) / (double)(after->time_ns - before->time_ns);
	return progress_of(memory, before) +
	       share * (progress_of(memory, after) - progress_of(memory, before));
}

/* The judged windows' ends, and where the first begins. */
struct course {
	const struct thresholds *thresholds;
	double rss_per_s; /* growth of resident memory; < 0: not known */
	struct span span;
	size_t count;
	double progress[TREND_POINTS];
	double rate; /* progress a second, of the whole trace */
};

static void course_of(const struct profile_process *process, const struct profile_memory *memory,
		      struct course *course)
{
	uint64_t wall_ns = profile_wall_ns(process);
	size_t at = 0;

	course->span = span_of(process, memory);
	course->count = course->span.to - course->span.from + 1;
	for (size_t i = 0; i < course->count; i++) {
		uint64_t since_ns = (course->span.from + i) * memory->alloc_window_ns;

		course->progress[i] =
			memory->points_count
				? progress_at(memory, memory->alloc_windows_from_ns + since_ns, &at)
				: (double)since_ns;
	}
	if (memory->points_count)
		course->rate = progress_at(memory, process->to_ns, &at) * 1e9 / (double)wall_ns;
	else
		course->rate = 1e9;
}

/* Bytes kept up to a point of x, on the line through the ends of the windows. */
static double kept_at(const struct course *course, const double *x, const double *kept, double at)
{
	size_t i = 1;

	while (i + 1 < course->count && x[i] < at)
		i++;
	if (x[i] <= x[i - 1])
		return kept[i];
	return kept[i - 1] + (kept[i] - kept[i - 1]) * (at - x[i - 1]) / (x[i] - x[i - 1]);
}

/* Growth in each part of the trace? One block, a batch that grows once, a cache that is full soon
 * and the blocks of the last step have it in some. slope: bytes by progress. */
static bool is_steady(const struct course *course, const double *kept, double slope)
{
	double from = course->progress[0];
	double part = (course->progress[course->count - 1] - from) / LEAK_PARTS;
	size_t alloc_windows = 0;

	for (size_t i = 0; i < LEAK_PARTS; i++) {
		double begin = from + (double)i * part;

		if (kept_at(course, course->progress, kept, begin + part) -
			    kept_at(course, course->progress, kept, begin) <
		    course->thresholds->memory_leak_part * slope * part)
			return false;
	}
	for (size_t i = 1; i < course->count; i++)
		alloc_windows += kept[i] > kept[i - 1];
	return alloc_windows >= LEAK_WINDOWS_KEPT;
}

static double block_bytes(const struct profile_hotspot *hotspot)
{
	return hotspot->live_count ? (double)hotspot->live_bytes / (double)hotspot->live_count : 0;
}

/* How many sampled blocks so many bytes were estimated from: at most one for each block. */
static double samples_of(const struct profile_memory *memory, const struct profile_hotspot *hotspot,
			 double bytes)
{
	double each = fmax((double)memory->sample_bytes, block_bytes(hotspot));

	return each > 0 ? bytes / each : 0;
}

/* A block more or less at the border between the halves is no difference. */
static bool slows_down(const struct course *course, const struct profile_memory *memory,
		       const struct profile_hotspot *hotspot, double early, double late)
{
	double block = block_bytes(hotspot), missed, doubt;

	if (late + block < course->thresholds->memory_leak_halves * (early - block))
		return true;
	if (!memory->sampled || !memory->sample_bytes)
		return false;
	if (early <= 0 || late <= 0)
		return true;
	/* the sampler misses a block with probability exp(-size/rate), which gives the error of the
	 * ratio of two counts of sampled blocks */
	missed = exp(-block / (double)memory->sample_bytes);
	doubt = sqrt(missed * (1 / samples_of(memory, hotspot, early) +
			       1 / samples_of(memory, hotspot, late)));
	return late < course->thresholds->memory_leak_halves_sampled * early *
			      exp(course->thresholds->memory_leak_deviations * doubt);
}

/* CPU time of the process up to a time, on the line through its samples. */
static double cpu_at(const struct profile_process *process, uint64_t time_ns)
{
	const struct profile_usage_point *points = process->points, *before, *after;
	size_t at = 0;

	while (at < process->points_count && points[at].time_ns <= time_ns)
		at++;
	if (at == 0 || at == process->points_count)
		return (double)points[at ? at - 1 : 0].cpu_ns;
	before = &points[at - 1];
	after = &points[at];
	return (double)before->cpu_ns + ((double)after->cpu_ns - (double)before->cpu_ns) *
						(double)(time_ns - before->time_ns) /
						(double)(after->time_ns - before->time_ns);
}

/* Steps of a training that have ended by a time. */
static double steps_at(const struct profile_process *process, uint64_t time_ns)
{
	const struct profile_steps *steps = &process->steps;
	double count = 0;

	for (size_t i = 0; i < steps->series_count && steps->series[i].to_ns <= time_ns; i++)
		count += (double)steps->series[i].count;
	return count;
}

/* Fewer in the judged part are no measure of progress. */
#define STEPS_MIN 20

/* Bytes kept during the first half of the judged part's work, by its steps or, without steps, by
 * its CPU time; < 0: not known. A training that slows down as its memory grows uses ever more CPU
 * time per step. */
static double kept_by_work(const struct profile_process *process,
			   const struct profile_memory *memory, const struct course *course,
			   const double *kept)
{
	uint64_t from_ns =
		memory->alloc_windows_from_ns + course->span.from * memory->alloc_window_ns;
	uint64_t to_ns = from_ns + (course->count - 1) * memory->alloc_window_ns;
	bool by_steps = steps_at(process, to_ns) - steps_at(process, from_ns) >= STEPS_MIN;
	double done[TREND_POINTS], middle;

	if (!by_steps && process->points_count < 2)
		return -1;
	for (size_t k = 0; k < process->points_count && !by_steps; k++) {
		const struct profile_usage_point *point = &process->points[k];

		if (point->cpu_ns == PROFILE_ABSENT || (k && (point->cpu_ns < point[-1].cpu_ns ||
							      point->time_ns <= point[-1].time_ns)))
			return -1;
	}
	for (size_t k = 0; k < course->count; k++) {
		uint64_t time_ns = from_ns + k * memory->alloc_window_ns;

		done[k] = by_steps ? steps_at(process, time_ns) : cpu_at(process, time_ns);
	}
	middle = (done[0] + done[course->count - 1]) / 2;
	return middle > done[0] ? kept_at(course, done, kept, middle) : -1;
}

/* Blocks go after a long life while others come? The least of what went since the windows of the
 * third quarter: so the blocks of a step are not taken for it. */
static bool is_queue(const struct profile_process *process, const struct profile_hotspot *hotspot,
		     const struct course *course, const double *kept)
{
	size_t last = course->count - 1, from = last / 2, to = last * 3 / 4;
	double gone = INFINITY;

	if (hotspot->lifetime_ns == PROFILE_ABSENT ||
	    (double)hotspot->lifetime_ns <
		    course->thresholds->memory_leak_lifetime * (double)profile_wall_ns(process))
		return false;
	for (size_t i = from; i < to; i++) {
		/* of the bytes that lived at the end of a window, those that were freed since */
		double freed = (double)hotspot->live_windows[course->span.from + i];

		for (size_t k = 0; k <= course->span.from + i; k++)
			freed -= (double)hotspot->kept_windows[k];
		gone = fmin(gone, freed);
	}
	return gone >= course->thresholds->memory_leak_replaced * (kept[last] - kept[to]);
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

/* Fewer blocks than that are no leak where frees are inferred: of a place whose memory others use
 * again a few stay in the account for long. */
#define LEAK_BLOCKS_INFERRED 20

/* Where other memory grows meanwhile, blocks that were freed are seldom given out again: leaks that
 * are less than this part of the growth may be such blocks. */
#define LEAK_PART_INFERRED 0.25

static struct hotspot_trend judge_hotspot(const struct profile_process *process,
					  const struct profile_memory *memory,
					  const struct profile_hotspot *hotspot,
					  const struct course *course)
{
	const struct thresholds *t = course->thresholds;
	double kept[TREND_POINTS] = {0}; /* up to each end */
	double by_progress, slope, growth, all, early, by_work, least;
	double blocks = blocks_kept(hotspot, &course->span), replaced = 0;
	struct hotspot_trend trend = {0};
	bool is_seen, is_confirmed;

	for (size_t i = 1; i < course->count; i++)
		kept[i] = kept[i - 1] + (double)hotspot->kept_windows[course->span.from + i - 1];
	if (kept[course->count - 1] <= 0)
		return trend;
	by_progress = trend_theil_sen(course->progress, kept, course->count);
	slope = by_progress * course->rate;
	trend.slope_bytes_per_s = slope;
	growth = slope * (double)profile_wall_ns(process) / 1e9;
	if (slope * 3600 < t->memory_leak_low || growth < t->memory_leak_bytes ||
	    !is_steady(course, kept, by_progress) || is_queue(process, hotspot, course, kept))
		return trend;
	/* does it keep less in the second half, of its progress or of its work? */
	all = kept[course->count - 1];
	early = kept_at(course, course->progress, kept,
			(course->progress[0] + course->progress[course->count - 1]) / 2);
	by_work = kept_by_work(process, memory, course, kept);
	if (slows_down(course, memory, hotspot, early, all - early) ||
	    (by_work >= 0 && slows_down(course, memory, hotspot, by_work, all - by_work)))
		return trend;
	/* Growth too small to be seen in resident memory says nothing. Where frees are inferred, it
	 * has to be seen there: blocks from before the recording are freed unseen, and new ones,
	 * which take their place, overlap none that is known. */
	least = memory->sampled ? t->memory_leak_rss_sampled : t->memory_leak_rss;
	is_seen =
		course->rss_per_s >= 0 &&
		(memory->frees_inferred || growth >= least * (double)process->points[0].rss_bytes);
	is_confirmed = is_seen && course->rss_per_s >= t->memory_leak_visible * slope;
	if ((memory->sampled && is_seen && !is_confirmed) ||
	    (memory->frees_inferred && (!is_confirmed || blocks < LEAK_BLOCKS_INFERRED)))
		return trend;
	/* lost frees, and old blocks that went while these came, could be all of it */
	for (size_t i = course->span.from; i < course->span.to; i++)
		replaced += (double)memory->unknown_frees_windows[i];
	trend.leak = blocks >= t->memory_leak_lost_free_blocks * (double)memory->lost_frees_count &&
		     (is_confirmed || blocks >= t->memory_leak_replaced_blocks * replaced);
	trend.unseen = trend.leak && is_seen && !is_confirmed;
	return trend;
}

/* Where stacks were left out, blocks are taken for those of a place that came before: it has some
 * of another's, which may stay or go. All such places together are judged as one. */
static bool shares_blocks(const struct profile_hotspot *hotspot)
{
	return hotspot->left_out_count > 0;
}

/* A place with a smaller share of the whole leak does not count as leaking. */
#define SHARED_PART 0.02

static void judge_shared(struct memory_analysis *analysis, const struct profile_process *process,
			 const struct profile_memory *memory, const struct course *course)
{
	struct profile_hotspot sum = {.lifetime_ns = PROFILE_ABSENT};
	double bytes = 0, weighted = 0;
	struct hotspot_trend all;

	FOR_EACH (hotspot, memory->hotspots) {
		if (!shares_blocks(hotspot))
			continue;
		sum.live_bytes += hotspot->live_bytes;
		sum.frees_count += hotspot->frees_count;
		/* the longest: a queue among them is not to be missed */
		if (hotspot->lifetime_ns != PROFILE_ABSENT &&
		    (sum.lifetime_ns == PROFILE_ABSENT || hotspot->lifetime_ns > sum.lifetime_ns))
			sum.lifetime_ns = hotspot->lifetime_ns;
		for (size_t i = 0; i < PROFILE_ALLOC_WINDOWS; i++) {
			sum.live_windows[i] += hotspot->live_windows[i];
			sum.kept_windows[i] += hotspot->kept_windows[i];
		}
		bytes += (double)hotspot->live_bytes;
		weighted += (double)hotspot->live_bytes * block_bytes(hotspot);
	}
	/* The number of blocks of a byte-weighted mean size that have all bytes: many small blocks
	 * beside a few large ones do not show that the large ones leak. */
	sum.live_count = weighted > 0 ? u64_of(bytes * bytes / weighted) : 0;
	all = judge_hotspot(process, memory, &sum, course);
	for (size_t i = 0; i < memory->hotspots_count && all.leak; i++) {
		struct hotspot_trend *trend = &analysis->trends[i];

		if (!shares_blocks(&memory->hotspots[i]) ||
		    trend->slope_bytes_per_s < SHARED_PART * all.slope_bytes_per_s)
			continue;
		trend->leak = true;
		trend->unseen = all.unseen;
	}
}

int leaks_judge(struct memory_analysis *analysis, const struct profile_process *process,
		const struct profile_memory *memory, const struct rss_growth *growth,
		const struct thresholds *thresholds)
{
	struct course course = {.thresholds = thresholds, .rss_per_s = -1};
	const struct line *rss = &growth->parts[RSS_ALL];
	double wall_ns = (double)profile_wall_ns(process);

	/* it has no blocks of a GPU; those of the program's own allocators may be parts of larger
	 * ones */
	if (rss->points_count && memory->domain != PERFX_DOMAIN_GPU &&
	    memory->domain != PERFX_DOMAIN_USER)
		course.rss_per_s = fmax(rss->per_s, 0);
	analysis->trends = calloc(memory->hotspots_count + 1, sizeof(*analysis->trends));
	if (!analysis->trends)
		return -ENOMEM;
	if (memory->current_bytes == PROFILE_ABSENT)
		analysis->unjudged = "frees were not recorded";
	else if ((double)memory->recorded_ns < thresholds->memory_leak_recorded * wall_ns)
		analysis->unjudged = "allocations were recorded for a part of the time only";
	else if (wall_ns < thresholds->memory_leak_trace_ns || !memory->alloc_window_ns ||
		 span_of(process, memory).from + LEAK_WINDOWS > span_of(process, memory).to)
		analysis->unjudged = "the recording is too short";
	for (size_t i = 0; i < memory->hotspots_count && analysis->unjudged; i++)
		analysis->trends[i].slope_bytes_per_s = -1;
	if (analysis->unjudged)
		return 0;
	course_of(process, memory, &course);
	for (size_t i = 0; i < memory->hotspots_count; i++)
		analysis->trends[i] = judge_hotspot(process, memory, &memory->hotspots[i], &course);
	judge_shared(analysis, process, memory, &course);
	for (size_t i = 0; i < memory->hotspots_count; i++) {
		const struct hotspot_trend *trend = &analysis->trends[i];

		analysis->leaks_count += trend->leak;
		analysis->leaks_bytes_per_s += trend->leak ? trend->slope_bytes_per_s : 0;
	}
	if (!memory->frees_inferred ||
	    analysis->leaks_bytes_per_s >= LEAK_PART_INFERRED * course.rss_per_s)
		return 0;
	for (size_t i = 0; i < memory->hotspots_count; i++)
		analysis->trends[i].leak = analysis->trends[i].unseen = false;
	analysis->leaks_count = 0;
	analysis->leaks_bytes_per_s = 0;
	return 0;
}

void memory_analysis_clear(struct memory_analysis *analysis)
{
	free(analysis->trends);
	*analysis = (struct memory_analysis){0};
}

double trend_theil_sen(const double *x, const double *y, size_t count)
{
	double slopes[TREND_POINTS * (TREND_POINTS - 1) / 2] = {0};
	size_t pairs = 0;

	for (size_t i = 0; i < count; i++) {
		for (size_t j = i + 1; j < count; j++) {
			if (x[j] > x[i])
				slopes[pairs++] = (y[j] - y[i]) / (x[j] - x[i]);
		}
	}
	return pairs ? sort_median(slopes, pairs) : 0;
}

/* Fewer samples make no line. */
#define RSS_POINTS 5
/* It must grow in each of so many parts of its time. */
#define GROWTH_PARTS 8

/* PROFILE_ABSENT: not known. */
static uint64_t rss_of(const struct profile_usage_point *point, enum rss_part part)
{
	return part == RSS_ANON	   ? point->rss_anon_bytes
	       : part == RSS_SHMEM ? point->rss_shmem_bytes
				   : point->rss_bytes;
}

/* Least squares through the samples [from, to): growth a second and straightness alone. */
static struct line fit_line(const struct profile_process *p, size_t from, size_t to,
			    enum rss_part part)
{
	double n = (double)(to - from), sx = 0, sy = 0, sxx = 0, syy = 0, sxy = 0, xx, yy, xy;
	struct line line = {0};

	for (size_t i = from; i < to; i++) {
		double x = (double)(p->points[i].time_ns - p->points[from].time_ns) / 1e9;
		double y = (double)rss_of(&p->points[i], part) -
			   (double)rss_of(&p->points[from], part);

		sx += x;
		sy += y;
		sxx += x * x;
		syy += y * y;
		sxy += x * y;
	}
	xx = n * sxx - sx * sx;
	yy = n * syy - sy * sy;
	xy = n * sxy - sx * sy;
	if (xx > 0 && yy > 0) {
		line.per_s = xy / xx;
		line.straightness = xy * xy / (xx * yy);
	}
	return line;
}

const char *growth_option(const struct profile_process *process)
{
	const char *option = "--memory all";

	FOR_EACH (memory, process->memory) {
		if (memory->domain == PERFX_DOMAIN_TENSOR && memory->allocs.value &&
		    memory->current_bytes == PROFILE_ABSENT)
			return "--memory tensor";
		if (memory->domain == PERFX_DOMAIN_HOST && !memory->sampled)
			option = NULL;
	}
	return option;
}

const char *growth_option_words(const struct profile_process *process)
{
	const char *option = growth_option(process);

	if (option && !strcmp(option, "--memory tensor"))
		return "--memory tensor shows where, or --memory all if no tensors grow";
	return option ? "--memory all shows where" : NULL;
}

static struct line trend_rss(const struct profile_process *p, enum rss_part part,
			     const struct thresholds *thresholds)
{
	const struct profile_usage_point *points = p->points;
	size_t count = p->points_count;
	struct line line = {0};

	/* up to where a process that has exited began to free its memory */
	while (p->exited && count > 1 &&
	       rss_of(&points[count - 1], part) < rss_of(&points[count - 2], part))
		count--;
	if (count < RSS_POINTS)
		return line;
	for (size_t i = 0; i < count; i++)
		if (rss_of(&points[i], part) == PROFILE_ABSENT ||
		    (i && points[i].time_ns <= points[i - 1].time_ns))
			return line;
	line = fit_line(p, 0, count, part);
	line.growth = line.per_s * (double)(points[count - 1].time_ns - points[0].time_ns) / 1e9;
	line.first = (double)rss_of(&points[0], part);
	line.last = (double)rss_of(&points[count - 1], part);
	line.early = fit_line(p, 0, (count + 1) / 2, part).per_s;
	line.late = fit_line(p, count / 2, count, part).per_s;
	line.slowest = INFINITY;
	for (size_t i = 0; i < GROWTH_PARTS; i++) {
		/* a part begins at the last sample of the one before */
		size_t from = i * count / GROWTH_PARTS, to = (i + 1) * count / GROWTH_PARTS;

		from -= from > 0;
		to = to < from + 2 ? from + 2 : to;
		line.slowest = fmin(line.slowest, fit_line(p, from, to, part).per_s);
	}
	line.points_count = count;
	line.is_steady = line.growth >= thresholds->memory_growth_bytes &&
			 line.straightness >= thresholds->memory_growth_straightness &&
			 line.late >= thresholds->memory_growth_halves * line.early &&
			 line.slowest >= thresholds->memory_growth_part * line.per_s;
	return line;
}

struct rss_growth growth_find(const struct profile_process *process,
			      const struct thresholds *thresholds)
{
	struct rss_growth growth = {0};
	const struct line *all = &growth.parts[RSS_ALL], *anon = &growth.parts[RSS_ANON];
	const struct line *shmem = &growth.parts[RSS_SHMEM];
	double rest;
	bool of_files;

	for (int part = 0; part < RSS_PARTS; part++)
		growth.parts[part] = trend_rss(process, (enum rss_part)part, thresholds);
	/* pages of files that are mapped: the kernel takes them back when memory is short */
	rest = all->growth - anon->growth;
	of_files = anon->points_count && shmem->points_count && rest >= all->growth / 2 &&
		   shmem->growth < rest / 2;
	growth.part = shmem->is_steady && 2 * shmem->growth >= all->growth ? RSS_SHMEM
		      : all->is_steady && !of_files			   ? RSS_ALL
									   : RSS_ANON;
	growth.grows = growth.parts[growth.part].is_steady;
	return growth;
}
