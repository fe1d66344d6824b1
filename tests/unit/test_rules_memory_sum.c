// SPDX-License-Identifier: BSD-2-Clause
/* Findings about what resident memory consists of: each fires, and not on a near miss. */
#include "training_fixture.h"

#include "analyze/memory_sum.h"

#define GIB (1ULL << 30)
#define MIB (1ULL << 20)

/* Readings of two seconds each: bytes of a part over time, of which n processes do the same. */
struct sums_scene {
	enum perfx_memory_part part;
	uint64_t first, middle, last; /* bytes of it */
	uint64_t others;	      /* bytes of HEAP_USED beside it */
	unsigned processes;
	bool has_jemalloc; /* in place of glibc */
};

static void put_sum(struct stream *s, const struct sums_scene *scene, uint32_t process,
		    uint64_t at_ns, uint64_t bytes)
{
	struct perfx_memory_sum sum = {
		.time_ns = STREAM_START + at_ns,
		.process = process,
		.flags = PERFX_MEMORY_SUM_GLIBC | PERFX_MEMORY_SUM_PROPORTIONAL,
		.heap_held_bytes = GIB,
		.heap_arenas_count = 37,
		.huge_bytes = 2 * bytes,
	};

	if (scene->has_jemalloc) {
		sum.flags = PERFX_MEMORY_SUM_JEMALLOC;
		sum.heap_held_bytes = sum.heap_free_bytes = UINT64_MAX;
		sum.heap_arenas_count = 0;
		sum.other_heaps_held_bytes = GIB;
		sum.other_heaps_free_bytes = bytes;
	}
	sum.resident[scene->part] = sum.proportional[scene->part] = bytes;
	sum.resident[PERFX_MEMORY_HEAP_USED] += scene->others;
	sum.proportional[PERFX_MEMORY_HEAP_USED] += scene->others;
	stream_put(s, PACK(&s->buffer, PERFX_KIND_MEMORY_SUM, sum));
}

static struct report replay_sums(const struct sums_scene *scene)
{
	struct stream s = {0};
	struct report report;

	stream_host(&s);
	for (uint32_t i = 1; i <= scene->processes; i++) {
		stream_add(&s, PERFX_KIND_PROCESS, struct perfx_process,
			   STRINGS("python3", "python3"), .time_ns = STREAM_START, .process = i,
			   .pid = MAIN + i, .ppid = 7);
		stream_usage(&s, i, 0, 0, 0, GIB);
		put_sum(&s, scene, i, 0, scene->first);
		put_sum(&s, scene, i, 5 * S, scene->middle);
		put_sum(&s, scene, i, 10 * S, scene->last);
		stream_usage(&s, i, 10 * S, 9 * S, 0, GIB);
	}
	stream_end(&s, 10 * S, 0);
	report.aggregate = replay(&s);
	report.profile = aggregate__finish(report.aggregate);
	report.analysis = analyze(report.profile, NULL);
	return report;
}

static void expect_sums(const char *kind, struct sums_scene scene, enum finding_severity severity,
			const char *evidence)
{
	struct report report = replay_sums(&scene);

	expect_finding(&report, kind, severity, evidence);
}

Test(rules_memory_sum, copies_that_grow)
{
	struct sums_scene scene = {
		PERFX_MEMORY_COPIED, 64 * MIB, 84 * MIB, 104 * MIB, MIB, 4, false};

	expect_sums("CopyOnWrite", scene, FINDING_HIGH,
		    "its own copies of 104 MiB of its parent's memory; 0 B is shared still; "
		    "copies grow by 4.00 MiB/s; 4 processes of this parent have copied 416 MiB");
	scene.processes = 1;
	scene.first = 100 * MIB;
	scene.middle = 102 * MIB;
	expect_sums("CopyOnWrite", scene, FINDING_MEDIUM, "copies grow by 410 KiB/s");
	/* warm-up */
	scene.first = 64 * MIB;
	scene.middle = 103 * MIB;
	expect_sums("CopyOnWrite", scene, 0, NULL);
	/* but much of all workers */
	scene.processes = 12;
	expect_sums("CopyOnWrite", scene, FINDING_LOW,
		    "12 processes of this parent have copied 1.22 GiB in all");
	/* little */
	scene = (struct sums_scene){PERFX_MEMORY_COPIED, MIB, 32 * MIB, 63 * MIB, MIB, 4, false};
	expect_sums("CopyOnWrite", scene, 0, NULL);
}

Test(rules_memory_sum, zeros_in_huge_pages)
{
	struct sums_scene scene = {PERFX_MEMORY_HUGE_PADDING, 0, 0, 300 * MIB, 900 * MIB, 1, false};

	expect_sums("HugePagePadding", scene, FINDING_LOW,
		    "about 300 MiB of 600 MiB in huge pages holds only zeros (a sample of 4,096 "
		    "pages): 25.0 % of its resident memory");
	scene.others = 200 * MIB;
	expect_sums("HugePagePadding", scene, FINDING_MEDIUM, "60.0 %");
	scene.others = 1300 * MIB;
	expect_sums("HugePagePadding", scene, 0, NULL);
	scene.last = 200 * MIB;
	scene.others = 0;
	expect_sums("HugePagePadding", scene, 0, NULL);
}

/* The least of all readings: the next step uses what a step has freed. */
Test(rules_memory_sum, arenas_that_keep_memory)
{
	struct sums_scene scene = {
		PERFX_MEMORY_HEAP_FREE, 800 * MIB, 600 * MIB, 900 * MIB, 200 * MIB, 1, false};

	expect_sums("Fragmentation", scene, FINDING_MEDIUM,
		    "600 MiB of 800 MiB that malloc (glibc) holds in 37 arenas is free and kept: "
		    "75.0 %; at "
		    "each of 3 readings at least as much");
	scene.middle = 100 * MIB;
	expect_sums("Fragmentation", scene, 0, NULL);
}

/* Shared memory counts once, and the peak of the job is not the sum of the processes' peaks. */
Test(rules_memory_sum, all_processes)
{
	struct sums_scene scene = {
		PERFX_MEMORY_SHARED, 100 * MIB, 300 * MIB, 200 * MIB, MIB, 2, false};
	struct report report = replay_sums(&scene);
	struct perfx_memory_sum sum;

	cr_expect_eq(memory_sum_of_job(report.profile, MEMORY_BEGIN, &sum), 2);
	cr_expect_eq(memory_sum_proportional(&sum), 202 * MIB);
	cr_expect_eq(memory_sum_of_job(report.profile, MEMORY_PEAK, &sum), 2);
	cr_expect_eq(memory_sum_proportional(&sum), 602 * MIB);
	cr_expect_eq(sum.time_ns, STREAM_START + 5 * S);
	cr_expect_eq(memory_sum_of_job(report.profile, MEMORY_END, &sum), 2);
	cr_expect_eq(memory_sum_proportional(&sum), 402 * MIB);
	forget(&report);
}
