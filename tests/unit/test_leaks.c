// SPDX-License-Identifier: BSD-2-Clause
/* What is a leak and what is not, over windows as aggregate keeps them. */
#include "analyze/leaks.h"
#include "analyze/rule_set.h"
#include "memory_scene.h"

#include <criterion/criterion.h>
#include <math.h>

static int judge_memory(struct memory_analysis *analysis, const struct profile_process *process,
			const struct profile_memory *memory)
{
	struct rss_growth growth = growth_find(process, &rule_set_builtin.thresholds);

	return leaks_judge(analysis, process, memory, &growth, &rule_set_builtin.thresholds);
}

static struct hotspot_trend judge(const struct memory_scene *s)
{
	struct memory_analysis analysis = {0};
	struct hotspot_trend trend;

	cr_assert_eq(judge_memory(&analysis, &s->process, &s->memory), 0);
	cr_expect_null(analysis.unjudged, "%s", analysis.unjudged);
	trend = analysis.trends[0];
	cr_expect_eq(analysis.leaks_count, trend.leak);
	memory_analysis_clear(&analysis);
	return trend;
}

Test(trend, theil_sen)
{
	static const double x[] = {0, 1, 2, 3, 4}, line[] = {0, 3, 6, 9, 12},
			    bent[] = {0, 1, 2, 3, 100}, same[] = {7, 7, 7, 7, 7},
			    uneven[] = {0, 1, 1, 10, 20};

	cr_expect_float_eq(trend_theil_sen(x, line, 5), 3, 1e-9);
	/* pairs: 6 of slope 1, 4 steeper */
	cr_expect_float_eq(trend_theil_sen(x, bent, 5), 1, 1e-9);
	cr_expect_float_eq(trend_theil_sen(x, line, 1), 0, 1e-9);
	cr_expect_float_eq(trend_theil_sen(x, line, 0), 0, 1e-9);
	cr_expect_float_eq(trend_theil_sen(same, line, 5), 0, 1e-9);
	cr_expect_float_eq(trend_theil_sen(uneven, uneven, 5), 1, 1e-9);
}

/* One block kept in each step, whatever the step's length and the windows': found, and its slope
 * within 3.4/N (leaks.h has the reason), N the blocks kept in the judged windows. */
Test(leaks, a_block_of_each_step)
{
	static const uint64_t alloc_windows[] = {320 * MS, 512 * MS, 640 * MS},
			      steps[] = {7 * MS, 100 * MS, 319 * MS, 321 * MS, 512 * MS, 990 * MS};
	static const unsigned blocks[] = {1, 2, 300};

	for (size_t i = 0; i < 3 * 6 * 3; i++) {
		uint64_t step = steps[i / 3 % 6];
		struct memory_scene s;
		struct hotspot_trend trend;
		double truth = 4096.0 * 1e9 / (double)step, judged;

		scene_set(&s, 10 * S, alloc_windows[i / 18]);
		scene_steps(&s, step, blocks[i % 3], 1, 4096);
		trend = judge(&s);
		judged = (double)(s.memory.alloc_windows_count - 1 -
				  (s.memory.alloc_windows_count + 3) / 4) *
			 (double)s.memory.alloc_window_ns / (double)step;
		cr_expect(trend.leak, "step %.0f ms of %u blocks", (double)step / 1e6,
			  blocks[i % 3]);
		cr_expect_leq(fabs(trend.slope_bytes_per_s - truth), truth * 3.4 / judged,
			      "step %.0f ms of %u blocks: %.0f, not %.0f", (double)step / 1e6,
			      blocks[i % 3], trend.slope_bytes_per_s, truth);
	}
}

