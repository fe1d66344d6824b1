// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/statistics.h"
#include "base/grow.h"

#include "memory_fixture.h"
#include "rounds.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/* A duration of any magnitude. */
static uint64_t any_value(void)
{
	uint64_t value = (uint64_t)rand() << 31 | (uint64_t)rand();

	return value >> (rand() % 62);
}

static void check_quantiles(const struct sketch *sketch, const uint64_t *sorted, size_t count)
{
	static const double quantiles[] = {0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1};

	for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
		double q = quantiles[i];
		size_t rank = (size_t)ceil(q * (double)count - 1e-9);
		double truth = (double)sorted[rank ? rank - 1 : 0];
		double got = (double)sketch__quantile(sketch, q);

		cr_expect_leq(fabs(got - truth), truth * SKETCH_ERROR, "q %g: %g, true %g", q, got,
			      truth);
	}
}

Test(sketch, error_is_bounded)
{
	uint64_t values[5000];
	struct sketch *sketch = sketch__new();

	srand(4);
	for (size_t i = 0; i < 5000; i++) {
		values[i] = any_value();
		cr_assert_eq(sketch__add(sketch, values[i]), 0);
	}
	qsort(values, 5000, sizeof(values[0]), compare);
	cr_expect_eq(sketch__count(sketch), 5000);
	check_quantiles(sketch, values, 5000);
	sketch__free(sketch);
}

Test(sketch, each_value_is_within_the_error_of_itself)
{
	for (unsigned bit = 0; bit < 64; bit++) {
		for (int around = -1; around <= 1; around++) {
			uint64_t value = (1ULL << bit) + (uint64_t)around;
			struct sketch *sketch = sketch__new();
			double got;

			sketch__add(sketch, value);
			got = (double)sketch__quantile(sketch, 0.5);
			cr_expect_leq(fabs(got - (double)value), (double)value * SKETCH_ERROR,
				      "%llu: %g", (unsigned long long)value, got);
			sketch__free(sketch);
		}
	}
}

Test(sketch, ends)
{
	struct sketch *sketch = sketch__new();

	cr_expect_eq(sketch__quantile(sketch, 0.5), 0);
	/* the largest first: the range grows downwards */
	cr_assert_eq(sketch__add(sketch, UINT64_MAX), 0);
	cr_assert_eq(sketch__add(sketch, 0), 0);
	cr_assert_eq(sketch__add(sketch, 31), 0);
	cr_expect_eq(sketch__quantile(sketch, 0), 0);
	cr_expect_eq(sketch__quantile(sketch, 0.5), 31);
	cr_expect_gt(sketch__quantile(sketch, 1), UINT64_MAX / 64 * 63);
	sketch__free(sketch);
	sketch__free(NULL);
}

/*
 * Sampled mode against the truth: the sampler as it is in the kernel (a countdown of bytes for each
 * thread, redrawn from 1,024 quantiles), many seeds, places of many kinds. The printed interval
 * must hold the truth in 92 of 100 at least, of 95 that are promised; with 400 seeds (make
 * test-all) a true 95 % falls below that once in 200, and with 100 seeds below 89 once in 200.
 */

#define SEEDS	   (rounds_all() ? 400u : 100u)
#define HELD_LEAST (rounds_all() ? 92 : 89)

enum { THREADS = 4, QUANTILES = 1024, RATE = 512 << 10 };

/* A place that allocates: so many blocks of each size. */
struct mix {
	const char *name;
	uint64_t each;
	uint32_t sizes[12];
};

static const struct mix mixes[] = {
	{"small, many", 200000, {16}},
	{"small, 1 sample", 32768, {16}},
	{"pages, 3 samples", 400, {4096}},
	{"64K, 1 sample", 10, {65536}},
	{"256K, 1 sample", 2, {262144}},
	{"256K, 2 samples", 5, {262144}},
	{"the rate itself", 3, {524288}},
	{"1M", 3, {1 << 20}},
	{"2M, nearly all", 4, {2 << 20}},
	{"64M, all", 5, {64 << 20}},
	{"64K, 12 samples", 100, {65536}},
	{"one of 64K", 1, {65536}},
	{"100 to 100,000", 1000, {100, 1000, 10000, 100000}},
	{"512 to 1M",
	 40,
	 {512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576}},
	{"4K to 16K", 300, {4096, 8192, 16384}},
};

