// SPDX-License-Identifier: BSD-2-Clause
/* Findings about memory near a limit, and held without use: each fires, and not on a near miss. */
#include "training_fixture.h"

#define GIB (1ULL << 30)
#define MIB (1ULL << 20)

static struct perfx_limits no_limits(void)
{
	struct perfx_limits limits;

	memset(&limits, 0xff, sizeof(limits));
	limits.time_ns = STREAM_START;
	limits.process = 1;
	return limits;
}

/* Ten seconds in which resident memory, the half of it anonymous, grows by so much. */
static void expect_limit(struct perfx_limits limits, uint64_t grows_bytes,
			 enum finding_severity severity, const char *evidence)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_put(&s, PACK(&s.buffer, PERFX_KIND_LIMITS, limits));
	for (uint64_t i = 0; i <= 10; i++)
		stream_usage(&s, 1, i * S, i * S, 0, (200 * MIB) + i * grows_bytes / 5);
	stream_end(&s, 10 * S, 0);
	report.aggregate = replay(&s);
	report.analysis = analyze(aggregate__finish(report.aggregate), NULL);
	expect_finding(&report, "MemoryLimit", severity, evidence);
}

Test(rules_limits, near_the_limit_of_a_cgroup)
{
	struct perfx_limits limits = no_limits();

	limits.memory_limit_bytes = 10 * GIB;
	limits.memory_used_bytes = 9 * GIB;
	expect_limit(limits, 0, FINDING_MEDIUM,
		     "9.00 GiB of 10.0 GiB (90.0 %) of the memory limit of its cgroup");
	limits.memory_used_bytes = 9 * GIB - MIB;
	expect_limit(limits, 0, 0, NULL);
	limits.memory_used_bytes = 97 * GIB / 10 + 1;
	expect_limit(limits, 0, FINDING_HIGH, "(97.0 %)");
	/* no limit, or not known */
	expect_limit(no_limits(), 0, 0, NULL);
}

/* Its anonymous memory grows by 20 MiB a second. */
Test(rules_limits, the_time_left)
{
	struct perfx_limits limits = no_limits();

	limits.memory_limit_bytes = 10 * GIB;
	limits.memory_used_bytes = 5 * GIB;
	expect_limit(limits, 200 * MIB, FINDING_HIGH, "it grows by 20.0 MiB/s: full in 4.27 min");
	limits.memory_limit_bytes = 40 * GIB;
	expect_limit(limits, 200 * MIB, FINDING_MEDIUM, "full in 29.9 min");
	limits.memory_limit_bytes = 400 * GIB;
	expect_limit(limits, 200 * MIB, 0, NULL);
}

/* What grows in the first seconds and then stays is a warm-up. */
Test(rules_limits, no_time_left_after_a_warm_up)
{
	struct perfx_limits limits = no_limits();
	struct stream s = {0};
	struct report report;

	limits.memory_limit_bytes = 10 * GIB;
	limits.memory_used_bytes = 5 * GIB;
	begin(&s);
	stream_put(&s, PACK(&s.buffer, PERFX_KIND_LIMITS, limits));
	for (uint64_t i = 0; i <= 10; i++)
		stream_usage(&s, 1, i * S, i * S, 0, (i < 4 ? i : 4) * GIB);
	stream_end(&s, 10 * S, 0);
	report.aggregate = replay(&s);
	report.analysis = analyze(aggregate__finish(report.aggregate), NULL);
	expect_finding(&report, "MemoryLimit", 0, NULL);
}

Test(rules_limits, address_space)
{
	struct perfx_limits limits = no_limits();

	limits.address_limit_bytes = 10 * GIB;
	limits.address_used_bytes = 98 * GIB / 10;
	expect_limit(limits, 0, FINDING_HIGH, "(98.0 %) of its address space");
}

/* The machine has 4 GiB. What others use of it is not this process's matter. */
Test(rules_limits, the_machine)
{
	struct perfx_limits limits = no_limits();

	limits.host_available_bytes = 300 * MIB;
	expect_limit(limits, 0, 0, NULL);
	limits.host_available_bytes = 4 * GIB - 700 * MIB;
	expect_limit(limits, 200 * MIB, FINDING_HIGH,
		     "700 MiB of 4.00 GiB (17.1 %) of the machine's memory, by all programs; it "
		     "grows by ");
}

/* Each has 8,000 KiB of shared memory. */
static void expect_of_points(const char *kind, const struct perfx_limits *points, size_t count,
			     enum finding_severity severity, const char *evidence)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	for (size_t i = 0; i < count; i++) {
		struct perfx_limits limits = points[i];

		limits.time_ns = STREAM_START + i * 2 * S;
		stream_put(&s, PACK(&s.buffer, PERFX_KIND_LIMITS, limits));
		if (limits.mappings_count != UINT64_MAX) {
			struct perfx_memory_sum sum = {.time_ns = limits.time_ns,
						       .process = 1,
						       .mappings_count = limits.mappings_count};

			stream_put(&s, PACK(&s.buffer, PERFX_KIND_MEMORY_SUM, sum));
		}
	}
	stream_plain(&s, PERFX_KIND_USAGE, struct perfx_usage, .time_ns = STREAM_START + S,
		     .process = 1, .rss_bytes = GIB, .rss_shmem_bytes = 8000 << 10);
	stream_end(&s, 10 * S, 0);
	report.aggregate = replay(&s);
	report.analysis = analyze(aggregate__finish(report.aggregate), NULL);
	expect_finding(&report, kind, severity, evidence);
}