/* Whatever the step's length to the windows': nothing stays. */
Test(leaks, a_steady_trainer)
{
	static const uint64_t steps[] = {3 * MS,   100 * MS, 319 * MS, 321 * MS,
					 330 * MS, 640 * MS, 1 * S,    4 * S};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct memory_scene s;

		scene_set(&s, 10 * S, 320 * MS);
		scene_steps(&s, steps[i], 100, 0, 1 << 20);
		cr_expect(!judge(&s).leak, "step %.0f ms", (double)steps[i] / 1e6);
	}
}

/* A cache that is full after a while, one block at a time; steps go on at the same place. */
Test(leaks, a_cache_that_fills)
{
	for (uint64_t full = 1; full <= 7; full++) {
		struct memory_scene s;

		scene_set(&s, 10 * S, 320 * MS);
		for (uint64_t i = 0; i < 100; i++)
			scene_block(&s, i * full * 10 * MS, SCENE_NEVER, 1 << 20);
		scene_steps(&s, 100 * MS, 10, 0, 1 << 20);
		cr_expect(!judge(&s).leak, "full after %d s", (int)full);
	}
}

/* Once, twice, three times in the trace: a block, or a batch of them. */
Test(leaks, growth_at_once)
{
	for (unsigned times = 1; times <= 3; times++) {
		for (unsigned blocks = 1; blocks <= 100; blocks += 99) {
			struct memory_scene s;

			scene_set(&s, 10 * S, 320 * MS);
			for (unsigned i = 0; i < times * blocks; i++)
				scene_block(&s, (i / blocks * 2 + 4) * S, SCENE_NEVER, 8 << 20);
			scene_steps(&s, 100 * MS, 10, 0, 1 << 20);
			cr_expect(!judge(&s).leak, "%u times %u blocks", times, blocks);
		}
	}
}

/* A leak beside a cache that fills at the same place: the leak's slope. */
Test(leaks, a_leak_beside_a_cache)
{
	struct hotspot_trend trend;
	struct memory_scene s;

	scene_set(&s, 10 * S, 320 * MS);
	for (uint64_t i = 0; i < 1000; i++)
		scene_block(&s, i * 2 * MS, SCENE_NEVER, 1 << 20);
	scene_steps(&s, 100 * MS, 10, 1, 4096);
	trend = judge(&s);
	cr_expect(trend.leak);
	cr_expect_float_eq(trend.slope_bytes_per_s, 40960, 40960 * 3.4 / 70);
}

/* Where frees are inferred, resident memory must grow too: a quarter as fast at least, and four
 * times as fast at most, for memory that others get is not given out again. */
Test(leaks, where_frees_are_inferred)
{
	static const struct {
		uint64_t growth_bytes; /* of resident memory, in the trace */
		uint64_t every_ns, block_bytes;
		bool leak;
	} rows[] = {{0, 100 * MS, 4096, false},	     {80000, 100 * MS, 4096, false},
		    {120000, 100 * MS, 4096, true},  {409600, 100 * MS, 4096, true},
		    {409600, 300 * MS, 12288, true}, {409600, 600 * MS, 24576, false},
		    {1500000, 100 * MS, 4096, true}, {1800000, 100 * MS, 4096, false}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct memory_scene s;

		scene_set(&s, 10 * S, 320 * MS);
		scene_steps(&s, rows[i].every_ns, 1, 1, rows[i].block_bytes);
		s.memory.frees_inferred = true;
		for (uint64_t k = 0; k < 8; k++)
			s.usage[k].rss_bytes = (1 << 30) + k * rows[i].growth_bytes / 7;
		cr_expect_eq(judge(&s).leak, rows[i].leak, "row %zu", i);
	}
}