#define MIXES (sizeof(mixes) / sizeof(mixes[0]))

struct request {
	uint32_t mix, size;
};

/* How often an interval held, and what the estimates came to. The last is the whole domain's. */
struct result {
	uint64_t truth_count, truth_bytes;
	unsigned seen, count_held, bytes_held;
	double count_sum, bytes_sum;
};

static uint64_t state;

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t draw(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static size_t make_requests(struct request **requests, struct result *results)
{
	size_t count = 0, capacity = 0;

	*requests = NULL;
	for (uint32_t m = 0; m < MIXES; m++) {
		for (int s = 0; s < 12 && mixes[m].sizes[s]; s++) {
			uint64_t each = mixes[m].each;

			results[m].truth_count += each;
			results[m].truth_bytes += each * mixes[m].sizes[s];
			cr_assert_eq(grow_array(requests, &capacity, count + each,
						sizeof(**requests)),
				     0);
			for (uint64_t i = 0; i < each; i++)
				(*requests)[count++] = (struct request){m, mixes[m].sizes[s]};
		}
		results[MIXES].truth_count += results[m].truth_count;
		results[MIXES].truth_bytes += results[m].truth_bytes;
	}
	return count;
}

static void shuffle(struct request *requests, size_t count)
{
	for (size_t i = count - 1; i; i--) {
		size_t j = draw() % (i + 1);
		struct request other = requests[i];

		requests[i] = requests[j];
		requests[j] = other;
	}
}

static int64_t next_point(void)
{
	return (int64_t)(-log(((double)(draw() % QUANTILES) + 0.5) / QUANTILES) * RATE);
}

static void sample(const struct request *requests, size_t count, struct aggregate *aggregate)
{
	int64_t next[THREADS];

	for (int i = 0; i < THREADS; i++)
		next[i] = next_point();
	for (size_t i = 0; i < count; i++) {
		uint32_t thread = draw() % THREADS;
		struct event event = {
			.kind = PERFX_KIND_ALLOCATION,
			.allocation = {.time_ns = STREAM_START + i,
				       .address = 0x1000 + i * 128,
				       .size_bytes = requests[i].size,
				       .process = 1,
				       .tid = thread,
				       .stack = 1 + requests[i].mix,
				       .domain = HOST,
				       .flags = SAMPLED},
		};

		next[thread] -= requests[i].size;
		if (next[thread] > 0)
			continue;
		next[thread] = next_point();
		cr_assert_eq(aggregate__add(aggregate, &event), 0);
	}
}

static void judge(struct result *r, const struct profile_estimate *count,
		  const struct profile_estimate *bytes)
{
	r->seen++;
	r->count_held += count->low <= r->truth_count && r->truth_count <= count->high;
	r->bytes_held += bytes->low <= r->truth_bytes && r->truth_bytes <= bytes->high;
	r->count_sum += (double)count->value;
	r->bytes_sum += (double)bytes->value;
}

static void run_seed(uint64_t seed, struct request *requests, size_t count, struct result *results)
{
	struct story t = story_begin();
	const struct profile_memory *m;
	struct aggregate *aggregate;

	for (uint32_t i = 1; i <= MIXES; i++)
		stream_stack(&t.stream, 1, i, 0, i);
	stream_memory_mode(&t.stream, 0, HOST, PERFX_MEMORY_SAMPLED, RATE);
	aggregate = story_aggregate(&t);
	state = seed;
	shuffle(requests, count);
	sample(requests, count, aggregate);
	m = host_memory(aggregate);
	cr_assert(m->sampled);
	cr_assert_eq(m->sample_bytes, RATE);
	for (size_t i = 0; i < m->hotspots_count; i++)
		judge(&results[m->hotspots[i].frames[0]->address - 1], &m->hotspots[i].allocs,
		      &m->hotspots[i].allocated_bytes);
	judge(&results[MIXES], &m->allocs, &m->allocated_bytes);
	aggregate__free(aggregate);
}

static void expect_held(const char *name, const struct result *r)
{
	cr_expect_geq(r->count_held * 100, r->seen * HELD_LEAST, "%s: count in %u of %u", name,
		      r->count_held, r->seen);
	cr_expect_geq(r->bytes_held * 100, r->seen * HELD_LEAST, "%s: bytes in %u of %u", name,
		      r->bytes_held, r->seen);
}

Test(memory_sampling, the_truth_lies_in_the_interval)
{
	static struct result results[MIXES + 1];
	struct request *requests;
	size_t count = make_requests(&requests, results);

	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		run_seed(seed, requests, count, results);
	free(requests);
	for (size_t m = 0; m < MIXES; m++) {
		const struct result *r = &results[m];
		double bytes = r->bytes_sum / SEEDS / (double)r->truth_bytes - 1;

		cr_expect_geq(r->seen, SEEDS / 20, "%s", mixes[m].name);
		expect_held(mixes[m].name, r);
		/* A place with n samples of SEEDS × n in all: 4 standard errors of its mean. */
		cr_expect_lt(fabs(bytes), 4 * sqrt(RATE / ((double)r->truth_bytes * SEEDS)) + 0.002,
			     "%s: bias %.4f", mixes[m].name, bytes);
	}
	expect_held("all", &results[MIXES]);
	cr_expect_eq(results[MIXES].seen, SEEDS);
	cr_expect_lt(
		fabs(results[MIXES].bytes_sum / SEEDS / (double)results[MIXES].truth_bytes - 1),
		0.005);
	cr_expect_lt(
		fabs(results[MIXES].count_sum / SEEDS / (double)results[MIXES].truth_count - 1),
		0.03);
}

/* P(shape, x) where it has a closed form, and chi-square's printed quantiles (degrees of freedom
 * 2 × shape; NIST/SEMATECH e-Handbook 1.3.6.7.4). */
Test(memory_sampling, gamma)
{
	static const struct {
		double shape, chi_square, q;
	} rows[] = {
		{0.5, 5.024, 0.975}, {1, 7.378, 0.975},	   {5, 20.483, 0.975},
		{10, 34.170, 0.975}, {50, 129.561, 0.975}, {0.5, 0.001, 0.025},
		{1, 0.051, 0.025},   {5, 3.247, 0.025},	   {50, 74.222, 0.025},
	};

	for (double x = 0.01; x < 40; x *= 1.7) {
		cr_expect_float_eq(sampling_gamma(1, x), 1 - exp(-x), 1e-13);
		cr_expect_float_eq(sampling_gamma(0.5, x), erf(sqrt(x)), 1e-13);
		cr_expect_float_eq(sampling_gamma(3, x), 1 - exp(-x) * (1 + x + x * x / 2), 1e-13);
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_float_eq(2 * sampling_gamma_quantile(rows[i].shape, rows[i].q),
				   rows[i].chi_square, 0.0006, "row %zu", i);
}

/* With equal weights and small p the limits are Garwood's (Biometrika 28, 1936), but for the lower
 * one of few samples, which lies lower: a place without any is not shown. */
Test(memory_sampling, few_samples)
{
	static const struct {
		unsigned samples;
		double low, high;
	} rows[] = {{1, 0, 5.572}, {2, 0.0504, 7.225}, {10, 4.795, 18.390}, {20, 12.217, 30.888}};
	/* so small that 1 - p is 1 */
	const double weight = (double)RATE / 4;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct profile_estimate e;
		struct tally tally = {0};

		for (unsigned n = 0; n < rows[i].samples; n++)
			tally_sampled(&tally, 4, RATE);
		e = tally_count(&tally, &tally);
		cr_expect_float_eq((double)e.value / weight, rows[i].samples, 1e-4);
		cr_expect_float_eq((double)e.high / weight, rows[i].high, 2e-3, "%u: %f",
				   rows[i].samples, (double)e.high / weight);
		/* 2: where λ/(exp λ - 1) = 0.975 */
		cr_expect_float_eq((double)e.low / weight, rows[i].low, 1e-2 * rows[i].low + 1e-4,
				   "%u: %f", rows[i].samples, (double)e.low / weight);
		cr_expect_geq(e.low, rows[i].samples);
		cr_expect(rows[i].samples > 1 || e.low == 1, "the one that was seen");
	}
}

/* Exact and sampled records in one place: the exact ones are certain. */
Test(memory_sampling, exact_ones_beside_sampled_ones)
{
	struct profile_estimate both, sampled;
	struct tally tally = {0}, exact = {0};

	tally_sampled(&tally, 1000, RATE);
	sampled = tally_bytes(&tally);
	for (int i = 0; i < 100; i++) {
		tally_exact(&tally, 7000);
		tally_exact(&exact, 7000);
	}
	both = tally_bytes(&tally);
	cr_expect_eq(both.value, sampled.value + 700000);
	cr_expect_eq(both.low, sampled.low + 700000);
	cr_expect_eq(both.high, sampled.high + 700000);
	cr_expect_eq(tally_bytes(&exact).low, 700000);
	cr_expect_eq(tally_bytes(&exact).high, 700000);
	cr_expect_eq(tally_count(&exact, &tally).high, 100);
}

/* What lives is the weighted sum of the sampled blocks, and comes back to 0 exactly. */
Test(memory_sampling, live_and_freed)
{
	struct story t = story_begin();
	struct aggregate *aggregate = aggregate__new();
	const struct profile_memory *m;

	stream_memory_mode(&t.stream, 0, HOST, PERFX_MEMORY_SAMPLED, RATE);
	for (uint64_t i = 0; i < 1000; i++)
		allocated(&t, 0x1000 + 16 * i, 1 + i * i * i % 5000, SAMPLED);
	/* another rate: those that live keep theirs */
	stream_memory_mode(&t.stream, t.at, HOST, PERFX_MEMORY_SAMPLED, 1 << 16);
	allocated(&t, 0x900000, 1000, SAMPLED);
	cr_assert_eq(stream_replay(&t.stream, aggregate), 0);
	stream_clear(&t.stream);
	m = host_memory(aggregate);
	cr_expect_eq(m->current_bytes, m->allocated_bytes.value);
	cr_expect_eq(m->hotspots[0].live_count, m->allocs.value);
	cr_expect_eq(m->sample_bytes, 1 << 16);
	for (uint64_t i = 0; i < 1000; i++)
		freed(&t, 0x1000 + 16 * i, 0, 0);
	cr_assert_eq(stream_replay(&t.stream, aggregate), 0);
	stream_clear(&t.stream);
	m = host_memory(aggregate);
	/* 1000 / (1 - exp(-1000/65536)) = 66037.3 */
	cr_expect_eq(m->current_bytes, 66037);
	freed(&t, 0x900000, 0, 0);
	cr_assert_eq(stream_replay(&t.stream, aggregate), 0);
	m = host_memory(aggregate);
	cr_expect_eq(m->current_bytes, 0);
	cr_expect_eq(m->current_count, 0);
	cr_expect_eq(m->frees_count, m->allocs.value);
	cr_expect_eq(m->temporary_count, 0, "whether it was the next call is not known");
	stream_clear(&t.stream);
	aggregate__free(aggregate);
}

/* Sampled, and nothing was: up to 3.69 × R may have been missed (-ln 0.025). */
Test(memory_sampling, nothing_sampled)
{
	struct story t = story_begin();
	struct aggregate *aggregate;
	const struct profile_memory *m;

	stream_allocator(&t.stream, 1, HOST, "libc", "/lib/libc.so.6");
	stream_memory_mode(&t.stream, 0, HOST, PERFX_MEMORY_SAMPLED, RATE);
	stream_end(&t.stream, 1 * S, 0);
	aggregate = story_aggregate(&t);
	m = host_memory(aggregate);
	cr_expect(m->sampled);
	cr_expect_eq(m->allocated_bytes.value, 0);
	cr_expect_eq(m->allocated_bytes.low, 0);
	cr_expect_float_eq((double)m->allocated_bytes.high / RATE, 3.689, 0.001);
	aggregate__free(aggregate);
}