Test(rules_limits, shared_memory_that_fills)
{
	struct perfx_limits points[6];

	for (unsigned i = 0; i < 6; i++) {
		points[i] = no_limits();
		points[i].shm_limit_bytes = 8 * GIB;
		points[i].shm_used_bytes = GIB + i * 128 * MIB;
	}
	expect_of_points("MemoryLimit", points, 6, FINDING_HIGH,
			 "1.62 GiB of 8.00 GiB (20.3 %) of /dev/shm, by all processes; it grows by "
			 "64.0 MiB/s: full in 1.70 min");
	points[5].shm_used_bytes = points[4].shm_used_bytes; /* it levels off */
	expect_of_points("MemoryLimit", points, 6, 0, NULL);
	points[5].shm_used_bytes = 75 * GIB / 10;
	expect_of_points("MemoryLimit", points + 5, 1, FINDING_MEDIUM,
			 "7.50 GiB of 8.00 GiB (93.8 %)");
}

Test(rules_limits, open_files_and_mappings)
{
	struct perfx_limits points[6];

	for (unsigned i = 0; i < 6; i++) {
		points[i] = no_limits();
		points[i].descriptors_limit = 1024;
		points[i].descriptors_count = 100 + 20 * i;
	}
	expect_of_points(
		"ResourceLimit", points, 6, FINDING_HIGH,
		"200 of 1,024 (19.5 %) open files (RLIMIT_NOFILE); they grow by 10/s: none "
		"is left in 82.4 s");
	points[2].descriptors_count = points[1].descriptors_count;
	expect_of_points("ResourceLimit", points, 6, 0, NULL);
	points[5].descriptors_count = 820;
	expect_of_points("ResourceLimit", points + 5, 1, FINDING_MEDIUM, "820 of 1,024 (80.1 %)");
	for (unsigned i = 0; i < 6; i++) {
		points[i].descriptors_count = 100;
		points[i].mappings_limit = 65530;
		points[i].mappings_count = 1000 + 1000 * i;
	}
	expect_of_points("ResourceLimit", points, 6, FINDING_HIGH,
			 "6,000 of 65,530 (9.2 %) mappings (vm.max_map_count); they grow by 500/s: "
			 "none is left in 1.98 min");
	points[5].mappings_count = points[4].mappings_count; /* they level off */
	expect_of_points("ResourceLimit", points, 6, 0, NULL);
	points[5].mappings_limit = 65530;
	points[5].mappings_count = 65000;
	expect_of_points("ResourceLimit", points + 5, 1, FINDING_HIGH,
			 "65,000 of 65,530 (99.2 %) mappings (vm.max_map_count)");
}

/* A program that began so long before the recording, with so much of the heap alive. */
static void expect_fragmentation(uint64_t before_ns, uint64_t live_bytes, uint64_t anon_bytes,
				 const char *evidence)
{
	struct stream_place place = {
		.process = 1, .tid = MAIN, .allocator = 1, .domain = PERFX_DOMAIN_HOST};
	struct stream s = {0};
	struct report report;

	stream_host(&s);
	stream_add(&s, PERFX_KIND_PROCESS, struct perfx_process, STRINGS("python3", "python3"),
		   .time_ns = STREAM_START, .start_boot_ns = STREAM_START - before_ns, .process = 1,
		   .pid = MAIN, .ppid = 1);
	stream_allocator(&s, 1, PERFX_DOMAIN_HOST, "libc", "/lib/libc.so.6");
	stream_memory_mode(&s, 0, PERFX_DOMAIN_HOST, PERFX_MEMORY_EXACT, 0);
	stream_allocation(&s, &place, 1 * S, 0x1000, live_bytes, 0);
	stream_usage(&s, 1, 0, 0, 0, 0);
	stream_usage(&s, 1, 10 * S, 1 * S, 0, 2 * anon_bytes);
	stream_end(&s, 10 * S, 0);
	report.aggregate = replay(&s);
	report.analysis = analyze(aggregate__finish(report.aggregate), NULL);
	expect_finding(&report, "Fragmentation", FINDING_LOW, evidence);
}

Test(rules_limits, a_heap_in_pieces)
{
	expect_fragmentation(0, GIB, 3 * GIB,
			     "3.00 GiB of anonymous resident memory for 1.00 GiB of live blocks of "
			     "the heap: 66.7 % is held and not used");
	expect_fragmentation(0, GIB, 2 * GIB - MIB, NULL);
	/* too little to matter */
	expect_fragmentation(0, MIB, 256 * MIB, NULL);
	/* what it had before is not known */
	expect_fragmentation(5 * S, GIB, 3 * GIB, NULL);
}