/* A queue of sixty seconds: each block that comes lets one from before the trace go. */
Test(leaks, blocks_that_are_replaced)
{
	struct memory_scene s;

	scene_set(&s, 10 * S, 320 * MS);
	scene_steps(&s, 100 * MS, 1, 1, 4096);
	cr_expect(judge(&s).leak);
	for (size_t i = 0; i < s.memory.alloc_windows_count; i++)
		s.memory.unknown_frees_windows[i] = 3;
	cr_expect(!judge(&s).leak);
	/* those of the first step only */
	for (size_t i = 1; i < s.memory.alloc_windows_count; i++)
		s.memory.unknown_frees_windows[i] = 0;
	s.memory.unknown_frees_windows[0] = 100000;
	cr_expect(judge(&s).leak);
	/* resident memory grows as fast: it is more than replaced */
	for (size_t i = 1; i < s.memory.alloc_windows_count; i++)
		s.memory.unknown_frees_windows[i] = 3;
	for (uint64_t i = 0; i < 8; i++)
		s.usage[i].rss_bytes = 100000 + i * 409600 / 7;
	cr_expect(judge(&s).leak);
}

/*
 * A thousand blocks of 4 KiB a second, for ten seconds. The sampler takes a block with the
 * probability 1 - exp(-size/rate) and counts it for so much more, as the tracer does.
 */

#define BLOCK 4096

struct sampler {
	uint64_t state;
	double rate_bytes; /* 0: every block */
};

/* xorshift64*, of [0, 1) */
static double uniform(struct sampler *sampler)
{
	sampler->state ^= sampler->state >> 12;
	sampler->state ^= sampler->state << 25;
	sampler->state ^= sampler->state >> 27;
	return (double)(sampler->state * 2685821657736338717ULL >> 11) / (double)(1ULL << 53);
}

static void sampled_scene(struct memory_scene *s, struct sampler *sampler, uint64_t seed,
			  uint64_t rate_bytes)
{
	scene_set(s, 10 * S, 320 * MS);
	*sampler = (struct sampler){seed * 0x9e3779b97f4a7c15ULL, (double)rate_bytes};
	s->memory.sampled = rate_bytes > 0;
	s->memory.sample_bytes = rate_bytes;
	for (uint64_t i = 0; i < 8; i++)
		s->usage[i].cpu_ns = i * 10 * S / 7;
}

static void sampled_block(struct memory_scene *s, struct sampler *sampler, uint64_t born_ns,
			  uint64_t died_ns)
{
	double p = sampler->rate_bytes > 0 ? 1 - exp(-BLOCK / sampler->rate_bytes) : 1;

	if (uniform(sampler) < p)
		scene_block(s, born_ns, died_ns, (uint64_t)(BLOCK / p));
}

static bool found_leak(struct memory_scene *s)
{
	s->hotspots[0].live_count = s->hotspots[0].live_bytes / BLOCK;
	return judge(s).leak;
}

static void grow_with(struct memory_scene *s)
{
	for (uint64_t i = 0; i < 8; i++)
		s->usage[i].rss_bytes = (64ULL << 20) + i * s->hotspots[0].live_bytes / 7;
}

/* Keys at random: a block for each that was not asked for before. Half of them are there after
 * half_ns. Nothing else is allocated. */
static bool cache_leaks(uint64_t seed, uint64_t rate_bytes, uint64_t half_ns)
{
	struct memory_scene s;
	struct sampler sampler;

	sampled_scene(&s, &sampler, seed, rate_bytes);
	for (uint64_t at = 0; at < 10 * S; at += MS)
		if (uniform(&sampler) < exp2(-(double)at / (double)half_ns))
			sampled_block(&s, &sampler, at, SCENE_NEVER);
	grow_with(&s);
	return found_leak(&s);
}

