// SPDX-License-Identifier: BSD-2-Clause
/* The performance monitoring unit, as the kernel reports it. */
#include "base/text.h"
#include "counters/counters.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PMUS "/sys/bus/event_source/devices/"

static bool exists_any(const char *pattern)
{
	glob_t found;
	bool any = !glob(pattern, 0, NULL, &found) && found.gl_pathc;

	globfree(&found);
	return any;
}

static int read_paranoid(void)
{
	FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
	char line[32];
	int value = -1;

	if (!file)
		return value;
	if (fgets(line, sizeof(line), file))
		value = (int)strtol(line, NULL, 10);
	fclose(file);
	return value;
}

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
	FILE *file = fopen("/proc/cpuinfo", "re");
	char *line = NULL;
	size_t size = 0;

	*cpu = (struct counters_cpu){.paranoid = read_paranoid()};
	cpu->is_hybrid = !access(PMUS "cpu_atom", F_OK);
	cpu->has_pmu = !access(PMUS "cpu", F_OK) || cpu->is_hybrid || exists_any(PMUS "armv*");
	if (!file)
		return;
	/* the first processor's */
	while (getline(&line, &size, file) > 0 && *line != '\n')
		parse_line(cpu, line);
	free(line);
	fclose(file);
}
