// SPDX-License-Identifier: BSD-2-Clause
/*
 * Sources of the events. The generic ones: linux/perf_event.h. Intel: FP_ARITH_INST_RETIRED (SDM
 * volume 3, "Performance Monitoring Events": event C7), one unit mask for each width; a fused
 * multiply-add counts twice, so that count times elements are operations; masks of one weight are
 * added. What tile and dot-product instructions of 16-bit types do is not in it. AMD: PMCx003,
 * retired SSE and AVX operations (PPR), which counts operations already; the kernel pairs it with
 * the counter that it needs.
 */
#include "counters/counters.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <glob.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct generic {
	const char *name, *unit;
	uint32_t type;
	uint64_t config;
} generic[] = {
	{"cycles", "cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
	{"instructions", "instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
	{"llc-misses", "cache lines", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
	{"task-clock", "ns", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
	{"page-faults", "faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
	{"context-switches", "switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
	{"cpu-migrations", "migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
};

#define INTEL(mask) (0xc7 | (mask) << 8)

static const struct flops_event {
	enum counters_vendor vendor;
	unsigned family_min, family_max;
	bool avx512; /* only there */
	uint64_t config;
	uint32_t weight;
} flops_events[] = {
	{COUNTERS_INTEL, 6, 6, false, INTEL(0x03), 1}, /* scalar, of two types */
	{COUNTERS_INTEL, 6, 6, false, INTEL(0x04), 2}, /* 128 bits of f64 */
	{COUNTERS_INTEL, 6, 6, false, INTEL(0x18), 4}, /* 128 of f32, 256 of f64 */
	{COUNTERS_INTEL, 6, 6, false, INTEL(0x20), 8}, /* 256 of f32 */
	{COUNTERS_INTEL, 6, 6, true, INTEL(0x40), 8},  /* 512 of f64 */
	{COUNTERS_INTEL, 6, 6, true, INTEL(0x80), 16}, /* 512 of f32 */
	/* Zen and Zen 2, and Hygon's; from Zen 3 on, with dot products of bf16 */
	{COUNTERS_AMD, 0x17, 0x18, false, 0xff03, 1},
	{COUNTERS_AMD, 0x19, ~0u, false, 0x1f03, 1},
};

static struct counter_event *add_event(struct counters *counters, uint32_t type, uint64_t config)
{
	struct counter_event *event = &counters->events[counters->events_count++];

	*event = (struct counter_event){.counter = (uint32_t)counters->count - 1,
					.weight = 1,
					.type = type,
					.config = config,
					.user_only = type != PERF_TYPE_SOFTWARE};
	return event;
}

/* No PMU's type: where the processor has no event for them, it is found missing when it is tried.
 */
#define TYPE_NONE UINT32_MAX

static void add_flops(struct counters *counters, const struct counters_cpu *cpu)
{
	size_t before = counters->events_count;

	counters->list[counters->count++] = (struct counter){"flops", "operations", true};
	for (size_t i = 0; i < sizeof(flops_events) / sizeof(flops_events[0]); i++) {
		const struct flops_event *found = &flops_events[i];
		size_t at = before;

		if (found->vendor != cpu->vendor || cpu->family < found->family_min ||
		    cpu->family > found->family_max || (found->avx512 && !cpu->has_avx512))
			continue;
		/* one event for 256 bits of f32 and 512 bits of f64, which weigh the same */
		while (at < counters->events_count && counters->events[at].weight != found->weight)
			at++;
		if (at < counters->events_count)
			counters->events[at].config |= found->config;
		else
			add_event(counters, PERF_TYPE_RAW, found->config)->weight = found->weight;
	}
	if (counters->events_count == before)
		add_event(counters, TYPE_NONE, 0);
}

static void add_generic(struct counters *counters, const struct generic *row)
{
	counters->list[counters->count++] = (struct counter){row->name, row->unit, false};
	add_event(counters, row->type, row->config);
}

void counters_of_hardware(const struct counters_cpu *cpu, struct counters *counters)
{
	memset(counters, 0, sizeof(*counters));
	/* those that are left out last come first */
	add_generic(counters, &generic[0]);
	add_generic(counters, &generic[1]);
	add_flops(counters, cpu);
	add_generic(counters, &generic[2]);
}

const char *counters_names(void)
{
	return "cycles instructions flops llc-misses task-clock page-faults context-switches "
	       "cpu-migrations";
}

static bool is_word(const char *word, size_t length, const char *name)
{
	return strlen(name) == length && !strncmp(word, name, length);
}

static bool add_named(const struct counters_cpu *cpu, struct counters *counters, const char *word,
		      size_t length)
{
	for (size_t i = 0; i < counters->count; i++)
		if (is_word(word, length, counters->list[i].name))
			return true;
	if (counters->count == PERFX_PERF_COUNTERS)
		return false;
	if (is_word(word, length, "flops")) {
		add_flops(counters, cpu);
		return true;
	}
	for (size_t i = 0; i < sizeof(generic) / sizeof(generic[0]); i++) {
		if (!is_word(word, length, generic[i].name))
			continue;
		add_generic(counters, &generic[i]);
		return true;
	}
	return false;
}

int counters_named(const struct counters_cpu *cpu, const char *text, struct counters *counters,
		   const char **word)
{
	memset(counters, 0, sizeof(*counters));
	for (;;) {
		size_t length = strcspn(text, ",");

		*word = text;
		if (!add_named(cpu, counters, text, length))
			return -EINVAL;
		if (!text[length])
			return 0;
		text += length + 1;
	}
}

int counter_event_open(const struct counter_event *event, pid_t tid)
{
	struct perf_event_attr attr = {
		.type = event->type,
		.size = sizeof(attr),
		.config = event->config,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		.exclude_kernel = event->user_only,
		.exclude_hv = event->user_only,
	};
	long fd = syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

/* Drops a counter and adds its name to `names`. */
static void leave_out(struct counters *counters, uint32_t which, char *names, size_t size)
{
	size_t length = strlen(names), kept = 0;

	snprintf(names + length, size - length, "%s%s", length ? ", " : "",
		 counters->list[which].name);
	for (size_t i = 0; i < counters->events_count; i++) {
		struct counter_event event = counters->events[i];

		if (event.counter == which)
			continue;
		event.counter -= event.counter > which;
		counters->events[kept++] = event;
	}
	counters->events_count = kept;
	counters->count--;
	for (size_t i = which; i < counters->count; i++)
		counters->list[i] = counters->list[i + 1];
}

const char *counters_refusal(const struct counters_cpu *cpu, int err, char *buffer, size_t size)
{
	if (err == -EACCES || err == -EPERM)
		snprintf(buffer, size, "perf_event_paranoid is %d: needs root or CAP_PERFMON",
			 cpu->paranoid);
	else if (!cpu->has_pmu && cpu->is_virtual)
		snprintf(buffer, size, "a virtual machine without performance counters");
	else if (!cpu->has_pmu)
		snprintf(buffer, size,
			 "the kernel does not support the performance counters of this processor");
	else if (cpu->is_hybrid)
		snprintf(buffer, size, "hybrid processor: the counters of its core types differ");
	else if (err == -EBUSY)
		snprintf(buffer, size, "too few hardware counters are free");
	else if (err == -ENOENT || err == -EOPNOTSUPP)
		snprintf(buffer, size, "the processor has no such counter");
	else
		snprintf(buffer, size, "%s", strerror(-err));
	return buffer;
}

/* CPU time for which counters are tried: the clock's tick, which hands counters on, comes a few
 * times. */
#define TRY_NS 12000000u

/* 0: all of them count at a time. Otherwise one has been left out, and why. */
static int try_once(struct counters *counters, char *names, size_t size)
{
	uint64_t value[3], from_ns; /* count, ns enabled, ns running */
	bool has_hardware = false;
	int fds[PERFX_PERF_EVENTS], err = 0;
	uint32_t which = (uint32_t)counters->count - 1;
	size_t opened = 0;

	for (; opened < counters->events_count; opened++) {
		const struct counter_event *event = &counters->events[opened];

		fds[opened] = counter_event_open(event, 0);
		has_hardware |= event->type != PERF_TYPE_SOFTWARE;
		if (fds[opened] >= 0)
			continue;
		err = fds[opened];
		which = event->counter;
		break;
	}
	from_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	while (!err && has_hardware && clock_ns(CLOCK_THREAD_CPUTIME_ID) - from_ns < TRY_NS)
		;
	for (size_t i = 0; i < opened; i++) {
		if (!err && read(fds[i], value, sizeof(value)) == sizeof(value) &&
		    value[2] < value[1])
			err = -EBUSY;
		close(fds[i]);
	}
	if (err)
		leave_out(counters, which, names, size);
	return err;
}

void counters_try(const struct counters_cpu *cpu, struct counters *counters, char *why,
		  size_t why_size)
{
	char names[128] = "", reason[128];
	int err, last = counters->count ? 0 : -ENOENT;

	/* hybrid: a thread moves between kinds of cores, and half of its counts would be missing */
	for (size_t i = 0; cpu->is_hybrid && i < counters->events_count;) {
		if (counters->events[i].type == PERF_TYPE_SOFTWARE) {
			i++;
			continue;
		}
		leave_out(counters, counters->events[i].counter, names, sizeof(names));
		i = 0;
	}
	while (counters->count && (err = try_once(counters, names, sizeof(names))))
		last = err;
	*why = '\0';
	if (counters->count && !*names)
		return;
	counters_refusal(cpu, last, reason, sizeof(reason));
	if (counters->count)
		snprintf(why, why_size, "%s: %s", names, reason);
	else
		snprintf(why, why_size, "%s", reason);
}

/* The performance monitoring unit, as the kernel reports it. */
#define PMUS "/sys/bus/event_source/devices/"

static bool has_flag(const char *line, const char *flag)
{
	size_t length = strlen(flag);

	for (const char *at = line; (at = strstr(at, flag)); at += length)
		if (at > line && at[-1] == ' ' && (at[length] == ' ' || at[length] == '\n'))
			return true;
	return false;
}

static void parse_line(struct counters_cpu *cpu, const char *line)
{
	const char *value = strchr(line, ':');

	if (!value)
		return;
	if (begins_with(line, "vendor_id") && strstr(value, "GenuineIntel"))
		cpu->vendor = COUNTERS_INTEL;
	else if (begins_with(line, "vendor_id") &&
		 (strstr(value, "AuthenticAMD") || strstr(value, "HygonGenuine")))
		cpu->vendor = COUNTERS_AMD;
	else if (begins_with(line, "cpu family"))
		cpu->family = (unsigned)strtoul(value + 1, NULL, 10);
	else if (begins_with(line, "flags")) {
		cpu->is_virtual = has_flag(value, "hypervisor");
		cpu->has_avx512 = has_flag(value, "avx512f");
	}
}

void counters_cpu_read(struct counters_cpu *cpu)
{
	FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
	glob_t arm = {0};
	char *line = NULL;
	size_t size = 0;

	*cpu = (struct counters_cpu){.paranoid = -1};
	if (file && getline(&line, &size, file) > 0)
		cpu->paranoid = (int)strtol(line, NULL, 10);
	if (file)
		fclose(file);
	cpu->is_hybrid = !access(PMUS "cpu_atom", F_OK);
	cpu->has_pmu = !access(PMUS "cpu", F_OK) || cpu->is_hybrid ||
		       (!glob(PMUS "armv*", 0, NULL, &arm) && arm.gl_pathc);
	globfree(&arm);
	file = fopen("/proc/cpuinfo", "re");
	if (!file) {
		free(line);
		return;
	}
	/* the first processor's */
	while (getline(&line, &size, file) > 0 && *line != '\n')
		parse_line(cpu, line);
	free(line);
	fclose(file);
}