/* A queue that was full before the trace, or begins with it: a block lives for so long. */
static bool queue_leaks(uint64_t seed, uint64_t rate_bytes, uint64_t life_ns, bool was_full)
{
	struct memory_scene s;
	struct sampler sampler;

	sampled_scene(&s, &sampler, seed, rate_bytes);
	for (uint64_t at = 0; at < 10 * S; at += MS)
		sampled_block(&s, &sampler, at, at + life_ns);
	s.hotspots[0].lifetime_ns = life_ns < 10 * S ? life_ns : PROFILE_ABSENT;
	if (!was_full)
		grow_with(&s);
	for (size_t i = 0; was_full && i < 8; i++)
		s.usage[i].rss_bytes = 128 << 20;
	/* what was there before goes, which the sampler does not see */
	for (size_t i = 0; was_full && !rate_bytes && i < s.memory.alloc_windows_count; i++)
		if (i * s.memory.alloc_window_ns < life_ns)
			s.memory.unknown_frees_windows[i] = 320;
	return found_leak(&s);
}

static bool leak_leaks(uint64_t seed, uint64_t rate_bytes)
{
	struct memory_scene s;
	struct sampler sampler;

	sampled_scene(&s, &sampler, seed, rate_bytes);
	for (uint64_t at = 0; at < 10 * S; at += MS)
		sampled_block(&s, &sampler, at, at % (5 * MS) ? at + 3 * MS : SCENE_NEVER);
	s.hotspots[0].lifetime_ns = 3 * MS;
	grow_with(&s);
	return found_leak(&s);
}

#define SEEDS 100

Test(leaks, a_cache_that_saturates)
{
	static const uint64_t halves[] = {1 * S, 2 * S, 4 * S}, rates[] = {0, 16 << 10, 128 << 10};

	for (size_t i = 0; i < 9; i++) {
		unsigned found = 0;

		for (uint64_t seed = 1; seed <= SEEDS; seed++)
			found += cache_leaks(seed, rates[i / 3], halves[i % 3]);
		cr_expect_leq(found, rates[i / 3] ? SEEDS / 20 : 0, "half after %d s, rate %d: %u",
			      (int)(halves[i % 3] / S), (int)rates[i / 3], found);
	}
}

Test(leaks, a_queue_of_fixed_length)
{
	static const uint64_t lives[] = {3 * S, 8 * S, 30 * S}, rates[] = {0, 16 << 10, 128 << 10};

	for (size_t i = 0; i < 9; i++) {
		unsigned found = 0, filling = 0;

		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			found += queue_leaks(seed, rates[i / 3], lives[i % 3], true);
			/* one that is not full at the end grows all the time */
			if (lives[i % 3] < 10 * S)
				filling += queue_leaks(seed, rates[i / 3], lives[i % 3], false);
		}
		cr_expect_eq(found, 0, "%d s, rate %d: %u", (int)(lives[i % 3] / S),
			     (int)rates[i / 3], found);
		cr_expect_leq(filling, rates[i / 3] ? SEEDS / 20 : 0, "%d s, rate %d: %u filling",
			      (int)(lives[i % 3] / S), (int)rates[i / 3], filling);
	}
}

Test(leaks, a_true_leak)
{
	unsigned exact = 0, fine = 0, coarse = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		exact += leak_leaks(seed, 0);
		fine += leak_leaks(seed, 4 << 10);
		coarse += leak_leaks(seed, 16 << 10);
	}
	cr_expect_eq(exact, SEEDS);
	cr_expect_geq(fine, SEEDS * 95 / 100, "%u", fine);
	cr_expect_geq(coarse, SEEDS * 80 / 100, "%u", coarse);
}

/* A third of the blocks dies after a second, a third after two …: what is live has levelled off. */
Test(leaks, blocks_with_a_lifetime)
{
	for (uint64_t life = 1; life <= 6; life++) {
		struct memory_scene s;

		scene_set(&s, 10 * S, 320 * MS);
		for (uint64_t i = 0; i < 10000; i++)
			scene_block(&s, i * MS, i * MS + life * S, 4096);
		cr_expect(!judge(&s).leak, "%d s", (int)life);
	}
}

