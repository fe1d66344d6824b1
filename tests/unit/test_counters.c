// SPDX-License-Identifier: BSD-2-Clause
#include "counters/counters.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <unistd.h>

static const struct counters_cpu skylake = {.has_pmu = true, .vendor = COUNTERS_INTEL, .family = 6};
static const struct counters_cpu icelake = {
	.has_pmu = true, .vendor = COUNTERS_INTEL, .family = 6, .has_avx512 = true};
static const struct counters_cpu rome = {.has_pmu = true, .vendor = COUNTERS_AMD, .family = 0x17};
static const struct counters_cpu genoa = {
	.has_pmu = true, .vendor = COUNTERS_AMD, .family = 0x19, .has_avx512 = true};
static const struct counters_cpu graviton = {.has_pmu = true};
static const struct counters_cpu guest = {.is_virtual = true, .paranoid = 2};

static void expect_event(const struct counters *counters, size_t at, uint32_t counter,
			 uint64_t config, uint32_t weight)
{
	const struct counter_event *event = &counters->events[at];

	cr_expect_eq(event->counter, counter, "%zu", at);
	cr_expect_eq(event->config, config, "%zu: %lx", at, (unsigned long)event->config);
	cr_expect_eq(event->weight, weight, "%zu", at);
	cr_expect(event->user_only);
}

Test(counters, intel_by_width)
{
	struct counters c;

	counters_of_hardware(&icelake, &c);
	cr_assert_eq(c.count, 4);
	cr_assert_str_eq(c.list[2].name, "flops");
	cr_expect(c.list[2].is_flops && !c.list[0].is_flops);
	cr_assert_eq(c.events_count, 8);
	expect_event(&c, 0, 0, PERF_COUNT_HW_CPU_CYCLES, 1);
	expect_event(&c, 1, 1, PERF_COUNT_HW_INSTRUCTIONS, 1);
	expect_event(&c, 2, 2, 0x03c7, 1);
	expect_event(&c, 3, 2, 0x04c7, 2);
	expect_event(&c, 4, 2, 0x18c7, 4);
	expect_event(&c, 5, 2, 0x60c7, 8);
	expect_event(&c, 6, 2, 0x80c7, 16);
	expect_event(&c, 7, 3, PERF_COUNT_HW_CACHE_MISSES, 1);
	counters_of_hardware(&skylake, &c);
	cr_assert_eq(c.events_count, 7);
	expect_event(&c, 5, 2, 0x20c7, 8);
}

Test(counters, others)
{
	struct counters c;

	counters_of_hardware(&rome, &c);
	cr_assert_eq(c.events_count, 4);
	expect_event(&c, 2, 2, 0xff03, 1);
	counters_of_hardware(&genoa, &c);
	expect_event(&c, 2, 2, 0x1f03, 1);
	/* no event for operations: one that no kernel opens, so that it is told */
	counters_of_hardware(&graviton, &c);
	cr_assert_eq(c.events_count, 4);
	cr_expect_eq(c.events[2].type, UINT32_MAX);
}

Test(counters, named)
{
	struct counters c;
	const char *word;

	cr_assert_eq(counters_named(&genoa, "page-faults,flops,cycles", &c, &word), 0);
	cr_assert_eq(c.count, 3);
	cr_expect_str_eq(c.list[0].name, "page-faults");
	cr_expect_eq(c.events[0].type, PERF_TYPE_SOFTWARE);
	cr_expect_not(c.events[0].user_only);
	expect_event(&c, 1, 1, 0x1f03, 1);
	/* twice is once */
	cr_assert_eq(counters_named(&genoa, "cycles,cycles", &c, &word), 0);
	cr_expect_eq(c.count, 1);
}

Test(counters, names_that_are_none)
{
	static const struct {
		const char *text, *word;
	} rows[] = {
		{"", ""},
		{"cycles,", ""},
		{"cycle", "cycle"},
		{"cyclesx,cycles", "cyclesx,cycles"},
		{"cycles,instructions,flops,llc-misses,task-clock", "task-clock"},
	};
	struct counters c;
	const char *word;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cr_expect_eq(counters_named(&genoa, rows[i].text, &c, &word), -EINVAL, "%s",
			     rows[i].text);
		cr_expect_str_eq(word, rows[i].word);
	}
	cr_expect_eq(counters_named(&genoa, "cycles,instructions,flops,llc-misses,cycles", &c,
				    &word),
		     0);
}

/* perf_event_paranoid may forbid what includes the kernel to all but root. */
static void need_privilege(void)
{
	const struct counter_event clock = {.type = PERF_TYPE_SOFTWARE,
					    .config = PERF_COUNT_SW_TASK_CLOCK};
	int fd = counter_event_open(&clock, 0);

	if (fd < 0)
		cr_skip_test("perf events are not for this user: %s", strerror(-fd));
	close(fd);
}

/* The kernel's own are everywhere; what is not leaves a word, beside those that count. */
Test(counters, tried)
{
	struct counters c;
	const char *word;
	char why[256];

	need_privilege();
	counters_named(&guest, "task-clock,page-faults", &c, &word);
	counters_try(&guest, &c, why, sizeof(why));
	cr_expect_eq(c.count, 2);
	cr_expect_str_eq(why, "");

	counters_named(&guest, "flops,page-faults", &c, &word);
	counters_try(&guest, &c, why, sizeof(why));
	cr_assert_eq(c.count, 1);
	cr_expect_str_eq(c.list[0].name, "page-faults");
	cr_expect_eq(c.events[0].counter, 0);
	cr_expect_str_eq(why, "flops: a virtual machine without performance counters");

	counters_named(&graviton, "flops", &c, &word);
	counters_try(&graviton, &c, why, sizeof(why));
	cr_expect_eq(c.count, 0);
	cr_expect_str_eq(why, "the processor has no such counter");
}

Test(counters, cores_of_two_kinds)
{
	struct counters_cpu hybrid = icelake;
	struct counters c;
	const char *word;
	char why[256];

	need_privilege();
	hybrid.is_hybrid = true;
	counters_named(&hybrid, "cycles,page-faults,flops", &c, &word);
	counters_try(&hybrid, &c, why, sizeof(why));
	cr_assert_eq(c.count, 1);
	cr_expect_str_eq(why,
			 "cycles, flops: hybrid processor: the counters of its core types differ");
}

Test(counters, refusals)
{
	struct counters_cpu cpu = {.has_pmu = true, .paranoid = 3};
	char why[128];

	cr_expect_str_eq(counters_refusal(&cpu, -EACCES, why, sizeof(why)),
			 "perf_event_paranoid is 3: needs root or CAP_PERFMON");
	cr_expect_str_eq(counters_refusal(&cpu, -EBUSY, why, sizeof(why)),
			 "too few hardware counters are free");
	cpu.has_pmu = false;
	cr_expect_str_eq(counters_refusal(&cpu, -ENOENT, why, sizeof(why)),
			 "the kernel does not support the performance counters of this processor");
}

Test(counters, an_event_counts)
{
	struct counters c;
	const char *word;
	uint64_t value[3];
	int fd;

	need_privilege();
	counters_named(&guest, "task-clock", &c, &word);
	fd = counter_event_open(&c.events[0], 0);
	cr_assert_geq(fd, 0);
	cr_assert_eq(read(fd, value, sizeof(value)), sizeof(value));
	cr_expect_gt(value[0], 0);
	close(fd);
}