Test(leaks, below_the_thresholds)
{
	struct memory_scene s;

	/* 1 MiB an hour are 291.3 bytes a second */
	scene_set(&s, 80 * S, 2560 * MS);
	scene_steps(&s, 100 * MS, 1, 1, 28);
	cr_expect(!judge(&s).leak);
	scene_set(&s, 80 * S, 2560 * MS);
	scene_steps(&s, 100 * MS, 1, 1, 31);
	cr_expect(judge(&s).leak);
	/* 3 KiB of small blocks are none yet */
	scene_set(&s, 10 * S, 320 * MS);
	scene_steps(&s, 15 * MS, 1, 1, 5);
	cr_expect(!judge(&s).leak);
	/* four blocks say nothing */
	scene_set(&s, 10 * S, 320 * MS);
	scene_steps(&s, 1800 * MS, 1, 1, 1 << 20);
	cr_expect(!judge(&s).leak);
}

Test(leaks, lost_frees_look_like_leaks)
{
	struct memory_scene s;

	scene_set(&s, 10 * S, 320 * MS);
	scene_steps(&s, 100 * MS, 1, 1, 4096); /* about 70 blocks in the judged windows */
	s.memory.lost_frees_count = 16;
	cr_expect(judge(&s).leak);
	s.memory.lost_frees_count = 20;
	cr_expect(!judge(&s).leak);
}

/* Large growth that resident memory does not show. */
Test(leaks, resident_memory_has_its_say)
{
	struct hotspot_trend trend;
	struct memory_scene s;

	scene_set(&s, 10 * S, 320 * MS);
	scene_steps(&s, 100 * MS, 1, 1, 4 << 20); /* 400 MiB; 1 GiB is resident */
	trend = judge(&s);
	cr_expect(trend.leak && trend.unseen);
	for (uint64_t i = 0; i < 8; i++)
		s.usage[i].rss_bytes += i * (400ULL << 20) / 7;
	trend = judge(&s);
	cr_expect(trend.leak && !trend.unseen);
	/* a GPU's memory is not resident */
	for (uint64_t i = 0; i < 8; i++)
		s.usage[i].rss_bytes = 1ULL << 30;
	s.memory.domain = PERFX_DOMAIN_GPU;
	trend = judge(&s);
	cr_expect(trend.leak && !trend.unseen);
}

/* A process that began later, windows that began with the trace. */
Test(leaks, a_child)
{
	struct memory_scene s;

	scene_set(&s, 10 * S, 320 * MS);
	for (uint64_t at = 5 * S; at < 10 * S; at += 50 * MS)
		scene_block(&s, at, SCENE_NEVER, 4096);
	cr_expect(!judge(&s).leak);
	s.process.from_ns = SCENE_START + 5 * S;
	s.memory.recorded_ns = 5 * S;
	cr_expect(judge(&s).leak);
}

static const char *why_not(const struct memory_scene *s)
{
	struct memory_analysis analysis = {0};
	const char *why;

	cr_assert_eq(judge_memory(&analysis, &s->process, &s->memory), 0);
	why = analysis.unjudged;
	cr_expect(!why || !analysis.trends[0].leak);
	cr_expect_eq(analysis.trends[0].slope_bytes_per_s < 0, why != NULL);
	memory_analysis_clear(&analysis);
	return why;
}

Test(leaks, not_judged)
{
	struct memory_scene s;

	scene_set(&s, 10 * S, 320 * MS);
	scene_steps(&s, 100 * MS, 1, 1, 4096);
	cr_expect_null(why_not(&s));
	s.memory.recorded_ns = 9890 * MS;
	cr_expect_str_eq(why_not(&s), "allocations were recorded for a part of the time only");
	s.memory.current_bytes = PROFILE_ABSENT;
	cr_expect_str_eq(why_not(&s), "frees were not recorded");
	scene_set(&s, 1999 * MS, 100 * MS);
	cr_expect_str_eq(why_not(&s), "the recording is too short");
	scene_set(&s, 10 * S, 1 * S);
	cr_expect_str_eq(why_not(&s), "the recording is too short");
	scene_set(&s, 10 * S, 320 * MS);
	s.memory.alloc_windows_count = 0;
	cr_expect_str_eq(why_not(&s), "the recording is too short");
	s.memory.alloc_window_ns = 0;
	cr_expect_str_eq(why_not(&s), "the recording is too short");
	s.memory.alloc_windows_count = PROFILE_ALLOC_WINDOWS + 1;
	cr_expect_str_eq(why_not(&s), "the recording is too short");
}

/* Sampled: each kept block of 64 KiB is seen with probability 1 − e^(−1/8) and stands for 64 KiB /
 * that. 200 leaks of 20 blocks a second: the sampled 7.2 s have 17 draws on average. */
Test(leaks, sampled)
{
	const double seen = 1 - exp(-0.125);
	unsigned found = 0;
	uint64_t random = 1;

	for (int seed = 0; seed < 200; seed++) {
		struct memory_scene s;

		scene_set(&s, 10 * S, 320 * MS);
		for (uint64_t at = 0; at < 10 * S; at += 50 * MS) {
			random = random * 6364136223846793005ULL + 1442695040888963407ULL;
			if ((double)(random >> 11) * 0x1p-53 < seen)
				scene_block(&s, at, SCENE_NEVER, (uint64_t)(65536 / seen));
		}
		found += judge(&s).leak;
	}
	cr_expect_geq(found, 120, "%u of 200", found);
}

/* Steps of `from_ns` at first and `to_ns` at the end, each with a block that is kept, ten that are
 * not, and a point of the series. Returns how many. */
static unsigned uneven_steps(struct memory_scene *s, struct profile_memory_point *points,
			     uint64_t from_ns, uint64_t to_ns, uint64_t until_ns, bool keeps)
{
	unsigned steps = 0;

	for (uint64_t at = 0; at < until_ns; steps++) {
		uint64_t step = from_ns + (to_ns - from_ns) * at / until_ns;

		for (unsigned i = 0; i < 10; i++)
			scene_block(s, at, at + step, 1 << 20);
		if (keeps)
			scene_block(s, at, SCENE_NEVER, 4096);
		at += step;
		points[steps] = (struct profile_memory_point){
			.time_ns = SCENE_START + at, .allocs_count = s->memory.allocs.value};
	}
	s->memory.points = points;
	s->memory.points_count = steps;
	return steps;
}

/* Other programs make steps eight times as long, or the trainer stops in the middle: a step keeps
 * what it keeps. */
Test(leaks, steps_that_become_slower)
{
	static struct profile_memory_point points[2000];
	struct hotspot_trend trend;
	struct memory_scene s;
	unsigned steps;

	for (unsigned pause = 0; pause < 2; pause++) {
		scene_set(&s, 10 * S, 400 * MS);
		steps = uneven_steps(&s, points, 10 * MS, 80 * MS, pause ? 6 * S : 10 * S, true);
		trend = judge(&s);
		cr_expect(trend.leak);
		cr_expect_float_eq(trend.slope_bytes_per_s, steps * 409.6,
				   steps * 409.6 * 3.4 / (steps / 3.0), "%.0f of %u steps",
				   trend.slope_bytes_per_s, steps);
		scene_set(&s, 10 * S, 400 * MS);
		uneven_steps(&s, points, 10 * MS, 80 * MS, pause ? 6 * S : 10 * S, false);
		cr_expect(!judge(&s).leak);
	}
}

/* By time it grows steadily; by what is done it has levelled off: a cache that fills as slowly as
 * the program does little. */
Test(leaks, a_cache_that_fills_while_little_is_done)
{
	static struct profile_memory_point points[2000];
	struct memory_scene s;

	scene_set(&s, 10 * S, 400 * MS);
	uneven_steps(&s, points, 100 * MS, 1 * MS, 10 * S, false);
	for (uint64_t i = 0; i < 80; i++)
		scene_block(&s, i * 100 * MS, SCENE_NEVER, 4096);
	cr_expect(!judge(&s).leak);
}

/* The same by itself: its CPU time goes with the clock, and ever more of it into a step. What says
 * that it does not level off are its steps. */
Test(leaks, a_trainer_that_slows_itself_down)
{
	static struct profile_memory_point points[2000];
	static struct profile_step series[2000];
	struct memory_scene s;
	unsigned steps;

	scene_set(&s, 10 * S, 400 * MS);
	steps = uneven_steps(&s, points, 10 * MS, 80 * MS, 10 * S, true);
	s.hotspots[0].live_bytes = s.hotspots[0].live_count * 4096;
	for (uint64_t i = 0; i < 8; i++)
		s.usage[i].cpu_ns = i * 10 * S / 7;
	cr_expect(!judge(&s).leak);
	for (unsigned i = 0; i < steps; i++)
		series[i] = (struct profile_step){.count = 1, .to_ns = points[i].time_ns};
	s.process.steps.series = series;
	s.process.steps.series_count = s.process.steps.count = steps;
	cr_expect(judge(&s).leak);
}

/* Where stacks were left out, a place has another's blocks: first most of them, then few. */
Test(leaks, places_that_share_their_blocks)
{
	struct memory_analysis analysis = {0};
	struct memory_scene s;
	uint64_t live = 0;

	for (unsigned left_out = 0; left_out < 2; left_out++) {
		struct profile_hotspot *a = &s.hotspots[0], *b = &s.hotspots[1];

		scene_set(&s, 10 * S, 320 * MS);
		for (uint64_t at = 0; at < 10 * S; at += 10 * MS)
			scene_block(&s, at, SCENE_NEVER, 4096);
		live = 0;
		for (size_t w = 0; w < s.memory.alloc_windows_count; w++) {
			uint64_t part = a->kept_windows[w] / 8 * (w < 18 ? 1 : 7);

			live += part;
			b->kept_windows[w] = part;
			b->live_windows[w] = live;
			a->kept_windows[w] -= part;
			a->live_windows[w] -= live;
		}
		b->live_bytes = live;
		b->live_count = live / 4096;
		a->live_bytes -= b->live_bytes;
		a->live_count -= b->live_count;
		a->left_out_count = b->left_out_count = left_out;
		s.memory.hotspots_count = 2;
		cr_assert_eq(judge_memory(&analysis, &s.process, &s.memory), 0);
		cr_expect_eq(analysis.trends[0].leak, left_out == 1);
		cr_expect_eq(analysis.leaks_count, 2 * left_out);
		memory_analysis_clear(&analysis);
	}
}

/* Where frees are inferred, a few large blocks stay in the account for long, and so do many of a
 * few bytes, whose memory other allocations take: together they are no leak. */
Test(leaks, few_large_blocks_beside_many_small_ones)
{
	for (unsigned many = 0; many < 2; many++) {
		struct memory_analysis analysis = {0};
		struct memory_scene s, small;

		scene_set(&small, 10 * S, 320 * MS);
		scene_steps(&small, 20 * MS, 1, 1, 8);
		scene_set(&s, 10 * S, 320 * MS);
		scene_steps(&s, many ? 100 * MS : 700 * MS, 1, 1, 65536);
		s.hotspots[1] = small.hotspots[0];
		s.hotspots[0].left_out_count = s.hotspots[1].left_out_count = 1;
		s.memory.hotspots_count = 2;
		s.memory.frees_inferred = true;
		for (uint64_t k = 0; k < 8; k++)
			s.usage[k].rss_bytes = (1 << 30) + (k << 20);
		cr_assert_eq(judge_memory(&analysis, &s.process, &s.memory), 0);
		cr_expect_eq(analysis.trends[0].leak, many == 1);
		memory_analysis_clear(&analysis);
	}
}
